// SPDX-License-Identifier: GPL-2.0-or-later
//! One module per subcommand.

pub mod build;
pub mod calibrate;
pub mod campaign;
pub mod compare;
pub mod completions;
pub mod exec;
pub mod explain;
pub mod fidelity;
pub mod kernel;
pub mod league;
pub mod list;
pub mod man;
pub mod measure;
pub mod reproduce;
pub mod run;
pub mod schema;
pub mod show;
pub mod teach;

use std::io::Write;
use std::path::Path;

use crate::failure::{Code, Failure};

/// Output format without CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TableOrJson {
    /// Human-readable.
    Table,
    Json,
}

/// One line for each output that was written.
fn written(outputs: &[(&str, Option<&Path>)]) -> String {
    let lines = outputs
        .iter()
        .filter_map(|(what, path)| Some(format!("{what:<8}{}\n", (*path)?.display())));
    lines.collect()
}

/// Prints a result.
fn print(text: &str) -> Result<(), Failure> {
    printed(std::io::stdout().write_all(text.as_bytes()))
}

/// After something was printed. A reader that stops early (`| head`) is not a failure.
pub fn printed(done: std::io::Result<()>) -> Result<(), Failure> {
    match done.and_then(|()| std::io::stdout().flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::new(
            Code::Other,
            format!("standard output: cannot write: {e}"),
        )),
        _ => Ok(()),
    }
}
