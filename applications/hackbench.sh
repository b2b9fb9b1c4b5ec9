#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: groups of processes that send each other messages through sockets: wakeups and switches, nothing else
# needs: hackbench
# packages: rt-tests
set -eu

case ${1:-small} in
small) exec hackbench -g 2 -l 200 ;;
full) exec hackbench -g 20 -l 10000 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac
