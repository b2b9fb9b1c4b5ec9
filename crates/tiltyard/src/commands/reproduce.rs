// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard reproduce`: published claims, judged one by one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tiltyard_claims::mutation::{Mutation, Mutations};
use tiltyard_claims::page::{self, Kept};
use tiltyard_claims::parameter::Parameter;
use tiltyard_claims::{Experiment, Tier, Verdict, scoreboard};
use tiltyard_report::html;
use tiltyard_runner::grid::in_pool;
use tiltyard_runner::output::{self, Folder, Output};
use tiltyard_runner::reproduce::{
    self, Cache, ExactGuest, Instead, Simulated, findings, mutations, trials,
};
use tiltyard_runner::{data, shell};

use super::TableOrJson as Format;
use crate::failure::{Code, Failure};
use crate::progress::Bar;
use crate::progress::Steps;
use crate::verdicts::{self, Results};
use crate::{interrupt, terminal};

/// The fewest for which the range of the values is a 95 % interval of the median.
const SEEDS: u32 = 6;
const SEEDS_IN_KERNEL: u32 = 1;
/// For runs with a scheduler replaced.
const SEEDS_OF_TRIALS: u32 = 3;
/// A rule that is broken is broken with every seed.
const SEEDS_OF_MUTATIONS: u32 = 1;
/// There are hundreds of variations, each with all the runs that it affects.
const SEEDS_OF_SENSITIVITY: u32 = 1;
const KERNEL: &str = "6.18";

/// Check what papers claim about schedulers, claim by claim, in the simulated machine and in a real kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard reproduce atc18
      Every claim of \"The Battle of the Schedulers\" that has an experiment, and a list of those that have none.
  tiltyard reproduce --tier headline
      The main claims of each source.
  tiltyard reproduce 'atc18.fig1*' --report fig1.html
      Some of them, with the figures of their experiments.
  tiltyard reproduce atc18.fig1.completion-ratio
      One, with its statement, its place and its check.
  tiltyard reproduce --arena both --vm
      Those that one CPU can decide in a real kernel, too: real threads in a guest, verdicts side by side.
  tiltyard reproduce 'atc18.ule.*' --instead ule=ule:interact_thresh=60
      Which verdicts would change if ULE's threshold were 60.

