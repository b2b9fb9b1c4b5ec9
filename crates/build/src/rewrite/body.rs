// SPDX-License-Identifier: GPL-2.0-or-later
//! One function, instruction by instruction: what is BPF's is replaced, what is plain LLVM stays, what is neither
//! is an error. Each block gets its count of instructions.

use super::Choices;
use super::access;
use super::arith;
use super::asm;
use super::calls::Slots;
use super::core_relo::Relocations;
use super::guard::{Guard, Owner, Watch};
use super::inner;
use super::lines::Touches;
use crate::ir::{
    Block, Function, Insn, Result, Unknown, labels, names, replace_names, split_top, take_type,
};
use crate::parse::Call;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use tiltyard_native::object::LINE_BITS;

/// `BPF_MAX_LOOPS` of the kernel: iterations that may_goto grants one function call.
const MAY_GOTO_BUDGET: u64 = 8 * 1024 * 1024;

/// Where a call of a function counts its instructions.
pub const WORK: &str = "%tilt.work";

/// Instructions that mean the same on the host.
const PLAIN: &[&str] = &[
    "add",
    "sub",
    "mul",
    "and",
    "or",
    "xor",
    "icmp",
    "select",
    "phi",
    "trunc",
    "zext",
    "sext",
    "ptrtoint",
    "inttoptr",
    "bitcast",
    "load",
    "store",
    "getelementptr",
    "br",
    "switch",
    "ret",
    "atomicrmw",
    "cmpxchg",
    "fence",
    "freeze",
    "extractvalue",
    "insertvalue",
];

/// LLVM's own intrinsics that mean the same on the host, by the part of the name before the types.
const INTRINSICS: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "umin",
    "umax",
    "smin",
    "smax",
    "abs",
    "bswap",
    "bitreverse",
    "ctpop",
    "ctlz",
    "cttz",
    "fshl",
    "fshr",
    "uadd.sat",
    "usub.sat",
    "sadd.sat",
    "ssub.sat",
    "uadd.with.overflow",
    "usub.with.overflow",
    "umul.with.overflow",
    "sadd.with.overflow",
    "ssub.with.overflow",
    "smul.with.overflow",
    "expect",
    "trap",
    "objectsize",
    "is.constant",
];

/// Intrinsics that only tell an optimiser something.
const HINTS: &[&str] = &[
    "lifetime.",
    "assume",
    "experimental.noalias.scope.decl",
    "dbg.",
    "invariant.",
    "donothing",
];

/// Name of an intrinsic after `llvm.`, if the call is one.
fn intrinsic(callee: &str) -> Option<&str> {
    callee.strip_prefix("@llvm.")
}

fn is_hint(insn: &Insn) -> bool {
    let callee = insn.text.split_once(" @llvm.").map(|(_, name)| name);
    insn.opcode() == "call" && callee.is_some_and(|n| HINTS.iter().any(|h| n.starts_with(h)))
}

fn is_passthrough(insn: &Insn) -> bool {
    insn.text.starts_with("call ptr @llvm.bpf.passthrough.")
}

/// Whether an instruction is work. Not work: what assembles to nothing, and what is there only for relocations.
fn counts(insn: &Insn) -> bool {
    !matches!(insn.opcode(), "phi" | "alloca")
        && !is_passthrough(insn)
        && !asm::is_barrier(&insn.text)
        && !asm::is_data_race(&insn.text)
}

/// Takes out hints and address computations that nothing uses; the BPF back end does not emit them either.
pub fn drop_unused(function: &mut Function) {
    function
        .blocks
        .iter_mut()
        .for_each(|b| b.insns.retain(|i| !is_hint(i)));
    loop {
        let used: HashSet<String> = function
            .blocks
            .iter()
            .flat_map(|b| &b.insns)
            .flat_map(|i| names(&i.text, '%'))
            .map(str::to_owned)
            .collect();
        let unused = |i: &Insn| {
            let pure = matches!(i.opcode(), "getelementptr" | "load")
                && !i.text.contains("volatile")
                && !i.text.contains("atomic");
            (pure || is_passthrough(i)) && !used.contains(&i.result)
        };
        let before: usize = function.blocks.iter().map(|b| b.insns.len()).sum();
        function
            .blocks
            .iter_mut()
            .for_each(|b| b.insns.retain(|i| !unused(i)));
        if function.blocks.iter().map(|b| b.insns.len()).sum::<usize>() == before {
            return;
        }
    }
}

