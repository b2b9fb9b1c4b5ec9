#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: schbench: workers that answer requests of message threads; how long they wait to run, how many they serve
# needs: schbench
# source: https://git.kernel.org/pub/scm/linux/kernel/git/mason/schbench.git
# sizes: small full
# scores: wakeup_p99_us request_p99_us requests_per_s
set -eu

case ${1:-small} in
small) set -- -m 1 -t 4 -r 5 -i 60 ;;
full) set -- -m 4 -t "$(nproc)" -r 60 -i 60 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

# All goes to stderr; the last block of each kind is of the whole run.
schbench "$@" 2>&1 | awk '
	/ percentiles / { kind = $1 }
	/99\.0th:/ { p99[kind] = $3 }
	/^average rps:/ { rps = $3 }
	END {
		if (rps == "") exit 1
		print "score: wakeup_p99_us", p99["Wakeup"]
		print "score: request_p99_us", p99["Request"]
		print "score: requests_per_s", rps
	}
'
