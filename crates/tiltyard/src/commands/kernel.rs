// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard kernel`: the same schedulers in a real Linux kernel.

use std::path::{Path, PathBuf};

use tiltyard_kernel::error::KernelError;
use tiltyard_kernel::rounds::Rounds;
use tiltyard_kernel::{Accel, Limits, Report, VmJob, here, host};
use tiltyard_report::{csv, timeline};
use tiltyard_runner::event_dir::EventDir;
use tiltyard_runner::kernel_job::{self, JobOutputs, KernelJob};
use tiltyard_runner::kernel_results::{KernelResults, Subject, cut_short};
use tiltyard_runner::kernel_runs;
use tiltyard_runner::objects::{self, DEFAULT};
use tiltyard_runner::origin::{KernelOrigin, KernelShared};
use tiltyard_runner::output::{self, Output};
use tiltyard_runner::tables::{self, Tables};
use tiltyard_runner::threads;
use tiltyard_runner::{Error, Progress};
use tiltyard_runner::{applications, duration, kernel_fault, window, workloads};
use tiltyard_workload::Workload;

use super::list::Format;
use crate::failure::{Code, Failure};
use crate::flags::{GuestFlags, listed};
use crate::kernel_page;
use crate::progress::Steps;
use crate::{interrupt, terminal};

/// Run a command under schedulers in a real Linux kernel: in a virtual machine (--vm), or on this machine.
///
/// Loads each scheduler in turn, runs the command under it and unloads it, round by round. Prints how long the
/// command took and what the scheduler did, with the metrics of tiltyard run; reports why a scheduler exited and that
/// the kernel's own is restored. With --vm it needs neither root nor KVM.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard kernel --vm -s ule -- hackbench -g 2 -l 200
  tiltyard kernel --vm -s default,ule,cfs -- ./my-benchmark     # one boot, three runs
  tiltyard kernel --vm -s fifo:slice_ms=5 --cpus 4 -- hackbench -g 1
  tiltyard kernel --vm -s default,ule,fifo -a sysbench-mariadb --memory 4096
  tiltyard kernel --vm -s default,ule --events events -- make   # keep the events, for tiltyard measure
  tiltyard kernel --list                                        # which applications there are
  tiltyard kernel --vm -s default,ule -w fibo-sysbench-1c --cpus 1   # a workload file, real threads
  sudo tiltyard kernel -s default,ule -- make -j8               # this machine, its own kernel
  tiltyard kernel --check                                       # what is missing here