/// Replaces the remaining CO-RE loads, offsets above all, by their answers.
pub fn relocate(function: &mut Function, relocations: &mut Relocations) -> Result<()> {
    let mut answers = HashMap::new();
    for block in &mut function.blocks {
        let mut kept = Vec::with_capacity(block.insns.len());
        for insn in block.insns.drain(..) {
            let global = names(&insn.text, '@')
                .into_iter()
                .find(|g| relocations.contains(g));
            match global {
                Some(global) if insn.opcode() == "load" => {
                    let answer = relocations
                        .answer(global)
                        .map_err(|e| e.at(&insn).in_function(&function.name))?;
                    answers.insert(insn.result, answer.to_string());
                }
                Some(global) => {
                    return Err(
                        Unknown::new(format!("use of {global}")).in_function(&function.name)
                    );
                }
                None => kept.push(insn),
            }
        }
        block.insns = kept;
    }
    for insn in function.blocks.iter_mut().flat_map(|b| &mut b.insns) {
        insn.text = replace_names(&insn.text, '%', |name| answers.get(name).cloned());
    }
    Ok(())
}

/// Who calls a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Whoever knows its name.
    Engine,
    /// Whoever has its address: a helper that was given it.
    Helper,
    /// Functions of the scheduler's and nobody else.
    Function,
    /// The same with pointers that certainly have their rooms.
    Given,
}

/// Text of the function for the host, with source locations if there is debug information to refer to. The loop that calls
/// a callback is a helper's: the callback's own entry is where it is checked.
pub fn lower(
    function: &Function,
    caller: Caller,
    slots: &mut Slots,
    guard: Option<&mut Guard>,
    constants: &HashSet<&str>,
    choices: Choices,
) -> Result<String> {
    let debug = choices.debug;
    let mut watch = guard.map(|guard| guard.watch(function, caller == Caller::Given));
    let mut lowering = Lowering {
        slots,
        raw: HashMap::new(),
        must_exist: watch.as_ref().map(Watch::must_exist).unwrap_or_default(),
        serial: 0,
    };
    let values = choices.accesses.then(|| access::Values::of(function));
    let mut touches = choices.lines.then(|| Touches::new(function, constants));
    let mut place = 0;
    let heads = loop_heads(function);
    let mut text = header(function, caller, debug);
    for (index, block) in function.blocks.iter().enumerate() {
        let _ = writeln!(text, "{}:", block.label);
        if let Some(watch) = &mut watch {
            watch.begin_block();
        }
        if let Some(touches) = &mut touches {
            touches.begin_block(block);
        }
        if index == 0 {
            let _ = writeln!(text, "  {WORK} = alloca i64\n  store i64 0, ptr {WORK}");
        }
        if index == 0
            && let Some(watch) = &mut watch
        {
            text.push_str(&watch.enter());
        }
        if index == 0 && has_may_goto(function) {
            let _ = writeln!(
                text,
                "  %may_goto.budget = alloca i64\n  store i64 {MAY_GOTO_BUDGET}, ptr %may_goto.budget"
            );
        }
        let phis = block
            .insns
            .iter()
            .take_while(|i| i.opcode() == "phi")
            .count();
        for (at, insn) in block.insns.iter().enumerate() {
            if at == phis {
                let head =
                    heads.contains(block.label.as_str()) || index == 0 && caller == Caller::Helper;
                let line = head.then(|| watch.as_mut().map_or(0, |w| w.place(line_of(block))));
                let _ = writeln!(text, "  {}", count_call(block, line));
            }
            if insn.opcode() == "ret" {
                if let Some(watch) = &watch {
                    text.push_str(watch.leave());
                }
                let _ = writeln!(text, "  call void @tilt_counted(ptr {WORK})");
            }
            let location = insn.location.filter(|_| debug);
            let moved = watch.as_ref().and_then(|watch| watch.moved(insn));
            let outs = match moved {
                Some(outs) => Ok(outs),
                None => lowering.insn(insn),
            };
            for out in outs.map_err(|e| e.at(insn).in_function(&function.name))? {
                if let Some(watch) = &mut watch {
                    for check in watch.before(insn, &out) {
                        write_insn(&mut text, &check, location);
                    }
                }
                if let Some(touches) = &mut touches {
                    let watch = watch.as_ref();
                    let owner = |range: &_| watch.map_or(Owner::Unknown, |w| w.owner(range));
                    touches.before(&out, owner, |call| {
                        let start = text.len();
                        write_insn(&mut text, call, location);
                        start..text.len()
                    });
                }
                if let Some(values) = &values {
                    let own = watch.as_mut().map_or(0, |w| w.place(insn.location));
                    // Where the compiler has merged code of several lines, the last line before it is the best guess.
                    if own & ((1 << LINE_BITS) - 1) != 0 {
                        place = own;
                    }
                    let order = access::order(&function.blocks, (index, at));
                    access::tell(&out, values, order, place)
                        .iter()
                        .for_each(|call| write_insn(&mut text, call, location));
                }
                let chosen = watch.as_mut().and_then(|watch| watch.choose(&out));
                for out in chosen.unwrap_or_else(|| vec![out]) {
                    write_insn(&mut text, &out, location);
                }
            }
        }
    }
    text.push_str("}\n");
    Ok(match touches {
        Some(touches) => touches.finish(&text),
        None => text,
    })
}

