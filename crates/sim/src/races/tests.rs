// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

const WORD: usize = 0x1000;
const READ: u64 = 0;
const WRITE: u64 = how::WRITE;
const MARKED: u64 = how::MARKED;
/// An atomic operation whose result is used.
const ORDERED: u64 = how::WRITE | how::MARKED | how::UPDATE | how::FENCE;

fn site(cpu: u32, place: u32) -> Site {
    Site {
        cpu,
        place,
        callback: 0,
        task: 0,
        time_ns: 0,
    }
}

/// Variables of 64 bytes.
fn go(races: &mut Races, site: Site, range: Range<usize>, how: u64) {
    races.access(site, range, how, |address| (address / 64) as u32);
}

/// Accesses the word's first eight bytes; the line is the CPU's number and the kind's.
fn access(races: &mut Races, cpu: u32, how: u64) {
    let line = cpu * 100 + how as u32;
    go(races, site(cpu, line), WORD..WORD + 8, how);
}

fn found(races: &Races) -> Vec<(u32, u32)> {
    races
        .pairs()
        .map(|p| (p.sites[0].place, p.sites[1].place))
        .collect()
}

#[test]
fn two_cpus_race_if_one_writes_and_one_is_plain() {
    let cases = [
        (READ, READ, false),
        (READ, WRITE, true),
        (WRITE, READ, true),
        (WRITE, WRITE, true),
        (WRITE | MARKED, MARKED, false),
        (WRITE | MARKED, READ, true),
        (READ | MARKED, WRITE, true),
        (WRITE | MARKED, WRITE | MARKED, false),
    ];
    for (first, second, expected) in cases {
        let mut races = Races::new(2);
        access(&mut races, 0, first);
        access(&mut races, 1, second);
        assert_eq!(!found(&races).is_empty(), expected, "{first} {second}");
        let mut alone = Races::new(2);
        access(&mut alone, 0, first);
        access(&mut alone, 0, second);
        assert_eq!(found(&alone), [], "one CPU: {first} {second}");
    }
}

#[test]
fn the_same_lock_orders_and_another_does_not() {
    for (theirs, expected) in [(Sync::Runqueue(0), 0), (Sync::Runqueue(1), 1)] {
        let mut races = Races::new(2);
        races.acquire(0, Sync::Runqueue(0));
        access(&mut races, 0, WRITE);
        races.release(0, Sync::Runqueue(0));
        races.acquire(1, theirs);
        access(&mut races, 1, WRITE);
        assert_eq!(found(&races).len(), expected, "{theirs:?}");
    }
}

#[test]
fn what_follows_a_release_is_not_released() {
    let mut races = Races::new(2);
    races.pass(0, Sync::Dsq(3));
    access(&mut races, 0, WRITE);
    races.pass(1, Sync::Dsq(3));
    access(&mut races, 1, READ);
    assert_eq!(found(&races), [(1, 100)]);
}

#[test]
fn order_is_handed_on() {
    let mut races = Races::new(3);
    access(&mut races, 0, WRITE);
    races.release(0, Sync::Task(7));
    races.acquire(1, Sync::Task(7));
    races.release(1, Sync::Spin(8));
    races.acquire(2, Sync::Spin(8));
    access(&mut races, 2, WRITE);
    assert_eq!(found(&races), []);
    // CPU 1 knows CPU 0's write, not CPU 2's.
    access(&mut races, 1, READ);
    assert_eq!(found(&races), [(201, 100)]);
}

#[test]
fn a_barrier_orders_all_cpus() {
    let mut races = Races::new(3);
    access(&mut races, 0, WRITE);
    races.barrier();
    access(&mut races, 1, WRITE);
    races.barrier();
    access(&mut races, 2, WRITE);
    assert_eq!(found(&races), []);
}

#[test]
fn bytes_are_distinguished() {
    let mut races = Races::new(2);
    go(&mut races, site(0, 1), WORD..WORD + 4, WRITE);
    go(&mut races, site(1, 2), WORD + 4..WORD + 8, WRITE);
    assert_eq!(found(&races), []);
    // Over two words.
    go(&mut races, site(1, 3), WORD + 12..WORD + 20, WRITE);
    go(&mut races, site(0, 4), WORD + 19..WORD + 20, READ);
    assert_eq!(found(&races), [(3, 4)]);
    assert_eq!(races.pairs().next().map(|p| p.address), Some(WORD + 19));
}

#[test]
fn a_pair_of_lines_is_counted_and_listed_once() {
    let mut races = Races::new(2);
    for _ in 0..5 {
        access(&mut races, 0, WRITE);
        access(&mut races, 1, READ);
    }
    let times: Vec<u64> = races.pairs().map(|p| p.times).collect();
    assert_eq!(
        times,
        [9],
        "five reads after a write, four writes after a read"
    );
}

