// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of the sched_ext ABI of the reference kernel (Linux 6.18). The low word of the enqueue
//! and dequeue flags belongs to the scheduling core; schedulers see it raw.

pub const ENQ_WAKEUP: u64 = 1;
pub const ENQ_RESTORE: u64 = 2;
pub const ENQ_NOCLOCK: u64 = 8;
pub const ENQ_HEAD: u64 = 0x10;
pub const ENQ_MIGRATED: u64 = 0x40;
pub const ENQ_INITIAL: u64 = 0x80;
pub const ENQ_CPU_SELECTED: u64 = 0x400;
pub const ENQ_PREEMPT: u64 = 1 << 32;
pub const ENQ_REENQ: u64 = 1 << 40;
pub const ENQ_LAST: u64 = 1 << 41;
/// Bits of an insert that only the core may set.
pub const ENQ_INTERNAL: u64 = 0xff << 56;

pub const DEQ_SLEEP: u64 = 1;
pub const DEQ_SAVE: u64 = 2;
pub const DEQ_MOVE: u64 = 4;
pub const DEQ_NOCLOCK: u64 = 8;
/// The task enters a special state: here, it exits.
pub const DEQ_SPECIAL: u64 = 0x10;

pub const WAKE_FORK: u64 = 4;
pub const WAKE_TTWU: u64 = 8;
pub const WAKE_SYNC: u64 = 0x10;

pub const DSQ_BUILTIN: u64 = 1 << 63;
pub const DSQ_LOCAL_ON_BIT: u64 = 1 << 62;
pub const DSQ_INVALID: u64 = DSQ_BUILTIN;
pub const DSQ_GLOBAL: u64 = DSQ_BUILTIN | 1;
pub const DSQ_LOCAL: u64 = DSQ_BUILTIN | 2;
pub const DSQ_LOCAL_ON: u64 = DSQ_BUILTIN | DSQ_LOCAL_ON_BIT;

pub const SLICE_DFL_NS: u64 = 20_000_000;
pub const SLICE_INF: u64 = u64::MAX;

pub const OPS_KEEP_BUILTIN_IDLE: u64 = 1;
pub const OPS_ENQ_LAST: u64 = 2;
pub const OPS_ENQ_EXITING: u64 = 4;
pub const OPS_SWITCH_PARTIAL: u64 = 8;
pub const OPS_ENQ_MIGRATION_DISABLED: u64 = 0x10;
pub const OPS_ALLOW_QUEUED_WAKEUP: u64 = 0x20;
pub const OPS_BUILTIN_IDLE_PER_NODE: u64 = 0x40;
/// Deprecated no-op in 6.18.
pub const OPS_HAS_CGROUP_WEIGHT: u64 = 1 << 16;
pub const OPS_ALL: u64 = 0x7f | OPS_HAS_CGROUP_WEIGHT;

/// A flag of ops by its name.
pub fn ops_flag(name: &str) -> Option<u64> {
    Some(match name.strip_prefix("SCX_OPS_")? {
        "KEEP_BUILTIN_IDLE" => OPS_KEEP_BUILTIN_IDLE,
        "ENQ_LAST" => OPS_ENQ_LAST,
        "ENQ_EXITING" => OPS_ENQ_EXITING,
        "SWITCH_PARTIAL" => OPS_SWITCH_PARTIAL,
        "ENQ_MIGRATION_DISABLED" => OPS_ENQ_MIGRATION_DISABLED,
        "ALLOW_QUEUED_WAKEUP" => OPS_ALLOW_QUEUED_WAKEUP,
        "BUILTIN_IDLE_PER_NODE" => OPS_BUILTIN_IDLE_PER_NODE,
        "HAS_CGROUP_WEIGHT" => OPS_HAS_CGROUP_WEIGHT,
        _ => return None,
    })
}

pub const KICK_IDLE: u64 = 1;
pub const KICK_PREEMPT: u64 = 2;
pub const KICK_WAIT: u64 = 4;

pub const PICK_IDLE_CORE: u64 = 1;
pub const PICK_IDLE_IN_NODE: u64 = 2;

/// `p->scx.flags`
pub const TASK_QUEUED: u32 = 1;
pub const TASK_RESET_RUNNABLE_AT: u32 = 4;
pub const TASK_DEQD_FOR_SLEEP: u32 = 8;
pub const TASK_STATE_SHIFT: u32 = 8;

/// `p->flags`
pub const PF_IDLE: u32 = 0x2;
pub const PF_EXITING: u32 = 0x4;
pub const PF_WQ_WORKER: u32 = 0x20;
pub const PF_FORKNOEXEC: u32 = 0x40;
pub const PF_NOFREEZE: u32 = 0x8000;
pub const PF_KTHREAD: u32 = 0x0020_0000;
pub const PF_NO_SETAFFINITY: u32 = 0x0400_0000;

/// The kernel's errno values that reach schedulers.
pub const EPERM: i64 = -1;
pub const ENOENT: i64 = -2;
pub const ESRCH: i64 = -3;
pub const E2BIG: i64 = -7;
pub const ENOMEM: i64 = -12;
pub const EBUSY: i64 = -16;
pub const EEXIST: i64 = -17;
pub const EINVAL: i64 = -22;
pub const ENOSPC: i64 = -28;
pub const EOPNOTSUPP: i64 = -95;

/// Passes of one balance over ops.dispatch (SCX_DSP_MAX_LOOPS).
pub const DISPATCH_MAX_LOOPS: u32 = 32;
/// Default size of the dispatch buffer (SCX_DSP_DFL_MAX_BATCH).
pub const DISPATCH_DFL_BATCH: u32 = 32;
/// Longest watchdog timeout (SCX_WATCHDOG_MAX_TIMEOUT).
pub const WATCHDOG_MAX_MS: u32 = 30_000;
