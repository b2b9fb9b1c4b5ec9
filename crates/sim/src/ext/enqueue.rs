// SPDX-License-Identifier: GPL-2.0-or-later
//! From runnable to a DSQ: select_cpu, enqueue, direct dispatch, dequeue.

use crate::engine::Engine;
use crate::ext::dsq::{MixedUse, Position};
use crate::ext::flags::*;
use crate::ext::ops::Op;
use crate::sched::ON_RQ_MIGRATING;
use crate::task::{Class, DsqRef, OpsState, TaskId};

/// Internal: the insert orders by vtime (SCX_ENQ_DSQ_PRIQ).
pub const ENQ_DSQ_PRIQ: u64 = 1 << 57;
/// Internal: the insert ends the scheduler's custody (SCX_ENQ_CLEAR_OPSS).
pub const ENQ_CLEAR_OPSS: u64 = 1 << 56;

impl Engine<'_> {
    /// `select_task_rq_scx()`.
    ///
    /// ops.select_cpu is called on the waker's CPU for a task that is on no runqueue, only when it may run on more
    /// than one CPU. Its result determines only the runqueue; an idle CPU chosen that way is woken whatever DSQ
    /// the task goes to. It may insert the task, and then ops.enqueue is skipped. If it is absent, the
    /// built-in idle search chooses.
    pub(crate) fn ext_select_cpu(&mut self, id: TaskId, wake_flags: u64) -> u32 {
        let prev = self.tasks[id.index()].kern.wake_cpu as u32;
        if !self.ext.ops.has(Op::SelectCpu) || !self.ext.enabled {
            return match self.select_cpu_dfl(id, prev, wake_flags) {
                Some(cpu) => {
                    let scx = &mut self.tasks[id.index()].kern.scx;
                    scx.slice = SLICE_DFL_NS;
                    scx.ddsp_dsq_id = DSQ_LOCAL;
                    cpu
                }
                None => prev,
            };
        }
        let args = [self.task_arg(id), u64::from(prev), wake_flags];
        let cpu = self.call_op(Op::SelectCpu, &args, id, None) as i32;
        self.tasks[id.index()].kern.scx.selected_cpu = cpu;
        if cpu >= 0 && (cpu as usize) < self.rqs.len() {
            return cpu as u32;
        }
        let last = self.rqs.len() - 1;
        self.ext_error(format!(
            "invalid CPU {cpu} from ops.select_cpu(); this machine has CPUs 0 to {last}"
        ));
        prev
    }

    /// `enqueue_task_scx()`: a task becomes runnable, comes back after a change, or arrives from another runqueue.
    pub(crate) fn ext_enqueue_task(&mut self, cpu: u32, id: TaskId, flags: u64) {
        let is_curr = self.rqs[cpu as usize].curr == id;
        let task = &mut self.tasks[id.index()];
        let mut sticky = std::mem::replace(&mut task.kern.scx.sticky_cpu, -1);
        // A running task that was only taken off for a change must not go back to the scheduler.
        if flags & ENQ_RESTORE != 0 && is_curr {
            sticky = cpu as i32;
        }
        if task.queued() {
            return;
        }
        let migrating = task.kern.on_rq == ON_RQ_MIGRATING;
        self.set_runnable(id);
        self.tasks[id.index()].kern.scx.flags |= TASK_QUEUED;
        self.rqs[cpu as usize].nr_running += 1;
        // ops.runnable(p, enq_flags): it may run from now on. Before ops.enqueue, and also where that is skipped
        // (inserted by select_cpu, exiting). Not for moves between runqueues. The task has no owner yet.
        if self.ext.ops.has(Op::Runnable) && !migrating {
            let args = [self.task_arg(id), flags];
            self.call_op(Op::Runnable, &args, id, Some(cpu));
        }
        self.do_enqueue(cpu, id, flags, sticky);
    }

    /// `set_task_runnable()`: the watchdog's clock starts with the first wait after a run.
    pub(crate) fn set_runnable(&mut self, id: TaskId) {
        let now = self.now;
        let scx = &mut self.tasks[id.index()].kern.scx;
        if scx.flags & TASK_RESET_RUNNABLE_AT != 0 {
            scx.runnable_at = now;
            scx.flags &= !TASK_RESET_RUNNABLE_AT;
        }
    }

    /// `do_enqueue_task()`; the rules in the kernel's order; the first that applies decides.
    pub(crate) fn do_enqueue(&mut self, cpu: u32, id: TaskId, flags: u64, sticky: i32) {
        let local = DsqRef::Local(cpu);
        let task = &mut self.tasks[id.index()];
        if sticky == cpu as i32 {
            return self.dispatch_enqueue(local, id, flags);
        }
        if !self.ext.enabled {
            task.kern.scx.slice = SLICE_DFL_NS;
            let global = self.global_dsq_of(id);
            return self.dispatch_enqueue(global, id, flags);
        }
        if task.kern.scx.ddsp_dsq_id != DSQ_INVALID {
            return self.direct_dispatch(cpu, id, flags);
        }
        let exiting = task.kern.flags & PF_EXITING != 0 && self.ext.flags & OPS_ENQ_EXITING == 0;
        let pinned =
            task.kern.migration_disabled > 0 && self.ext.flags & OPS_ENQ_MIGRATION_DISABLED == 0;
        if exiting || pinned {
            task.kern.scx.slice = SLICE_DFL_NS;
            return self.dispatch_enqueue(local, id, flags);
        }
        if !self.ext.ops.has(Op::Enqueue) {
            task.kern.scx.slice = SLICE_DFL_NS;
            let global = self.global_dsq_of(id);
            return self.dispatch_enqueue(global, id, flags);
        }
        self.call_enqueue(cpu, id, flags);
    }

    /// ops.enqueue: the task is runnable and on no DSQ. If the op inserts it, the DSQ owns it from then on;
    /// otherwise the scheduler owns it and must dispatch it eventually, or the watchdog ejects the scheduler.
    fn call_enqueue(&mut self, cpu: u32, id: TaskId, flags: u64) {
        self.ext.qseq += 1;
        let qseq = self.ext.qseq;
        self.tasks[id.index()].ext.ops_state = OpsState::Queueing;
        let args = [self.task_arg(id), flags];
        self.call_op(Op::Enqueue, &args, id, Some(cpu));
        if self.tasks[id.index()].kern.scx.ddsp_dsq_id != DSQ_INVALID {
            return self.direct_dispatch(cpu, id, flags);
        }
        self.tasks[id.index()].ext.ops_state = OpsState::Queued(qseq);
    }

    /// `mark_direct_dispatch()`: an insert from ops.select_cpu or ops.enqueue is recorded and done afterwards.
    pub(crate) fn mark_direct_dispatch(&mut self, id: TaskId, dsq_id: u64, flags: u64) {
        let expected = self.ext.ctx.subject;
        if self.ext.ctx.inserted {
            let label = self.task_label(id);
            self.ext_error(format!("{label} already direct-dispatched"));
        } else if id != expected {
            let (expected, got) = (self.task_label(expected), self.task_label(id));
            self.ext_error(format!(
                "scheduling for {expected} but trying to direct-dispatch {got}"
            ));
        } else {
            let scx = &mut self.tasks[id.index()].kern.scx;
            scx.ddsp_dsq_id = dsq_id;
            scx.ddsp_enq_flags = flags;
            self.ext.ctx.inserted = true;
        }
    }

    /// `direct_dispatch()`.
    fn direct_dispatch(&mut self, cpu: u32, id: TaskId, flags: u64) {
        let scx = &mut self.tasks[id.index()].kern.scx;
        scx.ddsp_enq_flags |= flags;
        let (dsq_id, ddsp_flags) = (scx.ddsp_dsq_id, scx.ddsp_enq_flags);
        let dsq = self.find_dsq_for_dispatch(cpu, dsq_id, id);
        if let DsqRef::Local(target) = dsq
            && target != cpu
        {
            let task = &mut self.tasks[id.index()];
            task.ext.ops_state = OpsState::None;
            task.ext.deferred_to = Some(target as u16);
            let rq = &mut self.rqs[cpu as usize];
            rq.deferred.push(id);
            self.ext.deferred_cpus.push(cpu);
            return;
        }
        self.dispatch_enqueue(dsq, id, ddsp_flags | ENQ_CLEAR_OPSS);
    }

    /// Does the inserts into other CPUs' local DSQs that had to wait for this runqueue.
    #[inline]
    pub(crate) fn run_deferred(&mut self, cpu: u32) {
        if !self.rqs[cpu as usize].deferred.is_empty() {
            self.move_deferred(cpu);
        }
    }

    #[inline(never)]
    fn move_deferred(&mut self, cpu: u32) {
        for id in std::mem::take(&mut self.rqs[cpu as usize].deferred) {
            let task = &mut self.tasks[id.index()];
            let (Some(target), flags) = (task.ext.deferred_to.take(), task.kern.scx.ddsp_enq_flags)
            else {
                continue;
            };
            task.kern.scx.ddsp_dsq_id = DSQ_INVALID;
            task.kern.scx.ddsp_enq_flags = 0;
            self.dispatch_to_local(cpu, target.into(), id, flags);
        }
    }

    /// `find_dsq_for_dispatch()`.
    pub(crate) fn find_dsq_for_dispatch(&mut self, cpu: u32, dsq_id: u64, id: TaskId) -> DsqRef {
        if dsq_id == DSQ_LOCAL {
            return DsqRef::Local(cpu);
        }
        if dsq_id & DSQ_LOCAL_ON == DSQ_LOCAL_ON {
            let target = dsq_id as u32;
            if (target as usize) < self.rqs.len() {
                return DsqRef::Local(target);
            }
            self.ext_error(format!(
                "invalid CPU {} in SCX_DSQ_LOCAL_ON dispatch verdict; this machine has CPUs 0 to {}",
                target as i32,
                self.rqs.len() - 1
            ));
            return self.global_dsq_of(id);
        }
        if dsq_id == DSQ_GLOBAL {
            return self.global_dsq_of(id);
        }
        if let Some(slot) = self.ext.dsqs.find(dsq_id) {
            return DsqRef::User(slot);
        }
        let label = self.task_label(id);
        self.ext_error(format!(
            "non-existent DSQ {dsq_id:#x} for {label}: scx_bpf_create_dsq() makes DSQs, as a rule in ops.init()"
        ));
        self.global_dsq_of(id)
    }

    /// The global DSQ of the node that the task's CPU belongs to.
    pub(crate) fn global_dsq_of(&self, id: TaskId) -> DsqRef {
        DsqRef::Global(self.rqs[self.tasks[id.index()].cpu as usize].place.node)
    }

    /// `dispatch_enqueue()`: puts a task that is on no DSQ on one.
    pub(crate) fn dispatch_enqueue(&mut self, dsq_ref: DsqRef, id: TaskId, mut flags: u64) {
        debug_assert!(self.tasks[id.index()].ext.dsq.is_none(), "already on a DSQ");
        self.lock_dsq(dsq_ref);
        if flags & ENQ_DSQ_PRIQ != 0 && !matches!(dsq_ref, DsqRef::User(_)) {
            self.ext_error("cannot use vtime ordering for built-in DSQs".into());
            flags &= !ENQ_DSQ_PRIQ;
        }
        let place = if flags & ENQ_DSQ_PRIQ != 0 {
            Position::Vtime(self.tasks[id.index()].kern.scx.dsq_vtime)
        } else if flags & (ENQ_HEAD | ENQ_PREEMPT) != 0 {
            Position::Head
        } else {
            Position::Tail
        };
        let dsq = match dsq_ref {
            DsqRef::Local(cpu) => &mut self.rqs[cpu as usize].local,
            DsqRef::Global(node) => &mut self.ext.global_dsqs[node as usize],
            DsqRef::User(slot) => self.ext.dsqs.get_mut(slot),
        };
        let dsq_id = dsq.id;
        let mixed = dsq.insert(&mut self.tasks, id, place);
        self.unlock_dsq(dsq_ref);
        let task = &mut self.tasks[id.index()];
        task.ext.dsq = Some(dsq_ref);
        task.kern.scx.ddsp_dsq_id = DSQ_INVALID;
        task.kern.scx.ddsp_enq_flags = 0;
        if flags & ENQ_CLEAR_OPSS != 0 {
            task.ext.ops_state = OpsState::None;
        }
        if let Err(mixed) = mixed {
            self.mixes_kinds(dsq_id, mixed);
        }
        if let DsqRef::Local(cpu) = dsq_ref {
            self.local_dsq_post_enqueue(cpu, id, flags);
        }
    }

    #[cold]
    fn mixes_kinds(&mut self, dsq_id: u64, mixed: MixedUse) {
        let had = match mixed {
            MixedUse::VtimeIntoFifo => "FIFO",
            MixedUse::FifoIntoVtime => "PRIQ",
        };
        self.ext_error(format!(
            "DSQ ID {dsq_id:#018x} already had {had}-enqueued tasks"
        ));
    }

    /// A local insert wakes an idle CPU; with PREEMPT it also ends the current task's slice.
    fn local_dsq_post_enqueue(&mut self, cpu: u32, id: TaskId, flags: u64) {
        let curr = self.rqs[cpu as usize].curr;
        let class = self.class_of(curr);
        let preempt = flags & ENQ_PREEMPT != 0 && curr != id && class == Class::Ext;
        if preempt {
            self.end_slice_by_kick(cpu, curr);
        }
        if preempt || class == Class::Idle {
            self.resched(cpu);
        }
    }

    /// Another task takes the CPU: the current slice ends here, charged by the time it ran.
    pub(crate) fn end_slice_by_kick(&mut self, cpu: u32, curr: TaskId) {
        self.tasks[curr.index()].kern.scx.slice = 0;
        self.rqs[cpu as usize].preempt_hint = crate::cpu::PreemptHint::Kick;
    }

    /// `dequeue_task_scx()`: sleep, exit, or the first half of a change or a move.
    pub(crate) fn ext_dequeue_task(&mut self, cpu: u32, id: TaskId, flags: u64) {
        if !self.tasks[id.index()].queued() {
            return;
        }
        self.leave_custody(cpu, id, flags);
        let migrating = self.tasks[id.index()].kern.on_rq == ON_RQ_MIGRATING;
        if self.rqs[cpu as usize].curr == id && !migrating {
            self.charge_slice(id);
            // ops.stopping(p, false): it sleeps, exits or is taken off for a change. Runtime and slice are charged.
            if self.ext.ops.has(Op::Stopping) {
                let args = [self.task_arg(id), 0];
                self.call_op(Op::Stopping, &args, id, Some(cpu));
            }
        }
        // ops.quiescent(p, deq_flags): the counterpart of ops.runnable. A DSQ may still hold the task; it leaves it
        // right after. DEQ_SLEEP distinguishes sleep and exit from the first half of a change.
        if self.ext.ops.has(Op::Quiescent) && !migrating {
            let args = [self.task_arg(id), flags];
            self.call_op(Op::Quiescent, &args, id, Some(cpu));
        }
        let scx = &mut self.tasks[id.index()].kern.scx;
        if flags & DEQ_SLEEP != 0 {
            scx.flags |= TASK_DEQD_FOR_SLEEP;
        } else {
            scx.flags &= !TASK_DEQD_FOR_SLEEP;
        }
        scx.flags &= !TASK_QUEUED;
        self.rqs[cpu as usize].nr_running -= 1;
        self.dispatch_dequeue(cpu, id);
    }

    /// `ops_dequeue()`. ops.dequeue(p, deq_flags) is called only for a task in the scheduler's custody, which ends
    /// with it: not for one on a DSQ. Absent: custody ends silently, and a later insert of the task is dropped.
    fn leave_custody(&mut self, cpu: u32, id: TaskId, flags: u64) {
        self.clear_runnable(id, false);
        if let OpsState::Queued(_) = self.tasks[id.index()].ext.ops_state {
            if self.ext.ops.has(Op::Dequeue) {
                let args = [self.task_arg(id), flags];
                self.call_op(Op::Dequeue, &args, id, Some(cpu));
            }
            self.tasks[id.index()].ext.ops_state = OpsState::None;
        }
    }

    /// `clr_task_runnable()`.
    pub(crate) fn clear_runnable(&mut self, id: TaskId, reset_runnable_at: bool) {
        if reset_runnable_at {
            self.tasks[id.index()].kern.scx.flags |= TASK_RESET_RUNNABLE_AT;
        }
    }

    /// `dispatch_dequeue()`: takes a task off its DSQ or the deferred list, if it is on one.
    pub(crate) fn dispatch_dequeue(&mut self, cpu: u32, id: TaskId) {
        if self.tasks[id.index()].ext.deferred_to.take().is_some() {
            self.rqs[cpu as usize].deferred.retain(|t| *t != id);
            let scx = &mut self.tasks[id.index()].kern.scx;
            scx.ddsp_dsq_id = DSQ_INVALID;
            scx.ddsp_enq_flags = 0;
        }
        self.unlink_from_dsq(id);
    }

    pub(crate) fn unlink_from_dsq(&mut self, id: TaskId) {
        let Some(dsq_ref) = self.tasks[id.index()].ext.dsq.take() else {
            return;
        };
        self.lock_dsq(dsq_ref);
        let dsq = match dsq_ref {
            DsqRef::Local(cpu) => &mut self.rqs[cpu as usize].local,
            DsqRef::Global(node) => &mut self.ext.global_dsqs[node as usize],
            DsqRef::User(slot) => self.ext.dsqs.get_mut(slot),
        };
        dsq.remove(&mut self.tasks, id);
        self.unlock_dsq(dsq_ref);
    }
}
