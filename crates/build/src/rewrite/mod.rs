// SPDX-License-Identifier: GPL-2.0-or-later
//! The IR of a BPF program -> IR of the same program for the simulated machine. Mechanical: the table of what is
//! replaced is the list of modules below; anything outside it stops the build by name.

mod access;
pub mod arith;
pub mod asm;
pub mod body;
mod bpf_for;
pub mod calls;
pub mod core_relo;
pub mod fold;
#[cfg(test)]
mod golden;
mod guard;
mod inner;
mod lines;

use crate::ir::{Declare, Function, Global, Insn, Module, Result, Unknown, names};
use crate::parse::mentions;
use crate::reference;
use body::{Caller, check_labels, drop_unused, lower, relocate};
use calls::{Slots, kernel_function};
use core_relo::Relocations;
use guard::Guard;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tiltyard_native::object::Access;

const PRELUDE: &str = include_str!("prelude.ll");

#[cfg(target_arch = "x86_64")]
const TARGET: &str = "target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n\
                      target triple = \"x86_64-pc-linux-gnu\"\n";
#[cfg(target_arch = "aarch64")]
const TARGET: &str = "target datalayout = \"e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32\"\n\
                      target triple = \"aarch64-unknown-linux-gnu\"\n";

/// A rewritten module and what its tables hold.
#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    pub slots: Slots,
    pub type_sizes: BTreeMap<u32, u64>,
    pub files: Vec<String>,
    pub accesses: Vec<Access>,
}

/// Questions of the code that the reference kernel answers.
struct Kernel<'m> {
    relocations: Relocations<'m>,
    /// kconfig variables and their values.
    config: HashMap<&'m str, i128>,
    /// Symbols of `.ksyms` and whether they are there.
    symbols: HashMap<&'m str, bool>,
}

impl fold::Answers for Kernel<'_> {
    fn load(&mut self, global: &str) -> Result<Option<i128>> {
        match self.config.get(global) {
            Some(value) => Ok(Some(*value)),
            None => self.relocations.existence(global),
        }
    }

    fn exists(&self, global: &str) -> Option<bool> {
        self.symbols.get(global).copied()
    }
}

impl<'m> Kernel<'m> {
    fn new(module: &'m Module) -> Result<Kernel<'m>> {
        let relocations = Relocations::new(&module.globals, &module.metadata)?;
        let mut config = HashMap::new();
        let mut symbols = HashMap::new();
        for global in module.globals.iter().filter(|g| g.init.is_none()) {
            let name = global.name.as_str();
            let known = reference::CONFIG.iter().find(|(n, _)| *n == &name[1..]);
            match global.section.as_str() {
                ".ksyms" => drop(symbols.insert(name, false)),
                ".kconfig" => match known {
                    Some((_, value)) => drop(config.insert(name, i128::from(*value))),
                    None if name == "@CONFIG_HZ" => {}
                    None if global.weak => drop(config.insert(name, 0)),
                    None => {}
                },
                _ => {}
            }
        }
        for declare in module.declares.iter().filter(|d| d.section == ".ksyms") {
            symbols.insert(declare.name.as_str(), kernel_function(declare).is_some());
        }
        Ok(Kernel {
            relocations,
            config,
            symbols,
        })
    }
}

/// What may be chosen about the result.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// Elements of a RESIZABLE_ARRAY.
    pub resizable_elements: u64,
    /// Keep source locations, for debuggers.
    pub debug: bool,
    /// Tell the engine of each access to memory.
    pub accesses: bool,
    /// Cache lines that come from another CPU take time.
    pub lines: bool,
    /// Check accesses.
    pub guard: bool,
}