A claim is judged by its check on the medians over the seeds: reproduced or not-reproduced. It is not-run \
if no run can decide it, or if a run that it needs failed. Results of runs are cached: an interrupted command continues, \
and a repeated one starts no runs. \
The exit code shows whether everything could be judged, not the verdicts.")]
pub struct Args {
    /// Claims (ids, globs), sources, sections, or experiments; none: all.
    #[arg(value_name = "ID|GLOB|SOURCE")]
    claims: Vec<String>,
    /// Only claims of this tier.
    #[arg(long, value_name = "TIER", value_parser = tier)]
    tier: Option<Tier>,
    /// Where to evaluate claims.
    #[arg(long, value_enum, default_value_t = ArenaChoice::Sim)]
    arena: ArenaChoice,
    /// The kernel runs in a virtual machine that Tiltyard boots: emulated CPUs whose clock counts instructions.
    /// One CPU is enough for most claims; on several, only claims that depend on decisions and counts are judged.
    #[arg(long)]
    vm: bool,
    /// Kernel of the virtual machine: a version, or a bzImage with its configuration beside it.
    #[arg(
        long,
        value_name = "PATH|VERSION",
        default_value = KERNEL,
        requires = "vm"
    )]
    kernel: String,
    /// Seeds 1 to N for each run [default: 6, the fewest that give a 95 % interval; in a kernel, where runs take minutes, 1; --specificity, --presets: 3; --mutations, --sensitivity: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the verdicts and the figures of their experiments to one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the figures as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Use another scheduler or machine in place of NAME: NAME=OTHER, with OTHER as for `run -s` or `run -m`.
    #[arg(long, value_name = "NAME=OTHER", value_parser = instead)]
    instead: Vec<(String, String)>,
    /// Change values of a workload: WORKLOAD=JSON, as for `run --patch`. It also replaces what the experiment itself changes.
    #[arg(long, value_name = "WORKLOAD=JSON", value_parser = patch)]
    patch: Vec<(String, String)>,
    /// The folder of experiment files [default: the shipped ones].
    #[arg(long, value_name = "DIR")]
    experiments: Option<PathBuf>,
    /// Change each number of workloads, machines and presets that no source fixes, and list the verdicts that change.
    #[arg(long, conflicts_with_all = ["report", "figures"])]
    sensitivity: bool,
    /// Evaluate each claim with other schedulers in place of its own: does its check distinguish them?
    #[arg(long, conflicts_with_all = ["report", "figures", "instead", "patch", "sensitivity"])]
    specificity: bool,
    /// Evaluate the claims that are not reproduced with each preset of their scheduler: with which do they hold?
    #[arg(long, conflicts_with_all = ["report", "figures", "instead", "patch", "sensitivity", "specificity"])]
    presets: bool,
    /// Break a scheduler's rules one at a time (experiments/mutations), and list the claims that detect it:
    /// SCHEDULER.MUTATION or SCHEDULER.RULE, globs; default: all. Uses the claims that mutations name, or those that
    /// are given.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, default_missing_value = "*",
        conflicts_with_all = ["report", "figures", "instead", "patch", "sensitivity", "specificity", "presets"])]
    mutations: Option<String>,
    /// Print docs/claims.md from the results in a folder such as experiments/results.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["report", "figures", "sensitivity", "specificity", "presets", "mutations", "format"])]
    page: Option<PathBuf>,
    /// With --page: only the totals by source.
    #[arg(long, requires = "page")]
    scoreboard: bool,
    /// Ignore cached results.
    #[arg(long)]
    no_cache: bool,
    /// Concurrent runs [default: one per CPU of this machine; one guest].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ArenaChoice {
    /// The simulated machine.
    Sim,
    /// A real kernel.
    Kernel,
    Both,
}

fn tier(text: &str) -> Result<Tier, String> {
    let known = Tier::ALL.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, tier)| *tier)
        .ok_or_else(|| "write headline, core or detail".to_owned())
}

fn instead(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, scheduler)) if !name.is_empty() && !scheduler.is_empty() => {
            Ok((name.to_owned(), scheduler.to_owned()))
        }
        _ => Err("write NAME=OTHER, for instance ule=ule:interact_thresh=60".to_owned()),
    }
}

fn patch(text: &str) -> Result<(String, String), String> {
    let (workload, patch) = text.split_once('=').ok_or("write WORKLOAD=JSON")?;
    Ok((workload.to_owned(), patch.to_owned()))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let folder = match &args.experiments {
        Some(folder) => folder.clone(),
        None => data::folder()?.join("experiments"),
    };
    let experiments = reproduce::load(&folder)?;
    if let Some(results) = &args.page {
        let fitted = reproduce::load_fitted(&folder, &experiments)?;
        let mutations = mutations::load(&folder, &experiments)?;
        let kept = kept_results(mutations, results)?;
        return super::print(&match args.scoreboard {
            true => page::totals(&experiments, &kept),
            false => page::page(&experiments, &fitted, &kept),
        });
    }
    check(args)?;
    let ids = chosen_claims(args, &experiments)?;
    let _figures = Folder::make(args.figures.as_deref())?;
    let report = args.report.as_deref().map(Output::create).transpose()?;
    let begun = Instant::now();
    let cache = Cache::open(!args.no_cache);
    if cache.keeps() {
        interrupt::results_are_kept();
    }
    if args.sensitivity || args.specificity || args.presets || args.mutations.is_some() {
        let result = try_changes(args, &folder, &experiments, ids, &cache);
        complain(&cache);
        return result;
    }
    let seeds = u64::from(args.seeds.unwrap_or(SEEDS));
    let simulated = match args.arena {
        ArenaChoice::Kernel => None,
        _ => Some(simulate(args, &experiments, &ids, &cache, seeds)?),
    };
    let real = match args.arena {
        ArenaChoice::Sim => None,
        _ => Some(in_kernel(args, &experiments, &ids, &cache)?),
    };
    complain(&cache);
    for line in simulated
        .iter()
        .chain(&real)
        .flat_map(|r| &r.account.failures)
    {
        say!("tiltyard: {line}");
    }
    let mut outputs = String::new();
    if let Some(results) = simulated.as_ref().filter(|_| draws(args)) {
        let findings = findings::findings(&results.judged, seeds, repeat_line(args), &inputs(args));
        if let Some(dir) = &args.figures {
            outputs += &draw(dir, &html::findings_figures(&findings))?;
        }
        if let Some(file) = report {
            file.fill(html::render_findings(&findings).as_bytes())?;
        }
    }
    super::print(&match args.format {
        Format::Json => format!("{:#}\n", verdicts::json(simulated.as_ref(), real.as_ref())),
        Format::Table => {
            let wall_s = begun.elapsed().as_secs_f64();
            let mut page = match replacements(args) {
                none if none.is_empty() => String::new(),
                some => format!(
                    "Changed:{some}\nThese verdicts are about the changed runs, not about the source.\n\n"
                ),
            };
            page += &verdicts::page(simulated.as_ref(), real.as_ref(), wall_s);
            page + &outputs + &super::written(&[("Report", args.report.as_deref())])
        }
    })?;
    let all = simulated.iter().chain(&real);
    Ok(reproduce::all_judged(all.flat_map(Results::verdicts))?)
}

