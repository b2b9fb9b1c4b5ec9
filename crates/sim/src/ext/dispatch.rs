// SPDX-License-Identifier: GPL-2.0-or-later
//! From DSQs to CPUs: balance, dispatch, pick, put, slices, ticks.

use crate::cpu::PreemptHint;
use crate::engine::Engine;
use crate::ext::dsq::Dsq;
use crate::ext::enqueue::ENQ_CLEAR_OPSS;
use crate::ext::flags::*;
use crate::ext::ops::Op;
use crate::sched::{ON_RQ_MIGRATING, ON_RQ_QUEUED};
use crate::task::{Class, DsqRef, OpsState, TaskId};
use tiltyard_model::OverheadCause;
use tiltyard_native::layout::{CpuReleaseArgs, TaskStruct};

/// SCX_CPU_PREEMPT_RT, SCX_CPU_PREEMPT_STOP
const PREEMPT_RT: i32 = 0;
const PREEMPT_STOP: i32 = 2;

/// Inserts of one ops.dispatch, done when it returns or consumes.
#[derive(Debug)]
pub struct DispatchBuffer {
    pub entries: Vec<BufferedInsert>,
    pub max_batch: usize,
    /// Tasks inserted or consumed in this pass.
    pub nr_tasks: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct BufferedInsert {
    pub task: TaskId,
    /// The task's ops_state when it was inserted: a task that was dequeued meanwhile no longer matches.
    pub state: OpsState,
    pub dsq_id: u64,
    pub flags: u64,
}

impl DispatchBuffer {
    pub fn new(max_batch: usize) -> DispatchBuffer {
        DispatchBuffer {
            // The limit may be far beyond what is ever used.
            entries: Vec::with_capacity(max_batch.min(64)),
            max_batch,
            nr_tasks: 0,
        }
    }
}

impl Engine<'_> {
    /// `balance_one()`: finds something for this CPU to run, or decides that `prev` continues.
    pub(crate) fn ext_balance(&mut self, cpu: u32, prev: TaskId) {
        let rq = &mut self.rqs[cpu as usize];
        rq.in_balance = true;
        rq.keep_curr = false;
        // ops.cpu_acquire(cpu, args): the CPU belongs to the scheduler again, before ops.dispatch.
        if std::mem::take(&mut rq.released) && self.ext.ops.has(Op::CpuAcquire) {
            // The one argument, struct scx_cpu_acquire_args, is empty.
            self.call_op(
                Op::CpuAcquire,
                &[u64::from(cpu), 0],
                TaskId::IDLE,
                Some(cpu),
            );
        }
        self.balance_tasks(cpu, prev);
        self.rqs[cpu as usize].in_balance = false;
    }

    fn balance_tasks(&mut self, cpu: u32, prev: TaskId) {
        // A task that was moved away left the CPU to the stopper, which is in another class.
        let prev_is_ext = self.class_of(prev) == Class::Ext && self.tasks[prev.index()].cpu == cpu;
        let prev_queued = prev_is_ext && self.stays_here(cpu, prev);
        if prev_is_ext && self.rqs[cpu as usize].curr == prev {
            self.charge_slice(prev);
        }
        if prev_queued && self.tasks[prev.index()].kern.scx.slice > 0 && self.ext.enabled {
            self.rqs[cpu as usize].keep_curr = true;
            return;
        }
        if !self.rqs[cpu as usize].local.is_empty() || self.consume_global(cpu) {
            return;
        }
        if self.ext.ops.has(Op::Dispatch)
            && self.ext.enabled
            && self.dispatch_loop(cpu, prev, prev_is_ext, prev_queued)
        {
            return;
        }
        if prev_queued && (!self.ext.has(OPS_ENQ_LAST) || !self.ext.enabled) {
            self.rqs[cpu as usize].keep_curr = true;
        }
    }

    /// Calls ops.dispatch until there is something to run, it has nothing more, or it was called 32 times.
    ///
    /// ops.dispatch(cpu, prev): the CPU's local DSQ is empty. `prev` is the ext task that is about to leave, NULL if
    /// another class ran; it is not yet back in any DSQ, and may have gone to sleep. Refilling its slice keeps it.
    fn dispatch_loop(
        &mut self,
        cpu: u32,
        prev: TaskId,
        prev_is_ext: bool,
        prev_queued: bool,
    ) -> bool {
        let prev_arg = if prev_is_ext { self.task_arg(prev) } else { 0 };
        let subject = if prev_is_ext { prev } else { TaskId::IDLE };
        for pass in 1..=DISPATCH_MAX_LOOPS {
            self.ext.buffer.nr_tasks = 0;
            self.call_op(
                Op::Dispatch,
                &[u64::from(cpu), prev_arg],
                subject,
                Some(cpu),
            );
            self.flush_dispatch_buffer(cpu);
            if prev_queued && self.tasks[prev.index()].kern.scx.slice > 0 {
                self.rqs[cpu as usize].keep_curr = true;
                return true;
            }
            if !self.rqs[cpu as usize].local.is_empty() || self.consume_global(cpu) {
                return true;
            }
            if self.failure.is_some() || self.ext.buffer.nr_tasks == 0 {
                return false;
            }
            if pass == DISPATCH_MAX_LOOPS {
                self.kick(cpu, 0);
            }
        }
        false
    }

