// SPDX-License-Identifier: GPL-2.0-or-later
//! Ids as types, so that a task can never be passed where a CPU is meant.

use std::fmt;

/// A task (thread) id. `Tid::IDLE` means "no task": the CPU's idle loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub u32);

impl Tid {
    /// The idle task of any CPU (pid 0, as in the kernel's traces).
    pub const IDLE: Tid = Tid(0);

    pub fn is_idle(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A logical CPU, numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub u32);

impl Cpu {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
