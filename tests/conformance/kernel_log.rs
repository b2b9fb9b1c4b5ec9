// SPDX-License-Identifier: GPL-2.0-or-later
//! The log of a run in a guest, in the form of the cases: the workload's own tasks, from its start, in milliseconds.

use crate::arm::{End, EndKind, Entry, Log, MS, SHELL, TIME, What};
use std::collections::BTreeMap;
use tiltyard_kernel::trace::record::{Record, Rest, kind};
use tiltyard_kernel::{ExitInfo, KernelError, RunOutcome, RunReport, Trace};

/// An exact executor starts its tasks at a multiple of this.
const START_GRID_NS: u64 = 20_000_000;
/// And some time later has started the first ones.
const STARTING_NS: u64 = 350_000;
/// A kernel thread that was there long before the scheduler, as the shell is in the simulated machine.
const KTHREADD: u32 = 2;
/// The shell of the only application.
const SHELL_COMM: &str = "sh-app";

/// `trace` is missing where the scheduler was never loaded.
pub fn of_run(trace: Option<&Trace>, report: &RunReport) -> Log {
    let names = trace.map(names).unwrap_or_default();
    let mut log = Log {
        entries: Vec::new(),
        names,
        end: end(&report.outcome),
        is_exact: false,
    };
    if let Some(trace) = trace {
        let taken_out = log.end.kind != EndKind::Unregistered;
        Reader::new(trace, &mut log).read(trace, taken_out);
        leave_out_interludes(&mut log.entries);
    }
    log
}

pub fn of_a_dead_guest(error: &KernelError) -> Log {
    let end = End {
        kind: EndKind::Refused,
        code: 0,
        message: format!("the guest is no more: {error}"),
        time_ns: 0,
    };
    Log {
        entries: Vec::new(),
        names: BTreeMap::new(),
        end,
        is_exact: false,
    }
}

/// The shell and all that it and its descendants started, each by the name that it had last.
fn names(trace: &Trace) -> BTreeMap<u32, String> {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    for (record, rest) in trace.records() {
        let Rest::Task(description) = rest else {
            continue;
        };
        let name = match description.comm.as_str() {
            SHELL_COMM => SHELL,
            comm => comm,
        };
        let is_ours = match record.kind {
            kind::RENAME => name == SHELL || names.contains_key(&record.tid),
            kind::FORK => names.contains_key(&record.other),
            _ => false,
        };
        if is_ours {
            names.insert(record.tid, name.to_owned());
        }
    }
    names
}

/// When the workload started: when the shell, which sleeps until then, makes its first task.
fn start_ns(trace: &Trace, shell: u32) -> Option<u64> {
    let first_ns = trace.records().find_map(|(record, rest)| match rest {
        Rest::Task(child) if record.kind == kind::FORK && record.other == shell => {
            (child.comm != SHELL_COMM).then_some(record.time_ns)
        }
        _ => None,
    })?;
    Some(first_ns / START_GRID_NS * START_GRID_NS + STARTING_NS)
}

/// Strangers of the realtime class (RCU's thread is made one) take a CPU for some microseconds and give it back to who had
/// it: four calls, between which nothing of ours happens on that CPU.
fn leave_out_interludes(entries: &mut Vec<Entry>) {
    let call = |at: usize, entries: &[Entry]| match entries.get(at).map(|e| &e.what) {
        Some(What::Call {
            name, key, value, ..
        }) => (name.clone(), *key, *value),
        _ => (String::new(), 0, 0),
    };
    let mut at = 0;
    while at + 1 < entries.len() {
        let (stopping, task, runnable) = call(at, entries);
        let (release, cpu, _) = call(at + 1, entries);
        at += 1;
        if (stopping.as_str(), runnable, release.as_str()) != ("stopping", 1, "cpu_release") {
            continue;
        }
        let acquired = (at + 1..entries.len()).find(|i| {
            let (name, key, _) = call(*i, entries);
            name == "cpu_acquire" && key == cpu
        });
        let Some(acquired) = acquired else { return };
        let switched = entries[at..acquired]
            .iter()
            .any(|e| e.cpu == cpu && matches!(e.what, What::Switch { .. }));
        let (name, key, _) = call(acquired + 1, entries);
        if !switched && name == "running" && key == task {
            entries.drain(acquired..acquired + 2);
            entries.drain(at - 1..=at);
            at -= 1;
        }
    }
}

struct Reader<'a> {
    log: &'a mut Log,
    origin_ns: u64,
    /// When the command started: before, there is only the scheduler's loading.
    loaded_ns: u64,
    /// The scheduler's last word on what time it is.
    told_ns: u64,
    /// What each CPU has, strangers left out.
    running: BTreeMap<u32, u32>,
}

