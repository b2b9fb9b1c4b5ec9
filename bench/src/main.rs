// SPDX-License-Identifier: GPL-2.0-or-later
//! `make bench`: wall time, context switches and ticks per wall-clock second, the cost of an event, and peak memory of
//! the simulated machine, metrics on, trace off, one thread. Each case runs in a process of its own, so
//! that its peak memory is its own; the middle one of several runs is printed. Last, once: the claims of two sections.
//!
//! `tiltyard-bench [--runs N] [CASE[/SCHEDULER]...]`

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use tiltyard_build::{Builder, Source};
use tiltyard_measure::{Recorder, RecorderSpec};
use tiltyard_model::Machine;
use tiltyard_sim::{Setup, run_then};
use tiltyard_workload::Workload;

struct Case {
    name: &'static str,
    what: &'static str,
    /// Of the workload file in `workloads` or, if that has none, of a shipped one; without `.json`.
    workload: &'static str,
    /// How many instances its only task has, unless the file says so.
    instances: Option<u32>,
    /// A topology string, or the name of a shipped machine.
    machine: &'static str,
    seconds: f64,
    /// If there are none: all that are shipped, and the kernel's example.
    schedulers: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "hogs",
        what: "512 hogs on 32 CPUs",
        workload: "hogs",
        instances: None,
        machine: "package:4 [numa] l3:1 core:8 pu:1",
        seconds: 60.0,
        schedulers: USUAL,
    },
    Case {
        name: "pingpong",
        what: "4 ping-pong pairs, 50 us each way, on 4 CPUs",
        workload: "pingpong",
        instances: None,
        machine: "package:1 [numa] l3:1 core:4 pu:1",
        seconds: 10.0,
        schedulers: &[],
    },
    Case {
        name: "io",
        what: "512 tasks of 200 us run + 800 us sleep on 32 CPUs",
        workload: "io",
        instances: None,
        machine: "package:4 [numa] l3:1 core:8 pu:1",
        seconds: 2.0,
        schedulers: USUAL,
    },
    Case {
        name: "mixed",
        what: "768 mixed tasks on 384 CPUs",
        workload: "mixed",
        instances: None,
        machine: "package:2 [numa] l3:12 core:8 pu:2",
        seconds: 5.0,
        schedulers: USUAL,
    },
    Case {
        name: "figure-6",
        what: "512 spinners on 32 CPUs, pinned to one and released after 14.5 s",
        workload: "spinners-512",
        instances: None,
        machine: "opteron32",
        seconds: 260.0,
        schedulers: &["ule", "cfs"],
    },
    half("half-32", 64, "package:2 [numa] l3:1 core:8 pu:2"),
    half(
        "half-512",
        1024,
        "package:2 group:4 [numa] l3:4 core:8 pu:2",
    ),
    half("half-4096", 8192, "package:16 [numa] l3:16 core:8 pu:2"),
    Case {
        name: "million",
        what: "one million tasks of 100 us run + 5 s sleep on 512 CPUs",
        workload: "asleep",
        instances: Some(1_000_000),
        machine: "package:2 group:4 [numa] l3:4 core:8 pu:2",
        seconds: 2.0,
        schedulers: &["fifo"],
    },
];

/// Sections 5 and 6 of "The Battle of the Schedulers".
const CLAIMS: [&str; 4] = ["atc18.s5*", "atc18.s6*", "atc18.fig*", "atc18.tab*"];

const USUAL: &[&str] = &[EXAMPLE, "ule", "cfs"];

/// The kernel's own.
const EXAMPLE: &str = "scx_simple";

/// The same load on each CPU, on ever more CPUs: what an event costs should not grow.
const fn half(name: &'static str, instances: u32, machine: &'static str) -> Case {
    Case {
        name,
        what: "two tasks a CPU of 1 ms run + 1 ms sleep",
        workload: "half",
        instances: Some(instances),
        machine,
        // As many events in each.
        seconds: 1024.0 / instances as f64,
        schedulers: &["fifo", "rr"],
    }
}

/// What one run gave, as the process that did it prints it.
struct Figures {
    wall_s: f64,
    switches: f64,
    ticks: f64,
    events: f64,
    /// Instructions that the scheduler's code executed.
    insns: f64,
    peak_mb: f64,
}

impl Figures {
    fn ns_per_event(&self) -> f64 {
        self.wall_s * 1e9 / self.events
    }

