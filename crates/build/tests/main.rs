// SPDX-License-Identifier: GPL-2.0-or-later
//! Schedulers from source to object: what is built, refused and kept.

mod cache;
mod common;
mod crashes;
mod fifo;
mod kernel_schedulers;
#[path = "common/kernel_source.rs"]
mod kernel_source;
mod levels;
mod own_headers;
mod refusals;
#[path = "../../tiltyard/tests/sample/mod.rs"]
mod sample;
mod semantics;
