// SPDX-License-Identifier: GPL-2.0-or-later
//! Freed memory stays with the process: commands execute one run after another, and each needs as much as the last one.
//!
//! glibc gives the kernel back what is free at the end of a heap as soon as that is 128 KiB, so the kernel clears the same
//! pages again for each run.

/// Sets up glibc's malloc(); other allocators stay as they are.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    {
        /// Blocks of this size and more have mappings of their own, which end with them. The largest are tables of zeroes of
        /// which most pages are never touched: new mappings are zero, but reused memory would have to be cleared.
        const MAPPED_BYTES: libc::c_int = 1 << 20;
        // SAFETY: there are no other threads yet, and glibc allows both values.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}
