// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of system calls.

use std::io;

/// `result`, or the thread's error number if the call failed.
pub fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
