#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# about: independent processes, 1.5 per CPU, that increment an array of doubles and never sleep, as in the FreeBSD wiki's "4BSD vs ULE"
# needs: cc
# packages: gcc libc6-dev
# sizes: small full full4m full32m
# scores: elapsed_s cpu_s efficiency
set -eu

# The lengths of full are 1.6, 1.2 and 0.5 of those of an array of 1 KiB, 4 MiB and 32 MiB, as in the source.
case ${1:-small} in
small) kib=1 millions=100 ;;
full) kib=1 millions=16000 ;;
full4m) kib=4096 millions=12000 ;;
full32m) kib=32768 millions=5000 ;;
*) echo "$0: small, full, full4m or full32m, not $1" >&2 && exit 2 ;;
esac

folder=$(mktemp -d /dev/shm/tiltyard-loop.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
cat >"$folder/loop.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void work(long size, double increments)
{
	double *array = calloc(size, sizeof(*array));

	if (!array)
		_exit(1);
	for (double done = 0; done < increments; done += size)
		for (volatile double *at = array; at < array + size; at++)
			*at += 1;
	_exit(0);
}

/* loop KIB MILLIONS PROCESSES: an array's size, increments of each process */
int main(int argc, char **argv)
{
	long size = atol(argv[1]) * 1024 / (long)sizeof(double), cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int processes = atoi(argv[3]), status;
	double begin_s = now_s(), elapsed_s, cpu_s = 0;
	struct rusage use;

	for (int i = 0; i < processes; i++)
		if (fork() == 0)
			work(size, atof(argv[2]) * 1e6);
	for (int i = 0; i < processes; i++) {
		if (wait4(-1, &status, 0, &use) < 0 || status)
			return 1;
		cpu_s += use.ru_utime.tv_sec + use.ru_utime.tv_usec / 1e6;
		cpu_s += use.ru_stime.tv_sec + use.ru_stime.tv_usec / 1e6;
	}
	elapsed_s = now_s() - begin_s;
	printf("score: elapsed_s %.3f\n", elapsed_s);
	printf("score: cpu_s %.3f\n", cpu_s / processes);
	/* The source's: elapsed time x CPUs that can be busy / CPU time. 1 is perfect, more is idle time. */
	printf("score: efficiency %.4f lower\n", elapsed_s * (processes < cpus ? processes : cpus) / cpu_s);
	return 0;
}
C
cc -O2 -o "$folder/loop" "$folder/loop.c"
"$folder/loop" "$kib" "$millions" $((($(nproc) * 3 + 1) / 2))
