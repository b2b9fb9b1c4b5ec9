// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF's own arithmetic, and what kernel functions and maps answer.

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

pub fn answers_of_kernel_functions(arm: &impl Arm) {
    const ENOENT: i64 = -2;
    const E2BIG: i64 = -7;
    const EEXIST: i64 = -17;
    const EINVAL: i64 = -22;
    let log = arm.run(&Case::new("answers", r#""A": { "loop": 1, "run": 1000 }"#));
    for (what, value) in [
        ("create_builtin", EINVAL),
        ("create_bad_node", EINVAL),
        ("create_twice", EEXIST),
        ("nr_queued_empty", 0),
        ("nr_queued_unknown", ENOENT),
        ("nr_queued_global", ENOENT),
        ("nr_cpu_ids", 1),
        ("pop_empty", ENOENT),
        ("pop_zeroes", 0),
        ("push_full", E2BIG),
        ("push_over", 0),
        ("pop_second", 2),
        ("hash_exist", ENOENT),
        ("hash_noexist", EEXIST),
        ("hash_full", E2BIG),
        ("hash_delete", ENOENT),
        ("array_range", 1),
        ("array_update", E2BIG),
        ("array_delete", EINVAL),
    ] {
        assert_eq!(log.values(what, "0"), [value], "{what}");
    }
}
