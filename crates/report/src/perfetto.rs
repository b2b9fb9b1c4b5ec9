// SPDX-License-Identifier: GPL-2.0-or-later
//! A trace for Perfetto's UI and SQL: a sink that writes events as they come.
//!
//! Scheduling events become ftrace events in bundles per CPU, as from a traced kernel. Queue depths and
//! probes become counter tracks, requests slices and marks instants on tracks of their tasks, what schedulers print instants on
//! a track of the CPU. Overhead
//! events are not written: the format has no event for time that a CPU loses within a task.

mod wire;

use std::collections::BTreeSet;
use std::io::{self, Write};
use tiltyard_model::{Cpu, Event, EventKind, EventSink, PrevState, SwitchCause, TaskInfo, Tid};
use wire::Message;

/// Field numbers of the official schema (perfetto_trace.proto), message by message.
mod field {
    pub const TRACE_PACKET: u32 = 1;
    pub mod packet {
        pub const FTRACE_EVENTS: u32 = 1;
        pub const PROCESS_TREE: u32 = 2;
        pub const TIMESTAMP: u32 = 8;
        pub const SEQUENCE_ID: u32 = 10;
        pub const TRACK_EVENT: u32 = 11;
        pub const SEQUENCE_FLAGS: u32 = 13;
        pub const SYSTEM_INFO: u32 = 45;
        pub const TRACK_DESCRIPTOR: u32 = 60;
    }
    pub mod bundle {
        pub const CPU: u32 = 1;
        pub const EVENT: u32 = 2;
    }
    pub mod ftrace {
        pub const TIMESTAMP: u32 = 1;
        pub const PID: u32 = 2;
        pub const SCHED_SWITCH: u32 = 4;
        pub const SCHED_WAKING: u32 = 20;
        pub const SCHED_WAKEUP_NEW: u32 = 114;
        pub const SCHED_PROCESS_EXIT: u32 = 238;
        pub const SCHED_PROCESS_FORK: u32 = 239;
        pub const SCHED_MIGRATE_TASK: u32 = 491;
    }
    pub mod tree {
        pub const PROCESSES: u32 = 1;
        pub const THREADS: u32 = 2;
    }
    pub mod track {
        pub const UUID: u32 = 1;
        pub const NAME: u32 = 2;
        pub const THREAD: u32 = 4;
        pub const PARENT_UUID: u32 = 5;
        pub const COUNTER: u32 = 8;
    }
    pub mod track_event {
        pub const TYPE: u32 = 9;
        pub const TRACK_UUID: u32 = 11;
        pub const NAME: u32 = 23;
        pub const COUNTER_VALUE: u32 = 30;
    }
}

/// TrackEvent.Type of the schema.
mod event_type {
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

/// All track packets belong to one writer sequence; its first packet clears the incremental state.
const SEQUENCE: u64 = 1;
const INCREMENTAL_STATE_CLEARED: u64 = 1;

/// The kernel whose numbers the events use. Without it readers take `prev_state` for that of an old kernel.
const RELEASE: &str = "6.18.0";

/// Linux's kthreadd. Perfetto takes its children for kernel threads; in a simulated machine it is any task.
const KTHREADD: u32 = 2;

/// What Linux's sched_switch prints as prev_state, from 4.14 on.
mod prev_state {
    pub const RUNNING: i64 = 0;
    pub const SLEEPING: i64 = 1;
    pub const DEAD: i64 = 0x10;
    /// Still runnable, preempted: "R+".
    pub const PREEMPTED: i64 = 0x100;
}

/// A nice value n has the kernel priority 120 + n.
const DEFAULT_PRIO: i64 = 120;

/// Encoded events gathered per CPU before they go out as one bundle.
const BUNDLE_BYTES: usize = 8 * 1024;

/// What the writer knows of a task.
#[derive(Clone, Debug)]
struct Known {
    comm: String,
    tgid: u32,
    prio: i64,
    /// The runqueue whose depth counts it.
    queued_on: Option<Cpu>,
}

/// Writes a trace to `W` while events come. An error of `W` stops the writing and comes out of
/// [`Writer::finish`].
pub struct Writer<W: Write> {
    out: W,
    error: Option<io::Error>,
    bundles: Vec<Vec<u8>>,
    tasks: Vec<Option<Known>>,
    depth: Vec<i64>,
    classes: Vec<String>,
    probes: Vec<(String, bool)>,
    declared: BTreeSet<u64>,
    sequence_begun: bool,
}

/// Track ids: the kind in the upper half, the CPU or tid in the lower.
fn depth_track(cpu: Cpu) -> u64 {
    1 << 32 | u64::from(cpu.0)
}
fn thread_track(tid: Tid) -> u64 {
    2 << 32 | u64::from(tid.0)
}
fn request_track(tid: Tid) -> u64 {
    3 << 32 | u64::from(tid.0)
}
fn printk_track(cpu: Cpu) -> u64 {
    4 << 32 | u64::from(cpu.0)
}
fn probe_track(probe: u16, key: u32) -> u64 {
    (16 + u64::from(probe)) << 32 | u64::from(key)
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, nr_cpus: usize) -> Self {
        let mut writer = Writer {
            out,
            error: None,
            bundles: vec![Vec::new(); nr_cpus],
            tasks: Vec::new(),
            depth: vec![0; nr_cpus],
            classes: Vec::new(),
            probes: Vec::new(),
            declared: BTreeSet::new(),
            sequence_begun: false,
        };
        writer.system();
        writer
    }

