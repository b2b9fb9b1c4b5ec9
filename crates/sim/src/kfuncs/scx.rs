// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel functions of sched_ext itself.

use super::helpers::format_args;
use super::{EnginePtr, Entry, functions, task_id};
use crate::engine::Engine;
use crate::ext::dispatch::BufferedInsert;
use crate::ext::enqueue::ENQ_DSQ_PRIQ;
use crate::ext::exit::ExitKind;
use crate::ext::flags::*;
use crate::ext::ops::*;
use crate::task::{DsqRef, TaskId};
use std::ffi::c_void;

pub(super) const FUNCTIONS: &[Entry] = functions![
    scx_bpf_dsq_insert,
    scx_bpf_dsq_insert_vtime,
    scx_bpf_dispatch_nr_slots,
    scx_bpf_dispatch_cancel,
    scx_bpf_dsq_move_to_local,
    scx_bpf_reenqueue_local,
    scx_bpf_create_dsq,
    scx_bpf_destroy_dsq,
    scx_bpf_dsq_nr_queued,
    scx_bpf_kick_cpu,
    scx_bpf_nr_node_ids,
    scx_bpf_nr_cpu_ids,
    scx_bpf_get_possible_cpumask,
    scx_bpf_get_online_cpumask,
    scx_bpf_put_cpumask,
    scx_bpf_task_running,
    scx_bpf_task_cpu,
    scx_bpf_cpu_rq,
    scx_bpf_cpu_curr,
    scx_bpf_locked_rq,
    scx_bpf_task_cgroup,
    scx_bpf_now,
    scx_bpf_cpuperf_cap,
    scx_bpf_cpuperf_cur,
    scx_bpf_cpuperf_set,
    scx_bpf_exit_bstr,
    scx_bpf_error_bstr,
    scx_bpf_dump_bstr,
];

impl Engine<'_> {
    /// `scx_kf_allowed()`: a call from elsewhere is the scheduler's error.
    pub(super) fn require_context(&mut self, contexts: u32, kfunc: &str) -> bool {
        if self.ext.ctx.bit() & contexts != 0 {
            return true;
        }
        self.misplaced(contexts, kfunc);
        false
    }

    #[cold]
    fn misplaced(&mut self, contexts: u32, kfunc: &str) {
        self.ext_error(format!(
            "{kfunc}() called from an operation that does not allow it, {}; allowed in {}",
            self.ext.ctx.label(),
            context_names(contexts)
        ));
    }

    /// `ops_cpu_valid()`.
    pub(super) fn valid_cpu(&mut self, cpu: u64, kfunc: &str) -> Option<u32> {
        let cpu = cpu as i32;
        if cpu >= 0 && (cpu as usize) < self.rqs.len() {
            return Some(cpu as u32);
        }
        let last = self.rqs.len() - 1;
        self.ext_error(format!(
            "invalid CPU {cpu} in {kfunc}(); this machine has CPUs 0 to {last}"
        ));
        None
    }

    /// Charges the callback for a visit to a CPU's runqueue: nothing for its own, more for one of another node.
    fn visit(&mut self, cpu: u32) {
        self.tell_rq(cpu);
        let (costs, cpus) = (&self.machine.costs, &self.machine.cpus);
        self.ext.kfunc_ns += if cpu == self.exec_cpu {
            0
        } else if cpus[cpu as usize].node == cpus[self.exec_cpu as usize].node {
            costs.visit_near_ns
        } else {
            costs.visit_far_ns
        };
    }

    /// `scx_dsq_insert_commit()`.
    fn insert_commit(&mut self, id: TaskId, dsq_id: u64, flags: u64) {
        self.tell_dsq(dsq_id, true);
        if self.ext.ctx.inserts_directly() {
            return self.mark_direct_dispatch(id, dsq_id, flags);
        }
        if self.ext.buffer.entries.len() >= self.ext.buffer.max_batch {
            return self.ext_error("dispatch buffer overflow".into());
        }
        let state = self.tasks[id.index()].ext.ops_state;
        self.ext.buffer.entries.push(BufferedInsert {
            task: id,
            state,
            dsq_id,
            flags,
        });
    }

    /// Checks common to both inserts; the task, if they pass.
    fn insert_preamble(&mut self, kfunc: &str, p: u64, flags: u64) -> Option<TaskId> {
        if !self.require_context(IN_SELECT_CPU | IN_ENQUEUE | IN_DISPATCH, kfunc) {
            return None;
        }
        // SAFETY: the scheduler got the pointer from the engine.
        let Some(id) = (unsafe { task_id(self, p) }) else {
            self.ext_error(format!("{kfunc}() called with NULL task"));
            return None;
        };
        if flags & ENQ_INTERNAL != 0 {
            self.ext_error(format!("{kfunc}(): invalid enq_flags {flags:#x}"));
            return None;
        }
        Some(id)
    }

    /// A slice of 0 keeps the current one, which is then at least 1 ns.
    fn set_slice(&mut self, id: TaskId, slice: u64) {
        let current = &mut self.tasks[id.index()].kern.scx.slice;
        *current = if slice != 0 { slice } else { (*current).max(1) };
    }
}