/// `--mutations o1.*`, without an equals sign, asks for claims of that name.
fn chosen_claims(args: &Args, experiments: &[Experiment]) -> Result<BTreeSet<String>, Failure> {
    let chosen = reproduce::select(experiments, &args.claims, args.tier);
    chosen.map_err(|error| match &args.mutations {
        Some(_) => Failure::usage(format!(
            "{error}; if a mutation is meant, write --mutations=GLOB"
        )),
        None => error.into(),
    })
}

/// Stored results that are damaged, or could not be stored.
fn complain(cache: &Cache) {
    for line in cache.complaints() {
        say!("tiltyard: {line}");
    }
}

/// Claims with something changed: which verdicts change.
fn try_changes(
    args: &Args,
    folder: &Path,
    experiments: &[Experiment],
    ids: BTreeSet<String>,
    cache: &Cache,
) -> Result<(), Failure> {
    if args.sensitivity {
        let fitted = reproduce::load_fitted(folder, experiments)?;
        return sensitivity(args, experiments, &fitted.parameters, &ids, cache);
    }
    let Some(pattern) = &args.mutations else {
        return trials(args, experiments, &ids, cache);
    };
    let mutations = mutations::load(folder, experiments)?;
    let chosen = mutations::select(&mutations, pattern)
        .map_err(|error| Failure::usage(format!("--mutations={error}")))?;
    let ids = match args.claims.is_empty() && args.tier.is_none() {
        // The others, mostly applications, take most of the time and detect few rules.
        true => mutations::named(&mutations),
        false => ids,
    };
    try_mutations(args, &chosen, experiments, &ids, cache)
}

/// Writes figures, by name, and returns a line that lists them.
fn draw(dir: &Path, figures: &[(String, String)]) -> Result<String, Failure> {
    if figures.is_empty() {
        return Ok("Figures none: the experiments of these claims define no figures\n".to_owned());
    }
    output::write_all(dir, figures)?;
    let names: Vec<String> = figures
        .iter()
        .map(|(name, _)| format!("{name}.svg"))
        .collect();
    Ok(format!("Figures {}: {}\n", dir.display(), names.join(", ")))
}

