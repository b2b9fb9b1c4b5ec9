// SPDX-License-Identifier: GPL-2.0-or-later
//! One test for each row of the map semantics. Models of hash and queue are in `models`.

use super::*;
use crate::bpf::errno::*;

mod models;

const NO_PREALLOC: u32 = 1;

fn decl(name: &str, kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> Map {
    let storage = matches!(kind, MapKind::TaskStorage | MapKind::CgroupStorage);
    Map {
        name: name.into(),
        kind,
        key_size,
        value_size,
        max_entries,
        map_flags: if storage { NO_PREALLOC } else { 0 },
        inner: None,
        values: Vec::new(),
        symbol: name.into(),
    }
}

const NR_CPUS: usize = 4;
const M: MapId = MapId(0);

fn one(kind: MapKind, key_size: u32, value_size: u32, max_entries: u32) -> MapSet {
    MapSet::new(
        &[decl("m", kind, key_size, value_size, max_entries)],
        NR_CPUS,
    )
    .unwrap()
}

/// The calls with keys and values as numbers: keys u32, values u64.
trait Numbers {
    fn get(&mut self, key: u32, cpu: usize) -> Option<u64>;
    fn address(&mut self, key: u32) -> *mut u8;
    fn set(&mut self, key: u32, value: u64, flags: u64, cpu: usize) -> i64;
    fn del(&mut self, key: u32) -> i64;
    fn keys(&mut self) -> Vec<u32>;
    fn push_number(&mut self, value: u64, flags: u64) -> i64;
    fn pop_number(&mut self) -> (i64, u64);
    fn peek_number(&mut self) -> (i64, u64);
}

impl Numbers for MapSet {
    fn get(&mut self, key: u32, cpu: usize) -> Option<u64> {
        // SAFETY: sizes as declared by the tests.
        unsafe {
            let value = self.lookup(M, (&raw const key).cast(), cpu);
            (!value.is_null()).then(|| value.cast::<u64>().read())
        }
    }

    fn address(&mut self, key: u32) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.lookup(M, (&raw const key).cast(), 0) }
    }

    fn set(&mut self, key: u32, value: u64, flags: u64, cpu: usize) -> i64 {
        // SAFETY: as above.
        unsafe {
            self.update(
                M,
                (&raw const key).cast(),
                (&raw const value).cast(),
                flags,
                cpu,
            )
        }
    }

    fn del(&mut self, key: u32) -> i64 {
        // SAFETY: as above.
        unsafe { self.delete(M, (&raw const key).cast()) }
    }

    fn keys(&mut self) -> Vec<u32> {
        let mut cursor = self.cursor(M).unwrap();
        let mut keys = Vec::new();
        while let Some(element) = self.advance(M, &mut cursor, 0) {
            // SAFETY: keys of 4 bytes.
            keys.push(unsafe { element.key.as_ptr().cast::<u32>().read() });
        }
        keys
    }

    fn push_number(&mut self, value: u64, flags: u64) -> i64 {
        // SAFETY: as above.
        unsafe { self.push_elem(M, (&raw const value).cast(), flags) }
    }

    fn pop_number(&mut self) -> (i64, u64) {
        let mut value = 99u64;
        // SAFETY: as above.
        (unsafe { self.pop_elem(M, (&raw mut value).cast()) }, value)
    }

    fn peek_number(&mut self) -> (i64, u64) {
        let mut value = 99u64;
        // SAFETY: as above.
        (unsafe { self.peek_elem(M, (&raw mut value).cast()) }, value)
    }
}

#[test]
fn array_is_zeroed_and_refuses_what_is_out_of_range() {
    let mut set = one(MapKind::Array, 4, 8, 3);
    assert_eq!(set.get(2, 0), Some(0));
    assert_eq!(set.get(3, 0), None);
    assert_eq!(set.set(2, 7, 0, 1), 0);
    assert_eq!(set.get(2, 3), Some(7), "one value for all CPUs");
    assert_eq!(set.set(3, 7, 0, 0), -E2BIG);
    assert_eq!(set.set(2, 8, BPF_NOEXIST, 0), -EEXIST);
    assert_eq!(set.set(2, 8, BPF_EXIST, 0), 0);
    assert_eq!(set.set(2, 9, 3, 0), -EINVAL);
    assert_eq!(set.del(2), -EINVAL);
    assert_eq!(set.get(2, 0), Some(8));
    assert_eq!(set.keys(), [0, 1, 2]);
    assert_eq!(set.take_misuse(), None);
}

