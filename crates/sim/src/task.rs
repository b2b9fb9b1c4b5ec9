// SPDX-License-Identifier: GPL-2.0-or-later
//! A task of the simulated machine.

use crate::blocks::Blocks;
use crate::bpf::cpumask::CpuSet;
use crate::bpf::rng::Pcg;
use crate::ext::flags::*;
use crate::jitter::TaskJitter;
use crate::program::Cursor;
use std::ffi::c_char;
use std::ptr;
use std::rc::Rc;
use tiltyard_model::Tid;
use tiltyard_native::layout::{SchedEntity, SchedExtEntity, TASK_COMM_LEN, TaskStruct};

/// Index of a task in the engine, equal to its pid. 0 is the idle task of every CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    pub const IDLE: TaskId = TaskId(0);

    pub fn is_idle(self) -> bool {
        self.0 == 0
    }

    pub fn tid(self) -> Tid {
        Tid(self.0)
    }

    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub fn unless_idle(self) -> Option<TaskId> {
        (!self.is_idle()).then_some(self)
    }
}

/// The application of kernel threads.
pub const NO_APP: u32 = u32::MAX;

/// Scheduling classes that the simulated kernel has, highest first: stop (the core's own),
/// realtime, ext, idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Rt { priority: u8, round_robin: bool },
    Ext,
    Idle,
}

impl Class {
    /// Whether a task of this class takes the CPU from one of `other` at once.
    pub fn above(self, other: Class) -> bool {
        self.rank() > other.rank()
    }

    fn rank(self) -> u8 {
        match self {
            Class::Rt { .. } => 2,
            Class::Ext => 1,
            Class::Idle => 0,
        }
    }
}

/// A task's state as the core sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Sleeps, or has not been woken for the first time.
    Blocked,
    /// On a runqueue or running.
    Runnable,
    Dead,
}

/// `p->scx` state machine of load, fork and class changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtState {
    None,
    Ready = 2,
    Enabled,
}

impl ExtState {
    /// Without the kernel's SCX_TASK_.
    pub fn word(self) -> &'static str {
        match self {
            ExtState::None => "NONE",
            ExtState::Ready => "READY",
            ExtState::Enabled => "ENABLED",
        }
    }
}

impl OpsState {
    /// Without the kernel's SCX_OPSS_.
    pub fn word(self) -> &'static str {
        match self {
            OpsState::None => "NONE",
            OpsState::Queueing => "QUEUEING",
            OpsState::Queued(_) => "QUEUED",
            OpsState::Dispatching => "DISPATCHING",
        }
    }
}

/// Who owns a queued task (`p->scx.ops_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    /// No owner, a DSQ, or it runs or sleeps.
    None,
    /// On its way through ops.enqueue.
    Queueing,
    /// In the scheduler's custody since the enqueue with this sequence number.
    Queued(u64),
    /// Leaving it through the dispatch buffer.
    Dispatching,
}

/// A DSQ by its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsqRef {
    Local(u32),
    /// One for each NUMA node.
    Global(u32),
    /// Slot in the table of the scheduler's own DSQs.
    User(u32),
}

/// The part of `p->scx` that only the core sees.
#[derive(Debug)]
pub struct ExtTask {
    pub state: ExtState,
    pub ops_state: OpsState,
    pub dsq: Option<DsqRef>,
    pub dsq_seq: u64,
    /// Position in a FIFO DSQ, key in an ordered one.
    pub dsq_order: i64,
    pub dsq_next: TaskId,
    pub dsq_prev: TaskId,
    /// Waits on its runqueue for insertion into another CPU's local DSQ.
    /// (A machine has 65,536 CPUs at most.)
    pub deferred_to: Option<u16>,
    /// Has run, in any class.
    pub ran: bool,
    /// When it last became runnable, lost the CPU or was given other CPUs.
    pub waits_since_ns: u64,
}

