// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets of CPUs, for the engine and for schedulers alike.
//!
//! [`CpuSet`] owns its bits and lays them out as the `struct cpumask` that schedulers see, so any
//! set of the engine can be passed to a scheduler. [`CpuMask`] has the operations; pointers passed
//! by a scheduler are converted to it. Bits at and above the number of CPUs are never set.

mod index;
mod kfuncs;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use tiltyard_native::layout::Cpumask;

pub use index::IndexedSet;
pub use kfuncs::{BadReference, Cpumasks};

const WORD_BITS: u32 = u64::BITS;

/// A borrowed bitmap of `nr_cpus` bits.
///
/// Words are read and written one by one through the pointer, never through references, because
/// the two operands of an operation may be the same mask.
pub struct CpuMask {
    bits: *mut u64,
    nr_cpus: u32,
}

impl CpuMask {
    /// # Safety
    /// `mask` points to a live mask of `nr_cpus` bits, rounded up to words, for as long as the
    /// result is used; its bits are written only if it is a mask that its caller may change.
    #[inline]
    pub unsafe fn from_raw(mask: *const Cpumask, nr_cpus: u32) -> CpuMask {
        CpuMask {
            // SAFETY: the caller's promise.
            bits: unsafe { (*mask).bits },
            nr_cpus,
        }
    }

    /// Number of CPUs of the machine; the kernel also returns it for "none".
    #[inline]
    pub fn nr_cpus(&self) -> u32 {
        self.nr_cpus
    }

    #[inline]
    fn nr_words(&self) -> usize {
        self.nr_cpus.div_ceil(WORD_BITS) as usize
    }

    #[inline]
    fn word(&self, i: usize) -> u64 {
        debug_assert!(i < self.nr_words());
        // SAFETY: inside the bitmap: all callers here go over `nr_words()` words or CPUs below `nr_cpus`.
        unsafe { self.bits.add(i).read() }
    }

    #[inline]
    fn set_word(&mut self, i: usize, word: u64) {
        debug_assert!(i < self.nr_words());
        // SAFETY: inside the bitmap: all callers here go over `nr_words()` words or CPUs below `nr_cpus`.
        unsafe { self.bits.add(i).write(word) }
    }

    /// The bits of word `i` that represent CPUs.
    #[inline]
    fn valid(&self, i: usize) -> u64 {
        match (self.nr_cpus - i as u32 * WORD_BITS).min(WORD_BITS) {
            WORD_BITS => u64::MAX,
            bits => (1 << bits) - 1,
        }
    }

    /// False for a CPU that the machine does not have.
    #[inline]
    pub fn test(&self, cpu: u32) -> bool {
        cpu < self.nr_cpus && self.word((cpu / WORD_BITS) as usize) >> (cpu % WORD_BITS) & 1 != 0
    }

    /// Ignores a CPU that the machine does not have.
    #[inline]
    pub fn set(&mut self, cpu: u32) {
        if cpu < self.nr_cpus {
            let i = (cpu / WORD_BITS) as usize;
            self.set_word(i, self.word(i) | 1 << (cpu % WORD_BITS));
        }
    }

    /// Ignores a CPU that the machine does not have.
    #[inline]
    pub fn clear(&mut self, cpu: u32) {
        if cpu < self.nr_cpus {
            let i = (cpu / WORD_BITS) as usize;
            self.set_word(i, self.word(i) & !(1 << (cpu % WORD_BITS)));
        }
    }

    /// Whether it was set.
    #[inline]
    pub fn test_and_set(&mut self, cpu: u32) -> bool {
        let was = self.test(cpu);
        self.set(cpu);
        was
    }

    /// Whether it was set.
    #[inline]
    pub fn test_and_clear(&mut self, cpu: u32) -> bool {
        let was = self.test(cpu);
        self.clear(cpu);
        was
    }

    pub fn set_all(&mut self) {
        for i in 0..self.nr_words() {
            self.set_word(i, self.valid(i));
        }
    }

    pub fn clear_all(&mut self) {
        for i in 0..self.nr_words() {
            self.set_word(i, 0);
        }
    }

    #[inline]
    pub fn copy_from(&mut self, other: &CpuMask) {
        self.assign(other, other, |a, _| a);
    }

