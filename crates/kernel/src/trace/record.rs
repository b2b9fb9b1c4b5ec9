// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of bpf/tracer.bpf.c as they travel from the kernel to the host: little-endian, 32 bytes, or 64 for
//! those that describe a task. Two more frame a run.

use std::io::{self, Read};

/// `sizeof(struct tilt_event)`, `sizeof(struct tilt_task)`.
pub const EVENT_BYTES: usize = 32;
pub const TASK_BYTES: usize = 64;

/// `enum tilt_kind`, and the two of this program.
pub mod kind {
    pub const SWITCH: u32 = 0;
    pub const WAKING: u32 = 1;
    pub const WAKEUP_NEW: u32 = 2;
    pub const MIGRATE: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const FORK: u32 = 5;
    pub const EXEC: u32 = 6;
    pub const FOUND: u32 = 7;
    /// The command of a run starts: `tid` is the run's number.
    pub const BEGIN: u32 = 0x100;
    /// It has ended: `tid` and `other` are the low and the high half of the number of lost records.
    pub const END: u32 = 0x101;
}

/// `struct tilt_event`; the tracer tells what each field means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub time_ns: u64,
    pub kind: u32,
    pub cpu: u32,
    pub tid: u32,
    pub other: u32,
    pub detail: u32,
    pub tgid: u32,
}

/// The rest of `struct tilt_task`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub born_ns: u64,
    pub nice: i8,
    pub comm: String,
    pub is_kernel: bool,
}

impl Record {
    pub fn bytes(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        bytes[..8].copy_from_slice(&self.time_ns.to_le_bytes());
        let words = [
            self.kind,
            self.cpu,
            self.tid,
            self.other,
            self.detail,
            self.tgid,
        ];
        for (chunk, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn parse(bytes: &[u8; EVENT_BYTES]) -> Record {
        let word = |at: usize| u32_at(bytes, at);
        Record {
            time_ns: u64_at(bytes, 0),
            kind: word(8),
            cpu: word(12),
            tid: word(16),
            other: word(20),
            detail: word(24),
            tgid: word(28),
        }
    }

    fn describes_a_task(&self) -> bool {
        matches!(self.kind, kind::FORK | kind::EXEC | kind::FOUND)
    }
}

impl Description {
    fn parse(bytes: &[u8; TASK_BYTES - EVENT_BYTES]) -> Description {
        let comm = &bytes[12..28];
        let end = comm.iter().position(|b| *b == 0).unwrap_or(comm.len());
        Description {
            born_ns: u64_at(bytes, 0),
            nice: u32_at(bytes, 8) as i8,
            comm: String::from_utf8_lossy(&comm[..end]).into_owned(),
            is_kernel: u32_at(bytes, 28) != 0,
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The next record, `None` at the end of the stream or where it is cut short.
pub fn read(stream: &mut impl Read) -> io::Result<Option<(Record, Option<Description>)>> {
    let mut event = [0; EVENT_BYTES];
    if !fill(stream, &mut event)? {
        return Ok(None);
    }
    let record = Record::parse(&event);
    if !record.describes_a_task() {
        return Ok(Some((record, None)));
    }
    let mut rest = [0; TASK_BYTES - EVENT_BYTES];
    if !fill(stream, &mut rest)? {
        return Ok(None);
    }
    Ok(Some((record, Some(Description::parse(&rest)))))
}

/// Whether there was enough.
fn fill(stream: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_both_sizes_come_back_and_a_cut_one_ends_the_stream() {
        let switch = Record {
            time_ns: 7,
            kind: kind::SWITCH,
            cpu: 1,
            tid: 20,
            other: 30,
            detail: 0x201,
            tgid: 20,
        };
        let fork = Record {
            kind: kind::FORK,
            ..switch
        };
        let mut stream = switch.bytes().to_vec();
        stream.extend(fork.bytes());
        stream.extend(9u64.to_le_bytes());
        stream.extend((-5i32).to_le_bytes());
        stream.extend(b"a name of 16 byt");
        stream.extend(1u32.to_le_bytes());
        stream.extend(&switch.bytes()[..20]);
        let mut stream = stream.as_slice();
        assert_eq!(read(&mut stream).unwrap(), Some((switch, None)));
        let description = Description {
            born_ns: 9,
            nice: -5,
            comm: "a name of 16 byt".to_owned(),
            is_kernel: true,
        };
        assert_eq!(read(&mut stream).unwrap(), Some((fork, Some(description))));
        assert_eq!(read(&mut stream).unwrap(), None);
    }
}
