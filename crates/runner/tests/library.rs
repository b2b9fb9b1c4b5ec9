// SPDX-License-Identifier: GPL-2.0-or-later
//! The library as another program calls it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tiltyard_runner::grid::{self, Grid, Outputs};
use tiltyard_runner::grouping::By;
use tiltyard_runner::objects::{self, Built};
use tiltyard_runner::origin::SimShared;
use tiltyard_runner::simulation::{self, Experiment, Written};
use tiltyard_runner::{Error, Progress, Total, machines, schedulers, workloads};

const DURATION_NS: u64 = 200_000_000;

/// Counts the calls that it gets; with `stop` it wants no more runs.
#[derive(Default)]
struct Listener {
    total: Mutex<Option<Total>>,
    simulated_ns: AtomicU64,
    stop: bool,
}

impl Progress for Listener {
    fn begin(&self, total: Total) {
        *self.total.lock().unwrap() = Some(total);
    }

    fn simulated(&self, ns: u64) {
        self.simulated_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn stop(&self) -> Option<String> {
        self.stop.then(|| "enough".to_owned())
    }
}

fn built(argument: &str) -> Built {
    objects::native(&schedulers::choose(argument).unwrap(), false).unwrap()
}

/// Seeds 1 and 2 of the schedulers, with the hash of each run.
fn hashes(built: &[Built], threads: usize, progress: &Listener) -> Vec<Result<String, Error>> {
    let workload = workloads::load("pingpong").unwrap();
    let machine = machines::load("smp2").unwrap();
    let experiment = Experiment {
        duration_ns: Some(DURATION_NS),
        ..Experiment::new(&machine, &workload)
    };
    let runs = Grid {
        experiment: &experiment,
        schedulers: built,
        seeds: &[1, 2],
        by: By::App,
        threads,
    };
    let outputs = Outputs {
        written: Mutex::default(),
        tables: None,
        events: None,
        timeline: None,
        shared: SimShared {
            description: String::new(),
            duration_ns: None,
            command: String::new(),
            schedulers: built.len(),
            timeline_from_ns: 0,
        },
        workload_sha256: String::new(),
        machine_sha256: String::new(),
        command: &|_, _| String::new(),
    };
    let cells = grid::run(&runs, &outputs, progress).unwrap();
    let hash = |cell: Result<grid::Cell, Error>| cell.map(|cell| cell.run.trace_hash);
    cells.into_iter().map(hash).collect()
}

#[test]
fn runs_side_by_side_are_those_done_alone() {
    let schedulers = [built("fifo"), built("fifo:slice_ms=5")];
    let progress = Listener::default();
    let together = hashes(&schedulers, 4, &progress);
    let alone = hashes(&schedulers, 1, &Listener::default());
    let unwrap = |all: Vec<Result<String, Error>>| -> Vec<String> {
        all.into_iter().map(Result::unwrap).collect()
    };
    let (together, alone) = (unwrap(together), unwrap(alone));
    assert_eq!(together, alone);
    assert_eq!(together.len(), 4);
    assert_ne!(together[0], together[1], "seeds differ");
    let total = *progress.total.lock().unwrap();
    assert_eq!(total, Some(Total::SimulatedNs(4 * DURATION_NS)));
    assert!(progress.simulated_ns.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_caller_that_wants_no_more_gets_no_more_runs() {
    let progress = Listener {
        stop: true,
        ..Listener::default()
    };
    let stopped = hashes(&[built("fifo")], 2, &progress);
    assert_eq!(stopped.len(), 2);
    for cell in stopped {
        assert!(matches!(cell, Err(Error::Stopped(why)) if why == "enough"));
    }
    assert_eq!(progress.simulated_ns.load(Ordering::Relaxed), 0);
}

#[test]
fn errors_are_kinds_without_flags() {
    let error = schedulers::choose("fifi").unwrap_err();
    assert!(matches!(
        &error,
        Error::Argument {
            of: "scheduler",
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .starts_with("scheduler fifi: no scheduler")
    );
    let error = machines::load("opteron").unwrap_err();
    assert!(matches!(error, Error::Argument { of: "machine", .. }));
    let error = workloads::load("pingpongg").unwrap_err();
    assert!(matches!(error, Error::Argument { of: "workload", .. }));
    let choice = schedulers::choose("fifo:nothing=1").unwrap();
    let error = objects::native(&choice, false).err().unwrap();
    assert!(matches!(
        error,
        Error::Argument {
            of: "scheduler",
            ..
        }
    ));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    std::fs::write(&file, "{ \"tasks\": { \"a\": { \"runn\": 1 } } }").unwrap();
    match workloads::load(file.to_str().unwrap()).unwrap_err() {
        Error::Input(faults) => {
            let span = faults[0].span.as_ref().unwrap();
            assert_eq!(&span.text[span.span.clone()], "\"runn\"");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_scheduler_that_does_not_compile_is_a_build_error() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("my.bpf.c");
    std::fs::write(&source, "int main(").unwrap();
    let choice = schedulers::choose(source.to_str().unwrap()).unwrap();
    let error = objects::native(&choice, false).err().unwrap();
    assert!(matches!(error, Error::Build(_)), "{error}");
}

#[test]
fn a_run_alone_has_metrics() {
    let workload = workloads::load("pingpong").unwrap();
    let machine = machines::load(machines::DEFAULT).unwrap();
    let experiment = Experiment {
        duration_ns: Some(DURATION_NS),
        ..Experiment::new(&machine, &workload)
    };
    let run = simulation::run(
        &experiment,
        &built("fifo"),
        1,
        Written::default(),
        &mut (),
        &(),
    )
    .unwrap();
    assert_eq!(run.summary.duration_ns, DURATION_NS);
    assert!(run.summary.apps.iter().any(|app| app.wakeup.p99_ns > 0));
}
