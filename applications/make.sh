#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: make -j with two jobs a CPU, compiling generated C files: short processes that compute, then a link
# needs: make cc
# packages: make gcc libc6-dev
# sizes: small full
# scores: build_ms
set -eu

case ${1:-small} in
small) files=12 functions=5 ;;
full) files=2000 functions=100 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

folder=$(mktemp -d /dev/shm/tiltyard-make.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cd "$folder"

awk -v files=$files -v functions=$functions 'BEGIN {
	for (f = 1; f <= files; f++) {
		name = "part" f ".c"
		for (i = 1; i <= functions; i++) {
			printf "int part%d_%d(int *a, int n)\n{\n\tint sum = %d;\n", f, i, i > name
			printf "\tfor (int k = 0; k < n; k++)\n\t\tsum += a[k] * %d + (sum >> %d);\n", f + i, i % 7 + 1 > name
			printf "\tswitch (sum & 7) {\n" > name
			for (c = 0; c < 8; c++) printf "\tcase %d: return sum ^ a[%d];\n", c, (c * i) % 16 > name
			printf "\t}\n\treturn sum;\n}\n" > name
		}
		close(name)
	}
	print "int main(void) { return 0; }" > "main.c"
	print "program: $(patsubst %.c,%.o,$(wildcard *.c))\n\t$(CC) -o $@ $^" > "Makefile"
	print "%.o: %.c\n\t$(CC) -O2 -c $<" > "Makefile"
}'

begin_ms=$(date +%s%3N)
make --silent -j $((2 * $(nproc))) CC=cc
echo "score: build_ms $(($(date +%s%3N) - begin_ms))"
