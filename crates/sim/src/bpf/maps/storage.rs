// SPDX-License-Identifier: GPL-2.0-or-later
//! TASK_STORAGE and CGRP_STORAGE: at most one value for each owner, found by the owner's index.

use super::region::{Slab, VALUE_ALIGN};
use super::{MapId, MapSet, Store};
use crate::bpf::errno::{EINVAL, ENOENT};
use std::ops::Range;
use std::ptr::null_mut;
use std::rc::Rc;
use tiltyard_native::Memory;

/// The one flag of bpf_task_storage_get and bpf_cgrp_storage_get.
pub const BPF_LOCAL_STORAGE_GET_F_CREATE: u64 = 1;

pub struct Storage {
    values: Slab,
    value_size: usize,
    /// By the owner's index.
    places: Vec<StoredValue>,
}

/// Where an owner's value is; a null pointer if it has none.
#[derive(Clone, Copy)]
struct StoredValue {
    value: *mut u8,
    slot: u32,
}

impl StoredValue {
    const NONE: StoredValue = StoredValue {
        value: null_mut(),
        slot: 0,
    };
}

impl Storage {
    pub fn new(memory: &Rc<Memory>, value_size: u32) -> Storage {
        let value_size = value_size as usize;
        let values = Slab::new(memory, value_size.next_multiple_of(VALUE_ALIGN));
        Storage {
            values,
            value_size,
            places: Vec::new(),
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
            return null_mut();
        }
        match self.known(owner) {
            Some(value) => value,
            None if flags == 0 => null_mut(),
            // SAFETY: the caller's promise.
            None => unsafe { self.create(owner, initial) },
        }
    }

    /// The owner's value, if it has one.
    #[inline(always)]
    fn known(&self, owner: u32) -> Option<*mut u8> {
        let place = self.places.get(owner as usize)?;
        (!place.value.is_null()).then_some(place.value)
    }

    #[cold]
    unsafe fn create(&mut self, owner: u32, initial: *const u8) -> *mut u8 {
        let slot = self.values.take();
        let value = self.values.at(slot);
        if self.places.len() <= owner as usize {
            self.places.resize(owner as usize + 1, StoredValue::NONE);
        }
        self.places[owner as usize] = StoredValue { value, slot };
        if !initial.is_null() {
            // SAFETY: the caller's promise of `get`.
            unsafe { initial.copy_to(value, self.value_size) };
        }
        value
    }

    pub fn delete(&mut self, owner: u32) -> i64 {
        match self.places.get_mut(owner as usize) {
            Some(place) if !place.value.is_null() => {
                self.values.retire(place.slot);
                *place = StoredValue::NONE;
                0
            }
            _ => -ENOENT,
        }
    }

    /// Owner and start of the value that holds this address.
    pub fn owner_at(&self, address: usize) -> Option<(u32, *mut u8)> {
        let slot = self.values.slot_at(address)?;
        let is_its = |place: &StoredValue| !place.value.is_null() && place.slot == slot;
        let owner = self.places.iter().position(is_its)?;
        Some((owner as u32, self.values.at(slot)))
    }

    pub fn reclaim(&mut self, freed: &mut dyn FnMut(Range<usize>)) {
        self.values.reclaim(freed);
    }
}

/// The helpers.
impl MapSet {
    /// The value that a task has in the map whose variable this is; `None` if it has none.
    ///
    /// # Safety
    /// As [`MapSet::id_of`].
    #[inline(always)]
    pub unsafe fn known_of_task(&self, variable: *const u8, task: u32) -> Option<*mut u8> {
        // SAFETY: the caller's promise.
        let id = unsafe { self.id_of(variable) }?;
        match &self.maps[id.0 as usize].store {
            Store::TaskStorage(storage) => storage.known(task),
            _ => None,
        }
    }

    /// bpf_task_storage_get: the value of the task with this index, or null. Flag
    /// BPF_LOCAL_STORAGE_GET_F_CREATE creates one from `initial` (null: zeroes).
    ///
    /// # Safety
    /// `initial` is null or readable for the value size.
    #[inline]
    pub unsafe fn task_storage(
        &mut self,
        map: MapId,
        task: u32,
        initial: *const u8,
        flags: u64,
    ) -> *mut u8 {
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::TaskStorage(storage) => unsafe { storage.get(task, initial, flags) },
            _ => self.misused(map, "bpf_task_storage_get", null_mut()),
        }
    }

    /// bpf_cgrp_storage_get: the same for the cgroup with this index.
    ///
    /// # Safety
    /// As [`MapSet::task_storage`].
    #[inline]
    pub unsafe fn cgroup_storage(
        &mut self,
        map: MapId,
        cgroup: u32,
        initial: *const u8,
        flags: u64,
    ) -> *mut u8 {
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::CgroupStorage(storage) => unsafe { storage.get(cgroup, initial, flags) },
            _ => self.misused(map, "bpf_cgrp_storage_get", null_mut()),
        }
    }

    /// bpf_task_storage_delete: 0 or -ENOENT.
    pub fn task_storage_delete(&mut self, map: MapId, task: u32) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            Store::TaskStorage(storage) => {
                let result = storage.delete(task);
                self.mark_dirty(map);
                result
            }
            _ => self.misused(map, "bpf_task_storage_delete", -EINVAL),
        }
    }

    /// bpf_cgrp_storage_delete: 0 or -ENOENT.
    pub fn cgroup_storage_delete(&mut self, map: MapId, cgroup: u32) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            Store::CgroupStorage(storage) => {
                let result = storage.delete(cgroup);
                self.mark_dirty(map);
                result
            }
            _ => self.misused(map, "bpf_cgrp_storage_delete", -EINVAL),
        }
    }

    /// The task with this index is freed, and so are its values in all maps.
    pub fn forget_task(&mut self, task: u32) {
        self.forget(|store| match store {
            Store::TaskStorage(storage) => storage.delete(task) == 0,
            _ => false,
        });
    }

    fn forget(&mut self, mut delete: impl FnMut(&mut Store) -> bool) {
        for i in 0..self.maps.len() {
            if delete(&mut self.maps[i].store) {
                self.mark_dirty(MapId(i as u32));
            }
        }
    }
}
