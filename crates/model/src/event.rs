// SPDX-License-Identifier: GPL-2.0-or-later
//! The one event vocabulary. The simulated machine and the real kernel both speak it;
//! everything that measures or draws uses only these events.

use crate::ids::{Cpu, Tid};
use std::ops::{AddAssign, Range};

/// One thing that happened, at `time_ns` on the arena's clock, on `cpu`.
///
/// Events arrive in order of time; events of the same time arrive in the order in
/// which they happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    /// The CPU on which the event happened (the waker's, for a wakeup).
    pub cpu: Cpu,
    pub kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `sched_switch`: `prev` leaves the CPU and `next` gets it. Either may be [`Tid::IDLE`].
    Switch {
        prev: Tid,
        prev_state: PrevState,
        cause: SwitchCause,
        next: Tid,
    },
    /// `sched_waking`/`sched_wakeup`: a sleeping task becomes runnable on `target`.
    /// `waker` is [`Tid::IDLE`] when a timer or device woke it.
    Wakeup { task: Tid, waker: Tid, target: Cpu },
    /// `sched_wakeup_new`: a forked task becomes runnable for the first time.
    WakeupNew { task: Tid, target: Cpu },
    /// `sched_migrate_task`: the runqueue a task belongs to changes.
    Migrate { task: Tid, from: Cpu, to: Cpu },
    /// `sched_process_fork`. [`EventSink::task`] has introduced the child just before.
    Fork { parent: Tid, child: Tid },
    /// `sched_process_exit`. The switch away from the task follows.
    Exit { task: Tid },
    /// A task's nice value changed.
    Nice { task: Tid, nice: i8 },
    /// A task may run on the CPUs of this set and no others. `set` is a number that the arena declared through
    /// [`EventSink::cpu_set`]; a task of which nothing is said may run on every CPU.
    Affinity { task: Tid, set: u32 },
    /// A request named by the workload ended now; it began at `start_ns`.
    /// `class` indexes the names that the arena declared through [`EventSink::request_class`].
    Request {
        task: Tid,
        class: u16,
        start_ns: u64,
    },
    /// A task passed a mark named by the workload (`class` as above), for instance the end of a warm-up.
    Mark { task: Tid, class: u16 },
    /// A scheduler's own figure, declared through [`EventSink::probe_name`]. `key` is a task's id or a CPU's number.
    Probe { probe: u16, key: u32, value: i64 },
    /// Scheduler code read or wrote an element of its own data, a DSQ or a runqueue. Reported once for each visit, which
    /// lasts until the callback turns to another element of the place. Only schedulers built to report it do; names come
    /// through [`EventSink::callback_name`] and [`EventSink::place_name`].
    Access {
        /// Number of the call into the scheduler, from 1.
        call: u64,
        callback: u16,
        place: u16,
        index: u64,
        write: bool,
    },
    /// The lock of a CPU's runqueue was taken or released. Reported together with accesses.
    RunqueueLock { of: Cpu, taken: bool },
    /// The machine and the scheduler took time of this CPU away from the task that runs on it: all that struck at
    /// one instant.
    Overhead(Overhead),
}

/// Numbers of the kinds of events in event files and trace hashes. They never change their meaning.
pub mod code {
    pub const SWITCH: u8 = 0;
    pub const WAKEUP: u8 = 1;
    pub const WAKEUP_NEW: u8 = 2;
    pub const MIGRATE: u8 = 3;
    pub const FORK: u8 = 4;
    pub const EXIT: u8 = 5;
    pub const NICE: u8 = 6;
    pub const REQUEST: u8 = 7;
    pub const MARK: u8 = 8;
    pub const PROBE: u8 = 9;
    pub const OVERHEAD: u8 = 10;
    pub const ACCESS: u8 = 11;
    pub const RUNQUEUE_LOCK: u8 = 12;
    pub const AFFINITY: u8 = 13;
}

impl EventKind {
    /// One of [`code`].
    #[inline]
    pub fn code(&self) -> u8 {
        match self {
            EventKind::Switch { .. } => code::SWITCH,
            EventKind::Wakeup { .. } => code::WAKEUP,
            EventKind::WakeupNew { .. } => code::WAKEUP_NEW,
            EventKind::Migrate { .. } => code::MIGRATE,
            EventKind::Fork { .. } => code::FORK,
            EventKind::Exit { .. } => code::EXIT,
            EventKind::Nice { .. } => code::NICE,
            EventKind::Affinity { .. } => code::AFFINITY,
            EventKind::Request { .. } => code::REQUEST,
            EventKind::Mark { .. } => code::MARK,
            EventKind::Probe { .. } => code::PROBE,
            EventKind::Overhead(_) => code::OVERHEAD,
            EventKind::Access { .. } => code::ACCESS,
            EventKind::RunqueueLock { .. } => code::RUNQUEUE_LOCK,
        }
    }
}

