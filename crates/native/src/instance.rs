// SPDX-License-Identifier: GPL-2.0-or-later
//! A private, callable copy of a scheduler object.

use crate::fault::{self, Guard};
use crate::helpers;
use crate::image::{self, Mapped, Symbol};
use crate::lines::{LINE_BYTES, LineMemory, LineTable};
use crate::object::{ASK_STORE, Global, GlobalKind, Object};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// An op, a timer callback or any other entry point of the scheduler.
/// Its one argument is an array of eight u64, unused ones zero, as in BPF's context of a struct_ops program.
pub type EntryPoint = unsafe extern "C" fn(*mut u64) -> u64;

/// Instructions that one call may execute unless [`Instance::set_work_limit`] says otherwise. Well above the
/// 8 Mi iterations that the kernel grants an open-ended loop (may_goto), and found out within a second.
pub const WORK_LIMIT_INSNS: u64 = 1 << 29;

/// As in runtime.c.
const STACK_BYTES: u64 = 65_536;

/// Most bytes of one value that the code stores.
const SHORT_BYTES: u64 = 8;

/// A value for a tunable or another global.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i128),
    /// The first elements of an array of numbers.
    Ints(Vec<i128>),
    Bytes(Vec<u8>),
}

/// Why a call into the scheduler did not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crash {
    #[error("invalid memory access")]
    Fault { address: u64 },
    #[error("{access} outside of its memory, at offset {offset}")]
    Outside { access: u32, offset: u64 },
    #[error("ran for more than {limit} instructions without returning")]
    Runaway { limit: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("unknown tunable '{name}'; it has: {known}")]
    UnknownGlobal { name: String, known: String },
    #[error("value {value} does not fit tunable '{name}': it takes {takes}")]
    ValueRange {
        name: String,
        value: String,
        takes: String,
    },
    #[error("tunable '{name}' ({elements} x {bytes} bytes) does not take {value}: {why}")]
    Array {
        name: String,
        value: String,
        why: &'static str,
        elements: u64,
        bytes: u64,
    },
    #[error("needs {0}, which the simulated kernel does not have")]
    Unbound(String),
    #[error("cannot load the object: {0}")]
    Dlopen(String),
}

type Call = unsafe extern "C" fn(*const c_void, u64, u64, u64, *mut u64) -> c_int;

/// tilt_touch_word: address, how.
type Touch = unsafe extern "C" fn(u64, u64);

/// One scheduler in one simulated machine: its globals are its own. One thread at a time may use it, any thread.
#[derive(Debug)]
pub struct Instance {
    call: Call,
    guard: Box<Guard>,
    engine: *mut *mut c_void,
    work_insns: *mut u64,
    call_limit: *mut u64,
    place: *mut u32,
    maps: [*mut u64; 3],
    lines: *mut LineTable,
    /// What `lines` refers to until the engine has another table.
    _one_core: Option<LineMemory>,
    waited_ns: *mut u64,
    touch: Touch,
    own_start: *const u64,
    refused: *const u32,
    offset: *const u64,
    symbols: HashMap<String, Symbol>,
    kfuncs: Vec<String>,
    helpers: Vec<u32>,
    mapped: Mapped,
}

// SAFETY: all pointers lead into the instance's own mapping, which no other instance and no thread local refers to
// between calls.
unsafe impl Send for Instance {}

impl Instance {
    /// Loads a private copy of `object` after writing `globals` (by name: tunables, other globals) into its image.
    pub fn load(object: &Object, globals: &[(String, Value)]) -> Result<Instance, LoadError> {
        let symbols = image::symbols(&object.image)?;
        let mut image = object.image.clone();
        let mut later = Vec::new();
        for (name, value) in globals {
            let global = find_global(object, name)?;
            let bytes = encode(name, global, value)?;
            let symbol = find_symbol(&symbols, &global.symbol)?;
            match symbol.file_offset {
                Some(at) => image[at..at + bytes.len()].copy_from_slice(&bytes),
                None => later.push((symbol.address, bytes)),
            }
        }
        let writable = image::writable(&image)?;
        let call = find_symbol(&symbols, "tilt_call")?.address;
        let mapped = Mapped::new(&image, ("tilt_call", call))?;
        for (address, bytes) in later {
            // SAFETY: zero-initialised data is writable and `encode` made the bytes fit the variable.
            unsafe {
                mapped
                    .base
                    .add(address as usize)
                    .copy_from(bytes.as_ptr(), bytes.len())
            };
        }
        let mut instance = Instance::wire(object, symbols, mapped)?;
        instance.set_writable(writable)?;
        instance.set_one_core();
        Ok(instance)
    }

