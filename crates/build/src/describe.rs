// SPDX-License-Identifier: GPL-2.0-or-later
//! What an engine must know about a scheduler, from its declarations and their debug information: the ops table,
//! maps, tunables and other globals, programs.

use crate::ir::{Function, Global, Module, Result, Unknown, split_top, take_type};
use crate::metadata::{Metadata, Shape};
use crate::rewrite;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tiltyard_native::object::{self, Field, GlobalKind, Map, MapKind, Ops, Program};

/// Members of `struct sched_ext_ops` that are no functions and that the simulated kernel knows.
const OPS_SCALARS: &[&str] = &[
    "name",
    "flags",
    "dispatch_max_batch",
    "timeout_ms",
    "exit_dump_len",
];

/// Licenses that the kernel takes to be compatible with the GPL (`license_is_gpl_compatible()`). It loads no other struct_ops.
const GPL_COMPATIBLE: &[&str] = &[
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
];

/// The kernel's `enum bpf_map_type`, as far as the simulated kernel has it.
fn map_kind(number: u64) -> Option<MapKind> {
    Some(match number {
        1 => MapKind::Hash,
        2 => MapKind::Array,
        5 => MapKind::PerCpuHash,
        6 => MapKind::PerCpuArray,
        9 => MapKind::LruHash,
        12 => MapKind::ArrayOfMaps,
        13 => MapKind::HashOfMaps,
        22 => MapKind::Queue,
        23 => MapKind::Stack,
        27 => MapKind::RingBuf,
        29 => MapKind::TaskStorage,
        32 => MapKind::CgroupStorage,
        33 => MapKind::BpfArena,
        _ => return None,
    })
}

fn symbol(global: &str) -> String {
    global.trim_start_matches('@').to_owned()
}

/// The one ops table of a scheduler.
pub fn ops(module: &Module) -> Result<Ops> {
    let tables: Vec<_> = module
        .globals
        .iter()
        .filter(|g| g.section.starts_with(".struct_ops"))
        .collect();
    let &[table] = tables.as_slice() else {
        let what = match tables.len() {
            0 => "no SCX_OPS_DEFINE(): this file defines no scheduler".to_owned(),
            n => format!("{n} struct_ops variables; a scheduler has exactly one"),
        };
        return Err(Unknown::new(what));
    };
    let metadata = &module.metadata;
    let ty = table
        .node
        .and_then(|n| metadata.variable_type(n))
        .map(|t| metadata.strip(t))
        .unwrap_or(0);
    if metadata.name(ty) != Some("sched_ext_ops") {
        return Err(Unknown::new(format!(
            "struct_ops of type {}",
            metadata.name(ty).unwrap_or("(unknown)")
        )));
    }
    let mut ops = Ops {
        symbol: symbol(&table.name),
        ..Ops::default()
    };
    for (member, value) in members_and_values(table, ty, metadata)? {
        set_op(&mut ops, &member, value)?;
    }
    check_license(module)?;
    Ok(ops)
}

/// Kernels refuse the same.
fn check_license(module: &Module) -> Result<()> {
    let found = module.globals.iter().find(|g| g.section == "license");
    let text = found.and_then(|global| global.init.as_deref()?.strip_prefix("c\""));
    let text = text.and_then(|text| text.strip_suffix("\\00\""));
    if text.is_some_and(|text| GPL_COMPATIBLE.contains(&text)) {
        return Ok(());
    }
    Err(Unknown::new(format!(
        "{}, and kernels load no scheduler whose license is not compatible with the GPL; add: \
         char _license[] SEC(\"license\") = \"GPL\";",
        match text {
            Some(text) => format!("its license is \"{text}\""),
            None => "it names no license".to_owned(),
        }
    )))
}

/// Member names of a struct variable with their initial values; nothing for one that is all zeroes.
fn members_and_values<'a>(
    table: &'a Global,
    ty: u32,
    metadata: &Metadata,
) -> Result<Vec<(String, &'a str)>> {
    let init = table.init.as_deref().unwrap_or("zeroinitializer");
    if init == "zeroinitializer" {
        return Ok(Vec::new());
    }
    let inner = init
        .trim_start_matches('<')
        .trim_start_matches('{')
        .trim_end_matches('>')
        .trim_end_matches('}');
    let values = split_top(inner, ',');
    let members = metadata.members(ty);
    if values.len() != members.len() {
        return Err(Unknown::new(format!("initialiser of {}", table.name)));
    }
    Ok(members
        .into_iter()
        .map(|m| m.name)
        .zip(values.into_iter().map(|v| take_type(v).1))
        .collect())
}

fn set_op(ops: &mut Ops, member: &str, value: &str) -> Result<()> {
    if matches!(value, "null" | "0" | "zeroinitializer") {
        return Ok(());
    }
    if let Some(function) = value.strip_prefix('@') {
        ops.functions.insert(member.to_owned(), function.to_owned());
        return Ok(());
    }
    if !OPS_SCALARS.contains(&member) {
        return Err(Unknown::new(format!(
            "sched_ext_ops.{member} is not modelled"
        )));
    }
    let number = value.parse::<i64>().unwrap_or(0) as u64;
    match member {
        "name" => ops.name = string(value),
        "flags" => ops.flags = number,
        "dispatch_max_batch" => ops.dispatch_max_batch = number as u32,
        "timeout_ms" => ops.timeout_ms = number as u32,
        _ => ops.exit_dump_len = number as u32,
    }
    Ok(())
}