#[test]
fn values_of_odd_sizes_are_aligned_and_do_not_touch() {
    let mut set = one(MapKind::Array, 4, 5, 4);
    let first = set.address(0) as usize;
    assert_eq!(first % 8, 0);
    assert_eq!(set.address(1) as usize - first, 8);
}

#[test]
fn per_cpu_array_keeps_a_value_for_each_cpu() {
    let mut set = one(MapKind::PerCpuArray, 4, 8, 2);
    assert_eq!(set.set(1, 11, 0, 1), 0);
    assert_eq!(
        [0, 1, 2, 3].map(|cpu| set.get(1, cpu).unwrap()),
        [0, 11, 0, 0]
    );
    let key = 1u32;
    // SAFETY: a key of 4 bytes.
    let mut of = |cpu| unsafe { set.lookup_percpu(M, (&raw const key).cast(), cpu) };
    // SAFETY: values of 8 bytes.
    assert_eq!(unsafe { of(1).cast::<u64>().read() }, 11);
    assert!(of(NR_CPUS as u32).is_null());
    assert!(of(u32::MAX).is_null());
}

#[test]
fn hash_update_flags_limits_and_delete() {
    let mut set = one(MapKind::Hash, 4, 8, 2);
    assert_eq!(set.get(1, 0), None);
    assert_eq!(set.set(1, 10, BPF_EXIST, 0), -ENOENT);
    assert_eq!(set.set(1, 10, BPF_NOEXIST, 0), 0);
    assert_eq!(set.set(1, 11, BPF_NOEXIST, 0), -EEXIST);
    assert_eq!(set.set(1, 11, 3, 0), -EINVAL);
    assert_eq!(set.set(2, 20, 0, 0), 0);
    assert_eq!(set.set(3, 30, 0, 0), -E2BIG);
    assert_eq!(set.set(2, 21, 0, 0), 0, "replacing works in a full map");
    assert_eq!(set.del(3), -ENOENT);
    assert_eq!(set.del(1), 0);
    assert_eq!(set.set(3, 30, 0, 0), 0, "a deleted entry counts no more");
    assert_eq!(
        (set.get(1, 0), set.get(2, 0), set.get(3, 0)),
        (None, Some(21), Some(30))
    );
}

#[test]
fn hash_values_stay_put_while_it_grows_and_until_reclaim_once_deleted() {
    let mut set = one(MapKind::Hash, 4, 8, 100_000);
    set.set(0, 1, 0, 0);
    let kept = set.address(0);
    for key in 1..100_000 {
        assert_eq!(set.set(key, u64::from(key), 0, 0), 0);
    }
    assert_eq!(set.address(0), kept);
    let gone = set.address(5);
    set.del(5);
    set.set(5, 55, 0, 0);
    assert_ne!(set.address(5), gone);
    // SAFETY: readable until reclaim.
    assert_eq!(unsafe { gone.cast::<u64>().read() }, 5);
    let replaced = set.address(6);
    set.set(6, 66, 0, 0);
    // SAFETY: the same for a value that was replaced.
    assert_eq!(unsafe { replaced.cast::<u64>().read() }, 6);
    assert_eq!(set.get(6, 0), Some(66));
    let mut freed = Vec::new();
    set.reclaim(|span| freed.push(span));
    assert!(freed[0].contains(&(gone as usize)) && freed[1].contains(&(replaced as usize)));
    set.reclaim(|span| panic!("{span:?} freed twice"));
}

#[test]
fn hash_iterates_by_age_and_survives_changes_meanwhile() {
    let mut set = one(MapKind::Hash, 4, 8, 100);
    for key in [30, 10, 20, 40] {
        set.set(key, 0, 0, 0);
    }
    set.set(10, 1, 0, 0);
    assert_eq!(
        set.keys(),
        [30, 10, 20, 40],
        "a replaced value keeps its key's age"
    );
    let mut cursor = set.cursor(M).unwrap();
    let mut seen = Vec::new();
    while let Some(element) = set.advance(M, &mut cursor, 0) {
        // SAFETY: keys of 4 bytes.
        let key = unsafe { element.key.as_ptr().cast::<u32>().read() };
        seen.push(key);
        set.del(key);
        set.del(20);
        set.set(key + 1, 0, 0, 0);
    }
    assert_eq!(
        seen,
        [30, 10, 40],
        "deleted ones and new ones are not visited"
    );
    set.reclaim(|_| {});
    assert_eq!(set.keys(), [31, 11, 41]);
}

