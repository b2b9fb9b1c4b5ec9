// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernel threads that belong to a CPU are served under every scheduler that ships, whatever else wants the CPU.

use crate::common::{Lab, ideal, object, parse, repository};
use tiltyard_model::machine::Noise;
use tiltyard_native::Value;

const MS: u64 = 1_000_000;

/// Twice what two CPUs can do, of tasks that sleep most of the time; and kernel threads that have much to do.
const FLOOD: &str = r#"{ "tasks": {
    "hog": { "instance": 2, "run": 60000000 },
    "sleeper": { "instance": 40, "loop": -1, "run": 1000, "sleep": 9000 } } }"#;

/// What a real kernel gets: the scheduler's `[kernel]` table.
fn in_kernel(scheduler: &str) -> Vec<(String, Value)> {
    let file = repository().join(format!("schedulers/{scheduler}/presets.toml"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let table = text.split("[kernel]\n").nth(1).unwrap_or_default();
    let set = table.lines().next().unwrap_or_default();
    let values = set
        .trim_start_matches("set = {")
        .trim_end_matches('}')
        .split(',');
    values
        .filter_map(|value| value.split_once('='))
        .map(|(name, value)| {
            let value = match value.trim() {
                "true" => Value::Int(1),
                number => Value::Int(number.parse().expect("a number or true")),
            };
            (name.trim().to_owned(), value)
        })
        .collect()
}

#[test]
fn a_cpus_kernel_thread_never_waits_for_long() {
    let mut machine = ideal("package:1 core:2 pu:1", 250);
    machine.noise = vec![Noise::workers(20 * MS, 50 * MS)];
    let workload = parse(FLOOD);
    for entry in std::fs::read_dir(repository().join("schedulers")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if !entry.path().join(format!("{name}.bpf.c")).is_file() {
            continue;
        }
        let globals = in_kernel(&name);
        // Its turn in a queue of 40 tasks that run for 1 ms, and of hogs that have whole slices. Where all tasks have a turn in a
        // rotation, whose length is limited in a kernel, one of these: 21 tasks on each CPU, with 120 ms each.
        let rotates = globals.iter().any(|(name, _)| name == "rotation_limit_ms");
        let most_ms = if rotates { 21 * 120 } else { 500 };
        let mut lab = Lab::new(&machine, object(&name, 2));
        lab.globals = &globals;
        lab.duration_ns = Some(10_000 * MS);
        let ran = lab.run(&workload).unwrap_or_else(|e| panic!("{name}: {e}"));
        let threads = ran.summary.tasks.iter();
        let threads: Vec<_> = threads.filter(|t| t.name.starts_with("kworker/")).collect();
        assert_eq!(threads.len(), 2, "{name}: one for each CPU");
        for thread in threads {
            let wait_ms = thread.longest_wait_ns / MS;
            assert!(
                wait_ms < most_ms,
                "{name}: {} waited {wait_ms} ms",
                thread.name
            );
            assert!(thread.runtime_ns > 100 * MS, "{name}: {thread:?}");
        }
    }
}
