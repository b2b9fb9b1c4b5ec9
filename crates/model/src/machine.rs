// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine: which CPUs share what, and what things cost on it.
//!
//! There are four ways to describe one: a machine file ([`Machine::parse_toml`]), hwloc's synthetic
//! string ([`Machine::parse_hwloc_synthetic`]), hwloc's XML ([`Machine::parse_hwloc_xml`]), and the files of a running
//! kernel ([`Machine::parse_sysfs`]). Only the first carries costs and jitter; the others get [`Costs::REFERENCE`] and [`Jitter::REFERENCE`].

mod error;
mod file;
mod hwloc_xml;
mod synthetic;
mod sysfs;
mod topology;

pub use error::MachineError;
pub use sysfs::ReadFile;
use topology::Topology;

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
    /// Whether its kernel can be preempted inside of a system call (full and lazy preemption) or only at its end
    /// (voluntary, none).
    pub preemptible: bool,
    /// Whether its kernel's built-in choice of a CPU takes the wakee of a sync wakeup to the waker's CPU. From Linux 6.15
    /// on, it does not: the choice looks at the idle CPUs of the waker's node, which are kept for each node only under
    /// SCX_OPS_BUILTIN_IDLE_PER_NODE, and are otherwise none (commit 48849271e661; corrected in 7.0-rc6 by db08b1940f4b).
    pub sync_to_waker: bool,
    /// Whether a CPU that takes a lock waits while another one holds it.
    pub lock_waits: bool,
    /// Whether a task that takes a user-space mutex waits while another one holds it. If not, mutexes do nothing.
    pub mutex_waits: bool,
    pub costs: Costs,
    /// Threads of the kernel's own.
    pub noise: Vec<Noise>,
    pub jitter: Jitter,
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
    /// The same if a timer or a device wakes the task: paid by whatever runs where the interrupt arrives.
    pub timer_wakeup_ns: u64,
    /// From the time of a timer, or the end of a device's work, to that wakeup: paid likewise.
    pub timer_irq_ns: u64,
    /// From a task's system call that blocks it to the switch.
    pub block_ns: u64,
    /// Creating a task, its wakeup apart, paid by its parent.
    pub fork_ns: u64,
    /// The end of a task, up to its last switch.
    pub exit_ns: u64,
    /// From sending an inter-processor interrupt until its handler on another CPU is done.
    pub ipi_ns: u64,
    /// What leaving the idle state takes after a tick's period or more: the tick starts again, hardware wakes up.
    pub idle_exit_ns: u64,
    /// A timer tick, callbacks apart.
    pub tick_ns: u64,
    /// Any callback of the scheduler, before it has done anything.
    pub callback_ns: u64,
    /// One instruction inside a callback, in picoseconds.
    pub insn_ps: u64,
    /// One kernel function called by a callback.
    pub kfunc_ns: u64,
    /// A lookup in a map, instead of `kfunc_ns`; then those in arrays cost only their instructions, because the kernel
    /// puts them in line.
    pub map_lookup_ns: Option<u64>,
    /// A lookup of a task's or a cgroup's storage, instead of `kfunc_ns`.
    pub storage_lookup_ns: Option<u64>,
    /// Taking a BPF spin lock and giving it back.
    pub spin_lock_ns: u64,
    /// Finding a task by its pid and dropping the reference.
    pub task_lookup_ns: u64,
    /// The interrupt in which a CPU kicks others, or itself, for a callback; in addition to `kfunc_ns` of the calls.
    pub kick_ns: u64,
    /// A cache line from another core behind the same last-level cache; `visit_near_ns` if not given.
    pub visit_llc_ns: Option<u64>,
    /// A cache line from another core of the same node: the state of its runqueue, what it has written of the scheduler's data.
    pub visit_near_ns: u64,
    /// The same from another node.
    pub visit_far_ns: u64,
    /// Refilling one cache line of 64 bytes from L2, L3, local memory, remote memory, in picoseconds.
    pub line_l2_ps: u64,
    pub line_l3_ps: u64,
    pub line_mem_ps: u64,
    pub line_far_ps: u64,
    /// Part of a refill that out-of-order execution and prefetching hide, in 1/1000.
    pub refill_overlap_permille: u64,
    /// What the memory of one node delivers to all of its users together, in 10^6 bytes a second; without limit if not given.
    pub node_mb_per_s: Option<u64>,
    /// Speed of each of two busy SMT siblings against one alone, in 1/1000.
    pub smt_permille: u64,
}

