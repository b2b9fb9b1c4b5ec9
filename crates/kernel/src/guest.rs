// SPDX-License-Identifier: GPL-2.0-or-later
//! Tiltyard as the init of its own guest: sets up what a scheduler and a command need, does the
//! runs of its job one after another, tells the host, and goes down.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::loader::{self, KernelEnums};
use crate::protocol::{
    CommandStatus, GuestJob, GuestRun, JOB_PATH, Message, PORT_NAME, RunOutcome, RunReport,
    TRACE_PORT_NAME,
};
use crate::root::{self, Root};
use crate::rounds::{Spread, Turns};
use crate::trace::tracer::Tracer;
use crate::{modules, network};

/// The argument with which the guest's kernel starts init: the hidden subcommand.
pub const ARGUMENT: &str = "kernel-guest";

/// A further argument: the host listens at serial lines.
pub const SERIAL: &str = "serial";

/// How often a running command's scheduler is looked at.
const WATCH: Duration = Duration::from_millis(50);
/// How long the port to the host may take to appear.
const PORT_LIMIT: Duration = Duration::from_secs(10);

type Error = Box<dyn std::error::Error>;

/// The guest's whole life. Refuses to be anything but process 1; never returns.
///
/// `spread` tells how well a scheduler's times are known.
pub fn main(spread: Spread) -> ! {
    if std::process::id() != 1 {
        eprintln!("tiltyard {ARGUMENT}: this is the init of Tiltyard's own virtual machine");
        std::process::exit(2);
    }
    if let Err(error) = live(spread) {
        // The host shows the console when the port stays silent.
        eprintln!("tiltyard guest: {error}");
    }
    power_off()
}

fn live(spread: Spread) -> Result<(), Error> {
    mount_all()?;
    modules::load_all()?;
    become_realtime()?;
    // Among the figures of a run its own share stands under this name.
    // SAFETY: the name is a C string; the call copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"tiltyard".as_ptr()) };
    let mut host = Host::connect()?;
    let result = work(&mut host, spread);
    host.send(&match &result {
        Ok(()) => Message::Done,
        Err(error) => Message::Failed {
            reason: error.to_string(),
        },
    })
}

fn work(host: &mut Host, spread: Spread) -> Result<(), Error> {
    let job = std::fs::read(JOB_PATH).map_err(|error| format!("{JOB_PATH}: {error}"))?;
    let job: GuestJob = serde_json::from_slice(&job)?;
    let kernel_release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    host.send(&Message::Ready {
        kernel_release: kernel_release.trim().to_owned(),
    })?;
    if !job.packed {
        root::mount_host()?;
    }
    network::bring_up_loopback()?;
    // A kernel without sched_ext is a guest like any other, for its own scheduler.
    let enums = KernelEnums::of_this_kernel();
    let mut turns = Turns::new(job.rounds, job.schedulers.len(), spread);
    let (start, mut runs) = (Instant::now(), 0);
    loop {
        for index in 0..job.schedulers.len() {
            if turns.wants(index) {
                let time_s = do_turn(&job, index, turns.round(), runs, &enums, host)?;
                turns.ran(index, time_s);
                runs += 1;
            }
        }
        if !turns.next_round(start.elapsed()) {
            return Ok(());
        }
    }
}

/// One scheduler's turn, with what the host hears of it. The time if all went well, s.
fn do_turn(
    job: &GuestJob,
    index: usize,
    round: u32,
    run: usize,
    enums: &Result<KernelEnums, String>,
    host: &mut Host,
) -> Result<Option<f64>, Error> {
    let scheduler = &job.schedulers[index];
    let name = scheduler.scheduler.clone();
    host.send(&Message::RunStarted {
        scheduler: name.clone(),
        round,
    })?;
    let tracer = job.tracer.as_deref().filter(|_| round > 0);
    let tracer = tracer.map(|path| (path, run));
    let outcome = match enums {
        Err(reason) if scheduler.object.is_some() => RunOutcome::NotLoaded {
            reason: reason.clone(),
        },
        enums => do_run(job, scheduler, tracer, enums.as_ref().ok(), host)?,
    };
    let report = RunReport {
        scheduler: name,
        round,
        outcome,
        state_after: loader::state()?,
    };
    let time_s = report.time_s();
    host.send(&Message::RunEnded {
        report: Box::new(report),
    })?;
    Ok(time_s)
}

