// SPDX-License-Identifier: GPL-2.0-or-later
//! Short names of files.

use std::path::{Component, Path, PathBuf};

/// The path without `..`, by its text: one file may be included as `a/../x.h` and as `x.h`.
pub fn direct(path: &Path) -> PathBuf {
    let mut direct = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(direct.pop()),
            part => direct.push(part),
        }
    }
    direct
}

/// Each file's name, preceded by as many of its folders as are needed to make it unique.
pub fn short(files: &[PathBuf]) -> Vec<String> {
    let name = |file: &PathBuf| {
        let others = files.iter().filter(|other| *other != file);
        let same = others.map(|other| parts_in_common(file, other)).max();
        let skipped = file.iter().count().saturating_sub(same.unwrap_or(0) + 1);
        let name: PathBuf = file.iter().skip(skipped).collect();
        name.display().to_string()
    };
    files.iter().map(name).collect()
}

/// At the end of two paths.
fn parts_in_common(a: &Path, b: &Path) -> usize {
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_have_different_short_names() {
        let files = ["/s/own.bpf.c", "/s/a/load.h", "/s/b/load.h", "/load.h"].map(PathBuf::from);
        let names = ["own.bpf.c", "a/load.h", "b/load.h", "/load.h"];
        assert_eq!(short(&files), names);
    }

    #[test]
    fn a_direct_path_has_no_detours() {
        assert_eq!(direct(Path::new("/s/a/../b/./x.h")), Path::new("/s/b/x.h"));
    }
}
