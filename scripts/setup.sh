#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what building and running needs, through the distribution's packages, and nothing
# where all is there. With the argument "test" also what the tests need.
#
# Debian 12 and newer, Ubuntu 24.04 and newer. Root is used for installing packages only.
set -u
. "$(dirname "$0")/lib.sh"

# The one clang whose output the rewriter reads (crates/build/src/clang.rs).
CLANG=clang-19

# gcc links, libelf and zlib are libbpf's, pkg-config finds them.
BUILD_PACKAGES="gcc libc6-dev make git pkg-config libelf-dev zlib1g-dev ca-certificates $CLANG"

# What tests run, and which tests say so plainly where it is missing:
# hwloc: our reading of topologies beside lstopo's; qemu, rt-tests, stress-ng: a real kernel;
# linux-source: the kernel's own example schedulers; rt-app: its example files; chromium: reports; python3: traces, vectors.
TEST_PACKAGES="hwloc qemu-system-x86 rt-tests linux-source-6.12 xz-utils chromium rt-app stress-ng python3 python3-venv clang-format-19 shellcheck"

# What docs/how-to/tables-with-duckdb-and-polars.md is tried with, from PyPI, in a folder of its own.
TABLES_PYTHON="duckdb==2.0.0 polars==2.1.0"
TABLES_VENV="$scripts/../target/tables-venv"

say() {
	echo "setup: $*" >&2
}

die() {
	say "$*"
	exit 1
}

is_installed() {
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q ' installed$'
}

# candidate PACKAGE: the version that apt would install; fails where there is none.
candidate() {
	version=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')
	[ -n "$version" ] && [ "$version" != "(none)" ] && echo "$version"
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "needs root for: $*; become root or install sudo"
	fi
}

refresh_lists() {
	[ -n "${lists_are_new:-}" ] && return
	as_root apt-get update -q || die "apt-get update failed; see above"
	lists_are_new=yes
}