extern "C" fn scx_bpf_dsq_insert(mut e: EnginePtr, p: u64, dsq_id: u64, slice: u64, flags: u64) {
    let e = e.engine();
    if let Some(id) = e.insert_preamble("scx_bpf_dsq_insert", p, flags) {
        e.set_slice(id, slice);
        e.insert_commit(id, dsq_id, flags);
    }
}

extern "C" fn scx_bpf_dsq_insert_vtime(
    mut e: EnginePtr,
    p: u64,
    dsq_id: u64,
    slice: u64,
    vtime: u64,
    flags: u64,
) {
    let e = e.engine();
    if let Some(id) = e.insert_preamble("scx_bpf_dsq_insert_vtime", p, flags) {
        e.set_slice(id, slice);
        e.tasks[id.index()].kern.scx.dsq_vtime = vtime;
        e.insert_commit(id, dsq_id, flags | ENQ_DSQ_PRIQ);
    }
}

extern "C" fn scx_bpf_dispatch_nr_slots(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    if !e.require_context(IN_DISPATCH, "scx_bpf_dispatch_nr_slots") {
        return 0;
    }
    (e.ext.buffer.max_batch - e.ext.buffer.entries.len()) as u64
}

extern "C" fn scx_bpf_dispatch_cancel(mut e: EnginePtr) {
    let e = e.engine();
    let allowed = e.require_context(IN_DISPATCH, "scx_bpf_dispatch_cancel");
    if allowed && e.ext.buffer.entries.pop().is_none() {
        e.ext_error("dispatch buffer underflow".into());
    }
}

extern "C" fn scx_bpf_dsq_move_to_local(mut e: EnginePtr, dsq_id: u64) -> u64 {
    let e = e.engine();
    if !e.require_context(IN_DISPATCH, "scx_bpf_dsq_move_to_local") {
        return 0;
    }
    let cpu = e.exec_cpu;
    e.tell_dsq(dsq_id, true);
    e.flush_dispatch_buffer(cpu);
    let Some(slot) = e.ext.dsqs.find(dsq_id) else {
        e.ext_error(format!(
            "invalid DSQ ID {dsq_id:#018x}: scx_bpf_dsq_move_to_local() takes a DSQ that scx_bpf_create_dsq() made"
        ));
        return 0;
    };
    let consumed = e.consume(cpu, DsqRef::User(slot));
    // As in the kernel, a pass that consumed counts as one that found something.
    e.ext.buffer.nr_tasks += u32::from(consumed);
    u64::from(consumed)
}

/// From ops.cpu_release: tasks on the local DSQ go through ops.enqueue again, to find another CPU.
extern "C" fn scx_bpf_reenqueue_local(mut e: EnginePtr) -> u64 {
    let e = e.engine();
    if !e.require_context(IN_CPU_RELEASE, "scx_bpf_reenqueue_local") {
        return 0;
    }
    let cpu = e.exec_cpu;
    let mut ids = [TaskId::IDLE; 64];
    let mut count = 0;
    // In batches, because this frame may be abandoned and so owns no memory; tasks put back during
    // the walk are newer than its start and are skipped.
    let newest = e.rqs[cpu as usize].local.seq;
    loop {
        let mut n = 0;
        let mut at = e.rqs[cpu as usize].local.first();
        while let Some(id) = at {
            if e.tasks[id.index()].ext.dsq_seq <= newest && n < ids.len() {
                ids[n] = id;
                n += 1;
            }
            at = e.rqs[cpu as usize].local.neighbour(&e.tasks, id, false);
        }
        for id in &ids[..n] {
            e.unlink_from_dsq(*id);
            e.do_enqueue(cpu, *id, ENQ_REENQ, -1);
        }
        count += n as u64;
        if n < ids.len() {
            return count;
        }
    }
}

