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

use libbpf_rs::{Link, MapCore, Object, ObjectBuilder, OpenObject, ProgramType};

use tiltyard_environment::{Moment, Plan};

use crate::layout::{CounterSlot, Layout, find_map};
use crate::protocol::{ABSENT, Counter, Deviation, ExitInfo, Tunable};
use crate::tunables;
use crate::types::Slot;
use crate::userspace::{self, Periodic};
use crate::verifier;

pub use crate::layout::{LoadError, Setup};
pub use crate::types::{EnumsError, KernelEnums};
pub use crate::userspace::{ThisMachineError, machine};

const STATE: &str = "/sys/kernel/sched_ext/state";
const ROOT_OPS: &str = "/sys/kernel/sched_ext/root/ops";
const HOTPLUG_SEQ: &str = "/sys/kernel/sched_ext/hotplug_seq";
/// Room for the kernel's debug dump, bytes: the headers' UEI_DUMP_DFL_LEN.
const DUMP_BYTES: u32 = 32 * 1024;
/// How long the kernel may take to put its own scheduler back, s.
const UNLOAD_LIMIT: Duration = Duration::from_secs(10);

/// A scheduler in charge of this kernel. Dropping it takes it out.
pub struct Attached {
    // Field order is drop order: the scheduler leaves before its maps go.
    link: Link,
    object: Object,
    layout: Layout,
    counters: Vec<CounterSlot>,
    periodic: Periodic,
    /// Variables that were set from the machine, as the scheduler finds them.
    pub given: Vec<Tunable>,
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

/// Switches the probes of schedulers/lib/tiltyard.bpf.h on and sends them to `ring`.
fn listen_to_probes(
    opened: &mut OpenObject,
    layout: &Layout,
    ring: BorrowedFd,
) -> Result<(), LoadError> {
    let switch = layout.variable("tilt_probes_on").map(|(_, slot)| slot);
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
    let is_dump_len = |slot: &&Slot| Some(&slot.name) == dump_len.as_ref();
    if let Some(slot) = constants.iter().find(is_dump_len) {
        rodata[slot.offset..slot.offset + 4].copy_from_slice(&DUMP_BYTES.to_ne_bytes());
    }
    let own: Vec<&Slot> = constants.iter().filter(|p| !is_dump_len(p)).collect();
    Ok(tunables::set_all(rodata, &own, tunables)?)
}
