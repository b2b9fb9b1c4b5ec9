// SPDX-License-Identifier: GPL-2.0-or-later
//! The host's files in the guest, read-only: the far end of its virtio-fs device.
//!
//! It lives in Tiltyard itself, so there is nothing to install, to give rights to or to end. That
//! nothing in the guest can write to the host is plain to see: [`files`] has no operation that writes.

mod device;
mod files;
mod fuse;

pub use device::{QUEUE_SIZE, Share, TAG};
