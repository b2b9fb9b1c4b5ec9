// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard completions bash > ~/.local/share/bash-completion/completions/tiltyard
  tiltyard completions zsh > \"${fpath[1]}/_tiltyard\"
  tiltyard completions fish > ~/.config/fish/completions/tiltyard.fish")]
pub struct Args {
    shell: Shell,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tiltyard", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
