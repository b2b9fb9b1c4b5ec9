// SPDX-License-Identifier: GPL-2.0-or-later
//! Lessons about schedulers: a file with texts, a run and questions becomes a page; its numbers come from runs.

use std::path::Path;

use serde::Deserialize;
use tiltyard_measure::{Figure, Recorder, Row, figures, rows};
use tiltyard_misspelt::toml_line;
use tiltyard_report::html;
use tiltyard_report::lesson::{Lesson, Of, Panel, Probe, Probes, Question, Shown};
use tiltyard_report::timeline::{Recorded, Timeline};

use crate::grouping::By;
use crate::simulation::{self, Experiment, Written};
use crate::{Error, Progress};
use crate::{
    data, duration, in_use, machines, metric, objects, schedulers, shell, window, workloads,
};

/// The quantity of a panel that is no probe: how many tasks wait for a CPU.
const WAITING: &str = "waiting";

/// Relative changes up to this are none.
const STAYS: f64 = 0.02;

/// docs/teaching/README.md explains the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// As errors name it.
    #[serde(skip)]
    name: String,
    title: String,
    rule: String,
    example: String,
    window: String,
    run: What,
    panel: Vec<PanelTable>,
    question: Vec<QuestionTable>,
}

/// What is run; the command has it in this order.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct What {
    workload: String,
    scheduler: String,
    machine: Option<String>,
    patch: Option<String>,
    duration: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelTable {
    probe: String,
    title: String,
    #[serde(default)]
    note: String,
    per_unit: Option<f64>,
    #[serde(default)]
    relative: bool,
    mark: Option<Mark>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    at: f64,
    label: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionTable {
    ask: String,
    change: [String; 2],
    metric: String,
    goes: Goes,
    answer: String,
}

/// What the answer says of the metric.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Goes {
    Up,
    Down,
    Stays,
}

/// The page of the lesson in `file`, with links to the pages of the other lessons in its folder.
pub fn page(file: &Path, progress: &dyn Progress) -> Result<String, Error> {
    let lesson = read(file)?;
    let (more, name) = (beside(file)?, lesson.name.clone());
    render(lesson, more, progress).map_err(|error| match error {
        Error::Stopped(_) => error,
        error => error.within(&name),
    })
}

fn render(
    lesson: File,
    more: Vec<(String, String)>,
    progress: &dyn Progress,
) -> Result<String, Error> {
    let before = run(&lesson, &lesson.run, progress)?;
    let mut questions = Vec::new();
    for asked in &lesson.question {
        let changed = lesson.run.changed(&asked.change).map_err(Error::input)?;
        let after = run(&lesson, &changed, progress)?;
        questions.push(question(asked, &before, after).map_err(Error::input)?);
    }
    let (shown, _) = before;
    Ok(html::render_lesson(&Lesson {
        title: lesson.title,
        rule: paragraphs(&lesson.rule),
        example: paragraphs(&lesson.example),
        shown,
        questions,
        more,
    }))
}

/// Lessons in the folder of `file`, in order: what each is about, the part of its title before a colon, and its page; that of
/// `file` itself is empty.
fn beside(file: &Path) -> Result<Vec<(String, String)>, Error> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut lessons = Vec::new();
    for name in data::names(folder, ".toml")? {
        let other = folder.join(format!("{name}.toml"));
        // Other files may be there.
        let Ok(lesson) = read(&other) else { continue };
        let about = lesson.title.split(':').next().unwrap_or_default();
        let own = other.file_name() == file.file_name();
        let page = if own {
            String::new()
        } else {
            format!("{name}.html")
        };
        lessons.push((about.to_owned(), page));
    }
    Ok(lessons)
}

fn read(file: &Path) -> Result<File, Error> {
    let text = data::read(file)?;
    in_use::is_read(file);
    let lesson = toml::from_str(&text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        let what = toml_line(&error);
        let file = data::shown(file);
        Error::input(format!(
            "{file}:{line}: {what}; docs/teaching/README.md explains all keys"
        ))
    })?;
    Ok(File {
        name: data::shown(file),
        ..lesson
    })
}

