// SPDX-License-Identifier: GPL-2.0-or-later
//! Puts a scheduler's BPF object into the running kernel and takes it out again.
//!
//! Does what the user space half of sched_ext's headers (SCX_OPS_OPEN, SCX_OPS_LOAD,
//! SCX_OPS_ATTACH, UEI_REPORT) does for C programs that know their scheduler at build time;
//! here everything is found by name in the object's own type information, so that any
//! scheduler loads without a line of glue.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;
use libbpf_rs::{
    AsRawLibbpf, Link, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMapMut, OpenObject,
    ProgramType,
};

use crate::protocol::{ExitInfo, Tunable};
use crate::types::{self, Kind, Place};
use crate::verifier;

pub use crate::types::KernelEnums;

const STATE: &str = "/sys/kernel/sched_ext/state";
const ROOT_OPS: &str = "/sys/kernel/sched_ext/root/ops";
const HOTPLUG_SEQ: &str = "/sys/kernel/sched_ext/hotplug_seq";
/// Debug dump kept when the scheduler asks for no other size, bytes: UEI_DUMP_DFL_LEN.
const DUMP_BYTES: u32 = 32 * 1024;
/// How long the kernel may take to put its own scheduler back, s.
const UNLOAD_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot open the BPF object {path}: {detail}")]
    Open { path: String, detail: String },

    #[error("the object defines {count} struct sched_ext_ops in .struct_ops.link, not one")]
    Ops { count: usize },

    #[error("the scheduler has no tunable {name:?}; it has: {}", known.join(", "))]
    UnknownTunable { name: String, known: Vec<String> },

    #[error("tunable {name}: {value:?} is not {expected}")]
    BadValue {
        name: String,
        value: String,
        expected: String,
    },

    #[error("program {program} ({section}) is not an op: only struct_ops programs are loaded")]
    Program { program: String, section: String },

    #[error("{0}")]
    Load(String),

    #[error("the kernel refuses the scheduler: {0}")]
    Attach(String),

    #[error("{path}: {source}")]
    Sysfs {
        path: &'static str,
        source: std::io::Error,
    },

    #[error("libbpf: {0}")]
    Libbpf(#[from] libbpf_rs::Error),
}

/// What the loader must know of an object; read from its BTF before anything is loaded.
struct Layout {
    rodata: Vec<Place>,
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
    exit: Option<ExitLayout>,
}

/// Loads `object` with these tunables and hands the CPUs to it. On return it is in charge.
pub fn attach(
    object: &Path,
    tunables: &[Tunable],
    enums: &KernelEnums,
) -> Result<Attached, LoadError> {
    let (opened, log) = verifier::capture(|| ObjectBuilder::default().open_file(object));
    let mut opened = opened.map_err(|error| LoadError::Open {
        path: object.display().to_string(),
        detail: format!("{error}; {}", verifier::cut(&log)),
    })?;
    let layout = Layout::read(&opened)?;
    choose_programs(&mut opened)?;
    prepare_ops(&mut opened, &layout)?;
    prepare_data(&mut opened, &layout, tunables, enums)?;

    let (loaded, log) = verifier::capture(|| opened.load());
    let mut loaded = loaded.map_err(|_| LoadError::Load(verifier::cut(&log)))?;
    let (link, log) = verifier::capture(|| {
        let mut maps = loaded.maps_mut();
        let ops = maps.find(|map| map.name().as_bytes() == layout.ops.as_bytes());
        ops.expect("the layout names this map").attach_struct_ops()
    });
    let link = link.map_err(|error| {
        let exit = layout
            .exit
            .as_ref()
            .and_then(|exit| exit.read(&loaded, enums));
        exit.map_or_else(
            || LoadError::Attach(format!("{error}; {}", verifier::cut(&log))),
            |exit| refused(&exit),
        )
    })?;
    let attached = Attached {
        link,
        object: loaded,
        exit: layout.exit,
    };
    attached.confirm(enums)
}

fn refused(exit: &ExitInfo) -> LoadError {
    LoadError::Attach(format!(
        "{} ({}): {}",
        exit.kind_name, exit.reason, exit.msg
    ))
}

impl Attached {
    /// The kernel reports a successful attachment even if the scheduler failed on the way, in
    /// ops.init for one, and then takes it out in the background.
    fn confirm(self, enums: &KernelEnums) -> Result<Self, LoadError> {
        if state()? == "enabled" {
            return Ok(self);
        }
        let exit = self.detach(enums)?;
        Err(exit.as_ref().map_or_else(
            || LoadError::Attach("it left at once and keeps no record of why".to_owned()),
            refused,
        ))
    }

