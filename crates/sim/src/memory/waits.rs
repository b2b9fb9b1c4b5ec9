// SPDX-License-Identifier: GPL-2.0-or-later
//! The formulas of waiting for memory (memory.rs), and who waits where.

use crate::Setup;
use crate::bpf::cpumask::IndexedSet;
use crate::topology::Topology;
use tiltyard_model::machine::Costs;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// The factor q stays below: then tasks hardly get on at all, and speeds, which are whole thousandths, are no smaller.
const MOST_PERMILLE: u64 = 1000 << 17;

#[derive(Debug)]
pub struct MemoryLoad {
    /// No task of the workload waits for memory, or the processor hides all such waits.
    pub off: bool,
    /// For each last-level cache, what is used by all that run behind it.
    pub used_bytes: Vec<u64>,
    /// For each node, the CPUs whose task waits for its memory.
    pub waiting: Vec<Vec<u32>>,
    /// Of these something has changed at this instant.
    pub changed_llcs: IndexedSet,
    pub changed_nodes: IndexedSet,
}

impl MemoryLoad {
    pub fn new(setup: &Setup, topology: &Topology) -> MemoryLoad {
        let mut tasks = setup.workload.tasks.iter();
        let hidden = setup.machine.costs.refill_overlap_permille >= 1000;
        let (llcs, nodes) = (topology.llc_cpus.len(), topology.node_cpus.len());
        MemoryLoad {
            off: hidden || tasks.all(|spec| spec.memory_bound_permille == 0),
            used_bytes: vec![0; llcs],
            waiting: vec![Vec::new(); nodes],
            changed_llcs: IndexedSet::new(llcs as u32),
            changed_nodes: IndexedSet::new(nodes as u32),
        }
    }
}

/// One task's waits: how long its work takes is (fixed + by_memory q) / alone, all three in 10^-6 ps.
pub struct Waits {
    fixed: u128,
    by_memory: u128,
    alone: u128,
    /// Its traffic if nothing slows it.
    pub mb_per_s: u64,
}

impl Waits {
    /// `alone` and `here`: shares of its accesses that miss the last-level cache; `mem_ps`: how far its memory is from here.
    pub fn new(costs: &Costs, stall_permille: u64, alone: u64, here: u64, mem_ps: u64) -> Waits {
        let [stall, alone, here, mem_ps] = [stall_permille, alone, here, mem_ps].map(u128::from);
        let [l3_ps, near_ps] = [costs.line_l3_ps, costs.line_mem_ps].map(u128::from);
        let access = (1000 - alone) * l3_ps + alone * near_ps;
        let waiting = access * u128::from(1000 - costs.refill_overlap_permille.min(1000));
        let mb_per_s = (u128::from(LINE_BYTES) * 1_000_000 * stall * here).checked_div(waiting);
        Waits {
            fixed: (1000 - stall) * access + stall * (1000 - here) * l3_ps,
            by_memory: stall * here * mem_ps,
            alone: access * 1000,
            mb_per_s: mb_per_s.map_or(0, saturated),
        }
    }

    /// How long its work takes, 1000: as long as alone.
    pub fn slowdown(&self, q: u64) -> u64 {
        let time = self.fixed * 1000 + self.by_memory * u128::from(q);
        time.checked_div(self.alone)
            .map_or(1000, |t| saturated(t).max(1))
    }
}

fn saturated(value: u128) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

/// The share of a set of `bytes` that a cache does not hold.
pub fn missed_permille(bytes: u64, cache_bytes: u64) -> u64 {
    let missed = u128::from(bytes.saturating_sub(cache_bytes)) * 1000;
    missed
        .checked_div(u128::from(bytes))
        .map_or(0, |share| share as u64)
}

/// The least q for which `fits`, which holds from some q on; 1000 at least.
pub fn least(fits: impl Fn(u64) -> bool) -> u64 {
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

    /// Whatever the costs: shares are not rounded before they are added.
    #[test]
    fn nobody_is_faster_than_alone() {
        let odd = Costs {
            line_l3_ps: 30_001,
            line_mem_ps: 100_001,
            ..COSTS
        };
        for missed in 0..=1000 {
            let waits = Waits::new(&odd, 1000, missed, missed, odd.line_mem_ps);
            assert_eq!(waits.slowdown(1000), 1000, "{missed}");
        }
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
