// SPDX-License-Identifier: GPL-2.0-or-later
//! Freed memory stays with the process: commands execute run after run, and each needs about as much as the last.
//!
//! By default, glibc returns the free end of a heap to the kernel from 128 KiB on, so the kernel clears the same pages again
//! for each run.

/// Sets up glibc's malloc(); other allocators stay as they are.
pub fn keep() {
    #[cfg(target_env = "gnu")]
    {
        /// Blocks of this size or larger get their own mappings, which are unmapped on free. The largest are zeroed tables
        /// whose pages are mostly never touched: new mappings are zero; reused memory would have to be cleared.
        const MAPPED_BYTES: libc::c_int = 1 << 20;
        // SAFETY: there are no other threads yet, and glibc allows both values.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        }
    }
}
