// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls into the kernel: BPF helpers (a call of a constant address) and kernel functions (declared in `.ksyms`).
//! Both go through tables of the object, so that each instance may have its own engine, which they get as a hidden
//! first argument. Integer arguments travel zero-extended in 64 bits, as in BPF's registers.

use super::body::WORK;
use super::bpf_for;
use super::core_relo::without_flavour;
use crate::ir::{Declare, Insn, Result, Unknown};
use crate::parse::Call;
use crate::reference;
use std::fmt::Write;
use tiltyard_native::object::{ASK_STORE, TELL_ACCESS};

/// Helpers for which it matters how long the callback has been running: bpf_ktime_get_ns(), _boot_ns(), _coarse_ns(), _tai_ns(),
/// bpf_spin_lock() and bpf_spin_unlock().
const TIMED: [u32; 6] = [5, 93, 94, 125, 160, 208];

/// Tables of what a scheduler calls, in the order of the slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slots {
    pub kfuncs: Vec<String>,
    pub helpers: Vec<u32>,
}

fn slot<T: PartialEq>(table: &mut Vec<T>, entry: T) -> usize {
    table.iter().position(|e| *e == entry).unwrap_or_else(|| {
        table.push(entry);
        table.len() - 1
    })
}

/// The reference kernel's function behind a declaration, `None` if it has none of that name and prototype.
pub fn kernel_function(declare: &Declare) -> Option<&'static str> {
    let base = without_flavour(declare.name.trim_start_matches('@'));
    let name = reference::RENAMED
        .iter()
        .find(|(old, _)| *old == base)
        .map_or(base, |(_, new)| new);
    let same = |ret: &str, params: &[&str]| declare.ret == ret && declare.params.iter().eq(params);
    let changed = reference::PROTOTYPES.iter().find(|(n, ..)| *n == name);
    if changed.is_some_and(|(_, ret, params)| !same(ret, params)) {
        return None;
    }
    reference::KFUNCS.iter().find(|k| **k == name).copied()
}

impl Slots {
    /// `call RET inttoptr (i64 N to ptr)(ARGS)` as a call through slot N. `at` makes names unique.
    pub fn helper(&mut self, insn: &Insn, call: &Call, at: usize) -> Result<Vec<Insn>> {
        let unknown = || Unknown::new(format!("call of constant address '{}'", call.callee));
        let id = call
            .callee
            .strip_prefix("inttoptr (i64 ")
            .and_then(|c| c.strip_suffix(" to ptr)"));
        let id: u32 = id.and_then(|n| n.parse().ok()).ok_or_else(unknown)?;
        let slot = slot(&mut self.helpers, id);
        let mut insns = vec![
            Insn::new(
                &format!("%helper.{at}"),
                format!("load ptr, ptr {}", entry("tilt_helpers", slot)),
            ),
            Insn::new(&format!("%engine.{at}"), "load ptr, ptr @tilt_engine"),
        ];
        if TIMED.contains(&id) {
            let so_far = format!("call void @tilt_count_so_far(ptr {WORK})");
            insns.push(Insn::new("", so_far));
        }
        let mut wide = Call {
            ret: call.ret.clone(),
            callee: format!("%helper.{at}"),
            args: vec![("ptr".to_owned(), format!("%engine.{at}"))],
        };
        for (index, (ty, value)) in call.args.iter().enumerate() {
            if is_narrow(ty) {
                let name = format!("%arg.{at}.{index}");
                insns.push(Insn::new(&name, format!("zext {ty} {value} to i64")));
                wide.args.push(("i64".to_owned(), name));
            } else {
                wide.args.push((ty.clone(), value.clone()));
            }
        }
        insns.push(Insn::new(&insn.result, wide.to_string()));
        Ok(insns)
    }

    /// A definition to stand in for a declaration in `.ksyms`.
    pub fn kfunc_thunk(&mut self, declare: &Declare) -> Result<String> {
        let name = kernel_function(declare).ok_or_else(|| {
            let name = declare.name.trim_start_matches('@');
            Unknown::new(format!(
                "kernel function {name}, which Linux 6.18 does not have"
            ))
        })?;
        Ok(bpf_for::definition(name, declare).unwrap_or_else(|| self.thunk(name, declare)))
    }

    /// `void tilt_access(address, bytes, how, place)`, which an object calls before each access to memory. No kernel has it.
    pub fn access_thunk(&mut self) -> String {
        let declare = Declare {
            name: format!("@{TELL_ACCESS}"),
            ret: "void".to_owned(),
            params: ["ptr", "i64", "i64", "i32"].map(str::to_owned).to_vec(),
            weak: false,
            section: String::new(),
        };
        self.thunk(TELL_ACCESS, &declare)
    }

