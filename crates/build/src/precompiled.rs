// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's types, parsed once for all schedulers: reading vmlinux.h takes half of a small scheduler's front end.
//!
//! `scx/common.bpf.h` defines one macro and then includes vmlinux.h. A source that begins with it finds both in a
//! precompiled header. That is no other source for the compiler, so an object is the same with and without. All of
//! `scx/common.bpf.h` would save more, but then its variables are placed in another order: on other cache lines.

use crate::cache::{self, Cache};
use crate::clang;
use crate::{HeaderSet, Source};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// How a source begins of which the compiler reads nothing before vmlinux.h but this header's first lines.
const BEGIN: &str = "#include <scx/common.bpf.h>";
/// What that header defines before it includes vmlinux.h.
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
    let [types, scx, ..] = &clang::include_dirs(source).ok()?[..] else {
        return None;
    };
    let (header, common) = (types.join("vmlinux.h"), scx.join("scx/common.bpf.h"));
    if source.headers != HeaderSet::Shipped || !begins_with_common(&source.path) {
        return None;
    }
    if !source.defines.is_empty() {
        let read = [&header, &common].map(fs::read_to_string);
        let texts: Vec<String> = read.into_iter().collect::<Result<_, _>>().ok()?;
        let names = source
            .defines
            .iter()
            .map(|d| d.split('=').next().unwrap_or(d));
        if names
            .into_iter()
            .any(|name| texts.iter().any(|text| text.contains(name)))
        {
            return None;
        }
    }
    Some(header)
}

fn begins_with_common(source: &Path) -> bool {
    let text = fs::read_to_string(source).unwrap_or_default();
    let mut lines = text
        .lines()
        .skip_while(|line| !line.trim_start().starts_with('#'));
    let is_first = lines.next().is_some_and(|line| line.trim_end() == BEGIN);
    let before = text.split(BEGIN).next().unwrap_or_default();
    // Not in a comment.
    is_first && before.matches("/*").count() == before.matches("*/").count()
}

/// From the cache, if this compiler has made it from this very file.
fn kept(header: &Path) -> Option<PathBuf> {
    let metadata = header.metadata().ok()?;
    let (size, changed) = (metadata.len(), metadata.modified().ok()?);
    let args: Vec<OsString> = clang::header_args(header, DEFINES);
    let what = format!("{args:?} {size} {changed:?} {}", clang::identity());
    let cache = Cache::new(cache::default_dir()?.join("headers"));
    let path = cache.path(&format!("{}.pch", cache::hash([what.as_bytes()])));
    if !path.is_file() {
        let work = tempfile::tempdir().ok()?;
        let made = work.path().join("vmlinux.pch");
        if !clang::precompile(args, &made) {
            return None;
        }
        let name = path.file_name()?.to_str()?;
        cache.store(name, &fs::read(made).ok()?).ok()?;
        forget_older(path.parent()?);
    }
    Some(path)
}

/// Each takes 20 MB: compilers and headers of the past are not used again.
fn forget_older(folder: &Path) {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let mut all: Vec<_> = entries
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
            (
                "/* A comment. */\n#include <scx/common.bpf.h>\n#define X\n",
                true,
            ),
            ("#include <scx/common.bpf.h> \nint x;", true),
            (
                "#define BPF_NO_PRESERVE_ACCESS_INDEX\n#include <scx/common.bpf.h>\n",
                false,
            ),
            (
                "  # include \"own.h\"\n#include <scx/common.bpf.h>\n",
                false,
            ),
            ("#include \"scx/common.bpf.h\"\n", false),
            (
                "#include \"vmlinux.h\"\n#include <scx/common.bpf.h>\n",
                false,
            ),
            ("int x;\n", false),
            (
                "/*\n#include <scx/common.bpf.h>\n*/\n#define X\n#include <scx/common.bpf.h>\n",
                false,
            ),
        ] {
            let (_folder, source) = source(text);
            assert_eq!(header_of(&source).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn macros_that_the_headers_mention_have_it_read_again() {
        let (_folder, mut source) = source("#include <scx/common.bpf.h>\n");
        for (define, expected) in [
            ("OWN_VARIANT=3", true),
            ("BPF_NO_PRESERVE_ACCESS_INDEX", false),
            ("LSP=1", false),
        ] {
            source.defines = vec![define.to_owned()];
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
