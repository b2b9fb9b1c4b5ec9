// SPDX-License-Identifier: GPL-2.0-or-later
//! Two schedulers on one small workload: a hog alone on a CPU until a server comes.

use tiltyard_measure::testing::Stream;
use tiltyard_measure::{
    COMPARISON_FORMAT, Comparison, Recorder, RecorderSpec, Regrouped, Row, Summary, Unit, Verdict,
    compare,
};
use tiltyard_model::TaskInfo;

const MS: u64 = 1_000_000;

/// The server comes at 1 s and asks for 10 ms at a time, `requests` times, `every_ms`. Fair: the hog runs
/// in between. Unfair (`every_ms` 10): the hog never does.
fn run(requests: u64, every_ms: u64) -> Summary {
    let mut s = Stream::new();
    s.class(0, "transaction").probe_name(0, "penalty", false);
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.task(1000 * MS, 2, "server").wake_new(1000 * MS, 0, 2);
    s.preempt(1000 * MS, 0, 1, 2)
        .probe(1000 * MS, 0, 2, 3)
        .probe(1000 * MS, 0, 1, 99);
    for request in 0..requests {
        let begin_ns = (1000 + request * every_ms) * MS;
        if every_ms > 10 && request > 0 {
            s.block(begin_ns - (every_ms - 10) * MS, 0, 2, 1)
                .wake(begin_ns, 0, 2);
            s.preempt(begin_ns, 0, 1, 2);
        }
        s.request(begin_ns + 10 * MS, 2, 0, begin_ns);
    }
    let end_ns = (1000 + (requests - 1) * every_ms + 10) * MS;
    s.exit(end_ns, 0, 2, 1).exit(end_ns + 500 * MS, 0, 1, 0);
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    s.play(&mut recorder);
    recorder.finish(end_ns + 500 * MS)
}

fn comparison() -> Comparison {
    let unfair: Vec<Summary> = (0..6).map(|seed| run(200 + seed, 10)).collect();
    let fair: Vec<Summary> = (0..6).map(|seed| run(200 + seed, 20)).collect();
    compare(&[("unfair".to_owned(), unfair), ("fair".to_owned(), fair)])
}

fn row<'a>(comparison: &'a Comparison, group: &str, metric: &str) -> &'a Row {
    let mut rows = comparison.rows.iter();
    let found = rows.find(|r| r.group == group && r.metric == metric);
    found.unwrap_or_else(|| panic!("no row {group} {metric}"))
}

fn medians(row: &Row) -> Vec<f64> {
    row.cells.iter().flatten().map(|c| c.median).collect()
}

#[test]
fn throughput_and_shares_of_two_schedulers() {
    let got = comparison();
    assert_eq!(
        (got.runs.as_slice(), got.coverage_ppm),
        ([6, 6].as_slice(), 968_750)
    );
    let throughput = row(&got, "server", "throughput");
    assert_eq!(medians(throughput)[0], 100.0);
    assert!((medians(throughput)[1] - 50.0).abs() < 0.2);
    // The first scheduler is the baseline of the ratio, of the verdict and of the differences.
    assert_eq!(throughput.verdict, Some(Verdict::MuchWorse));
    let (ratio, change) = (
        throughput.ratio.unwrap(),
        throughput.effects[1].unwrap().change,
    );
    assert!((ratio - 0.5).abs() < 0.01 && (change.unwrap().median + 0.5).abs() < 0.01);
    assert_eq!(throughput.best, Some(0));
    let share = medians(row(&got, "hog", "share while server serves"));
    assert!(
        share[0] < 0.002 && (share[1] - 0.5).abs() < 0.01,
        "{share:?}"
    );
    let wait = row(&got, "hog", "longest wait");
    assert_eq!(medians(wait), [2025.0 * 1e6, 10.0 * 1e6]);
    assert_eq!(wait.verdict, Some(Verdict::MuchBetter));
    let done = medians(row(&got, "server", "completion"));
    assert_eq!(done[0], 2025.0 * 1e6, "from its birth at 1 s");
    let until = medians(row(&got, "server", "active until"));
    assert_eq!(until[0], 3025.0 * 1e6);
}

