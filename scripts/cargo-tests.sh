#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# All tests of the workspace, after a report of what can run in a kernel here, closed by one line that counts them.
set -u
. "$(dirname "$0")/lib.sh"
cargo=$(find_cargo) || exit 1
logs=$(mktemp -d) || exit 1
kernel=
# Background jobs of a script ignore Ctrl-C, so the kernel's tests have a session of their own, which is ended as a whole.
trap '[ -z "$kernel" ] || kill -- "-$kernel" 2>/dev/null; rm -rf "$logs"' EXIT
trap 'exit 1' INT TERM

# The program of the tests, not one of its own: with other packages chosen, cargo builds other features.
"$cargo" test --quiet --locked --workspace --no-run || exit
"${CARGO_TARGET_DIR:-target}/debug/tiltyard" kernel --check || true

# As the program does itself (crates/tiltyard/src/memory.rs): freed memory stays with the process.
export MALLOC_TRIM_THRESHOLD_=2147483647 MALLOC_MMAP_THRESHOLD_=1048576

# cargo runs one test program after the other, and at the end of most of them a core is idle; an emulated guest keeps only one
# busy. So the longest of the programs that boot virtual machines, whose names begin with kernel, runs beside the others and
# leaves them a core. The others of that name come last, beside what is left of it.
RUST_TEST_THREADS=$((($(nproc) + 1) / 2)) setsid \
	"$cargo" test --locked --workspace --no-fail-fast --test kernel >"$logs/kernel" 2>&1 &
kernel=$!

# tests PART ARGUMENT...: other tests. POSIX sh has no pipefail: the status goes round the pipe in a file.
tests() {
	part=$1
	shift
	{
		"$cargo" test --locked --workspace --no-fail-fast "$@" 2>&1
		echo $? >"$logs/$part.status"
	} | tee "$logs/$part"
	read -r status <"$logs/$part.status"
	[ "$status" -eq 0 ] || failed=$status
}

failed=0
tests others --lib --bins --test '[!k]*'
tests docs --doc
tests guests --test 'kernel_*'
wait "$kernel" || failed=$?
kernel=
cat "$logs/kernel"

awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
	END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' \
	"$logs/kernel" "$logs/others" "$logs/docs" "$logs/guests"
# A test program that crashed has no result to count: cargo names it.
sed -n 's/^    \(`-p .*`\)$/tests: failed: cargo test \1/p' "$logs/kernel" "$logs/others" "$logs/docs" "$logs/guests" | tr -d '`'
exit "$failed"
