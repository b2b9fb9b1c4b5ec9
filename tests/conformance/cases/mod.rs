// SPDX-License-Identifier: GPL-2.0-or-later
//! The cases, each a function over any arm. Sequences follow the reference kernel, Linux 6.18.

pub mod affinity;
pub mod arithmetic;
pub mod classes;
pub mod errors;
pub mod idle;
pub mod kicks;
pub mod limits;
pub mod sleep_wake;
pub mod slices;
pub mod waits;

/// Hands the list of all cases to another macro.
#[macro_export]
macro_rules! for_each_case {
    ($do:ident) => {
        $do! {
            slices {
                two_jobs_default_slice,
                zeroed_in_tick_charges_elapsed_time,
                changed_mid_run_charges_elapsed_time,
                lone_task_goes_on_without_requeue,
                dispatch_comes_before_stopping_and_enqueue,
                previous_task_does_not_compete,
                local_queue_before_dispatch,
                inserting_the_running_task_only_sets_its_slice,
                yield_is_what_the_op_makes_of_it,
                enq_last_brings_the_last_task_back,
                slice_survives_sleep,
                dispatch_is_asked_32_times_at_most,
                idle_cpu_asks_again_after_32_times,
                dropped_entries_count,
            }
            sleep_wake {
                sleep_order,
                exiting_tasks_pass_the_scheduler_by,
                wake_to_idle_cpu,
                selected_idle_cpu_looks_for_work,
                other_idle_cpus_sleep_on,
                pinned_task_skips_select_cpu,
                fork_order,
                load_order,
                keep_builtin_idle_counts,
                default_select_cpu_inserts,
                default_enqueue_is_global,
                select_cpu_dfl_in_enqueue,
                idle_mask_changes_before_the_op,
                pipes_wake_synchronously,
                idle_cores_come_first,
                idle_search_stays_in_the_cache,
                claimed_cpu_is_lost_until_kicked,
            }
            kicks {
                timers_fire_and_preempt,
                kick_without_preempt_changes_nothing,
                preempting_kick_with_nothing_queued,
                idle_kick_makes_an_idle_cpu_look,
                head_arrives,
                several_inserts_from_one_dispatch,
                preempt_on_the_same_runqueue,
                preempt_is_lost_on_the_way_to_another_cpu,
                iteration_and_move,
                dispatch_buffer,
                vtime_order,
            }
            idle {
                select_cpu_and_stays_in_the_mask,
                select_cpu_and_finds_nothing_outside,
                select_cpu_and_tests_one_cpu_for_a_pinned_task,
                select_cpu_and_may_want_a_whole_core,
                select_cpu_and_wants_sense,
                idle_masks_are_per_node,
                default_search_goes_from_node_to_node,
                node_functions_and_their_mistakes,
                idle_masks_per_node_want_built_in_ones,
                synchronous_wakeup_looks_for_idle_cpus_in_the_machine,
                synchronous_wakeup_looks_for_idle_cpus_in_the_wakers_node,
            }
            waits {
                picking_the_same_task_ends_a_wait,
                the_next_task_ends_a_wait,
                higher_class_is_not_waited_for,
                idle_target_is_not_waited_for,
                no_wait_for_oneself,
                ring_of_waits_is_an_error,
            }
            affinity {
                consume_skips_pinned_tasks,
                local_on_refuses_a_forbidden_cpu,
                local_on_from_enqueue_refuses_too,
                select_cpu_answer_is_corrected,
                direct_dispatch_follows_the_correction,
                change_of_a_held_task,
                change_of_a_queued_task,
                change_of_the_running_task,
                global_queue_is_per_node,
            }
            classes {
                realtime_preempts_and_gives_back,
                realtime_preempts_a_used_up_slice,
                released_cpu_reenqueues,
                fifo_runs_to_its_end,
                rr_takes_turns,
                class_changes_at_run_time,
                nice_change_of_a_queued_task,
                nice_change_of_the_running_task,
                nice_change_of_a_sleeper,
                unchanged_attributes_are_no_change,
                nice_change_within_a_weight,
                cgroup_order,
                idle_cpu_asks_before_realtime,
                released_once_until_acquired,
            }
            errors {
                exits_by_the_scheduler,
                mistakes_end_the_scheduler,
                enq_last_needs_enqueue,
                stall_after_timeout_ms,
                timeout_ms_has_a_limit,
            }
            arithmetic {
                undefined_in_c_is_defined_in_bpf,
                answers_of_kernel_functions,
            }
            limits {
                many_cpus_and_tasks,
                many_simulations_at_once,
            }
        }
    };
}
