// SPDX-License-Identifier: GPL-2.0-or-later
//! A scoreboard that cannot fail proves nothing: schedulers are spoilt on purpose, each in one place, and the claims that speak
//! of that place must turn from reproduced to not-reproduced. Runs need clang-19.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// How a scheduler is spoilt.
enum Spoil {
    /// A tunable, after what experiments set.
    Tunable(&'static str),
    /// One place of one source file.
    Source {
        file: &'static str,
        from: &'static str,
        to: &'static str,
    },
}

struct Sabotage {
    what: &'static str,
    scheduler: &'static str,
    spoil: Spoil,
    turns: &'static [&'static str],
}

const fn source(file: &'static str, from: &'static str, to: &'static str) -> Spoil {
    Spoil::Source { file, from, to }
}

const SABOTAGES: [Sabotage; 21] = [
    Sabotage {
        what: "the threshold of interactivity is 60 instead of 30",
        scheduler: "ule",
        spoil: Spoil::Tunable("interact_thresh=60"),
        turns: &[
            "atc18.ule.score-and-threshold",
            "atc18.ule.threshold-60-percent-sleep",
        ],
    },
    Sabotage {
        what: "a new task inherits no sleep",
        scheduler: "ule",
        spoil: source("ule.bpf.c", "t->slept = pt->slept;", "t->slept = 0;"),
        turns: &["atc18.ule.fork-inherits-history"],
    },
    Sabotage {
        what: "a task that exits keeps its run time to itself",
        scheduler: "ule",
        spoil: source(
            "account.h",
            "history_add(ht, t->run, 0);",
            "history_add(ht, 0, 0);",
        ),
        turns: &["atc18.ule.exit-returns-runtime"],
    },
    Sabotage {
        what: "the formula that the Chinese translation prints",
        scheduler: "ule",
        spoil: source(
            "interact.h",
            "return run / (slept / 50 ?: 1);",
            "return slept / ((run + slept) / 50 ?: 1);",
        ),
        turns: &["atc18.ule.penalty-formula", "zh.formula-not-to-follow"],
    },
    Sabotage {
        what: "batch tasks go before interactive ones",
        scheduler: "ule",
        spoil: source(
            "ule.bpf.c",
            "return scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_RT), 0) ||\n\t       scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_TS), 0);",
            "return scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_TS), 0) ||\n\t       scx_bpf_dsq_move_to_local(runq_id(cpu, RUNQ_RT), 0);",
        ),
        turns: &[
            "atc18.ule.interactive-before-batch",
            "atc18.ule.batch-can-starve",
        ],
    },
    Sabotage {
        what: "starving tasks are run after 0.1 s",
        scheduler: "ule",
        spoil: Spoil::Tunable("starve_limit_ms=100"),
        turns: &["atc18.ule.batch-can-starve"],
    },
    Sabotage {
        what: "a history of 6 s",
        scheduler: "ule",
        spoil: Spoil::Tunable("history_ms=6000"),
        turns: &["atc18.ule.history-5s"],
    },
    Sabotage {
        what: "wakeups preempt",
        scheduler: "ule",
        spoil: Spoil::Tunable("mode=1"),
        turns: &[
            "atc18.ule.no-wakeup-preemption",
            "atc18.port.priority-range",
        ],
    },
    Sabotage {
        what: "a yield changes nothing",
        scheduler: "ule",
        spoil: source(
            "ule.bpf.c",
            "\tfrom->scx.slice = 0;\n\treturn false;",
            "\treturn false;",
        ),
        turns: &["atc18.port.api-table1"],
    },
    Sabotage {
        what: "a pick looks at its neighbour's load",
        scheduler: "ule",
        spoil: source(
            "ule.bpf.c",
            "\tif (take_first(cpu))\n",
            "\tif (cpu_ctx(cpu ^ 1)->load > 1000 || take_first(cpu))\n",
        ),
        turns: &["atc18.intro.local-runqueue"],
    },
    Sabotage {
        what: "a running task leaves the calendar",
        scheduler: "ule",
        spoil: source(
            "ule.bpf.c",
            "par.port ? key_slot(t->key) : SLOT_NONE",
            "SLOT_NONE",
        ),
        turns: &["atc18.port.current-stays-queued"],
    },
    Sabotage {
        what: "the last to come to a place of the queue is the first",
        scheduler: "ule",
        spoil: source(
            "runq.h",
            "place = KEY_TAIL;\n",
            "place = KEY_TAIL - (c->head_inserts++ & (KEY_TAIL / 2 - 1));\n",
        ),
        turns: &["atc18.port.current-stays-queued"],
    },
    Sabotage {
        what: "a period of 24 ms",
        scheduler: "cfs",
        spoil: Spoil::Tunable("sched_latency_ns=24000000"),
        turns: &["atc18.cfs.period-48ms"],
    },
    Sabotage {
        what: "slices of 12 ms at least",
        scheduler: "cfs",
        spoil: Spoil::Tunable("min_granularity_ns=12000000"),
        turns: &["atc18.cfs.period-6n", "atc18.cfs.vruntime-spread-6ms"],
    },
    Sabotage {
        what: "no groups",
        scheduler: "cfs",
        spoil: Spoil::Tunable("groups_on=false"),
        turns: &["atc18.cfs.group-fairness", "atc18.cfs.group-nesting"],
    },
    Sabotage {
        what: "sleepers are put behind the others",
        scheduler: "cfs",
        spoil: source("fair.h", "v -= latency_ns / 2;", "v += latency_ns;"),
        turns: &["atc18.cfs.sleepers-run-first"],
    },
    Sabotage {
        what: "a credit that no rule gives",
        scheduler: "cfs",
        spoil: Spoil::Tunable("sleeper_credit=2"),
        turns: &["atc18.cfs.wakeup-min-vruntime"],
    },
    Sabotage {
        what: "weights off by one",
        scheduler: "cfs",
        spoil: source(
            "cfs.bpf.c",
            "load_of_nice(&e->load, nice,",
            "load_of_nice(&e->load, nice + 1,",
        ),
        turns: &["atc18.cfs.vruntime-definition"],
    },
    Sabotage {
        what: "no weights",
        scheduler: "cfs",
        spoil: source(
            "fair.h",
            "e->vruntime += calc_delta_fair(ran_ns, &e->load);",
            "e->vruntime += ran_ns;",
        ),
        turns: &["atc18.cfs.nice-weighting", "atc18.cfs.vruntime-definition"],
    },
    Sabotage {
        what: "the second in line is picked",
        scheduler: "cfs",
        spoil: source(
            "fair.h",
            "\tpick = left;",
            "\tpick = heap_second(q) ?: left;",
        ),
        turns: &["atc18.cfs.pick-lowest-vruntime"],
    },
    Sabotage {
        what: "wakeups preempt from 2 ms on",
        scheduler: "cfs",
        spoil: Spoil::Tunable("wakeup_granularity_ns=2000000"),
        turns: &["atc18.cfs.wakeup-preempt-1ms"],
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Verdicts on these claims with one seed.
fn verdicts(ids: &BTreeSet<&str>, instead: Option<&str>) -> BTreeMap<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiltyard"));
    command.current_dir(root()).env_remove("TILTYARD_DATA");
    command
        .args(["reproduce", "--seeds", "1", "--format", "json"])
        .args(ids);
    if let Some(instead) = instead {
        command.args(["--instead", instead]);
    }
    let output = command.output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.iter()
        .map(|v| (text(&v["id"]), text(&v["verdict"])))
        .collect()
}

/// The scheduler's preset of its own name as tunables: a path brings none.
fn preset(scheduler: &str) -> String {
    let file = root().join(format!("schedulers/{scheduler}/presets.toml"));
    let presets: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
    let set = presets[scheduler]["set"].as_table().unwrap();
    set.iter()
        .map(|(name, value)| format!(":{name}={value}"))
        .collect()
}

/// What goes in the scheduler's place. Copies live in `folder`.
fn spoilt(sabotage: &Sabotage, folder: &Path) -> String {
    let name = sabotage.scheduler;
    match sabotage.spoil {
        Spoil::Tunable(tunable) => format!("{name}={name}:{tunable}"),
        Spoil::Source { file, from, to } => {
            for entry in root().join("schedulers").join(name).read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
                }
            }
            let path = folder.join(file);
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches(from).count(), 1, "{}: {from}", sabotage.what);
            fs::write(&path, text.replace(from, to)).unwrap();
            format!("{name}={}/{name}.bpf.c{}", folder.display(), preset(name))
        }
    }
}

#[test]
fn verdicts_turn_when_a_scheduler_is_spoilt() {
    let all: BTreeSet<&str> = SABOTAGES.iter().flat_map(|s| s.turns).copied().collect();
    assert!(all.len() >= 10);
    for (id, verdict) in verdicts(&all, None) {
        assert_eq!(verdict, "reproduced", "{id}, before anything is spoilt");
    }
    let mut survived = Vec::new();
    for sabotage in &SABOTAGES {
        let folder = TempDir::new().unwrap();
        let instead = spoilt(sabotage, folder.path());
        let ids = sabotage.turns.iter().copied().collect();
        for (id, verdict) in verdicts(&ids, Some(&instead)) {
            if verdict != "not-reproduced" {
                survived.push(format!("{}: {id} is {verdict}", sabotage.what));
            }
        }
    }
    assert!(survived.is_empty(), "\n{}", survived.join("\n"));
}
