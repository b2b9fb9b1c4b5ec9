// SPDX-License-Identifier: GPL-2.0-or-later
//! Loading and unloading a scheduler, and attaching it to each task and cgroup.

use crate::engine::Engine;
use crate::ext::exit::ExitKind;
use crate::ext::flags::*;
use crate::ext::ops::Op;
use crate::task::{Class, ExtState, Life, TaskId};
use std::ptr;
use tiltyard_native::layout::{CgroupInitArgs, ExitTaskArgs, InitTaskArgs};

impl Engine<'_> {
    /// `scx_enable()`: ops.init, then cgroups from the root down, then tasks in the order of their creation.
    pub(crate) fn ext_enable(&mut self) {
        self.prepare_scheduler();
        self.pass_everybody();
        self.exec_cpu = self.ext.plan.attach_on.unwrap_or(0);
        let error = self.call_op(Op::Init, &[], TaskId::IDLE, None) as i32;
        if error != 0 {
            let why = self.refused(error);
            let name = errno_name(error);
            return self.ext_error(format!("ops.init() failed ({error}){name}{why}"));
        }
        if let Some(why) = self.ext.invalid_ops() {
            return self.ext_error(why.to_owned());
        }
        for group in 0..self.cgroups.groups.len() as u32 {
            if !self.ext_cgroup_init(group) {
                return;
            }
        }
        let ids: Vec<TaskId> = self.tasks.iter().skip(1).map(|t| t.id).collect();
        for id in &ids {
            let error = self.ext_init_task(*id, false);
            if error != 0 {
                let message = self.init_task_failed(*id, error);
                return self.ext_error(message);
            }
        }
        for id in ids {
            if self.tasks[id.index()].class == Class::Ext {
                self.tasks[id.index()].kern.scx.slice = SLICE_DFL_NS;
                let cpu = self.tasks[id.index()].cpu;
                self.lock_rq(cpu);
                self.ext_enable_task(id);
                self.ext_set_cpumask(id);
                self.unlock_rq(cpu);
            }
        }
        self.pass_everybody();
        self.ext.enabled = self.ext.exit.is_none();
        self.arm_watchdog();
        self.after_attach();
    }

    /// `scx_disable_workfn()`: the dump after an error, then tasks, cgroups, ops.exit.
    pub(crate) fn ext_disable(&mut self) {
        self.pass_everybody();
        if self.ext.exit.is_none() {
            self.ext_exit(ExitKind::Unreg, 0, String::new());
        }
        if self.ext.exit.as_ref().is_some_and(|e| e.kind.is_error()) {
            self.ext_dump();
        }
        self.ext.enabled = false;
        // What a scheduler does while it is unloaded is not part of the run.
        self.probes = false;
        for i in 1..self.tasks.len() as u32 {
            self.ext_exit_task(TaskId(i));
        }
        for group in (0..self.cgroups.groups.len() as u32).rev() {
            self.ext_cgroup_exit(group);
        }
        self.call_exit_op();
    }

    /// ops.init_task(p, {fork, cgroup}): for every task of any class, before it can run; may fail with an errno.
    /// `current` is the forking task.
    pub(crate) fn ext_init_task(&mut self, id: TaskId, fork: bool) -> i32 {
        let args = InitTaskArgs {
            fork,
            cgroup: self.cgroups.kernel_ptr(self.tasks[id.index()].cgroup),
        };
        self.tasks[id.index()].kern.scx.disallow = false;
        let call = [self.task_arg(id), ptr::from_ref(&args) as u64];
        let error = self.call_op(Op::InitTask, &call, id, None) as i32;
        if error != 0 {
            return error;
        }
        self.tasks[id.index()].set_ext_state(ExtState::Ready);
        if self.tasks[id.index()].kern.scx.disallow {
            let label = self.task_label(id);
            self.ext_error(format!("ops.init_task() set task->scx.disallow for {label} during fork or without a fair class"));
        }
        0
    }

    /// The kernel function that returned this errno last, if one did; as a rule the callback passes it on.
    fn refused(&self, error: i32) -> String {
        match &self.ext.refusal {
            Some((same, what)) if *same == i64::from(error) => format!("; {what}"),
            _ => String::new(),
        }
    }

    /// A scheduler without room for another task supports as many as it accepted.
    pub(crate) fn init_task_failed(&self, id: TaskId, error: i32) -> String {
        let mut message = format!(
            "ops.init_task() failed ({error}) for {}{}",
            self.task_label(id),
            errno_name(error)
        );
        let taken = self.tasks.iter().filter(|t| t.ext.state != ExtState::None);
        let taken = taken.count();
        if taken > 0 && matches!(i64::from(error), ENOMEM | ENOSPC | E2BIG) {
            message += &format!("; {} supports {taken} tasks", self.ext.name);
        }
        message
    }

    /// `scx_enable_task()`: the task comes under the scheduler. Its weight is already set when ops.enable sees it.
    pub(crate) fn ext_enable_task(&mut self, id: TaskId) {
        let (arg, cpu) = (self.task_arg(id), self.tasks[id.index()].cpu);
        self.call_op(Op::Enable, &[arg], id, Some(cpu));
        self.tasks[id.index()].set_ext_state(ExtState::Enabled);
        self.ext_set_weight(id);
    }

    /// `scx_disable_task()`: it leaves the scheduler for another class, or for good.
    pub(crate) fn ext_disable_task(&mut self, id: TaskId) {
        if self.tasks[id.index()].ext.state != ExtState::Enabled {
            return;
        }
        let (arg, cpu) = (self.task_arg(id), self.tasks[id.index()].cpu);
        self.call_op(Op::Disable, &[arg], id, Some(cpu));
        self.tasks[id.index()].set_ext_state(ExtState::Ready);
    }

    /// `scx_exit_task()`: once, whether the task or the scheduler goes first. Task storage is freed after it.
    pub(crate) fn ext_exit_task(&mut self, id: TaskId) {
        let cpu = self.tasks[id.index()].cpu;
        if self.tasks[id.index()].ext.state == ExtState::None {
            return;
        }
        self.last_reference(id);
        self.lock_task(id);
        self.lock_rq(cpu);
        self.ext_disable_task(id);
        let args = ExitTaskArgs { cancelled: false };
        let arg = self.task_arg(id);
        self.call_op(
            Op::ExitTask,
            &[arg, ptr::from_ref(&args) as u64],
            id,
            Some(cpu),
        );
        self.unlock_rq(cpu);
        self.unlock_task(id);
        self.tasks[id.index()].set_ext_state(ExtState::None);
        if self.tasks[id.index()].life == Life::Dead {
            self.ext.bpf.maps.forget_task(id.0);
            self.forget_order(id);
        }
    }

    /// ops.set_weight(p, weight): the weight, 1..=10000, is already set. Called when the task comes under the
    /// scheduler and when its nice value changes, never while it runs or is queued: it is taken off around it.
    pub(crate) fn ext_set_weight(&mut self, id: TaskId) {
        let task = &self.tasks[id.index()];
        let (cpu, weight) = (task.cpu, u64::from(task.kern.scx.weight));
        let arg = self.task_arg(id);
        self.call_op(Op::SetWeight, &[arg, weight], id, Some(cpu));
    }

    /// ops.set_cpumask(p, mask): the new affinity, already in force. A task whose CPU is no longer in it moves
    /// afterwards. Not called for forks, which inherit.
    pub(crate) fn ext_set_cpumask(&mut self, id: TaskId) {
        let task = &self.tasks[id.index()];
        let (cpu, mask) = (task.cpu, task.kern.cpus_ptr as u64);
        let arg = self.task_arg(id);
        self.call_op(Op::SetCpumask, &[arg, mask], id, Some(cpu));
    }

    /// ops.cgroup_init(cgrp, {weight, ...}): parents first, all before the first ops.init_task; may fail.
    fn ext_cgroup_init(&mut self, group: u32) -> bool {
        let args = CgroupInitArgs {
            weight: self.cgroups.groups[group as usize].weight,
            bw_period_us: 100_000,
            bw_quota_us: u64::MAX,
            bw_burst_us: 0,
        };
        let call = [
            self.cgroups.kernel_ptr(group) as u64,
            ptr::from_ref(&args) as u64,
        ];
        let error = self.call_op(Op::CgroupInit, &call, TaskId::IDLE, None) as i32;
        if error != 0 {
            let path = self.cgroups.groups[group as usize].path.clone();
            let name = errno_name(error);
            self.ext_error(format!(
                "ops.cgroup_init() failed ({error}) for {path}{name}"
            ));
            return false;
        }
        self.cgroups.groups[group as usize].inited = true;
        true
    }

    /// ops.cgroup_exit(cgrp): children first, at the end.
    fn ext_cgroup_exit(&mut self, group: u32) {
        if std::mem::take(&mut self.cgroups.groups[group as usize].inited) {
            let call = [self.cgroups.kernel_ptr(group) as u64];
            self.call_op(Op::CgroupExit, &call, TaskId::IDLE, None);
        }
    }

    /// ops.cgroup_prep_move: may refuse the move.
    pub(crate) fn ext_cgroup_prep_move(&mut self, id: TaskId, from: u32, to: u32) -> bool {
        if !self.ext.enabled {
            return true;
        }
        let call = [
            self.task_arg(id),
            self.cgroups.kernel_ptr(from) as u64,
            self.cgroups.kernel_ptr(to) as u64,
        ];
        self.call_op(Op::CgroupPrepMove, &call, id, None) as i32 == 0
    }

    /// ops.cgroup_move(p, from, to): between quiescent and runnable, when the task's cgroup is already the new one.
    pub(crate) fn ext_cgroup_move(&mut self, id: TaskId, from: u32, to: u32) {
        if !self.ext.enabled {
            return;
        }
        let call = [
            self.task_arg(id),
            self.cgroups.kernel_ptr(from) as u64,
            self.cgroups.kernel_ptr(to) as u64,
        ];
        self.call_op(Op::CgroupMove, &call, id, None);
    }
}

/// `, ENOMEM`; nothing for numbers that no scheduler should return.
pub(super) fn errno_name(error: i32) -> &'static str {
    match i64::from(error) {
        EPERM => ", EPERM",
        ENOENT => ", ENOENT",
        ESRCH => ", ESRCH",
        E2BIG => ", E2BIG",
        ENOMEM => ", ENOMEM",
        EBUSY => ", EBUSY",
        EEXIST => ", EEXIST",
        EINVAL => ", EINVAL",
        ENOSPC => ", ENOSPC",
        _ => "",
    }
}