fn header(function: &Function, caller: Caller, debug: bool) -> String {
    let params: Vec<_> = function
        .params
        .iter()
        .map(|(ty, name)| format!("{ty} {name}"))
        .collect();
    let params = params.join(", ");
    let node = function
        .node
        .filter(|_| debug)
        .map_or(String::new(), |n| format!(" !dbg !{n}"));
    let (linkage, attributes) = match caller {
        Caller::Engine | Caller::Helper => ("hidden", "#2"),
        Caller::Function | Caller::Given => ("internal", "#4"),
    };
    let name = match caller {
        Caller::Given => inner::given(&function.name),
        _ => function.name.clone(),
    };
    let ret = &function.ret;
    format!("define {linkage} {ret} {name}({params}) {attributes}{node} {{\n")
}

fn has_may_goto(function: &Function) -> bool {
    function
        .blocks
        .iter()
        .flat_map(|b| &b.insns)
        .any(|i| i.opcode() == "callbr")
}

fn write_insn(text: &mut String, insn: &Insn, location: Option<u32>) {
    text.push_str("  ");
    if !insn.result.is_empty() {
        let _ = write!(text, "{} = ", insn.result);
    }
    text.push_str(&insn.text);
    if let Some(node) = location {
        let _ = write!(text, ", !dbg !{node}");
    }
    text.push('\n');
}

/// `line`: that of a loop's head.
fn count_call(block: &Block, line: Option<u32>) -> String {
    let insns = block.insns.iter().filter(|i| counts(i)).count();
    match line {
        None => format!("call void @tilt_count(ptr {WORK}, i64 {insns})"),
        Some(line) => format!("call void @tilt_count_loop(ptr {WORK}, i64 {insns}, i32 {line})"),
    }
}

/// Where a block begins in the source.
fn line_of(block: &Block) -> Option<u32> {
    block.insns.iter().find_map(|insn| insn.location)
}

/// Blocks that a block at or after them jumps to: every cycle goes through one.
fn loop_heads(function: &Function) -> HashSet<&str> {
    let place: HashMap<&str, usize> = function
        .blocks
        .iter()
        .enumerate()
        .map(|(i, b)| (b.label.as_str(), i))
        .collect();
    let back = |(from, block): (usize, &'_ Block)| {
        let targets: Vec<_> = Function::successors(block)
            .iter()
            .filter_map(|t| place.get(t).copied())
            .collect();
        targets.into_iter().filter(move |&to| to <= from)
    };
    function
        .blocks
        .iter()
        .enumerate()
        .flat_map(back)
        .map(|to| function.blocks[to].label.as_str())
        .collect()
}

const FLOATING: &str =
    "floating point, which BPF does not have: compute with integers, scaled where fractions matter";

/// Whether an instruction has a floating-point operand or result.
fn is_floating(text: &str) -> bool {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || "_%@.\"".contains(c));
    text.split(is_end)
        .any(|word| matches!(word, "double" | "float" | "half" | "fp128" | "x86_fp80"))
}

struct Lowering<'s> {
    slots: &'s mut Slots,
    /// Passthroughs of pointers that code must not follow when they are null.
    must_exist: HashSet<String>,
    /// Result of each passthrough and the pointer that went in.
    raw: HashMap<String, String>,
    serial: usize,
}

