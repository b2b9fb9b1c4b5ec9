// SPDX-License-Identifier: GPL-2.0-or-later
//! Which memory an instruction for the host reads and writes. Work is counted before this is added, so a scheduler that reports
//! its accesses takes no longer in the simulated machine.

use super::asm;
use crate::ir::{Block, Function, Insn, names, split_top, take_type};
use crate::parse::Call;
use std::collections::{HashMap, HashSet};
use tiltyard_native::object::{TELL_ACCESS, how};

/// Calls to insert before the instruction, one for each range that it reads or writes. Stack memory is reported like any
/// other. `order`: see [`order`]; `place`: its source line, as in `tilt_place`.
pub fn tell(insn: &Insn, values: &Values, order: u64, place: u32) -> Vec<Insn> {
    // Of the runtime's own, or a probe's.
    if insn.text.contains(super::RUNTIME) {
        return Vec::new();
    }
    let mut marks = marks(insn, values.used.contains(&insn.result));
    if marks == how::MARKED {
        marks |= order;
    }
    if values.meant.contains(&insn.result) {
        marks |= how::MEANT;
    }
    let call = |range: AccessedRange| {
        let AccessedRange {
            pointer,
            bytes,
            write,
            ..
        } = range;
        let how = if write { how::WRITE | marks } else { marks };
        Insn::new(
            "",
            format!("call void @{TELL_ACCESS}(ptr {pointer}, i64 {bytes}, i64 {how}, i32 {place})"),
        )
    };
    places(insn).into_iter().map(call).collect()
}

/// What a function does with its values.
#[derive(Default)]
pub struct Values {
    /// Those that an instruction uses.
    used: HashSet<String>,
    /// Those that are read inside `data_race()`.
    meant: HashSet<String>,
}

impl Values {
    pub fn of(function: &Function) -> Values {
        let insns = || function.blocks.iter().flat_map(|b| &b.insns);
        let own = |name: &&str| name.starts_with('%');
        let inputs = |insn: &Insn| -> Vec<String> {
            let all = names(&insn.text, '%').into_iter();
            all.filter(own).map(str::to_owned).collect()
        };
        let made: HashMap<&str, &Insn> = insns().map(|i| (i.result.as_str(), i)).collect();
        let mut values = Values {
            used: insns().flat_map(inputs).collect(),
            meant: HashSet::new(),
        };
        let marks = insns().filter(|insn| asm::is_data_race(&insn.text));
        let mut todo: Vec<String> = marks.flat_map(inputs).collect();
        while let Some(name) = todo.pop() {
            match made.get(name.as_str()) {
                Some(load) if load.opcode() == "load" => drop(values.meant.insert(name)),
                // Conversions and arithmetic inside the parentheses.
                Some(insn) if !matches!(insn.opcode(), "phi" | "call") => todo.extend(inputs(insn)),
                _ => {}
            }
        }
        values
    }
}

/// What distinguishes an access from a plain one.
///
/// What counts is whether the result is used, not the order that the source asks for: for an atomic addition (and, or, xor)
/// whose result is dead, LLVM's BPF back end emits an instruction that does not fetch the old value, which the kernel's
/// memory model does not order with anything; all others are fully ordered.
fn marks(insn: &Insn, result_is_used: bool) -> u64 {
    let words: Vec<&str> = insn.text.split(' ').collect();
    let second = words.get(1).copied().unwrap_or("");
    let orders = |order: &str| words.iter().any(|w| w.trim_end_matches(',') == order);
    match (insn.opcode(), second) {
        ("load", "atomic") if orders("acquire") || orders("seq_cst") => how::MARKED | how::ACQUIRE,
        ("store", "atomic") if orders("release") || orders("seq_cst") => how::MARKED | how::RELEASE,
        ("load" | "store", "atomic" | "volatile") => how::MARKED,
        ("cmpxchg", _) => how::MARKED | how::UPDATE | how::FENCE,
        ("atomicrmw", _) if result_is_used || words.contains(&"xchg") => {
            how::MARKED | how::UPDATE | how::FENCE
        }
        ("atomicrmw", _) => how::MARKED | how::UPDATE,
        _ => 0,
    }
}

