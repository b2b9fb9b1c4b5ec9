// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduler's user-space half: carries out the plan of its [`Environment`] for this machine.

use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, Object, OpenObject, ProgramInput};
use tiltyard_environment::{
    Call, Entry, EnvironmentError, Field, Moment, Number, NumberKind, Plan, Room, Scheduler,
    Variable,
};
use tiltyard_model::Machine;
use tiltyard_model::machine::MachineError;

use crate::layout::{Layout, LoadError, Setup, find_map, section_bytes};
use crate::protocol::Tunable;
use crate::syscall;
use crate::tunables;
use crate::types::TypeKind;

/// Why this machine is not known.
#[derive(Debug, thiserror::Error)]
pub enum ThisMachineError {
    #[error("the kernel's tick: {0}")]
    Tick(#[source] std::io::Error),

    #[error(transparent)]
    Topology(#[from] MachineError),
}

/// The topology of this machine, without offline CPUs at the end, and the tick of its kernel.
pub fn machine() -> Result<Machine, ThisMachineError> {
    let tick_hz = syscall::tick_hz().map_err(ThisMachineError::Tick)?;
    let read = |path: &str| std::fs::read_to_string(format!("/sys/devices/system/{path}")).ok();
    Ok(Machine::parse_sysfs(&read, tick_hz)?)
}

/// What user space does for this run.
pub fn plan(setup: Setup, layout: &Layout) -> Result<Plan, LoadError> {
    let given: Vec<&str> = setup.tunables.iter().map(|t| t.name.as_str()).collect();
    let room = |name: &str| {
        let (section, slot) = layout.variable(name)?;
        let (kind, elements, is_array) = match &slot.kind {
            TypeKind::Array { element, elements } => (&**element, *elements, true),
            kind => (kind, 1, false),
        };
        Some(Room {
            elements: elements as u64,
            is_array,
            number: number(kind, slot.size / elements.max(1))?,
            is_constant: section == ".rodata",
        })
    };
    let scheduler = Scheduler {
        name: "the scheduler",
        given: &given,
        variable: &room,
    };
    let plan = setup.environment.plan(setup.machine, &scheduler)?;
    for call in &plan.calls {
        arguments(layout, call)?;
    }
    Ok(plan)
}

/// `None` for what is no number.
fn number(kind: &TypeKind, size: usize) -> Option<Number> {
    let kind = match kind {
        TypeKind::Bool => NumberKind::Bool,
        TypeKind::Signed => NumberKind::Signed,
        TypeKind::Unsigned => NumberKind::Unsigned,
        TypeKind::Struct(_) | TypeKind::Array { .. } | TypeKind::Other(_) => return None,
    };
    Some(Number { kind, size })
}

/// Sets sizes of arrays and values of variables, before the object is loaded.
pub fn prepare(opened: &mut OpenObject, layout: &mut Layout, plan: &Plan) -> Result<(), LoadError> {
    for (name, size) in &plan.sizes {
        resize(opened, layout, name, *size)?;
    }
    for variable in &plan.variables {
        let missing = || missing("set", &variable.name, "variable");
        let (section, slot) = layout.variable(&variable.name).ok_or_else(missing)?;
        let mut map = find_map(opened, section).ok_or_else(missing)?;
        let data = map.initial_value_mut().ok_or_else(missing)?;
        tunables::set_all(data, &[slot], &[as_tunable(variable)])?;
    }
    Ok(())
}

fn as_tunable(variable: &Variable) -> Tunable {
    let words: Vec<String> = variable.values.iter().map(i64::to_string).collect();
    Tunable {
        name: variable.name.clone(),
        value: words.join("/"),
    }
}

/// A RESIZABLE_ARRAY is alone in its section, which becomes as long as its elements need.
fn resize(
    opened: &mut OpenObject,
    layout: &mut Layout,
    name: &str,
    size: u64,
) -> Result<(), LoadError> {
    let missing = || missing("resize", name, "RESIZABLE_ARRAY");
    let found = layout
        .variables
        .iter_mut()
        .find(|(_, slot)| slot.name == name);
    let (section, slot) = found.ok_or_else(missing)?;
    let TypeKind::Array { elements, .. } = &mut slot.kind else {
        return Err(missing());
    };
    let element = slot.size / (*elements).max(1);
    let bytes = u32::try_from(element as u64 * size).map_err(|_| missing())?;
    let mut map = find_map(opened, section).ok_or_else(missing)?;
    map.set_value_size(bytes)?;
    (*elements, slot.size) = (size as usize, bytes as usize);
    Ok(())
}

fn missing(kind: &str, name: &str, what: &'static str) -> LoadError {
    EnvironmentError::missing(kind, name, what).into()
}

/// Sets elements of maps of a loaded object.
pub fn fill(object: &Object, entries: &[Entry]) -> Result<(), LoadError> {
    for entry in entries {
        let missing = || missing("maps", &entry.map, "map");
        let map = object.maps().find(|map| map.name() == entry.map.as_str());
        let map = map.ok_or_else(missing)?;
        let (key, value) = entry.bytes(map.key_size() as usize, map.value_size() as usize)?;
        map.update(&key, &value, MapFlags::ANY)
            .map_err(|error| entry.refused(&error.to_string()))?;
    }
    Ok(())
}

/// Calls the programs of this moment, in the order of the plan.
pub fn call(
    object: &mut Object,
    layout: &Layout,
    plan: &Plan,
    moment: Moment,
) -> Result<(), LoadError> {
    let calls = plan.calls.iter().filter(|call| call.moment == moment);
    calls
        .into_iter()
        .try_for_each(|call| call_program(object, layout, call))
}

fn call_program(object: &mut Object, layout: &Layout, call: &Call) -> Result<(), LoadError> {
    let mut arguments = arguments(layout, call)?;
    let program = object
        .progs_mut()
        .find(|program| program.name() == call.program.as_str());
    let program = program.ok_or_else(|| no_program(call))?;
    let input = ProgramInput {
        context_in: (!arguments.is_empty()).then_some(&mut arguments),
        ..ProgramInput::default()
    };
    let output = on_cpu(call.cpu, || program.test_run(input))?;
    match output?.return_value as i32 {
        0 => Ok(()),
        status => Err(LoadError::Called {
            program: call.program.clone(),
            status,
        }),
    }
}

fn no_program(call: &Call) -> LoadError {
    missing("calls", &call.program, "SEC(\"syscall\") program")
}

/// The struct that the program takes.
fn arguments(layout: &Layout, call: &Call) -> Result<Vec<u8>, LoadError> {
    let program = layout
        .programs
        .iter()
        .find(|(name, _)| *name == call.program);
    let (_, slots) = program.ok_or_else(|| no_program(call))?;
    let fields = slots.iter().filter_map(|slot| {
        Some(Field {
            name: &slot.name,
            offset: slot.offset,
            number: number(&slot.kind, slot.size)?,
        })
    });
    let mut bytes = call.argument_bytes(&fields.collect::<Vec<_>>())?;
    // Whole words: the struct's own size may be rounded up, and the kernel takes more than it needs.
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(bytes)
}

/// Does `work` on this CPU: the programs that it calls in the kernel run on the caller's CPU.
pub fn on_cpu<T>(cpu: Option<u32>, work: impl FnOnce() -> T) -> Result<T, LoadError> {
    let Some(cpu) = cpu else {
        return Ok(work());
    };
    let failed = |_| LoadError::Pinned { cpu };
    let before = affinity(None).map_err(failed)?;
    // SAFETY: plain data; the macros set bits within it.
    let mut only: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as u32 {
        return Err(LoadError::Pinned { cpu });
    }
    // SAFETY: the CPU is within the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut only) };
    affinity(Some(&only)).map_err(failed)?;
    let result = work();
    affinity(Some(&before)).map_err(failed)?;
    Ok(result)
}

/// Sets the CPUs of this thread to `new`, if given, and returns its CPUs.
fn affinity(new: Option<&libc::cpu_set_t>) -> std::io::Result<libc::cpu_set_t> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: the sets are as large as stated and outlive the calls.
    unsafe {
        if let Some(new) = new {
            syscall::check(libc::sched_setaffinity(0, size, new).into())?;
        }
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        syscall::check(libc::sched_getaffinity(0, size, &mut set).into())?;
        Ok(set)
    }
}

/// Programs that are called periodically.
pub struct Periodic {
    calls: Vec<(Call, Duration, Instant)>,
}

impl Periodic {
    pub fn new(plan: &Plan) -> Periodic {
        let now = Instant::now();
        let calls = plan.calls.iter().filter_map(|call| match call.moment {
            Moment::Every { ms } => {
                let period = Duration::from_millis(ms);
                Some((call.clone(), period, now + period))
            }
            Moment::Loaded | Moment::Attached => None,
        });
        Periodic {
            calls: calls.collect(),
        }
    }

