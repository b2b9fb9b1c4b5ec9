// SPDX-License-Identifier: GPL-2.0-or-later
//! Replays the records of a run as events to a sink.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};

use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, PrevState, SHELL_PREFIX, SwitchCause, TaskInfo, Tid,
    is_shells_name,
};

use super::record::{self, Description, Probe, Record, Rest, kind};

/// App of the kernel's own threads.
const KERNEL_APP: &str = "kernel";

/// The records of one run, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Number of the run among those of its job.
    pub run: usize,
    /// When the command started and ended, on the clock of the records.
    pub origin_ns: u64,
    pub end_ns: u64,
    /// Records that the kernel had no room for.
    pub lost: u64,
    found: Vec<(Record, Description)>,
    records: Vec<(Record, Rest)>,
}

/// Reads the runs of a stream, one after another; the last may be cut short, and then ends with its last record.
pub fn read_runs(stream: &mut impl Read, hear: &mut dyn FnMut(Trace)) -> io::Result<()> {
    let mut run = Trace::default();
    while let Some((record, rest)) = record::read(stream)? {
        match (record.kind, rest) {
            (kind::BEGIN, _) => (run.origin_ns, run.run) = (record.time_ns, record.tid as usize),
            (kind::END, _) => {
                run.end_ns = record.time_ns;
                run.lost = u64::from(record.other) << 32 | u64::from(record.tid);
                hear(std::mem::take(&mut run).sorted());
            }
            (kind::FOUND, Rest::Task(description)) => run.found.push((record, description)),
            (_, rest) => run.records.push((record, rest)),
        }
    }
    if run.origin_ns > 0 {
        let mut run = run.sorted();
        run.end_ns = run.records.last().map_or(run.origin_ns, |(r, _)| r.time_ns);
        hear(run);
    }
    Ok(())
}

impl Trace {
    /// As it travelled, what happened. Of a scheduler's
    /// probes also those from before the command, and those about tasks that are not known yet.
    pub fn records(&self) -> impl Iterator<Item = (&Record, &Rest)> {
        self.records.iter().map(|(record, rest)| (record, rest))
    }

    pub fn found(&self) -> impl Iterator<Item = (&Record, &Description)> {
        self.found.iter().map(|(record, rest)| (record, rest))
    }

    /// CPUs reserve their room in the ring before they look at the clock, so that neighbours may be out of order.
    fn sorted(mut self) -> Trace {
        self.records.sort_by_key(|(record, _)| record.time_ns);
        self
    }

    /// What each CPU had when the recording began: whatever it switches away from first.
    fn running_first(&self) -> Vec<(Tid, Cpu)> {
        let mut seen = BTreeMap::new();
        for (record, _) in &self.records {
            if record.kind == kind::SWITCH {
                seen.entry(record.cpu).or_insert(record.tid);
            }
        }
        let busy = seen.into_iter().filter(|(_, tid)| *tid != 0);
        busy.map(|(cpu, tid)| (Tid(tid), Cpu(cpu))).collect()
    }

    /// Sends `sink` all of it: first the existing tasks, as far as they were asleep, waiting or running.
    pub fn replay(&self, sink: &mut dyn EventSink) {
        let mut teller = Teller {
            sink,
            names: Names::new(&self.records),
            apps: HashMap::new(),
            introduced: HashSet::new(),
            probes: Vec::new(),
        };
        let begin_ns = self
            .records
            .first()
            .map_or(self.origin_ns, |(r, _)| r.time_ns);
        let begin_ns = begin_ns.min(self.origin_ns);
        for (record, description) in &self.found {
            teller.found(record, description, begin_ns);
        }
        for (record, cpu) in self.running_first() {
            teller.runs(record, cpu, begin_ns);
        }
        for (index, (record, rest)) in self.records.iter().enumerate() {
            if record.time_ns <= self.end_ns {
                teller.tell(index, record, rest);
            }
        }
    }
}

/// Names of processes: what they last became by exec. Known only from what comes later.
struct Names {
    /// By the index of the record of the fork that made the process.
    forked: HashMap<usize, String>,
    /// Of processes that were there already, by tgid.
    found: HashMap<u32, String>,
}