/// What a task that leaves a CPU does next. Its number (`as u8`) is that of event files and trace hashes, as for the causes
/// below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrevState {
    /// Stays runnable and waits.
    Runnable,
    /// Sleeps until something wakes it.
    Sleeping,
    Exited,
}

impl PrevState {
    /// In the order of their numbers.
    pub const ALL: [PrevState; 3] = [PrevState::Runnable, PrevState::Sleeping, PrevState::Exited];
}

/// Why the CPU changed hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SwitchCause {
    /// The task went to sleep or exited.
    Block,
    /// Its slice was used up.
    SliceEnd,
    /// Another task took the CPU while slice was left (wakeup preemption, a kick).
    Preempt,
    /// A task of a higher scheduling class took the CPU.
    HigherClass,
    /// It gave the CPU away (sched_yield).
    Yield,
    /// It may no longer run on this CPU (affinity change).
    Affinity,
    /// The CPU was idle before.
    FromIdle,
    /// The arena cannot determine it.
    Unknown,
}

impl SwitchCause {
    /// In the order of their numbers.
    pub const ALL: [SwitchCause; 8] = [
        SwitchCause::Block,
        SwitchCause::SliceEnd,
        SwitchCause::Preempt,
        SwitchCause::HigherClass,
        SwitchCause::Yield,
        SwitchCause::Affinity,
        SwitchCause::FromIdle,
        SwitchCause::Unknown,
    ];
}

/// Who took time from the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverheadCause {
    /// The context switch itself.
    Switch,
    /// Refilling caches after a switch or a migration.
    CacheRefill,
    /// The timer tick.
    Tick,
    /// The wakeup path of the kernel.
    Wakeup,
    /// Sending or receiving an inter-processor interrupt.
    Ipi,
    /// The scheduler's own callbacks other than `ops.select_cpu`.
    Scheduler,
    /// The scheduler's search for a CPU for a task that wakes up: `ops.select_cpu`.
    SelectCpu,
}

impl OverheadCause {
    /// In the order of their numbers.
    pub const ALL: [OverheadCause; 7] = [
        OverheadCause::Switch,
        OverheadCause::CacheRefill,
        OverheadCause::Tick,
        OverheadCause::Wakeup,
        OverheadCause::Ipi,
        OverheadCause::Scheduler,
        OverheadCause::SelectCpu,
    ];
}

/// Time taken from tasks, in ns, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead([u64; OverheadCause::ALL.len()]);

impl Overhead {
    pub fn of(cause: OverheadCause, ns: u64) -> Overhead {
        let mut overhead = Overhead::default();
        overhead.charge(cause, ns);
        overhead
    }

    pub fn charge(&mut self, cause: OverheadCause, ns: u64) {
        self.0[cause as usize] += ns;
    }

    pub fn ns(&self, cause: OverheadCause) -> u64 {
        self.0[cause as usize]
    }

    pub fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl AddAssign<&Overhead> for Overhead {
    fn add_assign(&mut self, other: &Overhead) {
        for (sum, ns) in self.0.iter_mut().zip(other.0) {
            *sum += ns;
        }
    }
}

/// Facts about a task that do not change, or that measures want to start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    pub tid: Tid,
    /// Thread group (process) id.
    pub tgid: Tid,
    pub parent: Tid,
    /// `comm`: the name of the thread.
    pub name: String,
    /// The application it belongs to: what tables are grouped by.
    pub app: String,
    pub nice: i8,
    pub born_ns: u64,
    /// Whether it starts the application's tasks and waits for them: [`is_shells_name`].
    pub is_shell: bool,
}

/// What the shell of a workload's application is called, followed by the application's name, wherever the workload runs.
pub const SHELL_PREFIX: &str = "sh-";

/// Whether this is what the shell of `app` is called. Workloads give no task such a name.
pub fn is_shells_name(name: &str, app: &str) -> bool {
    name.strip_prefix(SHELL_PREFIX) == Some(app)
}

