// SPDX-License-Identifier: GPL-2.0-or-later
//! Which version of an inner function is called.

use super::Watch;
use super::base::Base;
use crate::ir::Insn;
use crate::parse::Call;
use crate::rewrite::inner;

/// What a pointer passed to an inner function points into.
enum Variable {
    /// With its size, as in [`Base`].
    Named { start: String, size: String },
    /// The room of a parameter.
    Given { offset: u64, size: u64 },
}

impl Watch<'_, '_> {
    /// Replaces a call of an inner function if all its pointers with a room point into variables: computes offsets, then calls
    /// the function that chooses the version.
    pub fn choose(&mut self, insn: &Insn) -> Option<Vec<Insn>> {
        let call = match insn.opcode() {
            "call" => Call::parse(&insn.text).ok()?,
            _ => return None,
        };
        let rooms = self.guard.rooms.get(&call.callee)?.clone();
        if !inner::fits(&call, self.guard.functions.get(&*call.callee)?) {
            return None;
        }
        let variables: Option<Vec<_>> = rooms
            .keys()
            .map(|at| {
                let pointer = &*call.args.get(*at)?.1;
                Some((pointer, self.points_into(pointer)?))
            })
            .collect();
        let mut out = Vec::new();
        let arguments = call.args.iter().map(|(ty, value)| format!("{ty} {value}"));
        let mut arguments: Vec<String> = arguments.collect();
        for (pointer, variable) in variables? {
            let (offset, size) = match variable {
                Variable::Named { start, size } => (self.offset(pointer, &start, &mut out), size),
                Variable::Given { offset, size } => (offset.to_string(), size.to_string()),
            };
            arguments.push(format!("i64 {offset}, i64 {size}"));
        }
        let function = inner::chosen(&call.callee);
        self.guard.wanted.insert(call.callee);
        let text = format!("call {} {function}({})", call.ret, arguments.join(", "));
        out.push(Insn::new(&insn.result, text));
        Some(out)
    }

    fn points_into(&self, pointer: &str) -> Option<Variable> {
        if let Some((parameter, offset)) = self.pointers.find(pointer) {
            let size = *self.rooms.get(&parameter)?;
            return Some(Variable::Given { offset, size });
        }
        match self.base(pointer, 0) {
            Base::Own { start, size, .. }
                if start.starts_with('@') && !self.guard.constants.contains(&*start) =>
            {
                Some(Variable::Named { start, size })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;
    use crate::rewrite::{Choices, rewrite};

    const TEXT: &str = r#"source_filename = "own.bpf.c"
%struct.pair = type { i64, i64 }
@pairs = dso_local global [4 x %struct.pair] zeroinitializer, align 8
@fixed = dso_local constant [2 x i64] zeroinitializer, align 8

define dso_local i64 @op(ptr noundef %0, i64 %1) #0 section "syscall" {
  %3 = getelementptr inbounds [4 x %struct.pair], ptr @pairs, i64 0, i64 %1
  call void @fill(ptr %3)
  call void @fill(ptr %0)
  call void @fill(ptr @fixed)
  ret i64 0
}

define internal void @fill(ptr %0) #0 {
  %2 = getelementptr inbounds i8, ptr %0, i64 8
  store i64 1, ptr %2, align 8
  call void @llvm.memset.p0.i64(ptr %0, i8 0, i64 32, i1 false)
  ret void
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"#;

    fn rewritten() -> String {
        let choices = Choices {
            resizable_elements: 8,
            debug: false,
            accesses: false,
            lines: true,
            guard: true,
        };
        let module = parse(TEXT).unwrap();
        rewrite(&module, &["@op".to_owned()], choices).unwrap().text
    }

    /// Calls in the function, in order.
    fn calls(text: &str, function: &str) -> Vec<String> {
        let (_, body) = text.split_once(&format!("define {function}(")).unwrap();
        let body = body.split_once("\n}").unwrap().0.lines();
        let calls = body.filter_map(|line| line.trim().strip_prefix("call "));
        calls.map(str::to_owned).collect()
    }

    #[test]
    fn only_the_version_that_was_not_checked_checks() {
        let text = rewritten();
        let has = |function: &str, call: &str| {
            let calls = calls(&text, function);
            calls.iter().any(|c| c.contains(call))
        };
        assert!(has("internal void @fill", "@tilt_writable_word("));
        assert!(has("internal void @fill", "@tilt_touch("));
        assert!(!has(
            "internal void @tilt.given.fill",
            "@tilt_writable_word("
        ));
        assert!(has("internal void @tilt.given.fill", "@tilt_touch_own("));
        // Of more than one value.
        assert!(has("internal void @tilt.given.fill", "@tilt_writable("));
    }

    #[test]
    fn a_pointer_to_what_is_no_variable_or_not_written_is_not_given() {
        let calls = calls(&rewritten(), "hidden i64 @op");
        let fills: Vec<&String> = calls.iter().filter(|c| c.contains("fill(")).collect();
        assert!(fills[0].starts_with("void @tilt.chosen.fill(ptr %v3, i64 %guard."));
        assert_eq!(
            fills[1..],
            ["void @fill(ptr %v0)", "void @fill(ptr @fixed)"]
        );
    }
}
