// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache lines of a scheduler's variables and map values, laid out as in lines.c (crate `tiltyard-build`). A
//! line's number is its address divided by [`LINE_BYTES`].

use std::ffi::c_void;

pub const LINE_BYTES: u64 = 64;

/// Cores per word of a line. The remaining bit is [`EXCLUSIVE`].
pub const CORES_PER_WORD: u32 = 63;

/// The one core whose bit is set has written the line, and no other core has it.
pub const EXCLUSIVE: u64 = 1 << CORES_PER_WORD;

/// Where lines are, and what it costs the core that executes the code to get them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LineTable {
    pub own: LineRange,
    pub values: LineRange,
    /// How many lines `values` may grow to. No core has a line beyond [`LineRange::nr`].
    pub reserved: u64,
    /// The bit in a line's word which says that the core has it.
    pub here: u64,
    /// A line's word if the core has written it and no other has it.
    pub owner: u64,
    /// Number of the core.
    pub core: u32,
    /// That number plus 1, as in [`LineRange::writers`].
    pub writer: u32,
    /// Words per line.
    pub nr_words: u64,
    /// Last-level cache and node of each core.
    pub places: *const [u32; 2],
    /// Cost of getting a line from a core with the same last-level cache, on the same node, or on another node.
    pub llc_ns: u64,
    pub near_ns: u64,
    pub far_ns: u64,
    /// Extends `values` to include this line. Arguments: the hidden first argument of kernel functions; the line's number.
    pub grow: extern "C" fn(*mut c_void, u64),
}

/// Lines that follow each other. Pointers are to where line 0 would be: the lines are found by their numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LineRange {
    pub first: u64,
    pub nr: u64,
    /// For each line, the word with the core's bit.
    pub holders: *mut u64,
    /// One word per line for the first [`CORES_PER_WORD`] cores; those of the next start [`LineRange::nr`] words later.
    pub rows: *mut u64,
    /// Number of the core that last wrote the line, plus 1; 0 if none has.
    pub writers: *mut u32,
}

/// What is known of lines that follow each other.
#[derive(Debug)]
pub struct LineMemory {
    /// Number of the first one.
    first: u64,
    nr: usize,
    /// One word per line for the first cores, then one per line for the next cores, and so on.
    holders: Vec<u64>,
    /// Number of the core that last wrote each line, plus 1; 0 if none has.
    writers: Vec<u32>,
}

extern "C" fn no_values(_: *mut c_void, _: u64) {}

impl LineTable {
    /// Only one core ever runs the code, so lines come from nowhere. No values are looked up.
    pub(crate) fn of_one_core(own: &mut LineMemory) -> LineTable {
        LineTable {
            own: own.range(0),
            values: LineMemory::new(1, 0, 0).range(0),
            reserved: 0,
            here: 1,
            owner: 1 | EXCLUSIVE,
            core: 0,
            writer: 1,
            nr_words: 1,
            places: std::ptr::null(),
            llc_ns: 0,
            near_ns: 0,
            far_ns: 0,
            grow: no_values,
        }
    }
}

impl LineMemory {
    /// Lines that no core has. `first`: number of the first one.
    pub fn new(nr_words: usize, first: u64, nr: usize) -> LineMemory {
        LineMemory {
            first,
            nr,
            holders: vec![0; nr_words * nr],
            writers: vec![0; nr],
        }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn nr(&self) -> usize {
        self.nr
    }

    /// For a core that has its bit in this word.
    pub fn range(&mut self, word: usize) -> LineRange {
        let first = self.first as usize;
        let rows = self.holders.as_mut_ptr().wrapping_sub(first);
        LineRange {
            first: self.first,
            nr: self.nr as u64,
            holders: rows.wrapping_add(word * self.nr),
            rows,
            writers: self.writers.as_mut_ptr().wrapping_sub(first),
        }
    }

    /// To this many lines or more.
    #[cold]
    pub fn grow(&mut self, nr: usize) {
        let nr_words = self.holders.len() / self.nr;
        let mut grown = LineMemory::new(nr_words, self.first, nr.next_power_of_two());
        let rows = grown.holders.chunks_mut(grown.nr);
        for (new, old) in rows.zip(self.holders.chunks(self.nr)) {
            new[..self.nr].copy_from_slice(old);
        }
        grown.writers[..self.nr].copy_from_slice(&self.writers);
        *self = grown;
    }
}
