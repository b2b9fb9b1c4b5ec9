// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard campaign`: workloads x machines x schedulers x seeds, and who wins what.

use std::path::{Path, PathBuf};
use std::time::Instant;

use tiltyard_report::{html, standings};
use tiltyard_runner::campaign::{
    self, Account, Campaign, Discipline, How, Named, Outcomes, Plan, Repeat, Shard, Summed,
};
use tiltyard_runner::output::{self, Folder, Output};
use tiltyard_runner::reproduce::Cache;
use tiltyard_runner::source::Source;
use tiltyard_runner::temporary;
use tiltyard_runner::{Error, duration, machines, schedulers, shell, workloads};
use tiltyard_workload::Workload;

use super::list::Format;
use crate::failure::{self, Code, Failure};
use crate::flags::{RunFlags, listed};
use crate::progress::{Bar, Steps};
use crate::{interrupt, terminal};

/// Cells without a result that an error names.
const NAMED: usize = 3;

/// Run a campaign: workloads on machines under schedulers, and who wins what.
///
/// A campaign file lists workloads, machines, schedulers and the metric that decides each workload, with its direction and
/// its reason. A scheduler wins if it beats all others: if the whole 95 % interval of the paired differences (same seed) lies
/// outside the tie range. A scheduler that fails (is ejected, starves a task, does not finish) cannot win; its failure is
/// reported as a result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard campaign mine.toml
      Run a campaign file. A stopped campaign continues; repeating a finished one needs no new runs.
  tiltyard campaign mine.toml --report mine.html
      One page with a small chart for each workload and machine.
  tiltyard campaign league --with ./my.bpf.c -w desktop,build
      Your scheduler among those of the league, in two of its workloads.
  tiltyard campaign mine.toml --shard 3/16 --results out
      Part 3 of 16, for a batch system. Each result is a file in the folder out, named by the hash of what determines it.
  tiltyard campaign mine.toml --results out --no-runs
      The table, from the results of all parts.

docs/reference/campaign-files.md explains the file. A scheduler that fails in a run is a result: the exit code is 0.")]
pub struct Args {
    /// A campaign file, or the name of a shipped campaign (tiltyard list campaigns).
    #[arg(value_name = "FILE.toml|NAME")]
    campaign: String,
    #[command(flatten)]
    flags: Flags,
}

/// What `campaign` and `league` share.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Only these workloads of the campaign, by their names in its tables; separated by commas.
    #[arg(short, long = "workload", value_name = "NAMES", value_delimiter = ',', value_parser = listed)]
    workloads: Vec<String>,
    /// Only these machines: names in the campaign, or what tiltyard run -m accepts (host: a simulation of this computer).
    #[arg(short, long = "machine", value_name = "NAMES|M", value_delimiter = ',', value_parser = listed)]
    machines: Vec<String>,
    /// Only these of its schedulers.
    #[arg(short, long = "scheduler", value_name = "NAMES", value_delimiter = ',', value_parser = listed)]
    schedulers: Vec<String>,
    /// Also these schedulers, as for tiltyard run -s.
    #[arg(long, value_name = "S", value_delimiter = ',', value_parser = listed)]
    with: Vec<String>,
    /// Do each run with seeds 1 to N [default: the campaign's; a winner usually needs at least 6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: Option<u32>,
    /// Do only part K of N of the runs, and keep their results: parts 1/2 and 2/2 together are all runs. Parts may run at
    /// the same time, on any machine that has the same program.
    #[arg(long, value_name = "K/N", conflicts_with_all = ["report", "no_runs", "no_cache", "figures"])]
    shard: Option<Shard>,
    /// Keep results in this folder, and look for them there [default: the user's cache]. Files of several folders may be
    /// copied together: each is named by the hash of all that determines it.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    results: Option<PathBuf>,
    /// Start no runs; use existing results. If any are missing, the command fails and names some of them.
    #[arg(long, conflicts_with = "no_cache")]
    no_runs: bool,
    /// Output format; CSV has a line for each scheduler in each contest.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write one HTML page that needs no network: a small chart for each workload and machine.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the charts as SVG files into this folder.
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Ignore cached results.
    #[arg(long)]
    no_cache: bool,
    /// Concurrent runs [default: one per CPU of this machine].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    jobs: Option<u16>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let words = ["tiltyard", "campaign", &args.campaign];
    run_file(&args.campaign, &args.flags, &words)
}