    /// How long until the next call.
    pub fn next_in(&self) -> Option<Duration> {
        let due = self.calls.iter().map(|(.., due)| *due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Makes the calls that are due.
    pub fn call(&mut self, object: &mut Object, layout: &Layout) -> Result<(), LoadError> {
        for (call, period, due) in &mut self.calls {
            if *due <= Instant::now() {
                call_program(object, layout, call)?;
                *due = Instant::now() + *period;
            }
        }
        Ok(())
    }
}

/// The variables of a plan as they are in the kernel's memory.
pub fn given(object: &Object, layout: &Layout, plan: &Plan) -> Vec<Tunable> {
    let variables = plan.variables.iter().filter_map(|variable| {
        let (section, slot) = layout.variable(&variable.name)?;
        let data = section_bytes(object, section)?;
        let elements = match slot.kind {
            TypeKind::Array { elements, .. } => elements.max(1),
            _ => 1,
        };
        let bytes = data.get(slot.offset..slot.offset + slot.size)?;
        let chunks = bytes.chunks(slot.size / elements);
        let words = chunks.take(variable.values.len()).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word).to_string()
        });
        Some(Tunable {
            name: variable.name.clone(),
            value: words.collect::<Vec<_>>().join("/"),
        })
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_cpus() -> Vec<u32> {
        let set = affinity(None).expect("this thread's CPUs");
        // SAFETY: the CPUs are within the set.
        let has = |cpu: &u32| unsafe { libc::CPU_ISSET(*cpu as usize, &set) };
        (0..libc::CPU_SETSIZE as u32).filter(has).collect()
    }

    #[test]
    fn a_thread_has_its_cpus_back_after_work_on_one() {
        let own = own_cpus();
        for cpu in &own {
            // SAFETY: takes nothing and returns a number.
            let there = || (own_cpus(), unsafe { libc::sched_getcpu() });
            let seen = on_cpu(Some(*cpu), there).expect("a CPU of its own");
            assert_eq!(seen, (vec![*cpu], *cpu as i32));
            assert_eq!(own_cpus(), own);
        }
        let nowhere = on_cpu(Some(libc::CPU_SETSIZE as u32), || ());
        assert!(matches!(nowhere, Err(LoadError::Pinned { .. })));
        assert_eq!(own_cpus(), own);
    }
}
