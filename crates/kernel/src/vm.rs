// SPDX-License-Identifier: GPL-2.0-or-later
//! Boots a guest for one job and brings back its result.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tiltyard_environment::Environment;
use tiltyard_model::Machine;

use crate::config::KernelConfig;
use crate::error::KernelError;
use crate::hardware::{self, Accel};
use crate::limits::Limits;
use crate::packages::{self, KernelImage};
use crate::progress::Progress;
use crate::protocol::{Counter, Message, RunReport, Tunable};
use crate::qemu::{self, Guest, Hardware};
use crate::rounds::Rounds;
use crate::trace::replay::{Trace, read_runs};
use crate::{elf, host, initramfs};

/// A command to be run under each of several schedulers, in rounds, in one boot.
#[derive(Debug, Clone)]
pub struct VmJob {
    /// Program (a path, or a name on PATH) and its arguments. It runs where this process is.
    pub command: Vec<String>,
    /// The variables of its process in a guest.
    pub variables: Vec<(String, String)>,
    pub schedulers: Vec<SchedulerJob>,
    pub rounds: Rounds,
    /// Compiled from [`crate::trace::SOURCE`]: records what the scheduler does. None to record nothing.
    pub tracer: Option<PathBuf>,
    /// Whether it also records schedulers' probes.
    pub probes: bool,
    /// Version of the kernel package: "6.18" takes the newest 6.18.x.
    pub kernel_version: String,
    /// The program that becomes the guest's init: one that calls [`crate::guest::main`] when
    /// its first argument is [`crate::guest::ARGUMENT`].
    pub init: PathBuf,
    /// What the guest's CPUs share; its costs mean nothing here.
    pub machine: Machine,
    pub memory_mib: u32,
    /// Further words of the guest kernel's command line.
    pub kernel_options: String,
    /// None: the fastest that works.
    pub accel: Option<Accel>,
    /// Under [`Accel::Counted`]: what the guest's random numbers begin with. Another one gives another run of equal right,
    /// in which the kernel's own threads come at other moments.
    pub seed: u32,
    /// How long the guest may take to reach init, s.
    pub boot_limit_s: u64,
    /// How long one run of the command may take, s.
    pub run_limit_s: u64,
    /// What it may take of the machine.
    pub limits: Limits,
    /// How often a run is looked at, ms. Each look takes a CPU from whoever has it.
    pub watch_ms: u64,
}

/// One scheduler of a job.
#[derive(Debug, Clone)]
pub struct SchedulerJob {
    /// What reports call it.
    pub name: String,
    /// Its BPF object; none for the kernel's own scheduler.
    pub object: Option<PathBuf>,
    pub tunables: Vec<Tunable>,
    /// What its user-space half does.
    pub environment: Environment,
    /// What it counts of its deviations from itself.
    pub deviations: Vec<Counter>,
    /// Further arguments of the command under it. Files among them are there in the guest.
    pub arguments: Vec<String>,
}

impl SchedulerJob {
    /// The kernel's own scheduler, called `name`.
    pub fn own(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            object: None,
            tunables: Vec::new(),
            environment: Environment::default(),
            deviations: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

impl VmJob {
    /// A job with the defaults: one round, two CPUs, 2 GiB, kernel 6.18, this program as init, its variables, no
    /// scheduler yet.
    pub fn new(command: Vec<String>) -> Self {
        // What is not UTF-8 nobody can have meant for the command.
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self {
            command,
            variables: variables.collect(),
            schedulers: Vec::new(),
            rounds: Rounds::ONE,
            tracer: None,
            probes: true,
            kernel_version: "6.18".to_owned(),
            // The link is read when the guest is packed; a failure shows there, by name.
            init: std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()),
            machine: Machine::parse_hwloc_synthetic("package:1 core:2 pu:1").expect("two CPUs"),
            memory_mib: 2048,
            kernel_options: String::new(),
            accel: None,
            seed: 1,
            boot_limit_s: 60,
            run_limit_s: 300,
            limits: Limits::default(),
            watch_ms: 500,
        }
    }

    /// Finds at once what would otherwise show only after a kernel was fetched.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let missing = |what: &str| KernelError::Job(what.to_owned());
        let command = self
            .command
            .first()
            .ok_or_else(|| missing("no command given: name one after --"))?;
        elf::find_command(command)?;
        if self.schedulers.is_empty() {
            return Err(missing("no scheduler given: name one with -s"));
        }
        for object in self.schedulers.iter().filter_map(|s| s.object.as_ref()) {
            std::fs::metadata(object).map_err(KernelError::io(object, "read"))?;
        }
        Ok(())
    }

