// SPDX-License-Identifier: GPL-2.0-or-later
//! The same workload in both arenas: each figure, and how far apart they are.
//!
//! Only what the scheduler decides is held against each other. Time and switches that a higher class took (in a real
//! kernel: whoever watches the run) are no decision of its own.

use serde::{Deserialize, Deserializer, Serialize};
use tiltyard_measure::{AppSummary, Latency, Summary};

/// Tolerance of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    pub share_points: f64,
    pub switches_percent: f64,
    pub latency_percent: f64,
    pub throughput_percent: f64,
}

/// What is chance and not judged: percentiles of fewer values, switches and migrations that are rarer in both arenas.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Least {
    pub p50: u64,
    pub p99: u64,
    #[serde(default)]
    pub switches_per_s: f64,
    #[serde(default)]
    pub migrations_per_s: f64,
}

/// What figures are judged by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub tolerance: Tolerance,
    pub least: Least,
    /// Latencies that are shorter in both arenas are not judged.
    pub least_latency_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    Share,
    Switches,
    Migrations,
    WaitP50,
    WaitP99,
    WakeupP50,
    WakeupP99,
    Throughput,
    RequestP50,
    RequestP99,
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::Share => "share of CPU",
            Figure::Switches => "switches",
            Figure::Migrations => "migrations",
            Figure::WaitP50 => "wait p50",
            Figure::WaitP99 => "wait p99",
            Figure::WakeupP50 => "wakeup p50",
            Figure::WakeupP99 => "wakeup p99",
            Figure::Throughput => "throughput",
            Figure::RequestP50 => "latency p50",
            Figure::RequestP99 => "latency p99",
        }
    }

    /// Errors of shares are points of the machine, all others percent of the real value.
    pub fn is_points(self) -> bool {
        self == Figure::Share
    }

    /// What it is of something that did not happen, such as requests none of which ended; times have no value then.
    fn of_nothing(self) -> Option<f64> {
        use Figure::{Migrations, Share, Switches, Throughput};
        matches!(self, Share | Switches | Migrations | Throughput).then_some(0.0)
    }

    /// Below this in both arenas, it is not judged.
    fn least(self, limits: &Limits) -> f64 {
        match self {
            Figure::Share | Figure::Throughput => 0.0,
            Figure::Switches => limits.least.switches_per_s,
            Figure::Migrations => limits.least.migrations_per_s,
            _ => limits.least_latency_us,
        }
    }

    fn tolerance(self, tolerance: &Tolerance) -> f64 {
        match self {
            Figure::Share => tolerance.share_points,
            Figure::Switches | Figure::Migrations => tolerance.switches_percent,
            Figure::Throughput => tolerance.throughput_percent,
            _ => tolerance.latency_percent,
        }
    }
}

/// What one run of a workload was, in either arena: shares in percent of the machine, times in us, the rest per s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub values: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// An app, or a class of requests.
    pub of: String,
    pub figure: Figure,
    pub value: f64,
}

impl Value {
    /// The same figure of the same app or class.
    fn is_like(&self, other: &Value) -> bool {
        self.of == other.of && self.figure == other.figure
    }
}

/// Requests of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    pub class: String,
    pub count: u64,
    pub per_s: f64,
    /// `None`: they were only counted.
    pub p50_p99_ns: Option<(u64, u64)>,
}

impl Measured {
    /// Figures of the apps of this name in a run of `nr_cpus` CPUs whose workload took `duration_ns`.
    pub fn new(
        summary: &Summary,
        apps: &[String],
        duration_ns: u64,
        requests: &[Requests],
        least: Least,
    ) -> Measured {
        let mut measured = Measured::default();
        let seconds = duration_ns as f64 / 1e9;
        for name in apps {
            if let Some(app) = summary.apps.iter().find(|app| app.app == *name) {
                measured.add_app(app, seconds, summary.cpus.len(), least);
            }
        }
        for class in requests {
            measured.push(&class.class, Figure::Throughput, class.per_s);
            if let Some((p50_ns, p99_ns)) = class.p50_p99_ns {
                let enough = [class.count >= least.p50, class.count >= least.p99];
                measured.push_times(
                    &class.class,
                    [Figure::RequestP50, Figure::RequestP99],
                    [p50_ns, p99_ns],
                    enough,
                );
            }
        }
        measured
    }

