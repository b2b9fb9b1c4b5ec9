// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers that go wrong at run time, and what else is running then.

mod common;

use common::{Engine, build, call, load, read, scheduler, shipped, written};
use std::ffi::c_void;
use tiltyard_native::{Crash, EntryPoint, Instance, LoadError, Object, Value};

const FAULTY: &str = "
    u64 nr; u64 *volatile wild; int depth;
    static __noinline int recurse(volatile int *n) { volatile int m = *n + 1; return recurse((int *)&m) + m; }
    void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
        nr++;
        if (enq_flags == 1) for (;;) barrier();
        if (enq_flags == 2) *wild = 1;
        if (enq_flags == 3) { volatile int n = 0; depth = recurse(&n); }
        if (enq_flags == 4) scx_bpf_dsq_insert(p, 7, 0, 0);
        nr++;
    }";

fn faulty() -> Object {
    let (_folder, source) = written(&scheduler(FAULTY, ".enqueue = (void *)test_enqueue,"));
    build(&source)
}

#[test]
fn endless_loops_come_back() {
    let object = faulty();
    let engine = Engine::default();
    let instance = load(&object, &[], &engine);
    instance.set_work_limit(1_000_000);
    let crash = call(&instance, &object, "enqueue", &[0, 1]);
    assert_eq!(crash, Err(Crash::Runaway { limit: 1_000_000 }));
    assert!(instance.work_insns() > 1_000_000);
    call(&instance, &object, "enqueue", &[0, 0]).expect("the next call has a limit of its own");
}

#[test]
fn wild_pointers_and_endless_recursion_come_back() {
    let object = faulty();
    let engine = Engine::default();
    let instance = load(
        &object,
        &[("wild".to_owned(), Value::Int(0x0666_0000_0000))],
        &engine,
    );
    assert_eq!(
        call(&instance, &object, "enqueue", &[0, 2]),
        Err(Crash::Fault {
            address: 0x0666_0000_0000
        })
    );
    // Local variables whose address is passed on lie on a stack of their own, which ends first.
    assert!(matches!(
        call(&instance, &object, "enqueue", &[0, 3]),
        Err(Crash::Outside {
            access: u32::MAX,
            ..
        })
    ));
    call(&instance, &object, "enqueue", &[0, 0]).expect("the process is well");
    assert_eq!(read::<u64>(&instance, "nr"), 4);
}

/// A store whose address is an argument on one way and a variable's element on another belongs to neither alone.
#[test]
fn a_store_through_either_of_two_pointers_is_checked_against_both() {
    let body = "
        static u32 links[64], root[2]; u32 seen;
        static __noinline void link(u32 *first, u32 i, u32 to) {
            if (i)
                links[links[i & 63] + 1 & 63] = to;
            else
                *first = to;
        }
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            link(&root[enq_flags & 1], enq_flags >> 1, 7);
            seen = root[0] + 10 * root[1] + 100 * links[1];
        }";
    let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
    let object = build(&source);
    let engine = Engine::default();
    let instance = load(&object, &[], &engine);
    for (flags, seen) in [(0, 7), (1, 77), (2, 777)] {
        call(&instance, &object, "enqueue", &[0, flags]).unwrap();
        assert_eq!(read::<u32>(&instance, "seen"), seen);
    }
}

/// A function that gets a pointer to a variable need not check it again only if what it accesses lies in the variable.
#[test]
fn a_function_is_given_only_pointers_with_room_behind_them() {
    let body = "
        struct pair { u64 first, second; };
        struct pair pairs[4]; u64 alone, sum, at;
        static __noinline u64 fill(struct pair *pair, u64 value, bool both) {
            pair->first = value;
            if (both) pair->second = value;
            return pair->first;
        }
        static __noinline u64 fill_next(struct pair *pair, u64 value) {
            return fill(pair + 1, value, true);
        }
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            if (enq_flags == 1) sum += fill(&pairs[at & 3], 1, true);
            if (enq_flags == 2) sum += fill_next(&pairs[at & 1], 10);
            if (enq_flags == 3) sum += fill((struct pair *)&alone, 100, false);
            if (enq_flags == 4) sum += fill((struct pair *)at, 1000, true);
            if (enq_flags == 5) sum += fill(&pairs[at], 1, true);
        }";
    let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
    let object = build(&source);
    let mut elsewhere = [0u64; 2];
    let wild = elsewhere.as_mut_ptr() as u64;
    let far = 1u64 << 40;
    for (flags, at, sum, alone, asked) in [
        (1, 3, 1, 0, 0),
        (2, 1, 10, 0, 0),
        // Only half of it is a pair, and only that half is written.
        (3, 0, 100, 100, 0),
        (4, wild, 1000, 0, 2),
        (5, 3, 1, 0, 0),
        (5, far, 0, 0, 1),
    ] {
        let engine = Engine::default();
        let instance = load(
            &object,
            &[("at".to_owned(), Value::Int(at.into()))],
            &engine,
        );
        let result = call(&instance, &object, "enqueue", &[0, flags]);
        let case = format!("{flags} at {at:#x}");
        assert_eq!(result.is_err(), at == far, "{case}");
        assert_eq!(read::<u64>(&instance, "sum"), sum, "{case}");
        assert_eq!(read::<u64>(&instance, "alone"), alone, "{case}");
        assert_eq!(engine.stores.borrow().len(), asked, "{case}");
    }
    assert_eq!(elsewhere, [1000, 1000]);
}

