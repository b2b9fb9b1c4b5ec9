// SPDX-License-Identifier: GPL-2.0-or-later
//! What tables there are, and what their columns mean: docs/reference/tables.md is printed from here.

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// All tables: what runs they are of, their events, their figures.
pub const NAMES: [&str; 30] = [
    "run",
    "process",
    "thread",
    "sched_slice",
    "thread_state",
    "wakeup",
    "migration",
    "nice_change",
    "overhead",
    "slice",
    "instant",
    "counter_track",
    "counter",
    "access",
    "runqueue_lock",
    "summary",
    "app",
    "task",
    "request",
    "mark",
    "cpu",
    "latency_quantile",
    "overhead_total",
    "preemption",
    "task_preemption",
    "starvation",
    "runtime",
    "depth",
    "probe",
    "probe_bucket",
];

/// Whether a table of [`NAMES`] holds events, which only [`crate::EventTables`] makes.
pub fn is_of_events(table: &str) -> bool {
    let events = NAMES.iter().skip(1).take_while(|name| **name != "summary");
    events.into_iter().any(|name| *name == table)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit signed, also where values cannot be negative: differences of unsigned ones surprise.
    Int,
    /// 64-bit unsigned: seeds.
    Uint,
    Text,
    Bool,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub nullable: bool,
    pub about: &'static str,
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub columns: Vec<Column>,
}

/// All tables, in the order of [`NAMES`].
pub fn specs() -> &'static [Spec] {
    static SPECS: LazyLock<Vec<Spec>> = LazyLock::new(|| {
        let mut specs = event_specs();
        specs.extend(summary_specs());
        specs
    });
    &SPECS
}

pub(crate) fn spec(table: &str) -> &'static Spec {
    let known = specs().iter().find(|spec| spec.name == table);
    known.unwrap_or_else(|| panic!("no table \"{table}\""))
}

/// The Arrow schema of a table of [`NAMES`]; panics at any other.
pub fn schema(table: &str) -> SchemaRef {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Int => DataType::Int64,
            Kind::Uint => DataType::UInt64,
            Kind::Text => DataType::Utf8,
            Kind::Bool => DataType::Boolean,
        };
        Field::new(&column.name, kind, column.nullable)
    };
    let fields: Vec<Field> = spec(table).columns.iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

fn table<const N: usize>(
    name: &'static str,
    about: &'static str,
    columns: [Vec<Column>; N],
) -> Spec {
    let mut all = int("run", "Index of the run in the table `run`.");
    all.extend(columns.into_iter().flatten());
    Spec {
        name,
        about,
        columns: all,
    }
}

fn column(name: &str, kind: Kind, nullable: bool, about: &'static str) -> Vec<Column> {
    vec![Column {
        name: name.to_owned(),
        kind,
        nullable,
        about,
    }]
}

fn int(name: &str, about: &'static str) -> Vec<Column> {
    column(name, Kind::Int, false, about)
}

fn maybe_int(name: &str, about: &'static str) -> Vec<Column> {
    column(name, Kind::Int, true, about)
}

fn text(name: &str, about: &'static str) -> Vec<Column> {
    column(name, Kind::Text, false, about)
}

fn maybe_text(name: &str, about: &'static str) -> Vec<Column> {
    column(name, Kind::Text, true, about)
}

fn bool(name: &str, about: &'static str) -> Vec<Column> {
    column(name, Kind::Bool, false, about)
}

/// The columns of a `Latency` of the summary.
fn latency(of: &str) -> Vec<Column> {
    let figures = [
        (
            "count",
            "How many there were; the others are 0 without any.",
        ),
        ("mean_ns", "Exact."),
        ("p50_ns", "Half of them took no longer."),
        ("p90_ns", "90 %."),
        ("p99_ns", "99 %."),
        ("p999_ns", "99.9 %."),
        ("max_ns", "Exact."),
    ];
    let columns = figures.map(|(figure, about)| int(&format!("{of}_{figure}"), about));
    columns.into_iter().flatten().collect()
}

/// The columns of `Switches` of the summary.
fn switches() -> Vec<Column> {
    let causes = [
        ("block", "It went to sleep or exited."),
        ("slice_end", "Its slice was used up."),
        ("preempt", "Another task took the CPU while slice was left."),
        (
            "higher_class",
            "A task of a higher scheduling class took the CPU.",
        ),
        ("yield", "It gave the CPU away."),
        ("affinity", "It may no longer run there."),
        ("from_idle", "The CPU was idle before."),
        ("unknown", "The arena cannot tell."),
    ];
    let columns = causes.map(|(cause, about)| int(&format!("switches_{cause}"), about));
    columns.into_iter().flatten().collect()
}

