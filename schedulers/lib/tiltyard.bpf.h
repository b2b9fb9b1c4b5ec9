/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads that may race, and probes. Probes are figures of a scheduler that people want to see over
 * time (ULE's penalty, vruntime).
 *
 * TILT_PROBE_TASK(name, p, value) and TILT_PROBE_CPU(name, cpu, value) cost a load of a
 * constant when nobody listens (in a kernel the verifier removes them altogether) and one
 * ring buffer record when somebody does. Both arenas read the map `tilt_probes`.
 */
#ifndef __TILTYARD_BPF_H
#define __TILTYARD_BPF_H

/*
 * A read of a number that may race with writes on other CPUs, and whose value need not be right, as
 * in the kernel: for figures that people look at. `tiltyard run --races` leaves it alone. It costs
 * nothing. What decides anything has READ_ONCE() instead, and WRITE_ONCE() on the other side.
 */
#define data_race(expr)                                                                            \
	({                                                                                         \
		__u64 __value = (expr);                                                            \
		asm volatile("# data_race" : "+r"(__value));                                       \
		(typeof(expr))__value;                                                             \
	})

#define TILT_PROBE_NAME_LEN 20

struct tilt_probe {
	char name[TILT_PROBE_NAME_LEN];
	/* What key is: 0 a task's pid, 1 a CPU's number. */
	__u32 per_cpu;
	__u64 key;
	__s64 value;
};

/* Set by whoever loads the scheduler. */
const volatile bool tilt_probes_on;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} tilt_probes SEC(".maps");

#define __TILT_PROBE(_name, _per_cpu, _key, _value)                                                \
	do {                                                                                       \
		if (tilt_probes_on) {                                                              \
			struct tilt_probe __rec = {                                                \
				.name = #_name,                                                    \
				.per_cpu = (_per_cpu),                                             \
				.key = (_key),                                                     \
				.value = (_value),                                                 \
			};                                                                         \
			bpf_ringbuf_output(&tilt_probes, &__rec, sizeof(__rec), 0);                \
		}                                                                                  \
	} while (0)

#define TILT_PROBE_TASK(name, p, value)	 __TILT_PROBE(name, 0, (p)->pid, value)
#define TILT_PROBE_CPU(name, cpu, value) __TILT_PROBE(name, 1, cpu, value)

#endif
