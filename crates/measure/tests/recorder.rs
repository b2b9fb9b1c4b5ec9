// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures of small streams, worked out by hand.

use tiltyard_measure::testing::{Call, Stream};
use tiltyard_measure::{
    Better, Recorder, RecorderSpec, Regrouped, Summary, TaskSummary, TraceHash,
};
use tiltyard_model::{OverheadCause, PrevState, SwitchCause, TaskInfo, is_shells_name};

fn play(
    stream: &Stream,
    nr_cpus: usize,
    origin_ns: u64,
    starvation_ns: u64,
    end_ns: u64,
) -> Summary {
    let mut recorder = recorder(nr_cpus, origin_ns, starvation_ns);
    stream.play(&mut recorder);
    recorder.finish(end_ns)
}

fn recorder(nr_cpus: usize, origin_ns: u64, starvation_ns: u64) -> Recorder {
    Recorder::new(RecorderSpec {
        nr_cpus,
        origin_ns,
        starvation_ns,
    })
}

fn task(summary: &Summary, tid: u32) -> &TaskSummary {
    summary
        .tasks
        .iter()
        .find(|t| t.tid == tid)
        .expect("the task is listed")
}

/// One CPU, a hog (1) and a server (2) that wakes at 30, waits 5, preempts, runs 10, sleeps.
fn hog_and_server() -> Stream {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.task(10, 2, "server").wake(30, 0, 2);
    s.preempt(35, 0, 1, 2).block(45, 0, 2, 1);
    s
}

#[test]
fn runtime_wait_and_sleep_of_two_tasks() {
    let got = play(&hog_and_server(), 1, 0, 1000, 100);
    let (hog, server) = (task(&got, 1), task(&got, 2));
    assert_eq!(
        (hog.runtime_ns, hog.wait_ns, hog.sleep_ns, hog.lifetime_ns),
        (90, 10, 0, 100)
    );
    assert_eq!(
        (
            server.runtime_ns,
            server.wait_ns,
            server.sleep_ns,
            server.lifetime_ns
        ),
        (10, 5, 75, 90)
    );
    assert_eq!((server.wakeup.count, server.wakeup.max_ns), (1, 5));
    assert_eq!(hog.wakeup.count, 0, "a first run is not a wakeup");
    assert_eq!(hog.preempted_by, [(2, 1)]);
    assert_eq!((hog.switches.preempt, server.switches.block), (1, 1));
    assert_eq!(got.switches.total(), 3);
    assert_eq!((got.cpus[0].busy_ns, got.cpus[0].idle_ns), (100, 0));
    assert_eq!(got.irregular, 0);
    let pairs: Vec<_> = got
        .preemptions
        .iter()
        .map(|p| (&*p.by, &*p.of, p.count))
        .collect();
    assert_eq!(pairs, [("server", "hog", 1)]);
    assert_eq!(got.runtime.at_ns, [0, 100]);
    assert_eq!(got.runtime.apps[0].runtime_ns, [0, 90]);
}

#[test]
fn the_prelude_sets_the_scene_and_does_not_count() {
    let got = play(&hog_and_server(), 1, 33, 1000, 100);
    let (hog, server) = (task(&got, 1), task(&got, 2));
    assert_eq!(got.duration_ns, 67);
    assert_eq!(
        (hog.runtime_ns, hog.wait_ns, hog.lifetime_ns, hog.started_ns),
        (57, 10, 67, 0)
    );
    assert_eq!(
        (server.runtime_ns, server.wait_ns, server.sleep_ns),
        (10, 2, 55)
    );
    assert_eq!(server.wakeup.count, 0, "that wait began before the origin");
    assert_eq!(got.switches.total(), 2);
    assert_eq!((got.cpus[0].busy_ns, got.cpus[0].switches), (67, 2));
}