impl Lowering<'_> {
    fn insn(&mut self, insn: &Insn) -> Result<Vec<Insn>> {
        self.serial += 1;
        let insn = &Insn::new(&insn.result, define_poison(&insn.text));
        if is_floating(&insn.text) {
            return Err(Unknown::new(FLOATING));
        }
        match insn.opcode() {
            "udiv" | "urem" | "sdiv" | "srem" => arith::divide(insn),
            "shl" | "lshr" | "ashr" => arith::shift(insn),
            "call" => self.call(insn),
            "callbr" => asm::callbr(insn, self.serial),
            "alloca" => zeroed_alloca(insn),
            "unreachable" => Ok(vec![Insn::new("", "call void @llvm.trap()"), insn.clone()]),
            "store" | "atomicrmw" | "cmpxchg" | "icmp" | "ptrtoint" | "ret" => Ok(vec![Insn::new(
                &insn.result,
                self.without_probe(&insn.text),
            )]),
            opcode if PLAIN.contains(&opcode) => Ok(vec![insn.clone()]),
            _ => Err(Unknown::new(format!("instruction '{}'", insn.text))),
        }
    }

    /// Writes, comparisons and calls get the pointer as it is: only reads through a null pointer yield zeroes.
    fn without_probe(&self, text: &str) -> String {
        replace_names(text, '%', |name| self.raw.get(name).cloned())
    }

    fn call(&mut self, insn: &Insn) -> Result<Vec<Insn>> {
        let call = Call::parse(&self.without_probe(&insn.text))?;
        if call.callee.starts_with("inttoptr ") {
            return self.slots.helper(insn, &call, self.serial);
        }
        if call.callee.starts_with("asm ") {
            return asm::call(&Insn::new(&insn.result, call.to_string()), &call);
        }
        match intrinsic(&call.callee) {
            Some(name) if name.starts_with("bpf.") => self.bpf_intrinsic(insn, &call),
            Some(name)
                if !INTRINSICS
                    .iter()
                    .any(|i| name == *i || name.starts_with(&format!("{i}."))) =>
            {
                Err(Unknown::new(format!("intrinsic llvm.{name}")))
            }
            _ => Ok(vec![Insn::new(&insn.result, call.to_string())]),
        }
    }

    fn bpf_intrinsic(&mut self, insn: &Insn, call: &Call) -> Result<Vec<Insn>> {
        let name = call.callee.trim_start_matches("@llvm.bpf.");
        match (name.split('.').next().unwrap_or(""), call.args.as_slice()) {
            ("passthrough", [_, (ty, value)]) if ty == "ptr" => {
                self.raw.insert(insn.result.clone(), value.clone());
                let function = match self.must_exist.contains(&insn.result) {
                    true => "tilt_kernel",
                    false => "tilt_probe",
                };
                Ok(vec![Insn::new(
                    &insn.result,
                    format!("call ptr @{function}(ptr {value})"),
                )])
            }
            // A comparison that the optimiser was kept from merging with others.
            ("compare", [(_, predicate), (ty, a), (_, b)]) => {
                let predicate = predicate_name(predicate).ok_or_else(|| {
                    Unknown::new(format!("predicate {predicate} of llvm.bpf.compare"))
                })?;
                Ok(vec![Insn::new(
                    &insn.result,
                    format!("icmp {predicate} {ty} {a}, {b}"),
                )])
            }
            _ => Err(Unknown::new(format!("intrinsic llvm.bpf.{name}"))),
        }
    }
}

/// LLVM's `CmpInst::Predicate` of integers, which llvm.bpf.compare passes as a number.
fn predicate_name(number: &str) -> Option<&'static str> {
    let names = [
        "eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle",
    ];
    names
        .get(number.parse::<usize>().ok()?.checked_sub(32)?)
        .copied()
}

/// Stack memory starts as zeroes, padding of structs included: what a scheduler reads without having written it must be the
/// same in every run.
fn zeroed_alloca(insn: &Insn) -> Result<Vec<Insn>> {
    let parts = split_top(&insn.text, ',');
    if parts.len() > 2 || parts.get(1).is_some_and(|p| !p.starts_with("align ")) {
        return Err(Unknown::new(format!("instruction '{}'", insn.text)));
    }
    let ty = parts[0].trim_start_matches("alloca ");
    Ok(vec![insn.clone(), access::zeroed(&insn.result, ty)])
}

/// `poison` and `undef` are whatever a compiler likes; here they are zero at every optimisation level.
fn define_poison(text: &str) -> String {
    if !text.contains("poison") && !text.contains("undef") {
        return text.to_owned();
    }
    if let Some(rest) = text.strip_prefix("phi ") {
        let (ty, list) = take_type(rest);
        let zero = zero_of(ty);
        return format!(
            "phi {ty} {}",
            list.replace("[ poison,", &format!("[ {zero},"))
                .replace("[ undef,", &format!("[ {zero},"))
        );
    }
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        let bare = word.trim_end_matches([',', ')']);
        if at > 0 && (bare == "poison" || bare == "undef") {
            let before = words[at - 1].trim_start_matches('(');
            out.push(word.replacen(
                bare,
                zero_of(before.rsplit('(').next().unwrap_or(before)),
                1,
            ));
        } else {
            out.push((*word).to_owned());
        }
    }
    out.join(" ")
}

