#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Makes the pictures of README and docs from a report, with headless Chromium:
#   curves     the curves of Figures 1 and 2 (default)
#   timeline   the timeline with a row a task: who runs, who waits
#   maps       threads per CPU over time, two runs a row
# Usage: scripts/picture.sh REPORT.html PICTURE.png [curves|timeline|maps [ROWS]]
# docs/images/fibo-timeline.png: tiltyard run -w fibo-sysbench-1c -s ule,cfs --duration 31s --report r.html \
#   --timeline 30s..30.12s && scripts/picture.sh r.html docs/images/fibo-timeline.png timeline
# docs/images/figure6.png: make figure6 && scripts/picture.sh tiltyard-out/figure6.html docs/images/figure6.png maps 3
# docs/images/figure7.png: tiltyard run -w c-ray-512 -m opteron32 -s ule,cfs --duration 41s --report r.html && scripts/picture.sh r.html docs/images/figure7.png maps 1
set -eu
usage() { echo "usage: scripts/picture.sh REPORT.html PICTURE.png [curves|timeline|maps [ROWS]]" >&2; exit 2; }
[ $# -ge 2 ] || usage
hidden="header p,header pre,nav,footer,.lead,details,.note,.save"
script=''
layout=''
case ${3:-curves} in
curves)
	hidden="$hidden,section:not(#runtime):not(#probes)"
	size=1200,910
	;;
timeline)
	hidden="$hidden,section:not(#timeline),#timeline h2,.controls"
	size=1200,880
	script="<script>document.querySelector('[data-rows=tasks]').click()</script>"
	;;
maps)
	hidden="header,header p,nav,footer,.lead,.note,.save,details,.controls,section:not(#depth),#depth h2"
	layout=".maps{display:grid;grid-template-columns:1fr 1fr;gap:0 16px}.maps.pairs .map-row{grid-template-columns:1fr}.map-row>:nth-child(2){display:none}"
	size=1200,$((94 + 368 * ${4:-2}))
	;;
*) usage ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
style="<style>$hidden{display:none!important}main{padding-bottom:8px}$layout</style>"
sed "s|</head>|$style</head>|; s|</body>|$script</body>|" "$1" >"$folder/report.html"
# The sandbox of Chromium does not start for root; the page is our own.
chromium --headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars \
	--user-data-dir="$folder/profile" --window-size=$size --virtual-time-budget=5000 \
	--screenshot="$folder/picture.png" "file://$folder/report.html" 2>/dev/null
mv "$folder/picture.png" "$2"