    /// Finds the runtime's own variables (runtime.c) in a mapped image.
    fn wire(
        object: &Object,
        symbols: HashMap<String, Symbol>,
        mapped: Mapped,
    ) -> Result<Instance, LoadError> {
        let at = |name: &str| {
            Ok(mapped
                .base
                .wrapping_add(find_symbol(&symbols, name)?.address as usize))
        };
        // SAFETY: these are the types with which runtime.c defines the symbols.
        let (call, unwind, touch) = unsafe {
            (
                std::mem::transmute::<*mut u8, Call>(at("tilt_call")?),
                std::mem::transmute::<*mut u8, unsafe extern "C" fn(c_int) -> !>(at(
                    "tilt_unwind",
                )?),
                std::mem::transmute::<*mut u8, Touch>(at("tilt_touch_word")?),
            )
        };
        let instance = Instance {
            call,
            guard: Box::new(Guard {
                top: at("tilt_top")?.cast(),
                unwind,
                address: Cell::new(0),
            }),
            engine: at("tilt_engine")?.cast(),
            work_insns: at("tilt_work")?.cast(),
            call_limit: at("tilt_call_limit")?.cast(),
            place: at("tilt_place")?.cast(),
            maps: [
                at("tilt_maps_start")?.cast(),
                at("tilt_maps_bytes")?.cast(),
                at("tilt_maps_short")?.cast(),
            ],
            lines: at("tilt_lines")?.cast(),
            _one_core: None,
            waited_ns: at("tilt_waited_ns")?.cast(),
            touch,
            own_start: at("tilt_own_start")?.cast(),
            refused: at("tilt_refused")?.cast(),
            offset: at("tilt_offset")?.cast(),
            kfuncs: object.kfuncs.clone(),
            helpers: object.helpers.clone(),
            symbols,
            mapped,
        };
        instance.set_work_limit(WORK_LIMIT_INSNS);
        Ok(instance)
    }

    /// The range of the scheduler's own variables, as offsets; the runtime's must not be in it.
    fn set_writable(&self, range: Range<u64>) -> Result<(), LoadError> {
        let at = |name: &str| Ok::<u64, LoadError>(find_symbol(&self.symbols, name)?.address);
        for name in ["tilt_top", "tilt_kfuncs", "tilt_helpers", "tilt_sp"] {
            if range.contains(&at(name)?) {
                return Err(LoadError::Dlopen(format!(
                    "'{name}' lies between the scheduler's variables"
                )));
            }
        }
        let start = self.mapped.base as u64 + range.start;
        let values = [
            ("tilt_own_start", start),
            ("tilt_own_bytes", range.end - range.start),
            ("tilt_own_short", starts(range.end - range.start)),
        ];
        let stack = at("tilt_stack")?;
        if range.end != stack + STACK_BYTES {
            return Err(LoadError::Dlopen(
                "the stack is not the last of the scheduler's variables".to_owned(),
            ));
        }
        for (name, value) in values {
            let address = self.mapped.base.wrapping_add(at(name)? as usize);
            // SAFETY: the runtime's own variables, of this type.
            unsafe { *address.cast::<u64>() = value };
        }
        Ok(())
    }

    /// Caches cost nothing as yet.
    fn set_one_core(&mut self) {
        let [own, _] = self.lines();
        let mut memory = LineMemory::new(1, own.start, (own.end - own.start) as usize);
        // SAFETY: the instance's own variable.
        unsafe { self.lines.write(LineTable::of_one_core(&mut memory)) };
        self._one_core = Some(memory);
    }

