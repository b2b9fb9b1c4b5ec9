// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of LLVM IR -> [`Module`]. On the way it takes off what must not reach the host: attributes and metadata
//! (`memory(none)` would be a lie once a function counts its work), address spaces (a BPF arena's pointer is a plain one
//! here) and the flags by which an optimiser may assume that nothing overflows.

use crate::ir::{
    Block, Declare, Function, Global, Insn, Module, Result, Unknown, names, replace_names,
    split_top, take_type,
};
use std::iter::Peekable;
use std::str::Lines;

/// Words that promise something about an operation. BPF arithmetic wraps, whatever C said.
const PROMISES: &[&str] = &[
    "nuw", "nsw", "exact", "inbounds", "nneg", "disjoint", "samesign",
];

/// Words before a type in a definition, declaration or call.
const QUALIFIERS: &[&str] = &[
    "private",
    "internal",
    "weak",
    "weak_odr",
    "linkonce",
    "linkonce_odr",
    "common",
    "external",
    "extern_weak",
    "appending",
    "hidden",
    "protected",
    "default",
    "dso_local",
    "dso_preemptable",
    "unnamed_addr",
    "local_unnamed_addr",
    "tail",
    "musttail",
    "notail",
    "call",
    "fastcc",
    "coldcc",
    "ccc",
    "noundef",
    "nonnull",
    "noalias",
    "signext",
    "zeroext",
    "inreg",
];

pub fn parse(text: &str) -> Result<Module<'_>> {
    let mut module = Module::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        match line.as_bytes().first() {
            Some(b'!') => module.metadata.add(line),
            Some(b'%') => module.types.push(plain(line)),
            Some(b'@') => module.globals.extend(parse_global(&plain(line))?),
            _ if line.starts_with("define ") => module
                .functions
                .push(parse_function(&plain(line), &mut lines)?),
            _ if line.starts_with("declare ") => {
                module.declares.extend(parse_declare(&plain(line))?)
            }
            _ if line.starts_with("source_filename = ") => {
                module.source = line[18..].trim_matches('"')
            }
            _ if is_preamble(line) => {}
            _ => return Err(Unknown::new(format!("line '{line}'"))),
        }
    }
    Ok(module)
}

fn is_preamble(line: &str) -> bool {
    line.is_empty()
        || [";", "target ", "attributes "]
            .iter()
            .any(|p| line.starts_with(p))
}

/// Without address spaces: `ptr addrspace(1)` is `ptr`, and `llvm.memset.p1.i64` is `llvm.memset.p0.i64`.
fn plain(line: &str) -> String {
    if !line.contains("addrspace(1)") && !line.contains(".p1") {
        return line.to_owned();
    }
    let line = line.replace(" addrspace(1)", "");
    replace_names(&line, '@', |name| {
        name.starts_with("@llvm.")
            .then(|| name.replace(".p1", ".p0"))
    })
}

fn parse_global(line: &str) -> Result<Option<Global>> {
    let unknown = || Unknown::new(format!("global '{line}'"));
    let (name, rest) = line.split_once(" = ").ok_or_else(unknown)?;
    if name == "@llvm.compiler.used" || name == "@llvm.used" {
        return Ok(None);
    }
    let mut words = Vec::new();
    let mut rest = rest;
    let constant = loop {
        let (word, after) = rest.split_once(' ').ok_or_else(unknown)?;
        rest = after;
        match word {
            "global" => break false,
            "constant" => break true,
            _ if QUALIFIERS.contains(&word) || word == "externally_initialized" => words.push(word),
            _ => return Err(unknown()),
        }
    };
    let (ty, rest) = take_type(rest);
    let parts = split_top(rest.trim_start_matches(','), ',');
    let external = words.contains(&"external") || words.contains(&"extern_weak");
    let part = |prefix: &str| {
        parts
            .iter()
            .find_map(|p| p.strip_prefix(prefix))
            .unwrap_or("")
    };
    let node = [part("!dbg !"), part("!llvm.preserve.access.index !")]
        .iter()
        .find_map(|n| n.split(' ').next()?.parse().ok());
    Ok(Some(Global {
        name: name.to_owned(),
        constant,
        weak: words
            .iter()
            .any(|w| w.contains("weak") || w.contains("linkonce")),
        local: words.contains(&"private") || words.contains(&"internal"),
        ty: ty.to_owned(),
        init: if external {
            None
        } else {
            Some((*parts.first().ok_or_else(unknown)?).to_owned())
        },
        section: part("section ").trim_matches('"').to_owned(),
        align: part("align ").to_owned(),
        node,
    }))
}

