// SPDX-License-Identifier: GPL-2.0-or-later
//! Which metric is meant: of a difference to explain, of a contest to decide.

use tiltyard_measure::{AppClasses, Better, Figure, KERNEL, Row, possible_names, rows};
use tiltyard_model::Machine;
use tiltyard_workload::{TaskSpec, Workload};

use crate::{Error, nearest};

/// Refuses a name that no run of this workload on this machine can have, before there are runs.
pub(crate) fn require_possible(
    typed: &str,
    workload: &Workload,
    machine: &Machine,
) -> Result<(), Error> {
    let own = workload.apps.iter().enumerate();
    let mut apps: Vec<AppClasses> = own
        .map(|(i, app)| (app.name.as_str(), workload.classes_of(i)))
        .collect();
    if !machine.noise.is_empty() {
        apps.push((KERNEL, Vec::new()));
    }
    let names = possible_names(&apps);
    let ending = format!(".{typed}");
    let mut meant = names
        .iter()
        .filter(|n| *n == typed || n.ends_with(&ending))
        .peekable();
    if meant.peek().is_none() {
        return Err(wrong(typed, unknown(typed, &names)));
    }
    match meant
        .map(|name| never_done(workload, name))
        .collect::<Option<Vec<_>>>()
    {
        Some(all) => Err(wrong(typed, all[0].clone())),
        None => Ok(()),
    }
}

/// Why an app has no completion time, if one of its tasks never ends.
fn never_done(workload: &Workload, metric: &str) -> Option<String> {
    let app = metric.strip_suffix(".completion_us")?;
    let is_own = |task: &&TaskSpec| {
        !task.daemon && task.instances > 0 && workload.apps[task.app].name == app
    };
    let task = workload
        .tasks
        .iter()
        .filter(is_own)
        .find(|task| task.is_endless())?;
    let name = &task.name;
    Some(format!(
        "{app} never completes: task {name} repeats until the run ends"
    ))
}

/// The same of the metric that the workload's file names, if it names one.
pub fn require_own_possible(workload: &Workload, machine: &Machine) -> Result<(), Error> {
    let Some(own) = &workload.metric else {
        return Ok(());
    };
    require_possible(own, workload, machine).map_err(|error| match error {
        Error::Argument { what, .. } => wrong_own(own, &what).within(&workload.name),
        error => error,
    })
}

/// The row of the metric that a workload's file names; `None` if no run has it. Error if the name is ambiguous or the metric
/// has no better direction.
pub(crate) fn own_row(own: &str, rows: &[Row]) -> Result<Option<Row>, Error> {
    match named(own, rows).as_slice() {
        [] => Ok(None),
        [row] if row.better == Better::Neither => Err(wrong_own(
            own,
            "neither higher nor lower is better, so it cannot decide; choose a metric that has a direction",
        )),
        [row] => Ok(Some((*row).clone())),
        several => Err(wrong_own(own, &ambiguous(several))),
    }
}

fn wrong_own(own: &str, what: &str) -> Error {
    Error::input(format!("tiltyard.metric = \"{own}\": {what}"))
}

/// The metric that `typed` names, whole (`apache.throughput_per_s`) or, if no other ends like it, its last part; without
/// a name the default one, `own` if the workload has one. `figures`: those of both sides' runs, `labels` their schedulers.
pub(crate) fn choose(
    typed: Option<&str>,
    own: Option<&str>,
    figures: &[Vec<Vec<Figure>>],
    labels: &[&str; 2],
) -> Result<Row, Error> {
    let rows = rows(figures);
    let Some(typed) = typed else {
        return default(rows, own);
    };
    match named(typed, &rows).as_slice() {
        [] => {
            let what = format!("no run has it; {}", others(typed, &rows));
            Err(wrong(typed, what))
        }
        [row] => match row.cells.iter().position(Option::is_none) {
            Some(lacking) => {
                let what = format!(
                    "no run of {} has it{}; {}",
                    labels[lacking],
                    not_done(row),
                    others(typed, &rows)
                );
                Err(wrong(typed, what))
            }
            None => Ok((*row).clone()),
        },
        several => Err(wrong(typed, ambiguous(several))),
    }
}

/// The row of this name, or else all rows whose names end so.
pub(crate) fn named<'a>(typed: &str, rows: &'a [Row]) -> Vec<&'a Row> {
    let ending = format!(".{typed}");
    let exact = rows.iter().find(|row| row.name == typed);
    let ends = || rows.iter().filter(|row| row.name.ends_with(&ending));
    exact.map_or_else(|| ends().collect(), |row| vec![row])
}

/// What is wrong with a name that means several rows.
pub(crate) fn ambiguous(rows: &[&Row]) -> String {
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    format!("several metrics end like this; name {}", names.join(" or "))
}

pub(crate) fn wrong(metric: &str, what: String) -> Error {
    Error::argument("metric", metric, what)
}

