// SPDX-License-Identifier: GPL-2.0-or-later
//! When what happens next. One total order: time first; at the same time armed events in the
//! order in which they were armed, then CPUs that finish work in the order of their numbers,
//! then the timer tick.

use crate::bpf::timers::Arming;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const NEVER: u64 = u64::MAX;

/// Events that are armed for a time. `gen` tells a cancelled or re-armed one from the current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// A task's timed sleep or timer ends.
    Task { task: u32, generation: u32 },
    /// A bpf_timer fires.
    BpfTimer { arming: Arming, cpu: u32 },
    /// An inter-processor interrupt asks this CPU to reschedule.
    Resched { cpu: u32 },
    /// A device has served a request.
    Device { device: u32 },
    /// Look for tasks that wait too long.
    Watchdog,
}

/// What [`Clock::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Alarm(Alarm),
    /// The task on this CPU has done the work it was busy with.
    WorkDone {
        cpu: u32,
    },
    Tick,
}

/// The event queue.
#[derive(Debug)]
pub struct Clock {
    alarms: BinaryHeap<Reverse<(u64, u64, Alarm)>>,
    seq: u64,
    work: MinTree,
    tick_ns: u64,
    /// Time of the next tick, [`NEVER`] while no CPU needs one.
    next_tick_ns: u64,
}

impl Clock {
    pub fn new(nr_cpus: usize, tick_ns: u64) -> Clock {
        Clock {
            alarms: BinaryHeap::new(),
            seq: 0,
            work: MinTree::new(nr_cpus),
            tick_ns,
            next_tick_ns: NEVER,
        }
    }

    pub fn arm(&mut self, at_ns: u64, alarm: Alarm) {
        self.seq += 1;
        self.alarms.push(Reverse((at_ns, self.seq, alarm)));
    }

    /// Sets when the work on a CPU will be done; [`NEVER`] when it has none.
    pub fn set_work_done(&mut self, cpu: u32, at_ns: u64) {
        self.work.set(cpu as usize, at_ns);
    }

    /// Ticks stand on one grid for the whole machine; they stop while every CPU is idle.
    pub fn start_ticks(&mut self, now_ns: u64) {
        if self.next_tick_ns == NEVER {
            self.next_tick_ns = (now_ns / self.tick_ns + 1) * self.tick_ns;
        }
    }

    pub fn stop_ticks(&mut self) {
        self.next_tick_ns = NEVER;
    }

    /// Takes the next thing that is due, with its time; `None` when nothing ever will be.
    /// Work stays due until [`Clock::set_work_done`] says otherwise.
    pub fn next(&mut self) -> Option<(u64, Due)> {
        let alarm_ns = self.alarms.peek().map_or(NEVER, |Reverse((at, _, _))| *at);
        let (work_ns, cpu) = self.work.min();
        if alarm_ns <= work_ns && alarm_ns <= self.next_tick_ns {
            let Reverse((at, _, alarm)) = self.alarms.pop()?;
            return Some((at, Due::Alarm(alarm)));
        }
        if work_ns <= self.next_tick_ns {
            return Some((work_ns, Due::WorkDone { cpu: cpu as u32 }));
        }
        let at = self.next_tick_ns;
        self.next_tick_ns += self.tick_ns;
        Some((at, Due::Tick))
    }

    /// Time of the next thing that is due.
    pub fn peek_ns(&self) -> u64 {
        let alarm_ns = self.alarms.peek().map_or(NEVER, |Reverse((at, _, _))| *at);
        alarm_ns.min(self.work.min().0).min(self.next_tick_ns)
    }
}

/// Minimum over a fixed number of slots, each of which may change: a tournament tree.
#[derive(Debug)]
struct MinTree {
    /// `tree[1]` is the winner, leaves start at `leaves`.
    tree: Vec<(u64, usize)>,
    leaves: usize,
}

impl MinTree {
    fn new(slots: usize) -> MinTree {
        let leaves = slots.next_power_of_two().max(1);
        let mut tree = vec![(NEVER, usize::MAX); 2 * leaves];
        for (slot, node) in tree[leaves..].iter_mut().enumerate() {
            *node = (NEVER, slot);
        }
        for i in (1..leaves).rev() {
            tree[i] = tree[2 * i].min(tree[2 * i + 1]);
        }
        MinTree { tree, leaves }
    }

    fn set(&mut self, slot: usize, value: u64) {
        let mut i = self.leaves + slot;
        self.tree[i].0 = value;
        while i > 1 {
            i /= 2;
            let winner = self.tree[2 * i].min(self.tree[2 * i + 1]);
            if self.tree[i] == winner {
                break;
            }
            self.tree[i] = winner;
        }
    }

    fn min(&self) -> (u64, usize) {
        self.tree[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_time_goes_alarms_then_cpus_then_tick() {
        let mut clock = Clock::new(3, 10);
        clock.start_ticks(0);
        clock.set_work_done(2, 10);
        clock.set_work_done(1, 10);
        clock.arm(10, Alarm::Device { device: 7 });
        clock.arm(10, Alarm::Resched { cpu: 0 });
        let mut seen = Vec::new();
        for _ in 0..4 {
            let (at, due) = clock.next().unwrap();
            assert_eq!(at, 10);
            if let Due::WorkDone { cpu } = due {
                clock.set_work_done(cpu, NEVER);
            }
            seen.push(due);
        }
        assert_eq!(
            seen,
            [
                Due::Alarm(Alarm::Device { device: 7 }),
                Due::Alarm(Alarm::Resched { cpu: 0 }),
                Due::WorkDone { cpu: 1 },
                Due::WorkDone { cpu: 2 },
            ]
        );
        assert_eq!(clock.next(), Some((10, Due::Tick)));
        assert_eq!(clock.next(), Some((20, Due::Tick)));
    }

    #[test]
    fn ticks_stand_on_one_grid() {
        let mut clock = Clock::new(1, 4);
        clock.start_ticks(5);
        assert_eq!(clock.peek_ns(), 8);
        clock.stop_ticks();
        assert_eq!(clock.next(), None);
        clock.start_ticks(12);
        assert_eq!(clock.next(), Some((16, Due::Tick)));
    }

    #[test]
    fn min_tree_keeps_the_lowest_slot_on_ties() {
        let mut tree = MinTree::new(5);
        for slot in [4, 1, 3] {
            tree.set(slot, 6);
        }
        assert_eq!(tree.min(), (6, 1));
        tree.set(1, 9);
        assert_eq!(tree.min(), (6, 3));
        tree.set(4, 2);
        assert_eq!(tree.min(), (2, 4));
    }
}
