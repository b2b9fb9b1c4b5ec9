// SPDX-License-Identifier: GPL-2.0-or-later
//! The part in the guest: looks for requests, loads their objects, prints what the kernel says.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use super::{Folder, Request, Verdict};
use crate::loader::{self, EnumsError, KernelEnums, Setup};
use crate::syscall::check;

/// The hidden subcommand that the guest runs; its argument is the folder.
pub const ARGUMENT: &str = "kernel-verify";

/// How often it looks for requests.
const LOOK: Duration = Duration::from_millis(50);

/// Answers forever: the guest ends when its server does.
pub fn main(folder: &Folder) -> io::Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let enums = KernelEnums::of_this_kernel();
    let mut log = File::open(folder.log())?;
    let mut text = String::new();
    loop {
        look_again(&log)?;
        log.read_to_string(&mut text)?;
        while let Some(end) = text.find('\n') {
            let line: String = text.drain(..=end).collect();
            if let Some((name, request)) = line.trim_end().split_once('\t') {
                let refusal = refusal(request, &enums);
                let verdict = Verdict {
                    kernel_release: release.trim().to_owned(),
                    is_input: matches!(refusal, Some((_, true))),
                    refusal: refusal.map(|(why, _)| why),
                };
                answer(name, &verdict)?;
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets this kernel ask the host how long the file is, which it remembers otherwise.
fn look_again(file: &File) -> io::Result<()> {
    // SAFETY: plain data that the call fills; the descriptor is open and the path an empty C string.
    let result = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
        let (fd, path) = (file.as_raw_fd(), c"".as_ptr());
        libc::statx(fd, path, flags, libc::STATX_SIZE, &mut found)
    };
    check(result.into()).map(drop)
}

/// Why the object is refused, and whether the fault is in the table `[environment]`.
fn refusal(request: &str, enums: &Result<KernelEnums, EnumsError>) -> Option<(String, bool)> {
    let request: Request = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => return Some((format!("the request is damaged: {error}"), false)),
    };
    let enums = match enums {
        Ok(enums) => enums,
        Err(error) => return Some((error.to_string(), false)),
    };
    let machine = match loader::machine() {
        Ok(machine) => machine,
        Err(error) => return Some((error.to_string(), false)),
    };
    let setup = Setup {
        tunables: &request.tunables,
        environment: &request.environment,
        machine: &machine,
        enums,
        probes: None,
    };
    let verified = loader::verify(Path::new(&request.object), setup);
    let error = verified.err()?;
    Some((error.to_string(), error.is_input()))
}

/// One line: the request's file name, a tab, the verdict.
fn answer(name: &str, verdict: &Verdict) -> std::io::Result<()> {
    let line = format!("{name}\t{}\n", serde_json::to_string(verdict)?);
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}
