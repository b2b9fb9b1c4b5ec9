// SPDX-License-Identifier: GPL-2.0-or-later
//! Built-in idle tracking and the default CPU choice (kernel/sched/ext_idle.c).

use crate::bpf::cpumask::{CpuMask, CpuSet, IndexedSet};
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::ext::ops::{Op, OpTable};
use crate::task::{Class, TaskId};
use crate::topology::{Domain, Topology};
use tiltyard_model::Machine;
use tiltyard_model::machine::CpuPlace;

/// Idle CPUs and wholly idle cores, as schedulers see them: of the machine, or of one node.
#[derive(Debug)]
pub struct IdleSet {
    pub cpus: IndexedSet,
    pub cores: IndexedSet,
}

/// Index of a set: the node's number if there is one set per node.
pub type SetId = usize;

#[derive(Debug)]
pub struct IdleMasks {
    /// Off when the scheduler tracks idle CPUs itself.
    pub builtin: bool,
    /// SCX_OPS_BUILTIN_IDLE_PER_NODE
    pub per_node: bool,
    sets: Vec<IdleSet>,
    /// The set that a CPU is in.
    set_of: Vec<SetId>,
    /// Where a search continues that found nothing in a set: the other sets, nearest first.
    others: Vec<Vec<SetId>>,
    /// Whether the last-level cache or the NUMA node narrow a search at all.
    narrow_by_llc: bool,
    narrow_by_node: bool,
    /// Where the next search of each CPU starts (the kernel's per-CPU distribute rotor).
    pub rotors: Vec<u32>,
    /// Of the search in a mask of the scheduler's.
    pub scratch: CpuSet,
}

impl IdleMasks {
    pub fn new(machine: &Machine, topology: &Topology, flags: u64, ops: &OpTable) -> IdleMasks {
        let nr = topology.online.weight();
        let first_llc = topology.llc_cpus.first().map_or(0, |set| set.weight());
        let first_node = topology.node_cpus.first().map_or(0, |set| set.weight());
        let llc_is_node = topology.llc_cpus.iter().all(|llc| {
            let node = topology
                .node_cpus
                .iter()
                .find(|n| llc.first().is_some_and(|c| n.test(c)));
            node.is_some_and(|n| n.weight() == llc.weight())
        });
        let per_node = flags & OPS_BUILTIN_IDLE_PER_NODE != 0;
        let whole = std::slice::from_ref(&topology.online);
        let spans = if per_node { &topology.node_cpus } else { whole };
        let set_of = |place: &CpuPlace| if per_node { place.node as SetId } else { 0 };
        IdleMasks {
            builtin: flags & OPS_KEEP_BUILTIN_IDLE != 0 || !ops.has(Op::UpdateIdle),
            per_node,
            sets: spans
                .iter()
                .map(|span| IdleSet {
                    cpus: span.clone(),
                    cores: span.clone(),
                })
                .collect(),
            set_of: machine.cpus.iter().map(set_of).collect(),
            others: (0..spans.len())
                .map(|set| others(machine, set, spans.len()))
                .collect(),
            narrow_by_llc: first_llc < nr,
            narrow_by_node: !per_node && first_node < nr && !llc_is_node,
            rotors: vec![0; nr as usize],
            scratch: CpuSet::new(topology.online.nr_cpus()),
        }
    }

    /// The set that has `cpu`.
    fn set_with(&mut self, cpu: u32) -> &mut IdleSet {
        &mut self.sets[self.set_of[cpu as usize]]
    }

    pub fn set(&self, set: SetId) -> &IdleSet {
        &self.sets[set]
    }
}

/// All sets but one, by their distance from it; ties by number.
fn others(machine: &Machine, set: SetId, nr_sets: usize) -> Vec<SetId> {
    let mut others: Vec<SetId> = (0..nr_sets).filter(|other| *other != set).collect();
    others.sort_by_key(|other| machine.node_distance[set][*other]);
    others
}

