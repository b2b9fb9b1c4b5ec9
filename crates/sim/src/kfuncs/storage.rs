// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF helpers for maps, storage, ring buffers and timers.

use super::{EnginePtr, Helper, task_at, task_id};
use crate::bpf::maps::{BPF_LOCAL_STORAGE_GET_F_CREATE, Element, MapCursor, MapId};
use crate::clock::Alarm;
use crate::engine::{Engine, RunError};
use crate::ext::flags::EINVAL;
use std::ffi::c_void;
use std::ptr::null_mut;
use tiltyard_native::layout::Cgroup;
use tiltyard_native::object::MapKind;

pub(super) const HELPERS: &[Helper] = &[
    (1, || map_lookup as *const c_void),
    (2, || map_update as *const c_void),
    (3, || map_delete as *const c_void),
    (87, || map_push as *const c_void),
    (88, || map_pop as *const c_void),
    (89, || map_peek as *const c_void),
    (130, || ringbuf_output as *const c_void),
    (131, || ringbuf_reserve as *const c_void),
    (132, || ringbuf_submit as *const c_void),
    (133, || ringbuf_discard as *const c_void),
    (134, || ringbuf_query as *const c_void),
    (156, || task_storage_get as *const c_void),
    (157, || task_storage_delete as *const c_void),
    (164, || for_each_map_elem as *const c_void),
    (169, || timer_init as *const c_void),
    (170, || timer_set_callback as *const c_void),
    (171, || timer_start as *const c_void),
    (172, || timer_cancel as *const c_void),
    (195, || map_lookup_percpu as *const c_void),
    (210, || cgroup_storage_get as *const c_void),
    (211, || cgroup_storage_delete as *const c_void),
];

/// The map behind a map variable's address; anything else ends the run.
///
/// # Safety
/// `map` is an address that scheduler code passes as a map.
unsafe fn map_id(e: &mut Engine<'static>, map: *const u8) -> Option<MapId> {
    // SAFETY: the caller's promise.
    let id = unsafe { e.ext.bpf.maps.id_of(map) };
    if id.is_none() {
        no_map(e);
    }
    id
}

impl Engine<'_> {
    fn next_element(&self, map: MapId, cursor: &mut MapCursor) -> Option<Element> {
        let cpu = self.exec_cpu as usize;
        self.ext.bpf.maps.advance(map, cursor, cpu)
    }
}

#[cold]
fn no_map(e: &mut Engine<'static>) {
    e.fail(RunError::Scheduler(
        "a helper was called with something that is no map".into(),
    ));
}

impl Engine<'_> {
    fn charge_map_lookup(&mut self, map: MapId) {
        let kind = self.ext.bpf.maps.decl(map).kind;
        if matches!(kind, MapKind::Array | MapKind::PerCpuArray) {
            return self.charge_array_lookup();
        }
        let costs = &self.machine.costs;
        self.charge_call(costs.map_lookup_ns.unwrap_or(costs.kfunc_ns));
    }

    /// The kernel's compiler inlines it: it costs its instructions, unless the machine has one price for all calls.
    fn charge_array_lookup(&mut self) {
        let costs = &self.machine.costs;
        self.charge_call(match costs.map_lookup_ns {
            None => costs.kfunc_ns,
            Some(_) => 0,
        });
    }

    fn charge_storage_lookup(&mut self) {
        let costs = &self.machine.costs;
        self.charge_call(costs.storage_lookup_ns.unwrap_or(costs.kfunc_ns));
    }
}

unsafe extern "C" fn map_lookup(mut e: EnginePtr, map: *const u8, key: *const u8) -> *mut u8 {
    let e = e.engine_for_free();
    let cpu = e.exec_cpu as usize;
    // SAFETY: the scheduler's pointers, as the module above describes them.
    match unsafe { e.ext.bpf.maps.array_value(map, key, cpu) } {
        Some(value) => {
            e.charge_array_lookup();
            value
        }
        // SAFETY: the same.
        None => unsafe { map_lookup_elsewhere(e, map, key) },
    }
}

/// In a map that is not an array. A function of its own, so that look-ups in arrays save no registers.
#[inline(never)]
unsafe fn map_lookup_elsewhere(e: &mut Engine<'static>, map: *const u8, key: *const u8) -> *mut u8 {
    let cpu = e.exec_cpu as usize;
    // SAFETY: the scheduler's pointers, as the module above describes them.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return null_mut();
    };
    e.charge_map_lookup(id);
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { e.ext.bpf.maps.lookup(id, key, cpu) }
}

