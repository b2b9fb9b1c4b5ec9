// SPDX-License-Identifier: GPL-2.0-or-later
//! bpf_cpumask_*: thin bindings of `bpf::cpumask`.

use super::{EnginePtr, Entry, functions};
use crate::bpf::cpumask::BadReference;
use crate::engine::{Engine, RunError};
use tiltyard_native::layout::Cpumask;

pub(super) const FUNCTIONS: &[Entry] = functions![
    bpf_cpumask_create,
    bpf_cpumask_acquire,
    bpf_cpumask_release,
    bpf_cpumask_first,
    bpf_cpumask_first_zero,
    bpf_cpumask_first_and,
    bpf_cpumask_set_cpu,
    bpf_cpumask_clear_cpu,
    bpf_cpumask_test_cpu,
    bpf_cpumask_test_and_set_cpu,
    bpf_cpumask_test_and_clear_cpu,
    bpf_cpumask_setall,
    bpf_cpumask_clear,
    bpf_cpumask_and,
    bpf_cpumask_or,
    bpf_cpumask_xor,
    bpf_cpumask_equal,
    bpf_cpumask_intersects,
    bpf_cpumask_subset,
    bpf_cpumask_empty,
    bpf_cpumask_full,
    bpf_cpumask_copy,
    bpf_cpumask_any_distribute,
    bpf_cpumask_any_and_distribute,
    bpf_cpumask_weight,
    bpf_cpumask_populate,
];

type Mask = *mut Cpumask;

impl Engine<'_> {
    /// Whether the scheduler created this mask, so that it may change it; anything else ends the run.
    fn own_mask(&mut self, mask: Mask, call: &'static str) -> bool {
        let own = self.ext.bpf.masks.is_own(mask);
        if !own {
            self.bad_reference(BadReference { call });
        }
        own
    }

    fn bad_reference(&mut self, error: BadReference) {
        self.fail(RunError::Scheduler(error.to_string()));
    }
}

extern "C" fn bpf_cpumask_create(mut e: EnginePtr) -> Mask {
    e.engine_for_free().ext.bpf.masks.create()
}

extern "C" fn bpf_cpumask_acquire(mut e: EnginePtr, mask: Mask) -> Mask {
    let e = e.engine_for_free();
    e.ext.bpf.masks.acquire(mask).unwrap_or_else(|error| {
        e.bad_reference(error);
        mask
    })
}

extern "C" fn bpf_cpumask_release(mut e: EnginePtr, mask: Mask) {
    let e = e.engine_for_free();
    if let Err(error) = e.ext.bpf.masks.release(mask) {
        e.bad_reference(error);
    }
}

/// `kernel name(masks; cpu) -> result = method`: masks are pointers that the scheduler got from the engine.
macro_rules! bind {
    ($($name:ident($($mask:ident),+) = $method:ident;)*) => {
        $(unsafe extern "C" fn $name(mut e: EnginePtr, $($mask: Mask),+) -> u64 {
            let e = e.engine_for_free();
            // SAFETY: the scheduler's masks, as the module above describes its pointers.
            unsafe { e.ext.bpf.masks.$method($($mask),+) }.into_u64()
        })*
    };
}

/// The same for functions that change the first mask.
macro_rules! bind_change {
    ($($name:ident($first:ident $(, $mask:ident)*) = $method:ident;)*) => {
        $(unsafe extern "C" fn $name(mut e: EnginePtr, $first: Mask $(, $mask: Mask)*) -> u64 {
            let e = e.engine_for_free();
            if !e.own_mask($first, stringify!($name)) {
                return 0;
            }
            // SAFETY: the scheduler's masks, as the module above describes its pointers.
            unsafe { e.ext.bpf.masks.$method($first $(, $mask)*) }.into_u64()
        })*
    };
}