/// How a compiler barrier right before or after it orders the volatile access at this place (block and instruction) of a
/// function.
///
/// x86 keeps the order of loads and of stores, so there the headers' `smp_store_release()` is `barrier()` and a volatile
/// store, `smp_load_acquire()` a volatile load and `barrier()`, and `smp_wmb()` and `smp_rmb()` are `barrier()` alone. On
/// other hosts they are full barriers, which are atomic operations.
pub fn order(blocks: &[Block], (block, at): (usize, usize)) -> u64 {
    let insns = &blocks[block].insns;
    let (neighbour, order) = match insns[at].opcode() {
        "load" => (next_access(blocks, block, &insns[at + 1..]), how::ACQUIRE),
        "store" => (previous_access(blocks, block, &insns[..at]), how::RELEASE),
        _ => return 0,
    };
    match neighbour {
        Some(insn) if asm::is_barrier(&insn.text) => order,
        _ => 0,
    }
}

/// Most blocks that a search goes through: the headers' conditions on the architecture, already resolved here, leave some.
const NEAR: usize = 4;

fn next_access<'b>(blocks: &'b [Block], block: usize, rest: &'b [Insn]) -> Option<&'b Insn> {
    let only_successor = |block: &&'b Block| match Function::successors(block).as_slice() {
        [only] => blocks.iter().find(|b| b.label == *only),
        _ => None,
    };
    let others = std::iter::successors(Some(&blocks[block]), only_successor).skip(1);
    let insns = rest
        .iter()
        .chain(others.take(NEAR).flat_map(|block| &block.insns));
    insns.into_iter().find(|insn| touches_memory(insn))
}

fn previous_access<'b>(blocks: &'b [Block], block: usize, rest: &'b [Insn]) -> Option<&'b Insn> {
    let only_predecessor = |block: &&'b Block| {
        let leads_here = |b: &&'b Block| Function::successors(b).contains(&block.label.as_str());
        let mut before = blocks.iter().filter(leads_here);
        before.next().filter(|_| before.next().is_none())
    };
    let others = std::iter::successors(Some(&blocks[block]), only_predecessor).skip(1);
    let others = others.take(NEAR).flat_map(|block| block.insns.iter().rev());
    let mut insns = rest.iter().rev().chain(others);
    insns.find(|insn| touches_memory(insn))
}

fn touches_memory(insn: &Insn) -> bool {
    match insn.opcode() {
        "call" => !insn.text.contains("@llvm.dbg."),
        opcode => matches!(opcode, "load" | "store" | "atomicrmw" | "cmpxchg"),
    }
}

pub struct AccessedRange {
    pub pointer: String,
    /// Its length in bytes, an i64.
    pub bytes: String,
    pub write: bool,
    /// Of one value, which fits into a register.
    pub scalar_bytes: Option<u64>,
}

/// The ranges that an instruction accesses.
pub fn places(insn: &Insn) -> Vec<AccessedRange> {
    let text = &insn.text;
    let operand = |at: usize| split_top(text, ',').get(at).map(|o| pointer(o));
    let value = |at: usize, write: bool| {
        Some(vec![AccessedRange {
            pointer: operand(at)?,
            bytes: size_of(&accessed_type(insn)?),
            write,
            scalar_bytes: scalar_bytes(&accessed_type(insn)?),
        }])
    };
    match insn.opcode() {
        "load" => value(1, false),
        "store" => value(1, true),
        "atomicrmw" | "cmpxchg" => value(0, true),
        "call" => Call::parse(text).ok().map(|call| of_call(&call)),
        _ => None,
    }
    .unwrap_or_default()
}

/// The pointer of an operand: what follows the type, which is the last word `ptr` outside of constant expressions, without
/// the order of an atomic access.
fn pointer(operand: &str) -> String {
    let at = operand.find("ptr ").map_or(0, |at| at + 4);
    let orders = [" monotonic", " acquire", " release", " seq_cst"];
    let mut pointer = &operand[at..];
    for order in orders {
        pointer = pointer.strip_suffix(order).unwrap_or(pointer);
    }
    pointer.to_owned()
}

/// Size of a type as an i64.
pub fn size_of(ty: &str) -> String {
    format!("ptrtoint (ptr getelementptr ({ty}, ptr null, i64 1) to i64)")
}

