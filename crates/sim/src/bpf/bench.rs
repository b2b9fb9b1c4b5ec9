// SPDX-License-Identifier: GPL-2.0-or-later
//! Time for each call of the hottest paths, printed, never judged:
//! `cargo test --release -p tiltyard-sim bpf::bench -- --ignored --nocapture`.

use super::cpumask::CpuSet;
use super::maps::{MapId, MapSet};
use super::prandom::Prandom;
use super::rng::Streams;
use std::hint::black_box;
use std::time::Instant;
use tiltyard_native::object::{Map, MapKind};

const CALLS: u32 = 20_000_000;

fn time(what: &str, mut call: impl FnMut(u32)) {
    let start = Instant::now();
    (0..CALLS).for_each(&mut call);
    let ns = start.elapsed().as_nanos() as f64 / f64::from(CALLS);
    println!("{what:<32} {ns:6.2} ns");
}

fn set(kind: MapKind, key_size: u32, max_entries: u32) -> MapSet {
    let decl = Map {
        name: "m".into(),
        kind,
        key_size,
        value_size: 32,
        max_entries,
        map_flags: u32::from(kind == MapKind::TaskStorage),
        inner: None,
        values: Vec::new(),
        symbol: "m".into(),
    };
    MapSet::new(&[decl], 8).unwrap()
}

#[test]
#[ignore = "prints times; run by hand"]
fn maps() {
    const M: MapId = MapId(0);
    for kind in [MapKind::Array, MapKind::PerCpuArray] {
        let mut set = set(kind, 4, 1024);
        time(&format!("{kind:?} look-up"), |i| {
            let key = i & 1023;
            // SAFETY: keys of 4 bytes.
            black_box(unsafe { set.lookup(black_box(M), (&raw const key).cast(), 3) });
        });
    }
    for (kind, key_size) in [
        (MapKind::Hash, 4),
        (MapKind::Hash, 8),
        (MapKind::Hash, 16),
        (MapKind::LruHash, 8),
    ] {
        let mut set = set(kind, key_size, 1024);
        let (mut key, value) = ([0u64; 2], [0u64; 4]);
        for i in 0..1024 {
            key[0] = i;
            // SAFETY: keys of at most 16 bytes, values of 32.
            unsafe { set.update(M, key.as_ptr().cast(), value.as_ptr().cast(), 0, 0) };
        }
        time(&format!("{kind:?} look-up, {key_size} bytes"), |i| {
            key[0] = u64::from(i & 1023);
            // SAFETY: as above.
            black_box(unsafe { set.lookup(black_box(M), key.as_ptr().cast(), 0) });
        });
        time(&format!("{kind:?} delete and update, {key_size}"), |i| {
            key[0] = u64::from(i & 1023);
            // SAFETY: as above.
            unsafe {
                set.delete(M, key.as_ptr().cast());
                set.update(M, key.as_ptr().cast(), value.as_ptr().cast(), 0, 0);
            }
            set.reclaim(|_| {});
        });
    }
    let mut tasks = set(MapKind::TaskStorage, 4, 0);
    time("TaskStorage get", |i| {
        // SAFETY: no initial value.
        black_box(unsafe { tasks.task_storage(black_box(M), i & 1023, std::ptr::null(), 1) });
    });
    let mut queue = set(MapKind::Queue, 0, 1024);
    let mut value = [0u64; 4];
    time("Queue push and pop", |_| {
        // SAFETY: values of 32 bytes.
        unsafe {
            queue.push_elem(M, value.as_ptr().cast(), 0);
            queue.pop_elem(M, value.as_mut_ptr().cast());
        }
    });
}

#[test]
#[ignore = "prints times; run by hand"]
fn cpu_sets() {
    for nr_cpus in [8, 256] {
        let (all, last) = (CpuSet::all(nr_cpus), CpuSet::of(nr_cpus, [nr_cpus - 1]));
        let mut rotor = 0;
        time(&format!("test, {nr_cpus} CPUs"), |i| {
            black_box(all.test(black_box(i % nr_cpus)));
        });
        time(&format!("first_and, {nr_cpus} CPUs"), |_| {
            black_box(black_box(&all).first_and(&last));
        });
        time(&format!("any_and_distribute, {nr_cpus} CPUs"), |_| {
            black_box(black_box(&all).any_and_distribute(&all, &mut rotor));
        });
    }
}

#[test]
#[ignore = "prints times; run by hand"]
fn draws() {
    let streams = Streams::new(1);
    let mut rng = streams.stream("bench", 0);
    let mut prandom = Prandom::new(&streams, 8);
    time("prandom", |i| {
        black_box(prandom.u32(i & 7));
    });
    time("uniform", |_| {
        black_box(rng.uniform(1000, 5000));
    });
    time("exponential", |_| {
        black_box(rng.exponential(1_000_000));
    });
    time("log-normal", |_| {
        black_box(rng.log_normal(1_000_000, 500));
    });
    time("a new stream", |i| {
        black_box(streams.stream("bench", u64::from(i)));
    });
}
