#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Re-evaluates all claims and writes experiments/results, docs/claims.md and the scoreboard of README.md:
#   sim.json          the verdicts, ten seeds
#   specificity.json  each claim with other schedulers in the place of its own
#   presets.json      the claims that are not reproduced, with each preset of their scheduler
#   mutations.json    each rule of experiments/mutations broken
#   sensitivity.json  each assumed value halved and doubled
#   kernel.json       verdicts in a real kernel: more than an hour in virtual machines, only with `scripts/claims.sh kernel`
#   kernel-6.1.json   those of claims about CFS with the CFS of Linux 6.1, likewise
# `scripts/claims.sh pages` writes the pages again from the results that are there.
set -e
cd "$(dirname "$0")/.."
tiltyard=${TILTYARD:-target/release/tiltyard}
results=experiments/results
# Claims whose runs in a kernel are all under CFS.
OWN_CFS="atc18.cfs.nice-weighting atc18.cfs.group-fairness atc18.cfs.group-nesting atc18.cfs.fair-share-equal
	atc18.cfs.sleepers-run-first atc18.cfs.no-starvation-within-period atc18.cfs.steal-up-to-32
	atc18.cfs.node-load-is-average atc18.fig6.cfs-380-in-0.2s atc18.fig6.cfs-never-perfect atc18.fig6.cfs-18-vs-15"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

# The ids whose verdicts differ in two results.
differing() {
	awk '/^    "id": /{ split($0, part, "\""); id = part[4] }
		/^    "verdict": /{ split($0, part, "\""); if (FNR == NR) first[id] = part[4]; else if (id in first && first[id] != part[4]) print id }
	' "$1" "$2"
}

# The ids that the first result has as not reproduced, and the second not at all.
missing() {
	awk '/^    "id": /{ split($0, part, "\""); id = part[4]; if (FNR != NR) tried[id] = 1 }
		/^    "verdict": "not-reproduced"/ && FNR == NR { missed[id] = 1 }
		END { for (id in missed) if (!(id in tried)) print id }
	' "$1" "$2" | LC_ALL=C sort
}

# The second result, with the claims of the first in place of its own, and behind them those that only the first has.
merged() {
	awk 'function whole(text) { sub(/,?\n$/, "", text); return text }
		/^  [{]/ { block = "" }
		{ block = block $0 "\n" }
		/^    "id": / { split($0, part, "\""); id = part[4] }
		function put(text) { printf "%s%s", n++ ? ",\n" : "[\n", text }
		/^  [}]/ && FNR == NR { better[id] = whole(block); order[++nr] = id }
		/^  [}]/ && FNR != NR { put(id in better ? better[id] : whole(block)); done[id] = 1 }
		END { for (k = 1; k <= nr; k++) if (!(order[k] in done)) put(better[order[k]]); print "\n]" }
	' "$1" "$2"
}

# Tries the claims of a list again with ten seeds.
again() {
	[ -n "$2" ] || return 0
	# shellcheck disable=SC2086 # one word for each claim
	"$tiltyard" reproduce "--$1" --seeds 10 --format json $2 >"$new/ten.json"
	merged "$new/ten.json" "$new/$1.json" >"$new/merged.json"
	mv "$new/merged.json" "$new/$1.json"
	rm "$new/ten.json"
}

mkdir -p $results
if [ "$1" != pages ]; then
	# A claim that cannot be judged is in the results, with the reason; a file that is wrong ends this.
	"$tiltyard" reproduce --seeds 10 --format json >"$new/sim.json" || [ -s "$new/sim.json" ]
	for what in specificity presets mutations sensitivity; do
		"$tiltyard" reproduce --$what --format json >"$new/$what.json"
	done
	# Where three seeds say otherwise about a claim's own scheduler than ten, it is tried again with ten.
	again specificity "$(differing "$new/sim.json" "$new/specificity.json")"
	again presets "$(missing "$new/sim.json" "$new/presets.json")"
	if [ "$1" = kernel ]; then
		"$tiltyard" reproduce --arena kernel --vm --jobs 2 --format json >"$new/kernel.json"
		"$tiltyard" reproduce --arena kernel --vm --kernel 6.1 --instead cfs=default --jobs 2 --format json \
			$OWN_CFS >"$new/kernel-6.1.json" || [ -s "$new/kernel-6.1.json" ]
	fi
	# The first check of a claim that is judged for the first time; those of others stay.
	{
		echo "{"
		awk '
			FNR == NR { if (split($0, part, "\"") > 2) { line = $0; sub(/,$/, "", line); print line; known[part[2]] = 1 }; next }
			/^    "check": / { check = $0; sub(/^    "check": /, "", check); sub(/,$/, "", check) }
			/^    "id": / { split($0, part, "\""); if (!(part[4] in known) && check != "\"\"") print "  \"" part[4] "\": " check }
		' $results/first-checks.json "$new/sim.json" | LC_ALL=C sort | sed '$!s/$/,/'
		echo "}"
	} >"$new/first-checks.json"
	cp "$new"/*.json $results/
fi
"$tiltyard" reproduce --page $results >"$new/claims.md"
"$tiltyard" reproduce --page $results --scoreboard >"$new/scoreboard"
awk -v table="$new/scoreboard" '
	/<!-- scoreboard: end -->/ { inside = 0 }
	!inside { print }
	/<!-- scoreboard: begin -->/ { inside = 1; while ((getline line < table) > 0) print line }
' README.md >"$new/README.md"
cp "$new/claims.md" docs/claims.md
cp "$new/README.md" README.md