#[test]
fn gaps_in_the_order_are_closed() {
    let mut set = one(MapKind::Hash, 4, 8, 10);
    set.set(1, 1, 0, 0);
    for key in 2..5000 {
        set.set(key, 0, 0, 0);
        set.del(key);
        set.reclaim(|_| {});
    }
    set.set(7, 7, 0, 0);
    assert_eq!(set.keys(), [1, 7]);
    let Store::Hash(hash) = &set.maps[0].store else {
        unreachable!()
    };
    assert!(hash.order_len() < 64);
}

#[test]
fn per_cpu_hash_updates_in_place_and_zeroes_the_other_cpus() {
    let mut set = one(MapKind::PerCpuHash, 4, 8, 2);
    assert_eq!(set.set(1, 10, 0, 2), 0);
    assert_eq!(
        [0, 1, 2, 3].map(|cpu| set.get(1, cpu).unwrap()),
        [0, 0, 10, 0]
    );
    let before = set.address(1);
    assert_eq!(set.set(1, 20, BPF_EXIST, 0), 0);
    assert_eq!(set.address(1), before);
    assert_eq!(
        [0, 1, 2, 3].map(|cpu| set.get(1, cpu).unwrap()),
        [20, 0, 10, 0]
    );
    assert_eq!(set.set(2, 0, 0, 0), 0);
    assert_eq!(set.set(3, 0, 0, 0), -E2BIG);
}

#[test]
fn lru_hash_makes_room_by_dropping_what_was_used_longest_ago() {
    let mut set = one(MapKind::LruHash, 4, 8, 3);
    for key in 1..=3 {
        set.set(key, u64::from(key), 0, 0);
    }
    set.get(1, 0);
    assert_eq!(set.set(4, 4, 0, 0), 0);
    assert_eq!(set.keys(), [1, 3, 4]);
    set.set(3, 33, 0, 0);
    set.set(5, 5, 0, 0);
    assert_eq!(set.keys(), [3, 4, 5]);
    for key in 3..=5 {
        assert_eq!(set.del(key), 0);
    }
    assert_eq!(set.set(6, 6, 0, 0), 0);
    assert_eq!(set.keys(), [6]);
}

#[test]
fn keys_of_any_size_are_compared_as_bytes() {
    for size in [2, 4, 8, 13, 16] {
        let mut set = one(MapKind::Hash, size as u32, 8, 5000);
        // Keys that differ in their last two bytes only.
        let key = |number: u16| {
            let mut key = [7u8; 16];
            key[size - 2..size].copy_from_slice(&number.to_be_bytes());
            key
        };
        for number in 0..5000u16 {
            let value = u64::from(number);
            // SAFETY: keys of at most 16 bytes, values of 8.
            let set = unsafe {
                set.update(
                    M,
                    key(number).as_ptr(),
                    (&raw const value).cast(),
                    BPF_NOEXIST,
                    0,
                )
            };
            assert_eq!(set, 0, "{size} {number}");
        }
        for number in 0..10_000 {
            // SAFETY: as above.
            let value = unsafe { set.lookup(M, key(number).as_ptr(), 0) };
            assert_eq!(value.is_null(), number >= 5000, "{size} {number}");
            // SAFETY: as above.
            assert!(value.is_null() || unsafe { value.cast::<u64>().read() } == u64::from(number));
        }
    }
}

#[test]
fn queue_is_first_in_first_out_and_zeroes_what_it_cannot_give() {
    let mut set = one(MapKind::Queue, 0, 8, 2);
    assert_eq!(set.pop_number(), (-ENOENT, 0));
    assert_eq!(set.peek_number(), (-ENOENT, 0));
    assert_eq!((set.push_number(1, 0), set.push_number(2, 0)), (0, 0));
    assert_eq!(set.push_number(3, 0), -E2BIG);
    assert_eq!(set.push_number(3, BPF_NOEXIST), -EINVAL);
    assert_eq!(set.push_number(3, 4), -EINVAL);
    assert_eq!(set.push_number(3, BPF_EXIST), 0, "drops the oldest");
    assert_eq!(set.peek_number(), (0, 2));
    assert_eq!((set.pop_number(), set.pop_number()), ((0, 2), (0, 3)));
    assert_eq!(set.pop_number(), (-ENOENT, 0));
}