/// Fills a variable of this type with zeroes. Not a store of a value: that would leave out padding.
pub fn zeroed(variable: &str, ty: &str) -> Insn {
    let size = size_of(ty);
    let text = format!("call void @tilt_zero(ptr {variable}, i64 {size})");
    Insn::new("", text)
}

/// Type of the value that a load, a store or an atomic instruction moves.
fn accessed_type(insn: &Insn) -> Option<String> {
    let operands = split_top(&insn.text, ',');
    let text = match insn.opcode() {
        "load" | "store" => operands.first()?.split_once(' ')?.1,
        "atomicrmw" | "cmpxchg" => operands.get(1)?,
        _ => return None,
    };
    let text = text
        .trim_start()
        .trim_start_matches("atomic ")
        .trim_start_matches("volatile ");
    Some(take_type(text).0.to_owned())
}

fn scalar_bytes(ty: &str) -> Option<u64> {
    let known = [("i8", 1), ("i16", 2), ("i32", 4), ("i64", 8), ("ptr", 8)];
    known
        .into_iter()
        .find(|(name, _)| *name == ty)
        .map(|(_, bytes)| bytes)
}

/// What follows `getelementptr` and its flags.
pub fn address_operands(text: &str) -> Option<&str> {
    let mut rest = text.strip_prefix("getelementptr ")?;
    for flag in ["inbounds ", "nusw ", "nuw "] {
        rest = rest.strip_prefix(flag).unwrap_or(rest);
    }
    Some(rest)
}

/// `getelementptr i8, ptr %base, i64 8`: base and bytes.
pub fn constant_offset(text: &str) -> Option<(&str, i64)> {
    let rest = address_operands(text)?.strip_prefix("i8, ptr ")?;
    let (base, index) = rest.split_once(", i64 ")?;
    let is_name = base.starts_with(['%', '@']) && !base.contains(' ');
    Some((base, index.parse().ok()?)).filter(|_| is_name)
}

