// SPDX-License-Identifier: GPL-2.0-or-later
//! The cache lines of one scheduler's data on a multicore machine: the state for the rules in lines.c (crate
//! `tiltyard-build`), which define what sharing data between CPUs costs.

use std::ffi::c_void;
use tiltyard_model::Machine;
use tiltyard_native::Instance;
use tiltyard_native::lines::{CORES_PER_WORD, EXCLUSIVE, LineMemory, LineTable};

/// Where the lines of one scheduler are.
pub struct Lines {
    /// Part of the instance, which outlives this. It points into the fields below.
    table: *mut LineTable,
    own: LineMemory,
    values: LineMemory,
    _places: Vec<[u32; 2]>,
}

impl Lines {
    /// From now on the instance's code looks up its accesses, at first as core 0. `grow`: as in [`LineTable`].
    pub fn new(
        machine: &Machine,
        instance: &Instance,
        grow: extern "C" fn(*mut c_void, u64),
    ) -> Lines {
        let [own, values] = instance.lines();
        let places = places(machine);
        let nr_words = places.len().div_ceil(CORES_PER_WORD as usize);
        let costs = &machine.costs;
        let mut own = LineMemory::new(nr_words, own.start, (own.end - own.start) as usize);
        let reserved = values.end - values.start;
        // Fewer than reserved. Both are powers of two, so growing never exceeds what is reserved.
        let mut values = LineMemory::new(nr_words, values.start, 1024);
        let table = LineTable {
            own: own.range(0),
            values: values.range(0),
            reserved,
            here: 1,
            owner: 1 | EXCLUSIVE,
            core: 0,
            writer: 1,
            nr_words: nr_words as u64,
            places: places.as_ptr(),
            llc_ns: costs.visit_llc_ns.unwrap_or(costs.visit_near_ns),
            near_ns: costs.visit_near_ns,
            far_ns: costs.visit_far_ns,
            grow,
        };
        // SAFETY: the instance's own variable, to which nothing refers now.
        unsafe { instance.line_table().write(table) };
        Lines {
            table: instance.line_table(),
            own,
            values,
            _places: places,
        }
    }

    /// This core executes the code from now on.
    #[inline]
    pub fn enter(&mut self, core: u32) {
        // SAFETY: the instance's code does not run now, and nothing else refers to it.
        let table = unsafe { &mut *self.table };
        if core == table.core {
            return;
        }
        (table.core, table.writer) = (core, core + 1);
        table.here = 1 << (core % CORES_PER_WORD);
        table.owner = table.here | EXCLUSIVE;
        if table.nr_words > 1 {
            self.show();
        }
    }

    /// Makes room for a line of a value.
    pub fn grow(&mut self, line: u64) {
        let value = line - self.values.first();
        debug_assert!(value >= self.values.nr() as u64);
        self.values.grow(value as usize + 1);
        self.show();
    }

    /// Points the table to the words that have the core's bit.
    fn show(&mut self) {
        // SAFETY: the instance's code does not read it now, and nothing else refers to it.
        let table = unsafe { &mut *self.table };
        let word = (table.core / CORES_PER_WORD) as usize;
        table.own = self.own.range(word);
        table.values = self.values.range(word);
    }
}