    fn add_app(&mut self, app: &AppSummary, seconds: f64, nr_cpus: usize, least: Least) {
        let share = app.runtime_ns as f64 / 1e7 / seconds / nr_cpus as f64;
        let own = app.switches.total() - app.switches.higher_class;
        self.push(&app.app, Figure::Share, share);
        self.push(&app.app, Figure::Switches, own as f64 / seconds);
        if nr_cpus > 1 {
            let migrations = app.migrations as f64;
            self.push(&app.app, Figure::Migrations, migrations / seconds);
        }
        let mut latency = |figures, latency: &Latency| {
            let enough = [latency.count >= least.p50, latency.count >= least.p99];
            self.push_times(&app.app, figures, [latency.p50_ns, latency.p99_ns], enough);
        };
        latency([Figure::WaitP50, Figure::WaitP99], &app.wait);
        latency([Figure::WakeupP50, Figure::WakeupP99], &app.wakeup);
    }

    fn push_times(
        &mut self,
        of: &str,
        figures: [Figure; 2],
        times_ns: [u64; 2],
        enough: [bool; 2],
    ) {
        for ((figure, time_ns), enough) in figures.into_iter().zip(times_ns).zip(enough) {
            if enough {
                self.push(of, figure, time_ns as f64 / 1e3);
            }
        }
    }

    fn push(&mut self, of: &str, figure: Figure, value: f64) {
        self.values.push(Value {
            of: of.to_owned(),
            figure,
            value,
        });
    }

    /// Medians over several runs; times that one of them lacks are left out.
    pub fn median(runs: &[Measured]) -> Measured {
        let median = |value: &Value| {
            let mut all: Vec<f64> = runs.iter().filter_map(|run| run.find(value)).collect();
            all.sort_by(f64::total_cmp);
            (all.len() == runs.len()).then(|| Value {
                value: (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0,
                ..value.clone()
            })
        };
        Measured {
            values: union(runs).into_iter().filter_map(median).collect(),
        }
    }

    fn find(&self, wanted: &Value) -> Option<f64> {
        let mut same = self.values.iter().filter(|value| value.is_like(wanted));
        let found = same.next().map(|value| value.value);
        found.or(wanted.figure.of_nothing())
    }
}

/// Each figure that any of them has, once, in the order of the first that has it.
fn union<'a>(all: impl IntoIterator<Item = &'a Measured>) -> Vec<&'a Value> {
    let mut values: Vec<&Value> = Vec::new();
    for value in all.into_iter().flat_map(|measured| &measured.values) {
        if !values.iter().any(|known| known.is_like(value)) {
            values.push(value);
        }
    }
    values
}

/// One figure in both arenas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub of: String,
    pub figure: Figure,
    pub simulated: f64,
    pub real: f64,
    /// Simulated against real: points, or percent; infinite (in JSON null) where the kernel has none of it.
    #[serde(deserialize_with = "infinite_if_null")]
    pub error: f64,
    /// Within the tolerance; `None`: not judged.
    pub within: Option<bool>,
    /// The smallest and the largest value in simulations with other starts of programs and other tick phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<[f64; 2]>,
}

impl Row {
    /// Whether the error is within the tolerance, judged or not. NaN is not.
    pub fn is_within(&self, tolerance: &Tolerance) -> bool {
        self.error.abs() <= self.figure.tolerance(tolerance)
    }

    /// Outside tolerance, and where it lies depends on when programs start: the kernel's value is one that other starts give.
    pub fn depends_on_start(&self) -> bool {
        let covers = |[least, most]: [f64; 2]| (least..=most).contains(&self.real);
        self.within == Some(false) && self.starts.is_some_and(covers)
    }
}

fn infinite_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// Both arenas side by side, in the simulated one's order. A time that one of them lacks has no row.
pub fn judge(simulated: &Measured, real: &Measured, limits: &Limits) -> Vec<Row> {
    let row = |value: &Value| {
        let (simulated, real) = (simulated.find(value)?, real.find(value)?);
        let error = match value.figure.is_points() {
            true => simulated - real,
            false if real == simulated => 0.0,
            false => (simulated - real) / real * 100.0,
        };
        let mut row = Row {
            of: value.of.clone(),
            figure: value.figure,
            simulated,
            real,
            error,
            within: None,
            starts: None,
        };
        let rare = simulated.max(real) < value.figure.least(limits);
        row.within = (!rare).then(|| row.is_within(&limits.tolerance));
        Some(row)
    };
    let all = union([simulated, real]).into_iter();
    all.filter_map(row).collect()
}

