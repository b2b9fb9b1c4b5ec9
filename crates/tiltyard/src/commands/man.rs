// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard man`: one page for all subcommands.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::failure::{Code, Failure};

pub fn run() -> Result<(), Failure> {
    let page = page().map_err(|e| Failure::new(Code::Other, format!("man page: {e}")))?;
    super::print(&String::from_utf8_lossy(&page))
}

/// The page of the program, then the options of each subcommand under a heading of its own.
fn page() -> std::io::Result<Vec<u8>> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    for sub in command
        .get_subcommands()
        .filter(|s| !s.is_hide_set() && s.get_name() != "help")
    {
        page.extend(format!(".SH {}\n", sub.get_name().to_uppercase()).bytes());
        let man = Man::new(sub.clone());
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    Ok(page)
}
