// SPDX-License-Identifier: GPL-2.0-or-later
//! TASK_STORAGE and CGRP_STORAGE: at most one value for each owner, found by the owner's index.

use super::region::{Slab, VALUE_ALIGN};
use crate::bpf::errno::ENOENT;
use std::ops::Range;

/// The one flag of bpf_task_storage_get and bpf_cgrp_storage_get.
pub const BPF_LOCAL_STORAGE_GET_F_CREATE: u64 = 1;

const NONE: u32 = u32::MAX;

pub struct Storage {
    values: Slab,
    value_size: usize,
    /// Owner's index to slot.
    slots: Vec<u32>,
}

impl Storage {
    pub fn new(value_size: u32) -> Storage {
        let value_size = value_size as usize;
        let values = Slab::new(value_size.next_multiple_of(VALUE_ALIGN));
        Storage {
            values,
            value_size,
            slots: Vec::new(),
        }
    }

    /// The owner's value. If it has none: null, or with the create flag a new one, from `initial`
    /// (null: zeroes).
    ///
    /// # Safety
    /// `initial` is null or readable for the value size.
    #[inline]
    pub unsafe fn get(&mut self, owner: u32, initial: *const u8, flags: u64) -> *mut u8 {
        if flags > BPF_LOCAL_STORAGE_GET_F_CREATE {
            return std::ptr::null_mut();
        }
        match self.slots.get(owner as usize) {
            Some(&slot) if slot != NONE => self.values.at(slot),
            _ if flags == 0 => std::ptr::null_mut(),
            // SAFETY: the caller's promise.
            _ => unsafe { self.create(owner, initial) },
        }
    }

    #[cold]
    unsafe fn create(&mut self, owner: u32, initial: *const u8) -> *mut u8 {
        let slot = self.values.take();
        if self.slots.len() <= owner as usize {
            self.slots.resize(owner as usize + 1, NONE);
        }
        self.slots[owner as usize] = slot;
        let value = self.values.at(slot);
        if !initial.is_null() {
            // SAFETY: the caller's promise of `get`.
            unsafe { initial.copy_to(value, self.value_size) };
        }
        value
    }

    pub fn delete(&mut self, owner: u32) -> i64 {
        match self.slots.get_mut(owner as usize) {
            Some(slot) if *slot != NONE => {
                self.values.retire(std::mem::replace(slot, NONE));
                0
            }
            _ => -ENOENT,
        }
    }

    pub fn reclaim(&mut self, freed: &mut dyn FnMut(Range<usize>)) {
        self.values.reclaim(freed);
    }
}
