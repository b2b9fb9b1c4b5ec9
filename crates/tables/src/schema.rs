// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables and the meaning of their columns; docs/reference/tables.md is generated from here.

mod metrics;

use std::sync::{Arc, LazyLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// All tables: runs, then events, then metrics.
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
pub enum ColumnKind {
    /// 64-bit signed even if values cannot be negative, because differences of unsigned values wrap.
    Int,
    /// 64-bit unsigned: seeds.
    Uint,
    Text,
    Bool,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: ColumnKind,
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
        specs.extend(metrics::specs());
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
            ColumnKind::Int => DataType::Int64,
            ColumnKind::Uint => DataType::UInt64,
            ColumnKind::Text => DataType::Utf8,
            ColumnKind::Bool => DataType::Boolean,
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

fn column(name: &str, kind: ColumnKind, nullable: bool, about: &'static str) -> Vec<Column> {
    vec![Column {
        name: name.to_owned(),
        kind,
        nullable,
        about,
    }]
}

fn int(name: &str, about: &'static str) -> Vec<Column> {
    column(name, ColumnKind::Int, false, about)
}

fn maybe_int(name: &str, about: &'static str) -> Vec<Column> {
    column(name, ColumnKind::Int, true, about)
}

fn text(name: &str, about: &'static str) -> Vec<Column> {
    column(name, ColumnKind::Text, false, about)
}

fn maybe_text(name: &str, about: &'static str) -> Vec<Column> {
    column(name, ColumnKind::Text, true, about)
}

fn bool(name: &str, about: &'static str) -> Vec<Column> {
    column(name, ColumnKind::Bool, false, about)
}

fn event_specs() -> Vec<Spec> {
    let ts = || {
        int(
            "ts",
            "Time in ns since the workload's origin; negative before it.",
        )
    };
    let begin = || {
        int(
            "ts",
            "Start in ns since the workload's origin; negative before it.",
        )
    };
    let dur = || int("dur", "Duration in ns; open intervals end with the run.");
    let id = || int("id", "Row number in order of start, from 0.");
    let utid = || int("utid", "The task; see `thread`.");
    vec![
        table(
            "run",
            "One row per run, with everything needed to repeat it.",
            [
                text("command", "Command that repeats the run."),
                text("arena", "`sim` or `kernel`."),
                text("tiltyard", "Version of Tiltyard."),
                text(
                    "workload",
                    "Name of the workload, or the command that ran in a real kernel.",
                ),
                maybe_text("workload_sha256", "Hash of the workload file."),
                text("machine", "Name of the machine."),
                maybe_text("machine_sha256", "Hash of the machine description."),
                text("scheduler", "Label of the scheduler in comparisons."),
                maybe_text(
                    "object_sha256",
                    "Hash of all inputs of the scheduler's object; null for the kernel's own scheduler.",
                ),
                text("tunables", "Tunables that were set, as a JSON object."),
                column(
                    "seed",
                    ColumnKind::Uint,
                    true,
                    "Seed of all random draws; null for a real kernel.",
                ),
                maybe_int(
                    "round",
                    "Round of the command, from 1; null for the simulated machine.",
                ),
                int("duration_ns", "Time from the origin to the end."),
                int("nr_cpus", "Number of CPUs."),
                maybe_text("trace_hash", "Hash of all events; null for a real kernel."),
                maybe_text("kernel", "Release of a real kernel."),
                int("lost_events", "Events that a real kernel could not record."),
            ],
        ),
        table(
            "process",
            "Processes (thread groups).",
            [
                int("upid", "Unique in the run, unlike `pid`. From 1."),
                int("pid", "The kernel's number, which it may reuse."),
                text("name", "Application of its first task."),
                int("start_ts", "Creation of its first task."),
                maybe_int("end_ts", "Exit of its last task; null while one is alive."),
                maybe_int("parent_upid", "Parent; null if unknown."),
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
                int("tid", "The kernel's number, which it may reuse."),
                int("upid", "Its process."),
                text("name", "Last value."),
                text("app", "Application of the task."),
                int("nice", "Last nice value; changes are in `nice_change`."),
                int("start_ts", "Creation."),
                maybe_int("end_ts", "Exit; null while alive."),
                bool("is_main_thread", "`tid` is the process's `pid`."),
                maybe_int("parent_utid", "Parent; null if unknown."),
            ],
        ),
        table(
            "sched_slice",
            "One row each time a task ran. Idle CPUs have no rows.",
            [
                id(),
                begin(),
                dur(),
                int("cpu", "CPU."),
                utid(),
                maybe_text(
                    "end_state",
                    "Next state: `R` still runnable, `R+` preempted, `S` sleeping, `X` exited; \
                     null at the end of the run.",
                ),
                maybe_text(
                    "switch_cause",
                    "Why it left the CPU: `block`, `slice_end`, `preempt`, `higher_class`, `yield`, `affinity`, \
                     `unknown`; null at the end of the run.",
                ),
                maybe_int("next_utid", "Next task on the CPU; null: none."),
                int(
                    "overhead_ns",
                    "Part of `dur` used by the machine and the scheduler.",
                ),
            ],
        ),
        table(
            "thread_state",
            "States of each task, without gaps from its creation on.",
            [
                id(),
                begin(),
                dur(),
                maybe_int("cpu", "CPU while running; else null."),
                utid(),
                text(
                    "state",
                    "`Running`, `R` waiting for a CPU, `R+` the same after a preemption, `S` sleeping, `X` exited.",
                ),
                maybe_int(
                    "waker_utid",
                    "For `R`: task that woke or forked it; null: a timer, or none.",
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
                    "Task that woke or forked it; null: a timer or a device.",
                ),
                int("cpu", "CPU on which the wakeup happened."),
                int("target_cpu", "CPU whose runqueue received the task."),
                bool("is_new", "First wakeup, after a fork."),
            ],
        ),
        table(
            "migration",
            "Moves of tasks between runqueues.",
            [
                ts(),
                utid(),
                int("from_cpu", "Old CPU."),
                int("to_cpu", "New CPU."),
            ],
        ),
        table(
            "nice_change",
            "Tasks whose nice value changed.",
            [ts(), utid(), int("nice", "New nice value.")],
        ),
        table(
            "overhead",
            "CPU time used by the machine and the scheduler.",
            [
                ts(),
                int("cpu", "CPU."),
                maybe_int("utid", "Task on the CPU; null: none."),
                text(
                    "cause",
                    "`switch`, `cache_refill`, `tick`, `wakeup`, `ipi` or `scheduler` (its callbacks).",
                ),
                int("ns", "Time in ns."),
            ],
        ),
        table(
            "slice",
            "Requests of the workload.",
            [
                int("id", "Row number in order of end, from 0."),
                begin(),
                int(
                    "dur",
                    "Duration in ns; 0 if the workload only counts requests.",
                ),
                utid(),
                text("name", "Class of the request."),
            ],
        ),
        table(
            "instant",
            "Marks of the workload.",
            [
                ts(),
                utid(),
                text("name", "Name of the mark."),
                text("kind", "`mark`."),
            ],
        ),
        table(
            "counter_track",
            "Subject of the values in `counter`: a scheduler's probe for one task or CPU.",
            [
                int("id", "Row number in order of the first value, from 0."),
                text("name", "Name of the probe."),
                maybe_int("utid", "The task; null for a probe of CPUs."),
                maybe_int("cpu", "The CPU; null for a probe of tasks."),
            ],
        ),
        table(
            "counter",
            "Values of probes. Each is valid until the next one of its track.",
            [
                int("id", "Row number in order of time, from 0."),
                ts(),
                int("track_id", "The track; see `counter_track`."),
                int("value", "Integer; Perfetto uses floating point."),
            ],
        ),
        table(
            "access",
            "Data that the scheduler's code read and wrote: one row for each visit of an element by a callback. A visit lasts until the callback turns to another element of the same place. Only for runs with `--accesses`.",
            [
                ts(),
                int("cpu", "CPU on which the callback ran."),
                int("call", "Number of the call into the scheduler, from 1."),
                text("callback", "The op, or `timer`."),
                text(
                    "place",
                    "A global variable or array of the scheduler, or `dsq`, `local_dsq`, `global_dsq`, `rq`.",
                ),
                int(
                    "element",
                    "Element: index in an array, id of a DSQ, CPU of a local DSQ or runqueue.",
                ),
                bool("write", "True: written; false: read."),
            ],
        ),
        table(
            "runqueue_lock",
            "Runqueue locks taken by a CPU, in order of time. Only for runs with `--accesses`.",
            [
                ts(),
                int("cpu", "CPU that took the lock."),
                int("of_cpu", "CPU whose runqueue was locked."),
                maybe_int(
                    "while_holding",
                    "Another runqueue that this CPU still held locked, if any.",
                ),
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
