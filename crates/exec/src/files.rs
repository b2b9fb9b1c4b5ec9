// SPDX-License-Identifier: GPL-2.0-or-later
//! Pipes, and what `iorun` writes to.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use tiltyard_workload::{Op, Workload};

use crate::ExecError;

/// Files that this process has beside its pipes: the standard streams, cgroup files, libraries.
const OTHER_FILES: u64 = 32;

/// A pipe whose both ends every process holds: nobody ever sees its end.
pub struct Pipe {
    reader: File,
    writer: File,
    pub capacity_bytes: u64,
}

impl Pipe {
    fn new(capacity_bytes: u64) -> io::Result<Pipe> {
        let mut ends = [0; 2];
        // SAFETY: fills the array with two file descriptors of ours.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: nobody else owns them.
        let [reader, writer] = ends.map(|fd| unsafe { File::from_raw_fd(fd) });
        let asked = capacity_bytes.min(i32::MAX as u64) as libc::c_int;
        // SAFETY: plain numbers.
        if unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, asked) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Pipe {
            reader,
            writer,
            capacity_bytes,
        })
    }

    /// What the kernel gave it: whole pages, a power of two of them.
    fn real_bytes(&self) -> u64 {
        // SAFETY: plain numbers.
        let bytes = unsafe { libc::fcntl(self.writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
        u64::try_from(bytes).unwrap_or(0)
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.writer).write_all(bytes)
    }

    pub fn read(&self, bytes: &mut [u8]) -> io::Result<()> {
        (&self.reader).read_exact(bytes)
    }
}

/// All pipes of the workload, and notes about those that are not quite what the file says.
pub fn pipes(workload: &Workload) -> Result<(Vec<Pipe>, Vec<String>), ExecError> {
    raise_limit(workload.pipes.len() as u64 * 2 + OTHER_FILES);
    let (mut pipes, mut notes) = (Vec::new(), Vec::new());
    for spec in &workload.pipes {
        let pipe = Pipe::new(spec.capacity_bytes).map_err(|error| {
            let (name, bytes) = (&spec.name, spec.capacity_bytes);
            let way_out = match error.raw_os_error() {
                Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
                Some(libc::EPERM) => "raise /proc/sys/fs/pipe-max-size, or run as root",
                _ => "a pipe holds at most 2 GiB",
            };
            ExecError::Environment(format!(
                "pipe '{name}' of {bytes} bytes: cannot make it: {error}; {way_out}"
            ))
        })?;
        if pipe.real_bytes() != spec.capacity_bytes {
            let (name, bytes, real) = (&spec.name, spec.capacity_bytes, pipe.real_bytes());
            notes.push(format!(
                "pipe '{name}' holds {real} bytes, not {bytes}: the kernel's unit is a page"
            ));
        }
        pipes.push(pipe);
    }
    notes.dedup();
    Ok((pipes, notes))
}

/// Asks for room for this many open files. What the system does not give shows when a pipe is made.
fn raise_limit(files: u64) {
    // SAFETY: the struct lives on this stack.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        if limit.rlim_cur < files {
            limit.rlim_cur = files.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Opens what `iorun` writes to, where some task does that.
pub fn io_device(workload: &Workload) -> Result<Option<File>, ExecError> {
    let mut used = false;
    for task in &workload.tasks {
        let ops = task.phases.iter().flat_map(|p| &p.ops);
        ops.for_each(|op| visit(op, &mut |op| used |= matches!(op, Op::IoRun { .. })));
    }
    if !used {
        return Ok(None);
    }
    let path = &workload.io_device;
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    opened.map(Some).map_err(|error| {
        ExecError::Environment(format!(
            "global.io_device {path}: cannot open it for writing: {error}"
        ))
    })
}

/// Shows `see` an operation and all inside it.
pub fn visit<'a>(op: &'a Op, see: &mut impl FnMut(&'a Op)) {
    see(op);
    if let Op::Repeat { body, .. }
    | Op::Countdown { body, .. }
    | Op::Until { body, .. }
    | Op::During { body, .. }
    | Op::Chance { body, .. } = op
    {
        body.iter().for_each(|op| visit(op, see));
    }
}
