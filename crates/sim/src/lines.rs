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
use tiltyard_model::machine::Costs;
use tiltyard_native::object::how;
use tiltyard_native::{LineRange, LineTable};

/// Where the lines of one scheduler are.
pub struct Lines {
    /// What the scheduler's code reads; it points into what follows.
    table: LineTable,
    own: Part,
    values: Part,
    /// Who executes the code.
    here: Core,
    distances: Distances,
}

/// A core, and where its bit is among the holders of a line.
#[derive(Clone, Copy)]
struct Core {
    number: u32,
    word: usize,
    bit: u64,
}

impl Core {
    fn new(number: u32) -> Core {
        Core {
            number,
            word: (number / CORES_PER_WORD) as usize,
            bit: 1 << (number % CORES_PER_WORD),
        }
    }
}

/// What it costs to get a line from another core.
struct Distances {
    /// Last-level cache and node of each core.
    places: Vec<[u32; 2]>,
    costs: Costs,
}

impl Distances {
    fn of(machine: &Machine) -> Distances {
        let cores = machine.cpus.iter().map(|cpu| cpu.core as usize + 1);
        let mut places = vec![[0; 2]; cores.max().unwrap_or(1)];
        for cpu in &machine.cpus {
            places[cpu.core as usize] = [cpu.llc, cpu.node];
        }
        Distances {
            places,
            costs: machine.costs,
        }
    }

    fn ns(&self, from: u32, to: u32) -> u64 {
        let [from, to] = [from, to].map(|core| self.places[core as usize]);
        let costs = &self.costs;
        match () {
            () if from[0] == to[0] => costs.visit_llc_ns.unwrap_or(costs.visit_near_ns),
            () if from[1] == to[1] => costs.visit_near_ns,
            () => costs.visit_far_ns,
        }
    }
}

impl Lines {
    /// `own`, `values`: lines of the scheduler's variables and of the values of its maps; `fetch`: as in [`LineTable`].
    pub fn new(
        machine: &Machine,
        [own, values]: [Range<u64>; 2],
        fetch: extern "C" fn(*mut c_void, u64, u64),
    ) -> Lines {
        let distances = Distances::of(machine);
        let words = distances.places.len().div_ceil(CORES_PER_WORD as usize);
        let range = |range: &Range<u64>| LineRange {
            first: range.start,
            nr: 0,
            holders: std::ptr::null(),
        };
        let mut lines = Lines {
            table: LineTable {
                own: range(&own),
                values: range(&values),
                reserved: values.end - values.start,
                here: 0,
                owner: 0,
                fetch,
            },
            own: Part::new(words, (own.end - own.start) as usize),
            // Less than is reserved, which is a power of two, as what it grows to is.
            values: Part::new(words, 1024),
            here: Core::new(0),
            distances,
        };
        lines.show();
        lines
    }

    pub fn table(&self) -> &LineTable {
        &self.table
    }

    /// This core executes the code from now on. Returns whether the table is another.
    #[inline]
    pub fn enter(&mut self, core: u32) -> bool {
        let changes = core != self.here.number;
        if changes {
            self.here = Core::new(core);
            self.show();
        }
        changes
    }

    /// Before the line is fetched. Returns whether the table is another.
    #[inline]
    pub fn make_room(&mut self, line: u64) -> bool {
        let own = line.wrapping_sub(self.table.own.first) as usize;
        let value = line.wrapping_sub(self.table.values.first) as usize;
        let grows = own >= self.own.nr && value >= self.values.nr;
        if grows {
            debug_assert!((value as u64) < self.table.reserved);
            self.values.grow(value + 1);
            self.show();
        }
        grows
    }

    /// The table is what the core sees.
    fn show(&mut self) {
        let Core { word, bit, .. } = self.here;
        let parts = [
            (&mut self.table.own, &self.own),
            (&mut self.table.values, &self.values),
        ];
        for (range, part) in parts {
            range.nr = part.nr as u64;
            let first = part.holders[word * part.nr..].as_ptr();
            range.holders = first.wrapping_sub(range.first as usize);
        }
        (self.table.here, self.table.owner) = (bit, bit | EXCLUSIVE);
    }

    /// The core reads or writes a line: how long it waits for what has to come, in ns. `how`: as in [`how`].
    #[inline]
    pub fn fetch(&mut self, line: u64, how: u64) -> u64 {
        let own = line.wrapping_sub(self.table.own.first) as usize;
        if own < self.own.nr {
            return self.own.fetch(self.here, own, how, &self.distances);
        }
        let value = (line - self.table.values.first) as usize;
        self.values.fetch(self.here, value, how, &self.distances)
    }
}

/// The bits of a word stand for so many cores and [`EXCLUSIVE`].
const CORES_PER_WORD: u32 = 63;

/// The core of the other bit has written the line, and no other core has it.
const EXCLUSIVE: u64 = 1 << 63;

/// Lines that follow each other.
struct Part {
    nr: usize,
    /// Words that it takes to have a bit for each core.
    words: usize,
    /// For the first cores a word for each line, then for the next ones.
    holders: Vec<u64>,
    /// The core that wrote each line last, and 1; 0 at first.
    writer: Vec<u32>,
}

