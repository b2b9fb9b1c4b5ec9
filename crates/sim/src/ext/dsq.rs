// SPDX-License-Identifier: GPL-2.0-or-later
//! Dispatch queues: only the data structure. A DSQ is a FIFO or ordered by vtime, never both
//! at once; an empty one may change its kind.

use crate::contention::lock::Lock;
use crate::task::{Task, TaskId};
use std::collections::BTreeMap;

/// Tasks are linked through `Task::ext`, in order; those that are ordered by vtime are in a tree, too, which finds their place.
#[derive(Debug)]
pub struct Dsq {
    pub id: u64,
    pub lock: Lock,
    first: TaskId,
    last: TaskId,
    /// (vtime relative to `base`, insertion number) -> task.
    ordered: BTreeMap<(u64, u64), TaskId>,
    /// Added to a vtime so that signed wrap-around order becomes plain order. Holds while the
    /// vtimes of an unbroken busy period span less than 2^63.
    base: u64,
    /// Number of the newest insertion (`dsq->seq`).
    pub seq: u64,
    pub len: u32,
    /// Total number of tasks taken from it to run.
    pub taken: u64,
    next_tail: i64,
    next_head: i64,
}

/// Why an insert does not fit the kind of the queue. The task is queued anyway, as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixedUse {
    VtimeIntoFifo,
    FifoIntoVtime,
}

/// Where to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Head,
    Tail,
    Vtime(u64),
}

type Tasks = [Box<Task>];

impl Dsq {
    pub fn new(id: u64) -> Dsq {
        Dsq {
            id,
            lock: Lock::default(),
            first: TaskId::IDLE,
            last: TaskId::IDLE,
            ordered: BTreeMap::new(),
            base: 0,
            seq: 0,
            len: 0,
            taken: 0,
            next_tail: 1,
            next_head: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts a task; the caller records which DSQ it is on.
    pub fn insert(
        &mut self,
        tasks: &mut Tasks,
        id: TaskId,
        place: Position,
    ) -> Result<(), MixedUse> {
        let mixed = match place {
            Position::Vtime(_) if self.len > 0 && self.ordered.is_empty() => {
                Err(MixedUse::VtimeIntoFifo)
            }
            Position::Head | Position::Tail if !self.ordered.is_empty() => {
                Err(MixedUse::FifoIntoVtime)
            }
            _ => Ok(()),
        };
        self.seq += 1;
        tasks[id.index()].ext.dsq_seq = self.seq;
        match (place, mixed) {
            (Position::Vtime(vtime), Ok(())) => self.insert_ordered(tasks, id, vtime),
            (_, Err(MixedUse::FifoIntoVtime)) => {
                let vtime = tasks[id.index()].kern.scx.dsq_vtime;
                self.insert_ordered(tasks, id, vtime);
            }
            (Position::Head, _) => self.push_front(tasks, id),
            _ => self.push_back(tasks, id),
        }
        self.len += 1;
        mixed
    }

    fn insert_ordered(&mut self, tasks: &mut Tasks, id: TaskId, vtime: u64) {
        if self.ordered.is_empty() {
            self.base = vtime.wrapping_sub(1 << 63);
        }
        let key = (vtime.wrapping_sub(self.base), self.seq);
        tasks[id.index()].ext.dsq_order = key.0 as i64;
        let before = self.ordered.range(..key).next_back();
        let before = before.map_or(TaskId::IDLE, |(_, id)| *id);
        self.link(tasks, id, before);
        self.ordered.insert(key, id);
    }

    fn push_back(&mut self, tasks: &mut Tasks, id: TaskId) {
        tasks[id.index()].ext.dsq_order = self.next_tail;
        self.next_tail += 1;
        self.link(tasks, id, self.last);
    }

    fn push_front(&mut self, tasks: &mut Tasks, id: TaskId) {
        tasks[id.index()].ext.dsq_order = self.next_head;
        self.next_head -= 1;
        self.link(tasks, id, TaskId::IDLE);
    }

    /// Behind a task, or at the head if that is [`TaskId::IDLE`].
    fn link(&mut self, tasks: &mut Tasks, id: TaskId, prev: TaskId) {
        let next = match prev {
            TaskId::IDLE => std::mem::replace(&mut self.first, id),
            prev => std::mem::replace(&mut tasks[prev.index()].ext.dsq_next, id),
        };
        match next {
            TaskId::IDLE => self.last = id,
            next => tasks[next.index()].ext.dsq_prev = id,
        }
        let task = &mut tasks[id.index()].ext;
        (task.dsq_prev, task.dsq_next) = (prev, next);
    }

    /// Removes a task that is on this queue.
    pub fn remove(&mut self, tasks: &mut Tasks, id: TaskId) {
        self.len -= 1;
        let ext = &tasks[id.index()].ext;
        if !self.ordered.is_empty() {
            let removed = self.ordered.remove(&(ext.dsq_order as u64, ext.dsq_seq));
            debug_assert_eq!(removed, Some(id));
        }
        let (prev, next) = (ext.dsq_prev, ext.dsq_next);
        match prev {
            TaskId::IDLE => self.first = next,
            prev => tasks[prev.index()].ext.dsq_next = next,
        }
        match next {
            TaskId::IDLE => self.last = prev,
            next => tasks[next.index()].ext.dsq_prev = prev,
        }
        if self.first.is_idle() {
            (self.next_tail, self.next_head) = (1, 0);
        }
    }

    /// The task that a consumer would examine first.
    pub fn first(&self) -> Option<TaskId> {
        some(self.first)
    }

    /// The task that a reverse iteration sees first.
    pub fn last(&self) -> Option<TaskId> {
        some(self.last)
    }

    /// The task after `at` (before it when `reverse`); `at` must be on this queue.
    pub fn neighbour(&self, tasks: &Tasks, at: TaskId, reverse: bool) -> Option<TaskId> {
        let ext = &tasks[at.index()].ext;
        some(if reverse { ext.dsq_prev } else { ext.dsq_next })
    }

    /// The first task after a position that a task once had (before it when `reverse`).
    pub fn beyond(&self, tasks: &Tasks, order: i64, seq: u64, reverse: bool) -> Option<TaskId> {
        use std::ops::Bound::{Excluded, Unbounded};
        if !self.ordered.is_empty() {
            let key = (order as u64, seq);
            return if reverse {
                self.ordered.range(..key).next_back().map(|(_, id)| *id)
            } else {
                self.ordered
                    .range((Excluded(key), Unbounded))
                    .next()
                    .map(|(_, id)| *id)
            };
        }
        let mut id = if reverse { self.last } else { self.first };
        while !id.is_idle() {
            let ext = &tasks[id.index()].ext;
            if (!reverse && ext.dsq_order > order) || (reverse && ext.dsq_order < order) {
                return Some(id);
            }
            id = if reverse { ext.dsq_prev } else { ext.dsq_next };
        }
        None
    }
}

fn some(id: TaskId) -> Option<TaskId> {
    (!id.is_idle()).then_some(id)
}