impl What {
    /// The command of which the page shows a run.
    fn command(&self) -> String {
        let mut words = vec![
            "tiltyard",
            "run",
            "-w",
            &self.workload,
            "-s",
            &self.scheduler,
        ];
        let options = [("-m", &self.machine), ("--patch", &self.patch)];
        for (flag, value) in options {
            words.extend(value.iter().flat_map(|value| [flag, value]));
        }
        words.extend(["--duration", &self.duration, "--by", "task"]);
        shell::line(&words)
    }

    /// The same with one number changed, as the command has it.
    fn changed(&self, [from, to]: &[String; 2]) -> Result<What, String> {
        let mut changed = self.clone();
        let scheduler = Some(&mut changed.scheduler);
        let machine = changed.machine.as_mut();
        let places = [scheduler, machine, changed.patch.as_mut()];
        let places = places.into_iter().flatten();
        let mut places: Vec<&mut String> = places.filter(|text| text.contains(from)).collect();
        match (places.as_mut_slice(), self.command().matches(from).count()) {
            ([place], 1) => **place = place.replace(from, to),
            (_, times) => {
                let command = self.command();
                let what = format!("change {from}: it is {times} times in \"{command}\"");
                return Err(format!(
                    "{what}; it must be there once, in -s, -m or --patch"
                ));
            }
        }
        Ok(changed)
    }
}

/// A run: what is drawn of it, and its metrics.
type Done = (Shown, Vec<Figure>);

fn run(lesson: &File, what: &What, progress: &dyn Progress) -> Result<Done, Error> {
    let patch = what.patch.as_deref().unwrap_or(workloads::UNCHANGED);
    let (workload, _) = workloads::load_changed(&what.workload, patch, &[])?;
    let machine = machines::load(what.machine.as_deref().unwrap_or(machines::DEFAULT))?;
    workloads::require_cpus(&what.workload, &workload, &machine)?;
    let wrong = |key: &str, value: &str, error: String| {
        Error::input(format!("{key} = \"{value}\": {error}"))
    };
    let duration_ns = duration::parse_ns(&what.duration)
        .map_err(|e| wrong("duration", &what.duration, e.to_string()))?;
    let range = window::parse(&lesson.window)
        .map_err(|e| wrong("window", &lesson.window, e.to_string()))?;
    let window = window::of(range, &workload, Some(duration_ns), 1);
    if window.from_ns >= duration_ns {
        let error = format!("the run ends before that, after {}", what.duration);
        return Err(wrong("window", &lesson.window, error));
    }
    let built = objects::native(&schedulers::choose(&what.scheduler)?, false)?;
    let experiment = Experiment {
        duration_ns: Some(duration_ns),
        ..Experiment::new(&machine, &workload)
    };
    let origin_ns = simulation::origin_ns(&workload);
    let timeline = Timeline::new(machine.nr_cpus(), origin_ns, window);
    let probes = Probes::new(origin_ns, window.from_ns, window.to_ns.unwrap_or(u64::MAX));
    let recorder = Recorder::new(simulation::recorded(&experiment));
    let mut view = By::Task.regroup(&workload, ((timeline, probes), recorder));
    let run = simulation::run(
        &experiment,
        &built,
        1,
        Written::default(),
        &mut view,
        progress,
    )?;
    let ((timeline, probes), recorder) = view.sink;
    let timeline = timeline.finish(run.outcome.end_ns);
    let probes = probes.finish();
    let panels = lesson.panel.iter();
    let panels = panels.map(|table| panel(table, &probes, &timeline));
    let shown = Shown {
        command: what.command(),
        panels: panels
            .collect::<Result<_, String>>()
            .map_err(Error::input)?,
        timeline,
    };
    let summary = simulation::summary(recorder, run.outcome.end_ns, &workload);
    Ok((shown, figures(&summary)))
}

fn panel(table: &PanelTable, probes: &[Probe], timeline: &Recorded) -> Result<Panel, String> {
    let probe = match table.probe.as_str() {
        WAITING => waiting(timeline),
        name => {
            let known = probes.iter().find(|probe| probe.name == name);
            let names = probes.iter().map(|probe| probe.name.as_str());
            let all: Vec<&str> = names.chain([WAITING]).collect();
            let all = all.join(", ");
            known
                .cloned()
                .ok_or_else(|| format!("probe {name}: the run has {all}"))?
        }
    };
    Ok(Panel {
        title: table.title.clone(),
        note: table.note.clone(),
        per_unit: table.per_unit.unwrap_or(1.0),
        relative: table.relative,
        mark: table
            .mark
            .as_ref()
            .map(|mark| (mark.at, mark.label.clone())),
        probe,
    })
}

