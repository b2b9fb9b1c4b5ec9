// SPDX-License-Identifier: GPL-2.0-or-later
//! A job in the kernel on which Tiltyard itself runs. The schedulers are held by this process: however it ends,
//! the kernel takes out what is loaded and its own scheduler rules again.

use std::fs::File;
use std::io::{BufReader, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::config::KernelConfig;
use crate::error::KernelError;
use crate::job::{self, Error, Site};
use crate::progress::Progress;
use crate::protocol::{ABSENT, Message, PlacedJob, PlacedRun};
use crate::report::Report;
use crate::root::Root;
use crate::rounds::Spread;
use crate::trace::replay::{Trace, read_runs};
use crate::vm_job::{VmJob, describe, label};
use crate::{elf, host, limits, loader, verifier_bug};

/// Runs the whole job here; as [`crate::vm::run`], without a guest. `spread` returns the uncertainty of times.
pub fn run(
    job: &VmJob,
    spread: Spread,
    progress: &mut dyn Progress,
    hear: &mut dyn FnMut(Trace),
) -> Result<Report, KernelError> {
    job.check()?;
    if job.loads() || job.tracer.is_some() {
        require()?;
    }
    refuse_another_scheduler()?;
    refuse_danger(job)?;
    job.limits.check(Path::new(limits::TREE))?;
    let records = tempfile::tempfile().map_err(KernelError::io("trace", "hold"))?;
    let mut here = Here {
        job,
        progress,
        records,
        report: Report {
            kernel_config: KernelConfig::of_this_kernel(&host::kernel_release()),
            kernel_release: host::kernel_release(),
            cpus: host::nr_cpus(),
            host_cpu: host::cpu_model(),
            accel: None,
            raised_limits: None,
            kernel_args: String::new(),
            load_percent: host::load_percent(),
            boot_ms: 0,
            total_ms: 0,
            runs: Vec::new(),
            cut_short: None,
        },
        scheduler: String::new(),
        warden: None,
    };
    let start = Instant::now();
    adopt_orphans();
    // Without the right to it the watch is merely less certain.
    let _ = job::become_realtime();
    let done = job::run(&placed_job(job)?, spread, &mut here);
    done.map_err(|error| KernelError::Job(error.to_string()))?;
    here.report.cut_short = here.progress.stop();
    let Here {
        mut report,
        mut records,
        ..
    } = here;
    report.total_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    records
        .rewind()
        .and_then(|()| read_runs(&mut BufReader::new(records), hear))
        .map_err(KernelError::io("trace", "read"))?;
    Ok(report)
}

/// An error if neither schedulers nor the tracer can be loaded into the kernel that runs here.
pub fn require() -> Result<(), KernelError> {
    let missing = host::missing_here();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(KernelError::Job(missing.join("; "))),
    }
}

/// Two cannot be loaded at once, and whoever loaded the other one did so on purpose.
fn refuse_another_scheduler() -> Result<(), KernelError> {
    match loader::state() {
        Ok(state) if state == "disabled" || state == ABSENT => Ok(()),
        _ => Err(KernelError::Job(
            "a sched_ext scheduler is loaded already (/sys/kernel/sched_ext/root/ops names it): \
             stop it first"
                .to_owned(),
        )),
    }
}

/// Whoever runs here has more to lose than a guest has.
fn refuse_danger(job: &VmJob) -> Result<(), KernelError> {
    let release = host::kernel_release();
    for scheduler in &job.schedulers {
        let Some(path) = &scheduler.object else {
            continue;
        };
        let object = std::fs::read(path).map_err(KernelError::io(path, "read"))?;
        if verifier_bug::threatens(&release, &object) {
            return Err(KernelError::Job(format!(
                "{}: the verifier of Linux {release} may crash this machine when it checks loops in functions: use --vm, \
                 or a kernel with the fix (6.12.59, 6.17.9, 6.18)",
                scheduler.name
            )));
        }
    }
    Ok(())
}

