// SPDX-License-Identifier: GPL-2.0-or-later
//! QUEUE (first in, first out) and STACK (last in, first out): the same ring, read from either end.

use super::region::Region;
use super::{BPF_EXIST, BPF_NOEXIST};
use crate::bpf::errno::{E2BIG, EINVAL, ENOENT};
use std::rc::Rc;
use tiltyard_native::Memory;

pub struct Queue {
    values: Region,
    value_size: usize,
    capacity: usize,
    /// Place of the oldest value.
    oldest: usize,
    len: usize,
    lifo: bool,
}

impl Queue {
    pub fn new(
        memory: &Rc<Memory>,
        value_size: u32,
        max_entries: u32,
        lifo: bool,
    ) -> Option<Queue> {
        let (value_size, capacity) = (value_size as usize, max_entries as usize);
        let values = Region::zeroed(memory, value_size.checked_mul(capacity)?)?;
        Some(Queue {
            values,
            value_size,
            capacity,
            oldest: 0,
            len: 0,
            lifo,
        })
    }

    fn place(&self, nth: usize) -> *mut u8 {
        let at = self.oldest + nth;
        let at = if at >= self.capacity {
            at - self.capacity
        } else {
            at
        };
        self.values.at(at * self.value_size)
    }

    fn drop_oldest(&mut self) {
        self.oldest = if self.oldest + 1 == self.capacity {
            0
        } else {
            self.oldest + 1
        };
        self.len -= 1;
    }

    /// With BPF_EXIST a full one makes room by dropping its oldest value.
    ///
    /// # Safety
    /// `value` is readable for the value size.
    pub unsafe fn push(&mut self, value: *const u8, flags: u64) -> i64 {
        if flags & BPF_NOEXIST != 0 || flags > BPF_EXIST {
            return -EINVAL;
        }
        if self.len == self.capacity {
            if flags != BPF_EXIST {
                return -E2BIG;
            }
            self.drop_oldest();
        }
        // SAFETY: the caller's promise; the place is one value inside the ring.
        unsafe { value.copy_to(self.place(self.len), self.value_size) };
        self.len += 1;
        0
    }

    /// Copies the next value out; `value` is zeroed when there is none.
    ///
    /// # Safety
    /// `value` is writable for the value size.
    pub unsafe fn peek(&self, value: *mut u8) -> i64 {
        if self.len == 0 {
            // SAFETY: the caller's promise.
            unsafe { value.write_bytes(0, self.value_size) };
            return -ENOENT;
        }
        let next = self.place(if self.lifo { self.len - 1 } else { 0 });
        // SAFETY: the caller's promise; `next` is one value inside the ring.
        unsafe { next.copy_to(value, self.value_size) };
        0
    }

    /// # Safety
    /// As [`Queue::peek`].
    pub unsafe fn pop(&mut self, value: *mut u8) -> i64 {
        // SAFETY: the caller's promise.
        let result = unsafe { self.peek(value) };
        match result {
            0 if self.lifo => self.len -= 1,
            0 => self.drop_oldest(),
            _ => {}
        }
        result
    }
}
