// SPDX-License-Identifier: GPL-2.0-or-later
//! Locks and gates on futexes, shared by processes. All bits 0 is a new one.
//!
//! They are not those of libc because a run must be able to say who waits for what, because a signal
//! must wake exactly one, in order, and because the same must hold between processes.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::mapping::Plain;
use crate::sys;

/// Beside the owner's tid: somebody waits. The same bit that the kernel uses.
const WAITERS: u32 = libc::FUTEX_WAITERS;
const ANYBODY: u32 = u32::MAX;

/// A mutex. The word is the owner's tid, with [`WAITERS`]. An unlock wakes the first that waits; who comes
/// in between may take the lock.
#[derive(Default)]
pub struct Lock {
    word: AtomicU32,
}

// SAFETY: an atomic; 0 is a free lock.
unsafe impl Plain for Lock {}

impl Lock {
    pub fn owner(&self) -> Option<u32> {
        Some(self.word.load(SeqCst) & libc::FUTEX_TID_MASK).filter(|tid| *tid != 0)
    }

    pub fn try_lock(&self, tid: u32) -> bool {
        self.word.compare_exchange(0, tid, SeqCst, SeqCst).is_ok()
    }

    /// Waits for the lock, with priority inheritance if `lend`.
    pub fn lock(&self, tid: u32, lend: bool) -> io::Result<()> {
        if lend {
            return sys::futex_pi(&self.word, libc::FUTEX_LOCK_PI);
        }
        loop {
            let seen = self.word.load(SeqCst);
            // Whoever has waited does not know who else does: it keeps the bit.
            if seen == 0 {
                let taken = self.word.compare_exchange(0, tid | WAITERS, SeqCst, SeqCst);
                if taken.is_ok() {
                    return Ok(());
                }
                continue;
            }
            let marked = seen | WAITERS;
            let unchanged = seen == marked
                || self
                    .word
                    .compare_exchange(seen, marked, SeqCst, SeqCst)
                    .is_ok();
            if unchanged {
                sys::futex_wait(&self.word, marked, ANYBODY, None);
            }
        }
    }

    /// By its owner.
    pub fn unlock(&self, tid: u32, lend: bool) -> io::Result<()> {
        if self.word.compare_exchange(tid, 0, SeqCst, SeqCst).is_ok() {
            return Ok(());
        }
        if lend {
            return sys::futex_pi(&self.word, libc::FUTEX_UNLOCK_PI);
        }
        self.word.store(0, SeqCst);
        sys::futex_wake(&self.word, 1, ANYBODY);
        Ok(())
    }
}

/// Where tasks arrive, draw a ticket, and wait until it is let through; first come first served, and nobody
/// who was not let through goes on. Conditions, barriers and places of suspension are gates; semaphores have one.
#[derive(Default)]
pub struct Gate {
    arrived: AtomicU32,
    released: AtomicU32,
}

// SAFETY: atomics; 0 is a gate at which nobody has been.
unsafe impl Plain for Gate {}

impl Gate {
    pub fn arrive(&self) -> u32 {
        self.arrived.fetch_add(1, SeqCst)
    }

    pub fn is_open(&self, ticket: u32) -> bool {
        // Tickets wrap around: the distance counts.
        (self.released.load(SeqCst).wrapping_sub(ticket) as i32) > 0
    }

    pub fn wait(&self, ticket: u32) {
        loop {
            let seen = self.released.load(SeqCst);
            if (seen.wrapping_sub(ticket) as i32) > 0 {
                return;
            }
            sys::futex_wait(&self.released, seen, bit(ticket), None);
        }
    }

    /// How many have arrived and were not let through.
    pub fn waiting(&self) -> u32 {
        let released = self.released.load(SeqCst);
        let waiting = self.arrived.load(SeqCst).wrapping_sub(released) as i32;
        waiting.max(0) as u32
    }

    /// Lets one more through, even one that has yet to arrive; returns its ticket.
    fn admit(&self) -> u32 {
        self.released.fetch_add(1, SeqCst)
    }

    /// Lets `count` more through, those who are still to come among them.
    pub fn post(&self, count: u32) {
        let first = self.released.fetch_add(count, SeqCst);
        let waited = self.arrived.load(SeqCst).wrapping_sub(first) as i32;
        match (count, waited) {
            (_, ..=0) => {}
            (1, _) => sys::futex_wake(&self.released, u32::MAX, bit(first)),
            _ => sys::futex_wake(&self.released, u32::MAX, ANYBODY),
        }
    }

    /// Lets the first that waits through, if there is one.
    pub fn signal(&self) {
        self.release(1);
    }

    /// Lets all through that wait.
    pub fn broadcast(&self) {
        self.release(u32::MAX);
    }

