// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard fidelity`: how far the simulated machine is from real kernels.

use std::fs;
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use tiltyard_fidelity::page::{self, number};
use tiltyard_fidelity::set::{Arena, Results, Set};
use tiltyard_model::Machine;
use tiltyard_runner::Progress;
use tiltyard_runner::guest::Guest;
use tiltyard_runner::{calibration, data, fidelity, nearest, output, workloads};

use super::TableOrJson as Format;
use crate::failure::{Code, Failure};
use crate::progress::Steps;

/// Run a fixed set of workloads in real kernels and in the simulated machine, and show the differences.
///
/// For each arena of fidelity/set.toml: boots its kernel in a virtual machine, measures that machine's costs
/// (tiltyard calibrate), runs every workload under every scheduler with real threads, runs the same in the simulated
/// machine with those costs, and prints each metric: simulated, real, error, and whether that is within the file's
/// tolerance. With emulated guests, all arenas take two hours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard fidelity --arena exact-6.1                    # one arena: our CFS and the real one
  tiltyard fidelity --arena exact-6.18 -w bursts
  tiltyard fidelity -w my.json -s ule,cfs --cpus 4       # your own workload, schedulers and number of CPUs
  tiltyard fidelity -w my.json -s cfs_kernel49=default --kernel 6.1
  tiltyard fidelity --out fidelity/results               # all; keeps results and machine files
  tiltyard fidelity --again fidelity/results             # repeat only the simulated runs of results kept there
  tiltyard fidelity --page fidelity/results              # print docs/fidelity.md from the results kept there

The exit code is 0 however large the errors are: they are the result.")]
pub struct Args {
    /// Only this arena of the set; may be given more than once.
    #[arg(long = "arena", value_name = "NAME", value_delimiter = ',')]
    arenas: Vec<String>,
    /// Only this workload of the set, or a workload file of your own; may be given more than once.
    #[arg(
        short,
        long = "workload",
        value_name = "NAME|FILE",
        value_delimiter = ','
    )]
    workloads: Vec<String>,
    /// Schedulers, instead of those of the set: NAME for both machines, or SIMULATED=REAL ("default": the kernel's own).
    #[arg(
        short,
        long = "scheduler",
        value_name = "NAME[=REAL]",
        value_delimiter = ',',
        conflicts_with = "arenas"
    )]
    schedulers: Vec<String>,
    /// Number of CPUs, instead of the machines of the set.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "schedulers", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Kernel version, instead of those of the set.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "6.18",
        requires = "schedulers"
    )]
    kernel: String,
    /// Write ARENA.json (results) and ARENA.toml (the machine as measured) to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repeat only the simulated runs; the kernels' metrics and the measured machines are those in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "schedulers")]
    again: Option<PathBuf>,
    /// Do not run anything; print the page for the results in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["arenas", "workloads", "again", "out", "format"])]
    page: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let folder = data::folder()?.join("fidelity");
    let set = read_set(&folder.join("set.toml"))?;
    let shipped = data::names(&folder.join("workloads"), ".json")?;
    if let Some(results) = &args.page {
        return super::print(&render(&set, &folder, &shipped, results)?);
    }
    let arena_names: Vec<String> = set.arenas.iter().map(|arena| arena.name.clone()).collect();
    check("--arena", &args.arenas, &arena_names)?;
    let (own, named): (Vec<String>, Vec<String>) =
        args.workloads.iter().cloned().partition(|w| is_file(w));
    check("--workload", &named, &shipped)?;
    let chosen = |wanted: &[String], name: &String| wanted.is_empty() || wanted.contains(name);
    let mut workloads: Vec<PathBuf> = shipped
        .iter()
        .filter(|name| args.workloads.is_empty() || named.contains(name))
        .map(|name| folder.join(format!("workloads/{name}.json")))
        .collect();
    for file in &own {
        // A guest has the file at the same place, but not this folder.
        let path = fs::canonicalize(file);
        let path = path.map_err(|e| Failure::io(Code::Input, Path::new(file), "find", &e))?;
        let workload = workloads::load(&path.display().to_string())?;
        workloads::require_end(file, &workload, None)?;
        workloads.push(path);
    }
    if let Some(out) = &args.out {
        fs::create_dir_all(out).map_err(|e| Failure::io(Code::Other, out, "make", &e))?;
    }
    if let Some(kept) = &args.again {
        return again(args, &set, &workloads, kept);
    }
    let mut all = Vec::new();
    let arenas = match args.schedulers.is_empty() {
        true => set.arenas.clone(),
        false => {
            let pairs = args.schedulers.iter().map(|name| pair(name)).collect();
            vec![Arena::of_cpus(args.cpus, &args.kernel, pairs)]
        }
    };
    for arena in arenas
        .iter()
        .filter(|arena| chosen(&args.arenas, &arena.name))
    {
        let steps = Steps::new();
        let guest = Guest::of(&arena.kernel, &arena.machine, arena.exact);
        steps.step(&format!("{}: measuring the machine", arena.name));
        let weighed = calibration::weigh(&guest, true, &steps)?;
        let file = weighed.machine_file(&calibration::description(&guest, &weighed));
        let machine = Machine::parse_toml(&file, &arena.name)
            .map_err(|e| Failure::new(Code::Other, format!("the measured machine: {e}\n{file}")))?;
        let results = fidelity::run(&set, arena, &guest, &machine, &workloads, &steps)?;
        drop(steps);
        keep(args, &results, &file)?;
        all.push(results);
    }
    finish(args, &all)
}