impl Engine<'_> {
    /// `__scx_update_idle()`: the mask first, then ops.update_idle(cpu, idle), only when the CPU goes from a task
    /// to idle or back, with the runqueue locked. If the op exists and KEEP_BUILTIN_IDLE is not set, there is no mask.
    pub(crate) fn ext_update_idle(&mut self, cpu: u32, idle: bool, notify: bool) {
        if self.ext.idle.builtin {
            self.update_idle_masks(cpu, idle);
        }
        if notify && self.ext.enabled && self.ext.ops.has(Op::UpdateIdle) {
            self.call_op(
                Op::UpdateIdle,
                &[u64::from(cpu), u64::from(idle)],
                TaskId::IDLE,
                Some(cpu),
            );
        }
    }

    fn update_idle_masks(&mut self, cpu: u32, idle: bool) {
        let masks = self.ext.idle.set_with(cpu);
        if idle {
            masks.cpus.set(cpu);
        } else {
            masks.cpus.clear(cpu);
        }
        if !self.topology.has_smt {
            // Nobody looks at cores: each CPU is one.
            return;
        }
        // A core is in the mask with all of its CPUs, or with none.
        if !idle && !masks.cores.test(cpu) {
            return;
        }
        let siblings = &self.topology.siblings[cpu as usize];
        if idle && siblings.iter().all(|c| masks.cpus.test(*c)) {
            siblings.iter().for_each(|c| masks.cores.set(*c));
        } else if !idle {
            siblings.iter().for_each(|c| masks.cores.clear(*c));
        }
    }

    /// `scx_idle_test_and_clear_cpu()`: claims a CPU. The whole core leaves the core mask even if the claim fails.
    pub(crate) fn claim_idle(&mut self, cpu: u32) -> bool {
        let masks = self.ext.idle.set_with(cpu);
        if self.topology.has_smt && masks.cores.test(cpu) {
            self.topology.siblings[cpu as usize]
                .iter()
                .for_each(|c| masks.cores.clear(*c));
        }
        masks.cpus.test_and_clear(cpu)
    }

    /// `scx_pick_idle_cpu()`: claims an idle CPU of `allowed`, from `set` if it can. With SCX_PICK_IDLE_IN_NODE it
    /// looks nowhere else.
    pub(crate) fn pick_idle(&mut self, allowed: &CpuMask, set: SetId, flags: u64) -> Option<u32> {
        let found = self.pick_idle_in(Domain::Machine, allowed, set, flags);
        if found.is_some() || flags & PICK_IDLE_IN_NODE != 0 {
            return found;
        }
        (0..self.ext.idle.others[set].len()).find_map(|i| {
            let other = self.ext.idle.others[set][i];
            self.pick_idle_in(Domain::Machine, allowed, other, flags)
        })
    }

    /// `pick_idle_cpu_in_node()`: wholly idle cores first.
    fn pick_idle_in(
        &mut self,
        domain: Domain,
        allowed: &CpuMask,
        set: SetId,
        flags: u64,
    ) -> Option<u32> {
        loop {
            let mut found = None;
            if self.topology.has_smt {
                found = self.next_by_rotor(set, true, domain, allowed);
                if found.is_none() && flags & PICK_IDLE_CORE != 0 {
                    return None;
                }
            }
            let cpu = found.or_else(|| self.next_by_rotor(set, false, domain, allowed))?;
            if self.claim_idle(cpu) {
                return Some(cpu);
            }
        }
    }

    /// `cpumask_any_and_distribute()`: the next common bit after the executing CPU's rotor, wrapping.
    fn next_by_rotor(
        &mut self,
        set: SetId,
        cores: bool,
        domain: Domain,
        allowed: &CpuMask,
    ) -> Option<u32> {
        let masks = &mut self.ext.idle;
        let set = &masks.sets[set];
        let mask = if cores { &set.cores } else { &set.cpus };
        let rotor = &mut masks.rotors[self.exec_cpu as usize];
        mask.any_of(self.topology.cpus_of(domain), allowed, rotor)
    }

    /// `scx_select_cpu_dfl()` for a task with its own affinity. `None`: no idle CPU was found.
    pub(crate) fn select_cpu_dfl(&mut self, id: TaskId, prev: u32, wake_flags: u64) -> Option<u32> {
        let allowed = self.allowed_cpus(id);
        self.select_cpu_in(prev, wake_flags, &allowed, 0)
    }

    /// A view of the task's affinity: valid as long as the task, which is as long as the engine.
    pub(crate) fn allowed_cpus(&self, id: TaskId) -> CpuMask {
        // SAFETY: the mask of a live task; nothing changes it during a search.
        unsafe {
            CpuMask::from_raw(
                self.tasks[id.index()].cpus.as_ptr(),
                self.topology.online.nr_cpus(),
            )
        }
    }

    /// The same within `allowed`, a subset of the task's affinity. Claims the CPU it returns.
    pub(crate) fn select_cpu_in(
        &mut self,
        prev: u32,
        wake_flags: u64,
        allowed: &CpuMask,
        flags: u64,
    ) -> Option<u32> {
        let prev_allowed = allowed.test(prev);
        let set = self.ext.idle.set_of[prev as usize];
        if wake_flags & WAKE_SYNC != 0
            && let Some(cpu) = self.select_for_sync(prev, prev_allowed, allowed, flags)
        {
            return Some(cpu);
        }
        let (idle, place) = (&self.ext.idle, self.rqs[prev as usize].place);
        let llc = idle.narrow_by_llc.then_some(Domain::Llc(place.llc));
        let node = idle.narrow_by_node.then_some(Domain::Node(place.node));
        let domains = [llc, node];
        if self.topology.has_smt {
            if prev_allowed && self.is_idle_core(prev) && self.claim_idle(prev) {
                return Some(prev);
            }
            let found = self.pick_near(domains, allowed, set, flags | PICK_IDLE_CORE);
            if found.is_some() || flags & PICK_IDLE_CORE != 0 {
                return found;
            }
        }
        if prev_allowed && self.claim_idle(prev) {
            return Some(prev);
        }
        self.pick_near(domains, allowed, set, flags)
    }

    fn is_idle_core(&self, cpu: u32) -> bool {
        let idle = &self.ext.idle;
        idle.sets[idle.set_of[cpu as usize]].cores.test(cpu)
    }

    /// Searches the part of `allowed` in each of the domains that narrow the search, then all of it.
    fn pick_near(
        &mut self,
        domains: [Option<Domain>; 2],
        allowed: &CpuMask,
        set: SetId,
        flags: u64,
    ) -> Option<u32> {
        domains
            .into_iter()
            .flatten()
            .find_map(|domain| self.pick_idle_in(domain, allowed, set, flags))
            .or_else(|| self.pick_idle(allowed, set, flags))
    }

    /// A waker that is about to sleep wants the wakee near: prev if it is idle and shares the cache, else the waker's
    /// own CPU if nothing else is queued there.
    fn select_for_sync(
        &mut self,
        prev: u32,
        prev_allowed: bool,
        allowed: &CpuMask,
        flags: u64,
    ) -> Option<u32> {
        let here = self.exec_cpu;
        let shares = self.machine.cpus[here as usize].llc == self.machine.cpus[prev as usize].llc;
        if prev_allowed && shares && self.claim_idle(prev) {
            return Some(prev);
        }
        let rq = &self.rqs[here as usize];
        let waker_exits = match self.class_of(rq.curr) {
            Class::Idle => false,
            _ => self.tasks[rq.curr.index()].kern.flags & PF_EXITING != 0,
        };
        let idle = &self.ext.idle;
        let (set, set_of_prev) = (idle.set_of[here as usize], idle.set_of[prev as usize]);
        let near = flags & PICK_IDLE_IN_NODE == 0 || set == set_of_prev;
        // Only if some CPU is idle at all: a queue of wakees on a busy machine would be unfair to others. Kernels with the
        // fault look at idle CPUs of a node that nobody keeps.
        let kept = self.machine.sync_to_waker || idle.per_node;
        let some_idle = kept && !idle.sets[set].cpus.is_empty();
        (!waker_exits && rq.local.is_empty() && near && some_idle && allowed.test(here))
            .then_some(here)
    }
}
