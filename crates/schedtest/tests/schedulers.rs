// SPDX-License-Identifier: GPL-2.0-or-later
//! The tests that lie beside schedulers, one module for each folder `schedulers/NAME/tests`.

#[path = "../../../schedulers/bfs/tests/mod.rs"]
mod bfs;
#[path = "../../../schedulers/bsd4/tests/mod.rs"]
mod bsd4;
#[path = "../../../schedulers/cfs/tests/mod.rs"]
mod cfs;
#[path = "../../../schedulers/eevdf/tests/mod.rs"]
mod eevdf;
#[path = "../../../schedulers/fifo/tests/mod.rs"]
mod fifo;
#[path = "../../../schedulers/lib/tests/mod.rs"]
mod lib;
#[path = "../../../schedulers/mlfq/tests/mod.rs"]
mod mlfq;
#[path = "../../../schedulers/o1/tests/mod.rs"]
mod o1;
#[path = "../../../schedulers/sd/tests/mod.rs"]
mod sd;
#[path = "../../../schedulers/ule/tests/mod.rs"]
mod ule;

use tiltyard_schedtest::repository;

#[test]
fn no_tests_are_left_out() {
    let run = include_str!("schedulers.rs");
    let folders = std::fs::read_dir(repository().join("schedulers")).expect("schedulers/");
    for folder in folders.map(|entry| entry.expect("a folder").path()) {
        let name = folder.file_name().expect("a name").to_string_lossy();
        if folder.join("tests/mod.rs").is_file() {
            let line = format!("schedulers/{name}/tests/mod.rs\"]");
            assert!(run.contains(&line), "{name}: its tests are not run");
        } else {
            let lost = folder.join("tests").read_dir();
            let files = lost.map_or(0, Iterator::count);
            assert_eq!(
                files, 0,
                "{name}: no tests/mod.rs, which runs what lies there"
            );
        }
    }
}
