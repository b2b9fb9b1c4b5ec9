// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line: flags, exit codes and printing. What a command does is in `tiltyard-runner`.
//!
//! | module | what it is |
//! | --- | --- |
//! | `cli` | the command line as a whole; help, completions and manual pages are made from it |
//! | `commands` | one module for each subcommand |
//! | `flags` | flags that several commands have |
//! | `failure` | how a command fails: exit codes, and one line for each error |
//! | `interrupt`, `temporary` | Ctrl-C and similar signals; the one folder for temporary files |
//! | `memory` | freed memory stays with the process |
//! | `say`, `progress`, `terminal` | messages and progress on standard error; properties of the terminal |
//! | `kernel_page`, `races`, `verdicts` | results as text: of real kernels, of `run --races`, of `reproduce` |

#[macro_use]
mod say;

mod cli;
mod commands;
mod failure;
mod flags;
mod interrupt;
mod kernel_page;
mod memory;
mod progress;
mod races;
mod temporary;
mod terminal;
mod verdicts;

use std::process::ExitCode;

use clap::Parser;
use tiltyard_runner::{kernel_runs, verification};

use failure::Code;

fn main() -> ExitCode {
    // The guest's init must not touch signals or flags: its command line is the kernel's.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == tiltyard_kernel::protocol::INIT_ARGUMENT)
    {
        tiltyard_kernel::guest::main(kernel_runs::spread);
    }
    if let Some(code) = hidden() {
        return code;
    }
    let command_line = match cli::Cli::try_parse() {
        Ok(command_line) => command_line,
        Err(answer) => return answered(&answer),
    };
    memory::keep();
    interrupt::watch();
    let _temporary = temporary::folder();
    let done = command_line.run();
    tiltyard_runner::temporary::wait_for_end();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code as u8)
        }
    }
}

/// Prints help, or what is wrong with the command line.
fn answered(answer: &clap::Error) -> ExitCode {
    let done = answer.print();
    match commands::printed(done) {
        Err(failure) if !answer.use_stderr() => {
            failure.print();
            ExitCode::from(failure.code as u8)
        }
        _ => ExitCode::from(answer.exit_code() as u8),
    }
}

/// The hidden subcommands of the verifier.
fn hidden() -> Option<ExitCode> {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words
        .map(|word| word.into_string().unwrap_or_default())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match verification::hidden(&words)? {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("tiltyard: {error}");
            ExitCode::from(Code::Environment as u8)
        }
    })
}
