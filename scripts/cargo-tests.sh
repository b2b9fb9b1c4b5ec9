#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# All tests of the workspace, closed by one line that counts them.
set -u
. "$(dirname "$0")/lib.sh"
cargo=$(find_cargo) || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log" "$log.status"' EXIT INT TERM

# POSIX sh has no pipefail: the status goes round the pipe in a file.
{
	"$cargo" test --locked --workspace --no-fail-fast 2>&1
	echo $? >"$log.status"
} | tee "$log"

awk '/^test result:/ { passed += $4; failed += $6; skipped += $8 }
	END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$(cat "$log.status")"
