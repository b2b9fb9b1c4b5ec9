// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers that go wrong at run time, and what else is running then.

use crate::common::{Engine, build, call, load, read, scheduler, shipped, written};
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
        struct vast { u64 first; char more[1 << 30]; u64 last; };
        struct pair pairs[4]; u64 alone, sum, at;
        static __noinline u64 fill_vast(struct vast *vast, u64 value) {
            vast->last = value;
            return value;
        }
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
            if (enq_flags == 6) sum += fill_vast((struct vast *)&pairs[at & 3], 1);
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
        // A variable that is smaller than the room which the function needs: their difference must not wrap around.
        (6, 0, 0, 0, 1),
    ] {
        let engine = Engine::default();
        let instance = load(
            &object,
            &[("at".to_owned(), Value::Int(at.into()))],
            &engine,
        );
        let result = call(&instance, &object, "enqueue", &[0, flags]);
        let case = format!("{flags} at {at:#x}");
        assert_eq!(result.is_err(), at == far || flags == 6, "{case}");
        assert_eq!(read::<u64>(&instance, "sum"), sum, "{case}");
        assert_eq!(read::<u64>(&instance, "alone"), alone, "{case}");
        assert_eq!(engine.stores.borrow().len(), asked, "{case}");
    }
    assert_eq!(elsewhere, [1000, 1000]);
}

/// A function that is called by its address may come back to its caller. Registers that a call does not keep would be lost.
#[test]
fn functions_that_are_recursive_by_an_address_keep_their_values() {
    let body = "
        u64 sum, at; volatile u64 a1, a2, a3, a4, a5;
        u64 each(u64 (*callback)(u64, u64), u64 n, u64 x); u64 step(u64 n, u64 x);
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            sum = each(step, enq_flags, at);
        }
        __noinline u64 each(u64 (*callback)(u64, u64), u64 n, u64 x) {
            u64 b1 = a1 + x, b2 = a2 * x, b3 = a3 ^ x, b4 = a4 - x, b5 = a5 | x;
            u64 r = n ? callback(n - 1, x) : 0;
            a1 = b1; a2 = b2; a3 = b3; a4 = b4; a5 = b5;
            return r + b1 * b2 + b3 * b4 + b5;
        }
        __noinline u64 step(u64 n, u64 x) {
            u64 c1 = a1 + n, c2 = a2 * n, c3 = a3 ^ n, c4 = a4 - n, c5 = a5 | n;
            u64 r = each(step, n, x + 1);
            a1 = c1; a2 = c2; a3 = c3; a4 = c4; a5 = c5;
            return r + c1 * c2 + c3 * c4 + c5;
        }";
    /// The same in Rust.
    fn each(a: &mut [u64; 5], n: u64, x: u64) -> u64 {
        let b = of(a, x);
        let r = if n > 0 { step(a, n - 1, x) } else { 0 };
        *a = b;
        sum(r, b)
    }
    fn step(a: &mut [u64; 5], n: u64, x: u64) -> u64 {
        let c = of(a, n);
        let r = each(a, n, x + 1);
        *a = c;
        sum(r, c)
    }
    fn of(a: &[u64; 5], x: u64) -> [u64; 5] {
        let [a1, a2, a3, a4, a5] = *a;
        [
            a1 + x,
            a2.wrapping_mul(x),
            a3 ^ x,
            a4.wrapping_sub(x),
            a5 | x,
        ]
    }
    fn sum(r: u64, [v1, v2, v3, v4, v5]: [u64; 5]) -> u64 {
        let products = v1.wrapping_mul(v2).wrapping_add(v3.wrapping_mul(v4));
        r.wrapping_add(products).wrapping_add(v5)
    }
    let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
    let object = build(&source);
    for n in [0, 1, 2, 5] {
        let names = ["a1", "a2", "a3", "a4", "a5", "at"];
        let values = names.iter().zip([3, 5, 7, 11, 13, 17]);
        let values: Vec<_> = values
            .map(|(name, value)| ((*name).to_owned(), Value::Int(value)))
            .collect();
        let engine = Engine::default();
        let instance = load(&object, &values, &engine);
        call(&instance, &object, "enqueue", &[0, n]).unwrap();
        assert_eq!(
            read::<u64>(&instance, "sum"),
            each(&mut [3, 5, 7, 11, 13], n, 17),
            "{n}"
        );
    }
}

/// Ways to call a function or to name things with which a check could go wrong: each store to somewhere is asked about.
#[test]
fn no_store_escapes_its_check() {
    for (what, body, asked) in [
        (
            "a function called as if it had other arguments",
            "struct pair { u64 first, second; }; struct pair pairs[4]; u64 at;
            u64 fill();
            void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
                fill((struct pair *)((void *)pairs + (at - (u64)pairs)), 1, 2);
            }
            __noinline u64 fill(struct pair *p, u64 v) {
                p->first = v; barrier(); p->second = v; return v + 7;
            }",
            2,
        ),
        (
            "a type whose name ends like that of bytes",
            "struct cpi8 { u64 v[1 << 20]; }; struct cpi8 many[2]; u64 at, sum;
            extern unsigned int CONFIG_NR_CPUS __kconfig;
            static __noinline u64 fill(struct cpi8 *p) {
                u64 n = CONFIG_NR_CPUS; p[n].v[0] = 1; barrier(); p->v[1] = 3; return n;
            }
            void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
                if (enq_flags) sum += fill(&many[at & 1]); else sum = fill(many);
            }",
            1,
        ),
        (
            "an iterator that is no local variable",
            "u64 at;
            void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
                bpf_iter_num_new((void *)at, 0, 5);
            }",
            1,
        ),
        (
            "the address of a probe",
            "u64 at; struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } tilt_probes SEC(\".maps\");
            void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
                *(void *volatile *)at = &tilt_probes;
            }",
            1,
        ),
        (
            "a kernel function with a flavour",
            "s32 scx_bpf_select_cpu_dfl___mine(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
            u64 at;
            void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
                scx_bpf_select_cpu_dfl___mine(p, 0, 0, (bool *)at);
            }",
            1,
        ),
    ] {
        let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
        let object = build(&source);
        let mut memory = [0u64; 16];
        let at = memory.as_mut_ptr() as i128;
        let engine = Engine::default();
        let instance = load(&object, &[("at".to_owned(), Value::Int(at))], &engine);
        // There may be no memory.
        let _ = call(&instance, &object, "enqueue", &[0, 0]);
        assert_eq!(engine.stores.borrow().len(), asked, "{what}");
    }
}

/// Names that C allows but Tiltyard might want for itself.
#[test]
fn any_name_builds() {
    for body in [
        "struct pair { u64 first, second; }; struct pair pairs[4]; u64 at;
        static __noinline void fill(struct pair *p, u64 v) {
            static u64 given, chosen; given += v; chosen ^= v; p->first = given; p->second = chosen;
        }
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            fill(&pairs[at & 3], enq_flags); fill(&pairs[1], at++);
        }",
        "struct pair { u64 first, second; }; struct pair pairs[4]; u64 at;
        static __noinline void f\u{fc}lle(struct pair *p, u64 v) { p->first = v * 3; p->second = v; }
        void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
            f\u{fc}lle(&pairs[at & 3], enq_flags); f\u{fc}lle(&pairs[1], at++);
        }",
    ] {
        let (_folder, source) = written(&scheduler(body, ".enqueue = (void *)test_enqueue,"));
        let object = build(&source);
        let engine = Engine::default();
        let instance = load(&object, &[], &engine);
        call(&instance, &object, "enqueue", &[0, 7]).unwrap();
    }
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