    /// Finds what would otherwise show only after the boot, one scheduler after the other.
    fn check_kernel(&self, kernel: &KernelImage) -> Result<(), KernelError> {
        let config = std::fs::read_to_string(&kernel.config)
            .map_err(KernelError::io(&kernel.config, "read"))?;
        let is_on = |option: &str| {
            config
                .lines()
                .any(|line| line == format!("CONFIG_{option}=y"))
        };
        let wanted = [
            (
                "SCHED_CLASS_EXT",
                "has no sched_ext (CONFIG_SCHED_CLASS_EXT)",
            ),
            (
                "DEBUG_INFO_BTF",
                "carries no type information (CONFIG_DEBUG_INFO_BTF)",
            ),
        ];
        let lacks = wanted.into_iter().find(|(option, _)| !is_on(option));
        match lacks {
            Some((_, lacks)) if self.loads() => Err(KernelError::NoSchedExt {
                release: kernel.release.clone(),
                lacks,
            }),
            _ => Ok(()),
        }
    }

    /// Whether a scheduler other than the kernel's own is to run.
    pub(crate) fn loads(&self) -> bool {
        self.schedulers
            .iter()
            .any(|scheduler| scheduler.object.is_some())
    }
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub kernel_release: String,
    /// None where it cannot be found.
    pub kernel_config: Option<KernelConfig>,
    pub cpus: u32,
    /// The CPU's name, in a guest the host's.
    pub host_cpu: String,
    /// What ran the guest's instructions; none without a guest.
    pub accel: Option<Accel>,
    /// The host's load when the job began: tasks that wanted a CPU, averaged over a minute, in hundredths.
    pub load_percent: u32,
    /// Wall-clock time on the host, ms: from QEMU's start to init, and to the end of all runs.
    pub boot_ms: u64,
    pub total_ms: u64,
    /// In the order in which they were done: round by round, in each the schedulers in the job's order.
    pub runs: Vec<RunReport>,
    /// Why there are not more of them, if something ended the job before it was done.
    pub cut_short: Option<String>,
}

impl Report {
    /// Whether every run went as it should.
    pub fn is_success(&self) -> bool {
        self.cut_short.is_none() && self.runs.iter().all(RunReport::is_success)
    }
}

/// Time that the guest gets beyond the run's own limit to load, unload and report, s.
const RUN_GRACE_S: u64 = 60;

