// SPDX-License-Identifier: GPL-2.0-or-later
//! User space of the simulated machine: executes workloads instruction by instruction.

pub mod compile;
pub mod reach;
pub mod resources;
pub mod step;
pub mod stuck;
pub mod sync;

use crate::sched::noise::KernelThread;
use crate::task::TaskId;
use compile::Insn;
use resources::Resources;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::rc::Rc;
use tiltyard_workload::Workload;

/// Code of every task of the workload, shared by its instances, and the things tasks share.
pub struct Programs {
    /// Tasks of the workload first, by their index; then shells and kernel threads.
    pub code: Vec<Rc<[Insn]>>,
    pub res: Resources,
    /// How many instances of each task of the workload were ever started.
    pub started: Vec<u32>,
    /// Live tasks that the run waits for.
    pub live_awaited: u32,
    /// Those of them that a shell still has to start.
    pub unborn_awaited: u32,
    /// All tasks that a shell still has to start.
    pub unborn_total: u32,
    /// Live tasks that only another task can wake.
    pub stuck: u32,
    pub live_total: u32,
    /// From when on it is worth a search whether the run can still end.
    pub next_search_ns: u64,
    /// For each application, a task that no living one of it precedes.
    pub first_of_app: Vec<TaskId>,
    /// The kernel's own.
    pub kernel_threads: Vec<KernelThread>,
    /// For each CPU, those that a task leaves work which ends there, in order.
    pub woken_by_exits: Vec<Vec<u32>>,
}

impl Programs {
    pub fn new(workload: &Workload) -> Programs {
        let tasks = workload.tasks.iter();
        let code: Vec<Rc<[Insn]>> = tasks.map(|t| compile::compile_task(t).into()).collect();
        let unborn = |daemons: bool| {
            workload
                .tasks
                .iter()
                .filter(|t| daemons || !t.daemon)
                .map(|t| t.instances)
                .sum()
        };
        Programs {
            started: vec![0; code.len()],
            code,
            res: Resources::new(workload),
            live_awaited: 0,
            unborn_awaited: unborn(false),
            unborn_total: unborn(true),
            stuck: 0,
            live_total: 0,
            next_search_ns: 0,
            first_of_app: vec![TaskId::IDLE; workload.apps.len()],
            kernel_threads: Vec::new(),
            woken_by_exits: Vec::new(),
        }
    }

    /// Adds code that is not a workload task; returns its number.
    pub fn add(&mut self, code: Vec<Insn>) -> u32 {
        self.code.push(code.into());
        self.code.len() as u32 - 1
    }
}

/// A task's position in its program.
#[derive(Debug, Default)]
pub struct Cursor {
    pub code: u32,
    pub pc: u32,
    /// Loops deeper than two are rare.
    pub loops: SmallVec<[LoopFrame; 2]>,
    /// Progress of a blocking instruction; the number's meaning depends on the kind.
    pub stage: u8,
    /// Tasks that the current instruction has started.
    pub started: u32,
    pub wait: Wait,
    /// It must wait and is on its way into `schedule()`; it may still be woken before it gets there.
    pub leaves: bool,
    pub seldom: Option<Box<Seldom>>,
    /// Instructions executed at `spin_time_ns`: a program that takes no time is an error.
    pub spin_count: u32,
    pub spin_time_ns: u64,
}

/// What few programs need: apart, because there may be a million cursors.
#[derive(Debug, Default)]
pub struct Seldom {
    /// When each enclosing block that lasts for a time is over.
    pub ends_ns: Vec<u64>,
    /// Whom the current system call is still to wake.
    pub to_wake: VecDeque<TaskId>,
    /// Requests begun and not ended: class and time.
    pub begun: Vec<(u16, u64)>,
    /// Next base of each rt-app timer that this task has used.
    pub timers: Vec<(u32, u64)>,
}

impl Cursor {
    pub fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// Whether the current system call is still to wake somebody.
    #[inline]
    pub fn is_to_wake(&self) -> bool {
        let seldom = self.seldom.as_ref();
        seldom.is_some_and(|seldom| !seldom.to_wake.is_empty())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LoopFrame {
    /// Passes left after the current one, or `FOREVER`.
    pub left: u64,
    /// Passes before the current one; `UNSEEN`: the workload file's index expressions cannot see this loop.
    pub pass: u64,
}

impl LoopFrame {
    /// More than any run can count down.
    pub const FOREVER: u64 = u64::MAX;
    pub const UNSEEN: u64 = u64::MAX;
}

/// Tasks that could not have run again, however long the run: their figures are of the time before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub tasks: u64,
    /// What the first of them wait for, in the order in which they began to.
    pub waits: Vec<String>,
    /// When the first began to wait, on the clock of the events.
    pub since_ns: u64,
}

/// What a sleeping task waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wait {
    #[default]
    Nothing,
    Time,
    Device(u32),
    Mutex(u32),
    Cond(u32),
    Barrier(u32),
    Sem(u32),
    PipeRead(u32),
    PipeWrite(u32),
    Place(u32),
    Children,
    /// A kernel thread: tasks that end.
    Exits,
}

impl Wait {
    /// Whether time alone will end it.
    pub fn ends_by_itself(self) -> bool {
        matches!(self, Wait::Nothing | Wait::Time | Wait::Device(_))
    }
}

/// A queue of waiting tasks, first come, first served.
pub type Waiters = std::collections::VecDeque<TaskId>;