/// A thread of the kernel's own, or one for each CPU, that wakes up now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noise {
    /// Without the number of a CPU: `kworker`.
    pub name: String,
    pub per: Per,
    /// Mean of the sleep: exponentially distributed, or constant for one that wakes after exits. It ends on the nearest tick.
    pub sleep_mean_ns: u64,
    /// Mean of the exponentially distributed burst.
    pub run_mean_ns: u64,
    /// If it wakes only after tasks have ended: how often for one that ends alone, in 1/1000. Exits share wakeups that are still
    /// to come.
    pub per_exit_permille: Option<u64>,
    /// -20 to 19. The kernel's own workers have 0, or -20 in pools of high priority.
    pub nice: i8,
}

/// Where there is a kernel thread of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Per {
    /// One on each CPU, pinned.
    #[default]
    Cpu,
    /// One, which may run anywhere.
    Machine,
}

impl Noise {
    /// A worker on each CPU.
    pub fn workers(sleep_mean_ns: u64, run_mean_ns: u64) -> Noise {
        Noise {
            name: Noise::WORKER.to_owned(),
            per: Per::Cpu,
            sleep_mean_ns,
            run_mean_ns,
            per_exit_permille: None,
            nice: 0,
        }
    }

    /// What the kernel calls its workers, and the name of a thread that has none.
    pub const WORKER: &str = "kworker";
    /// Longest name: what a task can have (TASK_COMM_LEN) with the number of a CPU behind it.
    pub const MAX_NAME_BYTES: usize = 15;
    /// Most wakeups for an exit.
    pub const MAX_PER_EXIT_PERMILLE: u64 = 100_000;
}

/// What differs between two runs of the same programs on the same hardware: a seed draws it. All zero: nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Programs start up to this much later than the workload says. If it is not 0, the tick grid's phase is drawn, too.
    pub start_span_ns: u64,
    /// Mean lateness of a timer interrupt, exponentially distributed: sleeps, ticks, timers of schedulers.
    pub timer_late_mean_ns: u64,
    /// A computation takes up to this part of its length more or less, in 1/1,000,000, uniformly distributed.
    pub work_spread_ppm: u64,
}

impl Jitter {
    /// That of a machine that names none, as in `machines/opteron1.toml`, where each number has its source. A test
    /// keeps them equal.
    pub const REFERENCE: Jitter = Jitter {
        start_span_ns: 30_000_000,
        timer_late_mean_ns: 1_200,
        work_spread_ppm: 3_000,
    };

    /// Longest start span: a minute.
    pub const MAX_START_SPAN_NS: u64 = 60_000_000_000;
    /// Largest mean lateness of a timer: a millisecond. Longer delays are not timer interrupts.
    pub const MAX_TIMER_LATE_NS: u64 = 1_000_000;
    /// Largest spread of a computation: half of it.
    pub const MAX_WORK_SPREAD_PPM: u64 = 500_000;

    pub const NONE: Jitter = Jitter {
        start_span_ns: 0,
        timer_late_mean_ns: 0,
        work_spread_ppm: 0,
    };
}

impl Costs {
    /// The cost profile of a machine that names none: one core of an Opteron 6172, as in
    /// `machines/opteron1.toml`, where each number has its source. A test keeps them equal, but for SMT, which that machine lacks.
    pub const REFERENCE: Costs = Costs {
        switch_ns: 2_000,
        wakeup_ns: 0,
        timer_wakeup_ns: 0,
        timer_irq_ns: 0,
        block_ns: 0,
        fork_ns: 0,
        exit_ns: 0,
        ipi_ns: 1_000,
        idle_exit_ns: 0,
        tick_ns: 1_000,
        callback_ns: 20,
        insn_ps: 476,
        kfunc_ns: 50,
        map_lookup_ns: None,
        storage_lookup_ns: None,
        spin_lock_ns: 0,
        task_lookup_ns: 0,
        kick_ns: 0,
        visit_llc_ns: None,
        visit_near_ns: 39,
        visit_far_ns: 95,
        line_l2_ps: 15_000,
        line_l3_ps: 30_000,
        line_mem_ps: 100_000,
        line_far_ps: 150_000,
        refill_overlap_permille: 870,
        node_mb_per_s: None,
        smt_permille: 530,
    };

