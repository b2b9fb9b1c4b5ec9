// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard calibrate`: a machine's scheduling costs, as a machine file.

use std::path::PathBuf;

use tiltyard_exec::costs;
use tiltyard_runner::calibration::Under;
use tiltyard_runner::{calibration, machines, output};

use crate::failure::{Code, Failure};
use crate::flags::GuestFlags;
use crate::progress::Steps;

/// Measure the scheduling costs of this machine, or a virtual one, and write a machine file for tiltyard run.
///
/// Measures the costs of switches, wakeups, ticks, inter-processor interrupts and cache lines, how often and how long the
/// kernel's own threads run, and, if the kernel has sched_ext, what a BPF scheduler costs: a callback, an instruction, a
/// kernel function. A comment beside each number explains how it was measured.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard calibrate --keep                              # needs root for what a BPF scheduler costs
  tiltyard run -w fibo-sysbench-1c -s ule,cfs -m host
  tiltyard calibrate -o mymachine.toml
  tiltyard calibrate --vm --icount --cpus 1              # an emulated machine, exactly the same every time

Takes about a minute; the machine should have nothing else to do.")]
pub struct Args {
    #[command(flatten)]
    guest: GuestFlags,
    /// Measure while the scheduler's events are recorded, as tiltyard kernel does: the costs then include that.
    #[arg(long)]
    recorded: bool,
    /// Measure only under the kernel's own scheduler. Its work is then part of the costs of switches and wakeups, and callbacks
    /// of simulated schedulers cost nothing. Use this to compare simulated schedulers with the kernel's own.
    #[arg(long)]
    without_bpf: bool,
    /// Where to write the machine file [default: standard output].
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Keep the costs for -m host.
    #[arg(long, conflicts_with_all = ["output", "vm", "recorded", "without_bpf"])]
    keep: bool,
    /// Print only the readings under the current scheduler.
    #[arg(long, hide = true)]
    readings: bool,
    /// Among the readings, those that belong to the kernel's own scheduler: timers, kernel threads.
    #[arg(long, hide = true, requires = "readings")]
    own: bool,
    /// Among the readings, how much the same thing varies.
    #[arg(long, hide = true, requires = "readings")]
    jitter: bool,
    /// Print only the length of a round under the current scheduler.
    #[arg(long, hide = true, conflicts_with = "readings")]
    round: bool,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let error = |e| Failure::new(Code::Environment, format!("cannot measure: {e}"));
    if args.round {
        return super::print(&format!("{}\n", costs::round().map_err(error)?));
    }
    if args.readings {
        let readings = costs::measure(args.own, args.jitter).map_err(error)?;
        return super::print(&format!("{}\n", serde_json::json!(readings)));
    }
    let (guest, steps) = (args.guest.guest(), Steps::new());
    let under = match args.without_bpf {
        true => Under::KernelsOwn,
        false => Under::All,
    };
    let weighed = calibration::weigh(&guest, under, args.recorded, &steps)?;
    drop(steps);
    let file = weighed.machine_file(&calibration::description(&guest, &weighed));
    match &args.output {
        Some(path) => Ok(output::write(path, file.as_bytes())?),
        None if args.keep => Ok(machines::keep_costs(&file)?),
        None => super::print(&file),
    }
}
