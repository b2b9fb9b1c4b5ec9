// SPDX-License-Identifier: GPL-2.0-or-later
//! Every shipped workload is read, explains itself, and says what its source says.

use std::path::{Path, PathBuf};
use tiltyard_workload::{Workload, read};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let entries = std::fs::read_dir(folder).expect("workloads/");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

fn workload(file: &Path) -> Workload {
    let text = std::fs::read_to_string(file).expect("readable");
    read(&text, &file.to_string_lossy()).unwrap_or_else(|errors| {
        let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

#[test]
fn all_are_read_and_explained() {
    let files = shipped();
    assert!(!files.is_empty());
    for file in files {
        let w = workload(&file);
        assert_eq!(
            Some(w.name.as_str()),
            file.file_stem().and_then(|stem| stem.to_str())
        );
        assert!(w.description.len() > 80, "{} explains itself", w.name);
    }
}
