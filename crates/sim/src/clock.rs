// SPDX-License-Identifier: GPL-2.0-or-later
//! What happens next, and when. One total order: time first; at the same time armed events in the
//! order in which they were armed, then CPUs that finish work in the order of their numbers, then
//! the timer tick.

use crate::jitter::Lateness;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

pub const NEVER: u64 = u64::MAX;

/// Events that are armed for a time. `gen` distinguishes a cancelled or re-armed one from the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// A task's timed sleep or timer ends.
    Task { task: u32, generation: u32 },
    /// The interrupt of a timer or a device has come as far as to wake the task.
    Woken { task: u32, generation: u32 },
    /// A bpf_timer fires.
    BpfTimer { timer: usize, number: u32, cpu: u16 },
    /// An inter-processor interrupt asks this CPU to reschedule.
    Resched { cpu: u32 },
    /// A CPU has finished its current kernel work and enters `schedule()`.
    Schedule { cpu: u32 },
    /// A device has served a request.
    Device { device: u32 },
    /// User space calls a program of the scheduler.
    Program { call: u32 },
    /// Check for tasks that wait too long.
    Watchdog,
    /// A CPU that was halted continues.
    WaitOver { cpu: u32 },
}

/// What [`Clock::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Alarm(Alarm),
    /// The task on this CPU has finished its current work.
    WorkDone {
        cpu: u32,
    },
    Tick,
}

/// An alarm in the heap, whose greatest element is the earliest.
#[derive(Debug)]
struct Armed {
    /// The time above 64 bits of the number in order of arming: one comparison instead of two.
    order: u128,
    alarm: Alarm,
}

impl Armed {
    fn at_ns(&self) -> u64 {
        (self.order >> 64) as u64
    }
}

