// SPDX-License-Identifier: GPL-2.0-or-later
//! Tiltyard as the init of its own guest: sets up what a scheduler and a command need, does the
//! runs of its job one after another, reports to the host, and powers off.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::job::{self, Error, Site};
use crate::protocol::{
    INIT_ARGUMENT, JOB_PATH, Message, PORT_NAME, PlacedJob, PlacedRun, SERIAL_ARGUMENT,
    TRACE_PORT_NAME,
};
use crate::root::{self, Root};
use crate::rounds::Spread;
use crate::syscall::check;
use crate::{limits, modules, network};

/// How long the port to the host may take to appear.
const PORT_LIMIT: Duration = Duration::from_secs(10);

/// The guest's whole life. Refuses to be anything but process 1; never returns.
///
/// `spread` returns the uncertainty of a scheduler's times.
pub fn main(spread: Spread) -> ! {
    if std::process::id() != 1 {
        eprintln!("tiltyard {INIT_ARGUMENT}: this is the init of Tiltyard's own virtual machine");
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
    start_all_cpus()?;
    modules::load_all()?;
    job::become_realtime()?;
    // Its own share of a run appears under this name.
    // SAFETY: the name is a C string; the call copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"tiltyard".as_ptr()) };
    let mut host = Host::connect()?;
    let result = work(&mut host, spread);
    host.tell(&match &result {
        Ok(()) => Message::Done,
        Err(error) => Message::Failed {
            reason: error.to_string(),
        },
    })
}

fn work(host: &mut Host, spread: Spread) -> Result<(), Error> {
    let job = std::fs::read(JOB_PATH).map_err(|error| format!("{JOB_PATH}: {error}"))?;
    let job: PlacedJob = serde_json::from_slice(&job)?;
    let kernel_release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    host.tell(&Message::Ready {
        kernel_release: kernel_release.trim().to_owned(),
    })?;
    if !job.packed {
        root::mount_host()?;
    }
    network::bring_up_loopback()?;
    job::run(&job, spread, host)
}

/// The kernel's own file systems.
fn mount_all() -> io::Result<()> {
    for (kind, place) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("bpf", "/sys/fs/bpf"),
        ("cgroup2", limits::TREE),
        ("devtmpfs", "/dev"),
    ] {
        root::mount(kind, kind, place, 0, "")?;
    }
    Ok(())
}

/// Starts the CPUs that the kernel did not start at boot, if any.
fn start_all_cpus() -> Result<(), Error> {
    for entry in std::fs::read_dir("/sys/devices/system/cpu")? {
        let switch = entry?.path().join("online");
        // The folder has more than CPUs, and a CPU that cannot be stopped has no switch.
        if std::fs::read_to_string(&switch).is_ok_and(|state| state.trim() == "0") {
            std::fs::write(&switch, "1")
                .map_err(|error| format!("{}: {error}", switch.display()))?;
        }
    }
    Ok(())
}

/// QEMU is configured to exit instead of rebooting.
fn power_off() -> ! {
    // SAFETY: plain system calls.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_AUTOBOOT);
    }
    unreachable!("process 1 may reboot")
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
}

impl Site for Host {
    fn tell(&mut self, message: &Message) -> Result<(), Error> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.port.write_all(&line)?)
    }

    fn records(&mut self) -> Result<File, Error> {
        open_port(TRACE_PORT_NAME)
    }

    fn command(
        &mut self,
        job: &PlacedJob,
        run: &PlacedRun,
    ) -> Result<(Option<Root>, Command), Error> {
        let (program, arguments) = job.command.split_first().ok_or("the job has no command")?;
        let mut command = Command::new(program);
        command.args(arguments).args(&run.arguments).env_clear();
        command.envs(job.variables.iter().map(|(name, value)| (name, value)));
        if job.packed {
            // What commands expect to be there.
            std::fs::create_dir_all("/tmp")?;
            return Ok((None, command));
        }
        let root = Root::new()?;
        // As a machine of this kernel would have it, for commands that look (Tiltyard is one).
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        root.bring(&format!("/boot/config-{}", release.trim()))?;
        root.enter(&mut command, &job.folder)?;
        Ok((Some(root), command))
    }

    fn clean_up(&mut self, _group: u32) {
        // As process 1, this means everyone else in this guest.
        // SAFETY: a plain system call.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

/// Opens a line to the host: the virtio port of this name, whose driver may still be coming up, or the serial line
/// that replaces it.
fn open_port(name: &str) -> Result<File, Error> {
    if std::env::args().any(|argument| argument == SERIAL_ARGUMENT) {
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
