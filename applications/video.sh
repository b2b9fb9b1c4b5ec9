#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: MPlayer plays a film in real time beside one process a CPU that only computes, and drops the frames it is late for
# needs: ffmpeg mplayer
# packages: ffmpeg mplayer
# sizes: small full
# scores: frames_dropped
set -eu

case ${1:-small} in
small) size=640x360 seconds=6 ;;
full) size=1280x720 seconds=60 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

folder=$(mktemp -d /dev/shm/tiltyard-video.XXXXXX)
hogs=
cleanup() {
	kill $hogs 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# MPlayer drops frames of films with sound only: the sound is its clock.
ffmpeg -loglevel error -f lavfi -i testsrc2=size=$size:rate=25:duration=$seconds -f lavfi -i sine=duration=$seconds \
	-c:v mpeg4 -q:v 5 -c:a pcm_s16le -ar 8000 "$folder/film.avi"

for _ in $(seq "$(nproc)"); do
	awk 'BEGIN { while (1) n++ }' &
	hogs="$hogs $!"
done
# Its status line ends with: shown/decoded frames, decoder %, display %, sound %, dropped, quality.
HOME=$folder mplayer -noconfig all -vo null -ao null -framedrop "$folder/film.avi" </dev/null 2>"$folder/log" |
	tr '\r' '\n' | awk '
	/^A:.*[0-9]+\/ *[0-9]+/ { line = $0 }
	END {
		if (!match(line, /%[^%]*$/)) exit 1
		split(substr(line, RSTART + 1), last, " ")
		print line
		print "score: frames_dropped", last[1], "lower"
	}'