#[test]
fn stack_is_last_in_first_out() {
    let mut set = one(MapKind::Stack, 0, 8, 2);
    assert_eq!(set.pop_number(), (-ENOENT, 0));
    assert_eq!((set.push_number(1, 0), set.push_number(2, 0)), (0, 0));
    assert_eq!(set.push_number(3, 0), -E2BIG);
    assert_eq!(set.push_number(3, BPF_EXIST), 0, "drops the oldest");
    assert_eq!(set.peek_number(), (0, 3));
    assert_eq!((set.pop_number(), set.pop_number()), ((0, 3), (0, 2)));
    assert_eq!(set.pop_number(), (-ENOENT, 0));
}

#[test]
fn task_storage_is_created_on_demand_and_dies_with_its_task() {
    let decls = [
        decl("m", MapKind::TaskStorage, 4, 8, 0),
        decl("groups", MapKind::CgroupStorage, 4, 8, 0),
    ];
    let mut set = MapSet::new(&decls, NR_CPUS).unwrap();
    let (none, initial) = (std::ptr::null(), 7u64);
    // SAFETY: `initial` has the value size.
    unsafe {
        assert!(set.task_storage(M, 5, none, 0).is_null());
        assert!(set.task_storage(M, 5, none, 2).is_null(), "unknown flag");
        let value = set
            .task_storage(M, 5, none, storage::BPF_LOCAL_STORAGE_GET_F_CREATE)
            .cast::<u64>();
        assert_eq!(value.read(), 0);
        value.write(1);
        let initial = (&raw const initial).cast();
        assert_eq!(
            set.task_storage(M, 5, initial, 1).cast(),
            value,
            "exists: not initialised again"
        );
        assert_eq!(set.task_storage(M, 9, initial, 1).cast::<u64>().read(), 7);
        assert_eq!(set.task_storage_delete(M, 6), -ENOENT);
        assert_eq!(set.task_storage_delete(M, 9), 0);
        assert_eq!(set.task_storage_delete(M, 9), -ENOENT);
        assert_eq!(value.read(), 1);
        assert!(
            !set.task_storage(M, 5, none, 0).is_null(),
            "another kind of owner"
        );
        set.forget_task(5);
        assert!(set.task_storage(M, 5, none, 0).is_null());
        assert_eq!(value.read(), 1, "readable until reclaim");
        set.reclaim(|_| {});
        assert_eq!(
            set.task_storage(M, 5, none, 1).cast::<u64>().read(),
            0,
            "zeroed when used again"
        );
        assert!(set.cgroup_storage(MapId(1), 0, none, 0).is_null());
        assert!(!set.cgroup_storage(MapId(1), 0, none, 1).is_null());
        assert_eq!(set.cgroup_storage_delete(MapId(1), 0), 0);
        assert_eq!(set.take_misuse(), None);
    }
}

fn drained(set: &mut MapSet) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some(record) = set.ringbuf_take(M) {
        records.push(record.to_vec());
    }
    records
}

#[test]
fn ring_buffer_delivers_in_order_of_reservation() {
    let mut set = one(MapKind::RingBuf, 0, 0, 4096);
    // SAFETY: the lengths are those of the literals.
    let output = |set: &mut MapSet, data: &[u8], flags| unsafe {
        set.ringbuf_output(M, data.as_ptr(), data.len() as u64, flags)
    };
    assert_eq!(output(&mut set, b"one", 0), 0);
    assert_eq!(output(&mut set, b"x", 4), -EINVAL);
    let open = set.ringbuf_reserve(M, 3, 0);
    let dropped = set.ringbuf_reserve(M, 8, 0);
    assert_eq!(output(&mut set, b"three", 1), 0);
    assert_eq!(
        drained(&mut set),
        [b"one"],
        "an open record holds back those behind it"
    );
    // SAFETY: three bytes were reserved.
    unsafe { b"two".as_ptr().copy_to(open, 3) };
    assert!(set.ringbuf_commit(open, false) && set.ringbuf_commit(dropped, true));
    assert!(!set.ringbuf_commit(open, false), "committed twice");
    assert!(!set.ringbuf_commit(std::ptr::null_mut(), false));
    assert_eq!(set.ringbuf_take(M), Some(b"two".as_slice()));
    assert_eq!(drained(&mut set), [b"three"]);
    assert_eq!(set.ringbuf_take(M), None);
    assert_eq!(drained(&mut set), Vec::<Vec<u8>>::new());
    assert!(set.ringbuf_reserve(M, 8, 1).is_null(), "flags must be 0");
}

