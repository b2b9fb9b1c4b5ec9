// SPDX-License-Identifier: GPL-2.0-or-later
//! The smallest scheduler, from its source to calls of its ops.

use crate::common::{Engine, build, call, load, shipped, task};
use tiltyard_native::Value;

#[test]
fn ops_run_and_call_the_kernel() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    assert_eq!(object.ops.name, "fifo");
    let ops: Vec<_> = object.ops.functions.keys().map(String::as_str).collect();
    assert_eq!(ops, ["dispatch", "enqueue", "exit", "init", "select_cpu"]);

    let engine = Engine {
        idle: true,
        ..Engine::default()
    };
    let instance = load(&object, &[], &engine);
    let p = task();
    let p = &raw const *p as u64;
    assert_eq!(
        call(&instance, &object, "init", &[]).map(|r| r as i32),
        Ok(0)
    );
    assert_eq!(
        call(&instance, &object, "select_cpu", &[p, 3, 8]).map(|r| r as i32),
        Ok(3)
    );
    call(&instance, &object, "enqueue", &[p, 0x409]).unwrap();
    call(&instance, &object, "dispatch", &[3, 0]).unwrap();
    let local = (1 << 63) | 2;
    assert_eq!(
        *engine.calls.borrow(),
        [
            ("create_dsq", [0, u64::MAX, 0, 0]),
            ("select_cpu_dfl", [p, 3, 8, 0]),
            ("dsq_insert", [p, local, 20_000_000, 0]),
            ("dsq_insert", [p, 0, 20_000_000, 0x409]),
            ("move_to_local", [0, 0, 0, 0]),
        ]
    );
}

#[test]
fn tunables_are_found_and_set() {
    let object = build(&shipped("schedulers/fifo/fifo.bpf.c"));
    assert_eq!(object.tunables["slice_ms"].default, Some(20));
    let engine = Engine::default();
    let slow = load(
        &object,
        &[("slice_ms".to_owned(), Value::Int(100))],
        &engine,
    );
    let fast = load(&object, &[("slice_ms".to_owned(), Value::Int(1))], &engine);
    call(&slow, &object, "enqueue", &[1, 0]).unwrap();
    call(&fast, &object, "enqueue", &[1, 0]).unwrap();
    let slices: Vec<_> = engine
        .calls
        .borrow()
        .iter()
        .map(|(_, args)| args[2])
        .collect();
    assert_eq!(slices, [100_000_000, 1_000_000]);
}