/// Rewrites what is reachable from `roots` (symbols with the `@`).
pub fn rewrite(module: &Module, roots: &[String], choices: Choices) -> Result<Rewritten> {
    check_names(module)?;
    let mut kernel = Kernel::new(module)?;
    let reached = reach(module, roots, &mut kernel)?;
    let mut slots = Slots::default();
    // A debugger wants each function as it is in the source.
    let inner = match choices.debug {
        true => HashSet::new(),
        false => inner::inner(&reached.functions, &reached.outer),
    };
    let rooms = inner::rooms(&reached.functions, &inner);
    let constants = module.globals.iter().filter(|g| g.constant);
    let constants: HashSet<&str> = constants.map(|g| g.name.as_str()).collect();
    let mut guard = match choices.guard {
        true => Some(Guard::new(module, choices, &constants, rooms)?),
        false => None,
    };
    let mut bodies = String::new();
    let mut write = |function: &Function, caller, guard: Option<&mut Guard>| {
        let text = lower(function, caller, &mut slots, guard, &constants, choices)?;
        bodies.push_str(&text);
        bodies.push('\n');
        Ok(())
    };
    let functions = module.functions.iter();
    for function in functions.filter_map(|f| reached.functions.get(&f.name)) {
        let caller = match function.name.as_str() {
            name if reached.callbacks.contains(name) => Caller::Helper,
            name if inner.contains(name) => Caller::Function,
            _ => Caller::Engine,
        };
        write(function, caller, guard.as_mut())?;
    }
    if let Some(guard) = &mut guard {
        let mut written = BTreeSet::new();
        while let Some(name) = guard.wanted().difference(&written).next().cloned() {
            write(&reached.functions[&name], Caller::Given, Some(guard))?;
            written.insert(name);
        }
    }
    let mut declares = String::new();
    for declare in module
        .declares
        .iter()
        .filter(|d| reached.symbols.contains(&d.name))
    {
        declares.push_str(&stand_in(declare, &mut slots)?);
    }
    if choices.accesses {
        declares.push_str(&slots.access_thunk());
    }
    if let Some(guard) = &guard {
        declares.push_str(&guard.definitions(&mut slots));
        for name in guard.wanted() {
            declares.push_str(&guard.choice(&reached.functions[name]));
        }
    }
    let mut globals = String::new();
    for global in module
        .globals
        .iter()
        .filter(|g| reached.symbols.contains(&g.name))
    {
        globals.push_str(&define_global(global, choices)?);
    }
    let types = module.types.join("\n");
    let tables = slots.tables();
    let arithmetic = arith::prelude();
    let attributes = "attributes #0 = { alwaysinline nounwind }\n\
                      attributes #1 = { noreturn nounwind }\n\
                      attributes #2 = { nounwind \"frame-pointer\"=\"all\" \"disable-tail-calls\"=\"true\" }\n\
                      attributes #3 = { cold noinline nounwind }\n\
                      attributes #4 = { norecurse nounwind \"frame-pointer\"=\"all\" \"disable-tail-calls\"=\"true\" }\n";
    let metadata = if choices.debug {
        module.metadata.text()
    } else {
        String::new()
    };
    let text = format!(
        "{TARGET}\n{types}\n\n{globals}\n{tables}\n{PRELUDE}{arithmetic}\n{declares}\n{bodies}{attributes}{metadata}\n"
    );
    let (files, accesses) = guard.map(Guard::finish).unwrap_or_default();
    Ok(Rewritten {
        text,
        slots,
        type_sizes: kernel.relocations.type_sizes,
        files,
        accesses,
    })
}

/// How names of the runtime begin, which is not checked.
const RUNTIME: &str = "@tilt_";

/// The scheduler's names that begin so: of `tiltyard.bpf.h`.
const PROBES: [&str; 2] = ["@tilt_probes", "@tilt_probes_on"];

fn is_runtime_name(name: &str) -> bool {
    name.starts_with(RUNTIME) && !PROBES.contains(&name)
}

/// Whether an instruction is the runtime's own: no business of the scheduler's.
fn is_runtime(insn: &Insn) -> bool {
    insn.text.contains(RUNTIME) && names(&insn.text, '@').into_iter().any(is_runtime_name)
}

/// The scheduler's own names are not taken for the runtime's.
fn check_names(module: &Module) -> Result<()> {
    let variables = module.globals.iter().map(|global| &global.name);
    let mut all = variables.chain(module.functions.iter().map(|function| &function.name));
    match all.find(|name| is_runtime_name(name)) {
        Some(name) => Err(Unknown::new(format!(
            "name {}: names that begin with tilt_ are the simulated machine's; choose another",
            &name[1..]
        ))),
        None => Ok(()),
    }
}

/// What is left when everything that cannot run is gone.
struct Reached {
    functions: HashMap<String, Function>,
    /// Those whose address is taken: a helper may call them.
    callbacks: HashSet<String>,
    /// Those that are known by name, and the callbacks.
    outer: HashSet<String>,
    symbols: HashSet<String>,
}

fn reach(module: &Module, roots: &[String], kernel: &mut Kernel) -> Result<Reached> {
    let functions: HashMap<&str, &Function> = module
        .functions
        .iter()
        .map(|f| (f.name.as_str(), f))
        .collect();
    let globals: HashMap<&str, &Global> = module
        .globals
        .iter()
        .map(|g| (g.name.as_str(), g))
        .collect();
    let mut reached = Reached {
        functions: HashMap::new(),
        callbacks: HashSet::new(),
        outer: roots.iter().cloned().collect(),
        symbols: HashSet::new(),
    };
    let mut todo = roots.to_vec();
    while let Some(symbol) = todo.pop() {
        if !reached.symbols.insert(symbol.clone()) {
            continue;
        }
        if let Some(function) = functions.get(symbol.as_str()) {
            let function = prepare((*function).clone(), kernel)?;
            let (calls, others) = mentions(&function);
            let callbacks = others.iter().filter(|name| functions.contains_key(**name));
            reached
                .callbacks
                .extend(callbacks.map(|name| (*name).to_owned()));
            todo.extend(calls.into_iter().chain(others).map(str::to_owned));
            reached.functions.insert(symbol, function);
        } else if let Some(init) = globals.get(symbol.as_str()).and_then(|g| g.init.as_ref()) {
            let named = names(init, '@').into_iter().map(str::to_owned);
            reached.outer.extend(named.clone());
            todo.extend(named);
        }
    }
    reached.outer.extend(reached.callbacks.iter().cloned());
    Ok(reached)
}

