#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: stress-ng's scheduler stressors: forks, futexes, affinity, nice values, yields, pipes
# needs: stress-ng
# packages: stress-ng
# sizes: small full
# scores: fork_per_s futex_per_s affinity_per_s nice_per_s yield_per_s pipe_per_s
set -eu

case ${1:-small} in
small) seconds=5 ;;
full) seconds=60 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

# It prints all on stderr: "stress-ng: metrc: [123] fork  bogo-ops  real  user  system  bogo-ops/s ..."
stress-ng --fork 1 --futex 1 --affinity 1 --nice 1 --yield 1 --pipe 1 --timeout $seconds --metrics-brief 2>&1 | awk '
	{ print }
	$4 ~ /^(fork|futex|affinity|nice|yield|pipe)$/ && $5 ~ /^[0-9]+$/ { print "score: " $4 "_per_s", $9; found++ }
	END { exit found != 6 }
'