/// The engine is asked about a store of which a byte lies outside of the values of maps, and about no other.
#[test]
fn a_store_lies_in_its_memory_to_the_last_byte() {
    let body = "
        u64 at;
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            if (enq_flags == 8) *(volatile u64 *)at = 1;
            if (enq_flags == 1) *(volatile u8 *)at = 1;
            if (enq_flags == 24) __builtin_memset((void *)at, 1, 24);
        }";
    let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
    let object = build(&source);
    let mut memory = [0u64; 16];
    let start = memory[4..].as_mut_ptr() as usize;
    for (offset, bytes, asks) in [
        (0i64, 8, false),
        (24, 8, false),
        (25, 8, true),
        (-1, 8, true),
        (31, 1, false),
        (32, 1, true),
        (8, 24, false),
        (9, 24, true),
    ] {
        let engine = Engine::default();
        let at = (start as i64 + offset) as i128;
        let instance = load(&object, &[("at".to_owned(), Value::Int(at))], &engine);
        instance.set_map_memory(start..start + 32);
        call(&instance, &object, "enqueue", &[0, bytes]).unwrap();
        let asked = engine.stores.take();
        let expected = asks.then_some((at as u64, bytes));
        assert_eq!(asked, Vec::from_iter(expected), "{bytes} bytes at {offset}");
    }
}

#[test]
fn crashes_do_not_disturb_other_threads() {
    let object = faulty();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let object = &object;
            scope.spawn(move || {
                let engine = Engine::default();
                let instance = load(object, &[("wild".to_owned(), Value::Int(0x10))], &engine);
                for round in 0..200 {
                    let flags = if (round + thread) % 3 == 0 { 2 } else { 0 };
                    let result = call(&instance, object, "enqueue", &[0, flags]);
                    assert_eq!(result.is_err(), flags == 2);
                }
            });
        }
    });
}

/// What a kfunc needs to call back into the scheduler.
struct Nesting {
    instance: *const Instance,
    entry: EntryPoint,
    inner: std::cell::Cell<Option<Result<u64, Crash>>>,
}

extern "C" fn nested_insert(engine: &Nesting, _p: u64, _dsq: u64, _slice: u64, _flags: u64) {
    let mut context = [0, 2, 0, 0, 0, 0, 0, 0];
    // SAFETY: the test's instance, which outlives the call.
    engine.inner.set(Some(unsafe {
        (*engine.instance).call(engine.entry, &mut context)
    }));
}

#[test]
fn a_crash_in_a_nested_call_ends_that_call_only() {
    let object = faulty();
    let mut instance = Instance::load(&object, &[("wild".to_owned(), Value::Int(8))]).unwrap();
    instance
        .bind(
            &|name| (name == "scx_bpf_dsq_insert").then_some(nested_insert as *const c_void),
            &|_| None,
        )
        .unwrap();
    let symbol = instance.symbol(&object.ops.functions["enqueue"]).unwrap();
    // SAFETY: an op of this instance.
    let entry = unsafe { std::mem::transmute::<*mut u8, EntryPoint>(symbol) };
    let engine = Nesting {
        instance: &instance,
        entry,
        inner: Default::default(),
    };
    instance.set_engine(&raw const engine as *mut c_void);
    call(&instance, &object, "enqueue", &[0, 4]).expect("the outer call goes on");
    assert_eq!(engine.inner.get(), Some(Err(Crash::Fault { address: 8 })));
    assert_eq!(read::<u64>(&instance, "nr"), 3);
}

#[test]
fn instances_have_their_own_globals() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    let engine = Engine::default();
    let instances: Vec<_> = (1..=200)
        .map(|ms| load(&object, &[("slice_ms".to_owned(), Value::Int(ms))], &engine))
        .collect();
    for (instance, ms) in instances.iter().zip(1u32..) {
        assert_eq!(read::<u32>(instance, "slice_ms"), ms);
    }
}

#[test]
fn descriptors_are_reused_without_sharing_objects() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    let engine = Engine::default();
    for ms in 1..50u32 {
        let instance = load(
            &object,
            &[("slice_ms".to_owned(), Value::Int(ms.into()))],
            &engine,
        );
        assert_eq!(read::<u32>(&instance, "slice_ms"), ms);
    }
}

#[test]
fn bad_tunables_are_errors_that_name_the_right_ones() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    let load =
        |name: &str, value| Instance::load(&object, &[(name.to_owned(), value)]).unwrap_err();
    let error = load("slice_us", Value::Int(1));
    assert!(
        matches!(&error, LoadError::UnknownGlobal { known, .. } if known.contains("slice_ms")),
        "{error}"
    );
    assert!(matches!(
        load("slice_ms", Value::Int(-1)),
        LoadError::ValueRange { .. }
    ));
    assert!(matches!(
        load("slice_ms", Value::Int(1 << 32)),
        LoadError::ValueRange { .. }
    ));
}

#[test]
fn missing_kernel_functions_are_named() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    let mut instance = Instance::load(&object, &[]).unwrap();
    let error = instance.bind(&|_| None, &|_| None).unwrap_err();
    assert!(
        matches!(&error, LoadError::Unbound(name) if name.starts_with("scx_bpf_")),
        "{error}"
    );
}
