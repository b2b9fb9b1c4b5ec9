// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel functions that are not sched_ext's own: tasks, cgroups, RCU and the like.

use super::{EnginePtr, Entry, engine_for_free, functions, task_id};
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
unsafe extern "C" fn bpf_task_acquire(_e: EnginePtr, task: *const c_void) -> *const c_void {
    task
}

unsafe extern "C" fn bpf_task_release(e: EnginePtr, task: u64) {
    let e = unsafe { engine_for_free(e) };
    // SAFETY: the scheduler got the task from the engine.
    if let (true, Some(id)) = (e.races.is_some(), unsafe { task_id(e, task) }) {
        e.drop_reference(id);
    }
}

/// NULL once the task has exited.
unsafe extern "C" fn bpf_task_from_pid(e: EnginePtr, pid: u64) -> *const c_void {
    let e = unsafe { engine_for_free(e) };
    e.charge_call(e.machine.costs.task_lookup_ns);
    match e.tasks.get(pid as u32 as usize) {
        Some(task) if !task.id.is_idle() && task.life != Life::Dead => {
            task.kernel_ptr().cast_const().cast()
        }
        _ => null(),
    }
}

/// Groups live as long as the engine.
unsafe extern "C" fn bpf_cgroup_acquire(_e: EnginePtr, cgroup: *const c_void) -> *const c_void {
    cgroup
}

unsafe extern "C" fn bpf_cgroup_release(_e: EnginePtr, _cgroup: *const c_void) {}

unsafe extern "C" fn bpf_cgroup_ancestor(
    e: EnginePtr,
    cgroup: *const Cgroup,
    level: u64,
) -> *const c_void {
    let e = unsafe { engine_for_free(e) };
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

unsafe extern "C" fn bpf_cgroup_from_id(e: EnginePtr, id: u64) -> *const c_void {
    let e = unsafe { engine_for_free(e) };
    e.cgroups
        .find_id(id)
        .map_or(null(), |group| e.cgroups.kernel_ptr(group).cast())
}

/// Callbacks are atomic in the simulated machine: nothing can happen inside one.
unsafe extern "C" fn bpf_rcu_read_lock(_e: EnginePtr) {}
unsafe extern "C" fn bpf_rcu_read_unlock(_e: EnginePtr) {}
unsafe extern "C" fn bpf_preempt_disable(_e: EnginePtr) {}
unsafe extern "C" fn bpf_preempt_enable(_e: EnginePtr) {}
