// SPDX-License-Identifier: GPL-2.0-or-later
//! Who wins what: contests between schedulers, one for each workload and machine, and what they add up to.
//!
//! Nothing here knows how runs were done, and nothing says when or where: the same input gives the same bytes.

mod text;

use tiltyard_measure::ranking::{Behind, Decision, Order, Ranking, Tie};
use tiltyard_measure::{Better, Interval, Unit, units};

use crate::table::interval_text;

pub use text::text;

/// Everything that a page or a terminal shows.
pub struct Standings {
    pub title: String,
    /// Why this selection; may be empty.
    pub about: String,
    /// The command line that makes this again.
    pub command: String,
    /// Runs of each scheduler in each contest.
    pub seeds: u64,
    /// Schedulers in the order of their columns, each in a sentence.
    pub schedulers: Vec<Subject>,
    pub machines: Vec<Subject>,
    pub disciplines: Vec<Discipline>,
    /// By discipline, then by machine; a machine may lack some.
    pub contests: Vec<Contest>,
    /// Where metrics and ties are from, in a sentence.
    pub judged: String,
    /// What makes results worth less than they seem, a sentence each.
    pub notes: Vec<String>,
}

/// Something with a name.
pub struct Subject {
    pub name: String,
    pub about: String,
}

/// What is done, and by what it is judged.
pub struct Discipline {
    pub name: String,
    pub about: String,
    /// The metric, in words; `None`: no run has one.
    pub metric: Option<String>,
    pub unit: Unit,
    pub better: Better,
    /// The largest difference that is a tie.
    pub tie: Tie,
    /// Why this metric.
    pub reason: String,
    /// What counts as starvation, in words; empty: nothing does.
    pub starvation: String,
}

impl Discipline {
    /// "web latency p99, lower is better". A metric that no run has may have no direction.
    pub fn decided_by(&self) -> String {
        match (&self.metric, direction(self.better)) {
            (None, _) => "no metric".to_owned(),
            (Some(metric), "") => metric.clone(),
            (Some(metric), direction) => format!("{metric}, {direction}"),
        }
    }

    /// "up to 1 %" of the value; of shares, an amount is "up to 0.2 points".
    pub fn tie_text(&self) -> String {
        match self.tie {
            Tie::Part(part) => format!("up to {}", units::share(part)),
            Tie::Amount(amount) => format!(
                "up to {}{}",
                amount_text(self.unit, amount),
                noun(self.unit)
            ),
        }
    }
}

/// A workload on a machine.
pub struct Contest {
    /// Index into [`Standings::disciplines`].
    pub discipline: usize,
    /// Index into [`Standings::machines`].
    pub machine: usize,
    pub ranking: Ranking,
    /// One for each scheduler.
    pub entries: Vec<Entry>,
    /// The command line that repeats the contest alone, with its verdict; `None`: there is none.
    pub repeat: Option<String>,
    /// The command line of its runs alone.
    pub command: String,
}

/// What else is known of a scheduler's runs.
pub struct Entry {
    /// Why it does not compete.
    pub trouble: Option<Trouble>,
    /// The longest wait of a task of the workload in any run.
    pub longest_wait: Option<LongestWait>,
    /// Share of the machine's CPU time that scheduling took.
    pub overhead: Option<Interval>,
}

/// How long a task waited for a CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct LongestWait {
    pub ns: f64,
    /// The task's application.
    pub app: String,
    /// It still waited when the run ended.
    pub cut: bool,
}

impl LongestWait {
    /// "2.30 s", or "at least 2.30 s".
    pub fn text(&self) -> String {
        let least = if self.cut { "at least " } else { "" };
        format!("{least}{}", units::time(self.ns))
    }
}

/// Why a scheduler has no result.
pub struct Trouble {
    /// "ejected", "starved 2.3 s".
    pub short: String,
    /// Whether the scheduler did what it must not do; if not, the workload failed, or something is not modelled.
    pub is_schedulers: bool,
    /// With which seeds.
    pub seeds: Vec<u64>,
    /// With which of them it was worst.
    pub seed: u64,
    /// What happened with that seed.
    pub what: String,
}

impl Trouble {
    /// "with 2 of 6 seeds", "with seed 3 of 6", or, of a single run, nothing.
    pub fn extent(&self, of: &Standings) -> String {
        match (of.seeds, self.seeds.as_slice()) {
            (1, _) => String::new(),
            (all, [seed]) => format!("with seed {seed} of {all}"),
            (all, seeds) if seeds.len() as u64 == all => format!("with all {all} seeds"),
            (all, seeds) => format!("with {} of {all} seeds", seeds.len()),
        }
    }

