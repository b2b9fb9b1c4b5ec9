#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# figure6.sh TILTYARD OUT: threads per core after 512 spinners are released from one core: simulated, under the same schedulers
# in Linux 6.18, and under the CFS of Linux 6.1 itself.
# Writes OUT/figure6.html and OUT/figure6/*.svg.
set -e
tiltyard=$1
out=$2
events=$out/figure6-events
# --limit is in seconds of real time, generous for a busy machine.
real="kernel --vm --icount -m opteron32 -w spinners-512 --rounds 1 --limit 7200"

report() {
    rm -rf "$out/figure6"
    "$tiltyard" measure "$@" --report "$out/figure6.html" --figures "$out/figure6"
}

rm -rf "$events"
mkdir -p "$events"
"$tiltyard" run -m opteron32 -w spinners-512 -s ule,cfs --events "$events/sim"
# Kernels take minutes: what there is already can be looked at.
report "$events/sim"
"$tiltyard" $real -s ule,cfs --events "$events/real"
report "$events/sim" "$events/real"
"$tiltyard" $real --kernel 6.1 -s default --events "$events/real-6.1"
report "$events/sim" "$events/real" "$events/real-6.1"
