// SPDX-License-Identifier: GPL-2.0-or-later
//! Takes the scheduler's events from the running kernel.

use std::cell::RefCell;
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use libbpf_rs::libbpf_sys;
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, RingBuffer, RingBufferBuilder,
};

use super::record::{self, PROBE_BYTES, Record, kind};
use crate::{host, verifier};

/// Room for events that nobody has fetched yet, bytes: a quarter of a million switches between two visits.
const RING_BYTES: u32 = 16 << 20;

/// Events held in memory before they are passed on, MiB: a quarter of what is there, within these bounds. In a guest that speaks
/// over a serial line it takes seconds to pass on what has gathered, and whoever fetches events goes before all others.
const HELD_MIB: RangeInclusive<u64> = 64..=1024;

#[derive(Debug, thiserror::Error)]
pub enum TracerError {
    #[error("the kernel refuses the tracer: {0}")]
    Load(String),
    #[error("the tracer has no {0}")]
    Damaged(&'static str),
    #[error("libbpf: {0}")]
    Libbpf(#[from] libbpf_rs::Error),
    #[error("events: {0}")]
    Output(#[from] io::Error),
}

/// Records from its making to its end.
pub struct Tracer {
    // Field order is drop order: nothing is recorded any more before the ring goes.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    fetched: Rc<RefCell<Vec<u8>>>,
    held_bytes: usize,
    object: Object,
}

impl Tracer {
    /// Loads `object`, compiled from [`super::SOURCE`].
    pub fn load(object: &Path) -> Result<Tracer, TracerError> {
        let mut opened = ObjectBuilder::default().open_file(object)?;
        let mut events = opened
            .maps_mut()
            .find(|map| map.name() == "tilt_events")
            .ok_or(TracerError::Damaged("ring buffer"))?;
        events.set_max_entries(RING_BYTES)?;
        for mut program in opened.progs_mut() {
            let function = program.section().to_string_lossy().into_owned();
            if let Some(function) = function.strip_prefix("fentry/") {
                program.set_autoload(has_function(function));
            }
        }
        let (loaded, log) = verifier::capture(|| opened.load());
        let loaded = loaded.map_err(|error| {
            let account = verifier::cut(&log);
            TracerError::Load(if account.is_empty() {
                error.to_string()
            } else {
                account
            })
        })?;
        let fetched = Rc::new(RefCell::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let (into, mut last_ns) = (Rc::clone(&fetched), now_ns());
        let events = loaded
            .maps()
            .find(|map| map.name() == "tilt_events")
            .ok_or(TracerError::Damaged("ring buffer"))?;
        builder.add(&events, move |bytes| {
            let mut into = into.borrow_mut();
            match <&[u8; PROBE_BYTES]>::try_from(bytes) {
                // It has no time of its own: that of its neighbour in the ring.
                Ok(probe) => into.extend_from_slice(&record::of_probe(probe, last_ns)),
                Err(_) => {
                    last_ns = u64::from_ne_bytes(*bytes.first_chunk().unwrap_or(&[0; 8]));
                    into.extend_from_slice(bytes);
                }
            }
            0
        })?;
        let ring = builder.build()?;
        Ok(Tracer {
            links: Vec::new(),
            ring,
            fetched,
            held_bytes: held_bytes(host::available_mib()),
            object: loaded,
        })
    }

    /// The ring, for a scheduler that is to write its probes among the events.
    pub fn ring(&self) -> Result<OwnedFd, TracerError> {
        let events = self.object.maps().find(|map| map.name() == "tilt_events");
        let events = events.ok_or(TracerError::Damaged("ring buffer"))?;
        Ok(events.as_fd().try_clone_to_owned()?)
    }

    /// Starts to collect events. Records the existing tasks and the start of the command of run number `run`.
    pub fn begin(&mut self, out: &mut impl Write, run: u32) -> Result<(), TracerError> {
        self.links = self
            .object
            .progs_mut()
            .filter(|program| program.name() != "found" && program.autoload())
            .map(|program| program.attach())
            .collect::<Result<_, _>>()?;
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == "found")
            .ok_or(TracerError::Damaged("task iterator"))?;
        let link = program.attach()?;
        let mut tasks = Vec::new();
        Iter::new(&link)?.read_to_end(&mut tasks)?;
        out.write_all(&tasks)?;
        frame(out, kind::BEGIN, now_ns(), u64::from(run))
    }

    /// Makes room in the ring. To be called again and again while the command runs, which it should disturb as
    /// little as it can: what was fetched is passed on when it has become much.
    pub fn fetch(&mut self, out: &mut impl Write) -> Result<(), TracerError> {
        self.ring.consume()?;
        if self.fetched.borrow().len() > self.held_bytes {
            self.pass_on(out)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, out: &mut impl Write) -> Result<(), TracerError> {
        let mut fetched = self.fetched.borrow_mut();
        out.write_all(&fetched)?;
        fetched.clear();
        Ok(())
    }

    /// The command has ended: passes on the rest and how many records were lost, and records no more.
    pub fn end(mut self, out: &mut impl Write) -> Result<(), TracerError> {
        let end_ns = now_ns();
        self.links.clear();
        self.ring.consume()?;
        self.pass_on(out)?;
        frame(out, kind::END, end_ns, self.lost()?)
    }

    fn lost(&self) -> Result<u64, TracerError> {
        let bss = self
            .object
            .maps()
            .find(|map| map.name().to_string_lossy().ends_with(".bss"))
            .ok_or(TracerError::Damaged("counter of lost records"))?;
        let bytes = bss
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)?
            .ok_or(TracerError::Damaged("counter of lost records"))?;
        let lost = bytes
            .first_chunk()
            .ok_or(TracerError::Damaged("counter of lost records"))?;
        Ok(u64::from_ne_bytes(*lost))
    }
}

fn held_bytes(available_mib: Option<u64>) -> usize {
    let quarter_mib = available_mib.unwrap_or(0) / 4;
    (quarter_mib.clamp(*HELD_MIB.start(), *HELD_MIB.end()) as usize) << 20
}

/// Whether the running kernel has a function that can be traced.
fn has_function(name: &str) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: the name outlives the call.
    let id = unsafe {
        libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), libbpf_sys::BPF_TRACE_FENTRY)
    };
    id > 0
}

fn frame(out: &mut impl Write, kind: u32, time_ns: u64, number: u64) -> Result<(), TracerError> {
    let frame = Record {
        time_ns,
        kind,
        tid: number as u32,
        other: (number >> 32) as u32,
        ..Record::default()
    };
    Ok(out.write_all(&frame.bytes())?)
}

/// The clock of the records (bpf_ktime_get_ns).
fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists and `now` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::held_bytes;

    #[test]
    fn a_quarter_of_the_memory_is_held_within_bounds() {
        assert_eq!(held_bytes(Some(1024)), 256 << 20);
        assert_eq!(held_bytes(Some(100)), 64 << 20);
        assert_eq!(held_bytes(Some(1 << 20)), 1 << 30);
        assert_eq!(held_bytes(None), 64 << 20);
    }
}
