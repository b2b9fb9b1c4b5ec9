#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: 7-Zip's own benchmark: pairs of threads that compress, handing blocks over, then threads that unpack
# needs: 7zz
# packages: 7zip
# sizes: small full
# scores: compress_mips unpack_mips
set -eu

case ${1:-small} in
small) set -- 1 -md18 -mtime=1 ;;
full) set -- 3 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

# "Avr:  speed usage R/U rating | speed usage R/U rating"
7zz b "$@" | awk '
	/^Avr:/ { print; print "score: compress_mips", $5, "higher"; print "score: unpack_mips", $NF, "higher"; found = 1 }
	END { exit !found }
'