/// The kernel that a job would boot, and a hash of all that goes into its guest: under [`Accel::Counted`] the same hash
/// means the same results.
pub fn identify(
    job: &VmJob,
    progress: &mut dyn Progress,
) -> Result<(KernelImage, String), KernelError> {
    host::require_guest(job.memory_mib)?;
    job.check()?;
    let kernel = packages::find_or_fetch(&job.kernel_version, progress)?;
    job.check_kernel(&kernel)?;
    let image = std::fs::read(&kernel.image).map_err(KernelError::io(&kernel.image, "read"))?;
    let hardware = hardware::arguments(&job.machine, job.memory_mib)?;
    let mut hash = Sha256::new();
    for part in [
        image.as_slice(),
        &initramfs::build(job, &kernel)?,
        format!(
            "{:?} {} {hardware:?} {}",
            job.accel, job.seed, job.kernel_options
        )
        .as_bytes(),
        qemu::version()?.as_bytes(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    Ok((kernel, hash))
}

/// Runs the whole job. The guest is gone when this returns, and when this process dies.
///
/// The report includes schedulers that cannot be loaded or are ejected, commands that fail, and the runs before
/// a guest crash; an error means that there is no report. `hear` gets the
/// events of each run that was recorded, with its index among the report's runs, after the last has ended.
pub fn run(
    job: &VmJob,
    progress: &mut dyn Progress,
    hear: &mut dyn FnMut(Trace),
) -> Result<Report, KernelError> {
    host::require_guest(job.memory_mib)?;
    job.check()?;
    progress.step(&format!("looking for Linux {}", job.kernel_version));
    let kernel = packages::find_or_fetch(&job.kernel_version, progress)?;
    job.check_kernel(&kernel)?;
    progress.step("packing the guest");
    let archive = initramfs::build(job, &kernel)?;
    let accels = job.accel.map_or_else(accels, |accel| vec![accel]);
    let (last, before) = accels.split_last().expect("there is always one");
    for accel in before {
        let what = accel.name();
        progress.step(&format!("booting Linux {}, {what}", kernel.release));
        let limit_s = KVM_BOOT_LIMIT_S.min(job.boot_limit_s);
        match attempt(job, &kernel, &archive, (*accel, limit_s), progress, hear) {
            Err(Failed { error, .. }) if matches!(error, KernelError::Stopped(_)) => {
                return Err(error);
            }
            Err(Failed { came_up: false, .. }) => {
                progress.step(&format!("{what} does not work here"));
            }
            outcome => return outcome.map_err(|failed| failed.error),
        }
    }
    progress.step(&format!(
        "booting Linux {}, {}",
        kernel.release,
        last.name()
    ));
    let limited = (*last, job.boot_limit_s);
    let mut outcome = attempt(job, &kernel, &archive, limited, progress, hear);
    if *last == Accel::Emulated && outcome.as_ref().is_err_and(Failed::is_death_at_boot) {
        progress.step("the guest's kernel died at boot; booting once more");
        outcome = attempt(job, &kernel, &archive, limited, progress, hear);
    }
    outcome.map_err(|failed| failed.error)
}

/// How long a guest under KVM may take to reach init, s: it takes two where KVM works, and for ever where it only
/// looks as if it did.
const KVM_BOOT_LIMIT_S: u64 = 15;

/// What may run the guest, the best first.
fn accels() -> Vec<Accel> {
    let kvm = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    match kvm {
        Ok(_) => vec![Accel::Kvm, Accel::Emulated],
        Err(_) => vec![Accel::Emulated],
    }
}

/// An attempt that gave no report.
struct Failed {
    error: KernelError,
    /// Whether the guest got as far as its init.
    came_up: bool,
}

impl Failed {
    /// Seen once in a test run: a double fault under emulation, right after the kernel had patched itself. The next
    /// boot succeeded. A second death is reported.
    fn is_death_at_boot(&self) -> bool {
        !self.came_up && matches!(self.error, KernelError::GuestDied { .. })
    }
}

/// Boots the guest and does the job.
fn attempt(
    job: &VmJob,
    kernel: &KernelImage,
    archive: &[u8],
    (accel, boot_limit_s): (Accel, u64),
    progress: &mut dyn Progress,
    hear: &mut dyn FnMut(Trace),
) -> Result<Report, Failed> {
    let mut session = Session {
        job,
        kernel_config: KernelConfig::read(&kernel.config).ok(),
        image: &kernel.image,
        accel,
        boot_limit_s,
        load_percent: host::load_percent(),
        start: Instant::now(),
        report: None,
        during: "at boot".into(),
    };
    let hardware = Hardware {
        machine: &job.machine,
        memory_mib: job.memory_mib,
        accel,
        seed: job.seed,
        kernel_options: &job.kernel_options,
    };
    let failed = |error, came_up| Failed { error, came_up };
    let guest = Guest::start(kernel, archive, &hardware).map_err(|e| failed(e, false))?;
    let (ended, trace) = (session.listen(&guest, progress), guest.trace());
    let trace = trace.map_err(|e| failed(KernelError::io("trace", "read")(e), true))?;
    let (cut_short, _guest) = match ended {
        Ok(()) => (None, Some(guest)),
        Err(end) => (Some(session.explain(end, guest)), None),
    };
    let Some(mut report) = session.report else {
        let error = cut_short.unwrap_or_else(|| KernelError::Guest("it did nothing".to_owned()));
        return Err(failed(error, false));
    };
    report.total_ms = millis(session.start);
    report.cut_short = cut_short.map(|error| error.to_string());
    match traces(trace, report.runs.len(), hear) {
        Ok(()) => Ok(report),
        Err(error) => Err(failed(error, true)),
    }
}

/// Why the guest's messages stopped before [`Message::Done`].
enum End {
    Closed,
    Stopped(String),
    Silent { limit_s: u64 },
    Error(KernelError),
}

struct Session<'a> {
    job: &'a VmJob,
    kernel_config: Option<KernelConfig>,
    image: &'a Path,
    accel: Accel,
    boot_limit_s: u64,
    load_percent: u32,
    start: Instant,
    /// Filled from the first message on.
    report: Option<Report>,
    /// What the guest is at, for error messages.
    during: String,
}

/// How often a guest that says nothing is asked whether it shall go on.
const LOOK: Duration = Duration::from_millis(100);

impl Session<'_> {
    /// Ok when the guest has done its job. The report has what it did in any case.
    fn listen(&mut self, guest: &Guest, progress: &mut dyn Progress) -> Result<(), End> {
        let mut scheduler = String::new();
        let mut limit_s = self.boot_limit_s;
        let mut deadline = self.start + Duration::from_secs(limit_s);
        loop {
            if let Some(reason) = progress.stop() {
                return Err(End::Stopped(reason));
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            let line = match guest.lines.recv_timeout(wait.min(LOOK)) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(End::Closed),
                Err(RecvTimeoutError::Timeout) if wait.is_zero() => {
                    return Err(End::Silent { limit_s });
                }
                Err(RecvTimeoutError::Timeout) => continue,
            };
            match parse(line).map_err(End::Error)? {
                Message::Ready { kernel_release } => self.booted(kernel_release),
                Message::RunStarted {
                    scheduler: name,
                    round,
                } => {
                    progress.step(&describe(self.job, &name, round));
                    progress.begin_run();
                    self.during = format!("under {name}");
                    scheduler = name;
                }
                Message::Output { text } => {
                    progress.output(&scheduler, &text);
                    continue;
                }
                Message::RunEnded { mut report } => {
                    self.during = format!("after {}", report.scheduler);
                    let all = self.report.as_mut().ok_or(End::Closed)?;
                    report.scheduler = label(self.job, report.scheduler, &all.kernel_release);
                    all.runs.push(*report);
                    progress.ran(all);
                }
                Message::Failed { reason } => return Err(End::Error(KernelError::Guest(reason))),
                Message::Done => return Ok(()),
            }
            limit_s = self.job.run_limit_s + RUN_GRACE_S;
            deadline = Instant::now() + Duration::from_secs(limit_s);
        }
    }

    fn booted(&mut self, kernel_release: String) {
        self.during = "before the first run".to_owned();
        self.report = Some(Report {
            kernel_release,
            kernel_config: self.kernel_config.take(),
            host_cpu: host::cpu_model(),
            cpus: self.job.machine.nr_cpus() as u32,
            accel: Some(self.accel),
            load_percent: self.load_percent,
            boot_ms: millis(self.start),
            total_ms: 0,
            runs: Vec::new(),
            cut_short: None,
        });
    }

    fn explain(&self, end: End, guest: Guest) -> KernelError {
        let during = self.during.clone();
        let (status, console) = guest.end(matches!(end, End::Closed));
        match end {
            End::Error(error) => error,
            End::Stopped(reason) => KernelError::Stopped(reason),
            End::Closed => KernelError::GuestDied {
                status,
                during,
                console,
            },
            End::Silent { limit_s } if self.report.is_none() => {
                let image = self.image.display().to_string();
                KernelError::BootTimeout {
                    limit_s,
                    image,
                    console,
                }
            }
            End::Silent { limit_s } => KernelError::Silent {
                limit_s,
                during,
                console,
            },
        }
    }
}

