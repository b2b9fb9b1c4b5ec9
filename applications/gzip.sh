#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: one gzip a CPU, each compressing the same data: computation with a reader and a writer around it
# needs: gzip
# packages: gzip
# sizes: small full
# scores: megabytes_per_s
set -eu

case ${1:-small} in
small) megabytes=4 ;;
full) megabytes=400 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

# The same on every machine, and not too easy to compress.
data() {
	awk -v n=$((megabytes * 16384)) 'BEGIN { for (i = 0; i < n; i++) printf "%07d %055d\n", (i * 7919) % 999983, i * i }'
}
begin_ms=$(date +%s%3N)
for _ in $(seq "$(nproc)"); do
	data | gzip -6 | wc -c &
done
wait
awk -v n="$(($(nproc) * megabytes))" -v ms=$(($(date +%s%3N) - begin_ms)) 'BEGIN { print "score: megabytes_per_s", n * 1000 / ms }'