/// The machine's view: the task's remaining work and what it left in caches.
#[derive(Debug, Default)]
pub struct Work {
    /// Work left of the current instruction, in ns at full speed.
    pub rem_ns: u64,
    /// rt-app's `runtime`: the instruction ends at this time, however much was done.
    pub until_ns: Option<u64>,
    pub working_set_bytes: u64,
    /// Share of the work that waits for memory, see memory.rs.
    pub stall_permille: u32,
    /// Spins at a barrier, which needs no memory.
    pub spins: bool,
    /// Has done some work, and so touched its memory.
    pub has_worked: bool,
    /// Node where its memory is: where it did its first work.
    pub home: u32,
    /// Another node, on which ticks have found it, and for how long.
    pub away_node: u32,
    pub away_ns: u64,
    /// CPU it last ran on, and that CPU's footprint counter then.
    pub last_cpu: Option<u32>,
    pub footprint_then: u64,
}

impl Work {
    /// The current instruction is complete.
    pub fn is_done(&self) -> bool {
        self.rem_ns == 0 && self.until_ns.is_none()
    }
}

/// Everything about one task. The kernel's view comes first, so that the pointer that
/// schedulers hold is also a pointer to this. The order of the others leaves no gaps,
/// because there may be a million tasks, and keeps together what each wakeup and switch needs.
#[repr(C)]
#[derive(Debug)]
pub struct Task {
    pub kern: TaskStruct,
    /// Shared with other tasks of the same affinity; see [`Task::set_cpus`].
    pub cpus: Rc<CpuSet>,
    pub id: TaskId,
    pub cpu: u32,
    /// Number of the current alarm; alarms with an older number are void.
    pub generation: u32,
    pub cgroup: u32,
    /// Or [`NO_APP`].
    pub app: u32,
    pub instance: u32,
    /// Which task of the workload it is an instance of; `None` for shells and kernel threads.
    pub spec: Option<u32>,
    pub parent: TaskId,
    pub live_children: u32,
    /// SCHED_RR: ticks left of its turn.
    pub rt_slice_ticks: u16,
    pub life: Life,
    pub class: Class,
    /// Policy of the workload file, kept for reports and restores.
    pub nice: i8,
    pub ext: ExtTask,
    pub work: Work,
    pub cursor: Cursor,
    /// Not used by kernel threads.
    pub jitter: TaskJitter,
    pub rng: Pcg,
    /// Only a name that does not fit into `comm`.
    pub long_name: Option<Box<str>>,
}

/// All tasks of the machine, by number; dead ones stay.
pub type Tasks = Blocks<Task>;

impl Task {
    pub fn kernel_ptr(&self) -> *mut TaskStruct {
        ptr::from_ref(&self.kern).cast_mut()
    }

    pub fn name(&self) -> String {
        task_name(&self.kern.comm, self.long_name.as_deref())
    }

    pub fn queued(&self) -> bool {
        self.kern.scx.flags & TASK_QUEUED != 0
    }

    /// Changes the affinity, as the kernel's struct shows it, too.
    pub fn set_cpus(&mut self, cpus: Rc<CpuSet>) {
        self.kern.cpus_ptr = cpus.as_ptr();
        self.kern.nr_cpus_allowed = cpus.weight() as i32;
        self.cpus = cpus;
    }

    pub fn may_run_on(&self, cpu: u32) -> bool {
        self.cpus.test(cpu)
    }

    pub fn set_ext_state(&mut self, state: ExtState) {
        self.ext.state = state;
        let scx = &mut self.kern.scx;
        scx.flags &= (1 << TASK_STATE_SHIFT) - 1;
        scx.flags |= (state as u32) << TASK_STATE_SHIFT;
    }
}

impl Default for ExtTask {
    fn default() -> ExtTask {
        ExtTask {
            state: ExtState::None,
            ops_state: OpsState::None,
            dsq: None,
            dsq_seq: 0,
            dsq_order: 0,
            dsq_next: TaskId::IDLE,
            dsq_prev: TaskId::IDLE,
            deferred_to: None,
            ran: false,
            waits_since_ns: 0,
        }
    }
}

/// `init_scx_entity`: what every fork starts with.
pub fn new_scx_entity() -> SchedExtEntity {
    SchedExtEntity {
        flags: 0,
        weight: 100,
        sticky_cpu: -1,
        holding_cpu: -1,
        selected_cpu: -1,
        slice: SLICE_DFL_NS,
        dsq_vtime: 0,
        ddsp_dsq_id: DSQ_INVALID,
        ddsp_enq_flags: 0,
        runnable_at: 0,
        disallow: false,
    }
}