    /// Becomes `a & b`; returns whether that is not empty.
    #[inline]
    pub fn assign_and(&mut self, a: &CpuMask, b: &CpuMask) -> bool {
        self.assign(a, b, |a, b| a & b)
    }

    #[inline]
    pub fn assign_or(&mut self, a: &CpuMask, b: &CpuMask) {
        self.assign(a, b, |a, b| a | b);
    }

    #[inline]
    pub fn assign_xor(&mut self, a: &CpuMask, b: &CpuMask) {
        self.assign(a, b, |a, b| a ^ b);
    }

    #[inline]
    fn assign(&mut self, a: &CpuMask, b: &CpuMask, op: impl Fn(u64, u64) -> u64) -> bool {
        debug_assert!(self.nr_cpus == a.nr_cpus && self.nr_cpus == b.nr_cpus);
        let mut any = 0;
        for i in 0..self.nr_words() {
            let word = op(a.word(i), b.word(i));
            any |= word;
            self.set_word(i, word);
        }
        any != 0
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        (0..self.nr_words()).all(|i| self.word(i) == 0)
    }

    pub fn is_full(&self) -> bool {
        (0..self.nr_words()).all(|i| self.word(i) == self.valid(i))
    }

    #[inline]
    pub fn intersects(&self, other: &CpuMask) -> bool {
        (0..self.nr_words()).any(|i| self.word(i) & other.word(i) != 0)
    }

    #[inline]
    pub fn is_subset(&self, of: &CpuMask) -> bool {
        (0..self.nr_words()).all(|i| self.word(i) & !of.word(i) == 0)
    }

    /// How many CPUs are in it.
    #[inline]
    pub fn weight(&self) -> u32 {
        (0..self.nr_words())
            .map(|i| self.word(i).count_ones())
            .sum()
    }

    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.next_where(0, |i| self.word(i))
    }

    #[inline]
    pub fn first_zero(&self) -> Option<u32> {
        self.next_where(0, |i| !self.word(i) & self.valid(i))
    }

    /// First CPU of both.
    #[inline]
    pub fn first_and(&self, other: &CpuMask) -> Option<u32> {
        self.next_where(0, |i| self.word(i) & other.word(i))
    }

    /// First CPU at or after `from`.
    #[inline]
    pub fn next(&self, from: u32) -> Option<u32> {
        self.next_where(from, |i| self.word(i))
    }

    /// First CPU of both at or after `from`.
    #[inline]
    pub fn next_and(&self, other: &CpuMask, from: u32) -> Option<u32> {
        self.next_where(from, |i| self.word(i) & other.word(i))
    }

    /// The next CPU after the rotor, wrapping; moves the rotor there. A kernel has one rotor for
    /// each CPU, that of the caller, starting at 0, so the first answer is CPU 0 only if no other CPU is set.
    pub fn any_distribute(&self, rotor: &mut u32) -> Option<u32> {
        self.any_and_distribute(self, rotor)
    }

    /// The same for the CPUs of both.
    pub fn any_and_distribute(&self, other: &CpuMask, rotor: &mut u32) -> Option<u32> {
        let found = self
            .next_and(other, *rotor + 1)
            .or_else(|| self.first_and(other))?;
        *rotor = found;
        Some(found)
    }

    /// CPUs in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.iter_where(|i| self.word(i))
    }

    /// The CPUs in it, in order, as ranges that neither touch nor overlap.
    pub fn ranges(&self) -> Vec<Range<u32>> {
        let (mut next, mut ranges) = (self.first(), Vec::new());
        while let Some(start) = next {
            let gap = self.next_where(start, |i| !self.word(i) & self.valid(i));
            let end = gap.unwrap_or(self.nr_cpus);
            ranges.push(start..end);
            next = self.next(end);
        }
        ranges
    }

    #[inline]
    fn next_where(&self, from: u32, word: impl Fn(usize) -> u64) -> Option<u32> {
        if from >= self.nr_cpus {
            return None;
        }
        let first = (from / WORD_BITS) as usize;
        let bit = |i: usize, word: u64| i as u32 * WORD_BITS + word.trailing_zeros();
        let head = word(first) & (u64::MAX << (from % WORD_BITS));
        if head != 0 {
            return Some(bit(first, head));
        }
        (first + 1..self.nr_words())
            .map(|i| (i, word(i)))
            .find(|&(_, w)| w != 0)
            .map(|(i, w)| bit(i, w))
    }

    #[inline]
    fn iter_where<'a>(
        &'a self,
        word: impl Fn(usize) -> u64 + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        (0..self.nr_words()).flat_map(move |i| {
            let mut left = word(i);
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(i as u32 * WORD_BITS + bit)
            })
        })
    }
}