With --vm, the command sees this machine's files; what it writes goes to a private layer and is discarded.")]
pub struct Args {
    #[command(flatten)]
    guest: GuestFlags,
    /// Only list what this machine lacks for real kernels, and how to install it.
    #[arg(long, group = "virtual")]
    check: bool,
    /// Schedulers as for tiltyard run; "default" is the kernel's own.
    #[arg(
        short,
        long = "scheduler",
        value_name = "S",
        value_delimiter = ',',
        value_parser = listed,
        required_unless_present_any = ["check", "list"]
    )]
    schedulers: Vec<String>,
    /// How the virtual machine runs: on the host's CPU (KVM), or emulated; timings under emulation are not meaningful.
    #[arg(long, value_enum, default_value_t = AccelChoice::Auto, requires = "vm", conflicts_with = "icount")]
    accel: AccelChoice,
    /// Memory of the virtual machine.
    #[arg(long, value_name = "MIB", default_value_t = 2048, requires = "vm", value_parser = clap::value_parser!(u32).range(256..))]
    memory: u32,
    /// Further arguments for its kernel's command line, for instance "rcupdate.rcu_cpu_stall_timeout=300"; if two
    /// contradict each other, the last one counts.
    #[arg(
        long,
        value_name = "WORDS",
        requires = "vm",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    kernel_args: String,
    /// Boot timeout of the virtual machine, in seconds.
    /// [default: 60; with --icount 300, or 100 for each CPU if that is more]
    #[arg(long, value_name = "S", requires = "vm", value_parser = clap::value_parser!(u64).range(1..))]
    boot_limit: Option<u64>,
    /// Kill the command after this many seconds.
    #[arg(long, value_name = "S", default_value_t = 300)]
    limit: u64,
    /// Kill the command if it and its children use more memory than this; files in memory count.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    limit_memory: Option<u32>,
    /// Run the command only on the first N CPUs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit_cpus: Option<u32>,
    /// Maximum number of measured rounds; in each, the command runs once under every scheduler. One round
    /// has no warm-up.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Stop when each median time is known to this many percent (95 % interval).
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    tight: f64,
    /// Start no new round after this many seconds.
    #[arg(long, value_name = "S", default_value_t = 60)]
    budget: u64,
    /// Do not record events: only the command's own metrics, and no overhead of measuring.
    #[arg(long)]
    no_events: bool,
    /// Write a Perfetto trace; for one scheduler.
    #[arg(long, value_name = "FILE.pftrace", conflicts_with = "no_events")]
    trace: Option<PathBuf>,
    /// Write a report with curves: one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html", conflicts_with = "no_events")]
    report: Option<PathBuf>,
    /// Interval of each scheduler's first round in the report's timeline: 7s..7.2s, 7s.., ..100ms
    /// [default: from the command's start]; 20000 slices at most,
    /// 36000 for all schedulers together.
    #[arg(long, value_name = "FROM..TO", value_parser = window::parse, requires = "report")]
    timeline: Option<window::Range>,
    /// Write every event and every metric as Parquet files, one for each table, into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_events")]
    tables: Option<PathBuf>,
    /// Write the events of each run to a file in this folder. tiltyard measure produces results, reports, traces and
    /// tables from them, on any machine.
    #[arg(long, value_name = "DIR", conflicts_with = "no_events")]
    events: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the results as JSON, rewritten after each run, so that they survive a crash (then
    /// "cut_short" is set), and with all metrics at the end.
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// Instead of a command: a real application, NAME or NAME:SIZE (--list shows them). Not with --icount, whose
    /// guest lacks its programs.
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["command", "workload", "icount"])]
    application: Option<String>,
    /// List the applications and what each lacks on this machine.
    #[arg(long)]
    list: bool,
    /// Instead of a command: a workload as for tiltyard run, with real threads (tiltyard exec).
    #[arg(short, long, value_name = "W", conflicts_with = "command")]
    workload: Option<String>,
    /// End the workload after this much time; default: its own end.
    #[arg(long, value_name = "TIME", requires = "workload", value_parser = duration::parse_ns)]
    duration: Option<u64>,
    /// Shells of the workload sleep at most this long before it starts [default: the file's value].
    #[arg(long, value_name = "TIME", requires = "workload", value_parser = super::exec::parse_history_ns)]
    history: Option<u64>,
    /// The command.
    #[arg(last = true, required_unless_present_any = ["check", "list", "workload", "application"], value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum AccelChoice {
    /// KVM if it works here, else emulation.
    Auto,
    Kvm,
    Emulated,
}

