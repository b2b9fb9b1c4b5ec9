// SPDX-License-Identifier: GPL-2.0-or-later
//! Cases that the kernel's arm does not run. README.md has the same list.

/// What never happens in a kernel, or not in these guests, and why.
pub const NOT_HERE: &[(&str, &str)] = &[
    (
        "waits::ring_of_waits_is_an_error",
        "the error is the simulator's own: a kernel's CPUs would hang",
    ),
    (
        "sleep_wake::exiting_tasks_pass_the_scheduler_by",
        "real threads notify their parent before they exit, not during the exit",
    ),
    (
        "idle::synchronous_wakeup_looks_for_idle_cpus_in_the_machine",
        "6.18 looks in masks that are kept only with masks per node; corrected in 7.0",
    ),
    ("limits::many_cpus_and_tasks", "no guest has 300 CPUs"),
    (
        "limits::many_simulations_at_once",
        "it is about the simulator's own state",
    ),
];
