// SPDX-License-Identifier: GPL-2.0-or-later
//! When what happens next. One total order: time first; at the same time armed events in the
//! order in which they were armed, then CPUs that finish work in the order of their numbers,
//! then the timer tick.

use crate::bpf::timers::Arming;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const NEVER: u64 = u64::MAX;

/// Events that are armed for a time. `gen` distinguishes a cancelled or re-armed one from the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// A task's timed sleep or timer ends.
    Task { task: u32, generation: u32 },
    /// A bpf_timer fires.
    BpfTimer { arming: Arming, cpu: u32 },
    /// An inter-processor interrupt asks this CPU to reschedule.
    Resched { cpu: u32 },
    /// A CPU has done what the kernel was busy with there, and comes to `schedule()`.
    Schedule { cpu: u32 },
    /// A device has served a request.
    Device { device: u32 },
    /// Look for tasks that wait too long.
    Watchdog,
    /// A CPU that stood still goes on.
    WaitOver { cpu: u32 },
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

    /// Takes the next thing that is due, with its time; `None` when nothing is due up to `end_ns`.
    /// Work stays due until [`Clock::set_work_done`] says otherwise.
    pub fn next(&mut self, end_ns: u64) -> Option<(u64, Due)> {
        let alarm_ns = self.alarms.peek().map_or(NEVER, |Reverse((at, _, _))| *at);
        let work_ns = self.work.min();
        let first_ns = alarm_ns.min(work_ns).min(self.next_tick_ns);
        if first_ns > end_ns || first_ns == NEVER {
            return None;
        }
        if alarm_ns == first_ns {
            let Reverse((at, _, alarm)) = self.alarms.pop()?;
            return Some((at, Due::Alarm(alarm)));
        }
        if work_ns == first_ns {
            let cpu = self.work.first_min() as u32;
            return Some((work_ns, Due::WorkDone { cpu }));
        }
        self.next_tick_ns += self.tick_ns;
        Some((first_ns, Due::Tick))
    }
}

/// Minimum over a fixed number of slots, each of which may change: a tournament tree.
#[derive(Debug)]
struct MinTree {
    /// `tree[1]` is the least value, leaves start at `leaves`.
    tree: Vec<u64>,
    leaves: usize,
}

impl MinTree {
    fn new(slots: usize) -> MinTree {
        let leaves = slots.next_power_of_two().max(1);
        MinTree {
            tree: vec![NEVER; 2 * leaves],
            leaves,
        }
    }

    fn set(&mut self, slot: usize, value: u64) {
        let mut i = self.leaves + slot;
        self.tree[i] = value;
        while i > 1 {
            i /= 2;
            let least = self.tree[2 * i].min(self.tree[2 * i + 1]);
            if self.tree[i] == least {
                break;
            }
            self.tree[i] = least;
        }
    }

    fn min(&self) -> u64 {
        self.tree[1]
    }

    /// The first slot that holds the least value.
    fn first_min(&self) -> usize {
        let least = self.min();
        let mut i = 1;
        while i < self.leaves {
            i *= 2;
            if self.tree[i] != least {
                i += 1;
            }
        }
        i - self.leaves
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
            let (at, due) = clock.next(NEVER).unwrap();
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
        assert_eq!(clock.next(NEVER), Some((10, Due::Tick)));
        assert_eq!(clock.next(NEVER), Some((20, Due::Tick)));
    }

    #[test]
    fn ticks_stand_on_one_grid() {
        let mut clock = Clock::new(1, 4);
        clock.start_ticks(5);
        assert_eq!(clock.next(7), None);
        assert_eq!(clock.next(8), Some((8, Due::Tick)));
        clock.stop_ticks();
        assert_eq!(clock.next(NEVER), None);
        clock.start_ticks(12);
        assert_eq!(clock.next(NEVER), Some((16, Due::Tick)));
    }

    #[test]
    fn min_tree_keeps_the_lowest_slot_on_ties() {
        let mut tree = MinTree::new(5);
        for slot in [4, 1, 3] {
            tree.set(slot, 6);
        }
        assert_eq!((tree.min(), tree.first_min()), (6, 1));
        tree.set(1, 9);
        assert_eq!((tree.min(), tree.first_min()), (6, 3));
        tree.set(4, 2);
        assert_eq!((tree.min(), tree.first_min()), (2, 4));
    }
}