    /// Declares the kernel whose event formats are used.
    fn system(&mut self) {
        let mut utsname = Message::new();
        utsname.str(1, "Linux").str(3, RELEASE);
        let mut info = Message::new();
        info.message(1, &utsname);
        let mut packet = Message::new();
        packet.message(field::packet::SYSTEM_INFO, &info);
        self.packet(&packet);
    }

    /// Writes what is gathered and gives the output back, or the first error it had.
    pub fn finish(mut self) -> io::Result<W> {
        for cpu in 0..self.bundles.len() {
            self.flush_bundle(cpu);
        }
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    fn packet(&mut self, packet: &Message) {
        if self.error.is_some() {
            return;
        }
        let mut trace = Message::new();
        trace.message(field::TRACE_PACKET, packet);
        self.error = self.out.write_all(&trace.bytes).err();
    }

    /// A packet of the track sequence.
    fn track_packet(&mut self, time_ns: Option<u64>, kind: u32, body: &Message) {
        let mut packet = Message::new();
        if let Some(time_ns) = time_ns {
            packet.uint(field::packet::TIMESTAMP, time_ns);
        }
        packet.uint(field::packet::SEQUENCE_ID, SEQUENCE);
        if !self.sequence_begun {
            self.sequence_begun = true;
            packet.uint(field::packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED);
        }
        packet.message(kind, body);
        self.packet(&packet);
    }

    fn flush_bundle(&mut self, cpu: usize) {
        if self.bundles[cpu].is_empty() {
            return;
        }
        let mut bundle = Message::new();
        bundle.uint(field::bundle::CPU, cpu as u64);
        bundle.bytes.append(&mut self.bundles[cpu]);
        let mut packet = Message::new();
        packet.message(field::packet::FTRACE_EVENTS, &bundle);
        self.packet(&packet);
    }

    /// One ftrace event; `pid` is the task on the CPU at that time.
    fn ftrace(&mut self, event: &Event, pid: Tid, kind: u32, body: &Message) {
        let mut entry = Message::new();
        entry
            .uint(field::ftrace::TIMESTAMP, event.time_ns)
            .uint(field::ftrace::PID, pid.0.into())
            .message(kind, body);
        let mut bundle = Message::new();
        bundle.message(field::bundle::EVENT, &entry);
        let cpu = event.cpu.index();
        self.bundles[cpu].extend(&bundle.bytes);
        if self.bundles[cpu].len() >= BUNDLE_BYTES {
            self.flush_bundle(cpu);
        }
    }

    fn known(&self, tid: Tid) -> Option<&Known> {
        self.tasks.get(tid.0 as usize)?.as_ref()
    }

    fn comm(&self, tid: Tid, cpu: Cpu) -> String {
        match self.known(tid) {
            _ if tid.is_idle() => format!("swapper/{cpu}"),
            Some(known) => known.comm.clone(),
            None => format!("tid-{tid}"),
        }
    }

    fn prio(&self, tid: Tid) -> i64 {
        self.known(tid).map_or(DEFAULT_PRIO, |known| known.prio)
    }

    /// comm, pid and prio under fields 1 to 3: how most scheduling events begin.
    fn head(&self, tid: Tid, cpu: Cpu) -> Message {
        let mut body = Message::new();
        body.str(1, &self.comm(tid, cpu))
            .int(2, tid.0.into())
            .int(3, self.prio(tid));
        body
    }

    fn switch(
        &mut self,
        event: &Event,
        prev: Tid,
        state: PrevState,
        cause: SwitchCause,
        next: Tid,
    ) {
        let code = match (state, cause) {
            _ if prev.is_idle() => prev_state::RUNNING,
            (PrevState::Sleeping, _) => prev_state::SLEEPING,
            (PrevState::Exited, _) => prev_state::DEAD,
            (PrevState::Runnable, SwitchCause::Yield | SwitchCause::Unknown) => prev_state::RUNNING,
            (PrevState::Runnable, _) => prev_state::PREEMPTED,
        };
        let mut body = self.head(prev, event.cpu);
        body.int(4, code)
            .str(5, &self.comm(next, event.cpu))
            .int(6, next.0.into())
            .int(7, self.prio(next));
        self.ftrace(event, prev, field::ftrace::SCHED_SWITCH, &body);
        let home = self.known(prev).and_then(|known| known.queued_on);
        let stays = (state == PrevState::Runnable).then_some(home.unwrap_or(event.cpu));
        self.requeue(event.time_ns, prev, stays);
        self.requeue(event.time_ns, next, Some(event.cpu));
    }

    /// A task enters, leaves or changes a runqueue: the depth counters follow.
    fn requeue(&mut self, time_ns: u64, tid: Tid, to: Option<Cpu>) {
        let Some(Some(known)) = self.tasks.get_mut(tid.0 as usize) else {
            return;
        };
        let from = std::mem::replace(&mut known.queued_on, to);
        if from == to {
            return;
        }
        for (cpu, delta) in [(from, -1), (to, 1)] {
            if let Some(cpu) = cpu {
                self.depth[cpu.index()] += delta;
                let depth = self.depth[cpu.index()];
                let name = format!("runnable tasks, CPU {cpu}");
                self.counter(time_ns, depth_track(cpu), None, &name, depth);
            }
        }
    }

    fn counter(&mut self, time_ns: u64, track: u64, parent: Option<u64>, name: &str, value: i64) {
        self.declare(track, parent, name, true);
        let mut body = Message::new();
        body.uint(field::track_event::TYPE, event_type::COUNTER)
            .uint(field::track_event::TRACK_UUID, track)
            .int(field::track_event::COUNTER_VALUE, value);
        self.track_packet(Some(time_ns), field::packet::TRACK_EVENT, &body);
    }

    /// A slice's begin or end, or an instant, on the track of a task's requests.
    fn on_request_track(&mut self, time_ns: u64, tid: Tid, kind: u64, name: &str) {
        let parent = self.declare_thread(tid);
        let track = request_track(tid);
        self.declare(track, parent, "requests", false);
        self.on_track(time_ns, track, kind, name);
    }

    fn on_track(&mut self, time_ns: u64, track: u64, kind: u64, name: &str) {
        let mut body = Message::new();
        body.uint(field::track_event::TYPE, kind)
            .uint(field::track_event::TRACK_UUID, track)
            .str(field::track_event::NAME, name);
        self.track_packet(Some(time_ns), field::packet::TRACK_EVENT, &body);
    }

    fn declare(&mut self, track: u64, parent: Option<u64>, name: &str, counter: bool) {
        if !self.declared.insert(track) {
            return;
        }
        let mut body = Message::new();
        body.uint(field::track::UUID, track)
            .str(field::track::NAME, name);
        if let Some(parent) = parent {
            body.uint(field::track::PARENT_UUID, parent);
        }
        if counter {
            body.message(field::track::COUNTER, &Message::new());
        }
        self.track_packet(None, field::packet::TRACK_DESCRIPTOR, &body);
    }

    /// The track of a task, under which its probes and requests stand.
    fn declare_thread(&mut self, tid: Tid) -> Option<u64> {
        let (tgid, comm) = self.known(tid).map(|k| (k.tgid, k.comm.clone()))?;
        let track = thread_track(tid);
        if self.declared.insert(track) {
            let mut thread = Message::new();
            thread
                .int(1, tgid.into())
                .int(2, tid.0.into())
                .str(5, &comm);
            let mut body = Message::new();
            body.uint(field::track::UUID, track)
                .message(field::track::THREAD, &thread);
            self.track_packet(None, field::packet::TRACK_DESCRIPTOR, &body);
        }
        Some(track)
    }

    fn probe(&mut self, time_ns: u64, probe: u16, key: u32, value: i64) {
        let known = self.probes.get(usize::from(probe)).cloned();
        let (name, per_cpu) = known.unwrap_or_else(|| (format!("probe {probe}"), false));
        let (parent, name) = match per_cpu {
            true => (None, format!("{name}, CPU {key}")),
            false => (self.declare_thread(Tid(key)), name),
        };
        self.counter(time_ns, probe_track(probe, key), parent, &name, value);
    }

    fn request(&mut self, end_ns: u64, tid: Tid, class: u16, start_ns: u64) {
        let name = self.class_name(class);
        if start_ns < end_ns {
            self.on_request_track(start_ns, tid, event_type::SLICE_BEGIN, &name);
            self.on_request_track(end_ns, tid, event_type::SLICE_END, &name);
        } else {
            self.on_request_track(end_ns, tid, event_type::INSTANT, &name);
        }
    }

    fn class_name(&self, class: u16) -> String {
        let name = self.classes.get(usize::from(class)).cloned();
        name.unwrap_or_else(|| format!("class {class}"))
    }
}

impl<W: Write> EventSink for Writer<W> {
    fn task(&mut self, info: &TaskInfo) {
        let tid = info.tid.0 as usize;
        if self.tasks.len() <= tid {
            self.tasks.resize(tid + 1, None);
        }
        let queued_on = self.tasks[tid].as_ref().and_then(|known| known.queued_on);
        self.tasks[tid] = Some(Known {
            comm: info.name.clone(),
            tgid: info.tgid.0,
            prio: DEFAULT_PRIO + i64::from(info.nice),
            queued_on,
        });
        let mut tree = Message::new();
        if info.tid == info.tgid {
            let mut process = Message::new();
            process.int(1, info.tgid.0.into());
            if info.parent.0 != KTHREADD {
                process.int(2, info.parent.0.into());
            }
            process.str(3, &info.app);
            tree.message(field::tree::PROCESSES, &process);
        }
        let mut thread = Message::new();
        thread
            .int(1, info.tid.0.into())
            .str(2, &info.name)
            .int(3, info.tgid.0.into());
        tree.message(field::tree::THREADS, &thread);
        let mut packet = Message::new();
        packet
            .uint(field::packet::TIMESTAMP, info.born_ns)
            .message(field::packet::PROCESS_TREE, &tree);
        self.packet(&packet);
    }

