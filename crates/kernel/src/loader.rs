// SPDX-License-Identifier: GPL-2.0-or-later
//! Puts a scheduler's BPF object into the running kernel and takes it out again.
//!
//! Does what the user space half of sched_ext's headers (SCX_OPS_OPEN, SCX_OPS_LOAD,
//! SCX_OPS_ATTACH, UEI_REPORT) does for C programs that know their scheduler at build time;
//! here everything is found by name in the object's own type information, so that any
//! scheduler loads without a line of glue.

use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;
use libbpf_rs::{
    AsRawLibbpf, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject,
    ProgramType,
};

use tiltyard_environment::{Environment, EnvironmentError, Moment, Plan};
use tiltyard_model::Machine;

use crate::protocol::{Counter, Deviation, ExitInfo, Tunable};
use crate::tunables;
use crate::types::{self, Kind, Place};
use crate::userspace::{self, Periodic};
use crate::verifier;

pub use crate::tunables::TunableError;
pub use crate::types::KernelEnums;
pub use crate::userspace::machine;

const STATE: &str = "/sys/kernel/sched_ext/state";
const ROOT_OPS: &str = "/sys/kernel/sched_ext/root/ops";
const HOTPLUG_SEQ: &str = "/sys/kernel/sched_ext/hotplug_seq";
/// Room for the kernel's debug dump, bytes: the headers' UEI_DUMP_DFL_LEN.
const DUMP_BYTES: u32 = 32 * 1024;
/// How long the kernel may take to put its own scheduler back, s.
const UNLOAD_LIMIT: Duration = Duration::from_secs(10);

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

/// What the loader must know of an object; read from its BTF before anything is loaded.
pub(crate) struct Layout {
    /// Its variables, each with its section.
    pub variables: Vec<(String, Place)>,
    /// What its SEC("syscall") programs take.
    pub programs: Vec<(String, Vec<Place>)>,
    /// Name of the struct_ops map, and the fields of its struct.
    ops: String,
    ops_fields: Vec<Place>,
    exit: Option<ExitLayout>,
}

/// Where the scheduler records why it left (UEI_DEFINE).
struct ExitLayout {
    /// The variable's name and offset in `.data`.
    name: String,
    offset: usize,
    fields: Vec<Place>,
}

