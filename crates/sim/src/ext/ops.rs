// SPDX-License-Identifier: GPL-2.0-or-later
//! The table of ops, and the one place where they are called.

use crate::engine::{Engine, RunError};
use crate::task::{Task, TaskId};
use std::ptr;
use tiltyard_model::OverheadCause;
use tiltyard_native::layout::TaskStruct;
use tiltyard_native::{Crash, EntryPoint, Instance, Object};

macro_rules! ops {
    ($($variant:ident $name:literal $context:ident),* $(,)?) => {
        /// Every callback of `struct sched_ext_ops` in the reference kernel. Hotplug, core scheduling and changes
        /// of a cgroup's weight or bandwidth do not happen in the simulated machine, so a few are never called.
        #[allow(dead_code, reason = "the table is the kernel's")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Op { $($variant),* }

        const NAMES: &[(&str, u32)] = &[$(($name, $context)),*];
    };
}

/// Contexts in which kernel functions may be called, as bits: ops.select_cpu, ops.enqueue, ops.dispatch,
/// ops.cpu_release, other ops with a runqueue locked, ops without one (and timers, syscall programs).
pub const IN_SELECT_CPU: u32 = 1;
pub const IN_ENQUEUE: u32 = 2;
pub const IN_DISPATCH: u32 = 4;
pub const IN_CPU_RELEASE: u32 = 8;
pub const IN_REST: u32 = 16;
pub const IN_UNLOCKED: u32 = 32;

ops! {
    SelectCpu "select_cpu" IN_SELECT_CPU,
    Enqueue "enqueue" IN_ENQUEUE,
    Dequeue "dequeue" IN_REST,
    Dispatch "dispatch" IN_DISPATCH,
    Tick "tick" IN_REST,
    Runnable "runnable" IN_REST,
    Running "running" IN_REST,
    Stopping "stopping" IN_REST,
    Quiescent "quiescent" IN_REST,
    Yield "yield" IN_REST,
    CoreSchedBefore "core_sched_before" IN_REST,
    SetWeight "set_weight" IN_REST,
    SetCpumask "set_cpumask" IN_REST,
    UpdateIdle "update_idle" IN_REST,
    CpuAcquire "cpu_acquire" IN_REST,
    CpuRelease "cpu_release" IN_CPU_RELEASE,
    InitTask "init_task" IN_UNLOCKED,
    ExitTask "exit_task" IN_REST,
    Enable "enable" IN_REST,
    Disable "disable" IN_REST,
    Dump "dump" IN_UNLOCKED,
    DumpCpu "dump_cpu" IN_REST,
    DumpTask "dump_task" IN_REST,
    CgroupInit "cgroup_init" IN_UNLOCKED,
    CgroupExit "cgroup_exit" IN_UNLOCKED,
    CgroupPrepMove "cgroup_prep_move" IN_UNLOCKED,
    CgroupMove "cgroup_move" IN_UNLOCKED,
    CgroupCancelMove "cgroup_cancel_move" IN_UNLOCKED,
    CgroupSetWeight "cgroup_set_weight" IN_UNLOCKED,
    CgroupSetBandwidth "cgroup_set_bandwidth" IN_UNLOCKED,
    CpuOnline "cpu_online" IN_UNLOCKED,
    CpuOffline "cpu_offline" IN_UNLOCKED,
    Init "init" IN_UNLOCKED,
    Exit "exit" IN_UNLOCKED,
}

impl Op {
    /// Number of ops: also the index of what is not an op.
    pub const COUNT: u16 = NAMES.len() as u16;

    /// In the order of their numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Its name in messages.
    pub fn label(slot: usize) -> String {
        match NAMES.get(slot) {
            Some((name, _)) => format!("ops.{name}"),
            None => "the callback of a timer".to_owned(),
        }
    }

    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    fn context(self) -> u32 {
        NAMES[self as usize].1
    }
}

/// The contexts of these bits, for messages.
pub fn context_names(bits: u32) -> String {
    let names = [
        (IN_SELECT_CPU, "ops.select_cpu()"),
        (IN_ENQUEUE, "ops.enqueue()"),
        (IN_DISPATCH, "ops.dispatch()"),
        (IN_CPU_RELEASE, "ops.cpu_release()"),
        (
            IN_UNLOCKED,
            "ops without a locked runqueue, as ops.init() and ops.init_task()",
        ),
    ];
    let named = names.iter().filter(|(bit, _)| bits & bit != 0);
    named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

/// All ops, and one slot more for timers.
pub const OP_SLOTS: usize = NAMES.len() + 1;

/// What each op, and last the timers, did so far.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub calls: [u64; OP_SLOTS],
    /// CPUs kicked.
    pub kicks: [u64; OP_SLOTS],
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            calls: [0; OP_SLOTS],
            kicks: [0; OP_SLOTS],
        }
    }
}

