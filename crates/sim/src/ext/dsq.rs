// SPDX-License-Identifier: GPL-2.0-or-later
//! Dispatch queues: only the data structure. A DSQ is a FIFO or ordered by vtime, never both
//! at once; an empty one may change its kind.

use crate::contention::lock::Lock;
use crate::task::{TaskId, Tasks};
use std::collections::BTreeMap;

/// Tasks are linked through `Task::ext`, in order; those that are ordered by vtime are in a tree, too, which finds their place.
/// What a queue in the order of insertion needs comes first, on one cache line.
#[repr(C)]
#[derive(Debug)]
pub struct Dsq {
    first: TaskId,
    last: TaskId,
    pub len: u32,
    pub id: u64,
    /// (vtime relative to `base`, insertion number) -> task.
    ordered: BTreeMap<(u64, u64), TaskId>,
    next_tail: i64,
    /// Number of the newest insertion (`dsq->seq`).
    pub seq: u64,
    /// Total number of tasks taken from it to run.
    pub taken: u64,
    next_head: i64,
    /// Added to a vtime so that signed wrap-around order becomes plain order. Holds while the
    /// vtimes of an unbroken busy period span less than 2^63.
    base: u64,
    pub lock: Lock,
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
        self.first.unless_idle()
    }

    /// The task that a reverse iteration sees first.
    pub fn last(&self) -> Option<TaskId> {
        self.last.unless_idle()
    }

    /// The task after `at` (before it when `reverse`); `at` must be on this queue.
    pub fn neighbour(&self, tasks: &Tasks, at: TaskId, reverse: bool) -> Option<TaskId> {
        let ext = &tasks[at.index()].ext;
        let id = if reverse { ext.dsq_prev } else { ext.dsq_next };
        id.unless_idle()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::task;

    fn walk(dsq: &Dsq, tasks: &Tasks, reverse: bool) -> Vec<u32> {
        let mut at = if reverse { dsq.last() } else { dsq.first() };
        let next = || {
            let id = at?;
            at = dsq.neighbour(tasks, id, reverse);
            Some(id.0)
        };
        std::iter::from_fn(next).collect()
    }

    /// The links agree with the tree, whatever comes and goes; equals follow each other as they came.
    #[test]
    fn an_ordered_queue_is_walked_in_its_order() {
        let mut tasks = Tasks::default();
        (0..30).for_each(|_| _ = tasks.push(task()));
        let mut dsq = Dsq::new(1);
        let mut model: Vec<(u64, u64, u32)> = Vec::new();
        let mut random = 1u64;
        for step in 0..2000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step);
            let id = 1 + (random >> 33) as u32 % 29;
            // Some are equal, and the values wrap around.
            let vtime = (u64::MAX - 3).wrapping_add((random >> 40) % 8);
            match model.iter().position(|entry| entry.2 == id) {
                Some(at) => {
                    model.remove(at);
                    dsq.remove(&mut tasks, TaskId(id));
                }
                None => {
                    let place = Position::Vtime(vtime);
                    dsq.insert(&mut tasks, TaskId(id), place).unwrap();
                    model.push((vtime.wrapping_sub(u64::MAX - 3), step, id));
                }
            }
            model.sort_unstable();
            let mut order: Vec<u32> = model.iter().map(|entry| entry.2).collect();
            assert_eq!(walk(&dsq, &tasks, false), order);
            // Where an iterator goes on whose task has left.
            if let [first, second, ..] = order[..] {
                let ext = &tasks[first as usize].ext;
                let beyond = dsq.beyond(&tasks, ext.dsq_order, ext.dsq_seq, false);
                assert_eq!(beyond, Some(TaskId(second)));
            }
            order.reverse();
            assert_eq!(walk(&dsq, &tasks, true), order);
            assert_eq!(dsq.len as usize, order.len());
        }
    }
}
