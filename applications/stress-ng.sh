#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: stress-ng's scheduler stressors: forks, futexes, affinity, nice values, yields, pipes
# needs: stress-ng
# packages: stress-ng
set -eu

case ${1:-small} in
small) seconds=5 ;;
full) seconds=60 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

exec stress-ng --fork 1 --futex 1 --affinity 1 --nice 1 --yield 1 --pipe 1 --timeout $seconds --metrics-brief
