#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: groups of processes that send each other messages through sockets: wakeups and switches, nothing else
# needs: hackbench
# packages: rt-tests
# sizes: small full
# scores: messages_s
set -eu

case ${1:-small} in
small) set -- -g 2 -l 200 ;;
full) set -- -g 20 -l 10000 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

hackbench "$@" | awk '
	{ print }
	/^Time:/ { print "score: messages_s", $2; found = 1 }
	END { exit !found }
'
