// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's structs as a scheduler sees them in the simulated machine: only the
//! fields that exist there. CO-RE accesses are relocated to these offsets at build
//! time, so the layout is free; a field that is not listed stops the build by name.

use std::ffi::c_char;
use std::mem::offset_of;

pub const TASK_COMM_LEN: usize = 16;

/// `struct cpumask`: a bitmap of `nr_cpu_ids` bits, rounded up to words, lives at `bits`.
#[repr(C)]
#[derive(Debug)]
pub struct Cpumask {
    pub bits: *mut u64,
}

/// `struct sched_ext_entity`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchedExtEntity {
    pub flags: u32,
    pub weight: u32,
    pub sticky_cpu: i32,
    pub holding_cpu: i32,
    pub selected_cpu: i32,
    pub slice: u64,
    pub dsq_vtime: u64,
    pub ddsp_dsq_id: u64,
    pub ddsp_enq_flags: u64,
    pub runnable_at: u64,
    pub disallow: bool,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchedEntity {
    pub sum_exec_runtime: u64,
    pub exec_start: u64,
    pub vruntime: u64,
    /// What the task asked for with sched_setattr() (`custom_slice`, below), else what it has by default.
    pub slice: u64,
}

/// `struct task_struct`: first what wakeups and switches need.
#[repr(C)]
#[derive(Debug)]
pub struct TaskStruct {
    pub scx: SchedExtEntity,
    pub se: SchedEntity,
    pub cpus_ptr: *const Cpumask,
    pub nr_cpus_allowed: i32,
    pub migration_disabled: u16,
    /// `se.custom_slice`, in what would be padding.
    pub custom_slice: u8,
    pub flags: u32,
    pub state: u32,
    pub on_cpu: u8,
    pub on_rq: i32,
    pub wake_cpu: i32,
    pub recent_used_cpu: i32,
    pub thread_cpu: u32,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub exit_state: i32,
    pub pid: i32,
    pub tgid: i32,
    pub prio: i32,
    pub static_prio: i32,
    pub normal_prio: i32,
    pub rt_priority: u32,
    pub policy: u32,
    /// Also `start_boottime`: the machine is never suspended.
    pub start_time: u64,
    pub utime: u64,
    pub stime: u64,
    pub mm: *const u8,
    pub parent: *const TaskStruct,
    pub real_parent: *const TaskStruct,
    pub group_leader: *const TaskStruct,
    pub signal: *const SignalStruct,
    pub cgroups: *const CssSet,
    pub sched_task_group: *const TaskGroup,
    pub comm: [c_char; TASK_COMM_LEN],
}

/// `struct signal_struct`.
#[repr(C)]
#[derive(Debug)]
pub struct SignalStruct {
    pub nr_threads: i32,
    pub autogroup: *const Autogroup,
}

/// `struct autogroup`: one for each session.
#[repr(C)]
#[derive(Debug)]
pub struct Autogroup {
    pub id: u64,
    pub nice: i32,
}

#[repr(C)]
#[derive(Debug)]
pub struct KernfsNode {
    pub id: u64,
    pub name: *const c_char,
}

#[repr(C)]
#[derive(Debug)]
pub struct CgroupSubsysState {
    pub cgroup: *const Cgroup,
}

/// `struct cgroup`.
#[repr(C)]
#[derive(Debug)]
pub struct Cgroup {
    pub self_css: CgroupSubsysState,
    pub kn: *const KernfsNode,
    pub level: i32,
}

#[repr(C)]
#[derive(Debug)]
pub struct CssSet {
    pub dfl_cgrp: *const Cgroup,
}

#[repr(C)]
#[derive(Debug)]
pub struct TaskGroup {
    pub css: CgroupSubsysState,
}

/// `struct rq`.
#[repr(C)]
#[derive(Debug)]
pub struct Rq {
    pub curr: *const TaskStruct,
    pub cpu: i32,
    pub nr_running: u32,
    pub clock: u64,
    pub clock_task: u64,
    pub scx: ScxRq,
}

/// `struct scx_rq`.
#[repr(C)]
#[derive(Debug)]
pub struct ScxRq {
    pub flags: u32,
    pub nr_running: u32,
}

/// `struct scx_exit_info`.
#[repr(C)]
#[derive(Debug)]
pub struct ExitInfo {
    pub kind: i32,
    pub flags: u64,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub bt: *const u64,
    pub bt_len: u32,
    pub msg: *const c_char,
    pub dump: *const c_char,
}

#[repr(C)]
#[derive(Debug)]
pub struct InitTaskArgs {
    pub fork: bool,
    pub cgroup: *const Cgroup,
}

#[repr(C)]
#[derive(Debug)]
pub struct ExitTaskArgs {
    pub cancelled: bool,
}

