// SPDX-License-Identifier: GPL-2.0-or-later
//! What the loader and the verifier of a kernel decide before a program runs: which kernel functions, fields, types
//! and enumerators exist. Replaces each question by its answer and takes out the branches that it rules out, as the
//! verifier does, so that code for other kernels is neither translated nor counted.

use crate::ir::{Function, Insn, Result, labels, names, replace_names, split_top};
use std::collections::{HashMap, HashSet};

/// Answers of the reference kernel.
pub trait Answers {
    /// Value that a load from `global` always has, `None` if it is an ordinary variable.
    fn load(&mut self, global: &str) -> Result<Option<i128>>;
    /// Whether a symbol that may be missing (a weak kernel function or variable) is there; `None` for all others.
    fn exists(&self, global: &str) -> Option<bool>;
}

/// Folds until nothing changes.
pub fn fold(function: &mut Function, answers: &mut dyn Answers) -> Result<()> {
    loop {
        let mut known = HashMap::new();
        for block in &mut function.blocks {
            let mut kept = Vec::with_capacity(block.insns.len());
            for insn in block.insns.drain(..) {
                match value_of(&insn, answers)? {
                    Some(value) => {
                        known.insert(insn.result, value);
                    }
                    None => kept.push(insn),
                }
            }
            block.insns = kept;
        }
        let before = edges(function);
        substitute(function, &known);
        function
            .blocks
            .iter_mut()
            .for_each(|b| b.insns.iter_mut().for_each(settle_branch));
        prune(function);
        if known.is_empty() && edges(function) == before {
            return Ok(());
        }
    }
}

fn edges(function: &Function) -> usize {
    function
        .blocks
        .iter()
        .map(|b| 1 + Function::successors(b).len())
        .sum()
}

/// The operand that an instruction's result always equals, `None` if it must be computed.
fn value_of(insn: &Insn, answers: &mut dyn Answers) -> Result<Option<String>> {
    let text = insn.text.as_str();
    if insn.result.is_empty() {
        return Ok(None);
    }
    Ok(match insn.opcode() {
        "load" => {
            let parts = split_top(text, ',');
            let global = parts
                .get(1)
                .and_then(|p| p.strip_prefix("ptr "))
                .unwrap_or("");
            if global.starts_with('@') {
                answers.load(global)?.map(|v| v.to_string())
            } else {
                None
            }
        }
        "call" if text.contains(" @llvm.bpf.passthrough.i") => last_argument(text),
        "bitcast" | "addrspacecast" => text
            .split_once("ptr ")
            .and_then(|(_, rest)| rest.strip_suffix(" to ptr"))
            .map(str::to_owned),
        "icmp" => compare(text, answers),
        "and" | "or" | "xor" => logic(text),
        "select" => choose(text),
        "zext" | "trunc" => extend(text),
        "freeze" => text
            .split(' ')
            .next_back()
            .filter(|v| number(v).is_some())
            .map(str::to_owned),
        "phi" => same_everywhere(text),
        _ => None,
    })
}

fn last_argument(text: &str) -> Option<String> {
    let inside = text.rsplit_once(", ")?.1.strip_suffix(')')?;
    Some(inside.split(' ').next_back()?.to_owned())
}

fn number(operand: &str) -> Option<i128> {
    match operand {
        "true" => Some(1),
        "false" => Some(0),
        _ => operand.parse().ok(),
    }
}

fn truth(value: bool) -> Option<String> {
    Some(if value { "true" } else { "false" }.to_owned())
}

/// `icmp ne ptr @f, null`, or of two numbers.
fn compare(text: &str, answers: &dyn Answers) -> Option<String> {
    let mut words = text.splitn(4, ' ').skip(1);
    let (predicate, ty, operands) = (words.next()?, words.next()?, words.next()?);
    let (left, right) = operands.split_once(", ")?;
    let (left, right) = if ty == "ptr" {
        let address = |operand: &str| match operand {
            "null" => Some(0),
            _ => answers.exists(operand).map(i128::from),
        };
        (address(left)?, address(right)?)
    } else {
        (unsigned(left, ty)?, unsigned(right, ty)?)
    };
    truth(match predicate {
        "eq" => left == right,
        "ne" => left != right,
        "ugt" => left > right,
        "uge" => left >= right,
        "ult" => left < right,
        "ule" => left <= right,
        _ => return None,
    })
}

fn unsigned(operand: &str, ty: &str) -> Option<i128> {
    let bits: u32 = ty.strip_prefix('i')?.parse().ok()?;
    Some(number(operand)? & ((1i128 << bits.min(64)) - 1))
}

/// `and`, `or`, `xor` of i1, where one side may be enough.
fn logic(text: &str) -> Option<String> {
    let (opcode, rest) = text.split_once(' ')?;
    let (left, right) = rest.strip_prefix("i1 ")?.split_once(", ")?;
    let (constant, other) = match (number(left), number(right)) {
        (Some(l), _) => (l & 1 != 0, right),
        (_, Some(r)) => (r & 1 != 0, left),
        _ => return None,
    };
    match (opcode, constant) {
        ("and", false) => truth(false),
        ("or", true) => truth(true),
        ("and", true) | ("or", false) | ("xor", false) => Some(other.to_owned()),
        ("xor", true) => number(other).and_then(|o| truth(o & 1 == 0)),
        _ => None,
    }
}

