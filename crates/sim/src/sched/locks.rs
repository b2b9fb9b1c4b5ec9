// SPDX-License-Identifier: GPL-2.0-or-later
//! Runqueue locks: which ones the current code holds, which determines what a kernel may do. Each callback is checked against them (in builds with debug
//! assertions), and runs that report accesses report these, too.

use crate::engine::Engine;
use crate::races::Sync;
use tiltyard_model::{Cpu, EventKind};

/// CPUs whose runqueues are locked, in locking order.
#[derive(Debug, Default)]
pub struct RqLocks(Vec<u32>);

impl RqLocks {
    /// The lock under which callbacks run: one or none.
    pub fn innermost(&self) -> Option<u32> {
        self.0.last().copied()
    }

    #[cfg(debug_assertions)]
    pub fn held(&self) -> &[u32] {
        &self.0
    }
}

impl Engine<'_> {
    /// `raw_spin_rq_lock()`.
    pub(crate) fn lock_rq(&mut self, cpu: u32) {
        debug_assert!(!self.rq_locks.0.contains(&cpu), "CPU {cpu} deadlocks");
        self.acquire(Sync::Runqueue(cpu));
        self.lock_rq_for_kick(cpu);
    }

    /// `raw_spin_rq_unlock()`.
    pub(crate) fn unlock_rq(&mut self, cpu: u32) {
        self.unlock_rq_after_kick(cpu);
        self.release(Sync::Runqueue(cpu));
    }

    /// The same for a kick, on which no scheduler may rely for the order of its accesses; see `order.rs`.
    pub(crate) fn lock_rq_for_kick(&mut self, cpu: u32) {
        self.rq_locks.0.push(cpu);
        self.take_runqueue_lock(cpu);
        if self.ext.accesses.is_some() {
            self.tell_lock(cpu, true);
        }
    }

    pub(crate) fn unlock_rq_after_kick(&mut self, cpu: u32) {
        let innermost = self.rq_locks.0.pop();
        debug_assert_eq!(innermost, Some(cpu), "not the lock that was taken last");
        self.give_back_runqueue_lock(cpu);
        if self.ext.accesses.is_some() {
            self.tell_lock(cpu, false);
        }
    }

    /// Unlocks one runqueue before it locks another, as everything in sched_ext does.
    pub(crate) fn relock_rq(&mut self, from: u32, to: u32) {
        if from != to {
            self.unlock_rq(from);
            self.lock_rq(to);
        }
    }

    /// Out of the way of runs that report no accesses.
    #[cold]
    fn tell_lock(&mut self, cpu: u32, taken: bool) {
        let kind = EventKind::RunqueueLock {
            of: Cpu(cpu),
            taken,
        };
        self.emit(self.exec_cpu, kind);
    }
}
