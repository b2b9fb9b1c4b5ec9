// SPDX-License-Identifier: GPL-2.0-or-later
//! Stores that leave the scheduler's own memory: a kernel's verifier allows them into three members of a task.

use super::{EnginePtr, Entry, functions, task_at};
use crate::engine::Engine;
use std::mem::{offset_of, size_of};
use tiltyard_native::layout::{SchedExtEntity, TaskStruct};

pub(super) const FUNCTIONS: &[Entry] = functions![tilt_store];

/// Members of `task_struct` that schedulers may write, `p->scx.slice` and so on: offset and size.
const WRITABLE: [(usize, u64); 3] = [
    (offset_of!(SchedExtEntity, slice), 8),
    (offset_of!(SchedExtEntity, dsq_vtime), 8),
    (
        offset_of!(SchedExtEntity, disallow),
        size_of::<bool>() as u64,
    ),
];

impl Engine<'_> {
    /// Whether a store goes into such a member of a task.
    ///
    /// # Safety
    /// As [`super::task_id`].
    unsafe fn may_store(&self, address: u64, bytes: u64) -> bool {
        WRITABLE.iter().any(|(offset, size)| {
            let member = offset_of!(TaskStruct, scx) + offset;
            let task = address.wrapping_sub(member as u64);
            // SAFETY: the caller's promise.
            bytes <= *size && unsafe { task_at(self, task) }.is_some()
        })
    }
}

/// The scheduler's code is about to write outside of its own memory.
unsafe extern "C" fn tilt_store(mut e: EnginePtr, address: u64, bytes: u64, access: u64) {
    let e = e.engine_for_free();
    // SAFETY: called from scheduler code; nothing here needs dropping.
    unsafe {
        e.ext.storing = Some((address, access as u32));
        if !e.may_store(address, bytes) {
            e.instance.refuse(address, access as u32);
        }
        e.ext.storing = None;
    }
}
