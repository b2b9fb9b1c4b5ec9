// SPDX-License-Identifier: GPL-2.0-or-later
//! Every shipped workload is read, explains itself, and says what its source says.

use std::path::{Path, PathBuf};
use tiltyard_workload::*;

/// Files of the catalogue, subfolders included.
fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let mut files = files_below(&folder);
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("workloads/");
    let paths = entries.map(|entry| entry.expect("entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_below(&path),
            false => vec![path],
        })
        .collect()
}

fn workload(file: &Path) -> Workload {
    let text = std::fs::read_to_string(file).expect("readable");
    read(&text, &file.to_string_lossy()).unwrap_or_else(|errors| {
        let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

#[test]
fn all_are_read_and_explained() {
    let files = shipped();
    assert!(!files.is_empty());
    for file in files {
        let w = workload(&file);
        assert_eq!(
            Some(w.name.as_str()),
            file.file_stem().and_then(|stem| stem.to_str())
        );
        assert!(w.description.len() > 80, "{} explains itself", w.name);
    }
}

/// A name without its folder means one workload.
#[test]
fn no_name_is_there_twice() {
    let files = shipped();
    let names: std::collections::BTreeSet<_> = files.iter().map(|f| f.file_stem()).collect();
    assert_eq!(names.len(), files.len());
}

fn named(name: &str) -> Workload {
    let file = shipped()
        .into_iter()
        .find(|file| file.file_stem().is_some_and(|stem| stem == name));
    workload(&file.unwrap_or_else(|| panic!("{name} is not shipped")))
}

fn task<'w>(w: &'w Workload, name: &str) -> &'w TaskSpec {
    w.tasks
        .iter()
        .find(|task| task.name == name)
        .unwrap_or_else(|| panic!("{}: no task {name}", w.name))
}

/// Mean of the CPU time that these events take, in ns; forks and waits take none.
fn work_ns(ops: &[Op]) -> u64 {
    let of = |op: &Op| match op {
        Op::Run(Dist::Const(ns)) | Op::Run(Dist::Exp { mean: ns }) => *ns,
        Op::Repeat { count, body } => count * work_ns(body),
        _ => 0,
    };
    ops.iter().map(of).sum()
}

/// The body of the block that `pick` finds in a task.
fn block(task: &TaskSpec, pick: fn(&Op) -> Option<&Vec<Op>>) -> &[Op] {
    task.phases[0].ops.iter().find_map(pick).expect("block")
}

fn counted(op: &Op) -> Option<&Vec<Op>> {
    if let Op::Countdown { body, .. } = op {
        Some(body)
    } else {
        None
    }
}

fn warming(op: &Op) -> Option<&Vec<Op>> {
    if let Op::Until { body, .. } = op {
        Some(body)
    } else {
        None
    }
}

#[test]
fn the_issue_catalogue_is_complete() {
    for name in [
        "fibo",
        "sysbench-1c",
        "fibo-sysbench-1c",
        "sysbench-128",
        "hackbench",
        "apache",
        "mix-hog-sleepers",
        "pingpong",
        "micro-hogs",
        "micro-nice",
        "micro-groups",
        "micro-groups-nested",
        "micro-newborn",
        "micro-wake",
        "micro-sleeper",
        "micro-forktree",
        "micro-interactive-flood",
        "micro-api",
        "slice-gamer",
        "burst-exp",
    ] {
        named(name);
    }
}

/// "The Battle of the Schedulers", Table 2: 532 transactions a second are 1.88 ms of CPU time each.
#[test]
fn a_transaction_takes_one_532nd_of_a_second() {
    for name in [
        "sysbench",
        "sysbench-1c",
        "fibo-sysbench-1c",
        "sysbench-128",
    ] {
        let w = named(name);
        let client = block(task(&w, "client"), counted);
        let server = work_ns(&task(&w, "server").phases[0].ops);
        assert_eq!(work_ns(client), 20 * 14_000, "{name}");
        assert_eq!(
            server,
            20 * 69_500 + 20_000,
            "{name}: 20 queries and the log"
        );
        // What two switches with cold caches and the callbacks of a query cost beside its own work.
        let beside = 20 * 10_500;
        let queries = work_ns(client) + server - 20_000 + beside;
        assert_eq!(queries, 1_880_000, "{name}");
        // Warm-up and measurement do the same but for the name of the request.
        assert_eq!(client[1], block(task(&w, "client"), warming)[1], "{name}");
    }
}

#[test]
fn sysbench_counts_what_it_measures() {
    for (name, clients) in [
        ("sysbench-1c", 80),
        ("fibo-sysbench-1c", 80),
        ("sysbench-128", 128),
    ] {
        let w = named(name);
        assert_eq!(w.counters[0].start, 58_650, "{name}");
        assert_eq!(w.barriers[0].parties, clients, "{name}");
        let arrays = [
            w.sems
                .iter()
                .filter(|sem| sem.name.starts_with("req["))
                .count(),
            w.sems.len() / 2,
        ];
        assert_eq!(arrays, [clients as usize; 2], "{name}");
        let spawned = |parent: &str| {
            let repeats = task(&w, parent).phases[0]
                .ops
                .iter()
                .filter_map(|op| match op {
                    Op::Repeat { count, body }
                        if body
                            .iter()
                            .any(|op| matches!(op, Op::Spawn { count: 1, .. })) =>
                    {
                        Some(*count)
                    }
                    _ => None,
                });
            repeats.sum::<u64>()
        };
        assert_eq!(
            [spawned("master"), spawned("mysqld")],
            [u64::from(clients); 2],
            "{name}"
        );
        let launch = task(&w, "master").delay_ns;
        let Some(Op::Until { time_ns, .. }) = task(&w, "client").phases[0]
            .ops
            .iter()
            .find(|op| warming(op).is_some())
        else {
            panic!("{name}: no warm-up")
        };
        assert_eq!(time_ns - launch, 26_000_000_000, "{name}: unmeasured part");
    }
}

/// Fibo's group competes with all of sysbench: two groups, not three.
#[test]
fn fibo_and_sysbench_are_two_groups_of_one_weight() {
    let w = named("fibo-sysbench-1c");
    let groups: Vec<_> = w
        .groups
        .iter()
        .map(|group| (group.path.as_str(), group.parent, group.weight))
        .collect();
    assert_eq!(groups, [("/fibo", None, 100), ("/sysbench", None, 100)]);
    let group_of = |name: &str| w.apps[task(&w, name).app].group;
    assert_eq!(group_of("fibo"), Some(0));
    for name in ["mysqld", "server", "master", "client"] {
        assert_eq!(group_of(name), Some(1), "{name}");
    }
    let fibo = task(&w, "fibo");
    assert_eq!(
        (
            work_ns(&fibo.phases[0].ops),
            fibo.delay_ns,
            fibo.working_set_bytes
        ),
        (158_000_000_000, 0, 16 << 10)
    );
    assert!(!fibo.thread && !fibo.daemon);
}

/// What is spawned must end when its users do, and what the run waits for must end.
#[test]
fn servers_are_daemons_and_clients_end() {
    for name in [
        "sysbench",
        "sysbench-1c",
        "fibo-sysbench-1c",
        "sysbench-128",
        "apache",
    ] {
        for task in &named(name).tasks {
            assert_eq!(
                task.daemon,
                task.loops.is_none() || task.name == "mysqld" || task.name == "httpd",
                "{name}: {}",
                task.name
            );
        }
    }
}

/// Each message is read once, and no index leaves its array.
#[test]
fn hackbench_reads_what_it_writes() {
    let w = named("hackbench");
    assert_eq!((w.pipes.len(), w.barriers[0].parties), (200, 400));
    let mut written = vec![0u64; w.pipes.len()];
    let Op::Repeat {
        count: rounds,
        body,
    } = &task(&w, "sender").phases[0].ops[1]
    else {
        panic!()
    };
    let Op::Repeat {
        count: receivers,
        body,
    } = &body[0]
    else {
        panic!()
    };
    let Some(Op::PipeWrite { pipe, bytes: 100 }) = body.last() else {
        panic!()
    };
    for sender in 0..200 {
        for receiver in 0..*receivers as i64 {
            let at = pipe.index.eval(sender, &[0, receiver]).expect("an index");
            assert_eq!(at / 20, sender / 20, "stays in its group");
            written[pipe.first + at as usize] += rounds;
        }
    }
    let Op::Repeat { count: reads, .. } = &task(&w, "receiver").phases[0].ops[1] else {
        panic!()
    };
    assert!(written.iter().all(|messages| messages == reads));
}

/// "The Battle of the Schedulers", section 5.3: 26 us of work a request.
#[test]
fn a_web_request_takes_26_us() {
    let w = named("apache");
    let Some(Op::Repeat { body, .. }) = task(&w, "ab").phases[0].ops.get(1) else {
        panic!()
    };
    assert_eq!(
        work_ns(body) + work_ns(&task(&w, "worker").phases[0].ops),
        26_000
    );
    assert_eq!(w.groups.len(), 1);
    let done: u64 = task(&w, "ab").phases[0]
        .ops
        .iter()
        .map(|op| match op {
            Op::Repeat { count, body } if body.iter().any(|op| matches!(op, Op::Done { .. })) => {
                *count
            }
            _ => 0,
        })
        .sum();
    assert_eq!(done, 40_000);
}

/// Two of the catalogue are plain rt-app files, and stay it.
#[test]
fn plain_files_can_be_given_to_rt_app() {
    for name in ["micro-nice", "mix-hog-sleepers"] {
        let w = named(name);
        let text = write(&w, Dialect::RtApp).expect(name);
        let again = read(&text, &format!("{name}.json")).expect(name);
        assert_eq!(again.tasks, w.tasks, "{name}");
    }
}

#[test]
fn all_survive_being_written() {
    for file in shipped() {
        let w = workload(&file);
        let text = write(&w, Dialect::Tiltyard).unwrap_or_else(|e| panic!("{}: {e}", w.name));
        assert_eq!(read(&text, "other.json").as_ref(), Ok(&w), "{}", w.name);
    }
}
