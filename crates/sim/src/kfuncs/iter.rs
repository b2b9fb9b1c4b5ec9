// SPDX-License-Identifier: GPL-2.0-or-later
//! Iterators that live in the scheduler's own memory, and moves of tasks found by them.

use super::{EnginePtr, Entry, functions, task_id};
use crate::engine::Engine;
use crate::ext::dsq::Dsq;
use crate::ext::enqueue::{ENQ_CLEAR_OPSS, ENQ_DSQ_PRIQ};
use crate::ext::flags::*;
use crate::ext::ops::{IN_DISPATCH, IN_UNLOCKED};
use crate::task::{DsqRef, TaskId};
use std::ffi::c_void;
use std::ptr::null;

pub(super) const FUNCTIONS: &[Entry] = functions![
    bpf_iter_scx_dsq_new,
    bpf_iter_scx_dsq_next,
    bpf_iter_scx_dsq_destroy,
    scx_bpf_dsq_move,
    scx_bpf_dsq_move_vtime,
    scx_bpf_dsq_move_set_slice,
    scx_bpf_dsq_move_set_vtime,
];

/// `struct bpf_iter_scx_dsq`: six u64. All state is in here, so an abandoned iterator costs nothing.
#[repr(C)]
struct DsqIter {
    /// Slot of the DSQ + 1, 0 when there is none.
    dsq: u32,
    /// [`REVERSE`], [`HAS_SLICE`], [`HAS_VTIME`], [`STARTED`].
    flags: u16,
    _unused: u16,
    /// Newest insertion when the iteration began: later ones are not visited.
    newest: u64,
    /// Position of the last visited task.
    order: i64,
    /// Its insertion number (low half) and pid (high half): enough to check that it is still where it was.
    at: u64,
    slice: u64,
    vtime: u64,
}

const REVERSE: u16 = 1;
const HAS_SLICE: u16 = 2;
const HAS_VTIME: u16 = 4;
const STARTED: u16 = 8;
/// SCX_DSQ_ITER_REV
const ITER_REV: u64 = 1 << 16;

impl DsqIter {
    /// # Safety
    /// `it` is an iterator variable of the scheduler's.
    unsafe fn from<'a>(it: *mut c_void) -> &'a mut DsqIter {
        // SAFETY: the caller's promise; the variable is as large and aligned as six u64.
        unsafe { &mut *it.cast::<DsqIter>() }
    }

    fn next(&mut self, engine: &Engine) -> Option<TaskId> {
        // The scheduler's memory may hold anything.
        let dsq = engine.ext.dsqs.lookup(self.dsq.checked_sub(1)?)?;
        let reverse = self.flags & REVERSE != 0;
        let mut found = self.resume(engine, dsq, reverse);
        while let Some(id) = found {
            let ext = &engine.tasks[id.index()].ext;
            if ext.dsq_seq <= self.newest {
                self.flags |= STARTED;
                self.order = ext.dsq_order;
                self.at = (ext.dsq_seq & 0xffff_ffff) | (u64::from(id.0) << 32);
                return Some(id);
            }
            found = dsq.neighbour(&engine.tasks, id, reverse);
        }
        None
    }

    fn resume(&self, engine: &Engine, dsq: &Dsq, reverse: bool) -> Option<TaskId> {
        if self.flags & STARTED == 0 {
            return if reverse { dsq.last() } else { dsq.first() };
        }
        let last = TaskId((self.at >> 32) as u32);
        let ext = &engine.tasks.get(last.index())?.ext;
        let still_there = ext.dsq == Some(DsqRef::User(self.dsq - 1))
            && ext.dsq_seq & 0xffff_ffff == self.at & 0xffff_ffff;
        if still_there {
            dsq.neighbour(&engine.tasks, last, reverse)
        } else {
            dsq.beyond(&engine.tasks, self.order, self.at & 0xffff_ffff, reverse)
        }
    }
}

unsafe extern "C" fn bpf_iter_scx_dsq_new(
    mut e: EnginePtr,
    it: *mut c_void,
    dsq_id: u64,
    flags: u64,
) -> i64 {
    let e = e.engine();
    // SAFETY: the scheduler's own iterator variable.
    let it = unsafe { DsqIter::from(it) };
    *it = DsqIter {
        dsq: 0,
        flags: 0,
        _unused: 0,
        newest: 0,
        order: 0,
        at: 0,
        slice: 0,
        vtime: 0,
    };
    if flags & !ITER_REV != 0 {
        return EINVAL;
    }
    e.tell_dsq(dsq_id, false);
    let Some(slot) = e.ext.dsqs.find(dsq_id) else {
        return ENOENT;
    };
    it.dsq = slot + 1;
    it.newest = e.ext.dsqs.get(slot).seq;
    it.flags = if flags & ITER_REV != 0 { REVERSE } else { 0 };
    0
}

unsafe extern "C" fn bpf_iter_scx_dsq_next(mut e: EnginePtr, it: *mut c_void) -> *const c_void {
    let e = e.engine();
    // SAFETY: the scheduler's own iterator variable, set by `new`.
    let it = unsafe { DsqIter::from(it) };
    e.charge_step();
    if let Some(slot) = it.dsq.checked_sub(1) {
        e.lock_dsq(DsqRef::User(slot));
        e.unlock_dsq(DsqRef::User(slot));
    }
    it.next(e).map_or(null(), |id| {
        e.tasks[id.index()].kernel_ptr().cast_const().cast()
    })
}

