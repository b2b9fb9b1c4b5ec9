// SPDX-License-Identifier: GPL-2.0-or-later
//! Which objects a damaged verifier must not see.

use std::path::{Path, PathBuf};

use tiltyard_build::{Builder, Source};
use tiltyard_kernel::verifier_bug::threatens;

fn object(source: &str) -> Vec<u8> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut source = Source::new(root.join(source));
    source.include_dirs.push(root.join("schedulers/lib"));
    let built = Builder::default().bpf_object(&source);
    std::fs::read(built.unwrap().path).unwrap()
}

#[test]
fn loops_in_functions_are_dangerous_and_others_are_not() {
    let (functions, none) = (
        object("schedulers/lib/tests/lib.bpf.c"),
        object("schedulers/fifo/fifo.bpf.c"),
    );
    assert!(threatens("6.16.12", &functions));
    assert!(!threatens("6.16.12", &none));
    assert!(!threatens("6.18.15", &functions));
    assert!(!threatens("6.16.12", b"no object"));
}
