// SPDX-License-Identifier: GPL-2.0-or-later
//! The sections of the page about who wins what.

use tiltyard_measure::ranking::Decision;
use tiltyard_measure::units;

use super::markup::{Table, escape};
use super::panels::panel;
use crate::standings::{Contest, Standings, Subject, Tally, have, value_text, worst};
use crate::svg::COLORS;

/// A square in the scheduler's colour; a disc from the ninth on, when colours repeat.
fn key(scheduler: usize) -> String {
    let shape = if scheduler < COLORS.len() {
        ""
    } else {
        " disc"
    };
    format!("<i class=\"key k{}{shape}\"></i>", scheduler % COLORS.len())
}

fn named(of: &Standings, scheduler: usize) -> String {
    // Not to be broken between the key and its name.
    format!(
        "<span class=\"whole\">{}{}</span>",
        key(scheduler),
        escape(&of.schedulers[scheduler].name)
    )
}

fn section(id: &str, title: &str, lead: &str, body_html: &str) -> String {
    format!(
        "<section id=\"{id}\"><h2>{}</h2>\n<p class=\"lead\">{}</p>\n{body_html}</section>\n",
        escape(title),
        escape(lead)
    )
}

/// The contest of a discipline on a machine.
fn contest_at(of: &Standings, discipline: usize, machine: usize) -> Option<usize> {
    let is = |c: &Contest| c.discipline == discipline && c.machine == machine;
    of.contests.iter().position(is)
}

