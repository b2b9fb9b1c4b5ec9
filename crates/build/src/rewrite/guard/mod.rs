// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks that take the verifier's place where it matters for the engine: a store can only hit the scheduler's own memory, an
//! access to an object of known size stays inside it, and each kernel call records its source line.
//!
//! What an access belongs to is found by following its pointer back to a variable or to the value of a map. Most offsets
//! are constants, for which the host's optimiser removes the check. A store whose pointer comes from elsewhere is
//! compared with the two ranges of addresses that are the scheduler's; the engine is asked about all others. Reads of
//! that kind are not checked: where there is no memory, they fault.
//!
//! Work is counted before any of this is added: a checked scheduler takes no longer in the simulated machine.

mod base;
mod versions;

use super::access::{AccessedRange, places, size_of, zeroed};
use super::bpf_for;
use super::core_relo::without_flavour;
use super::inner::{self, Pointers, Rooms};
use super::{Choices, resizable};
use crate::describe;
use crate::ir::{Function, Insn, Module, Result, names, split_top};
use crate::metadata::Metadata;
use crate::names::{direct, short};
use crate::parse::Call;
use base::Base;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use tiltyard_native::object::{Access, LINE_BITS, MapKind};

/// Helpers that return the value of the map that is their first argument, or null.
const LOOKUPS: [u32; 4] = [1, 156, 195, 210];
/// bpf_ringbuf_reserve(map, size, flags)
const RESERVE: u32 = 131;
/// Helpers that pass their third argument on to a function of the scheduler's.
const CALLBACKS: [u32; 2] = [164, 181];

/// Kernel functions that may return null (KF_RET_NULL): the verifier wants a test before a read.
const NULLABLE: [&str; 8] = [
    "bpf_task_from_pid",
    "bpf_task_from_vpid",
    "bpf_task_acquire",
    "bpf_cgroup_acquire",
    "bpf_cgroup_ancestor",
    "bpf_cgroup_from_id",
    "bpf_iter_scx_dsq_next",
    "scx_bpf_cpu_curr",
];

/// How much a call writes through one of its arguments.
enum Size {
    Bytes(u64),
    /// Another argument.
    Argument(usize),
    /// A value of the map that is the first argument.
    Value,
}

/// Helpers that write through a pointer of the scheduler's: which argument, and how much.
const HELPER_WRITES: [(u32, usize, Size); 9] = [
    (4, 0, Size::Argument(1)),   // probe_read
    (16, 0, Size::Argument(1)),  // get_current_comm
    (45, 0, Size::Argument(1)),  // probe_read_str
    (88, 1, Size::Value),        // map_pop_elem
    (89, 1, Size::Value),        // map_peek_elem
    (113, 0, Size::Argument(1)), // probe_read_kernel
    (115, 0, Size::Argument(1)), // probe_read_kernel_str
    (165, 0, Size::Argument(1)), // snprintf
    (194, 0, Size::Bytes(8)),    // kptr_xchg
];

/// The same for kernel functions. `struct bpf_iter_num` is one u64, `struct bpf_iter_scx_dsq` six.
const KFUNC_WRITES: [(&str, usize, u64); 10] = [
    ("bpf_iter_num_new", 0, 8),
    ("bpf_iter_num_next", 0, 8),
    ("scx_bpf_select_cpu_dfl", 3, 1),
    ("bpf_iter_scx_dsq_new", 0, 48),
    ("bpf_iter_scx_dsq_next", 0, 48),
    ("scx_bpf_dsq_move_set_slice", 0, 48),
    ("scx_bpf_dsq_move_set_vtime", 0, 48),
    ("scx_bpf_dsq_move", 0, 48),
    ("scx_bpf_dsq_move_vtime", 0, 48),
    ("bpf_iter_scx_dsq_destroy", 0, 48),
];

/// Checks of stores to somewhere.
const STORES: &str = include_str!("stores.ll");

/// What all functions of a module share.
pub struct Guard<'m> {
    metadata: &'m Metadata<'m>,
    /// Folder of the scheduler's own source.
    folder: &'m Path,
    /// Type of each variable.
    globals: HashMap<&'m str, String>,
    /// Of maps: size of a value, where lookups return one.
    values: HashMap<String, u64>,
    /// Variables that nobody writes.
    constants: &'m HashSet<&'m str>,
    /// Functions with a body.
    functions: HashMap<&'m str, &'m Function>,
    /// Kernel functions that are written out: they call nobody.
    written_out: HashSet<&'m str>,
    /// Of inner functions.
    rooms: HashMap<String, Rooms>,
    /// Inner functions of which a second version is needed, which takes its rooms for granted.
    wanted: BTreeSet<String>,
    files: Vec<PathBuf>,
    accesses: Vec<Access>,
    asks: bool,
}