/// `select i1 true, T a, T b`
fn choose(text: &str) -> Option<String> {
    let parts = split_top(text, ',');
    let condition = number(parts.first()?.strip_prefix("select i1 ")?)?;
    let chosen = parts.get(if condition & 1 != 0 { 1 } else { 2 })?;
    Some(crate::ir::take_type(chosen).1.to_owned())
}

/// `zext i32 5 to i64`, `trunc i64 5 to i32`
fn extend(text: &str) -> Option<String> {
    let words: Vec<_> = text.split(' ').collect();
    let &[_, from, operand, "to", to] = words.as_slice() else {
        return None;
    };
    let value = unsigned(operand, from)?;
    let value = unsigned(&value.to_string(), to)?;
    if to == "i1" {
        truth(value != 0)
    } else {
        Some(value.to_string())
    }
}

/// A phi with one incoming value, or the same number from everywhere.
fn same_everywhere(text: &str) -> Option<String> {
    let incoming = incoming(text);
    let (first, _) = incoming.first()?;
    let constant = number(first).is_some() || *first == "null";
    (incoming.len() == 1 || constant && incoming.iter().all(|(v, _)| v == first))
        .then(|| (*first).to_owned())
}

/// Values and predecessor labels of a phi.
pub fn incoming(text: &str) -> Vec<(&str, &str)> {
    let list = crate::ir::take_type(text.trim_start_matches("phi ")).1;
    split_top(list, ',')
        .into_iter()
        .filter_map(|pair| {
            pair.strip_prefix('[')?
                .strip_suffix(']')?
                .trim()
                .rsplit_once(", %")
        })
        .collect()
}

fn substitute(function: &mut Function, known: &HashMap<String, String>) {
    let resolve = |name: &str| {
        let mut value = known.get(name)?;
        while let Some(next) = known.get(value) {
            value = next;
        }
        Some(value.clone())
    };
    for insn in function.blocks.iter_mut().flat_map(|b| &mut b.insns) {
        if names(&insn.text, '%')
            .iter()
            .any(|n| known.contains_key(*n))
        {
            insn.text = replace_names(&insn.text, '%', resolve);
        }
    }
}

/// A branch on a constant goes one way.
fn settle_branch(insn: &mut Insn) {
    if let Some(rest) = insn.text.strip_prefix("br i1 ") {
        let condition = rest.split(',').next().and_then(number);
        let targets = labels(&insn.text);
        let target = match condition {
            Some(c) => targets.get(if c & 1 != 0 { 0 } else { 1 }),
            None => targets
                .first()
                .filter(|first| targets.get(1) == Some(first)),
        };
        if let Some(target) = target {
            insn.text = format!("br label %{target}");
        }
    } else if insn.text.starts_with("switch ") {
        settle_switch(insn);
    }
}

/// `switch i32 5, label %default [ i32 0, label %a i32 5, label %b ]`
fn settle_switch(insn: &mut Insn) {
    let Some((head, cases)) = insn.text.split_once('[') else {
        return;
    };
    let operand = head
        .split(',')
        .next()
        .and_then(|h| h.split(' ').next_back());
    let Some(value) = operand.and_then(number) else {
        return;
    };
    let words: Vec<_> = cases.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    let case = words
        .chunks(4)
        .find(|c| c.len() == 4 && number(c[1]) == Some(value))
        .map(|c| c[3]);
    let target = case.map(|t| t.trim_start_matches('%').to_owned());
    let target = target.or_else(|| labels(head).first().map(|t| (*t).to_owned()));
    if let Some(target) = target {
        insn.text = format!("br label %{target}");
    }
}

/// Takes out blocks that nothing leads to, and their entries in phis.
fn prune(function: &mut Function) {
    let mut reached = HashSet::new();
    let mut todo = vec![function.blocks[0].label.clone()];
    let mut predecessors: HashMap<String, Vec<String>> = HashMap::new();
    let index: HashMap<_, _> = function
        .blocks
        .iter()
        .enumerate()
        .map(|(i, b)| (b.label.clone(), i))
        .collect();
    while let Some(label) = todo.pop() {
        if !reached.insert(label.clone()) {
            continue;
        }
        let Some(&at) = index.get(&label) else {
            continue;
        };
        for next in Function::successors(&function.blocks[at]) {
            predecessors
                .entry(next.to_owned())
                .or_default()
                .push(label.clone());
            todo.push(next.to_owned());
        }
    }
    function.blocks.retain(|b| reached.contains(&b.label));
    for block in &mut function.blocks {
        let predecessors = predecessors.remove(&block.label).unwrap_or_default();
        for insn in block.insns.iter_mut().filter(|i| i.opcode() == "phi") {
            insn.text = prune_phi(&insn.text, &predecessors);
        }
    }
}

/// One entry for each edge that is left: a block that lost one of two edges from the same predecessor loses one entry.
fn prune_phi(text: &str, predecessors: &[String]) -> String {
    let mut left = predecessors.to_vec();
    let mut entries = Vec::new();
    for (value, label) in incoming(text) {
        if let Some(at) = left.iter().position(|p| p == label) {
            left.swap_remove(at);
            entries.push(format!("[ {value}, %{label} ]"));
        }
    }
    let ty = crate::ir::take_type(text.trim_start_matches("phi ")).0;
    format!("phi {ty} {}", entries.join(", "))
}
