// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel orders between CPUs, as far as scheduler code may rely on it. Runs that check for data races
//! report to the check here; in other runs these functions do nothing.
//!
//! Each function states what establishes the order in the kernel. What is not here orders nothing: two different locks; a
//! kick, because the CPU that it reaches might have come to dispatch by itself a moment earlier; bits of the idle
//! masks; `rcu_read_lock()`; the passage of time.

use crate::engine::Engine;
use crate::races::{Races, Sync};
use crate::task::{DsqRef, TaskId};

impl Engine<'_> {
    #[inline]
    pub(crate) fn acquire(&mut self, from: Sync) {
        if self.races.is_some() {
            self.order(from, Races::acquire);
        }
    }

    #[inline]
    pub(crate) fn release(&mut self, to: Sync) {
        if self.races.is_some() {
            self.order(to, Races::release);
        }
    }

    #[inline]
    fn pass(&mut self, through: Sync) {
        if self.races.is_some() {
            self.order(through, Races::pass);
        }
    }

    /// Out of the way of runs that do not check.
    #[cold]
    #[inline(never)]
    fn order(&mut self, what: Sync, how: fn(&mut Races, u32, Sync)) {
        if let Some(races) = &mut self.races {
            how(races, self.exec_cpu, what);
        }
    }

    /// `p->pi_lock`, around wakeups (`try_to_wake_up()`, `wake_up_new_task()`) and changes of attributes
    /// (`task_rq_lock()`): ops.select_cpu runs under it, without any runqueue's lock.
    pub(crate) fn lock_task(&mut self, id: TaskId) {
        self.acquire(Sync::Task(id.0));
    }

    pub(crate) fn unlock_task(&mut self, id: TaskId) {
        self.release(Sync::Task(id.0));
    }

    /// `finish_task()`: a CPU has switched away from a task and clears `p->on_cpu` with release semantics.
    #[inline]
    pub(crate) fn left_cpu(&mut self, id: TaskId) {
        if self.races.is_some() && !id.is_idle() {
            self.release(Sync::OffCpu(id.0));
        }
    }

    /// `try_to_wake_up()` waits until `p->on_cpu` is clear (`smp_cond_load_acquire()`), before it selects a CPU: the
    /// wakeup comes after everything that the task's last CPU did up to the switch.
    pub(crate) fn await_off_cpu(&mut self, id: TaskId) {
        self.acquire(Sync::OffCpu(id.0));
    }

    /// A reference to a task is dropped: `refcount_dec_and_test()` has release semantics.
    pub(crate) fn drop_reference(&mut self, id: TaskId) {
        self.release(Sync::References(id.0));
    }

    /// `sched_ext_free()` runs when the last reference is dropped, with acquire semantics, under `task_rq_lock()`.
    pub(crate) fn last_reference(&mut self, id: TaskId) {
        self.acquire(Sync::References(id.0));
        self.acquire(Sync::OffCpu(id.0));
    }

    /// The task's memory is freed.
    pub(crate) fn forget_order(&mut self, id: TaskId) {
        if let Some(races) = &mut self.races {
            for what in [Sync::Task, Sync::OffCpu, Sync::References] {
                races.drop_sync(what(id.0));
            }
        }
    }

    /// `dsq->lock`, for each insertion, removal, and step of an iteration: everything before an insertion is known
    /// to the CPU that finds the task there. A local DSQ is protected by its runqueue's lock instead.
    #[inline]
    pub(crate) fn order_by_dsq(&mut self, dsq: DsqRef) {
        if self.races.is_none() {
            return;
        }
        match dsq {
            DsqRef::Local(_) => {}
            DsqRef::Global(node) => self.pass(Sync::GlobalDsq(node)),
            DsqRef::User(slot) => self.pass(Sync::Dsq(slot)),
        }
    }

    /// `async->lock` of a timer, in bpf_timer_init, _set_callback, _start and _cancel. The hrtimer's own lock orders a start
    /// and the callback.
    pub(crate) fn pass_timer(&mut self, timer: usize) {
        self.pass(Sync::Timer(timer));
    }

    pub(crate) fn timer_fires(&mut self, timer: usize) {
        self.acquire(Sync::Timer(timer));
    }

    pub(crate) fn timer_done(&mut self, timer: usize) {
        self.release(Sync::TimerDone(timer));
    }

    /// `hrtimer_cancel()` waits for the callback.
    pub(crate) fn timer_cancelled(&mut self, timer: usize) {
        self.acquire(Sync::TimerDone(timer));
    }

    /// Loading and unloading: `scx_bypass()` takes each runqueue's lock in turn, before the tasks change hands and
    /// after. So ops.init comes before everything, and ops.exit after it.
    pub(crate) fn pass_everybody(&mut self) {
        if let Some(races) = &mut self.races {
            races.barrier();
        }
    }
}
