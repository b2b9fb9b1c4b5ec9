// SPDX-License-Identifier: GPL-2.0-or-later
//! Inline assembly. BPF headers use very little of it, and each piece has one meaning.

use crate::ir::{Insn, Result, Unknown, labels};
use crate::parse::Call;

/// MEMBER_VPTR and ARRAY_ELEM_PTR of scx/common.bpf.h.
const BOUNDED: &str = "if $0 <= $2 goto +2\\0A$0 = 0\\0Agoto +1\\0A$0 += $1\\0A";

/// `cond_break` and `can_loop`.
const MAY_GOTO: &str = "may_goto ${0:l}";

/// What `data_race()` of tiltyard.bpf.h wraps a value in: a comment, which assembles to nothing.
const DATA_RACE: &str = "# data_race";

/// The string of an `asm`, without quotes.
fn template(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or("")
}

/// A call of inline assembly.
pub fn call(insn: &Insn, call: &Call) -> Result<Vec<Insn>> {
    let unknown = || Unknown::new(format!("inline assembly \"{}\"", template(&call.callee)));
    match (template(&call.callee), call.args.as_slice()) {
        // A barrier for the compiler; assembles to nothing on every host.
        ("", _) => Ok(vec![insn.clone()]),
        // Not every host's assembler has the same comments.
        (DATA_RACE, _) => {
            let text = insn.text.replacen(DATA_RACE, "", 1);
            Ok(vec![Insn::new(&insn.result, text)])
        }
        (BOUNDED, [(_, base), (_, max), (_, offset)]) if call.ret == "i64" => {
            let text = format!("call i64 @tilt_bounded(i64 {base}, i64 {max}, i64 {offset})");
            Ok(vec![Insn::new(&insn.result, text)])
        }
        _ => Err(unknown()),
    }
}

/// Whether an instruction is `asm ""`.
pub fn is_barrier(text: &str) -> bool {
    text.contains(" asm ") && template(text).is_empty()
}

/// Whether an instruction is the mark that `data_race()` puts on a value.
pub fn is_data_race(text: &str) -> bool {
    text.contains(" asm ") && template(text) == DATA_RACE
}

/// `callbr` of `may_goto`: the loop goes on while its budget lasts. `at` makes names unique.
pub fn callbr(insn: &Insn, at: usize) -> Result<Vec<Insn>> {
    let targets = labels(&insn.text);
    match (template(&insn.text), targets.as_slice()) {
        (MAY_GOTO, [go, stop]) => Ok(vec![
            Insn::new(
                &format!("%may_goto.{at}"),
                "call i1 @tilt_may_goto(ptr %may_goto.budget)",
            ),
            Insn::new(
                "",
                format!("br i1 %may_goto.{at}, label %{go}, label %{stop}"),
            ),
        ]),
        (other, _) => Err(Unknown::new(format!("inline assembly \"{other}\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_vptr_is_a_bounds_check() {
        let text =
            format!("call i64 asm sideeffect \"{BOUNDED}\", \"=r,r,i,0\"(i64 %a, i64 127, i64 %b)");
        let insn = Insn::new("%p", text.clone());
        let out = call(&insn, &Call::parse(&text).unwrap()).unwrap();
        assert_eq!(
            out,
            [Insn::new(
                "%p",
                "call i64 @tilt_bounded(i64 %a, i64 127, i64 %b)"
            )]
        );
    }

    #[test]
    fn barriers_stay() {
        let text = "call void asm sideeffect \"\", \"~{memory}\"()";
        let insn = Insn::new("", text);
        assert_eq!(call(&insn, &Call::parse(text).unwrap()).unwrap(), [insn]);
        assert!(is_barrier(text));
    }

    #[test]
    fn may_goto_is_a_branch_on_a_budget() {
        let insn = Insn::new(
            "",
            "callbr void asm sideeffect \"may_goto ${0:l}\", \"!i\"() to label %v1 [label %v2]",
        );
        let out = callbr(&insn, 3).unwrap();
        assert_eq!(out[1].text, "br i1 %may_goto.3, label %v1, label %v2");
    }

    #[test]
    fn other_assembly_is_named() {
        let text = "call void asm sideeffect \"r1 = r2\", \"\"()";
        let error = call(&Insn::new("", text), &Call::parse(text).unwrap()).unwrap_err();
        assert_eq!(error.what, "inline assembly \"r1 = r2\"");
    }
}
