// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether a scheduler has code that could insert a task later than in `ops.enqueue`, from a queue of its own.

use crate::ir::{Function, Module};
use crate::parse::mentions;
use std::collections::{HashMap, HashSet};
use tiltyard_native::object::Ops;

/// The ops that insert the task that they are called for.
const AT_ONCE: [&str; 2] = ["enqueue", "select_cpu"];

/// How names of kernel functions that insert tasks begin, today and before Linux 6.13.
const INSERTS: [&str; 2] = ["@scx_bpf_dsq_insert", "@scx_bpf_dispatch"];

/// Whether anything else than those ops, and the functions that only they call, inserts tasks. A function whose address is
/// taken may be called at any time.
pub fn inserts_later(module: &Module, ops: &Ops) -> bool {
    let at_once: HashSet<String> = AT_ONCE
        .iter()
        .filter_map(|op| ops.functions.get(*op))
        .map(|symbol| format!("@{symbol}"))
        .collect();
    let functions: HashMap<&str, &Function> = module
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f))
        .collect();
    let (mut called, mut taken) = (HashSet::new(), HashSet::new());
    for function in functions.values() {
        let (calls, others) = mentions(function);
        called.extend(calls);
        taken.extend(others);
    }
    let is_entry =
        |name: &&str| taken.contains(*name) || !called.contains(*name) && !at_once.contains(*name);
    let mut todo: Vec<&str> = functions.keys().copied().filter(is_entry).collect();
    let mut seen = HashSet::new();
    while let Some(name) = todo.pop() {
        if INSERTS.iter().any(|begin| name.starts_with(begin)) {
            return true;
        }
        if let Some(function) = functions.get(name)
            && seen.insert(name)
        {
            todo.extend(mentions(function).0);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;

    fn found(bodies: &str) -> bool {
        let module = parse(bodies).expect("it is IR");
        let functions = [("enqueue", "e"), ("dispatch", "d")];
        let ops = Ops {
            functions: functions
                .map(|(op, f)| (op.to_owned(), f.to_owned()))
                .into(),
            ..Ops::default()
        };
        inserts_later(&module, &ops)
    }

    fn function(name: &str, code: &str) -> String {
        format!("define internal void @{name}(ptr %0) {{\n  {code}\n  ret void\n}}\n")
    }

    #[test]
    fn only_code_outside_of_enqueue_counts() {
        let insert = "call void @scx_bpf_dsq_insert(ptr %0, i64 0, i64 0, i64 0)";
        let e = function("e", insert);
        assert!(!found(&(e.clone() + &function("d", ""))));
        assert!(found(&(e.clone() + &function("d", insert))));
        let inner = function("f", insert);
        let calls = function("e", "call void @f(ptr %0)");
        assert!(!found(&(calls.clone() + &function("d", "") + &inner)));
        let both = function("d", "call void @f(ptr %0)");
        assert!(found(&(calls + &both + &inner)));
        // A timer that enqueue starts.
        let timer = function("e", "call void @start(ptr @f)");
        assert!(found(&(timer + &function("d", "") + &inner)));
    }
}
