#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Tests of the scripts.
. "$(dirname "$0")/lib.sh"
cd "$scripts" || exit 1
failed=0

# check STATUS WANTED WHAT: whether a command ended as it should.
check() {
	if [ "$1" -ne "$2" ]; then
		echo "scripts: FAILED: $3" >&2
		failed=1
	fi
}

at_least() {
	version_at_least "$2" "$3"
	check $? "$1" "version_at_least $2 $3 should give $1"
}

at_least 0 1.91 1.91
at_least 0 1.91.1 1.91
at_least 0 1.100.0 1.91
at_least 0 2.0 1.91
at_least 0 1.92.0+dfsg1-2 1.91
at_least 0 1.91 1.91.0
at_least 1 1.90.9 1.91
at_least 1 1.9 1.91
at_least 1 0.66.0+ds1-1 1.91
at_least 1 "" 1.91
at_least 1 nonsense 1.91

equal() {
	[ "$2" = "$3" ]
	check $? 0 "$1: \"$2\" should be \"$3\""
}

equal "rust_wanted reads Cargo.toml" "$(rust_wanted | tr -d 0-9)" .

# A cargo that is too old is not taken.
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
printf '#!/bin/sh\necho cargo 1.2.3\n' >"$fake/cargo"
chmod +x "$fake/cargo"
equal "cargo_version" "$(cargo_version "$fake/cargo")" 1.2.3

for script in *.sh; do
	sh -n "$script"
	check $? 0 "$script does not parse"
done
if command -v shellcheck >/dev/null; then
	# SC2086: lists of packages are meant to split, and numbers cannot. SC1091, SC2034: lib.sh is checked by itself.
	# SC2016: apt-get fills in those dollars.
	shellcheck -s sh -e SC2086,SC1091,SC2034,SC2016 ./*.sh ../applications/*.sh
	check $? 0 "shellcheck"
else
	echo "scripts: shellcheck is not installed: skipped" >&2
fi

[ $failed -eq 0 ] && echo "scripts: all tests passed"
exit $failed
