// SPDX-License-Identifier: GPL-2.0-or-later
//! `cargo run -p tiltyard-kernel --example smoke -- fifo.bpf.o[,slice_ms=5] ... -- hackbench -g 2`
//! boots a guest, runs the command under each BPF object (`default` is the kernel's own
//! scheduler) and prints the report as JSON.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tiltyard_kernel::{KernelError, Progress, SchedulerJob, Tunable, VmJob, VmReport, guest, vm};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == guest::ARGUMENT)
    {
        guest::main();
    }
    match run(&arguments) {
        Ok(report) => {
            println!(
                "{}",
                serde_json::to_string_pretty(&report).expect("plain data")
            );
            ExitCode::from(if report.is_success() { 0 } else { 1 })
        }
        Err(error) => {
            eprintln!("smoke: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<VmReport, KernelError> {
    let middle = arguments
        .iter()
        .position(|word| word == "--")
        .unwrap_or(arguments.len());
    let command = arguments.get(middle + 1..).unwrap_or_default().to_vec();
    let mut job = VmJob::new(command);
    job.schedulers = arguments[..middle]
        .iter()
        .map(|word| scheduler(word))
        .collect();
    vm::run(&job, &mut Terminal)
}

fn scheduler(word: &str) -> SchedulerJob {
    let mut parts = word.split(',');
    let object = parts.next().unwrap_or_default();
    let tunables = parts.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Tunable {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    });
    let tunables = tunables.collect();
    if object == "default" {
        return SchedulerJob {
            name: object.to_owned(),
            object: None,
            tunables,
        };
    }
    let file = Path::new(object)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let name = file.split('.').next().unwrap_or_default().to_owned();
    SchedulerJob {
        name,
        object: Some(PathBuf::from(object)),
        tunables,
    }
}

struct Terminal;

impl Progress for Terminal {
    fn step(&mut self, what: &str) {
        eprintln!("-- {what}");
    }

    fn output(&mut self, _scheduler: &str, text: &str) {
        eprint!("{text}");
    }
}
