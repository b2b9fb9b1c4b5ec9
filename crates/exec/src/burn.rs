// SPDX-License-Identifier: GPL-2.0-or-later
//! `run`: a fixed amount of work, as rt-app does it. How much of it a nanosecond is, is measured once.
//!
//! A step is four multiplications that depend on each other, and one line of the task's working set. A
//! warm line costs nothing beside the multiplications; a cold one costs what it costs this machine.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::sys;

const LINE_BYTES: u64 = 64;
const WORDS_PER_LINE: usize = LINE_BYTES as usize / size_of::<u64>();
/// What a calibration does at a time, and how often: some 2 ms each.
const TRIAL_STEPS: u64 = 500_000;
const TRIALS: u32 = 25;

/// The bytes that a task touches again and again, and where it is with them.
pub struct WorkingSet {
    words: Vec<AtomicU64>,
    next: usize,
    value: u64,
}

impl WorkingSet {
    pub fn new(bytes: u64) -> WorkingSet {
        let words = bytes.div_ceil(LINE_BYTES).max(1) as usize * WORDS_PER_LINE;
        WorkingSet {
            // Written, for pages that were only read are all the same one.
            words: (0..words).map(|i| AtomicU64::new(i as u64 | 1)).collect(),
            next: 0,
            value: 1,
        }
    }

    /// Works for this many steps.
    pub fn work(&mut self, steps: u64) {
        let (mut value, mut next, mut sum) = (self.value, self.next, 0u64);
        for _ in 0..steps {
            for _ in 0..4 {
                // The shift keeps the compiler from taking several multiplications together.
                value = (value ^ value >> 32).wrapping_mul(6_364_136_223_846_793_005);
            }
            // Beside the chain, not in it.
            sum ^= self.words[next].load(Relaxed);
            next += WORDS_PER_LINE;
            if next >= self.words.len() {
                next = 0;
            }
        }
        self.words[self.next].store(sum | 1, Relaxed);
        (self.value, self.next) = (black_box(value), next);
    }
}

/// How fast this machine works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// What 1000 steps take.
    pub kilostep_ns: u64,
}

impl Speed {
    /// A guess that makes pieces of work short enough to look at a clock in between.
    pub const UNKNOWN: Speed = Speed {
        kilostep_ns: 20_000,
    };

    /// The highest of several measurements, on one CPU: what disturbs can only slow it down.
    pub fn measure() -> Speed {
        let mut set = WorkingSet::new(0);
        let before = sys::allowed_cpus();
        // Where it cannot be bound it is merely measured less well.
        let _ = sys::pin(sys::current_cpu());
        set.work(TRIAL_STEPS);
        let trial = |_| {
            let begun_ns = sys::now_ns();
            set.work(TRIAL_STEPS);
            sys::now_ns() - begun_ns
        };
        let best_ns = (0..TRIALS).map(trial).min().unwrap_or(1);
        let _ = sys::pin_to(&before);
        Speed {
            kilostep_ns: (best_ns * 1000 / TRIAL_STEPS).max(1),
        }
    }

    pub fn steps(self, ns: u64) -> u64 {
        (u128::from(ns) * 1000 / u128::from(self.kilostep_ns)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_proportional_to_time() {
        let speed = Speed { kilostep_ns: 4000 };
        assert_eq!(speed.steps(4000), 1000);
        assert_eq!(speed.steps(1_000_000_000), 250_000_000);
        assert_eq!(
            speed.steps(u64::from(u32::MAX) * 1_000_000_000) / 1000,
            1_073_741_823_750_000
        );
    }

    #[test]
    fn a_calibration_measures_something() {
        assert!(Speed::measure().kilostep_ns > 100);
    }
}
