// SPDX-License-Identifier: GPL-2.0-or-later
//! Cases that the kernel's arm does not run. The same stands in README.md.

type Table = &'static [(&'static str, &'static str)];

/// What never happens in a kernel, or not in these guests, and why.
pub const NOT_HERE: Table = &[
    (
        "waits::ring_of_waits_is_an_error",
        "the error is the simulator's own: a kernel's CPUs would hang",
    ),
    (
        "sleep_wake::exiting_tasks_pass_the_scheduler_by",
        "real threads tell their parent before they exit, not while they do",
    ),
    ("limits::many_cpus_and_tasks", "no guest has 300 CPUs"),
    (
        "limits::many_simulations_at_once",
        "it is about the simulator's own state",
    ),
];

const SLOW_BIRTHS: &str =
    "starting 42 tasks takes milliseconds, and ops.dispatch is asked at other times than expected";

/// What was seen instead, where nobody has found out why so far.
pub const NOT_YET: Table = &[
    (
        "affinity::global_queue_is_per_node",
        "X starts where its shell is, on node 1 in some guests and on node 0 in others",
    ),
    (
        "idle::idle_masks_are_per_node",
        "CPUs 1 and 3 are never both among those found idle",
    ),
    (
        "idle::node_functions_and_their_mistakes",
        "passes or fails with what ran before it: node 1 has one idle CPU where there should be two, as above",
    ),
    (
        "sleep_wake::claimed_cpu_is_lost_until_kicked",
        "the kernel's own threads come and go on CPU 1, which makes it idle again",
    ),
    (
        "sleep_wake::idle_search_stays_in_the_cache",
        "CPU 1 was chosen, not 3; whether the guest's kernel sees two caches nobody has looked",
    ),
    (
        "classes::cgroup_order",
        "the executor makes its groups after the scheduler is loaded, and one level further down",
    ),
    ("slices::dispatch_is_asked_32_times_at_most", SLOW_BIRTHS),
    ("slices::idle_cpu_asks_again_after_32_times", SLOW_BIRTHS),
    ("slices::dropped_entries_count", SLOW_BIRTHS),
    (
        "classes::released_cpu_reenqueues",
        "stopping, cpu_release, and no enqueue: the task stays in its local queue",
    ),
];
