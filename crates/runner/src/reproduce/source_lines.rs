// SPDX-License-Identifier: GPL-2.0-or-later
//! The length of a scheduler's source.

use std::collections::BTreeSet;
use std::path::Path;

use tiltyard_claims::mutation::SHARED;

use crate::Error;
use crate::data;

/// Lines that contain more than blanks and comments: of the C sources beside `source` (itself among them), and of the shared
/// headers that these include.
pub fn of_scheduler(source: &Path) -> Result<u64, Error> {
    let folder = source.parent().unwrap_or(source);
    let mut texts = Vec::new();
    for name in data::names(folder, "")? {
        if name.ends_with(".c") || name.ends_with(".h") {
            texts.push(data::read(&folder.join(name))?);
        }
    }
    let lib = data::folder()?.join("schedulers/lib").join(SHARED);
    let mut known: BTreeSet<String> = texts.iter().flat_map(|text| shared(text)).collect();
    let mut open: Vec<String> = known.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let text = data::read(&lib.join(&name))?;
        for name in included(&text).map(|other| beside(&name, other)) {
            if known.insert(name.clone()) {
                open.push(name);
            }
        }
        texts.push(text);
    }
    Ok(texts.iter().map(|text| code_lines(text)).sum())
}

/// What a text includes by `#include "NAME"`.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \""));
    names.filter_map(|rest| rest.strip_suffix('"'))
}

fn shared(text: &str) -> impl Iterator<Item = String> {
    included(text).filter_map(|name| name.strip_prefix(SHARED).map(str::to_owned))
}

/// Among themselves they are named from the folder of the one that includes: `../arith.h` beside `fair/load.h` is `arith.h`.
fn beside(header: &str, name: &str) -> String {
    if let Some(name) = name.strip_prefix(SHARED) {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = header.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn code_lines(text: &str) -> u64 {
    let mut inside = false;
    let mut count = 0;
    for line in text.lines() {
        let mut rest = line;
        let mut code = false;
        while !rest.is_empty() {
            if inside {
                let end = rest.find("*/");
                inside = end.is_none();
                rest = end.map_or("", |at| &rest[at + 2..]);
                continue;
            }
            let begin = rest.find("/*");
            let line_comment = rest.find("//").filter(|at| begin.is_none_or(|b| *at < b));
            let end = line_comment.or(begin).unwrap_or(rest.len());
            code |= !rest[..end].trim().is_empty();
            inside = line_comment.is_none() && begin.is_some();
            rest = if inside { &rest[end + 2..] } else { "" };
        }
        count += u64::from(code);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{beside, code_lines, of_scheduler};
    use std::fs;

    #[test]
    fn blanks_and_comments_do_not_count() {
        let text =
            "/* a\n b */ int x; /* c */\n\n  // d\nint y; // e\n/* f */ /* g */\nint z; /* h\n*/\n";
        assert_eq!(code_lines(text), 3);
    }
    #[test]
    fn headers_are_found_from_where_they_are_named() {
        for (header, name, expected) in [
            ("tree.h", "arith.h", "arith.h"),
            ("fair/load.h", "group.h", "fair/group.h"),
            ("fair/load.h", "../domains.h", "domains.h"),
            ("fair/load.h", "tiltyard/domains.h", "domains.h"),
        ] {
            assert_eq!(beside(header, name), expected);
        }
    }

    /// arith.h comes with tree.h, and once only.
    #[test]
    fn shared_headers_count() {
        let folder = tempfile::TempDir::new().unwrap();
        let source = folder.path().join("a.bpf.c");
        let lines = |text: &str| {
            fs::write(&source, text).unwrap();
            of_scheduler(&source).unwrap()
        };
        let alone = lines("int x;\n");
        let arith = lines("#include \"tiltyard/arith.h\"\n") - 1;
        let tree = lines("#include \"tiltyard/tree.h\"\n") - 1;
        assert!((alone, arith) == (1, arith) && arith > 20 && tree > arith + 100);
        let both = lines("#include \"tiltyard/arith.h\"\n#include \"tiltyard/tree.h\"\n");
        assert_eq!(both, tree + 2);
    }
}
