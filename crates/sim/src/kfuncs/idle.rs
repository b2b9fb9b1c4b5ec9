// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel functions about idle CPUs (kernel/sched/ext_idle.c).

use super::{EnginePtr, Entry, functions, task_id};
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::ext::idle::SetId;
use crate::ext::ops::*;
use crate::task::TaskId;
use std::ffi::c_void;

pub(super) const FUNCTIONS: &[Entry] = functions![
    scx_bpf_select_cpu_dfl,
    scx_bpf_select_cpu_and,
    scx_bpf_cpu_node,
    scx_bpf_get_idle_cpumask,
    scx_bpf_get_idle_cpumask_node,
    scx_bpf_get_idle_smtmask,
    scx_bpf_get_idle_smtmask_node,
    scx_bpf_put_idle_cpumask,
    scx_bpf_test_and_clear_cpu_idle,
    scx_bpf_pick_idle_cpu,
    scx_bpf_pick_idle_cpu_node,
    scx_bpf_pick_any_cpu,
    scx_bpf_pick_any_cpu_node,
];

/// The error of functions without a node argument when each node has its own set.
const PER_NODE_ENABLED: &str = "SCX_OPS_BUILTIN_IDLE_PER_NODE enabled";
const PER_NODE_PICK: &str = "per-node idle tracking is enabled";

const NUMA_NO_NODE: i32 = -1;

/// The set for functions without a node argument: that of the whole machine.
const WHOLE: SetId = 0;

impl Engine<'_> {
    fn builtin_idle_on(&mut self) -> bool {
        if !self.ext.idle.builtin {
            self.ext_error(
                "built-in idle tracking is disabled: ops.update_idle is there and SCX_OPS_KEEP_BUILTIN_IDLE is not".into(),
            );
        }
        self.ext.idle.builtin
    }

    /// The whole machine's set exists: idle CPUs are tracked, and not per node.
    fn whole_set_on(&mut self, what: &str) -> bool {
        if self.ext.idle.per_node {
            self.ext_error(what.into());
            return false;
        }
        self.builtin_idle_on()
    }

    /// `validate_node()`: the set of a node, or the errno. NUMA_NO_NODE is not the scheduler's mistake.
    fn set_of_node(&mut self, node: u64) -> Result<SetId, i64> {
        let node = node as i32;
        if !self.ext.idle.per_node {
            self.ext_error("per-node idle tracking is disabled".into());
            return Err(EOPNOTSUPP);
        }
        if node == NUMA_NO_NODE {
            return Err(ENOENT);
        }
        if node < 0 || node as usize >= self.topology.nr_nodes {
            self.ext_error(format!("invalid node {node}"));
            return Err(EINVAL);
        }
        Ok(node as SetId)
    }

    /// A set's mask of CPUs or cores as schedulers see it; without SMT every idle CPU is an idle core.
    fn idle_mask(&self, set: Option<SetId>, cores: bool) -> *const c_void {
        let mask = match set.map(|set| self.ext.idle.set(set)) {
            None => &self.ext.bpf.no_cpus,
            Some(set) if cores && self.topology.has_smt => &set.cores,
            Some(set) => &set.cpus,
        };
        mask.as_ptr().cast()
    }

    fn pick_in(&mut self, mask: u64, set: SetId, flags: u64) -> Option<i64> {
        // SAFETY: a mask that the scheduler got from the engine.
        let mask = unsafe { self.mask(mask) };
        self.pick_idle(&mask, set, flags).map(i64::from)
    }

    /// Any CPU of a mask by the rotor, idle or not, unclaimed.
    fn any_in(&mut self, mask: u64) -> i64 {
        // SAFETY: a mask that the scheduler got from the engine.
        let mask = unsafe { self.mask(mask) };
        let rotor = &mut self.ext.idle.rotors[self.exec_cpu as usize];
        mask.any_distribute(rotor).map_or(EBUSY, i64::from)
    }

    /// The same for a mask and a node.
    fn any_in_node(&mut self, mask: u64, node: usize) -> i64 {
        // SAFETY: a mask that the scheduler got from the engine.
        let mask = unsafe { self.mask(mask) };
        let rotor = &mut self.ext.idle.rotors[self.exec_cpu as usize];
        self.topology.node_cpus[node]
            .any_and_distribute(&mask, rotor)
            .map_or(EBUSY, i64::from)
    }
}

