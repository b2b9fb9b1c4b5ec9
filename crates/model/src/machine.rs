// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine: which CPUs share what, and what things cost on it.

/// Topology and cost profile. The same for every scheduler that runs on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub description: String,
    /// Indexed by CPU number.
    pub cpus: Vec<CpuPlace>,
    /// `node_distance[a][b]` as in the ACPI SLIT: 10 is local.
    pub node_distance: Vec<Vec<u32>>,
    pub caches: Caches,
    /// CONFIG_HZ of the kernel that runs there.
    pub tick_hz: u32,
    pub costs: Costs,
    pub noise: Option<Noise>,
}

/// Where a CPU sits. Each number names one core, cache, node or package of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPlace {
    pub core: u32,
    pub llc: u32,
    pub node: u32,
    pub package: u32,
    /// Speed against the fastest CPU, 1024 = full.
    pub capacity: u32,
}

/// Bytes of cache at each level that one CPU can use (0: there is none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    pub l1_bytes: u64,
    pub l2_bytes: u64,
    pub l3_bytes: u64,
}

/// What things cost. All zero is the ideal machine, on which only decisions take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A context switch between two tasks, caches apart.
    pub switch_ns: u64,
    /// The kernel's part of a wakeup, paid by the waker.
    pub wakeup_ns: u64,
    /// From sending an inter-processor interrupt to its handler on another CPU.
    pub ipi_ns: u64,
    /// A timer tick, callbacks apart.
    pub tick_ns: u64,
    /// Any callback of the scheduler, before it has done anything.
    pub callback_ns: u64,
    /// One instruction inside a callback, in picoseconds.
    pub insn_ps: u64,
    /// One kernel function called by a callback.
    pub kfunc_ns: u64,
    /// Looking at the state of another CPU of the same node.
    pub visit_near_ns: u64,
    /// The same of another node.
    pub visit_far_ns: u64,
    /// Refilling one cache line of 64 bytes from L2, L3, local memory, remote memory, in picoseconds.
    pub line_l2_ps: u64,
    pub line_l3_ps: u64,
    pub line_mem_ps: u64,
    pub line_far_ps: u64,
    /// Part of a refill that out-of-order execution and prefetching hide, in 1/1000.
    pub refill_overlap_permille: u64,
    /// Speed of each of two busy SMT siblings against one alone, in 1/1000.
    pub smt_permille: u64,
}

/// One pinned kernel thread per CPU that wakes up now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Mean of the exponentially distributed sleep.
    pub sleep_mean_ns: u64,
    /// Mean of the exponentially distributed burst.
    pub run_mean_ns: u64,
}

impl Machine {
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    pub fn nr_nodes(&self) -> usize {
        self.cpus.iter().map(|c| c.node as usize + 1).max().unwrap_or(1)
    }
}
