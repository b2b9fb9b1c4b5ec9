// SPDX-License-Identifier: GPL-2.0-or-later
//! CPUs that are idle while tasks that may run there wait: how many at each moment, and which.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::grid::Depth;
use crate::matching::Matching;

/// A CPU that a task has is not free before a switch says so.
const NEVER: u64 = u64::MAX;

/// Follows which CPUs are free and which tasks wait. Before the arena has declared a set of CPUs nothing is known of
/// affinities, and nothing is followed.
#[derive(Clone, Debug)]
pub struct Waste {
    origin_ns: u64,
    matching: Matching,
    /// The set of CPUs on which each task may run, by slot.
    set_of: Vec<u32>,
    cpus: Vec<Cpu>,
    /// CPUs without a task whose overhead ends, by that time. Each is in it once at most.
    ending: BinaryHeap<Reverse<(u64, u32)>>,
}

/// On one cache line.
#[repr(align(64))]
#[derive(Clone, Debug)]
struct Cpu {
    /// Idle from then on.
    free_from_ns: u64,
    is_ending: bool,
    /// 1 while it could be put to work.
    wasted: Depth,
}

impl Waste {
    /// All CPUs are idle from the beginning, as for all other figures.
    pub fn new(nr_cpus: usize, origin_ns: u64) -> Self {
        let cpu = Cpu {
            free_from_ns: 0,
            is_ending: false,
            wasted: Depth::default(),
        };
        let mut matching = Matching::new(nr_cpus);
        (0..nr_cpus as u32).for_each(|cpu| matching.add_cpu(cpu));
        Waste {
            origin_ns,
            matching,
            set_of: Vec::new(),
            cpus: vec![cpu; nr_cpus],
            ending: BinaryHeap::new(),
        }
    }

    /// Whether the arena reports affinities.
    pub fn is_known(&self) -> bool {
        self.matching.nr_sets() > 0
    }

    pub fn cpu_set(&mut self, cpus: &[Range<u32>]) {
        let nr_cpus = self.cpus.len() as u32;
        let there = cpus
            .iter()
            .map(|r| r.start.min(nr_cpus)..r.end.min(nr_cpus));
        let there: Vec<_> = there.collect();
        self.matching.add_set(&there);
    }

    /// A task may run on every CPU until an event binds it.
    fn set_of(&mut self, slot: usize) -> u32 {
        self.set_of.get(slot).copied().unwrap_or(0)
    }

    /// False if there is no such set.
    pub fn bind(&mut self, now_ns: u64, slot: usize, set: u32, waits_on: Option<u32>) -> bool {
        if set as usize >= self.matching.nr_sets() {
            return false;
        }
        if let Some(queue) = waits_on {
            self.waits_no_longer(now_ns, slot, queue);
        }
        if self.set_of.len() <= slot {
            self.set_of.resize(slot + 1, 0);
        }
        self.set_of[slot] = set;
        if let Some(queue) = waits_on {
            self.waits(now_ns, slot, queue);
        }
        true
    }

    /// A task begins to wait on the runqueue of this CPU.
    #[inline]
    pub fn waits(&mut self, now_ns: u64, slot: usize, queue: u32) {
        if self.is_known() {
            let set = self.set_of(slot);
            self.matching.add_task(set, queue);
            self.apply(now_ns);
        }
    }

    /// It runs on this CPU, or sleeps.
    #[inline]
    pub fn waits_no_longer(&mut self, now_ns: u64, slot: usize, cpu: u32) {
        if self.is_known() {
            let set = self.set_of(slot);
            self.matching.remove_task(set, cpu);
            self.apply(now_ns);
        }
    }

    /// A task has the CPU.
    #[inline]
    pub fn occupied(&mut self, now_ns: u64, cpu: u32) {
        self.free_from(now_ns, cpu, NEVER);
    }

    /// No task has the CPU, whose overhead ends then.
    #[inline]
    pub fn free_from(&mut self, now_ns: u64, cpu: u32, from_ns: u64) {
        let state = &mut self.cpus[cpu as usize];
        state.free_from_ns = from_ns;
        let (is_free, was_free) = (from_ns <= now_ns, self.matching.is_idle(cpu));
        if !is_free && from_ns != NEVER && !std::mem::replace(&mut state.is_ending, true) {
            self.ending.push(Reverse((from_ns, cpu)));
        }
        match (was_free, is_free) {
            (false, true) => self.matching.add_cpu(cpu),
            (true, false) => self.matching.remove_cpu(cpu),
            _ => return,
        }
        self.apply(now_ns);
    }

    /// Overhead that ends by then makes CPUs free, each at its time.
    #[inline]
    pub fn advance(&mut self, to_ns: u64) {
        while let Some(Reverse((at_ns, cpu))) = self.ending.peek().copied()
            && at_ns <= to_ns
        {
            self.ending.pop();
            let state = &mut self.cpus[cpu as usize];
            state.is_ending = false;
            let from_ns = state.free_from_ns;
            self.free_from(at_ns, cpu, from_ns);
        }
    }

    #[inline]
    fn apply(&mut self, now_ns: u64) {
        for changed in &self.matching.changed {
            let delta = if changed.matched { 1 } else { -1 };
            let wasted = &mut self.cpus[changed.cpu as usize].wasted;
            wasted.add(now_ns, self.origin_ns, delta);
        }
    }

    /// Closes the open bucket of each CPU.
    pub fn close(&mut self, at_ns: u64) {
        self.advance(at_ns);
        for cpu in &mut self.cpus {
            cpu.wasted.close(at_ns, self.origin_ns);
        }
    }

    pub fn fold(&mut self) {
        for cpu in &mut self.cpus {
            cpu.wasted.fold();
        }
    }

    /// Of each bucket of a CPU, how long it was wasted; `None` if affinities are unknown.
    pub fn wasted_ns(&self, cpu: usize) -> Option<Vec<u64>> {
        let buckets = self.cpus[cpu].wasted.closed.iter();
        self.is_known().then(|| buckets.map(|b| b.area).collect())
    }
}