# install PACKAGES: all of them or the end.
install() {
	[ $# -eq 0 ] && return
	say "installing $*"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" ||
		die "apt-get could not install: $*"
}

# missing PACKAGES: those that are not installed.
missing() {
	for package in "$@"; do
		is_installed "$package" || echo "$package"
	done
}

no_clang() {
	newer=$(apt-cache search --names-only '^clang-[0-9]+$' | sed 's/ .*//' | sort -V | tr '\n' ' ')
	die "this distribution has no package $CLANG (it has: ${newer:-no clang}). Tiltyard reads the" \
		"IR of one pinned major version, 19, and refuses others. Install $CLANG from another" \
		"suite of your distribution or from LLVM's own packages, then run this again"
}

# debian_archive: "URI KEYRING" of the Debian archive that apt uses here already.
debian_archive() {
	apt-get indextargets --format '$(REPO_URI) $(SIGNED_BY)' 'Created-By: Packages' 'Origin: Debian' |
		grep -v security | head -n 1
}

# Debian's later suites drop old compilers: then the one of Debian 13 is taken from the same
# archive. The machine's own lists of sources and packages stay as they are.
install_clang_of_debian_13() {
	archive=$(debian_archive)
	[ -n "$archive" ] || no_clang
	uri=${archive%% *} keyring=${archive#* }
	lists=$(mktemp -d) || die "no temporary folder"
	chmod 755 "$lists" # apt reads it as a user of its own
	mkdir -p "$lists/parts" "$lists/lists/partial"
	cp /etc/apt/sources.list.d/* "$lists/parts/" 2>/dev/null
	option=
	case $keyring in /*) option="[signed-by=${keyring%% *}] " ;; esac
	echo "deb ${option}$uri trixie main" >"$lists/parts/tiltyard-clang.list"
	say "installing $CLANG from Debian 13: this suite has it no more"
	set -- -q -y -o Dir::Etc::sourceparts="$lists/parts" -o Dir::State::Lists="$lists/lists"
	as_root apt-get "$@" update &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" --no-install-recommends install "$CLANG"
	status=$?
	as_root rm -rf "$lists"
	[ $status -eq 0 ] || no_clang
}

setup_build() {
	wanted=$(missing $BUILD_PACKAGES)
	# A clang-19 on PATH that is no package (LLVM's own, say) is as good.
	command -v "$CLANG" >/dev/null && wanted=$(echo "$wanted" | grep -v "^$CLANG\$")
	[ -z "$wanted" ] && return
	refresh_lists
	case $wanted in
	*"$CLANG"*)
		if ! candidate "$CLANG" >/dev/null; then
			wanted=$(echo "$wanted" | grep -v "^$CLANG\$")
			install_clang_of_debian_13
		fi
		;;
	esac
	install $wanted
}

# The distribution's Rust where it is new enough, else what its package of rustup downloads into the home folder, else advice.
# A rustup that is there already belongs to the user, who may have reasons for an old toolchain.
setup_rust() {
	find_cargo >/dev/null && return
	need=$(rust_wanted)
	refresh_lists
	offered=$(candidate cargo)
	if [ -n "$offered" ] && version_at_least_rust "$offered" "$need"; then
		install cargo rustc
		find_cargo >/dev/null && return
	fi
	say "Rust $need or newer is needed; this distribution has ${offered:-none}"
	if command -v rustup >/dev/null; then
		die "get it with: rustup update stable && rustup default stable; then run this again"
	fi
	if candidate rustup >/dev/null; then
		install rustup
		rustup default stable && find_cargo >/dev/null && return
		die "rustup could not install Rust $need or newer; see above"
	fi
	die "get it with: $(root_prefix)apt-get install -y curl &&" \
		"curl --proto '=https' -sSf https://sh.rustup.rs | sh -s -- -y; then run this again"
}

# Until 1.65 Debian numbered cargo 0.66 where rustc was 1.63: "0.x" is always too old.
version_at_least_rust() {
	case $1 in 0.*) return 1 ;; *) version_at_least "$1" "$2" ;; esac
}

root_prefix() {
	[ "$(id -u)" -eq 0 ] || printf 'sudo '
}

# rustfmt and clippy, from where cargo came.
setup_rust_tools() {
	cargo=$(find_cargo) || return
	PATH="$(dirname "$cargo"):$PATH"
	command -v rustfmt >/dev/null && "$cargo" clippy --version >/dev/null 2>&1 && return
	if [ "$cargo" = /usr/bin/cargo ] && ! command -v rustup >/dev/null; then
		refresh_lists
		install rustfmt rust-clippy
	else
		rustup component add rustfmt clippy || say "rustfmt or clippy is missing: make test will say so"
	fi
}

setup_test() {
	wanted=$(missing $TEST_PACKAGES)
	[ -z "$wanted" ] && return
	candidate gcc >/dev/null || refresh_lists # no lists yet: a new machine
	packaged=
	for package in $wanted; do
		if candidate "$package" >/dev/null; then
			packaged="$packaged $package"
		else
			say "no package $package in this distribution: the tests that need it say so and are skipped"
		fi
	done
	[ -z "$packaged" ] && return
	refresh_lists
	install $packaged
}

setup_tables() {
	[ "$(cat "$TABLES_VENV/versions" 2>/dev/null)" = "$TABLES_PYTHON" ] && return
	say "installing $TABLES_PYTHON into target/tables-venv"
	if python3 -m venv --clear "$TABLES_VENV" &&
		"$TABLES_VENV/bin/pip" install --quiet --disable-pip-version-check --retries 1 $TABLES_PYTHON; then
		echo "$TABLES_PYTHON" >"$TABLES_VENV/versions"
	else
		rm -rf "$TABLES_VENV"
		say "no $TABLES_PYTHON from PyPI: the test of the page about them says so and is not run"
	fi
}

main() {
	command -v apt-get >/dev/null || die "no apt-get: install gcc, make, git, pkg-config, libelf" \
		"and zlib headers, $CLANG and Rust $(rust_wanted) in your distribution's way, then use cargo"
	setup_build
	setup_rust
	case ${1:-} in
	test)
		setup_rust_tools
		setup_test
		setup_tables
		;;
	'') ;;
	*) die "unknown argument \"$1\": write nothing, or test" ;;
	esac
}

main "$@"
