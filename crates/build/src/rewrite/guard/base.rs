// SPDX-License-Identifier: GPL-2.0-or-later
//! What a pointer belongs to: it is followed back to a variable or to the value of a map.

use super::{LOOKUPS, RESERVE, Watch, helper_id, inner_pointer};
use crate::ir::{Insn, names, split_top};
use crate::parse::Call;
use crate::rewrite::access::{address_operands, size_of};
use crate::rewrite::fold::incoming;

/// What a pointer belongs to.
#[derive(Clone, PartialEq)]
pub enum Base {
    /// Something of the scheduler's: where it begins, its size as an i64, its name for messages.
    Own {
        start: String,
        size: String,
        name: String,
    },
    Elsewhere,
}

impl Watch<'_, '_> {
    /// Follows a pointer back to what it was made from.
    pub fn base(&self, pointer: &str, depth: u32) -> Base {
        /// Longer chains are not worth the search.
        const DEPTH: u32 = 32;
        if depth > DEPTH {
            return Base::Elsewhere;
        }
        if !pointer.starts_with('%') {
            let variable = names(pointer, '@').into_iter().next();
            let known = variable.and_then(|v| Some((v, self.guard.globals.get(v)?)));
            return known.map_or(Base::Elsewhere, |(name, ty)| Base::Own {
                start: name.to_owned(),
                size: size_of(ty),
                name: name.trim_start_matches('@').to_owned(),
            });
        }
        let Some(def) = self.defs.get(pointer) else {
            return Base::Elsewhere;
        };
        match def.opcode() {
            "getelementptr" | "bitcast" => {
                inner_pointer(def).map_or(Base::Elsewhere, |inner| self.base(inner, depth + 1))
            }
            "alloca" => Base::Own {
                start: pointer.to_owned(),
                size: size_of(split_top(&def.text, ',')[0].trim_start_matches("alloca ")),
                name: "a local variable".to_owned(),
            },
            "call" => self.base_of_call(pointer, def, depth),
            "phi" => self.base_of_phi(pointer, def, depth),
            _ => Base::Elsewhere,
        }
    }

    fn base_of_call(&self, pointer: &str, def: &Insn, depth: u32) -> Base {
        let Ok(call) = Call::parse(&def.text) else {
            return Base::Elsewhere;
        };
        if call.callee.starts_with("@llvm.bpf.passthrough.") {
            let inner = call.args.get(1);
            return inner.map_or(Base::Elsewhere, |(_, value)| self.base(value, depth + 1));
        }
        let map = call.args.first().map(|(_, map)| map.as_str());
        let (size, name) = match (helper_id(&call), map) {
            (Some(id), Some(map)) if LOOKUPS.contains(&id) => {
                let Some(bytes) = self.guard.values.get(map) else {
                    return Base::Elsewhere;
                };
                let map = map.trim_start_matches('@');
                (bytes.to_string(), format!("a value of map {map}"))
            }
            (Some(RESERVE), Some(map)) => match call.args.get(1) {
                Some((_, bytes)) if !bytes.starts_with('%') => {
                    let map = map.trim_start_matches('@');
                    (bytes.clone(), format!("a record of ring buffer {map}"))
                }
                _ => return Base::Elsewhere,
            },
            _ => return Base::Elsewhere,
        };
        Base::Own {
            start: pointer.to_owned(),
            size,
            name,
        }
    }

    /// Of a pointer that walks along something: what it walks along, if all that comes in is of that.
    fn base_of_phi(&self, pointer: &str, def: &Insn, depth: u32) -> Base {
        let mut found: Option<Base> = None;
        for (value, _) in incoming(&def.text) {
            // An argument or a constant could be anything.
            if !self.defs.contains_key(value) {
                return Base::Elsewhere;
            }
            if self.leads_to(value, pointer) {
                continue;
            }
            let base = self.base(value, depth + 8);
            // What is looked up in one branch is not there in another.
            let everywhere = matches!(&base, Base::Own { start, .. } if start.starts_with('@'));
            if !everywhere || found.as_ref().is_some_and(|f| *f != base) {
                return Base::Elsewhere;
            }
            found = Some(base);
        }
        found.unwrap_or(Base::Elsewhere)
    }

    /// A value that is computed from this very phi.
    fn leads_to(&self, value: &str, phi: &str) -> bool {
        let mut at = value;
        for _ in 0..32 {
            if at == phi {
                return true;
            }
            let def = self.defs.get(at).filter(|d| d.opcode() == "getelementptr");
            match def.and_then(|d| inner_pointer(d)) {
                Some(inner) => at = inner,
                None => return false,
            }
        }
        false
    }

    /// How far a pointer is from where its variable begins. Of a chain of address computations, the sum of their
    /// indices: the optimiser knows the range of an index, but not of a difference of pointers.
    pub fn offset(&mut self, pointer: &str, start: &str, checks: &mut Vec<Insn>) -> String {
        let mut add = |name: String, text: String| {
            checks.push(Insn::new(&name, text));
            name
        };
        let Some(steps) = self.chain(pointer, start) else {
            let to = add(self.name(), format!("ptrtoint ptr {pointer} to i64"));
            let from = add(self.name(), format!("ptrtoint ptr {start} to i64"));
            return add(self.name(), format!("sub i64 {to}, {from}"));
        };
        let mut sum = "0".to_owned();
        for (ty, indices) in steps {
            let far = add(
                self.name(),
                format!("getelementptr {ty}, ptr null, {indices}"),
            );
            let step = add(self.name(), format!("ptrtoint ptr {far} to i64"));
            sum = add(self.name(), format!("add i64 {sum}, {step}"));
        }
        sum
    }

    /// Type and indices of each address computation between `start` and a pointer; `None` where anything else lies between.
    fn chain(&self, pointer: &str, start: &str) -> Option<Vec<(String, String)>> {
        let (mut at, mut steps) = (pointer, Vec::new());
        while at != start {
            let def = self.defs.get(at)?;
            if def.opcode() == "getelementptr" {
                let operands = address_operands(&def.text)?;
                let [ty, _, indices @ ..] = &split_top(operands, ',')[..] else {
                    return None;
                };
                steps.push(((*ty).to_owned(), indices.join(", ")));
            } else if def.opcode() != "bitcast" {
                return None;
            }
            at = inner_pointer(def)?;
        }
        Some(steps)
    }
}