unsafe extern "C" fn scx_bpf_select_cpu_dfl(
    mut e: EnginePtr,
    p: u64,
    prev: u64,
    wake_flags: u64,
    is_idle: *mut u8,
) -> i64 {
    let e = e.engine();
    let prev_cpu = prev as i32;
    let found = e.select_idle(p, prev, wake_flags, None, 0);
    // SAFETY: the scheduler's own variable.
    unsafe { *is_idle = u8::from(found.is_ok()) };
    found.unwrap_or(i64::from(prev_cpu))
}

extern "C" fn scx_bpf_select_cpu_and(
    mut e: EnginePtr,
    p: u64,
    prev: u64,
    wake_flags: u64,
    allowed: u64,
    flags: u64,
) -> i64 {
    let e = e.engine();
    match e.select_idle(p, prev, wake_flags, Some(allowed), flags) {
        Ok(cpu) | Err(cpu) => cpu,
    }
}

impl Engine<'_> {
    /// Both forms of the idle search: within the task's affinity, and within a mask as well.
    fn select_idle(
        &mut self,
        p: u64,
        prev: u64,
        wake_flags: u64,
        mask: Option<u64>,
        flags: u64,
    ) -> Result<i64, i64> {
        let kfunc = match mask {
            None => "scx_bpf_select_cpu_dfl",
            Some(_) => "scx_bpf_select_cpu_and",
        };
        if !self.require_context(IN_SELECT_CPU | IN_ENQUEUE | IN_UNLOCKED, kfunc) {
            return Err(EINVAL);
        }
        let Some(prev) = self.valid_cpu(prev, kfunc) else {
            return Err(EINVAL);
        };
        // SAFETY: the scheduler got the pointer from the engine.
        let (Some(id), true) = (unsafe { task_id(self, p) }, self.builtin_idle_on()) else {
            return Err(EBUSY);
        };
        let task = &self.tasks[id.index()];
        if task.kern.nr_cpus_allowed == 1 || task.kern.migration_disabled > 0 {
            // As in the kernel, a mask stands in for the task's own.
            let allowed = match mask {
                // SAFETY: a mask that the scheduler got from the engine.
                Some(mask) => unsafe { self.mask(mask) }.test(prev),
                None => task.may_run_on(prev),
            };
            return if allowed && self.claim_idle(prev) {
                Ok(i64::from(prev))
            } else {
                Err(EBUSY)
            };
        }
        self.find_idle(id, prev, wake_flags, mask, flags)
            .map(i64::from)
            .ok_or(EBUSY)
    }

    fn find_idle(
        &mut self,
        id: TaskId,
        prev: u32,
        wake_flags: u64,
        mask: Option<u64>,
        flags: u64,
    ) -> Option<u32> {
        let own = self.allowed_cpus(id);
        let Some(mask) = mask else {
            return self.select_cpu_in(prev, wake_flags, &own, flags);
        };
        // SAFETY: a mask that the scheduler got from the engine.
        let mask = unsafe { self.mask(mask) };
        // The engine's own set, because the call may end at the scheduler's pointer.
        if !self.ext.idle.scratch.assign_and(&own, &mask) {
            return None;
        }
        // SAFETY: a mask of this machine that nothing changes during the search.
        let both = unsafe { self.mask(self.ext.idle.scratch.as_ptr() as u64) };
        self.select_cpu_in(prev, wake_flags, &both, flags)
    }
}

