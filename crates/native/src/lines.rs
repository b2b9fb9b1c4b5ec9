// SPDX-License-Identifier: GPL-2.0-or-later
//! Cache lines of a scheduler's variables and of the values of its maps, as lines.c (crate `tiltyard-build`) has them. A line's
//! number is its address divided by [`LINE_BYTES`].

use std::ffi::c_void;

pub const LINE_BYTES: u64 = 64;

/// A word of a line has bits for so many cores, and [`EXCLUSIVE`].
pub const CORES_PER_WORD: u32 = 63;

/// The core of the other bit has written the line, and no other core has it.
pub const EXCLUSIVE: u64 = 1 << CORES_PER_WORD;

/// Where lines are, and what it costs the core that executes the code to get them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LineTable {
    /// Null pointers where caches cost nothing: the code does not look.
    pub own: LineRange,
    pub values: LineRange,
    /// Lines from the first value on that may come into the range. Nobody has them before.
    pub reserved: u64,
    /// The bit in a line's word which says that the core has it.
    pub here: u64,
    /// A line's word if the core has written it and no other has it.
    pub owner: u64,
    /// Number of the core.
    pub core: u32,
    /// The same as [`LineRange::writers`] has it.
    pub writer: u32,
    /// Words of each line.
    pub nr_words: u64,
    /// Last-level cache and node of each core.
    pub places: *const [u32; 2],
    /// What it takes to get a line from a core that shares the last-level cache, the node, neither.
    pub llc_ns: u64,
    pub near_ns: u64,
    pub far_ns: u64,
    /// Called with the hidden first argument of kernel functions and the number of a line beyond the values. It is in their
    /// range afterwards.
    pub grow: extern "C" fn(*mut c_void, u64),
}

/// Lines that follow each other. Pointers are to where line 0 would be: the lines are found by their numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LineRange {
    pub first: u64,
    pub nr: u64,
    /// Of each line the word in which the core has a bit.
    pub holders: *mut u64,
    /// The words of the first [`CORES_PER_WORD`] cores; those of the next ones follow [`LineRange::nr`] words later.
    pub rows: *mut u64,
    /// The core that wrote the line last, and 1; 0 at first.
    pub writers: *mut u32,
}
