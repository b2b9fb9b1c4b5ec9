// SPDX-License-Identifier: GPL-2.0-or-later
//! Does a job in the kernel that runs here, be it a guest's or the host's own: the schedulers in turn, round by
//! round, the command under each.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tiltyard_model::Machine;

use crate::kernel_log::KernelLog;
use crate::limits::Group;
use crate::loader::{self, Attached, KernelEnums, Setup};
use crate::protocol::{
    CommandStatus, Message, PlacedJob, PlacedRun, RunOutcome, RunReport, Tunable,
};
use crate::root::Root;
use crate::rounds::{Spread, Turns};
use crate::scores::Scores;
use crate::syscall::check;
use crate::trace::tracer::Tracer;

pub type Error = Box<dyn std::error::Error>;

/// Where a job is done: what differs between a guest and the machine on which Tiltyard was started.
pub trait Site {
    /// Sends a message to whoever waits for the job.
    fn tell(&mut self, message: &Message) -> Result<(), Error>;
    /// Where the records of events go.
    fn records(&mut self) -> Result<File, Error>;
    /// The command, and the tree in which it will run if that is made for it.
    fn command(
        &mut self,
        job: &PlacedJob,
        run: &PlacedRun,
    ) -> Result<(Option<Root>, Command), Error>;
    /// The command runs, as the first of this process group.
    fn started(&mut self, _group: u32) {}
    /// Ends whatever the command has left behind; `group` is its process group.
    fn clean_up(&mut self, group: u32);
    /// Why the job is to end before it is done.
    fn stop(&mut self) -> Option<String> {
        None
    }
}

/// The whole job. Err only if the site itself is broken.
pub fn run(job: &PlacedJob, spread: Spread, site: &mut dyn Site) -> Result<(), Error> {
    // A kernel without sched_ext is as good as any other for its own scheduler.
    let kernel = Kernel::here(job.schedulers.iter().any(|run| run.object.is_some()));
    let mut turns = Turns::new(job.rounds, job.schedulers.len(), spread);
    let (start, mut runs) = (Instant::now(), 0);
    loop {
        for index in 0..job.schedulers.len() {
            if turns.wants(index) {
                let time_s = do_turn(job, index, turns.round(), runs, &kernel, site)?;
                turns.ran(index, time_s);
                runs += 1;
            }
            if site.stop().is_some() {
                return Ok(());
            }
        }
        if !turns.next_round(start.elapsed()) {
            return Ok(());
        }
    }
}

/// What loading a scheduler needs.
struct Kernel {
    enums: KernelEnums,
    machine: Machine,
}

impl Kernel {
    /// If nothing is loaded, nothing is read, so a kernel without sched_ext is no error.
    fn here(loads: bool) -> Result<Kernel, String> {
        if !loads {
            return Err("nothing is to be loaded".to_owned());
        }
        Ok(Kernel {
            enums: KernelEnums::of_this_kernel().map_err(|e| e.to_string())?,
            machine: loader::machine().map_err(|e| e.to_string())?,
        })
    }
}

/// One scheduler's turn, with its messages. The time if all went well, s.
fn do_turn(
    job: &PlacedJob,
    index: usize,
    round: u32,
    run: usize,
    kernel: &Result<Kernel, String>,
    site: &mut dyn Site,
) -> Result<Option<f64>, Error> {
    let scheduler = &job.schedulers[index];
    let name = scheduler.scheduler.clone();
    site.tell(&Message::RunStarted {
        scheduler: name.clone(),
        round,
    })?;
    let tracer = job.tracer.as_deref().filter(|_| round > 0);
    let tracer = tracer.map(|path| (path, run));
    let log = KernelLog::from_now_on();
    let mut environment = Vec::new();
    let outcome = match kernel {
        Err(reason) if scheduler.object.is_some() => RunOutcome::NotLoaded {
            reason: reason.clone(),
            exit: None,
            is_input: false,
        },
        kernel => {
            let kernel = kernel.as_ref().ok();
            do_run(job, scheduler, tracer, kernel, &mut environment, site)?
        }
    };
    let report = RunReport {
        scheduler: name,
        round,
        tunables: scheduler.tunables.clone(),
        environment,
        outcome,
        complaints: log.complaints(),
        state_after: loader::state()?,
    };
    let time_s = report.time_s();
    site.tell(&Message::RunEnded {
        report: Box::new(report),
    })?;
    Ok(time_s)
}