fn event_specs() -> Vec<Spec> {
    let ts = || {
        int(
            "ts",
            "When, in ns from the workload's origin; negative before.",
        )
    };
    let begin = || {
        int(
            "ts",
            "When it began, in ns from the workload's origin; negative before.",
        )
    };
    let dur = || {
        int(
            "dur",
            "How long, in ns; what is open at the end of the run lasts until then.",
        )
    };
    let id = || int("id", "Numbered by begin, from 0.");
    let utid = || int("utid", "The task, in `thread`.");
    vec![
        table(
            "run",
            "What was run, one row a run. Everything needed to repeat it.",
            [
                text("command", "Repeats it."),
                text("arena", "`sim` or `kernel`."),
                text("tiltyard", "Version of Tiltyard."),
                text(
                    "workload",
                    "Its name, or the command that ran under a real kernel.",
                ),
                maybe_text("workload_sha256", "Of its file."),
                text("machine", "Name of the machine."),
                maybe_text("machine_sha256", "Of its description as typed or read."),
                text("scheduler", "Its label in comparisons."),
                maybe_text(
                    "object_sha256",
                    "Of all that its object was built from; null for the kernel's own.",
                ),
                text("tunables", "What was set, a JSON object."),
                column(
                    "seed",
                    Kind::Uint,
                    true,
                    "Of all random draws; null for a real kernel.",
                ),
                maybe_int(
                    "round",
                    "Which round of the command, from 1; null for the simulated machine.",
                ),
                int("duration_ns", "From the origin to the end."),
                int("nr_cpus", "CPUs of the machine."),
                maybe_text("trace_hash", "Of all events; null for a real kernel."),
                maybe_text("kernel", "Release of a real kernel."),
                int("lost_events", "Events that a real kernel could not record."),
            ],
        ),
        table(
            "process",
            "Processes (thread groups).",
            [
                int("upid", "Unique in the run, unlike `pid`. From 1."),
                int("pid", "The kernel's number, which may come again."),
                text("name", "The app of its first task."),
                int("start_ts", "Birth of its first task."),
                maybe_int("end_ts", "Death of its last task; null while one lives."),
                maybe_int("parent_upid", "Null where the parent is not known."),
            ],
        ),
        table(
            "thread",
            "Tasks. Rows refer to them by `utid`.",
            [
                int(
                    "utid",
                    "Unique in the run, unlike `tid`. From 1: 0 is Perfetto's idle task.",
                ),
                int("tid", "The kernel's number, which may come again."),
                int("upid", "Its process."),
                text("name", "The last one it had."),
                text("app", "The application it belongs to."),
                int(
                    "nice",
                    "The last one it had; `nice_change` tells of changes.",
                ),
                int("start_ts", "Birth."),
                maybe_int("end_ts", "Death; null while it lives."),
                bool("is_main_thread", "`tid` is the process's `pid`."),
                maybe_int("parent_utid", "Null where the parent is not known."),
            ],
        ),
        table(
            "sched_slice",
            "One row each time a task ran. Idle CPUs have no rows.",
            [
                id(),
                begin(),
                dur(),
                int("cpu", "Where."),
                utid(),
                maybe_text(
                    "end_state",
                    "What it did next: `R` stays runnable, `R+` was preempted, `S` sleeps, `X` exited; \
                     null at the end of the run.",
                ),
                maybe_text(
                    "switch_cause",
                    "Why it left the CPU: `block`, `slice_end`, `preempt`, `higher_class`, `yield`, `affinity`, \
                     `unknown`; null at the end of the run.",
                ),
                maybe_int("next_utid", "The task that followed; null: none."),
                int(
                    "overhead_ns",
                    "Part of `dur` that the machine and the scheduler took.",
                ),
            ],
        ),
        table(
            "thread_state",
            "What each task did, from birth on without gaps.",
            [
                id(),
                begin(),
                dur(),
                maybe_int("cpu", "Where, while it runs; else null."),
                utid(),
                text(
                    "state",
                    "`Running`, `R` waits for a CPU, `R+` the same after a preemption, `S` sleeps, `X` is dead.",
                ),
                maybe_int(
                    "waker_utid",
                    "Of an `R`: who woke or forked it; null: a timer, or nobody.",
                ),
            ],
        ),
        table(
            "wakeup",
            "Sleeping tasks that became runnable.",
            [
                ts(),
                utid(),
                maybe_int(
                    "waker_utid",
                    "Who woke or forked it; null: a timer or a device.",
                ),
                int("cpu", "Where that happened."),
                int("target_cpu", "Whose runqueue got the task."),
                bool("is_new", "The first one after a fork."),
            ],
        ),
        table(
            "migration",
            "Tasks that changed their runqueue.",
            [
                ts(),
                utid(),
                int("from_cpu", "The old one."),
                int("to_cpu", "The new one."),
            ],
        ),
        table(
            "nice_change",
            "Tasks whose nice value changed.",
            [ts(), utid(), int("nice", "The new one.")],
        ),
        table(
            "overhead",
            "Time that the machine and the scheduler took from a CPU.",
            [
                ts(),
                int("cpu", "Where."),
                maybe_int("utid", "The task that had the CPU; null: none."),
                text(
                    "cause",
                    "`switch`, `cache_refill`, `tick`, `wakeup`, `ipi` or `scheduler` (its callbacks).",
                ),
                int("ns", "How much."),
            ],
        ),
        table(
            "slice",
            "Requests of the workload.",
            [
                int("id", "Numbered by end, from 0."),
                begin(),
                int(
                    "dur",
                    "How long, in ns; 0 where the workload only counts them.",
                ),
                utid(),
                text("name", "Its class."),
            ],
        ),
        table(
            "instant",
            "Moments that the workload names.",
            [
                ts(),
                utid(),
                text("name", "The mark."),
                text("kind", "`mark`."),
            ],
        ),
        table(
            "counter_track",
            "What the values of `counter` are of: a probe of a scheduler at one task or CPU.",
            [
                int("id", "Numbered by first value, from 0."),
                text("name", "The probe."),
                maybe_int("utid", "The task; null for a probe of CPUs."),
                maybe_int("cpu", "The CPU; null for a probe of tasks."),
            ],
        ),
        table(
            "counter",
            "Values of probes. Each holds until the next of its track.",
            [
                int("id", "Numbered by time, from 0."),
                ts(),
                int("track_id", "In `counter_track`."),
                int("value", "Whole, where Perfetto has floating point."),
            ],
        ),
        table(
            "access",
            "What the scheduler's code read and wrote, once for each callback. Only of runs with `--accesses`.",
            [
                ts(),
                int("cpu", "Where the callback ran."),
                int("call", "Which call into the scheduler, counted from 1."),
                text("callback", "The op, or `timer`."),
                text(
                    "place",
                    "A global variable or array of the scheduler, or `dsq`, `local_dsq`, `global_dsq`, `rq`.",
                ),
                int(
                    "element",
                    "Which one: index in an array, id of a DSQ, CPU of a local DSQ or a runqueue.",
                ),
                bool("write", "Written; else read."),
            ],
        ),
        table(
            "runqueue_lock",
            "Runqueue locks that a CPU took, in the order of time. Only of runs with `--accesses`.",
            [
                ts(),
                int("cpu", "Who took it."),
                int("of_cpu", "Whose runqueue it is of."),
                maybe_int(
                    "while_holding",
                    "The runqueue that it had locked before and had not let go of, if any.",
                ),
            ],
        ),
    ]
}

