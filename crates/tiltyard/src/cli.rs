// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line. Help, completions and manual pages are made from it.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    build, calibrate, campaign, compare, completions, exec, explain, fidelity, kernel, league,
    list, man, measure, reproduce, run, schema, show, teach,
};
use crate::failure::Failure;

/// Compare CPU schedulers: one source, in a simulated machine and in a real Linux kernel.
#[derive(Debug, Parser)]
#[command(
    name = "tiltyard",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
#[command(after_help = "\
Start here:
  tiltyard run -w fibo-sysbench-1c -s ule,cfs     two schedulers on one workload, side by side
  tiltyard list workloads                         the workloads that can be run
  tiltyard league                                 all schedulers on many workloads: who wins what
  tiltyard show schedulers ule                    what a scheduler does, and its tunables

Exit codes: 0 done, 1 other failure, 2 usage, 3 bad input file, 4 scheduler does not build,
5 scheduler failed in a run, 6 workload failed in a run, 7 this machine lacks something,
8 not modelled, 9 a gate fired, 10 scheduler exited by itself, 11 tasks left waiting,
12 data races, 130 interrupted.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(run::Args),
    Campaign(campaign::Args),
    League(league::Args),
    Reproduce(reproduce::Args),
    Compare(compare::Args),
    Explain(explain::Args),
    Measure(measure::Args),
    List(list::Args),
    Show(show::Args),
    Build(build::Args),
    Kernel(kernel::Args),
    Exec(exec::Args),
    Calibrate(calibrate::Args),
    Fidelity(fidelity::Args),
    Teach(teach::Args),
    Completions(completions::Args),
    Schema(schema::Args),
    Man(man::Args),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Campaign(args) => campaign::run(&args),
            Command::League(args) => league::run(&args),
            Command::Measure(args) => measure::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Explain(args) => explain::run(&args),
            Command::Build(args) => build::run(&args),
            Command::Kernel(args) => kernel::run(&args),
            Command::Exec(args) => exec::run(&args),
            Command::Calibrate(args) => calibrate::run(&args),
            Command::Fidelity(args) => fidelity::run(&args),
            Command::Reproduce(args) => reproduce::run(&args),
            Command::List(args) => list::run(&args),
            Command::Show(args) => show::run(&args),
            Command::Teach(args) => teach::run(&args),
            Command::Completions(args) => completions::run(&args, &mut Cli::command()),
            Command::Schema(args) => schema::run(&args),
            Command::Man(args) => man::run(&args, Cli::command()),
        }
    }
}
