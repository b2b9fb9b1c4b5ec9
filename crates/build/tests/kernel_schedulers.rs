// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own schedulers build without a changed line, and what is read off them is right.

use crate::common::{Engine, build, builder, call, load, read, task};
use tiltyard_build::{HeaderSet, Source};
use tiltyard_native::object::MapKind;
use tiltyard_native::{Object, Value};

fn source(name: &str) -> Option<Source> {
    let source =
        Source::new(crate::kernel_source::sched_ext_tools()?.join(format!("{name}.bpf.c")));
    assert!(
        matches!(source.headers, HeaderSet::Folder(_)),
        "{name} brings its own headers"
    );
    Some(source)
}

fn ops(object: &Object) -> String {
    object
        .ops
        .functions
        .keys()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" ")
}

fn maps(object: &Object) -> Vec<(&str, MapKind, u32, u32, u32)> {
    object
        .maps
        .iter()
        .map(|m| {
            (
                m.name.as_str(),
                m.kind,
                m.key_size,
                m.value_size,
                m.max_entries,
            )
        })
        .collect()
}

#[test]
fn scx_simple() {
    let Some(source) = source("scx_simple") else {
        return;
    };
    let object = build(&source);
    assert_eq!(object.ops.name, "simple");
    assert_eq!(
        ops(&object),
        "dispatch enable enqueue exit init running select_cpu stopping"
    );
    assert_eq!(maps(&object), [("stats", MapKind::PerCpuArray, 4, 8, 2)]);
    assert_eq!(object.tunables["fifo_sched"].size, 1);
    assert_eq!(
        object.kfuncs,
        [
            "scx_bpf_create_dsq",
            "scx_bpf_select_cpu_dfl",
            "scx_bpf_dsq_insert",
            "scx_bpf_dsq_insert_vtime",
            "scx_bpf_dsq_move_to_local",
            // Writes `p->scx.dsq_vtime`, which is not its own memory.
            "tilt_store"
        ]
        .map(str::to_owned)
        .as_slice()
    );
}

#[test]
fn scx_simple_advances_its_virtual_time() {
    let Some(source) = source("scx_simple") else {
        return;
    };
    let object = build(&source);
    let engine = Engine::default();
    let instance = load(
        &object,
        &[("fifo_sched".to_owned(), Value::Int(0))],
        &engine,
    );
    let mut p = task();
    p.scx.weight = 50;
    p.scx.slice = 5_000_000;
    p.scx.dsq_vtime = 1000;
    let at = &raw mut *p as u64;
    call(&instance, &object, "running", &[at]).unwrap();
    assert_eq!(read::<u64>(&instance, "vtime_now"), 1000);
    call(&instance, &object, "stopping", &[at, 1]).unwrap();
    assert_eq!(p.scx.dsq_vtime, 1000 + (20_000_000 - 5_000_000) * 100 / 50);
}

#[test]
fn scx_qmap() {
    let Some(source) = source("scx_qmap") else {
        return;
    };
    let object = build(&source);
    assert_eq!(
        ops(&object),
        "core_sched_before cpu_offline cpu_online cpu_release dequeue dispatch dump dump_cpu dump_task enqueue exit init \
         init_task select_cpu tick"
    );
    assert_eq!(object.ops.timeout_ms, 5000);
    let queue = |name| (name, MapKind::Queue, 0, 4, 4096);
    assert_eq!(
        maps(&object),
        [
            queue("queue0"),
            queue("queue1"),
            queue("queue2"),
            queue("queue3"),
            queue("queue4"),
            ("queue_arr", MapKind::ArrayOfMaps, 4, 4, 5),
            queue("dump_store"),
            ("task_ctx_stor", MapKind::TaskStorage, 4, 16, 0),
            ("cpu_ctx_stor", MapKind::PerCpuArray, 4, 24, 1),
            ("monitor_timer", MapKind::Array, 4, 16, 1),
        ]
    );
    assert_eq!(object.maps[5].values, [0, 1, 2, 3, 4].map(Some));
    assert_eq!(object.maps[5].inner, Some(0));
    assert_eq!(object.tunables["slice_ns"].default, Some(20_000_000));
    // Old names of kernel functions are those of the reference kernel.
    assert!(object.kfuncs.contains(&"scx_bpf_dsq_move".to_owned()));
    assert!(
        !object
            .kfuncs
            .iter()
            .any(|k| k.contains("dispatch_from_dsq") || k.contains("consume"))
    );
}

#[test]
fn scx_central() {
    let Some(source) = source("scx_central") else {
        return;
    };
    let object = build(&source);
    assert_eq!(
        ops(&object),
        "dispatch enqueue exit init running select_cpu stopping"
    );
    // SCX_OPS_ENQ_LAST
    assert_eq!(object.ops.flags, 1 << 1);
    assert_eq!(
        maps(&object),
        [
            ("central_q", MapKind::Queue, 0, 4, 4096),
            ("central_timer", MapKind::Array, 4, 16, 1)
        ]
    );
    // RESIZABLE_ARRAYs have room for every CPU, without user space's help.
    assert_eq!(object.globals["cpu_gimme_task"].size, 4096);
    assert_eq!(object.globals["cpu_started_at"].size, 8 * 4096);
    let instance = load(
        &object,
        &[("nr_cpu_ids".to_owned(), Value::Int(64))],
        &Engine::default(),
    );
    assert_eq!(read::<u32>(&instance, "nr_cpu_ids"), 64);
}

#[test]
fn scx_flatcg() {
    let Some(source) = source("scx_flatcg") else {
        return;
    };
    let object = build(&source);
    assert!(object.ops.functions.contains_key("cgroup_init"));
    assert_eq!(
        object.type_sizes.values().copied().collect::<Vec<_>>(),
        [48]
    );
    // SCX_OPS_HAS_CGROUP_WEIGHT is gone from newer headers and 1 << 16 in the reference kernel.
    assert_eq!(object.ops.flags & (1 << 16), 1 << 16);
}

#[test]
fn bpf_objects_are_built_too() {
    let Some(source) = source("scx_simple") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let options = tiltyard_build::BuilderOptions {
        cache_dir: Some(dir.path().to_owned()),
        ..Default::default()
    };
    let object = tiltyard_build::Builder::new(options)
        .bpf_object(&source)
        .unwrap();
    let bytes = std::fs::read(&object.path).unwrap();
    // ELF for machine 247, BPF.
    assert_eq!((&bytes[..4], bytes[18]), (b"\x7fELF".as_slice(), 247));
    assert!(
        builder(2).bpf_object(&source).is_err(),
        "nowhere to keep it"
    );
}