fn summary_specs() -> Vec<Spec> {
    let app = || text("app", "The application.");
    let tid = || int("tid", "The task's number.");
    vec![
        table(
            "summary",
            "Figures of a run as a whole, one row a run. All figures cover the time from the origin to the end.",
            [
                int("duration_ns", "Origin to end."),
                int("starvation_ns", "What counts as starvation: a longer wait."),
                int("events", "Events heard, those before the origin included."),
                int(
                    "irregular",
                    "Events that contradict what was known; 0 in the simulated machine.",
                ),
                int("migrations", "Changes of runqueues."),
                int(
                    "tasks_left_out",
                    "Tasks that the table `task` has no room for.",
                ),
                switches(),
            ],
        ),
        table(
            "app",
            "The tasks of one application together.",
            [
                app(),
                int("tasks", "How many."),
                int(
                    "started_ns",
                    "Birth of the first; 0 for one older than the origin.",
                ),
                maybe_int("ended_ns", "Death of the last; null while one lives."),
                maybe_int(
                    "active_from_ns",
                    "When one first ran or waited; null: never.",
                ),
                maybe_int("active_until_ns", "When one last did."),
                int("runtime_ns", "On a CPU."),
                int("wait_ns", "Runnable and not on a CPU."),
                int("sleep_ns", "Neither."),
                int("overhead_ns", "Part of the runtime."),
                latency("wait"),
                latency("wakeup"),
                int(
                    "longest_wait_ns",
                    "Of all, those that are open at the end included.",
                ),
                int("starved_tasks", "Tasks that were starved at least once."),
                int("starved_episodes", "How often."),
                int("starved_ns", "For how long."),
                switches(),
                int("migrations", "Changes of runqueues."),
                int(
                    "share_min_ppm",
                    "The smallest share of a task: its runtime over its lifetime.",
                ),
                int("share_median_ppm", "The middle one."),
                int("share_max_ppm", "The largest."),
                int(
                    "jain_ppm",
                    "Jain's index of the shares; 1000000: all equal.",
                ),
            ],
        ),
        table(
            "task",
            "Single tasks, at most 4096 of a run: those with the most runtime and wait.",
            [
                tid(),
                int("tgid", "Its process."),
                text("name", "The last one it had."),
                app(),
                int("nice", "The last one it had."),
                int("started_ns", "Birth; 0 for one older than the origin."),
                maybe_int("ended_ns", "Death; null while it lives."),
                int("lifetime_ns", "runtime + wait + sleep."),
                int("runtime_ns", "On a CPU."),
                int("wait_ns", "Runnable and not on a CPU."),
                int("sleep_ns", "Neither."),
                int("overhead_ns", "Part of the runtime."),
                int("wakeups", "How often it was woken."),
                latency("wakeup"),
                int("longest_wait_ns", "An open one at the end included."),
                int("starved_episodes", "How often it was starved."),
                int("starved_ns", "For how long."),
                switches(),
                int("migrations", "Changes of its runqueue."),
            ],
        ),
        table(
            "request",
            "Classes of requests that the workload names.",
            [
                text("class", "The name."),
                text("app", "The application of the first task that made one."),
                latency("latency"),
                int("first_begin_ns", "Begin of the first."),
                int("last_end_ns", "End of the last."),
            ],
        ),
        table(
            "mark",
            "Marks that the workload names.",
            [
                text("mark", "The name."),
                int("count", "How often it was passed."),
                int("first_ns", "The first time."),
                int("last_ns", "The last time."),
            ],
        ),
        table(
            "cpu",
            "CPUs: busy + idle + overhead is the duration.",
            [
                int("cpu", "Its number."),
                int("busy_ns", "A task had it."),
                int("idle_ns", "No task had it."),
                int("overhead_ns", "The machine and the scheduler had it."),
                int("switches", "How often it changed hands."),
                int(
                    "migrations_in",
                    "Tasks that came from another CPU's runqueue.",
                ),
            ],
        ),
        table(
            "latency_quantile",
            "Distributions behind the latencies of `app` and `request`.",
            [
                text("latency", "`wait` or `wakeup` of an app, or `request`."),
                text("name", "The app, or the class of requests."),
                int("ppm", "Which quantile, in millionths."),
                int("ns", "Its value."),
            ],
        ),
        table(
            "overhead_total",
            "Time taken from CPUs, by cause.",
            [text("cause", "As in `overhead`."), int("ns", "How much.")],
        ),
        table(
            "preemption",
            "Which application took the CPU from which, most frequent first.",
            [
                text("by", "Who took it."),
                text("of", "Who had it and would have run on."),
                int("count", "How often."),
            ],
        ),
        table(
            "task_preemption",
            "Who preempted single tasks most.",
            [
                int("tid", "Who had the CPU."),
                int("started_ns", "Its birth, as in `task`."),
                int("by_tid", "Who took it."),
                int("count", "How often; approximate from the fifth rival on."),
            ],
        ),
        table(
            "starvation",
            "The longest waits beyond the bound, at most 32 of a run, longest first.",
            [
                tid(),
                app(),
                int("begin_ns", "Begin of the wait."),
                int("wait_ns", "Its length."),
                bool("open", "It still waited when the run ended."),
            ],
        ),
        table(
            "runtime",
            "Cumulative runtime of applications over time.",
            [
                app(),
                int(
                    "at_ns",
                    "When; the first point is the origin, the last the end.",
                ),
                int("runtime_ns", "CPU time until then."),
            ],
        ),
        table(
            "depth",
            "Tasks on runqueues over time, the running one included.",
            [
                int("cpu", "Whose runqueue."),
                int(
                    "begin_ns",
                    "Begin of the bucket; the last ends with the run.",
                ),
                int("mean_milli", "Mean over time, in thousandths of a task."),
                int("max", "The most."),
            ],
        ),
        table(
            "probe",
            "What schedulers tell of themselves: totals.",
            [
                text("probe", "The figure."),
                text(
                    "scope",
                    "Of what: `app` (its tasks together), `task` or `cpu`.",
                ),
                text("name", "The app, the tid or the CPU's number."),
                text("app", "The app of a task; empty for a CPU."),
                int("count", "How many values."),
                int("first", "The first."),
                int("last", "The last."),
                int("min", "The smallest."),
                int("mean", "Of all, each counted once, however long it held."),
                int("max", "The largest."),
                int("width_ns", "Width of its buckets in `probe_bucket`."),
            ],
        ),
        table(
            "probe_bucket",
            "The same over time. Buckets in which nothing was heard of an app have no row.",
            [
                text("probe", "The figure."),
                text("scope", "As in `probe`."),
                text("name", "As in `probe`."),
                text("app", "As in `probe`."),
                int("begin_ns", "Begin of the bucket."),
                int("min", "The smallest value."),
                int("mean", "Their mean."),
                int("max", "The largest."),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_tables() {
        let names: Vec<&str> = specs().iter().map(|spec| spec.name).collect();
        assert_eq!(names, NAMES);
    }
}