/// What a run is, for who waits for it.
pub(crate) fn describe(job: &VmJob, scheduler: &str, round: u32) -> String {
    let command = job.command.join(" ");
    match (round, job.rounds.max) {
        (_, 1) => format!("{scheduler}: {command}"),
        (0, _) => format!("warming up, {scheduler}: {command}"),
        (_, max) => format!("round {round} of {max} at most, {scheduler}: {command}"),
    }
}

/// What reports call a scheduler: the kernel's own by what it is.
pub(crate) fn label(job: &VmJob, name: String, release: &str) -> String {
    let own = |scheduler: &SchedulerJob| scheduler.name == name && scheduler.object.is_none();
    match job.schedulers.iter().any(own) {
        true => format!("{name} ({})", packages::own_scheduler(release)),
        false => name,
    }
}

/// Passes on the runs that the report has; one more may have begun.
fn traces(mut file: File, nr_runs: usize, hear: &mut dyn FnMut(Trace)) -> Result<(), KernelError> {
    let mut hear_whole = |trace: Trace| {
        if trace.run < nr_runs {
            hear(trace);
        }
    };
    // QEMU has written to the file behind our back, from its own position.
    let read = file
        .rewind()
        .and_then(|()| read_runs(&mut BufReader::new(file), &mut hear_whole));
    read.map_err(traces_failed())
}