#[test]
fn migrations_count_from_the_origin_on() {
    let migrations = |origin_ns: u64| {
        let mut s = Stream::new();
        s.task(0, 1, "hog").wake(10, 0, 1).migrate(20, 1, 0, 1);
        s.start(30, 1, 1).block(40, 1, 1, 0);
        s.wake(50, 1, 1).migrate(60, 1, 1, 0).start(70, 0, 1);
        let got = play(&s, 2, origin_ns, 1000, 100);
        let by_cpu = got.cpus.iter().map(|cpu| cpu.migrations_in).collect();
        let (by_task, by_app) = (task(&got, 1).migrations, got.apps[0].migrations);
        (by_task, by_app, got.migrations, by_cpu)
    };
    assert_eq!(migrations(0), (2, 2, 2, vec![1, 1]));
    assert_eq!(migrations(45), (1, 1, 1, vec![1, 0]));
}

#[test]
fn overhead_is_taken_from_whoever_has_the_cpu() {
    let mut s = hog_and_server();
    s.overhead(45, 0, OverheadCause::Switch, 4)
        .overhead(46, 0, OverheadCause::Tick, 3);
    s.block(60, 0, 1, 0).overhead(70, 0, OverheadCause::Ipi, 2);
    let got = play(&s, 1, 0, 1000, 100);
    let cpu = &got.cpus[0];
    assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.overhead_ns), (53, 38, 9));
    assert_eq!(
        (task(&got, 1).overhead_ns, task(&got, 1).runtime_ns),
        (7, 50)
    );
    assert_eq!(
        (
            got.overhead.switch_ns,
            got.overhead.tick_ns,
            got.overhead.ipi_ns
        ),
        (4, 3, 2)
    );
}

/// A wait after a preemption is no wakeup latency.
#[test]
fn only_the_first_wait_after_a_wakeup_is_its_latency() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "server").wake(30, 0, 2);
    s.preempt(35, 0, 1, 2)
        .preempt(40, 0, 2, 1)
        .preempt(60, 0, 1, 2);
    s.block(70, 0, 2, 1);
    let got = play(&s, 1, 0, 1000, 100);
    let server = got.apps.iter().find(|app| app.app == "server").unwrap();
    assert_eq!((server.wakeup.count, server.wakeup.max_ns), (1, 5));
    assert_eq!((server.wait.count, server.wait.max_ns), (2, 20));
}

/// The thread that took the CPU, not the first of its process.
#[test]
fn preemptors_are_threads() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.thread(0, 7, 5, "server").wake(30, 0, 7);
    s.preempt(35, 0, 1, 7).block(45, 0, 7, 1);
    let got = play(&s, 1, 0, 1000, 100);
    assert_eq!(task(&got, 1).preempted_by, [(7, 1)]);
}

/// Marks in tables and gates depend on it.
#[test]
fn every_figure_has_its_direction() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "hog").wake_new(0, 0, 2);
    s.task(0, 3, "server").wake(30, 0, 3);
    s.class(0, "query").preempt(35, 0, 1, 3);
    s.request(40, 3, 0, 30)
        .request(44, 3, 0, 40)
        .block(45, 0, 3, 2);
    let figures = tiltyard_measure::figures(&play(&s, 1, 0, 10, 100));
    let named = |prefix: &str| {
        let is_named = |f: &&tiltyard_measure::Figure| f.name.starts_with(prefix);
        let mut directions: Vec<Better> =
            figures.iter().filter(is_named).map(|f| f.better).collect();
        directions.dedup();
        assert_eq!(directions.len(), 1, "{prefix}: {directions:?}");
        directions[0]
    };
    for higher in ["throughput_per_s", "jain_index"] {
        assert_eq!(named(higher), Better::Higher, "{higher}");
    }
    for lower in [
        "latency_us",
        "wakeup_latency_us",
        "longest_wait_us",
        "starved_us",
        "overhead_percent",
    ] {
        assert_eq!(named(lower), Better::Lower, "{lower}");
    }
    for neither in ["runtime_us", "requests"] {
        assert_eq!(named(neither), Better::Neither, "{neither}");
    }
    let share = |app: &str| {
        let mut of = figures.iter().filter(|f| f.group == app);
        of.find(|f| f.name == "cpu_share_percent").unwrap().better
    };
    assert_eq!(
        (share("hog"), share("server")),
        (Better::Higher, Better::Neither)
    );
}

