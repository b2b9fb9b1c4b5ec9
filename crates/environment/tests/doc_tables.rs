// SPDX-License-Identifier: GPL-2.0-or-later
//! The tables that the documentation shows are tables.

use std::path::Path;

use tiltyard_environment::Environment;

#[test]
fn tables_in_the_documentation_are_right() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (page, expected) in [
        ("how-to/run-upstream-schedulers.md", 5),
        ("reference/presets.md", 1),
    ] {
        let text = std::fs::read_to_string(docs.join(page)).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
        let tables: Vec<toml::Table> = blocks
            .filter(|block| block.contains("[environment"))
            .map(|block| toml::from_str(block).unwrap())
            .collect();
        assert_eq!(tables.len(), expected, "{page}");
        for table in tables {
            let table = table["environment"].as_table().unwrap().clone();
            if let Err(error) = Environment::from_toml(table) {
                panic!("{page}: {error}");
            }
        }
    }
}
