// SPDX-License-Identifier: GPL-2.0-or-later
//! Division and shifts as BPF has them, where LLVM and the host have undefined behaviour or a trap.

use crate::ir::{Insn, Result, Unknown};
use std::fmt::Write;

/// Definitions that [`divide`] and [`shift`] call, for 32 and 64 bits.
pub fn prelude() -> String {
    let mut text = String::new();
    for bits in [32, 64] {
        for (name, signed, remainder) in [
            ("udiv", false, false),
            ("urem", false, true),
            ("sdiv", true, false),
            ("srem", true, true),
        ] {
            write_division(&mut text, name, bits, signed, remainder);
        }
    }
    text
}

fn write_division(text: &mut String, name: &str, bits: u32, signed: bool, remainder: bool) {
    let by_zero = if remainder { "%a" } else { "0" };
    let by_minus_one = if remainder { "0" } else { "%negated" };
    let _ = write!(
        text,
        "define internal i{bits} @tilt_{name}_i{bits}(i{bits} %a, i{bits} %b) #0 {{\n\
         \x20 %zero = icmp eq i{bits} %b, 0\n"
    );
    if signed {
        let _ = write!(
            text,
            "  %minus_one = icmp eq i{bits} %b, -1\n\
             \x20 %special = or i1 %zero, %minus_one\n\
             \x20 %divisor = select i1 %special, i{bits} 1, i{bits} %b\n\
             \x20 %negated = sub i{bits} 0, %a\n\
             \x20 %plain = {name} i{bits} %a, %divisor\n\
             \x20 %some = select i1 %minus_one, i{bits} {by_minus_one}, i{bits} %plain\n"
        );
    } else {
        let _ = write!(
            text,
            "  %divisor = select i1 %zero, i{bits} 1, i{bits} %b\n\
             \x20 %some = {name} i{bits} %a, %divisor\n"
        );
    }
    let _ = write!(
        text,
        "  %result = select i1 %zero, i{bits} {by_zero}, i{bits} %some\n  ret i{bits} %result\n}}\n"
    );
}

/// Opcode, type and operands of `udiv i64 %a, %b`.
fn operands(insn: &Insn) -> Option<(&str, &str, &str, &str)> {
    let (left, right) = insn.text.split_once(", ")?;
    let mut words = left.split(' ');
    Some((words.next()?, words.next()?, words.next()?, right))
}

fn is_constant(operand: &str) -> bool {
    operand.parse::<i128>().is_ok()
}

/// `udiv`, `urem`, `sdiv`, `srem`.
pub fn divide(insn: &Insn) -> Result<Vec<Insn>> {
    let unknown = || Unknown::new(format!("division '{}'", insn.text));
    let (opcode, ty, a, b) = operands(insn).ok_or_else(unknown)?;
    if is_constant(b) && b != "0" && b != "-1" {
        return Ok(vec![insn.clone()]);
    }
    let result = &insn.result;
    Ok(match ty {
        "i32" | "i64" => vec![Insn::new(
            result,
            format!("call {ty} @tilt_{opcode}_{ty}({ty} {a}, {ty} {b})"),
        )],
        "i8" | "i16" => {
            let extend = if opcode.starts_with('s') {
                "sext"
            } else {
                "zext"
            };
            vec![
                Insn::new(&format!("{result}.a"), format!("{extend} {ty} {a} to i32")),
                Insn::new(&format!("{result}.b"), format!("{extend} {ty} {b} to i32")),
                Insn::new(
                    &format!("{result}.q"),
                    format!("call i32 @tilt_{opcode}_i32(i32 {result}.a, i32 {result}.b)"),
                ),
                Insn::new(result, format!("trunc i32 {result}.q to {ty}")),
            ]
        }
        _ => return Err(unknown()),
    })
}

/// `shl`, `lshr`, `ashr`: BPF masks the count with 31 or 63. Narrower values sit in 32-bit registers.
pub fn shift(insn: &Insn) -> Result<Vec<Insn>> {
    let unknown = || Unknown::new(format!("shift '{}'", insn.text));
    let (opcode, ty, value, count) = operands(insn).ok_or_else(unknown)?;
    if is_constant(count) {
        return Ok(vec![insn.clone()]);
    }
    let result = &insn.result;
    Ok(match ty {
        "i32" | "i64" => {
            let mask = if ty == "i32" { 31 } else { 63 };
            vec![
                Insn::new(
                    &format!("{result}.count"),
                    format!("and {ty} {count}, {mask}"),
                ),
                Insn::new(result, format!("{opcode} {ty} {value}, {result}.count")),
            ]
        }
        "i8" | "i16" => {
            let extend = if opcode == "ashr" { "sext" } else { "zext" };
            vec![
                Insn::new(
                    &format!("{result}.value"),
                    format!("{extend} {ty} {value} to i32"),
                ),
                Insn::new(
                    &format!("{result}.wide"),
                    format!("zext {ty} {count} to i32"),
                ),
                Insn::new(
                    &format!("{result}.count"),
                    format!("and i32 {result}.wide, 31"),
                ),
                Insn::new(
                    &format!("{result}.shifted"),
                    format!("{opcode} i32 {result}.value, {result}.count"),
                ),
                Insn::new(result, format!("trunc i32 {result}.shifted to {ty}")),
            ]
        }
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(insns: Vec<Insn>) -> Vec<String> {
        insns
            .into_iter()
            .map(|i| format!("{} = {}", i.result, i.text))
            .collect()
    }

    #[test]
    fn division_by_a_variable_is_guarded() {
        let insns = divide(&Insn::new("%q", "sdiv i64 %a, %b")).unwrap();
        assert_eq!(
            lines(insns),
            ["%q = call i64 @tilt_sdiv_i64(i64 %a, i64 %b)"]
        );
    }

    #[test]
    fn division_by_a_harmless_constant_stays() {
        let insns = divide(&Insn::new("%q", "udiv i64 %a, 100")).unwrap();
        assert_eq!(lines(insns), ["%q = udiv i64 %a, 100"]);
    }

    #[test]
    fn variable_shifts_are_masked() {
        let insns = shift(&Insn::new("%s", "shl i32 1, %n")).unwrap();
        assert_eq!(
            lines(insns),
            ["%s.count = and i32 %n, 31", "%s = shl i32 1, %s.count"]
        );
    }

    #[test]
    fn wide_division_is_named() {
        let error = divide(&Insn::new("%q", "udiv i128 %a, %b")).unwrap_err();
        assert_eq!(error.what, "division 'udiv i128 %a, %b'");
    }
}
