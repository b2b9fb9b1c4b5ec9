#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: RocksDB's db_bench: readers beside one writer, on a database in memory
# needs: db_bench
# packages: rocksdb-tools
# sizes: small full
# scores: operations_per_s read_p99_us
#
# The paper's "rocksdb, read-write" (figure 5 of "The Battle of the Schedulers").
set -eu

case ${1:-small} in
small) keys=5000 readers=4 seconds=5 ;;
full) keys=1000000 readers=$((2 * $(nproc))) seconds=60 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

folder=$(mktemp -d /dev/shm/tiltyard-rocksdb.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# Its progress goes to stderr, line upon line.
db_bench --db="$folder/db" --benchmarks=fillseq,readwhilewriting --num=$keys --threads="$readers" \
	--duration=$seconds --compression_type=none --histogram=1 >"$folder/out" 2>"$folder/log" ||
	{ tail -n 5 "$folder/log" >&2 && exit 1; }
awk '
	/^readwhilewriting / {
		print
		for (i = 2; i < NF; i++) if ($(i + 1) == "ops/sec") print "score: operations_per_s", $i
		readwhilewriting = 1
	}
	readwhilewriting && /^Percentiles: / { print; for (i = 2; i < NF; i++) if ($i == "P99:") print "score: read_p99_us", $(i + 1) }
' "$folder/out"
