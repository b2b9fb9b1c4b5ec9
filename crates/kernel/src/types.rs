// SPDX-License-Identifier: GPL-2.0-or-later
//! Type information (BTF): where an object's globals lie, and which values the running kernel
//! gives to the sched_ext constants.

use std::collections::{BTreeMap, HashMap};

use libbpf_rs::AsRawLibbpf;
use libbpf_rs::btf::types::{
    Array, DataSec, Enum, Enum64, Func, FuncProto, Int, IntEncoding, MemberAttr, Ptr, Struct, Var,
};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, HasSize, ReferencesType, TypeId};

/// What a variable or a field is, as far as a loader cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    Bool,
    Signed,
    Unsigned,
    Struct(String),
    /// Of numbers: what each is, and how many there are.
    Array {
        element: Box<TypeKind>,
        elements: usize,
    },
    /// Floats, pointers...: named, never written.
    Other(&'static str),
}

/// A named piece of a data section or of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub name: String,
    pub offset: usize,
    pub size: usize,
    pub kind: TypeKind,
}

/// The variables of a data section such as `.rodata`, in address order; none if there is no
/// such section.
pub fn variables(btf: &Btf<'_>, section: &str) -> Vec<Slot> {
    let Some(section) = btf.type_by_name::<DataSec<'_>>(section) else {
        return Vec::new();
    };
    section
        .iter()
        .filter_map(|info| {
            let variable: Var<'_> = btf.type_by_id(info.ty)?;
            let kind = kind(&variable.next_type()?.skip_mods_and_typedefs());
            let name = variable.name()?.to_str()?.to_owned();
            Some(Slot {
                name,
                offset: info.offset as usize,
                size: info.size,
                kind,
            })
        })
        .collect()
}

/// The variables of all data sections, each with its section.
pub fn all_variables(btf: &Btf<'_>) -> Vec<(String, Slot)> {
    let sections = btf.type_by_kind::<DataSec<'_>>().filter_map(|section| {
        let name = section.name()?.to_str()?.to_owned();
        let is_data = [".data", ".bss", ".rodata"]
            .iter()
            .any(|kind| name.starts_with(kind));
        is_data.then_some(name)
    });
    let variables = sections.flat_map(|section| {
        let variables = variables(btf, &section).into_iter();
        variables
            .map(move |slot| (section.clone(), slot))
            .collect::<Vec<_>>()
    });
    variables.collect()
}

/// The numbers in the struct that a program's one argument points to; none for a program without one.
pub fn arguments(btf: &Btf<'_>, program: &str) -> Vec<Slot> {
    let find = || {
        let function: Func<'_> = btf.type_by_name(program)?;
        let prototype = FuncProto::try_from(function.referenced_type()).ok()?;
        let argument = prototype.iter().next()?;
        let pointer = btf
            .type_by_id::<BtfType<'_>>(argument.ty)?
            .skip_mods_and_typedefs();
        let structure = Ptr::try_from(pointer)
            .ok()?
            .referenced_type()
            .skip_mods_and_typedefs();
        fields(btf, structure.name()?.to_str()?)
    };
    let is_number = |slot: &Slot| {
        matches!(
            slot.kind,
            TypeKind::Bool | TypeKind::Signed | TypeKind::Unsigned
        )
    };
    find()
        .unwrap_or_default()
        .into_iter()
        .filter(is_number)
        .collect()
}

/// The fields of `struct name`; bit fields are left out. None if there is no such struct.
pub fn fields(btf: &Btf<'_>, name: &str) -> Option<Vec<Slot>> {
    let structure: Struct<'_> = btf.type_by_name(name)?;
    let fields = structure.iter().filter_map(|member| {
        let MemberAttr::Normal {
            offset: offset_bits,
        } = member.attr
        else {
            return None;
        };
        let plain = btf
            .type_by_id::<BtfType<'_>>(member.ty)?
            .skip_mods_and_typedefs();
        Some(Slot {
            name: member.name?.to_str()?.to_owned(),
            offset: offset_bits as usize / 8,
            size: size_of(btf, member.ty)?,
            kind: kind(&plain),
        })
    });
    Some(fields.collect())
}

fn size_of(btf: &Btf<'_>, id: TypeId) -> Option<usize> {
    // SAFETY: the BTF object lives as long as the reference; any id is a valid question.
    let size =
        unsafe { libbpf_sys::btf__resolve_size(btf.as_libbpf_object().as_ptr(), u32::from(id)) };
    usize::try_from(size).ok()
}

fn kind(plain: &BtfType<'_>) -> TypeKind {
    if let Ok(int) = Int::try_from(*plain) {
        return match int.encoding {
            IntEncoding::Bool => TypeKind::Bool,
            IntEncoding::Signed => TypeKind::Signed,
            IntEncoding::None | IntEncoding::Char => TypeKind::Unsigned,
        };
    }
    if let Ok(array) = Array::try_from(*plain) {
        return match kind(&array.contained_type().skip_mods_and_typedefs()) {
            element @ (TypeKind::Bool | TypeKind::Signed | TypeKind::Unsigned) => TypeKind::Array {
                element: Box::new(element),
                elements: array.capacity(),
            },
            _ => TypeKind::Other("array"),
        };
    }
    match plain.kind() {
        BtfKind::Enum | BtfKind::Enum64 => TypeKind::Unsigned,
        BtfKind::Struct => TypeKind::Struct(
            plain
                .name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
        ),
        BtfKind::Array => TypeKind::Other("array"),
        BtfKind::Float => TypeKind::Other("floating point"),
        BtfKind::Ptr => TypeKind::Other("pointer"),
        BtfKind::Union => TypeKind::Other("union"),
        _ => TypeKind::Other("something else than a number"),
    }
}