impl Ord for Armed {
    fn cmp(&self, other: &Armed) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl PartialOrd for Armed {
    fn partial_cmp(&self, other: &Armed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Armed {
    fn eq(&self, other: &Armed) -> bool {
        self.order == other.order
    }
}

impl Eq for Armed {}

/// The event queue.
#[derive(Debug)]
pub struct Clock {
    alarms: BinaryHeap<Armed>,
    seq: u64,
    work: MinTree,
    ticks: Ticks,
}

/// Ticks are due on one grid for the whole machine, as Linux aligns them, and arrive a little late.
#[derive(Debug)]
pub struct Ticks {
    period_ns: u64,
    /// First point of the grid, within one period.
    phase_ns: u64,
    late: Lateness,
    /// The next tick's point of the grid.
    due_ns: u64,
    /// When it arrives, [`NEVER`] while no CPU needs one.
    next_ns: u64,
}

impl Ticks {
    pub fn new(period_ns: u64, phase_ns: u64, late: Lateness) -> Ticks {
        Ticks {
            period_ns,
            phase_ns,
            late,
            due_ns: NEVER,
            next_ns: NEVER,
        }
    }

    fn start(&mut self, now_ns: u64) {
        self.arm(self.after(now_ns));
    }

    /// The next point of the grid.
    fn after(&self, now_ns: u64) -> u64 {
        let before = now_ns.checked_sub(self.phase_ns);
        let passed = before.map_or(0, |ns| ns / self.period_ns + 1);
        passed * self.period_ns + self.phase_ns
    }

    fn arm(&mut self, due_ns: u64) {
        self.due_ns = due_ns;
        // Lateness does not accumulate, and no tick overtakes the next.
        self.next_ns = due_ns + self.late.draw_ns().min(self.period_ns - 1);
    }
}

impl Clock {
    pub fn new(nr_cpus: usize, ticks: Ticks) -> Clock {
        Clock {
            alarms: BinaryHeap::new(),
            seq: 0,
            work: MinTree::new(nr_cpus),
            ticks,
        }
    }

    pub fn arm(&mut self, at_ns: u64, alarm: Alarm) {
        self.seq += 1;
        let order = u128::from(at_ns) << 64 | u128::from(self.seq);
        self.alarms.push(Armed { order, alarm });
    }

    /// Sets when the work on a CPU will be done; [`NEVER`] when it has none.
    pub fn set_work_done(&mut self, cpu: u32, at_ns: u64) {
        self.work.set(cpu as usize, at_ns);
    }

    /// From one tick to the next.
    pub fn tick_ns(&self) -> u64 {
        self.ticks.period_ns
    }

    /// Ticks stop while every CPU is idle.
    pub fn start_ticks(&mut self, now_ns: u64) {
        if self.ticks.next_ns == NEVER {
            self.ticks.start(now_ns);
        }
    }

    /// The point of the ticks' grid after `now_ns` that is nearest to `now_ns + wait_ns`.
    pub fn tick_near(&self, now_ns: u64, wait_ns: u64) -> u64 {
        let half_ns = self.ticks.period_ns / 2;
        let near_ns = now_ns.saturating_add(wait_ns).saturating_sub(half_ns);
        self.ticks.after(now_ns.max(near_ns))
    }

    pub fn stop_ticks(&mut self) {
        self.ticks.next_ns = NEVER;
    }

    /// When the next event is due, [`NEVER`] if none is.
    pub fn next_ns(&self) -> u64 {
        let alarm_ns = self.alarms.peek().map_or(NEVER, Armed::at_ns);
        alarm_ns.min(self.work.min()).min(self.ticks.next_ns)
    }

    /// Takes the next due event, with its time; `None` when nothing is due up to `end_ns`.
    /// Work stays due until [`Clock::set_work_done`] changes it.
    pub fn next(&mut self, end_ns: u64) -> Option<(u64, Due)> {
        let first_ns = self.next_ns();
        if first_ns > end_ns || first_ns == NEVER {
            return None;
        }
        let armed = self.alarms.peek();
        if armed.is_some_and(|armed| armed.at_ns() == first_ns) {
            let armed = self.alarms.pop()?;
            return Some((first_ns, Due::Alarm(armed.alarm)));
        }
        let work_ns = self.work.min();
        if work_ns == first_ns {
            let cpu = self.work.first_min() as u32;
            return Some((work_ns, Due::WorkDone { cpu }));
        }
        self.ticks.arm(self.ticks.due_ns + self.ticks.period_ns);
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
        let mut least = value;
        while self.tree[i] != least {
            self.tree[i] = least;
            if i == 1 {
                break;
            }
            least = least.min(self.tree[i ^ 1]);
            i /= 2;
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
    use crate::bpf::rng::Streams;
    use tiltyard_model::machine::Jitter;

    fn clock(nr_cpus: usize, period_ns: u64, phase_ns: u64, jitter: Jitter) -> Clock {
        let late = Lateness::new(&jitter, &Streams::new(1), "tick", 0);
        Clock::new(nr_cpus, Ticks::new(period_ns, phase_ns, late))
    }

    #[test]
    fn same_time_goes_alarms_then_cpus_then_tick() {
        let mut clock = clock(3, 10, 0, Jitter::NONE);
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
        let mut clock = clock(1, 4, 0, Jitter::NONE);
        clock.start_ticks(5);
        assert_eq!(clock.next(7), None);
        assert_eq!(clock.next(8), Some((8, Due::Tick)));
        clock.stop_ticks();
        assert_eq!(clock.next(NEVER), None);
        clock.start_ticks(12);
        assert_eq!(clock.next(NEVER), Some((16, Due::Tick)));
        let mut clock = self::clock(1, 4, 3, Jitter::NONE);
        for (now_ns, due_ns) in [(0, 3), (3, 7), (8, 11)] {
            clock.start_ticks(now_ns);
            assert_eq!(clock.next(NEVER), Some((due_ns, Due::Tick)));
            clock.stop_ticks();
        }
    }

    #[test]
    fn late_ticks_stay_on_the_grid() {
        let jitter = Jitter {
            timer_late_mean_ns: 400,
            ..Jitter::NONE
        };
        let mut clock = clock(1, 1_000, 0, jitter);
        clock.start_ticks(0);
        let lateness = |i: u64| match clock.next(NEVER) {
            Some((at, Due::Tick)) => at - 1_000 * i,
            other => panic!("{other:?}"),
        };
        let late: Vec<u64> = (1..=1_000).map(lateness).collect();
        assert!(late.iter().all(|ns| *ns < 1_000));
        assert!(late.contains(&999) && late.iter().any(|ns| *ns < 10));
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
