// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait forever: for each other, or for what none of the tasks that go on can bring about.

use super::compile::Insn;
use super::{Stuck, Wait};
use crate::engine::{Engine, RunError};
use crate::task::{Life, TaskId};
use std::collections::{BTreeSet, HashSet};
use tiltyard_workload::{Index, Op, Ref};

/// Tasks whose waits are described one by one.
const MAX_NAMED: usize = 4;

impl Engine<'_> {
    /// Deadlock: every task waits for another, and none is left to wake them.
    pub(crate) fn check_deadlock(&mut self) {
        let programs = &self.programs;
        if programs.stuck < programs.live_total
            || programs.unborn_total > 0
            || programs.live_awaited == 0
        {
            return;
        }
        let tasks = self.tasks.iter();
        let waiting = tasks.filter(|t| t.spec.is_some() && t.life == Life::Blocked);
        let named: Vec<TaskId> = waiting.take(MAX_NAMED).map(|t| t.id).collect();
        self.deadlock(&named, self.programs.stuck as usize);
    }

    /// The task is about to wait for a lock. Is its holder waiting for one, whose holder .. waits for one of the task's? These
    /// never go on, whatever others do.
    pub(super) fn check_lock_cycle(&mut self, id: TaskId) {
        let mut cycle = vec![id];
        let mut at = id;
        while let Wait::Mutex(m) = self.tasks[at.index()].cursor.wait
            && let Some(owner) = self.programs.res.mutexes[m as usize].owner
        {
            if owner == id {
                return self.deadlock(&cycle, cycle.len());
            }
            if cycle.contains(&owner) {
                return;
            }
            cycle.push(owner);
            at = owner;
        }
    }

    /// `tasks`: how many there are in all; `some` are described.
    fn deadlock(&mut self, some: &[TaskId], tasks: usize) {
        let named = some
            .iter()
            .take(MAX_NAMED)
            .map(|id| self.describe_wait(*id));
        let named: Vec<String> = named.collect();
        let others = match tasks - named.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let what = format!("deadlock: {}{others}", named.join(", "));
        self.fail(RunError::Workload(what));
    }

    /// At the end of a run that was not done: tasks that the run waits for, and that nobody would ever have woken. A task
    /// that goes on, or may still be started, counts as one that wakes whatever its program mentions.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        if self.done || self.programs.unborn_total > 0 {
            return None;
        }
        let tasks = self.tasks.iter();
        let living = tasks.filter(|task| task.spec.is_some() && task.life != Life::Dead);
        let waits = |id: &TaskId| {
            let task = &self.tasks[id.index()];
            task.life == Life::Blocked && !task.cursor.wait.ends_by_itself()
        };
        let (mut stuck, mut going): (HashSet<TaskId>, HashSet<TaskId>) =
            living.map(|task| task.id).partition(waits);
        let mut programs = BTreeSet::new();
        // Those that go on wake others, which then go on too.
        while !going.is_empty() {
            let new = self.programs_of(&going, &mut programs);
            let woken = |id: &TaskId| self.may_be_woken(*id, &stuck, &new);
            going = stuck.iter().copied().filter(woken).collect();
            stuck.retain(|id| !going.contains(id));
        }
        self.describe(stuck)
    }

    fn describe(&self, stuck: HashSet<TaskId>) -> Option<Stuck> {
        let is_awaited = |id: &TaskId| {
            let spec = self.tasks[id.index()].spec;
            spec.is_some_and(|spec| !self.workload.tasks[spec as usize].daemon)
        };
        let since_ns = |id: &TaskId| self.tasks[id.index()].cursor.spin_time_ns;
        let mut awaited: Vec<TaskId> = stuck.into_iter().filter(is_awaited).collect();
        awaited.sort_by_key(|id| (since_ns(id), *id));
        let named = awaited.iter().take(MAX_NAMED);
        Some(Stuck {
            tasks: awaited.len() as u64,
            waits: named.map(|id| self.describe_wait(*id)).collect(),
            since_ns: since_ns(awaited.first()?),
        })
    }

    /// Programs of tasks that go on, and of those that they may start, as far as `known` lacks them.
    fn programs_of(&self, going: &HashSet<TaskId>, known: &mut BTreeSet<u32>) -> Vec<u32> {
        let codes = going.iter().map(|id| self.tasks[id.index()].cursor.code);
        let mut new: Vec<u32> = codes.filter(|code| known.insert(*code)).collect();
        let mut at = 0;
        while let Some(code) = new.get(at) {
            let insns = self.programs.code[*code as usize].iter();
            let started = insns.filter_map(|insn| match insn {
                Insn::Do(Op::Fork { task } | Op::Spawn { task, .. }) => Some(*task as u32),
                _ => None,
            });
            let started: Vec<u32> = started.filter(|code| known.insert(*code)).collect();
            new.extend(started);
            at += 1;
        }
        new
    }

    /// By one that goes on and is not in `stuck`, or by one of the programs.
    fn may_be_woken(&self, id: TaskId, stuck: &HashSet<TaskId>, programs: &[u32]) -> bool {
        match self.tasks[id.index()].cursor.wait {
            Wait::Mutex(m) => {
                let owner = self.programs.res.mutexes[m as usize].owner;
                owner.is_none_or(|owner| !stuck.contains(&owner))
            }
            Wait::Children => {
                let mut tasks = self.tasks.iter();
                tasks.any(|t| t.parent == id && t.life != Life::Dead && !stuck.contains(&t.id))
            }
            wait => {
                let codes = programs
                    .iter()
                    .map(|code| &self.programs.code[*code as usize]);
                let mut insns = codes.flat_map(|code| code.iter());
                insns.any(|insn| matches!(insn, Insn::Do(op) if wakes(op, wait)))
            }
        }
    }

    fn describe_wait(&self, id: TaskId) -> String {
        let workload = self.workload;
        let res = &self.programs.res;
        let what = match self.tasks[id.index()].cursor.wait {
            Wait::Nothing | Wait::Time | Wait::Exits => "time".to_owned(),
            Wait::Device(d) => format!("device '{}'", workload.devices[d as usize].name),
            Wait::Mutex(m) => {
                let owner = res.mutexes[m as usize].owner;
                let holder = owner.map_or("nobody".to_owned(), |o| self.task_label(o));
                let name = &workload.mutexes[m as usize].name;
                format!("lock '{name}', which {holder} holds")
            }
            Wait::Cond(c) => format!("condition '{}'", workload.conds[c as usize]),
            Wait::Barrier(b) => {
                let (state, name) = (&res.barriers[b as usize], &workload.barriers[b as usize]);
                let (came, all) = (state.arrived, state.parties);
                format!("barrier '{}' ({came} of {all} came)", name.name)
            }
            Wait::Sem(s) => format!("semaphore '{}'", workload.sems[s as usize].name),
            Wait::PipeRead(p) => format!("data in pipe '{}'", workload.pipes[p as usize].name),
            Wait::PipeWrite(p) => format!("room in pipe '{}'", workload.pipes[p as usize].name),
            Wait::Place(p) => format!("a resume of '{}'", workload.places[p as usize]),
            Wait::Children => "its children".to_owned(),
        };
        format!("{} waits for {what}", self.task_label(id))
    }
}

/// Whether an operation may end this wait.
fn wakes(op: &Op, wait: Wait) -> bool {
    match (op, wait) {
        (Op::Signal(of) | Op::Broadcast(of) | Op::Sync { cond: of, .. }, Wait::Cond(it))
        | (Op::Barrier(of), Wait::Barrier(it))
        | (Op::SemPost(of), Wait::Sem(it))
        // A reader that leaves data wakes the next one.
        | (Op::PipeWrite { pipe: of, .. } | Op::PipeRead { pipe: of, .. }, Wait::PipeRead(it))
        | (Op::PipeRead { pipe: of, .. }, Wait::PipeWrite(it)) => may_be(of, it as usize),
        (Op::Resume { place }, Wait::Place(it)) => *place == it as usize,
        _ => false,
    }
}

fn may_be(of: &Ref, it: usize) -> bool {
    match of.index {
        Index::Const(index) => of.first as i64 + index == it as i64,
        _ => (of.first..of.first + of.len).contains(&it),
    }
}