/// How many tasks wait for a CPU, as if a probe reported it.
fn waiting(timeline: &Recorded) -> Probe {
    let mut changes: Vec<(u64, i64)> = vec![(timeline.from_ns, 0)];
    let mut wait = |from_ns: u64, to_ns: u64| {
        let from_ns = from_ns.max(timeline.from_ns);
        if from_ns < to_ns {
            changes.extend([(from_ns, 1), (to_ns, -1)]);
        }
    };
    let slices = &timeline.slices;
    let mut end_ns = timeline.from_ns;
    for i in 0..slices.len() {
        end_ns += slices.end_ns[i];
        let begin_ns = end_ns.saturating_sub(slices.length_ns[i]);
        wait(begin_ns.saturating_sub(slices.wait_ns[i]), begin_ns);
    }
    for still in &timeline.waiting {
        wait(still.since_ns, timeline.to_ns);
    }
    // Waits that go on when the window ends have no end here.
    changes.retain(|(at_ns, _)| *at_ns < timeline.to_ns);
    changes.sort_by_key(|(at_ns, _)| *at_ns);
    let (mut points, mut now): (Vec<(u64, i64)>, i64) = (Vec::new(), 0);
    for (at_ns, change) in changes {
        now += change;
        match points.last_mut() {
            Some(last) if last.0 == at_ns => last.1 = now,
            _ => points.push((at_ns, now)),
        }
    }
    points.dedup_by_key(|(_, value)| *value);
    Probe {
        name: WAITING.to_owned(),
        of: Of::Machine,
        series: [(0, points)].into(),
    }
}

fn question(asked: &QuestionTable, before: &Done, after: Done) -> Result<Question, String> {
    let all = rows(&[vec![before.1.clone()], vec![after.1.clone()]]);
    let row: Row = match metric::named(&asked.metric, &all).as_slice() {
        [row] => (*row).clone(),
        [] => return Err(format!("metric {}: no run has it", asked.metric)),
        several => {
            return Err(format!(
                "metric {}: {}",
                asked.metric,
                metric::ambiguous(several)
            ));
        }
    };
    let printed = [&before.1, &after.1].map(|run| {
        let of = |figure: &&Figure| format!("{}.{}", figure.group, figure.name) == row.name;
        run.iter().find(of).is_some_and(|figure| figure.headline)
    });
    let ([Some(first), Some(second)], [true, true]) = (row.cells.as_slice(), printed) else {
        let what = "tiltyard run does not print it for both commands";
        return Err(format!("metric {}: {what}", asked.metric));
    };
    let (first, second) = (first.median, second.median);
    let change = (second - first) / first.abs().max(f64::MIN_POSITIVE);
    let [first, second] = [first, second].map(|value| row.unit.write(value));
    let as_said = match asked.goes {
        Goes::Up => change > STAYS,
        Goes::Down => change < -STAYS,
        Goes::Stays => change.abs() <= STAYS,
    };
    if !as_said {
        let goes = match asked.goes {
            Goes::Up => "up",
            Goes::Down => "down",
            Goes::Stays => "stays",
        };
        return Err(format!(
            "metric {}: {first} becomes {second}, but goes = \"{goes}\"",
            asked.metric
        ));
    }
    let answer = asked
        .answer
        .replace("{before}", &first)
        .replace("{after}", &second);
    if let Some((_, rest)) = answer.split_once('{') {
        let unknown = rest.split('}').next().unwrap_or_default();
        return Err(format!(
            "answer: {{{unknown}}} stands for nothing; write {{before}} or {{after}}"
        ));
    }
    Ok(Question {
        ask: asked.ask.trim().to_owned(),
        change: asked.change.clone(),
        answer: paragraphs(&answer),
        row,
        shown: after.0,
    })
}

/// Texts between empty lines, each as one line.
fn paragraphs(text: &str) -> Vec<String> {
    let texts = text.split("\n\n").map(str::split_whitespace);
    let texts = texts.map(|words| words.collect::<Vec<_>>().join(" "));
    texts.filter(|text| !text.is_empty()).collect()
}