#[test]
fn ring_buffer_refuses_what_has_no_room_and_wraps() {
    let mut set = one(MapKind::RingBuf, 0, 0, 4096);
    assert!(
        set.ringbuf_reserve(M, 4096 - 8, 0).is_null(),
        "never filled to the last byte"
    );
    assert!(!set.ringbuf_reserve(M, 4096 - 16, 0).is_null());
    let mut set = one(MapKind::RingBuf, 0, 0, 4000);
    assert_eq!(set.ringbuf_query(M, 1), 4096, "rounded up");
    for round in 0..1000u32 {
        let record = vec![round as u8; 1020 + round as usize % 97];
        for fits in [true, true, true, false] {
            // SAFETY: the length of the vector.
            let result = unsafe { set.ringbuf_output(M, record.as_ptr(), record.len() as u64, 0) };
            assert_eq!(result, if fits { 0 } else { -EAGAIN });
        }
        assert_eq!(drained(&mut set), vec![record; 3]);
    }
    assert_eq!(set.ringbuf_query(M, 0), 0);
    assert_eq!(set.ringbuf_query(M, 2), set.ringbuf_query(M, 3));
    assert_eq!(set.ringbuf_query(M, 4), 0);
}

#[test]
fn map_in_map_gives_the_variable_of_the_inner_map() {
    let inner = |name| decl(name, MapKind::Queue, 0, 4, 8);
    let mut outer = decl("outer", MapKind::ArrayOfMaps, 4, 4, 3);
    outer.inner = Some(1);
    outer.values = vec![Some(1), None, Some(2)];
    let array = decl("array", MapKind::Array, 4, 4, 8);
    let all = [outer.clone(), inner("q0"), inner("q1"), inner("q2"), array];
    let mut set = MapSet::new(&all, NR_CPUS).unwrap();
    let mut variables = [[0u64; 4]; 5];
    for (i, variable) in variables.iter_mut().enumerate() {
        // SAFETY: 32 bytes that outlive the set's use.
        unsafe { set.bind(MapId(i as u32), variable.as_mut_ptr().cast()) };
    }
    let at = |i: usize| (&raw const variables[i]).cast::<u8>().cast_mut();
    assert_eq!(
        [0, 1, 2, 3].map(|key| set.address(key)),
        [at(1), null_mut(), at(2), null_mut()]
    );
    // SAFETY: bound variables, or null.
    unsafe {
        assert_eq!(set.id_of(at(2)), Some(MapId(2)));
        assert_eq!(set.id_of([77u64].as_ptr().cast()), None);
        assert_eq!(set.id_of(std::ptr::null()), None);
    }
    let (added, other) = (MapId(3), MapId(4));
    let key = 1u32;
    let key: *const u8 = (&raw const key).cast();
    // SAFETY: keys of 4 bytes.
    unsafe {
        assert_eq!(
            set.set_inner(M, key, Some(other)),
            -EINVAL,
            "not like the template"
        );
        assert_eq!(set.set_inner(M, key, Some(added)), 0);
        let variable = set.address(1);
        assert_eq!(set.id_of(variable), Some(added));
        assert_eq!(set.set_inner(M, key, None), 0);
    }
    assert!(set.address(1).is_null());
    assert_eq!(set.set(0, 0, 0, 0), -EINVAL, "only user space fills it");
    assert_eq!(set.take_misuse().unwrap().call, "bpf_map_update_elem");
    outer.values = vec![Some(0)];
    let refused = MapSet::new(&[outer, inner("q0")], NR_CPUS).err().unwrap();
    assert_eq!(
        refused,
        MapError::Inner {
            map: "outer".into(),
            index: 0
        }
    );
}