/// Loads the scheduler, runs the command, takes the scheduler out. Err only if the guest
/// itself is broken.
fn do_run(
    job: &GuestJob,
    run: &GuestRun,
    tracer: Option<(&str, usize)>,
    enums: Option<&KernelEnums>,
    host: &mut Host,
) -> Result<RunOutcome, Error> {
    let mut recording = tracer
        .map(|(object, number)| Recording::load(Path::new(object), number))
        .transpose()?;
    let ring = recording.as_ref().map(|r| r.tracer.ring()).transpose()?;
    let ring = ring.as_ref().map(AsFd::as_fd);
    let start = Instant::now();
    let object = run.object.as_deref().zip(enums);
    let scheduler = match object {
        None => None,
        Some((object, enums)) => {
            match loader::attach(Path::new(object), &run.tunables, ring, enums) {
                Ok(attached) => Some((attached, enums)),
                Err(error) => {
                    return Ok(RunOutcome::NotLoaded {
                        reason: error.to_string(),
                    });
                }
            }
        }
    };
    // One that was thrown out already has no name any more; its exit info tells the rest.
    let ops_name = scheduler
        .as_ref()
        .and_then(|(scheduler, _)| scheduler.ops_name().ok());
    let load_ms = millis(start);
    let (root, mut command) = prepare(job)?;
    if let Some(recording) = &mut recording {
        recording.begin()?;
    }
    let limit = Duration::from_secs(job.run_limit_s);
    let start = Instant::now();
    let command = run_command(
        &mut command,
        limit,
        scheduler.is_some(),
        host,
        recording.as_mut(),
    )?;
    let command_ms = millis(start);
    drop(root);
    recording.map(Recording::end).transpose()?;
    let start = Instant::now();
    let exit = scheduler
        .map(|(scheduler, enums)| scheduler.detach(enums))
        .transpose()?
        .flatten();
    Ok(RunOutcome::Ran {
        ops_name,
        command,
        exit,
        load_ms,
        command_ms,
        unload_ms: millis(start),
    })
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The command, and the tree in which it will run; none where all that it has was packed.
fn prepare(job: &GuestJob) -> Result<(Option<Root>, Command), Error> {
    let (program, arguments) = job.command.split_first().ok_or("the job has no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    if job.packed {
        // What commands expect to be there.
        std::fs::create_dir_all("/tmp")?;
        return Ok((None, command));
    }
    let root = Root::new()?;
    root.enter(&mut command, &job.folder)?;
    Ok((Some(root), command))
}

/// Runs the command to its end, its limit, or the scheduler's ejection. Its output goes to the
/// host as it comes. Nothing that it started outlives it.
fn run_command(
    command: &mut Command,
    limit: Duration,
    is_loaded: bool,
    host: &mut Host,
    recording: Option<&mut Recording>,
) -> Result<CommandStatus, Error> {
    let (mut output, input) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input);
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            return Ok(CommandStatus::NotStarted {
                reason: format!("{}: {error}", command.get_program().display()),
            });
        }
    };
    // The builder holds the pipe's writing ends; without them the pipe ends with the command.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    set_nonblocking(&output)?;
    let early = watch(&mut child, &mut output, limit, is_loaded, host, recording)?;
    // As process 1, kill(-1) means everyone else in this guest.
    // SAFETY: a plain system call.
    unsafe { libc::kill(-1, libc::SIGKILL) };
    let status = child.wait()?;
    reap();
    forward(&mut output, host)?;
    Ok(early.unwrap_or_else(|| ended(status)))
}

