// SPDX-License-Identifier: GPL-2.0-or-later
//! Functions that only the scheduler's own functions call. The compiler knows all their callers, so on x86-64 it chooses which
//! registers a call preserves. A caller that passes pointers to variables checks once, mostly at compile time, that there is
//! room behind them. It then calls a second version of the function, which does not check scalar accesses at constant offsets
//! within that room.

use super::access;
use crate::ir::{Function, Insn, names};
use crate::parse::Call;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The *room* of each pointer parameter: how many bytes behind it the function, or an inner function that gets the pointer,
/// accesses at constant offsets.
pub type Rooms = BTreeMap<usize, u64>;

/// Names of the `functions` that only other functions call and that are not recursive, not even indirectly. `outer`: those that
/// others may call, by name or by address.
pub fn inner<'f>(
    functions: &'f HashMap<String, Function>,
    outer: &'f HashSet<String>,
) -> HashSet<&'f str> {
    let callees: HashMap<&str, HashSet<&str>> = functions
        .iter()
        .map(|(name, function)| (name.as_str(), callees(function, outer)))
        .collect();
    let comes_back = |name: &str| {
        let (mut seen, mut todo) = (HashSet::new(), vec![name]);
        while let Some(at) = todo.pop() {
            let next = callees.get(at).into_iter().flatten();
            todo.extend(next.filter(|callee| seen.insert(**callee)));
        }
        seen.contains(name)
    };
    let all = functions.keys().map(String::as_str);
    all.filter(|name| !outer.contains(*name) && !comes_back(name))
        .collect()
}

/// What a function calls or passes on. A call through a pointer may reach any function that others know; the host's compiler may
/// find out which.
fn callees<'f>(function: &'f Function, outer: &'f HashSet<String>) -> HashSet<&'f str> {
    let mut callees = HashSet::new();
    for insn in insns(function) {
        callees.extend(names(&insn.text, '@'));
        let names_callee = |call: Call| !call.callee.starts_with('%');
        if insn.opcode() == "call" && !Call::parse(&insn.text).is_ok_and(names_callee) {
            callees.extend(outer.iter().map(String::as_str));
        }
    }
    callees
}

/// Of all inner functions that have any.
pub fn rooms(
    functions: &HashMap<String, Function>,
    inner: &HashSet<&str>,
) -> HashMap<String, Rooms> {
    let mut known = HashMap::new();
    for name in inner {
        measure(name, functions, inner, &mut known);
    }
    known.retain(|_, rooms| !rooms.is_empty());
    known
}

/// Whether a call passes and expects exactly what the function declares: C can call one as if it were another, or pass a struct.
pub fn fits(call: &Call, function: &Function) -> bool {
    let plain = |value: &str| {
        value.starts_with(['%', '@']) || !value.contains(' ') || value.starts_with("getelementptr ")
    };
    let arguments = call.args.iter().map(|(ty, value)| (ty, plain(value)));
    call.ret == function.ret && arguments.eq(function.params.iter().map(|(ty, _)| (ty, true)))
}

/// Rooms of an inner function and its callees; this ends because none is recursive.
fn measure(
    name: &str,
    functions: &HashMap<String, Function>,
    inner: &HashSet<&str>,
    known: &mut HashMap<String, Rooms>,
) {
    if known.contains_key(name) {
        return;
    }
    let function = &functions[name];
    let pointers = Pointers::of(function);
    let mut rooms = Rooms::new();
    let mut need = |pointer: &str, bytes: u64| {
        let found = pointers.find(pointer);
        let end =
            found.and_then(|(parameter, offset)| Some((parameter, offset.checked_add(bytes)?)));
        if let Some((parameter, end)) = end {
            let room = rooms.entry(parameter).or_default();
            *room = (*room).max(end);
        }
    };
    for insn in insns(function) {
        for place in access::places(insn) {
            if let Some(bytes) = place.scalar_bytes {
                need(&place.pointer, bytes);
            }
        }
        let call = Call::parse(&insn.text).ok();
        let call = call.filter(|call| insn.opcode() == "call" && inner.contains(&*call.callee));
        if let Some(call) = call {
            measure(&call.callee, functions, inner, known);
            for (parameter, bytes) in &known[&call.callee] {
                call.args
                    .get(*parameter)
                    .into_iter()
                    .for_each(|(_, pointer)| need(pointer, *bytes));
            }
        }
    }
    known.insert(name.to_owned(), rooms);
}