extern "C" fn scx_bpf_create_dsq(mut e: EnginePtr, dsq_id: u64, node: u64) -> i64 {
    let e = e.engine();
    if !e.require_context(IN_UNLOCKED, "scx_bpf_create_dsq") {
        return EINVAL;
    }
    let (node, nr_nodes) = (node as i32, e.topology.nr_nodes);
    let (error, why) = if dsq_id & DSQ_BUILTIN != 0 {
        (
            EINVAL,
            "ids with bit 63 set are reserved for built-in DSQs".to_owned(),
        )
    } else if node < -1 || node >= nr_nodes as i32 {
        let why =
            format!("node {node} does not exist; number of nodes: {nr_nodes}; -1 means any node");
        (EINVAL, why)
    } else if e.ext.dsqs.create(dsq_id).is_none() {
        (EEXIST, "a DSQ with this id already exists".to_owned())
    } else {
        return 0;
    };
    let refusal = format!("scx_bpf_create_dsq({dsq_id:#x}, {node}): {why}");
    e.ext.refusal = Some((error, refusal));
    error
}

extern "C" fn scx_bpf_destroy_dsq(mut e: EnginePtr, dsq_id: u64) {
    let e = e.engine();
    let Some(slot) = e.ext.dsqs.find(dsq_id) else {
        return;
    };
    if e.ext.dsqs.get(slot).is_empty() {
        e.ext.dsqs.destroy(dsq_id);
    } else {
        e.ext_error(format!("attempting to destroy in-use dsq {dsq_id:#018x}"));
    }
}

extern "C" fn scx_bpf_dsq_nr_queued(mut e: EnginePtr, dsq_id: u64) -> i64 {
    let e = e.engine();
    e.tell_dsq(dsq_id, false);
    if dsq_id == DSQ_LOCAL {
        return i64::from(e.rqs[e.exec_cpu as usize].local.len);
    }
    if dsq_id & DSQ_LOCAL_ON == DSQ_LOCAL_ON {
        let cpu = u64::from(dsq_id as u32);
        let Some(cpu) = e.valid_cpu(cpu, "scx_bpf_dsq_nr_queued") else {
            return ENOENT;
        };
        e.visit(cpu);
        return i64::from(e.rqs[cpu as usize].local.len);
    }
    match e.ext.dsqs.find(dsq_id) {
        Some(slot) => i64::from(e.ext.dsqs.get(slot).len),
        None => ENOENT,
    }
}

extern "C" fn scx_bpf_kick_cpu(mut e: EnginePtr, cpu: u64, flags: u64) {
    let e = e.engine();
    let Some(cpu) = e.valid_cpu(cpu, "scx_bpf_kick_cpu") else {
        return;
    };
    if flags & KICK_IDLE != 0 && flags & (KICK_PREEMPT | KICK_WAIT) != 0 {
        return e.ext_error(format!(
            "PREEMPT/WAIT cannot be used with SCX_KICK_IDLE (flags {flags:#x})"
        ));
    }
    e.kick(cpu, flags);
}

extern "C" fn scx_bpf_nr_node_ids(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    e.topology.nr_nodes as u64
}

extern "C" fn scx_bpf_nr_cpu_ids(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    e.rqs.len() as u64
}

extern "C" fn scx_bpf_get_possible_cpumask(mut e: EnginePtr) -> *const c_void {
    let e = e.engine_for_free();
    e.topology.online.as_ptr().cast()
}

extern "C" fn scx_bpf_get_online_cpumask(mut e: EnginePtr) -> *const c_void {
    let e = e.engine_for_free();
    e.topology.online.as_ptr().cast()
}

extern "C" fn scx_bpf_put_cpumask(_e: EnginePtr, _mask: u64) {}

impl Engine<'_> {
    /// `struct rq` of a CPU, brought up to date.
    fn kernel_rq(&mut self, cpu: u32) -> *const c_void {
        self.visit(cpu);
        let curr = self.rqs[cpu as usize].curr;
        let curr_ptr = self.tasks[curr.index()].kernel_ptr();
        let now = self.now;
        let rq = &mut self.rqs[cpu as usize];
        rq.kernel.curr = curr_ptr;
        rq.kernel.nr_running = rq.nr_running;
        rq.kernel.clock = now;
        rq.kernel.clock_task = now;
        std::ptr::from_ref(&*rq.kernel).cast()
    }
}

unsafe extern "C" fn scx_bpf_task_running(mut e: EnginePtr, p: u64) -> u64 {
    let e = e.engine_for_free();
    // SAFETY: the scheduler got the pointer from the engine.
    let Some(id) = (unsafe { task_id(e, p) }) else {
        return 0;
    };
    let cpu = e.tasks[id.index()].cpu;
    e.visit(cpu);
    u64::from(e.rqs[cpu as usize].curr == id)
}

