// SPDX-License-Identifier: GPL-2.0-or-later
//! The conformance cases in a real kernel, Linux 6.18 in guests whose clock counts instructions: one instruction is a
//! nanosecond, what the host does in the meantime changes nothing, and several CPUs share one stream of instructions.
//!
//! Cases that want the same CPUs share a guest. What they want is found by calling them: a case that asks for a run
//! which nobody has made yet is left there, and called again when the next guests have made it.
//!
//! A sample of the cases, another one whenever a case or its scheduler changes; all with TILTYARD_ALL_CASES=1, or those that
//! the command line names.

mod arm;
mod cases;
mod kernel_exceptions;
mod kernel_log;

use arm::{Arm, Case, Log};
use kernel_exceptions::NOT_HERE;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use tiltyard_build::{Builder, Source};
use tiltyard_kernel::{
    Accel, KernelError, Progress, RunReport, SchedulerJob, Trace, Tunable, VmJob, host, packages,
    trace, vm,
};
use tiltyard_model::Machine;

const KERNEL: &str = "6.18";
/// Its CONFIG_HZ.
const TICK_HZ: u32 = 250;
/// Nobody looks at a run while it runs: whoever looks takes a CPU.
const WATCH_MS: u64 = 20_000;

/// What guests' random numbers begin with.
const FIRST_SEED: u32 = 1;
/// And those of the guests in which a case that did not hold is tried again.
const FURTHER_SEEDS: [u32; 5] = [2, 3, 4, 5, 6];

/// A run that takes longer hangs.
const RUN_LIMIT_S: u64 = 60;

/// One of so many cases is in a sample.
const SAMPLE: u64 = 24;

type Logs = BTreeMap<Case, Log>;
type Body = fn(&Known);

macro_rules! tests {
    ($($module:ident { $($case:ident),* $(,)? })*) => {
        const BODIES: &[(&str, Body)] = &[$($(
            (concat!(stringify!($module), "::", stringify!($case)), |arm: &Known| cases::$module::$case(arm)),
        )*)*];
        $(mod $module { $(
            #[test]
            fn $case() {
                crate::test(concat!(stringify!($module), "::", stringify!($case)));
            }
        )* })*
    };
}

for_each_case!(tests);

/// All runs of the cases that were asked for. Err: why there can be none here.
static LOGS: LazyLock<Result<Logs, String>> = LazyLock::new(|| {
    let missing = missing();
    if !missing.is_empty() {
        return Err(missing.join("; "));
    }
    let mut logs = Logs::new();
    loop {
        let mut wanted = Vec::new();
        for (_, body) in BODIES.iter().filter(|(name, _)| is_asked_for(name)) {
            let known = Known::new(&logs);
            let _ = catch_unwind(AssertUnwindSafe(|| body(&known)));
            wanted.extend(known.wanted.into_inner().expect("nobody panics with it"));
        }
        if wanted.is_empty() {
            return Ok(logs);
        }
        logs.extend(run_all(wanted, FIRST_SEED));
    }
});

fn missing() -> Vec<String> {
    let mut missing = host::check(KERNEL).vm;
    if missing.is_empty() {
        let fetched = packages::find_or_fetch(KERNEL, &mut Quiet);
        missing.extend(fetched.err().map(|e| e.to_string()));
    }
    missing
}

/// Whether this case is among the tests that the command line names, and can be had.
fn is_asked_for(name: &str) -> bool {
    let mut filters = filters().peekable();
    let named = filters.peek().is_none() || filters.any(|filter| name.contains(&filter));
    named && why_not(name).is_none()
}

fn filters() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|a| !a.starts_with('-'))
}

fn why_not(name: &str) -> Option<&'static str> {
    let found = NOT_HERE.iter().find(|(case, _)| *case == name);
    let sampled =
        || (!is_in_sample(name)).then_some("not in this sample; TILTYARD_ALL_CASES=1 runs all");
    found.map(|(_, why)| *why).or_else(sampled)
}