/// Whose memory an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A variable that is written.
    Written,
    /// A variable that nobody writes.
    Constant,
    /// No variable: the value of a map, for example.
    Value,
    Unknown,
}

impl<'m> Guard<'m> {
    pub fn new(
        module: &'m Module<'m>,
        choices: Choices,
        constants: &'m HashSet<&'m str>,
        rooms: HashMap<String, Rooms>,
    ) -> Result<Guard<'m>> {
        let types = module.globals.iter().filter(|g| g.init.is_some()).map(|g| {
            let ty = match resizable(g) {
                Some(element) => format!("[{} x {element}]", choices.resizable_elements),
                None => g.ty.clone(),
            };
            (g.name.as_str(), ty)
        });
        let maps = describe::maps(module)?;
        let values = maps.iter().filter(|map| {
            use MapKind::{
                Array, CgroupStorage, Hash, LruHash, PerCpuArray, PerCpuHash, TaskStorage,
            };
            let kinds = [
                Array,
                CgroupStorage,
                Hash,
                LruHash,
                PerCpuArray,
                PerCpuHash,
                TaskStorage,
            ];
            kinds.contains(&map.kind) || matches!(map.kind, MapKind::Queue | MapKind::Stack)
        });
        let value = |map: &tiltyard_native::object::Map| {
            (format!("@{}", map.symbol), u64::from(map.value_size))
        };
        let written_out = module.declares.iter();
        let written_out = written_out.filter(|d| bpf_for::definition(&d.name[1..], d).is_some());
        Ok(Guard {
            metadata: &module.metadata,
            folder: Path::new(module.source).parent().unwrap_or(Path::new("")),
            globals: types.collect(),
            values: values.map(value).collect(),
            constants,
            functions: module
                .functions
                .iter()
                .map(|f| (f.name.as_str(), f))
                .collect(),
            written_out: written_out.map(|declare| &declare.name[1..]).collect(),
            rooms,
            wanted: BTreeSet::new(),
            files: Vec::new(),
            accesses: Vec::new(),
            asks: false,
        })
    }

    /// What the checks call.
    pub fn definitions(&self, slots: &mut super::Slots) -> String {
        if !self.asks {
            return String::new();
        }
        let ask = slots.store_thunk();
        format!("{ask}{STORES}")
    }

    pub fn finish(self) -> (Vec<String>, Vec<Access>) {
        (short(&self.files), self.accesses)
    }

    /// Functions of which another version is needed, as far as is known.
    pub fn wanted(&self) -> &BTreeSet<String> {
        &self.wanted
    }

    /// The function that chooses between the versions.
    pub fn choice(&self, function: &Function) -> String {
        let rooms = self.rooms.get(&function.name);
        rooms.map_or(String::new(), |rooms| inner::choice(function, rooms))
    }

    /// Checks of one function; `given`: whether its pointers certainly have their rooms.
    pub fn watch<'g>(&'g mut self, function: &'g Function, given: bool) -> Watch<'g, 'm> {
        let insns = function.blocks.iter().flat_map(|b| &b.insns);
        let defs = insns
            .filter(|i| !i.result.is_empty())
            .map(|i| (i.result.as_str(), i))
            .collect();
        let rooms = self.rooms.get(&function.name).filter(|_| given).cloned();
        let mut watch = Watch {
            guard: self,
            function,
            defs,
            pointers: Pointers::of(function),
            numbers: bpf_for::numbers(function).collect(),
            rooms: rooms.unwrap_or_default(),
            moved: Vec::new(),
            noted: 0,
            serial: 0,
        };
        watch.moved = watch.escaping();
        watch
    }

    /// Number of a source line; for code inlined from a header, the line that called it.
    fn place(&mut self, location: Option<u32>) -> u32 {
        let Some(innermost) = location else { return 0 };
        let scope = |node| self.metadata.node(node, "scope");
        let own = |node: &u32| {
            let path = scope(*node).and_then(|s| self.metadata.path(s));
            path.is_some_and(|p| p.starts_with(self.folder))
        };
        let outwards = std::iter::successors(Some(innermost), |node| {
            self.metadata.node(*node, "inlinedAt")
        });
        let node = outwards.into_iter().find(own).unwrap_or(innermost);
        let path = scope(node).and_then(|s| self.metadata.path(s));
        let (Some(path), Some(line)) = (path, self.metadata.field(node, "line")) else {
            return 0;
        };
        let (path, line) = (direct(&path), line.parse::<u32>().unwrap_or(0));
        let known = self.files.iter().position(|file| *file == path);
        let file = known.unwrap_or_else(|| {
            self.files.push(path);
            self.files.len() - 1
        });
        (file as u32) << LINE_BITS | line.min((1 << LINE_BITS) - 1)
    }
}

