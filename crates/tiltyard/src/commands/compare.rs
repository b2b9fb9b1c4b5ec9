// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard compare`: two results of earlier runs, metric by metric, and gates on what changed.

use comfy_table::{Table, presets};
use serde_json::{Value, json};
use tiltyard_measure::gate::{self, Gate, GateError, Ruling};
use tiltyard_measure::significance::{ALPHA, smallest};
use tiltyard_measure::{Better, Change, Figure, Interval, Pair, Row, Trial, busiest_first, rows};
use tiltyard_report::changes;
use tiltyard_report::csv::{self, Csv};
use tiltyard_runner::comparison::{Side, differences, is_exact, warnings};
use tiltyard_runner::nearest;
use tiltyard_runner::results::{Results, Runs, split};

use super::list::Format;
use crate::failure::{Code, Failure, Fault};
use crate::terminal;

/// Compare two results of earlier runs, metric by metric: what changed from A to B, by how much, and whether that may
/// be chance.
///
/// A and B are files written by tiltyard run --format json, tiltyard kernel --out or tiltyard measure --out. If a file has
/// runs of several schedulers, add # and the name of one. Without B, the first and the second scheduler of file A are
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard compare base.json new.json
      Two files with one scheduler each.
  tiltyard compare base.json#ule new.json#ule
      One scheduler of each.
  tiltyard compare both.json#ule both.json#cfs
      Two schedulers of one file; if it has no others, tiltyard compare both.json does.
  tiltyard compare base.json new.json --fail-if 'throughput_per_s < -2%'
      For scripts: exit code 9 if the change is beyond this limit, and not chance.
  tiltyard compare base.json --list-metrics
      The metrics that can have limits.

A limit is METRIC > CHANGE or METRIC < CHANGE. METRIC is a name of --list-metrics, whole (sysbench.latency_us_p99), or \
the part after a dot (latency_us_p99: that of every app). CHANGE is a percentage of A's value (+10%), or an amount: times \
in ns, us, ms or s (+50us), rates in /s, shares in points (+2points), others without a unit.

At least four runs of each side are needed to distinguish a difference from chance; take five or more if limits name \
more than one metric. One simulated run each, with the same seed, is exact, and compared as it is.")]
pub struct Args {
    /// The first result, FILE.json or FILE.json#SCHEDULER: the baseline.
    a: String,
    /// The second.
    b: Option<String>,
    /// A limit, METRIC > +10% or METRIC < -5%; exit code 9 if a change is beyond it and is not chance. May be given more
    /// than once.
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    fail_if: Vec<String>,
    /// Apply --fail-if even if A and B differ in workload, duration or machine.
    #[arg(long, requires = "fail_if")]
    force: bool,
    /// Show all metrics, not only the headlines of the busiest apps.
    #[arg(long)]
    all: bool,
    /// Only print the names of all metrics, with their units and whether higher or lower is better.
    #[arg(long, conflicts_with_all = ["fail_if", "all"])]
    list_metrics: bool,
    /// Output format; JSON has all metrics.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let gates = parse_gates(&args.fail_if)?;
    let (path, named) = split(&args.a);
    let first = Results::read(path)?;
    if args.list_metrics && args.b.is_none() {
        return list_metrics(&first, named, args.format);
    }
    let second = args.b.as_deref().map(split);
    let other = second.map(|(path, _)| Results::read(path)).transpose()?;
    let (a, b) = match (&other, second) {
        (Some(other), Some((_, scheduler))) => (first.runs(named)?, other.runs(scheduler)?),
        _ => both_of_one(&first, named, &args.a)?,
    };
    let second = other.as_ref().unwrap_or(&first);
    let sides = [Side::new(&first, a)?, Side::new(second, b)?];
    let runs = [a.figures.clone(), b.figures.clone()];
    if args.list_metrics {
        return print_metrics(&rows(&runs), args.format);
    }
    let different = differences(&sides);
    let warnings = [different.clone(), warnings(&sides)].concat();
    for warning in &warnings {
        say!("tiltyard: warning: {warning}");
    }
    let pair = Pair::new(&runs, is_exact(a, b), |rows| {
        if !sides.iter().all(|side| side.file.is_simulated) {
            busiest_first(rows);
        }
    });
    let rulings = judge(&gates, &pair, &sides, &different, args.force)?;
    match args.format {
        Format::Table => super::print(&page(&sides, &pair, &gates, &rulings, args.all))?,
        Format::Json => super::print(&document(&sides, &pair, &gates, &rulings, &warnings))?,
        Format::Csv => super::print(&csv::pair(&pair))?,
    }
    verdict(&gates, &rulings, &pair)
}

