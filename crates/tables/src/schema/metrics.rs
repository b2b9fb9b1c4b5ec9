// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables of metrics.

use super::{Column, Spec, bool, int, maybe_int, table, text};

/// The columns of a `Latency` of the summary.
fn latency(of: &str) -> Vec<Column> {
    let figures = [
        ("count", "Number of values; if 0, the other columns are 0."),
        ("mean_ns", "Mean, exact."),
        ("p50_ns", "Median."),
        ("p90_ns", "90th percentile."),
        ("p99_ns", "99th percentile."),
        ("p999_ns", "99.9th percentile."),
        ("max_ns", "Maximum, exact."),
    ];
    let columns = figures.map(|(figure, about)| int(&format!("{of}_{figure}"), about));
    columns.into_iter().flatten().collect()
}

/// The columns of `Switches` of the summary.
fn switches() -> Vec<Column> {
    let causes = [
        (
            "block",
            "Switches because the task went to sleep or exited.",
        ),
        ("slice_end", "Switches because the slice ended."),
        ("preempt", "Preemptions: the slice had not ended."),
        (
            "higher_class",
            "Switches to a task of a higher scheduling class.",
        ),
        ("yield", "Switches by sched_yield."),
        (
            "affinity",
            "Switches because the task's affinity no longer allows the CPU.",
        ),
        ("from_idle", "Switches from the idle task."),
        (
            "unknown",
            "Switches whose cause the arena cannot determine.",
        ),
    ];
    let columns = causes.map(|(cause, about)| int(&format!("switches_{cause}"), about));
    columns.into_iter().flatten().collect()
}