/// The campaign that `argument` names; `words` begin the command that repeats it.
pub fn run_file(argument: &str, flags: &Flags, words: &[&str]) -> Result<(), Failure> {
    let mut campaign = campaign::read(&campaign::path(argument)?)?;
    campaign.select(&flags.schedulers, &flags.machines, &flags.workloads)?;
    for argument in &flags.with {
        let choice = schedulers::choose(argument).map_err(of_with)?;
        if campaign.schedulers.iter().any(|s| s.argument == *argument) {
            let line = format!("--with {argument}: it is already in the campaign");
            return Err(Failure::usage(line));
        }
        let is_named = |name: &String| campaign.schedulers.iter().any(|s| s.name == *name);
        let name = match is_named(&choice.label) {
            true => argument.clone(),
            false => choice.label,
        };
        let named = Named::typed(name, choice.argument);
        campaign.schedulers.push(named);
    }
    if let Some(seeds) = flags.seeds {
        campaign.seeds = u64::from(seeds);
    }
    let mut show = Show::open(flags.format, &flags.report, &flags.figures)?;
    show.results = flags.results.as_deref();
    let cache = match &flags.results {
        Some(folder) if flags.no_runs => Cache::of_folder(folder)?,
        Some(folder) => Cache::in_folder(folder)?,
        None => Cache::open(!flags.no_cache),
    };
    let begun = Instant::now();
    let plan = plan(&campaign)?;
    let threads = flags.jobs.map_or(0, usize::from);
    if let Some(shard) = flags.shard {
        let (_, account) = run_cells(&plan, shard, threads, &cache)?;
        let page = part(&plan, shard, flags, &account);
        super::print(&page)?;
        return failed(&account);
    }
    let (outcomes, account) = match flags.no_runs {
        true => known(&plan, flags, &cache)?,
        false => run_cells(&plan, Shard::WHOLE, threads, &cache)?,
    };
    failed(&account)?;
    let summed = campaign::standings(&plan, &outcomes, &Words { flags, words })?;
    warn(&summed);
    let wall_s = begun.elapsed().as_secs_f64();
    show.publish(&campaign, &summed, &account, wall_s)
}

/// An error about a scheduler that --with named.
fn of_with(error: Error) -> Error {
    match error {
        Error::Argument { value, what, .. } => Error::Argument {
            of: "with",
            value,
            what,
        },
        error => error,
    }
}

/// Several workloads of `tiltyard run`: a campaign without a file, with each workload's default metric.
pub struct Several<'a> {
    pub runs: &'a RunFlags,
    pub workloads: Vec<String>,
    pub format: Format,
    pub report: &'a Option<PathBuf>,
    pub figures: &'a Option<PathBuf>,
}

/// Does the runs of all workloads.
pub fn run_several(several: &Several) -> Result<(), Failure> {
    let runs = several.runs;
    let choices = schedulers::choose_all(&runs.schedulers)?.into_iter();
    let entrants = choices.map(|choice| Named::typed(choice.label, choice.argument));
    let loaded = several.workloads.iter().map(|w| workloads::load(w));
    let loaded: Vec<Workload> = loaded.collect::<Result<_, _>>()?;
    let mut disciplines = Vec::new();
    for (at, (argument, workload)) in several.workloads.iter().zip(&loaded).enumerate() {
        if several.workloads[..at].contains(argument) {
            let line = format!("--workload: {argument} appears twice; name it once");
            return Err(Failure::usage(line));
        }
        if let Some(same) = loaded[..at].iter().position(|w| w == workload) {
            let (first, second) = (&several.workloads[same], argument);
            let line = format!("--workload: {first} and {second} are the same; name one of them");
            return Err(Failure::usage(line));
        }
        workloads::require_end(argument, workload, runs.duration)?;
        let is_alone = loaded.iter().filter(|w| w.name == workload.name).count() == 1;
        disciplines.push(Discipline {
            name: if is_alone { &workload.name } else { argument }.clone(),
            workload: argument.clone(),
            workload_span: None,
            about: workload.description.clone(),
            metric: None,
            own_metric: workload.metric.clone(),
            duration: runs.duration.map(duration::write),
            patch: Default::default(),
            starved_after_ns: None,
            machines: Vec::new(),
        });
    }
    let machine = machines::load(&runs.machine)?;
    let campaign = Campaign {
        title: format!("{} on {}", several.workloads.join(", "), machine.name),
        about: String::new(),
        seeds: u64::from(runs.seeds.unwrap_or(1)),
        schedulers: entrants.collect(),
        machines: vec![Named::typed(machine.name, runs.machine.clone())],
        disciplines,
        source: Source::default(),
    };
    let show = Show::open(several.format, several.report, several.figures)?;
    let (begun, cache) = (Instant::now(), Cache::open(true));
    let plan = plan(&campaign)?;
    let (outcomes, account) = run_cells(&plan, Shard::WHOLE, runs.threads(), &cache)?;
    failed(&account)?;
    let summed = campaign::standings(&plan, &outcomes, several)?;
    warn(&summed);
    show.publish(&campaign, &summed, &account, begun.elapsed().as_secs_f64())?;
    first_failure(&plan, &outcomes)
}

