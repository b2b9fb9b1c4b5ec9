// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that a scheduler may write besides its own variables: one range of addresses for each instance, so that a
//! store is checked by one comparison, and nothing of the host's heap lies in between.

use std::cell::Cell;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

/// Addresses to reserve: more than any machine has memory; they cost nothing until they are used.
const RESERVED_BYTES: usize = 64 << 30;
/// Where addresses are limited (`ulimit -v`), less is tried, down to this.
const LEAST_BYTES: usize = 64 << 20;
/// Made usable at once: a system call for every so many bytes.
const STEP_BYTES: usize = 1 << 20;
/// Between two blocks, so that no two share a cache line.
const ALIGN_BYTES: usize = 64;

/// Blocks are given out one behind the other and live as long as this.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    reserved_bytes: usize,
    used_bytes: Cell<usize>,
    usable_bytes: Cell<usize>,
}

impl Memory {
    /// `None` where the host gives no addresses.
    pub fn reserve() -> Option<Memory> {
        let mut bytes = RESERVED_BYTES;
        while bytes >= LEAST_BYTES {
            // SAFETY: a new mapping that nobody can use yet.
            let start = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
            };
            if start != libc::MAP_FAILED {
                return Some(Memory {
                    start: NonNull::new(start.cast())?,
                    reserved_bytes: bytes,
                    used_bytes: Cell::new(0),
                    usable_bytes: Cell::new(0),
                });
            }
            bytes /= 2;
        }
        None
    }

    /// A block of zeroes; `None` when there is no more.
    pub fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let offset = self.used_bytes.get();
        let end = offset
            .checked_add(bytes.max(1))?
            .checked_next_multiple_of(ALIGN_BYTES)?;
        if end > self.reserved_bytes {
            return None;
        }
        if end > self.usable_bytes.get() {
            let usable = end.next_multiple_of(STEP_BYTES).min(self.reserved_bytes);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: inside our own mapping.
            let failed = unsafe { libc::mprotect(self.start.as_ptr().cast(), usable, access) };
            if failed != 0 {
                return None;
            }
            self.usable_bytes.set(usable);
        }
        self.used_bytes.set(end);
        // SAFETY: inside the mapping, as checked.
        Some(unsafe { self.start.add(offset) })
    }

    /// All addresses that it has, used or not; those that are not used fault.
    pub fn range(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.reserved_bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping; blocks live no longer than this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_apart_and_inside() {
        let memory = Memory::reserve().unwrap();
        let blocks: Vec<NonNull<u8>> = (0..3).map(|_| memory.take(1 << 20).unwrap()).collect();
        for block in &blocks {
            // SAFETY: a block of this size.
            assert_eq!(unsafe { block.add((1 << 20) - 1).read() }, 0);
            assert!(memory.range().contains(&(block.as_ptr() as usize)));
        }
        assert!(blocks[1].as_ptr() as usize >= blocks[0].as_ptr() as usize + (1 << 20));
        assert!(memory.take(usize::MAX - 100).is_none());
    }
}
