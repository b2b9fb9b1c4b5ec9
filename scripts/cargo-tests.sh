#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# All tests of the workspace, after a report of what can run in a kernel here, closed by one line that counts them.
set -u
. "$(dirname "$0")/lib.sh"
cargo=$(find_cargo) || exit 1
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT
trap 'exit 1' INT TERM

# The program of the tests, not one of its own: with other packages chosen, cargo builds other features.
"$cargo" test --quiet --locked --workspace --no-run || exit
"${CARGO_TARGET_DIR:-target}/debug/tiltyard" kernel --check || true

# tests PART ARGUMENT...: some of the tests. POSIX sh has no pipefail: the status goes round the pipe in a file.
tests() {
	part=$1
	shift
	"$cargo" test --locked --workspace --no-fail-fast "$@" 2>&1
	echo $? >"$logs/$part.status"
}

# cargo runs one test program after the other, and at the end of most of them a core is idle. So the longest, kernel, which boots
# virtual machines, runs beside the others (with kernel_threads and others of a k) and leaves them a core. Its output follows theirs.
RUST_TEST_THREADS=$((($(nproc) + 1) / 2)) tests k --test 'k*' >"$logs/k" &
tests others --lib --bins --test '[!k]*' | tee "$logs/others"
tests docs --doc | tee "$logs/docs"
wait
cat "$logs/k"

awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
	END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' \
	"$logs/k" "$logs/others" "$logs/docs"
for part in k others docs; do
	read -r status <"$logs/$part.status" || exit 1
	[ "$status" -eq 0 ] || exit "$status"
done