/// Notes in each row what the same runs with other starts gave. A figure that one of them lacks has no range.
pub fn add_starts(rows: &mut [Row], runs: &[Measured]) {
    for row in rows {
        let is_it = |value: &&Value| value.of == row.of && value.figure == row.figure;
        let find = |run: &Measured| Some(run.values.iter().find(is_it)?.value);
        let values: Option<Vec<f64>> = runs.iter().map(find).collect();
        row.starts = values.filter(|values| !values.is_empty()).map(|values| {
            let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f);
            [f64::min, f64::max].map(|f| fold(f).expect("not empty"))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_measure::testing::Stream;
    use tiltyard_measure::{Recorder, RecorderSpec};

    const LIMITS: Limits = Limits {
        tolerance: Tolerance {
            share_points: 2.0,
            switches_percent: 10.0,
            latency_percent: 25.0,
            throughput_percent: 10.0,
        },
        least: Least {
            p50: 100,
            p99: 1000,
            switches_per_s: 5.0,
            migrations_per_s: 5.0,
        },
        least_latency_us: 0.0,
    };

    fn measured(values: &[(Figure, f64)]) -> Measured {
        let value = |&(figure, value): &(Figure, f64)| Value {
            of: "a".to_owned(),
            figure,
            value,
        };
        Measured {
            values: values.iter().map(value).collect(),
        }
    }

    /// Of one CPU.
    fn summary(stream: &Stream, end_ns: u64) -> Summary {
        let mut recorder = Recorder::new(RecorderSpec {
            nr_cpus: 1,
            origin_ns: 0,
            starvation_ns: RecorderSpec::STARVATION_NS,
        });
        stream.play(&mut recorder);
        recorder.finish(end_ns)
    }

    fn one(figure: Figure, simulated: f64, real: f64) -> Row {
        judge(
            &measured(&[(figure, simulated)]),
            &measured(&[(figure, real)]),
            &LIMITS,
        )
        .remove(0)
    }

    #[test]
    fn shares_are_held_against_each_other_in_points_and_the_rest_in_percent() {
        let row = one(Figure::Share, 48.5, 50.0);
        assert_eq!((row.error, row.within), (-1.5, Some(true)));
        assert_eq!(one(Figure::Share, 52.5, 50.0).within, Some(false));
        let row = one(Figure::Switches, 90.0, 80.0);
        assert_eq!((row.error, row.within), (12.5, Some(false)));
        assert_eq!(one(Figure::WaitP99, 1.25, 1.0).within, Some(true));
        assert_eq!(one(Figure::Throughput, 1.25, 1.0).within, Some(false));
    }

    #[test]
    fn nothing_against_something_is_not_near() {
        assert_eq!(one(Figure::WakeupP50, 0.0, 3.0).within, Some(false));
        assert_eq!(one(Figure::WakeupP50, 3.0, 0.0).within, Some(false));
        assert_eq!(one(Figure::WakeupP50, 0.0, 0.0).within, Some(true));
        let kept = serde_json::to_string(&one(Figure::Migrations, 9.0, 0.0)).expect("JSON");
        let read: Row = serde_json::from_str(&kept).expect(&kept);
        assert_eq!((read.error, read.within), (f64::INFINITY, Some(false)));
    }

    #[test]
    fn what_one_arena_lacks_has_no_row() {
        let both = measured(&[(Figure::WaitP99, 1.0), (Figure::WaitP50, 2.0)]);
        let rows = judge(&both, &measured(&[(Figure::WaitP50, 2.0)]), &LIMITS);
        assert_eq!(
            rows.iter().map(|r| r.figure).collect::<Vec<_>>(),
            [Figure::WaitP50]
        );
    }

    #[test]
    fn what_did_not_happen_in_one_arena_is_judged_as_none() {
        let (some, none) = (measured(&[(Figure::Throughput, 100.0)]), measured(&[]));
        for (simulated, real) in [(&some, &none), (&none, &some)] {
            let rows = judge(simulated, real, &LIMITS);
            assert_eq!(rows.len(), 1);
            assert_eq!(rows[0].within, Some(false));
        }
        let runs = [some.clone(), none.clone(), none];
        assert_eq!(Measured::median(&runs).values[0].value, 0.0);
    }

    #[test]
    fn runs_are_summed_up_by_their_medians() {
        let runs = [3.0, 1.0, 2.0].map(|share| measured(&[(Figure::Share, share)]));
        assert_eq!(Measured::median(&runs).values[0].value, 2.0);
        assert_eq!(Measured::median(&runs[..2]).values[0].value, 2.0);
        assert_eq!(Measured::median(&runs[1..]).values[0].value, 1.5);
        let less = [measured(&[(Figure::WaitP50, 1.0)]), measured(&[])];
        assert_eq!(Measured::median(&less).values, []);
    }

    #[test]
    fn percentiles_of_few_values_are_chance() {
        let mut stream = Stream::new();
        stream.task(0, 1, "a");
        for at_ns in (0..150).map(|turn| turn * 1000) {
            stream.wake(at_ns, 0, 1).start(at_ns, 0, 1);
            stream.block(at_ns + 500, 0, 1, 0);
        }
        let summary = summary(&stream, 150_000);
        let requests = Requests {
            class: "r".to_owned(),
            count: 150,
            per_s: 1.0,
            p50_p99_ns: Some((1, 2)),
        };
        let figures = |p50, p99| {
            let least = Least {
                p50,
                p99,
                ..LIMITS.least
            };
            let apps = ["a".to_owned()];
            let measured = Measured::new(
                &summary,
                &apps,
                150_000,
                std::slice::from_ref(&requests),
                least,
            );
            let figures = measured.values.iter().map(|value| value.figure);
            figures.collect::<Vec<_>>()
        };
        use Figure::*;
        assert_eq!(
            figures(150, 151),
            [Share, Switches, WaitP50, WakeupP50, Throughput, RequestP50]
        );
        assert_eq!(
            figures(151, 150),
            [Share, Switches, WaitP99, WakeupP99, Throughput, RequestP99]
        );
    }

    /// In a kernel, whoever records the run takes the CPU; that is no decision of the scheduler's.
    #[test]
    fn switches_to_a_higher_class_are_not_the_apps() {
        use tiltyard_model::{PrevState, SwitchCause};
        let mut stream = Stream::new();
        stream.task(0, 1, "a").task(0, 2, "recorder");
        for at_ns in (0..10).map(|turn| turn * 1000) {
            stream.wake(at_ns, 0, 1).start(at_ns, 0, 1);
            stream.wake(at_ns + 100, 0, 2);
            let (state, cause) = (PrevState::Runnable, SwitchCause::HigherClass);
            stream.switch(at_ns + 100, 0, 1, state, cause, 2);
            stream
                .block(at_ns + 200, 0, 2, 1)
                .block(at_ns + 500, 0, 1, 0);
        }
        let summary = summary(&stream, 1_000_000_000);
        let apps = ["a".to_owned()];
        let measured = Measured::new(&summary, &apps, 1_000_000_000, &[], LIMITS.least);
        let mut values = measured.values.iter();
        let switches = values
            .find(|v| v.figure == Figure::Switches)
            .expect("switches");
        assert_eq!(switches.value, 10.0);
    }

    #[test]
    fn rare_switches_and_migrations_are_chance() {
        assert_eq!(one(Figure::Switches, 1.0, 4.9).within, None);
        assert_eq!(one(Figure::Switches, 5.0, 1.0).within, Some(false));
        assert_eq!(one(Figure::Migrations, 0.0, 4.9).within, None);
        assert_eq!(one(Figure::Migrations, 0.0, 5.0).within, Some(false));
        assert_eq!(one(Figure::Migrations, 5.4, 5.0).within, Some(true));
    }

    #[test]
    fn latencies_of_the_emulators_own_are_not_judged() {
        let judged = |figure, simulated, real| {
            let (simulated, real) = ([(figure, simulated)], [(figure, real)]);
            let limits = Limits {
                least_latency_us: 28.0,
                ..LIMITS
            };
            judge(&measured(&simulated), &measured(&real), &limits)[0].within
        };
        assert_eq!(judged(Figure::WaitP50, 5.0, 12.0), None);
        assert_eq!(judged(Figure::WaitP50, 5.0, 28.0), Some(false));
        assert_eq!(judged(Figure::WakeupP99, 40.0, 12.0), Some(false));
        assert_eq!(judged(Figure::Switches, 5.0, 12.0), Some(false));
    }

    #[test]
    fn a_miss_depends_on_the_start_if_other_starts_give_the_kernels_value() {
        let run = |value| measured(&[(Figure::Switches, value)]);
        let with = |real, starts: &[f64]| {
            let runs: Vec<Measured> = starts.iter().map(|value| run(*value)).collect();
            let mut rows = judge(&run(166.0), &run(real), &LIMITS);
            add_starts(&mut rows, &runs);
            (rows[0].starts, rows[0].depends_on_start())
        };
        assert_eq!(with(130.0, &[170.0, 120.0]), (Some([120.0, 170.0]), true));
        assert_eq!(with(130.0, &[170.0, 131.0]), (Some([131.0, 170.0]), false));
        // Within tolerance anyway.
        assert_eq!(with(165.0, &[170.0, 120.0]), (Some([120.0, 170.0]), false));
        assert_eq!(with(130.0, &[]), (None, false));
        let mut rows = judge(&run(166.0), &run(130.0), &LIMITS);
        add_starts(&mut rows, &[run(120.0), measured(&[])]);
        assert_eq!(rows[0].starts, None);
    }
}
