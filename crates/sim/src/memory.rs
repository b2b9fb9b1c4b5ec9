// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait for memory slow each other down: in a shared cache, at the memory of a node, and far from it.
//!
//! A workload says which share *s* of a task's work waits beyond the caches of its own core (`stall_share`), measured where
//! the task is alone, in its whole last-level cache and beside its memory. There an access takes, with *m* the share of
//! its working set that the cache cannot hold, L0 = (1 - m0) `line_l3_ps` + m0 `line_mem_ps`. In company it takes
//!
//!   L = (1 - m) `line_l3_ps` + m q (`line_mem_ps` or, on another node than its memory, `line_far_ps`)
//!
//! and the task's work takes 1 - s + s L / L0 times as long. Two things are shared:
//!
//! * the last-level cache: *m* follows from the sum of the sets of all that run behind it (threads of a process share one,
//!   as in `refill_ns()`);
//! * the memory of a node: that where the task first ran, and another one once it has run there for long. *q* is the least number, 1 or more, with which the traffic of those
//!   that wait for it is no more than `node_mb_per_s`. One core that does nothing but wait draws a line each
//!   `line_mem_ps`, less what overlaps (`refill_overlap_permille`).
//!
//! Who spins at a barrier does not wait. Integers: shares and factors in 1/1000.

use crate::Setup;
use crate::bpf::cpumask::IndexedSet;
use crate::engine::Engine;
use crate::task::TaskId;
use crate::topology::Topology;
use crate::work::LINE_BYTES;
use tiltyard_model::machine::Costs;

/// After how much time on another node a task's memory has followed it. NUMA balancing moves a page that the node touched in two
/// scans in a row, and needs a second for one: `numa_balancing_scan_period_min_ms` is 1000.
const FOLLOWS_AFTER_NS: u64 = 2_000_000_000;

/// The factor q stays below: no machine has as many cores to a node.
const MOST_PERMILLE: u64 = 1000 << 17;

#[derive(Debug)]
pub struct Memory {
    /// No task of the workload waits for memory, or the processor hides all such waits.
    off: bool,
    /// For each last-level cache, what is used by all that run behind it.
    used_bytes: Vec<u64>,
    /// For each node, the CPUs whose task waits for its memory.
    waiting: Vec<Vec<u32>>,
    /// Of these something has changed at this instant.
    changed_llcs: IndexedSet,
    changed_nodes: IndexedSet,
}

impl Memory {
    pub fn new(setup: &Setup, topology: &Topology) -> Memory {
        let mut tasks = setup.workload.tasks.iter();
        let hidden = setup.machine.costs.refill_overlap_permille >= 1000;
        let (llcs, nodes) = (topology.llc_cpus.len(), topology.node_cpus.len());
        Memory {
            off: hidden || tasks.all(|spec| spec.memory_bound_permille == 0),
            used_bytes: vec![0; llcs],
            waiting: vec![Vec::new(); nodes],
            changed_llcs: IndexedSet::new(llcs as u32),
            changed_nodes: IndexedSet::new(nodes as u32),
        }
    }
}

/// One task's waits: how long its work takes is (fixed + by_memory q) / alone.
struct Waits {
    fixed: u64,
    by_memory: u64,
    alone_ps: u64,
    /// Its traffic if nothing slows it.
    mb_per_s: u64,
}

impl Waits {
    /// `alone` and `here`: shares of its accesses that miss the last-level cache; `mem_ps`: how far its memory is from here.
    fn new(costs: &Costs, stall_permille: u64, alone: u64, here: u64, mem_ps: u64) -> Waits {
        let l3_ps = costs.line_l3_ps;
        let alone_ps = ((1000 - alone) * l3_ps + alone * costs.line_mem_ps) / 1000;
        let waiting_ps = alone_ps * (1000 - costs.refill_overlap_permille.min(1000));
        Waits {
            fixed: (1000 - stall_permille) * alone_ps
                + stall_permille * ((1000 - here) * l3_ps / 1000),
            by_memory: stall_permille * (here * mem_ps / 1000),
            alone_ps,
            mb_per_s: (LINE_BYTES * 1000 * stall_permille * here)
                .checked_div(waiting_ps)
                .unwrap_or(0),
        }
    }

    /// How long its work takes, 1000: as long as alone.
    fn slowdown(&self, q: u64) -> u64 {
        let time = self.fixed + self.by_memory * q / 1000;
        time.checked_div(self.alone_ps).map_or(1000, |t| t.max(1))
    }
}

