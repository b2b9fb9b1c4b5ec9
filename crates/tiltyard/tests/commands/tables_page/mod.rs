// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/how-to/tables-with-duckdb-and-polars.md is run as it stands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/how-to/tables-with-duckdb-and-polars.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python that scripts/setup.sh gives DuckDB and polars.
fn python() -> Option<PathBuf> {
    let python = root().join("target/tables-venv/bin/python");
    let check = Command::new(&python)
        .args(["-c", "import duckdb, polars"])
        .output();
    check
        .is_ok_and(|output| output.status.success())
        .then_some(python)
}

#[test]
fn the_page_about_duckdb_and_polars_is_true() {
    let Some(python) = python() else {
        let why = "no DuckDB and polars in target/tables-venv (scripts/setup.sh test installs them from PyPI)";
        // Not eprintln!, which the test harness keeps to itself when a test passes.
        let _ = writeln!(std::io::stderr(), "NOT RUN: the code of {PAGE}: {why}");
        return;
    };
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    assert!(
        ["--out", "duckdb", "polars"]
            .iter()
            .all(|what| page.contains(what))
    );
    let true_page = run(&page, &python);
    if !reads_alike(&page, &true_page) {
        let correct = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables-page.md");
        std::fs::write(&correct, true_page).unwrap();
        let correct = correct.display();
        panic!("{PAGE}: its code prints something else; if that is right: cp {correct} {PAGE}");
    }
}

/// Whether two pages have the same words, and numbers that are within a tenth of each other: what schedulers cost, and
/// so the last digits of all figures, changes with their sources.
fn reads_alike(one: &str, other: &str) -> bool {
    let rule = |c: char| c.is_whitespace() || ('\u{2500}'..='\u{257f}').contains(&c);
    let words = |page: &str| -> Vec<String> {
        let words = page.split(rule).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let is_alike = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.1 * a.abs().max(b.abs()),
        _ => a == b,
    };
    let (one, other) = (words(one), words(other));
    one.len() == other.len() && one.iter().zip(&other).all(is_alike)
}

#[test]
fn pages_read_alike_up_to_the_size_of_numbers() {
    assert!(reads_alike("│ a ┆ 100 │\n└───┘", "│ a ┆ 95.5 │\n└────┘"));
    for other in ["a 89", "b 100", "a 100 1", "a", "a -100"] {
        assert!(!reads_alike("a 100", other), "{other}");
    }
}

/// The page with what its blocks of code really print, each in the block of text that follows.
fn run(page: &str, python: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut printed = String::new();
    let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
    for block in parts.iter_mut().skip(1).step_by(2) {
        match block.split_once('\n').expect("a language and code") {
            ("text", _) => *block = format!("text\n{}\n", printed.trim_end()),
            ("sh", code) => printed = output(Command::new("sh"), code, folder.path()),
            ("python", code) => {
                // DuckDB shows progress on standard output once a query has taken two seconds.
                let quiet = "import duckdb\nduckdb.sql('SET enable_progress_bar = false')\n";
                let code = code.replace("import duckdb\n", quiet);
                printed = output(Command::new(python), &code, folder.path());
            }
            (other, _) => panic!("{PAGE}: a block of {other}"),
        }
    }
    parts.join("```")
}

/// What code prints, as in a terminal of 100 columns without colours, with this Tiltyard.
fn output(mut command: Command, code: &str, folder: &Path) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tiltyard")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", program.display()));
    command.env_remove("TILTYARD_DATA").args(["-c", code]);
    command
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .env("PYTHONUTF8", "1");
    let output = command.current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{PAGE}:\n{code}\n{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