unsafe extern "C" fn map_lookup_percpu(
    mut e: EnginePtr,
    map: *const u8,
    key: *const u8,
    cpu: u64,
) -> *mut u8 {
    let e = e.engine_for_free();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return null_mut();
    };
    e.charge_map_lookup(id);
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { e.ext.bpf.maps.lookup_percpu(id, key, cpu as u32) }
}

unsafe extern "C" fn map_update(
    mut e: EnginePtr,
    map: *const u8,
    key: *const u8,
    value: *const u8,
    flags: u64,
) -> i64 {
    let e = e.engine();
    let cpu = e.exec_cpu as usize;
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return EINVAL;
    };
    // SAFETY: the same for key and value.
    let result = unsafe { e.ext.bpf.maps.update(id, key, value, flags, cpu) };
    if e.races.is_some() && result == 0 {
        // SAFETY: the key that the update has read.
        unsafe { e.check_update(id, key) };
    }
    result
}

unsafe extern "C" fn map_delete(mut e: EnginePtr, map: *const u8, key: *const u8) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { map_id(e, map).map_or(EINVAL, |id| e.ext.bpf.maps.delete(id, key)) }
}

unsafe extern "C" fn map_push(
    mut e: EnginePtr,
    map: *const u8,
    value: *const u8,
    flags: u64,
) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { map_id(e, map).map_or(EINVAL, |id| e.ext.bpf.maps.push_elem(id, value, flags)) }
}

unsafe extern "C" fn map_pop(mut e: EnginePtr, map: *const u8, value: *mut u8) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { map_id(e, map).map_or(EINVAL, |id| e.ext.bpf.maps.pop_elem(id, value)) }
}

unsafe extern "C" fn map_peek(mut e: EnginePtr, map: *const u8, value: *mut u8) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { map_id(e, map).map_or(EINVAL, |id| e.ext.bpf.maps.peek_elem(id, value)) }
}

unsafe extern "C" fn task_storage_get(
    mut e: EnginePtr,
    map: *const u8,
    task: u64,
    value: *const u8,
    flags: u64,
) -> *mut u8 {
    let e = e.engine_for_free();
    e.charge_storage_lookup();
    if task != 0 && flags <= BPF_LOCAL_STORAGE_GET_F_CREATE {
        // SAFETY: the scheduler's pointers, as the module above describes them.
        let known =
            unsafe { task_at(e, task).and_then(|task| e.ext.bpf.maps.known_of_task(map, task.0)) };
        if let Some(value) = known {
            return value;
        }
    }
    // SAFETY: the same.
    unsafe { task_storage_elsewhere(e, map, task, value, flags) }
}

/// Of a task that has no value there yet. A function of its own, so that look-ups of known values save no registers.
#[inline(never)]
unsafe fn task_storage_elsewhere(
    e: &mut Engine<'static>,
    map: *const u8,
    task: u64,
    value: *const u8,
    flags: u64,
) -> *mut u8 {
    // SAFETY: the scheduler's pointers, as the module above describes them.
    let (Some(id), Some(task)) = (unsafe { (map_id(e, map), task_id(e, task)) }) else {
        return null_mut();
    };
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe { e.ext.bpf.maps.task_storage(id, task.0, value, flags) }
}

unsafe extern "C" fn task_storage_delete(mut e: EnginePtr, map: *const u8, task: u64) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    let (Some(id), Some(task)) = (unsafe { (map_id(e, map), task_id(e, task)) }) else {
        return EINVAL;
    };
    e.ext.bpf.maps.task_storage_delete(id, task.0)
}

unsafe extern "C" fn cgroup_storage_get(
    mut e: EnginePtr,
    map: *const u8,
    cgroup: *const Cgroup,
    value: *const u8,
    flags: u64,
) -> *mut u8 {
    let e = e.engine_for_free();
    e.charge_storage_lookup();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let (Some(id), Some(group)) = (unsafe { map_id(e, map) }, e.cgroups.find(cgroup)) else {
        return null_mut();
    };
    // SAFETY: the same for the value.
    unsafe { e.ext.bpf.maps.cgroup_storage(id, group, value, flags) }
}

unsafe extern "C" fn cgroup_storage_delete(
    mut e: EnginePtr,
    map: *const u8,
    cgroup: *const Cgroup,
) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let (Some(id), Some(group)) = (unsafe { map_id(e, map) }, e.cgroups.find(cgroup)) else {
        return EINVAL;
    };
    e.ext.bpf.maps.cgroup_storage_delete(id, group)
}

