// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's types, parsed once for all schedulers: reading vmlinux.h takes half of a small scheduler's front end.
//!
//! `scx/common.bpf.h` defines one macro and then includes vmlinux.h. A source that begins with it gets both from a
//! precompiled header, even if it is compiled with extra macros, provided that these occur in neither. The compiler sees the
//! same source either way, so the object is identical. All of `scx/common.bpf.h` would save more, but then its variables are placed in
//! another order: on other cache lines.

use crate::cache::{self, Cache};
use crate::clang;
use crate::{HeaderSet, Source};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a source begins of which the compiler reads nothing before the common header.
const BEGIN: &str = "#include <scx/common.bpf.h>";
/// How that header begins.
const COMMON: [&str; 8] = [
    "#ifndef __SCX_COMMON_BPF_H",
    "#define __SCX_COMMON_BPF_H",
    "#define BPF_NO_KFUNC_PROTOTYPES",
    "#ifdef LSP",
    "#define __bpf__",
    "#include \"../vmlinux.h\"",
    "#else",
    "#include \"vmlinux.h\"",
];
/// What it defines before vmlinux.h.
const DEFINES: &str = "BPF_NO_KFUNC_PROTOTYPES";
/// How many are kept.
const MOST: usize = 4;

/// The precompiled vmlinux.h for `source`; `None` if it could mean anything else there, or cannot be made. Also for builders
/// that keep no objects: it is the headers', not the source's.
pub fn vmlinux(source: &Source) -> Option<PathBuf> {
    kept(&header_of(source)?)
}

/// The vmlinux.h that `source` reads, if it is the same for all sources.
fn header_of(source: &Source) -> Option<PathBuf> {
    if source.headers != HeaderSet::Shipped {
        return None;
    }
    let [types, scx, ..] = &clang::include_dirs(source).ok()?[..] else {
        return None;
    };
    let common = scx.join("scx/common.bpf.h");
    let text = fs::read_to_string(&source.path).ok()?;
    let vmlinux = types.join("vmlinux.h");
    let is_usual = begins_with_common(&text)
        && begins_as_known(&fs::read_to_string(&common).ok()?)
        && !common.with_file_name("vmlinux.h").exists()
        && do_not_occur(&source.defines, &vmlinux)?;
    is_usual.then_some(vmlinux)
}

/// Whether none of these macros occurs in the header or before it. `None` if the header cannot be read. Also false
/// for what may mean something else to the compiler after a precompiled header: several lines, two definitions of one name,
/// and reserved names, some of which the compiler defines itself.
fn do_not_occur(defines: &[String], header: &Path) -> Option<bool> {
    if defines.is_empty() {
        return Some(true);
    }
    let mut text = COMMON.join("\n");
    text.push_str(&fs::read_to_string(header).ok()?);
    let mut names = BTreeSet::new();
    let is_absent = |define: &String| {
        let end = define.find(|c| !is_of_name(c)).unwrap_or(define.len());
        let name = &define[..end];
        !name.is_empty()
            && !name.starts_with("__")
            && !define.contains(['\n', '\r', '\\'])
            && !has_word(&text, name)
            && names.insert(name.to_owned())
    };
    Some(defines.iter().all(is_absent))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let ends_before = text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !is_of_name(c));
        let begins_after = text[at + word.len()..]
            .chars()
            .next()
            .is_none_or(|c| !is_of_name(c));
        ends_before && begins_after
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether only comments come before the header.
fn begins_with_common(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        let Some((_, after)) = comment.split_once("*/") else {
            return false;
        };
        rest = after.trim_start();
    }
    rest.lines()
        .next()
        .is_some_and(|line| line.trim_end() == BEGIN)
}

fn begins_as_known(common: &str) -> bool {
    let directives = common.lines().filter(|line| line.starts_with('#'));
    directives.take(COMMON.len()).eq(COMMON)
}

/// From the cache, if this compiler has made it from this very file.
fn kept(header: &Path) -> Option<PathBuf> {
    let file = header.metadata().ok()?;
    let args = clang::header_args(header, DEFINES);
    let state = (file.len(), file.mtime(), file.mtime_nsec());
    let identity = (file.ino(), file.ctime(), file.ctime_nsec());
    let what = format!("{args:?} {state:?} {identity:?} {}", clang::identity());
    let cache = Cache::new(cache::default_dir()?.join("headers"));
    let path = cache.path(&format!("{}.pch", cache::hash([what.as_bytes()])));
    if !path.is_file() {
        let folder = path.parent()?;
        fs::create_dir_all(folder).ok()?;
        // Where nothing can be kept, making it would only cost time.
        drop(tempfile::NamedTempFile::new_in(folder).ok()?);
        let work = tempfile::tempdir().ok()?;
        let made = work.path().join("vmlinux.pch");
        if !clang::precompile(args, &made) {
            return None;
        }
        let name = path.file_name()?.to_str()?;
        cache.store(name, &fs::read(made).ok()?).ok()?;
        forget_older(folder);
    } else if let Ok(file) = fs::File::options().append(true).open(&path) {
        // The most recently used ones are kept.
        let _ = file.set_modified(SystemTime::now());
    }
    Some(path)
}

