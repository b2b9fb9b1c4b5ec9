// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard schema`: the form of input files, for editors.

use crate::failure::Failure;

/// Print the JSON schema of an input file, for editors and other programs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  tiltyard schema workload > workload.schema.json
      Editors that read JSON schemas then complete and check keys of workload files.")]
pub struct Args {
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Workload,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    match args.what {
        What::Workload => super::print(&tiltyard_workload::schema()),
    }
}
