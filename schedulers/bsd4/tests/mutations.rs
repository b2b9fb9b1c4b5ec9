// SPDX-License-Identifier: GPL-2.0-or-later
//! 4BSD's rules, each broken on purpose: recorded decisions must differ, or a test of what no record has must fail.
//! TILTYARD_ALL_MUTATIONS=1 breaks all of them, else one of forty is broken.

use super::{arithmetic, callers, decisions, queues, scripts};
use tiltyard_schedtest::mutations::{Mutation, fails, must_be_noticed};
use tiltyard_schedtest::named;

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    ["use weighs the same with more CPUs", "params.h", "par.estcpu_weight = 8 * nr_online;", "par.estcpu_weight = 8;", "estcpu_has_a_limit_that_grows_with_the_cpus"],
    ["use is worth 40 priorities", "params.h", "NICE_MAX - NICE_MIN - PRI_PER_FIFO", "NICE_MAX - NICE_MIN", "recorded_clock"],
    ["the limit of use ends with a priority", "params.h", " + par.estcpu_weight - 1;", ";", "recorded_clock"],
    ["turns are a fifth of a second", "params.h", "par.slice = par.stathz / 10;", "par.slice = par.stathz / 5;", "a_turn_is_twelve_ticks"],
    ["quanta are rounded down", "params.h", "((u64)quantum_us + period_us / 2) / period_us", "(u64)quantum_us / period_us", "recorded_quantum"],
    ["a turn may have no tick", "params.h", "par.slice = par.slice ?: 1;", ";", "recorded_quantum"],
    ["the load is that of five minutes", "schedcpu.h", "#define LOAD_DECAY   1884", "#define LOAD_DECAY   2014", "the_load_average_approaches_the_number_of_tasks"],
    ["shares of a CPU decay as the load does", "schedcpu.h", "#define PCTCPU_DECAY 1948", "#define PCTCPU_DECAY 1884", "recorded_schedcpu"],
    ["use decays by half of the load", "task.h", "return 2 * READ_ONCE(load_avg);", "return READ_ONCE(load_avg);", "recorded_decay"],
    ["use decays faster", "task.h", "return loadfac * est / (loadfac + FSCALE);", "return loadfac * est / (loadfac + 2 * FSCALE);", "recorded_decay"],
    ["the product of load and use has 64 bits", "task.h", "return loadfac * est / (loadfac + FSCALE);", "return (u64)loadfac * est / (loadfac + FSCALE);", "recorded_decay"],
    ["nice counts twice", "task.h", "+ nice - NICE_MIN;", "+ 2 * (nice - NICE_MIN);", "priority_follows_use_and_nice"],
    ["nice does not count", "task.h", "+ nice - NICE_MIN;", "- NICE_MIN;", "recorded_nice"],
    ["the idle class has priorities by use", "task.h", "if (t->class != CLASS_FIXED)", "if (true)", "recorded_clock"],
    ["kernel priorities are lost each second", "task.h", "if (pri < PRI_MIN_TIMESHARE || pri", "if (pri", "recorded_schedcpu"],
    ["tasks stay in their FIFO", "task.h", "return pri / PRI_PER_FIFO != user_pri / PRI_PER_FIFO;", "return false;", "recorded_schedcpu"],
    ["tasks go to the tail with each new priority", "task.h", "return pri / PRI_PER_FIFO != user_pri / PRI_PER_FIFO;", "return pri != user_pri;", "recorded_schedcpu"],
    ["all that a sleeper missed is made up for", "task.h", "min_of(slept - 2, est)", "min_of(slept, est)", "recorded_wakeup"],
    ["long sleepers are not absolved", "task.h", "if (slept > 5 * loadfac) {", "if (false) {", "recorded_wakeup"],
    ["absolved after five seconds", "task.h", "if (slept > 5 * loadfac) {", "if (slept > 5) {", "recorded_wakeup"],
    ["a wakeup makes up for nothing", "task.h", "if (READ_ONCE(t->slptime) > 1)\n\t\t\tupdate_pri(t);", ";", "recorded_wakeup"],
    ["who has run and sleeps again has slept for long", "schedcpu.h", "READ_ONCE(t->runnable) || READ_ONCE(t->did_run)", "READ_ONCE(t->runnable)", "recorded_schedcpu"],
    ["schedcpu does not make up for a sleep", "schedcpu.h", "if (slept > 1)\n\t\t\tupdate_pri(t);", ";", "recorded_schedcpu"],
    ["use of sleepers decays each second", "schedcpu.h", "\tif (slept > 1)\n\t\treturn false;\n", "", "recorded_schedcpu"],
    ["use of sleepers does not decay in their first second", "schedcpu.h", "\tif (slept > 1)\n\t\treturn false;\n", "\tif (slept)\n\t\treturn false;\n", "recorded_schedcpu"],
    ["who runs has not run a second later", "schedcpu.h", "if (!READ_ONCE(t->running))", "if (true)", "recorded_schedcpu"],
    ["the priority follows each tick", "task.h", "if (!(t->est % par.estcpu_weight)) {", "if (true) {", "recorded_scripts"],
    ["use has no limit", "task.h", "estcpu_limit(t->est + 1)", "t->est + 1", "recorded_clock"],
    ["sleepers of the idle class are preferred", "task.h", "sleep_priority && t->class == CLASS_TIMESHARE", "sleep_priority", "recorded_sleep"],
    ["sleepers are not preferred", "task.h", "sleep_priority && t->class == CLASS_TIMESHARE", "false", "recorded_sleep"],
    ["who wakes up goes on with its turn", "task.h", "\tif (slice_counter)\n\t\tt->slice = par.slice;\n", "", "recorded_scripts"],
    ["who wakes up has still slept", "task.h", "\tWRITE_ONCE(t->slptime, 0);\n\tif (slice_counter)", "\tif (slice_counter)", "recorded_wakeup"],
    ["a child has used nothing", "task.h", "WRITE_ONCE(t->est, READ_ONCE(creator->est));", ";", "recorded_fork"],
    ["a child has a whole turn", "task.h", "\tt->slice = 1;\n", "", "recorded_fork"],
    ["a child has no kernel priority", "task.h", "WRITE_ONCE(t->pri, READ_ONCE(creator->pri));", "WRITE_ONCE(t->pri, READ_ONCE(creator->user_pri));", "recorded_fork"],
    ["a heir's use has no limit", "task.h", "estcpu_limit(heir->est + est)", "heir->est + est", "recorded_exit"],
    ["nothing is left to a heir", "bsd4.bpf.c", "bequeath(ht, READ_ONCE(t->est));", ";", "recorded_exit"],
    ["threads leave their use to the parent", "../lib/tiltyard/freebsd.h", "if (p->pid != p->tgid)", "if (false)", "recorded_exit"],
    ["each priority has a FIFO", "params.h", "#define PRI_PER_FIFO	  4", "#define PRI_PER_FIFO	  1", "recorded_runq"],
    ["the head is the tail", "runq.h", "head ? KEY_MIDDLE - now_ns : KEY_MIDDLE + now_ns", "KEY_MIDDLE + now_ns", "recorded_switch"],
    ["of equal queues the last", "runq.h", "nr < least", "nr <= least", "recorded_pickcpu"],
    ["the last CPU is like any other", "runq.h", "if (last >= 0 && allowed(p, last)) {", "if (false) {", "recorded_pickcpu"],
    ["restricted tasks go anywhere", "runq.h", "\t\tif (!cpu_ctx(i)->online || !allowed(p, i))\n\t\t\tcontinue;\n", "", "recorded_pickcpu"],
    ["who leaves a queue still counts there", "runq.h", " - ((u64)cpu == from)", "", "a_requeued_task_is_found_in_its_new_queue"],
    ["one more task is looked at", "runq.h", "if (nth >= runq_fuzz) {", "if (nth > runq_fuzz) {", "recorded_runq"],
    ["where a task ran is no matter", "runq.h", "if (t && (!nth || last_here)) {", "if (t && !nth) {", "recorded_runq"],
    ["a task that ran here is taken from another FIFO", "runq.h", "if (nth && key_fifo(key) != key_fifo(first->key))", "if (false)", "recorded_runq"],
    ["one idle CPU is woken", "add.h", "idle &= idle - 1;", "idle = 0;", "recorded_forward"],
    ["idle CPUs are not woken", "add.h", "if (!ipiwakeup_enabled ||", "if (true || !ipiwakeup_enabled ||", "recorded_forward"],
    ["interrupt threads but the worst preempt", "add.h", "pri <= PRI_MAX_INTERRUPT;", "pri < PRI_MAX_INTERRUPT;", "recorded_preempt"],
    ["FULL_PREEMPTION makes no difference", "add.h", "return full_preemption || pri <=", "return pri <=", "recorded_preempt"],
    ["other CPUs are preempted without the option", "add.h", "preemption && ipi_preemption", "preemption", "recorded_kick"],
    ["equals interrupt another CPU", "add.h", "running = running_pri(c);\n\tif (pri >= running)", "running = running_pri(c);\n\tif (pri > running)", "recorded_kick"],
    ["who falls asleep is preempted", "add.h", "return curr && curr->__state;", "return false;", "recorded_preempt"],
    ["the idle class is not preempted", "add.h", " || running >= PRI_MIN_IDLE)", ")", "recorded_preempt"],
    ["equals make this CPU choose again", "add.h", "if (pri >= running || cpu_idles(self))", "if (pri > running || cpu_idles(self))", "recorded_preempt"],
    ["interrupt threads wake other CPUs", "add.h", "!(flags & ADD_INTERRUPT) && ", "", "recorded_add"],
    ["idle CPUs wake others", "add.h", "!cpu_idles(self) && ", "", "recorded_add"],
    ["who has lost its CPU preempts", "add.h", "preemption && !(flags & ADD_YIELDING)", "preemption", "recorded_preempt"],
    ["schedcpu makes tasks choose again", "add.h", "if (!(flags & ADD_SCHEDCPU))", "if (true)", "recorded_scripts"],
    ["2012: who is preempted goes to the tail", "place.h", "case HEAD_2012:\n\t\treturn preempted;", "case HEAD_2012:\n\t\treturn false;", "recorded_switch"],
    ["2012: who is preempted loses its flag", "place.h", "head && head_rule == HEAD_2012 && READ_ONCE(c->resched)", "false", "recorded_scripts"],
    ["9.3: whose turn is over goes to the head", "place.h", "case HEAD_9_3:\n\t\treturn !c->turn_over;", "case HEAD_9_3:\n\t\treturn true;", "heads_of_9_3_and_11_1"],
    ["11.0: who yields goes to the head", "place.h", "preempted || c->yields || READ", "preempted || READ", "heads_of_11_0"],
    ["11.1: whose turn is over goes to the head", "place.h", "return !c->turn_over && preempted;", "return preempted;", "heads_of_9_3_and_11_1"],
    ["11.1: whoever loses its CPU goes to the head", "place.h", "return !c->turn_over && preempted;", "return !c->turn_over;", "heads_of_9_3_and_11_1"],
    ["who is changed loses its place", "place.h", "\tif (is_migration_disabled(p))\n\t\treturn true;\n", "\treturn false;\n", "recorded_nice"],
    ["who is changed keeps its place in another FIFO", "place.h", "\tif (key_fifo(p->scx.dsq_vtime) != READ_ONCE(t->pri) / PRI_PER_FIFO)\n\t\treturn false;\n", "", "recorded_nice"],
    ["who is changed waits where it may not", "place.h", "return queue == QUEUE_GLOBAL ? !is_restricted(p) : allowed(p, queue);", "return true;", "recorded_affinity"],
    ["of equals the CPU's own task runs", "bsd4.bpf.c", "local.pri < global.pri", "local.pri <= global.pri", "recorded_choose"],
    ["FIFOs are compared, not priorities", "bsd4.bpf.c", "local.pri < global.pri", "local.key < global.key", "recorded_choose"],
    ["who loses its CPU takes no part", "bsd4.bpf.c", "stays = mine.key < global.key || fuzz_prefers(c, mine.key, global.key);", "stays = false;", "recorded_switch"],
    ["turns have a tick more", "bsd4.bpf.c", "if (--t->slice > 0)", "if (t->slice-- > 0)", "recorded_clock"],
    ["2012: turns have a tick more", "bsd4.bpf.c", "< par.quantum", "<= par.quantum", "recorded_clock"],
    ["the end of a turn is no reason to go to the tail", "bsd4.bpf.c", "c->turn_over = true;", ";", "a_turn_that_is_over_leads_to_the_tail"],
    ["a new nice value makes nobody choose again", "bsd4.bpf.c", "maybe_resched(bpf_get_smp_processor_id(), pri, false);", ";", "recorded_nice"],
    ["a priority is that of before the kernel", "task.h", "WRITE_ONCE(t->pri, READ_ONCE(t->user_pri));\n}", ";\n}", "recorded_return_to_user"],
    ["kernel threads have priorities by use", "task.h", "if (t->class == CLASS_KERNEL)", "if (false)", "kernel_threads_have_one_priority"],
    ["a task leaves its use twice", "bsd4.bpf.c", "\tif (t->exited)\n\t\treturn;\n", "", "a_task_leaves_its_use_once"],
    ["who waits does not count in the load", "bsd4.bpf.c", "WRITE_ONCE(c->nr_runnable, c->nr_runnable + 1);", ";", "recorded_add"],
    ["tasks are put on CPUs that are offline", "runq.h", "!cpu_ctx(i)->online || ", "", "no_task_is_put_where_nobody_runs"],
    ["a child's priority is computed", "bsd4.bpf.c", "\t\tt->is_new = true;\n", "", "a_child_has_its_creators_priority"],
];

#[rustfmt::skip]
const TESTS: &[(&str, fn())] = named! {
    arithmetic: a_turn_is_twelve_ticks, estcpu_has_a_limit_that_grows_with_the_cpus, priority_follows_use_and_nice,
        recorded_clock, recorded_decay, recorded_exit, recorded_fork, recorded_quantum, recorded_return_to_user, recorded_sleep,
        recorded_wakeup, the_load_average_approaches_the_number_of_tasks;
    callers: a_child_has_its_creators_priority, a_requeued_task_is_found_in_its_new_queue, a_task_leaves_its_use_once, heads_of_11_0, heads_of_9_3_and_11_1,
        a_turn_that_is_over_leads_to_the_tail, kernel_threads_have_one_priority;
    decisions: recorded_add, recorded_affinity, recorded_nice, recorded_schedcpu, recorded_switch;
    queues: no_task_is_put_where_nobody_runs, recorded_choose, recorded_forward, recorded_kick, recorded_pickcpu, recorded_preempt, recorded_runq;
    scripts: recorded_scripts;
};

#[test]
fn records_notice_broken_rules() {
    must_be_noticed("bsd4", MUTATIONS, |test| fails(TESTS, test));
}
