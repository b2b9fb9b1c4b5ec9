// SPDX-License-Identifier: GPL-2.0-or-later
//! The shipped machines, and our reading of hwloc's formats beside hwloc's own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use tiltyard_model::Machine;
use tiltyard_model::machine::{Costs, CpuPlace, Jitter};

fn machines() -> Vec<Machine> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let mut files: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    files.iter().map(|f| read(f)).collect()
}

fn read(file: &Path) -> Machine {
    let text = std::fs::read_to_string(file).unwrap();
    Machine::parse_toml(&text, &file.to_string_lossy()).unwrap_or_else(|e| panic!("{e}"))
}

fn machine(name: &str) -> Machine {
    machines().into_iter().find(|m| m.name == name).expect(name)
}

/// Cores, last-level caches, nodes, packages.
fn counts(machine: &Machine) -> [u32; 4] {
    let of = |id: fn(&CpuPlace) -> u32| machine.cpus.iter().map(id).max().unwrap() + 1;
    [
        of(|c| c.core),
        of(|c| c.llc),
        of(|c| c.node),
        of(|c| c.package),
    ]
}

#[test]
fn shipped_machines_have_the_shape_that_their_sources_give() {
    let shapes: BTreeMap<_, _> = machines()
        .iter()
        .map(|m| (m.name.clone(), (m.nr_cpus(), counts(m))))
        .collect();
    let expected = [
        ("desktop", (2, [2, 1, 1, 1])),
        ("desktop2x2", (4, [4, 2, 1, 2])),
        ("epyc-7763x2", (256, [128, 16, 2, 2])),
        ("graviton3", (64, [64, 1, 1, 1])),
        ("i7-3770", (8, [4, 1, 1, 1])),
        ("ideal1", (1, [1, 1, 1, 1])),
        ("laptop", (2, [2, 1, 1, 1])),
        ("netbook", (2, [1, 1, 1, 1])),
        ("nodes16-4096", (4096, [2048, 256, 16, 16])),
        ("nodes8-512", (512, [256, 32, 8, 2])),
        ("numa2x4", (8, [8, 2, 2, 2])),
        ("numa3x2", (6, [6, 3, 3, 3])),
        ("opteron1", (1, [1, 1, 1, 1])),
        ("opteron32", (32, [32, 4, 4, 4])),
        ("opteron32-1k", (32, [32, 4, 4, 4])),
        ("opteron32-8x4", (32, [32, 8, 8, 4])),
        ("opteron32-highpri", (32, [32, 4, 4, 4])),
        ("ryzen-9950x", (32, [16, 2, 1, 1])),
        ("smp2", (2, [2, 1, 1, 1])),
        ("smp4", (4, [4, 1, 1, 1])),
        ("smp4-1k", (4, [4, 1, 1, 1])),
        ("snapdragon-8g2", (8, [8, 1, 1, 1])),
        ("ultra-285k", (24, [24, 1, 1, 1])),
        ("uni", (1, [1, 1, 1, 1])),
        ("uni100", (1, [1, 1, 1, 1])),
        ("uni10k", (1, [1, 1, 1, 1])),
        ("uni1k", (1, [1, 1, 1, 1])),
        ("v890", (16, [16, 16, 8, 8])),
        ("xeon-8380x2", (160, [80, 2, 2, 2])),
        ("xeon-e3", (8, [4, 1, 1, 1])),
    ];
    assert_eq!(
        shapes,
        expected
            .map(|(name, shape)| (name.to_owned(), shape))
            .into()
    );
}

/// Whatever a file sets can be set afterwards, by the same name.
#[test]
fn costs_are_set_by_the_keys_of_machine_files() {
    let optional = [
        "timer_wakeup_ns",
        "timer_irq_ns",
        "block_ns",
        "fork_ns",
        "exit_ns",
        "idle_exit_ns",
        "map_lookup_ns",
        "storage_lookup_ns",
        "spin_lock_ns",
        "task_lookup_ns",
        "kick_ns",
        "visit_llc_ns",
    ];
    let lines = (11..)
        .zip(optional)
        .map(|(n, key)| format!("{key} = {n}\n"));
    let head = format!("[costs]\n{}", lines.collect::<String>());
    let file = include_str!("../../../machines/opteron1.toml").replacen("[costs]\n", &head, 1);
    let tables: toml::Table = file.parse().unwrap();
    let mut costs = Costs::default();
    for (key, value) in tables["costs"].as_table().unwrap() {
        let value = u64::try_from(value.as_integer().unwrap()).unwrap();
        assert!(costs.set(key, value), "{key}");
    }
    let read = Machine::parse_toml(&file, "opteron1.toml").unwrap();
    assert_eq!(costs, read.costs);
    assert!(!costs.set("switch", 0));
}