    fn event(&mut self, event: &Event) {
        let (time_ns, cpu) = (event.time_ns, event.cpu);
        match event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            } => {
                self.switch(event, prev, prev_state, cause, next);
            }
            EventKind::Wakeup {
                task,
                waker,
                target,
            } => {
                let mut body = self.head(task, cpu);
                body.int(4, 1).int(5, target.0.into());
                self.ftrace(event, waker, field::ftrace::SCHED_WAKING, &body);
                self.requeue(time_ns, task, Some(target));
            }
            EventKind::WakeupNew { task, target } => {
                let mut body = self.head(task, cpu);
                body.int(4, 1).int(5, target.0.into());
                self.ftrace(event, Tid::IDLE, field::ftrace::SCHED_WAKEUP_NEW, &body);
                self.requeue(time_ns, task, Some(target));
            }
            EventKind::Migrate { task, from, to } => {
                let mut body = self.head(task, cpu);
                body.int(4, from.0.into()).int(5, to.0.into());
                self.ftrace(event, Tid::IDLE, field::ftrace::SCHED_MIGRATE_TASK, &body);
                if self
                    .known(task)
                    .is_some_and(|known| known.queued_on.is_some())
                {
                    self.requeue(time_ns, task, Some(to));
                }
            }
            EventKind::Fork { parent, child } => {
                let mut body = Message::new();
                body.str(1, &self.comm(parent, cpu))
                    .int(2, parent.0.into())
                    .str(3, &self.comm(child, cpu))
                    .int(4, child.0.into());
                self.ftrace(event, parent, field::ftrace::SCHED_PROCESS_FORK, &body);
            }
            EventKind::Exit { task } => {
                let tgid = self.known(task).map_or(task.0, |known| known.tgid);
                let mut body = Message::new();
                body.str(1, &self.comm(task, cpu))
                    .int(2, task.0.into())
                    .int(3, tgid.into())
                    .int(4, self.prio(task));
                self.ftrace(event, task, field::ftrace::SCHED_PROCESS_EXIT, &body);
            }
            EventKind::Nice { task, nice } => {
                if let Some(Some(known)) = self.tasks.get_mut(task.0 as usize) {
                    known.prio = DEFAULT_PRIO + i64::from(nice);
                }
            }
            EventKind::Request {
                task,
                class,
                start_ns,
            } => {
                self.request(time_ns, task, class, start_ns);
            }
            EventKind::Mark { task, class } => {
                let name = self.class_name(class);
                self.on_request_track(time_ns, task, event_type::INSTANT, &name);
            }
            EventKind::Probe { probe, key, value } => self.probe(time_ns, probe, key, value),
            EventKind::Affinity { .. }
            | EventKind::Overhead(_)
            | EventKind::Access { .. }
            | EventKind::RunqueueLock { .. } => {}
        }
    }

    fn printed(&mut self, time_ns: u64, cpu: Cpu, line: &str) {
        let track = printk_track(cpu);
        self.declare(track, None, &format!("bpf_printk, CPU {cpu}"), false);
        self.on_track(time_ns, track, event_type::INSTANT, line.trim_end());
    }

    fn request_class(&mut self, class: u16, name: &str) {
        let class = usize::from(class);
        while self.classes.len() <= class {
            self.classes.push(format!("class {}", self.classes.len()));
        }
        self.classes[class] = name.to_owned();
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        let probe = usize::from(probe);
        while self.probes.len() <= probe {
            self.probes
                .push((format!("probe {}", self.probes.len()), false));
        }
        self.probes[probe] = (name.to_owned(), per_cpu);
    }

    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}
