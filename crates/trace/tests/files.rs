// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of events: what was written is read, and whatever else is in a file is an error.

mod common;

use std::io::Read;

use common::{Call, Calls, NR_CPUS, about, calls, read};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tiltyard_model::{Cpu, Event, EventKind, TaskInfo, Tid};
use tiltyard_trace::{About, MAX_NAME_BYTES, MAX_TID, ReadError, Reader, Topology, WriteError};

/// Enough for several blocks.
fn long() -> Calls {
    let mark = |time_ns: u64| {
        let (task, cpu) = (Tid((time_ns * 7919 % 5000) as u32 + 1), Cpu(0));
        let class = (time_ns * time_ns % 60_000) as u16;
        let kind = EventKind::Mark { task, class };
        Call::Event(Event { time_ns, cpu, kind })
    };
    Calls((0..120_000).map(mark).collect())
}

fn small() -> Calls {
    let mut calls = Calls(vec![Call::ProbeName(0, "depth".to_owned(), true)]);
    calls.0.extend(long().0.into_iter().take(40));
    calls
}

proptest! {
    #[test]
    fn what_was_written_is_read(calls in calls(200)) {
        let file = calls.file();
        let (head, again) = read(&file).expect("it is whole");
        prop_assert_eq!(&head, &about());
        prop_assert_eq!(&again, &calls);
        // The same events give the same bytes.
        prop_assert!(again.file() == file);
    }

    #[test]
    fn a_file_that_is_cut_or_has_one_wrong_bit_is_an_error(calls in calls(30), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut file = calls.file();
        let at = at.index(file.len());
        prop_assert!(read(&file[..at]).is_err());
        file[at] ^= 1_u8 << bit;
        prop_assert!(read(&file).is_err());
    }

    #[test]
    fn random_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400), head in 0..60_usize) {
        // Behind the beginning of a real file as well, so that not all fail at the first byte.
        let file = [&small().file()[..head], &bytes].concat();
        prop_assert!(read(&file).is_err());
    }
}

/// A file with one block of these records, all checks right: written by somebody else.
fn foreign(records: &[u8], raw_bytes: usize) -> Vec<u8> {
    let whole = Calls::default().file();
    let mut file = whole[..whole.len() - 16].to_vec();
    let put_check = |file: &mut Vec<u8>| {
        let check = Sha256::digest(&file);
        file.extend_from_slice(&check[..8]);
    };
    let stored = zstd::bulk::compress(records, 1).unwrap();
    for length in [stored.len(), raw_bytes] {
        file.extend_from_slice(&(length as u32).to_le_bytes());
    }
    file.extend_from_slice(&stored);
    put_check(&mut file);
    file.extend_from_slice(&[0; 8]);
    put_check(&mut file);
    file
}

proptest! {
    #[test]
    fn records_of_another_writer_do_no_harm(records in prop::collection::vec(prop_oneof![0..14_u8, 0x80..0x86_u8, any::<u8>()], 1..200)) {
        match read(&foreign(&records, records.len())) {
            Ok((_, calls)) => {
                // What is accepted can be written.
                prop_assert!(calls.try_file(&about()).is_ok());
            }
            Err(error) => prop_assert!(matches!(error, ReadError::Damaged(_)), "{error:?}"),
        }
    }
}

#[test]
fn a_block_has_the_length_that_it_claims() {
    let exit = [5, 0, 0, 1]; // task 1 exits at 0 on CPU 0
    let twice = [exit, exit].concat();
    assert_eq!(read(&foreign(&twice, 8)).unwrap().1.0.len(), 2);
    for claimed in [4, 7, 9, 1 << 20, 1 << 21] {
        let error = read(&foreign(&twice, claimed)).unwrap_err();
        assert!(
            matches!(error, ReadError::Damaged(_)),
            "{claimed}: {error:?}"
        );
    }
    // Decompressed, it would be a gigabyte.
    let error = read(&foreign(&vec![0; 1 << 30], 1 << 20)).unwrap_err();
    assert!(matches!(error, ReadError::Damaged(_)), "{error:?}");
}

#[test]
fn a_run_without_events_is_a_file() {
    let (head, calls) = read(&Calls::default().file()).unwrap();
    assert_eq!((head, calls), (about(), Calls::default()));
}

#[test]
fn long_runs_are_read_block_by_block_and_are_small() {
    let file = long().file();
    assert!(read(&file).unwrap().1 == long());
    let bytes_per_event = file.len() / long().0.len();
    assert!(bytes_per_event < 6, "{bytes_per_event}");
}

