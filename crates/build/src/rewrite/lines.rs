// SPDX-License-Identifier: GPL-2.0-or-later
//! Which cache lines an instruction for the host touches, so that those which come from another CPU take their time. A line
//! stays where it is during a callback, so what has been touched before, on each way that leads there, is left out, as far as
//! pointers point to the beginnings of lines.

use super::access::{self, AccessedRange};
use super::bpf_for;
use super::guard::Owner;
use crate::ir::{Block, Function, Insn, names};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use tiltyard_native::LINE_BYTES;
use tiltyard_native::object::how;

/// A line relative to a pointer, which is taken to point to the beginning of one.
type Line = (String, i64);

/// Lines that have been touched, and whether they have been written.
type Touched = HashMap<Line, bool>;

/// What is known of a function's pointers and lines, while it is gone through from the first instruction to the last.
pub struct Touches<'f> {
    /// Names of globals that nobody writes.
    constants: &'f HashSet<&'f str>,
    /// Pointers to local variables, to the kernel's structs and to an op's arguments.
    elsewhere: HashSet<String>,
    /// Pointers that are others and so many bytes.
    offsets: HashMap<String, Line>,
    /// In the order of the blocks.
    blocks: Vec<Touching<'f>>,
}

/// What a block touches, in order. Nothing has to be forgotten when a pointer gets another value, in a loop: the first way to
/// where it gets one has not touched what it points to.
struct Touching<'f> {
    label: &'f str,
    successors: Vec<&'f str>,
    touches: Vec<Touch>,
}

struct Touch {
    line: Line,
    write: bool,
    /// Where in the text it is asked whether the line is here.
    place: Range<usize>,
}

impl<'f> Touches<'f> {
    pub fn new(function: &Function, constants: &'f HashSet<&'f str>) -> Touches<'f> {
        Touches {
            constants,
            elsewhere: bpf_for::numbers(function)
                .chain(function.context())
                .map(str::to_owned)
                .collect(),
            offsets: HashMap::new(),
            blocks: Vec::new(),
        }
    }

    pub fn begin_block(&mut self, block: &'f Block) {
        self.blocks.push(Touching {
            label: &block.label,
            successors: Function::successors(block),
            touches: Vec::new(),
        });
    }

    /// Has calls written that belong before the instruction; `write` returns where in the text one stands.
    pub fn before(
        &mut self,
        insn: &Insn,
        owner: impl Fn(&AccessedRange) -> Owner,
        mut write: impl FnMut(&Insn) -> Range<usize>,
    ) {
        self.learn(insn);
        if super::is_runtime(insn) {
            return;
        }
        let update = match insn.opcode() {
            "atomicrmw" | "cmpxchg" => how::UPDATE,
            _ => 0,
        };
        let is_scalar = insn.opcode() != "call";
        for range in access::places(insn) {
            if self.is_elsewhere(&range.pointer) {
                continue;
            }
            let owner = owner(&range);
            if owner == Owner::Constant {
                continue;
            }
            let how = if range.write { how::WRITE | update } else { 0 };
            let AccessedRange { pointer, bytes, .. } = &range;
            let function = match owner {
                _ if !is_scalar => "tilt_touch_all",
                Owner::Written => "tilt_touch_own",
                Owner::Value => "tilt_touch_value",
                _ => "tilt_touch",
            };
            let text = format!("call void @{function}(ptr {pointer}, i64 {bytes}, i64 {how})");
            let place = write(&Insn::new("", text));
            let (root, offset) = self.line_of(pointer);
            if is_scalar && let Some(block) = self.blocks.last_mut() {
                block.touches.push(Touch {
                    line: (root, offset.div_euclid(LINE_BYTES as i64)),
                    write: range.write,
                    place,
                });
            }
        }
    }

    /// After the last block: the text without the calls that are not needed.
    pub fn finish(self, text: &str) -> String {
        let mut kept = String::with_capacity(text.len());
        let mut from = 0;
        for needless in self.needless() {
            kept.push_str(&text[from..needless.start]);
            from = needless.end;
        }
        kept.push_str(&text[from..]);
        kept
    }

    /// Ranges of the text, in order.
    fn needless(&self) -> Vec<Range<usize>> {
        let before = self.touched_before();
        let mut all = Vec::new();
        for (block, touched) in self.blocks.iter().zip(before) {
            // Whatever is true of a block that is never reached.
            block.pass(&mut touched.unwrap_or_default(), |place| all.push(place));
        }
        all
    }

    /// For each block what certainly has been touched when it begins; `None`: nothing leads there.
    fn touched_before(&self) -> Vec<Option<Touched>> {
        let labels = self.blocks.iter().map(|block| block.label);
        let number: HashMap<&str, usize> = labels.zip(0..).collect();
        let mut before: Vec<Option<Touched>> = self.blocks.iter().map(|_| None).collect();
        if let Some(first) = before.first_mut() {
            *first = Some(Touched::new());
        }
        // What is known of a block only shrinks, so this comes to an end.
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for (at, block) in self.blocks.iter().enumerate() {
                let Some(mut touched) = before[at].clone() else {
                    continue;
                };
                block.pass(&mut touched, |_| ());
                let next = block.successors.iter();
                for next in next.filter_map(|label| number.get(label)) {
                    changed |= meet(&mut before[*next], &touched);
                }
            }
        }
        before
    }

    fn learn(&mut self, insn: &Insn) {
        let result = insn.result.as_str();
        if insn.opcode() == "alloca"
            || insn.text.contains("@tilt_probe(")
            || insn.text.contains("@tilt_kernel(")
            || insn.opcode() == "getelementptr" && insn.text.contains("ptr %tilt.frame,")
        {
            self.elsewhere.insert(result.to_owned());
        }
        let Some((base, bytes)) = access::constant_offset(&insn.text) else {
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
}

impl Touching<'_> {
    /// What has been touched after the block, where it begins with `touched`; `needless` gets the places at which nothing is
    /// new.
    fn pass(&self, touched: &mut Touched, mut needless: impl FnMut(Range<usize>)) {
        for Touch { line, write, place } in &self.touches {
            match touched.get_mut(line) {
                Some(written) if *written || !write => needless(place.clone()),
                Some(written) => *written = true,
                None => drop(touched.insert(line.clone(), *write)),
            }
        }
    }
}