/// The checks of one function.
pub struct Watch<'g, 'm> {
    guard: &'g mut Guard<'m>,
    function: &'g Function,
    defs: HashMap<&'g str, &'g Insn>,
    pointers: Pointers<'g>,
    /// Pointers to numbers of iterators.
    numbers: HashSet<&'g str>,
    /// Of its parameters that certainly point to that much of a variable.
    rooms: Rooms,
    /// Local variables that do not lie on the host's stack, with their types.
    moved: Vec<(String, String)>,
    /// The line that this block has noted last.
    noted: u32,
    serial: usize,
}

impl Watch<'_, '_> {
    /// Passthroughs of pointers that the verifier wants tested before use: results of helpers and kernel functions that may be
    /// null, and the op's own arguments.
    pub fn must_exist(&self) -> HashSet<String> {
        let all = self.defs.iter().filter(|(_, insn)| {
            insn.text.starts_with("call ptr @llvm.bpf.passthrough.")
                && Call::parse(&insn.text).is_ok_and(|call| {
                    call.args
                        .get(1)
                        .is_some_and(|(_, value)| self.is_nullable(value))
                })
        });
        all.map(|(name, _)| (*name).to_owned()).collect()
    }

    fn is_nullable(&self, pointer: &str) -> bool {
        let Some(def) = self.defs.get(pointer) else {
            return false;
        };
        match def.opcode() {
            "getelementptr" | "bitcast" => {
                inner_pointer(def).is_some_and(|inner| self.is_nullable(inner))
            }
            "inttoptr" => {
                let value = names(&def.text, '%').into_iter().next();
                value.is_some_and(|v| self.is_argument(v))
            }
            "load" => self.is_argument(pointer),
            "call" => Call::parse(&def.text).is_ok_and(|call| {
                helper_id(&call).is_some_and(|id| LOOKUPS.contains(&id))
                    || NULLABLE.contains(&without_flavour(call.callee.trim_start_matches('@')))
            }),
            _ => false,
        }
    }

    /// Loaded from the array of arguments that an op gets.
    fn is_argument(&self, value: &str) -> bool {
        let load = self.defs.get(value).filter(|d| d.opcode() == "load");
        load.and_then(|d| loaded_from(d))
            .is_some_and(|pointer| self.is_context(pointer))
    }