impl Repeat for Several<'_> {
    fn whole(&self) -> String {
        let runs = self.runs;
        let seeds = runs.seeds.map(|n| ["--seeds".to_owned(), n.to_string()]);
        let seeds: Vec<String> = seeds.into_iter().flatten().collect();
        runs.shell_line("run", &runs.schedulers, &seeds)
    }

    /// With one workload, `run` shows its metrics, not who wins.
    fn contest(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

fn warn(summed: &Summed) {
    for note in &summed.standings.notes {
        say!("tiltyard: warning: {note}");
    }
}

/// Runs that failed, a line each. Unlike in a campaign, they are the command's failure, as with one workload.
fn first_failure(plan: &Plan, outcomes: &Outcomes) -> Result<(), Failure> {
    let failures = campaign::failures(plan, outcomes);
    let Some((_, first, _)) = failures.first() else {
        return Ok(());
    };
    let code = match first {
        How::Exited => Code::Left,
        How::Stranded => Code::Stranded,
        How::Workload => Code::Workload,
        How::NotModelled => Code::NotModelled,
        How::Ejected | How::Crashed | How::Failed => Code::Scheduler,
    };
    let mut failure = Failure::new(code, "");
    failure.faults = failures
        .iter()
        .map(|(name, _, what)| failure::Fault {
            line: format!("{name}: {what}"),
            span: None,
        })
        .collect();
    Err(failure)
}

fn plan(campaign: &Campaign) -> Result<Plan<'_>, Failure> {
    let steps = Steps::new();
    let plan = Plan::of(campaign, &steps)?;
    drop(steps);
    for warning in plan.warnings() {
        say!("tiltyard: warning: {warning}");
    }
    Ok(plan)
}

fn run_cells(
    plan: &Plan,
    shard: Shard,
    threads: usize,
    cache: &Cache,
) -> Result<(Outcomes, Account), Failure> {
    if cache.keeps() {
        interrupt::results_are_kept();
    }
    let done = campaign::run_all(plan, shard, threads, cache, &Bar::new());
    for line in cache.complaints() {
        say!("tiltyard: {line}");
    }
    done.map_err(|error| match error {
        Error::Stopped(reason) if cache.keeps() => {
            let line = format!("{reason}; what was done is kept, and the same command continues");
            Failure::new(Code::Interrupted, line)
        }
        error => error.into(),
    })
}

/// All results, which must be known.
fn known(plan: &Plan, flags: &Flags, cache: &Cache) -> Result<(Outcomes, Account), Failure> {
    let (outcomes, missing) = campaign::known(plan, cache);
    for line in cache.complaints() {
        say!("tiltyard: {line}");
    }
    if missing.is_empty() {
        let account = Account {
            known: outcomes.len(),
            ..Account::default()
        };
        return Ok((outcomes, account));
    }
    let first: Vec<&str> = missing.iter().take(NAMED).map(String::as_str).collect();
    let place = match &flags.results {
        Some(folder) => format!("in {}", folder.display()),
        None => "in the cache".to_owned(),
    };
    let line = format!(
        "--no-runs: {} of {} results are not {place}: {}{}; do these parts, with this program and these files, or omit \
         --no-runs",
        missing.len(),
        missing.len() + outcomes.len(),
        first.join("; "),
        if missing.len() > NAMED { "; ..." } else { "" },
    );
    Err(Failure::new(Code::Other, line))
}

/// What a part did.
fn part(plan: &Plan, shard: Shard, flags: &Flags, account: &Account) -> String {
    let all = plan.cells(Shard::WHOLE).len();
    let runs = account.done + account.known + account.errors.len();
    let Shard { part, of } = shard;
    let place = match &flags.results {
        Some(folder) => folder.display().to_string(),
        None => "the cache".to_owned(),
    };
    match flags.format {
        Format::Table => format!(
            "Part {part} of {of}: {runs} of {all} runs, {} done now, {} reused; results are in {place}\n",
            account.done, account.known
        ),
        Format::Json => {
            let part = serde_json::json!({
                "part": part, "of": of, "runs": runs, "all": all, "done": account.done, "known": account.known,
            });
            format!("{part:#}\n")
        }
        Format::Csv => format!(
            "part,of,runs,all,done,known\n{part},{of},{runs},{all},{},{}\n",
            account.done, account.known
        ),
    }
}