    /// The name under which the kernel knows the scheduler in charge.
    pub fn ops_name(&self) -> Result<String, LoadError> {
        read_sysfs(ROOT_OPS)
    }

    /// Why the kernel took the scheduler out; none while it is in charge, or if it keeps no
    /// record.
    pub fn exit_info(&self, enums: &KernelEnums) -> Option<ExitInfo> {
        self.exit.as_ref()?.read(&self.object, enums)
    }

    /// Takes the scheduler out and waits until the kernel's own is back. The exit info is none
    /// if the scheduler keeps no record.
    pub fn detach(self, enums: &KernelEnums) -> Result<Option<ExitInfo>, LoadError> {
        let Attached { link, object, exit } = self;
        drop(link);
        let give_up = Instant::now() + UNLOAD_LIMIT;
        while state()? != "disabled" && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(exit.and_then(|exit| exit.read(&object, enums)))
    }
}

/// `/sys/kernel/sched_ext/state`: "enabled" while a scheduler is loaded, "disabled" when the
/// kernel's own rules.
pub fn state() -> Result<String, LoadError> {
    read_sysfs(STATE)
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
        Ok(Self {
            rodata: types::variables(&btf, ".rodata"),
            ops: ops.name,
            ops_fields: types::fields(&btf, "sched_ext_ops").unwrap_or_default(),
            exit,
        })
    }
}

/// Only ops are loaded. Programs that nobody would call here (SEC("syscall"), and the headers'
/// own probe of how pre-6.18 kernels enter BPF programs) stay out; any other is an error, since
/// the scheduler would not be itself without it.
fn choose_programs(opened: &mut OpenObject) -> Result<(), LoadError> {
    for mut program in opened.progs_mut() {
        if program.prog_type() == ProgramType::StructOps || !program.autoload() {
            continue;
        }
        let name = program.name().to_string_lossy().into_owned();
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

/// Tells the kernel which state of the CPUs the scheduler was set up for: it refuses the
/// scheduler if a CPU came or went in between.
fn prepare_ops(opened: &mut OpenObject, layout: &Layout) -> Result<(), LoadError> {
    let Some(field) = layout
        .ops_fields
        .iter()
        .find(|field| field.name == "hotplug_seq")
    else {
        return Ok(());
    };
    let sequence: u64 = read_sysfs(HOTPLUG_SEQ)?.parse().map_err(|_| {
        let source = std::io::Error::other("not a number");
        LoadError::Sysfs {
            path: HOTPLUG_SEQ,
            source,
        }
    })?;
    let mut map = find_map(opened, &layout.ops).ok_or(LoadError::Ops { count: 0 })?;
    let ops = map.initial_value_mut().ok_or(LoadError::Ops { count: 0 })?;
    ops[field.offset..field.offset + 8].copy_from_slice(&sequence.to_ne_bytes());
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
    let Some(mut map) = find_map(opened, ".rodata") else {
        return match tunables.first() {
            None => Ok(()),
            Some(first) => Err(LoadError::UnknownTunable {
                name: first.name.clone(),
                known: Vec::new(),
            }),
        };
    };
    let rodata = map.initial_value_mut().ok_or(LoadError::Ops { count: 0 })?;
    enums.fill(rodata, &layout.rodata);
    let dump_len = dump.map(|dump| dump + "_len");
    if let Some(place) = layout
        .rodata
        .iter()
        .find(|place| Some(&place.name) == dump_len.as_ref())
    {
        rodata[place.offset..place.offset + 4].copy_from_slice(&DUMP_BYTES.to_ne_bytes());
    }
    let settable: Vec<&Place> = layout
        .rodata
        .iter()
        .filter(|place| is_tunable(place, dump_len.as_deref()))
        .collect();
    tunables
        .iter()
        .try_for_each(|tunable| set(rodata, &settable, tunable))
}

/// What a user may set: the scheduler's own numbers, not what the headers keep beside them.
fn is_tunable(place: &Place, dump_len: Option<&str>) -> bool {
    matches!(place.kind, Kind::Bool | Kind::Signed | Kind::Unsigned)
        && matches!(place.size, 1 | 2 | 4 | 8)
        && !place.name.starts_with("__")
        && !place.name.starts_with("scx_lib_")
        && place.name != "tilt_probes_on"
        && Some(place.name.as_str()) != dump_len
}

fn set(rodata: &mut [u8], settable: &[&Place], tunable: &Tunable) -> Result<(), LoadError> {
    let Some(place) = settable.iter().find(|place| place.name == tunable.name) else {
        let known = settable.iter().map(|place| place.name.clone()).collect();
        return Err(LoadError::UnknownTunable {
            name: tunable.name.clone(),
            known,
        });
    };
    let (bytes, expected) = encode(place, &tunable.value);
    let bytes = bytes.ok_or_else(|| LoadError::BadValue {
        name: tunable.name.clone(),
        value: tunable.value.clone(),
        expected,
    })?;
    // BPF objects are little-endian here (clang -mlittle-endian), so the low bytes come first.
    rodata[place.offset..place.offset + place.size].copy_from_slice(&bytes[..place.size]);
    Ok(())
}

/// The value as bytes, low first, or none if it does not fit; and what would.
fn encode(place: &Place, value: &str) -> (Option<[u8; 8]>, String) {
    let bits = 8 * place.size as u32;
    match place.kind {
        Kind::Bool => {
            let number = match value {
                "true" | "1" => Some(1_u64),
                "false" | "0" => Some(0),
                _ => None,
            };
            (number.map(u64::to_le_bytes), "true or false".to_owned())
        }
        Kind::Signed => {
            let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
            let number = value
                .parse()
                .ok()
                .filter(|number| (low..=high).contains(number));
            (
                number.map(i64::to_le_bytes),
                format!("a whole number from {low} to {high}"),
            )
        }
        _ => {
            let high = u64::MAX >> (64 - bits);
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            };
            let number = number.filter(|number| *number <= high);
            (
                number.map(u64::to_le_bytes),
                format!("a whole number from 0 to {high}"),
            )
        }
    }
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

fn find_map<'a>(opened: &'a mut OpenObject, name: &str) -> Option<OpenMapMut<'a>> {
    opened
        .maps_mut()
        .find(|map| is_map(map.name().as_bytes(), name))
}

