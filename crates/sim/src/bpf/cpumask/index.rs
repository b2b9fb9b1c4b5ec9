// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that the engine searches at each event: they know which of their words hold CPUs, so looking for one of few
//! among thousands takes hardly longer than among dozens.

use super::{CpuMask, CpuSet, WORD_BITS};
use std::ops::Deref;

/// A [`CpuSet`] and an index of its words.
#[derive(Clone, Debug)]
pub struct IndexedSet {
    set: CpuSet,
    /// Bit `i`: word `i` of the set is not 0.
    filled: Vec<u64>,
}

impl IndexedSet {
    /// Empty. Machines have at least one CPU.
    pub fn new(nr_cpus: u32) -> IndexedSet {
        let words = nr_cpus.div_ceil(WORD_BITS);
        IndexedSet {
            set: CpuSet::new(nr_cpus),
            filled: vec![0; words.div_ceil(WORD_BITS) as usize],
        }
    }

    /// All CPUs of the machine.
    pub fn all(nr_cpus: u32) -> IndexedSet {
        let mut set = IndexedSet::new(nr_cpus);
        (0..nr_cpus).for_each(|cpu| set.set(cpu));
        set
    }

    /// `cpu` is one of the machine's.
    #[inline]
    pub fn set(&mut self, cpu: u32) {
        self.set.set(cpu);
        let word = cpu / WORD_BITS;
        self.filled[(word / WORD_BITS) as usize] |= 1 << (word % WORD_BITS);
    }

    /// `cpu` is one of the machine's.
    #[inline]
    pub fn clear(&mut self, cpu: u32) {
        self.set.clear(cpu);
        let word = cpu / WORD_BITS;
        if self.set.word(word as usize) == 0 {
            self.filled[(word / WORD_BITS) as usize] &= !(1 << (word % WORD_BITS));
        }
    }

    /// Whether it was set.
    #[inline]
    pub fn test_and_clear(&mut self, cpu: u32) -> bool {
        let was = self.set.test(cpu);
        self.clear(cpu);
        was
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled.iter().all(|words| *words == 0)
    }

    /// First CPU at or after `from`.
    #[inline]
    pub fn next(&self, from: u32) -> Option<u32> {
        self.next_where(from, |block| self.filled[block], |i| self.set.word(i))
    }

    /// First CPU of all three at or after `from`.
    #[inline]
    fn next_of(&self, domain: &IndexedSet, allowed: &CpuMask, from: u32) -> Option<u32> {
        self.next_where(
            from,
            |block| self.filled[block] & domain.filled[block],
            |i| self.set.word(i) & domain.set.word(i) & allowed.word(i),
        )
    }

    /// The next CPU of all three after the rotor, as [`CpuMask::any_and_distribute`].
    pub fn any_of(&self, domain: &IndexedSet, allowed: &CpuMask, rotor: &mut u32) -> Option<u32> {
        let found = self
            .next_of(domain, allowed, *rotor + 1)
            .or_else(|| self.next_of(domain, allowed, 0))?;
        *rotor = found;
        Some(found)
    }

    /// `filled`: which words of a block of 64 may hold a CPU; `word`: what each of them holds.
    #[inline]
    fn next_where(
        &self,
        from: u32,
        filled: impl Fn(usize) -> u64,
        word: impl Fn(usize) -> u64,
    ) -> Option<u32> {
        if from >= self.nr_cpus() {
            return None;
        }
        let first = from / WORD_BITS;
        let mut wanted = u64::MAX << (from % WORD_BITS);
        let mut words = u64::MAX << (first % WORD_BITS);
        for block in (first / WORD_BITS) as usize..self.filled.len() {
            words &= filled(block);
            while words != 0 {
                let i = block as u32 * WORD_BITS + words.trailing_zeros();
                if i != first {
                    wanted = u64::MAX;
                }
                let cpus = word(i as usize) & wanted;
                if cpus != 0 {
                    return Some(i * WORD_BITS + cpus.trailing_zeros());
                }
                words &= words - 1;
            }
            words = u64::MAX;
        }
        None
    }
}

impl Deref for IndexedSet {
    type Target = CpuSet;

    #[inline]
    fn deref(&self) -> &CpuSet {
        &self.set
    }
}
