// SPDX-License-Identifier: GPL-2.0-or-later
//! Which state each task is in: the one reading of a stream of events, for all that counts or lists states.

use std::ops::Range;
use tiltyard_model::{Cpu, PrevState, SwitchCause, TaskInfo, Tid};

/// tids index a table; Linux never gives out more than 2^22.
const MAX_TID: usize = 1 << 24;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Neither on a CPU nor wanting one. Also a task that was introduced and never woken.
    Sleeping,
    /// For a CPU.
    Waiting(Wait),
    Running {
        cpu: u32,
    },
    Dead,
}

/// What a wait began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Woken,
    /// Woken for the first time.
    Forked,
    /// The CPU was taken from it.
    Preempted,
    /// It gave the CPU away, or nobody knows why it left.
    Yielded,
}

impl State {
    /// Belongs to a runqueue.
    pub fn queued(self) -> bool {
        matches!(self, State::Waiting(_) | State::Running { .. })
    }
}

/// A task went from a state into another, or its wait into another.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    pub slot: usize,
    pub from: State,
    /// When it entered `from`, on the arena's clock.
    pub since_ns: u64,
    /// The runqueue that it belonged to, if any.
    pub from_queue: Option<u32>,
    pub to: State,
    pub to_queue: Option<u32>,
}

/// What became of a [`TaskInfo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Introduced {
    /// The idle task has no states.
    Idle,
    /// It is known and alive: only its name changes.
    Known(usize),
    /// The slots of new tasks count up from 0. A tid that has died begins a new task.
    New(usize),
}

#[derive(Clone, Copy, Debug)]
struct Tracked {
    state: State,
    since_ns: u64,
    /// The CPU whose runqueue it belongs to, or did last.
    queue: u32,
}

/// The states of all tasks of a run, dead ones included. Tids are below 2^24.
#[derive(Clone, Debug, Default)]
pub struct States {
    now_ns: u64,
    /// Index into `tasks` by tid.
    slot_of: Vec<u32>,
    tasks: Vec<Tracked>,
    irregular: u64,
}

impl States {
    /// Time of the last event.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How often events contradicted each other.
    pub fn irregular(&self) -> u64 {
        self.irregular
    }

    pub fn state(&self, slot: usize) -> State {
        self.tasks[slot].state
    }

    /// The runqueue on which a task waits, if it does.
    pub fn waits_on(&self, slot: usize) -> Option<u32> {
        let task = &self.tasks[slot];
        matches!(task.state, State::Waiting(_)).then_some(task.queue)
    }

    /// An event comes, at this time. Time does not run backwards, even if events do.
    #[inline]
    pub fn advance(&mut self, time_ns: u64) {
        if time_ns < self.now_ns {
            self.irregular += 1;
        } else {
            self.now_ns = time_ns;
        }
    }

    pub fn introduce(&mut self, info: &TaskInfo) -> Introduced {
        let tid = info.tid.0 as usize;
        assert!(tid < MAX_TID, "tid {tid} is not below {MAX_TID}");
        if info.tid.is_idle() {
            return Introduced::Idle;
        }
        if let Some(slot) = self.slot(info.tid)
            && self.state(slot) != State::Dead
        {
            return Introduced::Known(slot);
        }
        if self.slot_of.len() <= tid {
            self.slot_of.resize(tid + 1, NONE);
        }
        self.slot_of[tid] = self.tasks.len() as u32;
        self.tasks.push(Tracked {
            state: State::Sleeping,
            since_ns: info.born_ns,
            queue: 0,
        });
        Introduced::New(self.tasks.len() - 1)
    }

    /// The latest task with this number; `None` for the idle task and one that nobody introduced.
    #[inline]
    pub fn slot(&self, tid: Tid) -> Option<usize> {
        let slot = self.slot_of.get(tid.0 as usize).copied();
        slot.filter(|slot| *slot != NONE).map(|slot| slot as usize)
    }

    /// A task that an event names and nobody has introduced: what is to be introduced in its place.
    #[cold]
    pub fn stranger(&mut self, tid: Tid) -> TaskInfo {
        self.irregular += 1;
        TaskInfo {
            tid,
            tgid: tid,
            parent: Tid::IDLE,
            name: format!("tid {tid}"),
            app: "(unknown)".to_owned(),
            nice: 0,
            born_ns: self.now_ns,
            is_shell: false,
        }
    }

    /// A task leaves a CPU; its part of a switch, before the next task's.
    #[inline]
    pub fn leave(
        &mut self,
        slot: usize,
        cpu: Cpu,
        state: PrevState,
        cause: SwitchCause,
    ) -> Transition {
        let task = &self.tasks[slot];
        let was_running = matches!(task.state, State::Running { .. });
        // A task that was moved while it ran already belongs to its new runqueue.
        let queue = if was_running { task.queue } else { cpu.0 };
        self.irregular += u64::from(!was_running);
        self.enter(slot, state_after(state, cause), queue)
    }

    /// A task gets a CPU.
    #[inline]
    pub fn run(&mut self, slot: usize, cpu: Cpu) -> Transition {
        let waited = matches!(self.state(slot), State::Waiting(_));
        self.irregular += u64::from(!waited);
        self.enter(slot, State::Running { cpu: cpu.0 }, cpu.0)
    }

