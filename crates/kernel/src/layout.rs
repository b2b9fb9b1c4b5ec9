// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler's object as its own type information describes it, what it is loaded with, and what can be wrong with it.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use libbpf_rs::btf::Btf;
use libbpf_rs::{AsRawLibbpf, Map, MapCore, MapFlags, Object, OpenMapMut, OpenObject, ProgramType};
use tiltyard_environment::{Environment, EnvironmentError};
use tiltyard_model::Machine;

use crate::protocol::{Counter, Deviation, ExitInfo, Tunable};
use crate::tunables::TunableError;
use crate::types::{self, KernelEnums, Slot, TypeKind};

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot open the BPF object {path}: {detail}")]
    Open { path: String, detail: String },

    #[error("the object defines {count} struct sched_ext_ops in .struct_ops.link, not one")]
    Ops { count: usize },

    #[error(transparent)]
    Tunable(#[from] TunableError),

    #[error(transparent)]
    Environment(#[from] EnvironmentError),

    #[error("program {program} returned {status}")]
    Called { program: String, status: i32 },

    #[error("cannot run a program of the scheduler on CPU {cpu}")]
    Pinned { cpu: u32 },

    #[error(
        "the scheduler has no counter {name:?}; [kernel] deviations in its presets.toml names one"
    )]
    Counter { name: String },

    #[error("the object is damaged: it has no {what}")]
    Damaged { what: &'static str },

    #[error("program {program} ({section}) is not an op: only struct_ops programs are loaded")]
    Program { program: String, section: String },

    #[error("{0}")]
    Load(String),

    #[error("the kernel refuses the scheduler: {0}")]
    Attach(String),

    #[error("the kernel refuses the scheduler: {} ({}): {}", .0.kind_name, .0.reason, .0.msg)]
    Left(Box<ExitInfo>),

    #[error("{path}: {source}")]
    Sysfs {
        path: &'static str,
        source: std::io::Error,
    },

    #[error("libbpf: {0}")]
    Libbpf(#[from] libbpf_rs::Error),
}

impl LoadError {
    /// Whether the fault is in the table `[environment]`.
    pub fn is_input(&self) -> bool {
        matches!(self, LoadError::Environment(_))
    }

    /// What the scheduler recorded, if it came so far as to fail by itself.
    pub fn exit(self) -> Option<ExitInfo> {
        match self {
            LoadError::Left(exit) => Some(*exit),
            _ => None,
        }
    }
}

/// What a scheduler is loaded with.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    pub tunables: &'a [Tunable],
    pub environment: &'a Environment,
    /// The machine that runs here.
    pub machine: &'a Machine,
    pub enums: &'a KernelEnums,
    /// The ring buffer for its probes, if it has any.
    pub probes: Option<BorrowedFd<'a>>,
}

/// What the loader must know of an object; read from its BTF before anything is loaded.
pub(crate) struct Layout {
    /// Its variables, each with its section.
    pub variables: Vec<(String, Slot)>,
    /// What its SEC("syscall") programs take.
    pub programs: Vec<(String, Vec<Slot>)>,
    /// Name of the struct_ops map, and the fields of its struct.
    pub ops: String,
    pub ops_fields: Vec<Slot>,
    pub exit: Option<ExitLayout>,
}

/// Where the scheduler records why it left (UEI_DEFINE).
pub(crate) struct ExitLayout {
    /// The variable's name and offset in `.data`.
    pub name: String,
    offset: usize,
    fields: Vec<Slot>,
}

/// Where a counter is stored.
pub(crate) struct CounterSlot {
    counter: Counter,
    section: String,
    slot: Slot,
}