/// Options that cannot be combined.
fn check(args: &Args) -> Result<(), Failure> {
    let arena = match args.arena {
        ArenaChoice::Sim => return Ok(()),
        ArenaChoice::Kernel => "kernel",
        ArenaChoice::Both => "both",
    };
    if !args.vm {
        return Err(Failure::usage(format!(
            "--arena {arena}: add --vm: claims are judged in a guest whose instructions are counted, so that the \
             verdict is the same every time; the kernel that runs here is none (tiltyard kernel uses it)"
        )));
    }
    for (flag, given) in [
        ("--sensitivity", args.sensitivity),
        ("--specificity", args.specificity),
        ("--presets", args.presets),
        ("--mutations", args.mutations.is_some()),
        ("--report", args.report.is_some()),
        ("--figures", args.figures.is_some()),
    ] {
        if given {
            return Err(Failure::usage(format!(
                "{flag}: only of the simulated machine; leave --arena {arena} out"
            )));
        }
    }
    Ok(())
}

/// `work` in a pool of `threads`; 0: one per CPU.
fn pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    in_pool(threads, work).map_err(|error| Failure::from(error).within("--jobs"))
}

fn simulate<'a>(
    args: &Args,
    experiments: &'a [Experiment],
    ids: &BTreeSet<String>,
    cache: &Cache,
    seeds: u64,
) -> Result<Results<'a>, Failure> {
    let mut plans = reproduce::plan(experiments, ids, draws(args));
    others(args).apply(&mut plans)?;
    let arena = Simulated::prepare(&plans)?;
    let threads = args.jobs.map_or(0, usize::from);
    let (mut judged, account) = pool(threads, || {
        reproduce::judge_all(&plans, seeds, &arena, cache, &Bar::new())
    })?;
    for verdict in judged.iter_mut().flat_map(|j| &mut j.verdicts) {
        verdict.command += &inputs(args);
    }
    Ok(Results {
        judged,
        account,
        kernel_release: None,
    })
}

fn in_kernel<'a>(
    args: &Args,
    experiments: &'a [Experiment],
    ids: &BTreeSet<String>,
    cache: &Cache,
) -> Result<Results<'a>, Failure> {
    let mut plans = reproduce::plan_in_kernel(experiments, ids)?;
    others(args).apply(&mut plans)?;
    let arena = ExactGuest::prepare(&plans, &args.kernel, &Steps::new())?;
    let seeds = u64::from(args.seeds.unwrap_or(SEEDS_IN_KERNEL));
    let guests = args.jobs.map_or(1, usize::from);
    let (mut judged, account) = pool(guests, || {
        reproduce::judge_all(&plans, seeds, &arena, cache, &Bar::new())
    })?;
    for verdict in judged.iter_mut().flat_map(|j| &mut j.verdicts) {
        verdict.command += " --arena kernel --vm";
        if args.kernel != KERNEL {
            verdict.command += &format!(" --kernel {}", args.kernel);
        }
        verdict.command += &inputs(args);
    }
    Ok(Results {
        judged,
        account,
        kernel_release: arena.release().map(str::to_owned),
    })
}

fn sensitivity(
    args: &Args,
    experiments: &[Experiment],
    fitted: &[Parameter],
    ids: &BTreeSet<String>,
    cache: &Cache,
) -> Result<(), Failure> {
    let seeds = u64::from(args.seeds.unwrap_or(SEEDS_OF_SENSITIVITY));
    let before = simulate(args, experiments, ids, cache, seeds)?;
    reproduce::all_judged(before.verdicts())?;
    let before: Vec<Vec<Verdict>> = before.judged.into_iter().map(|j| j.verdicts).collect();
    let mut plans = reproduce::plan(experiments, ids, false);
    others(args).apply(&mut plans)?;
    let threads = args.jobs.map_or(0, usize::from);
    let variations = pool(threads, || {
        reproduce::sensitivity(&plans, &before, fitted, seeds, cache, &Bar::new())
    })??;
    super::print(&match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(variations)),
        Format::Table => scoreboard::variations(&variations, terminal::width()),
    })
}

/// Claims with something else in their scheduler's place: other schedulers, or its presets.
fn trials(
    args: &Args,
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    cache: &Cache,
) -> Result<(), Failure> {
    let seeds = u64::from(args.seeds.unwrap_or(SEEDS_OF_TRIALS));
    let judge = match args.specificity {
        true => trials::specificity,
        false => trials::presets,
    };
    let threads = args.jobs.map_or(0, usize::from);
    let trials = pool(threads, || {
        judge(experiments, ids, seeds, cache, &Bar::new())
    })??;
    super::print(&match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(trials)),
        Format::Table => scoreboard::trials(&trials, terminal::width()),
    })
}

