// SPDX-License-Identifier: GPL-2.0-or-later
//! Which modules of a crate use which others, from their paths. Tests do not count, and neither does what a module says of
//! its own children: a parent may pass on what they have.

use std::collections::{BTreeMap, BTreeSet};

/// A module by its path in the crate; the root is empty.
type Module = Vec<String>;

/// Which modules each one uses.
pub struct Uses(BTreeMap<Module, BTreeSet<Module>>);

impl Uses {
    /// Of a crate with these files: paths below its `src`, and texts.
    pub fn of(files: &[(&str, &str)]) -> Uses {
        let modules: BTreeSet<Module> = files.iter().map(|(file, _)| module(file)).collect();
        let mut uses = BTreeMap::new();
        for (file, text) in files {
            let own = module(file);
            let mut used: BTreeSet<Module> = paths(text)
                .iter()
                .filter_map(|path| resolve(path, &own, &modules))
                .collect();
            used.remove(&own);
            uses.insert(own, used);
        }
        Uses(uses)
    }

    /// The largest set of modules that all use each other, if perhaps through others; sorted.
    pub fn largest_circle(&self) -> Vec<String> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .0
            .keys()
            .map(|from| (from, self.reached(from)))
            .collect();
        let circle = |of: &Module| -> Vec<String> {
            let others = reached[of].iter();
            let back = others.filter(|other| reached[*other].contains(of));
            back.map(|module| module.join("::")).collect()
        };
        let circles = self.0.keys().map(circle);
        circles.max_by_key(Vec::len).unwrap_or_default()
    }

    fn reached<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            let new = self.0[next].iter().filter(|used| reached.insert(*used));
            open.extend(new.collect::<Vec<_>>());
        }
        reached
    }
}

fn module(file: &str) -> Module {
    let parts = file.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut parts: Module = parts.collect();
    let last = parts.last().map(String::as_str);
    if matches!(last, Some("lib" | "main" | "mod")) {
        parts.pop();
    }
    parts
}

/// All paths that begin with `crate` or `super`, in declarations and elsewhere.
fn paths(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            if is_whole {
                paths.extend(expand(&code[at..]).0);
            }
        }
    }
    paths
}

/// The paths at the beginning of `text`, where braces hold several, and what follows them.
fn expand(text: &str) -> (Vec<String>, &str) {
    let is_part = |c: char| c.is_alphanumeric() || "_:".contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (head, mut rest) = text.split_at(end);
    if !head.ends_with("::") || !rest.starts_with('{') {
        return (vec![head.to_owned()], rest);
    }
    let mut all = Vec::new();
    while let Some(inner) = rest.strip_prefix(['{', ',']) {
        let (paths, behind) = expand(inner.trim_start());
        all.extend(paths.iter().map(|path| format!("{head}{path}")));
        let end = behind.find([',', '}']).unwrap_or(behind.len());
        rest = &behind[end..];
    }
    (all, rest.strip_prefix('}').unwrap_or(rest))
}

/// The module that a path leads to: the longest part of it that is one.
fn resolve(path: &str, own: &Module, modules: &BTreeSet<Module>) -> Option<Module> {
    let mut full = Vec::new();
    let mut words = path.split("::").filter(|word| !word.is_empty()).peekable();
    if words.next_if_eq(&"crate").is_none() {
        full.clone_from(own);
        while words.next_if_eq(&"super").is_some() {
            full.pop();
        }
    }
    full.extend(words.map(str::to_owned));
    while !modules.contains(&full) {
        full.pop()?;
    }
    Some(full)
}

#[test]
fn a_circle_is_found_through_any_form_of_path() {
    let a = "use crate::b::{self, c::{X, Y}, Z};\n";
    let c = "// crate::a is not used here\nfn f() { super::super::d::g() }\n";
    let d = "pub(crate) fn g() -> crate::a::T {}\n#[cfg(test)]\nmod tests { use crate::e::T; }\n";
    let files = [
        ("lib.rs", "pub use a::T;"),
        ("a.rs", a),
        ("b/mod.rs", "pub use c::X;"),
        ("b/c.rs", c),
        ("d.rs", d),
        ("e.rs", "use crate::d::g;"),
    ];
    assert_eq!(Uses::of(&files).largest_circle(), ["a", "b::c", "d"]);
    let open = files.map(|(file, text)| (file, if file == "d.rs" { "" } else { text }));
    assert_eq!(Uses::of(&open).largest_circle(), [""; 0]);
}