impl Engine<'_> {
    fn stall_permille(&self, task: TaskId) -> u64 {
        match task.is_idle() {
            true => 0,
            false => self.tasks[task.index()].work.stall_permille,
        }
    }

    /// `next` runs on `cpu`, `prev` no longer does.
    #[inline]
    pub(crate) fn memory_users_change(&mut self, cpu: u32, prev: TaskId, next: TaskId) {
        if !self.memory.off {
            self.memory_users_changed(cpu, prev, next);
        }
    }

    fn memory_users_changed(&mut self, cpu: u32, prev: TaskId, next: TaskId) {
        let (before, after) = (self.stall_permille(prev), self.stall_permille(next));
        let llc = self.machine.cpus[cpu as usize].llc;
        if before > 0 {
            let home = self.tasks[prev.index()].work.home as usize;
            self.memory.waiting[home].retain(|c| *c != cpu);
            self.memory.changed_nodes.set(home as u32);
            self.slow_down(cpu, 1000);
        }
        if after > 0 {
            let home = self.tasks[next.index()].work.home as usize;
            self.memory.waiting[home].push(cpu);
            self.memory.changed_nodes.set(home as u32);
        }
        self.memory.changed_llcs.set(llc);
    }

    /// A tick finds `task` on `cpu`.
    #[inline]
    pub(crate) fn memory_follows(&mut self, cpu: u32, task: TaskId) {
        if !self.memory.off && self.stall_permille(task) > 0 {
            self.memory_followed(cpu, task);
        }
    }

    fn memory_followed(&mut self, cpu: u32, task: TaskId) {
        let node = self.machine.cpus[cpu as usize].node;
        let tick_ns = self.clock.tick_ns();
        let work = &mut self.tasks[task.index()].work;
        let away_ns = match work.away {
            _ if node == work.home => 0,
            (before, ns) if before == node => ns + tick_ns,
            _ => tick_ns,
        };
        work.away = (node, away_ns);
        if away_ns >= FOLLOWS_AFTER_NS {
            self.memory_users_changed(cpu, task, TaskId::IDLE);
            self.tasks[task.index()].work.home = node;
            self.memory_users_changed(cpu, TaskId::IDLE, task);
        }
    }

    /// The core of `cpu` became faster or slower, or its task begins or ends to spin: its traffic changes.
    pub(crate) fn memory_traffic_changes(&mut self, cpu: u32) {
        let curr = self.rqs[cpu as usize].curr;
        if !self.memory.off && self.stall_permille(curr) > 0 {
            let home = self.tasks[curr.index()].work.home;
            self.memory.changed_nodes.set(home);
        }
    }

    /// Once an instant, when it is known who runs: how fast those are that wait for memory.
    #[inline]
    pub(crate) fn share_memory(&mut self) {
        if !self.memory.off {
            self.share_changed();
        }
    }

    fn share_changed(&mut self) {
        while let Some(llc) = self.memory.changed_llcs.next(0) {
            self.memory.changed_llcs.clear(llc);
            self.share_cache(llc);
        }
        while let Some(node) = self.memory.changed_nodes.next(0) {
            self.memory.changed_nodes.clear(node);
            self.share_node(node);
        }
    }

    fn share_cache(&mut self, llc: u32) {
        // Of each process the largest set: its threads share it.
        let mut sets: Vec<(i32, u64)> = Vec::new();
        for cpu in self.topology.llc_cpus[llc as usize].iter() {
            let curr = self.rqs[cpu as usize].curr;
            if curr.is_idle() {
                continue;
            }
            let task = &self.tasks[curr.index()];
            match sets.iter_mut().find(|(tgid, _)| *tgid == task.kern.tgid) {
                Some((_, bytes)) => *bytes = task.work.working_set_bytes.max(*bytes),
                None => sets.push((task.kern.tgid, task.work.working_set_bytes)),
            }
            if task.work.stall_permille > 0 {
                self.memory.changed_nodes.set(task.work.home);
            }
        }
        let sum = sets
            .iter()
            .fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        self.memory.used_bytes[llc as usize] = sum;
    }

    fn share_node(&mut self, node: u32) {
        let cpus = std::mem::take(&mut self.memory.waiting[node as usize]);
        let waits: Vec<(Waits, u64)> = cpus
            .iter()
            .map(|cpu| (self.waits(*cpu, node), self.core_speed(*cpu)))
            .collect();
        let q = self.machine.costs.node_mb_per_s.map_or(1000, |limit| {
            let traffic = |q: u64| -> u64 {
                waits
                    .iter()
                    .map(|(waits, speed)| waits.mb_per_s * speed / waits.slowdown(q))
                    .sum()
            };
            least(|q| traffic(q) <= limit)
        });
        for (cpu, (waits, _)) in cpus.iter().zip(&waits) {
            self.slow_down(*cpu, waits.slowdown(q));
        }
        self.memory.waiting[node as usize] = cpus;
    }

    /// The waits of the task that runs on `cpu`, for the memory of `home`.
    fn waits(&self, cpu: u32, home: u32) -> Waits {
        let place = self.machine.cpus[cpu as usize];
        let work = &self.tasks[self.rqs[cpu as usize].curr.index()].work;
        let l3_bytes = self.machine.caches.l3_bytes;
        let costs = &self.machine.costs;
        let misses = |users_bytes: u64| match work.working_set_bytes {
            // No set that it comes back to.
            0 => 1000,
            _ => missed_permille(users_bytes, l3_bytes),
        };
        let mem_ps = match place.node == home {
            true => costs.line_mem_ps,
            false => costs.line_far_ps,
        };
        Waits::new(
            costs,
            if work.spins { 0 } else { work.stall_permille },
            misses(work.working_set_bytes),
            misses(self.memory.used_bytes[place.llc as usize]),
            mem_ps,
        )
    }

    fn slow_down(&mut self, cpu: u32, slowdown_permille: u64) {
        self.rqs[cpu as usize].slowdown_permille = slowdown_permille;
        self.set_speed(cpu);
    }
}

