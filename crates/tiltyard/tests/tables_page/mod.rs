// SPDX-License-Identifier: GPL-2.0-or-later
//! docs/how-to/tables-with-duckdb-and-polars.md is run as it stands.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = "docs/how-to/tables-with-duckdb-and-polars.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of code of a page, each with its language and what the next block of text says it prints.
fn blocks(page: &str) -> Vec<(String, String, Option<String>)> {
    let mut blocks: Vec<(String, String, Option<String>)> = Vec::new();
    let mut parts = page.split("```").skip(1).step_by(2);
    while let Some((kind, body)) = parts.next().and_then(|part| part.split_once('\n')) {
        match kind {
            "text" => blocks.last_mut().expect("after code").2 = Some(body.to_owned()),
            kind => blocks.push((kind.to_owned(), body.to_owned(), None)),
        }
    }
    blocks
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
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tiltyard"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut languages = Vec::new();
    for (language, code, expected) in blocks(&page) {
        let mut command = match language.as_str() {
            "sh" => Command::new("sh"),
            "python" => Command::new(&python),
            other => panic!("{PAGE}: a block of {other}"),
        };
        command.args(["-c", &code]).current_dir(folder.path());
        command.env("PATH", &path).env_remove("TILTYARD_DATA");
        // Whatever the terminal of who runs the tests: tables as on one without colours.
        command
            .env("COLUMNS", "100")
            .env("NO_COLOR", "1")
            .env("PYTHONUTF8", "1");
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{PAGE}:\n{code}\n{errors}");
        let printed = String::from_utf8_lossy(&output.stdout);
        if let Some(expected) = expected {
            let (printed, expected) = (printed.trim_end(), expected.trim_end());
            assert_eq!(
                printed, expected,
                "{PAGE}: it prints\n{printed}\nafter\n{code}"
            );
        }
        languages.push((language, code));
    }
    let uses = |what: &str| languages.iter().any(|(_, code)| code.contains(what));
    assert!(uses("--out") && uses("duckdb") && uses("polars"));
}
