// SPDX-License-Identifier: GPL-2.0-or-later
//! Number vectors: functions of C code, called one at a time through `SEC("syscall")` programs of eight words, outside
//! of any machine.

use std::ffi::c_void;
use tiltyard_native::{EntryPoint, Instance, Object, Value};

/// Every CPU is in every mask.
extern "C" fn yes(_engine: *mut c_void) -> u64 {
    1
}

/// The element of any map: room for a lock.
extern "C" fn element(_engine: *mut c_void) -> *mut u64 {
    thread_local!(static ELEMENT: std::cell::UnsafeCell<u64> = const { std::cell::UnsafeCell::new(0) });
    ELEMENT.with(std::cell::UnsafeCell::get)
}

/// bpf_map_lookup_elem; all others do nothing.
fn helper(id: u32) -> Option<*const c_void> {
    Some(match id {
        1 => element as *const c_void,
        _ => nothing as *const c_void,
    })
}

extern "C" fn nothing(_engine: *mut c_void) -> u64 {
    0
}

fn kfunc(name: &str) -> Option<*const c_void> {
    Some(match name {
        "bpf_cpumask_test_cpu" => yes as *const c_void,
        _ => nothing as *const c_void,
    })
}

/// A copy of its own of an object, which calls stubs in place of a kernel: they do nothing and return 0.
pub fn load(object: &Object, globals: &[(String, Value)]) -> Instance {
    let mut instance = Instance::load(object, globals).expect("load");
    instance.bind(&kfunc, &helper).expect("bind");
    instance
}

/// Calls a program with up to eight words; returns its result and the words as it left them.
pub fn call(instance: &Instance, program: &str, words: &[i64]) -> (i64, [i64; 8]) {
    let entry = instance
        .symbol(program)
        .unwrap_or_else(|| panic!("no program {program}"));
    let mut args = [0u64; 8];
    for (arg, word) in args.iter_mut().zip(words) {
        *arg = *word as u64;
    }
    // SAFETY: programs take a pointer to eight words, and the stubs do not use the engine pointer.
    let result = unsafe {
        let entry = std::mem::transmute::<*mut u8, EntryPoint>(entry);
        instance.call(entry, &mut args).expect(program)
    };
    (result as i64, args.map(|word| word as i64))
}
