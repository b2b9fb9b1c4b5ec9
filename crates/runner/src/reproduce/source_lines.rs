// SPDX-License-Identifier: GPL-2.0-or-later
//! The length of a scheduler's source.

use std::path::Path;

use crate::Error;
use crate::data;

/// Lines of the C sources beside `source` (itself among them) that contain more than blanks and comments.
pub fn of_scheduler(source: &Path) -> Result<u64, Error> {
    let folder = source.parent().unwrap_or(source);
    let mut lines = 0;
    for name in data::names(folder, "")? {
        if name.ends_with(".c") || name.ends_with(".h") {
            lines += code_lines(&data::read(&folder.join(name))?);
        }
    }
    Ok(lines)
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
    use super::code_lines;

    #[test]
    fn blanks_and_comments_do_not_count() {
        let text =
            "/* a\n b */ int x; /* c */\n\n  // d\nint y; // e\n/* f */ /* g */\nint z; /* h\n*/\n";
        assert_eq!(code_lines(text), 3);
    }
}
