// SPDX-License-Identifier: GPL-2.0-or-later
//! The build cache: what hits, what misses, what it survives.

use crate::common::scheduler;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
fn a_header_that_is_found_first_counts_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut source = write(&folder.path().join("own"), 1);
    let (own, lib) = (folder.path().join("own/own.h"), folder.path().join("lib"));
    fs::create_dir(&lib).unwrap();
    fs::rename(&own, lib.join("own.h")).unwrap();
    source.include_dirs.push(lib);
    let first = build(&cache, &source);
    assert_eq!(build(&cache, &source), first);
    fs::write(&own, "#define OWN 2\n").unwrap();
    let other = build(&cache, &source);
    assert_ne!(other.key, first.key);
    assert_eq!(build(&cache, &source), other);
    fs::remove_file(&own).unwrap();
    assert_eq!(build(&cache, &source), first);
}

#[test]
fn a_header_that_may_be_missing_counts_as_soon_as_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let source = write(folder.path(), 1);
    let asks = "#if __has_include(\"more.h\")\n#include \"more.h\"\n#endif\n#define OWN 1\n";
    fs::write(folder.path().join("own.h"), asks).unwrap();
    let first = build(&cache, &source);
    fs::write(folder.path().join("more.h"), "u64 more;\n").unwrap();
    assert_ne!(build(&cache, &source).key, first.key);
}

#[test]
fn warnings_name_the_copy_that_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let options = BuilderOptions {
        cache_dir: Some(folder.path().join("cache")),
        ..Default::default()
    };
    let builder = Builder::new(options);
    let copies = ["here", "elsewhere"].map(|name| {
        let source = write(&folder.path().join(name), 1);
        let text = fs::read_to_string(&source.path).unwrap();
        fs::write(
            &source.path,
            text.replace("out = OWN;", "int unused; out = OWN;"),
        )
        .unwrap();
        source
    });
    // Built, and known.
    for source in copies.iter().chain(&copies) {
        let native = builder.native(source).unwrap().warnings;
        let bpf = builder.bpf_object(source).unwrap().warnings;
        for warnings in [native, bpf] {
            let [line] = warnings.as_slice() else {
                panic!("{warnings:?}")
            };
            let path = source.path.canonicalize().unwrap();
            assert!(line.starts_with(path.to_str().unwrap()), "{line}");
            assert!(line.contains("unused"), "{line}");
        }
    }
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

/// The environment and the working folder belong to the whole process, so these tests run their second halves in other ones.
fn second_half(name: &str, path: impl AsRef<OsStr>) -> String {
    let cache = tempfile::tempdir().unwrap();
    with_cache(name, path, cache.path())
}

fn with_cache(name: &str, path: impl AsRef<OsStr>, cache: &Path) -> String {
    let test = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &test, "--nocapture"])
        .env("PATH", path)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn a_source_is_compiled_once_and_lowered_once() {
    let usual = std::env::var_os("PATH").unwrap();
    let compiler = std::env::split_paths(&usual)
        .map(|folder| folder.join("clang-19"))
        .find(|file| file.is_file())
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("clang-19");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--version*) ;; *c-header*) echo precompiles ;; *native.ll*) echo lowers ;; *) echo compiles ;; esac >>{}\n\
         exec {} \"$@\"\n",
        folder.path().join("calls").display(),
        compiler.display()
    );
    fs::write(&told, script).unwrap();
    fs::set_permissions(&told, fs::Permissions::from_mode(0o755)).unwrap();
    let folders = [folder.path().to_owned()].into_iter();
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&usual))).unwrap();
    let done = second_half("inner_compiled_once", path);
    assert!(done.contains("1 passed"), "{done}");
}

#[test]
#[ignore = "half of another test"]
fn inner_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let path = std::env::var_os("PATH").unwrap();
    let calls = std::env::split_paths(&path).next().unwrap().join("calls");
    let built = |source: &Source| {
        fs::write(&calls, "").unwrap();
        let object = build(&cache, source);
        (
            object,
            fs::read_to_string(&calls).unwrap().replace('\n', " "),
        )
    };
    let source = write(&folder.path().join("here"), 1);
    let (first, made) = built(&source);
    assert_eq!(made, "precompiles compiles lowers ");

    std::env::set_current_dir(folder.path()).unwrap();
    let relative = Source::new("here/test.bpf.c");
    for source in [&source, &relative] {
        assert_eq!(built(source), (first.clone(), String::new()));
    }
    let elsewhere = write(&folder.path().join("elsewhere"), 1);
    assert_eq!(built(&elsewhere), (first.clone(), "compiles ".to_owned()));
    assert_eq!(built(&elsewhere), (first.clone(), String::new()));

    let debug = |source: &Source| {
        fs::write(&calls, "").unwrap();
        let options = BuilderOptions {
            cache_dir: Some(cache.clone()),
            debug: true,
            ..Default::default()
        };
        Builder::new(options).native(source).unwrap();
        fs::read_to_string(&calls).unwrap().replace('\n', " ")
    };
    // It names the place.
    for source in [&source, &elsewhere] {
        assert_eq!(debug(source), "compiles lowers ");
    }

    // Places in a header count only if it is in the source's folder.
    let mut apart = write(&folder.path().join("apart"), 1);
    let own = "apart/own.h";
    fs::create_dir("lib").unwrap();
    fs::rename(own, "lib/own.h").unwrap();
    apart.include_dirs.push("lib".into());
    let (other, made) = built(&apart);
    assert_eq!(made, "compiles lowers ");
    assert_ne!(other.key, first.key);

    // From another folder, its name means another one.
    fs::create_dir_all("there/lib").unwrap();
    fs::write("there/lib/own.h", "#define OWN 3\n").unwrap();
    std::env::set_current_dir("there").unwrap();
    assert_ne!(built(&apart).0.key, other.key);
}

#[test]
fn without_a_compiler_the_error_says_how_to_get_one() {
    let text = second_half("inner_without_a_compiler", "/nonexistent");
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

/// Where nothing can be kept, the kernel's types are not precompiled.
#[test]
fn precompiled_types_do_not_change_the_key() {
    let usual = std::env::var_os("PATH").unwrap();
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("file");
    fs::write(&file, "").unwrap();
    let key_of = |cache: &Path| {
        let said = with_cache("inner_key", &usual, cache);
        let key = said.lines().find_map(|line| line.strip_prefix("key "));
        key.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    assert_eq!(key_of(cache.path()), key_of(&file));
    let headers = cache.path().join("tiltyard/headers");
    assert_eq!(headers.read_dir().unwrap().count(), 1);
}

#[test]
#[ignore = "half of another test"]
fn inner_key() {
    let folder = tempfile::tempdir().unwrap();
    let options = BuilderOptions {
        cache_dir: None,
        ..Default::default()
    };
    let object = Builder::new(options).native(&write(folder.path(), 1));
    println!("\nkey {}", object.unwrap().key);
}