extern "C" fn bpf_iter_scx_dsq_destroy(_e: EnginePtr, _it: *mut c_void) {}

unsafe extern "C" fn scx_bpf_dsq_move_set_slice(_e: EnginePtr, it: *mut c_void, slice: u64) {
    // SAFETY: the scheduler's own iterator variable, set by `new`.
    let it = unsafe { DsqIter::from(it) };
    it.slice = slice;
    it.flags |= HAS_SLICE;
}

unsafe extern "C" fn scx_bpf_dsq_move_set_vtime(_e: EnginePtr, it: *mut c_void, vtime: u64) {
    // SAFETY: the scheduler's own iterator variable, set by `new`.
    let it = unsafe { DsqIter::from(it) };
    it.vtime = vtime;
    it.flags |= HAS_VTIME;
}

unsafe extern "C" fn scx_bpf_dsq_move(
    mut e: EnginePtr,
    it: *mut c_void,
    p: u64,
    dsq_id: u64,
    flags: u64,
) -> u64 {
    // SAFETY: the scheduler's own iterator variable, set by `new`.
    let it = unsafe { DsqIter::from(it) };
    u64::from(e.engine().dsq_move(it, p, dsq_id, flags))
}

unsafe extern "C" fn scx_bpf_dsq_move_vtime(
    mut e: EnginePtr,
    it: *mut c_void,
    p: u64,
    dsq_id: u64,
    flags: u64,
) -> u64 {
    // SAFETY: the scheduler's own iterator variable, set by `new`.
    let it = unsafe { DsqIter::from(it) };
    u64::from(e.engine().dsq_move(it, p, dsq_id, flags | ENQ_DSQ_PRIQ))
}

impl Engine<'_> {
    /// `scx_dsq_move()`: at once, not buffered. The task must still be on the iterated DSQ since before the
    /// iteration began.
    fn dsq_move(&mut self, it: &mut DsqIter, p: u64, dsq_id: u64, flags: u64) -> bool {
        let own = it.flags;
        it.flags &= !(HAS_SLICE | HAS_VTIME);
        if self.ext.ctx.bit() & (IN_DISPATCH | IN_UNLOCKED) == 0 {
            self.require_context(IN_DISPATCH | IN_UNLOCKED, "scx_bpf_dsq_move");
            return false;
        }
        // SAFETY: the scheduler got the pointer from the engine.
        let (Some(id), Some(slot)) = (unsafe { task_id(self, p) }, it.dsq.checked_sub(1)) else {
            return false;
        };
        let task = &mut self.tasks[id.index()];
        if task.ext.dsq != Some(DsqRef::User(slot)) || task.ext.dsq_seq > it.newest {
            return false;
        }
        if own & HAS_SLICE != 0 {
            task.kern.scx.slice = it.slice;
        }
        if own & HAS_VTIME != 0 {
            task.kern.scx.dsq_vtime = it.vtime;
        }
        if let Some(dsq) = self.ext.dsqs.lookup_mut(slot) {
            dsq.taken += 1;
        }
        self.tell_dsq(dsq_id, true);
        let (outer, of_task) = (self.rq_locks.innermost(), self.tasks[id.index()].cpu);
        match outer {
            Some(outer) => self.relock_rq(outer, of_task),
            None => self.lock_rq(of_task),
        }
        self.move_between_dsqs(id, dsq_id, flags);
        match outer {
            Some(outer) => self.relock_rq(of_task, outer),
            None => self.unlock_rq(of_task),
        }
        true
    }

    /// `move_task_between_dsqs()`, with the task's runqueue locked before and after.
    fn move_between_dsqs(&mut self, id: TaskId, dsq_id: u64, flags: u64) {
        let here = self.exec_cpu;
        match self.find_dsq_for_dispatch(here, dsq_id, id) {
            DsqRef::Local(target) => {
                let from = self.tasks[id.index()].cpu;
                if from != target && !self.require_remote(id, target) {
                    self.unlink_from_dsq(id);
                    let global = self.global_dsq_of(id);
                    return self.dispatch_enqueue(global, id, flags | ENQ_CLEAR_OPSS);
                }
                self.unlink_from_dsq(id);
                // Within one runqueue the reference kernel neither preempts nor wakes the CPU.
                if from == target {
                    self.insert_local_quietly(target, id, flags);
                } else {
                    self.dispatch_to_local(from, target, id, flags);
                }
            }
            dsq => {
                self.unlink_from_dsq(id);
                self.dispatch_enqueue(dsq, id, flags | ENQ_CLEAR_OPSS);
            }
        }
    }

    fn insert_local_quietly(&mut self, cpu: u32, id: TaskId, flags: u64) {
        use crate::ext::dsq::Position;
        let place = if flags & (ENQ_HEAD | ENQ_PREEMPT) != 0 {
            Position::Head
        } else {
            Position::Tail
        };
        let rq = &mut self.rqs[cpu as usize];
        // A local DSQ is always a FIFO.
        let _ = rq.local.insert(&mut self.tasks, id, place);
        self.tasks[id.index()].ext.dsq = Some(DsqRef::Local(cpu));
    }
}
