// SPDX-License-Identifier: GPL-2.0-or-later
//! One QEMU process: its command line, its two streams, and its certain end.
//!
//! Nothing of it touches the disk: the initramfs is a memory file, console and messages are
//! pipes. Nothing outlives Tiltyard: the kernel kills QEMU when the thread that started it
//! dies, for whatever reason.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tiltyard_model::Machine;

use crate::error::KernelError;
use crate::hardware::{self, Accel};
use crate::host::{QEMU, QEMU_PACKAGE};
use crate::packages::KernelImage;
use crate::protocol::{INIT_ARGUMENT, INIT_PATH, PORT_NAME, TRACE_PORT_NAME};
use crate::share::{self, Share};

/// Console lines that are kept for the case of failure: a panic with its call trace and
/// registers fits.
const CONSOLE_LINES: usize = 80;
/// How long QEMU may take to end after it closed its streams.
const ENDING_LIMIT: Duration = Duration::from_secs(2);

/// The guest's hardware.
pub struct Hardware<'a> {
    pub machine: &'a Machine,
    pub memory_mib: u32,
    pub accel: Accel,
    /// What the random numbers of an exactly repeatable guest begin with.
    pub seed: u32,
    /// Further words of the guest kernel's command line.
    pub kernel_options: &'a str,
}

/// A running guest.
pub struct Guest {
    child: Child,
    console: Arc<Mutex<VecDeque<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// Lines that the guest wrote to its port; closed when QEMU is gone.
    pub lines: Receiver<String>,
    /// What it writes to its trace port.
    trace: File,
    /// The host's files, as long as they are asked for.
    _share: Share,
}

