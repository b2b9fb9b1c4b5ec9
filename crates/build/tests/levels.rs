// SPDX-License-Identifier: GPL-2.0-or-later
//! However an object is lowered, the scheduler does the same and is charged the same.

use crate::common::{Engine, all_shipped, call, load, shipped, task};
use tiltyard_build::{Builder, BuilderOptions, Source};
use tiltyard_native::Object;

fn build(source: &Source, level: u8, debug: bool) -> Object {
    let options = BuilderOptions {
        level,
        debug,
        cache_dir: None,
        ..Default::default()
    };
    Builder::new(options)
        .native(source)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// What a few calls of each op do: results, calls of kernel functions with their arguments, and work.
fn trace(object: &Object) -> Vec<String> {
    let engine = Engine::default();
    let instance = load(object, &[], &engine);
    let mut p = task();
    p.scx.weight = 100;
    p.scx.slice = 3_000_000;
    p.nr_cpus_allowed = 4;
    let p = &raw mut *p as u64;
    let mut lines = Vec::new();
    for round in 0..3u64 {
        for op in object.ops.functions.keys() {
            let args = match op.as_str() {
                "dispatch" => [round, p, 0],
                "init" | "exit" => [0, 0, 0],
                _ => [p, round, 8],
            };
            let before = instance.work_insns();
            let result = call(&instance, object, op, &args).map(|r| r as i32);
            // Results of ops without one are whatever a register held.
            let result = if matches!(op.as_str(), "select_cpu" | "init") {
                format!("{result:?}")
            } else {
                format!("{}", result.is_ok())
            };
            lines.push(format!("{op} {result} {}", instance.work_insns() - before));
        }
    }
    let known = |value: u64| {
        if value == p {
            "p".to_owned()
        } else {
            value.to_string()
        }
    };
    // Stack addresses are no part of behaviour; the stubs record none.
    lines.extend(
        engine
            .calls
            .borrow()
            .iter()
            .map(|(name, args)| format!("{name} {:?}", args.map(known))),
    );
    lines
}

#[track_caller]
fn same_however_lowered(source: &Source) {
    let object = build(source, 2, false);
    assert!(
        object == build(source, 2, false),
        "{} gave two objects",
        source.path.display()
    );
    // Users see them, and would see those of shipped headers in each build of their own.
    assert_eq!(object.warnings, Vec::<String>::new());
    let expected = trace(&object);
    for (level, debug) in [(0, false), (3, false), (2, true)] {
        assert_eq!(
            trace(&build(source, level, debug)),
            expected,
            "{}, level {level}, debug {debug}",
            source.path.display()
        );
    }
}

/// A sixth of them: each is built five times.
#[test]
fn every_shipped_scheduler_does_the_same() {
    let mut sixths: [Vec<Source>; 6] = Default::default();
    for (at, source) in all_shipped().into_iter().enumerate() {
        sixths[at % 6].push(source);
    }
    for sixth in crate::sample::some(&sixths) {
        // Two at a time.
        let (some, others) = sixth.split_at(sixth.len() / 2);
        std::thread::scope(|scope| {
            scope.spawn(|| some.iter().for_each(same_however_lowered));
            others.iter().for_each(same_however_lowered);
        });
    }
}

#[test]
fn debug_objects_name_source_lines() {
    let source = shipped("schedulers/fifo/fifo.bpf.c");
    let has_lines = |object: &Object| object.image.windows(11).any(|w| w == b".debug_line");
    assert!(has_lines(&build(&source, 2, true)));
    assert!(!has_lines(&build(&source, 2, false)));
}

/// The object of a source does not depend on whether the kernel's types were precompiled: a directive before the first
/// `#include`, in place of the licence's comment, has them read again.
#[test]
fn precompiled_types_change_nothing() {
    let all = all_shipped();
    for source in crate::sample::some(&all) {
        let text = std::fs::read_to_string(&source.path).unwrap();
        let (licence, rest) = text.split_once('\n').unwrap();
        assert!(
            licence.starts_with("/*") && licence.ends_with("*/"),
            "{licence}"
        );
        let root = tempfile::tempdir().unwrap();
        let folder = source.path.parent().unwrap();
        let copy = root.path().join(folder.file_name().unwrap());
        std::fs::create_dir(&copy).unwrap();
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "h") {
                std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
            }
        }
        let path = copy.join(source.path.file_name().unwrap());
        std::fs::write(&path, format!("#undef NOBODY\n{rest}")).unwrap();
        let copied = Source {
            path,
            ..source.clone()
        };
        let defined = Source {
            defines: vec!["NOBODY=1".to_owned()],
            ..source.clone()
        };
        let built = [source, &defined, &copied].map(|source| build(source, 2, false));
        let [with, with_macro, without] = built;
        let name = source.path.display();
        assert!(with.image == without.image, "{name}");
        assert!(with_macro.image == without.image, "{name} with a macro");
        let described = |object: &Object| {
            let value = serde_json::to_value(object).unwrap();
            let mut fields = value.as_object().unwrap().clone();
            fields.retain(|name, _| name != "key" && name != "image");
            fields
        };
        for (field, value) in described(&with) {
            assert_eq!(value, described(&without)[&field], "{field} of {name}");
        }
    }
}