/// `c"fifo\00\00"` up to the first zero.
fn string(value: &str) -> String {
    let body = value.trim_start_matches("c\"").trim_end_matches('"');
    body.split("\\00").next().unwrap_or("").to_owned()
}

/// All maps, in the order of the source. Templates of inner maps that are no variables come last, without a symbol.
pub fn maps(module: &Module) -> Result<Vec<Map>> {
    let variables: Vec<_> = module
        .globals
        .iter()
        .filter(|g| g.section == ".maps")
        .collect();
    let index: HashMap<&str, usize> = variables
        .iter()
        .enumerate()
        .map(|(i, g)| (g.name.as_str(), i))
        .collect();
    let mut maps = Vec::new();
    let mut templates = Vec::new();
    for variable in &variables {
        let node = variable
            .node
            .and_then(|n| module.metadata.variable_type(n))
            .unwrap_or(0);
        let (mut map, inner) = describe_map(&symbol(&variable.name), node, &module.metadata)?;
        map.values = initial_values(variable, &index);
        map.inner = map.values.iter().flatten().next().copied();
        if let (None, Some(inner)) = (map.inner, inner) {
            map.inner = Some(variables.len() + templates.len());
            let (mut template, _) =
                describe_map(&format!("{}.inner", map.name), inner, &module.metadata)?;
            template.symbol.clear();
            templates.push(template);
        }
        maps.push(map);
    }
    maps.extend(templates);
    Ok(maps)
}

/// One map by the members of its type, and the type of its inner maps.
fn describe_map(name: &str, ty: u32, metadata: &Metadata) -> Result<(Map, Option<u32>)> {
    let Shape::Composite(node) = metadata.shape(ty) else {
        return Err(Unknown::new(format!("type of map {name}")));
    };
    let mut attributes: BTreeMap<String, u64> = BTreeMap::new();
    let mut inner = None;
    for member in metadata.members(node) {
        match (metadata.shape(member.ty), member.name.as_str()) {
            (Shape::Array(element, _), "values") => match metadata.shape(element) {
                Shape::Pointer(pointee) => inner = Some(pointee),
                _ => return Err(Unknown::new(format!("values of map {name}"))),
            },
            (Shape::Pointer(pointee), "key" | "value") => {
                attributes.insert(format!("{}_size", member.name), metadata.size(pointee));
            }
            // __uint(name, N) is a pointer to an array of N ints; __ulong is an enum whose one value is N.
            (Shape::Pointer(pointee), _) => match metadata.shape(pointee) {
                Shape::Array(_, count) => drop(attributes.insert(member.name, count)),
                _ => {
                    return Err(Unknown::new(format!(
                        "member {} of map {name}",
                        member.name
                    )));
                }
            },
            (_, "map_extra") => {}
            _ => {
                return Err(Unknown::new(format!(
                    "member {} of map {name}",
                    member.name
                )));
            }
        }
    }
    let attribute = |key: &str| attributes.get(key).copied().unwrap_or(0) as u32;
    let number = attributes.get("type").copied().unwrap_or(0);
    let kind = map_kind(number)
        .ok_or_else(|| Unknown::new(format!("map {name} of BPF map type {number}")))?;
    let is_map_of_maps = matches!(kind, MapKind::ArrayOfMaps | MapKind::HashOfMaps);
    Ok((
        Map {
            name: name.to_owned(),
            kind,
            key_size: attribute("key_size"),
            // The value of a map of maps is an id to user space.
            value_size: if is_map_of_maps {
                4
            } else {
                attribute("value_size")
            },
            max_entries: attribute("max_entries"),
            map_flags: attribute("map_flags"),
            inner: None,
            values: Vec::new(),
            symbol: name.to_owned(),
        },
        inner,
    ))
}

/// `[ptr @queue0, ptr null]` at the end of a map's initialiser, as indices.
fn initial_values(variable: &Global, index: &HashMap<&str, usize>) -> Vec<Option<usize>> {
    let init = variable.init.as_deref().unwrap_or("");
    let inner = init.trim_start_matches('{').trim_end_matches('}');
    let Some(last) = split_top(inner, ',').last().copied() else {
        return Vec::new();
    };
    let Some(list) = take_type(last)
        .1
        .strip_prefix('[')
        .and_then(|l| l.strip_suffix(']'))
    else {
        return Vec::new();
    };
    split_top(list, ',')
        .into_iter()
        .map(|v| index.get(take_type(v).1).copied())
        .collect()
}

/// `const volatile` globals, and all others that have debug information.
pub type Globals = (
    BTreeMap<String, object::Global>,
    BTreeMap<String, object::Global>,
);