    /// In the array of arguments that an op gets, which is always there.
    fn is_context<'p>(&'p self, mut pointer: &'p str) -> bool {
        while let Some(def) = self
            .defs
            .get(pointer)
            .filter(|d| d.opcode() == "getelementptr")
        {
            let Some(inner) = inner_pointer(def) else {
                break;
            };
            pointer = inner;
        }
        self.function.context() == Some(pointer)
    }

    /// Local variables that other code may write: their address escapes or is used in arithmetic.
    fn escaping(&self) -> Vec<(String, String)> {
        let insns = || self.function.blocks.iter().flat_map(|b| &b.insns);
        let mut moved = Vec::new();
        for alloca in insns().filter(|i| i.opcode() == "alloca") {
            let mut family = HashSet::from([alloca.result.as_str()]);
            let mut escapes = false;
            for insn in insns() {
                let uses: Vec<&str> = names(&insn.text, '%')
                    .into_iter()
                    .filter(|n| family.contains(n))
                    .collect();
                if uses.is_empty() {
                    continue;
                }
                match insn.opcode() {
                    "getelementptr" => {
                        escapes |= !has_constant_indices(insn);
                        family.insert(insn.result.as_str());
                    }
                    "load" | "icmp" => {}
                    "store" => {
                        let stored = split_top(&insn.text, ',')[0];
                        escapes |= names(stored, '%').iter().any(|n| family.contains(n));
                    }
                    "call" => escapes |= self.passes_on(insn),
                    _ => escapes = true,
                }
            }
            if escapes && split_top(&alloca.text, ',').len() <= 2 {
                let ty = split_top(&alloca.text, ',')[0].trim_start_matches("alloca ");
                moved.push((alloca.result.clone(), ty.to_owned()));
            }
        }
        moved
    }

    /// Whether a call gives its arguments to code of the scheduler's.
    fn passes_on(&self, insn: &Insn) -> bool {
        let Ok(call) = Call::parse(&insn.text) else {
            return true;
        };
        if let Some(id) = helper_id(&call) {
            return CALLBACKS.contains(&id);
        }
        let plain = call.callee.starts_with("@llvm.") && !call.callee.contains("passthrough");
        let kernel = call.callee.starts_with('@')
            && !call.callee.starts_with("@llvm.")
            && !self.guard.functions.contains_key(call.callee.as_str());
        !plain && !kernel
    }

    /// The struct of the variables that are moved.
    fn frame_type(&self) -> String {
        let types: Vec<&str> = self.moved.iter().map(|(_, ty)| ty.as_str()).collect();
        format!("{{ {} }}", types.join(", "))
    }

    /// At the start of the function: room for what is moved.
    pub fn enter(&mut self) -> String {
        if self.moved.is_empty() {
            return String::new();
        }
        // A number that no access has: the message says what it is.
        let (size, access) = (size_of(&self.frame_type()), u32::MAX);
        format!("  %tilt.frame = call ptr @tilt_frame(i64 {size}, i32 {access})\n")
    }

    /// Before it returns.
    pub fn leave(&self) -> &'static str {
        match self.moved.is_empty() {
            true => "",
            false => "  call void @tilt_leave(ptr %tilt.frame)\n",
        }
    }

    /// What takes the place of an `alloca` that is moved.
    pub fn moved(&self, insn: &Insn) -> Option<Vec<Insn>> {
        let at = self
            .moved
            .iter()
            .position(|(name, _)| *name == insn.result)?;
        let (name, ty) = &self.moved[at];
        let place = format!(
            "getelementptr {}, ptr %tilt.frame, i32 0, i32 {at}",
            self.frame_type()
        );
        Some(vec![Insn::new(name, place), zeroed(name, ty)])
    }

    /// Another block begins.
    pub fn begin_block(&mut self) {
        self.noted = 0;
    }

    /// What goes before `out`, which was made from `insn`.
    pub fn before(&mut self, insn: &Insn, out: &Insn) -> Vec<Insn> {
        let mut checks = Vec::new();
        if super::is_runtime(out) {
            return checks;
        }
        if insn.opcode() == "call" && out.opcode() == "call" {
            self.before_call(insn, &mut checks);
        }
        for place in places(out) {
            self.check(insn.location, &place, &mut checks);
        }
        checks
    }

    fn before_call(&mut self, insn: &Insn, checks: &mut Vec<Insn>) {
        let Ok(call) = Call::parse(&insn.text) else {
            return;
        };
        let name = call.callee.trim_start_matches('@');
        let id = helper_id(&call);
        let own = self.guard.functions.contains_key(call.callee.as_str());
        if name.starts_with("llvm.") {
            return;
        }
        if !self.guard.written_out.contains(name) {
            // Whatever runs meanwhile notes lines of its own.
            self.noted = 0;
            if id.is_none() && (own || !call.callee.starts_with('@')) {
                return;
            }
            self.record(insn.location, checks);
            self.noted = 0;
        }
        let argument = |at: usize| call.args.get(at).map(|(_, value)| value.clone());
        let mut writes = Vec::new();
        for (_, at, size) in HELPER_WRITES.iter().filter(|(h, ..)| Some(*h) == id) {
            let bytes = match size {
                Size::Bytes(bytes) => Some(bytes.to_string()),
                Size::Argument(other) => self.widened(&call, *other, checks),
                Size::Value => {
                    let map = argument(0).and_then(|map| self.guard.values.get(&map).copied());
                    map.map(|bytes| bytes.to_string())
                }
            };
            writes.extend(argument(*at).zip(bytes));
        }
        let name = without_flavour(name);
        for (_, at, bytes) in KFUNC_WRITES.iter().filter(|(k, ..)| *k == name) {
            writes.extend(argument(*at).zip(Some(bytes.to_string())));
        }
        for (pointer, bytes) in writes {
            let place = AccessedRange {
                pointer,
                bytes,
                write: true,
                scalar_bytes: None,
            };
            self.check(insn.location, &place, checks);
        }
    }

    /// An argument as an i64.
    fn widened(&mut self, call: &Call, at: usize, checks: &mut Vec<Insn>) -> Option<String> {
        let (ty, value) = call.args.get(at)?;
        if ty == "i64" || !value.starts_with('%') {
            return Some(value.clone());
        }
        let name = self.name();
        checks.push(Insn::new(&name, format!("zext {ty} {value} to i64")));
        Some(name)
    }

    fn name(&mut self) -> String {
        self.serial += 1;
        format!("%guard.{}", self.serial)
    }

    /// Which of the scheduler's memory an access goes to if it passes its check.
    pub fn owner(&self, place: &AccessedRange) -> Owner {
        match self.base(&place.pointer, 0) {
            _ if self.is_given(place) => Owner::Written,
            Base::Own { start, .. } if self.guard.constants.contains(&*start) => Owner::Constant,
            Base::Own { start, .. } if start.starts_with('@') => Owner::Written,
            Base::Own { .. } => Owner::Value,
            _ => Owner::Unknown,
        }
    }

    /// Whether an access lies in the room of one of the function's parameters.
    fn is_given(&self, place: &AccessedRange) -> bool {
        let Some((offset, bytes)) = self
            .pointers
            .find(&place.pointer)
            .and_then(|(parameter, offset)| Some((offset, self.rooms.get(&parameter)?)))
        else {
            return false;
        };
        let end = place
            .scalar_bytes
            .and_then(|access| offset.checked_add(access));
        end.is_some_and(|end| end <= *bytes)
    }

    /// Number of a line, as in `tilt_place`.
    pub fn place(&mut self, location: Option<u32>) -> u32 {
        self.guard.place(location)
    }

    /// Notes the line for messages.
    fn record(&mut self, location: Option<u32>, checks: &mut Vec<Insn>) {
        let place = self.guard.place(location);
        if place != 0 && place != self.noted {
            self.noted = place;
            let store = format!("store volatile i32 {place}, ptr @tilt_place");
            checks.push(Insn::new("", store));
        }
    }

    fn check(&mut self, location: Option<u32>, place: &AccessedRange, checks: &mut Vec<Insn>) {
        if self.is_given(place) {
            return;
        }
        match self.base(&place.pointer, 0) {
            Base::Own { start, .. } if start == place.pointer && !place.write => {}
            Base::Own { start, size, name } => {
                let access = self.access(location, place.write, name);
                let offset = self.offset(&place.pointer, &start, checks);
                let bytes = &place.bytes;
                let call = format!(
                    "call void @tilt_inside(i64 {offset}, i64 {bytes}, i64 {size}, i32 {access})"
                );
                checks.push(Insn::new("", call));
            }
            Base::Elsewhere if place.write => {
                self.record(location, checks);
                let access = self.access(location, true, String::new());
                self.guard.asks = true;
                let address = self.name();
                checks.push(Insn::new(
                    &address,
                    format!("ptrtoint ptr {} to i64", place.pointer),
                ));
                let bytes = &place.bytes;
                let function = match place.scalar_bytes {
                    Some(_) => "tilt_writable_word",
                    None => "tilt_writable",
                };
                let call =
                    format!("call void @{function}(i64 {address}, i64 {bytes}, i32 {access})");
                checks.push(Insn::new("", call));
            }
            Base::Elsewhere if self.is_context(&place.pointer) => {}
            Base::Elsewhere if self.numbers.contains(&*place.pointer) => {}
            Base::Elsewhere => self.record(location, checks),
        }
    }

    fn access(&mut self, location: Option<u32>, write: bool, what: String) -> usize {
        let place = self.guard.place(location);
        let access = Access { place, write, what };
        let known = self.guard.accesses.iter().position(|a| *a == access);
        known.unwrap_or_else(|| {
            self.guard.accesses.push(access);
            self.guard.accesses.len() - 1
        })
    }
}

/// `%p` of `getelementptr T, ptr %p, ...` and of `bitcast ptr %p to ptr`.
fn inner_pointer(insn: &Insn) -> Option<&str> {
    let operand = match insn.opcode() {
        "getelementptr" => *split_top(&insn.text, ',').get(1)?,
        _ => insn.text.split_once(' ')?.1,
    };
    operand.trim_start().strip_prefix("ptr ")?.split(' ').next()
}

fn loaded_from(insn: &Insn) -> Option<&str> {
    split_top(&insn.text, ',').get(1)?.strip_prefix("ptr ")
}

fn has_constant_indices(insn: &Insn) -> bool {
    let operands = split_top(&insn.text, ',');
    operands.iter().skip(2).all(|o| !o.contains('%'))
}

fn helper_id(call: &Call) -> Option<u32> {
    let id = call.callee.strip_prefix("inttoptr (i64 ")?;
    id.strip_suffix(" to ptr)")?.parse().ok()
}
