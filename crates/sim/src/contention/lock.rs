// SPDX-License-Identifier: GPL-2.0-or-later
//! A lock and the times at which it was held.

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

#[cfg(test)]
mod tests {
    use super::Lock;

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
}
