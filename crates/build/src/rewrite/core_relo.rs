// SPDX-License-Identifier: GPL-2.0-or-later
//! CO-RE relocations: what libbpf would answer when it loads the BPF object into the reference kernel, except that
//! kernel structs have the simulated kernel's layout.
//!
//! In the IR a relocation is a load from an external global whose name says it all:
//! `@"llvm.task_struct:0:2480$0:40"` = struct, kind, answer at compile time, access path.

use crate::ir::{Global, Result, Unknown};
use crate::metadata::{Metadata, Shape};
use crate::reference;
use std::collections::{BTreeMap, HashMap};
use tiltyard_native::layout::{self, Member};

/// Kinds, numbered as in the kernel's `enum bpf_core_relo_kind`.
const BYTE_OFFSET: u32 = 0;
const BYTE_SIZE: u32 = 1;
const FIELD_EXISTS: u32 = 2;
const SIGNED: u32 = 3;
const LSHIFT_U64: u32 = 4;
const RSHIFT_U64: u32 = 5;
const TYPE_ID_LOCAL: u32 = 6;
const TYPE_ID_TARGET: u32 = 7;
const TYPE_EXISTS: u32 = 8;
const TYPE_SIZE: u32 = 9;
const ENUMERATOR_EXISTS: u32 = 10;
const ENUMERATOR_VALUE: u32 = 11;
const TYPE_MATCHES: u32 = 12;

/// A relocation, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Relocation {
    kind: u32,
    /// Answer for the headers that the scheduler was compiled with.
    compiled: i128,
    path: Vec<u32>,
    node: u32,
}

/// All relocations of a module by global name.
#[derive(Debug)]
pub struct Relocations<'m> {
    by_name: HashMap<String, Relocation>,
    metadata: &'m Metadata<'m>,
    /// Sizes of the types whose ids the code passes on (to `bpf_obj_new`).
    pub type_sizes: BTreeMap<u32, u64>,
}

/// Without the local "flavour" suffix `___x`, as libbpf matches names.
pub fn without_flavour(name: &str) -> &str {
    name.split_once("___")
        .filter(|(base, _)| !base.is_empty())
        .map_or(name, |(base, _)| base)
}