/// Whether a run of all tests runs this case.
fn is_in_sample(name: &str) -> bool {
    static SOURCES: LazyLock<u64> = LazyLock::new(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance");
        let mut hasher = DefaultHasher::new();
        for folder in ["cases", "schedulers"] {
            let entries = here.join(folder).read_dir().expect("the cases");
            let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a file").path()).collect();
            paths.sort();
            let text = |path: &PathBuf| std::fs::read(path).expect("a file");
            paths
                .iter()
                .map(text)
                .for_each(|text| text.hash(&mut hasher));
        }
        hasher.finish()
    });
    if filters().next().is_some() || std::env::var_os("TILTYARD_ALL_CASES").is_some() {
        return true;
    }
    let mut hasher = DefaultHasher::new();
    (name, *SOURCES).hash(&mut hasher);
    hasher.finish().is_multiple_of(SAMPLE)
}

fn test(name: &str) {
    // Not eprintln!, which the test harness keeps to itself when a test passes.
    let skip = |why: &str| writeln!(std::io::stderr(), "skipped: {name}: {why}");
    if let Some(why) = why_not(name) {
        let _ = skip(why);
        return;
    }
    match &*LOGS {
        Err(why) => {
            let _ = skip(why);
        }
        Ok(logs) => {
            let (_, body) = BODIES
                .iter()
                .find(|(case, _)| *case == name)
                .expect("a case");
            let holds = |logs: &Logs| catch_unwind(AssertUnwindSafe(|| body(&Known::new(logs))));
            if let Err(panic) = holds(logs) {
                let mut seeds = FURTHER_SEEDS.into_iter();
                let held = seeds.position(|seed| holds(&trial(*body, seed)).is_ok());
                let Some(failed) = held else {
                    resume_unwind(panic)
                };
                let tries = failed + 1;
                let _ = writeln!(
                    std::io::stderr(),
                    "{name}: held when tried again, {tries} times"
                );
            }
        }
    }
}

/// The kernel's own threads run now and then, at moments that differ from build to build and from seed to seed, and a case
/// may have met one of them. Its runs once more, in guests of their own: what holds with no seed is no chance.
fn trial(body: Body, seed: u32) -> Logs {
    let mut logs = Logs::new();
    loop {
        let known = Known::new(&logs);
        let _ = catch_unwind(AssertUnwindSafe(|| body(&known)));
        let wanted = known.wanted.into_inner().expect("nobody panics with it");
        if wanted.is_empty() {
            return logs;
        }
        logs.extend(run_all(wanted, seed));
    }
}

/// A name that is not a case's would hide that its case is run, or is gone.
#[test]
fn exceptions_are_cases() {
    for (name, _) in NOT_HERE {
        assert!(BODIES.iter().any(|(case, _)| case == name), "{name}");
    }
}

/// The runs that have been made; notes those that are wanted beside them.
struct Known<'a> {
    logs: &'a Logs,
    wanted: Mutex<Vec<Case>>,
}

impl Known<'_> {
    fn new(logs: &Logs) -> Known<'_> {
        Known {
            logs,
            wanted: Mutex::default(),
        }
    }
}

impl Arm for Known<'_> {
    fn run_all(&self, cases: &[Case]) -> Vec<Log> {
        let unknown = cases.iter().filter(|case| !self.logs.contains_key(case));
        let mut wanted = self.wanted.lock().expect("nobody panics with it");
        wanted.extend(unknown.cloned());
        if !wanted.is_empty() {
            drop(wanted);
            // No panic, of which a message would be printed.
            resume_unwind(Box::new("not run yet"));
        }
        cases.iter().map(|case| self.logs[case].clone()).collect()
    }
}