/// Last-level cache and node of each core.
fn places(machine: &Machine) -> Vec<[u32; 2]> {
    let cores = machine.cpus.iter().map(|cpu| cpu.core as usize + 1);
    let mut places = vec![[0; 2]; cores.max().unwrap_or(1)];
    for cpu in &machine.cpus {
        places[cpu.core as usize] = [cpu.llc, cpu.node];
    }
    places
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
    use tiltyard_native::LINE_BYTES;
    use tiltyard_native::object::how;
    use tiltyard_schedtest::object;

    const LLC: u64 = 1;
    const NEAR: u64 = 2;
    const FAR: u64 = 3;

    /// A scheduler whose callbacks are never called, and the state of its lines.
    struct Caches {
        instance: Instance,
        lines: Lines,
        /// A line of its variables, and one of a value.
        tried: [u64; 2],
    }

    extern "C" fn grow(caches: *mut c_void, line: u64) {
        // SAFETY: `Caches::touch_line` passes this and does not use its own reference until the call returns.
        let caches = unsafe { &mut *caches.cast::<Caches>() };
        caches.lines.grow(line);
    }

    impl Caches {
        /// Pairs of cores share a cache; groups of four share a node.
        fn new(nr_nodes: usize) -> Caches {
            Caches::with(nr_nodes, Some(LLC))
        }

        fn with(nr_nodes: usize, visit_llc_ns: Option<u64>) -> Caches {
            let topology = format!("package:{nr_nodes} [numa] l3:2 core:2 pu:1");
            let mut machine = Machine::parse_hwloc_synthetic(&topology).unwrap();
            machine.costs.visit_llc_ns = visit_llc_ns;
            (machine.costs.visit_near_ns, machine.costs.visit_far_ns) = (NEAR, FAR);
            let object = object("crates/sim/tests/schedulers/sharer.bpf.c", 2);
            let instance = Instance::load(object, &[]).expect("loads");
            instance.set_map_memory(1 << 40..1 << 41);
            let [own, values] = instance.lines();
            let tried = [own.start + 1, values.start + 1500];
            let lines = Lines::new(&machine, &instance, grow);
            Caches {
                instance,
                lines,
                tried,
            }
        }

        fn touch_line(&mut self, core: u32, line: u64, how: u64) -> u64 {
            let caches: *mut Caches = self;
            // SAFETY: `caches` and the reference made from it in `grow` are never used at the same time.
            unsafe {
                (*caches).instance.set_engine(caches.cast());
                (*caches).lines.enter(core);
                (*caches).instance.forget_waits();
                let touch = &raw const (*caches).instance;
                (*touch).touch(line * LINE_BYTES + 8, how);
                (*caches).instance.waited_ns()
            }
        }

        /// How long a core waits for either line.
        fn touch(&mut self, core: u32, how: u64) -> u64 {
            let [own, value] = self.tried.map(|line| self.touch_line(core, line, how));
            assert_eq!(value, own, "a value");
            own
        }

        /// What the code asks before it accesses a line.
        fn is_here(&mut self, core: u32, how: u64) -> bool {
            self.lines.enter(core);
            // SAFETY: the instance's own.
            let table = unsafe { &*self.instance.line_table() };
            // SAFETY: the lines have been touched, so they are in their ranges.
            let words = [(table.own, self.tried[0]), (table.values, self.tried[1])]
                .map(|(range, line)| unsafe { *range.holders.wrapping_add(line as usize) });
            assert_eq!(words[0], words[1]);
            match how & how::WRITE {
                0 => words[0] & table.here != 0,
                _ => words[0] == table.owner,
            }
        }
    }

    #[test]
    fn a_line_comes_from_its_writer_once() {
        let mut caches = Caches::new(2);
        assert_eq!(caches.touch(0, 0), 0, "nobody has written it");
        assert_eq!(caches.touch(1, how::WRITE), 0, "a store is buffered");
        assert_eq!(caches.touch(0, 0), LLC);
        assert_eq!(caches.touch(0, 0), 0, "it has it now");
        assert_eq!(caches.touch(2, 0), NEAR);
        assert_eq!(caches.touch(4, 0), FAR);
        assert_eq!(caches.touch(1, 0), 0, "the writer keeps it");
        caches.touch(2, how::WRITE);
        assert_eq!(caches.touch(1, 0), NEAR);
    }

    #[test]
    fn a_cache_that_has_no_cost_of_its_own_costs_what_the_node_does() {
        let mut caches = Caches::with(2, None);
        caches.touch(0, how::WRITE);
        assert_eq!(caches.touch(1, 0), NEAR);
    }

    #[test]
    fn an_atomic_operation_waits_for_all_that_have_it() {
        for nr_nodes in [2, 50] {
            let mut caches = Caches::new(nr_nodes);
            let update = how::WRITE | how::UPDATE;
            assert_eq!(caches.touch(0, update), 0);
            assert_eq!(caches.touch(0, update), 0, "its own");
            assert_eq!(caches.touch(1, update), LLC);
            let last = nr_nodes as u32 * 4 - 1;
            caches.touch(last, 0);
            assert_eq!(caches.touch(1, update), FAR);
            assert_eq!(caches.touch(1, update), 0);
        }
    }

    #[test]
    fn the_code_sees_what_its_core_has() {
        for (one, other) in [(0, 1), (62, 63), (63, 62), (199, 3), (126, 189)] {
            let mut caches = Caches::new(50);
            let mut seen = |core, how| {
                caches.touch(core, how);
                [one, other].map(|core| [0, how::WRITE].map(|how| caches.is_here(core, how)))
            };
            assert_eq!(seen(one, 0), [[true, false], [false, false]]);
            assert_eq!(seen(one, how::WRITE), [[true, true], [false, false]]);
            assert_eq!(seen(one, 0), [[true, true], [false, false]], "still");
            assert_eq!(seen(other, 0), [[true, false], [true, false]]);
            assert_eq!(seen(other, how::WRITE), [[false, false], [true, true]]);
        }
    }

    #[test]
    fn what_is_known_stays_when_room_is_made() {
        for (nr_nodes, writer) in [(2, 5), (50, 190)] {
            let mut caches = Caches::new(nr_nodes);
            let first = caches.tried[1] - 1500;
            caches.touch_line(writer, first + 7, how::WRITE);
            caches.touch_line(0, first + 5000, how::WRITE);
            assert_eq!(caches.touch_line(0, first + 7, 0), FAR);
            assert_eq!(caches.touch_line(writer, first + 5000, 0), FAR);
        }
    }
}
