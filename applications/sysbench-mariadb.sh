#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: sysbench's OLTP read-write against a MariaDB server, both on loopback, beside a process that only computes
# needs: mariadbd mariadb mariadb-install-db sysbench
# packages: mariadb-server mariadb-client sysbench
# sizes: small full full128
# scores: transactions_per_s latency_mean_ms latency_p99_ms
#
# As in sections 5.1 (80 threads) and 6.3 (128) of "The Battle of the Schedulers": many clients of a database beside
# fibo. The database lies in memory (a tmpfs where there is one), so that the disk decides nothing.
set -eu
PATH=$PATH:/usr/sbin # where servers lie, also for ordinary users

case ${1:-small} in
small) threads=16 rows=2000 seconds=10 ;;
full) threads=80 rows=100000 seconds=120 ;;
full128) threads=128 rows=100000 seconds=120 ;;
*) echo "$0: small, full or full128, not $1" >&2 && exit 2 ;;
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
sysbench oltp_read_write $client prepare >>"$log" 2>&1 || fail "the table cannot be filled"

awk 'BEGIN { while (1) n++ }' &
fibo=$!
sysbench oltp_read_write $client --threads=$threads --time=$seconds --percentile=99 run |
	awk '
		/transactions:|avg:|percentile:|max:/ { print }
		/transactions:/ { print "score: transactions_per_s", substr($3, 2); found++ }
		/avg:/ { print "score: latency_mean_ms", $2; found++ }
		/percentile:/ { print "score: latency_p99_ms", $3; found++ }
		END { exit found != 3 }
	'
