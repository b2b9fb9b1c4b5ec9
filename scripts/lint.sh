#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Formatting and clippy. Both change from Rust to Rust: they bind for the version named here;
# other versions may know lints and layouts that this tree has not met, so there they only tell.
set -u
. "$(dirname "$0")/lib.sh"
LINT_RUST=1.95

cargo=$(find_cargo) || exit 1
PATH="$(dirname "$cargo"):$PATH"
export PATH
for tool in fmt clippy; do
	if ! "$cargo" $tool --version >/dev/null 2>&1; then
		echo "lint: cargo $tool is not installed: skipped (scripts/setup.sh test installs it)" >&2
		exit 0
	fi
done

case $(cargo_version "$cargo") in
"$LINT_RUST".*)
	"$cargo" fmt --all --check && "$cargo" clippy --locked --workspace --all-targets -- -D warnings
	;;
*)
	echo "lint: this is Rust $(cargo_version "$cargo"), the lints are set for $LINT_RUST: findings are shown and do not fail" >&2
	"$cargo" fmt --all --check || echo "lint: rustfmt would lay out the above differently" >&2
	"$cargo" clippy --locked --workspace --all-targets
	;;
esac