/// The scheduler's functions; absent ones have the core's default behaviour.
#[derive(Debug)]
pub struct OpTable(Vec<Option<EntryPoint>>);

impl OpTable {
    pub fn new(object: &Object, instance: &Instance) -> OpTable {
        let find = |name: &str| {
            let symbol = object.ops.functions.get(name)?;
            let address = instance.symbol(symbol)?;
            // SAFETY: the object's description names functions with the signature of BPF programs.
            Some(unsafe { std::mem::transmute::<*mut u8, EntryPoint>(address) })
        };
        OpTable(NAMES.iter().map(|(name, _)| find(name)).collect())
    }

    pub fn has(&self, op: Op) -> bool {
        self.0[op as usize].is_some()
    }
}

/// The current callback, and what it may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// Number of this call into the scheduler, from 1.
    pub number: u64,
    /// `None` for the callback of a timer and for a program.
    pub op: Option<Op>,
    /// User space called it.
    pub is_program: bool,
    /// CPU whose runqueue is locked.
    pub locked_cpu: Option<u32>,
    /// The task that the op concerns; the idle task if none.
    pub subject: TaskId,
    /// ops.select_cpu or ops.enqueue has inserted its task.
    pub inserted: bool,
}

impl Context {
    /// One of the `IN_*` bits.
    pub fn bit(&self) -> u32 {
        self.op.map_or(IN_UNLOCKED, Op::context)
    }

    /// Its place in [`Counts`].
    pub fn slot(&self) -> usize {
        self.op.map_or(OP_SLOTS - 1, |op| op as usize)
    }

    /// `ops.running()`
    pub fn label(&self) -> String {
        match self.op {
            Some(op) => format!("ops.{}()", op.name()),
            None if self.is_program => "a program called by user space".to_owned(),
            None => "the callback of a timer".to_owned(),
        }
    }

    /// Whether an insert must mean the subject, and is done when the op has returned.
    pub fn inserts_directly(&self) -> bool {
        self.bit() & (IN_SELECT_CPU | IN_ENQUEUE) != 0
    }
}

