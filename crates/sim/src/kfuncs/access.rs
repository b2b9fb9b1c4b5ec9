// SPDX-License-Identifier: GPL-2.0-or-later
//! What scheduler code reads and writes, for schedulers built to report it: elements of global variables and arrays,
//! DSQs, runqueues. Stack, tasks and constants are not reported. Runs that check for data races check each access
//! (`racing.rs`).

use super::{EnginePtr, Entry, functions};
use crate::bpf::maps::{Key, MapId, MapSet};
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::ext::ops::Op;
use hashbrown::HashMap;
use std::ffi::c_void;
use tiltyard_model::{EventKind, EventSink};
use tiltyard_native::object::{MapKind, TELL_ACCESS, how};
use tiltyard_native::{Instance, Object};

pub(super) const FUNCTIONS: &[Entry] = functions![tilt_access];

/// The kernel's places; the scheduler's own have the numbers after them.
const KERNEL_PLACES: [&str; 4] = ["dsq", "local_dsq", "global_dsq", "rq"];
const DSQ: u16 = 0;
const LOCAL_DSQ: u16 = 1;
const GLOBAL_DSQ: u16 = 2;
const RQ: u16 = 3;

/// Names of callbacks: those of ops, then this.
const TIMER: &str = "timer";

/// The callbacks whose accesses are reported, in the order of their numbers.
pub fn callback_names() -> impl Iterator<Item = &'static str> {
    Op::names().chain([TIMER])
}

/// A global variable in memory.
struct Variable {
    start: usize,
    size: usize,
    /// Size of one element.
    element: usize,
    place: u16,
}

/// An element of a variable or an array.
#[derive(Clone, Copy)]
struct Element {
    place: u16,
    index: u64,
    start: usize,
    /// The first address after it.
    end: usize,
}

/// The callback of this number reads, or writes (`true`), in this place.
type Visitor = (u64, u16, bool);

/// Which place an address belongs to, and where the current callbacks are in each place.
pub struct Accesses {
    /// In the order of their addresses.
    variables: Vec<Variable>,
    /// Arrays among the maps.
    arrays: Vec<(MapId, u16)>,
    names: Vec<String>,
    /// Whether anybody uses accesses of a callback to a place, by their numbers; empty for a callback of which nobody uses any.
    used: Vec<Vec<bool>>,
    /// The element that a visitor has reported last.
    visited: HashMap<Visitor, u64>,
    /// The last of these reports: code often reads several words of one element in a row.
    latest: Option<(Visitor, u64)>,
    /// The element of a variable that was looked up last.
    found: Option<Element>,
}

impl Accesses {
    /// `None` unless the object was built to report its accesses.
    pub fn of(object: &Object, instance: &Instance) -> Option<Accesses> {
        if !object.kfuncs.iter().any(|name| name == TELL_ACCESS) {
            return None;
        }
        let mut names: Vec<String> = KERNEL_PLACES.map(str::to_owned).to_vec();
        let mut variables = Vec::new();
        for (name, global) in &object.globals {
            let of_headers = name.starts_with("__SCX_");
            let Some(start) = instance.symbol(&global.symbol).filter(|_| !of_headers) else {
                continue;
            };
            variables.push(Variable {
                start: start as usize,
                size: global.size as usize,
                element: (global.size / global.elements).max(1) as usize,
                place: names.len() as u16,
            });
            names.push(name.clone());
        }
        variables.sort_unstable_by_key(|v| v.start);
        let mut arrays = Vec::new();
        for (id, map) in object.maps.iter().enumerate() {
            if map.kind == MapKind::Array {
                arrays.push((MapId(id as u32), names.len() as u16));
                names.push(map.name.clone());
            }
        }
        Some(Accesses {
            variables,
            arrays,
            names,
            used: Vec::new(),
            visited: HashMap::new(),
            latest: None,
            found: None,
        })
    }

    pub fn declare(&mut self, sink: &mut dyn EventSink) {
        for (callback, name) in callback_names().enumerate() {
            sink.callback_name(callback as u16, name);
        }
        for (place, name) in self.names.iter().enumerate() {
            sink.place_name(place as u16, name);
        }
        let of_callback = |callback| {
            let places = self.names.iter();
            let used: Vec<bool> = places.map(|p| sink.uses_access(callback, p)).collect();
            if used.contains(&true) {
                used
            } else {
                Vec::new()
            }
        };
        self.used = callback_names().map(of_callback).collect();
    }

    /// The variable that holds an address: its name, the index of the element, the offset in it.
    pub fn variable_at(&self, address: usize) -> Option<(&str, Option<usize>, usize)> {
        let variable = self.holder(address)?;
        let offset = address - variable.start;
        let index = (variable.element < variable.size).then_some(offset / variable.element);
        let name = self.name(variable.place.into());
        Some((name, index, offset % variable.element))
    }

    /// The number of the variable that holds an address, for [`Accesses::name`].
    pub fn number_at(&self, address: usize) -> Option<u16> {
        self.holder(address).map(|variable| variable.place)
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    fn holder(&self, address: usize) -> Option<&Variable> {
        let after = self.variables.partition_point(|v| v.start <= address);
        let variable = &self.variables[after.checked_sub(1)?];
        (address - variable.start < variable.size).then_some(variable)
    }

    /// The number of a callback in what this reports; [`Accesses::callback_name`] is its inverse.
    pub fn callback_number(op: Option<Op>) -> u16 {
        op.map_or(Op::COUNT, |op| op as u16)
    }

    pub fn callback_name(number: u16) -> &'static str {
        Op::names().nth(number.into()).unwrap_or(TIMER)
    }

