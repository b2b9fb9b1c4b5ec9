// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduler's user-space half: sets variables and flags before the scheduler is loaded, fills maps, calls
//! SEC("syscall") programs. Its own work is not simulated; what its calls do in the kernel is charged to their CPU.

use crate::bpf::maps::MapSet;
use crate::clock::Alarm;
use crate::engine::{Engine, RunError, Setup};
use crate::ext::ops::Context;
use std::ffi::c_void;
use tiltyard_environment::{
    Call, Entry, EnvironmentError, Field, Moment, Number, NumberKind, Plan, Room, Scheduler,
};
use tiltyard_native::object::{GlobalKind, MapKind, Program};
use tiltyard_native::{Object, Value};

const MS: u64 = 1_000_000;

/// What user space does on this machine.
pub fn plan(setup: &Setup) -> Result<Plan, RunError> {
    let object = setup.object;
    let given: Vec<&str> = setup
        .globals
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let room = |name: &str| {
        let constant = object.tunables.get(name);
        let global = constant.or_else(|| object.globals.get(name))?;
        let kind = global.element.unwrap_or(global.kind);
        Some(Room {
            elements: global.elements,
            is_array: global.element.is_some(),
            number: number(kind, global.size / global.elements.max(1))?,
            is_constant: constant.is_some(),
        })
    };
    let plan = setup.environment.plan(
        setup.machine,
        &Scheduler {
            name: &object.ops.name,
            given: &given,
            variable: &room,
        },
    )?;
    for (name, size) in &plan.sizes {
        // Arrays that user space sizes have a fixed length here.
        match room(name) {
            None => return Err(missing("resize", name, "variable")),
            Some(room) if room.elements < *size => {
                let holds = room.elements;
                let what = format!("resize of {name} to more than {holds} elements");
                return Err(RunError::NotModelled(what));
            }
            Some(_) => {}
        }
    }
    for call in &plan.calls {
        program(object, call)?;
    }
    Ok(plan)
}

/// All globals of a run: the planned ones, those that the user gave, and what the loader itself sets.
pub fn globals(setup: &Setup, plan: &Plan) -> Vec<(String, Value)> {
    let planned = plan.variables.iter().map(|variable| {
        let mut values = variable.values.iter().map(|value| i128::from(*value));
        let value = match variable.is_array {
            true => Value::Ints(values.collect()),
            false => Value::Int(values.next().unwrap_or_default()),
        };
        (variable.name.clone(), value)
    });
    let mut globals: Vec<(String, Value)> = setup.globals.to_vec();
    globals.extend(planned);
    let object = setup.object;
    for (name, value) in [
        ("tilt_probes_on", i128::from(setup.probes)),
        // The kernel's configuration, which libbpf reads for schedulers that declare it.
        ("CONFIG_HZ", i128::from(setup.machine.tick_hz)),
    ] {
        let has = object.tunables.contains_key(name) || object.globals.contains_key(name);
        if has && !globals.iter().any(|(given, _)| given == name) {
            globals.push((name.to_owned(), Value::Int(value)));
        }
    }
    globals
}

/// `None` for what is no number.
fn number(kind: GlobalKind, size: u64) -> Option<Number> {
    let kind = match kind {
        GlobalKind::Bool => NumberKind::Bool,
        GlobalKind::Signed => NumberKind::Signed,
        GlobalKind::Unsigned => NumberKind::Unsigned,
        GlobalKind::Bytes => return None,
    };
    let size = size as usize;
    Some(Number { kind, size })
}

fn missing(kind: &str, name: &str, what: &'static str) -> RunError {
    EnvironmentError::missing(kind, name, what).into()
}

fn program<'a>(object: &'a Object, call: &Call) -> Result<&'a Program, RunError> {
    let found = object.programs.iter().find(|p| p.symbol == call.program);
    let program =
        found.ok_or_else(|| missing("calls", &call.program, "SEC(\"syscall\") program"))?;
    arguments(program, call)?;
    Ok(program)
}