unsafe extern "C" fn scx_bpf_task_cpu(mut e: EnginePtr, p: u64) -> i64 {
    let e = e.engine_for_free();
    // SAFETY: the scheduler got the pointer from the engine.
    let id = unsafe { task_id(e, p) };
    id.map_or(-1, |id| i64::from(e.tasks[id.index()].cpu))
}

extern "C" fn scx_bpf_cpu_rq(mut e: EnginePtr, cpu: u64) -> *const c_void {
    let e = e.engine_for_free();
    match e.valid_cpu(cpu, "scx_bpf_cpu_rq") {
        Some(cpu) => e.kernel_rq(cpu),
        None => std::ptr::null(),
    }
}

extern "C" fn scx_bpf_locked_rq(mut e: EnginePtr) -> *const c_void {
    let e = e.engine_for_free();
    match e.ext.ctx.locked_cpu {
        Some(cpu) => e.kernel_rq(cpu),
        None => {
            e.ext_error("accessing locked rq without holding rq lock".into());
            std::ptr::null()
        }
    }
}

/// The running task; for an idle CPU its idle task, as in the kernel.
extern "C" fn scx_bpf_cpu_curr(mut e: EnginePtr, cpu: u64) -> *const c_void {
    let e = e.engine_for_free();
    match e.valid_cpu(cpu, "scx_bpf_cpu_curr") {
        Some(cpu) => {
            e.visit(cpu);
            let curr = e.rqs[cpu as usize].curr;
            e.tasks[curr.index()].kernel_ptr().cast_const().cast()
        }
        None => std::ptr::null(),
    }
}

unsafe extern "C" fn scx_bpf_task_cgroup(mut e: EnginePtr, p: u64) -> *const c_void {
    let e = e.engine_for_free();
    // SAFETY: the scheduler got the pointer from the engine.
    let id = unsafe { task_id(e, p) };
    let subject = e.ext.ctx.subject;
    match id {
        Some(id) if id == subject && !id.is_idle() => {
            e.cgroups.kernel_ptr(e.tasks[id.index()].cgroup).cast()
        }
        _ => {
            e.ext_error("scx_bpf_task_cgroup() called on a task not being operated on".into());
            e.cgroups.kernel_ptr(0).cast()
        }
    }
}

extern "C" fn scx_bpf_now(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    e.now
}

extern "C" fn scx_bpf_cpuperf_cap(mut e: EnginePtr, cpu: u64) -> u64 {
    let e = e.engine_for_free();
    match e.valid_cpu(cpu, "scx_bpf_cpuperf_cap") {
        Some(cpu) => u64::from(e.machine.cpus[cpu as usize].capacity),
        None => 1024,
    }
}

/// The machine always runs at full frequency.
extern "C" fn scx_bpf_cpuperf_cur(mut e: EnginePtr, cpu: u64) -> u64 {
    let e = e.engine_for_free();
    let _ = e.valid_cpu(cpu, "scx_bpf_cpuperf_cur");
    1024
}

extern "C" fn scx_bpf_cpuperf_set(mut e: EnginePtr, cpu: u64, perf: u64) {
    let e = e.engine_for_free();
    if e.valid_cpu(cpu, "scx_bpf_cpuperf_set").is_some() && perf as u32 > 1024 {
        e.ext_error(format!(
            "invalid cpuperf target {} for CPU {}",
            perf as u32, cpu as u32
        ));
    }
}

unsafe extern "C" fn scx_bpf_exit_bstr(
    mut e: EnginePtr,
    code: u64,
    fmt: u64,
    data: u64,
    size: u64,
) {
    let e = e.engine();
    // SAFETY: the format and the arguments of the scheduler's call.
    let message = unsafe { format_args(e, fmt, data, size) };
    e.ext_exit(ExitKind::UnregBpf, code as i64, message);
}

unsafe extern "C" fn scx_bpf_error_bstr(mut e: EnginePtr, fmt: u64, data: u64, size: u64) {
    let e = e.engine();
    // SAFETY: the format and the arguments of the scheduler's call.
    let message = unsafe { format_args(e, fmt, data, size) };
    e.ext_exit(ExitKind::ErrorBpf, 0, message);
}

unsafe extern "C" fn scx_bpf_dump_bstr(mut e: EnginePtr, fmt: u64, data: u64, size: u64) {
    let e = e.engine();
    // SAFETY: the format and the arguments of the scheduler's call.
    let text = unsafe { format_args(e, fmt, data, size) };
    e.ext.bpf.dump.push_str(&text);
}