impl Names {
    fn new(records: &[(Record, Rest)]) -> Names {
        let mut forked = HashMap::new();
        let mut later: HashMap<u32, String> = HashMap::new();
        for (index, (record, rest)) in records.iter().enumerate().rev() {
            let Rest::Task(description) = rest else {
                continue;
            };
            match record.kind {
                kind::EXEC => {
                    later
                        .entry(record.tgid)
                        .or_insert_with(|| description.comm.clone());
                }
                kind::FORK if record.tid == record.tgid => {
                    if let Some(name) = later.remove(&record.tgid) {
                        forked.insert(index, name);
                    }
                }
                _ => {}
            }
        }
        Names {
            forked,
            found: later,
        }
    }
}

struct Teller<'a> {
    sink: &'a mut dyn EventSink,
    names: Names,
    /// App of each process.
    apps: HashMap<u32, String>,
    introduced: HashSet<u32>,
    /// Names of the scheduler's probes by their numbers.
    probes: Vec<String>,
}

impl Teller<'_> {
    fn found(&mut self, record: &Record, description: &Description, time_ns: u64) {
        let leader = record.tid == record.tgid;
        if leader {
            let name = self.names.found.remove(&record.tgid);
            self.apps
                .insert(record.tgid, name.unwrap_or_else(|| app(description)));
        }
        self.introduce(record, description, description.born_ns.min(time_ns));
        if record.detail == 1 {
            let (task, cpu) = (Tid(record.tid), Cpu(record.cpu));
            let kind = EventKind::WakeupNew { task, target: cpu };
            self.sink.event(&Event { time_ns, cpu, kind });
        }
    }

    fn runs(&mut self, next: Tid, cpu: Cpu, time_ns: u64) {
        let kind = EventKind::Switch {
            prev: Tid::IDLE,
            prev_state: PrevState::Runnable,
            cause: SwitchCause::FromIdle,
            next,
        };
        self.sink.event(&Event { time_ns, cpu, kind });
    }

    fn tell(&mut self, index: usize, record: &Record, rest: &Rest) {
        let task = Tid(record.tid);
        let kind = match (record.kind, rest) {
            (kind::SWITCH, _) => EventKind::Switch {
                prev: task,
                prev_state: state(record.detail & 0xff),
                cause: cause(record.detail >> 8),
                next: Tid(record.other),
            },
            (kind::WAKING, _) => EventKind::Wakeup {
                task,
                waker: Tid(record.other),
                target: Cpu(record.detail),
            },
            (kind::WAKEUP_NEW, _) => EventKind::WakeupNew {
                task,
                target: Cpu(record.detail),
            },
            (kind::MIGRATE, _) => EventKind::Migrate {
                task,
                from: Cpu(record.other),
                to: Cpu(record.detail),
            },
            (kind::NICE, _) => EventKind::Nice {
                task,
                nice: record.detail as i8,
            },
            (kind::EXIT, _) => {
                self.introduced.remove(&record.tid);
                EventKind::Exit { task }
            }
            (kind::FORK, Rest::Task(description)) => {
                if record.tid == record.tgid {
                    let app = match self.names.forked.remove(&index) {
                        Some(name) => name,
                        None => self.parents_app(record.other, description),
                    };
                    self.apps.insert(record.tgid, app);
                }
                self.introduce(record, description, record.time_ns);
                EventKind::Fork {
                    parent: Tid(record.other),
                    child: task,
                }
            }
            (kind::EXEC, Rest::Task(description)) => {
                return self.introduce(record, description, record.time_ns);
            }
            (kind::RENAME, Rest::Task(description)) => {
                // What a shell starts belongs to its application.
                if let Some(app) = description.comm.strip_prefix(SHELL_PREFIX) {
                    self.apps.insert(record.tgid, app.to_owned());
                }
                return self.introduce(record, description, record.time_ns);
            }
            // Schedulers see a new task before the kernel announces it.
            (kind::PROBE, Rest::Probe(probe))
                if !probe.per_cpu && !self.introduced.contains(&record.tid) =>
            {
                return;
            }
            (kind::PROBE, Rest::Probe(probe)) => EventKind::Probe {
                probe: self.probe(probe),
                key: record.tid,
                value: probe.value,
            },
            _ => return,
        };
        self.sink.event(&Event {
            time_ns: record.time_ns,
            cpu: Cpu(record.cpu),
            kind,
        });
    }

    /// The number of a probe; a new one is declared.
    fn probe(&mut self, probe: &Probe) -> u16 {
        let known = self.probes.iter().position(|name| *name == probe.name);
        known.unwrap_or_else(|| {
            let number = self.probes.len();
            self.sink
                .probe_name(number as u16, &probe.name, probe.per_cpu);
            self.probes.push(probe.name.clone());
            number
        }) as u16
    }

    /// A process that never becomes another program belongs to its parent's application.
    fn parents_app(&self, parent: u32, description: &Description) -> String {
        let of_parent = self.apps.get(&parent).cloned();
        of_parent.unwrap_or_else(|| app(description))
    }

    fn introduce(&mut self, record: &Record, description: &Description, born_ns: u64) {
        let of_process = self.apps.get(&record.tgid).cloned();
        let app = of_process.unwrap_or_else(|| app(description));
        self.introduced.insert(record.tid);
        self.sink.task(&TaskInfo {
            tid: Tid(record.tid),
            tgid: Tid(record.tgid),
            parent: Tid(record.other),
            name: description.comm.clone(),
            is_shell: is_shells_name(&description.comm, &app),
            app,
            nice: description.nice,
            born_ns,
        });
    }
}