/// Capacities of machines with cores of several kinds; all others have one kind.
#[test]
fn capacities_are_those_of_the_sources() {
    for machine in machines() {
        let capacities: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.capacity).collect();
        let expected = match machine.name.as_str() {
            // 7-zip, MIPS: 2128, the mean of 4416 and 4632, 6686.
            "snapdragon-8g2" => {
                let of = |mips: u32| (mips * 1024 + 6686 / 2) / 6686;
                let (small, middle) = (of(2128), of(4416_u32.midpoint(4632)));
                [[small; 3].as_slice(), &[middle; 4], &[1024]].concat()
            }
            // 4.6/5.7 of the clock, 1/1.09 of the work a clock: 0.740.
            "ultra-285k" => [[1024; 8].as_slice(), &[1024 * 740 / 1000 + 1; 16]].concat(),
            _ => vec![1024; machine.nr_cpus()],
        };
        assert_eq!(capacities, expected, "{}", machine.name);
    }
}

#[test]
fn the_reference_costs_are_those_of_opteron1() {
    let node = Some(12_500);
    for (name, node_mb_per_s) in [
        ("opteron1", None),
        ("opteron32", node),
        ("opteron32-1k", node),
        ("opteron32-8x4", node),
        ("opteron32-highpri", node),
        ("smp4", None),
    ] {
        assert_eq!(
            machine(name).costs,
            Costs {
                node_mb_per_s,
                smt_permille: 1000,
                ..Costs::REFERENCE
            },
            "{name}"
        );
        assert_eq!(machine(name).jitter, Jitter::REFERENCE, "{name}");
    }
}

/// A variant is the usual one but for what `restore` takes from that.
fn is_opteron32_otherwise(variant: &str, restore: impl Fn(&mut Machine, &Machine)) {
    let (usual, mut other) = (machine("opteron32"), machine(variant));
    other.name = usual.name.clone();
    other.description = usual.description.clone();
    assert_ne!(format!("{other:?}"), format!("{usual:?}"));
    restore(&mut other, &usual);
    assert_eq!(format!("{other:?}"), format!("{usual:?}"));
}

#[test]
fn variants_of_opteron32_differ_in_one_thing() {
    is_opteron32_otherwise("opteron32-highpri", |m, usual| {
        m.noise = usual.noise.clone()
    });
    is_opteron32_otherwise("opteron32-1k", |m, usual| m.tick_hz = usual.tick_hz);
}

#[test]
fn nothing_costs_anything_on_the_ideal_machine() {
    let free = Costs {
        refill_overlap_permille: 1000,
        smt_permille: 1000,
        ..Costs::default()
    };
    assert_eq!(machine("ideal1").costs, free);
    assert_eq!(machine("ideal1").jitter, Jitter::NONE);
}

#[test]
fn distances_are_symmetric() {
    for machine in machines() {
        let d = &machine.node_distance;
        for (a, row) in d.iter().enumerate() {
            assert!(
                row.iter().enumerate().all(|(b, value)| *value == d[b][a]),
                "{}: {d:?}",
                machine.name
            );
        }
    }
}

