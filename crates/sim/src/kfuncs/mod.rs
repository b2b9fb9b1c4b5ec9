// SPDX-License-Identifier: GPL-2.0-or-later
//! What scheduler code calls: kernel functions and BPF helpers of the reference kernel.
//!
//! Every function gets the engine as a hidden first argument and integers zero-extended to 64 bits.
//!
//! A verifier would vouch for the pointers that the scheduler passes; the simulated machine has none. What is written
//! through one was checked by the build: it lies in the scheduler's own memory (build/src/rewrite/guard.rs). What is
//! read through one may be anything, and is checked where the engine relies on it; an address without memory faults,
//! which ends the callback. That abandons the frames between the scheduler and the engine, so no function here holds
//! anything that needs dropping while it follows one of these pointers.

mod access;
mod cpumask;
mod generic;
mod guard;
mod helpers;
mod idle;
mod iter;
mod racing;
mod scx;
mod state;
mod storage;

pub use access::{Accesses, callback_names, grow_lines};
pub use racing::{Checked, Race, Side};
pub use state::Bpf;

use crate::engine::{Engine, RunError};
use crate::task::{Task, TaskId};
use std::ffi::c_void;

/// The hidden first argument. Only [`Engine::call_bpf`] hands one out, through the scheduler's code, to the functions
/// here: so each holds the only way to the engine, which nothing else touches until the function returns or calls the
/// scheduler's code in turn.
#[repr(transparent)]
pub(crate) struct EnginePtr(*mut Engine<'static>);

impl EnginePtr {
    /// The engine, after charging it for one more call.
    fn engine(&mut self) -> &mut Engine<'static> {
        let engine = self.engine_for_free();
        engine.charge_call(engine.machine.costs.kfunc_ns);
        engine
    }

    /// The engine, for functions that only read or flip a word: in a kernel they cost no more than the
    /// instructions of the call, which the scheduler's own count includes.
    fn engine_for_free(&mut self) -> &mut Engine<'static> {
        // SAFETY: `call_bpf` made the pointer from its exclusive reference, which it does not use before the call
        // returns. There is one `EnginePtr` for each call of a function, and this borrows it: no two references exist
        // at a time. Callbacks of the scheduler's are called without one. The lifetime stands for that of the run,
        // which outlives the call.
        unsafe { &mut *self.0 }
    }
}

impl Engine<'_> {
    /// Charges the current callback for what it calls.
    pub(crate) fn charge_call(&mut self, ns: u64) {
        self.ext.kfunc_ns += ns;
    }
}

/// The task behind a `struct task_struct *` that the engine handed out; `None` for NULL. Anything else ends the run.
///
/// # Safety
/// Called from scheduler code, which ends if `ptr` cannot be read.
pub(crate) unsafe fn task_id(e: &mut Engine, ptr: u64) -> Option<TaskId> {
    if ptr == 0 {
        return None;
    }
    // SAFETY: the caller's promise.
    let id = unsafe { task_at(e, ptr) };
    if id.is_none() {
        no_task(e, ptr);
    }
    id
}

/// The task whose memory begins at this address.
///
/// # Safety
/// As [`task_id`].
unsafe fn task_at(e: &Engine, ptr: u64) -> Option<TaskId> {
    let task = ptr as *const Task;
    // SAFETY: whatever is read is checked; a wild pointer ends the callback like any other read.
    let id = unsafe { (&raw const (*task).id).read_unaligned() };
    let found = e.tasks.get(id.index())?;
    std::ptr::eq(found, task).then_some(id)
}

#[cold]
fn no_task(e: &mut Engine, ptr: u64) {
    e.fail(RunError::Scheduler(format!(
        "a kernel function was called with {ptr:#x}, which is no task"
    )));
}

/// A kernel function: the kernel's name for it, and its address.
type Entry = (&'static str, fn() -> *const c_void);
/// A BPF helper: its number, and its address.
type Helper = (u32, fn() -> *const c_void);

macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), || $name as *const std::ffi::c_void)),*]
    };
}
pub(crate) use functions;

fn find(name: &str) -> Option<*const c_void> {
    let tables = [
        access::FUNCTIONS,
        guard::FUNCTIONS,
        scx::FUNCTIONS,
        idle::FUNCTIONS,
        iter::FUNCTIONS,
        cpumask::FUNCTIONS,
        generic::FUNCTIONS,
    ];
    let entry = tables
        .iter()
        .flat_map(|t| t.iter())
        .find(|(n, _)| *n == name);
    entry.map(|(_, address)| address())
}

/// Address of a kernel function by the kernel's name for it.
pub fn kfunc_address(name: &str) -> Option<*const c_void> {
    find(name)
}

/// Address of a BPF helper by its number.
pub fn helper_address(number: u32) -> Option<*const c_void> {
    helpers::HELPERS
        .iter()
        .chain(storage::HELPERS)
        .find(|(n, _)| *n == number)
        .map(|(_, address)| address())
}

/// Names of all kernel functions that the simulated kernel has.
pub fn bound_kfuncs() -> impl Iterator<Item = &'static str> {
    let tables: [&[Entry]; 5] = [
        scx::FUNCTIONS,
        idle::FUNCTIONS,
        iter::FUNCTIONS,
        cpumask::FUNCTIONS,
        generic::FUNCTIONS,
    ];
    tables.into_iter().flatten().map(|(name, _)| *name)
}

/// Numbers of all BPF helpers that it has.
pub fn bound_helpers() -> impl Iterator<Item = u32> {
    helpers::HELPERS
        .iter()
        .chain(storage::HELPERS)
        .map(|(number, _)| *number)
}