/// Each takes 20 MB: compilers and headers of the past are not used again.
fn forget_older(folder: &Path) {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut all: Vec<_> = entries
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "pch"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    all.sort();
    for (_, old) in all.iter().rev().skip(MOST) {
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> (tempfile::TempDir, Source) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.bpf.c");
        fs::write(&path, text).unwrap();
        (folder, Source::new(path))
    }

    #[test]
    fn only_sources_that_begin_with_the_common_header_have_it() {
        for (text, expected) in [
            ("#include <scx/common.bpf.h>", true),
            (
                "/* A\n#define */ /* B */\n\n#include <scx/common.bpf.h> \nint x;",
                true,
            ),
            ("// A\n#include <scx/common.bpf.h>\n", false),
            ("#define X\n#include <scx/common.bpf.h>\n", false),
            (
                "struct own { u64 x; };\n#include <scx/common.bpf.h>\n",
                false,
            ),
            ("_Pragma(\"pack(1)\")\n#include <scx/common.bpf.h>\n", false),
            ("#include \"scx/common.bpf.h\"\n", false),
            (
                "/*\n#include <scx/common.bpf.h>\n*/\n#define X\n#include <scx/common.bpf.h>\n",
                false,
            ),
            ("/* #include <scx/common.bpf.h>", false),
            ("", false),
        ] {
            let (_folder, source) = source(text);
            assert_eq!(header_of(&source).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn another_common_header_is_read() {
        let known = COMMON.join("\nint between;\n");
        assert!(begins_as_known(&known));
        assert!(!begins_as_known(&known.replace("KFUNC", "NO")));
        assert!(!begins_as_known(&format!("#pragma once\n{known}")));
        assert!(!begins_as_known(""));
    }

    #[test]
    fn macros_that_it_mentions_have_it_read_again() {
        for (define, expected) in [
            ("MODE=2", true),
            ("task_struct_of(p)=p", true),
            ("BPF_NO_PRESERVE_ACCESS_INDEX", false),
            ("LSP", false),
            ("task_struct=own", false),
            ("u64(x)=x", false),
            ("=1", false),
            ("OTHER(x)=x", false),
            ("__TARGET_ARCH_x86=2", false),
            ("MODE=2\n#define u64 u32", false),
            ("MODE=2\\", false),
        ] {
            let (_folder, mut source) = source("#include <scx/common.bpf.h>\n");
            source.defines = vec!["OTHER".to_owned(), define.to_owned()];
            assert_eq!(header_of(&source).is_some(), expected, "{define}");
        }
    }

    #[test]
    fn other_headers_than_the_shipped_ones_are_read() {
        let (folder, mut source) = source("#include <scx/common.bpf.h>\n");
        source.headers = HeaderSet::Folder(folder.path().to_owned());
        assert_eq!(header_of(&source), None);
    }

    #[test]
    fn the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..=MOST)
            .map(|number| folder.path().join(format!("{}.pch", MOST - number)))
            .collect();
        fs::write(folder.path().join(".unfinished"), "").unwrap();
        for (age, path) in paths.iter().rev().enumerate() {
            let file = fs::File::create(path).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 - age as u64);
            file.set_modified(time).unwrap();
        }
        forget_older(folder.path());
        let left: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [false, true, true, true, true]);
    }

    #[test]
    fn a_damaged_one_costs_time_and_nothing_else() {
        let (folder, source) = source("#include <scx/common.bpf.h>\nint x = 1;\n");
        let [damaged, output, deps] = ["a.pch", "a.ll", "a.d"].map(|name| folder.path().join(name));
        fs::write(&damaged, "CPCH, or not").unwrap();
        let kind = ["-S", "-emit-llvm"];
        let done = clang::front_end(&source, &kind, Some(&damaged), &output, &deps);
        assert_eq!(done.unwrap(), Vec::<String>::new());
        assert!(fs::read_to_string(&output).unwrap().contains("@x = "));
        assert!(!damaged.exists(), "the next build makes another one");
    }
}