    /// Where values of maps are: besides its variables, all that the scheduler may write.
    pub fn set_map_memory(&self, range: Range<usize>) {
        // SAFETY: the instance's own variables.
        unsafe {
            *self.maps[0] = range.start as u64;
            *self.maps[1] = range.len() as u64;
            *self.maps[2] = starts(range.len() as u64);
        }
    }

    /// Numbers of the lines of the scheduler's variables, and of the memory that [`Instance::set_map_memory`] was given before.
    /// Only one CPU sees the stack, so its lines are not among them.
    pub fn lines(&self) -> [Range<u64>; 2] {
        let stack = self.symbol("tilt_stack").expect("part of the runtime") as u64;
        // SAFETY: the instance's own variables.
        let (start, values, bytes) = unsafe { (*self.own_start, *self.maps[0], *self.maps[1]) };
        let all = [start..stack, values..values + bytes];
        all.map(|range| range.start / LINE_BYTES..range.end.div_ceil(LINE_BYTES))
    }

    /// The table in which the code looks up each access. What it refers to must stay valid while the instance is called.
    pub fn line_table(&self) -> *mut LineTable {
        self.lines
    }

    /// Looks up an access to a word of one line in [`Instance::line_table`], as the code does for its own accesses.
    ///
    /// # Safety
    /// Called by what the scheduler's code has called, which holds no reference to the engine.
    pub unsafe fn touch(&self, address: u64, how: u64) {
        // SAFETY: the runtime's own function.
        unsafe { (self.touch)(address, how) }
    }

    /// How long the code has waited for lines since [`Instance::forget_waits`].
    #[inline]
    pub fn waited_ns(&self) -> u64 {
        // SAFETY: the instance's own variable.
        unsafe { *self.waited_ns }
    }

    #[inline]
    pub fn forget_waits(&self) {
        // SAFETY: the instance's own variable.
        unsafe { *self.waited_ns = 0 }
    }

    /// Line of the source that the scheduler was at last, for [`Object::place`].
    pub fn place(&self) -> u32 {
        // SAFETY: the instance's own variable.
        unsafe { self.place.read_volatile() }
    }

    /// Leaves the innermost call into the scheduler, which comes back as [`Crash::Outside`].
    ///
    /// # Safety
    /// Called by what the scheduler's code has called; nothing between holds anything that needs dropping.
    pub unsafe fn refuse(&self, address: u64, access: u32) -> ! {
        type Outside = unsafe extern "C" fn(u64, u32) -> !;
        let outside = self.symbol("tilt_outside").expect("part of the runtime");
        // SAFETY: the runtime's function of this type.
        unsafe { std::mem::transmute::<*mut u8, Outside>(outside)(address, access) }
    }

    /// Gives every kernel function and helper that the scheduler calls an address. Each is called with the engine
    /// pointer of [`Instance::set_engine`] as a hidden first argument; integer arguments arrive zero-extended to 64
    /// bits. A missing one is an error with its name, unless the scheduler only asks whether it exists.
    pub fn bind(
        &mut self,
        kfunc: &dyn Fn(&str) -> Option<*const c_void>,
        helper: &dyn Fn(u32) -> Option<*const c_void>,
    ) -> Result<(), LoadError> {
        let kfuncs: Vec<_> = self
            .kfuncs
            .iter()
            .map(|name| {
                kfunc(name)
                    .or_else(|| unchecked(name))
                    .ok_or_else(|| LoadError::Unbound(name.clone()))
            })
            .collect::<Result<_, _>>()?;
        let helpers: Vec<_> = self
            .helpers
            .iter()
            .map(|&id| helper(id).ok_or_else(|| LoadError::Unbound(helpers::describe(id))))
            .collect::<Result<_, _>>()?;
        self.fill("tilt_kfuncs", &kfuncs)?;
        self.fill("tilt_helpers", &helpers)
    }

