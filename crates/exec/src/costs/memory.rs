// SPDX-License-Identifier: GPL-2.0-or-later
//! Caches: how long a line takes from each level.

use std::hint::black_box;

use super::{median, place};
use crate::sys;

const LINE_BYTES: usize = 64;
/// If the kernel reports no caches: enough to exceed any.
const NO_CACHE_BYTES: usize = 64 << 20;
const TRIALS: usize = 9;

/// Bytes of each level of this CPU's data caches; 0: there is none.
pub struct Caches {
    pub bytes: [usize; 3],
}

impl Caches {
    /// Those that this CPU can use.
    pub fn of(cpu: usize) -> Caches {
        Caches {
            bytes: [1, 2, 3].map(|level| place::cache_bytes(cpu, level)),
        }
    }

    fn largest(&self) -> usize {
        self.bytes.into_iter().max().unwrap_or(0)
    }

    /// A buffer that misses every cache.
    fn beyond(&self) -> usize {
        (4 * self.largest()).clamp(NO_CACHE_BYTES, 1 << 30)
    }
}

/// Reads that depend on each other, in buffers that just fit each level and none; ps a line.
pub fn lines_ps(caches: &Caches) -> [u64; 4] {
    let mut last_ps = 0;
    let mut of_level = |bytes: usize| {
        if bytes > 0 {
            last_ps = chase_ps(bytes).max(last_ps);
        }
        last_ps
    };
    let [first, second, third] = caches.bytes;
    let first = if first == 0 { 16 << 10 } else { first };
    [
        of_level(first / 2),
        of_level(second / 2),
        of_level(third / 2),
        of_level(caches.beyond()),
    ]
}

/// A walk through all lines of the buffer in an order that no prefetcher knows.
fn chase_ps(bytes: usize) -> u64 {
    let lines = bytes / LINE_BYTES;
    let words_per_line = LINE_BYTES / size_of::<u32>();
    let mut next = vec![0u32; lines * words_per_line];
    for (from, to) in cycle(lines) {
        next[from * words_per_line] = (to * words_per_line) as u32;
    }
    let reads = lines.clamp(1 << 14, 1 << 19);
    let mut at = 0u32;
    let mut trial = |_| {
        let begun_ns = sys::now_ns();
        for _ in 0..reads {
            at = next[at as usize];
        }
        black_box(at);
        (sys::now_ns() - begun_ns) * 1000 / reads as u64
    };
    trial(0);
    median((0..TRIALS).map(trial).collect())
}

/// One cycle through `count` places (Sattolo's shuffle), as steps.
fn cycle(count: usize) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 1u64;
    for last in (1..count).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % last);
    }
    (0..count)
        .map(|i| (order[i], order[(i + 1) % count]))
        .collect()
}

/// A buffer that misses every cache, read in order.
pub fn stream_line_ps(caches: &Caches) -> u64 {
    let words_per_line = LINE_BYTES / size_of::<u64>();
    let words = vec![1u64; caches.beyond() / size_of::<u64>()];
    let lines = words.len() / words_per_line;
    let trial = |_| {
        let begun_ns = sys::now_ns();
        let sum: u64 = words.iter().step_by(words_per_line).sum();
        black_box(sum);
        (sys::now_ns() - begun_ns) * 1000 / lines as u64
    };
    median((0..TRIALS).map(trial).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_line_once() {
        let mut next = [usize::MAX; 100];
        for (from, to) in cycle(100) {
            next[from] = to;
        }
        let (mut at, mut seen) = (0, 0);
        loop {
            at = next[at];
            seen += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(seen, 100);
    }
}
