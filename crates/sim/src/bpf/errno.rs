// SPDX-License-Identifier: GPL-2.0-or-later
//! Error numbers that helpers return, positive, as in `<errno.h>`; a helper returns `-ENOENT` and so on.

pub const ENOENT: i64 = 2;
pub const E2BIG: i64 = 7;
pub const EAGAIN: i64 = 11;
pub const EACCES: i64 = 13;
pub const EBUSY: i64 = 16;
pub const EEXIST: i64 = 17;
pub const EINVAL: i64 = 22;
pub const ENOSPC: i64 = 28;
pub const EDEADLK: i64 = 35;