impl Layout {
    pub fn read(opened: &OpenObject) -> Result<Self, LoadError> {
        // SAFETY: the object outlives the BTF, which is dropped at the end of this function.
        let raw = unsafe { opened.as_libbpf_object().as_ref() };
        let btf = Btf::from_bpf_object(raw)?.ok_or(LoadError::Ops { count: 0 })?;
        let is_ops = |slot: &Slot| slot.kind == TypeKind::Struct("sched_ext_ops".to_owned());
        let mut ops: Vec<Slot> = [".struct_ops.link", ".struct_ops"]
            .iter()
            .flat_map(|section| types::variables(&btf, section))
            .filter(is_ops)
            .collect();
        let count = ops.len();
        let Some(ops) = ops.pop().filter(|_| count == 1) else {
            return Err(LoadError::Ops { count });
        };
        let record = types::variables(&btf, ".data")
            .into_iter()
            .find(|slot| slot.kind == TypeKind::Struct("user_exit_info".to_owned()));
        let exit = record.map(|slot| ExitLayout {
            name: slot.name,
            offset: slot.offset,
            fields: types::fields(&btf, "user_exit_info").unwrap_or_default(),
        });
        let programs = opened
            .progs()
            .filter(|p| p.prog_type() == ProgramType::Syscall);
        let programs = programs.map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            let arguments = types::arguments(&btf, &name);
            (name, arguments)
        });
        Ok(Self {
            variables: types::all_variables(&btf),
            programs: programs.collect(),
            ops: ops.name,
            ops_fields: types::fields(&btf, "sched_ext_ops").unwrap_or_default(),
            exit,
        })
    }

    /// A variable and its section.
    pub fn variable(&self, name: &str) -> Option<(&str, &Slot)> {
        let found = self.variables.iter().find(|(_, slot)| slot.name == name);
        found.map(|(section, slot)| (section.as_str(), slot))
    }

    /// Constants and tunables.
    pub fn rodata(&self) -> Vec<Slot> {
        let all = self.variables.iter();
        let rodata = all.filter(|(section, _)| section == ".rodata");
        rodata.map(|(_, slot)| slot.clone()).collect()
    }

    /// Where these counters are stored: unsigned variables of eight bytes.
    pub fn counters(&self, counters: &[Counter]) -> Result<Vec<CounterSlot>, LoadError> {
        let find = |counter: &Counter| {
            let found = self.variables.iter().find(|(section, slot)| {
                matches!(section.as_str(), ".data" | ".bss")
                    && slot.name == counter.name
                    && slot.kind == TypeKind::Unsigned
                    && slot.size == 8
            });
            let (section, slot) = found.ok_or_else(|| LoadError::Counter {
                name: counter.name.clone(),
            })?;
            Ok(CounterSlot {
                counter: counter.clone(),
                section: section.clone(),
                slot: slot.clone(),
            })
        };
        counters.iter().map(find).collect()
    }
}

impl CounterSlot {
    pub fn read(self, object: &Object) -> Deviation {
        let range = self.slot.offset..self.slot.offset + 8;
        let data = section_bytes(object, &self.section).unwrap_or_default();
        let bytes = data.get(range).and_then(|bytes| bytes.try_into().ok());
        Deviation {
            counter: self.counter,
            count: bytes.map_or(0, u64::from_ne_bytes),
        }
    }
}

impl ExitLayout {
    /// The record, once the kernel has filled it.
    pub fn read(&self, object: &Object, enums: &KernelEnums) -> Option<ExitInfo> {
        let data = section_bytes(object, ".data")?;
        let record = data.get(self.offset..)?;
        let kind = self.number(record, "kind")? as i32;
        if kind == 0 {
            return None;
        }
        let dump = section_bytes(object, &format!(".data.{}_dump", self.name));
        Some(ExitInfo {
            kind,
            kind_name: enums.exit_kind(kind),
            exit_code: self.number(record, "exit_code")?,
            reason: self.text(record, "reason"),
            msg: self.text(record, "msg"),
            dump: dump.map(|bytes| until_nul(&bytes)).unwrap_or_default(),
        })
    }

    fn field<'a>(&self, record: &'a [u8], name: &str) -> Option<&'a [u8]> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        record.get(field.offset..field.offset + field.size)
    }

    /// A signed field of 4 or 8 bytes.
    fn number(&self, record: &[u8], name: &str) -> Option<i64> {
        let bytes = self.field(record, name)?;
        match bytes.len() {
            4 => Some(i32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(i64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }

    fn text(&self, record: &[u8], name: &str) -> String {
        self.field(record, name).map(until_nul).unwrap_or_default()
    }
}

fn until_nul(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// libbpf calls the map of a section OBJECT.SECTION, but keeps the plain name for custom ones
/// (`.data.uei_dump`) and for maps that the source declares.
fn is_map(name: &[u8], wanted: &str) -> bool {
    let Some(prefix) = name.strip_suffix(wanted.as_bytes()) else {
        return false;
    };
    prefix.is_empty() || (wanted.starts_with('.') && !prefix.contains(&b'.'))
}

pub(crate) fn find_map<'a>(opened: &'a mut OpenObject, name: &str) -> Option<OpenMapMut<'a>> {
    opened
        .maps_mut()
        .find(|map| is_map(map.name().as_bytes(), name))
}

pub(crate) fn section_bytes(object: &Object, section: &str) -> Option<Vec<u8>> {
    let map: Map<'_> = object
        .maps()
        .find(|map| is_map(map.name().as_bytes(), section))?;
    map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_sections_carry_the_objects_name() {
        assert!(is_map(b"fifo.rodata", ".rodata"));
        assert!(is_map(b".data.uei_dump", ".data.uei_dump"));
        assert!(!is_map(b".data.uei_dump", ".data"));
        assert!(!is_map(b".rodata.data", ".data"));
        assert!(is_map(b"fifo_ops", "fifo_ops"));
        assert!(!is_map(b"my_fifo_ops", "fifo_ops"));
    }
}