impl<'m> Relocations<'m> {
    pub fn new(globals: &[Global], metadata: &'m Metadata<'m>) -> Result<Relocations<'m>> {
        let mut by_name = HashMap::new();
        for global in globals.iter().filter(|g| g.name.starts_with("@\"llvm.")) {
            by_name.insert(global.name.clone(), parse(global)?);
        }
        Ok(Relocations {
            by_name,
            metadata,
            type_sizes: BTreeMap::new(),
        })
    }

    pub fn contains(&self, global: &str) -> bool {
        self.by_name.contains_key(global)
    }

    /// The answer to a question whose answer decides what code is there at all; `None` for all others.
    pub fn existence(&self, global: &str) -> Result<Option<i128>> {
        let Some(relocation) = self.by_name.get(global) else {
            return Ok(None);
        };
        Ok(match relocation.kind {
            FIELD_EXISTS => Some(i128::from(self.field_exists(relocation)?)),
            TYPE_EXISTS | TYPE_MATCHES => Some(i128::from(self.type_exists(relocation))),
            ENUMERATOR_EXISTS => Some(i128::from(self.enumerator(relocation)?.is_some())),
            _ => None,
        })
    }

    /// The answer to any question; an error if the simulated kernel has none.
    pub fn answer(&mut self, global: &str) -> Result<i128> {
        if let Some(answer) = self.existence(global)? {
            return Ok(answer);
        }
        let relocation = &self.by_name[global];
        match relocation.kind {
            BYTE_OFFSET => self.offset(relocation),
            // Sizes and signedness are those of the headers: `offset` sees to it that the layout agrees.
            BYTE_SIZE | SIGNED | LSHIFT_U64 | RSHIFT_U64 => Ok(relocation.compiled),
            TYPE_SIZE if !self.is_kernel_type(relocation.node) => Ok(relocation.compiled),
            TYPE_SIZE => Err(Unknown::new(format!(
                "size of struct {}",
                self.type_name(relocation)
            ))),
            TYPE_ID_LOCAL => {
                self.type_sizes
                    .insert(relocation.node, self.metadata.size(relocation.node));
                Ok(i128::from(relocation.node))
            }
            ENUMERATOR_VALUE => self.enumerator(relocation)?.ok_or_else(|| {
                Unknown::new(format!(
                    "enumerator {global}, which Linux 6.18 does not have"
                ))
            }),
            TYPE_ID_TARGET => Err(Unknown::new(format!(
                "kernel type id of {}",
                self.type_name(relocation)
            ))),
            kind => Err(Unknown::new(format!("CO-RE relocation of kind {kind}"))),
        }
    }

    fn type_name(&self, relocation: &Relocation) -> &'m str {
        self.metadata.name(relocation.node).unwrap_or("(anonymous)")
    }

    /// Declared by vmlinux.h, not by the scheduler.
    fn is_kernel_type(&self, node: u32) -> bool {
        let file = self.metadata.file(node).unwrap_or("");
        file.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("vmlinux"))
    }

    /// The scheduler's own struct: where its members are is settled when it is compiled.
    fn is_own(&self, relocation: &Relocation) -> bool {
        let name = self.type_name(relocation);
        let base = without_flavour(name);
        base == name && modelled(base).is_none() && !self.is_kernel_type(relocation.node)
    }

    fn offset(&self, relocation: &Relocation) -> Result<i128> {
        if self.is_own(relocation) {
            return Ok(relocation.compiled);
        }
        let base = without_flavour(self.type_name(relocation));
        let path = self.dotted(relocation)?;
        path.find(base, modelled(base).unwrap_or(&[]), self.metadata)
    }

    fn field_exists(&self, relocation: &Relocation) -> Result<bool> {
        if self.is_own(relocation) {
            return Ok(relocation.compiled != 0);
        }
        let name = self.type_name(relocation);
        let base = without_flavour(name);
        let path = self.dotted(relocation)?;
        if reference::FIELDS_ADDED_SINCE
            .iter()
            .any(|&(t, f)| t == base && f == path.text)
        {
            return Ok(false);
        }
        if modelled(base).is_some_and(|fields| path.find(base, fields, self.metadata).is_ok()) {
            return Ok(true);
        }
        if base == name {
            return Ok(!reference::TYPES_ADDED_SINCE.contains(&base) && relocation.compiled != 0);
        }
        // A flavour exists for itself always; ask the kernel's own struct of that name.
        Ok(self
            .kernel_struct(base)
            .is_some_and(|node| self.metadata.has_member(node, &path.text)))
    }

    fn kernel_struct(&self, name: &str) -> Option<u32> {
        self.metadata
            .structs_named(name)
            .into_iter()
            .find(|&node| self.is_kernel_type(node))
    }

    fn type_exists(&self, relocation: &Relocation) -> bool {
        let name = self.type_name(relocation);
        let base = without_flavour(name);
        let known = base == name || modelled(base).is_some() || self.kernel_struct(base).is_some();
        known && !reference::TYPES_ADDED_SINCE.contains(&base) && relocation.compiled != 0
    }

    /// Value of an enumerator in the reference kernel, `None` if it is not there.
    fn enumerator(&self, relocation: &Relocation) -> Result<Option<i128>> {
        let index = relocation.path.first().copied().unwrap_or(0) as usize;
        let enumerators = self.metadata.enumerators(relocation.node);
        let &(name, value) = enumerators.get(index).ok_or_else(|| {
            Unknown::new(format!(
                "enumerator {index} of {}",
                self.type_name(relocation)
            ))
        })?;
        let base = without_flavour(name);
        if reference::is_scx_name(base) {
            return Ok(reference::enumerator(base).map(i128::from));
        }
        Ok(Some(value))
    }

    /// Member names of an access path, and the element index where it goes into an array.
    fn dotted(&self, relocation: &Relocation) -> Result<Path> {
        let broken = || {
            Unknown::new(format!(
                "access path {:?} into {}",
                relocation.path,
                self.type_name(relocation)
            ))
        };
        let (&first, rest) = relocation.path.split_first().ok_or_else(broken)?;
        if first != 0 {
            return Err(Unknown::new(format!(
                "element {first} behind a pointer to {}",
                self.type_name(relocation)
            )));
        }
        let mut path = Path {
            text: String::new(),
            index: 0,
            is_element: false,
            ty: relocation.node,
        };
        for &step in rest {
            match self.metadata.shape(path.ty) {
                Shape::Composite(node) => {
                    let member = self
                        .metadata
                        .members(node)
                        .into_iter()
                        .nth(step as usize)
                        .ok_or_else(broken)?;
                    if path.index != 0 {
                        return Err(broken());
                    }
                    path.push(&member.name);
                    path.ty = member.ty;
                }
                Shape::Array(element, _) => {
                    path.index += u64::from(step) * self.metadata.size(element).max(1);
                    path.is_element = true;
                    path.ty = element;
                }
                _ => return Err(broken()),
            }
        }
        Ok(path)
    }
}

