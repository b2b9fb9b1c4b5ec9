/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Wants everything that a user-space half can do, and leaves with a message that says what it got.
 * The test reads that message from the simulated machine and from a kernel.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define CPUS  16
#define POLLS 3

const volatile u32 nr_cpu_ids;
const volatile bool smt_enabled;
const volatile u64 cpu_llc_id[CPUS];
u32 fastest[CPUS];
u64 RESIZABLE_ARRAY(data, per_cpu);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CPUS);
	__type(key, u32);
	__type(value, u32);
} node_of SEC(".maps");

struct pair {
	s32 level;
	s32 cpu_id;
	s32 sibling_id;
};

struct place {
	u64 cpu_id;
};

static u32 siblings[CPUS];
static bool has_begun;
static u32 nr_early, nr_polls;
static s32 started_on = -1;

SEC("syscall")
int enable_sibling(struct pair *pair)
{
	u32 cpu = pair->cpu_id;

	if (cpu >= CPUS || pair->level != 7)
		return -EINVAL;
	siblings[cpu] |= 1 << pair->sibling_id;
	nr_early += !has_begun;
	return 0;
}

SEC("syscall")
int start(struct place *place)
{
	if (!has_begun || bpf_get_smp_processor_id() != place->cpu_id)
		return -EINVAL;
	started_on = place->cpu_id;
	return 0;
}

SEC("syscall")
int poll(void *nothing)
{
	u64 llcs = 0, cpus = 0, nodes = 0, pairs = 0, fast = 0;
	u32 i, *node;

	if (++nr_polls != POLLS)
		return 0;
	bpf_for (i, 0, CPUS) {
		llcs += (i + 1) * cpu_llc_id[i];
		fast += (i + 1) * fastest[i];
		pairs += (i + 1) * siblings[i];
		node = bpf_map_lookup_elem(&node_of, &i);
		nodes += (i + 1) * (node ? *node + 1 : 0);
	}
	bpf_for (i, 0, nr_cpu_ids) {
		u64 *own = ARRAY_ELEM_PTR(per_cpu, i, nr_cpu_ids);

		cpus += own ? (i + 1) * *own : 0;
	}
	scx_bpf_exit(0,
		     "cpus=%u smt=%d llcs=%llu fastest=%llu resized=%llu nodes=%llu siblings=%llu "
		     "early=%u started=%d",
		     nr_cpu_ids, smt_enabled, llcs, fast, cpus, nodes, pairs, nr_early, started_on);
	return 0;
}

/* Only with SCX_OPS_KEEP_BUILTIN_IDLE beside ops.update_idle may it ask the kernel for an idle CPU.
 */
s32 BPF_STRUCT_OPS(wants_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;

	return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
}

void BPF_STRUCT_OPS(wants_update_idle, s32 cpu, bool idle)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(wants_init)
{
	has_begun = true;
	return 0;
}

void BPF_STRUCT_OPS(wants_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(wants_ops, .select_cpu = (void *)wants_select_cpu,
	       .update_idle = (void *)wants_update_idle, .init = (void *)wants_init,
	       .exit = (void *)wants_exit, .name = "wants");
