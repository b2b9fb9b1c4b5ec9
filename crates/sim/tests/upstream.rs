// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own example schedulers, not a line changed, from the distribution's linux-source-6.12: each runs a
//! mixed workload to its end on 1 to 256 CPUs, with every task and every nanosecond accounted for.

use crate::common::{Lab, Ran, check_books, costed, ideal, kernel_example, object, parse};
use tiltyard_model::Machine;
use tiltyard_sim::ExitKind;

const MS: u64 = 1_000_000;

/// CPUs and a machine of that size without SMT, so that work takes what it asks for.
const SIZES: [(u32, &str); 4] = [
    (1, "pu:1"),
    (8, "package:1 [numa] l3:2 core:4 pu:1"),
    (64, "package:2 [numa] l3:4 core:8 pu:1"),
    (256, "package:4 [numa] l3:8 core:8 pu:1"),
];

/// Tasks of the workload on so many CPUs: name, how many in all, work of each in ns.
fn tasks(nr_cpus: u32) -> Vec<(&'static str, u64, u64)> {
    let n = u64::from(nr_cpus);
    vec![
        ("hog", n, 120 * MS),
        ("sleeper", 2 * n, 20 * 2 * MS),
        ("nice", 3, 60 * MS),
        ("pinned", 3, 30 * MS),
        ("parent", 4, 4 * MS),
        ("child", 16, 5 * MS),
        ("sender", n, 10 * MS),
        ("receiver", n, 10 * MS),
        ("yielder", 2, 5 * MS),
        ("realtime", 1, 5 * MS),
    ]
}

/// Finite runs, sleeps, forks, semaphores, nice values, pinned tasks, yields and a realtime task.
fn workload(nr_cpus: u32) -> String {
    let (n, twice, last) = (nr_cpus, 2 * nr_cpus, nr_cpus - 1);
    format!(
        r#"{{
    "tiltyard": {{
        "apps": {{ "mixed": {{ "history": 0 }} }},
        "semaphores": {{ "ping": {{ "count": {n} }}, "pong": {{ "count": {n} }} }}
    }},
    "tasks": {{
        "hog": {{ "instance": {n}, "loop": 1, "run": 120000 }},
        "sleeper": {{ "instance": {twice}, "loop": 20, "run": 2000, "sleep": 3000 }},
        "nice": {{ "instance": 3, "loop": 3, "priority": 10, "run": 20000,
                   "tiltyard": {{ "set": {{ "nice": -5 }} }} }},
        "pinned": {{ "instance": 3, "loop": 3, "cpus": [{last}], "run": 10000, "sleep": 1000 }},
        "parent": {{ "instance": 4, "loop": 4, "run": 1000,
                     "tiltyard": {{ "spawn": "child", "join": true }} }},
        "child": {{ "instance": 0, "loop": 1, "run": 5000 }},
        "sender": {{ "instance": {n}, "loop": 10,
                     "tiltyard": {{ "run": 1000, "sem_post": "ping[i]", "sem_wait": "pong[i]" }} }},
        "receiver": {{ "instance": {n}, "loop": 10,
                       "tiltyard": {{ "sem_wait": "ping[i]", "run": 1000, "sem_post": "pong[i]" }} }},
        "yielder": {{ "instance": 2, "loop": 5, "run": 1000, "yield": "" }},
        "realtime": {{ "loop": 5, "policy": "SCHED_FIFO", "priority": 10, "run": 1000, "sleep": 7000 }}
    }}
}}"#
    )
}

fn check(scheduler: &str, machine: &Machine, ran: &Ran) {
    let nr_cpus = machine.nr_cpus() as u32;
    let place = format!("{scheduler} on {nr_cpus} CPUs");
    assert_eq!(
        ran.outcome.exit.kind,
        ExitKind::Unreg,
        "{place}: {}",
        ran.outcome.exit.message
    );
    assert_eq!(ran.outcome.tasks_left, 0, "{place}");
    let expected = tasks(nr_cpus);
    let total: u64 = expected.iter().map(|(_, count, _)| count).sum();
    assert_eq!(ran.outcome.tasks_total, total, "{place}");
    for (name, count, work_ns) in expected {
        let of_spec = |t: &&tiltyard_measure::TaskSummary| t.name.split('-').next() == Some(name);
        let tasks: Vec<_> = ran.summary.tasks.iter().filter(of_spec).collect();
        assert_eq!(tasks.len() as u64, count, "{place}: {name}");
        for task in tasks {
            assert!(
                task.ended_ns.is_some(),
                "{place}: {} never ended",
                task.name
            );
            let worked_ns = task.runtime_ns - task.overhead_ns;
            assert_eq!(worked_ns, work_ns, "{place}: {} worked", task.name);
        }
    }
    check_books(ran);
}

fn runs_everything(scheduler: &str) {
    let Some(path) = kernel_example(scheduler) else {
        eprintln!("skipped: the package linux-source-6.12 is not installed");
        return;
    };
    for (nr_cpus, topology) in SIZES {
        let workload = parse(&workload(nr_cpus));
        for machine in [ideal(topology, 250), costed(topology, 1000)] {
            assert_eq!(machine.nr_cpus() as u32, nr_cpus);
            let mut lab = Lab::new(&machine, object(&path, 2));
            // What has not ended by then hangs.
            lab.duration_ns = Some(600_000 * MS);
            lab.watchdog = true;
            let ran = lab
                .run(&workload)
                .unwrap_or_else(|e| panic!("{scheduler}: {e}"));
            check(scheduler, &machine, &ran);
        }
    }
}

#[test]
fn scx_simple() {
    runs_everything("scx_simple");
}

#[test]
fn scx_qmap() {
    runs_everything("scx_qmap");
}

/// One CPU schedules for all others, with endless slices and a timer.
#[test]
fn scx_central() {
    runs_everything("scx_central");
}