    /// What happened, and with which seed if several have failed.
    pub fn account(&self) -> String {
        match self.seeds.len() {
            1 => self.what.clone(),
            _ => format!("seed {}: {}", self.seed, self.what),
        }
    }
}

/// A scheduler's results, added up.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Contests in which it beat all others.
    pub won: usize,
    /// Contests without a winner in which nobody beat it.
    pub shared: usize,
    /// Contests in which the best beat it.
    pub beaten: usize,
    /// Contests in which it failed.
    pub failed: usize,
    /// Contests that say nothing of it: too few seeds, no rival, or the workload failed.
    pub undecided: usize,
    /// Where it is furthest behind the best that beats it, as a quotient: index of the contest.
    pub worst: Option<usize>,
    /// The same as a difference, of contests without quotients.
    pub worst_by_difference: Option<usize>,
    /// Where one of its tasks waited longest.
    pub longest_wait: Option<usize>,
    /// Where it took the largest share of the machine.
    pub overhead: Option<usize>,
}

/// A count of a tally.
pub type Count = fn(&Tally) -> usize;

impl Tally {
    /// The counts that tables show, with their headers: undecided contests only where there are some.
    pub fn columns(tallies: &[Tally]) -> Vec<(&'static str, Count)> {
        let mut columns: Vec<(&'static str, Count)> = vec![
            ("wins", |t| t.won),
            ("shared", |t| t.shared),
            ("lost", |t| t.beaten),
            ("failed", |t| t.failed),
        ];
        if tallies.iter().any(|tally| tally.undecided > 0) {
            columns.push(("undecided", |t| t.undecided));
        }
        columns
    }
}

impl Standings {
    /// Of each scheduler.
    pub fn tallies(&self) -> Vec<Tally> {
        (0..self.schedulers.len()).map(|s| self.tally(s)).collect()
    }

    fn tally(&self, scheduler: usize) -> Tally {
        let mut tally = Tally::default();
        for contest in &self.contests {
            *match contest.place(scheduler) {
                Place::Won => &mut tally.won,
                Place::Shared => &mut tally.shared,
                Place::Beaten => &mut tally.beaten,
                Place::Failed => &mut tally.failed,
                Place::Undecided => &mut tally.undecided,
            } += 1;
        }
        let behind = |c: &Contest, by_quotient| {
            let counts = self.has_quotients(c) == by_quotient;
            let beaten = c.place(scheduler) == Place::Beaten;
            c.behind(scheduler).copied().filter(|_| counts && beaten)
        };
        let times = |c: &Contest| Some(behind(c, true)?.times?.median);
        let by = |c: &Contest| Some(behind(c, false)?.by.median);
        tally.worst = self.largest(times);
        tally.worst_by_difference = self.largest(by);
        tally.longest_wait = self.largest(|c| Some(c.entries[scheduler].longest_wait.as_ref()?.ns));
        tally.overhead = self.largest(|c| Some(c.entries[scheduler].overhead?.median));
        tally
    }

    /// The contest with the largest value.
    fn largest(&self, value: impl Fn(&Contest) -> Option<f64>) -> Option<usize> {
        let values = self.contests.iter().enumerate();
        let values = values.filter_map(|(at, contest)| Some((at, value(contest)?)));
        let largest = values.max_by(|(i, a), (j, b)| a.total_cmp(b).then(j.cmp(i)));
        largest.map(|(at, _)| at)
    }

