// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF's own arithmetic.

use crate::arm::{Arm, Case};

/// x / 0 is 0 and x % 0 is x, at both widths; shifts take their count modulo the width.
pub fn undefined_in_c_is_defined_in_bpf(arm: &impl Arm) {
    let log = arm.run(&Case::new(
        "arithmetic",
        r#""A": { "loop": 1, "run": 1000 }"#,
    ));
    for (what, value) in [
        ("div64", 0),
        ("mod64", 7),
        ("div32", 0),
        ("mod32", 7),
        ("shl64", 14),
        ("shl32", 14),
    ] {
        assert_eq!(log.values(what, "0"), [value], "{what}");
    }
}
