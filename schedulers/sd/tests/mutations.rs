// SPDX-License-Identifier: GPL-2.0-or-later
//! SD's rules and RSDL's, each broken on purpose: recorded decisions must differ, or a test of what no record has must fail.
//! TILTYARD_ALL_MUTATIONS=1 breaks all of them, else one of forty is broken.

use super::{callers, decisions, rotations, schedules};
use tiltyard_schedtest::mutations::{Mutation, fails, must_be_noticed};
use tiltyard_schedtest::named;

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    ["slots count from the first one on", "quota.h", "NR_LEVELS - 1 - i * step / NR_LEVELS", "i * step / NR_LEVELS", "slots_of_the_matrix"],
    ["slots are not spread", "quota.h", "NR_LEVELS - 1 - i * step / NR_LEVELS", "NR_LEVELS - 1 - i", "slots_of_the_matrix"],
    ["quotas above nice 0 are whole", "quota.h", "mode == MODE_SD ? 2 : 1", "1", "quotas"],
    ["RSDL halves quotas, too", "quota.h", "mode == MODE_SD ? 2 : 1", "2", "rsdl_walks_down_all_levels"],
    ["good nice values get no larger quotas", "quota.h", "if (nice < -6)", "if (nice < -19)", "quotas"],
    ["larger quotas from nice -5 on", "quota.h", "if (nice < -6)", "if (nice < -4)", "quotas"],
    ["half of 1 ms is nothing", "quota.h", "rr_ms / divisor ?: 1", "rr_ms / divisor", "quotas"],
    ["rr_interval grows with the number of CPUs", "quota.h", "6 * bit_length(cpus)", "6 * cpus", "rr_interval_grows_with_the_cpus"],
    ["weights are entitlements", "quota.h", "(is_idle_class ? 1 : 40)", "1", "quotas"],
    ["idle tasks weigh as much as others", "quota.h", "(is_idle_class ? 1 : 40)", "40", "idle_tasks_weigh_little"],
    ["worse ones do not expire with better ones", "staircase.h", "if (own > c->best[expired_of(&c->rq) & 1])", "if (false)", "next_slots"],
    ["batch tasks hold up worse ones", "staircase.h", "if (!batch)\n\t\t\t*best = own;", "*best = own;", "next_slots"],
    ["who has slept starts where others of its nice value are", "staircase.h", "if (!interactive)\n", "", "next_slots"],
    ["interactive=0 makes no difference", "staircase.h", "if (!interactive)", "if (false)", "next_slots"],
    ["worse ones overtake", "staircase.h", "if (own > *best) {", "if (false) {", "next_slots"],
    ["batch tasks have the slots of normal ones", "staircase.h", "\tif (batch)\n\t\treturn first_slot(levels", "\tif (false)\n\t\treturn first_slot(levels", "next_slots"],
    ["batch tasks have levels above their own", "staircase.h", "levels_from(from > own ? from : own)", "levels_from(from)", "next_slots"],
    ["a slot has a quota again and again", "staircase.h", "slots_of[own] & levels_from(from) & ~t->granted", "slots_of[own] & levels_from(from)", "next_slots"],
    ["a new rotation does not give slots back", "staircase.h", "\tt->granted = 0;\n", "", "places_of_queued_tasks"],
    ["a new rotation does not renew a quota", "staircase.h", "\tt->slice_us = quotas_us[nth(t->static_level)];\n\tt->first_slice", "\tt->first_slice", "places_of_queued_tasks"],
    ["a second quota is still the parent's", "staircase.h", "\tt->first_slice = false;\n\tt->array", "\tt->array", "places_of_queued_tasks"],
    ["batch tasks expire to the first slot", "staircase.h", "t->policy == POLICY_BATCH ? own : ", "", "places_of_queued_tasks"],
    ["the first slot does not come twice", "staircase.h", "else if (!sd_first_slot_twice)", "else", "who_is_picked"],
    ["the first slot always comes twice", "staircase.h", "else if (!sd_first_slot_twice)", "else if (false)", "without_the_first_slot_twice_all_rotations_are_alike"],
    ["nobody knows who has expired", "staircase.h", "\tif (own < c->best[array])\n\t\tc->best[array] = own;\n", "", "places_of_queued_tasks"],
    ["RSDL gives a quota before the rotation", "staircase.h", "t->slice_us = 0;", ";", "rsdl_walks_down_all_levels"],
    ["who is moved comes to the array of the same number", "staircase.h", "t->array ^= READ_ONCE(from->rq.active) ^ c->rq.active;", ";", "a_moved_task_comes_to_the_array_of_the_same_kind"],
    ["who is moved is never in the rotation of its new CPU", "staircase.h", "if (t->rotation == READ_ONCE(from->rotation)) {", "if (false) {", "moves"],
    ["who is moved keeps its slots though a rotation is over", "staircase.h", "if (t->rotation == READ_ONCE(from->rotation)) {", "if (true) {", "moves"],
    ["idle tasks keep others waiting", "staircase.h", "if (t->unsuitable) {", "if (false) {", "idle_tasks_that_others_may_wait_for"],
    ["idle tasks have quotas of normal ones", "staircase.h", "t->slice_us = entitlement_ms(own);", "t->slice_us = quotas_us[own];", "places_of_queued_tasks"],
    ["an empty quota is one", "staircase.h", "mode == MODE_SD ? t->slice_us > 0 :", "mode == MODE_SD ? t->slice_us >= 0 :", "places_of_queued_tasks"],
    ["slots are not marked as used", "staircase.h", "t->granted |= 1ULL << (slot & 63);", ";", "places_of_queued_tasks"],
    ["the next quota is whole, whatever was overrun", "turns.h", "task(i)->slice_us += overrun_us;", ";", "quotas_that_are_used_up"],
    ["a first quota stays one when it is used up", "turns.h", "\ttask(i)->first_slice = false;\n\trelist", "\trelist", "a_used_first_quota_is_not_the_parents_any_more"],
    ["a tick charges one tick at most", "turns.h", "ran_ns > 2 * tick_ns", "ran_ns > tick_ns", "charges"],
    ["long times count in whole between ticks", "turns.h", "ran_ns <= 0 || ran_ns > tick_ns", "ran_ns <= 0", "charges"],
    ["a clock that stands still costs nothing", "turns.h", "ran_ns <= 0 || ran_ns > tick_ns", "ran_ns < 0 || ran_ns > tick_ns", "charges"],
    ["levels of the last rotation count", "turns.h", "\t__builtin_memset(c->reached, 0, sizeof(c->reached));\n", "", "who_is_picked"],
    ["who was best in the last rotation is still", "turns.h", "\tc->best[0] = BEST_NONE;\n", "", "who_is_picked"],
    ["levels go up again", "turns.h", "if (level > c->reached[own])", "if (true)", "who_is_picked"],
    ["who runs is not known to be best", "turns.h", "\tif (own < *best)\n\t\t*best = own;\n\tif (level", "\tif (level", "who_is_picked"],
    ["idle tasks take part in the rotation", "turns.h", "\tif (level == LEVEL_IDLE)\n\t\treturn;\n", "", "idle_tasks_are_in_no_rotation"],
    ["who has no quota left runs on", "turns.h", "if (task(i)->slice_us > 0) {", "if (true) {", "who_is_picked"],
    ["idle tasks run beside others in the rotation", "turns.h", "\t\tnew_rotation(c, now_ns);\n\t\treturn idle", "\t\treturn idle", "who_is_picked"],
    ["who leaves is not charged", "turns.h", "\tif (prev)\n\t\tcharge(c, prev, now_ns, false);\n", "", "who_is_picked"],
    ["a quota of 0 lasts until the next tick", "turns.h", "if (task(i)->slice_us <= 0) {", "if (task(i)->slice_us < 0) {", "quotas_that_are_used_up"],
    ["who has used its quota up runs on", "turns.h", "step_down(cpu, i);\n\t\tWRITE_ONCE(c->rq.need_resched, true);", "step_down(cpu, i);", "quotas_that_are_used_up"],
    ["who has expired preempts", "turns.h", "wakeup_preemption && rq_task(i)->array == rq->active && ", "wakeup_preemption && ", "wakeups"],
    ["a thread makes the CPU choose again", "turns.h", "if (!t->thread)", "if (true)", "forks"],
    ["a child gets a whole quota", "turns.h", "t->slice_us = p->slice_us / 2 ?: 1;", "t->slice_us = p->slice_us;", "forks"],
    ["a fork is free", "turns.h", "p->slice_us /= 2;", ";", "forks"],
    ["later quotas are given back", "turns.h", "!t->first_slice || ", "", "exits"],
    ["other CPUs give quotas back", "turns.h", " || t->rq.cpu != p->rq.cpu", "", "exits"],
    ["what is given back has no limit", "turns.h", "if (p->slice_us > most_us)", "if (false)", "exits"],
    ["who is alone expires when it yields", "turns.h", "else if (c->rq.nr_running > 1)", "else", "yields"],
    ["a yield leads only to the tail", "turns.h", "else if (c->rq.nr_running > 1)", "else if (false)", "yields"],
    ["a nice value changes the place later", "turns.h", "if (is_queued(i))\n\t\trelist(cpu, i);", ";", "nice_values_that_change"],
    ["who goes idle goes on with the rotation", "tasks.h", "new_rotation(cpu_state(cpu), now_ns);\n\tbpf_spin", ";\n\tbpf_spin", "idling_begins_a_rotation"],
    ["RSDL: who comes back is above the level that is served", "rsdl.h", "level >= c->served && ", "", "nobody_stays_above_the_level_that_is_served"],
    ["RSDL: new ones start above the level that is served", "rsdl.h", "return own > c->served ? own : c->served;", "return own;", "who_wakes_up_in_rsdl_starts_at_the_level_that_is_served"],
    ["RSDL: levels get no quota", "rsdl.h", "c->level_quota_us[nth(level)] += quota_us;", ";", "rsdl_walks_down_all_levels"],
    ["RSDL: who runs costs its level nothing", "rsdl.h", "c->level_quota_us[nth(c->served)] -= ran_us;", ";", "a_level_has_all_of_its_quota"],
    ["RSDL: a level is over before its quota is", "rsdl.h", "c->level_quota_us[nth(c->served)] < 0", "c->level_quota_us[nth(c->served)] <= 0", "a_level_has_all_of_its_quota"],
    ["RSDL: levels are never over", "rsdl.h", "return minor_rotation &&", "return false && minor_rotation &&", "a_level_has_all_of_its_quota"],
    ["RSDL: minor rotations cannot be switched off", "rsdl.h", "return minor_rotation &&", "return", "minor_rotations_can_be_switched_off"],
    ["RSDL: what is left on the last level expires", "turns.h", "\t\tto = first_slot(rq_array(&c->rq, c->rq.active)->bitmap & STAIRCASE);\n", "", "what_is_left_on_the_last_level_goes_behind_the_next_rotation"],
    ["tasks queue at the head", "../lib/tiltyard/linux26/rq.h", "\t\tlink_before(head, i);\n", "\t\tlink_before(head, i);\n\t\ta->head[level] = i;\n", "who_is_picked"],
    ["equals preempt", "../lib/tiltyard/linux26/rq.h", "rq_task(i)->prio >= curr_prio(rq)", "rq_task(i)->prio > curr_prio(rq)", "wakeups"],
    ["exiting tasks are asked to push for ever", "../lib/tiltyard/linux26/class.h", "if (skips_custody(p))", "if (false)", "exiting_tasks_are_preempted_only_once_for_a_push"],
    ["active tasks are moved before expired ones", "../lib/tiltyard/linux26/move.h", "b->last_array = !src->arrays[expired & 1].nr_active;", "b->last_array = true;", "moves"],
];

