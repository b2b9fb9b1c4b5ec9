// SPDX-License-Identifier: GPL-2.0-or-later
//! The part in the background of the host: one guest, kept as long as somebody asks.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::{Folder, MEMORY_MIB, guest, write_whole};
use crate::error::KernelError;
use crate::progress::Progress;
use crate::protocol::RunOutcome;
use crate::report::Report;
use crate::rounds::Rounds;
use crate::vm;
use crate::vm_job::{SchedulerJob, VmJob};
use tiltyard_model::Machine;

/// The hidden subcommand; its arguments are the folder, the kernel's version, and how long it waits for requests, s.
pub const ARGUMENT: &str = "verify-server";

/// A guest may serve this long at most, s: a day.
const LIFE_S: u64 = 24 * 3600;

/// Serves until nobody has asked for `idle`. Another server of the same folder is as good: then it returns at once.
pub fn main(folder: &Folder, kernel_version: &str, idle: Duration) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.requests())?;
    let lock = File::create(folder.lock())?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    let _ = std::fs::remove_file(folder.error());
    // What a server left that was killed.
    let _ = std::fs::remove_dir_all(folder.answers());
    std::fs::create_dir_all(folder.answers())?;
    // The guest is there for others' convenience and has no hurry.
    // SAFETY: a plain system call.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) };
    let mut desk = Desk {
        log: File::create(folder.log())?,
        folder: folder.clone(),
        waiting: HashSet::new(),
        idle,
        last: Instant::now(),
        line: String::new(),
        is_idle: false,
    };
    let served = job(folder, kernel_version).map(|job| vm::run(&job, &mut desk, &mut |_| {}));
    let error = match served {
        _ if desk.is_idle => None,
        Ok(Ok(report)) => Some(ended(&report)),
        Ok(Err(error)) | Err(error) => Some(error.to_string()),
    };
    clear(folder);
    match error {
        Some(error) => write_whole(&folder.error(), &error),
        None => {
            remove(folder);
            Ok(())
        }
    }
}

/// Takes away what a server left that was killed, unless another one serves there.
pub fn sweep(folder: &Folder) {
    let Ok(lock) = File::open(folder.lock()) else {
        return;
    };
    if lock.try_lock().is_ok() {
        clear(folder);
        let _ = std::fs::remove_file(folder.error());
        remove(folder);
    }
}

fn clear(folder: &Folder) {
    let _ = std::fs::remove_dir_all(folder.answers());
    let _ = std::fs::remove_file(folder.log());
    // A request that came meanwhile keeps its folder, and its client starts another server.
    let _ = std::fs::remove_dir(folder.requests());
}

fn remove(folder: &Folder) {
    let _ = std::fs::remove_file(folder.lock());
    let _ = std::fs::remove_dir(folder.path());
}

fn job(folder: &Folder, kernel_version: &str) -> Result<VmJob, KernelError> {
    let this = std::env::current_exe().map_err(KernelError::io("/proc/self/exe", "read"))?;
    let command = [this.display().to_string(), guest::ARGUMENT.to_owned()];
    let folder = folder.path().display().to_string();
    let mut job = VmJob::new(command.into_iter().chain([folder]).collect());
    job.schedulers = vec![SchedulerJob::own("default")];
    job.rounds = Rounds::ONE;
    job.kernel_version = kernel_version.to_owned();
    job.machine = Machine::parse_hwloc_synthetic("pu:1").expect("one CPU");
    job.memory_mib = MEMORY_MIB;
    job.run_limit_s = LIFE_S;
    Ok(job)
}

/// Hands requests to the guest, takes its answers, and knows when to close.
struct Desk {
    folder: Folder,
    log: File,
    /// Requests that are in the log and have no answer so far.
    waiting: HashSet<String>,
    idle: Duration,
    /// When somebody last wanted something.
    last: Instant,
    /// What has come of the next line.
    line: String,
    is_idle: bool,
}

impl Progress for Desk {
    fn step(&mut self, _what: &str) {
        self.last = Instant::now();
    }

    fn output(&mut self, _scheduler: &str, text: &str) {
        self.line += text;
        while let Some(end) = self.line.find('\n') {
            let line: String = self.line.drain(..=end).collect();
            self.pass_on(line.trim_end());
        }
    }

    fn stop(&mut self) -> Option<String> {
        if self.hand_on() {
            self.last = Instant::now();
        }
        self.is_idle = self.last.elapsed() >= self.idle;
        self.is_idle.then(|| "nobody asks".to_owned())
    }
}

impl Desk {
    /// Puts new requests into the log. Whether there are any requests.
    fn hand_on(&mut self) -> bool {
        let Ok(files) = std::fs::read_dir(self.folder.requests()) else {
            return false;
        };
        let names = files.flatten().filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            name.ends_with(".json").then_some(name)
        });
        let there: HashSet<String> = names.collect();
        // One that is gone belonged to a client that no longer waits.
        self.waiting.retain(|name| there.contains(name));
        for name in &there {
            let text = std::fs::read_to_string(self.folder.requests().join(name));
            if let (false, Ok(text)) = (self.waiting.contains(name), text) {
                let line = format!("{name}\t{text}\n");
                if self.log.write_all(line.as_bytes()).is_ok() {
                    self.waiting.insert(name.clone());
                }
            }
        }
        !there.is_empty()
    }

    fn pass_on(&mut self, line: &str) {
        let Some((name, verdict)) = line.split_once('\t') else {
            return;
        };
        self.last = Instant::now();
        self.waiting.remove(name);
        // A client that no longer waits has taken its request away, and gets no answer.
        if std::fs::remove_file(self.folder.requests().join(name)).is_ok() {
            let _ = write_whole(&self.folder.answers().join(name), verdict);
        }
    }
}

/// Why a job that was to last is over.
fn ended(report: &Report) -> String {
    let run = report.runs.last().map(|run| &run.outcome);
    match (&report.cut_short, run) {
        (Some(why), _) => why.clone(),
        (None, Some(RunOutcome::Ran { command, .. })) => {
            format!("its verifier's service ended: {command:?}")
        }
        (None, _) => "its verifier's service ended".to_owned(),
    }
}