#[test]
fn starvation_counts_while_it_lasts() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "victim").wake(10, 0, 2);
    s.slice_end(150, 0, 1, 2).slice_end(160, 0, 2, 1);
    let got = play(&s, 1, 0, 100, 400);
    let victim = task(&got, 2);
    assert_eq!(
        (
            victim.starved_episodes,
            victim.starved_ns,
            victim.longest_wait_ns
        ),
        (2, 380, 240)
    );
    assert_eq!(got.apps[1].starved_tasks, 1);
    assert!(
        got.preemptions.is_empty(),
        "the end of a slice preempts nobody"
    );
    let episodes: Vec<_> = got
        .starvation
        .iter()
        .map(|e| (e.begin_ns, e.wait_ns, e.open))
        .collect();
    assert_eq!(episodes, [(160, 240, true), (10, 140, false)]);
    assert_eq!(
        victim.wakeup.count, 1,
        "the wait that did not end is in no distribution"
    );
}

#[test]
fn who_waited_long_without_ever_running_is_counted() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "victims").wake(10, 0, 2);
    s.task(0, 3, "victims").wake(350, 0, 3);
    s.task(0, 4, "victims").wake(361, 0, 4);
    s.task(0, 5, "victims");
    let got = play(&s, 1, 0, 100, 400);
    assert_eq!(
        got.apps.iter().map(|app| app.never_ran).collect::<Vec<_>>(),
        [0, 2]
    );
    let why = &tiltyard_measure::compare(&[("a".to_owned(), vec![got])]).why[0];
    assert!(why.contains("victims: 2 of its 4 tasks never ran"), "{why}");
}

/// A dozen requests of a server, which ends at 130 if it `ends`: one every 10 ns.
fn served(class: &str, ends: bool, end_ns: u64) -> Summary {
    let mut s = Stream::new();
    s.class(0, class)
        .task(0, 1, "server")
        .wake(0, 0, 1)
        .start(0, 0, 1);
    for at in 1..=12 {
        s.request(10 * at, 1, 0, 10 * at - 5);
    }
    if ends {
        s.exit(130, 0, 1, 0);
    }
    play(&s, 1, 0, 1000, end_ns)
}

#[test]
fn requests_that_stop_early_are_found() {
    let stopped = |class, ends, end_ns| {
        let run = served(class, ends, end_ns);
        let ends_ns: Vec<u64> = run.stopped_requests().map(|of| of.last_end_ns).collect();
        ends_ns
    };
    // From 5 to 120.
    assert_eq!(stopped("query", false, 236), [120]);
    assert!(stopped("query", false, 235).is_empty(), "they may go on");
    assert!(
        stopped("query", true, 1000).is_empty(),
        "the server has ended"
    );
    assert!(stopped("warmup", false, 1000).is_empty());
    let why = tiltyard_measure::compare(&[("a".to_owned(), vec![served("query", false, 236)])]).why;
    let told =
        "the last \"query\" of server ended at 120 ns; its throughput is that of the time before";
    assert!(why[0].contains(told), "{why:?}");
}

/// Of a workload whose apps have classes of the same name, of which some only warm up.
#[test]
fn requests_of_which_none_ended_are_found() {
    let by_app = |app: &str, classes: &[&str]| {
        let classes = classes.iter().map(|class| (*class).to_owned());
        (app.to_owned(), classes.collect::<Vec<_>>())
    };
    let run = |puts: bool| {
        let mut s = Stream::new();
        s.class(0, "get").class(1, "put");
        s.task(0, 1, "a").wake(0, 0, 1).start(0, 0, 1);
        s.task(0, 2, "b");
        s.request(10, 1, 0, 5);
        if puts {
            s.request(20, 1, 1, 5);
        }
        let mut run = play(&s, 1, 0, 100, 100);
        let classes = [
            by_app("a", &["get", "put", "warm-up"]),
            by_app("b", &["get"]),
        ];
        run.set_request_classes(&classes.into());
        run
    };
    let unserved: Vec<(&str, &str)> = vec![("a", "put"), ("b", "get")];
    assert_eq!(run(false).unserved_requests().collect::<Vec<_>>(), unserved);
    let why = |puts: [bool; 3]| {
        let runs = puts.map(run).to_vec();
        tiltyard_measure::compare(&[("x".to_owned(), runs)]).why[0].clone()
    };
    assert!(why([false; 3]).contains("no \"put\" of a ended; no \"get\" of b ended"));
    let some = why([false, true, false]);
    assert!(
        !some.contains("put") && some.contains("no \"get\" of b ended"),
        "{some}"
    );
}

