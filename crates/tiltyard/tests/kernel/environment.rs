// SPDX-License-Identifier: GPL-2.0-or-later
//! What schedulers get from their machine is the same in the simulated machine and in a kernel.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tiltyard_build::{Builder, Source};
use tiltyard_model::Machine;
use tiltyard_native::Instance;
use tiltyard_sim::Setup;

use super::{real_kernel::vm, sample};

/// Two nodes of two cores of two threads.
pub const MACHINE: &str = "package:2 [numa] l3:1 core:2 pu:2";

/// Of `wants`: CPU i counts (i + 1) times. The caches of CPUs 4 to 7 are 1, so 5+6+7+8; and so on.
const GOT: &str =
    "cpus=8 smt=1 llcs=26 fastest=168 resized=2674 nodes=62 siblings=1708 early=8 started=7";

fn wants() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/wants/wants.bpf.c")
}

fn simulated(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiltyard"));
    command.args(["run", "-w", "mix-hog-sleepers", "-m", MACHINE]);
    command.args(arguments).output().unwrap()
}

#[test]
fn everything_arrives_in_the_simulated_machine() {
    let output = simulated(&["-s", wants().to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(10), "{text}");
    assert!(text.contains(GOT), "{text}");
}

#[test]
fn everything_arrives_in_a_kernel() {
    let Some(mut command) = vm(&["-m", MACHINE, "-s", wants().to_str().unwrap()]) else {
        return;
    };
    let output = command
        .args(["--no-events", "--", "sleep", "30"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(10), "{text}");
    assert!(text.contains(GOT), "{text}");
}

/// Faults in a presets.toml, each with what the error says. The scheduler is `wants`, its map an array.
const FAULTS: [(&str, &str); 6] = [
    (
        "[environment]\nset = { smt_enabled = 7 }",
        "[environment] set.smt_enabled = 7: neither true nor false",
    ),
    (
        "[[environment.maps]]\nname = \"node_of\"\nkey = 16\nvalue = 0",
        "[environment] maps, node_of, key = 16: the map does not take this element: ",
    ),
    (
        "[environment]\nset = { cpu_llc_id = 3 }",
        "[environment] set.cpu_llc_id: the scheduler has no such number (it is an array)",
    ),
    (
        "[environment]\nflags = { SCX_OPS_NOTHING = true }",
        "[environment] flags.SCX_OPS_NOTHING: the scheduler has no such flag in this kernel",
    ),
    (
        "[[environment.calls]]\nprogram = \"enable_sibling\"\narguments = { cpu_id = 3_000_000_000 }",
        "[environment] calls, enable_sibling, cpu_id = 3000000000: it must be from -2147483648 to 2147483647",
    ),
    (
        "[environment]\nresize = { fastest = 4 }\n[environment.arrays.cpu]\nfastest = \"cpu\"",
        "supports 4 CPUs, the length of its fastest; this machine has 8",
    ),
];

/// A copy of `wants` in `folder`, with this presets.toml.
fn with_presets(folder: &Path, presets: &str) -> PathBuf {
    let source = std::fs::read_to_string(wants()).unwrap();
    let source = source.replace("BPF_MAP_TYPE_HASH", "BPF_MAP_TYPE_ARRAY");
    std::fs::write(folder.join("presets.toml"), presets).unwrap();
    let path = folder.join("wants.bpf.c");
    std::fs::write(&path, source).unwrap();
    path
}

#[test]
fn faults_of_a_presets_file_are_bad_input_in_the_simulated_machine() {
    let folder = tempfile::tempdir().unwrap();
    for (presets, expected) in FAULTS {
        let path = with_presets(folder.path(), presets);
        let output = simulated(&["-s", path.to_str().unwrap()]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

/// Each boots a guest: one of them unless TILTYARD_ALL_CASES is set.
#[test]
fn faults_of_a_presets_file_are_bad_input_in_a_kernel() {
    let folder = tempfile::tempdir().unwrap();
    for (presets, expected) in sample::some(&FAULTS) {
        let path = with_presets(folder.path(), presets);
        let Some(mut command) = vm(&["-m", MACHINE, "-s", path.to_str().unwrap()]) else {
            return;
        };
        let output = command.args(["--no-events", "--", "true"]).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

/// The first elements of the tables of `scheduler`, read from its memory in the simulated machine after a run.
fn simulated_tables(scheduler: &str, names: &[String]) -> Vec<(String, String)> {
    let schedulers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schedulers");
    let mut source = Source::new(
        schedulers
            .join(scheduler)
            .join(format!("{scheduler}.bpf.c")),
    );
    source.include_dirs.push(schedulers.join("lib"));
    let object = Builder::default().native(&source).unwrap();
    let machine = Machine::parse_hwloc_synthetic(MACHINE).unwrap();
    let workload = r#"{ "tasks": { "hog": { "run": 1000, "loop": 1 } } }"#;
    let workload = tiltyard_workload::read(workload, "hog.json").unwrap();
    let setup = Setup {
        machine: &machine,
        workload: &workload,
        object: &object,
        globals: &[],
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: None,
        watchdog: true,
        probes: false,
    };
    let mut tables = Vec::new();
    let mut look = |instance: &Instance| {
        for name in names {
            let global = &object.tunables[name];
            let size = (global.size / global.elements) as usize;
            let at = instance.symbol(&global.symbol).unwrap();
            // SAFETY: the variable is as large as the object says.
            let bytes = unsafe { std::slice::from_raw_parts(at, global.size as usize) };
            // Those that are set: one for each CPU, or for each pair of nodes.
            let nr = match name.as_str() {
                "node_distance" => machine.node_distance.len().pow(2),
                _ => machine.nr_cpus(),
            };
            let words = bytes.chunks(size).take(nr).map(|chunk| {
                let mut word = [0; 8];
                word[..size].copy_from_slice(chunk);
                u64::from_le_bytes(word).to_string()
            });
            tables.push((name.clone(), words.collect::<Vec<_>>().join("/")));
        }
    };
    tiltyard_sim::run_then(&setup, &mut (), &mut |_| {}, &mut look).unwrap();
    tables
}

/// A run in a kernel on `MACHINE`: what the scheduler had there, read from the kernel's memory, is what it has in the simulated
/// machine, read from its memory. How many tables that are.
pub fn same_tables(run: &serde_json::Value) -> usize {
    let scheduler = run["outcome"]["ops_name"].as_str().unwrap();
    let word = |given: &serde_json::Value, key: &str| given[key].as_str().unwrap().to_owned();
    let given = run["environment"].as_array().into_iter().flatten();
    let in_kernel: Vec<(String, String)> =
        given.map(|g| (word(g, "name"), word(g, "value"))).collect();
    if in_kernel.is_empty() {
        return 0;
    }
    let names: Vec<String> = in_kernel.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(
        in_kernel,
        simulated_tables(scheduler, &names),
        "{scheduler}"
    );
    if let Some((_, cores)) = in_kernel.iter().find(|(name, _)| name == "cpu_core_id") {
        assert_eq!(cores, "0/0/1/1/2/2/3/3", "{scheduler}");
    }
    in_kernel.len()
}
