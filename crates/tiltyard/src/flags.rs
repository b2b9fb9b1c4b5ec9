// SPDX-License-Identifier: GPL-2.0-or-later
//! Flags that several commands have.

use tiltyard_runner::grouping::By;
use tiltyard_runner::guest::Guest;
use tiltyard_runner::{Error, duration, machines, shell, window, workloads};
use tiltyard_workload::Workload;

use crate::failure::Failure;

/// A name, or one of several that are separated by commas.
pub fn listed(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name is empty".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// An error if the run ends before the interval of --timeline. `end_ns`: from the workload's start.
pub fn require_within(timeline: Option<window::Range>, end_ns: u64) -> Result<(), Failure> {
    match timeline.and_then(|range| range.from_ns) {
        Some(from_ns) if from_ns >= end_ns => {
            let end = duration::write(end_ns);
            let line =
                format!("--timeline: the run ends at {end}, before the window; write FROM..TO");
            Err(Failure::usage(line))
        }
        _ => Ok(()),
    }
}

/// What the simulated machine runs.
#[derive(Clone, Debug, clap::Args)]
pub struct RunFlags {
    /// A shipped workload (tiltyard list workloads) or an rt-app JSON file. tiltyard run takes several, separated by commas.
    #[arg(short, long, value_name = "W", value_parser = listed)]
    pub workload: String,
    /// Change values of the workload: a JSON merge patch, such as
    /// {"tiltyard":{"barriers":{"region":{"spin":10000}}}}; null removes a value.
    /// It can add values, but no tasks or other objects.
    #[arg(long, value_name = "JSON")]
    patch: Option<String>,
    /// Shipped schedulers (all: each of them), presets, NAME:tunable=value:..., or paths to .bpf.c files; separated by commas.
    #[arg(
        short,
        long = "scheduler",
        value_name = "S",
        value_delimiter = ',',
        value_parser = listed,
        required = true
    )]
    pub schedulers: Vec<String>,
    /// A shipped machine, a machine file, hwloc XML, an hwloc synthetic string, or host: the machine at hand.
    #[arg(short, long, value_name = "MACHINE", default_value = machines::DEFAULT, value_parser = listed)]
    pub machine: String,
    /// End each run after this much simulated time: 10s, 500ms. Default: the workload's own end.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ns)]
    pub duration: Option<u64>,
    /// Run with seeds 1 to N [default: seed 1 only].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: Option<u32>,
    /// Concurrent runs [default: one per CPU of this machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
}

impl RunFlags {
    /// Runs at a time; 0: one for each CPU of this machine.
    pub fn threads(&self) -> usize {
        self.jobs.map_or(0, usize::from)
    }

    /// Whether the workload is changed.
    pub fn is_patched(&self) -> bool {
        self.patch.is_some()
    }

    /// The workload and its text.
    pub fn load_workload(&self) -> Result<(Workload, String), Error> {
        let patch = self.patch.as_deref().unwrap_or(workloads::UNCHANGED);
        let (workload, text) = workloads::load_changed(&self.workload, patch, &[])?;
        workloads::require_end(&self.workload, &workload, self.duration)?;
        Ok((workload, text))
    }

    /// The shell line of a command that runs these `schedulers`, with what follows the flags that say what runs.
    pub fn shell_line(&self, command: &str, schedulers: &[String], more: &[String]) -> String {
        let mut words = ["tiltyard", command, "-w"].map(str::to_owned).to_vec();
        words.push(self.workload.clone());
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        add("-s", schedulers.join(","));
        if self.machine != machines::DEFAULT {
            add("-m", self.machine.clone());
        }
        if let Some(patch) = &self.patch {
            add("--patch", patch.clone());
        }
        if let Some(ns) = self.duration {
            add("--duration", duration::write(ns));
        }
        words.extend_from_slice(more);
        shell::line(&words)
    }
}

/// Which machine. Flags of the virtual one are rejected without --vm.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("virtual").multiple(true)))]
pub struct GuestFlags {
    /// Use a virtual machine that Tiltyard boots. Default: this machine and its kernel; only root may load schedulers there.
    #[arg(long, group = "virtual")]
    pub vm: bool,
    /// CPUs of the virtual machine.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "vm", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: u32,
    /// Topology of the virtual machine, as for tiltyard run: a name, a file, "package:2 [numa] core:4 pu:2".
    #[arg(
        short,
        long,
        value_name = "MACHINE",
        value_parser = listed,
        conflicts_with = "cpus",
        requires = "vm"
    )]
    machine: Option<String>,
    /// Emulate with a clock that counts instructions: every run is the same. Several CPUs share one stream of
    /// instructions, so each of N gets 1/N of the time.
    #[arg(long, requires = "vm")]
    pub icount: bool,
    /// Kernel of the virtual machine: a version, whose newest package is fetched (6.1 is the last long-term one with CFS), or a
    /// bzImage with its configuration beside it.
    #[arg(
        long,
        value_name = "PATH|VERSION",
        default_value = "6.18",
        requires = "virtual"
    )]
    pub kernel: String,
}

impl GuestFlags {
    /// The machine that they describe.
    pub fn guest(&self) -> Guest {
        let cpus = || format!("package:1 core:{} pu:1", self.cpus);
        Guest {
            vm: self.vm,
            machine: self.machine.clone().unwrap_or_else(cpus),
            icount: self.icount,
            kernel: self.kernel.clone(),
        }
    }
}

/// `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ByFlag {
    /// Each task separately.
    Task,
    /// The tasks of an application together.
    App,
    /// The tasks of a cgroup together.
    Group,
}

impl ByFlag {
    pub fn by(self) -> By {
        match self {
            ByFlag::Task => By::Task,
            ByFlag::App => By::App,
            ByFlag::Group => By::Group,
        }
    }
}
