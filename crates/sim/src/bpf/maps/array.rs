// SPDX-License-Identifier: GPL-2.0-or-later
//! ARRAY, PERCPU_ARRAY and the slots of ARRAY_OF_MAPS.

use super::region::{Region, VALUE_ALIGN};
use super::{BPF_EXIST, BPF_NOEXIST};
use crate::bpf::errno::{E2BIG, EEXIST, EINVAL};
use std::rc::Rc;
use tiltyard_native::Memory;

pub struct Array {
    values: Region,
    max_entries: u32,
    value_size: usize,
    /// From one value to the next.
    stride: usize,
    /// From one CPU's values to the next CPU's; 0 when all share them.
    cpu_stride: usize,
    copies: usize,
}

impl Array {
    /// `copies`: 1, or the number of CPUs for a per-CPU array. `None`: not enough memory.
    pub fn new(
        memory: &Rc<Memory>,
        value_size: u32,
        max_entries: u32,
        copies: usize,
    ) -> Option<Array> {
        let stride = (value_size as usize).next_multiple_of(VALUE_ALIGN);
        let bytes = stride.checked_mul(max_entries as usize)?;
        Some(Array {
            values: Region::zeroed(memory, bytes.checked_mul(copies)?)?,
            max_entries,
            value_size: value_size as usize,
            stride,
            cpu_stride: if copies > 1 { bytes } else { 0 },
            copies,
        })
    }

    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// Null out of range.
    #[inline]
    pub fn lookup(&self, index: u32, cpu: usize) -> *mut u8 {
        if index >= self.max_entries {
            return std::ptr::null_mut();
        }
        self.values
            .at(cpu * self.cpu_stride + index as usize * self.stride)
    }

    /// # Safety
    /// `value` is readable for the value size.
    pub unsafe fn update(&mut self, index: u32, value: *const u8, flags: u64, cpu: usize) -> i64 {
        if flags > BPF_EXIST {
            return -EINVAL;
        }
        if index >= self.max_entries {
            return -E2BIG;
        }
        if flags == BPF_NOEXIST {
            return -EEXIST;
        }
        // SAFETY: the caller's promise; `copy` because a value may be written over itself.
        unsafe { value.copy_to(self.lookup(index, cpu), self.value_size) };
        0
    }

    /// For a per-CPU array: the CPU whose values hold this address.
    pub fn copy_at(&self, address: usize) -> Option<usize> {
        self.values.offset_of(address)?.checked_div(self.cpu_stride)
    }

    /// Index and start of the value that holds this address.
    pub fn element_at(&self, address: usize) -> Option<(u32, *mut u8)> {
        let offset = self.values.offset_of(address)?;
        let bytes = self.stride * self.max_entries as usize;
        let index = offset % bytes / self.stride;
        (offset / bytes < self.copies)
            .then(|| (index as u32, self.values.at(offset - offset % self.stride)))
    }
}