/// Cells that have no result, which is nobody's failure but ours or the campaign's.
fn failed(account: &Account) -> Result<(), Failure> {
    for line in &account.errors {
        say!("tiltyard: {line}");
    }
    match account.errors.len() {
        0 => Ok(()),
        runs => {
            let all = runs + account.done + account.known;
            let line = format!("{runs} of {all} runs have no result, so nothing is compared");
            Err(Failure::new(Code::Other, line))
        }
    }
}

/// A campaign's command: its first words, and the flags. It gives the same standings in however many parts they are made.
struct Words<'a> {
    flags: &'a Flags,
    words: &'a [&'a str],
}

impl Words<'_> {
    fn of(&self, workloads: &[String], machines: &[String]) -> String {
        let mut words: Vec<String> = self.words.iter().map(|word| (*word).to_owned()).collect();
        let lists = [
            ("-w", workloads),
            ("-m", machines),
            ("-s", &self.flags.schedulers),
            ("--with", &self.flags.with),
        ];
        for (flag, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            words.extend([flag.to_owned(), list.join(",")]);
        }
        if let Some(seeds) = self.flags.seeds {
            words.extend(["--seeds".to_owned(), seeds.to_string()]);
        }
        shell::line(&words)
    }
}

impl Repeat for Words<'_> {
    fn whole(&self) -> String {
        self.of(&self.flags.workloads, &self.flags.machines)
    }

    fn contest(&self, workload: &str, machine: &str) -> Option<String> {
        Some(self.of(&[workload.to_owned()], &[machine.to_owned()]))
    }
}

/// Where standings go.
struct Show<'a> {
    format: Format,
    /// Opened before the runs, so that a missing folder shows at once.
    page: Option<Output>,
    report: &'a Option<PathBuf>,
    figures: &'a Option<PathBuf>,
    _folder: Option<Folder>,
    /// Where results are kept, if not in the cache. The page does not depend on it, the command that repeats this does.
    results: Option<&'a Path>,
}

impl<'a> Show<'a> {
    fn open(
        format: Format,
        report: &'a Option<PathBuf>,
        figures: &'a Option<PathBuf>,
    ) -> Result<Show<'a>, Failure> {
        Ok(Show {
            format,
            _folder: Folder::make(figures.as_deref())?,
            page: report.as_deref().map(Output::create).transpose()?,
            report,
            figures,
            results: None,
        })
    }

    fn publish(
        self,
        campaign: &Campaign,
        summed: &Summed,
        account: &Account,
        wall_s: f64,
    ) -> Result<(), Failure> {
        let of = &summed.standings;
        let moved = temporary::undisturbed();
        // If one cannot be written, the table is still shown.
        let page = match self.page {
            Some(file) => file.fill(html::render_standings(of).as_bytes()),
            None => Ok(()),
        };
        let figures = match self.figures {
            Some(dir) => output::write_all(dir, &html::standings_figures(of)),
            None => Ok(()),
        };
        drop(moved);
        let report = self.report.as_deref().filter(|_| page.is_ok());
        let dir = self.figures.as_deref().filter(|_| figures.is_ok());
        match self.format {
            Format::Json => super::print(&campaign::json(summed)),
            Format::Csv => super::print(&campaign::csv(summed)),
            Format::Table => {
                let mut text = headline(campaign, summed, account, wall_s);
                text += &standings::text(of, terminal::width());
                text += "\n";
                text += &super::written(&[("Report", report), ("Figures", dir)]);
                let results = self.results.map_or(String::new(), |dir| {
                    let dir = dir.display().to_string();
                    format!(" {}", shell::line(&["--results", dir.as_str()]))
                });
                text += &format!("Repeat  {}{results}\n", of.command);
                // If there are several contests, the report and --format json show the commands.
                if let [contest] = of.contests.as_slice() {
                    text += &format!("Runs    {}\n", contest.command);
                }
                super::print(&text)
            }
        }?;
        page.and(figures).map_err(Failure::from)
    }
}

/// What was run.
fn headline(campaign: &Campaign, summed: &Summed, account: &Account, wall_s: f64) -> String {
    let of = &summed.standings;
    let many = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    };
    format!(
        "{}\n{} x {} x {} x {}: {} done in {wall_s:.1} s, {} reused\n\n",
        campaign.title,
        many(of.disciplines.len(), "workload"),
        many(of.machines.len(), "machine"),
        many(of.schedulers.len(), "scheduler"),
        many(of.seeds as usize, "seed"),
        many(account.done, "run"),
        account.known,
    )
}
