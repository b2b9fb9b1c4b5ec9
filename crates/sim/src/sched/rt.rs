// SPDX-License-Identifier: GPL-2.0-or-later
//! The realtime class: SCHED_FIFO and SCHED_RR with absolute priority over everything below.

use crate::cpu::PreemptHint;
use crate::engine::Engine;
use crate::task::{Class, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// SCHED_RR's time slice (RR_TIMESLICE: 100 ms).
const RR_SLICE_MS: u64 = 100;

/// Queued realtime tasks of one CPU, the running one excluded.
#[derive(Debug, Default)]
pub struct RtQueue {
    /// Priority (higher runs first) -> tasks in order.
    lists: BTreeMap<u8, VecDeque<TaskId>>,
}

impl RtQueue {
    pub fn push(&mut self, priority: u8, id: TaskId, head: bool) {
        let list = self.lists.entry(priority).or_default();
        if head {
            list.push_front(id);
        } else {
            list.push_back(id);
        }
    }

    pub fn remove(&mut self, priority: u8, id: TaskId) -> bool {
        let Some(list) = self.lists.get_mut(&priority) else {
            return false;
        };
        let before = list.len();
        list.retain(|t| *t != id);
        let found = list.len() != before;
        if list.is_empty() {
            self.lists.remove(&priority);
        }
        found
    }

    pub fn pop(&mut self) -> Option<TaskId> {
        let mut top = self.lists.last_entry()?;
        let id = top.get_mut().pop_front();
        if top.get().is_empty() {
            top.remove();
        }
        id
    }

    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    pub fn has_equal(&self, priority: u8) -> bool {
        self.lists.contains_key(&priority)
    }
}

impl Engine<'_> {
    /// Where a realtime task goes when it wakes up: its last CPU if it can run there at once, else the
    /// allowed CPU with the least important current task (idle, then ext, then the lowest priority).
    pub(crate) fn rt_select_cpu(&self, id: TaskId) -> u32 {
        let task = &self.tasks[id.index()];
        let Class::Rt { priority, .. } = task.class else {
            return task.cpu;
        };
        let rank = |cpu: u32| self.curr_rank(cpu);
        let prev = task.cpu;
        if task.may_run_on(prev) && rank(prev) < 2 + u32::from(priority) {
            return prev;
        }
        (0..self.rqs.len() as u32)
            .filter(|cpu| task.may_run_on(*cpu))
            .min_by_key(|cpu| rank(*cpu))
            .unwrap_or(prev)
    }

    fn curr_rank(&self, cpu: u32) -> u32 {
        let rq = &self.rqs[cpu as usize];
        match self.class_of(rq.curr) {
            Class::Idle => 0,
            Class::Ext => 1,
            Class::Rt { priority, .. } => 2 + u32::from(priority),
        }
    }

    /// The tick of a realtime task: only SCHED_RR has a slice, and only peers of the same priority take turns.
    pub(crate) fn rt_tick(&mut self, cpu: u32) {
        let curr = self.rqs[cpu as usize].curr;
        let Class::Rt {
            priority,
            round_robin: true,
        } = self.tasks[curr.index()].class
        else {
            return;
        };
        let task = &mut self.tasks[curr.index()];
        task.rt_slice_ticks = task.rt_slice_ticks.saturating_sub(1);
        if task.rt_slice_ticks > 0 {
            return;
        }
        task.rt_slice_ticks = rr_slice_ticks(self.machine.tick_hz);
        if self.rqs[cpu as usize].rt.has_equal(priority) {
            self.rqs[cpu as usize].preempt_hint = PreemptHint::SliceEnd;
            self.resched_local(cpu);
        }
    }
}

/// A machine file allows 100,000 ticks a second at most: a slice of 10,000.
pub fn rr_slice_ticks(hz: u32) -> u16 {
    (RR_SLICE_MS * u64::from(hz) / 1000).clamp(1, u16::MAX.into()) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priority_first_and_fifo_within() {
        let mut queue = RtQueue::default();
        for (priority, id) in [(10, 1), (50, 2), (10, 3), (50, 4)] {
            queue.push(priority, TaskId(id), false);
        }
        queue.push(10, TaskId(5), true);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|t| t.0).collect();
        assert_eq!(order, [2, 4, 5, 1, 3]);
        assert!(queue.is_empty());
    }
}