fn placed_job(job: &VmJob) -> Result<PlacedJob, KernelError> {
    let text = |path: &Path| path.display().to_string();
    let mut command = job.command.clone();
    command[0] = text(&elf::find_command(&command[0])?);
    let schedulers = job.schedulers.iter().map(|scheduler| PlacedRun {
        scheduler: scheduler.name.clone(),
        object: scheduler.object.as_deref().map(text),
        tunables: scheduler.tunables.clone(),
        environment: scheduler.environment.clone(),
        deviations: scheduler.deviations.clone(),
        arguments: scheduler.arguments.clone(),
    });
    Ok(PlacedJob {
        command,
        // Where it is started, with what it inherits.
        folder: String::new(),
        variables: Vec::new(),
        packed: false,
        schedulers: schedulers.collect(),
        rounds: job.rounds,
        tracer: job.tracer.as_deref().map(text),
        probes: job.probes,
        run_limit_s: job.run_limit_s,
        limits: job.limits,
        watch_ms: job.watch_ms,
    })
}

/// What the command leaves behind becomes ours, to be ended.
fn adopt_orphans() {
    // SAFETY: a plain system call.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Kills the process group that it is given as soon as its standard input closes, however Tiltyard dies.
const WARDEN: &str = "read group; while read -r more; do :; done; kill -KILL -$group";

fn warden() -> Result<Child, Error> {
    let mut command = Command::new("sh");
    command.args(["-c", WARDEN]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C is not for it.
    Ok(command.process_group(0).spawn()?)
}

struct Here<'a> {
    job: &'a VmJob,
    progress: &'a mut dyn Progress,
    records: File,
    report: Report,
    scheduler: String,
    warden: Option<Child>,
}

impl Site for Here<'_> {
    fn tell(&mut self, message: &Message) -> Result<(), Error> {
        match message {
            Message::RunStarted { scheduler, round } => {
                self.progress.step(&describe(self.job, scheduler, *round));
                self.progress.begin_run();
                self.scheduler.clone_from(scheduler);
            }
            Message::Output { text } => self.progress.output(&self.scheduler, text),
            Message::RunEnded { report } => {
                let mut report = (**report).clone();
                report.scheduler = label(self.job, report.scheduler, &self.report.kernel_release);
                self.report.runs.push(report);
                self.progress.ran(&self.report);
            }
            Message::Ready { .. } | Message::Failed { .. } | Message::Done => {}
        }
        Ok(())
    }

    fn records(&mut self) -> Result<File, Error> {
        Ok(self.records.try_clone()?)
    }

    fn command(
        &mut self,
        job: &PlacedJob,
        run: &PlacedRun,
    ) -> Result<(Option<Root>, Command), Error> {
        self.warden = Some(warden()?);
        let (program, arguments) = job.command.split_first().ok_or("the job has no command")?;
        let mut command = Command::new(program);
        command.args(arguments).args(&run.arguments);
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Ok((None, command))
    }

    fn started(&mut self, group: u32) {
        let line = format!("{group}\n");
        if let Some(stdin) = self.warden.as_mut().and_then(|w| w.stdin.as_mut()) {
            // If it is gone already, the command's first process still ends with us.
            let _ = stdin.write_all(line.as_bytes());
        }
    }

    fn stop(&mut self) -> Option<String> {
        self.progress.stop()
    }

    fn clean_up(&mut self, group: u32) {
        // SAFETY: plain system calls. The group is the command's own: it was started with it.
        unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
        // What left the group has come to us as an orphan; its own children come next. The warden is among them.
        loop {
            let orphans: Vec<i32> = children()
                .into_iter()
                .filter(|pid| *pid != group as i32)
                .collect();
            if orphans.is_empty() {
                return;
            }
            for pid in orphans {
                // SAFETY: plain system calls; it is our own child until we have waited for it.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                    libc::waitpid(pid, std::ptr::null_mut(), 0);
                }
            }
        }
    }
}

/// Processes whose parent is this one.
fn children() -> Vec<i32> {
    let own = std::process::id();
    let threads = std::fs::read_dir(format!("/proc/{own}/task"))
        .into_iter()
        .flatten();
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| {
            let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<i32>>()
        })
        .collect()
}
