#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: Apache's ab asks an Apache server for a small page, a hundred requests at a time, over loopback
# needs: apache2 ab
# packages: apache2 apache2-utils
# sizes: small full
# scores: requests_per_s request_p99_ms
#
# As in section 5.3 of "The Battle of the Schedulers", where ULE's lack of wakeup preemption wins.
set -eu
PATH=$PATH:/usr/sbin # where servers lie, also for ordinary users

case ${1:-small} in
small) requests=2000 ;;
full) requests=1000000 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

root=$(mktemp -d /dev/shm/tiltyard-apache.XXXXXX)
cleanup() {
	kill "${server:-}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$root"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

for modules in /usr/lib/apache2/modules /usr/lib64/httpd/modules; do
	[ -f $modules/mod_mpm_event.so ] && break
done
mkdir "$root/www"
chmod 755 "$root" "$root/www"
echo 'A page of a few bytes.' >"$root/www/index.html"
cat >"$root/conf" <<CONF
ServerRoot $root
ServerName localhost
Listen 127.0.0.1:8642
PidFile $root/pid
ErrorLog $root/log
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
DocumentRoot $root/www
CONF
id www-data >/dev/null 2>&1 && echo 'User www-data' >>"$root/conf" && echo 'Group www-data' >>"$root/conf"
apache2 -f "$root/conf" -DFOREGROUND &
server=$!
tries=0
until ab -n 1 http://127.0.0.1:8642/index.html >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -gt 100 ] || ! kill -0 $server 2>/dev/null; then
		cat "$root/log" >&2
		exit 1
	fi
	sleep 0.2
done
ab -q -n $requests -c 100 http://127.0.0.1:8642/index.html | awk '
	/Failed|Time per request/
	/^Requests per second/ { print; print "score: requests_per_s", $4; found++ }
	/^ *99%/ { print "score: request_p99_ms", $2; found++ }
	END { exit found != 2 }
'
