// SPDX-License-Identifier: GPL-2.0-or-later
//! What the tracer reports of a real kernel agrees with the kernel's own accounting, and is the same every time where
//! the machine is. Boots guests under emulation; skips, with a word why, where that cannot be done.

use std::io::Write;
use std::path::PathBuf;

use tiltyard_build::{Builder, Source};
use tiltyard_kernel::{
    Accel, Progress, SchedulerJob, Trace, VmJob, elf, host, packages, trace, vm,
};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::Machine;

/// Computes for a while, then prints what the kernel has counted for it: time on the CPU, time waiting for it (ns),
/// and turns on it. Twice at the same time, so that there is something to wait for.
const SCRIPT: &str = "work() { i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; }; \
    work & work; read run wait turns < /proc/$$/schedstat; echo $$ $run $wait $turns; wait";

#[test]
fn runtime_and_wait_are_what_the_kernel_counts() {
    for version in ["6.18", "6.1"] {
        let Some((traces, output)) = counted(version, &["default"]) else {
            return;
        };
        let numbers: Vec<u64> = output
            .split_whitespace()
            .map(|word| word.parse().expect("numbers"))
            .collect();
        let [pid, run_ns, wait_ns, turns] = numbers[..] else {
            panic!("{output}")
        };
        let summary = summary(&traces[0]);
        let task = summary.tasks.iter().find(|t| u64::from(t.tid) == pid);
        let task = task.expect("the shell was recorded");
        // It goes on for a moment after it has asked.
        let near =
            |ours: u64, kernels: u64| ours >= kernels && ours < kernels + kernels / 10 + 1_000_000;
        assert!(
            near(task.runtime_ns, run_ns),
            "{version}: {task:#?} {output}"
        );
        assert!(near(task.wait_ns, wait_ns), "{version}: {task:#?} {output}");
        assert!(turns > 4, "they took turns: {output}");
        assert_eq!(traces[0].lost, 0);
        for cpu in &summary.cpus {
            assert_eq!(cpu.busy_ns + cpu.idle_ns, summary.duration_ns);
        }
    }
}

#[test]
fn with_instructions_counted_a_real_kernel_does_the_same_every_time() {
    let schedulers = ["default", "fifo"];
    let (Some(first), Some(again)) = (counted("6.18", &schedulers), counted("6.18", &schedulers))
    else {
        return;
    };
    assert_eq!(first.0.len(), schedulers.len());
    for (first, again) in first.0.iter().zip(&again.0) {
        assert!(first == again, "run {} differs", first.run);
    }
    let [default, fifo] = &first.0[..] else {
        panic!("two runs")
    };
    let switches = |trace| summary(trace).switches.total();
    assert_ne!(switches(default), switches(fifo), "the schedulers differ");
}

/// Before 6.5 only the first one is started at boot (`hardware.rs` says why).
#[test]
fn an_old_kernel_has_all_its_cpus_with_instructions_counted() {
    let script = "read cpus < /sys/devices/system/cpu/online; echo $cpus";
    if let Some((_, output)) = counted_on("pu:2", "6.1", &["default"], script) {
        assert_eq!(output.trim(), "0-1");
    }
}

fn summary(trace: &Trace) -> Summary {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: trace.origin_ns,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    trace.replay(&mut recorder);
    recorder.finish(trace.end_ns)
}

/// Traces and output of [`SCRIPT`] on one CPU whose instructions are counted, under kernel `version`.
fn counted(version: &str, schedulers: &[&str]) -> Option<(Vec<Trace>, String)> {
    counted_on("pu:1", version, schedulers, SCRIPT)
}

/// Those of another script, on any machine.
fn counted_on(
    machine: &str,
    version: &str,
    schedulers: &[&str],
    script: &str,
) -> Option<(Vec<Trace>, String)> {
    let mut job = VmJob::new(["sh", "-c", script].map(str::to_owned).to_vec());
    job.init = env!("CARGO_BIN_EXE_tiltyard-guest").into();
    job.boot_limit_s = 120;
    job.kernel_version = version.to_owned();
    job.machine = Machine::parse_hwloc_synthetic(machine).expect("a topology");
    job.accel = Some(Accel::Counted);
    job.tracer = Some(tracer());
    job.schedulers = schedulers.iter().map(|name| scheduler(name)).collect();
    let mut missing = host::check(version).vm;
    missing.extend(elf::find_command("sh").err().map(|e| e.to_string()));
    if missing.is_empty() {
        let fetched = packages::find_or_fetch(version, &mut Output::default());
        missing.extend(fetched.err().map(|e| e.to_string()));
    }
    if !missing.is_empty() {
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "skipped: {}", missing.join("; "));
        return None;
    }
    let (mut traces, mut output) = (Vec::new(), Output::default());
    let report = vm::run(&job, &mut output, &mut |trace| traces.push(trace));
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    assert!(report.is_success(), "{report:#?}");
    Some((traces, output.0))
}

fn scheduler(name: &str) -> SchedulerJob {
    let schedulers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schedulers");
    let compiled = || {
        let mut source = Source::new(schedulers.join(name).join(format!("{name}.bpf.c")));
        source.include_dirs.push(schedulers.join("lib"));
        Builder::default()
            .bpf_object(&source)
            .expect("it builds")
            .path
    };
    SchedulerJob {
        object: (name != "default").then(compiled),
        ..SchedulerJob::own(name)
    }
}

fn tracer() -> PathBuf {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("tracer.bpf.c");
    std::fs::write(&source, trace::SOURCE).expect("a temporary file");
    let object = Builder::default().bpf_object(&Source::new(source));
    object.unwrap_or_else(|error| panic!("{error}")).path
}

#[derive(Default)]
struct Output(String);

impl Progress for Output {
    fn step(&mut self, _what: &str) {}

    fn output(&mut self, _scheduler: &str, text: &str) {
        self.0.push_str(text);
    }
}
