// SPDX-License-Identifier: GPL-2.0-or-later
//! Which cache lines an instruction for the host touches, so that those which come from another CPU take their time. A line
//! stays where it is during a callback, so what certainly has been touched before is left out.

use super::access::{self, AccessedRange};
use crate::ir::{Block, Function, Insn, names};
use std::collections::{HashMap, HashSet};
use tiltyard_native::object::how;

/// A line relative to a pointer, which is taken to point to the beginning of one.
type Line = (String, i64);

/// Lines that have been touched, and whether they have been written.
type Touched = HashMap<Line, bool>;

const LINE_BYTES: i64 = 64;

/// What is known of a function's pointers while it is gone through from the first instruction to the last.
pub struct Touches<'f> {
    /// Names of globals that nobody writes.
    constants: &'f HashSet<&'f str>,
    /// Pointers to local variables and to the kernel's structs.
    elsewhere: HashSet<String>,
    /// Pointers that are others and so many bytes.
    offsets: HashMap<String, Line>,
    /// The only block from which each block is reached.
    before: HashMap<&'f str, &'f str>,
    after: HashMap<&'f str, Touched>,
    block: &'f str,
    touched: Touched,
}

impl<'f> Touches<'f> {
    pub fn of(function: &'f Function, constants: &'f HashSet<&'f str>) -> Touches<'f> {
        let mut before: HashMap<&str, Vec<&str>> = HashMap::new();
        for block in &function.blocks {
            for next in Function::successors(block) {
                before.entry(next).or_default().push(&block.label);
            }
        }
        let only = before
            .into_iter()
            .filter_map(|(block, from)| match from.as_slice() {
                [one] => Some((block, *one)),
                _ => None,
            });
        Touches {
            constants,
            elsewhere: HashSet::new(),
            offsets: HashMap::new(),
            before: only.collect(),
            after: HashMap::new(),
            block: "",
            touched: Touched::new(),
        }
    }

    pub fn begin_block(&mut self, block: &'f Block) {
        let ended = std::mem::take(&mut self.touched);
        self.after.insert(self.block, ended);
        self.block = &block.label;
        let before = self.before.get(self.block);
        let touched = before.and_then(|from| self.after.get(from));
        self.touched = touched.cloned().unwrap_or_default();
    }

    /// Calls to insert before the instruction.
    pub fn before(&mut self, insn: &Insn) -> Vec<Insn> {
        self.learn(insn);
        if insn.text.contains("@tilt_") {
            return Vec::new();
        }
        let update = match insn.opcode() {
            "atomicrmw" | "cmpxchg" => how::UPDATE,
            _ => 0,
        };
        let all = access::places(insn).into_iter();
        let ranges = all.filter(|range| !self.is_elsewhere(&range.pointer));
        let ranges: Vec<AccessedRange> = ranges.collect();
        let is_scalar = insn.opcode() != "call";
        let calls = ranges.into_iter().filter_map(|range| {
            if is_scalar && self.touch(&range) {
                return None;
            }
            let how = if range.write { how::WRITE | update } else { 0 };
            let AccessedRange { pointer, bytes, .. } = range;
            let function = if is_scalar {
                "tilt_touch"
            } else {
                "tilt_touch_all"
            };
            let text = format!("call void @{function}(ptr {pointer}, i64 {bytes}, i64 {how})");
            Some(Insn::new("", text))
        });
        calls.collect()
    }

    fn learn(&mut self, insn: &Insn) {
        let result = insn.result.as_str();
        if insn.opcode() == "alloca"
            || insn.text.contains("@tilt_probe(")
            || insn.text.contains("@tilt_frame(")
            // Points to the iterator.
            || insn.text.contains("@bpf_iter_num_next(")
        {
            self.elsewhere.insert(result.to_owned());
        }
        let Some((base, bytes)) = constant_offset(&insn.text) else {
            return;
        };
        if self.elsewhere.contains(base) {
            self.elsewhere.insert(result.to_owned());
        }
        let (root, offset) = self.line_of(base);
        self.offsets
            .insert(result.to_owned(), (root, offset + bytes));
    }

    fn is_elsewhere(&self, pointer: &str) -> bool {
        let is_constant = |name: &&str| self.constants.contains(name);
        self.elsewhere.contains(pointer) || names(pointer, '@').iter().any(is_constant)
    }

    /// A pointer as another one and bytes.
    fn line_of(&self, pointer: &str) -> Line {
        let known = self.offsets.get(pointer).cloned();
        known.unwrap_or_else(|| (pointer.to_owned(), 0))
    }

    /// The line is here afterwards. Returns whether it certainly was before.
    fn touch(&mut self, range: &AccessedRange) -> bool {
        let (root, offset) = self.line_of(&range.pointer);
        let line = (root, offset.div_euclid(LINE_BYTES));
        let written = self.touched.get(&line).copied();
        let known = written.is_some_and(|written| written || !range.write);
        self.touched
            .insert(line, range.write || written == Some(true));
        known
    }
}

/// `getelementptr i8, ptr %base, i64 8`: base and bytes.
fn constant_offset(text: &str) -> Option<(&str, i64)> {
    let rest = text.strip_prefix("getelementptr ")?;
    let (_, rest) = rest.split_once("i8, ptr ")?;
    let (base, index) = rest.split_once(", i64 ")?;
    let is_name = base.starts_with(['%', '@']) && !base.contains(' ');
    Some((base, index.parse().ok()?)).filter(|_| is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(label: &str, texts: &[&str]) -> Block {
        let insn = |text: &&str| match text.split_once(" = ") {
            Some((result, text)) => Insn::new(result, text),
            None => Insn::new("", *text),
        };
        Block {
            label: label.to_owned(),
            insns: texts.iter().map(insn).collect(),
        }
    }

    /// Calls in each block of a function of these.
    fn calls(blocks: Vec<Block>) -> Vec<Vec<String>> {
        let function = Function {
            blocks,
            ..Function::default()
        };
        let constants = HashSet::from(["@par"]);
        let mut touches = Touches::of(&function, &constants);
        let calls_in = |block| {
            touches.begin_block(block);
            let calls = block.insns.iter().flat_map(|insn| touches.before(insn));
            calls.map(|call| call.text).collect()
        };
        function.blocks.iter().map(calls_in).collect()
    }

    #[test]
    fn a_line_is_touched_once_on_each_way() {
        let calls = calls(vec![
            block(
                "a",
                &[
                    "%1 = load i64, ptr %p, align 8",
                    "%q = getelementptr i8, ptr %p, i64 56",
                    "%2 = load i64, ptr %q, align 8",
                    "%r = getelementptr i8, ptr %q, i64 8",
                    "%3 = load i64, ptr %r, align 8",
                    "br i1 %c, label %b, label %d",
                ],
            ),
            block("b", &["store i64 1, ptr %q, align 8", "br label %d"]),
            block("d", &["%4 = load i64, ptr %q, align 8", "ret void"]),
        ]);
        let pointers: Vec<Vec<bool>> = calls
            .iter()
            .map(|block| block.iter().map(|call| call.ends_with("i64 1)")).collect())
            .collect();
        assert_eq!(pointers, [vec![false, false], vec![true], vec![false]]);
        assert!(calls[0][0].starts_with("call void @tilt_touch(ptr %p, "));
        assert!(calls[0][1].starts_with("call void @tilt_touch(ptr %r, "));
    }

    #[test]
    fn what_only_one_cpu_sees_is_left_out() {
        let calls = calls(vec![block(
            "a",
            &[
                "%own = alloca i64",
                "store i64 1, ptr %own",
                "%1 = load i64, ptr @par, align 8",
                "%task = call ptr @tilt_probe(ptr %p)",
                "%field = getelementptr i8, ptr %task, i64 24",
                "%2 = load i64, ptr %field, align 8",
                "%3 = atomicrmw add ptr @shared, i64 1 seq_cst, align 8",
                "ret void",
            ],
        )]);
        assert_eq!(calls[0].len(), 1, "{calls:?}");
        assert!(calls[0][0].contains("ptr @shared") && calls[0][0].ends_with("i64 5)"));
    }
}