impl Engine<'_> {
    /// Calls an op if the scheduler has it. `subject` is the task among its arguments, `locked_cpu` the runqueue
    /// that the kernel holds locked around it. Returns 0 for an absent op.
    #[inline]
    pub(crate) fn call_op<const N: usize>(
        &mut self,
        op: Op,
        args: &[u64; N],
        subject: TaskId,
        locked_cpu: Option<u32>,
    ) -> u64 {
        // No op has more than three arguments; the rest of the context is zero.
        let mut ctx = [0; 8];
        ctx[..N].copy_from_slice(args);
        self.call_op_with(op, &mut ctx, subject, locked_cpu)
    }

    fn call_op_with(
        &mut self,
        op: Op,
        ctx: &mut [u64; 8],
        subject: TaskId,
        locked_cpu: Option<u32>,
    ) -> u64 {
        let Some(entry) = self.ext.ops.0[op as usize] else {
            return 0;
        };
        #[cfg(debug_assertions)]
        if let Some(cpu) = locked_cpu {
            assert_eq!(self.rq_locks.held(), [cpu], "around ops.{}", op.name());
        }
        let context = Context {
            number: 0,
            op: Some(op),
            is_program: false,
            locked_cpu,
            subject,
            inserted: false,
        };
        // SAFETY: `entry` is an op of this instance, `ctx` what the kernel passes to it.
        self.call_bpf(context, |instance| unsafe { instance.call(entry, ctx) })
    }

    /// Runs scheduler code: sets its context, meters it, charges its cost to the executing CPU, and turns a crash
    /// into the end of the run.
    #[inline]
    pub(crate) fn call_bpf(
        &mut self,
        context: Context,
        call: impl FnOnce(&Instance) -> Result<u64, Crash>,
    ) -> u64 {
        if self.failure.is_some() {
            return 0;
        }
        // Only a nested call has a context to return to; between calls it is not read.
        let outer = (self.ext.depth > 0).then_some(self.ext.ctx);
        if outer.is_some() {
            self.pay();
        }
        self.ext.callbacks += 1;
        self.ext.counts.calls[context.slot()] += 1;
        self.ext.ctx = Context {
            number: self.ext.callbacks,
            ..context
        };
        self.ext.paid_insns = self.instance.work_insns();
        self.ext.kfunc_ns = self.machine.costs.callback_ns;
        self.instance.forget_waits();
        self.ext.depth += 1;
        if let Some(lines) = &mut self.ext.lines {
            lines.enter(self.rqs[self.exec_cpu as usize].place.core);
        }
        // Kernel functions reach the engine only through this pointer. Nothing here uses `self` until the call has
        // returned, and the instance is no part of the engine.
        let instance = self.instance;
        let outer_engine = instance.set_engine(ptr::from_mut(self).cast());
        let result = call(instance);
        if outer.is_some() {
            // The functions of the call that this one interrupts have a pointer of their own.
            instance.set_engine(outer_engine);
        }
        self.finish_call();
        if result.is_err() {
            self.crashed(&result);
        } else if self.ext.held_spin_lock != 0 && outer.is_none() {
            self.misused_spin_lock("returns while it holds a spin lock");
        }
        if let Some(outer) = outer {
            self.ext.ctx = outer;
        }
        result.unwrap_or(0)
    }

    #[cold]
    fn crashed(&mut self, result: &Result<u64, Crash>) {
        let Err(mut crash) = *result else { return };
        if let (Crash::Fault { .. }, Some((offset, access))) = (crash, self.ext.storing) {
            crash = Crash::Outside { access, offset };
        }
        let context = self.ext.ctx;
        let (what, place) = self.crash_words(crash);
        self.fail(RunError::Crash {
            what,
            place,
            op: context.label(),
            cpu: self.exec_cpu,
            task: self.label_on(self.exec_cpu, context.subject),
            time_ns: self.now,
            crash,
        });
    }

    /// The kind of a crash, and the source line.
    fn crash_words(&self, crash: Crash) -> (String, Option<String>) {
        let place = self.object.place(self.instance.place());
        match crash {
            Crash::Fault { address } if address < 1 << 16 => {
                (format!("{crash}, through a NULL pointer"), place)
            }
            // The address itself is another one in each run.
            Crash::Fault { .. } => (format!("{crash}, through a wild pointer"), place),
            Crash::Outside { access, offset } => {
                let Some(access) = self.object.accesses.get(access as usize) else {
                    let what =
                        "local variables need more than 64 KiB, as in a recursion without end";
                    return (what.to_owned(), place);
                };
                let verb = if access.write { "writes" } else { "reads" };
                let what = match access.what.as_str() {
                    "" if offset < 1 << 16 => format!("{verb} through a NULL pointer"),
                    "" => format!(
                        "{verb} {}, which is not its own: a scheduler may write its variables, values of its maps, and scx.slice, scx.dsq_vtime and scx.disallow of a task",
                        self.owner_of(offset)
                    ),
                    what => format!("{verb} outside of {what}, at offset {}", offset as i64),
                };
                (what, self.object.place(access.place))
            }
            _ => (crash.to_string(), place),
        }
    }

    /// What lies at an address that the scheduler may not write.
    fn owner_of(&self, address: u64) -> String {
        let offset_in = |task: &Task| address.checked_sub(task.kernel_ptr() as u64);
        let bytes = size_of::<TaskStruct>() as u64;
        let inside = |task: &Task| offset_in(task).filter(|offset| *offset < bytes);
        let found = self
            .tasks
            .iter()
            .find_map(|task| Some((task.id, inside(task)?)));
        match found {
            Some((id, offset)) => {
                format!(
                    "byte {offset} of the task_struct of {}",
                    self.task_label(id)
                )
            }
            None => "memory".to_owned(),
        }
    }

    #[inline(always)]
    fn finish_call(&mut self) {
        self.pay();
        self.ext.depth -= 1;
        if self.ext.depth == 0 {
            self.after_callback();
        }
    }

    /// What the current callback took since it paid last.
    #[inline]
    pub(crate) fn unpaid_ns(&self) -> u64 {
        let insns = self.instance.work_insns() - self.ext.paid_insns;
        let called_ns = self.ext.kfunc_ns + self.instance.waited_ns();
        insns * self.machine.costs.insn_ps / 1000 + called_ns
    }

    /// Charges the executing CPU for what the current callback did so far.
    #[inline(always)]
    fn pay(&mut self) {
        let ns = self.unpaid_ns();
        self.ext.paid_insns = self.instance.work_insns();
        self.ext.kfunc_ns = 0;
        self.instance.forget_waits();
        let cause = match self.ext.ctx.op {
            Some(Op::SelectCpu) => OverheadCause::SelectCpu,
            _ => OverheadCause::Scheduler,
        };
        self.charge(self.exec_cpu, cause, ns);
    }

    /// Pointer to a task as ops get it: NULL for none.
    pub(crate) fn task_arg(&self, id: TaskId) -> u64 {
        if id.is_idle() {
            return ptr::null::<u8>() as u64;
        }
        self.tasks[id.index()].kernel_ptr() as u64
    }
}