/// The two sides of a file that has two schedulers.
fn both_of_one<'a>(
    file: &'a Results,
    named: Option<&str>,
    typed: &str,
) -> Result<(&'a Runs, &'a Runs), Failure> {
    let [first, second] = file.schedulers.as_slice() else {
        let names: Vec<&str> = file
            .schedulers
            .iter()
            .map(|s| s.scheduler.as_str())
            .collect();
        let way_out = match names.len() {
            1 => "name a second result",
            _ => "name two of them, as FILE#SCHEDULER twice",
        };
        let line = format!("{typed}: has runs of {}: {way_out}", names.join(", "));
        return Err(Failure::usage(line));
    };
    match named.map(|name| file.runs(Some(name))).transpose()? {
        Some(chosen) if chosen.scheduler == second.scheduler => Ok((second, first)),
        _ => Ok((first, second)),
    }
}

fn parse_gates(typed: &[String]) -> Result<Vec<Gate>, Failure> {
    let gates = typed.iter().map(|text| {
        Gate::parse(text).map_err(|error| match error {
            GateError::Wrong(what) => Failure::usage(format!("--fail-if '{text}': {what}")),
            other => Failure::usage(format!("--fail-if '{text}': {other:?}")),
        })
    });
    gates.collect()
}

fn judge(
    gates: &[Gate],
    pair: &Pair,
    sides: &[Side; 2],
    different: &[String],
    force: bool,
) -> Result<Vec<Ruling>, Failure> {
    if gates.is_empty() {
        return Ok(Vec::new());
    }
    if !different.is_empty() && !force {
        let line = format!(
            "--fail-if: A and B are not comparable ({}); --force judges nevertheless",
            different.join("; ")
        );
        return Err(Failure::usage(line));
    }
    let rulings = gate::rule(gates, pair)
        .map_err(|(at, error)| gate_failure(&gates[at], error, pair, sides))?;
    let tests = gate::tested(&rulings, pair).len();
    let [a, b] = pair.runs;
    for ruling in &rulings {
        let change = &pair.changes[ruling.change];
        let have = [change.a(), change.b()].map(|cell| cell.map_or(0, |cell| cell.n));
        if have != pair.runs {
            let name = &change.row.name;
            let [of_a, of_b] = have;
            say!(
                "tiltyard: warning: --fail-if: only {of_a} of {a} and {of_b} of {b} runs have {name}"
            );
        }
    }
    if pair.trial == Trial::Tested && tests as f64 * smallest(a, b) > ALPHA {
        say!(
            "tiltyard: warning: --fail-if: with {a} and {b} runs, one of these {tests} metrics that changes alone counts as \
             chance; name fewer metrics, or take {} runs of each",
            gate::runs_for(tests)
        );
    }
    Ok(rulings)
}

fn gate_failure(gate: &Gate, error: GateError, pair: &Pair, sides: &[Side; 2]) -> Failure {
    let (code, what) = match error {
        GateError::Wrong(what) => (Code::Usage, what),
        GateError::Unknown => (Code::Usage, unknown(&gate.metric, pair)),
        GateError::OneSided { name, lacking } => {
            let side = &sides[lacking].name;
            (
                Code::Input,
                format!("no run of {side} has {name}, and those of the other do"),
            )
        }
        GateError::TooFew { name, runs: [1, 1] } => {
            let what = format!(
                "{name} has one run each, and those would not come out the same again; take four of each or more"
            );
            (Code::Input, what)
        }
        GateError::TooFew { name, runs: [a, b] } => {
            let what = format!(
                "{name} has {a} and {b} runs, too few to tell any change from chance; take four of each or more"
            );
            (Code::Input, what)
        }
    };
    Failure::new(code, format!("--fail-if '{}': {what}", gate.text))
}

/// The metric is unknown; lists the existing ones.
fn unknown(metric: &str, pair: &Pair) -> String {
    let names = pair.changes.iter().map(|change| change.row.name.as_str());
    let known: Vec<&str> = match metric.contains('.') {
        true => names.collect(),
        false => names
            .map(|name| name.rsplit('.').next().unwrap_or(name))
            .collect(),
    };
    let closest = nearest::closest(metric, &known, 3);
    format!(
        "unknown metric {metric}; the nearest are {}; --list-metrics shows all",
        closest.join(", ")
    )
}

