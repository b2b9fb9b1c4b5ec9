// SPDX-License-Identifier: GPL-2.0-or-later
//! Number vectors: a scheduler's own functions, called one at a time through its tests/vectors.bpf.c.

use super::common::{Engine, helper, kfunc};
use std::ffi::c_void;
use tiltyard_native::{EntryPoint, Instance, Object, Value};

/// Every CPU is in every mask.
extern "C" fn yes(_: u64) -> u64 {
    1
}

/// The element of any map: room for a lock.
extern "C" fn element(_: u64) -> *mut u64 {
    thread_local!(static ELEMENT: std::cell::UnsafeCell<u64> = const { std::cell::UnsafeCell::new(0) });
    ELEMENT.with(std::cell::UnsafeCell::get)
}

/// map_lookup_elem, spin_lock, spin_unlock: nobody else is there.
fn own_helper(id: u32) -> Option<*const c_void> {
    match id {
        1 => Some(element as *const c_void),
        93 | 94 => Some(yes as *const c_void),
        _ => helper(id),
    }
}

fn stub(name: &str) -> Option<*const c_void> {
    match name {
        "bpf_cpumask_test_cpu" => Some(yes as *const c_void),
        _ => kfunc(name),
    }
}

/// A scheduler of its own, with nothing behind it but the stubs.
pub fn load(object: &Object, globals: &[(String, Value)]) -> Instance {
    let mut instance = Instance::load(object, globals).expect("load");
    instance.bind(&stub, &own_helper).expect("bind");
    let engine = Box::leak(Box::new(Engine::default()));
    instance.set_engine(std::ptr::from_ref(engine) as *mut c_void);
    instance
}

/// Calls a program of vectors.bpf.c with up to eight words; gives back its result and the words as it left them.
pub fn call(instance: &Instance, program: &str, words: &[i64]) -> (i64, [i64; 8]) {
    let entry = instance
        .symbol(program)
        .unwrap_or_else(|| panic!("no program {program}"));
    let mut args = [0u64; 8];
    for (arg, word) in args.iter_mut().zip(words) {
        *arg = *word as u64;
    }
    // SAFETY: the programs of vectors.bpf.c take eight words.
    let result = unsafe {
        let entry = std::mem::transmute::<*mut u8, EntryPoint>(entry);
        instance.call(entry, &mut args).expect(program)
    };
    (result as i64, args.map(|word| word as i64))
}