    /// Sets the cost that machine files call `key`; false if they have no such key.
    pub fn set(&mut self, key: &str, value: u64) -> bool {
        let place = match key {
            "switch_ns" => &mut self.switch_ns,
            "wakeup_ns" => &mut self.wakeup_ns,
            "timer_wakeup_ns" => &mut self.timer_wakeup_ns,
            "timer_irq_ns" => &mut self.timer_irq_ns,
            "block_ns" => &mut self.block_ns,
            "fork_ns" => &mut self.fork_ns,
            "exit_ns" => &mut self.exit_ns,
            "ipi_ns" => &mut self.ipi_ns,
            "idle_exit_ns" => &mut self.idle_exit_ns,
            "tick_ns" => &mut self.tick_ns,
            "callback_ns" => &mut self.callback_ns,
            "insn_ps" => &mut self.insn_ps,
            "kfunc_ns" => &mut self.kfunc_ns,
            "map_lookup_ns" => self.map_lookup_ns.get_or_insert(value),
            "storage_lookup_ns" => self.storage_lookup_ns.get_or_insert(value),
            "spin_lock_ns" => &mut self.spin_lock_ns,
            "task_lookup_ns" => &mut self.task_lookup_ns,
            "kick_ns" => &mut self.kick_ns,
            "visit_llc_ns" => self.visit_llc_ns.get_or_insert(value),
            "visit_near_ns" => &mut self.visit_near_ns,
            "visit_far_ns" => &mut self.visit_far_ns,
            "line_l2_ps" => &mut self.line_l2_ps,
            "line_l3_ps" => &mut self.line_l3_ps,
            "line_mem_ps" => &mut self.line_mem_ps,
            "line_far_ps" => &mut self.line_far_ps,
            "refill_overlap_permille" => &mut self.refill_overlap_permille,
            "node_mb_per_s" => self.node_mb_per_s.get_or_insert(value),
            "smt_permille" => &mut self.smt_permille,
            _ => return false,
        };
        *place = value;
        true
    }
}

impl Machine {
    /// CONFIG_HZ of Debian's and Ubuntu's kernels, for machines that name none.
    pub const DEFAULT_TICK_HZ: u32 = 250;

    /// Most CPUs of a machine: eight times what Linux can be built for (NR_CPUS 8192).
    pub const MAX_CPUS: usize = 65_536;

    /// Most memory nodes: what Linux can be built for (NODES_SHIFT 10).
    pub const MAX_NODES: usize = 1024;

    /// A machine of this topology with everything else at its default: reference costs and jitter, no kernel threads.
    fn from_topology(name: &str, description: &str, topology: Topology) -> Machine {
        Machine {
            name: name.to_owned(),
            description: description.to_owned(),
            node_distance: topology.distances(),
            cpus: topology.cpus,
            caches: topology.caches,
            tick_hz: Machine::DEFAULT_TICK_HZ,
            preemptible: false,
            sync_to_waker: true,
            lock_waits: true,
            mutex_waits: true,
            costs: Costs::REFERENCE,
            noise: Vec::new(),
            jitter: Jitter::REFERENCE,
        }
    }

    /// Reads hwloc's synthetic description, `pack:2 [numa] l3:1 core:16 pu:2`, as `lstopo -i` takes it.
    pub fn parse_hwloc_synthetic(text: &str) -> Result<Machine, MachineError> {
        let topology = synthetic::parse(text)?;
        Ok(Machine::from_topology(
            text.trim(),
            "a synthetic topology",
            topology,
        ))
    }

    /// Reads hwloc's XML of version 2 or 3, as `lstopo FILE.xml` writes it. `file` names it in errors.
    pub fn parse_hwloc_xml(text: &str, file: &str) -> Result<Machine, MachineError> {
        let topology = hwloc_xml::parse(text, file)?;
        Ok(Machine::from_topology(
            file,
            "read from hwloc XML",
            topology,
        ))
    }

    /// Reads the topology of this machine from files below /sys/devices/system. `tick_hz` is CONFIG_HZ of its kernel, which
    /// these files do not show.
    pub fn parse_sysfs(read: ReadFile, tick_hz: u32) -> Result<Machine, MachineError> {
        let machine = Machine::from_topology("host", "the machine at hand", sysfs::parse(read)?);
        Ok(Machine { tick_hz, ..machine })
    }

    /// Reads a machine file. `file` names it in errors; docs/reference/machine-files.md has every key.
    pub fn parse_toml(text: &str, file: &str) -> Result<Machine, MachineError> {
        file::parse(text, file)
    }

    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    pub fn nr_nodes(&self) -> usize {
        self.cpus
            .iter()
            .map(|c| c.node as usize + 1)
            .max()
            .unwrap_or(1)
    }
}