    fn fill(&mut self, table: &str, entries: &[*const c_void]) -> Result<(), LoadError> {
        let at = self
            .symbol(table)
            .ok_or_else(|| LoadError::Dlopen(format!("no symbol '{table}'")))?;
        // SAFETY: the build gave the table one slot for each name in the object.
        unsafe {
            at.cast::<*const c_void>()
                .copy_from(entries.as_ptr(), entries.len())
        };
        Ok(())
    }

    /// Sets the hidden first argument of kernel functions and helpers; returns the previous one, null at first.
    #[inline]
    pub fn set_engine(&self, engine: *mut c_void) -> *mut c_void {
        // SAFETY: the instance's own variable.
        unsafe { std::mem::replace(&mut *self.engine, engine) }
    }

    /// Sets how many instructions one outermost call may execute before it comes back as [`Crash::Runaway`].
    pub fn set_work_limit(&self, limit_insns: u64) {
        // SAFETY: the instance's own variable.
        unsafe { *self.call_limit = limit_insns }
    }

    /// Address of a symbol of the object (functions, maps, globals), `None` if there is none.
    pub fn symbol(&self, name: &str) -> Option<*mut u8> {
        self.symbols
            .get(name)
            .map(|s| self.mapped.base.wrapping_add(s.address as usize))
    }

    /// Calls an entry point under guard: a wild pointer or an endless loop comes back as [`Crash`]. The kfuncs
    /// between the entry point and the crash are abandoned without running destructors; the instance's own state is
    /// whatever the scheduler had made of it.
    ///
    /// # Safety
    /// `entry` is a function of this instance, kfuncs are bound, the engine pointer is valid for what they do with
    /// it, and `args` are what the entry point expects. A kfunc that follows a pointer of the scheduler's holds
    /// nothing that needs dropping.
    #[inline]
    pub unsafe fn call(&self, entry: EntryPoint, args: &mut [u64; 8]) -> Result<u64, Crash> {
        // SAFETY: as the caller promises.
        unsafe { self.guarded(entry as *const c_void, [args.as_mut_ptr() as u64, 0, 0]) }
    }

    /// The same for a callback of (u64, u64, u64), as bpf_timer, bpf_loop and bpf_for_each_map_elem have them.
    ///
    /// # Safety
    /// As [`Instance::call`].
    pub unsafe fn call3(&self, entry: *const c_void, args: [u64; 3]) -> Result<u64, Crash> {
        // SAFETY: as the caller promises.
        unsafe { self.guarded(entry, args) }
    }

    #[inline]
    unsafe fn guarded(&self, entry: *const c_void, args: [u64; 3]) -> Result<u64, Crash> {
        let mut result = 0;
        // SAFETY: pointers into the own mapping; `tilt_call` calls `entry` as the caller promises it can be.
        let status = unsafe {
            let outer = fault::enter(&raw const *self.guard);
            // A crash before the code has said where it is has no place, rather than that of another callback.
            self.place.write(0);
            let status = (self.call)(entry, args[0], args[1], args[2], &mut result);
            fault::leave(outer);
            status
        };
        match status {
            0 => Ok(result),
            fault::STATUS_FAULT => Err(Crash::Fault {
                address: self.guard.address.get(),
            }),
            // SAFETY: the instance's own variables.
            fault::STATUS_OUTSIDE => Err(unsafe {
                Crash::Outside {
                    access: *self.refused,
                    offset: *self.offset,
                }
            }),
            _ => Err(Crash::Runaway {
                // SAFETY: the instance's own variable.
                limit: unsafe { *self.call_limit },
            }),
        }
    }

    /// Instructions that the scheduler has executed since it was loaded, in calls that have returned: counted per basic block of the very IR
    /// that the kernel object is made from, so the figure is the same on every host and at every optimisation level.
    #[inline]
    pub fn work_insns(&self) -> u64 {
        // SAFETY: the instance's own variable.
        unsafe { *self.work_insns }
    }
}

/// How far into a range a value may begin: all of it must lie inside.
fn starts(bytes: u64) -> u64 {
    bytes.saturating_sub(SHORT_BYTES - 1)
}

