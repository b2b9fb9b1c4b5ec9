// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line: flags and glue. What a command does lives in the other crates.

#[macro_use]
mod say;

mod applications;
mod built;
mod by;
mod calibration;
mod cli;
mod commands;
mod data;
mod duration;
mod ended;
mod event_dir;
mod event_files;
mod failure;
mod guest;
mod guest_run;
mod interrupt;
mod kernel_results;
mod machines;
mod nearest;
mod origin;
mod output;
mod progress;
mod races;
mod recorded;
mod reproduce;
mod results;
mod schedulers;
mod side_by_side;
mod sim_results;
mod simulate;
mod tabled;
mod temporary;
mod terminal;
mod threads;
mod unset;
mod verified;
mod window;
mod workloads;

use std::process::ExitCode;

use clap::Parser;

/// The version that results and tables record.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    // The guest's init must not touch signals or flags: its command line is the kernel's.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == tiltyard_kernel::protocol::INIT_ARGUMENT)
    {
        tiltyard_kernel::guest::main(recorded::spread);
    }
    if let Some(code) = verified::hidden() {
        return code;
    }
    interrupt::watch();
    let _temporary = temporary::folder();
    match commands::run(cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.code as u8)
        }
    }
}