/// Every string twice: by our parser, and by lstopo's XML through our XML parser.
#[test]
fn synthetic_strings_mean_what_they_mean_to_lstopo() {
    if Command::new("lstopo-no-graphics")
        .arg("--version")
        .output()
        .is_err()
    {
        // Past the test harness, which keeps what passing tests print to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: lstopo-no-graphics is not installed (package hwloc)"
        );
        return;
    }
    for text in [
        "pack:2 l3:1 core:16 pu:1",
        "package:4 die:2 [numa(memory=4GiB)] l3:1(size=6MiB) l2:4(size=512KiB) l1d:1(size=64KiB) core:1 pu:2",
        "[numa] pack:2 l2:1(size=4MB) l1d:2 core:1 pu:1",
        "numa:2 pack:1 l3:2 l1:2 core:1 pu:2",
        "pack:2 core:2 pu:2(indexes=2*4:1*2)",
        "pack:2 core:2 pu:2(indexes=core:pack)",
        "pack:2 core:3 pu:2(indexes=pack:core)",
        "pack:2 l3:2 core:2 pu:2(indexes=l3:pack)",
        "numa:2(indexes=1,0) l2:2 core:1 pu:1(indexes=7,1,3,2)",
        "4 2",
        "2 2 2",
        "2 2 2 2",
        "2 2 2 2 2",
        "1 2 1 2 2 2",
        "1 2 1 2 1 2 2",
        "[numa] 2 2 2 2",
        "group:2 l4:1 l3:2 Core:2 PU:1",
        "pa:2 di:2 co:2 pu:1",
    ] {
        let export = Command::new("lstopo-no-graphics")
            .args(["-i", text, "--of", "xml", "-"])
            .output()
            .unwrap();
        let xml = String::from_utf8(export.stdout).unwrap();
        let theirs =
            Machine::parse_hwloc_xml(&xml, text).unwrap_or_else(|e| panic!("{text}: {e}\n{xml}"));
        let ours = Machine::parse_hwloc_synthetic(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(ours.caches, theirs.caches, "{text}");
        assert_eq!(ours.node_distance, theirs.node_distance, "{text}");
        assert_eq!(relative(&ours), relative(&theirs), "{text}");
    }
}

/// Which CPUs share a core, LLC, node, package with which: ids renamed by first appearance.
fn relative(machine: &Machine) -> Vec<[usize; 4]> {
    let first = |same: &dyn Fn(&CpuPlace) -> bool| machine.cpus.iter().position(same).unwrap();
    let of = |c: &CpuPlace| {
        [
            first(&|o| o.core == c.core),
            first(&|o| o.llc == c.llc),
            first(&|o| o.node == c.node),
            first(&|o| o.package == c.package),
        ]
    };
    machine.cpus.iter().map(of).collect()
}

/// Words of the grammar in any order, with typing errors between them.
fn nearly_synthetic() -> impl Strategy<Value = String> {
    let words = [
        "pack:2",
        "numa:2",
        "[numa]",
        "[numa(memory=1GiB)]",
        "l3:2",
        "l2:1(size=3MiB)",
        "l1i:1",
        "core:3",
        "pu:2",
        "2",
        "(",
        ")",
        "[",
        ":",
        "=",
        "*",
        ",",
        "é",
        "size=99999999999TiB",
        "pu:2(indexes=2*2:1*2)",
        "pu:4(indexes=pack:core)",
        "pu:1(indexes=0,0)",
        "group:0",
        " ",
    ];
    let word = prop_oneof![4 => select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,3}"];
    proptest::collection::vec((word, prop_oneof![Just(" "), Just("")]), 0..9).prop_map(|words| {
        words
            .into_iter()
            .map(|(word, space)| word + space)
            .collect()
    })
}

proptest! {
    /// What is no machine is an error that points into the text, and what is one is whole.
    #[test]
    fn any_synthetic_string_is_a_machine_or_an_error(text in nearly_synthetic()) {
        match Machine::parse_hwloc_synthetic(&text) {
            Ok(machine) => {
                prop_assert!(machine.nr_cpus() > 0);
                prop_assert_eq!(machine.node_distance.len(), machine.nr_nodes());
            }
            Err(error) => prop_assert!(text.get(error.span).is_some(), "{}", text),
        }
    }

    /// The same for files: a good one with bytes replaced.
    #[test]
    fn any_file_is_a_machine_or_an_error(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), ".{0,2}"), 1..4),
    ) {
        let mut text = GOOD_FILE.to_owned();
        for (at, new) in changes {
            let chars: Vec<(usize, char)> = text.char_indices().collect();
            let (at, old) = chars[at.index(chars.len())];
            text.replace_range(at..at + old.len_utf8(), &new);
        }
        if let Err(error) = Machine::parse_toml(&text, "m.toml") {
            prop_assert!(error.to_string().starts_with("m.toml:"));
        }
        let _ = Machine::parse_hwloc_xml(&text, "m.xml");
    }
}

const GOOD_FILE: &str = include_str!("../../../machines/opteron32.toml");
