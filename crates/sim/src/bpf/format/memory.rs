// SPDX-License-Identifier: GPL-2.0-or-later
//! Strings and pointers that a scheduler passes.

use std::collections::BTreeMap;

/// No object is below this: NULL, and NULL plus the offset of a member. Linux maps nothing below
/// vm.mmap_min_addr, which is this by default.
const FIRST_ADDRESS: u64 = 65_536;

/// How a format's pointers are read.
pub trait Memory {
    /// At most `limit` bytes of the string at this address, without its NUL; `None` if there is
    /// nothing to read, which prints as an empty string.
    fn c_string(&mut self, address: u64, limit: usize) -> Option<Vec<u8>>;

    /// What a pointer prints as. A kernel prints a hash of its address, and NULL as 0.
    fn pointer_id(&mut self, address: u64) -> u64;
}

/// The process's own memory. Pointers print as 1, 2, 3... in the order in which they first appear,
/// so that the same run prints the same text.
#[derive(Debug, Default)]
pub struct HostMemory {
    ids: BTreeMap<u64, u64>,
}

impl HostMemory {
    /// # Safety
    /// Addresses that [`Memory::c_string`] gets are near NULL, or strings that end in a NUL or are
    /// readable for its limit; or a fault ends the call into the scheduler from which it was made.
    pub unsafe fn new() -> HostMemory {
        HostMemory::default()
    }
}

impl Memory for HostMemory {
    fn c_string(&mut self, address: u64, limit: usize) -> Option<Vec<u8>> {
        // SAFETY: the promise of `new`.
        unsafe { c_string(address as *const u8, limit) }.map(<[u8]>::to_vec)
    }

    fn pointer_id(&mut self, address: u64) -> u64 {
        let next = self.ids.len() as u64 + 1;
        if address == 0 {
            0
        } else {
            *self.ids.entry(address).or_insert(next)
        }
    }
}

/// The string at an address, without its NUL, cut after `limit` bytes; `None` near NULL.
///
/// # Safety
/// Elsewhere it ends in a NUL or is readable for `limit` bytes, and stays as it is for `'a`.
pub unsafe fn c_string<'a>(start: *const u8, limit: usize) -> Option<&'a [u8]> {
    if (start as u64) < FIRST_ADDRESS {
        return None;
    }
    // SAFETY: the caller's promise; no byte after the NUL is read.
    unsafe {
        let len = (0..limit)
            .find(|&i| start.add(i).read() == 0)
            .unwrap_or(limit);
        Some(std::slice::from_raw_parts(start, len))
    }
}