#[test]
fn why_says_only_what_was_measured() {
    let got = comparison();
    let [starved, preempted, reported, busy] = &got.why[..] else {
        panic!("{:?}", got.why);
    };
    assert_eq!(
        starved,
        "Under unfair, hog was starved (its only task): longest wait 2.02 s, total 2.02 s."
    );
    assert_eq!(
        preempted,
        "Under unfair, server preempted hog tasks once, 100 % of all preemptions; under fair, server preempted hog tasks 202 \
         times, 100 % of all preemptions."
    );
    assert_eq!(
        reported,
        "Under unfair and fair, reported penalty, mean (range): hog 99 (99..99), server 3 (3..3)."
    );
    assert!(
        busy.contains("under fair, the CPU was busy with tasks 100 % of the time"),
        "{busy}"
    );
}

/// A single scheduler has nothing to be compared with.
#[test]
fn why_of_one_scheduler_is_one_sentence() {
    let got = compare(&[("unfair".to_owned(), vec![run(200, 10)])]);
    assert_eq!(
        got.why,
        [
            "Under unfair, hog was starved (its only task): longest wait 2.00 s, total 2.00 s; \
          server preempted hog tasks once, 100 % of all preemptions; reported penalty, mean (range): hog 99 \
          (99..99), server 3 (3..3); the CPU was busy with tasks 100 % of the time, 4 switches, 50.0 % of them because a task \
          went to sleep."
        ]
    );
}

/// A task that is moved while it runs leaves its CPU to nobody.
#[test]
fn preemptions_by_nobody_are_preemptions() {
    let with = |preempt: u64, by_server: u64| {
        let mut run = run(200, 10);
        run.switches.preempt = preempt;
        run.preemptions.iter_mut().for_each(|p| p.count = by_server);
        run.preemptions.retain(|p| p.count > 0);
        compare(&[("a".to_owned(), vec![run])]).why[0].clone()
    };
    let why = with(4, 1);
    assert!(why.contains("hog tasks once, 25.0 % of all"), "{why}");
    let why = with(4, 0);
    assert!(why.contains("preempted 4 times, never by another"), "{why}");
    let why = with(0, 0);
    assert!(why.contains("no task was preempted"), "{why}");
}

/// A task of a higher class takes the CPU whatever the scheduler does.
#[test]
fn preemptions_by_a_higher_class_are_named() {
    let with = |higher_class: u64| {
        let mut run = run(200, 10);
        run.switches.preempt = 100 - higher_class;
        run.switches.higher_class = higher_class;
        let pairs = run.clone();
        run.preemptions.clear();
        [pairs, run].map(|run| compare(&[("a".to_owned(), vec![run])]).why[0].clone())
    };
    let words = "(10.0 % of all were by a higher class: the scheduler did not decide them)";
    for (few, more) in with(9).iter().zip(with(10)) {
        assert!(!few.contains("higher class"), "{few}");
        assert!(more.contains(words), "{more}");
    }
}

/// What is not in most of the runs is not given as a part of all.
#[test]
fn a_pair_of_few_runs_is_not_named() {
    let with = |counts: [u64; 3]| {
        let runs = counts.map(|count| {
            let mut run = run(200, 10);
            run.switches.preempt = 10;
            run.preemptions.iter_mut().for_each(|p| p.count = count);
            run.preemptions.retain(|p| p.count > 0);
            run
        });
        compare(&[("a".to_owned(), runs.to_vec())]).why[0].clone()
    };
    let why = with([0, 0, 4]);
    assert!(why.contains("tasks were preempted 10 times;"), "{why}");
    let why = with([2, 3, 4]);
    assert!(why.contains("tasks 3 times, 30.0 % of all"), "{why}");
}

#[test]
fn a_run_that_ended_too_early_says_so() {
    let mut run = run(200, 10);
    run.cpus.iter_mut().for_each(|cpu| cpu.busy_ns = 0);
    let why = compare(&[("a".to_owned(), vec![run])]).why[0].clone();
    assert!(why.contains("no task ran before the end"), "{why}");
}

