// SPDX-License-Identifier: GPL-2.0-or-later
//! BFS's rules, each broken on purpose: the recorded decisions, or a test of places.rs, must notice. TILTYARD_ALL_MUTATIONS=1 breaks all of them, else
//! one of forty is broken.

use crate::bfs::decisions::KINDS;
use crate::bfs::fake::Records;
use crate::bfs::places;
use crate::bfs::scripts::{has_realtime, script};
use tiltyard_schedtest::mutations::{Mutation, caught, fails, must_be_noticed};
use tiltyard_schedtest::named;

/// Who notices: a kind of records, or a test of places.rs.
#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    ["each nice a fifth more", "deadline.h", "par.ratio * 11 / 10", "par.ratio * 12 / 10", "deadline"],
    ["offsets of no jiffy", "deadline.h", "100000 ?: 1;", "100000;", "deadline"],
    ["ratios of 100 in 0.350", "deadline.h", "has_niffies() ? 128 : 100, i", "100, i", "deadline350"],
    ["slices grow with the CPUs", "tunables.h", "rr_interval * bit_length(cpus)", "rr_interval * cpus", "rrscale"],
    ["they grow so from 0.350 on only", "tunables.h", "if (version >= 330)", "if (version >= 350)", "rrscale"],
    ["a sample costs what was run", "deadline.h", "else if (ran > par.jiffy)", "else if (false)", "charge"],
    ["a clock that stands still is free", "deadline.h", "charge_still_clock ? par.jiffy / 2 : 0", "0", "charge"],
    ["nothing is charged for the time before a switch", "run.h", "WRITE_ONCE(c->last_ran_ns, t->last_ran_ns);", "WRITE_ONCE(c->last_ran_ns, now_ns);", "script"],
    ["an empty slice lasts", "deadline.h", "t->slice < slice_min() ||", "t->slice < slice_min() - 1 ||", "refill"],
    ["each time on a CPU renews the deadline", "deadline.h", "if (t->slice < slice_min() ||", "if (t->slice <= par.slice ||", "schedule"],
    ["a second slice is still the first", "deadline.h", "t->first_slice = false;", "", "refill"],
    ["batch tasks keep their deadline", "tunables.h", "static __always_inline bool batch_refills(void)\n{\n\treturn version >= 350;", "static __always_inline bool batch_refills(void)\n{\n\treturn false;", "refill350"],
    ["slices of 0.350 last to the end", "tunables.h", "version >= 350 ? 100 : 1", "1", "refill350"],
    ["caches do not matter", "deadline.h", "\treturn 1;\n}", "\treturn 0;\n}", "pick"],
    ["far nodes are near", "deadline.h", "return 3;", "return 1;", "pick"],
    ["distances are doubled", "deadline.h", "return locality(to, from) *", "return 2 * locality(to, from) *", "pick"],
    ["distances in jiffies", "deadline.h", "distance_ms ? time / base : offset", "offset", "pick"],
    ["of equals the last runs", "queue.h", "earlier(deadline, best_deadline))", "!earlier(best_deadline, deadline))", "pick"],
    ["the most overdue runs", "queue.h", "if (expired_are_fifo() &&", "if (false &&", "pick"],
    ["expired ones are FIFO in 0.350, too", "tunables.h", "return version <= 316;", "return true;", "pick350"],
    ["a deadline that is now has passed", "queue.h", "earlier(deadline, now))", "!earlier(now, deadline))", "pick"],
    ["tasks run anywhere", "queue.h", "custody_holds(&task(i)->custody) && may_run(i, cpu)", "custody_holds(&task(i)->custody)", "pick"],
    ["normal tasks go first", "queue.h", "bpf_for (prio, PRIO_ISO, PRIO_NONE) {\n\t\ti =", "bpf_for (prio, PRIO_NORMAL, PRIO_NONE) {\n\t\ti =", "pick"],
    ["the running task is the first of equals", "queue.h", "earlier(deadline_from(prev, cpu), best_deadline)", "!earlier(best_deadline, deadline_from(prev, cpu))", "schedule"],
    ["the running task takes no part", "queue.h", "if (prev && task(prev)->prio == prio", "if (prev && !best && task(prev)->prio == prio", "schedule"],
    ["tasks join at the head", "queue.h", "u32 last = list->last;\n", "u32 last = 0;\n", "pick"],
    ["a throttled isochronous task stays one", "run.h", "iso_throttled() ? PRIO_NORMAL : PRIO_ISO", "PRIO_ISO", "wake"],
    ["an idle task holds up others", "run.h", " && !t->slept_load", "", "prio"],
    ["an idle task exits when all are idle", "run.h", "!(p->flags & PF_EXITING) && ", "", "prio"],
    ["looks for idle CPUs from the first on", "idle.h", "below = bit_of(last) - 1;", "below = 0;", "bestidle"],
    ["a busy sibling is no matter", "idle.h", "#define THREAD_BUSY 4", "#define THREAD_BUSY 0", "bestidle"],
    ["a busy cache is no matter", "idle.h", "#define CACHE_BUSY  1", "#define CACHE_BUSY  0", "bestidle"],
    ["a busy sibling is better than another cache", "idle.h", "#define OTHER_CPU   2", "#define OTHER_CPU   6", "bestidle"],
    ["far nodes are as good", "idle.h", "#define OTHER_NODE  8", "#define OTHER_NODE  0", "bestidle"],
    ["idle CPUs are not looked for", "preempt.h", "if (cpu >= 0)\n", "if (false)\n", "preempt"],
    ["the earliest makes way", "preempt.h", "if (prio == worst && earlier(deadline, latest))", "if (prio == worst && earlier(latest, deadline))", "preempt"],
    ["the best makes way", "preempt.h", "if (prio < worst)", "if (prio > worst)", "preempt"],
    ["of equal victims the first", "preempt.h", "(cpu != ref || preempts_by_raw_deadline())", "true", "preempt"],
    ["victims are as near everywhere", "preempt.h", "deadline -= distance(i, ref, cpu);", ";", "preempt"],
    ["an equal deadline preempts", "preempt.h", "earlier(t->deadline, deadline);", "!earlier(deadline, t->deadline);", "preempt"],
    ["equals do not disturb", "preempt.h", "if (equals_preempt && t->policy != NORMAL)", "if (false)", "preempt"],
    ["a worse one preempts", "preempt.h", "return t->prio < prio;", "return true;", "preempt"],
    ["idle tasks preempt", "preempt.h", "if (preempts_by_raw_deadline() && task(i)->policy == IDLE)", "if (false)", "preempt350"],
    ["0.350 reduces deadlines", "preempt.h", "if (preempts_by_raw_deadline())\n\t\treturn earlier", "if (false)\n\t\treturn earlier", "preempt350"],
    ["a CPU forgets its last task", "queue.h", "if (remembers_last_task() &&", "if (false &&", "pick350"],
    ["a waker that sleeps is preempted", "come.h", "!(how & (COME_SYNC | COME_BACK))", "!(how & COME_BACK)", "wake"],
    ["a child gets a full slice", "family.h", "rest = slice / 2;\n\t\tt->slice = rest;", "rest = slice / 2;\n\t\tt->slice = par.slice;", "fork"],
    ["a fork is free", "family.h", "rest = slice / 2;\n", "rest = slice;\n", "fork"],
    ["a child does not run first", "come.h", "return COME_WOKEN | COME_CHILD;", "return COME_WOKEN;", "fork"],
    ["a thread runs first", "come.h", "if (j && parent->mm != p->mm &&", "if (j &&", "fork"],
    ["short slices are cut", "tunables.h", "version >= 350 ? 200 : 0", "version >= 350 ? 1 : 0", "fork350"],
    ["a parent without a slice runs on", "family.h", "return !rest && fork_min();", "return false;", "fork350"],
    ["debts are inherited", "family.h", "return min_of(slice + gift, par.slice);", "return slice + gift > par.slice ? par.slice : slice + gift;", "exit"],
    ["a slice grows beyond a full one", "family.h", "return min_of(slice + gift, par.slice);", "return slice + gift < 0 ? par.slice : slice + gift;", "exit"],
    ["later slices are given back", "family.h", "if (!t->first_slice)\n", "if (false)\n", "exit"],
    ["nice does not move a deadline", "bfs.bpf.c", "t->deadline += is - was;", "", "nice"],
    ["a better task does not preempt", "bfs.bpf.c", "t->better = is < was;", "t->better = false;", "nice"],
    ["a worse task runs on", "bfs.bpf.c", "if (is > was)\n", "if (false)\n", "nice"],
    ["a worse policy runs on", "bfs.bpf.c", "if (changed && t->prio > was)", "if (false)", "policy"],
    ["another policy does not preempt", "bfs.bpf.c", "t->better || policy != t->policy", "t->better", "policy"],
    ["another mask, no other CPU", "bfs.bpf.c", "WRITE_ONCE(t->cpu, first < nr_cpus ? first : cpu);", "", "affinity"],
    ["a task is near the CPU that it is given", "bfs.bpf.c", "\tif (t->queued)\n\t\tt->left = t->cpu;\n", "", "affinity"],
    ["another mask wakes nobody", "bfs.bpf.c", "\tt->better = true;\n\tif (may_run", "\tif (may_run", "affinity"],
    ["who has to go wakes nobody", "run.h", "seen_idle = grq.nr_idle - 1;", "seen_idle = grq.nr_idle;", "schedule"],
    ["idle ticks do not count", "iso.h", "iso.ticks / period + 1", "iso.ticks / period", "isotick"],
    ["throttled below the limit", "iso.h", "iso.ticks / period > iso_cpu", "iso.ticks / period >= iso_cpu", "isorun"],
    ["throttled for long", "iso.h", "iso_cpu * 90 / 100", "iso_cpu * 80 / 100", "isorun"],
    ["throttled tasks go on", "iso.h", "\t\tc->slice = 0;\n", "\t\t;\n", "isotick"],
    ["a yield keeps the slice", "tunables.h", "return version < 316;", "return false;", "schedule"],
    ["a task with another nice keeps its place", "bfs.bpf.c", "\tt->to_tail = true;\n\tt->better", "\tt->better", "changed_tasks_and_their_places"],
    ["a task with another mask loses its place", "come.h", "if (t->queued && (t->to_tail ||", "if (t->queued && (true ||", "changed_tasks_and_their_places"],
    ["a change hides a task", "come.h", "if (!how && t->seen_idle != grq.nr_idle)", "if (false)", "a_cpu_that_goes_idle_during_a_change_looks_again"],
    ["a switch hides a task", "come.h", "if (!how && t->seen_idle != grq.nr_idle)", "if (!how && false)", "a_cpu_that_goes_idle_during_a_switch_looks_again"],
    ["an idle CPU is claimed twice", "idle.h", "~bit_of(cpu)) & bit_of(cpu)", "~0ULL) & bit_of(cpu)", "an_idle_cpu_is_woken_for_one_task"],
    ["a preempted task does not stick", "run.h", "task(i)->sticky = true;", ";", "a_preempted_task_sticks"],
    ["a task sticks for ever", "run.h", "\tt->sticky = false;\n", "", "a_preempted_task_sticks"],
    ["a node is near", "deadline.h", "cpu_node_id[j] ? 3 : 4", "cpu_node_id[j] ? 2 : 4", "distances_of_0464"],
    ["copies are fresh", "run.h", "c->curr != prev || !stale_copy", "true", "script"],
];

const PLACES: &[(&str, fn())] = named! {
    places: changed_tasks_and_their_places, a_cpu_that_goes_idle_during_a_change_looks_again,
        a_cpu_that_goes_idle_during_a_switch_looks_again, an_idle_cpu_is_woken_for_one_task, a_preempted_task_sticks,
        distances_of_0464;
};

/// Whether a record of a kind differs, or a test of places.rs fails.
fn notices(records: &Records, kind: &str) -> bool {
    if PLACES.iter().any(|(name, _)| *name == kind) {
        return fails(PLACES, kind);
    }
    let check = KINDS.iter().find(|(name, _)| *name == kind);
    let wrong = |r: &serde_json::Value| match check {
        Some((_, check)) => check(records, r).is_err(),
        None => !has_realtime(r) && script(records, r).is_err(),
    };
    // Broken tasks may be lost, which the checks are not made for.
    records
        .of(kind)
        .any(|r| caught(|| wrong(r)).unwrap_or(true))
}

#[test]
fn records_notice_broken_rules() {
    let records = Records::read();
    must_be_noticed("bfs", MUTATIONS, |kind| notices(&records, kind));
}