unsafe extern "C" fn ringbuf_output(
    mut e: EnginePtr,
    map: *const u8,
    data: *const u8,
    size: u64,
    flags: u64,
) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointers, as the module above describes them.
    unsafe {
        map_id(e, map).map_or(EINVAL, |id| {
            e.ext.bpf.maps.ringbuf_output(id, data, size, flags)
        })
    }
}

unsafe extern "C" fn ringbuf_reserve(
    mut e: EnginePtr,
    map: *const u8,
    size: u64,
    flags: u64,
) -> *mut u8 {
    let e = e.engine();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return null_mut();
    };
    e.ext.bpf.maps.ringbuf_reserve(id, size, flags)
}

fn ringbuf_commit(e: &mut Engine<'static>, record: *mut u8, discard: bool) {
    if !e.ext.bpf.maps.ringbuf_commit(record, discard) {
        e.fail(RunError::Scheduler(
            "a ring buffer record was submitted that was never reserved".into(),
        ));
    }
}

extern "C" fn ringbuf_submit(mut e: EnginePtr, record: *mut u8, _flags: u64) {
    ringbuf_commit(e.engine(), record, false);
}

extern "C" fn ringbuf_discard(mut e: EnginePtr, record: *mut u8, _flags: u64) {
    ringbuf_commit(e.engine(), record, true);
}

unsafe extern "C" fn ringbuf_query(mut e: EnginePtr, map: *const u8, what: u64) -> u64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return 0;
    };
    e.ext.bpf.maps.ringbuf_query(id, what)
}

/// callback(map, key, value, ctx) for each element; returns how many were visited.
unsafe extern "C" fn for_each_map_elem(
    mut e: EnginePtr,
    map: *const u8,
    callback: u64,
    arg: u64,
    flags: u64,
) -> i64 {
    type Callback = unsafe extern "C" fn(u64, u64, u64, u64) -> u64;
    let engine = e.engine();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let Some(id) = (unsafe { map_id(engine, map) }) else {
        return EINVAL;
    };
    let Some(mut cursor) = engine.ext.bpf.maps.cursor(id) else {
        return EINVAL;
    };
    if flags != 0 {
        return EINVAL;
    }
    // SAFETY: a callback of the scheduler's, inside the call that the engine made.
    let callback = unsafe { std::mem::transmute::<u64, Callback>(callback) };
    let mut visited = 0;
    // The callback's own calls borrow the engine, too: here it is borrowed only between them.
    while let Some(element) = e.engine_for_free().next_element(id, &mut cursor) {
        visited += 1;
        // SAFETY: as above; the element stays where it is until the outermost callback has returned.
        if unsafe {
            callback(
                map as u64,
                element.key.as_ptr() as u64,
                element.value as u64,
                arg,
            )
        } & 1
            != 0
        {
            break;
        }
    }
    visited
}

unsafe extern "C" fn timer_init(mut e: EnginePtr, timer: u64, map: *const u8, flags: u64) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's pointer, as the module above describes it.
    let Some(id) = (unsafe { map_id(e, map) }) else {
        return EINVAL;
    };
    e.pass_timer(timer as usize);
    e.ext.bpf.timers.init(timer as usize, id, flags)
}

extern "C" fn timer_set_callback(mut e: EnginePtr, timer: u64, callback: u64) -> i64 {
    let e = e.engine();
    e.pass_timer(timer as usize);
    let timers = &mut e.ext.bpf.timers;
    timers.set_callback(timer as usize, callback as usize)
}

extern "C" fn timer_start(mut e: EnginePtr, timer: u64, nsecs: u64, flags: u64) -> i64 {
    let e = e.engine();
    e.pass_timer(timer as usize);
    match e.ext.bpf.timers.start(timer as usize, e.now, nsecs, flags) {
        Ok(armed) => {
            let late_ns = e.bpf_timers_late.draw_ns();
            e.clock.arm(
                armed.expires_ns.saturating_add(late_ns),
                Alarm::BpfTimer {
                    timer: armed.arming.timer,
                    number: armed.arming.number,
                    cpu: e.exec_cpu as u16,
                },
            );
            0
        }
        Err(error) => error,
    }
}

extern "C" fn timer_cancel(mut e: EnginePtr, timer: u64) -> i64 {
    let e = e.engine();
    e.pass_timer(timer as usize);
    e.timer_cancelled(timer as usize);
    e.ext.bpf.timers.cancel(timer as usize)
}