impl AccelChoice {
    fn accel(self) -> Option<Accel> {
        match self {
            AccelChoice::Auto => None,
            AccelChoice::Kvm => Some(Accel::Kvm),
            AccelChoice::Emulated => Some(Accel::Emulated),
        }
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    if args.list {
        return super::print(&applications_page()?);
    }
    if args.check {
        return check(&args.guest.kernel);
    }
    if args.trace.is_some() && args.schedulers.len() != 1 {
        return Err(Failure::usage(
            "--trace: a trace is of one run; name one scheduler",
        ));
    }
    let report_file = args.report.as_deref().map(Output::create).transpose()?;
    let outputs = outputs(args, report_file.is_some())?;
    let workload = args.workload.as_deref();
    let workload = workload.map(workloads::load).transpose()?;
    let (mut job, nr_cpus) = job(args, workload.as_ref())?;
    let progress = Live {
        steps: Steps::new(),
        shown: args.format == Format::Table,
        out: args.out.clone(),
        subject: subject(args)?,
    };
    require(args).map_err(|e| failure(&e))?;
    build(args, &mut job, &progress)?;
    save(args.out.as_deref(), &no_result(STILL_RUNNING))?;
    interrupt::leave_to_command();
    let kernel_job = KernelJob {
        job: &job,
        vm: args.guest.vm,
        nr_cpus,
        workload: workload.as_ref(),
    };
    let done = match kernel_job::run(&kernel_job, outputs, &progress) {
        Ok(done) => done,
        Err(error) => {
            save(args.out.as_deref(), &no_result(&error.to_string()))?;
            return Err(match error {
                Error::Kernel(error) => failure(&error),
                error => error.into(),
            });
        }
    };
    let subject = progress.subject.clone();
    drop(progress);
    let (report, recorded) = (&done.report, &done.recorded);
    let results = KernelResults::new(subject.clone(), report, recorded);
    let of = KernelOrigin {
        job: &job,
        report,
        nr_cpus,
        workload: &subject.workload,
        workload_sha256: subject.workload_sha256.as_deref(),
        command: &subject.command,
        shared: &KernelShared::of(subject.title.clone(), args.duration, &job, report, recorded),
    };
    // Runs take hours: each output is written, whatever becomes of the others.
    Failure::of_all([
        verdict(report),
        publish(args, &results, done.timelines, report_file),
        done.files.finish(recorded, &of).map_err(Failure::from),
    ])
}

/// Files that are written while schedulers run.
fn outputs(args: &Args, reported: bool) -> Result<JobOutputs, Failure> {
    let range = args.timeline.unwrap_or_default();
    Ok(JobOutputs {
        trace: args.trace.as_deref().map(Output::create).transpose()?,
        tables: args.tables.as_deref().map(Tables::create).transpose()?,
        events: args.events.as_deref().map(EventDir::create).transpose()?,
        timeline: reported.then(|| window::from_start(range, args.schedulers.len())),
    })
}

/// The job, still without schedulers, and the number of CPUs that it has.
fn job(args: &Args, workload: Option<&Workload>) -> Result<(VmJob, u32), Failure> {
    let mut job = args.guest.guest().job(command(args, workload)?)?;
    (job.memory_mib, job.run_limit_s) = (args.memory, args.limit);
    job.kernel_options.clone_from(&args.kernel_args);
    job.boot_limit_s = args.boot_limit.unwrap_or(job.boot_limit_s);
    job.accel = job.accel.or(args.accel.accel());
    let nr_cpus = match args.guest.vm {
        true => job.machine.nr_cpus() as u32,
        false => host::nr_cpus(),
    };
    if args.guest.icount && job.machine.nr_cpus() > 1 {
        say!(
            "tiltyard: note: --icount: the {nr_cpus} CPUs take turns, so each has 1/{nr_cpus} of the time"
        );
        if workload.is_some() {
            // Work is then measured by the task's own clock, which stops while another CPU has its turn.
            job.command.push("--exact".to_owned());
        }
    }
    if let Some(cpus) = args.limit_cpus.filter(|cpus| *cpus > nr_cpus) {
        let line = format!("--limit-cpus {cpus}: there are {nr_cpus}; name fewer");
        return Err(Failure::usage(line));
    }
    job.limits = Limits {
        memory_mib: args.limit_memory,
        cpus: args.limit_cpus,
    };
    job.rounds = Rounds {
        max: args.rounds,
        tight: args.tight / 100.0,
        budget_s: args.budget,
    };
    Ok((job, nr_cpus))
}

/// Builds the schedulers of the job, and the tracer if it records events.
fn build(args: &Args, job: &mut VmJob, progress: &Live) -> Result<(), Failure> {
    for scheduler in &args.schedulers {
        progress.steps.step(&format!("building {scheduler}"));
        job.schedulers.push(objects::job(scheduler)?);
        for warning in objects::job_warnings(scheduler)? {
            progress.message(&format!("tiltyard: warning: {warning}"));
        }
    }
    if !args.no_events {
        progress.steps.step("building the tracer");
        job.tracer = Some(kernel_runs::tracer()?);
    }
    Ok(())
}

/// Prints the comparison and writes the report.
fn publish(
    args: &Args,
    results: &KernelResults,
    timelines: Vec<(usize, timeline::Recorded)>,
    file: Option<Output>,
) -> Result<(), Failure> {
    let drawn = file.map_or(Ok(()), |file| results.draw(timelines, file));
    Failure::of_all([
        save(args.out.as_deref(), &results.json()),
        drawn.map_err(Failure::from),
        super::print(&match args.format {
            Format::Table => kernel_page::page(results),
            Format::Json => results.json(),
            Format::Csv => csv::comparison(&results.comparison),
        }),
    ])
}

/// Reports what this machine lacks before anything is built.
fn require(args: &Args) -> Result<(), KernelError> {
    match args.guest.vm {
        true => host::require_guest(args.memory),
        false if args.no_events && args.schedulers.iter().all(|s| s == DEFAULT) => Ok(()),
        false => here::require(),
    }
}

/// The initial contents of `--out`.
const STILL_RUNNING: &str = "still running when this was written";

/// The result of a job without one.
fn no_result(why: &str) -> String {
    format!("{:#}\n", serde_json::json!({ "cut_short": why }))
}

/// The result so far, for `--out`.
fn save(out: Option<&Path>, json: &str) -> Result<(), Failure> {
    out.map_or(Ok(()), |path| Ok(output::write(path, json.as_bytes())?))
}

/// Prints what prevents schedulers from running in real kernels. Fails if there is no way at all.
fn check(version: &str) -> Result<(), Failure> {
    let host = host::check(version);
    let mut page = String::new();
    for (what, missing) in [
        ("in a virtual machine (--vm)", &host.vm),
        ("in the kernel that runs here", &host.here),
    ] {
        page += &match missing.as_slice() {
            [] => format!("{what}: nothing is missing\n"),
            missing => format!("{what}: not possible:\n  {}\n", missing.join("\n  ")),
        };
    }
    super::print(&page)?;
    match host.vm.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(
            Code::Environment,
            "no virtual machine can be booted here; see above",
        )),
    }
}

