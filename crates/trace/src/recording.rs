// SPDX-License-Identifier: GPL-2.0-or-later
//! The sink that keeps the events of a run, and the file that they become.

use std::io::{self, Read, Write};
use std::ops::Range;

use tiltyard_model::{Event, EventSink, TaskInfo};
use zstd::bulk::Compressor;

use crate::about::About;
use crate::block::{Checked, FULL_BYTES, Lengths, MAX_BYTES, MAX_HEAD_BYTES};
use crate::bytes::Wrong;
use crate::check::Check;
use crate::{MAGIC, MAX_CPUS, VERSION, record};

/// Compression level of zstd. Higher levels take several times as long and save a few percent.
const LEVEL: i32 = 3;

/// Why the file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// A bug in the sender of the events.
    #[error("{0}, which is a defect of Tiltyard's")]
    Refused(&'static str),
}

/// Keeps the events of one run as compressed blocks in `S`, a temporary file: much of what an event file begins with is not
/// known before the run has ended. [`Recording::end`] reports errors.
pub struct Recording<S> {
    blocks: S,
    records: Vec<u8>,
    compressor: Option<Compressor<'static>>,
    check: Check,
    error: Option<WriteError>,
}

/// A recording that has ended, without its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    last_ns: u64,
    max_cpu: u32,
}

impl<S: Write> Recording<S> {
    /// `blocks` is empty.
    pub fn new(blocks: S) -> Self {
        Recording {
            blocks,
            records: Vec::with_capacity(FULL_BYTES),
            compressor: None,
            check: Check::new(MAX_CPUS, u64::MAX),
            error: None,
        }
    }

    /// The run is over: all its events are in the blocks.
    pub fn end(mut self) -> Result<(S, Ended), WriteError> {
        self.flush();
        if let Some(error) = self.error {
            return Err(error);
        }
        self.blocks.flush()?;
        let ended = Ended {
            last_ns: self.check.last_ns,
            max_cpu: self.check.max_cpu,
        };
        Ok((self.blocks, ended))
    }

    /// Adds a record that `put` writes, unless an earlier one failed.
    fn add(&mut self, checked: Result<(), Wrong>, put: impl FnOnce(&mut Vec<u8>)) {
        if self.error.is_some() {
            return;
        }
        if checked.is_err() {
            let what =
                "an event is out of order, or has a number or a name that no event file can hold";
            self.error = Some(WriteError::Refused(what));
            return;
        }
        put(&mut self.records);
        if self.records.len() >= FULL_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.error.is_none()
            && !self.records.is_empty()
            && let Err(error) = self.store_block()
        {
            self.error = Some(error.into());
        }
        self.records.clear();
    }

    fn store_block(&mut self) -> io::Result<()> {
        debug_assert!(self.records.len() <= MAX_BYTES, "a record is too long");
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(LEVEL)?),
        };
        let stored = compressor.compress(&self.records)?;
        let lengths = Lengths {
            stored: stored.len() as u32,
            raw: self.records.len() as u32,
        };
        self.blocks.write_all(&lengths.bytes())?;
        self.blocks.write_all(&stored)
    }
}

impl Ended {
    /// Writes the file: `about`, then the events in `blocks`, from their beginning.
    pub fn write(
        self,
        about: &About,
        blocks: &mut impl Read,
        out: &mut impl Write,
    ) -> Result<(), WriteError> {
        if self.last_ns > about.end_ns {
            return Err(WriteError::Refused("an event is later than the run's end"));
        }
        if let Some(fault) = about.fault() {
            return Err(WriteError::Refused(fault));
        }
        if self.max_cpu >= about.machine.nr_cpus.max(1) {
            return Err(WriteError::Refused(
                "an event names a CPU that does not exist",
            ));
        }
        let head = serde_json::to_vec(about).map_err(io::Error::from)?;
        if head.len() > MAX_HEAD_BYTES {
            return Err(WriteError::Refused("the head of an event file is too long"));
        }
        let mut out = Checked::new(out);
        out.put(&MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.put(&(head.len() as u32).to_le_bytes())?;
        out.put(&head)?;
        out.put_check()?;
        copy_blocks(blocks, &mut out)?;
        out.put(&Lengths::END.bytes())?;
        out.put_check()?;
        Ok(out.inner.flush()?)
    }
}

/// Blocks as they were stored, each with its check.
fn copy_blocks(blocks: &mut impl Read, out: &mut Checked<impl Write>) -> io::Result<()> {
    let mut block = Vec::new();
    loop {
        let mut lengths = [0; 8];
        match blocks.read_exact(&mut lengths) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        block.resize(Lengths::parse(lengths).stored as usize, 0);
        blocks.read_exact(&mut block)?;
        out.put(&lengths)?;
        out.put(&block)?;
        out.put_check()?;
    }
}

impl<S: Write> EventSink for Recording<S> {
    fn task(&mut self, info: &TaskInfo) {
        let checked = self.check.task(info);
        self.add(checked, |out| record::put_task(out, info));
    }

    fn event(&mut self, event: &Event) {
        let last_ns = self.check.last_ns;
        let checked = self.check.event(event);
        self.add(checked, |out| record::put_event(out, last_ns, event));
    }

    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        let checked = self.check.cpu_set(set, cpus);
        self.add(checked, |out| record::put_cpu_set(out, set, cpus));
    }

    fn request_class(&mut self, class: u16, name: &str) {
        let checked = self.check.name(name);
        self.add(checked, |out| record::put_request_class(out, class, name));
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        let checked = self.check.name(name);
        self.add(checked, |out| {
            record::put_probe_name(out, probe, name, per_cpu);
        });
    }

    fn callback_name(&mut self, callback: u16, name: &str) {
        let checked = self.check.name(name);
        self.add(checked, |out| {
            record::put_callback_name(out, callback, name)
        });
    }

    fn place_name(&mut self, place: u16, name: &str) {
        let checked = self.check.name(name);
        self.add(checked, |out| record::put_place_name(out, place, name));
    }
}
