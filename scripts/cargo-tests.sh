#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# All tests of the workspace, after a report of what can run in a kernel here, closed by one line that counts them.
set -u
. "$(dirname "$0")/lib.sh"
cargo=$(find_cargo) || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.status"' EXIT INT TERM

# The program of the tests, not one of its own: with other packages chosen, cargo builds other features.
"$cargo" test --quiet --locked --workspace --no-run || exit
"${CARGO_TARGET_DIR:-target}/debug/tiltyard" kernel --check || true

# POSIX sh has no pipefail: the status goes round the pipe in a file.
{
	"$cargo" test --locked --workspace --no-fail-fast 2>&1
	echo $? >"$log.status"
} | tee "$log"

awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
	END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$(cat "$log.status")"