pub fn globals(module: &Module, resizable_elements: u64) -> Globals {
    let mut tunables = BTreeMap::new();
    let mut others = BTreeMap::new();
    let metadata = &module.metadata;
    for global in module.globals.iter().filter(|g| is_variable(g)) {
        let Some(ty) = global.node.and_then(|n| metadata.variable_type(n)) else {
            continue;
        };
        let mut described = describe_global(global, ty, metadata);
        if rewrite::resizable(global).is_some() {
            described.size *= resizable_elements;
            described.elements = resizable_elements;
        }
        let tunable = metadata.is_const_volatile(ty) && !from_headers(module, global);
        let target = if tunable { &mut tunables } else { &mut others };
        target.insert(symbol(&global.name), described);
    }
    (tunables, others)
}

/// Declared by upstream's headers (`__SCX_SLICE_DFL`, `uei_dump_len`): nobody's tunable.
fn from_headers(module: &Module, global: &Global) -> bool {
    let variable = global.node.and_then(|n| module.metadata.node(n, "var"));
    let of_header = |path: &Path| path.parent().is_some_and(|folder| folder.ends_with("scx"));
    global.name == "@uei_dump_len" || in_file(module, variable, of_header)
}

fn is_variable(global: &Global) -> bool {
    let is_format = global.name.contains("___fmt") || global.name.starts_with("@.");
    let has_storage = global.init.is_some() || global.name == "@CONFIG_HZ";
    has_storage
        && !is_format
        && global.section != ".maps"
        && global.section != "license"
        && !global.section.starts_with(".struct_ops")
}

fn kind_of(shape: Shape) -> GlobalKind {
    match shape {
        Shape::Signed(_) => GlobalKind::Signed,
        Shape::Unsigned(_) | Shape::Pointer(_) => GlobalKind::Unsigned,
        Shape::Bool(_) => GlobalKind::Bool,
        _ => GlobalKind::Bytes,
    }
}

fn describe_global(global: &Global, ty: u32, metadata: &Metadata) -> object::Global {
    let size = metadata.size(ty);
    let elements = match metadata.shape(ty) {
        Shape::Array(_, count) => count.max(1),
        _ => 1,
    };
    let kind = kind_of(metadata.shape(ty));
    let element = match metadata.shape(ty) {
        Shape::Array(element, _) => Some(kind_of(metadata.shape(element))),
        _ => None,
    };
    let element = element.filter(|element| *element != GlobalKind::Bytes);
    let default = match global.init.as_deref().unwrap_or("") {
        "zeroinitializer" | "null" | "false" => Some(0),
        "true" => Some(1),
        text => text.parse::<i128>().ok(),
    };
    // LLVM prints all integers as signed.
    let default = default
        .filter(|_| kind != GlobalKind::Bytes)
        .map(|v| match kind {
            GlobalKind::Unsigned | GlobalKind::Bool if size < 16 => v & ((1i128 << (8 * size)) - 1),
            _ => v,
        });
    object::Global {
        symbol: symbol(&global.name),
        size,
        elements,
        kind,
        element,
        default,
    }
}

/// Programs of the main source other than ops, which somebody may call. Those that headers bring along probe a real
/// kernel and are left out, and so are those that a kernel loads only on request (`?` before the section).
pub fn programs(module: &Module) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for function in module.functions.iter().filter(|f| is_program(f, module)) {
        let symbol = symbol(&function.name);
        let section = function.section.clone();
        if section != "syscall" {
            return Err(Unknown::new(format!(
                "program {symbol} in section \"{section}\""
            )));
        }
        programs.push(Program {
            section,
            symbol,
            arguments: arguments(function, &module.metadata),
        });
    }
    Ok(programs)
}

/// Numbers in the struct that a program's one argument points to.
fn arguments(function: &Function, metadata: &Metadata) -> Vec<Field> {
    let signature = function.node.and_then(|n| metadata.node(n, "type"));
    // The result comes first.
    let types = signature
        .and_then(|n| metadata.node(n, "types"))
        .map(|n| metadata.list(n));
    let Some(Shape::Pointer(pointee)) = types.and_then(|t| t.get(1).map(|t| metadata.shape(*t)))
    else {
        return Vec::new();
    };
    let Shape::Composite(node) = metadata.shape(pointee) else {
        return Vec::new();
    };
    let members = metadata.members(node).into_iter();
    let fields = members.filter(|m| !m.bit_field).map(|member| Field {
        size: metadata.size(member.ty),
        offset: member.offset_bits / 8,
        kind: kind_of(metadata.shape(member.ty)),
        name: member.name,
    });
    let numbers = fields.filter(|field| field.kind != GlobalKind::Bytes);
    numbers.collect()
}

fn is_program(function: &Function, module: &Module) -> bool {
    let section = function.section.as_str();
    let is_other = section.is_empty()
        || section == ".text"
        || section.starts_with("struct_ops")
        || section.starts_with('?');
    !is_other && in_file(module, function.node, |path| path.ends_with(module.source))
}

/// Whether a debug node was declared in a file that passes `test`.
fn in_file(module: &Module, node: Option<u32>, test: impl Fn(&Path) -> bool) -> bool {
    node.and_then(|n| module.metadata.path(n))
        .is_some_and(|path| test(&path))
}