/// What does not fit into `comm`.
pub fn long_name(name: &str) -> Option<Box<str>> {
    (name.len() >= TASK_COMM_LEN).then(|| name.into())
}

fn task_name(comm: &[c_char], long: Option<&str>) -> String {
    let short = || {
        let bytes = comm.iter().take_while(|c| **c != 0);
        let bytes: Vec<u8> = bytes.map(|c| *c as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    long.map_or_else(short, str::to_owned)
}

/// `sysctl_sched_base_slice` on so many CPUs: 0.7 ms times 1 + log2 of them, eight at most (Linux 6.18).
pub fn default_slice_ns(cpus: usize) -> u64 {
    700_000 * u64::from(1 + cpus.clamp(1, 8).ilog2())
}

/// A `task_struct` with everything zero except what must not be.
pub fn new_task_struct(pid: i32, name: &str) -> TaskStruct {
    let mut comm = [0 as c_char; TASK_COMM_LEN];
    for (to, from) in comm.iter_mut().zip(name.bytes().take(TASK_COMM_LEN - 1)) {
        *to = from as c_char;
    }
    TaskStruct {
        scx: new_scx_entity(),
        se: SchedEntity::default(),
        cpus_ptr: ptr::null(),
        nr_cpus_allowed: 0,
        migration_disabled: 0,
        custom_slice: 0,
        flags: 0,
        state: 1,
        exit_state: 0,
        pid,
        tgid: pid,
        prio: 120,
        static_prio: 120,
        normal_prio: 120,
        rt_priority: 0,
        policy: 0,
        on_cpu: 0,
        on_rq: 0,
        wake_cpu: 0,
        recent_used_cpu: 0,
        thread_cpu: 0,
        start_time: 0,
        utime: 0,
        stime: 0,
        nvcsw: 0,
        nivcsw: 0,
        mm: ptr::null(),
        parent: ptr::null(),
        real_parent: ptr::null(),
        group_leader: ptr::null(),
        signal: ptr::null(),
        cgroups: ptr::null(),
        sched_task_group: ptr::null(),
        comm,
    }
}

/// nice -20..19 to the weight of the kernel's table, `sched_prio_to_weight`.
/// Source: kernel/sched/core.c; the table is part of the kernel's ABI for schedulers.
pub const NICE_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// `p->scx.weight` of a nice value: 100 at nice 0, rounded, 1..=10000.
pub fn ext_weight(nice: i8) -> u32 {
    let weight = NICE_WEIGHT[(i32::from(nice.clamp(-20, 19)) + 20) as usize];
    ((weight * 100 + 512) / 1024).clamp(1, 10_000)
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use crate::bpf::rng::Streams;

    /// One that belongs to nobody.
    pub fn task() -> Task {
        let streams = Streams::new(1);
        Task {
            kern: new_task_struct(1, "t"),
            id: TaskId(1),
            long_name: None,
            app: 0,
            spec: None,
            instance: 0,
            life: Life::Runnable,
            class: Class::Ext,
            nice: 0,
            cpu: 0,
            cpus: Rc::new(CpuSet::new(1)),
            cgroup: 0,
            ext: ExtTask::default(),
            work: Work::default(),
            cursor: Cursor::default(),
            rng: streams.stream("t", 0),
            jitter: TaskJitter::new(&streams, "t", 0),
            parent: TaskId::IDLE,
            live_children: 0,
            generation: 0,
            rt_slice_ticks: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_kernel() {
        assert_eq!(ext_weight(0), 100);
        assert_eq!(ext_weight(-20), 8668);
        assert_eq!(ext_weight(19), 1);
        assert_eq!(ext_weight(17), ext_weight(18));
    }

    #[test]
    fn a_task_is_small_because_there_may_be_a_million() {
        assert_eq!(size_of::<Task>(), 688);
    }

    #[test]
    fn names_are_whole() {
        for name in [
            "A",
            "fifteen-letters",
            "sixteen--letters",
            "gr\u{fc}n-und-sehr-lang",
        ] {
            let kern = new_task_struct(1, name);
            let whole = |long: Option<Box<str>>| task_name(&kern.comm, long.as_deref());
            assert_eq!(whole(long_name(name)), name);
        }
    }
}
