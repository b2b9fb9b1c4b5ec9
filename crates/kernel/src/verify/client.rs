// SPDX-License-Identifier: GPL-2.0-or-later
//! The part that asks.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use super::{Folder, MEMORY_MIB, Request, Verdict, server, write_whole};
use crate::error::KernelError;
use crate::{host, progress::Progress};

/// How often it looks for the answer.
const LOOK: Duration = Duration::from_millis(20);

/// How long an answer may take: a boot under emulation and the largest scheduler, which took 143 s on a busy host.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the kernel of this version makes of an object. A guest that serves already answers within milliseconds; else a
/// server is started, which goes on serving for `idle_s` after the last request.
pub fn verify(
    folder: &Folder,
    kernel_version: &str,
    idle_s: u64,
    request: &Request,
    progress: &mut dyn Progress,
) -> Result<Verdict, KernelError> {
    host::require_guest(MEMORY_MIB)?;
    let posted = Posted::new(folder, request)?;
    let give_up = Instant::now() + PATIENCE;
    let mut started = false;
    loop {
        if let Some(verdict) = posted.answer()? {
            return Ok(verdict);
        }
        if !is_served(folder) {
            if let Some(error) = failure(folder).filter(|_| started) {
                return Err(KernelError::Guest(error));
            }
            progress.step(&format!(
                "booting Linux {kernel_version} for its verifier; it stays for {idle_s} s"
            ));
            start(folder, kernel_version, idle_s)?;
            started = true;
        }
        if let Some(reason) = progress.stop() {
            return Err(KernelError::Stopped(reason));
        }
        if Instant::now() >= give_up {
            let limit = PATIENCE.as_secs();
            return Err(KernelError::Guest(format!(
                "its verifier has not answered within {limit} s"
            )));
        }
        std::thread::sleep(LOOK);
    }
}

/// A request in the folder; taken away when nobody waits for it any more.
struct Posted {
    request: PathBuf,
    answer: PathBuf,
}

impl Posted {
    fn new(folder: &Folder, request: &Request) -> Result<Posted, KernelError> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_ns = since_epoch.unwrap_or_default().as_nanos();
        let name = format!("{}-{now_ns}.json", std::process::id());
        let requests = folder.requests();
        let posted = Posted {
            request: requests.join(&name),
            answer: folder.answers().join(&name),
        };
        let text = serde_json::to_string(request).expect("a request is plain data");
        std::fs::create_dir_all(&requests)
            .and_then(|()| write_whole(&posted.request, &text))
            .map_err(KernelError::io(&posted.request, "write"))?;
        Ok(posted)
    }

    fn answer(&self) -> Result<Option<Verdict>, KernelError> {
        let Ok(text) = std::fs::read_to_string(&self.answer) else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(&text);
        parsed
            .map(Some)
            .map_err(|source| KernelError::Protocol { line: text, source })
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.request);
        let _ = std::fs::remove_file(&self.answer);
    }
}

/// Whether a server has the folder. Between its start and its lock it is started twice; the second one leaves.
fn is_served(folder: &Folder) -> bool {
    let lock = File::open(folder.lock());
    lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
}

fn failure(folder: &Folder) -> Option<String> {
    std::fs::read_to_string(folder.error()).ok()
}

/// Starts a server that outlives this process and has no terminal. Returns when it has its lock, or has ended.
fn start(folder: &Folder, kernel_version: &str, idle_s: u64) -> Result<(), KernelError> {
    let _ = std::fs::remove_file(folder.error());
    let this = Path::new("/proc/self/exe");
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| this.to_owned()));
    command
        .arg(server::ARGUMENT)
        .arg(folder.path())
        .args([kernel_version, &idle_s.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // This process may leave signals to a thread of its own; the server has none.
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            match libc::setsid() {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    let mut child = command.spawn().map_err(KernelError::io(this, "start"))?;
    while !is_served(folder) && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(LOOK);
    }
    Ok(())
}
