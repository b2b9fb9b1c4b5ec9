// SPDX-License-Identifier: GPL-2.0-or-later
//! A private, callable copy of a scheduler object.

use crate::object::Object;
use std::ffi::c_void;

/// An op, a timer callback or any other entry point of the scheduler.
/// Its one argument is an array of eight u64, unused ones zero, as in BPF's context of a struct_ops program.
pub type EntryPoint = unsafe extern "C" fn(*mut u64) -> u64;

/// A value for a tunable or another global.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i128),
    Bytes(Vec<u8>),
}

/// Why a call into the scheduler did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crash {
    #[error("invalid memory access at address {address:#x}")]
    Fault { address: u64 },
    #[error("ran for more than {limit} instructions without returning")]
    Runaway { limit: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("unknown tunable '{name}'; it has: {known}")]
    UnknownGlobal { name: String, known: String },
    #[error("value {value} does not fit tunable '{name}' ({bytes} bytes)")]
    ValueRange { name: String, value: String, bytes: u64 },
    #[error("needs {0}, which the simulated kernel does not have")]
    Unbound(String),
    #[error("cannot load the object: {0}")]
    Dlopen(String),
}

/// One scheduler in one simulated machine: its globals are its own.
pub struct Instance {
    _private: (),
}

impl Instance {
    /// Loads a private copy of `object` after writing `globals` (by name: tunables, other globals) into its image.
    pub fn load(_object: &Object, _globals: &[(String, Value)]) -> Result<Instance, LoadError> {
        todo!()
    }

    /// Gives every kernel function and helper that the scheduler calls an address. Each is called with the engine
    /// pointer of [`Instance::set_engine`] as a hidden first argument. A missing one is an error with its name,
    /// unless the scheduler only asks whether it exists.
    pub fn bind(
        &mut self,
        _kfunc: &dyn Fn(&str) -> Option<*const c_void>,
        _helper: &dyn Fn(u32) -> Option<*const c_void>,
    ) -> Result<(), LoadError> {
        todo!()
    }

    /// Sets the hidden first argument of kernel functions and helpers.
    #[inline]
    pub fn set_engine(&self, _engine: *mut c_void) {
        todo!()
    }

    /// Address of a symbol of the object (functions, maps, globals), `None` if there is none.
    pub fn symbol(&self, _name: &str) -> Option<*mut u8> {
        todo!()
    }

    /// Calls an entry point under guard: a wild pointer or an endless loop comes back as [`Crash`].
    ///
    /// # Safety
    /// `entry` is a function of this instance, kfuncs are bound, the engine pointer is valid for what they do with
    /// it, and `args` are what the entry point expects.
    #[inline]
    pub unsafe fn call(&self, _entry: EntryPoint, _args: &mut [u64; 8]) -> Result<u64, Crash> {
        todo!()
    }

    /// The same for a callback of (u64, u64, u64), as bpf_timer, bpf_loop and bpf_for_each_map_elem have them.
    ///
    /// # Safety
    /// As [`Instance::call`].
    pub unsafe fn call3(&self, _entry: *const c_void, _args: [u64; 3]) -> Result<u64, Crash> {
        todo!()
    }

    /// Instructions that the scheduler has executed since it was loaded: counted per basic block of the very IR
    /// that the kernel object is made from, so the figure is the same on every host and at every optimisation level.
    #[inline]
    pub fn work_insns(&self) -> u64 {
        todo!()
    }
}