/// Waits for the command, forwarding its output. Some(status) if something else than its own
/// end decides.
fn watch(
    child: &mut Child,
    output: &mut io::PipeReader,
    limit: Duration,
    is_loaded: bool,
    host: &mut Host,
    mut recording: Option<&mut Recording>,
) -> Result<Option<CommandStatus>, Error> {
    let end = Instant::now() + limit;
    let process = pidfd(child)?;
    loop {
        let mut wanted = [process.as_raw_fd(), output.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array is as long as stated and outlives the call.
        unsafe { libc::poll(wanted.as_mut_ptr(), 2, WATCH.as_millis() as i32) };
        forward(output, host)?;
        if let Some(recording) = &mut recording {
            recording.fetch()?;
        }
        if is_loaded && loader::state()? != "enabled" {
            return Ok(Some(CommandStatus::Ejected));
        }
        if wanted[0].revents != 0 {
            return Ok(None);
        }
        if Instant::now() >= end {
            let limit_s = limit.as_secs();
            return Ok(Some(CommandStatus::TimedOut { limit_s }));
        }
        if wanted[1].revents & (libc::POLLIN | libc::POLLHUP) == libc::POLLHUP {
            // Output closed, still running: poll() would not wait any more.
            std::thread::sleep(WATCH);
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

/// Sends on whatever the pipe holds now.
fn forward(output: &mut io::PipeReader, host: &mut Host) -> Result<(), Error> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                host.send(&Message::Output { text })?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Collects the children that process 1 inherits.
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

/// Init watches from the realtime class, so that a scheduler that starves everyone still gets
/// reported. The command does not inherit it.
fn become_realtime() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameter outlives the call; 0 is the caller.
    check(unsafe { libc::sched_setscheduler(0, policy, &parameter) }.into())?;
    Ok(())
}

/// The kernel's own file systems.
fn mount_all() -> io::Result<()> {
    for (kind, place) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("bpf", "/sys/fs/bpf"),
        ("devtmpfs", "/dev"),
    ] {
        root::mount(kind, kind, place, 0, "")?;
    }
    Ok(())
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// QEMU was told to end instead of rebooting.
fn power_off() -> ! {
    // SAFETY: plain system calls.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_AUTOBOOT);
    }
    unreachable!("process 1 may reboot")
}

/// The tracer, and the line on which its records leave.
struct Recording {
    tracer: Tracer,
    port: File,
    /// Number of the run.
    run: usize,
}

impl Recording {
    fn load(object: &Path, run: usize) -> Result<Self, Error> {
        let port = open_port(TRACE_PORT_NAME)?;
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

/// The line to the host.
struct Host {
    port: File,
}

impl Host {
    fn connect() -> Result<Self, Error> {
        Ok(Self {
            port: open_port(PORT_NAME)?,
        })
    }

    fn send(&mut self, message: &Message) -> Result<(), Error> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.port.write_all(&line)?)
    }
}

/// Opens a line to the host: the virtio port of this name, whose driver may still be coming up, or the serial line
/// that stands for it.
fn open_port(name: &str) -> Result<File, Error> {
    if std::env::args().any(|argument| argument == SERIAL) {
        return Ok(open_serial(match name {
            PORT_NAME => "/dev/ttyS1",
            _ => "/dev/ttyS2",
        })?);
    }
    let give_up = Instant::now() + PORT_LIMIT;
    loop {
        if let Some(path) = find_port(name)? {
            return Ok(File::options().write(true).open(path)?);
        }
        if Instant::now() >= give_up {
            return Err(format!("no virtio port named {name}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A serial line that carries bytes as they are.
fn open_serial(path: &str) -> io::Result<File> {
    let port = File::options().write(true).open(path)?;
    // SAFETY: plain data that the call fills; the descriptor is open.
    unsafe {
        let mut mode: libc::termios = std::mem::zeroed();
        check(libc::tcgetattr(port.as_raw_fd(), &mut mode).into())?;
        libc::cfmakeraw(&mut mode);
        check(libc::tcsetattr(port.as_raw_fd(), libc::TCSANOW, &mode).into())?;
    }
    Ok(port)
}

/// The device node of a port, once there is one.
fn find_port(wanted: &str) -> io::Result<Option<PathBuf>> {
    let ports = match std::fs::read_dir("/sys/class/virtio-ports") {
        Ok(ports) => ports,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for port in ports {
        let port = port?;
        // The name comes in a control message after the port itself.
        let name = std::fs::read_to_string(port.path().join("name")).unwrap_or_default();
        let node = Path::new("/dev").join(port.file_name());
        if name.trim() == wanted && node.exists() {
            return Ok(Some(node));
        }
    }
    Ok(None)
}