fn insns(function: &Function) -> impl Iterator<Item = &Insn> {
    function.blocks.iter().flat_map(|block| &block.insns)
}

/// Values of a function that are a parameter plus constant bytes.
pub struct Pointers<'f> {
    known: HashMap<&'f str, (usize, u64)>,
}

impl<'f> Pointers<'f> {
    pub fn of(function: &'f Function) -> Pointers<'f> {
        let parameters = function.params.iter().enumerate();
        let parameters = parameters.filter(|(_, (ty, _))| ty == "ptr");
        let mut known: HashMap<&str, (usize, u64)> = parameters
            .map(|(at, (_, name))| (name.as_str(), (at, 0)))
            .collect();
        // A value is defined before it is used, except in loops, by phis.
        for insn in insns(function) {
            let Some((base, bytes)) = access::constant_offset(&insn.text) else {
                continue;
            };
            let found = known.get(base).and_then(|(parameter, offset)| {
                Some((*parameter, offset.checked_add_signed(bytes)?))
            });
            if let Some(found) = found {
                known.insert(&insn.result, found);
            }
        }
        Pointers { known }
    }

    pub fn find(&self, pointer: &str) -> Option<(usize, u64)> {
        self.known.get(pointer).copied()
    }
}

/// Name of the version of a function that takes its rooms for granted.
pub fn given(name: &str) -> String {
    prefixed("given", name)
}

/// Name of the function that chooses the version: see [`choice`].
pub fn chosen(name: &str) -> String {
    prefixed("chosen", name)
}

/// `@tilt.given.f` of `@f`: nothing in C gets such a name. Names may be quoted.
fn prefixed(prefix: &str, name: &str) -> String {
    let (quote, rest) = match name.strip_prefix("@\"") {
        Some(rest) => ("\"", rest),
        None => ("", name.trim_start_matches('@')),
    };
    format!("@{quote}tilt.{prefix}.{rest}")
}

/// Takes the arguments and, for each pointer with a room, its offset in its variable and that one's size.
pub fn choice(function: &Function, rooms: &Rooms) -> String {
    let Function {
        name, ret, params, ..
    } = function;
    let list = |all: Vec<String>| all.join(", ");
    let arguments = list(
        params
            .iter()
            .map(|(ty, name)| format!("{ty} {name}"))
            .collect(),
    );
    let places = rooms
        .keys()
        .map(|at| format!("i64 %offset.{at}, i64 %size.{at}"));
    let places = list(places.collect());
    let mut text = format!(
        "define internal {ret} {}({arguments}, {places}) #0 {{\n",
        chosen(name)
    );
    let mut all = "true".to_owned();
    for (at, bytes) in rooms {
        text.push_str(&format!(
            "  %large.{at} = icmp uge i64 %size.{at}, {bytes}\n  \
               %last.{at} = sub i64 %size.{at}, {bytes}\n  \
               %inside.{at} = icmp ule i64 %offset.{at}, %last.{at}\n  \
               %fits.{at} = and i1 %large.{at}, %inside.{at}\n  \
               %all.{at} = and i1 {all}, %fits.{at}\n"
        ));
        all = format!("%all.{at}");
    }
    let way = |label: &str, callee: &str| match ret.as_str() {
        "void" => format!("{label}:\n  call void {callee}({arguments})\n  ret void\n"),
        _ => format!(
            "{label}:\n  %of.{label} = call {ret} {callee}({arguments})\n  ret {ret} %of.{label}\n"
        ),
    };
    text.push_str(&format!("  br i1 {all}, label %given, label %any\n"));
    text.push_str(&way("given", &given(name)));
    text.push_str(&way("any", name));
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::rewrite::{Choices, rewrite};

    const TEXT: &str = r#"source_filename = "own.bpf.c"

define dso_local i64 @op(ptr noundef %0) #0 section "syscall" {
  call void @both(ptr %0, ptr %0)
  call void @round(ptr %0)
  %2 = call i64 inttoptr (i64 181 to ptr)(i32 4, ptr @timer, ptr null, i64 0)
  ret i64 %2
}

define internal void @both(ptr %0, ptr %1) #0 {
  %3 = getelementptr inbounds i8, ptr %0, i64 8
  store i64 1, ptr %3, align 8
  %4 = getelementptr inbounds i8, ptr %1, i64 16
  call void @leaf(ptr %4, i64 1)
  ret void
}