/// Who binds nothing to [`ASK_STORE`] has no memory to protect.
fn unchecked(name: &str) -> Option<*const c_void> {
    extern "C" fn any(_engine: *mut c_void, _address: u64, _bytes: u64, _access: u64) {}
    (name == ASK_STORE).then_some(any as *const c_void)
}

fn find_symbol(symbols: &HashMap<String, Symbol>, name: &str) -> Result<Symbol, LoadError> {
    symbols
        .get(name)
        .copied()
        .ok_or_else(|| LoadError::Dlopen(format!("no symbol '{name}'")))
}

fn find_global<'a>(object: &'a Object, name: &str) -> Result<&'a Global, LoadError> {
    object
        .tunables
        .get(name)
        .or_else(|| object.globals.get(name))
        .ok_or_else(|| LoadError::UnknownGlobal {
            name: name.to_owned(),
            known: object
                .tunables
                .keys()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

impl Object {
    /// Whether the tunable `name` can have this value: what a load would find out.
    pub fn check_value(&self, name: &str, value: &Value) -> Result<(), LoadError> {
        encode(name, find_global(self, name)?, value).map(drop)
    }
}

/// The bytes of `value` as they lie in memory; an error when the variable cannot hold it.
fn encode(name: &str, global: &Global, value: &Value) -> Result<Vec<u8>, LoadError> {
    let (fits, text) = match value {
        Value::Bytes(bytes) => (
            bytes.len() as u64 <= global.size,
            format!("of {} bytes", bytes.len()),
        ),
        Value::Int(int) => (fits(*int, global.kind, global.size), int.to_string()),
        Value::Ints(ints) => return encode_array(name, global, ints),
    };
    if !fits {
        return Err(LoadError::ValueRange {
            name: name.to_owned(),
            value: text,
            takes: takes(global.kind, global.size),
        });
    }
    Ok(match value {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Int(int) => int.to_le_bytes()[..global.size as usize].to_vec(),
        Value::Ints(_) => Vec::new(),
    })
}

/// Whether a number fits a variable of this kind and size.
fn fits(int: i128, kind: GlobalKind, size: u64) -> bool {
    let bits = size.saturating_mul(8).min(64) as u32;
    match kind {
        GlobalKind::Bool => (0..=1).contains(&int),
        GlobalKind::Unsigned => (0..1i128 << bits).contains(&int),
        GlobalKind::Signed => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&int),
        GlobalKind::Bytes => false,
    }
}

/// What a tunable takes, in words.
fn takes(kind: GlobalKind, size: u64) -> String {
    let bits = size.saturating_mul(8).min(64) as u32;
    match kind {
        GlobalKind::Bool => "true or false".to_owned(),
        GlobalKind::Unsigned => format!("0 to {}", (1i128 << bits) - 1),
        GlobalKind::Signed => {
            let most = (1i128 << (bits - 1)) - 1;
            format!("{} to {most}", -most - 1)
        }
        GlobalKind::Bytes => format!("{size} bytes"),
    }
}

/// The first elements of an array; the others keep their values.
fn encode_array(name: &str, global: &Global, ints: &[i128]) -> Result<Vec<u8>, LoadError> {
    let wrong = |value: String, why: &'static str| LoadError::Array {
        name: name.to_owned(),
        value,
        why,
        elements: global.elements,
        bytes: global.size / global.elements.max(1),
    };
    let listed = || {
        let words: Vec<String> = ints.iter().map(i128::to_string).collect();
        words.join("/")
    };
    let Some(kind) = global.element else {
        return Err(wrong(listed(), "it is no array of numbers"));
    };
    if ints.len() as u64 > global.elements {
        return Err(wrong(
            format!("{} values", ints.len()),
            "it has fewer elements",
        ));
    }
    let size = global.size / global.elements.max(1);
    match ints.iter().find(|int| !fits(**int, kind, size)) {
        Some(int) => Err(wrong(int.to_string(), "it does not fit an element")),
        None => Ok(ints
            .iter()
            .flat_map(|int| int.to_le_bytes()[..size as usize].to_vec())
            .collect()),
    }
}
