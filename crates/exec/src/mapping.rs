// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory that a process and all that it forks see at the same place.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// # Safety
///
/// All bits 0 is a value; every change goes through atomics, so that several processes may make them.
pub unsafe trait Plain: Sync {}

// SAFETY: atomics, and 0 is one of their values.
unsafe impl Plain for AtomicU8 {}
// SAFETY: as above.
unsafe impl Plain for AtomicU32 {}
// SAFETY: as above.
unsafe impl Plain for AtomicU64 {}

/// An array in shared memory, zero at first. Pages that nobody touches cost nothing.
pub struct Shared<T: Plain> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: owns its mapping; the elements are Sync.
unsafe impl<T: Plain> Send for Shared<T> {}
// SAFETY: only hands out shared references.
unsafe impl<T: Plain> Sync for Shared<T> {}

impl<T: Plain> Shared<T> {
    pub fn new(len: usize) -> io::Result<Shared<T>> {
        let bytes = len.checked_mul(size_of::<T>());
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        if bytes == 0 {
            let start = NonNull::dangling();
            return Ok(Shared { start, len });
        }
        // SAFETY: a new mapping, wherever the kernel has room.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { start, len })
    }
}

impl<T: Plain> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` elements are mapped as long as self lives, pages are aligned, and 0 is a value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Plain> Drop for Shared<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            // SAFETY: the mapping made above, which no reference outlives.
            unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        }
    }
}
