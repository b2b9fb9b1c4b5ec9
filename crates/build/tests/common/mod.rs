// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel of stubs: enough to call a scheduler without an engine.

use std::cell::RefCell;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use tiltyard_build::{Builder, BuilderOptions, Source};
use tiltyard_native::layout::TaskStruct;
use tiltyard_native::{Crash, EntryPoint, Instance, Object, Value};

/// What the stubs saw, and what they answer.
#[derive(Default)]
pub struct Engine {
    pub calls: RefCell<Vec<(&'static str, [u64; 4])>>,
    /// Address and bytes of stores that leave the scheduler's memory.
    pub stores: RefCell<Vec<(u64, u64)>>,
    pub idle: bool,
}

extern "C" fn create_dsq(engine: &Engine, id: u64, node: i32) -> i32 {
    engine
        .calls
        .borrow_mut()
        .push(("create_dsq", [id, node as u64, 0, 0]));
    0
}

extern "C" fn select_cpu_dfl(
    engine: &Engine,
    p: u64,
    prev: i32,
    flags: u64,
    is_idle: *mut bool,
) -> i32 {
    engine
        .calls
        .borrow_mut()
        .push(("select_cpu_dfl", [p, prev as u64, flags, 0]));
    // SAFETY: the scheduler passes the address of a bool.
    unsafe { *is_idle = engine.idle };
    prev
}

extern "C" fn dsq_insert(engine: &Engine, p: u64, dsq: u64, slice: u64, flags: u64) {
    engine
        .calls
        .borrow_mut()
        .push(("dsq_insert", [p, dsq, slice, flags]));
}

extern "C" fn move_to_local(engine: &Engine, dsq: u64) -> bool {
    engine
        .calls
        .borrow_mut()
        .push(("move_to_local", [dsq, 0, 0, 0]));
    true
}

/// Allows it.
extern "C" fn store_elsewhere(engine: &Engine, address: u64, bytes: u64, _access: u64) {
    engine.stores.borrow_mut().push((address, bytes));
}

extern "C" fn read_str(_: &Engine, to: *mut u8, size: u32, from: *const u8) -> i64 {
    if size > 0 && !from.is_null() {
        // SAFETY: a test's string of at least one byte.
        unsafe { *to = *from };
    }
    1
}

extern "C" fn unexpected(_: &Engine) -> u64 {
    0
}

pub fn kfunc(name: &str) -> Option<*const c_void> {
    Some(match name {
        "scx_bpf_create_dsq" => create_dsq as *const c_void,
        "scx_bpf_select_cpu_dfl" => select_cpu_dfl as *const c_void,
        "scx_bpf_dsq_insert" => dsq_insert as *const c_void,
        "scx_bpf_dsq_move_to_local" => move_to_local as *const c_void,
        "tilt_store" => store_elsewhere as *const c_void,
        _ => unexpected as *const c_void,
    })
}

pub fn helper(id: u32) -> Option<*const c_void> {
    Some(if id == 115 {
        read_str as *const c_void
    } else {
        unexpected as *const c_void
    })
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A source in the repository, with the repository's own include folder.
pub fn shipped(path: &str) -> Source {
    let mut source = Source::new(repository().join(path));
    source
        .include_dirs
        .push(repository().join("schedulers/lib"));
    source
}

/// The sources of all schedulers in `schedulers/`.
pub fn all_shipped() -> Vec<Source> {
    let folders = std::fs::read_dir(repository().join("schedulers")).expect("schedulers/");
    let names = folders.map(|entry| entry.expect("a folder").file_name());
    let paths = names.map(|name| {
        let name = name.to_string_lossy();
        format!("schedulers/{name}/{name}.bpf.c")
    });
    let files = paths.filter(|path| repository().join(path).is_file());
    files.map(|path| shipped(&path)).collect()
}

/// A source written for one test. The folder goes with the returned guard.
pub fn written(text: &str) -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("test.bpf.c");
    std::fs::write(&path, text).expect("write source");
    (folder, Source::new(path))
}

/// `body` with everything that a scheduler needs around it; ops and helpers are up to `body`.
pub fn scheduler(body: &str, ops: &str) -> String {
    format!(
        "#include <scx/common.bpf.h>\nchar _license[] SEC(\"license\") = \"GPL\";\nUEI_DEFINE(uei);\n{body}\n\
         SCX_OPS_DEFINE(test_ops, {ops} .name = \"test\");\n"
    )
}

pub fn load(object: &Object, globals: &[(String, Value)], engine: &Engine) -> Instance {
    let mut instance = Instance::load(object, globals).expect("load");
    instance.bind(&kfunc, &helper).expect("bind");
    instance.set_engine(engine as *const Engine as *mut c_void);
    instance
}

/// Calls an op by its name in the ops table.
pub fn call(instance: &Instance, object: &Object, op: &str, args: &[u64]) -> Result<u64, Crash> {
    let symbol = instance
        .symbol(&object.ops.functions[op])
        .expect("symbol of op");
    let mut context = [0; 8];
    context[..args.len()].copy_from_slice(args);
    // SAFETY: an op of this instance, with arguments as the test means them.
    unsafe {
        instance.call(
            std::mem::transmute::<*mut u8, EntryPoint>(symbol),
            &mut context,
        )
    }
}

pub fn task() -> Box<TaskStruct> {
    // SAFETY: all members are numbers and pointers.
    unsafe { Box::new(std::mem::zeroed()) }
}

/// A builder that builds every time.
pub fn builder(level: u8) -> Builder {
    Builder::new(BuilderOptions {
        level,
        cache_dir: None,
        ..BuilderOptions::default()
    })
}

pub fn build(source: &Source) -> Object {
    builder(2).native(source).unwrap_or_else(|e| panic!("{e}"))
}

/// Builds `body` with ops `ops`, at both ends of optimisation.
pub fn build_both(body: &str, ops: &str) -> [Object; 2] {
    let (_folder, source) = written(&scheduler(body, ops));
    [0, 2].map(|level| {
        builder(level)
            .native(&source)
            .unwrap_or_else(|e| panic!("{e}"))
    })
}

/// The message with which `body` is refused.
pub fn refusal(body: &str, ops: &str) -> String {
    let (_folder, source) = written(&scheduler(body, ops));
    match builder(2).native(&source) {
        Ok(_) => panic!("built, although it should not"),
        Err(error) => error.to_string(),
    }
}

/// Value of a global of an instance.
pub fn read<T: Copy>(instance: &Instance, name: &str) -> T {
    let address = instance
        .symbol(name)
        .unwrap_or_else(|| panic!("no symbol {name}"));
    // SAFETY: the test knows the type.
    unsafe { address.cast::<T>().read_unaligned() }
}
