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
//! * the memory of a node: of that where the task did its first work, or of another one once it has run there for long. *q* is the
//!   least number, 1 or more, with which the traffic of those that wait for it is no more than `node_mb_per_s`. One core
//!   that does nothing but wait draws a line each `line_mem_ps`, less what overlaps (`refill_overlap_permille`).
//!
//! Who spins at a barrier does not wait. Integers: shares and factors in 1/1000.

pub mod waits;

use crate::engine::Engine;
use crate::task::TaskId;
use waits::{Waits, least, missed_permille};

/// After how much time on another node a task's memory has followed it. NUMA balancing moves a page that the node touched in two
/// scans in a row, and needs a second for one: `numa_balancing_scan_period_min_ms` is 1000.
const FOLLOWS_AFTER_NS: u64 = 2_000_000_000;

impl Engine<'_> {
    fn stall_permille(&self, task: TaskId) -> u64 {
        match task.is_idle() {
            true => 0,
            false => self.tasks[task.index()].work.stall_permille.into(),
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
        let llc = self.rqs[cpu as usize].place.llc;
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
        let node = self.rqs[cpu as usize].place.node;
        let tick_ns = self.clock.tick_ns();
        let work = &mut self.tasks[task.index()].work;
        work.away_ns = match work.away_node {
            _ if node == work.home => 0,
            before if before == node => work.away_ns + tick_ns,
            _ => tick_ns,
        };
        work.away_node = node;
        if work.away_ns >= FOLLOWS_AFTER_NS {
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
                    .map(|(waits, speed)| waits.mb_per_s.saturating_mul(*speed) / waits.slowdown(q))
                    .fold(0, u64::saturating_add)
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
            if work.spins {
                0
            } else {
                work.stall_permille.into()
            },
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
