// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard fidelity`: how far the simulated machine is from real kernels.

use std::fs;
use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, presets};
use tiltyard_fidelity::page::number;
use tiltyard_fidelity::set::{Results, Setting};
use tiltyard_runner::fidelity::{self, SettingResults, Shipped};
use tiltyard_runner::{nearest, workloads};

use super::TableOrJson as Format;
use crate::failure::{Code, Failure};
use crate::flags::listed;
use crate::progress::Steps;

/// Run a fixed set of workloads in real kernels and in the simulated machine, and show the differences.
///
/// For each setting of fidelity/set.toml (a kernel, a machine and schedulers): boots the kernel in a virtual machine,
/// measures that machine's costs (tiltyard calibrate), runs every workload under every scheduler with real threads, runs
/// the same in the simulated machine with those costs, and prints each metric: simulated, real, error, and whether that
/// is within the file's tolerance. With emulated guests, all settings take two hours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard fidelity --setting exact-6.1                    # one setting: our CFS and the real one
  tiltyard fidelity --setting exact-6.18 -w bursts
  tiltyard fidelity -w my.json -s ule,cfs --cpus 4       # your own workload, schedulers and number of CPUs
  tiltyard fidelity -w my.json -s cfs_kernel49=default --kernel 6.1
  tiltyard fidelity --out fidelity/results               # all; keeps results and machine files
  tiltyard fidelity --again fidelity/results             # repeat only the simulated runs of results kept there
  tiltyard fidelity --page fidelity/results              # print docs/fidelity.md from the results kept there

The exit code is 0 however large the errors are: they are the result.")]
pub struct Args {
    /// Only this setting of the set; may be given more than once.
    #[arg(long = "setting", value_name = "NAME", value_delimiter = ',', value_parser = listed)]
    settings: Vec<String>,
    /// Only this workload of the set, or a workload file of your own; may be given more than once. Metrics are per app: tasks
    /// that name none are measured as one.
    #[arg(
        short,
        long = "workload",
        value_name = "NAME|FILE",
        value_delimiter = ',',
        value_parser = listed
    )]
    workloads: Vec<String>,
    /// Schedulers, instead of those of the set: NAME for both machines, or SIMULATED=REAL ("default": the kernel's own).
    #[arg(
        short,
        long = "scheduler",
        value_name = "NAME[=REAL]",
        value_delimiter = ',',
        value_parser = listed,
        conflicts_with = "settings"
    )]
    schedulers: Vec<String>,
    /// With --scheduler: number of CPUs of the guest, instead of the machines of the set.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "schedulers", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// With --scheduler: kernel version, instead of those of the set.
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "6.18",
        requires = "schedulers"
    )]
    kernel: String,
    /// Write SETTING.json (results) and SETTING.toml (the machine as measured) to this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Repeat only the simulated runs; the kernels' metrics and the measured machines are those in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "schedulers")]
    again: Option<PathBuf>,
    /// Do not run anything; print the page for the results in this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["settings", "workloads", "again", "out", "format"])]
    page: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let shipped = Shipped::read()?;
    if let Some(results) = &args.page {
        return super::print(&shipped.page(results)?);
    }
    let known = shipped.set.settings.iter();
    let names: Vec<String> = known.map(|setting| setting.name.clone()).collect();
    check("--setting", &args.settings, &names)?;
    let workloads = chosen_workloads(args, &shipped)?;
    if let Some(out) = &args.out {
        fs::create_dir_all(out).map_err(|e| Failure::io(Code::Other, out, "make", &e))?;
    }
    let is_chosen = |name: &String| args.settings.is_empty() || args.settings.contains(name);
    let mut all = Vec::new();
    if let Some(folder) = &args.again {
        let kept = shipped.kept(folder)?;
        let has = |name: &&String| kept.iter().any(|k| k.results.setting.name == **name);
        if let Some(name) = args.settings.iter().find(|name| !has(name)) {
            let line = format!("{}: no results of setting {name}", folder.display());
            return Err(Failure::new(Code::Input, line));
        }
        for kept in kept {
            if is_chosen(&kept.results.setting.name) {
                let steps = Steps::new();
                let file = |name: &str| of_name(&workloads, name);
                let kept = fidelity::again(&shipped.set, &kept, &file, &steps)?;
                drop(steps);
                all.push(show(args, kept)?);
            }
        }
    } else {
        for setting in settings(args, &shipped) {
            if is_chosen(&setting.name) {
                let steps = Steps::new();
                let kept = fidelity::measure(&shipped.set, &setting, &workloads, &steps)?;
                drop(steps);
                all.push(show(args, kept)?);
            }
        }
    }
    match args.format {
        Format::Table => Ok(()),
        Format::Json => super::print(&format!("{:#}\n", serde_json::json!(all))),
    }
}