/// What runs under each scheduler. A workload is checked here, where its errors can be shown.
fn command(args: &Args, loaded: Option<&Workload>) -> Result<Vec<String>, Failure> {
    if let Some(application) = &args.application {
        return Ok(applications::command(application)?);
    }
    let (Some(workload), Some(loaded)) = (&args.workload, loaded) else {
        return Ok(args.command.clone());
    };
    workloads::require_end(workload, loaded, args.duration)?;
    let file = workloads::path(workload)?.canonicalize();
    let file = file.map_err(|e| Failure::new(Code::Environment, format!("{workload}: {e}")))?;
    let mut words = threads::command(&file)?;
    for (flag, time) in [("--duration", args.duration), ("--history", args.history)] {
        words.extend(
            time.iter()
                .flat_map(|ns| [flag.to_owned(), duration::write(*ns)]),
        );
    }
    Ok(words)
}

/// The subject of a report.
fn title(args: &Args) -> String {
    let named = args.application.as_ref().or(args.workload.as_ref());
    named.cloned().unwrap_or_else(|| args.command.join(" "))
}

/// The name in a result of what ran: a workload is named as in results of the simulated machine.
fn name(args: &Args) -> String {
    let stem = args
        .workload
        .as_deref()
        .map(Path::new)
        .and_then(Path::file_stem);
    stem.map_or_else(|| title(args), |stem| stem.to_string_lossy().into_owned())
}

fn subject(args: &Args) -> Result<Subject, Failure> {
    let text = args.workload.as_deref().map(workloads::text).transpose()?;
    Ok(Subject {
        title: title(args),
        workload: name(args),
        workload_sha256: text.map(|text| tables::sha256(&text)),
        duration_ns: args.duration,
        command: terminal::own_command(),
        host_cpus: host::nr_cpus(),
    })
}

/// What is shown while a job runs. The command's own output goes to stderr, so that stdout contains only the result.
struct Live {
    steps: Steps,
    shown: bool,
    out: Option<PathBuf>,
    subject: Subject,
}

impl Progress for Live {
    fn step(&self, what: &str) {
        self.steps.step(what);
    }

    fn output(&self, text: &str) {
        if self.shown {
            let bytes = text.as_bytes();
            self.steps
                .suspend(|| drop(std::io::Write::write_all(&mut std::io::stderr(), bytes)));
        }
    }

    fn message(&self, line: &str) {
        self.steps.suspend(|| say!("{line}"));
    }

    fn ran(&self, so_far: &Report) {
        let mut so_far = so_far.clone();
        so_far.cut_short = Some(STILL_RUNNING.to_owned());
        let results = KernelResults::new(self.subject.clone(), &so_far, &[]);
        // It was writable at the start; a failure now is reported at the end.
        let _ = save(self.out.as_deref(), &results.json());
    }

    fn stop(&self) -> Option<String> {
        interrupt::reason()
    }
}

/// Success, or what went wrong first, in one line.
fn verdict(report: &Report) -> Result<(), Failure> {
    if let Some(reason) = cut_short(report) {
        let runs = report.runs.iter().filter(|run| run.is_success()).count();
        let line = format!("cut short after {runs} whole runs: {reason}");
        return Err(Failure::new(ended_early(), line));
    }
    match report.runs.iter().find_map(kernel_fault::fault) {
        None => Ok(()),
        Some(fault) => Err(Error::KernelRun(fault).into()),
    }
}

fn failure(error: &KernelError) -> Failure {
    Failure::new(ended_early(), error.to_string())
}

/// Why there is no complete result: an interrupt, or a fault of this machine.
fn ended_early() -> Code {
    match interrupt::signal() {
        Some(_) => Code::Interrupted,
        None => Code::Environment,
    }
}

/// All applications, with what is missing on this machine.
fn applications_page() -> Result<String, Failure> {
    let mut page = String::new();
    for application in applications::all()? {
        let (sizes, scores) = (application.sizes.join(", "), application.scores.join(", "));
        let mut lines = vec![
            application.about.clone(),
            format!("sizes {sizes}; prints {scores}"),
        ];
        let missing = application.missing();
        if !missing.is_empty() {
            lines.push(format!(
                "missing here: {}; {}",
                missing.join(", "),
                application.remedy()
            ));
        }
        for (i, line) in lines.iter().enumerate() {
            let name = if i == 0 {
                application.name.as_str()
            } else {
                ""
            };
            page += &format!("{name:<18}{line}\n");
        }
    }
    Ok(
        page + "\nNAME:SIZE takes a size; the first, the default, fits two emulated CPUs, the others a server.\n"
    )
}