#[test]
fn requests_have_a_window_and_a_distribution() {
    let mut s = hog_and_server();
    s.class(0, "transaction").class(1, "warm");
    s.request(40, 2, 0, 20)
        .mark(50, 2, 1)
        .request(60, 2, 0, 30)
        .mark(70, 2, 1);
    let got = play(&s, 1, 25, 1000, 100);
    let request = &got.requests[0];
    assert_eq!(got.requests.len(), 1);
    assert_eq!((&*request.class, &*request.app), ("transaction", "server"));
    assert_eq!(
        (request.latency.count, request.latency.mean_ns),
        (1, 30),
        "one began before the origin"
    );
    assert_eq!((request.first_begin_ns, request.last_end_ns), (5, 35));
    assert_eq!(request.throughput_per_s(), Some(1e9 / 30.0));
    let mark = &got.marks[0];
    assert_eq!(
        (&*mark.mark, mark.count, mark.first_ns, mark.last_ns),
        ("warm", 2, 25, 45)
    );
}

#[test]
fn migration_moves_depth_and_keeps_the_wait_in_one_piece() {
    let mut s = Stream::new();
    s.task(0, 1, "a").wake(0, 0, 1).start(0, 0, 1);
    s.task(0, 2, "a").wake(100_000, 0, 2);
    s.migrate(600_000, 2, 0, 1).start(700_000, 1, 2);
    let got = play(&s, 2, 0, 1_000_000_000, 1_000_000);
    assert_eq!(task(&got, 2).wakeup.max_ns, 600_000);
    assert_eq!((got.migrations, got.cpus[1].migrations_in), (1, 1));
    assert_eq!(got.depth.cpus[0].mean_milli, [1500]);
    assert_eq!(got.depth.cpus[1].mean_milli, [400]);
    assert_eq!((got.depth.cpus[0].max[0], got.depth.cpus[1].max[0]), (2, 1));
}

#[test]
fn a_tid_that_died_may_come_back_as_another_task() {
    let mut s = Stream::new();
    s.task(0, 5, "a")
        .wake(0, 0, 5)
        .start(0, 0, 5)
        .exit(30, 0, 5, 0);
    s.task(50, 5, "b").wake_new(60, 0, 5).start(70, 0, 5);
    let got = play(&s, 1, 0, 1000, 100);
    let spans: Vec<_> = got
        .tasks
        .iter()
        .map(|t| (&*t.app, t.lifetime_ns, t.runtime_ns))
        .collect();
    assert_eq!(spans, [("a", 30, 30), ("b", 50, 30)]);
    assert_eq!(
        (got.apps[0].ended_ns, got.apps[1].ended_ns),
        (Some(30), None)
    );
}

#[test]
fn probes_have_ranges_per_app_and_per_task() {
    let mut s = hog_and_server();
    s.probe_name(0, "penalty", false)
        .probe_name(1, "load", true);
    s.probe(50, 0, 1, 4)
        .probe(60, 0, 1, 98)
        .probe(70, 0, 2, 3)
        .probe(80, 1, 0, -7);
    let got = play(&s, 1, 0, 1000, 100);
    let penalty = &got.probes[0];
    let ranges: Vec<_> = penalty
        .apps
        .iter()
        .map(|p| (&*p.name, p.min, p.max, p.first, p.last))
        .collect();
    assert_eq!(ranges, [("hog", 4, 98, 4, 98), ("server", 3, 3, 3, 3)]);
    assert_eq!(penalty.apps[0].bucket_mean, [Some(51)]);
    assert_eq!(penalty.apps[0].mean, 51);
    assert_eq!(got.apps[1].active_ns, Some((30, 45)));
    assert_eq!(
        (&*penalty.keys[1].name, &*penalty.keys[1].app),
        ("2", "server")
    );
    assert_eq!(
        (got.probes[1].per_cpu, got.probes[1].keys[0].min),
        (true, -7)
    );
}

