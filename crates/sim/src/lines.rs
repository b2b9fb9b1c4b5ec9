// SPDX-License-Identifier: GPL-2.0-or-later
//! What it costs that CPUs share data: the cache lines of a scheduler's variables and of the values of its maps are where
//! they were last written, and come from there when another core needs them.
//!
//! As in a machine with caches that stay coherent: reading a line that another core has written since takes a transfer, at
//! the price of the distance between the two; then both have it. Writing takes the line from all others; a plain store does
//! not wait for that, because it goes through a store buffer, an atomic operation does. What nobody else has written costs
//! nothing more than its instructions: caches are never too small here. SMT siblings share their caches.

use std::ffi::c_void;
use std::ops::Range;
use tiltyard_model::Machine;
use tiltyard_native::object::how;
use tiltyard_native::{LineRange, LineTable};

/// Where the lines of one scheduler are.
pub struct Lines {
    /// What the scheduler's code reads; it points into what follows.
    table: Box<LineTable>,
    own: Part,
    values: Part,
    /// Words that it takes to have a bit for each core.
    words: usize,
    core: u32,
}

/// How far a line has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    Cache,
    Node,
    Machine,
}

impl Lines {
    /// For a machine of so many cores. `own`, `values`: lines of the scheduler's variables and of the values of its maps;
    /// `fetch`: as in [`LineTable`].
    pub fn new(
        nr_cores: usize,
        [own, values]: [Range<u64>; 2],
        fetch: extern "C" fn(*mut c_void, u64, u64),
    ) -> Lines {
        let words = nr_cores.div_ceil(CORES_PER_WORD as usize);
        let range = |range: &Range<u64>| LineRange {
            first: range.start,
            nr: 0,
            holders: std::ptr::null(),
        };
        let mut lines = Lines {
            table: Box::new(LineTable {
                own: range(&own),
                values: range(&values),
                reserved: values.end - values.start,
                here: 0,
                owner: 0,
                fetch,
            }),
            own: Part::new(words, (own.end - own.start) as usize),
            // Less than is reserved, which is a power of two, as what it grows to is.
            values: Part::new(words, 1024),
            words,
            core: 0,
        };
        lines.show();
        lines
    }

    /// Where it stays.
    pub fn table(&self) -> *const LineTable {
        &raw const *self.table
    }

    /// This core executes the code from now on.
    #[inline]
    pub fn enter(&mut self, core: u32) {
        if core != self.core {
            self.core = core;
            self.show();
        }
    }

    /// The table is what the core sees.
    fn show(&mut self) {
        let (word, bit) = place(self.core);
        let parts = [
            (&mut self.table.own, &self.own),
            (&mut self.table.values, &self.values),
        ];
        for (range, part) in parts {
            range.nr = part.nr as u64;
            range.holders = part.holders[word * part.nr..].as_ptr();
        }
        (self.table.here, self.table.owner) = (bit, bit | EXCLUSIVE);
    }

    /// Who executes the code.
    pub fn core(&self) -> u32 {
        self.core
    }

    /// The core reads or writes a line: how far what it has to wait for comes, if anything. `how`: as in [`how`].
    #[inline]
    pub fn fetch(
        &mut self,
        line: u64,
        how: u64,
        distance: impl Fn(u32) -> Transfer,
    ) -> Option<Transfer> {
        let own = line.wrapping_sub(self.table.own.first) as usize;
        if own < self.own.nr {
            return self.own.fetch(self.core, own, how, distance);
        }
        let value = (line - self.table.values.first) as usize;
        if value >= self.values.nr {
            debug_assert!((value as u64) < self.table.reserved);
            self.values.grow(self.words, value + 1);
            self.show();
        }
        self.values.fetch(self.core, value, how, distance)
    }
}

/// The bits of a word stand for so many cores and [`EXCLUSIVE`].
const CORES_PER_WORD: u32 = 63;

/// The core of the other bit has written the line, and no other core has it.
const EXCLUSIVE: u64 = 1 << 63;

fn place(core: u32) -> (usize, u64) {
    (
        (core / CORES_PER_WORD) as usize,
        1 << (core % CORES_PER_WORD),
    )
}

/// Lines that follow each other.
struct Part {
    nr: usize,
    /// For the first cores a word for each line, then for the next ones.
    holders: Vec<u64>,
    /// The core that wrote each line last, and 1; 0 at first.
    writer: Vec<u32>,
}

impl Part {
    fn new(words: usize, nr: usize) -> Part {
        Part {
            nr,
            holders: vec![0; words * nr],
            writer: vec![0; nr],
        }
    }

    #[inline]
    fn fetch(
        &mut self,
        core: u32,
        line: usize,
        how: u64,
        distance: impl Fn(u32) -> Transfer,
    ) -> Option<Transfer> {
        let (word, bit) = place(core);
        let own = word * self.nr + line;
        let writer = self.writer[line].checked_sub(1);
        let has = self.holders[own] & bit != 0;
        let came_from = writer.filter(|_| !has).map(&distance);
        if how & how::WRITE == 0 {
            self.holders[own] |= bit;
            if let Some(writer) = writer.filter(|writer| *writer != core) {
                self.holders[place(writer).0 * self.nr + line] &= !EXCLUSIVE;
            }
            return came_from;
        }
        let waits = how & how::UPDATE != 0;
        let others = || self.holders(line).filter(|other| *other != core);
        let price = waits.then(|| others().map(&distance).max().max(came_from));
        for word in self.holders[line..].iter_mut().step_by(self.nr) {
            *word = 0;
        }
        self.holders[own] = bit | EXCLUSIVE;
        self.writer[line] = core + 1;
        price.flatten()
    }