/// Another way leads to a block. Returns whether less is known than before.
fn meet(before: &mut Option<Touched>, way: &Touched) -> bool {
    let Some(before) = before else {
        *before = Some(way.clone());
        return true;
    };
    let mut less = false;
    before.retain(|line, written| {
        let here = way.get(line);
        let both = *written && here == Some(&true);
        less |= here.is_none() || *written != both;
        *written = both;
        here.is_some()
    });
    less
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

    /// Calls in each block of an op of these. Pointers whose names begin with `%own` or `%par` lie in variables.
    fn calls(blocks: Vec<Block>) -> Vec<Vec<String>> {
        let constants = HashSet::from(["@par"]);
        let function = Function {
            params: vec![("ptr".to_owned(), "%ctx".to_owned())],
            section: "struct_ops/enqueue".to_owned(),
            blocks,
            ..Function::default()
        };
        let mut touches = Touches::new(&function, &constants);
        let mut text = String::new();
        for block in &function.blocks {
            touches.begin_block(block);
            text.push_str("block\n");
            for insn in &block.insns {
                let owner = |range: &AccessedRange| match &range.pointer[1..] {
                    name if name.starts_with("own") => Owner::Written,
                    name if name.starts_with("par") => Owner::Constant,
                    name if name.starts_with("map") => Owner::Value,
                    _ => Owner::Unknown,
                };
                touches.before(insn, owner, |call| {
                    let start = text.len();
                    text.push_str(&call.text);
                    text.push('\n');
                    start..text.len()
                });
            }
        }
        let text = touches.finish(&text);
        let blocks = text.split("block\n").skip(1);
        blocks
            .map(|calls| calls.lines().map(str::to_owned).collect())
            .collect()
    }

    fn numbers(calls: &[Vec<String>]) -> Vec<usize> {
        calls.iter().map(Vec::len).collect()
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
        assert_eq!(pointers, [vec![false, false], vec![true], vec![]]);
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
                "%exists = call ptr @tilt_kernel(ptr %p)",
                "%5 = load i64, ptr %exists, align 8",
                "%second = getelementptr i8, ptr %ctx, i64 8",
                "%6 = load i64, ptr %second, align 8",
                "%local = getelementptr { i64 }, ptr %tilt.frame, i32 0, i32 0",
                "store i64 1, ptr %local, align 8",
                "%number = call ptr @bpf_iter_num_next(ptr %own)",
                "%4 = load i32, ptr %number, align 4",
                "%3 = atomicrmw add ptr @shared, i64 1 seq_cst, align 8",
                "%7 = cmpxchg ptr @swapped, i64 0, i64 1 seq_cst seq_cst, align 8",
                "ret void",
            ],
        )]);
        assert_eq!(calls[0].len(), 2, "{calls:?}");
        assert!(calls[0][0].contains("ptr @shared") && calls[0][0].ends_with("i64 5)"));
        assert!(calls[0][1].contains("ptr @swapped") && calls[0][1].ends_with("i64 5)"));
    }

    #[test]
    fn what_lies_before_a_pointer_is_on_another_line() {
        let calls = calls(vec![block(
            "a",
            &[
                "%1 = load i64, ptr %p, align 8",
                "%before = getelementptr i8, ptr %p, i64 -8",
                "%2 = load i64, ptr %before, align 8",
                "ret void",
            ],
        )]);
        assert_eq!(numbers(&calls), [2], "{calls:?}");
    }

    #[test]
    fn an_iterators_number_is_known_at_the_head_of_its_loop() {
        let calls = calls(vec![
            block(
                "a",
                &["%1 = call ptr @bpf_iter_num_next(ptr %it)", "br label %b"],
            ),
            block(
                "b",
                &[
                    "%at = phi ptr [ %1, %a ], [ %2, %b ]",
                    "%other = phi ptr [ %1, %a ], [ %p, %b ]",
                    "%3 = load i32, ptr %at, align 4",
                    "%4 = load i32, ptr %other, align 4",
                    "%2 = call ptr @bpf_iter_num_next(ptr %it)",
                    "br label %b",
                ],
            ),
        ]);
        assert_eq!(numbers(&calls), [0, 1], "{calls:?}");
        assert!(calls[1][0].contains("ptr %other"));
    }

    #[test]
    fn what_lies_in_a_variable_needs_a_shorter_look() {
        let insns = [
            "%1 = load i64, ptr %own.field, align 8",
            "%2 = load i64, ptr %p, align 8",
            "%3 = load i64, ptr %par.element, align 8",
            "%4 = load i64, ptr %map.value, align 8",
        ];
        let calls = calls(vec![block("a", &insns)]);
        let functions = calls[0].iter().map(|call| call.split('(').next().unwrap());
        let functions: Vec<&str> = functions.collect();
        assert_eq!(
            functions,
            [
                "call void @tilt_touch_own",
                "call void @tilt_touch",
                "call void @tilt_touch_value"
            ]
        );
    }

    #[test]
    fn a_loop_looks_once_at_what_stays() {
        let head = "%i = phi i64 [ 0, %a ], [ %next, %b ]";
        let calls = calls(vec![
            block("a", &["%1 = load i64, ptr %p, align 8", "br label %b"]),
            block(
                "b",
                &[
                    head,
                    "%2 = load i64, ptr %p, align 8",
                    "%q = getelementptr i64, ptr @table, i64 %i",
                    "%3 = load i64, ptr %q, align 8",
                    "%4 = load i64, ptr @once, align 8",
                    "br i1 %c, label %b, label %d",
                ],
            ),
            block(
                "d",
                &[
                    "%5 = load i64, ptr %q, align 8",
                    "%6 = load i64, ptr @once, align 8",
                    "store i64 1, ptr %p, align 8",
                    "ret void",
                ],
            ),
        ]);
        assert_eq!(numbers(&calls), [1, 2, 1], "{calls:?}");
        assert!(calls[1][0].contains("%q") && calls[1][1].contains("@once"));
        assert!(calls[2][0].ends_with("i64 1)"), "a write is more");
    }

    #[test]
    fn what_one_of_two_ways_has_written_may_not_have_been() {
        let calls = calls(vec![
            block("a", &["br i1 %c, label %b, label %d"]),
            block("b", &["store i64 1, ptr %p, align 8", "br label %e"]),
            block("d", &["%1 = load i64, ptr %p, align 8", "br label %e"]),
            block(
                "e",
                &[
                    "%2 = load i64, ptr %p, align 8",
                    "store i64 1, ptr %p, align 8",
                    "ret void",
                ],
            ),
        ]);
        assert_eq!(numbers(&calls), [0, 1, 1, 1], "{calls:?}");
    }

    /// The way that has only read comes last in the text: what was known before it has to be taken back.
    #[test]
    fn what_a_later_way_has_only_read_has_not_been_written() {
        let calls = calls(vec![
            block("a", &["br i1 %c, label %b, label %d"]),
            block("b", &["store i64 1, ptr %p, align 8", "br label %e"]),
            block("e", &["br label %f"]),
            block("f", &["store i64 1, ptr %p, align 8", "ret void"]),
            block("d", &["%1 = load i64, ptr %p, align 8", "br label %e"]),
        ]);
        assert_eq!(numbers(&calls), [0, 1, 0, 1, 1], "{calls:?}");
    }
}