#[rustfmt::skip]
const TESTS: &[(&str, fn())] = named! {
    callers: a_change_does_not_begin_a_run, a_level_has_all_of_its_quota, a_moved_task_comes_to_the_array_of_the_same_kind,
        a_sync_waker_leaves_its_own_cpu_only, a_used_first_quota_is_not_the_parents_any_more, idle_tasks_that_others_may_wait_for,
        idle_tasks_are_in_no_rotation, idle_tasks_weigh_little, idling_begins_a_rotation, nobody_stays_above_the_level_that_is_served,
        exiting_tasks_are_preempted_only_once_for_a_push;
    decisions: quotas, rr_interval_grows_with_the_cpus, slots_of_the_matrix, next_slots, places_of_queued_tasks, charges,
        who_is_picked, quotas_that_are_used_up, wakeups, forks, exits, yields, nice_values_that_change, moves,
        an_idle_cpu_chooses_again_for_whatever_is_moved_to_it;
    rotations: a_level_without_quota_is_pushed_behind_the_next_one, late_rotations_come_to_their_end,
        minor_rotations_can_be_switched_off, rsdl_walks_down_all_levels,
        what_is_left_on_the_last_level_goes_behind_the_next_rotation, who_wakes_up_in_rsdl_starts_at_the_level_that_is_served,
        without_the_first_slot_twice_all_rotations_are_alike;
    schedules: schedules;
};

#[test]
fn records_notice_broken_rules() {
    must_be_noticed("sd", MUTATIONS, |test| fails(TESTS, test));
}
