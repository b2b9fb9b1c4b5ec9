// SPDX-License-Identifier: GPL-2.0-or-later
//! Who is who: unique numbers for tasks and processes, whose kernel numbers come again.

use std::collections::HashMap;

use tiltyard_measure::states::{Introduced, State, States, Wait};
use tiltyard_model::{TaskInfo, Tid};

use crate::rows::{BatchSink, Rows, Value};

/// The `utid` of the idle task, which has no row: real ones begin at 1.
pub const IDLE: u32 = 0;

/// Perfetto's name for a state.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Sleeping => "S",
        State::Waiting(Wait::Preempted) => "R+",
        State::Waiting(_) => "R",
        State::Running { .. } => "Running",
        State::Dead => "X",
    }
}

/// The number of the task in a slot.
pub fn utid_of(slot: usize) -> u32 {
    slot as u32 + 1
}

fn slot_of(utid: u32) -> usize {
    utid as usize - 1
}

#[derive(Clone, Debug)]
pub struct Thread {
    tid: u32,
    upid: u32,
    name: String,
    app: String,
    pub nice: i8,
    pub born_ns: u64,
    ended_ns: Option<u64>,
    is_main_thread: bool,
    pub parent: Option<u32>,
    /// The number of the row that its state will be.
    pub state_id: u64,
    /// Who woke it, while it waits for that reason.
    pub waker: Option<u32>,
}

#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    name: String,
    born_ns: u64,
    ended_ns: Option<u64>,
    parent: Option<u32>,
    threads_alive: u32,
}

/// All tasks and processes of a run, dead ones included.
#[derive(Default)]
pub struct Tasks {
    pub states: States,
    /// By slot.
    threads: Vec<Thread>,
    processes: Vec<Process>,
    /// The latest with that number.
    upid_of: HashMap<u32, u32>,
}

impl Tasks {
    /// The `utid` of a task that somebody introduced; [`IDLE`] for the idle task.
    #[inline]
    pub fn utid(&self, tid: Tid) -> Option<u32> {
        match tid.is_idle() {
            true => Some(IDLE),
            false => self.states.slot(tid).map(utid_of),
        }
    }

    #[inline]
    pub fn get(&mut self, utid: u32) -> &mut Thread {
        &mut self.threads[slot_of(utid)]
    }

    /// The slot of a task in [`Tasks::states`]; `None` for the idle task.
    #[inline]
    pub fn slot(utid: u32) -> Option<usize> {
        (utid != IDLE).then(|| slot_of(utid))
    }

    /// Returns whether it was a new one.
    pub fn introduce(&mut self, info: &TaskInfo, state_id: u64) -> bool {
        let parent = self.utid(info.parent).filter(|utid| *utid != IDLE);
        match self.states.introduce(info) {
            Introduced::Idle => return false,
            Introduced::Known(slot) => {
                self.threads[slot].name.clone_from(&info.name);
                return false;
            }
            Introduced::New(_) => {}
        }
        let upid = self.process(info, parent);
        self.threads.push(Thread {
            tid: info.tid.0,
            upid,
            name: info.name.clone(),
            app: info.app.clone(),
            nice: info.nice,
            born_ns: info.born_ns,
            ended_ns: None,
            is_main_thread: info.tid == info.tgid,
            parent,
            state_id,
            waker: None,
        });
        true
    }

    /// The process of a new task: it lives, or begins with the task.
    fn process(&mut self, info: &TaskInfo, parent: Option<u32>) -> u32 {
        if let Some(&upid) = self.upid_of.get(&info.tgid.0) {
            let process = &mut self.processes[upid as usize - 1];
            if process.threads_alive > 0 {
                process.threads_alive += 1;
                return upid;
            }
        }
        let parent = parent.map(|utid| self.get(utid).upid);
        self.processes.push(Process {
            pid: info.tgid.0,
            name: info.app.clone(),
            born_ns: info.born_ns,
            ended_ns: None,
            parent,
            threads_alive: 1,
        });
        let upid = self.processes.len() as u32;
        self.upid_of.insert(info.tgid.0, upid);
        upid
    }

    pub fn end(&mut self, utid: u32, now_ns: u64) {
        let thread = self.get(utid);
        thread.ended_ns = Some(now_ns);
        let upid = thread.upid as usize - 1;
        let process = &mut self.processes[upid];
        process.threads_alive = process.threads_alive.saturating_sub(1);
        process.ended_ns = (process.threads_alive == 0).then_some(now_ns);
    }

    /// The tables `process` and `thread`; `ts` puts a time on the run's scale.
    pub(crate) fn write(&self, run: u32, out: &mut impl BatchSink, ts: impl Fn(u64) -> i64) {
        let mut rows = Rows::new("process", run);
        for (upid, process) in (1u32..).zip(&self.processes) {
            let row: [Value; 6] = [
                upid.into(),
                process.pid.into(),
                (&process.name).into(),
                ts(process.born_ns).into(),
                process.ended_ns.map(&ts).into(),
                process.parent.into(),
            ];
            rows.push_to(out, &row);
        }
        rows.flush(out);
        let mut rows = Rows::new("thread", run);
        for (utid, thread) in (1u32..).zip(&self.threads) {
            let row: [Value; 10] = [
                utid.into(),
                thread.tid.into(),
                thread.upid.into(),
                (&thread.name).into(),
                (&thread.app).into(),
                thread.nice.into(),
                ts(thread.born_ns).into(),
                thread.ended_ns.map(&ts).into(),
                thread.is_main_thread.into(),
                thread.parent.into(),
            ];
            rows.push_to(out, &row);
        }
        rows.flush(out);
    }
}
