#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: sysbench's OLTP read-write against a MariaDB server, both on loopback, beside a process that only computes
# needs: mariadbd mariadb-install-db sysbench
# packages: mariadb-server sysbench
#
# As in section 5.1 of "The Battle of the Schedulers": many clients of a database beside fibo. The database lies in
# memory (a tmpfs where there is one), so that the disk decides nothing.
set -eu
PATH=$PATH:/usr/sbin # where servers lie, also for ordinary users

case ${1:-small} in
small) threads=16 rows=2000 seconds=10 ;;
full) threads=80 rows=100000 seconds=120 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

data=$(mktemp -d /dev/shm/tiltyard-mariadb.XXXXXX)
log=$data/log
cleanup() {
	kill "${server:-}" "${fibo:-}" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$data"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
	echo "sysbench-mariadb: $1" >&2
	tail -n 5 "$log" >&2
	exit 1
}

id mysql >/dev/null 2>&1 && chown mysql "$data" && user=--user=mysql || user=
mariadb-install-db --no-defaults $user --datadir="$data/db" --auth-root-authentication-method=normal \
	--skip-test-db --skip-name-resolve >"$log" 2>&1 || fail "the database cannot be made"
mariadbd --no-defaults $user --datadir="$data/db" --socket="$data/socket" --pid-file="$data/pid" --skip-networking \
	--innodb-flush-log-at-trx-commit=0 --max-connections=500 >>"$log" 2>&1 &
server=$!

client="--mysql-socket=$data/socket --mysql-user=root --mysql-db=bench --tables=1 --table-size=$rows"
tries=0
until mariadb --no-defaults --socket="$data/socket" -u root -e 'create database bench' 2>/dev/null; do
	kill -0 $server 2>/dev/null || fail "the server has ended"
	tries=$((tries + 1))
	[ $tries -lt 300 ] || fail "the server does not answer"
	sleep 0.2
done
# shellcheck disable=SC2086 # several words
sysbench oltp_read_write $client prepare >>"$log" 2>&1 || fail "the table cannot be filled"

awk 'BEGIN { while (1) n++ }' &
fibo=$!
# shellcheck disable=SC2086
sysbench oltp_read_write $client --threads=$threads --time=$seconds --percentile=99 run |
	grep -E 'transactions:|avg:|percentile:|max:'
