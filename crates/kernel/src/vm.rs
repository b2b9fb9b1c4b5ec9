// SPDX-License-Identifier: GPL-2.0-or-later
//! Boots a guest for one job and brings back its result.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::config::KernelConfig;
use crate::error::KernelError;
use crate::hardware::{self, Accel};
use crate::packages::{self, KernelImage};
use crate::progress::Progress;
use crate::protocol::Message;
use crate::qemu::{self, Guest, Hardware};
use crate::report::Report;
use crate::trace::replay::{Trace, read_runs};
use crate::vm_job::{VmJob, describe, label};
use crate::{host, initramfs};

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

/// How long a guest under KVM may take to reach init, s: it takes two where KVM works, and forever where it only
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
            raised_limits: self
                .accel
                .stall_limits(&self.job.machine)
                .map(str::to_owned),
            kernel_args: self.job.kernel_options.clone(),
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
    read.map_err(KernelError::io("trace", "read"))
}

fn parse(line: String) -> Result<Message, KernelError> {
    serde_json::from_str(&line).map_err(|source| KernelError::Protocol { line, source })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
