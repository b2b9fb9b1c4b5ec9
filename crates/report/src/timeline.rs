// SPDX-License-Identifier: GPL-2.0-or-later
//! A window of a run, slice by slice: which task had which CPU from when to when, why it left, who woke it.
//!
//! A sink of bounded memory: it keeps the slices of its window up to a limit, and of the rest of the run only what
//! is true at the moment.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tiltyard_model::{Cpu, Event, EventKind, EventSink, PrevState, SwitchCause, TaskInfo, Tid};

/// Waits listed that no slice ended: more rows fit no screen.
const MAX_WAITING: usize = 1024;

/// What is to be recorded. Times count from the beginning of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ns: u64,
    /// `None`: until the run ends or the limit is reached.
    pub to_ns: Option<u64>,
    /// Recording ends with this slice.
    pub max_slices: usize,
}

/// Why a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// It had not when the window ended.
    StillRuns,
    Sleeps,
    Exits,
    SliceEnd,
    Preempted,
    HigherClass,
    Yields,
    Affinity,
    Unknown,
}

impl Left {
    /// With what it is called; the page's script counts on the order.
    pub const ALL: [(Left, &'static str); 9] = [
        (Left::StillRuns, "still runs"),
        (Left::Sleeps, "sleeps"),
        (Left::Exits, "exits"),
        (Left::SliceEnd, "slice ended"),
        (Left::Preempted, "preempted"),
        (Left::HigherClass, "higher class"),
        (Left::Yields, "yields"),
        (Left::Affinity, "affinity"),
        (Left::Unknown, "unknown"),
    ];

    fn of(cause: SwitchCause, state: PrevState) -> Left {
        match (state, cause) {
            (PrevState::Exited, _) => Left::Exits,
            (PrevState::Sleeping, _) => Left::Sleeps,
            (PrevState::Runnable, SwitchCause::SliceEnd) => Left::SliceEnd,
            (PrevState::Runnable, SwitchCause::Preempt) => Left::Preempted,
            (PrevState::Runnable, SwitchCause::HigherClass) => Left::HigherClass,
            (PrevState::Runnable, SwitchCause::Yield) => Left::Yields,
            (PrevState::Runnable, SwitchCause::Affinity) => Left::Affinity,
            (PrevState::Runnable, _) => Left::Unknown,
        }
    }
}

/// How a task that got a CPU had become runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Woken,
    Created,
    /// It was all the time: it had lost a CPU before.
    Waited,
    Unknown,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    pub nr_cpus: usize,
    pub from_ns: u64,
    pub to_ns: u64,
    /// The limit ended the recording.
    pub full: bool,
    pub apps: Vec<String>,
    pub tasks: Vec<Named>,
    pub slices: Slices,
    /// Who wanted a CPU and had none when the recording ended, by tid.
    pub waiting: Vec<Waiting>,
}

/// A wait that no slice ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Index among the tasks.
    pub task: usize,
    pub since_ns: u64,
}

/// A task that some slice mentions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
    pub tid: u32,
    /// Index among the apps.
    pub app: usize,
}

/// One column for each fact, one entry for each slice, in the order in which slices ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slices {
    pub cpu: Vec<u32>,
    /// Index among the tasks.
    pub task: Vec<usize>,
    /// Since the end of the slice before; of the first, since the window's beginning.
    pub end_ns: Vec<u64>,
    pub length_ns: Vec<u64>,
    /// A [`Left`].
    pub left: Vec<u8>,
    /// A [`Ready`].
    pub ready: Vec<u8>,
    /// From becoming runnable to getting the CPU.
    pub wait_ns: Vec<u64>,
    /// Who woke or created it: 1 + index among the tasks, 0: no task.
    pub waker: Vec<usize>,
    /// Where that happened.
    pub waker_cpu: Vec<u32>,
}

impl Slices {
    pub fn len(&self) -> usize {
        self.cpu.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cpu.is_empty()
    }
}