/// The share of a set of `bytes` that a cache does not hold.
fn missed_permille(bytes: u64, cache_bytes: u64) -> u64 {
    let missed = u128::from(bytes.saturating_sub(cache_bytes)) * 1000;
    missed
        .checked_div(u128::from(bytes))
        .map_or(0, |share| share as u64)
}

/// The least q for which `fits`, which holds from some q on; 1000 at least.
fn least(fits: impl Fn(u64) -> bool) -> u64 {
    if fits(1000) {
        return 1000;
    }
    let (mut low, mut high) = (1000, 2000);
    while !fits(high) && high < MOST_PERMILLE {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = (low + high) / 2;
        match fits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::{Waits, least, missed_permille};
    use tiltyard_model::machine::Costs;

    const COSTS: Costs = Costs {
        line_l3_ps: 30_000,
        line_mem_ps: 100_000,
        line_far_ps: 150_000,
        refill_overlap_permille: 870,
        ..Costs::REFERENCE
    };

    #[test]
    fn a_cache_holds_what_fits() {
        assert_eq!(missed_permille(0, 0), 0);
        assert_eq!(missed_permille(64, 64), 0);
        assert_eq!(missed_permille(80, 64), 200);
        assert_eq!(missed_permille(64, 0), 1000);
    }

    #[test]
    fn who_is_alone_is_not_slowed_and_draws_what_a_core_can() {
        let streams = Waits::new(&COSTS, 1000, 1000, 1000, 100_000);
        assert_eq!(streams.slowdown(1000), 1000);
        // A line of 64 bytes each 13 ns.
        assert_eq!(streams.mb_per_s, 4923);
        let half = Waits::new(&COSTS, 500, 1000, 1000, 100_000);
        assert_eq!((half.slowdown(1000), half.mb_per_s), (1000, 2461));
    }

    #[test]
    fn waits_grow_by_misses_distance_and_queueing() {
        // It fits alone; here a fifth of it comes from memory: 0.8 x 30 + 0.2 x 100 = 44 ns instead of 30.
        let crowded = Waits::new(&COSTS, 1000, 0, 200, 100_000);
        assert_eq!(crowded.slowdown(1000), 1466);
        assert_eq!(
            Waits::new(&COSTS, 500, 0, 200, 100_000).slowdown(1000),
            1233
        );
        let far = Waits::new(&COSTS, 1000, 1000, 1000, 150_000);
        assert_eq!(far.slowdown(1000), 1500);
        assert_eq!(far.slowdown(2000), 3000);
    }

    #[test]
    fn what_costs_nothing_slows_nobody() {
        let free = Costs::default();
        let waits = Waits::new(&free, 1000, 1000, 1000, 0);
        assert_eq!((waits.slowdown(1000), waits.mb_per_s), (1000, 0));
    }

    #[test]
    fn the_least_is_found() {
        assert_eq!(least(|_| true), 1000);
        assert_eq!(least(|q| q >= 1001), 1001);
        assert_eq!(least(|q| q >= 123_457), 123_457);
    }
}