/// Why a run may not have a metric.
pub(crate) fn not_done(row: &Row) -> &'static str {
    match row.absent() {
        "not done" => {
            ": the work was not done when the run ended, and a longer --duration may help"
        }
        _ => "",
    }
}

/// The workload's own metric, or else the default metric that every run has.
fn default(rows: Vec<Row>, own: Option<&str>) -> Result<Row, Error> {
    let is_whole = |row: &Row| row.cells.iter().all(Option::is_some);
    if let Some(own) = own {
        match own_row(own, &rows)? {
            Some(row) if is_whole(&row) => return Ok(row),
            // passed_over() says so.
            Some(_) => {}
            None => {
                let what = format!("no run has it; {}", others(own, &rows));
                return Err(wrong_own(own, &what));
            }
        }
    }
    let found = leading(&rows, is_whole).cloned();
    found.ok_or_else(|| {
        let line = "no metric of these runs says which scheduler is better; --metric names one";
        Error::Request(format!("{line}; {}", others("", &rows)))
    })
}

/// Says so if the default metric would be another one, which no run of one side has.
pub(crate) fn passed_over(
    chosen: &Row,
    own: Option<&str>,
    figures: &[Vec<Vec<Figure>>],
    labels: &[&str; 2],
) -> Option<String> {
    let rows = rows(figures);
    let usual = match own {
        Some(own) => own_row(own, &rows).ok()?,
        None => leading(&rows, |_| true).cloned(),
    };
    let usual = usual.filter(|row| row.name != chosen.name)?;
    let lacking = usual.cells.iter().position(Option::is_none)?;
    Some(format!(
        "{} would be the metric, but no run of {} has it{}. {} takes its place; --metric NAME explains another.",
        usual.name,
        labels[lacking],
        not_done(&usual),
        chosen.name
    ))
}

/// What the workload serves per second, or else how long it takes, or else the first row of `tiltyard run` of which
/// either direction is good; among the rows that are `usable`.
pub(crate) fn leading(rows: &[Row], usable: impl Fn(&Row) -> bool) -> Option<&Row> {
    let usable = |row: &&Row| row.headline && row.better != Better::Neither && usable(row);
    let ending = |end: &'static str| move |row: &&Row| usable(row) && row.name.ends_with(end);
    let found = rows.iter().find(ending(".throughput_per_s"));
    let found = found.or_else(|| rows.iter().find(ending(".completion_us")));
    found.or_else(|| rows.iter().find(usable))
}

fn unknown(typed: &str, names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let closest = nearest::closest(typed, &names, 3);
    format!("no such metric; the nearest are {}", closest.join(", "))
}