/// Writes the results of an arena to the folder that was named, and prints them.
fn keep(args: &Args, results: &Results, machine: &str) -> Result<(), Failure> {
    if let Some(out) = &args.out {
        let name = &results.arena.name;
        let json = format!("{:#}\n", serde_json::json!(results));
        output::write(&out.join(format!("{name}.json")), json.as_bytes())?;
        output::write(&out.join(format!("{name}.toml")), machine.as_bytes())?;
    }
    match args.format {
        Format::Table => super::print(&tables(results)),
        Format::Json => Ok(()),
    }
}

fn finish(args: &Args, all: &[Results]) -> Result<(), Failure> {
    match args.format {
        Format::Table => Ok(()),
        Format::Json => super::print(&format!("{:#}\n", serde_json::json!(all))),
    }
}

/// Simulates what is kept in a folder once more.
fn again(args: &Args, set: &Set, workloads: &[PathBuf], folder: &Path) -> Result<(), Failure> {
    let file = |name: &str| {
        let is_it = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem == name);
        workloads.iter().find(is_it).cloned()
    };
    let mut all = Vec::new();
    for mut results in kept(set, folder)? {
        let name = results.arena.name.clone();
        (results.tolerance, results.least) = (set.tolerance, set.least);
        if let Some(arena) = set.arenas.iter().find(|arena| arena.name == name) {
            results.arena.least_latency_us = arena.least_latency_us;
        }
        if !args.arenas.is_empty() && !args.arenas.contains(&name) {
            continue;
        }
        let path = folder.join(format!("{name}.toml"));
        let text = data::read(&path)?;
        let machine = Machine::parse_toml(&text, &data::shown(&path))
            .map_err(|error| Failure::new(Code::Input, error.to_string()))?;
        let steps = Steps::new();
        let results = fidelity::again(&results, &machine, &file, &steps)?;
        drop(steps);
        keep(args, &results, &text)?;
        all.push(results);
    }
    if all.is_empty() {
        let line = format!("{}: no results of these arenas", folder.display());
        return Err(Failure::new(Code::Input, line));
    }
    finish(args, &all)
}

/// `ule`, or `cfs_kernel49=default`. The "=" of a setting follows a colon.
fn pair(argument: &str) -> (String, String) {
    match argument.rsplit_once('=') {
        Some((simulated, real)) if !simulated.contains(':') => {
            (simulated.to_owned(), real.to_owned())
        }
        _ => (argument.to_owned(), argument.to_owned()),
    }
}

/// Whether `-w` means the user's own file, not a workload of the set.
fn is_file(workload: &str) -> bool {
    workload.contains('/') || (workload.ends_with(".json") && Path::new(workload).is_file())
}

fn read_set(path: &Path) -> Result<Set, Failure> {
    Set::parse(&data::read(path)?).map_err(|e| {
        let what = e.message().lines().collect::<Vec<_>>().join(", ");
        Failure::new(Code::Input, format!("{}: {what}", data::shown(path)))
    })
}

fn check(flag: &str, wanted: &[String], known: &[String]) -> Result<(), Failure> {
    match wanted.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(format!(
            "{flag} {name}: not in the set; {}",
            nearest::hint(name, known)
        ))),
    }
}

/// The results in a folder, in the set's order. An error if there are none.
fn kept(set: &Set, results: &Path) -> Result<Vec<Results>, Failure> {
    let mut kept = Vec::new();
    for arena in &set.arenas {
        let path = results.join(format!("{}.json", arena.name));
        if path.is_file() {
            let parsed: Results = serde_json::from_str(&data::read(&path)?)
                .map_err(|e| Failure::new(Code::Input, format!("{}: {e}", data::shown(&path))))?;
            kept.push(parsed);
        }
    }
    if kept.is_empty() {
        let line = format!(
            "{}: no results there; tiltyard fidelity --out makes them",
            results.display()
        );
        return Err(Failure::new(Code::Input, line));
    }
    Ok(kept)
}

/// The page, from the kept results of the arenas.
fn render(set: &Set, folder: &Path, shipped: &[String], results: &Path) -> Result<String, Failure> {
    let kept = kept(set, results)?;
    let mut about = Vec::new();
    for name in shipped {
        let path = folder.join(format!("workloads/{name}.json"));
        let workload = workloads::load(&path.display().to_string())?;
        about.push((name.clone(), workload.description.replace('\n', " ")));
    }
    let reasons = data::read(&folder.join("reasons.md"))?;
    Ok(page::render(&kept, &about, &reasons))
}

fn tables(results: &Results) -> String {
    let (near, all) = results.score();
    let mut page = format!(
        "{}: {} (Linux {}, {})\n{near} of {all} metrics are within tolerance\n",
        results.arena.name, results.arena.about, results.kernel_release, results.accel
    );
    for comparison in &results.comparisons {
        page += &format!(
            "\n{}: {} simulated, {} in the kernel\n",
            comparison.workload, comparison.simulated, comparison.label
        );
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_header(["", "", "simulated", "real", "error", ""]);
        for row in &comparison.rows {
            let unit = if row.figure.is_points() {
                "points"
            } else {
                "%"
            };
            table.add_row([
                row.of.clone(),
                row.figure.name().to_owned(),
                number(row.simulated),
                number(row.real),
                match row.error.is_finite() {
                    true => format!("{:+.1} {unit}", row.error),
                    false => "none in the kernel".to_owned(),
                },
                match row.within {
                    Some(true) => "",
                    Some(false) => "off",
                    None => "not judged",
                }
                .to_owned(),
            ]);
        }
        for column in table.column_iter_mut().skip(2).take(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for line in table.lines() {
            page += &format!("{}\n", line.trim_end());
        }
        if comparison.lost_events > 0 {
            page += &format!(" {} events were lost\n", comparison.lost_events);
        }
    }
    page + "\n"
}