/// Loads the scheduler, runs the command, takes the scheduler out. Err only if the place
/// itself is broken.
fn do_run(
    job: &PlacedJob,
    run: &PlacedRun,
    tracer: Option<(&str, usize)>,
    kernel: Option<&Kernel>,
    environment: &mut Vec<Tunable>,
    site: &mut dyn Site,
) -> Result<RunOutcome, Error> {
    let mut recording = tracer
        .map(|(object, number)| Recording::load(Path::new(object), number, site.records()?))
        .transpose()?;
    let listening = recording.as_ref().filter(|_| job.probes);
    let ring = listening.map(|r| r.tracer.ring()).transpose()?;
    let ring = ring.as_ref().map(AsFd::as_fd);
    let start = Instant::now();
    let object = run.object.as_deref().zip(kernel);
    let mut scheduler = match object {
        None => None,
        Some((object, kernel)) => {
            let setup = Setup {
                tunables: &run.tunables,
                environment: &run.environment,
                machine: &kernel.machine,
                enums: &kernel.enums,
                probes: ring,
            };
            match loader::attach(Path::new(object), setup, &run.deviations) {
                Ok(attached) => Some((attached, &kernel.enums)),
                Err(error) => {
                    return Ok(RunOutcome::NotLoaded {
                        reason: error.to_string(),
                        is_input: error.is_input(),
                        exit: error.exit(),
                    });
                }
            }
        }
    };
    if let Some((attached, _)) = &mut scheduler {
        *environment = std::mem::take(&mut attached.given);
    }
    // One that was thrown out already has no name any more; its exit info has the rest.
    let ops_name = scheduler
        .as_ref()
        .and_then(|(scheduler, _)| scheduler.ops_name().ok());
    let load_ms = millis(start);
    let (root, mut command) = site.command(job, run)?;
    let group = Group::new(job.limits)?;
    group.as_ref().map_or(Ok(()), |g| g.enter(&mut command))?;
    if let Some(recording) = &mut recording {
        recording.begin()?;
    }
    let start = Instant::now();
    let (ended, scores) = run_command(
        &mut command,
        job,
        scheduler.as_mut().map(|(attached, _)| attached),
        site,
        recording.as_mut(),
    )?;
    let command_ms = millis(start);
    let exceeded = group.as_ref().and_then(Group::was_exceeded);
    let command = exceeded.map_or(ended, |limit_mib| CommandStatus::OverMemory { limit_mib });
    drop(group);
    drop(root);
    recording.map(Recording::end).transpose()?;
    let start = Instant::now();
    let left = scheduler
        .map(|(scheduler, enums)| scheduler.detach(enums))
        .transpose()?;
    let (exit, deviations) = left.map_or((None, Vec::new()), |left| (left.exit, left.deviations));
    Ok(RunOutcome::Ran {
        ops_name,
        command,
        scores,
        exit,
        deviations,
        load_ms,
        command_ms,
        unload_ms: millis(start),
    })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Runs the command to its end, its limit, or the scheduler's ejection. Its output is
/// forwarded as it arrives; the scores in it are returned too. Nothing that it started outlives it.
fn run_command(
    command: &mut Command,
    job: &PlacedJob,
    scheduler: Option<&mut Attached>,
    site: &mut dyn Site,
    recording: Option<&mut Recording>,
) -> Result<(CommandStatus, Vec<String>), Error> {
    let (output, input) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input);
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            // It was looked for before, so it is most likely its interpreter that is not there.
            let hint = match error.kind() {
                io::ErrorKind::NotFound => ": it, or the interpreter in its first line",
                _ => "",
            };
            let reason = format!("{}: {error}{hint}", command.get_program().display());
            return Ok((CommandStatus::NotStarted { reason }, Vec::new()));
        }
    };
    site.started(child.id());
    // The builder holds the pipe's writing ends; without them the pipe ends with the command.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    set_nonblocking(&output)?;
    let mut output = Output {
        pipe: output,
        scores: Scores::default(),
    };
    let early = watch(&mut child, &mut output, job, scheduler, site, recording)?;
    site.clean_up(child.id());
    let status = child.wait()?;
    reap();
    output.forward(site)?;
    let status = early.unwrap_or_else(|| ended(status));
    Ok((status, output.scores.finish()))
}

