#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes README's picture: the curves of Figures 1 and 2 out of the demo's report, with headless
# Chromium. Usage: scripts/picture.sh REPORT.html PICTURE.png
set -eu
[ $# -eq 2 ] || { echo "usage: scripts/picture.sh REPORT.html PICTURE.png" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
style="<style>header p,header pre,nav,.lead,details,section:not(#runtime):not(#probes){display:none!important}</style>"
sed "s|</head>|$style</head>|" "$1" >"$folder/report.html"
# The sandbox of Chromium does not start for root; the page is our own.
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,910 \
	--virtual-time-budget=5000 --screenshot="$folder/picture.png" "file://$folder/report.html" 2>/dev/null
mv "$folder/picture.png" "$2"