/// A scheduler in charge of this kernel. Dropping it takes it out.
pub struct Attached {
    // Field order is drop order: the scheduler leaves before its maps go.
    link: Link,
    object: Object,
    layout: Layout,
    counters: Vec<CounterPlace>,
    periodic: Periodic,
    /// Variables that were set from the machine, as the scheduler finds them.
    pub given: Vec<Tunable>,
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

/// Where a counter is stored.
struct CounterPlace {
    counter: Counter,
    section: String,
    place: Place,
}

/// What a scheduler leaves behind.
pub struct Left {
    /// None if the scheduler keeps no record.
    pub exit: Option<ExitInfo>,
    pub deviations: Vec<Deviation>,
}

/// Loads an object, does what its user-space half would do, and hands the CPUs to it. On return it is in charge.
/// `counters` are read when it leaves.
pub fn attach(object: &Path, setup: Setup, counters: &[Counter]) -> Result<Attached, LoadError> {
    let enums = setup.enums;
    let (mut loaded, layout, plan) = load(object, setup)?;
    let counters = layout.counters(counters)?;
    userspace::fill(&loaded, &plan.entries)?;
    userspace::call(&mut loaded, &layout, &plan, Moment::Loaded)?;
    let (link, log) = userspace::on_cpu(plan.attach_on, || {
        verifier::capture(|| {
            let mut maps = loaded.maps_mut();
            let ops = maps.find(|map| map.name().as_bytes() == layout.ops.as_bytes());
            ops.expect("the layout names this map").attach_struct_ops()
        })
    })?;
    let link = link.map_err(|error| {
        let exit = layout
            .exit
            .as_ref()
            .and_then(|exit| exit.read(&loaded, enums));
        exit.map_or_else(|| LoadError::Attach(why(error, &log)), refused)
    })?;
    let attached = Attached {
        link,
        given: userspace::given(&loaded, &layout, &plan),
        object: loaded,
        layout,
        counters,
        periodic: Periodic::new(&plan),
    };
    let mut attached = attached.confirm(enums)?;
    let Attached { object, layout, .. } = &mut attached;
    userspace::call(object, layout, &plan, Moment::Attached)?;
    Ok(attached)
}

/// Has the kernel's verifier check an object, and unloads it again. No scheduler takes charge.
pub fn verify(object: &Path, setup: Setup) -> Result<(), LoadError> {
    load(object, setup).map(drop)
}

/// An object in the kernel, verified and not yet in charge.
fn load(object: &Path, setup: Setup) -> Result<(Object, Layout, Plan), LoadError> {
    let (opened, log) = verifier::capture(|| ObjectBuilder::default().open_file(object));
    let mut opened = opened.map_err(|error| LoadError::Open {
        path: object.display().to_string(),
        detail: why(error, &log),
    })?;
    let mut layout = Layout::read(&opened)?;
    choose_programs(
        &mut opened,
        &setup.environment.programs().collect::<Vec<_>>(),
    )?;
    let plan = userspace::plan(setup, &layout)?;
    prepare_ops(&mut opened, &layout, &plan, setup.enums)?;
    prepare_data(&mut opened, &layout, setup.tunables, setup.enums)?;
    userspace::prepare(&mut opened, &mut layout, &plan)?;
    if let Some(ring) = setup.probes {
        listen_to_probes(&mut opened, &layout, ring)?;
    }
    let (loaded, log) = verifier::capture(|| opened.load());
    let loaded = loaded.map_err(|error| LoadError::Load(why(error, &log)))?;
    Ok((loaded, layout, plan))
}

/// libbpf's own account if it gave one, else the error number that it returned.
fn why(error: libbpf_rs::Error, log: &str) -> String {
    let account = verifier::cut(log);
    if account.is_empty() {
        error.to_string()
    } else {
        account
    }
}

fn refused(exit: ExitInfo) -> LoadError {
    LoadError::Left(Box::new(exit))
}

impl LoadError {
    /// What the scheduler recorded, if it came so far as to fail by itself.
    pub fn exit(self) -> Option<ExitInfo> {
        match self {
            LoadError::Left(exit) => Some(*exit),
            _ => None,
        }
    }
}

impl Attached {
    /// The kernel reports a successful attachment even if the scheduler failed on the way, in
    /// ops.init for one, and then takes it out in the background.
    fn confirm(self, enums: &KernelEnums) -> Result<Self, LoadError> {
        if state()? == "enabled" {
            return Ok(self);
        }
        let exit = self.detach(enums)?.exit;
        Err(exit.map_or_else(
            || LoadError::Attach("it left at once and keeps no record of why".to_owned()),
            refused,
        ))
    }

    /// The name under which the kernel knows the scheduler in charge.
    pub fn ops_name(&self) -> Result<String, LoadError> {
        read_sysfs(ROOT_OPS)
    }

    /// Time until its user space has something to do.
    pub fn next_in(&self) -> Option<Duration> {
        self.periodic.next_in()
    }

    /// Makes the periodic calls of its user space that are due.
    pub fn call_due(&mut self) -> Result<(), LoadError> {
        self.periodic.call(&mut self.object, &self.layout)
    }

    /// Takes the scheduler out and waits until the kernel's own is back.
    pub fn detach(self, enums: &KernelEnums) -> Result<Left, LoadError> {
        let Attached {
            link,
            object,
            layout,
            counters,
            ..
        } = self;
        drop(link);
        let give_up = Instant::now() + UNLOAD_LIMIT;
        while state()? != "disabled" && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Left {
            exit: layout.exit.and_then(|exit| exit.read(&object, enums)),
            deviations: counters
                .into_iter()
                .map(|counter| counter.read(&object))
                .collect(),
        })
    }
}

