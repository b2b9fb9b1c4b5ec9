// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's half alone: what this crate's tests boot. `tiltyard` holds the same entry as a
//! hidden subcommand.

fn main() {
    tiltyard_kernel::guest::main(|_| None);
}