/// Each task for itself: what a sink takes for an app is what the adapter makes of a task.
#[test]
fn tasks_can_be_put_together_in_other_ways() {
    let mut s = Stream::new();
    for tid in [1, 2] {
        s.task(0, tid, "app").wake_new(0, 0, tid);
    }
    s.start(0, 0, 1)
        .request(2 * MS, 1, 0, MS)
        .exit(3 * MS, 0, 1, 2);
    s.request(5 * MS, 2, 0, 3 * MS).exit(5 * MS, 0, 2, 0);
    let recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    let mut by_task = Regrouped::new(recorder, |info: &TaskInfo| info.name.clone());
    s.play(&mut by_task);
    let summary = by_task.sink.finish(5 * MS);
    let apps: Vec<_> = summary
        .apps
        .iter()
        .map(|a| (a.app.as_str(), a.runtime_ns, a.wait_ns))
        .collect();
    assert_eq!(apps, [("app-1", 3 * MS, 0), ("app-2", 2 * MS, 3 * MS)]);
    let requests: Vec<_> = summary
        .requests
        .iter()
        .map(|r| (r.app.as_str(), r.latency.count, r.latency.max_ns))
        .collect();
    assert_eq!(requests, [("app-1", 1, MS), ("app-2", 1, 2 * MS)]);
}

/// Names are for programs: each is there once and says its unit. These are promised: scripts rely on them.
#[test]
fn names_are_stable_and_say_their_unit() {
    let got = comparison();
    for row in &got.rows {
        let bare = row.name.rsplit('.').next().unwrap();
        let has = |unit: &str| bare.contains(unit);
        let unit = match row.unit {
            Unit::TimeNs => has("_us"),
            Unit::PerSecond => bare.ends_with("_per_s"),
            Unit::Share => has("_percent"),
            Unit::Count | Unit::Plain => !has("_us") && !has("_per_s"),
        };
        assert!(unit, "{} ({:?})", row.name, row.unit);
        let own_unit = row.named_unit().0;
        assert!(matches!(row.unit, Unit::Plain | Unit::Count) || has(own_unit));
        let same = got.rows.iter().filter(|other| other.name == row.name);
        assert_eq!(same.count(), 1, "{}", row.name);
    }
    let of = |group: &str| {
        let rows = got.rows.iter().filter(|row| row.group == group);
        let names = rows.map(|row| row.name.strip_prefix(&format!("{group}.")).unwrap());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        of("server"),
        "completion_us active_until_us throughput_per_s requests latency_us_mean latency_us_p50 latency_us_p99 \
         latency_us_p999 latency_us_max wakeup_latency_us_p50 wakeup_latency_us_p99 wakeup_latency_us_p999 \
         wakeup_latency_us_max cpu_share_percent cpu_share_percent_while_hog runtime_us longest_wait_us starved_us \
         preempted migrations",
        "in the order of a reader's questions, though only some runs have wakeups"
    );
    assert!(of("hog").contains(" cpu_share_percent cpu_share_percent_while_server runtime_us "));
    assert_eq!(
        of("machine"),
        "busy_percent idle_percent switches_per_s preemptions_per_s migrations_per_s overhead_percent scheduler_percent"
    );
}

/// Whether a window is the whole run depends on the scheduler, so no column lacks the row; it is a headline if one of them is
/// shorter.
#[test]
fn the_share_in_a_window_is_in_every_column() {
    let whole = run(200, 10);
    let is_headline = |runs: &[&Summary]| {
        let runs = runs
            .iter()
            .map(|run| ("a".to_owned(), vec![(*run).clone()]));
        let got = compare(&runs.collect::<Vec<_>>());
        let row = row(&got, "server", "share while hog is active");
        assert!(row.cells.iter().all(Option::is_some), "{row:?}");
        row.headline
    };
    let mut shorter = whole.clone();
    let hog = shorter.apps.iter_mut().find(|app| app.app == "hog");
    hog.unwrap().active_ns = Some((0, shorter.duration_ns / 2));
    assert!(!is_headline(&[&whole, &whole]));
    assert!(is_headline(&[&whole, &shorter]));
}