    /// A task becomes runnable on `target`; `None` if it is already, or dead.
    #[inline]
    pub fn wake(&mut self, slot: usize, target: Cpu, wait: Wait) -> Option<Transition> {
        if self.state(slot) != State::Sleeping {
            self.irregular += 1;
            return None;
        }
        Some(self.enter(slot, State::Waiting(wait), target.0))
    }

    /// A task's runqueue changes. The one that it belonged to, unless it sleeps or is dead.
    #[inline]
    pub fn migrate(&mut self, slot: usize, to: Cpu) -> Option<u32> {
        let task = &mut self.tasks[slot];
        let from = std::mem::replace(&mut task.queue, to.0);
        task.state.queued().then_some(from)
    }

    /// The slots of all tasks.
    pub fn slots(&self) -> Range<usize> {
        0..self.tasks.len()
    }

    /// A task's way from its state into the same: the run ends.
    pub fn close(&mut self, slot: usize) -> Transition {
        self.enter(slot, self.tasks[slot].state, self.tasks[slot].queue)
    }

    #[inline]
    fn enter(&mut self, slot: usize, to: State, queue: u32) -> Transition {
        let task = &mut self.tasks[slot];
        let transition = Transition {
            slot,
            from: task.state,
            since_ns: task.since_ns,
            from_queue: task.state.queued().then_some(task.queue),
            to,
            to_queue: to.queued().then_some(queue),
        };
        *task = Tracked {
            state: to,
            since_ns: self.now_ns,
            queue,
        };
        transition
    }
}

#[inline]
fn state_after(state: PrevState, cause: SwitchCause) -> State {
    match (state, cause) {
        (PrevState::Sleeping, _) => State::Sleeping,
        (PrevState::Exited, _) => State::Dead,
        (PrevState::Runnable, SwitchCause::Yield | SwitchCause::Unknown) => {
            State::Waiting(Wait::Yielded)
        }
        (PrevState::Runnable, _) => State::Waiting(Wait::Preempted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: u32, born_ns: u64) -> TaskInfo {
        TaskInfo {
            born_ns,
            ..States::default().stranger(Tid(tid))
        }
    }

    #[test]
    fn a_life_from_birth_to_death_and_the_next_with_its_number() {
        let mut states = States::default();
        assert_eq!(states.introduce(&task(0, 0)), Introduced::Idle);
        assert_eq!(states.introduce(&task(7, 5)), Introduced::New(0));
        assert_eq!(states.introduce(&task(7, 6)), Introduced::Known(0));
        states.advance(10);
        let born = states.wake(0, Cpu(1), Wait::Forked).expect("it slept");
        assert_eq!((born.from, born.since_ns), (State::Sleeping, 5));
        assert_eq!((born.from_queue, born.to_queue), (None, Some(1)));
        assert!(states.wake(0, Cpu(1), Wait::Woken).is_none());
        assert_eq!(states.irregular(), 1, "awake already");
        states.advance(20);
        let runs = states.run(0, Cpu(1));
        assert_eq!(
            (runs.from, runs.since_ns),
            (State::Waiting(Wait::Forked), 10)
        );
        // Moved while it runs: it waits on its new runqueue afterwards.
        assert_eq!(states.migrate(0, Cpu(2)), Some(1));
        let left = states.leave(0, Cpu(1), PrevState::Runnable, SwitchCause::Affinity);
        assert_eq!(
            (left.from, left.to_queue),
            (State::Running { cpu: 1 }, Some(2))
        );
        assert_eq!(left.to, State::Waiting(Wait::Preempted));
        states.run(0, Cpu(2));
        states.leave(0, Cpu(2), PrevState::Exited, SwitchCause::Block);
        assert_eq!(states.migrate(0, Cpu(0)), None);
        assert_eq!(states.introduce(&task(7, 30)), Introduced::New(1));
        assert_eq!((states.slot(Tid(7)), states.slot(Tid(8))), (Some(1), None));
        assert_eq!(states.irregular(), 1);
    }

    #[test]
    fn contradictions_are_counted_and_followed() {
        let mut states = States::default();
        states.introduce(&task(1, 0));
        states.advance(10);
        states.advance(9);
        assert_eq!((states.now_ns(), states.irregular()), (10, 1));
        // It never waited, and runs all the same.
        assert_eq!(states.run(0, Cpu(0)).to, State::Running { cpu: 0 });
        states.leave(0, Cpu(0), PrevState::Sleeping, SwitchCause::Block);
        // It leaves a CPU that it does not have: its runqueue is that CPU's.
        let left = states.leave(0, Cpu(3), PrevState::Runnable, SwitchCause::Yield);
        assert_eq!(
            (left.to, left.to_queue),
            (State::Waiting(Wait::Yielded), Some(3))
        );
        assert_eq!(states.irregular(), 3);
        assert_eq!(states.slots(), 0..1);
        let closed = states.close(0);
        assert_eq!((closed.from, closed.to), (left.to, left.to));
    }
}