/// Result type, name, parameters and what follows them, of a `define` or `declare` line.
fn parse_signature(line: &str) -> Result<(String, String, Vec<String>, &str)> {
    let unknown = || Unknown::new(format!("signature '{line}'"));
    let at = line.find('@').ok_or_else(unknown)?;
    let ret = split_top(&line[..at], ' ')
        .last()
        .copied()
        .ok_or_else(unknown)?
        .to_owned();
    let open = at + line[at..].find('(').ok_or_else(unknown)?;
    let close = open + matching_bracket(&line[open..]).ok_or_else(unknown)?;
    let params = split_top(&line[open + 1..close], ',')
        .into_iter()
        .map(str::to_owned)
        .collect();
    Ok((ret, line[at..open].to_owned(), params, &line[close + 1..]))
}

/// Position of the bracket that closes the one at the start of `text`.
pub fn matching_bracket(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' | ']' | '}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn quoted_after(text: &str, key: &str) -> String {
    text.split_once(key)
        .and_then(|(_, rest)| rest.split('"').next())
        .unwrap_or("")
        .to_owned()
}

fn parse_declare(line: &str) -> Result<Option<Declare>> {
    let (ret, name, params, rest) = parse_signature(strip_dbg(line).as_str())
        .map(|(r, n, p, rest)| (r, n, p, rest.to_owned()))?;
    let params = params.iter().map(|p| take_type(p).0.to_owned()).collect();
    let weak = line.contains(" extern_weak ");
    Ok(Some(Declare {
        name,
        ret,
        params,
        weak,
        section: quoted_after(&rest, "section \""),
    }))
}

/// `declare !dbg !12 i32 @f()` without the node.
fn strip_dbg(line: &str) -> String {
    match line.strip_prefix("declare !dbg !") {
        Some(rest) => format!(
            "declare {}",
            rest.trim_start_matches(|c: char| c.is_ascii_digit())
                .trim_start()
        ),
        None => line.to_owned(),
    }
}

fn parse_function(header: &str, lines: &mut Peekable<Lines<'_>>) -> Result<Function> {
    let (ret, name, params, rest) = parse_signature(header)?;
    let params: Vec<_> = params
        .iter()
        .map(|p| {
            (
                take_type(p).0.to_owned(),
                number_name(p.split(' ').next_back().unwrap_or("")),
            )
        })
        .collect();
    let node = rest
        .split_once("!dbg !")
        .and_then(|(_, n)| n.split(' ').next()?.parse().ok());
    let entry = Block {
        label: format!("v{}", params.len()),
        insns: Vec::new(),
    };
    let section = quoted_after(rest, "section \"");
    let mut function = Function {
        name,
        ret,
        params,
        section,
        node,
        blocks: vec![entry],
    };
    loop {
        let line = lines
            .next()
            .ok_or_else(|| Unknown::new("end of file in a function"))?;
        if line == "}" {
            return Ok(function);
        }
        let trimmed = line.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(';') || trimmed.starts_with("#dbg_") {
            continue;
        }
        if trimmed.len() == line.len() {
            let label = line.split(':').next().unwrap_or("");
            function.blocks.push(Block {
                label: number_name(&format!("%{label}"))[1..].to_owned(),
                insns: Vec::new(),
            });
            continue;
        }
        let whole = join_continuation(trimmed, lines);
        let insn = parse_insn(&whole).map_err(|e| e.in_function(&function.name))?;
        let block = function
            .blocks
            .last_mut()
            .ok_or_else(|| Unknown::new("instruction outside a block"))?;
        block.insns.push(insn);
    }
}

/// `switch` and `callbr` go over several lines.
fn join_continuation(first: &str, lines: &mut Peekable<Lines<'_>>) -> String {
    let mut whole = first.to_owned();
    let mut more = |until: &dyn Fn(&str) -> bool| {
        for line in lines.by_ref() {
            whole.push(' ');
            whole.push_str(line.trim());
            if until(line.trim()) {
                break;
            }
        }
    };
    if first.starts_with("switch ") && first.ends_with('[') {
        more(&|line| line.starts_with(']'));
    } else if first.contains("callbr ") {
        more(&|line| line.starts_with("to label"));
    }
    whole
}

/// `%12` becomes `%v12`: numbered values must be numbered without gaps, named ones need not.
fn number_name(name: &str) -> String {
    let numbered = name.len() > 1 && name[1..].bytes().all(|b| b.is_ascii_digit());
    if numbered {
        format!("%v{}", &name[1..])
    } else {
        name.to_owned()
    }
}