    /// Of each place, whether anybody uses this callback's accesses to it; empty if of none.
    fn used_in(&self, op: Option<Op>) -> &[bool] {
        &self.used[usize::from(Accesses::callback_number(op))]
    }

    /// The outermost callback has returned.
    pub fn forget(&mut self) {
        self.visited.clear();
        self.latest = None;
    }

    /// The element that holds an address, `None` for what is neither a variable nor in an array.
    fn resolve(&mut self, maps: &MapSet, address: usize) -> Option<Element> {
        let last = self.found.filter(|e| (e.start..e.end).contains(&address));
        if last.is_some() {
            return last;
        }
        let after = self.variables.partition_point(|v| v.start <= address);
        if let Some(variable) = after.checked_sub(1).map(|at| &self.variables[at]) {
            let offset = address - variable.start;
            if offset < variable.size {
                let index = offset / variable.element;
                let start = variable.start + index * variable.element;
                self.found = Some(Element {
                    place: variable.place,
                    index: index as u64,
                    start,
                    end: start + variable.element,
                });
                return self.found;
            }
        }
        self.resolve_in_arrays(maps, address)
    }

    fn resolve_in_arrays(&self, maps: &MapSet, address: usize) -> Option<Element> {
        self.arrays.iter().find_map(|(map, place)| {
            let element = maps.element_at(*map, address)?;
            let Key::Index(index) = element.key else {
                return None;
            };
            Some(Element {
                place: *place,
                index: index.into(),
                start: element.value as usize,
                end: element.value as usize + maps.decl(*map).value_size as usize,
            })
        })
    }
}

impl Engine<'_> {
    /// Reports an access, unless the last one that this callback has reported in this place was to the same element:
    /// a search that reads several words of each element shows as one visit of each, a second search as a second visit.
    fn tell(&mut self, place: u16, index: u64, write: bool) {
        let call = self.ext.ctx.number;
        let Some(accesses) = &mut self.ext.accesses else {
            return;
        };
        if !accesses.used_in(self.ext.ctx.op)[usize::from(place)] {
            return;
        }
        let visitor = (call, place, write);
        if accesses.latest == Some((visitor, index)) {
            return;
        }
        accesses.latest = Some((visitor, index));
        if accesses.visited.insert(visitor, index) != Some(index) {
            let kind = EventKind::Access {
                call,
                callback: Accesses::callback_number(self.ext.ctx.op),
                place,
                index,
                write,
            };
            self.emit(self.exec_cpu, kind);
        }
    }

    /// Whether the code that runs reports accesses that anybody uses.
    fn tells_accesses(&self) -> bool {
        let accesses = self.ext.accesses.as_ref();
        accesses.is_some_and(|accesses| !accesses.used_in(self.ext.ctx.op).is_empty())
    }

    /// Scheduler code names a DSQ. The local one is that of the locked runqueue; in ops.select_cpu, where none is
    /// locked, it means that of the CPU on which the code runs.
    pub(super) fn tell_dsq(&mut self, dsq_id: u64, write: bool) {
        if !self.tells_accesses() {
            return;
        }
        match dsq_id {
            DSQ_LOCAL => {
                let cpu = self.ext.ctx.locked_cpu.unwrap_or(self.exec_cpu);
                self.tell(LOCAL_DSQ, u64::from(cpu), write);
            }
            DSQ_GLOBAL => self.tell(GLOBAL_DSQ, 0, write),
            id if id & DSQ_LOCAL_ON == DSQ_LOCAL_ON => {
                self.tell(LOCAL_DSQ, u64::from(id as u32), write);
            }
            id => self.tell(DSQ, id, write),
        }
    }

    /// Scheduler code looks at a CPU's runqueue.
    pub(super) fn tell_rq(&mut self, cpu: u32) {
        if self.tells_accesses() {
            self.tell(RQ, u64::from(cpu), false);
        }
    }
}

extern "C" fn tilt_access(mut e: EnginePtr, address: usize, bytes: u64, how: u64, place: u64) {
    let e = e.engine_for_free();
    if e.races.is_some() {
        e.check_access(address, bytes, how, place as u32);
    }
    if !e.tells_accesses() {
        return;
    }
    let Some(accesses) = &mut e.ext.accesses else {
        return;
    };
    let Some(first) = accesses.resolve(&e.ext.bpf.maps, address) else {
        return;
    };
    let last_address = address.saturating_add((bytes as usize).saturating_sub(1));
    let mut last = first.index;
    if last_address >= first.end {
        // An access does not go beyond the variable in which it begins.
        let found = accesses.resolve(&e.ext.bpf.maps, last_address);
        last = found
            .filter(|l| l.place == first.place)
            .map_or(last, |l| l.index);
    }
    for index in first.index..=last {
        e.tell(first.place, index, how & how::WRITE != 0);
    }
}

/// As [`tiltyard_native::lines::LineTable::grow`].
pub extern "C" fn grow_lines(engine: *mut c_void, line: u64) {
    let mut engine = EnginePtr(engine.cast());
    if let Some(lines) = &mut engine.engine_for_free().ext.lines {
        lines.grow(line);
    }
}