pub fn specs() -> Vec<Spec> {
    let app = || text("app", "Application.");
    let tid = || int("tid", "Number of the task.");
    vec![
        table(
            "summary",
            "Metrics of the whole run, one row per run. All metrics cover the time from the origin to the end.",
            [
                int("duration_ns", "Time from origin to end."),
                int("starvation_ns", "Bound for starvation: longer waits count."),
                int(
                    "events",
                    "Number of events, including those before the origin.",
                ),
                int(
                    "irregular",
                    "Events that contradict earlier ones; 0 in the simulated machine.",
                ),
                int("migrations", "Number of moves between runqueues."),
                int(
                    "tasks_left_out",
                    "Tasks beyond the capacity of table `task`.",
                ),
                switches(),
            ],
        ),
        table(
            "app",
            "Tasks of one application. Its shell counts only in sums of times, switches, migrations, and in start and end.",
            [
                app(),
                int("tasks", "Number of tasks, without the shell."),
                int(
                    "started_ns",
                    "Creation of the first task; 0 if before the origin.",
                ),
                maybe_int(
                    "ended_ns",
                    "Exit of the last task; null while one is alive.",
                ),
                maybe_int(
                    "active_from_ns",
                    "First time one of them ran or waited; null: never.",
                ),
                maybe_int("active_until_ns", "Last time one of them ran or waited."),
                int("runtime_ns", "Time on a CPU."),
                int("wait_ns", "Time runnable but not on a CPU."),
                int("sleep_ns", "Remaining time."),
                int("overhead_ns", "Overhead contained in the runtime."),
                latency("wait"),
                latency("wakeup"),
                int(
                    "longest_wait_ns",
                    "Longest wait, including those still open at the end.",
                ),
                bool(
                    "longest_wait_cut",
                    "Whether that wait was still open at the end: a lower bound.",
                ),
                int(
                    "never_ran",
                    "Tasks that never ran, although they waited for a tenth of the run or longer.",
                ),
                int("starved_tasks", "Number of tasks starved at least once."),
                int("starved_episodes", "Number of starvation episodes."),
                int("starved_ns", "Total time starved."),
                switches(),
                int("migrations", "Number of moves between runqueues."),
                int(
                    "share_min_ppm",
                    "Smallest share of a task: runtime over lifetime.",
                ),
                int("share_median_ppm", "Median share."),
                int("share_max_ppm", "Largest share."),
                int(
                    "jain_ppm",
                    "Jain's fairness index of the shares; 1000000: all equal.",
                ),
            ],
        ),
        table(
            "task",
            "Single tasks, at most 4096 per run: those with the most runtime and wait.",
            [
                tid(),
                int("tgid", "Its process."),
                text("name", "Last value."),
                app(),
                int("nice", "Last value."),
                int("started_ns", "Creation; 0 if before the origin."),
                maybe_int("ended_ns", "Exit; null while alive."),
                int("lifetime_ns", "runtime + wait + sleep."),
                int("runtime_ns", "Time on a CPU."),
                int("wait_ns", "Time runnable but not on a CPU."),
                int("sleep_ns", "Remaining time."),
                int("overhead_ns", "Overhead contained in the runtime."),
                int("wakeups", "Number of wakeups."),
                latency("wakeup"),
                int(
                    "longest_wait_ns",
                    "Longest wait, including one still open at the end.",
                ),
                int("starved_episodes", "Number of starvation episodes."),
                int("starved_ns", "Total time starved."),
                switches(),
                int("migrations", "Number of moves between runqueues."),
            ],
        ),
        table(
            "request",
            "Classes of requests in the workload.",
            [
                text("class", "Name of the class."),
                text("app", "Application of the first task that issued one."),
                latency("latency"),
                int("first_begin_ns", "Start of the first request."),
                int("last_end_ns", "End of the last request."),
            ],
        ),
        table(
            "mark",
            "Marks of the workload.",
            [
                text("mark", "Name of the mark."),
                int("count", "Number of times it was passed."),
                int("first_ns", "First time."),
                int("last_ns", "Last time."),
            ],
        ),
        table(
            "cpu",
            "CPUs. busy + idle + overhead is the duration.",
            [
                int("cpu", "Number of the CPU."),
                int("busy_ns", "Time used by tasks."),
                int("idle_ns", "Idle time."),
                int("overhead_ns", "Time used by the machine and the scheduler."),
                maybe_int(
                    "wasted_ns",
                    "Part of the idle time in which a waiting task could have run here; null: unknown.",
                ),
                int("switches", "Number of context switches."),
                int(
                    "migrations_in",
                    "Tasks that arrived from another CPU's runqueue.",
                ),
            ],
        ),
        table(
            "latency_quantile",
            "Distributions of the latencies in `app` and `request`.",
            [
                text(
                    "latency",
                    "`wait` or `wakeup` of an application, or `request`.",
                ),
                text("name", "Application or request class."),
                int("ppm", "Quantile in millionths."),
                int("ns", "Value in ns."),
            ],
        ),
        table(
            "overhead_total",
            "CPU time used by the machine and the scheduler, by cause.",
            [text("cause", "As in `overhead`."), int("ns", "Time in ns.")],
        ),
        table(
            "preemption",
            "Preemptions by pairs of applications, most frequent first.",
            [
                text("by", "Application that took the CPU."),
                text("of", "Application that was preempted."),
                int("count", "Number of preemptions."),
            ],
        ),
        table(
            "task_preemption",
            "The most frequent preemptors of single tasks.",
            [
                int("tid", "Preempted task."),
                int("started_ns", "Creation of that task, as in `task`."),
                int("by_tid", "Preempting task."),
                int(
                    "count",
                    "Number of preemptions; approximate from the fifth preemptor on.",
                ),
            ],
        ),
        table(
            "starvation",
            "The longest waits beyond the bound, at most 32 per run, longest first.",
            [
                tid(),
                app(),
                int("begin_ns", "Start of the wait."),
                int("wait_ns", "Length of the wait."),
                bool("open", "The task was still waiting when the run ended."),
            ],
        ),
        table(
            "runtime",
            "Cumulative runtime of applications over time.",
            [
                app(),
                int(
                    "at_ns",
                    "Time; the first point is the origin, the last the end.",
                ),
                int("runtime_ns", "CPU time up to then."),
            ],
        ),
        table(
            "depth",
            "Tasks on runqueues over time, including the running one.",
            [
                int("cpu", "CPU of the runqueue."),
                int(
                    "begin_ns",
                    "Start of the bucket; the last ends with the run.",
                ),
                int("mean_milli", "Mean over time, in thousandths of a task."),
                int("max", "Maximum."),
                maybe_int("wasted_ns", "As in `cpu`, in this bucket."),
            ],
        ),
        table(
            "probe",
            "Probes of schedulers: totals.",
            [
                text("probe", "Name of the probe."),
                text("scope", "`app` (its tasks together), `task` or `cpu`."),
                text("name", "Application, tid or number of the CPU."),
                text("app", "Application of the task; empty for a CPU."),
                int("count", "Number of values."),
                int("first", "First value."),
                int("last", "Last value."),
                int("min", "Smallest value."),
                int("mean", "Mean over all values, not weighted by time."),
                int("max", "Largest value."),
                int("width_ns", "Width of the buckets in `probe_bucket`."),
            ],
        ),
        table(
            "probe_bucket",
            "Probes over time. Buckets without values of an application have no row.",
            [
                text("probe", "Name of the probe."),
                text("scope", "As in `probe`."),
                text("name", "As in `probe`."),
                text("app", "As in `probe`."),
                int("begin_ns", "Start of the bucket."),
                int("min", "Smallest value."),
                int("mean", "Mean of the values."),
                int("max", "Largest value."),
            ],
        ),
    ]
}
