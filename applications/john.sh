#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: John the Ripper's self-test: threads that hash passwords in short regions and meet at a barrier after each
# needs: john
# packages: john
# sizes: small full
# scores: descrypt_per_s md5crypt_per_s bcrypt_per_s
set -eu
PATH=$PATH:/usr/sbin # where Debian puts it

case ${1:-small} in
small) seconds=1 ;;
full) seconds=20 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

# It makes a folder of its own in the home folder.
HOME=$(mktemp -d /dev/shm/tiltyard-john.XXXXXX)
export HOME
trap 'rm -rf "$HOME"' EXIT
trap 'exit 130' INT TERM

# "Raw: 21504 c/s real, ..." or, for hashes with salts, first "Many salts: 5177K c/s real, ..."
for format in descrypt md5crypt bcrypt; do
	john --test=$seconds --format=$format | awk -v format=$format '
		/c\/s real/ && !found {
			print
			for (i = 2; i < NF; i++) if ($i == "c/s") speed = $(i - 1)
			if (sub(/K$/, "", speed)) speed *= 1000
			if (sub(/M$/, "", speed)) speed *= 1000000
			printf "score: %s_per_s %.0f\n", format, speed
			found = 1
		}
		END { exit !found }
	'
done