pub(crate) fn traces_failed() -> impl FnOnce(std::io::Error) -> KernelError {
    KernelError::io("trace", "read")
}

fn parse(line: String) -> Result<Message, KernelError> {
    serde_json::from_str(&line).map_err(|source| KernelError::Protocol { line, source })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_cannot_run_is_refused_before_anything_is_fetched() {
        let error = |job: &VmJob| job.check().unwrap_err().to_string();
        let mut job = VmJob::new(Vec::new());
        assert_eq!(error(&job), "no command given: name one after --");
        job.command = vec!["true".to_owned()];
        assert_eq!(error(&job), "no scheduler given: name one with -s");
        job.schedulers = vec![SchedulerJob {
            object: Some("/gone.bpf.o".into()),
            ..SchedulerJob::own("gone")
        }];
        assert!(
            error(&job).starts_with("/gone.bpf.o: cannot read"),
            "{}",
            error(&job)
        );
        job.schedulers[0].object = None;
        assert!(job.check().is_ok());
    }

    #[test]
    fn a_kernel_that_takes_no_scheduler_is_refused_before_it_is_booted() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = KernelImage {
            release: "6.1.0".to_owned(),
            image: "/boot/vmlinuz".into(),
            config: folder.path().join("config"),
        };
        let mut job = VmJob::new(vec!["true".to_owned()]);
        job.schedulers = vec![SchedulerJob {
            object: Some("/fifo.bpf.o".into()),
            ..SchedulerJob::own("fifo")
        }];
        let check = |job: &VmJob, config: &str| {
            std::fs::write(&kernel.config, config).unwrap();
            job.check_kernel(&kernel)
                .err()
                .map(|error| error.to_string())
        };
        let error = check(
            &job,
            "CONFIG_DEBUG_INFO_BTF=y\n# CONFIG_SCHED_CLASS_EXT is not set\n",
        )
        .unwrap();
        assert!(
            error.starts_with("Linux 6.1.0 has no sched_ext (CONFIG_SCHED_CLASS_EXT): only"),
            "{error}"
        );
        let error = check(&job, "CONFIG_SCHED_CLASS_EXT=y\n").unwrap();
        assert!(error.contains("no type information"), "{error}");
        assert_eq!(
            check(&job, "CONFIG_SCHED_CLASS_EXT=y\nCONFIG_DEBUG_INFO_BTF=y\n"),
            None
        );
        job.schedulers[0].object = None;
        assert_eq!(check(&job, ""), None, "its own scheduler needs none of it");
    }
}