/// Warm-up is listed behind all that is measured, and its latencies are no headlines.
#[test]
fn warm_up_comes_last() {
    let mut warmed = run(3, 10);
    let mut warm_up = warmed.requests[0].clone();
    warm_up.class = "warmup".to_owned();
    warmed.requests.insert(0, warm_up);
    let got = compare(&[("a".to_owned(), vec![warmed])]);
    let of_server = got.rows.iter().filter(|row| row.group == "server");
    let names: Vec<&str> = of_server.clone().map(|row| row.name.as_str()).collect();
    let first_of_warm_up = names
        .iter()
        .position(|name| name.contains("warmup"))
        .unwrap();
    assert!(
        names[first_of_warm_up..]
            .iter()
            .all(|name| name.contains("warmup")),
        "{names:?}"
    );
    assert!(
        names[..first_of_warm_up]
            .iter()
            .any(|name| name.contains("migrations"))
    );
    let headlines = of_server.filter(|row| row.headline && row.name.contains("warmup"));
    assert_eq!(headlines.count(), 1, "its throughput");
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let (a, b) = (comparison(), comparison());
    let text = serde_json::to_string(&a).unwrap();
    assert_eq!(text, serde_json::to_string(&b).unwrap());
    let back: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(back["format"], COMPARISON_FORMAT);
    assert_eq!(back["rows"].as_array().unwrap().len(), a.rows.len());
}

/// Every figure of a run: as JSON its value is in the unit of its name, so that programs need nothing else.
#[test]
fn names_and_values_of_json_agree() {
    let got = comparison();
    let json = serde_json::to_value(&got).unwrap();
    let mut units = Vec::new();
    for (row, written) in got.rows.iter().zip(json["rows"].as_array().unwrap()) {
        let name = written["name"].as_str().unwrap();
        assert_eq!(name, row.name);
        let words: Vec<&str> = name.split(['_', '.']).collect();
        // From the name alone: the unit, and how many of it one of the figure's own is.
        let (unit, factor) = match () {
            () if words.contains(&"percent") => ("percent", 100.0),
            () if name.ends_with("_per_s") => ("per_s", 1.0),
            () if words.contains(&"us") => ("us", 1e-3),
            () if matches!(row.unit, Unit::Count) => ("count", 1.0),
            () => ("", 1.0),
        };
        assert_eq!(written["unit"], unit, "{name}");
        let own = match unit {
            "percent" => Unit::Share,
            "per_s" => Unit::PerSecond,
            "us" => Unit::TimeNs,
            "count" => Unit::Count,
            _ => Unit::Plain,
        };
        assert_eq!(row.unit, own, "{name}");
        for (cell, written) in row.cells.iter().zip(written["cells"].as_array().unwrap()) {
            let Some(cell) = cell else {
                assert!(written.is_null(), "{name}");
                continue;
            };
            for (value, key) in [
                (cell.median, "median"),
                (cell.low, "low"),
                (cell.high, "high"),
            ] {
                let (got, want) = (written[key].as_f64().unwrap(), value * factor);
                assert!(
                    (got - want).abs() <= 1e-9 * want.abs(),
                    "{name} {key}: {got}, {want}"
                );
            }
        }
        units.push(unit);
    }
    for unit in ["percent", "per_s", "us", "count"] {
        assert!(units.contains(&unit), "no figure in {unit:?}");
    }
}

#[test]
fn a_figure_that_one_scheduler_lacks_is_a_gap() {
    let mut without = run(3, 10);
    without.requests.clear();
    let got = compare(&[
        ("a".to_owned(), vec![run(3, 10)]),
        ("b".to_owned(), vec![without]),
    ]);
    let throughput = row(&got, "server", "throughput");
    assert!(throughput.cells[0].is_some() && throughput.cells[1].is_none());
    assert_eq!(
        (throughput.ratio, throughput.verdict, throughput.best),
        (None, None, None)
    );
    assert!(compare(&[]).rows.is_empty());
}
