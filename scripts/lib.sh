# SPDX-License-Identifier: GPL-2.0-or-later
# Functions that the scripts share. Sourced, never run: POSIX sh.

# Where the scripts lie, wherever they were called from.
scripts=$(cd "$(dirname "$0")" && pwd)

# version_at_least HAVE WANT: compares dotted numbers; what follows + - or ~ does not count.
version_at_least() {
	have=${1%%[+~-]*} want=$2
	while [ -n "$want" ]; do
		h=${have%%.*} w=${want%%.*}
		case $h in '' | *[!0-9]*) h=0 ;; esac
		[ "$h" -gt "$w" ] && return 0
		[ "$h" -lt "$w" ] && return 1
		case $have in *.*) have=${have#*.} ;; *) have= ;; esac
		case $want in *.*) want=${want#*.} ;; *) want= ;; esac
	done
	return 0
}

# rust_wanted: the least Rust that builds the workspace, from Cargo.toml.
rust_wanted() {
	sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$scripts/../Cargo.toml"
}

# cargo_version CARGO: its version, or nothing where it does not run.
cargo_version() {
	"$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

# find_cargo: prints a cargo that is new enough: the one on PATH, else rustup's.
find_cargo() {
	for cargo in "$(command -v cargo)" "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" /usr/bin/cargo; do
		[ -x "$cargo" ] || continue
		if version_at_least "$(cargo_version "$cargo")" "$(rust_wanted)"; then
			echo "$cargo"
			return 0
		fi
	done
	return 1
}