impl PartialEq for CpuMask {
    fn eq(&self, other: &CpuMask) -> bool {
        self.nr_cpus == other.nr_cpus && (0..self.nr_words()).all(|i| self.word(i) == other.word(i))
    }
}

impl Eq for CpuMask {}

/// In the format of the kernel's `%*pbl`: `0-3,8`.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for Range { start, end } in self.ranges() {
            match end - start {
                1 => write!(f, "{separator}{start}")?,
                _ => write!(f, "{separator}{start}-{}", end - 1)?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}} of {}", self.nr_cpus)
    }
}

/// A set of CPUs of one machine. One block of memory holds the `struct cpumask` and, behind it, the
/// bits, so its address stays the same wherever the `CpuSet` itself is moved.
pub struct CpuSet {
    mask: CpuMask,
    block: NonNull<Cpumask>,
}

// SAFETY: a set owns its block alone; the engine guarantees what schedulers do with the pointer.
unsafe impl Send for CpuSet {}

impl CpuSet {
    /// Empty. Machines have at least one CPU.
    pub fn new(nr_cpus: u32) -> CpuSet {
        let layout = Self::layout(nr_cpus);
        // SAFETY: the layout holds at least the struct.
        let block = unsafe { alloc_zeroed(layout) }.cast::<Cpumask>();
        let Some(block) = NonNull::new(block) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the words begin right behind the struct, inside the block.
        let bits = unsafe { block.as_ptr().add(1) }.cast::<u64>();
        // SAFETY: the struct at the start of the block.
        unsafe { (*block.as_ptr()).bits = bits };
        CpuSet {
            mask: CpuMask { bits, nr_cpus },
            block,
        }
    }

    /// All CPUs of the machine.
    pub fn all(nr_cpus: u32) -> CpuSet {
        let mut set = CpuSet::new(nr_cpus);
        set.set_all();
        set
    }

    /// These CPUs; those that the machine does not have are left out.
    pub fn of(nr_cpus: u32, cpus: impl IntoIterator<Item = u32>) -> CpuSet {
        let mut set = CpuSet::new(nr_cpus);
        cpus.into_iter().for_each(|cpu| set.set(cpu));
        set
    }

    /// The pointer for schedulers: valid as long as the set lives, and always showing its current state.
    #[inline]
    pub fn as_ptr(&self) -> *const Cpumask {
        self.block.as_ptr()
    }

    fn layout(nr_cpus: u32) -> Layout {
        let words = nr_cpus.div_ceil(WORD_BITS) as usize;
        Layout::new::<Cpumask>()
            .extend(Layout::array::<u64>(words).expect("a bitmap of at most 2^32 bits"))
            .expect("a bitmap of at most 2^32 bits")
            .0
    }
}

impl Drop for CpuSet {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.block.as_ptr().cast(), Self::layout(self.mask.nr_cpus)) }
    }
}

impl Deref for CpuSet {
    type Target = CpuMask;

    #[inline]
    fn deref(&self) -> &CpuMask {
        &self.mask
    }
}

impl DerefMut for CpuSet {
    #[inline]
    fn deref_mut(&mut self) -> &mut CpuMask {
        &mut self.mask
    }
}

impl Clone for CpuSet {
    fn clone(&self) -> CpuSet {
        let mut copy = CpuSet::new(self.nr_cpus());
        copy.copy_from(self);
        copy
    }
}

impl PartialEq for CpuSet {
    fn eq(&self, other: &CpuSet) -> bool {
        self.mask == other.mask
    }
}

impl Eq for CpuSet {}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.mask, f)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.mask, f)
    }
}

#[cfg(test)]
mod tests;