    fn release(&self, at_most: u32) {
        loop {
            let first = self.released.load(SeqCst);
            let waiting = self.arrived.load(SeqCst).wrapping_sub(first) as i32;
            let count = (waiting.max(0) as u32).min(at_most);
            if count == 0 {
                return;
            }
            let next = first.wrapping_add(count);
            if self
                .released
                .compare_exchange(first, next, SeqCst, SeqCst)
                .is_ok()
            {
                let bits = if count == 1 { bit(first) } else { ANYBODY };
                return sys::futex_wake(&self.released, u32::MAX, bits);
            }
        }
    }
}

/// Tickets that have a bell of their own; more waiters than this may cause needless wakeups.
const BELLS: usize = 256;

/// A semaphore: a gate whose posts wake only the one that they let through. A bell is a number that changes when it rings.
pub struct Sem {
    gate: Gate,
    bells: [AtomicU32; BELLS],
}

// SAFETY: atomics; 0 is a semaphore that nobody has posted.
unsafe impl Plain for Sem {}

impl Sem {
    pub fn arrive(&self) -> u32 {
        self.gate.arrive()
    }

    pub fn is_open(&self, ticket: u32) -> bool {
        self.gate.is_open(ticket)
    }

    pub fn wait(&self, ticket: u32) {
        let bell = self.bell(ticket);
        loop {
            // Seen before looking: a post in between rings, and the kernel finds another number.
            let seen = bell.load(SeqCst);
            if self.is_open(ticket) {
                return;
            }
            sys::futex_wait(bell, seen, ANYBODY, None);
        }
    }

    pub fn post(&self) {
        let ticket = self.gate.admit();
        let arrived = self.gate.arrived.load(SeqCst).wrapping_sub(ticket) as i32;
        if arrived > 0 {
            let bell = self.bell(ticket);
            bell.fetch_add(1, SeqCst);
            sys::futex_wake(bell, u32::MAX, ANYBODY);
        }
    }

    /// As if it had been posted so often, before anybody has come.
    pub fn begin_with(&self, count: u32) {
        self.gate.post(count);
    }

    fn bell(&self, ticket: u32) -> &AtomicU32 {
        &self.bells[ticket as usize % BELLS]
    }
}

/// Which wakeups concern a ticket: one in 32, so that a signal wakes one and not all.
fn bit(ticket: u32) -> u32 {
    1 << (ticket % 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_without_waiters_is_lost_and_a_post_is_not() {
        let gate = Gate::default();
        gate.signal();
        gate.broadcast();
        let ticket = gate.arrive();
        assert!(!gate.is_open(ticket));
        gate.post(2);
        assert!(gate.is_open(ticket));
        assert!(gate.is_open(gate.arrive()));
        assert!(!gate.is_open(gate.arrive()));
        assert_eq!(gate.waiting(), 1);
    }

    #[test]
    fn each_post_lets_one_through() {
        let sem = Sem {
            gate: Gate::default(),
            bells: [const { AtomicU32::new(0) }; BELLS],
        };
        sem.begin_with(1);
        assert!(sem.is_open(sem.arrive()));
        let passed = AtomicU32::new(0);
        // More than there are bells, so that some share one.
        let tasks = BELLS as u32 + 10;
        std::thread::scope(|scope| {
            for _ in 0..tasks {
                scope.spawn(|| {
                    sem.wait(sem.arrive());
                    passed.fetch_add(1, SeqCst);
                });
            }
            for posted in 1..=tasks {
                assert!(passed.load(SeqCst) < posted);
                sem.post();
                std::thread::yield_now();
            }
        });
        assert_eq!((passed.load(SeqCst), sem.gate.waiting()), (tasks, 0));
    }

    #[test]
    fn tickets_wrap_around() {
        let gate = Gate::default();
        gate.arrived.store(u32::MAX, SeqCst);
        gate.released.store(u32::MAX, SeqCst);
        let tickets = [gate.arrive(), gate.arrive()];
        gate.signal();
        assert_eq!(tickets.map(|t| gate.is_open(t)), [true, false]);
        gate.broadcast();
        gate.wait(tickets[1]);
    }

    #[test]
    fn one_thread_at_a_time_holds_a_lock() {
        let lock = Lock::default();
        let count = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let tid = sys::tid();
                    for _ in 0..2000 {
                        if !lock.try_lock(tid) {
                            lock.lock(tid, false).unwrap();
                        }
                        let seen = count.load(SeqCst);
                        std::hint::spin_loop();
                        count.store(seen + 1, SeqCst);
                        assert_eq!(lock.owner(), Some(tid));
                        lock.unlock(tid, false).unwrap();
                    }
                });
            }
        });
        assert_eq!(count.load(SeqCst), 8000);
        assert_eq!(lock.owner(), None);
    }
}