/// A receiver of events. Implemented by measures, traces, hashes and pairs of them.
pub trait EventSink {
    /// A task exists from now on.
    fn task(&mut self, info: &TaskInfo);
    fn event(&mut self, event: &Event);
    /// `cpus` will be called `set` in [`EventKind::Affinity`]: ranges that neither touch nor overlap, in order. Set 0 is
    /// every CPU. An arena that declares it, before the first task, reports the affinity of each task; one that does not
    /// cannot tell on which CPUs a task may run.
    fn cpu_set(&mut self, _set: u32, _cpus: &[Range<u32>]) {}
    /// `name` will be called `class` in [`EventKind::Request`] and [`EventKind::Mark`].
    fn request_class(&mut self, _class: u16, _name: &str) {}
    /// `name` will be called `probe` in [`EventKind::Probe`]; `per_cpu` defines what its key is.
    fn probe_name(&mut self, _probe: u16, _name: &str, _per_cpu: bool) {}
    /// `name` will be called `callback` in [`EventKind::Access`].
    fn callback_name(&mut self, _callback: u16, _name: &str) {}
    /// `name` will be called `place` in [`EventKind::Access`].
    fn place_name(&mut self, _place: u16, _name: &str) {}
    /// The scheduler printed a line (`bpf_printk`).
    fn printed(&mut self, _time_ns: u64, _cpu: Cpu, _line: &str) {}
    /// Whether this sink uses accesses of a callback to a place, by their names. An arena may leave out those that nobody uses.
    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        true
    }
}

/// Two sinks at once.
impl<A: EventSink, B: EventSink> EventSink for (A, B) {
    fn task(&mut self, info: &TaskInfo) {
        self.0.task(info);
        self.1.task(info);
    }
    #[inline]
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        self.0.cpu_set(set, cpus);
        self.1.cpu_set(set, cpus);
    }
    fn request_class(&mut self, class: u16, name: &str) {
        self.0.request_class(class, name);
        self.1.request_class(class, name);
    }
    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        self.0.probe_name(probe, name, per_cpu);
        self.1.probe_name(probe, name, per_cpu);
    }
    fn callback_name(&mut self, callback: u16, name: &str) {
        self.0.callback_name(callback, name);
        self.1.callback_name(callback, name);
    }
    fn place_name(&mut self, place: u16, name: &str) {
        self.0.place_name(place, name);
        self.1.place_name(place, name);
    }
    fn printed(&mut self, time_ns: u64, cpu: Cpu, line: &str) {
        self.0.printed(time_ns, cpu, line);
        self.1.printed(time_ns, cpu, line);
    }
    fn uses_access(&self, callback: &str, place: &str) -> bool {
        self.0.uses_access(callback, place) || self.1.uses_access(callback, place)
    }
}

/// Discards events.
impl EventSink for () {
    fn task(&mut self, _info: &TaskInfo) {}
    fn event(&mut self, _event: &Event) {}
    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}

impl<S: EventSink + ?Sized> EventSink for &mut S {
    fn task(&mut self, info: &TaskInfo) {
        (**self).task(info);
    }
    #[inline]
    fn event(&mut self, event: &Event) {
        (**self).event(event);
    }
    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        (**self).cpu_set(set, cpus);
    }
    fn request_class(&mut self, class: u16, name: &str) {
        (**self).request_class(class, name);
    }
    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        (**self).probe_name(probe, name, per_cpu);
    }
    fn callback_name(&mut self, callback: u16, name: &str) {
        (**self).callback_name(callback, name);
    }
    fn place_name(&mut self, place: u16, name: &str) {
        (**self).place_name(place, name);
    }
    fn printed(&mut self, time_ns: u64, cpu: Cpu, line: &str) {
        (**self).printed(time_ns, cpu, line);
    }
    fn uses_access(&self, callback: &str, place: &str) -> bool {
        (**self).uses_access(callback, place)
    }
}

impl<S: EventSink> EventSink for Option<S> {
    fn task(&mut self, info: &TaskInfo) {
        if let Some(sink) = self {
            sink.task(info);
        }
    }
    #[inline]
    fn event(&mut self, event: &Event) {
        if let Some(sink) = self {
            sink.event(event);
        }
    }
    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        if let Some(sink) = self {
            sink.cpu_set(set, cpus);
        }
    }
    fn request_class(&mut self, class: u16, name: &str) {
        if let Some(sink) = self {
            sink.request_class(class, name);
        }
    }
    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        if let Some(sink) = self {
            sink.probe_name(probe, name, per_cpu);
        }
    }
    fn callback_name(&mut self, callback: u16, name: &str) {
        if let Some(sink) = self {
            sink.callback_name(callback, name);
        }
    }
    fn place_name(&mut self, place: u16, name: &str) {
        if let Some(sink) = self {
            sink.place_name(place, name);
        }
    }
    fn printed(&mut self, time_ns: u64, cpu: Cpu, line: &str) {
        if let Some(sink) = self {
            sink.printed(time_ns, cpu, line);
        }
    }
    fn uses_access(&self, callback: &str, place: &str) -> bool {
        let sink = self.as_ref();
        sink.is_some_and(|sink| sink.uses_access(callback, place))
    }
}
