// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads: the rt-app JSON dialect, its one extension key, and what both mean.

pub mod program;

pub use program::*;