    /// `flush_dispatch_buf()`.
    #[inline]
    pub(crate) fn flush_dispatch_buffer(&mut self, cpu: u32) {
        if !self.ext.buffer.entries.is_empty() {
            self.finish_dispatches(cpu);
        }
    }

    #[inline(never)]
    fn finish_dispatches(&mut self, cpu: u32) {
        let mut entries = std::mem::take(&mut self.ext.buffer.entries);
        for entry in &entries {
            self.finish_dispatch(cpu, entry);
        }
        self.ext.buffer.nr_tasks += entries.len() as u32;
        entries.clear();
        self.ext.buffer.entries = entries;
    }

    /// `finish_dispatch()`: takes the task out of the scheduler's custody, unless it left it meanwhile.
    fn finish_dispatch(&mut self, cpu: u32, entry: &BufferedInsert) {
        let task = &mut self.tasks[entry.task.index()];
        if !matches!(task.ext.ops_state, OpsState::Queued(_)) || task.ext.ops_state != entry.state {
            return;
        }
        task.ext.ops_state = OpsState::Dispatching;
        self.ext.keeps_tasks = true;
        match self.find_dsq_for_dispatch(cpu, entry.dsq_id, entry.task) {
            DsqRef::Local(target) => self.dispatch_to_local(cpu, target, entry.task, entry.flags),
            dsq => self.dispatch_enqueue(dsq, entry.task, entry.flags | ENQ_CLEAR_OPSS),
        }
    }

    /// `dispatch_to_local_dsq()`: into the local DSQ of `target`, migrating the task if it must. `cpu` is locked before and
    /// after.
    pub(crate) fn dispatch_to_local(&mut self, cpu: u32, target: u32, id: TaskId, flags: u64) {
        let from = self.tasks[id.index()].cpu;
        if from == target {
            self.relock_rq(cpu, from);
            self.dispatch_enqueue(DsqRef::Local(target), id, flags | ENQ_CLEAR_OPSS);
            return self.relock_rq(from, cpu);
        }
        if !self.require_remote(id, target) {
            let global = self.global_dsq_of(id);
            return self.dispatch_enqueue(global, id, flags | ENQ_CLEAR_OPSS);
        }
        self.tasks[id.index()].ext.ops_state = OpsState::None;
        self.relock_rq(cpu, from);
        self.move_to_remote_local(id, from, target, flags);
        if self.class_of(self.rqs[target as usize].curr) == Class::Idle {
            self.resched(target);
        }
        self.relock_rq(target, cpu);
    }

    /// `task_can_run_on_remote_rq()`.
    pub(crate) fn may_run_remotely(&self, id: TaskId, target: u32) -> bool {
        let task = &self.tasks[id.index()];
        task.kern.migration_disabled == 0 && task.may_run_on(target)
    }

    /// The same where a negative result is the scheduler's error.
    pub(crate) fn require_remote(&mut self, id: TaskId, target: u32) -> bool {
        let may = self.may_run_remotely(id, target);
        if !may {
            let (task, label) = (&self.tasks[id.index()], self.task_label(id));
            let line = match task.kern.migration_disabled {
                0 => format!("SCX_DSQ_LOCAL[_ON] target CPU {target} not allowed for {label}"),
                _ => format!(
                    "SCX_DSQ_LOCAL[_ON] cannot move migration disabled {label} from CPU {} to {target}",
                    task.cpu
                ),
            };
            self.ext_error(line);
        }
        may
    }

    /// `move_remote_task_to_local_dsq()`: no callback sees it. The high flag bits, PREEMPT among them, do not
    /// survive the move in the reference kernel: the task lands at the tail. It is entered with `from` locked and
    /// left with `target` locked.
    fn move_to_remote_local(&mut self, id: TaskId, from: u32, target: u32, flags: u64) {
        self.tasks[id.index()].kern.on_rq = ON_RQ_MIGRATING;
        self.ext_dequeue_task(from, id, 0);
        self.tasks[id.index()].kern.scx.sticky_cpu = target as i32;
        self.set_task_cpu(id, target);
        self.relock_rq(from, target);
        self.ext_enqueue_task(target, id, flags & 0xffff_ffff);
        self.tasks[id.index()].kern.on_rq = ON_RQ_QUEUED;
    }