#[test]
fn only_probes_that_are_asked_for_are_kept() {
    let mut s = hog_and_server();
    s.probe_name(0, "penalty", false)
        .probe_name(1, "prio", false);
    s.probe(50, 0, 1, 4).probe(60, 1, 1, 98).probe(70, 2, 1, 3);
    let mut recorder = recorder(1, 0, 1000).with_probes_named(vec!["prio".to_owned()]);
    s.play(&mut recorder);
    let got = recorder.finish(100);
    let kept: Vec<_> = got.probes.iter().map(|p| &*p.probe).collect();
    assert_eq!(kept, ["prio"]);
    assert_eq!(got.probes[0].apps[0].max, 98);
    assert_eq!(got.irregular, 1, "nobody introduced probe 2");
}

#[test]
fn without_distributions_sums_and_extremes_stay() {
    let with = play(&hog_and_server(), 1, 0, 1000, 100);
    let mut recorder = recorder(1, 0, 1000).without_distributions();
    hog_and_server().play(&mut recorder);
    let without = recorder.finish(100);
    let (one, other) = (task(&with, 2), task(&without, 2));
    assert_eq!((one.wakeup.count, other.wakeup.count), (1, 0));
    assert_eq!(
        (with.apps[1].wait.count, without.apps[1].wait.count),
        (1, 0)
    );
    assert_eq!(
        (one.wait_ns, one.longest_wait_ns, one.wakeups),
        (other.wait_ns, other.longest_wait_ns, other.wakeups)
    );
}

#[test]
fn a_probe_of_a_cpu_holds_its_value_and_one_of_an_app_does_not() {
    let mut s = hog_and_server();
    s.probe_name(0, "load", true).probe_name(1, "score", false);
    s.probe(50, 0, 0, 9).probe(60, 0, 0, 2).probe(70, 1, 1, 5);
    s.probe(2_500_000, 0, 0, 7);
    let got = play(&s, 1, 0, u64::MAX, 3_000_000);
    let load = &got.probes[0].keys[0];
    assert_eq!(load.bucket_max, [Some(9), Some(2), Some(7), Some(7)]);
    assert_eq!(load.bucket_min, [Some(2), Some(2), Some(7), Some(7)]);
    assert_eq!(
        got.probes[1].apps[0].bucket_max,
        [Some(5), None, None, None]
    );
}

#[test]
fn contradictions_are_counted_and_survived() {
    let mut s = Stream::new();
    s.start(10, 0, 7); // nobody introduced 7, nor woke it
    s.wake(20, 0, 7); // it runs
    s.switch(15, 0, 7, PrevState::Sleeping, SwitchCause::Block, 0); // time runs backwards
    s.probe(30, 9, 7, 1); // no such probe
    let got = play(&s, 1, 0, 1000, 100);
    assert_eq!(got.irregular, 5);
    assert_eq!(task(&got, 7).runtime_ns, 10);
}

#[test]
fn series_stay_bounded_over_a_day() {
    let mut s = Stream::new();
    s.task(0, 1, "hog").wake(0, 0, 1).start(0, 0, 1);
    let day_ns = 86_400_000_000_000;
    let got = play(&s, 1, 0, u64::MAX, day_ns);
    let curve = &got.runtime.apps[0].runtime_ns;
    assert!(
        (512..=1025).contains(&curve.len()),
        "{} points",
        curve.len()
    );
    assert_eq!(curve, &got.runtime.at_ns, "it ran all the time");
    assert_eq!(curve.last(), Some(&day_ns));
    assert!(got.depth.cpus[0].mean_milli.iter().all(|&d| d == 1000));
}

