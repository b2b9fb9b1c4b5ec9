#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: clients, two a CPU, that are woken together by a pipe, compress an array and report back, as latt in "BFS vs. CFS" does
# needs: cc
# packages: gcc libc6-dev
# sizes: small full
# scores: latency_mean_us latency_max_us turnaround_mean_us turnaround_max_us
set -eu

# Rounds, and bytes that a client compresses in each.
case ${1:-small} in
small) rounds=20 bytes=65536 ;;
full) rounds=500 bytes=1048576 ;;
*) echo "$0: small or full, not $1" >&2 && exit 2 ;;
esac

folder=$(mktemp -d /dev/shm/tiltyard-latt.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cat >"$folder/latt.c" <<'C'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct report {
	double latency_us, turnaround_us;
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* A pass of a dictionary coder: where have these four bytes been before, and how long is the match? */
static long compress(const uint8_t *in, long bytes, uint8_t *out)
{
	static int32_t last[1 << 14];
	long at = 0, end = 0;

	memset(last, -1, sizeof(last));
	while (at + 4 <= bytes) {
		uint32_t word, length = 0;
		int32_t *entry, from;

		memcpy(&word, in + at, 4);
		entry = &last[word * 2654435761U >> 18];
		from = *entry;
		*entry = at;
		while (from >= 0 && at + length < bytes && length < 255 && in[from + length] == in[at + length])
			length++;
		if (length >= 4) {
			memcpy(out + end, &from, 3);
			out[end + 3] = length;
			end += 4;
			at += length;
		} else {
			out[end++] = in[at++];
		}
	}
	return end;
}

static void client(int go, int done, long bytes)
{
	uint8_t *in = malloc(bytes), *out = malloc(bytes + 8);
	uint64_t x = 88172645463325252ULL;
	struct report report;
	double sent_us;

	if (!in || !out)
		_exit(1);
	for (long i = 0; i < bytes; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		in[i] = x % 7 ? 'a' + x % 5 : x;
	}
	while (read(go, &sent_us, sizeof(sent_us)) == sizeof(sent_us)) {
		report.latency_us = now_us() - sent_us;
		if (!compress(in, bytes, out))
			_exit(1);
		report.turnaround_us = now_us() - sent_us;
		if (write(done, &report, sizeof(report)) != sizeof(report))
			_exit(1);
	}
	_exit(0);
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* latt CLIENTS ROUNDS BYTES */
int main(int argc, char **argv)
{
	int clients = atoi(argv[1]), rounds = atoi(argv[2]), done[2];
	int(*go)[2] = calloc(clients, sizeof(*go));
	struct report report, sum = { 0 }, most = { 0 };

	if (!go || pipe(done))
		return 1;
	for (int i = 0; i < clients; i++) {
		if (pipe(go[i]))
			return 1;
		if (fork() == 0) {
			/* Else no client would see the end of its own pipe. */
			for (int j = 0; j <= i; j++)
				close(go[j][1]);
			client(go[i][0], done[1], atol(argv[3]));
		}
	}
	srand(1);
	for (int round = 0; round < rounds; round++) {
		usleep(10000 + rand() % 40000);
		for (int i = 0; i < clients; i++) {
			double sent_us = now_us();

			if (write(go[i][1], &sent_us, sizeof(sent_us)) != sizeof(sent_us))
				return 1;
		}
		for (int i = 0; i < clients; i++) {
			if (read(done[0], &report, sizeof(report)) != sizeof(report))
				return 1;
			sum.latency_us += report.latency_us;
			sum.turnaround_us += report.turnaround_us;
			most.latency_us = larger(most.latency_us, report.latency_us);
			most.turnaround_us = larger(most.turnaround_us, report.turnaround_us);
		}
	}
	for (int i = 0; i < clients; i++)
		close(go[i][1]);
	while (wait(NULL) > 0)
		;
	printf("score: latency_mean_us %.1f\n", sum.latency_us / (rounds * clients));
	printf("score: latency_max_us %.1f\n", most.latency_us);
	printf("score: turnaround_mean_us %.1f\n", sum.turnaround_us / (rounds * clients));
	printf("score: turnaround_max_us %.1f\n", most.turnaround_us);
	return 0;
}
C
cc -O2 -o "$folder/latt" "$folder/latt.c"
"$folder/latt" $((2 * $(nproc))) "$rounds" "$bytes"