fn section_bytes(object: &Object, section: &str) -> Option<Vec<u8>> {
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

    fn place(name: &str, offset: usize, size: usize, kind: Kind) -> Place {
        Place {
            name: name.to_owned(),
            offset,
            size,
            kind,
        }
    }

    fn tunable(name: &str, value: &str) -> Tunable {
        Tunable {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn values_land_at_their_place_in_their_size() {
        let slice = place("slice_ms", 4, 4, Kind::Unsigned);
        let nice = place("nice", 8, 2, Kind::Signed);
        let mut rodata = [0xff; 12];
        set(&mut rodata, &[&slice, &nice], &tunable("slice_ms", "0x102")).unwrap();
        set(&mut rodata, &[&slice, &nice], &tunable("nice", "-2")).unwrap();
        assert_eq!(
            rodata,
            [255, 255, 255, 255, 2, 1, 0, 0, 0xfe, 0xff, 255, 255]
        );
    }

    #[test]
    fn an_unknown_tunable_lists_the_right_ones() {
        let slice = place("slice_ms", 0, 4, Kind::Unsigned);
        let error = set(&mut [0; 4], &[&slice], &tunable("slice", "1")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the scheduler has no tunable \"slice\"; it has: slice_ms"
        );
    }

    #[test]
    fn a_value_that_does_not_fit_says_what_would() {
        let check = |kind, size, value: &str| {
            let place = place("x", 0, size, kind);
            set(&mut [0; 8], &[&place], &tunable("x", value))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            check(Kind::Unsigned, 1, "256"),
            "tunable x: \"256\" is not a whole number from 0 to 255"
        );
        assert_eq!(
            check(Kind::Signed, 1, "-129"),
            "tunable x: \"-129\" is not a whole number from -128 to 127"
        );
        assert_eq!(
            check(Kind::Bool, 1, "maybe"),
            "tunable x: \"maybe\" is not true or false"
        );
    }

    #[test]
    fn what_the_headers_keep_is_no_tunable() {
        let number = |name: &str| place(name, 0, 4, Kind::Unsigned);
        assert!(is_tunable(&number("slice_ms"), Some("uei_dump_len")));
        assert!(!is_tunable(&number("uei_dump_len"), Some("uei_dump_len")));
        assert!(!is_tunable(&number("__SCX_SLICE_DFL"), None));
        assert!(!is_tunable(
            &place("table", 0, 4, Kind::Other("array")),
            None
        ));
    }

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
