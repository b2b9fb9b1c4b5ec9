// SPDX-License-Identifier: GPL-2.0-or-later
//! The sched_ext core: what kernel/sched/ext.c of Linux 6.18 does between the scheduling core
//! and the loaded scheduler. The order of callbacks is the kernel's.

pub mod dispatch;
pub mod dsq;
pub mod enqueue;
pub mod exit;
pub mod flags;
pub mod idle;
pub mod kick;
pub mod load;
pub mod ops;
pub mod progress;
pub mod userspace;
pub mod wait;
pub mod watchdog;

use crate::contention::lock::Locks;
use crate::engine::{RunError, Setup};
use crate::kfuncs::{self, Accesses, Bpf};
use crate::lines::{self, Lines};
use crate::topology::Topology;
use dispatch::DispatchBuffer;
use dsq::Dsq;
use exit::Exit;
use flags::*;
use idle::IdleMasks;
use ops::{Context, OpTable};
use std::collections::{BTreeSet, HashMap};
use tiltyard_environment::Plan;
use tiltyard_native::Instance;
use wait::Standstill;

/// State of the one loaded scheduler.
pub struct Ext {
    /// `.name` of its ops.
    pub name: String,
    /// What its user-space half does.
    pub plan: Plan,
    pub bpf: Bpf,
    pub ops: OpTable,
    /// For schedulers built to report their accesses.
    pub accesses: Option<Accesses>,
    pub flags: u64,
    pub timeout_ns: u64,
    pub enabled: bool,
    /// Set once, by whatever ends the scheduler first.
    pub exit: Option<Exit>,
    pub ctx: Context,
    pub buffer: DispatchBuffer,
    pub dsqs: UserDsqs,
    pub global_dsqs: Vec<Dsq>,
    pub idle: IdleMasks,
    /// CPUs with a kick waiting, and whether any CPU has deferred inserts.
    pub kicked: Vec<u32>,
    /// Which CPU waits for which once the kicks are done, and the CPUs that are halted meanwhile.
    pub waits: Vec<(u32, u32)>,
    pub still: Vec<Standstill>,
    pub deferred_cpus: Vec<u32>,
    /// Whether the scheduler has ever inserted a task that it had kept in a queue of its own.
    pub keeps_tasks: bool,
    /// Number of the newest pass of any task through ops.enqueue.
    pub qseq: u64,
    pub callbacks: u64,
    pub counts: ops::Counts,
    /// Depth of nested calls into the scheduler.
    pub depth: u32,
    /// Address and number of the store that the engine is looking at, which may crash on the address.
    pub storing: Option<(u64, u32)>,
    /// select_cpu answers that were not allowed for the task.
    pub select_cpu_fallbacks: u64,
    /// Slices that the core refilled because the scheduler left 0.
    pub zero_slice_refills: u64,
    /// Where the cache lines of the scheduler's data are; none where that costs nothing.
    pub lines: Option<Lines>,
    /// Whether CPUs share locks, and waiting for them counts.
    pub waits_for_locks: bool,
    /// The scheduler's spin locks.
    pub spin_locks: Locks,
    /// Address of the one that the current callback holds; 0: none.
    pub held_spin_lock: u64,
    /// What a kernel function refused last, and its errno: a callback may fail with it.
    pub refusal: Option<(i64, String)>,
    /// What the current callback has not paid for yet: instructions from this number on, and the time of kernel functions.
    pub paid_insns: u64,
    pub kfunc_ns: u64,
}

/// The DSQs that the scheduler created. Slots are reused; ids are looked up by hash.
#[derive(Debug, Default)]
pub struct UserDsqs {
    slots: Vec<Option<Dsq>>,
    /// Slots without a DSQ.
    free: BTreeSet<u32>,
    by_id: HashMap<u64, u32, BuildIdHasher>,
    last: Option<(u64, u32)>,
}

impl UserDsqs {
    pub fn find(&mut self, id: u64) -> Option<u32> {
        if let Some((last_id, slot)) = self.last
            && last_id == id
        {
            return Some(slot);
        }
        let slot = *self.by_id.get(&id)?;
        self.last = Some((id, slot));
        Some(slot)
    }

