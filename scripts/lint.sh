#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Formatting and clippy. Both change between Rust versions: findings are errors with the version named here
# and only printed with others.
set -u
. "$(dirname "$0")/lib.sh"
LINT_RUST=1.95

# C of the schedulers and tests: one pinned clang-format, because layouts change with it too.
if command -v clang-format-19 >/dev/null 2>&1; then
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format-19 --dry-run -Werror || exit 1
else
	echo "lint: clang-format-19 is not installed: C sources are not checked" >&2
fi

# Python of the experiments and tests.
RUFF=ruff==0.17.5
venv=target/lint-venv
if [ -x $venv/bin/ruff ] || { python3 -m venv $venv && $venv/bin/pip install --quiet "$RUFF"; } >/dev/null 2>&1; then
	git ls-files -z '*.py' | xargs -0 $venv/bin/ruff check --quiet || exit 1
else
	echo "lint: $RUFF cannot be installed: Python sources are not checked" >&2
fi

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