#[test]
fn the_hash_sees_every_field() {
    let hash = |s: &Stream| {
        let mut hash = TraceHash::new();
        s.play(&mut hash);
        hash.finish()
    };
    let (mut a, mut b, mut c) = (hog_and_server(), hog_and_server(), hog_and_server());
    a.slice_end(50, 0, 1, 2);
    b.preempt(50, 0, 1, 2);
    c.slice_end(50, 0, 1, 2);
    assert_eq!(hash(&a), hash(&c));
    assert_ne!(hash(&a), hash(&b));
    // A pinned value: the encoding never changes for what exists.
    let mut one = Stream::new();
    one.wake(258, 3, 7);
    // sha256 of 01 0201000000000000 03000000 07000000 00000000 03000000
    assert_eq!(
        hash(&one),
        "0bf5c4780a6ffba9101a6156576baba00bfb8c07f10dd6b6938286f8227516a0"
    );
}

fn named(s: &mut Stream, born_ns: u64, tid: u32, name: &str) {
    s.task(born_ns, tid, "db");
    if let Some(Call::Task(info)) = s.calls.last_mut() {
        info.name = name.to_owned();
        info.is_shell = is_shells_name(name, "db");
    }
}

/// A worker that wakes at 60 and 90 and waits 2 and 5, and its shell, which wakes at 10 and waits 40. All starve.
fn shell_and_worker() -> Stream {
    let mut s = Stream::new();
    named(&mut s, 0, 1, "sh-db");
    named(&mut s, 0, 2, "sh-worker");
    s.task(0, 3, "hog").wake_new(0, 0, 3).start(0, 0, 3);
    s.wake(10, 0, 1).preempt(50, 0, 3, 1).block(55, 0, 1, 3);
    s.wake(60, 0, 2).preempt(62, 0, 3, 2).block(70, 0, 2, 3);
    s.wake(90, 0, 2).preempt(95, 0, 3, 2).block(99, 0, 2, 3);
    s
}

/// The shell is an artefact of how workloads are started; it does not serve anybody.
#[test]
fn a_shells_waits_are_not_its_apps() {
    let got = play(&shell_and_worker(), 1, 0, 1, 100);
    let db = got.apps.iter().find(|app| app.app == "db").unwrap();
    let cut = |app: &str| {
        got.apps
            .iter()
            .find(|a| a.app == app)
            .unwrap()
            .longest_wait_cut
    };
    // The hog, preempted for the last time at 95, has the CPU again at 99: no wait is open.
    assert_eq!([cut("db"), cut("hog")], [false; 2]);
    assert_eq!((db.wakeup.count, db.wakeup.max_ns), (2, 5));
    assert_eq!((db.wait.count, db.longest_wait_ns), (2, 5));
    assert_eq!((db.starved_tasks, db.starved_ns), (1, 7));
    assert_eq!((db.tasks, db.active_ns), (1, Some((60, 99))));
    assert_eq!(db.fairness.jain_ppm, 1_000_000);
    let starved: Vec<u32> = got.starvation.iter().map(|s| s.tid).collect();
    assert!(!starved.contains(&1) && starved.contains(&2), "{starved:?}");
    assert_eq!(task(&got, 1).longest_wait_ns, 40);
    // What adds up to the machine's stays.
    assert_eq!(db.runtime_ns, 5 + 8 + 4);
}

/// A wait that is open when the run ends is cut if it is the longest.
#[test]
fn a_wait_may_be_cut_by_the_end() {
    let cut = |end_ns| {
        let mut s = Stream::new();
        s.task(0, 3, "hog").wake_new(0, 0, 3).start(0, 0, 3);
        s.task(0, 1, "a").task(0, 2, "b");
        s.wake(10, 0, 1).preempt(40, 0, 3, 1).block(50, 0, 1, 3);
        s.wake(60, 0, 1);
        let app = &play(&s, 1, 0, 1000, end_ns).apps[1];
        (app.longest_wait_ns, app.longest_wait_cut)
    };
    assert_eq!(cut(80), (30, false));
    assert_eq!(cut(90), (30, false), "no longer than the one before");
    assert_eq!(cut(95), (35, true));
}

/// Creation is no wakeup.
#[test]
fn wakeups_are_those_of_sleepers() {
    let got = play(&shell_and_worker(), 1, 0, 1000, 100);
    assert_eq!([1, 2, 3].map(|tid| task(&got, tid).wakeups), [1, 2, 0]);
}

