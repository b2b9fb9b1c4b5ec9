// SPDX-License-Identifier: GPL-2.0-or-later
//! Waiting for locks that another CPU holds: of runqueues, of DSQs, and the scheduler's own.
//!
//! The code of simulated CPUs runs in turns, but their time overlaps: what one CPU's callback does may take until after
//! another's has begun. So each lock knows when it was held last, and whoever takes it at such a time waits.
//!
//! CPUs get a lock in the order of their events. The kernel's queued locks are as fair, but order CPUs by when they ask; the two
//! differ at most by what a CPU does in one event.

pub mod lock;

use self::lock::Lock;
use crate::engine::{Engine, RunError};
use crate::task::DsqRef;
use tiltyard_model::OverheadCause;

/// A lock of the simulated kernel.
#[derive(Clone, Copy)]
enum Which {
    Runqueue(u32),
    /// A local DSQ has none: its runqueue's lock protects it.
    Dsq(DsqRef),
}

impl Engine<'_> {
    #[inline]
    fn take_lock(&mut self, which: Which) {
        if !self.ext.waits_for_locks {
            return;
        }
        let at_ns = self.own_ns();
        let Some(lock) = self.lock_of(which) else {
            return;
        };
        let wait_ns = lock.take(at_ns);
        if self.ext.depth > 0 {
            self.charge_call(wait_ns);
        } else {
            self.charge(self.exec_cpu, OverheadCause::Scheduler, wait_ns);
        }
    }

    #[inline]
    fn give_back_lock(&mut self, which: Which) {
        if !self.ext.waits_for_locks {
            return;
        }
        let at_ns = self.own_ns();
        if let Some(lock) = self.lock_of(which) {
            lock.give_back(at_ns);
        }
    }

    #[inline]
    pub(crate) fn take_runqueue_lock(&mut self, cpu: u32) {
        self.take_lock(Which::Runqueue(cpu));
    }

    #[inline]
    pub(crate) fn give_back_runqueue_lock(&mut self, cpu: u32) {
        self.give_back_lock(Which::Runqueue(cpu));
    }

    /// A `struct bpf_spin_lock` of the scheduler, by its address: the current callback waits for it.
    #[inline]
    pub(crate) fn take_spin_lock(&mut self, address: u64) {
        if self.ext.held_spin_lock != 0 {
            return self.misused_spin_lock("takes a spin lock while it holds one");
        }
        self.ext.held_spin_lock = address;
        if self.ext.waits_for_locks {
            let at_ns = self.own_ns();
            let wait_ns = self.ext.spin_locks.at(address).take(at_ns);
            self.charge_call(wait_ns);
        }
    }

    #[inline]
    pub(crate) fn give_back_spin_lock(&mut self, address: u64) {
        if self.ext.held_spin_lock != address {
            return self.misused_spin_lock("releases a spin lock that it does not hold");
        }
        self.ext.held_spin_lock = 0;
        if self.ext.waits_for_locks {
            let at_ns = self.own_ns();
            self.ext.spin_locks.at(address).give_back(at_ns);
        }
    }

    /// What the kernel's verifier would have refused.
    #[cold]
    pub(crate) fn misused_spin_lock(&mut self, what: &str) {
        let place = self.object.place(self.instance.place());
        let at = place.map_or_else(String::new, |place| format!(" at {place}"));
        self.fail(RunError::Scheduler(format!(
            "{} {what}{at}; kernels do not load that",
            self.ext.ctx.label()
        )));
    }

    /// `dsq->lock`. Looking through a queue takes time, changing it no more than the lock itself.
    pub(crate) fn lock_dsq(&mut self, dsq: DsqRef) {
        self.order_by_dsq(dsq);
        self.take_lock(Which::Dsq(dsq));
    }

    pub(crate) fn unlock_dsq(&mut self, dsq: DsqRef) {
        self.give_back_lock(Which::Dsq(dsq));
    }

    fn lock_of(&mut self, which: Which) -> Option<&mut Lock> {
        match which {
            Which::Runqueue(cpu) => Some(&mut self.rqs[cpu as usize].lock),
            Which::Dsq(DsqRef::Local(_)) => None,
            Which::Dsq(DsqRef::Global(node)) => Some(&mut self.ext.global_dsqs[node as usize].lock),
            Which::Dsq(DsqRef::User(slot)) => Some(&mut self.ext.dsqs.get_mut(slot).lock),
        }
    }

    /// How far the CPU that executes is: the time of this event, what it had to do before, and what the callback did so far.
    pub(crate) fn own_ns(&self) -> u64 {
        let begun_ns = self.now.max(self.rqs[self.exec_cpu as usize].work_start_ns);
        match self.ext.depth {
            0 => begun_ns,
            _ => begun_ns + self.unpaid_ns(),
        }
    }
}
