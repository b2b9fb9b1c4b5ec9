// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard league`: the campaign that is shipped.

use super::campaign::{self, Flags};
use crate::failure::Failure;

/// The file's name in the folder `campaigns`.
const NAME: &str = "league";

/// Run the league: all schedulers on a spread of workloads and machines, and who wins what.
///
/// It is the campaign that is shipped with Tiltyard (campaigns/league.toml): server, desktop, build, HPC, batch and games, on
/// the machines of two papers, of 2009 and 2018, and one of today.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard league --report league.html
      The table, and the page with a small chart for each workload and machine. Less than ten minutes on two cores; a \
stopped league continues.
  tiltyard league --with ./my.bpf.c
      Your scheduler among the others; their runs are reused if you ran the league before.
  tiltyard league -w desktop,game-60 -m today
      A part of it.

tiltyard campaign --help explains how a winner is found.")]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    campaign::run_file(NAME, &args.flags, &["tiltyard", "league"])
}