fn settings(args: &Args, shipped: &Shipped) -> Vec<Setting> {
    match args.schedulers.is_empty() {
        true => shipped.set.settings.clone(),
        false => {
            let pairs = args.schedulers.iter().map(|name| pair(name)).collect();
            vec![Setting::of_cpus(args.cpus, &args.kernel, pairs)]
        }
    }
}

/// The files of the workloads that were named, all of the set if none was.
fn chosen_workloads(args: &Args, shipped: &Shipped) -> Result<Vec<PathBuf>, Failure> {
    let (own, named): (Vec<String>, Vec<String>) =
        args.workloads.iter().cloned().partition(|w| is_file(w));
    check("--workload", &named, &shipped.workloads)?;
    let is_chosen = |name: &&String| args.workloads.is_empty() || named.contains(name);
    let chosen = shipped.workloads.iter().filter(is_chosen);
    let mut files: Vec<PathBuf> = chosen.map(|name| shipped.workload(name)).collect();
    for file in &own {
        // A guest has the file at the same place, but not this folder.
        let path = fs::canonicalize(file);
        let path = path.map_err(|e| Failure::io(Code::Input, Path::new(file), "find", &e))?;
        let workload = workloads::load(&path.display().to_string())?;
        let remedy = "the file needs \"global\": { \"duration\": SECONDS }";
        workloads::require_own_end(file, &workload, remedy)?;
        files.push(path);
    }
    Ok(files)
}

fn of_name(files: &[PathBuf], name: &str) -> Option<PathBuf> {
    let is_it = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem == name);
    files.iter().find(is_it).cloned()
}

/// Writes a setting's results to the folder that was named, and prints them.
fn show(args: &Args, kept: SettingResults) -> Result<Results, Failure> {
    if let Some(out) = &args.out {
        kept.write(out)?;
    }
    if let Format::Table = args.format {
        super::print(&tables(&kept.results))?;
    }
    Ok(kept.results)
}

/// `ule`, or `cfs_kernel49=default`. The "=" of a tunable follows a colon.
fn pair(argument: &str) -> (String, String) {
    match argument.rsplit_once('=') {
        Some((simulated, real))
            if !simulated.contains(':') && !simulated.is_empty() && !real.is_empty() =>
        {
            (simulated.to_owned(), real.to_owned())
        }
        _ => (argument.to_owned(), argument.to_owned()),
    }
}

/// Whether `-w` means the user's own file, not a workload of the set.
fn is_file(workload: &str) -> bool {
    workload.contains('/') || (workload.ends_with(".json") && Path::new(workload).is_file())
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

fn tables(results: &Results) -> String {
    let (near, all) = results.score();
    let mut page = format!(
        "{}: {} (Linux {}, {})\n{near} of {all} metrics are within tolerance\n",
        results.setting.name, results.setting.about, results.kernel_release, results.accel
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
                match (row.within, row.starts) {
                    (Some(true), _) => String::new(),
                    (Some(false), Some([least, most])) => {
                        format!("off; other starts: {} to {}", number(least), number(most))
                    }
                    (Some(false), None) => "off".to_owned(),
                    (None, _) => "not judged".to_owned(),
                },
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
