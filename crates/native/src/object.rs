// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler as built for the simulated machine: an ELF image plus everything
//! an engine must know to call it. Written by `tiltyard-build`, read by the loader
//! here and by the engine; serialised beside the image in the build cache.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What an object calls before each access to memory, if it was built to: among its `kfuncs` then. Gets the address,
/// how many bytes, bits of [`how`], and the place in the source, as in `tilt_place`.
pub const TELL_ACCESS: &str = "tilt_access";

/// How memory is accessed, as bits.
pub mod how {
    pub const WRITE: u64 = 1;
    /// By one instruction that the compiler neither splits nor repeats nor omits: volatile, as READ_ONCE() and
    /// WRITE_ONCE() are, or atomic.
    pub const MARKED: u64 = 2;
    /// An atomic operation: it reads and writes.
    pub const UPDATE: u64 = 4;
    pub const ACQUIRE: u64 = 8;
    pub const RELEASE: u64 = 16;
    /// A full barrier before and after: an atomic operation whose result is used.
    pub const FENCE: u64 = 32;
    /// A read that may race: `data_race()` of tiltyard.bpf.h.
    pub const MEANT: u64 = 64;
}

/// What an object calls before a store that is neither into a variable of its own nor into the value of a map: among its
/// `kfuncs` then. Gets the address, how many bytes, and the number of the access in [`Object::accesses`].
pub const ASK_STORE: &str = "tilt_store";

/// Lines in `tilt_place` of an object: the file's number above, the line below.
pub const LINE_BITS: u32 = 20;

/// Image and description of one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// sha256 of everything that went in (source, headers, flags, compiler, rewriter), in hex.
    pub key: String,
    /// Shared object for the host.
    #[serde(skip)]
    pub image: Vec<u8>,
    /// The `struct sched_ext_ops` that the source defines.
    pub ops: Ops,
    pub maps: Vec<Map>,
    /// `const volatile` globals: what `-s name:tunable=value` may set, by name.
    pub tunables: BTreeMap<String, Global>,
    /// All other globals that debug information names (for probing and user-space halves).
    pub globals: BTreeMap<String, Global>,
    /// Programs other than ops, by section: `syscall`, `tp_btf/...`.
    pub programs: Vec<Program>,
    /// Names of kernel functions that the scheduler calls and that must be bound before it runs,
    /// in the order of the slots of `tilt_kfuncs`.
    pub kfuncs: Vec<String>,
    /// BPF helper numbers that it calls, in the order of the slots of `tilt_helpers`.
    pub helpers: Vec<u32>,
    /// Names of source files, by the numbers that places have.
    #[serde(default)]
    pub files: Vec<String>,
    /// Accesses that are checked, by the number that the code has for each.
    #[serde(default)]
    pub accesses: Vec<Access>,
    /// The compiler's warnings, one line each: `FILE:LINE:COLUMN: warning: ...`. They belong to a build of the object.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Whether other code than that of `ops.enqueue` and `ops.select_cpu` inserts tasks into DSQs.
    pub inserts_later: bool,
    /// Sizes of types that `bpf_obj_new` may allocate, by the type id that the code passes.
    pub type_sizes: BTreeMap<u32, u64>,
}

/// Where the ops table lies and what it holds besides functions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ops {
    /// `.name`.
    pub name: String,
    /// Symbol of the variable in `.struct_ops.link`.
    pub symbol: String,
    /// Op name (`enqueue`, `select_cpu`, ...) to the symbol of its function; absent ops are absent.
    pub functions: BTreeMap<String, String>,
    pub flags: u64,
    pub dispatch_max_batch: u32,
    pub timeout_ms: u32,
    pub exit_dump_len: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Map {
    pub name: String,
    pub kind: MapKind,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub map_flags: u32,
    /// For map-in-map: index into `maps` of the template of the inner maps.
    pub inner: Option<usize>,
    /// For array-of-maps with `.values`: indices into `maps`.
    pub values: Vec<Option<usize>>,
    /// Symbol of the map variable: the address that code passes to helpers.
    pub symbol: String,
}

/// Numbers as in the kernel's `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapKind {
    Hash,
    Array,
    PerCpuHash,
    PerCpuArray,
    ArrayOfMaps,
    HashOfMaps,
    LruHash,
    Queue,
    Stack,
    RingBuf,
    TaskStorage,
    CgroupStorage,
    BpfArena,
}

/// A global variable: where it is and how to read and write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Global {
    pub symbol: String,
    pub size: u64,
    /// Of an array; 1 for anything else.
    pub elements: u64,
    pub kind: GlobalKind,
    /// Of an array of numbers, what each is.
    pub element: Option<GlobalKind>,
    /// Value in the image, for scalars.
    pub default: Option<i128>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GlobalKind {
    Signed,
    Unsigned,
    Bool,
    /// Struct, array or floating-point number: addressed as bytes.
    Bytes,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    pub section: String,
    pub symbol: String,
    /// Numbers in the struct that it takes, if it takes one.
    #[serde(default)]
    pub arguments: Vec<Field>,
}

/// A number in a struct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    pub name: String,
    pub offset: u64,
    pub size: u64,
    pub kind: GlobalKind,
}

/// An access to memory that is checked before it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Where in the source, as in `tilt_place`.
    pub place: u32,
    pub write: bool,
    /// What it goes to, as far as that is known: a variable, or the value of a map.
    pub what: String,
}

impl Object {
    /// `mine.bpf.c:42`; `None` where that is not known.
    pub fn place(&self, place: u32) -> Option<String> {
        let line = place & ((1 << LINE_BITS) - 1);
        let file = self.files.get((place >> LINE_BITS) as usize)?;
        (line != 0).then(|| format!("{file}:{line}"))
    }
}
