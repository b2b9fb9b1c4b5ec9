// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait forever: for each other, or for what none of the tasks that go on can bring about.

use super::reach::Reach;
use super::{Stuck, Wait};
use crate::engine::{Engine, RunError};
use crate::task::{Life, TaskId};
use std::collections::HashSet;
use tiltyard_workload::Op;

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

    /// The same where daemons go on, in a run that only ends with its tasks. Looks less and less often.
    pub(crate) fn check_endless(&mut self) {
        if self.now < self.programs.next_search_ns {
            return;
        }
        self.programs.next_search_ns = 2 * self.now;
        let Some(stuck) = self.stuck() else { return };
        if stuck.tasks == u64::from(self.programs.live_awaited) {
            self.deadlock_of(&stuck.waits, stuck.tasks as usize, "; only daemons go on");
        }
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
        self.deadlock_of(&named.collect::<Vec<_>>(), tasks, "");
    }

    /// The same with what some of them wait for, and an addition.
    fn deadlock_of(&mut self, waits: &[String], tasks: usize, addition: &str) {
        let others = match tasks - waits.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let waits = waits.join(", ");
        let what = format!("deadlock: {waits}{others}{addition}");
        self.fail(RunError::Workload(what));
    }

    /// At the end of a run that was not done: tasks that the run waits for, and that nobody would ever have woken. A task that
    /// goes on, or may still be started, counts as one that does whatever its program may still come to.
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
        let mut reach = Reach::default();
        // Those that go on wake others, which then go on too.
        while !going.is_empty() {
            for id in &going {
                self.add_reach(*id, &mut reach);
            }
            let woken = |id: &TaskId| self.may_be_woken(*id, &stuck, &mut reach);
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

    /// By one that goes on, which is not in `stuck`.
    fn may_be_woken(&self, id: TaskId, stuck: &HashSet<TaskId>, reach: &mut Reach) -> bool {
        match self.tasks[id.index()].cursor.wait {
            Wait::Mutex(m) => {
                let Some(owner) = self.programs.res.mutexes[m as usize].owner else {
                    return true;
                };
                let releases = |op: &Op| match op {
                    Op::Unlock(mutex) | Op::CondWait { mutex, .. } | Op::Sync { mutex, .. } => {
                        let index = self.known_index(Some(owner), &mutex.index);
                        let at = i64::from(m) - mutex.first as i64;
                        index.map_or((0..mutex.len as i64).contains(&at), |index| index == at)
                    }
                    _ => false,
                };
                !stuck.contains(&owner) && self.may_do(owner, reach, releases)
            }
            // Children that go on but never end are no surprise: the run's end is theirs.
            Wait::Children => {
                let mut tasks = self.tasks.iter();
                tasks.any(|t| t.parent == id && t.life != Life::Dead && !stuck.contains(&t.id))
            }
            wait => reach.wakes(wait),
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