fn zero_of(ty: &str) -> &'static str {
    match ty {
        "ptr" => "null",
        _ if ty.starts_with('i') && ty[1..].bytes().all(|b| b.is_ascii_digit()) => "0",
        _ => "zeroinitializer",
    }
}

/// Labels that an instruction names and that no block has: a sign that the reader went wrong.
pub fn check_labels(function: &Function) -> Result<()> {
    let known: HashSet<&str> = function.blocks.iter().map(|b| b.label.as_str()).collect();
    for insn in function.blocks.iter().flat_map(|b| &b.insns) {
        if let Some(missing) = labels(&insn.text).into_iter().find(|l| !known.contains(l)) {
            return Err(Unknown::new(format!("label {missing}")).in_function(&function.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poison_is_zero_of_its_type() {
        assert_eq!(
            define_poison("phi i64 [ poison, %v1 ], [ %v2, %v3 ]"),
            "phi i64 [ 0, %v1 ], [ %v2, %v3 ]"
        );
        assert_eq!(
            define_poison("store ptr undef, ptr %v1, align 8"),
            "store ptr null, ptr %v1, align 8"
        );
        assert_eq!(
            define_poison("call void @f(i32 poison, ptr %v1)"),
            "call void @f(i32 0, ptr %v1)"
        );
        assert_eq!(
            define_poison("insertvalue { i64, i1 } poison, i64 %a, 0"),
            "insertvalue { i64, i1 } zeroinitializer, i64 %a, 0"
        );
    }

    #[test]
    fn stack_memory_is_zeroed() {
        let out = zeroed_alloca(&Insn::new("%v1", "alloca [4 x i8], align 4")).unwrap();
        let zero = "call void @tilt_zero(ptr %v1, i64 ptrtoint (ptr getelementptr ([4 x i8], ptr null, i64 1) to i64))";
        assert_eq!(out[1].text, zero);
    }

    #[test]
    fn unknown_intrinsics_and_instructions_are_named() {
        let mut slots = Slots::default();
        let mut lowering = Lowering {
            slots: &mut slots,
            raw: HashMap::new(),
            must_exist: HashSet::new(),
            serial: 0,
        };
        let error = lowering
            .insn(&Insn::new(
                "%x",
                "call i64 @llvm.bpf.load.half(ptr %p, i64 0)",
            ))
            .unwrap_err();
        assert_eq!(error.what, "intrinsic llvm.bpf.load.half");
        let error = lowering
            .insn(&Insn::new("%x", "va_arg ptr %a, i64"))
            .unwrap_err();
        assert_eq!(error.what, "instruction 'va_arg ptr %a, i64'");
        for floating in [
            "fadd double %a, %b",
            "uitofp i64 %a to double",
            "load float, ptr %p",
        ] {
            let error = lowering.insn(&Insn::new("%x", floating)).unwrap_err();
            assert_eq!(error.what, FLOATING, "{floating}");
        }
        assert!(!is_floating("call i64 @double(i64 %float)"));
    }

    #[test]
    fn reads_are_probed_and_writes_are_not() {
        let mut slots = Slots::default();
        let mut lowering = Lowering {
            slots: &mut slots,
            raw: HashMap::new(),
            must_exist: HashSet::new(),
            serial: 0,
        };
        let through = Insn::new(
            "%p",
            "call ptr @llvm.bpf.passthrough.p0.p0(i32 1, ptr %raw)",
        );
        assert_eq!(
            lowering.insn(&through).unwrap()[0].text,
            "call ptr @tilt_probe(ptr %raw)"
        );
        assert_eq!(
            lowering.insn(&Insn::new("%x", "load i64, ptr %p")).unwrap()[0].text,
            "load i64, ptr %p"
        );
        assert_eq!(
            lowering
                .insn(&Insn::new("", "store i64 1, ptr %p"))
                .unwrap()[0]
                .text,
            "store i64 1, ptr %raw"
        );
        let compared = lowering
            .insn(&Insn::new("%c", "icmp eq ptr %p, null"))
            .unwrap();
        assert_eq!(compared[0].text, "icmp eq ptr %raw, null");
    }
}
