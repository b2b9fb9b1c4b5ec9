// SPDX-License-Identifier: GPL-2.0-or-later
//! What a scheduler prints with `bpf_printk`, a line each, as a file.

use std::io::{self, Write};

use tiltyard_model::{Cpu, Event, EventSink, TaskInfo};

use crate::Error;
use crate::output::Output;

/// Writes lines like those of a kernel's trace pipe, `[003] 0.012000456: text`: the CPU and the seconds since the workload
/// started.
pub(crate) struct Printk {
    output: Output,
    origin_ns: u64,
    /// The first that happened.
    error: Option<io::Error>,
}

impl Printk {
    /// Lines go to `output`.
    pub(crate) fn new(output: Output, origin_ns: u64) -> Printk {
        Printk {
            output,
            origin_ns,
            error: None,
        }
    }

    /// Completes the file.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.error {
            Some(error) => Err(self.output.failed(error)),
            None => self.output.finish(),
        }
    }
}

impl EventSink for Printk {
    fn task(&mut self, _info: &TaskInfo) {}
    fn event(&mut self, _event: &Event) {}
    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }

    fn printed(&mut self, time_ns: u64, cpu: Cpu, line: &str) {
        let ns = time_ns as i64 - self.origin_ns as i64;
        let sign = if ns < 0 { "-" } else { "" };
        let (s, ns) = (
            ns.unsigned_abs() / 1_000_000_000,
            ns.unsigned_abs() % 1_000_000_000,
        );
        let line = line.trim_end();
        let written = writeln!(self.output, "[{:03}] {sign}{s}.{ns:09}: {line}", cpu.0);
        if let Err(error) = written {
            self.error.get_or_insert(error);
        }
    }
}