    /// `void tilt_store(address, bytes, access)`, which an object calls before stores that leave its own memory.
    pub fn store_thunk(&mut self) -> String {
        let declare = Declare {
            name: format!("@{ASK_STORE}"),
            ret: "void".to_owned(),
            params: ["i64", "i64", "i32"].map(str::to_owned).to_vec(),
            weak: false,
            section: String::new(),
        };
        self.thunk(ASK_STORE, &declare)
    }

    /// A definition of `declare` that calls whatever is bound to `name`.
    fn thunk(&mut self, name: &str, declare: &Declare) -> String {
        let slot = slot(&mut self.kfuncs, name.to_owned());
        let ret = &declare.ret;
        let params: Vec<_> = declare
            .params
            .iter()
            .enumerate()
            .map(|(i, ty)| format!("{ty} %a{i}"))
            .collect();
        let mut text = format!(
            "define internal {ret} {}({}) #0 {{\n",
            declare.name,
            params.join(", ")
        );
        let mut args = vec!["ptr %engine".to_owned()];
        for (index, ty) in declare.params.iter().enumerate() {
            if is_narrow(ty) {
                let _ = writeln!(text, "  %w{index} = zext {ty} %a{index} to i64");
                args.push(format!("i64 %w{index}"));
            } else {
                args.push(format!("{ty} %a{index}"));
            }
        }
        let _ = writeln!(
            text,
            "  %kfunc = load ptr, ptr {}",
            entry("tilt_kfuncs", slot)
        );
        let _ = writeln!(text, "  %engine = load ptr, ptr @tilt_engine");
        let args = args.join(", ");
        let _ = match ret.as_str() {
            "void" => writeln!(text, "  call void %kfunc({args})\n  ret void\n}}"),
            _ => writeln!(
                text,
                "  %result = call {ret} %kfunc({args})\n  ret {ret} %result\n}}"
            ),
        };
        text
    }

    /// The two tables; never empty, so that their symbols are always there.
    pub fn tables(&self) -> String {
        format!(
            "@tilt_kfuncs = hidden global [{} x ptr] zeroinitializer, section \".data.rel.ro.tilt\"\n\
             @tilt_helpers = hidden global [{} x ptr] zeroinitializer, section \".data.rel.ro.tilt\"\n",
            self.kfuncs.len().max(1),
            self.helpers.len().max(1)
        )
    }
}

fn entry(table: &str, slot: usize) -> String {
    format!("getelementptr (ptr, ptr @{table}, i64 {slot})")
}

fn is_narrow(ty: &str) -> bool {
    matches!(ty, "i1" | "i8" | "i16" | "i32")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declare(name: &str, ret: &str, params: &[&str]) -> Declare {
        let params = params.iter().map(|p| (*p).to_owned()).collect();
        Declare {
            name: format!("@{name}"),
            ret: ret.to_owned(),
            params,
            weak: true,
            section: ".ksyms".to_owned(),
        }
    }

    #[test]
    fn helpers_go_through_their_slot_with_the_engine_first() {
        let text = "call i64 inttoptr (i64 6 to ptr)(ptr @fmt, i32 101, i32 %x)";
        let mut slots = Slots::default();
        let insns = slots
            .helper(&Insn::new("%r", text), &Call::parse(text).unwrap(), 7)
            .unwrap();
        let last = insns.last().unwrap();
        assert_eq!(
            last.text,
            "call i64 %helper.7(ptr %engine.7, ptr @fmt, i64 %arg.7.1, i64 %arg.7.2)"
        );
        assert_eq!(slots.helpers, [6]);
    }

    #[test]
    fn kfuncs_become_thunks() {
        let mut slots = Slots::default();
        let text = slots
            .kfunc_thunk(&declare("scx_bpf_create_dsq", "i32", &["i64", "i32"]))
            .unwrap();
        assert!(
            text.starts_with("define internal i32 @scx_bpf_create_dsq(i64 %a0, i32 %a1) #0 {"),
            "{text}"
        );
        assert!(
            text.contains("call i32 %kfunc(ptr %engine, i64 %a0, i64 %w1)"),
            "{text}"
        );
    }

    #[test]
    fn flavours_resolve_by_prototype() {
        let four = ["ptr", "i64", "i64", "i64"];
        assert_eq!(
            kernel_function(&declare("scx_bpf_dsq_insert___v2___compat", "i1", &four)),
            None
        );
        assert_eq!(
            kernel_function(&declare("scx_bpf_dsq_insert___v1", "void", &four)),
            Some("scx_bpf_dsq_insert")
        );
        assert_eq!(
            kernel_function(&declare("scx_bpf_dispatch", "void", &four)),
            Some("scx_bpf_dsq_insert")
        );
    }

    #[test]
    fn missing_kfuncs_are_named() {
        let error = Slots::default()
            .kfunc_thunk(&declare("scx_bpf_frobnicate", "void", &[]))
            .unwrap_err();
        assert_eq!(
            error.what,
            "kernel function scx_bpf_frobnicate, which Linux 6.18 does not have"
        );
    }
}