impl Part {
    fn new(words: usize, nr: usize) -> Part {
        Part {
            nr,
            words,
            holders: vec![0; words * nr],
            writer: vec![0; nr],
        }
    }

    #[inline]
    fn fetch(&mut self, here: Core, line: usize, how: u64, distances: &Distances) -> u64 {
        if how & how::WRITE == 0 {
            return self.read(here, line, distances);
        }
        // A plain store waits in a buffer.
        let price = match how & how::UPDATE {
            0 => 0,
            _ => self.update(here, line, distances),
        };
        if self.words > 1 {
            self.drop_all(line);
        }
        self.holders[here.word * self.nr + line] = here.bit | EXCLUSIVE;
        self.writer[line] = here.number + 1;
        price
    }

    /// From its writer, who no longer has it alone.
    #[inline]
    fn read(&mut self, here: Core, line: usize, distances: &Distances) -> u64 {
        let holders = &mut self.holders[here.word * self.nr + line];
        let has = *holders & here.bit != 0;
        *holders |= here.bit;
        let Some(writer) = self.writer[line].checked_sub(1) else {
            return 0;
        };
        if writer == here.number {
            return 0;
        }
        self.holders[Core::new(writer).word * self.nr + line] &= !EXCLUSIVE;
        if has {
            0
        } else {
            distances.ns(here.number, writer)
        }
    }

    /// From whoever has it: all others give it up.
    #[cold]
    fn update(&mut self, here: Core, line: usize, distances: &Distances) -> u64 {
        let has = self.holders[here.word * self.nr + line] & here.bit != 0;
        let writer = self.writer[line].checked_sub(1).filter(|_| !has);
        let others = self.holders(line).filter(|other| *other != here.number);
        let all = others
            .chain(writer)
            .map(|core| distances.ns(here.number, core));
        all.max().unwrap_or(0)
    }

    #[cold]
    fn drop_all(&mut self, line: usize) {
        for word in self.holders[line..].iter_mut().step_by(self.nr) {
            *word = 0;
        }
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
    fn grow(&mut self, nr: usize) {
        let mut grown = Part::new(self.words, nr.next_power_of_two());
        for word in 0..self.words {
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

    const LLC: u64 = 1;
    const NEAR: u64 = 2;
    const FAR: u64 = 3;

    /// Cores of which each two share a cache, and each four a node.
    fn lines(nr_nodes: usize) -> Lines {
        let topology = format!("package:{nr_nodes} [numa] l3:2 core:2 pu:1");
        let mut machine = Machine::parse_hwloc_synthetic(&topology).unwrap();
        machine.costs.visit_llc_ns = Some(LLC);
        (machine.costs.visit_near_ns, machine.costs.visit_far_ns) = (NEAR, FAR);
        Lines::new(&machine, [100..200, 1000..1 << 40], never)
    }

    fn fetch(lines: &mut Lines, core: u32, how: u64) -> u64 {
        lines.enter(core);
        let own = lines.fetch(105, how);
        lines.make_room(2500);
        assert_eq!(lines.fetch(2500, how), own, "a value");
        own
    }

    #[test]
    fn a_line_comes_from_its_writer_once() {
        let mut lines = lines(2);
        assert_eq!(fetch(&mut lines, 0, 0), 0, "nobody has written it");
        assert_eq!(fetch(&mut lines, 1, how::WRITE), 0, "a store is buffered");
        assert_eq!(fetch(&mut lines, 0, 0), LLC);
        assert_eq!(fetch(&mut lines, 0, 0), 0, "it has it now");
        assert_eq!(fetch(&mut lines, 2, 0), NEAR);
        assert_eq!(fetch(&mut lines, 4, 0), FAR);
        assert_eq!(fetch(&mut lines, 1, 0), 0, "the writer keeps it");
        fetch(&mut lines, 2, how::WRITE);
        assert_eq!(fetch(&mut lines, 1, 0), NEAR);
    }

    #[test]
    fn an_atomic_operation_waits_for_all_that_have_it() {
        let mut lines = lines(2);
        let update = how::WRITE | how::UPDATE;
        assert_eq!(fetch(&mut lines, 0, update), 0);
        assert_eq!(fetch(&mut lines, 0, update), 0, "its own");
        assert_eq!(fetch(&mut lines, 1, update), LLC);
        fetch(&mut lines, 7, 0);
        assert_eq!(fetch(&mut lines, 1, update), FAR);
        assert_eq!(fetch(&mut lines, 1, update), 0);
    }

    /// What runtime.c asks before it calls `fetch`.
    fn is_here(lines: &Lines, how: u64) -> bool {
        let table = &lines.table;
        assert!(5 < table.own.nr && 1500 < table.values.nr);
        // SAFETY: the tests' own line, which is in the range.
        let words = [(table.own, 105), (table.values, 2500)]
            .map(|(range, line)| unsafe { *range.holders.wrapping_add(line) });
        assert_eq!(words[0], words[1]);
        match how & how::WRITE {
            0 => words[0] & table.here != 0,
            _ => words[0] == table.owner,
        }
    }

    #[test]
    fn the_code_sees_what_its_core_has() {
        for (one, other) in [(0, 1), (62, 63), (63, 62), (199, 3), (126, 189)] {
            let mut lines = lines(50);
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
