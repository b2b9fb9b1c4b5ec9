// SPDX-License-Identifier: GPL-2.0-or-later
//! The shared headers against plain models: the C code itself, built for the simulated machine and called a function at a time
//! through lib.bpf.c.

mod freebsd;
mod guard;
mod keeper;
mod lifetimes;
mod numbers;
mod tunables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tiltyard_native::{Instance, Value};
use tiltyard_schedtest::{object, repository, vectors};

const NODE: i64 = 1;
const LLC: i64 = 2;
const CORE: i64 = 3;

/// Headers of a folder, by their paths from `lib`.
fn headers(lib: &Path, folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            headers(lib, &path, found);
            continue;
        }
        let name = path.strip_prefix(lib).expect("it is in there");
        found.insert(name.display().to_string());
    }
}

/// Each in one row of a table, with its purpose.
#[test]
fn the_readme_lists_all_headers() {
    let lib = repository().join("schedulers/lib");
    let mut found = BTreeSet::from(["tiltyard.bpf.h".to_owned()]);
    headers(&lib, &lib.join("tiltyard"), &mut found);
    let readme = std::fs::read_to_string(lib.join("README.md")).expect("README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("` | ")).collect();
    assert!(rows.iter().all(|(_, purpose)| purpose.len() > 10));
    let listed: BTreeSet<String> = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed, found);
    assert_eq!(rows.len(), found.len(), "one is listed twice");
}

struct Lib(Instance);

impl Lib {
    fn new() -> Lib {
        Lib(vectors::load(
            object("schedulers/lib/tests/lib.bpf.c", 2),
            &[],
        ))
    }

    /// A machine whose CPUs have these cores, caches and nodes.
    fn with_topology(ids: [&[u32]; 3]) -> Lib {
        let names = ["cpu_core_id", "cpu_llc_id", "cpu_node_id"];
        let bytes = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let globals = names.iter().zip(ids);
        let globals: Vec<(String, Value)> = globals
            .map(|(name, ids)| ((*name).to_owned(), Value::Bytes(bytes(ids))))
            .collect();
        Lib(vectors::load(
            object("schedulers/lib/tests/lib.bpf.c", 2),
            &globals,
        ))
    }

    fn call(&self, program: &str, words: &[i64]) -> [i64; 8] {
        vectors::call(&self.0, program, words).1
    }
}

/// A reproducible sequence; the constants are Knuth's for 64 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// 64 bits, of which about as many numbers have each length.
    fn of_any_length(&mut self) -> u64 {
        let bits = self.below(1 << 31) << 33 | self.below(1 << 31) << 2 | self.below(4);
        bits >> self.below(64)
    }
}

// Tree

/// What the tree should say: entities by key (relative to the start) and order of insertion, with their values.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<(u64, u64), (i64, u64)>,
    inserted: u64,
}

impl Model {
    fn first_within(&self, limit: u64) -> i64 {
        let within = self.nodes.values().find(|(_, value)| *value <= limit);
        within.map_or(0, |(entity, _)| *entity)
    }

    fn nth(&self, n: usize) -> i64 {
        self.nodes.values().nth(n).map_or(0, |(entity, _)| *entity)
    }
}

/// Random insertions and removals, with keys and values that wrap and that are often equal: after each, the first, the second,
/// the first within some limit, and the height that an AVL tree may have.
#[test]
fn the_tree_agrees_with_a_sorted_map() {
    let wrap = u64::MAX - 50;
    for (seed, keys, size) in [(1, 100, 20), (2, 5, 60), (3, 1 << 20, 900)] {
        let (lib, mut random, mut model) = (Lib::new(), Random(seed), Model::default());
        let mut places: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
        for _ in 0..6_000 {
            let entity = 1 + random.below(size) as i64;
            if let Some(place) = places.remove(&entity) {
                model.nodes.remove(&place);
                lib.call("t_remove", &[entity]);
            } else {
                let (key, value) = (random.below(keys), random.below(keys));
                let place = (key, model.inserted);
                model.inserted += 1;
                places.insert(entity, place);
                model.nodes.insert(place, (entity, value));
                let shifted = |n: u64| wrap.wrapping_add(n) as i64;
                lib.call("t_insert", &[entity, shifted(key), shifted(value)]);
            }
            let limit = random.below(keys);
            let out = lib.call("t_look", &[wrap.wrapping_add(limit) as i64]);
            let expected = [model.nth(0), model.nth(1), model.first_within(limit)];
            assert_eq!(
                out[1..4],
                expected,
                "seed {seed}, {} nodes",
                model.nodes.len()
            );
            let bound = 1.4405 * (model.nodes.len() as f64 + 2.0).log2() - 0.3;
            assert!(
                out[4] as f64 <= bound,
                "height {} of {} nodes",
                out[4],
                model.nodes.len()
            );
        }
    }
}

#[test]
fn a_tree_of_ordered_keys_is_flat() {
    let lib = Lib::new();
    for i in 1..4096 {
        lib.call("t_insert", &[i, i, 0]);
    }
    assert_eq!(lib.call("t_look", &[0])[4], 12);
    for i in 1..4096 {
        assert_eq!(lib.call("t_look", &[0])[1], i);
        lib.call("t_remove", &[i]);
    }
    assert_eq!(lib.call("t_look", &[0])[1..5], [0, 0, 0, 0]);
}

// Ticks

/// 127 Hz on a machine of 250 Hz: never more than half a tick ahead of time or behind.
#[test]
fn ticks_of_a_rate_of_their_own() {
    let (lib, length) = (Lib::new(), 1_000_000_000 / 127);
    let mut total = 0;
    for nr in 1..=2_500 {
        let due = lib.call("t_ticks", &[nr * 4_000_000, length, 0])[3];
        total += due;
        let elapsed = (nr - 1) * 4_000_000 + length;
        assert!(
            due <= 1 && (2 * (total * length - elapsed)).abs() <= length,
            "tick {nr}"
        );
    }
    assert_eq!(total, 1_270);
}

#[test]
fn ticks_that_nobody_took_are_skipped() {
    let lib = Lib::new();
    let due = |now: i64| lib.call("t_ticks", &[now, 1_000, 0])[3];
    assert_eq!([due(10_000), due(11_000), due(14_000)], [1, 1, 3]);
    lib.call("t_ticks", &[20_300, 1_000, 1]);
    assert_eq!([due(20_400), due(21_100), due(21_200)], [0, 1, 0]);
}

// Topology

struct Cpu {
    cpu: i64,
    span: (i64, i64),
}

/// CPUs by rank, with their group at a level.
fn cpus(lib: &Lib, count: i64, level: i64) -> Vec<Cpu> {
    let each = (0..count).map(|rank| {
        let out = lib.call("t_cpu", &[rank, level]);
        assert_eq!(out[3], rank, "the rank of CPU {}", out[2]);
        Cpu {
            cpu: out[2],
            span: (out[4], out[5]),
        }
    });
    each.collect()
}

/// 2 nodes of 2 cores of 2 threads, siblings 4 apart.
#[test]
fn groups_are_ranges_of_neighbours() {
    let (core, node) = ([0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 1, 1, 0, 0, 1, 1]);
    let lib = Lib::with_topology([&core, &node, &node]);
    let out = lib.call("t_topology", &[8, 1 << NODE | 1 << LLC | 1 << CORE, 1]);
    assert_eq!(out[3..5], [8, 0b1110]);
    let by_core = cpus(&lib, 8, CORE);
    let order: Vec<i64> = by_core.iter().map(|c| c.cpu).collect();
    assert_eq!(
        order,
        [3, 7, 2, 6, 1, 5, 0, 4],
        "descending groups of ascending CPUs"
    );
    assert_eq!(by_core[2].span, (2, 4));
    let by_node = cpus(&lib, 8, NODE);
    assert_eq!((by_node[3].span, by_node[4].span), ((0, 4), (4, 8)));
    assert_eq!(cpus(&lib, 8, 0)[5].span, (0, 8));
}

/// A level that is one group, or where every CPU is alone, has the groups of the level above.
#[test]
fn levels_that_tell_nothing_apart_are_none() {
    let lib = Lib::with_topology([&[0, 1, 2, 3], &[0, 1, 0, 1], &[]]);
    let out = lib.call("t_topology", &[4, 1 << NODE | 1 << LLC | 1 << CORE, 0]);
    assert_eq!(out[3..5], [4, 1 << LLC]);
    let (by_core, by_node) = (cpus(&lib, 4, CORE), cpus(&lib, 4, NODE));
    let order: Vec<i64> = by_core.iter().map(|c| c.cpu).collect();
    assert_eq!(order, [0, 2, 1, 3]);
    assert_eq!((by_core[1].span, by_node[1].span), ((0, 2), (0, 4)));
}

/// With TOPO_SINGLES (2), cores of one CPU are groups, and so is the one cache around them; without cores it is none.
#[test]
fn levels_of_single_cpus() {
    let levels = 1 << LLC | 1 << CORE;
    let lib = Lib::with_topology([&[0, 1, 2, 3], &[], &[]]);
    assert_eq!(lib.call("t_topology", &[4, levels, 3])[4], levels);
    let order: Vec<i64> = cpus(&lib, 4, CORE).iter().map(|c| c.cpu).collect();
    assert_eq!(order, [3, 2, 1, 0]);
    assert_eq!(cpus(&lib, 4, CORE)[1].span, (1, 2));
    assert_eq!(cpus(&lib, 4, LLC)[1].span, (0, 4));
    for (llc, found) in [(&[0, 0, 1, 1][..], 1 << LLC), (&[], 0)] {
        let lib = Lib::with_topology([&[], llc, &[]]);
        assert_eq!(lib.call("t_topology", &[4, levels, 3])[4], found);
    }
}

/// A descent against its definition, on 3 nodes of 2 caches of 2 cores of 2 threads, from every group.
#[test]
fn a_descent_takes_the_best_child_at_each_level() {
    let ids = |size: u32| (0..24u32).map(|cpu| cpu / size).collect::<Vec<u32>>();
    let lib = Lib::with_topology([&ids(2), &ids(4), &ids(8)]);
    lib.call("t_topology", &[24, 1 << NODE | 1 << LLC | 1 << CORE, 1]);
    let load = |cpu: i64| 10 * (cpu * 7 % 5);
    // The best eligible CPU of [first, first + size), whose children are a third, half, ... as large.
    fn best(first: i64, size: i64, highest: bool, load: &dyn Fn(i64) -> i64) -> i64 {
        let sign = if highest { -1 } else { 1 };
        let sum = |first: i64, size: i64| (first..first + size).map(load).sum::<i64>();
        let child = match size {
            24 => 8,
            1 => return if first == 2 { -1 } else { first },
            _ => size / 2,
        };
        let children = (first..first + size).step_by(child as usize);
        let bests = children.map(|at| (sign * sum(at, child), best(at, child, highest, load)));
        let eligible = bests.filter(|(_, cpu)| *cpu >= 0);
        let first = eligible.min_by_key(|(load, cpu)| (*load, sign * cpu));
        first.map_or(-1, |(_, cpu)| cpu)
    }
    for cpu in 0..24 {
        for (level, size) in [(0, 24), (NODE, 8), (LLC, 4), (CORE, 2)] {
            for highest in [false, true] {
                let first = cpu / size * size;
                let call =
                    |flat: i64| lib.call("t_descend", &[cpu, level, flat, highest.into()])[4];
                let expected = best(first, size, highest, &load);
                assert_eq!(call(0), expected, "CPU {cpu}, level {level}, {highest}");
                let sign = if highest { -1 } else { 1 };
                let all = (first..first + size).filter(|cpu| *cpu != 2);
                let flat = all.min_by_key(|cpu| (sign * load(*cpu), sign * cpu));
                assert_eq!(
                    call(1),
                    flat.unwrap(),
                    "CPU {cpu}, level {level}, {highest}, flat"
                );
            }
        }
    }
}

/// Every group of a machine with 4096 CPUs: 8 nodes, 64 caches, 2048 cores.
#[test]
fn four_thousand_cpus() {
    let ids = |size: u32| (0..4096u32).map(|cpu| cpu / size).collect::<Vec<u32>>();
    let lib = Lib::with_topology([&ids(2), &ids(64), &ids(512)]);
    lib.call("t_topology", &[4096, 1 << NODE | 1 << LLC | 1 << CORE, 0]);
    for (level, size) in [(NODE, 512), (LLC, 64), (CORE, 2)] {
        for (rank, c) in cpus(&lib, 4096, level).iter().enumerate() {
            let first = rank as i64 / size * size;
            assert_eq!((c.cpu, c.span), (rank as i64, (first, first + size)));
        }
    }
}

// Slots

#[test]
fn slots_are_given_out_once() {
    let lib = Lib::new();
    let take = |limit: i64| vectors::call(&lib.0, "t_take", &[limit]).0;
    assert_eq!([take(4), take(4), take(4), take(4)], [1, 2, 3, 0]);
    lib.call("t_give", &[1]);
    lib.call("t_give", &[3]);
    lib.call("t_give", &[0]);
    assert_eq!(
        [take(4), take(4), take(4), take(8), take(8)],
        [3, 1, 0, 4, 5]
    );
}