macro_rules! bind_cpu_change {
    ($($name:ident = $method:ident;)*) => {
        $(unsafe extern "C" fn $name(mut e: EnginePtr, cpu: u64, mask: Mask) -> u64 {
            let e = e.engine_for_free();
            if !e.own_mask(mask, stringify!($name)) {
                return 0;
            }
            // SAFETY: the scheduler's masks, as the module above describes its pointers.
            unsafe { e.ext.bpf.masks.$method(cpu as u32, mask) }.into_u64()
        })*
    };
}

macro_rules! bind_cpu {
    ($($name:ident = $method:ident;)*) => {
        $(unsafe extern "C" fn $name(mut e: EnginePtr, cpu: u64, mask: Mask) -> u64 {
            let e = e.engine_for_free();
            // SAFETY: the scheduler's masks, as the module above describes its pointers.
            unsafe { e.ext.bpf.masks.$method(cpu as u32, mask) }.into_u64()
        })*
    };
}

/// The value returned to the scheduler.
trait IntoU64 {
    fn into_u64(self) -> u64;
}
impl IntoU64 for bool {
    fn into_u64(self) -> u64 {
        u64::from(self)
    }
}
impl IntoU64 for u32 {
    fn into_u64(self) -> u64 {
        u64::from(self)
    }
}
impl IntoU64 for () {
    fn into_u64(self) -> u64 {
        0
    }
}

bind! {
    bpf_cpumask_first(mask) = first;
    bpf_cpumask_first_zero(mask) = first_zero;
    bpf_cpumask_first_and(a, b) = first_and;
    bpf_cpumask_equal(a, b) = equal;
    bpf_cpumask_intersects(a, b) = intersects;
    bpf_cpumask_subset(a, b) = subset;
    bpf_cpumask_empty(mask) = empty;
    bpf_cpumask_full(mask) = full;
    bpf_cpumask_weight(mask) = weight;
}

bind_cpu! {
    bpf_cpumask_test_cpu = test_cpu;
}

bind_change! {
    bpf_cpumask_setall(mask) = setall;
    bpf_cpumask_clear(mask) = clear;
    bpf_cpumask_and(dst, a, b) = and;
    bpf_cpumask_or(dst, a, b) = or;
    bpf_cpumask_xor(dst, a, b) = xor;
    bpf_cpumask_copy(dst, src) = copy;
}

bind_cpu_change! {
    bpf_cpumask_set_cpu = set_cpu;
    bpf_cpumask_clear_cpu = clear_cpu;
    bpf_cpumask_test_and_set_cpu = test_and_set_cpu;
    bpf_cpumask_test_and_clear_cpu = test_and_clear_cpu;
}

unsafe extern "C" fn bpf_cpumask_any_distribute(mut e: EnginePtr, mask: Mask) -> u64 {
    let e = e.engine_for_free();
    let rotor = &mut e.ext.idle.rotors[e.exec_cpu as usize];
    // SAFETY: the scheduler's masks, as the module above describes its pointers.
    u64::from(unsafe { e.ext.bpf.masks.any_distribute(rotor, mask) })
}

unsafe extern "C" fn bpf_cpumask_any_and_distribute(mut e: EnginePtr, a: Mask, b: Mask) -> u64 {
    let e = e.engine_for_free();
    let rotor = &mut e.ext.idle.rotors[e.exec_cpu as usize];
    // SAFETY: the scheduler's masks, as the module above describes its pointers.
    u64::from(unsafe { e.ext.bpf.masks.any_and_distribute(rotor, a, b) })
}

unsafe extern "C" fn bpf_cpumask_populate(
    mut e: EnginePtr,
    dst: Mask,
    src: *const u8,
    size: u64,
) -> i64 {
    let e = e.engine_for_free();
    if !e.own_mask(dst, "bpf_cpumask_populate") {
        return 0;
    }
    // SAFETY: the scheduler's own mask and buffer, as the module above describes its pointers.
    unsafe { e.ext.bpf.masks.populate(dst, src, size) }
}
