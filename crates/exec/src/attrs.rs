// SPDX-License-Identifier: GPL-2.0-or-later
//! Scheduling attributes of real threads: sched_setattr, affinity, memory nodes.

use std::io;

use tiltyard_workload::{Attrs, Policy};

use crate::sys;

/// rt-app's priority of a realtime task that names none.
const DEFAULT_RT_PRIORITY: u8 = 10;
const KEEP_UTIL_MIN: u64 = 0x20; // SCHED_FLAG_UTIL_CLAMP_MIN
const KEEP_UTIL_MAX: u64 = 0x40; // SCHED_FLAG_UTIL_CLAMP_MAX
const MPOL_BIND: libc::c_long = 2;

/// `struct sched_attr` of sched_setattr(2), version 2.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    util_min: u32,
    util_max: u32,
}

/// Sets all but the group. The error says which attribute, why not, and the way out.
pub fn apply(tid: u32, attrs: &Attrs) -> Result<(), String> {
    let sched = attrs.policy.is_some()
        || attrs.nice.is_some()
        || attrs.rt_priority.is_some()
        || attrs.deadline.is_some()
        || attrs.slice_ns.is_some()
        || attrs.util_min.is_some()
        || attrs.util_max.is_some();
    if sched {
        set_sched(tid, attrs).map_err(|e| refused(&describe(attrs), &e))?;
    }
    if let Some(cpus) = &attrs.cpus {
        set_affinity(tid, cpus).map_err(|e| refused(&format!("CPUs {cpus:?}"), &e))?;
    }
    if let Some(nodes) = &attrs.nodes_membind {
        let what = format!("memory of nodes {nodes:?}");
        if tid != sys::tid() {
            return Err(format!("{what}: a task can set this only for itself"));
        }
        bind_memory(nodes).map_err(|e| refused(&what, &e))?;
    }
    Ok(())
}

fn refused(what: &str, error: &io::Error) -> String {
    let way_out = match error.raw_os_error() {
        Some(libc::EPERM) => "; run as root, or with CAP_SYS_NICE (ulimit -e and -r may do)",
        Some(libc::EINVAL) => "; this machine or its kernel does not have that",
        Some(libc::EBUSY) => "; the kernel has no such bandwidth left",
        _ => "",
    };
    format!("cannot set {what}: {error}{way_out}")
}

fn describe(attrs: &Attrs) -> String {
    let mut words = Vec::new();
    words.extend(attrs.policy.map(|p| format!("policy {p:?}").to_lowercase()));
    words.extend(attrs.nice.map(|n| format!("nice {n}")));
    words.extend(attrs.rt_priority.map(|p| format!("realtime priority {p}")));
    words.extend(attrs.slice_ns.map(|ns| format!("a slice of {ns} ns")));
    words.extend(attrs.util_min.map(|u| format!("util_min {u}")));
    words.extend(attrs.util_max.map(|u| format!("util_max {u}")));
    words.join(", ")
}

/// Reads what the task has and changes what is given.
fn set_sched(tid: u32, attrs: &Attrs) -> io::Result<()> {
    let only_nice = Attrs {
        nice: attrs.nice,
        cpus: attrs.cpus.clone(),
        nodes_membind: attrs.nodes_membind.clone(),
        group: attrs.group,
        ..Attrs::default()
    };
    if let Some(nice) = attrs.nice
        && *attrs == only_nice
    {
        // As nice(1) does, which to the kernel is less of a change.
        // SAFETY: plain numbers.
        return sys::checked(
            unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice.into()) }.into(),
        );
    }
    let size = size_of::<SchedAttr>() as u32;
    let mut sched = SchedAttr::default();
    // SAFETY: fills at most `size` bytes of the struct.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut sched, size, 0) };
    sys::checked(got)?;
    sched.size = size;
    sched.flags = 0;
    if let Some(policy) = attrs.policy {
        sched.policy = number(policy);
    }
    sched.nice = attrs.nice.map_or(sched.nice, i32::from);
    let realtime = [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(sched.policy as i32));
    let given = attrs.rt_priority.map(u32::from);
    sched.priority = match (realtime, sched.priority) {
        (false, _) => 0,
        (true, 0) => given.unwrap_or(u32::from(DEFAULT_RT_PRIORITY)),
        (true, old) if attrs.policy.is_none() => given.unwrap_or(old),
        (true, _) => given.unwrap_or(u32::from(DEFAULT_RT_PRIORITY)),
    };
    if let Some(deadline) = attrs.deadline {
        sched.runtime_ns = deadline.runtime_ns;
        sched.deadline_ns = deadline.deadline_ns;
        sched.period_ns = deadline.period_ns;
    } else if sched.policy != number(Policy::Deadline) {
        // What was read is the scheduler's slice; given back it would become the task's own.
        sched.runtime_ns = attrs.slice_ns.unwrap_or(0);
    }
    if let Some(util) = attrs.util_min {
        (sched.util_min, sched.flags) = (util, sched.flags | KEEP_UTIL_MIN);
    }
    if let Some(util) = attrs.util_max {
        (sched.util_max, sched.flags) = (util, sched.flags | KEEP_UTIL_MAX);
    }
    // SAFETY: reads the struct, which contains its size.
    sys::checked(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const sched, 0) })
}

fn number(policy: Policy) -> u32 {
    let policy = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::Fifo => libc::SCHED_FIFO,
        Policy::Rr => libc::SCHED_RR,
        Policy::Deadline => libc::SCHED_DEADLINE,
    };
    policy as u32
}

/// An empty list is every CPU. The kernel ignores CPUs that it lacks as long as one remains.
fn set_affinity(tid: u32, cpus: &[u32]) -> io::Result<()> {
    // SAFETY: all bits 0 is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let bits = size_of_val(&set) * 8;
    let chosen = |cpu: &usize| cpus.is_empty() || cpus.contains(&(*cpu as u32));
    for cpu in (0..bits).filter(chosen) {
        // SAFETY: `cpu` is below the number of bits.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: reads the set.
    let done = unsafe { libc::sched_setaffinity(tid as i32, size_of_val(&set), &set) };
    sys::checked(done.into())
}

fn bind_memory(nodes: &[u32]) -> io::Result<()> {
    let bits = usize::BITS;
    let mut mask = [0usize; 16];
    for node in nodes {
        let word = mask.get_mut((node / bits) as usize);
        *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % bits);
    }
    let max = mask.len() * bits as usize;
    // SAFETY: reads `max` bits of the mask.
    sys::checked(unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), max) })
}