    /// Cores that have a line.
    fn holders(&self, line: usize) -> impl Iterator<Item = u32> {
        let words = self.holders[line..].iter().step_by(self.nr);
        let words = words.zip((0..).step_by(CORES_PER_WORD as usize));
        words.flat_map(|(word, first)| {
            let mut left = *word & !EXCLUSIVE;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(first + bit)
            })
        })
    }

    #[cold]
    fn grow(&mut self, words: usize, nr: usize) {
        let mut grown = Part::new(words, nr.next_power_of_two());
        for word in 0..words {
            let old = &self.holders[word * self.nr..][..self.nr];
            grown.holders[word * grown.nr..][..self.nr].copy_from_slice(old);
        }
        grown.writer[..self.nr].copy_from_slice(&self.writer);
        *self = grown;
    }
}

/// Whether lines ever come from elsewhere, at a price.
pub fn cost_something(machine: &Machine) -> bool {
    let costs = &machine.costs;
    let cores = machine.cpus.iter().map(|cpu| cpu.core);
    cores.max() > Some(0) && costs.visit_near_ns.max(costs.visit_far_ns) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn never(_: *mut c_void, _: u64, _: u64) {}

    /// Four cores, two in each cache.
    fn distance(own: u32) -> impl Fn(u32) -> Transfer {
        move |other| match other / 2 == own / 2 {
            true => Transfer::Cache,
            false => Transfer::Machine,
        }
    }

    fn lines(nr_cores: usize) -> Lines {
        Lines::new(nr_cores, [100..200, 1000..1 << 40], never)
    }

    fn fetch(lines: &mut Lines, core: u32, how: u64) -> Option<Transfer> {
        lines.enter(core);
        let own = lines.fetch(105, how, distance(core));
        assert_eq!(lines.fetch(2500, how, distance(core)), own, "a value");
        own
    }

    #[test]
    fn a_line_comes_from_its_writer_once() {
        let mut lines = lines(4);
        assert_eq!(fetch(&mut lines, 0, 0), None, "nobody has written it");
        assert_eq!(
            fetch(&mut lines, 1, how::WRITE),
            None,
            "a store is buffered"
        );
        assert_eq!(fetch(&mut lines, 0, 0), Some(Transfer::Cache));
        assert_eq!(fetch(&mut lines, 0, 0), None, "it has it now");
        assert_eq!(fetch(&mut lines, 2, 0), Some(Transfer::Machine));
        assert_eq!(fetch(&mut lines, 1, 0), None, "the writer keeps it");
        fetch(&mut lines, 2, how::WRITE);
        assert_eq!(fetch(&mut lines, 1, 0), Some(Transfer::Machine));
    }

    #[test]
    fn an_atomic_operation_waits_for_all_that_have_it() {
        let mut lines = lines(4);
        let update = how::WRITE | how::UPDATE;
        assert_eq!(fetch(&mut lines, 0, update), None);
        assert_eq!(fetch(&mut lines, 0, update), None, "its own");
        assert_eq!(fetch(&mut lines, 1, update), Some(Transfer::Cache));
        fetch(&mut lines, 3, 0);
        assert_eq!(fetch(&mut lines, 1, update), Some(Transfer::Machine));
        assert_eq!(fetch(&mut lines, 1, update), None);
    }

    /// What runtime.c asks before it calls `fetch`.
    fn is_here(lines: &Lines, how: u64) -> bool {
        let table = &lines.table;
        assert!(5 < table.own.nr && 1500 < table.values.nr);
        // SAFETY: the tests' own line, which is in the range.
        let words = unsafe { [*table.own.holders.add(5), *table.values.holders.add(1500)] };
        assert_eq!(words[0], words[1]);
        match how & how::WRITE {
            0 => words[0] & table.here != 0,
            _ => words[0] == table.owner,
        }
    }

    #[test]
    fn the_code_sees_what_its_core_has() {
        for (one, other) in [(0, 1), (62, 63), (63, 62), (199, 3), (126, 189)] {
            let mut lines = lines(200);
            let mut seen = |core, how| {
                fetch(&mut lines, core, how);
                [one, other].map(|core| {
                    lines.enter(core);
                    [0, how::WRITE].map(|how| is_here(&lines, how))
                })
            };
            assert_eq!(seen(one, 0), [[true, false], [false, false]]);
            assert_eq!(seen(one, how::WRITE), [[true, true], [false, false]]);
            assert_eq!(seen(one, 0), [[true, true], [false, false]], "still");
            assert_eq!(seen(other, 0), [[true, false], [true, false]]);
            assert_eq!(seen(other, how::WRITE), [[false, false], [true, true]]);
        }
    }
}