#[test]
fn every_truncated_file_is_an_error() {
    let file = small().file();
    for length in 0..file.len() {
        let error = read(&file[..length]).expect_err("something is missing");
        let is_right = match length {
            0 => matches!(error, ReadError::NotEvents),
            _ => matches!(error, ReadError::Truncated),
        };
        assert!(is_right, "{length}: {error:?}");
    }
    // So is one that ends after a whole block, or goes on after the end.
    let file = long().file();
    assert!(matches!(
        read(&file[..file.len() - 16]),
        Err(ReadError::Truncated)
    ));
    assert!(matches!(
        read(&[&file[..], b"x"].concat()),
        Err(ReadError::Damaged(_))
    ));
}

#[test]
fn every_flipped_bit_is_an_error() {
    let file = small().file();
    for bit in 0..file.len() * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&file).is_err(), "bit {bit}");
    }
}

#[test]
fn blocks_of_a_file_cannot_change_places_or_vanish() {
    let file = long().file();
    let mut blocks = vec![];
    let head = 16 + u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize + 8;
    let mut at = head;
    while at < file.len() {
        let stored = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        blocks.push(&file[at..at + 16 + stored]);
        at += 16 + stored;
    }
    assert!(blocks.len() > 3, "{}", blocks.len());
    assert!(read(&[&file[..head], &blocks.concat()].concat()).is_ok());
    let swapped = [&[blocks[1], blocks[0]], &blocks[2..]].concat().concat();
    assert!(read(&[&file[..head], &swapped].concat()).is_err());
    assert!(read(&[&file[..head], &blocks[1..].concat()].concat()).is_err());
    assert!(read(&[&file[..head], blocks[blocks.len() - 1]].concat()).is_err());
}

#[test]
fn a_newer_format_and_other_files_are_named() {
    let mut file = small().file();
    file[8] = 4;
    assert!(matches!(read(&file), Err(ReadError::Version(4))));
    let error = read(&file).unwrap_err().to_string();
    assert!(
        error.contains("has format 4, and this tiltyard reads formats 1 to 3"),
        "{error}"
    );
    let error = read(b"{ \"runs\": [] }").unwrap_err().to_string();
    assert!(error.starts_with("is not an event file"), "{error}");
}

/// A file that claims to be large. Reading it takes no memory for what it does not have.
#[test]
fn lengths_are_not_trusted() {
    struct Endless<'a>(&'a [u8], usize);
    impl Read for Endless<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                into.fill(0xff);
                self.1 += into.len();
                assert!(self.1 < 64 << 20, "reads on and on");
                return Ok(into.len());
            }
            self.0.read(into)
        }
    }
    let file = small().file();
    for kept in [12, 16, file.len() - 16] {
        let opened = Reader::open(Endless(&file[..kept], 0));
        let error = opened.and_then(|reader| reader.replay(&mut ()));
        assert!(
            matches!(error, Err(ReadError::Damaged(_))),
            "{kept}: {error:?}"
        );
    }
}

fn refused(call: Call) -> bool {
    let calls = Calls(vec![small().0[1].clone(), call]);
    matches!(calls.try_file(&about()), Err(WriteError::Refused(_)))
}

#[test]
fn nothing_is_written_that_could_not_be_read() {
    let event = |time_ns, cpu, task| {
        let kind = EventKind::Exit { task: Tid(task) };
        let cpu = Cpu(cpu);
        Call::Event(Event { time_ns, cpu, kind })
    };
    assert!(!refused(event(0, NR_CPUS - 1, MAX_TID - 1)));
    assert!(refused(event(0, NR_CPUS, 1)));
    assert!(refused(event(0, 0, MAX_TID)));
    let name = |length| Call::RequestClass(0, "n".repeat(length));
    assert!(!refused(name(MAX_NAME_BYTES)));
    assert!(refused(name(MAX_NAME_BYTES + 1)));
    let back = Calls(vec![event(5, 0, 1), event(4, 0, 1)]);
    assert!(back.try_file(&about()).is_err());
    let mut head = about();
    (head.origin_ns, head.end_ns) = (0, 3);
    assert!(Calls(vec![event(4, 0, 1)]).try_file(&head).is_err());
    assert!(Calls(vec![event(3, 0, 1)]).try_file(&head).is_ok());
}