/// Why the running kernel's sched_ext constants are not known.
#[derive(Debug, thiserror::Error)]
pub enum EnumsError {
    #[error("cannot read /sys/kernel/btf/vmlinux: {0}")]
    Btf(#[source] libbpf_rs::Error),

    #[error(
        "the kernel's BTF cuts the 64-bit value of {name} (built without ENUM64): use a kernel built with \
         pahole 1.24 or newer"
    )]
    Cut { name: String },

    #[error("this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT)")]
    NoSchedExt,
}

/// The running kernel's sched_ext constants, by name.
#[derive(Debug, Default)]
pub struct KernelEnums {
    values: HashMap<String, u64>,
    exit_kinds: BTreeMap<i32, String>,
}

impl KernelEnums {
    /// Reads every enumerator `SCX_*` from the running kernel's BTF.
    pub fn of_this_kernel() -> Result<Self, EnumsError> {
        let btf = Btf::from_vmlinux().map_err(EnumsError::Btf)?;
        let mut enums = Self::default();
        for narrow in btf.type_by_kind::<Enum<'_>>() {
            for member in narrow.iter() {
                let Some(name) = member.name.and_then(|name| name.to_str()) else {
                    continue;
                };
                if !name.starts_with("SCX_") {
                    continue;
                }
                if narrow.size() == 8 {
                    return Err(EnumsError::Cut {
                        name: name.to_owned(),
                    });
                }
                enums.insert(name, member.value as u64);
                if narrow.name().is_some_and(|name| name == "scx_exit_kind") {
                    enums
                        .exit_kinds
                        .insert(member.value as i32, name.to_owned());
                }
            }
        }
        for wide in btf.type_by_kind::<Enum64<'_>>() {
            for member in wide.iter() {
                if let Some(name) = member.name.and_then(|name| name.to_str())
                    && name.starts_with("SCX_")
                {
                    enums.insert(name, member.value as u64);
                }
            }
        }
        if enums.values.is_empty() {
            return Err(EnumsError::NoSchedExt);
        }
        Ok(enums)
    }

    fn insert(&mut self, name: &str, value: u64) {
        self.values.insert(name.to_owned(), value);
    }

    /// The kernel's value of a constant; `None` if it does not have it.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// The kernel's name of an exit kind.
    pub fn exit_kind(&self, kind: i32) -> String {
        self.exit_kinds
            .get(&kind)
            .cloned()
            .unwrap_or_else(|| format!("exit kind {kind}"))
    }

    /// Gives every `__SCX_NAME` of an object's read-only data the kernel's value of SCX_NAME.
    ///
    /// sched_ext's headers declare the constants so, because their values differ between
    /// kernels. A constant that this kernel lacks becomes 0, as the headers' own user space
    /// half (SCX_ENUM_INIT) has it: schedulers test for that.
    pub fn fill(&self, rodata: &mut [u8], variables: &[Slot]) {
        for variable in variables {
            if variable.name.starts_with("__SCX_") && variable.size == 8 {
                let value = self.values.get(&variable.name[2..]).copied().unwrap_or(0);
                let range = variable.offset..variable.offset + 8;
                rodata[range].copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str, offset: usize) -> Slot {
        Slot {
            name: name.to_owned(),
            offset,
            size: 8,
            kind: TypeKind::Unsigned,
        }
    }

    #[test]
    fn constants_are_filled_by_name_and_nothing_else_is_touched() {
        let mut enums = KernelEnums::default();
        enums.insert("SCX_DSQ_LOCAL", 0x8000_0000_0000_0002);
        let variables = [
            slot("__SCX_DSQ_LOCAL", 8),
            slot("slice_ns", 16),
            slot("__SCX_NEW", 24),
        ];
        let mut rodata = [0x11; 32];
        enums.fill(&mut rodata, &variables);
        assert_eq!(rodata[..8], [0x11; 8]);
        assert_eq!(rodata[8..16], 0x8000_0000_0000_0002_u64.to_ne_bytes());
        assert_eq!(rodata[16..24], [0x11; 8], "a tunable keeps its value");
        assert_eq!(rodata[24..32], [0; 8], "unknown to this kernel: 0");
    }

    #[test]
    fn exit_kinds_have_the_kernels_names() {
        let mut enums = KernelEnums::default();
        enums.exit_kinds.insert(64, "SCX_EXIT_UNREG".to_owned());
        assert_eq!(enums.exit_kind(64), "SCX_EXIT_UNREG");
        assert_eq!(enums.exit_kind(999), "exit kind 999");
    }
}