/// When and why a task became runnable.
#[derive(Clone, Copy, Debug)]
struct Runnable {
    at_ns: u64,
    how: Ready,
    waker: Tid,
    waker_cpu: Cpu,
}

/// A task that lives.
#[derive(Debug)]
struct Live {
    name: String,
    app: String,
    parent: Tid,
    runnable: Option<Runnable>,
    /// Its index among the recorded tasks, once a slice has mentioned it.
    index: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
struct OnCpu {
    task: Tid,
    since_ns: u64,
    runnable: Option<Runnable>,
}

/// Receives the events of a run and records a window of it.
pub struct Timeline {
    window: Window,
    origin_ns: u64,
    cpus: Vec<Option<OnCpu>>,
    live: HashMap<Tid, Live>,
    recorded: Recorded,
    /// End of the last slice, from the workload's beginning.
    last_end_ns: u64,
    done: bool,
}

impl Timeline {
    /// `origin_ns`: when the workload begins on the arena's clock.
    pub fn new(nr_cpus: usize, origin_ns: u64, window: Window) -> Timeline {
        Timeline {
            window,
            origin_ns,
            cpus: vec![None; nr_cpus],
            live: HashMap::new(),
            recorded: Recorded {
                nr_cpus,
                from_ns: window.from_ns,
                to_ns: window.from_ns,
                full: false,
                apps: Vec::new(),
                tasks: Vec::new(),
                slices: Slices::default(),
                waiting: Vec::new(),
            },
            last_end_ns: window.from_ns,
            done: window.max_slices == 0,
        }
    }

    /// What was recorded of a run that ended at `end_ns` on the arena's clock.
    pub fn finish(mut self, end_ns: u64) -> Recorded {
        let end_ns = end_ns.saturating_sub(self.origin_ns);
        self.close(self.window.to_ns.map_or(end_ns, |to| to.min(end_ns)));
        self.recorded
    }

    /// Ends the recording; who has a CPU keeps it beyond the window.
    fn close(&mut self, at_ns: u64) {
        if self.done {
            return;
        }
        self.recorded.to_ns = at_ns.max(self.window.from_ns);
        for cpu in 0..self.cpus.len() {
            if let Some(on) = self.cpus[cpu].take() {
                self.push(cpu, &on, self.recorded.to_ns, Left::StillRuns);
            }
        }
        self.keep_waits();
        self.done = true;
        self.live = HashMap::new();
    }

    fn keep_waits(&mut self) {
        let live = self.live.iter();
        let mut waits: Vec<(Tid, u64)> = live
            .filter_map(|(tid, live)| Some((*tid, live.runnable?.at_ns)))
            .filter(|(_, since_ns)| *since_ns < self.recorded.to_ns)
            .collect();
        waits.sort_unstable_by_key(|(tid, _)| tid.0);
        for (tid, since_ns) in waits.into_iter().take(MAX_WAITING) {
            let task = self.index(tid);
            self.recorded.waiting.push(Waiting { task, since_ns });
        }
    }

    /// A slice; those before the window are dropped.
    fn push(&mut self, cpu: usize, on: &OnCpu, end_ns: u64, left: Left) {
        if end_ns <= self.window.from_ns {
            return;
        }
        let end_ns = end_ns.max(self.last_end_ns);
        let task = self.index(on.task);
        let runnable = on.runnable;
        let woken = runnable.filter(|r| matches!(r.how, Ready::Woken | Ready::Created));
        let waker = woken.map_or(Tid::IDLE, |r| r.waker);
        let waker = if waker == Tid::IDLE {
            0
        } else {
            1 + self.index(waker)
        };
        let slices = &mut self.recorded.slices;
        slices.cpu.push(cpu as u32);
        slices.task.push(task);
        slices.end_ns.push(end_ns - self.last_end_ns);
        slices.length_ns.push(end_ns.saturating_sub(on.since_ns));
        slices.left.push(left as u8);
        slices
            .ready
            .push(runnable.map_or(Ready::Unknown, |r| r.how) as u8);
        slices
            .wait_ns
            .push(runnable.map_or(0, |r| on.since_ns.saturating_sub(r.at_ns)));
        slices.waker.push(waker);
        slices.waker_cpu.push(woken.map_or(0, |r| r.waker_cpu.0));
        self.last_end_ns = end_ns;
    }

