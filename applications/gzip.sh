#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: one gzip a CPU, each compressing the same data: computation with a reader and a writer around it
# needs: gzip
# packages: gzip
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
for _ in $(seq "$(nproc)"); do
	data | gzip -6 | wc -c &
done
wait