/// All contests in one table: the winner of each, or those that share the lead.
pub fn glance(of: &Standings) -> String {
    let head = |machine: &Subject| format!("<th>{}</th>", escape(&machine.name));
    let heads: String = of.machines.iter().map(head).collect();
    let mut rows = String::new();
    for (at, discipline) in of.disciplines.iter().enumerate() {
        let cells = (0..of.machines.len()).map(|machine| match contest_at(of, at, machine) {
            Some(contest) => glance_cell(of, contest),
            None => "<td></td>".to_owned(),
        });
        rows += &format!(
            "<tr><th scope=\"row\">{}<span class=\"dim\">{}</span></th>{}</tr>\n",
            escape(&discipline.name),
            escape(&discipline.decided_by()),
            cells.collect::<String>()
        );
    }
    let table = format!(
        "<div class=\"scroll\"><table class=\"glance\"><thead><tr><th></th>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    );
    let won = |c: &&Contest| matches!(c.ranking.decision, Decision::Winner { .. });
    let (won, all) = (of.contests.iter().filter(won).count(), of.contests.len());
    let lead = format!(
        "{won} of {all} contests {} a winner: a scheduler that beats every other one. If there is none, the schedulers named share \
         the lead. Below a winner: the next scheduler, and how much worse it is.",
        have(won)
    );
    section("glance", "Who wins what", &lead, &table)
}

fn glance_cell(of: &Standings, at: usize) -> String {
    let contest = &of.contests[at];
    let failed = no_results(contest);
    let list = |who: &[usize]| {
        let names: Vec<String> = who.iter().map(|who| named(of, *who)).collect();
        names.join(" ")
    };
    let (class, who, what) = match &contest.ranking.decision {
        Decision::Winner { who, next, margin } => (
            "won",
            named(of, *who),
            format!("{}: {}", of.schedulers[*next].name, of.distance(at, margin)),
        ),
        Decision::Shared { who, tie, clear } => {
            let what = if *tie { "tie" } else { "no winner" };
            let text = match (clear, who.len()) {
                (true, 2) => format!("{what}; both beat the rest"),
                (true, n) => format!("{what}; each of these {n} beats the rest"),
                (false, n) if n == of.schedulers.len() => {
                    format!("{what}; the best by median beats nobody")
                }
                (false, _) => what.to_owned(),
            };
            ("shared", list(who), text)
        }
        Decision::Alone { who } => (
            "shared",
            named(of, *who),
            "no contest: no other scheduler has a result".to_owned(),
        ),
        Decision::TooFewRuns => (
            "shared",
            String::new(),
            "undecided: too few seeds".to_owned(),
        ),
        Decision::Nobody => (
            "shared",
            String::new(),
            "no scheduler has a result".to_owned(),
        ),
    };
    format!(
        "<td class=\"{class}\"><a href=\"#contest-{at}\"><b>{who}</b><span class=\"dim\">{}</span>{failed}</a></td>",
        escape(&what)
    )
}

/// How many schedulers have no result, and whose failure that is.
fn no_results(contest: &Contest) -> String {
    let troubles = || contest.entries.iter().filter_map(|e| e.trouble.as_ref());
    let span = |count: usize, words: &str| match count {
        0 => String::new(),
        n => format!(
            "<span class=\"failed\">\u{2717} {}</span>",
            words.replace('#', &n.to_string())
        ),
    };
    let own = troubles().filter(|trouble| trouble.is_schedulers).count();
    span(own, "# failed") + &span(troubles().count() - own, "# without a result")
}

/// The standings: counts of each scheduler.
pub fn league(of: &Standings) -> String {
    let tallies = of.tallies();
    let shown = Tally::columns(&tallies);
    let all = of.contests.len().max(1);
    let mut rows = String::new();
    for at in of.by_rank(&tallies) {
        let tally = &tallies[at];
        let parts = [
            ("won", "won", tally.won),
            ("shared", "shared", tally.shared),
            ("beaten", "lost", tally.beaten),
            ("failed", "failed", tally.failed),
            ("undecided", "undecided", tally.undecided),
        ];
        let bar = parts
            .iter()
            .filter(|(.., n)| *n > 0)
            .map(|(class, word, n)| {
                let percent = *n as f64 / all as f64 * 100.0;
                format!(
                    "<i class=\"{class}\" style=\"width:{percent:.2}%\" title=\"{word}: {n}\"></i>"
                )
            });
        let counts = shown.iter().map(|(_, count)| count(tally));
        let counts = counts.map(|n| format!("<td class=\"n\">{n}</td>"));
        rows += &format!(
            "<tr><td class=\"group\">{}</td><td><span class=\"tally\">{}</span></td>{}<td class=\"dim\">{}</td></tr>\n",
            named(of, at),
            bar.collect::<String>(),
            counts.collect::<String>(),
            escape(&of.schedulers[at].about)
        );
    }
    let header = shown.iter().map(|(name, _)| name);
    let header: String = header
        .map(|name| format!("<th class=\"n\">{name}</th>"))
        .collect();
    let table = format!(
        "<div class=\"scroll\"><table class=\"league\"><thead><tr><th>scheduler</th><th></th>{header}<th></th></tr></thead><tbody>\n\
         {rows}</tbody></table></div>\n"
    );
    let undecided = match tallies.iter().any(|tally| tally.undecided > 0) {
        true => " Undecided: too few seeds, no rival with a result, or the workload itself failed.",
        false => "",
    };
    let lead = format!(
        "{} The columns count the contests that a scheduler won, shared the lead in, lost to the best, and failed in. \
         Schedulers are ordered by contests won or shared, then by wins, then by fewest failures.{undecided}",
        of.overall()
    );
    section("league", "Standings", &lead, &table)
}

/// Small multiples: a row for each workload, a column for each machine.
pub fn contests(of: &Standings) -> String {
    let mut body = String::new();
    for (at, discipline) in of.disciplines.iter().enumerate() {
        body += &format!(
            "<div class=\"discipline\"><h3>{}</h3><p class=\"note\">{} <b>{}.</b> {}</p>\n<div class=\"panels\">\n",
            escape(&discipline.name),
            escape(&discipline.about),
            escape(&discipline.decided_by()),
            escape(&discipline.reason)
        );
        for machine in 0..of.machines.len() {
            let Some(contest) = contest_at(of, at, machine) else {
                continue;
            };
            body += &format!(
                "<figure id=\"contest-{contest}\"><h4>{}</h4>{}<figcaption>{}</figcaption>{}</figure>\n",
                escape(&of.machines[machine].name),
                panel(of, contest),
                escape(&of.verdict(contest)),
                commands(&of.contests[contest])
            );
        }
        body += "</div></div>\n";
    }
    let lead = "How far each scheduler is from the one with the best median, whose dot is at the left edge: 2\u{d7} means twice the \
                time, or half the rate. For percentages, and where a value is 0, the axis shows differences. Each distance is the \
                median over pairs of runs with the same seed, so it can differ from the ratio of the medians on the right. Lines are \
                intervals; the shaded strip is the tie range; arrows mark what lies beyond the axis. Where possible, all charts of a \
                workload have the same axis. On the right: medians \u{b1} the larger side of their interval, or [its ends].";
    let notes = of
        .notes
        .iter()
        .map(|note| format!("<p class=\"note\">{}</p>\n", escape(note)));
    let notes: String = notes.collect();
    section(
        "contests",
        "Contests",
        lead,
        &(notes + &body + &all_values(of)),
    )
}

/// How to repeat a contest, folded.
fn commands(contest: &Contest) -> String {
    let line = |what: &str, command: &str| {
        format!(
            "<p class=\"note\">{what}: <code>{}</code></p>",
            escape(command)
        )
    };
    let repeat = contest.repeat.as_ref();
    let repeat = repeat.map_or(String::new(), |command| line("The contest", command));
    let runs = line("Its runs, without a verdict", &contest.command);
    format!("<details><summary>Repeat this contest</summary>{repeat}{runs}</details>")
}

/// All values as a table, folded.
fn all_values(of: &Standings) -> String {
    let names = of.schedulers.iter().map(|s| s.name.as_str());
    let header: Vec<&str> = ["workload", "machine"].into_iter().chain(names).collect();
    let mut table = Table::new(2, &header);
    for contest in &of.contests {
        let mut row = vec![
            of.disciplines[contest.discipline].name.clone(),
            of.machines[contest.machine].name.clone(),
        ];
        row.extend((0..of.schedulers.len()).map(|s| value_text(of, contest, s)));
        table.row(&row);
    }
    format!(
        "<details><summary>Table and command</summary>\n{}<pre>{}</pre></details>\n",
        table.finish(),
        escape(&of.command)
    )
}

/// Who beats whom, how often.
pub fn pairs(of: &Standings) -> String {
    if of.schedulers.len() < 2 {
        return String::new();
    }
    let beats = of.beats();
    let all = of.contests.len().max(1);
    let names = of
        .schedulers
        .iter()
        .map(|s| format!("<th class=\"n\">{}</th>", escape(&s.name)));
    let mut rows = String::new();
    for (a, row) in beats.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(b, count)| match a == b {
            true => "<td></td>".to_owned(),
            false => {
                let part = *count as f64 / all as f64;
                format!("<td class=\"n shade\" style=\"--p:{part:.3}\">{count}</td>")
            }
        });
        rows += &format!(
            "<tr><td class=\"group\">{}</td>{}</tr>\n",
            named(of, a),
            cells.collect::<String>()
        );
    }
    let table = format!(
        "<div class=\"scroll\"><table class=\"pairs\"><thead><tr><th>beats \u{2192}</th>{}</tr></thead><tbody>\n{rows}</tbody></table></div>\n",
        names.collect::<String>()
    );
    let lead = format!(
        "In how many of {} contests the scheduler of the row beats that of the column. Ties, differences that may be chance, \
         and failures count for nobody.",
        of.contests.len()
    );
    section("pairs", "Head to head", &lead, &table)
}