/// What would end in a panic, or never, where metrics are computed: the idle task in the place of one that waits, works or
/// ends, and heads that contradict themselves.
#[test]
fn impossible_tasks_and_heads_are_refused() {
    let (idle, cpu) = (Tid::IDLE, Cpu(0));
    for kind in [
        EventKind::Wakeup {
            task: idle,
            waker: Tid(1),
            target: cpu,
        },
        EventKind::WakeupNew {
            task: idle,
            target: cpu,
        },
        EventKind::Migrate {
            task: idle,
            from: cpu,
            to: cpu,
        },
        EventKind::Fork {
            parent: Tid(1),
            child: idle,
        },
        EventKind::Exit { task: idle },
        EventKind::Nice {
            task: idle,
            nice: 0,
        },
        EventKind::Request {
            task: idle,
            class: 0,
            start_ns: 0,
        },
        EventKind::Mark {
            task: idle,
            class: 0,
        },
    ] {
        assert!(
            refused(Call::Event(Event {
                time_ns: 0,
                cpu,
                kind
            })),
            "{kind:?}"
        );
    }
    let is_allowed = |change: &dyn Fn(&mut About)| {
        let mut head = about();
        change(&mut head);
        small().try_file(&head).is_ok()
    };
    let topology = |nr_cpus: u32| {
        let column = || (0..nr_cpus).collect();
        Topology {
            core: column(),
            llc: column(),
            node: column(),
            package: column(),
            capacity: column(),
        }
    };
    assert!(is_allowed(
        &|head| head.machine.topology = Some(topology(NR_CPUS))
    ));
    assert!(!is_allowed(
        &|head| head.machine.topology = Some(topology(NR_CPUS - 1))
    ));
    assert!(!is_allowed(&|head| head.end_ns += 1));
    assert!(is_allowed(&|head| head.origin_ns = head.end_ns));
    assert!(!is_allowed(
        &|head| (head.origin_ns, head.end_ns) = (10_001, 10_000)
    ));
}

/// A reader may rely on what a set of CPUs is, and on the numbers of those that there are.
#[test]
fn sets_of_cpus_are_declared_before_they_are_used() {
    let set = |number, cpus: &[(u32, u32)]| {
        let ranges = cpus.iter().map(|(start, end)| *start..*end);
        Call::CpuSet(number, ranges.collect())
    };
    let all = || set(0, &[(0, NR_CPUS)]);
    let task = || {
        Call::Task(TaskInfo {
            tid: Tid(1),
            tgid: Tid(1),
            parent: Tid(0),
            name: String::new(),
            app: String::new(),
            nice: 0,
            born_ns: 0,
            is_shell: false,
        })
    };
    let bound = |set| {
        let (time_ns, cpu, task) = (0, Cpu(0), Tid(1));
        let kind = EventKind::Affinity { task, set };
        Call::Event(Event { time_ns, cpu, kind })
    };
    let is_allowed = |calls: Vec<Call>| Calls(calls).try_file(&about()).is_ok();
    assert!(is_allowed(vec![
        all(),
        task(),
        set(1, &[(0, 2), (3, 4)]),
        bound(1)
    ]));
    assert!(
        !is_allowed(vec![all(), task(), bound(1)]),
        "nobody declared it"
    );
    assert!(!is_allowed(vec![all(), set(2, &[(0, 1)])]), "1 is missing");
    assert!(!is_allowed(vec![task(), all()]), "too late for the task");
    for wrong in [
        &[][..],
        &[(2, 2)],
        &[(2, 3), (3, 4)],
        &[(2, 3), (1, 2)],
        &[(0, NR_CPUS + 1)],
    ] {
        assert!(!is_allowed(vec![all(), set(1, wrong)]), "{wrong:?}");
    }
}

/// Each CPU that an event names is looked at, not only the one it happened on.
#[test]
fn events_name_cpus_that_are_there() {
    let task = Tid(1);
    let of = |cpu: u32| {
        let (cpu, first) = (Cpu(cpu), Cpu(0));
        [
            EventKind::Wakeup {
                task,
                waker: task,
                target: cpu,
            },
            EventKind::WakeupNew { task, target: cpu },
            EventKind::Migrate {
                task,
                from: cpu,
                to: first,
            },
            EventKind::Migrate {
                task,
                from: first,
                to: cpu,
            },
            EventKind::RunqueueLock {
                of: cpu,
                taken: true,
            },
        ]
    };
    let event = |kind| {
        let (time_ns, cpu) = (0, Cpu(0));
        Call::Event(Event { time_ns, cpu, kind })
    };
    for (good, bad) in of(NR_CPUS - 1).into_iter().zip(of(NR_CPUS)) {
        assert!(!refused(event(good)), "{good:?}");
        assert!(refused(event(bad)), "{bad:?}");
    }
}

/// The longest records, one after another, still fit into blocks that a reader takes.
#[test]
fn the_longest_names_fit() {
    let info = TaskInfo {
        tid: Tid(1),
        tgid: Tid(1),
        parent: Tid(0),
        name: "n".repeat(MAX_NAME_BYTES),
        app: "a".repeat(MAX_NAME_BYTES),
        nice: 0,
        born_ns: 0,
        is_shell: false,
    };
    let calls = Calls(vec![Call::Task(info); 20]);
    assert!(read(&calls.file()).unwrap().1 == calls);
}
