// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel functions that are not sched_ext's own: tasks, cgroups, RCU and the like.

use super::{EnginePtr, Entry, functions, task_id};
use crate::task::Life;
use std::ffi::c_void;
use std::ptr::null;
use tiltyard_native::layout::Cgroup;

pub(super) const FUNCTIONS: &[Entry] = functions![
    bpf_task_acquire,
    bpf_task_release,
    bpf_task_from_pid,
    bpf_cgroup_acquire,
    bpf_cgroup_release,
    bpf_cgroup_ancestor,
    bpf_cgroup_from_id,
    bpf_rcu_read_lock,
    bpf_rcu_read_unlock,
    bpf_preempt_disable,
    bpf_preempt_enable,
];

/// Tasks live as long as the engine: a reference to one is never lost.
extern "C" fn bpf_task_acquire(_e: EnginePtr, task: *const c_void) -> *const c_void {
    task
}

unsafe extern "C" fn bpf_task_release(mut e: EnginePtr, task: u64) {
    let e = e.engine_for_free();
    // SAFETY: the scheduler got the task from the engine.
    if let (true, Some(id)) = (e.races.is_some(), unsafe { task_id(e, task) }) {
        e.drop_reference(id);
    }
}

/// NULL once the task has exited.
extern "C" fn bpf_task_from_pid(mut e: EnginePtr, pid: u64) -> *const c_void {
    let e = e.engine_for_free();
    e.charge_call(e.machine.costs.task_lookup_ns);
    match e.tasks.get(pid as u32 as usize) {
        Some(task) if !task.id.is_idle() && task.life != Life::Dead => {
            task.kernel_ptr().cast_const().cast()
        }
        _ => null(),
    }
}

/// Groups live as long as the engine.
extern "C" fn bpf_cgroup_acquire(_e: EnginePtr, cgroup: *const c_void) -> *const c_void {
    cgroup
}

extern "C" fn bpf_cgroup_release(_e: EnginePtr, _cgroup: *const c_void) {}

extern "C" fn bpf_cgroup_ancestor(
    mut e: EnginePtr,
    cgroup: *const Cgroup,
    level: u64,
) -> *const c_void {
    let e = e.engine_for_free();
    let Some(mut group) = e.cgroups.find(cgroup) else {
        return null();
    };
    let level = level as i32;
    if level < 0 || level > e.cgroups.groups[group as usize].kernel.level {
        return null();
    }
    while e.cgroups.groups[group as usize].kernel.level > level {
        group = e.cgroups.groups[group as usize].parent.unwrap_or(0);
    }
    e.cgroups.kernel_ptr(group).cast()
}

extern "C" fn bpf_cgroup_from_id(mut e: EnginePtr, id: u64) -> *const c_void {
    let e = e.engine_for_free();
    e.cgroups
        .find_id(id)
        .map_or(null(), |group| e.cgroups.kernel_ptr(group).cast())
}

/// Callbacks are atomic in the simulated machine: nothing can happen inside one.
extern "C" fn bpf_rcu_read_lock(_e: EnginePtr) {}
extern "C" fn bpf_rcu_read_unlock(_e: EnginePtr) {}
extern "C" fn bpf_preempt_disable(_e: EnginePtr) {}
extern "C" fn bpf_preempt_enable(_e: EnginePtr) {}