impl Reader<'_> {
    fn new<'a>(trace: &Trace, log: &'a mut Log) -> Reader<'a> {
        let shell = log.names.iter().find(|(_, name)| *name == SHELL);
        let origin_ns = shell.and_then(|(tid, _)| start_ns(trace, *tid));
        Reader {
            log,
            origin_ns: origin_ns.unwrap_or(u64::MAX),
            loaded_ns: trace.origin_ns,
            told_ns: 0,
            running: BTreeMap::new(),
        }
    }

    fn read(&mut self, trace: &Trace, taken_out: bool) {
        let told = trace.records().filter_map(|(_, rest)| match rest {
            Rest::Probe(probe) if probe.name == TIME => Some(probe.value as u64),
            _ => None,
        });
        let last_ns = told.last().unwrap_or(0);
        for (record, rest) in trace.records() {
            if !taken_out || record.time_ns <= last_ns {
                self.take(record, rest);
            }
        }
        if taken_out {
            self.log.end.time_ns = self.time_ns(last_ns);
        }
    }

    /// To the nearest millisecond: what the kernel does itself takes microseconds here.
    fn time_ns(&self, time_ns: u64) -> u64 {
        (time_ns.saturating_sub(self.origin_ns) + MS / 2) / MS * MS
    }

    fn take(&mut self, record: &Record, rest: &Rest) {
        let mut time_ns = record.time_ns;
        let what = match (record.kind, rest) {
            (kind::PROBE, Rest::Probe(probe)) if probe.name == TIME => {
                self.told_ns = probe.value as u64;
                return;
            }
            (kind::PROBE, Rest::Probe(probe)) => {
                time_ns = time_ns.max(self.told_ns);
                let key = match time_ns < self.loaded_ns && record.tid == KTHREADD {
                    true => self.witness(),
                    false => record.tid,
                };
                let start_ns = self.origin_ns - STARTING_NS;
                // Of what the executor does until then, only the workload's groups are of interest.
                let early =
                    (self.loaded_ns..start_ns).contains(&time_ns) && probe.name != "cgroup_init";
                let about_stranger = !probe.per_cpu && !self.is_ours(key);
                let of_stranger = probe.name == "dispatch"
                    && probe.value != 0
                    && !self.is_ours(probe.value as u32);
                if early || about_stranger || of_stranger {
                    return;
                }
                What::Call {
                    name: probe.name.clone(),
                    of_cpu: probe.per_cpu,
                    key,
                    value: probe.value,
                }
            }
            (kind::SWITCH, _) => match self.switch(record) {
                Some(what) => what,
                None => return,
            },
            (kind::EXIT, _) if self.is_ours(record.tid) => What::Exited { pid: record.tid },
            _ => return,
        };
        if matches!(what, What::Exited { .. }) && self.log.names[&record.tid] == SHELL {
            return;
        }
        self.log.entries.push(Entry {
            time_ns: self.time_ns(time_ns),
            cpu: record.cpu,
            what,
        });
    }

    /// Strangers take a CPU for some microseconds; to the cases it stays whose it was.
    fn switch(&mut self, record: &Record) -> Option<What> {
        let next = record.other;
        let prev = self.running.get(&record.cpu).copied().unwrap_or(0);
        let leaves_for_good = record.tid == prev && record.detail & 0xff != 0;
        if next != 0 && !self.is_ours(next) && !leaves_for_good {
            return None;
        }
        let next = if self.is_ours(next) { next } else { 0 };
        if next == prev {
            return None;
        }
        self.running.insert(record.cpu, next);
        Some(What::Switch { prev, next })
    }

    fn is_ours(&self, tid: u32) -> bool {
        self.log.names.contains_key(&tid)
    }

    /// The shell's number, or another one for a shell.
    fn witness(&mut self) -> u32 {
        self.log.names.entry(KTHREADD).or_insert(SHELL.to_owned());
        KTHREADD
    }
}

fn end(outcome: &RunOutcome) -> End {
    let (exit, reason) = match outcome {
        RunOutcome::NotLoaded { reason, exit, .. } => (exit.as_ref(), reason.as_str()),
        RunOutcome::Ran { exit, .. } => (exit.as_ref(), "the scheduler keeps no record"),
    };
    let refused = || (EndKind::Refused, 0, reason.to_owned());
    let kind = |exit: &ExitInfo| match (outcome, kind_of(exit)) {
        (RunOutcome::NotLoaded { .. }, EndKind::Error) => EndKind::Refused,
        (_, kind) => kind,
    };
    let said = |exit: &ExitInfo| (kind(exit), exit.exit_code, exit.msg.clone());
    let (kind, code, message) = exit.map_or_else(refused, said);
    End {
        kind,
        code,
        message,
        time_ns: 0,
    }
}

fn kind_of(exit: &ExitInfo) -> EndKind {
    match exit.kind_name.as_str() {
        "SCX_EXIT_NONE" | "SCX_EXIT_UNREG" => EndKind::Unregistered,
        "SCX_EXIT_UNREG_BPF" => EndKind::ByScheduler,
        "SCX_EXIT_ERROR" => EndKind::Error,
        "SCX_EXIT_ERROR_BPF" => EndKind::SchedulerError,
        "SCX_EXIT_ERROR_STALL" => EndKind::Stall,
        _ => EndKind::Refused,
    }
}