    /// `None` for an invalid number.
    pub fn lookup(&self, slot: u32) -> Option<&Dsq> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn lookup_mut(&mut self, slot: u32) -> Option<&mut Dsq> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    pub fn get(&self, slot: u32) -> &Dsq {
        self.slots[slot as usize]
            .as_ref()
            .expect("a DSQ that tasks refer to exists")
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut Dsq {
        self.slots[slot as usize]
            .as_mut()
            .expect("a DSQ that tasks refer to exists")
    }

    /// `None` when the id is taken.
    pub fn create(&mut self, id: u64) -> Option<()> {
        if self.by_id.contains_key(&id) {
            return None;
        }
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(Dsq::new(id));
        self.by_id.insert(id, slot);
        Some(())
    }

    pub fn destroy(&mut self, id: u64) {
        if let Some(slot) = self.by_id.remove(&id) {
            self.slots[slot as usize] = None;
            self.free.insert(slot);
            self.last = None;
        }
    }
}

/// A fixed multiplicative hash: DSQ ids are few and chosen by the scheduler, and the standard
/// library's hash has a random key that would cost time for nothing.
#[derive(Clone, Debug, Default)]
pub struct BuildIdHasher;

impl std::hash::BuildHasher for BuildIdHasher {
    type Hasher = IdHasher;
    fn build_hasher(&self) -> IdHasher {
        IdHasher(0)
    }
}

#[derive(Debug)]
pub struct IdHasher(u64);

impl std::hash::Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        // 2^64 / golden ratio
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A private copy of the scheduler, and what its user-space half does.
pub fn load(setup: &Setup) -> Result<(Instance, Plan), RunError> {
    let plan = userspace::plan(setup)?;
    let mut instance = Instance::load(setup.object, &userspace::globals(setup, &plan))?;
    instance.bind(
        &crate::kfuncs::kfunc_address,
        &crate::kfuncs::helper_address,
    )?;
    Ok((instance, plan))
}

impl Ext {
    /// Checks what the kernel checks before ops.init.
    pub fn new(
        setup: &Setup,
        plan: Plan,
        instance: &Instance,
        topology: &Topology,
    ) -> Result<Ext, RunError> {
        let object = setup.object;
        let ops = OpTable::new(object, instance);
        let flags = plan.ops_flags(object.ops.flags, &ops_flag)?;
        check_name(&object.ops.name)?;
        check_flags(flags)?;
        let timeout_ms = match object.ops.timeout_ms {
            0 => WATCHDOG_MAX_MS,
            ms if ms > WATCHDOG_MAX_MS => {
                return Err(RunError::Scheduler(format!(
                    "timeout_ms is {ms}; the kernel allows at most {WATCHDOG_MAX_MS} (-E2BIG)"
                )));
            }
            ms => ms,
        };
        let max_batch = match object.ops.dispatch_max_batch {
            0 => DISPATCH_DFL_BATCH,
            n if n > i32::MAX as u32 => {
                return Err(RunError::Scheduler(format!(
                    "dispatch_max_batch is {n}; the kernel allows at most {} (-E2BIG)",
                    i32::MAX
                )));
            }
            n => n,
        };
        Ok(Ext {
            name: object.ops.name.clone(),
            plan,
            bpf: Bpf::new(setup, instance, topology)?,
            accesses: Accesses::of(object, instance),
            idle: IdleMasks::new(setup.machine, topology, flags, &ops),
            ops,
            flags,
            timeout_ns: u64::from(timeout_ms) * 1_000_000,
            enabled: false,
            exit: None,
            ctx: Context::default(),
            buffer: DispatchBuffer::new(max_batch as usize),
            dsqs: UserDsqs::default(),
            global_dsqs: (0..topology.nr_nodes)
                .map(|_| Dsq::new(DSQ_GLOBAL))
                .collect(),
            kicked: Vec::new(),
            waits: Vec::new(),
            still: Vec::new(),
            deferred_cpus: Vec::new(),
            keeps_tasks: false,
            qseq: 0,
            callbacks: 0,
            counts: ops::Counts::default(),
            depth: 0,
            select_cpu_fallbacks: 0,
            zero_slice_refills: 0,
            waits_for_locks: setup.machine.lock_waits && setup.machine.cpus.len() > 1,
            spin_locks: Locks::default(),
            held_spin_lock: 0,
            refusal: None,
            paid_insns: 0,
            kfunc_ns: 0,
            // After `bpf`, which gives the instance the memory of maps.
            lines: lines::cost_something(setup.machine)
                .then(|| Lines::new(setup.machine, instance, kfuncs::grow_lines)),
            storing: None,
        })
    }

    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// `validate_ops()`, in the kernel's words: why flags and ops are incompatible.
    pub fn invalid_ops(&self) -> Option<&'static str> {
        if self.has(OPS_ENQ_LAST) && !self.ops.has(ops::Op::Enqueue) {
            return Some("SCX_OPS_ENQ_LAST requires ops.enqueue() to be implemented");
        }
        let builtin_idle = self.has(OPS_KEEP_BUILTIN_IDLE) || !self.ops.has(ops::Op::UpdateIdle);
        if self.has(OPS_BUILTIN_IDLE_PER_NODE) && !builtin_idle {
            return Some("SCX_OPS_BUILTIN_IDLE_PER_NODE requires CPU idle selection enabled");
        }
        None
    }
}

/// What the kernel's `bpf_obj_name_cpy()` checks.
fn check_name(name: &str) -> Result<(), RunError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let what = match name {
        "" => "ops.name is not set".to_owned(),
        _ if name.chars().all(is_allowed) => return Ok(()),
        _ => format!("ops.name is {name:?}, but may contain only letters, digits, '_' and '.'"),
    };
    Err(RunError::Scheduler(format!("{what} (-EINVAL)")))
}

/// What `bpf_scx_init_member()` rejects when the object is loaded, and what is not modelled.
fn check_flags(flags: u64) -> Result<(), RunError> {
    if flags & !OPS_ALL != 0 {
        let unknown = flags & !OPS_ALL;
        return Err(RunError::Scheduler(format!(
            "unknown bits {unknown:#x} in ops.flags (-EINVAL)"
        )));
    }
    if flags & OPS_SWITCH_PARTIAL != 0 {
        return Err(RunError::NotModelled(
            "SCX_OPS_SWITCH_PARTIAL: the simulated kernel has no fair class".into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheduler may create and destroy DSQs for as long as it runs.
    #[test]
    fn slots_of_destroyed_dsqs_are_used_again() {
        let mut dsqs = UserDsqs::default();
        for id in 0..3 {
            dsqs.create(id).expect("the id is free");
        }
        for id in 3..1000 {
            let slot = dsqs.find(id - 2);
            dsqs.destroy(id - 2);
            assert_eq!(dsqs.find(id - 2), None);
            dsqs.create(id).expect("the id is free");
            assert_eq!(dsqs.find(id), slot);
        }
        assert_eq!(dsqs.slots.len(), 3);
        assert_eq!(dsqs.create(0), None, "it is still there");
    }
}