/// Everything about a function that does not need the tables.
fn prepare(mut function: Function, kernel: &mut Kernel) -> Result<Function> {
    fold::fold(&mut function, kernel).map_err(|e| e.in_function(&function.name))?;
    drop_unused(&mut function);
    relocate(&mut function, &mut kernel.relocations)?;
    check_labels(&function)?;
    Ok(function)
}

/// What takes the place of a declaration: a thunk for kernel functions, the declaration itself for intrinsics.
fn stand_in(declare: &Declare, slots: &mut Slots) -> Result<String> {
    if declare.section == ".ksyms" {
        return slots.kfunc_thunk(declare);
    }
    if declare.name.starts_with("@llvm.bpf.") || declare.name == "@llvm.trap" {
        return Ok(String::new());
    }
    if declare.name.starts_with("@llvm.") {
        return Ok(format!(
            "declare {} {}({})\n",
            declare.ret,
            declare.name,
            declare.params.join(", ")
        ));
    }
    Err(Unknown::new(format!(
        "function {} without a body",
        declare.name.trim_start_matches('@')
    )))
}

/// A global as a plain hidden variable: sections mean something to the BPF loader only, and names must stay findable.
fn define_global(global: &Global, choices: Choices) -> Result<String> {
    let name = &global.name;
    // Variables share no cache line, however the linker arranges them: a run does not depend on that.
    let align = match global.align.as_str() {
        _ if choices.lines && !global.constant => ", align 64".to_owned(),
        "" => String::new(),
        align => format!(", align {align}"),
    };
    let Some(init) = &global.init else {
        if name == "@CONFIG_HZ" {
            return Ok(format!(
                "{name} = hidden global {} {}{align}\n",
                global.ty,
                reference::CONFIG_HZ_DEFAULT
            ));
        }
        if global.section == ".ksyms" && global.weak {
            return Ok(String::new());
        }
        return Err(Unknown::new(format!(
            "kernel variable {}",
            name.trim_start_matches('@')
        )));
    };
    if !is_data_section(&global.section) {
        let (name, section) = (&name[1..], &global.section);
        return Err(Unknown::new(format!(
            "variable {name} in section \"{section}\""
        )));
    }
    let (ty, init) = resize(global, init, choices.resizable_elements);
    let init = match reference_value(name) {
        Some(value) => (value as i64).to_string(),
        None => init,
    };
    let linkage = if name.starts_with("@.") {
        "private"
    } else {
        "hidden"
    };
    let kind = if global.constant {
        "constant"
    } else {
        "global"
    };
    let node = global
        .node
        .filter(|_| choices.debug)
        .map_or(String::new(), |n| format!(", !dbg !{n}"));
    Ok(format!(
        "{name} = {linkage} {kind} {ty} {init}{align}{node}\n"
    ))
}

/// Sections of data that mean nothing here beyond where a loader puts them; `.addr_space.1` holds variables of a BPF arena.
fn is_data_section(section: &str) -> bool {
    let plain = ["", "license", "version", ".maps", ".addr_space.1"];
    let prefixes = [".struct_ops", ".data", ".bss", ".rodata"];
    plain.contains(&section) || prefixes.iter().any(|p| section.starts_with(p))
}

/// The reference kernel's value for `@__SCX_X`, which the headers leave for user space to fill in.
fn reference_value(name: &str) -> Option<u64> {
    let enumerator = name.strip_prefix("@__")?;
    reference::is_scx_name(enumerator).then(|| reference::enumerator(enumerator).unwrap_or(0))
}

/// RESIZABLE_ARRAY: `[1 x T]` alone in a section `.data.NAME`, which user space makes as long as it needs.
fn resize(global: &Global, init: &str, elements: u64) -> (String, String) {
    match resizable(global) {
        Some(element) => (
            format!("[{elements} x {element}]"),
            "zeroinitializer".to_owned(),
        ),
        None => (global.ty.clone(), init.to_owned()),
    }
}

/// Element type of a RESIZABLE_ARRAY.
pub fn resizable(global: &Global) -> Option<&str> {
    let own_section = global.section.strip_prefix(".data.") == Some(&global.name[1..]);
    let element = global.ty.strip_prefix("[1 x ")?.strip_suffix(']')?;
    (own_section && global.init.as_deref() == Some("zeroinitializer")).then_some(element)
}