    /// Schedulers by contests in which nobody beats them, then by wins, then by how rarely they failed.
    pub fn by_rank(&self, tallies: &[Tally]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..tallies.len()).collect();
        let rank = |at: &usize| {
            let tally = &tallies[*at];
            (
                tally.won + tally.shared,
                tally.won,
                usize::MAX - tally.failed,
            )
        };
        order.sort_by(|a, b| rank(b).cmp(&rank(a)).then(a.cmp(b)));
        order
    }

    /// In a few sentences: how much is decided, who wins most, and who never fails.
    pub fn overall(&self) -> String {
        let (tallies, all) = (self.tallies(), self.contests.len());
        let name = |at: usize| self.schedulers[at].name.as_str();
        let most = tallies.iter().map(|tally| tally.won).max().unwrap_or(0);
        let won: usize = tallies.iter().map(|tally| tally.won).sum();
        let with_most = (0..tallies.len()).filter(|at| tallies[*at].won == most);
        let with_most: Vec<&str> = with_most.map(name).collect();
        let leads = match (most, with_most.as_slice()) {
            (0, _) => "No scheduler wins a contest.".to_owned(),
            (_, [one]) if all == 1 => format!("{one} wins the only contest."),
            (_, [one]) if most == won => {
                format!("{one} wins {won} of {all} contests; no other scheduler wins any.")
            }
            (_, [one]) => {
                let have = have(won);
                format!("{won} of {all} contests {have} a winner; {one} wins the most: {most}.")
            }
            (_, several) => format!(
                "{won} of {all} contests {} a winner; {} win the most: {most} each.",
                have(won),
                several.join(", ")
            ),
        };
        let steady = (0..tallies.len()).filter(|at| tallies[*at].failed == 0);
        let steady: Vec<&str> = steady.map(name).collect();
        let steady = match steady.len() {
            0 => "Every scheduler fails in at least one contest.".to_owned(),
            n if n == tallies.len() => "No scheduler fails.".to_owned(),
            1 => format!("Only {} never fails.", steady[0]),
            _ => format!("Schedulers that never fail: {}.", steady.join(", ")),
        };
        format!("{leads} {steady} Counts depend on which workloads and machines were chosen.")
    }

    /// In how many contests each scheduler beats each other one.
    pub fn beats(&self) -> Vec<Vec<usize>> {
        let is = |c: &Contest, a: usize, b: usize| c.ranking.placed[a].against[b];
        let count = |a, b| {
            let won = |c: &&Contest| is(c, a, b) == Some(Order::Better);
            self.contests.iter().filter(won).count()
        };
        let all = 0..self.schedulers.len();
        all.clone()
            .map(|a| all.clone().map(|b| count(a, b)).collect())
            .collect()
    }

    /// "build on 2018".
    pub fn place(&self, contest: usize) -> String {
        let contest = &self.contests[contest];
        format!(
            "{} on {}",
            self.disciplines[contest.discipline].name, self.machines[contest.machine].name
        )
    }

    /// Whether distances from the best are quotients. Shares are themselves quotients: 2 % of frames lost are not twice as bad
    /// as 1 % if the others lose all of them. And nothing is a multiple of 0.
    pub fn has_quotients(&self, contest: &Contest) -> bool {
        let mut behind = contest
            .ranking
            .placed
            .iter()
            .filter_map(|p| p.behind.as_ref());
        let unit = self.disciplines[contest.discipline].unit;
        unit != Unit::Share && behind.all(|behind| behind.times.is_some())
    }

    /// "worse by a factor of 1.34 [1.30, 1.41]" or "worse by 3.1 points [2.0, 4.2]", whichever direction is better.
    pub fn distance(&self, contest: usize, behind: &Behind) -> String {
        let contest = &self.contests[contest];
        match behind.times.filter(|_| self.has_quotients(contest)) {
            Some(times) => {
                let ends = ends(&times, factor);
                format!("worse by a factor of {}{ends}", factor(times.median))
            }
            None => {
                let unit = self.disciplines[contest.discipline].unit;
                let write = |value: f64| amount_text(unit, value);
                let (by, ends) = (write(behind.by.median), ends(&behind.by, write));
                format!("worse by {by}{}{ends}", noun(unit))
            }
        }
    }

    /// The result of a contest in a few words.
    pub fn verdict(&self, contest: usize) -> String {
        let name = |who: usize| self.schedulers[who].name.as_str();
        match &self.contests[contest].ranking.decision {
            Decision::Winner { who, next, margin } => {
                let margin = self.distance(contest, margin);
                format!("{} wins; next {}: {margin}", name(*who), name(*next))
            }
            Decision::Shared { who, tie, clear } => {
                let names: Vec<&str> = who.iter().map(|who| name(*who)).collect();
                let why = if *tie { "tie" } else { "no winner" };
                let placed = &self.contests[contest].ranking.placed;
                let beaten =
                    (0..placed.len()).filter(|at| placed[*at].competes && !who.contains(at));
                let beaten: Vec<&str> = beaten.map(name).collect();
                let rest = match (clear, who.len()) {
                    (false, _) => String::new(),
                    (true, 2) => format!("; both beat {}", beaten.join(", ")),
                    (true, _) => format!("; each of them beats {}", beaten.join(", ")),
                };
                format!("{why}: {}{rest}", names.join(", "))
            }
            Decision::Alone { who } => format!("no contest: only {} has a result", name(*who)),
            Decision::TooFewRuns => "undecided: too few seeds".to_owned(),
            Decision::Nobody => "no scheduler has a result".to_owned(),
        }
    }

    /// How verdicts are made.
    pub fn rules(&self) -> Vec<String> {
        let coverage = tiltyard_measure::median_interval(&vec![0.0; self.seeds as usize]);
        let coverage = coverage.map_or(0.0, |i| f64::from(i.coverage_ppm) / 1e4);
        let decided = |c: &Contest| {
            matches!(
                c.ranking.decision,
                Decision::Winner { .. } | Decision::Shared { .. }
            )
        };
        let runs = match self.seeds {
            n if coverage < 95.0 => {
                let runs = match n {
                    1 => "Single runs have no intervals".to_owned(),
                    n => format!("{n} seeds give intervals of {coverage:.1} %"),
                };
                match self.contests.iter().any(decided) {
                    false => format!("{runs}: no winner can be named; add --seeds 6."),
                    true => format!(
                        "{runs}: only contests whose runs draw nothing at random are decided, because other seeds would give the \
                         same. For the others, add --seeds 6."
                    ),
                }
            }
            n => format!(
                "Medians over {n} seeds with their {coverage:.1} % interval. A scheduler beats another if the whole interval of \
                 their paired differences (same seed) lies outside the tie range; a winner beats all others. Of contests between two \
                 equals, at most {:.0} in 100 name one of them as the winner by chance.",
                100.0 - coverage
            ),
        };
        let failed = "A scheduler that fails with any seed, or lacks the metric, cannot win that contest; the others compete without \
                      it. If the workload itself fails, that counts against nobody.";
        vec![self.judged.clone(), runs, failed.to_owned()]
    }
}

