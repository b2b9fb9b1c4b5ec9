// SPDX-License-Identifier: GPL-2.0-or-later
//! What a map may request: the checks that a kernel makes when it creates one, and what the
//! simulated machine does not have.

use tiltyard_native::object::{Map, MapKind};

const BPF_F_NO_PREALLOC: u32 = 1 << 0;
const BPF_F_NUMA_NODE: u32 = 1 << 2;
/// What user space may do with the map; there is no user space here.
const BPF_F_RDONLY: u32 = 1 << 3;
const BPF_F_WRONLY: u32 = 1 << 4;
const BPF_F_ZERO_SEED: u32 = 1 << 6;
/// What programs may do with it: checked by the verifier.
const BPF_F_RDONLY_PROG: u32 = 1 << 7;
const BPF_F_WRONLY_PROG: u32 = 1 << 8;
const BPF_F_CLONE: u32 = 1 << 9;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_F_INNER_MAP: u32 = 1 << 12;

/// Flags that change nothing a scheduler can see.
const ACCESS: u32 =
    BPF_F_NUMA_NODE | BPF_F_RDONLY | BPF_F_WRONLY | BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG;

/// A ring buffer is made of pages.
const PAGE_BYTES: u32 = 4096;
/// Values of task and cgroup storage: BPF_LOCAL_STORAGE_MAX_VALUE_SIZE, a 16-bit length minus the
/// two cache lines that the kernel keeps before each.
const STORAGE_VALUE_BYTES_MAX: u32 = u16::MAX as u32 - 128;
/// Per-CPU values: PCPU_MIN_UNIT_SIZE.
const PER_CPU_VALUE_BYTES_MAX: u32 = 32 << 10;

/// Why a map cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error(
        "map '{map}': {kind} is not supported by the simulated machine; use another kind of map or run in a kernel"
    )]
    Unsupported { map: String, kind: &'static str },
    #[error("map '{map}' ({kind}): {key} = {value}, but {rule}")]
    Invalid {
        map: String,
        kind: &'static str,
        key: &'static str,
        value: u64,
        rule: &'static str,
    },
    #[error(
        "map '{map}' ({kind}): max_entries = {max_entries} with values of {value_size} bytes does not fit into memory; make it smaller"
    )]
    NoMemory {
        map: String,
        kind: &'static str,
        max_entries: u32,
        value_size: u32,
    },
    #[error("no addresses for maps: raise `ulimit -v`")]
    NoAddresses,
    #[error("map '{map}': values[{index}] is not a map like the declared inner map")]
    Inner { map: String, index: usize },
}

impl MapError {
    pub(super) fn no_memory(decl: &Map) -> MapError {
        MapError::NoMemory {
            map: decl.name.clone(),
            kind: kind_name(decl.kind),
            max_entries: decl.max_entries,
            value_size: decl.value_size,
        }
    }

    pub(super) fn inner(decl: &Map, index: usize) -> MapError {
        MapError::Inner {
            map: decl.name.clone(),
            index,
        }
    }
}

/// The kernel's name.
pub(super) fn kind_name(kind: MapKind) -> &'static str {
    match kind {
        MapKind::Hash => "BPF_MAP_TYPE_HASH",
        MapKind::Array => "BPF_MAP_TYPE_ARRAY",
        MapKind::PerCpuHash => "BPF_MAP_TYPE_PERCPU_HASH",
        MapKind::PerCpuArray => "BPF_MAP_TYPE_PERCPU_ARRAY",
        MapKind::ArrayOfMaps => "BPF_MAP_TYPE_ARRAY_OF_MAPS",
        MapKind::HashOfMaps => "BPF_MAP_TYPE_HASH_OF_MAPS",
        MapKind::LruHash => "BPF_MAP_TYPE_LRU_HASH",
        MapKind::Queue => "BPF_MAP_TYPE_QUEUE",
        MapKind::Stack => "BPF_MAP_TYPE_STACK",
        MapKind::RingBuf => "BPF_MAP_TYPE_RINGBUF",
        MapKind::TaskStorage => "BPF_MAP_TYPE_TASK_STORAGE",
        MapKind::CgroupStorage => "BPF_MAP_TYPE_CGRP_STORAGE",
        MapKind::BpfArena => "BPF_MAP_TYPE_ARENA",
    }
}