/// Waits for the command, forwarding its output. Some(status) if something else than its own
/// end decides.
fn watch(
    child: &mut Child,
    output: &mut Output,
    job: &PlacedJob,
    mut scheduler: Option<&mut Attached>,
    site: &mut dyn Site,
    mut recording: Option<&mut Recording>,
) -> Result<Option<CommandStatus>, Error> {
    let limit = Duration::from_secs(job.run_limit_s);
    let end = Instant::now() + limit;
    let process = pidfd(child)?;
    let mut wanted = [process.as_raw_fd(), output.pipe.as_raw_fd()].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    loop {
        let watch = Duration::from_millis(job.watch_ms);
        let due = scheduler.as_ref().and_then(|scheduler| scheduler.next_in());
        let wait = due.map_or(watch, |due| due.min(watch));
        // Rounded up: waking too early would only mean to wait again.
        let wait_ms = wait.as_micros().div_ceil(1000) as i32;
        // SAFETY: the array is as long as stated and outlives the call.
        unsafe { libc::poll(wanted.as_mut_ptr(), 2, wait_ms) };
        output.forward(site)?;
        if let Some(recording) = &mut recording {
            recording.fetch()?;
        }
        if scheduler.is_some() && loader::state()? != "enabled" {
            return Ok(Some(CommandStatus::Ejected));
        }
        if let Some(scheduler) = &mut scheduler {
            scheduler.call_due()?;
        }
        if wanted[0].revents != 0 {
            return Ok(None);
        }
        if let Some(reason) = site.stop() {
            return Ok(Some(CommandStatus::Stopped { reason }));
        }
        if Instant::now() >= end {
            let limit_s = limit.as_secs();
            return Ok(Some(CommandStatus::TimedOut { limit_s }));
        }
        if wanted[1].revents & (libc::POLLIN | libc::POLLHUP) == libc::POLLHUP {
            // Closed: poll() would not wait any more. It passes over what is below 0.
            wanted[1].fd = -1;
        }
    }
}

fn ended(status: ExitStatus) -> CommandStatus {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandStatus::Exited { code },
        (None, signal) => CommandStatus::Signalled {
            signal: signal.unwrap_or(0),
        },
    }
}

/// What the command writes.
struct Output {
    pipe: io::PipeReader,
    scores: Scores,
}

impl Output {
    /// Sends on whatever the pipe holds now.
    fn forward(&mut self, site: &mut dyn Site) -> Result<(), Error> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                    self.scores.hear(&text);
                    site.tell(&Message::Output { text })?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Collects the children that are left.
fn reap() {
    // SAFETY: a plain system call; no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers; on success it returns a new descriptor.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) })?;
    // SAFETY: as above, ours alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn set_nonblocking(pipe: &io::PipeReader) -> io::Result<()> {
    // SAFETY: a system call without pointers.
    check(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }.into())?;
    Ok(())
}

/// Watches from the realtime class, with all threads that there are and above whatever the command asks for, so that
/// a scheduler that starves everyone is still reported, events are fetched, and Ctrl-C works. The command does not inherit it.
pub fn become_realtime() -> io::Result<()> {
    // SAFETY: a plain system call.
    let sched_priority = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    let parameter = libc::sched_param { sched_priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let tid = thread?.file_name().to_string_lossy().parse().unwrap_or(0);
        // SAFETY: the parameter outlives the call.
        check(unsafe { libc::sched_setscheduler(tid, policy, &parameter) }.into())?;
    }
    Ok(())
}

/// The tracer, and the line on which its records leave.
struct Recording {
    tracer: Tracer,
    port: File,
    /// Number of the run.
    run: usize,
}

impl Recording {
    fn load(object: &Path, run: usize, port: File) -> Result<Self, Error> {
        let tracer = Tracer::load(object)?;
        Ok(Self { tracer, port, run })
    }

    fn begin(&mut self) -> Result<(), Error> {
        Ok(self.tracer.begin(&mut self.port, self.run as u32)?)
    }

    fn fetch(&mut self) -> Result<(), Error> {
        Ok(self.tracer.fetch(&mut self.port)?)
    }

    fn end(mut self) -> Result<(), Error> {
        Ok(self.tracer.end(&mut self.port)?)
    }
}