/// A resolved access path.
struct Path {
    text: String,
    /// Bytes into the array that `text` names.
    index: u64,
    /// Whether it ends at an element of an array instead of the whole member.
    is_element: bool,
    /// Type at the end of the path.
    ty: u32,
}

impl Path {
    /// Members of anonymous structs and unions belong to the struct around them.
    fn push(&mut self, member: &str) {
        if !member.is_empty() && !self.text.is_empty() {
            self.text.push('.');
        }
        self.text.push_str(member);
    }

    fn find(&self, base: &str, fields: &[Member], metadata: &Metadata) -> Result<i128> {
        let field = fields
            .iter()
            .find(|f| f.path == self.text)
            .ok_or_else(|| Unknown::new(format!("{base}.{} is not modelled", self.text)))?;
        let size = metadata.size(self.ty);
        let is_aggregate = matches!(metadata.shape(self.ty), Shape::Composite(_));
        if !is_aggregate && self.index + size > field.size as u64
            || !self.is_element && !is_aggregate && size != field.size as u64
        {
            let text = &self.text;
            return Err(Unknown::new(format!(
                "{base}.{text} of {size} bytes, where the simulated kernel has {}",
                field.size
            )));
        }
        Ok(field.offset as i128 + i128::from(self.index))
    }
}

fn modelled(name: &str) -> Option<&'static [Member]> {
    layout::STRUCTS
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, fields)| *fields)
}

fn parse(global: &Global) -> Result<Relocation> {
    let unknown = || Unknown::new(format!("CO-RE relocation {}", global.name));
    let node = global.node.ok_or_else(unknown)?;
    let body = global
        .name
        .trim_start_matches("@\"llvm.")
        .trim_end_matches('"');
    let (head, tail) = body.split_once('$').ok_or_else(unknown)?;
    if head.starts_with("btf_type_id.") {
        let kind = tail.parse().map_err(|_| unknown())?;
        return Ok(Relocation {
            kind,
            compiled: 1,
            path: Vec::new(),
            node,
        });
    }
    let mut fields = head.rsplitn(3, ':');
    let compiled = fields
        .next()
        .and_then(|v| v.parse().ok())
        .ok_or_else(unknown)?;
    let kind = fields
        .next()
        .and_then(|v| v.parse().ok())
        .ok_or_else(unknown)?;
    let path = tail
        .split(':')
        .map(|s| s.parse().map_err(|_| unknown()))
        .collect::<Result<_>>()?;
    Ok(Relocation {
        kind,
        compiled,
        path,
        node,
    })
}