fn of_call(call: &Call) -> Vec<AccessedRange> {
    let place = |at: usize, write: bool| {
        let [(_, pointer), (_, bytes)] = [call.args.get(at)?, call.args.get(2)?];
        Some(AccessedRange {
            pointer: pointer.clone(),
            bytes: bytes.clone(),
            write,
            scalar_bytes: None,
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
        let values = Values {
            used: HashSet::from(["%used".to_owned()]),
            ..Values::default()
        };
        let (result, text) = text.split_once(" = ").unwrap_or(("%r", text));
        let calls = tell(&Insn::new(result, text), &values, 0, 7);
        calls.into_iter().map(|i| i.text).collect()
    }

    /// `ptr %p, i64 SIZE(i32), i64 1` as it is in a call.
    fn sized(args: &str) -> String {
        let (before, rest) = args.split_once("SIZE(").unwrap();
        let (ty, after) = rest.split_once(')').unwrap();
        format!(
            "call void @tilt_access({before}{}{after}, i32 7)",
            size_of(ty)
        )
    }

    #[test]
    fn every_kind_of_access_is_told() {
        let cases = [
            ("load i64, ptr %p, align 8", "ptr %p, i64 SIZE(i64), i64 0"),
            (
                "load volatile i32, ptr @g, align 4",
                "ptr @g, i64 SIZE(i32), i64 2",
            ),
            (
                "load atomic volatile i32, ptr %p acquire, align 4",
                "ptr %p, i64 SIZE(i32), i64 10",
            ),
            (
                "load atomic i32, ptr %p monotonic, align 4",
                "ptr %p, i64 SIZE(i32), i64 2",
            ),
            (
                "store ptr %v, ptr %p, align 8",
                "ptr %p, i64 SIZE(ptr), i64 1",
            ),
            (
                "store volatile i8 %v, ptr %p, align 1",
                "ptr %p, i64 SIZE(i8), i64 3",
            ),
            (
                "store atomic i64 %v, ptr %p release, align 8",
                "ptr %p, i64 SIZE(i64), i64 19",
            ),
            (
                "store i64 1, ptr getelementptr (i8, ptr @cpus, i64 64), align 8",
                "ptr getelementptr (i8, ptr @cpus, i64 64), i64 SIZE(i64), i64 1",
            ),
        ];
        for (text, args) in cases {
            assert_eq!(told(text), [sized(args)], "{text}");
        }
        let set = told("call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 8, i1 false)");
        assert_eq!(set, ["call void @tilt_access(ptr %p, i64 8, i64 1, i32 7)"]);
        let copy = told("call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)");
        assert!(copy[0].contains("(ptr %to, i64 %n, i64 1, i32 7)"));
        assert!(copy[1].contains("(ptr %from, i64 %n, i64 0, i32 7)"));
    }

    #[test]
    fn a_value_that_fits_into_a_register_has_its_size() {
        let of = |ty: &str| {
            let insn = Insn::new("%r", format!("load {ty}, ptr %p, align 1"));
            places(&insn)[0].scalar_bytes
        };
        let sizes = ["i8", "i16", "i32", "i64", "ptr", "[2 x i32]"].map(of);
        assert_eq!(sizes, [Some(1), Some(2), Some(4), Some(8), Some(8), None]);
    }

    #[test]
    fn an_atomic_operation_is_ordered_if_its_result_is_used() {
        let marked = how::WRITE | how::MARKED | how::UPDATE;
        let ordered = marked | how::FENCE;
        let cases = [
            (
                "%dead = atomicrmw add ptr %p, i32 1 seq_cst, align 4",
                marked,
            ),
            (
                "%used = atomicrmw add ptr %p, i32 1 seq_cst, align 4",
                ordered,
            ),
            (
                "%used = atomicrmw add ptr %p, i32 1 monotonic, align 4",
                ordered,
            ),
            (
                "%dead = atomicrmw xchg ptr %p, i32 1 seq_cst, align 4",
                ordered,
            ),
            (
                "%dead = cmpxchg ptr %p, i32 0, i32 1 seq_cst seq_cst, align 4",
                ordered,
            ),
        ];
        for (text, how) in cases {
            let args = format!("ptr %p, i64 SIZE(i32), i64 {how}");
            assert_eq!(told(text), [sized(&args)], "{text}");
        }
    }

    #[test]
    fn a_barrier_for_the_compiler_orders_its_neighbour() {
        let barrier = "call void asm sideeffect \"\", \"~{memory}\"()";
        let block = |label: &str, texts: &[&str]| Block {
            label: label.to_owned(),
            insns: texts.iter().map(|text| Insn::new("%r", *text)).collect(),
        };
        let load = "load volatile i32, ptr %p, align 4";
        let store = "store volatile i32 1, ptr %p, align 4";
        let blocks = [
            block("a", &[load, "and i32 %a, 1", "br label %b"]),
            block("b", &[barrier, load, store, barrier, "br label %c"]),
            block("c", &[store, "br label %g"]),
            block("d", &[load, "br i1 %c, label %e, label %g"]),
            block("e", &[barrier, "br label %g"]),
            block("f", &[barrier, "br label %h"]),
            block("g", &[store, "br label %h"]),
            block("h", &[store]),
        ];
        let orders = |at: usize| -> Vec<u64> {
            let insns = 0..blocks[at].insns.len();
            insns.map(|insn| order(&blocks, (at, insn))).collect()
        };
        assert_eq!(orders(0), [how::ACQUIRE, 0, 0]);
        assert_eq!(orders(1), [0, 0, 0, 0, 0]);
        assert_eq!(orders(2), [how::RELEASE, 0]);
        assert_eq!(orders(3), [0, 0], "only on the first of the ways from here");
        assert_eq!(orders(6), [0, 0], "only on the last of the ways here");
        assert_eq!(orders(7), [0], "only on the first");
        let first = &blocks[0].insns[0];
        let acquire = tell(first, &Values::default(), how::ACQUIRE, 0);
        assert!(acquire[0].text.contains("i64 10, i32 0"), "{acquire:?}");
        let plain = Insn::new("%r", "load i32, ptr %p, align 4");
        let plain = tell(&plain, &Values::default(), how::ACQUIRE, 0);
        assert!(plain[0].text.contains("i64 0, i32 0"), "{plain:?}");
    }

    #[test]
    fn arithmetic_and_calls_touch_nothing() {
        for text in [
            "add i64 %a, %b",
            "call i64 @f(ptr %p)",
            "ret i64 0",
            "load ptr, ptr @tilt_engine",
        ] {
            assert_eq!(told(text), [""; 0], "{text}");
        }
    }
}