    fn consume_global(&mut self, cpu: u32) -> bool {
        let node = self.rqs[cpu as usize].place.node;
        if self.ext.global_dsqs[node as usize].is_empty() {
            return false;
        }
        self.consume(cpu, DsqRef::Global(node))
    }

    pub(crate) fn dsq(&self, dsq: DsqRef) -> &Dsq {
        match dsq {
            DsqRef::Local(cpu) => &self.rqs[cpu as usize].local,
            DsqRef::Global(node) => &self.ext.global_dsqs[node as usize],
            DsqRef::User(slot) => self.ext.dsqs.get(slot),
        }
    }

    /// `consume_dispatch_q()`: the first task of the DSQ that is on this runqueue or may come here moves to the end
    /// of the local DSQ. Tasks that may not are skipped and stay where they are.
    pub(crate) fn consume(&mut self, cpu: u32, dsq_ref: DsqRef) -> bool {
        let taken = |engine: &mut Self| match dsq_ref {
            DsqRef::Local(cpu) => engine.rqs[cpu as usize].local.taken += 1,
            DsqRef::Global(node) => engine.ext.global_dsqs[node as usize].taken += 1,
            DsqRef::User(slot) => engine.ext.dsqs.get_mut(slot).taken += 1,
        };
        let mut at = self.dsq(dsq_ref).first();
        if at.is_none() {
            return false;
        }
        self.lock_dsq(dsq_ref);
        while let Some(id) = at {
            self.charge_step();
            let from = self.tasks[id.index()].cpu;
            if from == cpu {
                taken(self);
                self.unlock_dsq(dsq_ref);
                self.unlink_from_dsq(id);
                self.dispatch_enqueue(DsqRef::Local(cpu), id, 0);
                return true;
            }
            if self.may_run_remotely(id, cpu) {
                taken(self);
                self.unlock_dsq(dsq_ref);
                self.unlink_from_dsq(id);
                self.relock_rq(cpu, from);
                self.move_to_remote_local(id, from, cpu, 0);
                return true;
            }
            at = self.dsq(dsq_ref).neighbour(&self.tasks, id, false);
        }
        self.unlock_dsq(dsq_ref);
        false
    }

    /// One task of a queue was examined: by the current callback, or by the core itself.
    pub(crate) fn charge_step(&mut self) {
        let step_ns = self.machine.costs.visit_near_ns;
        if self.ext.depth > 0 {
            self.ext.kfunc_ns += step_ns;
        } else {
            self.charge(self.exec_cpu, OverheadCause::Scheduler, step_ns);
        }
    }

    /// `pick_task_scx()`: the task that balance kept, else the head of the local DSQ.
    pub(crate) fn ext_pick(&mut self, cpu: u32, prev: TaskId) -> Option<TaskId> {
        self.ext_came_by(cpu);
        let keep = self.rqs[cpu as usize].keep_curr
            && self.class_of(prev) == Class::Ext
            && self.stays_here(cpu, prev);
        let id = if keep {
            prev
        } else {
            self.rqs[cpu as usize].local.first()?
        };
        let scx = &mut self.tasks[id.index()].kern.scx;
        if scx.slice == 0 {
            scx.slice = SLICE_DFL_NS;
            if !keep {
                self.ext.zero_slice_refills += 1;
            }
        }
        Some(id)
    }

    /// `set_next_task_scx()`: off the DSQ and onto the CPU. ops.running(p): the task has the CPU and no other
    /// owner; `rq->curr` is still the previous task. Not called when a task continues without a switch.
    pub(crate) fn ext_set_next(&mut self, cpu: u32, id: TaskId) {
        self.dispatch_dequeue(cpu, id);
        let now = self.now;
        let task = &mut self.tasks[id.index()];
        task.ext.ops_state = OpsState::None;
        task.kern.se.exec_start = now;
        if self.ext.ops.has(Op::Running) && self.tasks[id.index()].queued() {
            let args = [self.task_arg(id)];
            self.call_op(Op::Running, &args, id, Some(cpu));
        }
        self.clear_runnable(id, true);
    }