/// Rejects what a kernel refuses to create, and what is not modelled, each by name.
pub(super) fn check(decl: &Map) -> Result<(), MapError> {
    let invalid = |key, value: u32, rule| {
        let (map, kind) = (decl.name.clone(), kind_name(decl.kind));
        Err(MapError::Invalid {
            map,
            kind,
            key,
            value: value.into(),
            rule,
        })
    };
    let Shape {
        key,
        value,
        entries,
        flags,
    } = match shape(decl.kind) {
        Some(shape) => shape,
        None => {
            let (map, kind) = (decl.name.clone(), kind_name(decl.kind));
            return Err(MapError::Unsupported { map, kind });
        }
    };
    if !key.holds(decl.key_size) {
        return invalid("key_size", decl.key_size, key.rule());
    }
    if !value.holds(decl.value_size) {
        return invalid("value_size", decl.value_size, value.rule());
    }
    if !entries.holds(decl.max_entries) {
        return invalid("max_entries", decl.max_entries, entries.rule());
    }
    if decl.map_flags & !flags != 0 {
        return invalid(
            "map_flags",
            decl.map_flags,
            "it has a flag that is unknown or not modelled",
        );
    }
    let storage = matches!(decl.kind, MapKind::TaskStorage | MapKind::CgroupStorage);
    if storage && decl.map_flags & BPF_F_NO_PREALLOC == 0 {
        return invalid("map_flags", decl.map_flags, "BPF_F_NO_PREALLOC must be set");
    }
    Ok(())
}

/// Whether a map may be in a map-in-map with this template. Arrays must also have equal lengths,
/// unless they have BPF_F_INNER_MAP.
pub(super) fn alike(template: &Map, map: &Map) -> bool {
    let same_length = template.kind != MapKind::Array
        || template.map_flags & BPF_F_INNER_MAP != 0
        || template.max_entries == map.max_entries;
    (
        template.kind,
        template.key_size,
        template.value_size,
        template.map_flags,
    ) == (map.kind, map.key_size, map.value_size, map.map_flags)
        && same_length
}

/// Size of a ring buffer that requests `max_entries` bytes: libbpf rounds it up to a power of two of pages.
pub(super) fn ring_bytes(max_entries: u32) -> Option<u32> {
    (max_entries > 0).then(|| max_entries.max(PAGE_BYTES).checked_next_power_of_two())?
}

/// What a kind of map requires of its declaration.
struct Shape {
    key: Size,
    value: Size,
    entries: Size,
    /// Flags that it may have.
    flags: u32,
}

#[derive(Clone, Copy)]
enum Size {
    Zero,
    Four,
    Positive,
    /// 1 to this many.
    UpTo(u32),
    /// What [`ring_bytes`] accepts.
    Ring,
    /// Not checked.
    Any,
}

impl Size {
    fn holds(self, size: u32) -> bool {
        match self {
            Size::Zero => size == 0,
            Size::Four => size == 4,
            Size::Positive => size > 0,
            Size::UpTo(max) => (1..=max).contains(&size),
            Size::Ring => ring_bytes(size).is_some(),
            Size::Any => true,
        }
    }

    fn rule(self) -> &'static str {
        match self {
            Size::Zero => "it must be 0",
            Size::Four => "it must be 4",
            Size::Positive => "it must be greater than 0",
            Size::UpTo(STORAGE_VALUE_BYTES_MAX) => "it must be 1 to 65407",
            Size::UpTo(_) => "it must be 1 to 32768",
            Size::Ring => "it must be 1 to 2147483648",
            Size::Any => "anything goes",
        }
    }
}

/// `None`: not modelled.
fn shape(kind: MapKind) -> Option<Shape> {
    use Size::*;
    let hash_flags = ACCESS | BPF_F_NO_PREALLOC | BPF_F_ZERO_SEED;
    let (key, value, entries, flags) = match kind {
        MapKind::Array => (
            Four,
            Positive,
            Positive,
            ACCESS | BPF_F_MMAPABLE | BPF_F_INNER_MAP,
        ),
        MapKind::PerCpuArray => (Four, UpTo(PER_CPU_VALUE_BYTES_MAX), Positive, ACCESS),
        MapKind::ArrayOfMaps => (Four, Any, Positive, ACCESS),
        MapKind::Hash => (Positive, Positive, Positive, hash_flags),
        MapKind::PerCpuHash => (
            Positive,
            UpTo(PER_CPU_VALUE_BYTES_MAX),
            Positive,
            hash_flags,
        ),
        MapKind::HashOfMaps => (Positive, Any, Positive, hash_flags),
        MapKind::LruHash => (Positive, Positive, Positive, ACCESS | BPF_F_ZERO_SEED),
        MapKind::Queue | MapKind::Stack => (Zero, Positive, Positive, ACCESS),
        MapKind::RingBuf => (Zero, Zero, Ring, BPF_F_NUMA_NODE),
        MapKind::TaskStorage | MapKind::CgroupStorage => (
            Four,
            UpTo(STORAGE_VALUE_BYTES_MAX),
            Zero,
            BPF_F_NO_PREALLOC | BPF_F_CLONE,
        ),
        MapKind::BpfArena => return None,
    };
    Some(Shape {
        key,
        value,
        entries,
        flags,
    })
}