    fn ns_per_switch(&self) -> f64 {
        self.wall_s * 1e9 / self.switches
    }
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "--one") {
        return run_one(&args[1], &args[2]);
    }
    let mut runs = 5;
    if args.first().is_some_and(|a| a == "--runs") {
        runs = args.get(1).context("--runs needs a number")?.parse()?;
        args.drain(..2);
    }
    println!(
        "{:<10} {:<11} {:>8} {:>10} {:>12} {:>12} {:>9} {:>12} {:>9} {:>7}",
        "case",
        "scheduler",
        "wall s",
        "switches",
        "switches/s",
        "ticks/s",
        "ns/event",
        "insns/event",
        "peak MB",
        "x fifo"
    );
    for case in CASES {
        let is_chosen = |scheduler: &String| {
            let id = format!("{}/{scheduler}", case.name);
            args.is_empty() || args.iter().any(|a| id.starts_with(a.as_str()))
        };
        let mut chosen = schedulers_of(case)?;
        chosen.retain(is_chosen);
        if !chosen.is_empty() {
            println!("{}, {} s simulated", case.what, case.seconds);
            print_case(case, &chosen, runs)?;
        }
    }
    if args.is_empty() || args.iter().any(|a| a == "claims") {
        print_claims()?;
    }
    Ok(())
}

/// How long `tiltyard reproduce` takes with ten seeds and nothing cached.
fn print_claims() -> Result<()> {
    println!("all claims of sections 5 and 6, ten seeds");
    let tiltyard = std::env::current_exe()?.with_file_name("tiltyard");
    let before_s = usage(libc::RUSAGE_CHILDREN).ru_utime.tv_sec;
    let start = Instant::now();
    let output = Command::new(&tiltyard)
        .args(["reproduce", "--seeds", "10", "--no-cache"])
        .args(CLAIMS)
        .output()
        .with_context(|| format!("{}: run make build first", tiltyard.display()))?;
    let wall_s = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("claims: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let cpu_s = usage(libc::RUSAGE_CHILDREN).ru_utime.tv_sec - before_s;
    println!("{:<10} {wall_s:>20.0} s wall, {cpu_s} s of CPUs", "claims");
    Ok(())
}

/// Names of the schedulers with which a case runs.
fn schedulers_of(case: &Case) -> Result<Vec<String>> {
    if !case.schedulers.is_empty() {
        return Ok(case.schedulers.iter().map(|s| (*s).to_owned()).collect());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schedulers");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if folder.join(&name).join(format!("{name}.bpf.c")).exists() {
            names.push(name);
        }
    }
    names.push(EXAMPLE.to_owned());
    names.sort_unstable();
    Ok(names)
}

/// A line for each scheduler: the run with the median wall time. What a switch costs is compared with fifo's in the same round,
/// so that a machine that is slower for a while does not show.
fn print_case(case: &Case, schedulers: &[String], runs: usize) -> Result<()> {
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for _ in 0..runs {
        let round = schedulers
            .iter()
            .map(|scheduler| run_apart(case, scheduler));
        rounds.push(round.collect::<Result<_>>()?);
    }
    let fifo = schedulers.iter().position(|s| s == "fifo");
    for (at, scheduler) in schedulers.iter().enumerate() {
        let ratios = fifo.map(|fifo| {
            let of_round =
                |round: &Vec<Figures>| round[at].ns_per_switch() / round[fifo].ns_per_switch();
            median(rounds.iter().map(of_round).collect(), |ratio| *ratio)
        });
        let middle = median(rounds.iter().map(|round| &round[at]).collect(), |f| {
            f.wall_s
        });
        print_line(case, scheduler, middle, ratios);
    }
    Ok(())
}

fn median<T>(mut all: Vec<T>, key: impl Fn(&T) -> f64) -> T {
    all.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let middle = all.len() / 2;
    all.swap_remove(middle)
}

fn print_line(case: &Case, scheduler: &str, middle: &Figures, x_fifo: Option<f64>) {
    let wall_s = middle.wall_s;
    let fifo = x_fifo.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    println!(
        "{:<10} {scheduler:<11} {wall_s:>8.3} {:>10} {:>12.0} {:>12.0} {:>9.0} {:>12.1} {:>9.1} {fifo:>7}",
        case.name,
        middle.switches,
        middle.switches / wall_s,
        middle.ticks / wall_s,
        middle.ns_per_event(),
        middle.insns / middle.events,
        middle.peak_mb,
    );
}

/// One run in a process of its own.
fn run_apart(case: &Case, scheduler: &str) -> Result<Figures> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--one", case.name, scheduler])
        .output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{}/{scheduler}: {}", case.name, error.trim());
    }
    parse_figures(&String::from_utf8(output.stdout)?)
}

fn parse_figures(text: &str) -> Result<Figures> {
    let fields: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [wall_s, switches, ticks, events, insns, peak_mb] = fields[..] else {
        bail!("a run printed something else")
    };
    Ok(Figures {
        wall_s,
        switches,
        ticks,
        events,
        insns,
        peak_mb,
    })
}

fn run_one(case_name: &str, scheduler: &str) -> Result<()> {
    let case = CASES
        .iter()
        .find(|c| c.name == case_name)
        .context("no such case")?;
    let f = simulate(case, scheduler, (case.seconds * 1e9) as u64, case.instances)?;
    println!(
        "{} {} {} {} {} {}",
        f.wall_s, f.switches, f.ticks, f.events, f.insns, f.peak_mb
    );
    Ok(())
}

