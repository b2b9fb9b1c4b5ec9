// SPDX-License-Identifier: GPL-2.0-or-later
//! The records of bpf/tracer.bpf.c as they travel from the kernel to the host: little-endian, 32 bytes, or 64 for
//! those that describe a task or hold a scheduler's probe. Two more frame a run.

use std::io::{self, Read};

/// `sizeof(struct tilt_event)`.
pub const EVENT_BYTES: usize = 32;
/// What follows it in a record that has more to say: the rest of `struct tilt_task`, or a probe.
pub const REST_BYTES: usize = 32;

/// `sizeof(struct tilt_probe)` of schedulers/lib/tiltyard.bpf.h: name, per_cpu, key, value.
pub const PROBE_BYTES: usize = 40;
const PROBE_NAME_BYTES: usize = 20;

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
    /// A figure of the scheduler's own: `tid` is its key.
    pub const PROBE: u32 = 8;
    pub const RENAME: u32 = 9;
    pub const NICE: u32 = 10;
    /// The command of a run starts: `tid` is the run's number.
    pub const BEGIN: u32 = 0x100;
    /// It has ended: `tid` and `other` are the low and the high half of the number of lost records.
    pub const END: u32 = 0x101;
}

/// `struct tilt_event`; the tracer documents each field.
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

/// What more a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    Task(Description),
    Probe(Probe),
}

/// The rest of `struct tilt_task`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    pub born_ns: u64,
    pub nice: i8,
    pub comm: String,
    pub is_kernel: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    pub name: String,
    /// The key is a CPU's number, else a task's.
    pub per_cpu: bool,
    pub value: i64,
}

/// A probe as the scheduler wrote it, as a record of that time.
pub fn of_probe(bytes: &[u8; PROBE_BYTES], time_ns: u64) -> [u8; EVENT_BYTES + REST_BYTES] {
    let event = Record {
        time_ns,
        kind: kind::PROBE,
        tid: u64_at(bytes, 24) as u32,
        ..Record::default()
    };
    let mut record = [0; EVENT_BYTES + REST_BYTES];
    record[..EVENT_BYTES].copy_from_slice(&event.bytes());
    let rest = &mut record[EVENT_BYTES..];
    rest[..24].copy_from_slice(&bytes[..24]);
    rest[24..].copy_from_slice(&bytes[32..]);
    record
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
}

impl Probe {
    fn parse(bytes: &[u8; REST_BYTES]) -> Probe {
        Probe {
            name: text(&bytes[..PROBE_NAME_BYTES]),
            per_cpu: u32_at(bytes, 20) != 0,
            value: u64_at(bytes, 24) as i64,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Description {
    fn parse(bytes: &[u8; REST_BYTES]) -> Description {
        Description {
            born_ns: u64_at(bytes, 0),
            nice: u32_at(bytes, 8) as i8,
            comm: text(&bytes[12..28]),
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
pub fn read(stream: &mut impl Read) -> io::Result<Option<(Record, Rest)>> {
    let mut event = [0; EVENT_BYTES];
    if !fill(stream, &mut event)? {
        return Ok(None);
    }
    let record = Record::parse(&event);
    let parse: fn(&[u8; REST_BYTES]) -> Rest = match record.kind {
        kind::FORK | kind::EXEC | kind::FOUND | kind::RENAME => {
            |rest| Rest::Task(Description::parse(rest))
        }
        kind::PROBE => |rest| Rest::Probe(Probe::parse(rest)),
        _ => return Ok(Some((record, Rest::Nothing))),
    };
    let mut rest = [0; REST_BYTES];
    match fill(stream, &mut rest)? {
        true => Ok(Some((record, parse(&rest)))),
        false => Ok(None),
    }
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
    fn a_probe_becomes_a_record() {
        let mut probe = [0; PROBE_BYTES];
        probe[..7].copy_from_slice(b"penalty");
        probe[20] = 1;
        probe[24] = 3;
        probe[32..].copy_from_slice(&(-7i64).to_le_bytes());
        let (record, rest) = read(&mut &of_probe(&probe, 99)[..]).unwrap().unwrap();
        assert_eq!(
            (record.time_ns, record.kind, record.tid),
            (99, kind::PROBE, 3)
        );
        let expected = Probe {
            name: "penalty".to_owned(),
            per_cpu: true,
            value: -7,
        };
        assert_eq!(rest, Rest::Probe(expected));
    }

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
        assert_eq!(read(&mut stream).unwrap(), Some((switch, Rest::Nothing)));
        let description = Description {
            born_ns: 9,
            nice: -5,
            comm: "a name of 16 byt".to_owned(),
            is_kernel: true,
        };
        assert_eq!(
            read(&mut stream).unwrap(),
            Some((fork, Rest::Task(description)))
        );
        assert_eq!(read(&mut stream).unwrap(), None);
    }
}