fn app(description: &Description) -> String {
    match description.is_kernel {
        true => KERNEL_APP.to_owned(),
        false => description.comm.clone(),
    }
}

/// `enum tilt_state`
fn state(code: u32) -> PrevState {
    match code {
        0 => PrevState::Runnable,
        1 => PrevState::Sleeping,
        _ => PrevState::Exited,
    }
}

/// `enum tilt_cause`
fn cause(code: u32) -> SwitchCause {
    match code {
        0 => SwitchCause::Block,
        1 => SwitchCause::SliceEnd,
        2 => SwitchCause::Preempt,
        3 => SwitchCause::HigherClass,
        6 => SwitchCause::FromIdle,
        _ => SwitchCause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::EVENT_BYTES;

    /// The events that a sink receives, as text.
    #[derive(Default)]
    struct Heard(Vec<String>);

    impl EventSink for Heard {
        fn task(&mut self, info: &TaskInfo) {
            self.0
                .push(format!("{} {} of {}", info.tid, info.name, info.app));
        }
        fn event(&mut self, event: &Event) {
            let Event { time_ns, cpu, kind } = event;
            self.0.push(match kind {
                EventKind::Switch {
                    prev, next, cause, ..
                } => format!("{time_ns} cpu {cpu}: {prev} -> {next} {cause:?}"),
                EventKind::Wakeup {
                    task,
                    waker,
                    target,
                } => format!("{time_ns} cpu {cpu}: {waker} wakes {task} on {target}"),
                EventKind::WakeupNew { task, .. } => format!("{time_ns} cpu {cpu}: new {task}"),
                EventKind::Fork { parent, child } => format!("{time_ns}: {parent} makes {child}"),
                other => format!("{time_ns}: {other:?}"),
            });
        }
    }

    fn event(time_ns: u64, kind: u32, cpu: u32, tid: u32, other: u32, detail: u32) -> Vec<u8> {
        let tgid = tid / 10 * 10;
        Record {
            time_ns,
            kind,
            cpu,
            tid,
            other,
            detail,
            tgid,
        }
        .bytes()
        .to_vec()
    }

    fn task(time_ns: u64, kind: u32, tid: u32, parent: u32, detail: u32, comm: &str) -> Vec<u8> {
        let mut bytes = event(time_ns, kind, 0, tid, parent, detail);
        bytes.extend([0; 12]);
        bytes.extend(comm.as_bytes());
        bytes.resize(2 * EVENT_BYTES, 0);
        bytes
    }

    fn runs(stream: &[u8]) -> Vec<Trace> {
        let mut runs = Vec::new();
        read_runs(&mut &*stream, &mut |run| runs.push(run)).expect("memory can be read");
        runs
    }

    fn heard(trace: &Trace) -> Vec<String> {
        let mut heard = Heard::default();
        trace.replay(&mut heard);
        heard.0
    }

    #[test]
    fn a_run_is_told_in_order_and_processes_are_named_after_their_programs() {
        let stream = [
            task(5, kind::FOUND, 10, 0, 1, "init"),
            task(5, kind::FOUND, 20, 10, 0, "sleeper"),
            event(6, kind::BEGIN, 0, 3, 0, 0),
            task(7, kind::FORK, 30, 10, 0, "init"),
            event(7, kind::WAKEUP_NEW, 0, 30, 0, 1),
            // Two CPUs, out of order in the ring.
            event(12, kind::WAKING, 0, 20, 30, 1),
            event(9, kind::SWITCH, 1, 10, 30, 7 << 8),
            task(10, kind::EXEC, 30, 0, 0, "bench"),
            task(11, kind::RENAME, 20, 0, 0, "sh-app"),
            task(11, kind::FORK, 31, 30, 0, "bench"),
            task(11, kind::FORK, 50, 20, 0, "sh-app"),
            task(11, kind::FORK, 40, 30, 0, "bench"),
            event(20, kind::SWITCH, 1, 30, 20, 1),
            event(30, kind::END, 0, 2, 1, 0),
            event(31, kind::BEGIN, 0, 4, 0, 0),
        ]
        .concat();
        let runs = runs(&stream);
        let [run, cut] = &runs[..] else {
            panic!("{runs:?}")
        };
        assert_eq!((run.run, run.origin_ns, run.end_ns), (3, 6, 30));
        assert_eq!(run.lost, (1 << 32) + 2);
        assert_eq!((cut.run, cut.origin_ns, cut.end_ns), (4, 31, 31));
        assert_eq!(
            heard(run),
            [
                "10 init of init",
                "6 cpu 0: new 10",
                "20 sleeper of sleeper",
                "6 cpu 1: 0 -> 10 FromIdle",
                "30 init of bench",
                "7: 10 makes 30",
                "7 cpu 0: new 30",
                "9 cpu 1: 10 -> 30 Unknown",
                "30 bench of bench",
                "20 sh-app of app",
                "31 bench of bench",
                "11: 30 makes 31",
                "50 sh-app of app",
                "11: 20 makes 50",
                "40 bench of bench",
                "11: 30 makes 40",
                "12 cpu 0: 30 wakes 20 on 1",
                "20 cpu 1: 30 -> 20 Block",
            ]
        );
    }

    #[test]
    fn probes_of_tasks_that_are_known_are_told() {
        let probe = |tid: u64, time_ns| {
            let mut bytes = [0; record::PROBE_BYTES];
            bytes[..5].copy_from_slice(b"score");
            bytes[24..32].copy_from_slice(&tid.to_le_bytes());
            bytes[32] = 7;
            record::of_probe(&bytes, time_ns).to_vec()
        };
        let stream = [
            event(1, kind::BEGIN, 0, 0, 0, 0),
            probe(10, 2),
            task(2, kind::FORK, 10, 0, 0, "a"),
            probe(10, 3),
            event(4, kind::EXIT, 0, 10, 0, 0),
            probe(10, 5),
            event(8, kind::END, 0, 0, 0, 0),
        ]
        .concat();
        let told = heard(&runs(&stream)[0]);
        let probes: Vec<&String> = told.iter().filter(|t| t.contains("Probe")).collect();
        assert_eq!(probes, ["3: Probe { probe: 0, key: 10, value: 7 }"]);
    }

    #[test]
    fn nothing_after_the_end_is_told() {
        let stream = [
            event(1, kind::BEGIN, 0, 0, 0, 0),
            event(2, kind::EXIT, 0, 10, 0, 0),
            event(9, kind::EXIT, 0, 20, 0, 0),
            event(8, kind::END, 0, 0, 0, 0),
        ]
        .concat();
        assert_eq!(heard(&runs(&stream)[0]).len(), 1);
    }
}