/// Runs a case with this many instances of its only task, if they are not in the file.
fn simulate(
    case: &Case,
    scheduler: &str,
    duration_ns: u64,
    instances: Option<u32>,
) -> Result<Figures> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let machine = machine(root, case.machine)?;
    let file = format!("workloads/{}.json", case.workload);
    let own = root.join(&file);
    let shipped = root.join("..").join(&file);
    let mut workload = read_workload(if own.exists() { &own } else { &shipped })?;
    if let Some(instances) = instances {
        workload.tasks[0].instances = instances;
    }
    let object = Builder::default().native(&source(root, scheduler)?)?;
    let setup = Setup {
        machine: &machine,
        workload: &workload,
        object: &object,
        globals: &[],
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: Some(duration_ns),
        watchdog: false,
        probes: false,
    };
    let origin_ns = workload
        .apps
        .iter()
        .map(|a| a.history_ns)
        .max()
        .unwrap_or(0);
    let spec = RecorderSpec {
        nr_cpus: machine.nr_cpus(),
        origin_ns,
        starvation_ns: 1_000_000_000,
    };
    let mut recorder = Recorder::new(spec);
    let mut insns = 0;
    let start = Instant::now();
    let outcome = run_then(&setup, &mut recorder, &mut |_| {}, &mut |scheduler| {
        insns = scheduler.work_insns()
    })?;
    let summary = recorder.finish(outcome.end_ns);
    let wall_s = start.elapsed().as_secs_f64();
    Ok(Figures {
        wall_s,
        switches: outcome.switches as f64,
        ticks: outcome.ticks as f64,
        events: summary.events as f64,
        insns: insns as f64,
        peak_mb: peak_mb(),
    })
}

fn machine(root: &Path, text: &str) -> Result<Machine> {
    if text.contains(':') {
        return Ok(Machine::parse_hwloc_synthetic(text)?);
    }
    let path = root.join(format!("../machines/{text}.toml"));
    let file = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(Machine::parse_toml(&file, &path.to_string_lossy())?)
}

fn read_workload(path: &Path) -> Result<Workload> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    tiltyard_workload::read(&text, &path.to_string_lossy()).map_err(|e| anyhow::anyhow!("{}", e[0]))
}

/// Shipped schedulers, and the kernel's own example from the distribution's source package.
fn source(root: &Path, scheduler: &str) -> Result<Source> {
    let schedulers = root.join("../schedulers");
    if scheduler != EXAMPLE {
        let mut source = Source::new(
            schedulers
                .join(scheduler)
                .join(format!("{scheduler}.bpf.c")),
        );
        source.include_dirs.push(schedulers.join("lib"));
        return Ok(source);
    }
    Ok(Source::new(kernel_example(scheduler)?))
}

/// tools/sched_ext of linux-source-6.12, unpacked once beside the build.
fn kernel_example(name: &str) -> Result<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/linux-source-6.12");
    let examples = dir.join("tools/sched_ext");
    if !examples.exists() {
        let package = "/usr/src/linux-source-6.12.tar.xz";
        std::fs::create_dir_all(&dir)?;
        let status = Command::new("tar")
            .args(["-xf", package, "-C"])
            .arg(&dir)
            .args(["--strip-components=1", "linux-source-6.12/tools/sched_ext"])
            .status()?;
        if !status.success() {
            bail!("needs the kernel's examples: install the package linux-source-6.12");
        }
    }
    Ok(examples.join(format!("{name}.bpf.c")))
}

fn peak_mb() -> f64 {
    usage(libc::RUSAGE_SELF).ru_maxrss as f64 / 1024.0
}

fn usage(of: libc::c_int) -> libc::rusage {
    // SAFETY: the struct is plain data and getrusage fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(of, &mut usage);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for each scheduler's balancing to have run.
    const DURATION_NS: u64 = 1_600_000_000;

    /// Enough to be many.
    const MOST_TASKS: u32 = 10_000;

    #[test]
    fn every_case_runs_under_the_shipped_schedulers() {
        for case in CASES {
            let instances = case.instances.map(|all| all.min(MOST_TASKS));
            // Thousands of tasks do enough in less.
            let share = u64::from(instances.unwrap_or(0) / 1024).max(1);
            let duration_ns = (DURATION_NS / share).min((case.seconds * 1e9) as u64);
            let schedulers = schedulers_of(case).unwrap();
            for scheduler in schedulers.iter().filter(|s| *s != EXAMPLE) {
                let figures = simulate(case, scheduler, duration_ns, instances)
                    .unwrap_or_else(|e| panic!("{}: {e}", case.name));
                assert!(figures.ticks > 0.0, "{} under {scheduler}", case.name);
            }
        }
    }
}
