// SPDX-License-Identifier: GPL-2.0-or-later
//! Which memory an instruction for the host reads and writes. Work is counted before this is added, so a scheduler that reports
//! its accesses takes no longer in the simulated machine.

use crate::ir::{Insn, split_top};
use crate::parse::Call;
use tiltyard_native::object::TELL_ACCESS;

/// Calls to stand before the instruction, one for each place that it reads or writes. Stack memory is reported like any other.
pub fn tell(insn: &Insn) -> Vec<Insn> {
    let call = |place: Place| {
        let Place {
            pointer,
            bytes,
            write,
        } = place;
        let write = u8::from(write);
        Insn::new(
            "",
            format!("call void @{TELL_ACCESS}(ptr {pointer}, i64 {bytes}, i64 {write})"),
        )
    };
    places(insn).into_iter().map(call).collect()
}

pub struct Place {
    pub pointer: String,
    /// How far it reaches, an i64. A single value lies in one element of whatever it is part of: 1 says enough.
    pub bytes: String,
    pub write: bool,
}

impl Place {
    fn of_value(pointer: String, write: bool) -> Vec<Place> {
        let bytes = "1".to_owned();
        vec![Place {
            pointer,
            bytes,
            write,
        }]
    }
}

pub fn places(insn: &Insn) -> Vec<Place> {
    let text = &insn.text;
    let operand = |at: usize| split_top(text, ',').get(at).map(|o| pointer(o));
    match insn.opcode() {
        "load" => operand(1).map(|p| Place::of_value(p, false)),
        "store" => operand(1).map(|p| Place::of_value(p, true)),
        "atomicrmw" | "cmpxchg" => operand(0).map(|p| Place::of_value(p, true)),
        "call" => Call::parse(text).ok().map(|call| of_call(&call)),
        _ => None,
    }
    .unwrap_or_default()
}

/// The pointer of an operand: what follows the type, which is the last word `ptr` outside of constant expressions.
fn pointer(operand: &str) -> String {
    let at = operand.find("ptr ").map_or(0, |at| at + 4);
    operand[at..].to_owned()
}

fn of_call(call: &Call) -> Vec<Place> {
    let place = |at: usize, write: bool| {
        let [(_, pointer), (_, bytes)] = [call.args.get(at)?, call.args.get(2)?];
        Some(Place {
            pointer: pointer.clone(),
            bytes: bytes.clone(),
            write,
        })
    };
    let name = call.callee.strip_prefix("@llvm.").unwrap_or("");
    let (writes, reads) = (place(0, true), place(1, false));
    match name.split('.').next() {
        Some("memcpy" | "memmove") => writes.into_iter().chain(reads).collect(),
        Some("memset") => writes.into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        tell(&Insn::new("%r", text))
            .into_iter()
            .map(|i| i.text)
            .collect()
    }

    #[test]
    fn every_kind_of_access_is_told() {
        let cases = [
            ("load i64, ptr %p, align 8", "ptr %p, i64 1, i64 0"),
            ("load volatile i32, ptr @g, align 4", "ptr @g, i64 1, i64 0"),
            ("store ptr %v, ptr %p, align 8", "ptr %p, i64 1, i64 1"),
            (
                "store i64 1, ptr getelementptr (i8, ptr @cpus, i64 64), align 8",
                "ptr getelementptr (i8, ptr @cpus, i64 64), i64 1, i64 1",
            ),
            (
                "atomicrmw add ptr %p, i32 1 seq_cst, align 4",
                "ptr %p, i64 1, i64 1",
            ),
            (
                "cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst, align 4",
                "ptr %p, i64 1, i64 1",
            ),
            (
                "call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 8, i1 false)",
                "ptr %p, i64 8, i64 1",
            ),
        ];
        for (text, args) in cases {
            assert_eq!(
                told(text),
                [format!("call void @tilt_access({args})")],
                "{text}"
            );
        }
        let copy = told("call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)");
        assert!(copy[0].contains("(ptr %to, i64 %n, i64 1)"));
        assert!(copy[1].contains("(ptr %from, i64 %n, i64 0)"));
    }

    #[test]
    fn arithmetic_and_calls_touch_nothing() {
        for text in ["add i64 %a, %b", "call i64 @f(ptr %p)", "ret i64 0"] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }
}