    /// `put_prev_task_scx()`. ops.stopping(p, true): the task loses the CPU and stays runnable; the next one is
    /// already chosen. Then it goes to the head of the local DSQ if slice is left, else through ops.enqueue.
    pub(crate) fn ext_put_prev(&mut self, cpu: u32, id: TaskId, next: TaskId) {
        self.ext_came_by(cpu);
        if self.tasks[id.index()].cpu == cpu && self.tasks[id.index()].queued() {
            self.charge_slice(id);
            if self.ext.ops.has(Op::Stopping) {
                let args = [self.task_arg(id), 1];
                self.call_op(Op::Stopping, &args, id, Some(cpu));
            }
            self.set_runnable(id);
            if self.tasks[id.index()].kern.scx.slice > 0 && self.ext.enabled {
                // Only a higher class can have taken the CPU: the task continues where it was.
                self.dispatch_enqueue(DsqRef::Local(cpu), id, ENQ_HEAD);
            } else if self.class_of(next) == Class::Idle {
                self.do_enqueue(cpu, id, ENQ_LAST, -1);
            } else {
                self.do_enqueue(cpu, id, 0, -1);
            }
        }
        if let Class::Rt { .. } = self.class_of(next) {
            let next = self.tasks[next.index()].kernel_ptr();
            self.release_cpu(cpu, id, PREEMPT_RT, next);
        }
    }

    /// The stopper thread preempts a running task to migrate it. It is not a task of the simulated kernel.
    pub(crate) fn ext_stopped_for_migration(&mut self, cpu: u32, id: TaskId) {
        self.charge_slice(id);
        if self.ext.ops.has(Op::Stopping) {
            let args = [self.task_arg(id), 1];
            self.call_op(Op::Stopping, &args, id, Some(cpu));
        }
        self.set_runnable(id);
        self.ext_came_by(cpu);
        self.release_cpu(cpu, id, PREEMPT_STOP, std::ptr::null_mut());
    }

    /// `switch_class()`. ops.cpu_release(cpu, args): a higher class takes the CPU; called once until ops.cpu_acquire.
    /// Tasks on the local DSQ wait there unless the op sends them through ops.enqueue again. Absent: they wait.
    ///
    /// Scheduler code runs on the back of the current task and disables its migration meanwhile. Elsewhere this is
    /// not visible; here `prev` is that task and on the local DSQ at the same time.
    fn release_cpu(&mut self, cpu: u32, prev: TaskId, reason: i32, task: *mut TaskStruct) {
        if self.rqs[cpu as usize].released
            || !(self.ext.ops.has(Op::CpuRelease) || self.ext.ops.has(Op::CpuAcquire))
        {
            return;
        }
        let args = CpuReleaseArgs { reason, task };
        let arg = std::ptr::from_ref(&args) as u64;
        self.tasks[prev.index()].kern.migration_disabled += 1;
        self.call_op(
            Op::CpuRelease,
            &[u64::from(cpu), arg],
            TaskId::IDLE,
            Some(cpu),
        );
        self.tasks[prev.index()].kern.migration_disabled -= 1;
        self.rqs[cpu as usize].released = true;
    }

    /// `update_curr_scx()`: runtime and slice are charged by the time that passed, never more.
    pub(crate) fn charge_slice(&mut self, id: TaskId) {
        let delta = self.update_runtime(id);
        let scx = &mut self.tasks[id.index()].kern.scx;
        if scx.slice != SLICE_INF {
            scx.slice -= scx.slice.min(delta);
        }
    }

    /// `task_tick_scx()`. ops.tick is called on every tick of a CPU that runs an ext task; a slice that is 0 after
    /// it, used up or zeroed, makes the CPU reschedule.
    pub(crate) fn ext_tick(&mut self, cpu: u32, curr: TaskId) {
        self.charge_slice(curr);
        if self.ext.ops.has(Op::Tick) && self.ext.enabled {
            let args = [self.task_arg(curr)];
            self.call_op(Op::Tick, &args, curr, Some(cpu));
        }
        if self.tasks[curr.index()].kern.scx.slice == 0 {
            self.resched_local(cpu);
        }
    }

    /// `yield_task_scx()`: ops.yield decides what a yield means; without it the slice ends.
    pub(crate) fn ext_yield(&mut self, cpu: u32, curr: TaskId) {
        if self.ext.ops.has(Op::Yield) {
            let args = [self.task_arg(curr), 0];
            self.lock_rq(cpu);
            self.call_op(Op::Yield, &args, curr, Some(cpu));
            self.unlock_rq(cpu);
        } else {
            self.tasks[curr.index()].kern.scx.slice = 0;
        }
        self.rqs[cpu as usize].preempt_hint = PreemptHint::Yield;
    }
}
