// SPDX-License-Identifier: GPL-2.0-or-later
//! The iterator behind `bpf_for`: kernel functions that touch nothing but the scheduler's own variable and cost a kernel no
//! more than their instructions. They are written out, so that they fold into the loop.

use super::fold;
use crate::ir::{Declare, Function, Insn};
use std::collections::HashSet;

/// Prototype and body of each. An iterator (`struct bpf_iter_num`) is the current number and the end, both i32.
const BODIES: &[(&str, &str, &[&str], &str)] = &[
    // -EINVAL backwards, -E2BIG beyond BPF_MAX_LOOPS; an iterator that is refused is empty.
    (
        "bpf_iter_num_new",
        "i32",
        &["ptr", "i32", "i32"],
        "  %start = sext i32 %a1 to i64
  %end = sext i32 %a2 to i64
  %span = sub i64 %end, %start
  %backwards = icmp slt i64 %span, 0
  %endless = icmp sgt i64 %span, 8388608
  %refused = or i1 %backwards, %endless
  %before = sub i32 %a1, 1
  %current = select i1 %refused, i32 0, i32 %before
  %last = select i1 %refused, i32 0, i32 %a2
  store i32 %current, ptr %a0
  %last.at = getelementptr i8, ptr %a0, i64 4
  store i32 %last, ptr %last.at
  %why = select i1 %backwards, i32 -22, i32 -7
  %result = select i1 %refused, i32 %why, i32 0
  ret i32 %result
",
    ),
    (
        "bpf_iter_num_next",
        "ptr",
        &["ptr"],
        "  %current = load i32, ptr %a0
  %end.at = getelementptr i8, ptr %a0, i64 4
  %end = load i32, ptr %end.at
  %next = add i32 %current, 1
  %over = icmp sge i32 %next, %end
  br i1 %over, label %stop, label %go
stop:
  store i64 0, ptr %a0
  ret ptr null
go:
  store i32 %next, ptr %a0
  ret ptr %a0
",
    ),
    ("bpf_iter_num_destroy", "void", &["ptr"], "  ret void\n"),
];

/// The definition of such a function in place of its declaration; `None` for any other, or another prototype.
pub fn definition(name: &str, declare: &Declare) -> Option<String> {
    let (_, ret, params, body) = BODIES.iter().find(|(n, ..)| *n == name)?;
    let same = declare.ret == *ret && declare.params.iter().eq(params.iter());
    let arguments: Vec<String> = (0..)
        .zip(*params)
        .map(|(i, ty)| format!("{ty} %a{i}"))
        .collect();
    let head = format!(
        "define internal {ret} {}({}) #0",
        declare.name,
        arguments.join(", ")
    );
    same.then(|| format!("{head} {{\n{body}}}\n"))
}

/// Pointers to the number of an iterator, which comes to the head of a loop from two calls.
pub fn numbers(function: &Function) -> impl Iterator<Item = &str> {
    let insns = || function.blocks.iter().flat_map(|block| &block.insns);
    let calls = insns().filter(|insn| insn.text.contains("@bpf_iter_num_next("));
    let mut known: HashSet<&str> = calls.map(|insn| insn.result.as_str()).collect();
    let of_known = |insn: &&Insn| {
        let mut values = fold::incoming(&insn.text).into_iter();
        insn.text.starts_with("phi ptr ") && values.all(|(value, _)| known.contains(value))
    };
    let heads: Vec<&str> = insns()
        .filter(of_known)
        .map(|i| i.result.as_str())
        .collect();
    known.extend(heads);
    known.into_iter()
}
