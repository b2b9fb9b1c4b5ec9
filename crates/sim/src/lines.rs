// SPDX-License-Identifier: GPL-2.0-or-later
//! What it costs that CPUs share data: the cache lines of a scheduler's variables and of the values of its maps are where
//! they were last written, and come from there when another core needs them.
//!
//! As in a machine with caches that stay coherent: reading a line that another core has written since takes a transfer, at
//! the price of the distance between the two; then both have it. Writing takes the line from all others; a plain store does
//! not wait for that, because it goes through a store buffer, an atomic operation does. What nobody else has written costs
//! nothing more than its instructions: caches are never too small here. SMT siblings share their caches.

use std::ffi::c_void;
use tiltyard_model::Machine;
use tiltyard_native::LineTable;
use tiltyard_native::object::how;

/// Where the lines of one scheduler are.
pub struct Lines {
    /// What the scheduler's code reads; it points into `holders`.
    table: Box<LineTable>,
    /// Sets of cores that have each line, `words` each.
    holders: Vec<u64>,
    words: usize,
    /// The core that wrote each line last, and 1; 0 at first.
    writer: Vec<u32>,
}

/// How far a line has to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transfer {
    Cache,
    Node,
    Machine,
}

impl Lines {
    /// For a machine of so many cores. `fetch`: as in [`LineTable`].
    pub fn new(nr_cores: usize, fetch: extern "C" fn(*mut c_void, u64, u64)) -> Lines {
        let words = nr_cores.div_ceil(64);
        Lines {
            table: Box::new(LineTable {
                holders: std::ptr::null(),
                words: words as u64,
                nr: 0,
                core: 0,
                tag: 0,
                fetch,
            }),
            holders: Vec::new(),
            words,
            writer: Vec::new(),
        }
    }

    /// Where it stays.
    pub fn table(&self) -> *const LineTable {
        &raw const *self.table
    }

    /// This core executes the code from now on.
    #[inline]
    pub fn enter(&mut self, core: u32) {
        self.table.enter(core);
    }

    /// A core reads or writes a line: how far what it has to wait for comes, if anything. `how`: as in [`how`].
    #[inline]
    pub fn fetch(
        &mut self,
        core: u32,
        line: u64,
        how: u64,
        distance: impl Fn(u32) -> Transfer,
    ) -> Option<Transfer> {
        let line = line as usize;
        if line >= self.writer.len() {
            self.grow(line + 1);
        }
        let holders = &mut self.holders[line * self.words..][..self.words];
        let (word, bit) = (core as usize / 64, 1 << (core % 64));
        let writer = self.writer[line];
        let came_from = (holders[word] & bit == 0 && writer != 0).then(|| distance(writer - 1));
        if how & how::WRITE == 0 {
            holders[word] |= bit;
            return came_from;
        }
        let others = || members(holders).filter(|other| *other != core);
        let waits = how & how::UPDATE != 0;
        let price = waits.then(|| others().map(&distance).max().max(came_from));
        holders.fill(0);
        holders[word] = bit;
        self.writer[line] = core + 1;
        price.flatten()
    }

    #[cold]
    fn grow(&mut self, lines: usize) {
        let nr = lines.next_power_of_two().max(1024);
        let mut holders = vec![0; nr * self.words];
        holders[..self.holders.len()].copy_from_slice(&self.holders);
        self.holders = holders;
        self.writer.resize(nr, 0);
        (self.table.holders, self.table.nr) = (self.holders.as_ptr(), nr as u64);
    }
}

fn members(set: &[u64]) -> impl Iterator<Item = u32> {
    let words = set.iter().zip((0..).step_by(64));
    words.flat_map(|(word, first)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(first + bit)
        })
    })
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

    fn fetch(lines: &mut Lines, core: u32, how: u64) -> Option<Transfer> {
        lines.fetch(core, 5, how, distance(core))
    }

    #[test]
    fn a_line_comes_from_its_writer_once() {
        let mut lines = Lines::new(4, never);
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
        let mut lines = Lines::new(4, never);
        let update = how::WRITE | how::UPDATE;
        assert_eq!(fetch(&mut lines, 0, update), None);
        assert_eq!(fetch(&mut lines, 0, update), None, "its own");
        assert_eq!(fetch(&mut lines, 1, update), Some(Transfer::Cache));
        fetch(&mut lines, 3, 0);
        assert_eq!(fetch(&mut lines, 1, update), Some(Transfer::Machine));
        assert_eq!(fetch(&mut lines, 1, update), None);
    }

    #[test]
    fn the_code_sees_who_has_a_line() {
        let mut lines = Lines::new(200, never);
        lines.enter(130);
        let set = |lines: &Lines| lines.holders[5 * lines.words..][..lines.words].to_vec();
        fetch(&mut lines, 130, 0);
        fetch(&mut lines, 63, 0);
        assert_eq!(set(&lines), [1 << 63, 0, 1 << 2, 0]);
        fetch(&mut lines, 130, how::WRITE);
        assert_eq!(set(&lines), [0, 0, 1 << 2, 0]);
        assert!(lines.table.nr > 5 && lines.table.core == 130);
        assert_eq!(lines.table.holders, lines.holders.as_ptr());
    }
}
