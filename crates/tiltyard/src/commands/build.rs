// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard build`: both objects of a scheduler.

use std::path::PathBuf;

use tiltyard_runner::data;
use tiltyard_runner::objects;
use tiltyard_runner::output;
use tiltyard_runner::schedulers;
use tiltyard_runner::verification;

use crate::failure::Failure;
use crate::progress::Steps;

/// Build a scheduler: the object for the simulated machine and the one for a kernel.
/// Other commands build what they need automatically; this one shows the result: the location of
/// its objects, its ops and its tunables.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard build ule
  tiltyard build ./my.bpf.c
  tiltyard build ./my.bpf.c --verify           # also check it with a real kernel's verifier
  tiltyard build ./my.bpf.c --native my.so     # for a disassembler")]
pub struct Args {
    /// A shipped name, a preset, or a path to a .bpf.c.
    scheduler: String,
    /// Also write the object for the simulated machine to this file.
    #[arg(long, value_name = "FILE")]
    native: Option<PathBuf>,
    /// Check it with the verifier of Linux 6.18, in a virtual machine that stays in the background for three minutes.
    /// The simulated machine does not verify.
    #[arg(long)]
    verify: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let choice = schedulers::choose(&args.scheduler)?;
    let built = objects::native(&choice, false)?;
    let bpf = objects::bpf(&choice)?;
    if let Some(path) = &args.native {
        output::write(path, &built.object.image)?;
    }
    let object = &built.object;
    for warning in &object.warnings {
        say!("tiltyard: warning: {warning}");
    }
    let ops: Vec<&str> = object.ops.functions.keys().map(String::as_str).collect();
    let mut page = format!("source    {}\n", data::shown(&choice.source));
    page += &format!("ops       {}: {}\n", object.ops.name, ops.join(", "));
    // Probes are switched by whoever runs the scheduler.
    let tunables = object
        .tunables
        .iter()
        .filter(|(n, _)| *n != "tilt_probes_on");
    for (name, global) in tunables {
        let default = global
            .default
            .map_or("array".to_owned(), |d| format!("default {d}"));
        // By the preset of this name, or after a colon.
        let set = choice.tunables.iter().find(|(tunable, _)| tunable == name);
        let set = set.map_or(String::new(), |(_, value)| format!(", set to {value}"));
        page += &format!("tunable   {name}: {default}{set}\n");
    }
    page += &format!("kernel    {}\n", bpf.path.display());
    let native = match &args.native {
        Some(path) => data::shown(path),
        None => "in the cache; --native FILE writes it out".to_owned(),
    };
    page += &format!(
        "simulator {native} ({} bytes, key {})\n",
        object.image.len(),
        object.key
    );
    if args.verify {
        let release = verification::require(&built, &Steps::new())?;
        page += &format!("verifier  Linux {release} accepts it\n");
    }
    super::print(&page)
}
