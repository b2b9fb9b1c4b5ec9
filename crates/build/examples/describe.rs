// SPDX-License-Identifier: GPL-2.0-or-later
//! Builds a source and prints what an engine would know about it: `cargo run --example describe FILE.bpf.c [INCLUDE_DIR]`.

use tiltyard_build::{Builder, Source};

fn main() {
    let mut args = std::env::args_os().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: describe FILE.bpf.c [INCLUDE_DIR]...");
        std::process::exit(2);
    };
    let mut source = Source::new(path);
    source.include_dirs = args.map(Into::into).collect();
    match Builder::default().native(&source) {
        Ok(mut object) => {
            println!("image of {} bytes", object.image.len());
            object.image.clear();
            println!("{object:#?}");
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