define internal void @leaf(ptr %0, i64 %1) #0 {
  %3 = getelementptr inbounds i8, ptr %0, i64 4
  %4 = load i32, ptr %3, align 4
  %5 = getelementptr inbounds i8, ptr %0, i64 %1
  store i64 1, ptr %5, align 8
  %6 = getelementptr inbounds i8, ptr %0, i64 -8
  store i64 1, ptr %6, align 8
  ret void
}

define internal void @round(ptr %0) #0 {
  call void @trip(ptr %0)
  ret void
}

define internal void @trip(ptr %0) #0 {
  call void @round(ptr %0)
  ret void
}

define internal void @any(ptr %0) #0 {
  call void %0(ptr %0)
  ret void
}

define internal void @known(ptr %0) #0 {
  call void @any(ptr @known)
  ret void
}

define internal void @far(ptr %0) #0 {
  %2 = getelementptr inbounds i8, ptr %0, i64 9223372036854775807
  store i64 1, ptr %2, align 8
  ret void
}

define internal void @beyond(ptr %0) #0 {
  %2 = getelementptr inbounds i8, ptr %0, i64 9223372036854775801
  call void @far(ptr %2)
  ret void
}

define internal i64 @timer(i32 %0, ptr %1) #0 {
  call void @leaf(ptr %1, i64 1)
  call void @any(ptr %1)
  ret i64 0
}
"#;

    fn functions() -> HashMap<String, Function> {
        let functions = parse(TEXT).unwrap().functions.into_iter();
        functions.map(|f| (f.name.clone(), f)).collect()
    }

    fn outer() -> HashSet<String> {
        ["@op", "@timer", "@known"].map(str::to_owned).into()
    }

    /// `@any` calls `@timer` or `@known`, for all that is known here, and they call it.
    #[test]
    fn what_others_know_or_what_calls_itself_is_not_inner() {
        assert_eq!(
            inner(&functions(), &outer()),
            HashSet::from(["@both", "@leaf", "@far", "@beyond"])
        );
    }

    #[test]
    fn a_room_includes_what_is_passed_on_and_no_other_offsets_than_constant_ones() {
        let functions = functions();
        let rooms = rooms(&functions, &inner(&functions, &outer()));
        assert_eq!(rooms["@leaf"], Rooms::from([(0, 8)]));
        assert_eq!(rooms["@both"], Rooms::from([(0, 16), (1, 24)]));
        // No address is that far away.
        assert_eq!(rooms["@far"], Rooms::from([(0, (1 << 63) + 7)]));
        assert!(!rooms.contains_key("@beyond"));
        assert_eq!(rooms.len(), 3);
    }

    #[test]
    fn a_function_that_is_called_with_its_own_address_is_known_by_it() {
        let text = r#"source_filename = "own.bpf.c"

define dso_local i64 @op(ptr noundef %0) #0 section "syscall" {
  call void @run(ptr @run)
  call void @other(ptr %0)
  ret i64 0
}

define internal void @run(ptr %0) #0 {
  ret void
}

define internal void @other(ptr %0) #0 {
  ret void
}
"#;
        let choices = Choices {
            resizable_elements: 8,
            debug: false,
            accesses: false,
            lines: false,
            guard: false,
        };
        let module = parse(text).unwrap();
        let text = rewrite(&module, &["@op".to_owned()], choices).unwrap().text;
        assert!(text.contains("define hidden void @run("), "{text}");
        assert!(text.contains("define internal void @other("), "{text}");
    }

    #[test]
    fn quoted_names_stay_quoted() {
        assert_eq!(given("@f"), "@tilt.given.f");
        assert_eq!(chosen("@\"f\\C3\""), "@\"tilt.chosen.f\\C3\"");
    }
}
