// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard reproduce`: what papers claim, judged one by one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tiltyard_claims::page::{self, Kept};
use tiltyard_claims::{Experiment, Outcome, Tier, Verdict, scoreboard};
use tiltyard_report::html;

use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::reproduce::{self, Account, Cache, Judged, Simulated, report};
use crate::{data, terminal};

/// Check what papers claim about schedulers, claim by claim, in the simulated machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard reproduce atc18
      Every claim of \"The Battle of the Schedulers\" that has an experiment, and which have none.
  tiltyard reproduce --tier headline
      Those that must hold for a paper to be right.
  tiltyard reproduce 'atc18.fig1*' --report fig1.html
      Some of them, with the figures of their experiments.
  tiltyard reproduce atc18.fig1.completion-ratio
      One, with its statement, its place and its check.
  tiltyard reproduce 'atc18.ule.*' --instead ule=ule:interact_thresh=60
      What would turn if ULE's threshold were 60.

A claim is judged by its check on the medians over the seeds: reproduced or not-reproduced; without a
check, or when a run of it fails, it is not-run. Runs are kept: what was stopped goes on, what is
repeated is done at once. The exit code tells whether everything could be judged, not how.")]
pub struct Args {
    /// Claims (ids, globs), sources, sections, or experiments; none: all.
    #[arg(value_name = "ID|GLOB|SOURCE")]
    claims: Vec<String>,
    /// Only claims of this tier.
    #[arg(long, value_name = "TIER", value_parser = tier)]
    tier: Option<Tier>,
    /// Seeds 1 to N for each run.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the verdicts and the figures of their experiments: one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Run another scheduler in the place of one: NAME=SCHEDULER, as `run -s` takes it.
    #[arg(long, value_name = "NAME=SCHEDULER", value_parser = instead)]
    instead: Vec<(String, String)>,
    /// The folder of experiment files [default: the shipped ones].
    #[arg(long, value_name = "DIR")]
    experiments: Option<PathBuf>,
    /// Halve and double each number of the workloads that somebody invented, and tell which verdicts turn.
    #[arg(long, conflicts_with = "report")]
    sensitivity: bool,
    /// Print docs/claims.md, or `scoreboard` of it, from the results in a folder (sim.json, kernel.json, sensitivity.json).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["report", "sensitivity", "format"])]
    page: Option<PathBuf>,
    /// With --page: only the table of counts by section.
    #[arg(long, requires = "page")]
    scoreboard: bool,
    /// Do every run, whatever is known.
    #[arg(long)]
    no_cache: bool,
    /// Runs at the same time [default: one a CPU of this machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// An array with an object for each claim.
    Json,
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
        _ => Err("write NAME=SCHEDULER, for instance ule=ule:interact_thresh=60".to_owned()),
    }
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let folder = match &args.experiments {
        Some(folder) => folder.clone(),
        None => data::folder()?.join("experiments"),
    };
    let experiments = reproduce::load(&folder)?;
    if let Some(results) = &args.page {
        return super::print(&kept_page(&experiments, results, args.scoreboard)?);
    }
    let ids = reproduce::select(&experiments, &args.claims, args.tier)?;
    let report = args.report.as_deref().map(Output::create).transpose()?;
    let begun = Instant::now();
    let plans = reproduce::plan(&experiments, &ids, args.report.is_some());
    let arena = Simulated::prepare(&plans, args.instead.clone())?;
    let cache = Cache::open(!args.no_cache);
    let threads = args.jobs.map_or(0, usize::from); // 0: rayon asks the machine
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|e| {
        let line = format!("--jobs: cannot start threads: {e}");
        Failure::new(Code::Environment, line)
    })?;
    let seeds = u64::from(args.seeds);
    let (judged, account) = pool.install(|| reproduce::judge_all(&plans, seeds, &arena, &cache));
    if args.sensitivity {
        let before: Vec<Vec<Verdict>> = judged.into_iter().map(|j| j.verdicts).collect();
        let variations =
            pool.install(|| reproduce::sensitivity(&plans, &before, seeds, &args.instead, &cache))?;
        return match args.format {
            Format::Json => super::print(&format!("{:#}\n", serde_json::json!(variations))),
            Format::Table => super::print(&scoreboard::variations(&variations, terminal::width())),
        };
    }
    for line in cache.complaints().iter().chain(&account.failures) {
        eprintln!("tiltyard: {line}");
    }
    if let Some(file) = report {
        let findings = report::findings(&judged, seeds, repeat_line(args));
        file.fill(html::render_findings(&findings).as_bytes())?;
    }
    let verdicts: Vec<&Verdict> = judged.iter().flat_map(|j| &j.verdicts).collect();
    match args.format {
        Format::Json => super::print(&format!("{:#}\n", serde_json::json!(verdicts)))?,
        Format::Table => {
            let wall_s = begun.elapsed().as_secs_f64();
            let mut page = table(&verdicts, &judged, &account, wall_s);
            if let Some(path) = &args.report {
                page += &format!("Report  {}\n", path.display());
            }
            super::print(&page)?;
        }
    }
    match broken(&verdicts) {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

/// The command that makes the report again.
fn repeat_line(args: &Args) -> String {
    let mut words = vec!["tiltyard".to_owned(), "reproduce".to_owned()];
    words.extend(args.claims.iter().cloned());
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    if let Some(tier) = args.tier {
        add("--tier", tier.name().to_owned());
    }
    add("--seeds", args.seeds.to_string());
    for (name, scheduler) in &args.instead {
        add("--instead", format!("{name}={scheduler}"));
    }
    if let Some(folder) = &args.experiments {
        add("--experiments", folder.display().to_string());
    }
    add("--report", "FILE.html".to_owned());
    terminal::shell_line(&words)
}

/// The page, from what is kept.
fn kept_page(experiments: &[Experiment], folder: &Path, short: bool) -> Result<String, Failure> {
    fn read<T: serde::de::DeserializeOwned>(path: PathBuf) -> Result<Vec<T>, Failure> {
        if !path.exists() {
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
        sensitivity: read(folder.join("sensitivity.json"))?,
    };
    if kept.sim.is_empty() {
        let line = format!(
            "{}: no sim.json there; write it with --format json",
            folder.display()
        );
        return Err(Failure::new(Code::Input, line));
    }
    Ok(match short {
        true => page::scoreboard(&kept),
        false => page::page(experiments, &kept),
    })
}

/// The claims that could not be judged though they have a check.
fn broken(verdicts: &[&Verdict]) -> Option<Failure> {
    let broken: Vec<&&Verdict> = verdicts.iter().filter(|v| v.broken).collect();
    let first = broken.first()?;
    let line = format!(
        "{} of {} claims could not be judged, {} among them: {}",
        broken.len(),
        verdicts.len(),
        first.id,
        first.reason.as_deref().unwrap_or_default(),
    );
    Some(Failure::new(Code::Other, line))
}

fn table(verdicts: &[&Verdict], judged: &[Judged], account: &Account, wall_s: f64) -> String {
    let mut page = match verdicts {
        [one] => {
            let claim = judged
                .iter()
                .flat_map(|j| &j.experiment.claims)
                .find(|c| c.id == one.id);
            claim.map_or(String::new(), |c| scoreboard::detail(c, one))
        }
        all => scoreboard::table(all, terminal::width()),
    };
    let count = |outcome| verdicts.iter().filter(|v| v.verdict == outcome).count();
    page += &format!(
        "\n{} claims: {} reproduced, {} not reproduced, {} not run ({} runs done, {} known, {wall_s:.1} s)\n",
        verdicts.len(),
        count(Outcome::Reproduced),
        count(Outcome::NotReproduced),
        count(Outcome::NotRun),
        account.done,
        account.known,
    );
    page
}
