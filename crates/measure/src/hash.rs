// SPDX-License-Identifier: GPL-2.0-or-later
//! A hash over all events: two runs with the same hash were identical.

use sha2::{Digest, Sha256};
use std::ops::Range;
use tiltyard_model::{Event, EventKind, EventSink, Overhead, OverheadCause, TaskInfo};

/// Bytes gathered before they go to the hash: one call per event would cost more than the hashing.
const BUFFER: usize = 4096;

/// SHA-256 over a fixed encoding of each call: a tag byte (of events, their code), then the fields in the order of their
/// declaration, integers in little-endian order at their own width, strings with their length as u64.
/// Tags and encodings never change for what exists; new kinds take new tags.
pub struct TraceHash {
    hash: Sha256,
    buffer: Vec<u8>,
}

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash {
            hash: Sha256::new(),
            buffer: Vec::with_capacity(BUFFER + 256),
        }
    }
}

impl TraceHash {
    pub fn new() -> Self {
        Self::default()
    }

    /// The hash of all events, as 64 hexadecimal digits.
    pub fn finish(mut self) -> String {
        self.hash.update(&self.buffer);
        let digest = self.hash.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn flush_when_full(&mut self) {
        if self.buffer.len() >= BUFFER {
            self.hash.update(&self.buffer);
            self.buffer.clear();
        }
    }

    #[inline]
    fn head(&mut self, event: &Event) {
        let mut head = [0; 13];
        head[0] = event.kind.code();
        head[1..9].copy_from_slice(&event.time_ns.to_le_bytes());
        head[9..].copy_from_slice(&event.cpu.0.to_le_bytes());
        self.buffer.extend_from_slice(&head);
    }

    /// One entry for each cause.
    fn overhead(&mut self, event: &Event, overhead: &Overhead) {
        for cause in OverheadCause::ALL {
            let ns = overhead.ns(cause);
            if ns > 0 {
                self.head(event);
                self.u8(cause as u8);
                self.u64(ns);
            }
        }
        self.flush_when_full();
    }

    fn u8(&mut self, value: u8) {
        self.buffer.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }
    fn str(&mut self, value: &str) {
        self.u64(value.len() as u64);
        self.buffer.extend_from_slice(value.as_bytes());
    }
}

impl EventSink for TraceHash {
    fn task(&mut self, info: &TaskInfo) {
        self.u8(0x80);
        for id in [info.tid, info.tgid, info.parent] {
            self.u32(id.0);
        }
        self.str(&info.name);
        self.str(&info.app);
        self.u8(info.nice as u8);
        self.u64(info.born_ns);
        self.flush_when_full();
    }

    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        self.u8(0x85);
        self.u32(set);
        self.u64(cpus.len() as u64);
        for range in cpus {
            self.u32(range.start);
            self.u32(range.end);
        }
        self.flush_when_full();
    }

    fn request_class(&mut self, class: u16, name: &str) {
        self.u8(0x81);
        self.u16(class);
        self.str(name);
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        self.u8(0x82);
        self.u16(probe);
        self.str(name);
        self.u8(per_cpu.into());
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Overhead(ref overhead) => return self.overhead(event, overhead),
            // To record a scheduler's insides does not make it another run.
            EventKind::Access { .. } | EventKind::RunqueueLock { .. } => return,
            _ => self.head(event),
        }
        match event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            } => {
                self.u32(prev.0);
                self.u8(prev_state as u8);
                self.u8(cause as u8);
                self.u32(next.0);
            }
            EventKind::Wakeup {
                task,
                waker,
                target,
            } => {
                self.u32(task.0);
                self.u32(waker.0);
                self.u32(target.0);
            }
            EventKind::WakeupNew { task, target } => {
                self.u32(task.0);
                self.u32(target.0);
            }
            EventKind::Migrate { task, from, to } => {
                self.u32(task.0);
                self.u32(from.0);
                self.u32(to.0);
            }
            EventKind::Fork { parent, child } => {
                self.u32(parent.0);
                self.u32(child.0);
            }
            EventKind::Exit { task } => self.u32(task.0),
            EventKind::Nice { task, nice } => {
                self.u32(task.0);
                self.u8(nice as u8);
            }
            EventKind::Affinity { task, set } => {
                self.u32(task.0);
                self.u32(set);
            }
            EventKind::Request {
                task,
                class,
                start_ns,
            } => {
                self.u32(task.0);
                self.u16(class);
                self.u64(start_ns);
            }
            EventKind::Mark { task, class } => {
                self.u32(task.0);
                self.u16(class);
            }
            EventKind::Probe { probe, key, value } => {
                self.u16(probe);
                self.u32(key);
                self.u64(value as u64);
            }
            EventKind::Overhead(_) | EventKind::Access { .. } | EventKind::RunqueueLock { .. } => {
                unreachable!("has returned")
            }
        }
        self.flush_when_full();
    }

    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}