fn try_mutations(
    args: &Args,
    chosen: &[(&Mutations, &Mutation)],
    experiments: &[Experiment],
    ids: &BTreeSet<String>,
    cache: &Cache,
) -> Result<(), Failure> {
    let seeds = u64::from(args.seeds.unwrap_or(SEEDS_OF_MUTATIONS));
    let threads = args.jobs.map_or(0, usize::from);
    let tried = pool(threads, || {
        mutations::try_all(chosen, experiments, ids, seeds, cache, &Bar::new())
    })??;
    super::print(&match args.format {
        Format::Json => format!("{:#}\n", serde_json::json!(tried)),
        Format::Table => scoreboard::mutations(chosen, &tried, terminal::width()),
    })
}

/// What runs in place of what the experiments name.
fn others(args: &Args) -> Instead {
    Instead {
        names: args.instead.clone(),
        patches: args.patch.clone(),
    }
}

/// Whether the figures of experiments are requested.
fn draws(args: &Args) -> bool {
    args.report.is_some() || args.figures.is_some()
}

/// The command that reproduces the report.
fn repeat_line(args: &Args) -> String {
    let mut words = vec!["tiltyard".to_owned(), "reproduce".to_owned()];
    words.extend(args.claims.iter().cloned());
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if let Some(tier) = args.tier {
        add("--tier", tier.name().to_owned());
    }
    add("--report", "FILE.html".to_owned());
    shell::line(&words) + &inputs(args)
}

/// The options that say what is judged, with a blank before them, for the command that repeats a part.
fn inputs(args: &Args) -> String {
    let seeds = args.seeds.iter();
    let seeds = seeds.map(|seeds| ("--seeds", seeds.to_string()));
    let folder = args.experiments.iter();
    let folder = folder.map(|folder| ("--experiments", folder.display().to_string()));
    written(seeds.chain(folder)) + &replacements(args)
}

/// The options that make runs others than those of the experiments.
fn replacements(args: &Args) -> String {
    let instead = args.instead.iter();
    let instead = instead.map(|(name, other)| ("--instead", format!("{name}={other}")));
    let patches = args.patch.iter();
    let patches = patches.map(|(workload, patch)| ("--patch", format!("{workload}={patch}")));
    written(instead.chain(patches))
}

fn written<'a>(options: impl Iterator<Item = (&'a str, String)>) -> String {
    options
        .map(|(flag, value)| format!(" {}", shell::line(&[flag, &value])))
        .collect()
}

/// The kept results of a folder.
fn kept_results(rules: Vec<Mutations>, folder: &Path) -> Result<Kept, Failure> {
    fn read<T: serde::de::DeserializeOwned>(path: PathBuf) -> Result<Vec<T>, Failure> {
        if !path.exists() {
            say!(
                "tiltyard: {}: not there, so the page lacks what it would show",
                data::shown(&path)
            );
            return Ok(Vec::new());
        }
        serde_json::from_str(&data::read(&path)?).map_err(|e| {
            let line = format!(
                "{}: not a result of tiltyard reproduce: {e}",
                data::shown(&path)
            );
            Failure::new(Code::Input, line)
        })
    }
    let kept = Kept {
        sim: read(folder.join("sim.json"))?,
        kernel: read(folder.join("kernel.json"))?,
        own_scheduler: read(folder.join("kernel-6.1.json"))?,
        sensitivity: read(folder.join("sensitivity.json"))?,
        specificity: read(folder.join("specificity.json"))?,
        presets: read(folder.join("presets.json"))?,
        mutations: read(folder.join("mutations.json"))?,
        rules,
    };
    if kept.sim.is_empty() {
        let line = format!(
            "{}: no sim.json there; write it with --format json",
            folder.display()
        );
        return Err(Failure::new(Code::Input, line));
    }
    Ok(kept)
}
