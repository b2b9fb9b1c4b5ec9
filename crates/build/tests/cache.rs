// SPDX-License-Identifier: GPL-2.0-or-later
//! The build cache: what hits, what misses, what it survives.

mod common;

use common::scheduler;
use std::fs;
use std::path::Path;
use std::process::Command;
use tiltyard_build::{Builder, BuilderOptions, Source};
use tiltyard_native::Object;

const BODY: &str = "#include \"own.h\"
    u64 out; void BPF_STRUCT_OPS(test_enqueue, struct task_struct *p, u64 enq_flags) {
        out = OWN; if (enq_flags == 1) scx_bpf_error(\"at %s\", __FILE__); }";

/// A source with a header of its own, in `folder`.
fn write(folder: &Path, own: u32) -> Source {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("test.bpf.c");
    fs::write(&path, scheduler(BODY, ".enqueue = (void *)test_enqueue,")).unwrap();
    fs::write(folder.join("own.h"), format!("#define OWN {own}\n")).unwrap();
    Source::new(path)
}

fn build(cache: &Path, source: &Source) -> Object {
    let options = BuilderOptions {
        cache_dir: Some(cache.to_owned()),
        ..Default::default()
    };
    Builder::new(options)
        .native(source)
        .unwrap_or_else(|e| panic!("{e}"))
}

fn stored(cache: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(cache)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn contents_decide() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let source = write(&dir.path().join("here"), 1);
    let first = build(&cache, &source);
    let files = stored(&cache);
    assert_eq!(build(&cache, &source), first);
    assert_eq!(stored(&cache), files, "a hit writes nothing");

    let elsewhere = build(&cache, &write(&dir.path().join("elsewhere"), 1));
    assert_eq!(
        elsewhere.key, first.key,
        "the same contents at another place"
    );

    let changed = build(&cache, &write(&dir.path().join("here"), 2));
    assert_ne!(changed.key, first.key, "a header has changed");
    assert_eq!(
        build(&cache, &write(&dir.path().join("here"), 1)).key,
        first.key
    );
}

#[test]
fn a_damaged_cache_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let source = write(dir.path(), 1);
    let first = build(&cache, &source);
    fs::write(cache.join(format!("{}.json", first.key)), "{\"key\":").unwrap();
    assert_eq!(build(&cache, &source), first);
    let image = cache.join(format!("{}.so", first.key));
    fs::remove_file(&image).unwrap();
    assert_eq!(build(&cache, &source), first);
    // What is still a shared object would run, and do something else.
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&image, &bytes).unwrap();
    assert_eq!(build(&cache, &source), first);
    fs::write(&image, "").unwrap();
    assert_eq!(build(&cache, &source), first);
}

/// The environment belongs to the whole process, so this test runs its second half in another one.
#[test]
fn without_a_compiler_the_error_says_how_to_get_one() {
    let inner = "inner_without_a_compiler";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", inner, "--nocapture"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("apt-get install clang-19"), "{text}");
}

#[test]
#[ignore = "half of another test"]
fn inner_without_a_compiler() {
    let dir = tempfile::tempdir().unwrap();
    let options = BuilderOptions {
        cache_dir: None,
        ..Default::default()
    };
    println!(
        "{}",
        Builder::new(options)
            .native(&write(dir.path(), 1))
            .unwrap_err()
    );
}