fn verdict(gates: &[Gate], rulings: &[Ruling], pair: &Pair) -> Result<(), Failure> {
    let fired = rulings.iter().filter(|ruling| ruling.fired).map(|ruling| {
        let change = &pair.changes[ruling.change];
        let (gate, name) = (&gates[ruling.gate], &change.row.name);
        let told = changes::told(change, gate, ruling);
        Fault {
            line: format!("gate fired: {}: {name} {told}", gate.text),
            span: None,
        }
    });
    let faults: Vec<Fault> = fired.collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure {
            code: Code::Gate,
            details: None,
            faults,
        }),
    }
}

fn page(sides: &[Side; 2], pair: &Pair, gates: &[Gate], rulings: &[Ruling], all: bool) -> String {
    let width = terminal::width();
    let about = sides.each_ref().map(Side::about);
    let mut page = changes::heading(
        [(&sides[0].name, &about[0]), (&sides[1].name, &about[1])],
        width,
    );
    page += &format!("\n{}", changes::render(pair, width, all));
    if !gates.is_empty() {
        page += &format!("\nLimits\n{}", changes::gates(gates, rulings, pair));
    }
    page
}

fn document(
    sides: &[Side; 2],
    pair: &Pair,
    gates: &[Gate],
    rulings: &[Ruling],
    warnings: &[String],
) -> String {
    let side = |side: &Side| {
        json!({
            "result": side.name,
            "scheduler": side.runs.scheduler,
            "workload": side.file.workload,
            "duration_ns": side.file.duration_ns,
            "machine": side.file.machine,
            "simulated": side.file.is_simulated,
            "runs": side.runs.figures.len(),
        })
    };
    let ruling = |ruling: &Ruling| {
        json!({
            "limit": gates[ruling.gate].text,
            "metric": pair.changes[ruling.change].row.name,
            "p_adjusted": ruling.p_adjusted,
            "beyond": ruling.beyond,
            "fired": ruling.fired,
        })
    };
    let all = json!({
        "tiltyard": tiltyard_runner::VERSION,
        "a": side(&sides[0]),
        "b": side(&sides[1]),
        "warnings": warnings,
        "trial": pair.trial,
        "tests": pair.tests(),
        "correction": "benjamini-hochberg",
        "alpha": ALPHA,
        "metrics": pair.changes.iter().map(metric).collect::<Vec<Value>>(),
        "gates": rulings.iter().map(ruling).collect::<Vec<Value>>(),
    });
    format!("{all:#}\n")
}

/// A metric; values are in the unit of its name.
fn metric(change: &Change) -> Value {
    let row = &change.row;
    let (unit, scale) = row.named_unit();
    let scaled = |interval: Option<&Interval>, scale: f64| {
        interval.map(|i| {
            json!({
                "median": i.median * scale,
                "low": i.low * scale,
                "high": i.high * scale,
                "coverage_ppm": i.coverage_ppm,
                "n": i.n,
            })
        })
    };
    json!({
        "name": row.name,
        "group": row.group,
        "metric": row.metric,
        "unit": unit,
        "better": row.better,
        "headline": row.headline,
        "a": scaled(change.a(), scale),
        "b": scaled(change.b(), scale),
        "change": scaled(change.shift.as_ref(), scale),
        "change_percent": scaled(change.relative().as_ref(), 100.0),
        "delta": change.delta(),
        "p": change.p,
        "p_adjusted": change.p_adjusted,
        "mark": change.mark,
    })
}

/// The metrics of one file: of the named scheduler, or of all.
fn list_metrics(file: &Results, named: Option<&str>, format: Format) -> Result<(), Failure> {
    let chosen = named.map(|name| file.runs(Some(name))).transpose()?;
    let of_all = || file.schedulers.iter().map(|runs| runs.figures.clone());
    let runs: Vec<Vec<Vec<Figure>>> = match chosen {
        Some(runs) => vec![runs.figures.clone()],
        None => of_all().collect(),
    };
    print_metrics(&rows(&runs), format)
}

fn print_metrics(rows: &[Row], format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        let all: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name,
                    "group": row.group,
                    "metric": row.metric,
                    "unit": row.named_unit().0,
                    "better": row.better,
                })
            })
            .collect();
        return super::print(&format!("{:#}\n", json!(all)));
    }
    let header = ["name", "unit", "better", "in tables"];
    let lines = rows.iter().map(|row| {
        let better = match row.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "",
        };
        [row.name.as_str(), row.named_unit().0, better, &row.metric]
    });
    if format == Format::Csv {
        let mut csv = Csv::new(&header);
        lines.for_each(|line| csv.line(&line));
        return super::print(&csv.finish());
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for line in lines {
        table.add_row(line);
    }
    let lines = table.to_string();
    let lines = lines.lines().map(|line| format!("{}\n", line.trim()));
    super::print(&lines.collect::<String>())
}