/// Cases with the same CPUs in one guest; two guests at a time.
fn run_all(mut cases: Vec<Case>, seed: u32) -> Logs {
    cases.sort_by_key(|case| case.topology);
    cases.dedup();
    let mut groups: Vec<&[Case]> = cases.chunk_by(|a, b| a.topology == b.topology).collect();
    groups.sort_by_key(|group| group.len());
    let groups = Mutex::new(groups);
    let work = || {
        let mut logs = Logs::new();
        loop {
            let group = groups.lock().expect("nobody panics with it").pop();
            match group {
                Some(group) => logs.extend(run_group(group, seed)),
                None => return logs,
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut logs = work();
        logs.extend(other.join().expect("it panics no more than this one"));
        logs
    })
}

/// A guest that dies takes all its cases with it: then each gets its own.
fn run_group(cases: &[Case], seed: u32) -> Vec<(Case, Log)> {
    match (boot(cases, seed), cases) {
        (Ok(logs), _) => cases.iter().cloned().zip(logs).collect(),
        (Err(error), [case]) => vec![(case.clone(), kernel_log::of_a_dead_guest(&error))],
        (Err(_), _) => {
            let alone = cases.iter().map(std::slice::from_ref);
            alone.flat_map(|case| run_group(case, seed)).collect()
        }
    }
}

/// One guest; the cases in turn.
fn boot(cases: &[Case], seed: u32) -> Result<Vec<Log>, KernelError> {
    let tiltyard = env!("CARGO_BIN_EXE_tiltyard");
    let command = [tiltyard, "exec", "--exact", "--history", "0s"];
    let mut job = VmJob::new(command.map(str::to_owned).to_vec());
    job.init = tiltyard.into();
    job.kernel_version = KERNEL.to_owned();
    job.machine = Machine::parse_hwloc_synthetic(cases[0].topology).expect("a topology");
    job.accel = Some(Accel::Counted);
    job.seed = seed;
    // Those of whoever runs the tests would move the moments, too.
    job.variables.clear();
    job.memory_mib = 1024;
    // RCU's thread does not queue among the tasks of a case.
    job.kernel_options = "rcutree.kthread_prio=1".to_owned();
    job.boot_limit_s = 300;
    job.run_limit_s = RUN_LIMIT_S;
    job.watch_ms = WATCH_MS;
    let folder = tempfile::tempdir().expect("a temporary folder");
    job.tracer = Some(tracer(folder.path()));
    for (index, case) in cases.iter().enumerate() {
        assert_eq!(case.tick_hz, TICK_HZ, "the kernel has its own");
        let file = folder.path().join(format!("{index}.json"));
        std::fs::write(&file, arm::workload_file(case)).expect("a temporary file");
        job.schedulers.push(scheduler(case, &file));
    }
    let mut traces: Vec<Trace> = Vec::new();
    let report = vm::run(&job, &mut Quiet, &mut |trace| traces.push(trace))?;
    let log = |(index, report): (usize, &RunReport)| {
        let trace = traces.iter().find(|trace| trace.run == index);
        kernel_log::of_run(trace, report)
    };
    Ok(report.runs.iter().enumerate().map(log).collect())
}

fn scheduler(case: &Case, workload: &Path) -> SchedulerJob {
    let object = Builder::default().bpf_object(&arm::source(case));
    let mut arguments = vec!["-w".to_owned(), workload.display().to_string()];
    if let Some(ms) = case.duration_ms {
        arguments.extend(["--duration".to_owned(), format!("{ms}ms")]);
    }
    let tunables = case.tunables.iter().map(|(name, value)| Tunable {
        name: (*name).to_owned(),
        value: value.to_string(),
    });
    SchedulerJob {
        object: Some(object.unwrap_or_else(|error| panic!("{error}")).path),
        tunables: tunables.collect(),
        arguments,
        ..SchedulerJob::own(case.scheduler)
    }
}

fn tracer(folder: &Path) -> PathBuf {
    let source = folder.join("tracer.bpf.c");
    std::fs::write(&source, trace::SOURCE).expect("a temporary file");
    let object = Builder::default().bpf_object(&Source::new(source));
    object.unwrap_or_else(|error| panic!("{error}")).path
}

struct Quiet;

impl Progress for Quiet {
    fn step(&mut self, _what: &str) {}

    fn output(&mut self, _scheduler: &str, text: &str) {
        if text.starts_with("tiltyard: ") {
            let _ = write!(std::io::stderr(), "{text}");
        }
    }
}