/// In a kernel, a shell has its name from the time at which it takes it, and has that of a thread while it creates it;
/// what it forks has the shell's until it takes one of its own.
#[test]
fn whoever_takes_a_shells_name_is_one() {
    let mut s = Stream::new();
    let rename = named;
    named(&mut s, 0, 1, "tiltyard");
    s.task(0, 3, "hog").wake_new(0, 0, 3).start(0, 0, 3);
    rename(&mut s, 0, 1, "sh-db");
    s.wake(2, 0, 1).preempt(15, 0, 3, 1);
    rename(&mut s, 0, 1, "worker");
    named(&mut s, 20, 2, "sh-db");
    s.wake_new(20, 0, 2).preempt(21, 0, 1, 2);
    rename(&mut s, 0, 2, "worker");
    s.preempt(30, 0, 2, 1);
    rename(&mut s, 0, 1, "sh-db");
    s.block(40, 0, 1, 2).block(45, 0, 2, 3);
    s.wake(50, 0, 2).preempt(53, 0, 3, 2);
    let got = play(&s, 1, 0, 1000, 100);
    let db = got.apps.iter().find(|app| app.app == "db").unwrap();
    // From 30 to 40 and from 50 to 53: not 2 to 15 (the shell), 20 to 21 (not yet a worker), 21 to 30 (the shell).
    assert_eq!((db.tasks, db.wait.count, db.wait.max_ns), (1, 2, 10));
    assert_eq!(db.longest_wait_ns, 10);
    assert_eq!((db.wakeup.count, db.wakeup.max_ns), (1, 3));
}

/// In `--by task` and `--by group` too; a row that is only a shell is no headline.
#[test]
fn a_shell_stays_one_however_tasks_are_grouped() {
    let summary = |label: fn(&TaskInfo) -> String| {
        let mut sink = Regrouped::new(recorder(1, 0, 1), label);
        shell_and_worker().play(&mut sink);
        sink.sink.finish(100)
    };
    let together = summary(|_| "/".to_owned());
    assert_eq!(together.apps[0].wakeup.max_ns, 5);
    let apart = summary(|info| info.name.clone());
    let of_shell = tiltyard_measure::figures(&apart).into_iter();
    let of_shell = of_shell.filter(|f| f.group == "sh-db");
    let shown: Vec<String> = of_shell.filter(|f| f.headline).map(|f| f.name).collect();
    assert_eq!(shown, [""; 0]);
    // Whatever a row is called, its tasks keep their names.
    assert!(together.tasks.iter().any(|t| t.name == "sh-db"));
}

/// Of a few values it is the largest, which is shown as such.
#[test]
fn a_99th_percentile_of_few_values_is_no_headline() {
    let is_headline = |wakeups: u64| {
        let mut s = Stream::new();
        s.task(0, 1, "server");
        for at in (0..wakeups).map(|i| 10 * i) {
            s.wake(at, 0, 1).start(at + 1, 0, 1).block(at + 2, 0, 1, 0);
            s.request(at + 2, 1, 0, at);
        }
        let figures = tiltyard_measure::figures(&play(&s, 1, 0, 1000, 2000));
        let of = |name: &str| figures.iter().find(|f| f.name == name).unwrap().headline;
        (of("wakeup_latency_us_p99"), of("latency_us_p99"))
    };
    assert_eq!(is_headline(99), (false, false));
    assert_eq!(is_headline(100), (true, true));
}

/// The shell that starts an app's tasks and notices their end is no part of the work.
#[test]
fn an_app_is_complete_when_all_that_its_shell_started_is_dead() {
    let mut s = Stream::new();
    named(&mut s, 0, 1, "sh-db");
    s.wake_new(0, 0, 1).start(0, 0, 1);
    named(&mut s, 10, 2, "worker");
    s.wake_new(10, 0, 2).block(20, 0, 1, 2).exit(50, 0, 2, 0);
    s.wake(60, 0, 1).start(60, 0, 1);
    let db = |s: &Stream| {
        let app = play(s, 1, 0, 1000, 100).apps.remove(0);
        (app.ended_ns, app.completed_ns)
    };
    assert_eq!(db(&s), (None, Some(50)));
    s.exit(70, 0, 1, 0);
    assert_eq!(db(&s), (Some(70), Some(50)));
}
