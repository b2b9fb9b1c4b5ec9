// SPDX-License-Identifier: GPL-2.0-or-later
//! EEVDF's rules, each broken on purpose: the kernel's recorded results must differ. TILTYARD_ALL_MUTATIONS=1 breaks all of them,
//! else one of twenty is broken.

use super::{decisions, schedules};
use tiltyard_schedtest::mutations::{Mutation, fails, must_be_noticed};
use tiltyard_schedtest::named;

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    ["V is rounded towards zero", "virtual.h", "\tif (sum < 0)\n\t\tsum -= weight - 1;\n", "", "eligibility_and_pick"],
    ["who runs does not count in V", "virtual.h", "if (curr) {\n\t\tsum +=", "if (false) {\n\t\tsum +=", "eligibility_and_pick"],
    ["V is a mean without weights", "virtual.h", "return max_of(table_units(entity(i)->load.weight), MIN_SHARES);", "return NICE_0_WEIGHT;", "eligibility_and_pick"],
    ["who is at V is not eligible", "virtual.h", "return !earlier(virtual_time(q), entity(i)->vruntime);", "return earlier(entity(i)->vruntime, virtual_time(q));", "eligibility_and_pick"],
    ["what a task is owed has no limit", "virtual.h", "\tif (lag > limit)\n\t\tlag = limit;\n", "", "leaving"],
    ["what a task owes has no limit", "virtual.h", "\tif (lag < -limit)\n\t\tlag = -limit;\n", "", "leaving"],
    ["lag counts up to one request", "virtual.h", "max_of(2 * e->turn.slice_ns,", "max_of(e->turn.slice_ns,", "leaving"],
    ["lag never counts up to a tick", "virtual.h", "max_of(2 * e->turn.slice_ns, NSEC_PER_SEC / tick_hz)", "2 * e->turn.slice_ns", "leaving"],
    ["the limit of lag is the same for each weight", "virtual.h", "calc_delta_fair(most_ns, &e->load)", "most_ns", "leaving"],
    ["weights do not shorten requests", "virtual.h", "return calc_delta_fair(entity(i)->turn.slice_ns, &entity(i)->load);", "return entity(i)->turn.slice_ns;", "ticks"],
    ["a request ends after its deadline", "virtual.h", "if (earlier(e->vruntime, e->turn.deadline))", "if (!earlier(e->turn.deadline, e->vruntime))", "ticks"],
    ["a request is shortened by what the last one was too long", "virtual.h", "e->turn.deadline = e->vruntime + request_in_vruntime(i);\n\treturn true;", "e->turn.deadline += request_in_vruntime(i);\n\treturn true;", "ticks"],
    ["the next request is no custom one", "virtual.h", "if (!e->turn.custom)\n\t\te->turn.slice_ns = request_ns;\n\te->turn.deadline", "e->turn.slice_ns = request_ns;\n\te->turn.deadline", "ticks"],
    ["who joins requests no custom slice", "virtual.h", "if (!e->turn.custom)\n\t\te->turn.slice_ns = request_ns;\n\trequest", "e->turn.slice_ns = request_ns;\n\trequest", "joining"],
    ["who joins is owed nothing", "virtual.h", "if (place_lag && cfs_rq", "if (false && cfs_rq", "joining"],
    ["who joins an empty queue keeps its lag", "virtual.h", "place_lag && cfs_rq->nr_running && e->turn.lag", "place_lag && e->turn.lag", "joining"],
    ["lag shrinks as V moves", "virtual.h", "divide(e->turn.lag * (weight + (s64)units_of(i)), weight ?: 1)", "e->turn.lag", "joining"],
    ["lag is placed as if nobody ran", "virtual.h", "if (cfs_rq->curr)\n\t\t\tweight +=", "if (false)\n\t\t\tweight +=", "joining"],
    ["a new task begins a whole request", "virtual.h", "request /= 2;", ";", "joining"],
    ["who wakes up begins in the middle", "virtual.h", "place_deadline_initial && new_task", "place_deadline_initial", "joining"],
    ["a deadline does not come along", "virtual.h", "if (e->relative && !e->newborn) {", "if (false) {", "joining"],
    ["protected for the whole request", "virtual.h", "if (slice_ns < e->turn.slice_ns)", "if (false)", "protection_of_who_gets_the_turn"],
    ["protected beyond the deadline", "virtual.h", "until = earlier_of(until, e->vruntime", "until = earlier_of(e->vruntime + (1LL << 50), e->vruntime", "protection_of_who_gets_the_turn"],
    ["without RUN_TO_PARITY, too, the least slice protects", "virtual.h", "run_to_parity ? least_slice(q) : base_slice_ns", "least_slice(q)", "turns_with_a_feature_changed"],
    ["protection ends too late", "virtual.h", "return earlier(entity(i)->vruntime, entity(i)->turn.protected_until);", "return !earlier(entity(i)->turn.protected_until, entity(i)->vruntime);", "waking"],
    ["a shorter slice extends protection", "virtual.h", "e->turn.protected_until = earlier_of(e->turn.protected_until, until);", "e->turn.protected_until = until;", "waking"],
    ["who is protected no longer runs on", "virtual.h", "(!served && is_protected(curr))", "!served", "ticks"],
    ["who is alone ends its turn", "virtual.h", "cfs_rq->nr_running == 1 || (!served", "(!served", "ticks"],
    ["who runs has a turn before it is eligible", "virtual.h", "if (curr && earlier(now, entity(curr)->vruntime))", "if (false)", "eligibility_and_pick"],
    ["protection is no matter to the pick", "virtual.h", "if (curr && protection && is_protected(curr))", "if (false)", "eligibility_and_pick"],
    ["of equal deadlines that of who runs counts", "virtual.h", "earlier(entity(curr)->turn.deadline, entity(best)->turn.deadline)", "!earlier(entity(best)->turn.deadline, entity(curr)->turn.deadline)", "eligibility_and_pick"],
    ["nobody is favoured", "virtual.h", "pick_buddy && next &&", "false && next &&", "turns_of_scripts"],
    ["a sleeper's group is not favoured", "moves.h", "if (!c->moving && c->asleep)", "if (false)", "turns_of_scripts"],
    ["idle tasks are favoured", "virtual.h", " || (is_task(i) && entity(i)->policy == POLICY_IDLE)", "", "idle_tasks_are_not_favoured"],
    ["a turn does not end favour", "virtual.h", "turns.over = true;\n\tclear_buddies(curr);", "turns.over = true;", "turns_with_a_feature_changed"],
    ["who forks favours its child", "queue.h", "if (next_buddy && !w->turn.forked)", "if (next_buddy)", "turns_with_a_feature_changed"],
    ["who sleeps with a debt leaves", "moves.h", "return !is_eligible(q, i);", "return false;", "leaving"],
    ["who is owed something is delayed, too", "moves.h", "return !is_eligible(q, i);", "return true;", "leaving"],
    ["who moves is delayed", "moves.h", "!(how & LEAVE_SLEEP) || how &", "how &", "leaving"],
    ["who is stopped is delayed", "moves.h", "how & (LEAVE_DELAYED | LEAVE_FOREVER)", "how & LEAVE_DELAYED", "leaving"],
    ["who was delayed is owed something", "moves.h", "\tif (delay_zero && e->turn.lag > 0)\n\t\te->turn.lag = 0;\n", "", "turns_of_scripts"],
    ["sleepers keep the distance to their deadline", "moves.h", "if (place_rel_deadline && !(how & LEAVE_SLEEP))", "if (place_rel_deadline)", "leaving"],
    ["a group requests the default", "moves.h", "entity(i)->turn.custom = true;", ";", "turns_of_scripts"],
    ["a new weight leaves the lag", "change.h", "e->turn.lag = divide(e->turn.lag * before, weight);", ";", "renicing"],
    ["a new weight leaves the deadline", "change.h", "if (e->relative)\n\t\te->turn.deadline =", "if (false)\n\t\te->turn.deadline =", "renicing"],
    ["a group stays where it is in spite of its weight", "change.h", "place(q, i, false);\n\tcount(q, i);\n\tcfs_rq->nr_running++;\n\tupdate_min", "e->turn.deadline += e->vruntime;\n\te->relative = false;\n\tcount(q, i);\n\tcfs_rq->nr_running++;\n\tupdate_min", "changes_of_a_groups_weight"],
    ["a group's weight is always the same", "change.h", "if (!is_task(i) && queue(owned_queue(i))->weight)", "if (false)", "turns_of_scripts"],
    ["who is wanted again is rid of its debt", "change.h", "\tif (e->turn.lag <= 0)\n\t\treturn;\n", "", "waking"],
    ["idle tasks go on in spite of others", "queue.h", "if (is_idle_entity(i) && !is_idle_entity(j)) {", "if (false) {", "waking"],
    ["batch tasks preempt", "queue.h", " || entity(wakee)->policy != POLICY_NORMAL", "", "waking"],
    ["shorter slices wait", "queue.h", "shorter = preempt_short && entity(j)", "shorter = false && entity(j)", "waking"],
    ["who is preempted stays protected", "queue.h", "if (shorter)\n\t\t\tend_protection(i);", ";", "waking"],
    ["any wakee shortens protection", "queue.h", "if (run_to_parity && shorter)", "if (run_to_parity)", "waking"],
    ["a yield forfeits nothing", "queue.h", "e->vruntime = e->turn.deadline;", ";", "yielding"],
    ["who is ahead already forfeits more", "queue.h", "if (is_eligible(q, i)) {", "if (true) {", "yielding"],
    ["slices do not grow with the CPUs", "queue.h", "base_slice_ns * cpu_factor(&scaling, online)", "base_slice_ns", "requests_grow_with_the_cpus"],
    ["who was delayed keeps no debt", "moves.h", "if (delay_zero && e->turn.lag > 0)", "if (delay_zero)", "who_leaves_in_debt_keeps_it"],
    ["a group that goes stays queued", "../lib/tiltyard/fair/tasks.h", "if (is_delayed(i))\n\t\t\tdepart(", "if (false)\n\t\t\tdepart(", "a_group_that_goes_leaves_its_queue"],
    ["weights of nice values are a step off", "../lib/tiltyard/weights.h", "u32 i = nice + 20;", "u32 i = nice + 21;", "times_in_vruntime"],
];

#[rustfmt::skip]
const TESTS: &[(&str, fn())] = named! {
    decisions: times_in_vruntime, eligibility_and_pick, leaving, joining, waking, changes_of_a_groups_weight, renicing,
        asking_for_a_slice, yielding, ticks, protection_of_who_gets_the_turn, requests_grow_with_the_cpus,
        idle_tasks_are_not_favoured, a_group_that_goes_leaves_its_queue, who_leaves_in_debt_keeps_it;
    schedules: turns_of_scripts, turns_with_a_feature_changed;
};

#[test]
fn records_notice_broken_rules() {
    must_be_noticed("eevdf", MUTATIONS, 20, |test| fails(TESTS, test));
}