/// The way out: the nearest headlines that both sides have.
fn others(typed: &str, rows: &[Row]) -> String {
    let both = |row: &&Row| row.headline && row.cells.iter().all(Option::is_some);
    let names: Vec<&str> = rows.iter().filter(both).map(|r| r.name.as_str()).collect();
    let closest = nearest::closest(typed, &names, 3);
    format!("both have {}", closest.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_measure::Unit;

    fn figure(group: &str, name: &str, better: Better) -> Figure {
        Figure {
            group: group.to_owned(),
            name: name.to_owned(),
            metric: name.to_owned(),
            unit: Unit::TimeNs,
            better,
            headline: true,
            value: 1.0,
        }
    }

    /// One run each of two schedulers; the second finishes less.
    fn runs() -> Vec<Vec<Vec<Figure>>> {
        use Better::{Higher, Lower, Neither};
        let both = [
            figure("hog", "cpu_share_percent", Higher),
            figure("hog", "runtime_us", Neither),
            figure("make", "runtime_us", Neither),
        ];
        let done = figure("make", "completion_us", Lower);
        let first = both.iter().cloned().chain([done]).collect();
        vec![vec![first], vec![both.to_vec()]]
    }

    fn chosen(typed: Option<&str>, runs: &[Vec<Vec<Figure>>]) -> Result<String, String> {
        let row = choose(typed, None, runs, &["a", "b"]);
        row.map(|row| row.name).map_err(|error| error.to_string())
    }

    #[test]
    fn names_may_be_whole_or_a_unique_end() {
        let runs = runs();
        let name = |typed| chosen(Some(typed), &runs);
        assert_eq!(name("make.runtime_us").unwrap(), "make.runtime_us");
        assert_eq!(name("cpu_share_percent").unwrap(), "hog.cpu_share_percent");
        let several = name("runtime_us").unwrap_err();
        assert!(several.ends_with("name hog.runtime_us or make.runtime_us"));
        let absent = name("share").unwrap_err();
        assert!(absent.contains("no run has it; both have"), "{absent}");
    }

    #[test]
    fn what_no_run_can_have_is_known_before_the_first() {
        let text = r#"{ "tiltyard": { "apps": { "make": {} } }, "tasks": {
            "make": { "loop": 1, "run": 1, "tiltyard": { "app": "make", "done": "file" } } } }"#;
        let workload = tiltyard_workload::read(text, "f.json").unwrap();
        let check = |typed: &str, machine: &str| {
            let machine = crate::machines::load(machine).unwrap();
            require_possible(typed, &workload, &machine).map_err(|error| error.to_string())
        };
        for name in [
            "make.completion_us",
            "throughput_per_s",
            "machine.busy_percent",
        ] {
            assert_eq!(check(name, "opteron1"), Ok(()));
        }
        let error = check("make.throughput", "opteron1").unwrap_err();
        assert!(
            error.contains("nearest are make.throughput_per_s"),
            "{error}"
        );
        assert!(check("kernel.runtime_us", "opteron1").is_err(), "no noise");
        assert_eq!(check("kernel.runtime_us", "opteron32"), Ok(()));
    }

    #[test]
    fn what_repeats_for_ever_is_never_done() {
        let workload = |daemon: bool| {
            let text = format!(
                r#"{{ "global": {{ "duration": 1 }}, "tiltyard": {{ "apps": {{ "web": {{}} }} }}, "tasks": {{
                "a": {{ "loop": -1, "run": 1, "tiltyard": {{ "app": "web", "daemon": {daemon} }} }},
                "b": {{ "loop": 1, "run": 1, "tiltyard": {{ "app": "web" }} }} }} }}"#
            );
            tiltyard_workload::read(&text, "f.json").unwrap()
        };
        let machine = crate::machines::load("opteron1").unwrap();
        let check = |daemon| require_possible("completion_us", &workload(daemon), &machine);
        let error = check(false).unwrap_err().to_string();
        let expected = "web never completes: task a repeats until the run ends";
        assert!(error.contains(expected), "{error}");
        assert!(check(true).is_ok(), "nobody waits for a daemon");
    }

    #[test]
    fn a_workloads_own_metric_comes_first_if_both_sides_have_it() {
        let name = |own: &str, runs: &[Vec<Vec<Figure>>]| {
            let row = choose(None, Some(own), runs, &["a", "b"]).unwrap();
            (
                row.name.clone(),
                passed_over(&row, Some(own), runs, &["a", "b"]),
            )
        };
        let one = runs();
        let both = [one[0].clone(), one[0].clone()];
        let share = "hog.cpu_share_percent";
        assert_eq!(name("cpu_share_percent", &both), (share.to_owned(), None));
        let (taken, note) = name("make.completion_us", &one);
        assert_eq!(taken, share);
        assert!(note.unwrap().starts_with("make.completion_us would be"));
        for (own, what) in [
            ("make.runtime_us", "neither higher nor lower is better"),
            ("runtime_us", "name hog.runtime_us or make.runtime_us"),
            ("hog.completion_us", "no run has it"),
        ] {
            let error = choose(None, Some(own), &both, &["a", "b"]).unwrap_err();
            assert!(matches!(error, Error::Input(_)));
            let line = error.to_string();
            assert!(line.starts_with(&format!("tiltyard.metric = \"{own}\": ")));
            assert!(line.contains(what), "{line}");
        }
    }

    #[test]
    fn a_metric_of_one_side_is_refused_and_no_default() {
        let runs = runs();
        let default = choose(None, None, &runs, &["a", "b"]).unwrap();
        let note = passed_over(&default, None, &runs, &["a", "b"]).unwrap();
        assert!(
            note.starts_with("make.completion_us would be the metric, but no run of b has it"),
            "{note}"
        );
        assert!(
            note.contains(&format!(". {} takes its place", default.name)),
            "{note}"
        );
        let both = [runs[0].clone(), runs[0].clone()];
        let default = choose(None, None, &both, &["a", "b"]).unwrap();
        assert_eq!(passed_over(&default, None, &both, &["a", "b"]), None);
        let error = chosen(Some("completion_us"), &runs).unwrap_err();
        assert!(
            error.contains("no run of b has it: the work was not done"),
            "{error}"
        );
        assert_eq!(chosen(None, &runs).unwrap(), "hog.cpu_share_percent");
    }

    #[test]
    fn throughput_comes_before_completion_and_completion_before_the_rest() {
        let first = runs().swap_remove(0);
        let name = |run: &[Vec<Figure>]| chosen(None, &[run.to_vec(), run.to_vec()]).unwrap();
        assert_eq!(name(&first), "make.completion_us");
        let mut serving = first;
        serving[0].push(figure("web", "throughput_per_s", Better::Higher));
        assert_eq!(name(&serving), "web.throughput_per_s");
        let none = vec![vec![figure("hog", "runtime_us", Better::Neither)]];
        let error = chosen(None, &[none.clone(), none]).unwrap_err();
        assert!(error.contains("--metric names one"), "{error}");
    }
}
