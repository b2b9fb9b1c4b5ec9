// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard man`: manual pages, one for the program and one for each subcommand.

use std::path::PathBuf;

use clap_mangen::Man;
use tiltyard_runner::output;

use crate::failure::{Code, Failure};

/// Print a manual page, in roff, or write all of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard man | man -l -
  tiltyard man run | man -l -
  tiltyard man --dir ~/.local/share/man/man1")]
pub struct Args {
    /// The subcommand to describe [default: the program].
    subcommand: Option<String>,
    /// Write tiltyard.1 and a page for each subcommand into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, program: clap::Command) -> Result<(), Failure> {
    let pages = pages(program).map_err(|e| Failure::new(Code::Other, format!("man page: {e}")))?;
    if let Some(dir) = &args.dir {
        std::fs::create_dir_all(dir).map_err(|e| Failure::io(Code::Other, dir, "create", &e))?;
        for (name, page) in &pages {
            output::write(&dir.join(format!("{name}.1")), page)?;
        }
        return Ok(());
    }
    let wanted = match &args.subcommand {
        Some(subcommand) => format!("tiltyard-{subcommand}"),
        None => "tiltyard".to_owned(),
    };
    match pages.iter().find(|(name, _)| *name == wanted) {
        Some((_, page)) => super::print(&String::from_utf8_lossy(page)),
        None => Err(Failure::usage(format!(
            "man: there is no subcommand {}; tiltyard help lists them",
            args.subcommand.as_deref().unwrap_or_default()
        ))),
    }
}

/// Names and texts of all pages. The program's lists the subcommands, with the names of their pages.
fn pages(mut program: clap::Command) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    program.build();
    let is_page = |sub: &&clap::Command| !sub.is_hide_set() && sub.get_name() != "help";
    let subcommands = program.get_subcommands().filter(is_page);
    let named = subcommands.map(|sub| {
        // clap keeps names for as long as the program runs.
        let name: &'static str = format!("tiltyard-{}", sub.get_name()).leak();
        (name.to_owned(), sub.clone().name(name))
    });
    let mut commands: Vec<(String, clap::Command)> = named.collect();
    commands.insert(0, ("tiltyard".to_owned(), program.clone()));
    let render = |(name, command): (String, clap::Command)| {
        let mut page = Vec::new();
        let version = command.version(tiltyard_runner::VERSION);
        Man::new(version).render(&mut page)?;
        Ok((name, page))
    };
    commands.into_iter().map(render).collect()
}