/// What a scheduler got in a contest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Won,
    Shared,
    Beaten,
    Failed,
    Undecided,
}

impl Contest {
    pub fn place(&self, scheduler: usize) -> Place {
        if !self.ranking.placed[scheduler].competes {
            let trouble = self.entries[scheduler].trouble.as_ref();
            return match trouble.is_none_or(|trouble| trouble.is_schedulers) {
                true => Place::Failed,
                false => Place::Undecided,
            };
        }
        match &self.ranking.decision {
            Decision::Winner { who, .. } if *who == scheduler => Place::Won,
            Decision::Shared { who, .. } if who.contains(&scheduler) => Place::Shared,
            Decision::Winner { .. } | Decision::Shared { .. } => Place::Beaten,
            Decision::Alone { .. } | Decision::TooFewRuns | Decision::Nobody => Place::Undecided,
        }
    }

    pub fn behind(&self, scheduler: usize) -> Option<&Behind> {
        self.ranking.placed[scheduler].behind.as_ref()
    }
}

/// " [1.30, 1.41]"; nothing where all seeds agree, or where one seed has no say.
fn ends(interval: &Interval, write: impl Fn(f64) -> String) -> String {
    let (low, high) = (write(interval.low), write(interval.high));
    match interval.coverage_ppm == 0 || low == high {
        true => String::new(),
        false => format!(" [{low}, {high}]"),
    }
}

/// "+3.1 points": a difference with its sign.
pub fn difference(unit: Unit, value: f64) -> String {
    let text = amount_text(unit, value) + noun(unit);
    match value {
        0.0 => "0".to_owned(),
        below if below < 0.0 => text,
        _ => format!("+{text}"),
    }
}

/// A difference between two values; of shares in points: [`noun`].
fn amount_text(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Share => format!("{:.1}", value * 100.0),
        unit => unit.write(value),
    }
}

fn noun(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => " points",
        _ => "",
    }
}

/// "1 of 24 contests has", "2 of 24 contests have".
pub fn have(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

/// A quotient, with three digits.
fn factor(times: f64) -> String {
    match times {
        near if near < 9.995 => format!("{near:.2}"),
        _ => units::plain(times),
    }
}

/// The direction in words.
pub fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
        Better::Neither => "",
    }
}

/// What a scheduler's column shows of a contest: its value, or why it has none. `*`: the winner, `=`: shares the lead.
pub fn value_text(of: &Standings, contest: &Contest, scheduler: usize) -> String {
    let entry = &contest.entries[scheduler];
    let unit = of.disciplines[contest.discipline].unit;
    let value = contest.ranking.placed[scheduler].value.as_ref();
    if let Some(trouble) = &entry.trouble {
        return trouble.short.clone();
    }
    let value = value.map_or("none".to_owned(), |value| interval_text(unit, value));
    match contest.place(scheduler) {
        Place::Won => format!("{value} *"),
        Place::Shared => format!("{value} ="),
        _ => value,
    }
}

/// Where a scheduler fails, and where it is furthest behind the best that beats it; empty if neither.
pub fn worst(of: &Standings, scheduler: usize, tally: &Tally) -> String {
    let one = |contest: usize| {
        let behind = of.contests[contest].behind(scheduler)?;
        let distance = of.distance(contest, behind);
        Some(format!("{distance} ({})", of.place(contest)))
    };
    let parts = [tally.worst, tally.worst_by_difference];
    let parts = parts.into_iter().flatten().filter_map(one);
    let failed = (tally.failed > 0).then(|| match tally.failed {
        1 => "fails in 1 contest".to_owned(),
        n => format!("fails in {n} contests"),
    });
    failed
        .into_iter()
        .chain(parts)
        .collect::<Vec<_>>()
        .join(", ")
}