impl Guest {
    /// Starts QEMU. The calling thread must stay alive as long as the guest.
    pub fn start(
        kernel: &KernelImage,
        initramfs: &[u8],
        hardware: &Hardware,
    ) -> Result<Self, KernelError> {
        let initrd =
            memory_file(initramfs).map_err(KernelError::io("initramfs", "hold in memory"))?;
        let trace = memory_file(&[]).map_err(KernelError::io("trace", "hold in memory"))?;
        let root = Path::new("/");
        let (share, stream) = Share::new(root).map_err(KernelError::io(root, "share"))?;
        let inherited = [initrd.as_raw_fd(), trace.as_raw_fd(), stream.as_raw_fd()];
        let mut command = Command::new(QEMU);
        command
            .args(arguments(kernel, inherited, hardware))
            .args(hardware.accel.arguments(hardware.machine, hardware.seed))
            .args(hardware::arguments(hardware.machine, hardware.memory_mib)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for Tiltyard to handle; QEMU would only add a complaint of its own.
            .process_group(0);
        bind_to_us(&mut command, inherited);
        let mut child = command.spawn().map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => KernelError::ToolMissing {
                tool: QEMU,
                package: QEMU_PACKAGE,
            },
            _ => KernelError::Io {
                path: QEMU.into(),
                action: "start",
                source,
            },
        })?;
        let messages = child.stdout.take().expect("stdout is piped");
        let errors = child.stderr.take().expect("stderr is piped");
        let console = Arc::new(Mutex::new(VecDeque::new()));
        let reader = keep_last_lines(errors, Arc::clone(&console));
        Ok(Self {
            child,
            console,
            reader: Some(reader),
            lines: send_lines(messages),
            trace,
            _share: share,
        })
    }

    /// What it writes to its trace port, which outlives it.
    pub fn trace(&self) -> std::io::Result<File> {
        self.trace.try_clone()
    }

    /// Kills QEMU, or, if it `is_ending` by itself, lets it. How it ended, and the last
    /// console lines.
    pub fn end(mut self, is_ending: bool) -> (String, String) {
        let give_up = Instant::now()
            + if is_ending {
                ENDING_LIMIT
            } else {
                Duration::ZERO
            };
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                Ok(None) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => break "killed".to_owned(),
            }
        };
        self.stop();
        let console = self
            .console
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let text = console
            .iter()
            .map(|line| format!("  {line}\n"))
            .collect::<String>();
        (
            status,
            if text.is_empty() {
                "  (none)".to_owned()
            } else {
                text.trim_end().to_owned()
            },
        )
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What QEMU calls itself.
pub fn version() -> Result<String, KernelError> {
    let output = Command::new(QEMU).arg("--version").output();
    let output = output.map_err(KernelError::io(QEMU, "start"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn arguments(
    kernel: &KernelImage,
    [initrd, trace, share]: [RawFd; 3],
    hardware: &Hardware,
) -> Vec<String> {
    let accel = hardware.accel;
    // loglevel=7: the console is shown only when the guest fails, and should then say why.
    // cryptomgr.notests: self-tests of ciphers would run on beside the first command.
    // tsc=reliable: under emulation the clock watchdog only costs time and false alarms.
    let kernel_command_line = format!(
        "console=ttyS0 loglevel=7 panic=-1 reboot=t tsc=reliable cryptomgr.notests {} {} rdinit={} -- {} {}",
        accel.kernel_options(hardware.machine, &kernel.release),
        hardware.kernel_options,
        INIT_PATH,
        INIT_ARGUMENT,
        accel.init_arguments(),
    );
    let initrd = format!("/proc/self/fd/{initrd}");
    let trace = format!("file,id=trace,path=/proc/self/fd/{trace}");
    let image = kernel.image.display().to_string();
    [
        // No display, network or disk: the guest boots faster without them.
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-kernel",
        &image,
        "-initrd",
        &initrd,
        "-append",
        &kernel_command_line,
        "-chardev",
        "file,id=console,path=/dev/stderr",
        "-serial",
        "chardev:console",
        "-chardev",
        "file,id=messages,path=/dev/stdout",
        "-chardev",
        &trace,
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(devices(accel, share))
    .collect()
}

/// The two lines from the guest to us, and the host's files. Virtio is fast, but its host side works whenever it
/// gets to it; a serial line is part of what the guest's instructions do, and such a guest has all it needs packed.
fn devices(accel: Accel, share: RawFd) -> Vec<String> {
    let words = match accel {
        Accel::Counted => ["-serial chardev:messages", "-serial chardev:trace"]
            .map(str::to_owned)
            .to_vec(),
        Accel::Kvm | Accel::Emulated => vec![
            "-device virtio-serial-pci".to_owned(),
            format!("-device virtserialport,chardev=messages,name={PORT_NAME}"),
            format!("-device virtserialport,chardev=trace,name={TRACE_PORT_NAME}"),
            format!("-chardev socket,id=share,fd={share}"),
            format!(
                "-device vhost-user-fs-pci,chardev=share,tag={},queue-size={}",
                share::TAG,
                share::QUEUE_SIZE
            ),
        ],
    };
    let pairs = words.iter().flat_map(|pair| pair.split(' '));
    pairs.map(str::to_owned).collect()
}

/// An anonymous file in memory: gone with its last user.
fn memory_file(bytes: &[u8]) -> std::io::Result<File> {
    // SAFETY: the name is a C string; the result is a new descriptor, checked before use.
    let fd = unsafe { libc::memfd_create(c"initramfs".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: as above, ours alone.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes)?;
    Ok(file)
}

/// Lets the child keep these descriptors, and die with the thread that starts it.
fn bind_to_us(command: &mut Command, fds: [RawFd; 3]) {
    let parent = std::process::id();
    // SAFETY: only async-signal-safe system calls run between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) < 0
                || fds.iter().any(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) < 0)
            {
                return Err(std::io::Error::last_os_error());
            }
            // Tiltyard may have died before the request above.
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}

fn send_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn keep_last_lines(
    stream: impl Read + Send + 'static,
    kept: Arc<Mutex<VecDeque<String>>>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            let mut kept = kept.lock().unwrap_or_else(|poison| poison.into_inner());
            if kept.len() == CONSOLE_LINES {
                kept.pop_front();
            }
            kept.push_back(text);
            line.clear();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages;

    /// The end of a thread represents the end of Tiltyard: the kernel treats kill -9 of the process the same way.
    #[test]
    fn qemu_dies_with_whoever_started_it() {
        let Some(kernel) = packages::find_cached("6.18") else {
            let _ = writeln!(std::io::stderr(), "skipped: no kernel 6.18 in the cache");
            return;
        };
        let starter = std::thread::spawn(move || {
            let machine = Machine::parse_hwloc_synthetic("pu:1").expect("one CPU");
            let hardware = Hardware {
                machine: &machine,
                memory_mib: 256,
                accel: Accel::Emulated,
                seed: 1,
                kernel_options: "",
            };
            let guest = Guest::start(&kernel, b"", &hardware).unwrap();
            let pid = guest.child.id();
            // No destructor runs after kill -9 either.
            std::mem::forget(guest);
            pid
        });
        let pid = starter.join().unwrap();
        let mut status = 0;
        // SAFETY: the child is ours, nobody else waits for it, and `status` outlives the call.
        unsafe { libc::waitpid(pid as i32, &mut status, 0) };
        assert!(libc::WIFSIGNALED(status), "it ended by itself: {status:#x}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
    }
}