extern "C" fn scx_bpf_cpu_node(mut e: EnginePtr, cpu: u64) -> i64 {
    let e = e.engine_for_free();
    match e.valid_cpu(cpu, "scx_bpf_cpu_node") {
        Some(cpu) => i64::from(e.machine.cpus[cpu as usize].node),
        None => i64::from(NUMA_NO_NODE),
    }
}

extern "C" fn scx_bpf_get_idle_cpumask(mut e: EnginePtr) -> *const c_void {
    let e = e.engine_for_free();
    let on = e.whole_set_on(PER_NODE_ENABLED);
    e.idle_mask(on.then_some(WHOLE), false)
}

extern "C" fn scx_bpf_get_idle_cpumask_node(mut e: EnginePtr, node: u64) -> *const c_void {
    let e = e.engine_for_free();
    let set = e.set_of_node(node).ok();
    e.idle_mask(set, false)
}

extern "C" fn scx_bpf_get_idle_smtmask(mut e: EnginePtr) -> *const c_void {
    let e = e.engine_for_free();
    let on = e.whole_set_on(PER_NODE_ENABLED);
    e.idle_mask(on.then_some(WHOLE), true)
}

extern "C" fn scx_bpf_get_idle_smtmask_node(mut e: EnginePtr, node: u64) -> *const c_void {
    let e = e.engine_for_free();
    let set = e.set_of_node(node).ok();
    e.idle_mask(set, true)
}

extern "C" fn scx_bpf_put_idle_cpumask(_e: EnginePtr, _mask: u64) {}

extern "C" fn scx_bpf_test_and_clear_cpu_idle(mut e: EnginePtr, cpu: u64) -> u64 {
    let e = e.engine();
    if !e.builtin_idle_on() {
        return 0;
    }
    match e.valid_cpu(cpu, "scx_bpf_test_and_clear_cpu_idle") {
        Some(cpu) => u64::from(e.claim_idle(cpu)),
        None => 0,
    }
}

extern "C" fn scx_bpf_pick_idle_cpu(mut e: EnginePtr, mask: u64, flags: u64) -> i64 {
    let e = e.engine();
    if !e.whole_set_on(PER_NODE_PICK) {
        return EBUSY;
    }
    e.pick_in(mask, WHOLE, flags).unwrap_or(EBUSY)
}

/// In `node` first, then in the others, nearest first; with SCX_PICK_IDLE_IN_NODE in none of them.
extern "C" fn scx_bpf_pick_idle_cpu_node(
    mut e: EnginePtr,
    mask: u64,
    node: u64,
    flags: u64,
) -> i64 {
    let e = e.engine();
    match e.set_of_node(node) {
        Ok(set) => e.pick_in(mask, set, flags).unwrap_or(EBUSY),
        Err(errno) => errno,
    }
}

/// An idle CPU of the mask; any CPU if none is idle or idle CPUs are not tracked.
extern "C" fn scx_bpf_pick_any_cpu(mut e: EnginePtr, mask: u64, flags: u64) -> i64 {
    let e = e.engine();
    if e.ext.idle.per_node {
        e.ext_error(PER_NODE_PICK.into());
        return EBUSY;
    }
    let idle = match e.ext.idle.builtin {
        true => e.pick_in(mask, WHOLE, flags),
        false => None,
    };
    idle.unwrap_or_else(|| e.any_in(mask))
}

/// SCX_PICK_IDLE_IN_NODE excludes busy CPUs of other nodes as well.
extern "C" fn scx_bpf_pick_any_cpu_node(mut e: EnginePtr, mask: u64, node: u64, flags: u64) -> i64 {
    let e = e.engine();
    let set = match e.set_of_node(node) {
        Ok(set) => set,
        Err(errno) => return errno,
    };
    match e.pick_in(mask, set, flags) {
        Some(cpu) => cpu,
        None if flags & PICK_IDLE_IN_NODE != 0 => e.any_in_node(mask, set),
        None => e.any_in(mask),
    }
}
