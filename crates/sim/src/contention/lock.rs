// SPDX-License-Identifier: GPL-2.0-or-later
//! A lock and the times at which it was held.

use hashbrown::HashMap;

/// When a lock was held last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lock {
    taken_ns: u64,
    /// The last period without a gap in which somebody held it.
    busy_from_ns: u64,
    busy_until_ns: u64,
}

impl Lock {
    /// Takes it for somebody who asks at this time, and returns how long they wait.
    pub fn take(&mut self, at_ns: u64) -> u64 {
        let wait_ns = match at_ns < self.busy_from_ns {
            true => 0, // it was free then
            false => self.busy_until_ns.saturating_sub(at_ns),
        };
        self.taken_ns = at_ns + wait_ns;
        wait_ns
    }

    pub fn give_back(&mut self, at_ns: u64) {
        if self.taken_ns > self.busy_until_ns {
            (self.busy_from_ns, self.busy_until_ns) = (self.taken_ns, at_ns);
        } else if self.taken_ns >= self.busy_from_ns {
            self.busy_until_ns = self.busy_until_ns.max(at_ns);
        }
    }
}

/// Locks by their addresses.
#[derive(Debug)]
pub struct Locks {
    locks: Vec<Lock>,
    by_address: HashMap<u64, usize>,
    /// Address and index of recently used locks. The slot is chosen by low bits of the address.
    recent: [(u64, usize); RECENT],
}

/// A power of two. Most schedulers have one lock per CPU and use few of them at a time.
const RECENT: usize = 64;

impl Default for Locks {
    fn default() -> Locks {
        Locks {
            locks: Vec::new(),
            by_address: HashMap::new(),
            // No lock has this address.
            recent: [(u64::MAX, 0); RECENT],
        }
    }
}

impl Locks {
    /// One that is free where there was none.
    #[inline]
    pub fn at(&mut self, address: u64) -> &mut Lock {
        // Map values start at multiples of 8, and so do most locks. Others only share a slot.
        let (known, place) = self.recent[(address / 8) as usize % RECENT];
        let place = match known == address {
            true => place,
            false => self.find(address),
        };
        &mut self.locks[place]
    }

    #[cold]
    fn find(&mut self, address: u64) -> usize {
        let place = *self.by_address.entry(address).or_insert_with(|| {
            self.locks.push(Lock::default());
            self.locks.len() - 1
        });
        self.recent[(address / 8) as usize % RECENT] = (address, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::{Lock, Locks};

    fn held(lock: &mut Lock, at_ns: u64, for_ns: u64) -> u64 {
        let wait_ns = lock.take(at_ns);
        lock.give_back(at_ns + wait_ns + for_ns);
        wait_ns
    }

    #[test]
    fn who_comes_while_it_is_held_waits_in_line() {
        let mut lock = Lock::default();
        assert_eq!(held(&mut lock, 100, 50), 0);
        assert_eq!(held(&mut lock, 120, 50), 30);
        assert_eq!(held(&mut lock, 120, 50), 80, "behind both");
        assert_eq!(held(&mut lock, 250, 50), 0);
    }

    #[test]
    fn it_was_free_before_it_was_held() {
        let mut lock = Lock::default();
        held(&mut lock, 1000, 50);
        assert_eq!(held(&mut lock, 900, 10), 0);
        assert_eq!(held(&mut lock, 1010, 10), 40, "still held then");
    }

    #[test]
    fn each_address_has_a_lock_of_its_own() {
        let mut locks = Locks::default();
        for address in [8, 16] {
            assert_eq!(held(locks.at(address), 100, 50), 0);
        }
        for (address, waits_ns) in [(8, 40), (8, 90), (16, 40), (24, 0)] {
            assert_eq!(held(locks.at(address), 110, 50), waits_ns, "{address}");
        }
    }
}