    /// The index of a task among the recorded ones.
    fn index(&mut self, tid: Tid) -> usize {
        let (tasks, apps) = (&mut self.recorded.tasks, &mut self.recorded.apps);
        let live = self.live.get_mut(&tid);
        if let Some(index) = live.as_ref().and_then(|l| l.index) {
            return index;
        }
        let (name, app) = match &live {
            Some(live) => (live.name.clone(), live.app.clone()),
            // A waker that ended before, or one that nobody introduced.
            None => match tasks.iter().rposition(|t| t.tid == tid.0) {
                Some(index) => return index,
                None => (format!("tid {tid}"), "(unknown)".to_owned()),
            },
        };
        let app = apps
            .iter()
            .position(|known| *known == app)
            .unwrap_or_else(|| {
                apps.push(app);
                apps.len() - 1
            });
        tasks.push(Named {
            name,
            tid: tid.0,
            app,
        });
        let index = tasks.len() - 1;
        if let Some(live) = live {
            live.index = Some(index);
        }
        index
    }

    fn becomes_runnable(&mut self, task: Tid, runnable: Runnable) {
        if let Some(live) = self.live.get_mut(&task) {
            live.runnable = Some(runnable);
        }
    }

    fn switch(&mut self, now_ns: u64, cpu: Cpu, prev: Tid, left: Left, next: Tid) {
        let at = cpu.index();
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, None);
            self.recorded.nr_cpus = at + 1;
        }
        if let Some(on) = self.cpus[at].take() {
            let left = if on.task == prev { left } else { Left::Unknown };
            self.push(at, &on, now_ns, left);
        }
        match left {
            Left::Exits => {
                self.live.remove(&prev);
            }
            Left::Sleeps => {}
            _ => {
                let runnable = Runnable {
                    at_ns: now_ns,
                    how: Ready::Waited,
                    waker: Tid::IDLE,
                    waker_cpu: cpu,
                };
                self.becomes_runnable(prev, runnable);
            }
        }
        if next != Tid::IDLE {
            let runnable = self.live.get_mut(&next).and_then(|l| l.runnable.take());
            self.cpus[at] = Some(OnCpu {
                task: next,
                since_ns: now_ns,
                runnable,
            });
        }
        if self.recorded.slices.len() >= self.window.max_slices {
            self.recorded.full = true;
            self.close(now_ns);
        }
    }
}

impl EventSink for Timeline {
    fn task(&mut self, info: &TaskInfo) {
        if self.done || info.tid == Tid::IDLE {
            return;
        }
        let live = Live {
            name: info.name.clone(),
            app: info.app.clone(),
            parent: info.parent,
            runnable: None,
            index: None,
        };
        self.live.insert(info.tid, live);
    }

    fn event(&mut self, event: &Event) {
        if self.done {
            return;
        }
        let now_ns = event.time_ns.saturating_sub(self.origin_ns);
        if let Some(to_ns) = self.window.to_ns.filter(|to| now_ns >= *to) {
            return self.close(to_ns);
        }
        let ready = |how, waker| Runnable {
            at_ns: now_ns,
            how,
            waker,
            waker_cpu: event.cpu,
        };
        match event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            } => self.switch(now_ns, event.cpu, prev, Left::of(cause, prev_state), next),
            EventKind::Wakeup { task, waker, .. } => {
                self.becomes_runnable(task, ready(Ready::Woken, waker));
            }
            EventKind::WakeupNew { task, .. } => {
                let parent = self.live.get(&task).map_or(Tid::IDLE, |l| l.parent);
                self.becomes_runnable(task, ready(Ready::Created, parent));
            }
            _ => {}
        }
    }

    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}
