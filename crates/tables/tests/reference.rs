// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/reference/tables.md matches the schema word for word.

use std::path::Path;

use tiltyard_tables::{ColumnKind, Spec, specs};

const PAGE: &str = "docs/reference/tables.md";

/// Start of the part generated from the schema; the text above is written by hand.
const FIRST: &str = "## `run`\n";

fn section(spec: &Spec) -> String {
    let mut text = format!(
        "## `{}`\n\n{}\n\n| column | type | |\n| --- | --- | --- |\n",
        spec.name, spec.about
    );
    for column in &spec.columns {
        let kind = match column.kind {
            ColumnKind::Int => "int64",
            ColumnKind::Uint => "uint64",
            ColumnKind::Text => "text",
            ColumnKind::Bool => "bool",
        };
        let null = if column.nullable { ", null" } else { "" };
        text += &format!("| `{}` | {kind}{null} | {} |\n", column.name, column.about);
    }
    text
}

#[test]
fn the_page_lists_every_table_and_column() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PAGE);
    let page = std::fs::read_to_string(page).unwrap();
    let (head, listed) = page.split_at(page.find(FIRST).expect("a section for the table run"));
    let sections: Vec<String> = specs().iter().map(section).collect();
    let expected = sections.join("\n");
    if listed != expected {
        let correct = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables.md");
        std::fs::write(&correct, format!("{head}{expected}")).unwrap();
        panic!(
            "{PAGE} does not match the schema: cp {} {PAGE}",
            correct.display()
        );
    }
}