/// The struct that a program takes, in words that are aligned for any member.
fn arguments(program: &Program, call: &Call) -> Result<Vec<u64>, EnvironmentError> {
    let fields = program.arguments.iter().filter_map(|field| {
        Some(Field {
            name: &field.name,
            offset: field.offset as usize,
            number: number(field.kind, field.size)?,
        })
    });
    let mut bytes = call.argument_bytes(&fields.collect::<Vec<_>>())?;
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect())
}

impl Engine<'_> {
    /// Between loading and ops.init: sets elements of maps and makes the first calls.
    pub(crate) fn prepare_scheduler(&mut self) {
        let entries = std::mem::take(&mut self.ext.plan.entries);
        for entry in &entries {
            if let Err(error) = set_entry(&mut self.ext.bpf.maps, entry) {
                return self.fail(error);
            }
        }
        self.call_programs(Moment::Loaded);
    }

    /// The scheduler is in charge.
    pub(crate) fn after_attach(&mut self) {
        self.call_programs(Moment::Attached);
        for index in 0..self.ext.plan.calls.len() {
            self.arm_program(index);
        }
    }

    fn arm_program(&mut self, index: usize) {
        if let Moment::Every { ms } = self.ext.plan.calls[index].moment {
            let call = index as u32;
            self.clock.arm(self.now + ms * MS, Alarm::Program { call });
        }
    }

    /// A periodic call is due.
    pub(crate) fn program_due(&mut self, call: u32) {
        self.call_program(call as usize);
        self.arm_program(call as usize);
    }

    fn call_programs(&mut self, moment: Moment) {
        for index in 0..self.ext.plan.calls.len() {
            if self.ext.plan.calls[index].moment == moment && self.ext.exit.is_none() {
                self.call_program(index);
            }
        }
    }

    /// The CPU on which a program is called.
    pub(crate) fn program_cpu(&self, index: usize) -> u32 {
        self.ext.plan.calls[index].cpu.unwrap_or(0)
    }

    fn call_program(&mut self, index: usize) {
        let call = self.ext.plan.calls[index].clone();
        let Ok(program) = program(self.object, &call) else {
            return;
        };
        let Some(entry) = self.instance.symbol(&program.symbol) else {
            return;
        };
        self.exec_cpu = self.program_cpu(index);
        let Ok(mut words) = arguments(program, &call) else {
            return;
        };
        let arguments = [words.as_mut_ptr() as u64, 0, 0];
        let context = Context {
            is_program: true,
            ..Context::default()
        };
        // SAFETY: the object's description says that this is a program that takes a pointer to such a struct.
        let status = self.call_bpf(context, |instance| unsafe {
            instance.call3(entry as *const c_void, arguments)
        }) as i32;
        if status != 0 {
            self.fail(RunError::Scheduler(format!(
                "program {} returned {status}{}",
                call.program,
                super::load::errno_name(status)
            )));
        }
    }
}

fn set_entry(maps: &mut MapSet, entry: &Entry) -> Result<(), RunError> {
    let name = &entry.map;
    let map = maps
        .find(name)
        .ok_or_else(|| missing("maps", name, "map"))?;
    let decl = maps.decl(map);
    let is_plain = matches!(decl.kind, MapKind::Hash | MapKind::Array | MapKind::LruHash);
    if !is_plain {
        let what = format!("[environment] maps, {name}: only arrays and hashes can be filled");
        return Err(RunError::NotModelled(what));
    }
    let sizes = (decl.key_size as usize, decl.value_size as usize);
    let (key, value) = entry.bytes(sizes.0, sizes.1)?;
    // SAFETY: both are as long as the map says.
    let status = unsafe { maps.update(map, key.as_ptr(), value.as_ptr(), 0, 0) };
    match status {
        0 => Ok(()),
        error => {
            let name = super::load::errno_name(error as i32);
            Err(entry.refused(&format!("error {error}{name}")).into())
        }
    }
}
