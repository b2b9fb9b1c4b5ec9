// SPDX-License-Identifier: GPL-2.0-or-later
//! Any bytes are a workload or errors, never a panic; and what was read can be written and read again.
//!
//! `cargo +nightly fuzz run read_workload`
#![no_main]

use libfuzzer_sys::fuzz_target;
use tiltyard_workload::{Dialect, read, write};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match read(&text, "fuzz.json") {
        Ok(workload) => {
            let written =
                write(&workload, Dialect::Tiltyard).expect("what was read can be written");
            assert_eq!(read(&written, "again.json").as_ref(), Ok(&workload));
            let _ = write(&workload, Dialect::RtApp);
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert_eq!(error.to_string().lines().count(), 1);
                assert!(text.get(error.span).is_some(), "the span lies in the text");
            }
        }
    }
});