#[repr(C)]
#[derive(Debug)]
pub struct CgroupInitArgs {
    pub weight: u32,
    pub bw_period_us: u64,
    pub bw_quota_us: u64,
    pub bw_burst_us: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct CpuReleaseArgs {
    pub reason: i32,
    pub task: *const TaskStruct,
}

#[repr(C)]
#[derive(Debug)]
pub struct DumpCtx {
    pub kind: i32,
    pub exit_code: i64,
    pub reason: *const c_char,
    pub at_ns: u64,
    pub at_jiffies: u64,
}

/// A member of a modelled struct: dotted kernel path, byte offset, size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub path: &'static str,
    pub offset: usize,
    pub size: usize,
}

macro_rules! fields {
    ($ty:ty, $struct_name:literal: $($kernel:literal => $($member:ident).+),* $(,)?) => {
        (
            $struct_name,
            &[$(Member {
                path: $kernel,
                offset: offset_of!($ty, $($member).+),
                size: size_of_member::<$ty, _>(|s| &s.$($member).+),
            }),*],
        )
    };
}

const fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

/// Every struct that the simulated kernel hands to a scheduler, with every member it has.
/// Names are the kernel's; a local "flavour" suffix (`___x`) is stripped before the look-up, as libbpf does.
pub const STRUCTS: &[(&str, &[Member])] = &[
    fields!(TaskStruct, "task_struct":
        "scx.flags" => scx.flags, "scx.weight" => scx.weight, "scx.sticky_cpu" => scx.sticky_cpu,
        "scx.holding_cpu" => scx.holding_cpu, "scx.selected_cpu" => scx.selected_cpu,
        "scx.slice" => scx.slice, "scx.dsq_vtime" => scx.dsq_vtime,
        "scx.ddsp_dsq_id" => scx.ddsp_dsq_id, "scx.ddsp_enq_flags" => scx.ddsp_enq_flags,
        "scx.runnable_at" => scx.runnable_at, "scx.disallow" => scx.disallow,
        "se.sum_exec_runtime" => se.sum_exec_runtime, "se.exec_start" => se.exec_start, "se.vruntime" => se.vruntime,
        "se.slice" => se.slice, "se.custom_slice" => custom_slice,
        "cpus_ptr" => cpus_ptr, "nr_cpus_allowed" => nr_cpus_allowed, "migration_disabled" => migration_disabled,
        "flags" => flags, "__state" => state, "exit_state" => exit_state, "pid" => pid, "tgid" => tgid,
        "prio" => prio, "static_prio" => static_prio, "normal_prio" => normal_prio, "rt_priority" => rt_priority,
        "policy" => policy, "on_cpu" => on_cpu, "on_rq" => on_rq, "wake_cpu" => wake_cpu,
        "recent_used_cpu" => recent_used_cpu, "thread_info.cpu" => thread_cpu,
        "start_time" => start_time, "start_boottime" => start_time, "utime" => utime, "stime" => stime,
        "nvcsw" => nvcsw, "nivcsw" => nivcsw, "mm" => mm, "parent" => parent, "real_parent" => real_parent,
        "group_leader" => group_leader, "signal" => signal, "cgroups" => cgroups,
        "sched_task_group" => sched_task_group, "comm" => comm,
    ),
    fields!(SignalStruct, "signal_struct": "nr_threads" => nr_threads, "autogroup" => autogroup),
    fields!(Autogroup, "autogroup": "id" => id, "nice" => nice),
    fields!(KernfsNode, "kernfs_node": "id" => id, "name" => name),
    fields!(CgroupSubsysState, "cgroup_subsys_state": "cgroup" => cgroup),
    fields!(Cgroup, "cgroup": "self" => self_css, "self.cgroup" => self_css.cgroup, "kn" => kn, "level" => level),
    fields!(CssSet, "css_set": "dfl_cgrp" => dfl_cgrp),
    fields!(TaskGroup, "task_group": "css" => css, "css.cgroup" => css.cgroup),
    fields!(Rq, "rq":
        "curr" => curr, "cpu" => cpu, "nr_running" => nr_running, "clock" => clock, "clock_task" => clock_task,
        "scx.flags" => scx.flags, "scx.nr_running" => scx.nr_running,
    ),
    fields!(ExitInfo, "scx_exit_info":
        "kind" => kind, "flags" => flags, "exit_code" => exit_code, "reason" => reason,
        "bt" => bt, "bt_len" => bt_len, "msg" => msg, "dump" => dump,
    ),
    fields!(InitTaskArgs, "scx_init_task_args": "fork" => fork, "cgroup" => cgroup),
    fields!(ExitTaskArgs, "scx_exit_task_args": "cancelled" => cancelled),
    fields!(CgroupInitArgs, "scx_cgroup_init_args":
        "weight" => weight, "bw_period_us" => bw_period_us, "bw_quota_us" => bw_quota_us, "bw_burst_us" => bw_burst_us,
    ),
    fields!(CpuReleaseArgs, "scx_cpu_release_args": "reason" => reason, "task" => task),
    fields!(DumpCtx, "scx_dump_ctx":
        "kind" => kind, "exit_code" => exit_code, "reason" => reason, "at_ns" => at_ns, "at_jiffies" => at_jiffies,
    ),
];