#[test]
fn every_line_of_a_cpu_has_its_pair() {
    let mut races = Races::new(2);
    go(&mut races, site(0, 1), WORD..WORD + 8, WRITE);
    go(&mut races, site(0, 2), WORD..WORD + 8, WRITE);
    go(&mut races, site(1, 3), WORD..WORD + 8, READ);
    assert_eq!(found(&races), [(1, 3), (2, 3)]);
}

#[test]
fn an_older_plain_write_is_not_hidden_by_a_marked_one() {
    let mut races = Races::new(3);
    access(&mut races, 0, WRITE);
    races.release(0, Sync::Spin(1));
    races.acquire(1, Sync::Spin(1));
    access(&mut races, 1, WRITE | MARKED);
    access(&mut races, 2, MARKED);
    assert_eq!(found(&races), [(1, 202)]);
}

#[test]
fn freed_memory_starts_again() {
    let mut races = Races::new(2);
    access(&mut races, 0, WRITE);
    races.forget(WORD..WORD + 8);
    access(&mut races, 1, WRITE);
    assert_eq!(found(&races), []);
}

const FLAG: usize = 0x2000;

/// CPU 0 writes and sets a flag, CPU 1 reads the flag and then the data.
fn message(publish: u64, fence_before: bool, read: u64, fence_after: bool) -> usize {
    let mut races = Races::new(2);
    access(&mut races, 0, WRITE);
    if fence_before {
        races.fence(0);
    }
    go(&mut races, site(0, 50), FLAG..FLAG + 8, publish);
    go(&mut races, site(1, 51), FLAG..FLAG + 8, read);
    if fence_after {
        races.fence(1);
    }
    access(&mut races, 1, READ);
    found(&races).len()
}

#[test]
fn messages_need_an_order_on_both_sides() {
    let store = WRITE | MARKED;
    assert_eq!(
        message(store | how::RELEASE, false, MARKED | how::ACQUIRE, false),
        0
    );
    assert_eq!(message(store, true, MARKED, true), 0, "smp_mb()");
    assert_eq!(
        message(ORDERED, false, ORDERED, false),
        0,
        "atomic, fully ordered"
    );
    assert_eq!(message(store, true, MARKED | how::ACQUIRE, false), 0);
    assert_eq!(message(store, false, MARKED, true), 1);
    assert_eq!(message(store, true, MARKED, false), 1);
    assert_eq!(message(store, false, MARKED, false), 1);
    let addition = store | how::UPDATE;
    assert_eq!(message(addition, false, ORDERED, false), 1, "unused result");
}

#[test]
fn an_update_hands_on_what_it_read() {
    let mut races = Races::new(3);
    access(&mut races, 0, WRITE);
    go(
        &mut races,
        site(0, 50),
        FLAG..FLAG + 8,
        WRITE | MARKED | how::RELEASE,
    );
    go(
        &mut races,
        site(1, 51),
        FLAG..FLAG + 8,
        WRITE | MARKED | how::UPDATE,
    );
    go(
        &mut races,
        site(2, 52),
        FLAG..FLAG + 8,
        MARKED | how::ACQUIRE,
    );
    access(&mut races, 2, READ);
    assert_eq!(found(&races), []);
    // A store does not.
    go(&mut races, site(1, 53), FLAG..FLAG + 8, WRITE | MARKED);
    go(
        &mut races,
        site(1, 54),
        FLAG..FLAG + 8,
        MARKED | how::ACQUIRE,
    );
    access(&mut races, 1, READ);
    assert_eq!(found(&races), [(1, 100)]);
}

#[test]
fn memory_is_bounded_and_says_so() {
    let mut races = Races::new(2);
    for page in 0..10_000 {
        go(&mut races, site(0, 1), page << 12..(page << 12) + 8, WRITE);
    }
    assert!(races.is_partial());
    let mut small = Races::new(2);
    access(&mut small, 0, WRITE);
    assert!(!small.is_partial());
}

#[test]
fn freed_memory_hands_nothing_on() {
    for (is_freed, expected) in [(false, 0), (true, 1)] {
        let (flag, mut races) = (WORD + 64..WORD + 72, Races::new(2));
        access(&mut races, 0, WRITE);
        go(
            &mut races,
            site(0, 7),
            flag.clone(),
            WRITE | MARKED | how::RELEASE,
        );
        if is_freed {
            races.forget(flag.clone());
        }
        go(&mut races, site(1, 8), flag, MARKED | how::ACQUIRE);
        access(&mut races, 1, READ);
        assert_eq!(found(&races).len(), expected, "freed: {is_freed}");
    }
}

#[test]
fn variables_that_the_same_lines_access_are_pairs_apart() {
    let mut races = Races::new(2);
    for cpu in 0..2 {
        for word in [WORD, WORD + 8, WORD + 64] {
            go(&mut races, site(cpu, 7), word..word + 8, WRITE);
        }
    }
    let found: Vec<_> = races.pairs().map(|p| (p.owner, p.times)).collect();
    assert_eq!(found, [(WORD as u32 / 64, 2), (WORD as u32 / 64 + 1, 1)]);
}