impl CounterPlace {
    fn read(self, object: &Object) -> Deviation {
        let range = self.place.offset..self.place.offset + 8;
        let data = section_bytes(object, &self.section).unwrap_or_default();
        let bytes = data.get(range).and_then(|bytes| bytes.try_into().ok());
        Deviation {
            counter: self.counter,
            count: bytes.map_or(0, u64::from_ne_bytes),
        }
    }
}

/// What [`state`] says of a kernel without sched_ext.
pub const ABSENT: &str = "absent";

/// `/sys/kernel/sched_ext/state`: "enabled" while a scheduler is loaded, "disabled" when the
/// kernel's own rules. "absent" where there is nothing else.
pub fn state() -> Result<String, LoadError> {
    match Path::new(STATE).exists() {
        true => read_sysfs(STATE),
        false => Ok(ABSENT.to_owned()),
    }
}

fn read_sysfs(path: &'static str) -> Result<String, LoadError> {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|source| LoadError::Sysfs { path, source })
}

impl Layout {
    fn read(opened: &OpenObject) -> Result<Self, LoadError> {
        // SAFETY: the object outlives the BTF, which is dropped at the end of this function.
        let raw = unsafe { opened.as_libbpf_object().as_ref() };
        let btf = Btf::from_bpf_object(raw)?.ok_or(LoadError::Ops { count: 0 })?;
        let is_ops = |place: &Place| place.kind == Kind::Struct("sched_ext_ops".to_owned());
        let mut ops: Vec<Place> = [".struct_ops.link", ".struct_ops"]
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
            .find(|place| place.kind == Kind::Struct("user_exit_info".to_owned()));
        let exit = record.map(|place| ExitLayout {
            name: place.name,
            offset: place.offset,
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
    pub fn variable(&self, name: &str) -> Option<(&str, &Place)> {
        let found = self.variables.iter().find(|(_, place)| place.name == name);
        found.map(|(section, place)| (section.as_str(), place))
    }

    /// Constants and tunables.
    fn rodata(&self) -> Vec<Place> {
        let all = self.variables.iter();
        let rodata = all.filter(|(section, _)| section == ".rodata");
        rodata.map(|(_, place)| place.clone()).collect()
    }

    /// Where these counters are stored: unsigned variables of eight bytes.
    fn counters(&self, counters: &[Counter]) -> Result<Vec<CounterPlace>, LoadError> {
        let find = |counter: &Counter| {
            let found = self.variables.iter().find(|(section, place)| {
                matches!(section.as_str(), ".data" | ".bss")
                    && place.name == counter.name
                    && place.kind == Kind::Unsigned
                    && place.size == 8
            });
            let (section, place) = found.ok_or_else(|| LoadError::Counter {
                name: counter.name.clone(),
            })?;
            Ok(CounterPlace {
                counter: counter.clone(),
                section: section.clone(),
                place: place.clone(),
            })
        };
        counters.iter().map(find).collect()
    }
}

/// Only ops are loaded, and SEC("syscall") programs that are `called`. Others of these, and the headers'
/// own probe of how pre-6.18 kernels enter BPF programs, stay out; any other is an error, since
/// the scheduler would not be itself without it.
fn choose_programs(opened: &mut OpenObject, called: &[&str]) -> Result<(), LoadError> {
    for mut program in opened.progs_mut() {
        if program.prog_type() == ProgramType::StructOps || !program.autoload() {
            continue;
        }
        let name = program.name().to_string_lossy().into_owned();
        if called.contains(&name.as_str()) && program.prog_type() == ProgramType::Syscall {
            continue;
        }
        if name != "scx_lib_init_probe" && program.prog_type() != ProgramType::Syscall {
            let section = program.section().to_string_lossy().into_owned();
            return Err(LoadError::Program {
                program: name,
                section,
            });
        }
        program.set_autoload(false);
    }
    Ok(())
}

/// Sets flags, and passes the kernel the state of the CPUs that the scheduler was set up for: it refuses the
/// scheduler if a CPU came or went in between.
fn prepare_ops(
    opened: &mut OpenObject,
    layout: &Layout,
    plan: &Plan,
    enums: &KernelEnums,
) -> Result<(), LoadError> {
    let range = |name: &str| {
        let field = layout.ops_fields.iter().find(|field| field.name == name)?;
        Some(field.offset..field.offset + 8)
    };
    let damaged = || LoadError::Damaged {
        what: "struct_ops map",
    };
    let mut map = find_map(opened, &layout.ops).ok_or_else(damaged)?;
    let ops = map.initial_value_mut().ok_or_else(damaged)?;
    if !plan.flags.is_empty() {
        let range = range("flags").ok_or_else(damaged)?;
        let own = u64::from_ne_bytes(ops[range.clone()].try_into().map_err(|_| damaged())?);
        ops[range].copy_from_slice(
            &plan
                .ops_flags(own, &|name| enums.value(name))?
                .to_ne_bytes(),
        );
    }
    let Some(range) = range("hotplug_seq") else {
        return Ok(());
    };
    let sequence: u64 = read_sysfs(HOTPLUG_SEQ)?.parse().map_err(|_| {
        let source = std::io::Error::other("not a number");
        LoadError::Sysfs {
            path: HOTPLUG_SEQ,
            source,
        }
    })?;
    ops[range].copy_from_slice(&sequence.to_ne_bytes());
    Ok(())
}

/// Switches the probes of schedulers/include/tiltyard.bpf.h on and sends them to `ring`.
fn listen_to_probes(
    opened: &mut OpenObject,
    layout: &Layout,
    ring: BorrowedFd,
) -> Result<(), LoadError> {
    let switch = layout.variable("tilt_probes_on").map(|(_, place)| place);
    let (Some(switch), Some(mut map)) = (switch, find_map(opened, "tilt_probes")) else {
        return Ok(());
    };
    map.reuse_fd(ring)?;
    if let Some(mut rodata) = find_map(opened, ".rodata")
        && let Some(rodata) = rodata.initial_value_mut()
    {
        rodata[switch.offset] = 1;
    }
    Ok(())
}

/// Constants, tunables, and room for the debug dump.
fn prepare_data(
    opened: &mut OpenObject,
    layout: &Layout,
    tunables: &[Tunable],
    enums: &KernelEnums,
) -> Result<(), LoadError> {
    let dump = layout
        .exit
        .as_ref()
        .map(|exit| format!("{}_dump", exit.name));
    if let Some(dump) = &dump
        && let Some(mut map) = find_map(opened, &format!(".data.{dump}"))
    {
        map.set_value_size(DUMP_BYTES)?;
    }
    let constants = layout.rodata();
    if constants.is_empty() {
        return Ok(tunables::set_all(&mut [], &[], tunables)?);
    }
    let damaged = || LoadError::Damaged {
        what: "read-only data",
    };
    let mut map = find_map(opened, ".rodata").ok_or_else(damaged)?;
    let rodata = map.initial_value_mut().ok_or_else(damaged)?;
    enums.fill(rodata, &constants);
    let dump_len = dump.map(|dump| dump + "_len");
    let is_dump_len = |place: &&Place| Some(&place.name) == dump_len.as_ref();
    if let Some(place) = constants.iter().find(is_dump_len) {
        rodata[place.offset..place.offset + 4].copy_from_slice(&DUMP_BYTES.to_ne_bytes());
    }
    let own: Vec<&Place> = constants.iter().filter(|p| !is_dump_len(p)).collect();
    Ok(tunables::set_all(rodata, &own, tunables)?)
}

impl ExitLayout {
    /// The record, once the kernel has filled it.
    fn read(&self, object: &Object, enums: &KernelEnums) -> Option<ExitInfo> {
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
