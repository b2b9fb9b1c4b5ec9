// SPDX-License-Identifier: GPL-2.0-or-later
//! O(1)'s rules, each broken on purpose: recorded decisions must differ, or a test of what no record has must fail.
//! TILTYARD_ALL_MUTATIONS=1 breaks all of them, else one of forty is broken.

use super::{behaviour, bookkeeping, callers, decisions, multicore, traces, turns};
use tiltyard_schedtest::mutations::{Mutation, fails, must_be_noticed};
use tiltyard_schedtest::named;

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    ["exiting tasks are asked to push for ever", "../lib/tiltyard/linux26/class.h", "if (skips_custody(p))", "if (false)", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["nobody is pushed from running()", "../lib/tiltyard/linux26/class.h", "if (skips_custody(p))", "if (true)", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["exiting tasks...", "../lib/tiltyard/custody.h", "return (p->flags & PF_EXITING) || is_migration_disabled(p);", "return is_migration_disabled(p);", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["who may not migrate is asked to push for ever", "../lib/tiltyard/custody.h", "return (p->flags & PF_EXITING) || is_migration_disabled(p);", "return p->flags & PF_EXITING;", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["a push that was asked for is lost while a realtime task runs", "../lib/tiltyard/linux26/class.h", "if (READ_ONCE(rq->need_resched) || READ_ONCE(rq->push_to)) {", "if (READ_ONCE(rq->need_resched)) {", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["a lost kick stays lost", "../lib/tiltyard/linux26/class.h", "if (READ_ONCE(rq->need_resched) || READ_ONCE(rq->push_to)) {", "if (READ_ONCE(rq->push_to)) {", "a_lost_kick_is_made_up_for"],
    ["idle ticks are not made up for", "../lib/tiltyard/linux26/tasks.h", "\tif (!rq->nr_running)\n\t\tupdate_cpu_load(rq, tick_of(now_ns));\n", "", "idle_ticks_are_made_up_for"],
    ["who joins is still on its old CPU", "../lib/tiltyard/linux26/tasks.h", "\tWRITE_ONCE(t->cpu, cpu);\n", "", "schedules"],
    ["a new thread preempts its creator", "turns.h", "bool waits = t->sync || (t->forker && rq->curr == t->forker);", "bool waits = t->sync;", "forks_share_slice_and_place"],
    ["who waits does not pass on a preemption", "turns.h", "\tif (waits)\n\t\treturn rq->need_resched;", "\tif (waits)\n\t\treturn false;", "forks_share_slice_and_place"],
    ["a fork costs the parent no credit", "tasks.h", "\tfork_penalty(parent);\n", "", "a_child_that_exits_gives_back_its_slice"],
    ["a child is newborn for ever", "tasks.h", "\trq_task(i)->forker = 0;\n", "", "a_child_preempts_its_parent_later"],
    ["batch policy at the same nice value is missed", "tasks.h", "\t\t\ttask(i)->batch = batch;\n\t\t\tif (static_prio != task(i)->static_prio)\n\t\t\t\trenice(", "\t\t\tif (static_prio != task(i)->static_prio)\n\t\t\t\ttask(i)->batch = batch, renice(", "batch_tasks_wake_up_expired"],
    ["who ends stays queued", "../lib/tiltyard/linux26/class.h", "\tdepart(i, scx_bpf_now(), LEAVE_QUEUE);\n\taffinity_drop", "\taffinity_drop", "tasks_leave"],
    ["a new mask makes no kernel thread of a CPU", "o1.bpf.c", "\ttask(i)->serves_cpu = serves_cpu(p);\n", "", "kernel_threads_of_a_cpu_may_come_first"],
    ["idle tasks are as nice as they say", "tasks.h", "return p->policy == POLICY_IDLE ? MAX_PRIO - 1 : (u32)p->static_prio;", "return (u32)p->static_prio;", "batch_tasks_wake_up_expired"],
    ["who was there before does not sleep", "o1.bpf.c", "\telse\n\t\tt->asleep = true;\n", "", "a_child_that_exits_gives_back_its_slice"],
    ["new tasks weigh nothing", "o1.bpf.c", "\tt->rq.load_weight = weight_of(t->static_prio);\n", "", "a_cpu_that_runs_dry_looks_elsewhere"],
    ["applications are kernel threads", "o1.bpf.c", "\tt->user = p->mm;\n", "", "a_child_that_exits_gives_back_its_slice"],
    ["the CPU that pushed its only task looks no more", "../lib/tiltyard/linux26/class.h", "\tif (pushed)\n\t\tscx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);\n", "", "a_running_task_is_pushed"],
    ["who lost the CPU without a choice still has it", "../lib/tiltyard/linux26/class.h", "\tif (rq->curr == i)\n\t\tput_curr(rq, now_ns);\n\tif (!is_queued(i)) {", "\tif (!is_queued(i)) {", "tasks_of_higher_classes_come_and_go"],
    ["a sync waker leaves any CPU to its wakee", "../lib/tiltyard/linux26/class.h", "sync && cpu == bpf_get_smp_processor_id();", "sync;", "a_sync_waker_leaves_its_own_cpu_only"],
    ["who is woken to balance for the idle does not", "../lib/tiltyard/linux26/class.h", "\tif (take_idle_kick(cpu))\n\t\tbalance_idle(cpu, now_ns);\n", "", "an_idle_cpu_that_gets_a_task_balances_for_no_other"],
    ["an idle CPU remembers when a slice was over", "tasks.h", "\tcpu_state(cpu)->expired_timestamp = 0;\n", "", "an_idle_cpu_has_no_expired_task"],
    ["a choice is not marked", "../lib/tiltyard/linux26/class.h", "\telse if (next)\n\t\tcustody_choose(&rq_task(next)->custody, cpu);\n", "", "a_cpu_that_runs_dry_looks_elsewhere"],
    ["a realtime task is not seen", "../lib/tiltyard/linux26/class.h", "\tset_other(cpu_rq(scx_bpf_task_cpu(p)), true);\n", "", "a_hog_that_was_driven_off_is_taken_by_an_idle_cpu"],
    ["loads are not averaged at ticks", "../lib/tiltyard/linux26/class.h", "\tupdate_cpu_load(rq, tick_of(now_ns));\n\tbpf_spin", "\tbpf_spin", "a_cpu_that_runs_dry_looks_elsewhere"],
    ["a slice that is over ends at no tick", "../lib/tiltyard/linux26/class.h", "\tif (resched)\n\t\tp->scx.slice = 0;\n\tif (nr_online", "\tif (nr_online", "ticks_end_slices"],
    ["a new nice value makes nobody choose again", "o1.bpf.c", "change(i, static_prio, is_batch(p)) > 0", "change(i, static_prio, is_batch(p)) < 0", "nice_values_move_tasks_within_their_array"],
    ["who leaves the class stays queued", "../lib/tiltyard/linux26/class.h", "\tdepart(i, scx_bpf_now(), LEAVE_QUEUE);\n\tend_run(p);", "\tdepart(i, scx_bpf_now(), LEAVE_HANDS);\n\tend_run(p);", "tasks_leave"],
    ["starved a tick too early", "turns.h", "waited > par.starvation_limit * c->rq.nr_running", "waited >= par.starvation_limit * c->rq.nr_running", "ticks"],
    ["a cap is over at its last tick", "turns.h", "waited <= par.starvation_cap", "waited < par.starvation_cap", "a_cap_is_over_a_tick_after_it"],
    ["equals of an expired task expire, too", "turns.h", "curr->static_prio > c->rq.best_expired_prio", "curr->static_prio >= c->rq.best_expired_prio", "ticks"],
    ["each slice that is over begins the wait again", "turns.h", "\tif (!c->expired_timestamp)\n\t\tc->expired_timestamp = tick;", "\tc->expired_timestamp = tick;", "ticks"],
    ["later slices return to the parent", "turns.h", "\tt->first_time_slice = false;\n", "", "forks"],
    ["the worst that has expired counts", "turns.h", "if (t->static_prio < c->rq.best_expired_prio)", "if (t->static_prio > c->rq.best_expired_prio)", "ticks"],
    ["a slice's last part is not cut", "turns.h", "t->time_slice >= granularity;", "t->time_slice > granularity;", "ticks"],
    ["who expired in the last round still outranks", "turns.h", "\tWRITE_ONCE(c->rq.best_expired_prio, MAX_PRIO);\n", "", "choices"],
    ["a wait after a disk counts as sleep", "turns.h", "if (t->sleep_type >= SLEEP_INTERACTIVE)", "if (t->sleep_type >= SLEEP_NONINTERACTIVE)", "choices"],
    ["a new process does not make its creator make way", "turns.h", "\tinc_nr_running(&c->rq, i);\n\tWRITE_ONCE(c->rq.need_resched, true);", "\tinc_nr_running(&c->rq, i);", "forks_share_slice_and_place"],
    ["an odd tick is lost", "turns.h", "t->time_slice = (p->time_slice + 1) / 2;", "t->time_slice = p->time_slice / 2;", "a_fork_with_one_tick_left_costs_the_turn"],
    ["slices are given back to other CPUs", "turns.h", "if (t->first_time_slice && t->rq.cpu == p->rq.cpu)", "if (t->first_time_slice)", "exits"],
    ["a slice grows beyond a whole one", "turns.h", "if (p->time_slice > task_timeslice(t))\n\t\t\tp->time_slice = task_timeslice(t);", ";", "exits"],
    ["the parent's nice value limits its slice, not the child's", "turns.h", "if (p->time_slice > task_timeslice(t))\n\t\t\tp->time_slice = task_timeslice(t);", "if (p->time_slice > task_timeslice(p))\n\t\t\tp->time_slice = task_timeslice(p);", "exits"],
    ["who yields stays in the round", "turns.h", "requeue(rq, i, expired_of(rq), rq_task(i)->prio);", "requeue(rq, i, rq->active, rq_task(i)->prio);", "who_yields_waits_for_the_next_round"],
    ["anyone who gets worse makes its CPU choose again", "turns.h", "(prio > old && c->rq.curr == i)", "prio > old", "nice_values_move_tasks_within_their_array"],
    ["who gets better preempts nobody", "turns.h", "if (prio < old || (prio > old", "if ((prio > old", "nice_values_move_tasks_within_their_array"],
    ["expired ones do not count as best", "turns.h", "return curr < expired ? curr : expired;", "return curr;", "balancing"],
    ["who is moved is active at once", "turns.h", "enqueue_tail(rq, i, expired ? expired_of(rq) : rq->active);", "enqueue_tail(rq, i, rq->active);", "balancing"],
    ["who has the whole bonus has a granularity of 31 doublings", "interact.h", "lacks = bonus < max_bonus ? max_bonus - bonus : 1;", "lacks = max_bonus - bonus;", "priorities"],
    ["who is back in custody leaves", "../lib/tiltyard/linux26/tasks.h", "\tif (how == LEAVE_UNHELD && custody_holds(&t->custody))\n\t\treturn;\n", "", "a_task_that_is_back_in_custody_keeps_its_place"],
    ["who has been taken elsewhere leaves the queue there", "../lib/tiltyard/linux26/tasks.h", "\tif (READ_ONCE(rq_task(i)->cpu) == cpu)\n\t\tleave(cpu_rq(cpu), i, now_ns, LEAVE_UNHELD);", "\tleave(cpu_rq(cpu), i, now_ns, LEAVE_UNHELD);", "a_task_that_is_back_in_custody_keeps_its_place"],
    ["unchoose takes it though it is held", "../lib/tiltyard/linux26/tasks.h", "leave(cpu_rq(cpu), i, now_ns, LEAVE_UNHELD);", "leave(cpu_rq(cpu), i, now_ns, LEAVE_QUEUE);", "a_task_that_is_back_in_custody_keeps_its_place"],
    ["settle", "../lib/tiltyard/linux26/tasks.h", "if (READ_ONCE(rq_task(i)->cpu) != cpu)\n\t\tdepart", "if (is_queued(i))\n\t\tdepart", "tasks_of_higher_classes_come_and_go"],
    ["who is pushed still has its CPU", "../lib/tiltyard/linux26/move.h", "\tput_curr(src, now_ns);\n", "", "a_running_task_is_pushed"],
    ["one kick lasts for ever", "../lib/tiltyard/linux26/balance.h", "return READ_ONCE(cpu_rq(cpu)->idle_kick) &&\n\t       __sync_lock_test_and_set(&cpu_rq(cpu)->idle_kick, 0);", "return READ_ONCE(cpu_rq(cpu)->idle_kick);", "a_hog_that_was_driven_off_is_taken_by_an_idle_cpu"],
    ["a CPU that ran dry never looks elsewhere again", "../lib/tiltyard/linux26/class.h", "\trq->dry = false;\n", "", "a_dry_cpu_looks_again_after_a_turn"],
    ["a dry CPU looks again and again", "../lib/tiltyard/linux26/class.h", "if (!rq->dry && nr_domains(cpu))", "if (nr_domains(cpu))", "a_dry_cpu_looks_again_after_a_turn"],
    ["a turn begins with a preemption asked of the one before", "../lib/tiltyard/linux26/tasks.h", "\tWRITE_ONCE(rq->need_resched, false);\n", "", "who_takes_the_cpu_unchosen_begins_a_turn"],
    ["who was not chosen keeps the kind of its sleep", "turns.h", "\ttask(i)->sleep_type = SLEEP_NORMAL;\n", "", "who_takes_the_cpu_unchosen_begins_a_turn"],
    ["who was not chosen pays for its wait", "turns.h", "\ttask(i)->timestamp_ns = now_ns;\n\ttask(i)->sleep", "\ttask(i)->sleep", "who_takes_the_cpu_unchosen_begins_a_turn"],
    ["who is driven off without a choice is not charged", "../lib/tiltyard/linux26/tasks.h", "\tput_curr(rq, now_ns);\n\tif (!is_queued(i))", "\tif (!is_queued(i))", "who_takes_the_cpu_unchosen_begins_a_turn"],
    ["one sync wakeup lasts for ever", "turns.h", "\tt->sync = false;\n", "", "a_sync_wakeup_counts_once"],
    ["without preemption an idle CPU is not called", "turns.h", "if (!wakeup_preemption && rq->curr)", "if (!wakeup_preemption)", "an_idle_cpu_is_called_without_preemption"],
    ["who sleeps gives its slice away", "../lib/tiltyard/linux26/class.h", "\tif (p->exit_state)\n\t\tbequeath(p, i);", "\tbequeath(p, i);", "a_child_that_sleeps_gives_nothing_back"],
    ["a changed task passes on no preemption", "../lib/tiltyard/linux26/class.h", "\telse if (enq_flags & ENQUEUE_RESTORE)\n\t\tpreempt = rq->need_resched;\n", "", "a_changed_task_passes_a_preemption_on"],
    ["the last task wakes nobody", "../lib/tiltyard/linux26/class.h", "else if (elsewhere || (enq_flags & SCX_ENQ_LAST))", "else if (elsewhere)", "the_last_task_calls_its_cpu"],
    ["who yields without having the CPU expires", "../lib/tiltyard/linux26/class.h", "\tif (cpu_rq(cpu)->curr == i)\n\t\tyield_turn", "\tyield_turn", "who_yields_without_the_cpu_does_not_expire"],
    ["at first somebody best has expired", "o1.bpf.c", "\t\tcpu_rq(cpu)->best_expired_prio = MAX_PRIO;", "\t\tcpu_rq(cpu)->best_expired_prio = 0;", "at_first_nobody_has_expired"],
    ["who ends keeps its mask", "../lib/tiltyard/linux26/class.h", "\taffinity_drop(&rq_task(i)->affinity);\n", "", "masks_return"],
    ["the mask of before is kept, too", "../lib/tiltyard/linux26/tasks.h", "\taffinity_drop(&old);\n", "", "masks_return"],
    ["CPUs are counted, not compared", "../lib/tiltyard/linux26/affinity.h", "bpf_cpumask_subset(online, allowed)", "nr >= bpf_cpumask_weight(online)", "offline_cpus_of_a_mask_do_not_count"],
    ["the new mask is given away", "../lib/tiltyard/linux26/tasks.h", "affinity_drop(&old);", "affinity_drop(&new);", "each_task_has_its_own_mask"],
    ["a changed task stays where it may not run", "../lib/tiltyard/linux26/class.h", " && affinity_has(&rq_task(i)->affinity, cpu);", ";", "a_changed_task_stays_only_where_it_may"],
    ["whoever comes back stays where it was moved", "../lib/tiltyard/linux26/class.h", "(enq_flags & (ENQUEUE_RESTORE | ENQUEUE_MOVE)) == ENQUEUE_RESTORE", "(enq_flags & ENQUEUE_RESTORE)", "a_changed_task_stays_only_where_it_may"],
    ["who was there before is no batch task", "o1.bpf.c", "\tt->batch = is_batch(p);\n", "", "a_task_is_what_it_was_before"],
    ["who was there before is no kernel thread of a CPU", "o1.bpf.c", "\tt->serves_cpu = serves_cpu(p);\n", "", "a_task_is_what_it_was_before"],
    ["a realtime task stays when the CPU chooses", "../lib/tiltyard/linux26/class.h", "\tset_other(rq, false);\n\t/* Partner", "\t/* Partner", "a_realtime_task_is_gone_when_the_cpu_chooses"],
    ["a realtime task stays beside one of ours", "../lib/tiltyard/linux26/class.h", "\trq->dry = false;\n\tset_other(rq, false);\n", "\trq->dry = false;\n", "a_realtime_task_is_gone_when_the_cpu_chooses"],
    ["a wait on another CPU is sleep", "turns.h", "\tt->asleep = false;\n", "", "a_wait_on_another_cpu_is_no_sleep"],
    ["the pid of before is looked for", "../lib/tiltyard/custody.h", "\tWRITE_ONCE(c->pid, pid);\n\tWRITE_ONCE(c->round", "\tWRITE_ONCE(c->round", "a_task_with_another_pid_is_handed_over"],
    ["a task that nobody holds is chosen", "../lib/tiltyard/custody.h", "\tif (custody_holds(c))\n\t\tWRITE_ONCE(c->held, CHOSEN + cpu);", "\tWRITE_ONCE(c->held, CHOSEN + cpu);", "a_task_that_is_being_changed_is_not_handed_over"],
];

#[rustfmt::skip]
const TESTS: &[(&str, fn())] = named! {
    behaviour: a_hog_that_was_driven_off_is_taken_by_an_idle_cpu;
    bookkeeping: a_changed_task_stays_only_where_it_may, a_realtime_task_is_gone_when_the_cpu_chooses,
        a_task_is_what_it_was_before, a_task_that_is_being_changed_is_not_handed_over,
        a_task_with_another_pid_is_handed_over, a_wait_on_another_cpu_is_no_sleep, each_task_has_its_own_mask, masks_return,
        offline_cpus_of_a_mask_do_not_count;
    callers: a_child_preempts_its_parent_later, a_child_that_exits_gives_back_its_slice,
        a_cpu_that_runs_dry_looks_elsewhere, a_fork_with_one_tick_left_costs_the_turn, a_lost_kick_is_made_up_for,
        a_running_task_is_pushed, a_sync_waker_leaves_its_own_cpu_only, an_idle_cpu_has_no_expired_task,
        an_idle_cpu_that_gets_a_task_balances_for_no_other, batch_tasks_wake_up_expired,
        exiting_tasks_are_preempted_only_once_for_a_push, forks_share_slice_and_place, idle_ticks_are_made_up_for,
        kernel_threads_of_a_cpu_may_come_first, nice_values_move_tasks_within_their_array, tasks_leave,
        tasks_of_higher_classes_come_and_go, ticks_end_slices, who_yields_waits_for_the_next_round;
    decisions: choices, exits, forks, priorities, ticks;
    multicore: a_task_that_is_back_in_custody_keeps_its_place, balancing;
    traces: schedules;
    turns: a_cap_is_over_a_tick_after_it, a_changed_task_passes_a_preemption_on, a_child_that_sleeps_gives_nothing_back,
        a_dry_cpu_looks_again_after_a_turn, a_sync_wakeup_counts_once, an_idle_cpu_is_called_without_preemption,
        at_first_nobody_has_expired, the_last_task_calls_its_cpu, who_takes_the_cpu_unchosen_begins_a_turn,
        who_yields_without_the_cpu_does_not_expire;
};

#[test]
fn records_notice_broken_rules() {
    must_be_noticed("o1", MUTATIONS, |test| fails(TESTS, test));
}