/// What each scheduler costs where it suits least.
pub fn worst_cases(of: &Standings) -> String {
    let header = [
        "scheduler",
        "furthest from the best",
        "longest wait of a task",
        "largest overhead",
    ];
    let mut table = Table::new(4, &header);
    for (at, tally) in of.tallies().iter().enumerate() {
        let wait = tally.longest_wait.and_then(|contest| {
            let wait = of.contests[contest].entries[at].longest_wait.as_ref()?;
            Some(format!(
                "{} ({}), {}",
                wait.text(),
                wait.app,
                of.place(contest)
            ))
        });
        let overhead = tally.overhead.and_then(|contest| {
            let overhead = of.contests[contest].entries[at].overhead?;
            Some(format!(
                "{}, {}",
                units::share(overhead.median),
                of.place(contest)
            ))
        });
        let cells = [
            worst(of, at, tally),
            wait.unwrap_or_default(),
            overhead.unwrap_or_default(),
        ];
        let cells = cells.iter().map(|text| escape(text));
        let row: Vec<String> = std::iter::once(named(of, at)).chain(cells).collect();
        table.row_html(&row);
    }
    let lead = "What a scheduler costs on the workload and machine that suit it least. Failures are below. Overhead: the share of the \
                machine's CPU time that scheduling itself took.";
    section("worst", "Worst cases", lead, &table.finish())
}

/// What failed, and how.
pub fn failures(of: &Standings) -> String {
    let mut table = Table::new(4, &["scheduler", "contest", "how", "what happened"]);
    let mut count = 0;
    for (at, contest) in of.contests.iter().enumerate() {
        for (who, entry) in contest.entries.iter().enumerate() {
            let Some(trouble) = &entry.trouble else {
                continue;
            };
            count += 1;
            table.row_html(&[
                named(of, who),
                escape(&of.place(at)),
                escape(&format!("{} {}", trouble.short, trouble.extent(of))),
                escape(&trouble.account()),
            ]);
        }
    }
    let (lead, body) = match count {
        0 => ("No scheduler failed in any run.", String::new()),
        _ => (
            "A scheduler that is ejected, starves a task, or does not finish the work cannot win that contest. If the workload itself fails \
             (workload failed), that counts against nobody.",
            table.finish(),
        ),
    };
    section("failures", "Failures", lead, &body)
}

/// How verdicts are made, and what was run.
pub fn rules(of: &Standings) -> String {
    let rules = of.rules();
    let rules: String = rules
        .iter()
        .map(|rule| format!("<p>{}</p>\n", escape(rule)))
        .collect();
    let mut disciplines = Table::new(
        5,
        &["workload", "decided by", "tie", "starved if", "what it is"],
    );
    for d in &of.disciplines {
        disciplines.row(&[
            d.name.clone(),
            d.decided_by(),
            d.tie_text(),
            d.starvation.clone(),
            d.about.clone(),
        ]);
    }
    let mut machines = Table::new(2, &["machine", "what it is"]);
    for machine in &of.machines {
        machines.row(&[&machine.name, &machine.about]);
    }
    let body = format!("{rules}{}{}", disciplines.finish(), machines.finish());
    section(
        "rules",
        "Rules",
        "How winners are found, and what was run.",
        &body,
    )
}