fn parse_insn(line: &str) -> Result<Insn> {
    let line = plain(line);
    let (line, metadata) = line.split_at(cut_metadata(&line).len());
    let location = metadata
        .split_once(", !dbg !")
        .and_then(|(_, n)| n.split(',').next()?.parse().ok());
    let line = replace_names(line, '%', |name| Some(number_name(name)));
    let (result, text) = match line.split_once(" = ") {
        Some((result, text)) if result.starts_with('%') && !result.contains(' ') => (result, text),
        _ => ("", line.as_str()),
    };
    let text = if is_call(text) {
        Call::parse(text)?.to_string()
    } else {
        drop_words(text)
    };
    Ok(Insn {
        result: result.to_owned(),
        text,
        location,
    })
}

fn is_call(text: &str) -> bool {
    ["call ", "tail call ", "musttail call ", "notail call "]
        .iter()
        .any(|p| text.starts_with(p))
}

/// Up to the first `, !` that is no string.
fn cut_metadata(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted && line[at..].starts_with(", !") => return &line[..at],
            _ => {}
        }
    }
    line
}

/// Takes promises and attribute groups out of an instruction or a constant expression.
fn drop_words(text: &str) -> String {
    let keep = |word: &&str| !PROMISES.contains(word) && !is_attribute_group(word);
    text.split(' ').filter(keep).collect::<Vec<_>>().join(" ")
}

fn is_attribute_group(word: &str) -> bool {
    word.strip_prefix('#')
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A call, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub ret: String,
    /// `@f`, `%v1`, `inttoptr (i64 5 to ptr)` or `asm ...`.
    pub callee: String,
    /// Type and value of each.
    pub args: Vec<(String, String)>,
}

/// What a function calls by name, and what else it names: variables, and functions whose addresses it takes.
pub fn mentions(function: &Function) -> (Vec<&str>, Vec<&str>) {
    let (mut calls, mut others) = (Vec::new(), Vec::new());
    for insn in function.blocks.iter().flat_map(|block| &block.insns) {
        let call = Some(&insn.text).filter(|_| insn.opcode() == "call");
        // Its name comes first in the text; if it comes again, it is an argument.
        let mut callee = call.and_then(|text| Call::parse(text).ok());
        for name in names(&insn.text, '@') {
            match callee.take_if(|call| call.callee == name) {
                Some(_) => calls.push(name),
                None => others.push(name),
            }
        }
    }
    (calls, others)
}

impl Call {
    pub fn parse(text: &str) -> Result<Call> {
        let unknown = || Unknown::new(format!("call '{text}'"));
        let mut rest = text;
        loop {
            let (word, after) = take_type(rest);
            if !QUALIFIERS.contains(&word) && !word.starts_with("range(") {
                break;
            }
            rest = after;
        }
        let (ret, mut rest) = take_type(rest);
        if rest.starts_with('(') {
            // The full function type, given for variadic ones: `i64 (ptr, i32, ...)`.
            let close = matching_bracket(rest).ok_or_else(unknown)?;
            rest = rest[close + 1..].trim_start();
        }
        let open = if rest.starts_with("inttoptr (") {
            matching_bracket(&rest[9..]).ok_or_else(unknown)? + 10
        } else if rest.starts_with("asm ") {
            rest.rfind("\"(").ok_or_else(unknown)? + 1
        } else {
            rest.find('(').ok_or_else(unknown)?
        };
        let close = open + matching_bracket(&rest[open..]).ok_or_else(unknown)?;
        let args = split_top(&rest[open + 1..close], ',')
            .into_iter()
            .map(parse_arg)
            .collect();
        Ok(Call {
            ret: ret.to_owned(),
            callee: rest[..open].to_owned(),
            args,
        })
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let args: Vec<_> = self
            .args
            .iter()
            .map(|(ty, value)| format!("{ty} {value}"))
            .collect();
        write!(f, "call {} {}({})", self.ret, self.callee, args.join(", "))
    }
}

/// `ptr noundef nonnull align 8 @x` -> (`ptr`, `@x`).
fn parse_arg(arg: &str) -> (String, String) {
    let (ty, mut rest) = take_type(arg);
    loop {
        let (word, after) = take_type(rest);
        let bare = word.split('(').next().unwrap_or("");
        if after.is_empty() || !is_argument_attribute(bare) {
            return (ty.to_owned(), drop_words(rest));
        }
        rest = if bare == "align" {
            take_type(after).1
        } else {
            after
        };
    }
}

fn is_argument_attribute(word: &str) -> bool {
    matches!(
        word,
        "noundef"
            | "nonnull"
            | "signext"
            | "zeroext"
            | "nocapture"
            | "captures"
            | "readonly"
            | "readnone"
            | "writeonly"
            | "immarg"
            | "returned"
            | "noalias"
            | "inreg"
            | "nofree"
            | "align"
            | "dereferenceable"
            | "dereferenceable_or_null"
            | "range"
            | "initializes"
            | "dead_on_unwind"
            | "writable"
            | "allocptr"
    )
}
