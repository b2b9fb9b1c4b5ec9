// SPDX-License-Identifier: GPL-2.0-or-later
//! What a job is, for a guest or for the machine at hand: the command, the schedulers, the limits.

use std::path::PathBuf;

use tiltyard_environment::Environment;
use tiltyard_model::Machine;

use crate::elf;
use crate::error::KernelError;
use crate::hardware::Accel;
use crate::limits::Limits;
use crate::packages::KernelImage;
use crate::protocol::{Counter, Tunable};
use crate::release;
use crate::rounds::Rounds;

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
    /// its first argument is [`crate::protocol::INIT_ARGUMENT`].
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
    pub(crate) fn check_kernel(&self, kernel: &KernelImage) -> Result<(), KernelError> {
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
        true => format!("{name} ({})", release::own_scheduler(release)),
        false => name,
    }
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