#[test]
fn hash_of_maps_is_filled_and_emptied_by_key() {
    let decls = [
        decl("m", MapKind::HashOfMaps, 4, 4, 1),
        decl("a", MapKind::Array, 4, 4, 1),
    ];
    let mut set = MapSet::new(&decls, NR_CPUS).unwrap();
    let mut variable = [0u64; 1];
    // SAFETY: 8 bytes that outlive the set's use; keys of 4 bytes.
    unsafe {
        set.bind(MapId(1), variable.as_mut_ptr().cast());
        let (a, b) = (70u32, 80u32);
        assert_eq!(set.set_inner(M, (&raw const a).cast(), Some(MapId(1))), 0);
        assert_eq!(
            set.set_inner(M, (&raw const b).cast(), Some(MapId(1))),
            -E2BIG
        );
        assert_eq!(set.address(70), variable.as_mut_ptr().cast());
        assert_eq!(set.set_inner(M, (&raw const a).cast(), None), 0);
    }
    assert!(set.address(70).is_null());
}

#[test]
fn what_a_verifier_would_refuse_is_kept_until_asked_for() {
    let mut set = one(MapKind::Queue, 0, 8, 2);
    assert_eq!(set.get(0, 0), None);
    assert_eq!(set.del(0), -EINVAL);
    let misuse = set.take_misuse().unwrap().to_string();
    assert!(
        misuse.contains("'m'") && misuse.contains("bpf_map_lookup_elem"),
        "{misuse}"
    );
    assert_eq!(set.take_misuse(), None);
    let mut set = one(MapKind::Hash, 4, 8, 2);
    assert_eq!(set.set(0, 0, BPF_F_LOCK, 0), -EINVAL);
    assert!(set.take_misuse().unwrap().call.contains("BPF_F_LOCK"));
    assert_eq!(set.pop_number().0, -EINVAL);
    assert!(set.take_misuse().is_some());
    // SAFETY: a key of 4 bytes.
    assert!(unsafe { set.lookup_percpu(M, [0u8; 4].as_ptr(), 0) }.is_null());
    assert!(set.take_misuse().is_some());
}

#[test]
fn timers_find_the_element_they_live_in() {
    let mut set = one(MapKind::Array, 4, 24, 3);
    let value = set.address(2);
    let element = set.element_at(M, value as usize + 8).unwrap();
    assert!(matches!(element.key, Key::Index(2)) && element.value == value);
    assert!(set.element_at(M, 16).is_none());
    let mut set = one(MapKind::Hash, 4, 8, 3);
    set.set(7, 1, 0, 0);
    let value = set.address(7);
    let element = set.element_at(M, value as usize + 7).unwrap();
    assert_eq!(element.value, value);
    // SAFETY: keys of 4 bytes.
    assert_eq!(unsafe { element.key.as_ptr().cast::<u32>().read() }, 7);
}

#[test]
fn bad_declarations_are_refused_by_name() {
    let refusal = |decl: Map| MapSet::new(&[decl], NR_CPUS).err().map(|e| e.to_string());
    let cases = [
        (decl("m", MapKind::BpfArena, 0, 0, 10), "BPF_MAP_TYPE_ARENA"),
        (decl("m", MapKind::Array, 8, 8, 1), "key_size = 8"),
        (decl("m", MapKind::Array, 4, 0, 1), "value_size = 0"),
        (decl("m", MapKind::Hash, 4, 8, 0), "max_entries = 0"),
        (decl("m", MapKind::Queue, 4, 8, 1), "key_size = 4"),
        (
            decl("m", MapKind::PerCpuArray, 4, 32769, 1),
            "value_size = 32769",
        ),
        (
            decl("m", MapKind::TaskStorage, 4, 8, 10),
            "max_entries = 10",
        ),
        (decl("m", MapKind::TaskStorage, 4, 70_000, 0), "65407"),
        (decl("m", MapKind::RingBuf, 0, 0, 0), "max_entries = 0"),
        (
            Map {
                map_flags: 0,
                ..decl("m", MapKind::TaskStorage, 4, 8, 0)
            },
            "BPF_F_NO_PREALLOC",
        ),
        (
            Map {
                map_flags: 2,
                ..decl("m", MapKind::LruHash, 4, 8, 1)
            },
            "map_flags = 2",
        ),
        (
            decl("m", MapKind::Array, 4, u32::MAX, u32::MAX),
            "does not fit",
        ),
    ];
    for (decl, expected) in cases {
        let message = refusal(decl.clone()).unwrap_or_else(|| panic!("{decl:?} accepted"));
        assert!(
            message.contains("'m'") && message.contains(expected),
            "{message}"
        );
    }
    assert_eq!(refusal(decl("m", MapKind::RingBuf, 0, 0, 5000)), None);
}
