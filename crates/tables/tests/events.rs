// SPDX-License-Identifier: GPL-2.0-or-later
//! What becomes of events: a small run by hand, and what holds for any run.

use crate::common::{ints, maybe_ints, table, text, texts};
use proptest::prelude::*;
use tiltyard_measure::testing::{Stream, random_stream};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::{
    Cpu, EventKind, EventSink, OverheadCause, PrevState, SwitchCause, TaskInfo, Tid,
};
use tiltyard_tables::{EventTables, NAMES, Table, schema, summary_tables};

/// The tables and the figures of a stream on one origin.
fn run(stream: &Stream, nr_cpus: u32, origin_ns: u64, end_ns: u64) -> (Vec<Table>, Summary) {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: nr_cpus as usize,
        origin_ns,
        starvation_ns: 1_000_000,
    });
    let mut tables = EventTables::new(3, origin_ns, Vec::new());
    stream.play(&mut (&mut recorder, &mut tables));
    (tables.finish(end_ns), recorder.finish(end_ns))
}

fn page(tables: &[Table], names: &[&'static str]) -> String {
    let part = |name: &&'static str| format!("{name}\n{}", text(&table(tables, name)));
    names.iter().map(part).collect()
}

/// A server of two threads and a hog on two CPUs; the origin is at 100.
fn small_run() -> Stream {
    let mut stream = Stream::new();
    let mut task = |born_ns, tid, tgid, parent, app: &str| {
        stream
            .calls
            .push(tiltyard_measure::testing::Call::Task(TaskInfo {
                tid: Tid(tid),
                tgid: Tid(tgid),
                parent: Tid(parent),
                name: format!("{app}-{tid}"),
                app: app.to_owned(),
                nice: 0,
                born_ns,
                is_shell: false,
            }));
    };
    task(40, 10, 10, 0, "server");
    task(50, 11, 10, 10, "server");
    task(50, 20, 20, 10, "hog");
    stream
        .class(0, "get")
        .class(1, "warm")
        .probe_name(0, "level", false);
    stream.probe_name(1, "queue", true);
    stream.wake_new(50, 1, 20).start(60, 1, 20);
    let by_hog = EventKind::Wakeup {
        task: Tid(10),
        waker: Tid(20),
        target: Cpu(0),
    };
    stream.event(110, 1, by_hog).start(115, 0, 10);
    stream.overhead(115, 0, OverheadCause::Switch, 7);
    stream.probe(120, 0, 20, 5).probe(120, 1, 1, 2);
    stream.wake(130, 1, 11).preempt(130, 1, 20, 11);
    stream.request(140, 11, 0, 105).mark(141, 10, 1);
    stream.migrate(150, 20, 1, 0);
    let nice = EventKind::Nice {
        task: Tid(20),
        nice: 5,
    };
    stream.event(151, 0, nice);
    stream.switch(160, 0, 10, PrevState::Runnable, SwitchCause::Yield, 20);
    stream.probe(165, 0, 20, 6).exit(170, 1, 11, 0);
    stream
}

#[test]
fn tables_of_a_small_run() {
    let (tables, _) = run(&small_run(), 2, 100, 200);
    insta::assert_snapshot!(page(&tables, &["process", "thread", "sched_slice", "thread_state"]), @r"
    process
    3,1,10,server,-60,-,-
    3,2,20,hog,-50,-,1
    thread
    3,1,10,1,server-10,server,0,-60,-,true,-
    3,2,11,1,server-11,server,0,-50,70,false,1
    3,3,20,2,hog-20,hog,5,-50,-,true,1
    sched_slice
    3,0,-40,70,1,3,R+,preempt,2,0
    3,1,15,45,0,1,R,yield,3,7
    3,2,30,40,1,2,X,block,-,0
    3,3,60,40,0,3,-,-,-,0
    thread_state
    3,2,-50,10,-,3,R,1
    3,0,-60,70,-,1,S,-
    3,4,10,5,-,1,R,3
    3,1,-50,80,-,2,S,-
    3,3,-40,70,1,3,Running,-
    3,6,30,0,-,2,R,-
    3,5,15,45,0,1,Running,-
    3,7,30,30,-,3,R+,-
    3,8,30,40,1,2,Running,-
    3,9,60,40,-,1,R,-
    3,11,70,30,-,2,X,-
    3,10,60,40,0,3,Running,-
    ");
    insta::assert_snapshot!(page(&tables, &NAMES[5..13]), @r"
    wakeup
    3,-50,3,1,1,1,true
    3,10,1,3,1,0,false
    3,30,2,-,1,1,false
    migration
    3,50,3,1,0
    nice_change
    3,51,3,5
    overhead
    3,15,0,1,switch,7
    slice
    3,0,5,35,2,get
    instant
    3,41,1,warm,mark
    counter_track
    3,0,level,3,-
    3,1,queue,-,1
    counter
    3,0,20,0,5
    3,1,20,1,2
    3,2,65,0,6
    ");
}

/// CPU 0 changes one runqueue for another as sched_ext does; CPU 1 takes a second before it gives back the first.
#[test]
fn accesses_have_names_and_locks_tell_what_is_held() {
    let mut tables = EventTables::new(3, 100, Vec::new());
    tables.callback_name(4, "dispatch");
    tables.place_name(7, "cpus");
    let mut stream = Stream::new();
    let access = |index, write| EventKind::Access {
        call: 9,
        callback: 4,
        place: 7,
        index,
        write,
    };
    let lock = |of, taken| EventKind::RunqueueLock { of: Cpu(of), taken };
    stream
        .event(110, 0, access(2, false))
        .event(110, 0, access(3, true))
        .event(120, 0, lock(0, true))
        .event(120, 1, lock(1, true))
        .event(120, 0, lock(0, false))
        .event(120, 0, lock(2, true))
        .event(130, 1, lock(3, true))
        .event(130, 1, lock(1, false))
        .event(140, 1, lock(0, true));
    stream.play(&mut tables);
    let tables = tables.finish(200);
    insta::assert_snapshot!(page(&tables, &["access", "runqueue_lock"]), @r"
    access
    3,10,0,9,dispatch,cpus,2,false
    3,10,0,9,dispatch,cpus,3,true
    runqueue_lock
    3,20,0,0,-
    3,20,1,1,-
    3,20,0,2,-
    3,30,1,3,1
    3,40,1,0,3
    ");
}

#[test]
fn accesses_of_other_callbacks_can_be_left_out() {
    let mut tables = EventTables::new(0, 0, Vec::new()).with_accesses_in(vec!["tick".to_owned()]);
    tables.callback_name(4, "dispatch");
    tables.callback_name(5, "tick");
    let access = |callback, index| EventKind::Access {
        call: 9,
        callback,
        place: 7,
        index,
        write: false,
    };
    let mut stream = Stream::new();
    stream
        .event(10, 0, access(4, 1))
        .event(20, 0, access(5, 2))
        .event(30, 0, access(6, 3));
    stream.play(&mut tables);
    insta::assert_snapshot!(page(&tables.finish(40), &["access"]), @r"
    access
    0,20,0,9,tick,,2,false
    ");
}

#[test]
fn accesses_to_other_places_can_be_left_out() {
    let tables = EventTables::new(0, 0, Vec::new());
    let mut tables = tables.with_accesses_to(vec!["cpus".to_owned()]);
    tables.callback_name(4, "tick");
    tables.place_name(7, "cpus");
    tables.place_name(8, "tasks");
    assert!(tables.uses_access("tick", "cpus") && !tables.uses_access("tick", "tasks"));
    let access = |place, index| EventKind::Access {
        call: 9,
        callback: 4,
        place,
        index,
        write: false,
    };
    let mut stream = Stream::new();
    stream
        .event(10, 0, access(7, 1))
        .event(20, 0, access(8, 2))
        .event(30, 0, access(9, 3));
    stream.play(&mut tables);
    insta::assert_snapshot!(page(&tables.finish(40), &["access"]), @r"
    access
    0,10,0,9,tick,cpus,1,false
    ");
}

/// What the table leaves out need not be reported although others see the same events.
#[test]
fn only_the_table_uses_accesses() {
    let recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: 0,
        starvation_ns: 1000,
    });
    let tables = || EventTables::new(0, 0, Vec::new());
    let to_cpus = || tables().with_accesses_to(vec!["cpus".to_owned()]);
    let sink = (recorder, (Some(to_cpus()), None::<EventTables<Vec<Table>>>));
    assert!(sink.uses_access("tick", "cpus") && !sink.uses_access("tick", "tasks"));
    let others = to_cpus().with_tables(|name| name != "access");
    assert!(!others.uses_access("tick", "cpus"));
    assert!(tables().with_tables(|_| true).uses_access("tick", "cpus"));
}

#[test]
fn figures_of_a_small_run() {
    let (_, summary) = run(&small_run(), 2, 100, 200);
    let tables = summary_tables(3, &summary);
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    assert_eq!(names, NAMES[15..]);
    for table in &tables {
        assert!(
            table
                .batches
                .iter()
                .all(|b| b.schema() == schema(table.name))
        );
    }
    let shown = [
        "summary",
        "app",
        "task",
        "request",
        "mark",
        "cpu",
        "overhead_total",
    ];
    insta::assert_snapshot!(page(&tables, &shown), @r"
    summary
    3,100,1000000,17,0,1,0,1,0,1,0,1,0,1,0
    app
    3,server,2,0,-,10,100,85,45,40,7,2,2,0,5,5,5,5,2,2,0,5,5,5,5,40,true,0,0,0,0,1,0,0,0,1,0,0,0,0,450000,571428,571428,986064
    3,hog,1,0,-,0,100,70,30,0,0,1,30,30,30,30,30,30,0,0,0,0,0,0,0,30,false,0,0,0,0,0,0,1,0,0,0,0,0,1,700000,700000,700000,1000000
    task
    3,10,10,server-10,server,0,0,-,100,45,45,10,7,1,1,5,5,5,5,5,5,40,0,0,0,0,0,0,1,0,0,0,0
    3,11,10,server-11,server,0,0,70,70,40,0,30,0,1,1,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0
    3,20,20,hog-20,hog,5,0,-,100,70,30,0,0,0,0,0,0,0,0,0,0,30,0,0,0,0,1,0,0,0,0,0,1
    request
    3,get,server,1,35,35,35,35,35,35,5,40
    mark
    3,warm,1,41,41
    cpu
    3,0,78,15,7,-,2,1
    3,1,70,30,0,-,2,0
    overhead_total
    3,switch,7
    3,cache_refill,0
    3,tick,0
    3,wakeup,0
    3,ipi,0
    3,scheduler,0
    3,select_cpu,0
    ");
    insta::assert_snapshot!(page(&tables, &["preemption", "task_preemption", "probe"]), @r"
    preemption
    3,server,hog,1
    task_preemption
    3,20,0,11,1
    probe
    3,level,app,hog,hog,2,5,6,5,5,6,1000000
    3,level,task,20,hog,2,5,6,5,5,6,1000000
    3,queue,cpu,1,,1,2,2,2,2,2,1000000
    ");
}

#[test]
fn a_number_that_comes_again_is_another_task() {
    let mut stream = Stream::new();
    stream
        .task(0, 7, "a")
        .wake_new(0, 0, 7)
        .start(0, 0, 7)
        .exit(5, 0, 7, 0);
    stream.task(9, 7, "b").wake_new(9, 0, 7).start(9, 0, 7);
    let (tables, _) = run(&stream, 1, 0, 20);
    insta::assert_snapshot!(page(&tables, &["process", "thread", "sched_slice", "thread_state"]), @r"
    process
    3,1,7,a,0,5,-
    3,2,7,b,9,-,-
    thread
    3,1,7,1,a-7,a,0,0,5,true,-
    3,2,7,2,b-7,b,0,9,-,true,-
    sched_slice
    3,0,0,5,0,1,X,block,-,0
    3,1,9,11,0,2,-,-,-,0
    thread_state
    3,0,0,0,-,1,R,-
    3,1,0,5,0,1,Running,-
    3,3,9,0,-,2,R,-
    3,2,5,15,-,1,X,-
    3,4,9,11,0,2,Running,-
    ");
}

#[test]
fn who_was_never_introduced_has_a_row_as_well() {
    let mut stream = Stream::new();
    stream.start(5, 0, 9).block(8, 0, 9, 0);
    let (tables, summary) = run(&stream, 1, 0, 10);
    assert_eq!(summary.tasks[0].runtime_ns, 3);
    insta::assert_snapshot!(page(&tables, &["thread", "sched_slice", "thread_state"]), @r"
    thread
    3,1,9,1,tid 9,(unknown),0,5,-,true,-
    sched_slice
    3,0,5,3,0,1,S,block,-,0
    thread_state
    3,0,5,3,0,1,Running,-
    3,1,8,2,-,1,S,-
    ");
}

/// Where events were lost, somebody else leaves the CPU than came: slices of a CPU still do not overlap.
#[test]
fn who_leaves_without_having_come_ends_the_slice_of_another() {
    let mut stream = Stream::new();
    stream.task(0, 1, "a").task(0, 2, "b");
    stream.wake(1, 0, 1).wake(1, 0, 2).start(2, 0, 1);
    stream.block(6, 0, 2, 0);
    let (tables, _) = run(&stream, 1, 0, 10);
    insta::assert_snapshot!(page(&tables, &["sched_slice", "thread_state"]), @r"
    sched_slice
    3,0,2,4,0,1,-,-,-,0
    thread_state
    3,0,0,1,-,1,S,-
    3,1,0,1,-,2,S,-
    3,2,1,1,-,1,R,-
    3,3,1,5,-,2,R,-
    3,4,2,8,0,1,Running,-
    3,5,6,4,-,2,S,-
    ");
}

/// How much of `[ts, ts + dur)` lies at or after the origin.
fn after_origin(ts: i64, dur: i64) -> i64 {
    (ts + dur).max(0) - ts.max(0).min((ts + dur).max(0))
}

/// Indices of tasks in `thread`, in the order of the summary.
fn order(thread: &Table) -> Vec<usize> {
    let (tids, starts) = (ints(thread, "tid"), ints(thread, "start_ts"));
    let mut order: Vec<usize> = (0..tids.len()).collect();
    order.sort_by_key(|&i| (tids[i], starts[i].max(0)));
    order
}

/// Sums over rows of a table by one of its columns.
fn sum_by(table: &Table, by: &str, of: &[i64], key: i64) -> i64 {
    let keys = ints(table, by).into_iter();
    keys.zip(of)
        .filter(|(k, _)| *k == key)
        .map(|(_, n)| n)
        .sum()
}

proptest! {
    #[test]
    fn slices_of_a_cpu_do_not_overlap(
        words in prop::collection::vec(any::<u32>(), 0..800),
        origin_ns in 0u64..3_000_000,
    ) {
        let (stream, end_ns) = random_stream(3, 9, &words);
        let (tables, summary) = run(&stream, 3, origin_ns, end_ns + 1000);
        let slices = table(&tables, "sched_slice");
        let (ts, dur) = (ints(&slices, "ts"), ints(&slices, "dur"));
        for (cpu, figures) in (0i64..).zip(&summary.cpus) {
            let of_cpu = (0..ts.len()).filter(|&i| ints(&slices, "cpu")[i] == cpu);
            let mut spans: Vec<(i64, i64)> = of_cpu.map(|i| (ts[i], ts[i] + dur[i])).collect();
            spans.sort();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let ran: i64 = spans.iter().map(|s| after_origin(s.0, s.1 - s.0)).sum();
            prop_assert!(ran as u64 >= figures.busy_ns);
            prop_assert!(ran as u64 <= figures.busy_ns + figures.overhead_ns);
        }
    }

    #[test]
    fn states_cover_a_life_without_gaps(
        words in prop::collection::vec(any::<u32>(), 0..800),
        origin_ns in 0u64..3_000_000,
    ) {
        let (stream, end_ns) = random_stream(3, 9, &words);
        let (tables, _) = run(&stream, 3, origin_ns, end_ns + 1000);
        let (threads, states) = (table(&tables, "thread"), table(&tables, "thread_state"));
        let (utids, ids) = (ints(&states, "utid"), ints(&states, "id"));
        let (ts, dur, names) = (ints(&states, "ts"), ints(&states, "dur"), texts(&states, "state"));
        let last = (end_ns + 1000).max(origin_ns) as i64 - origin_ns as i64;
        for (i, utid) in ints(&threads, "utid").into_iter().enumerate() {
            let mut own: Vec<usize> = (0..utids.len()).filter(|&k| utids[k] == utid).collect();
            own.sort_by_key(|&k| ids[k]);
            prop_assert_eq!(ts[own[0]], ints(&threads, "start_ts")[i]);
            for pair in own.windows(2) {
                prop_assert_eq!(ts[pair[0]] + dur[pair[0]], ts[pair[1]]);
            }
            let open = own[own.len() - 1];
            prop_assert_eq!(ts[open] + dur[open], last);
            let dead = own.iter().find(|&&k| names[k].as_deref() == Some("X"));
            prop_assert_eq!(dead.map(|&k| ts[k]), maybe_ints(&threads, "end_ts")[i]);
        }
    }

    #[test]
    fn sums_are_those_of_the_summary(
        words in prop::collection::vec(any::<u32>(), 0..600),
        origin_ns in prop_oneof![Just(0u64), 0u64..3_000_000],
    ) {
        let (stream, end_ns) = random_stream(2, 7, &words);
        let (tables, summary) = run(&stream, 2, origin_ns, end_ns);
        let (threads, slices) = (table(&tables, "thread"), table(&tables, "sched_slice"));
        let states = table(&tables, "thread_state");
        let spans = |of: &Table| -> Vec<i64> {
            let spans = ints(of, "ts").into_iter().zip(ints(of, "dur"));
            spans.map(|(ts, dur)| after_origin(ts, dur)).collect()
        };
        let in_state = |state: &str| -> Vec<i64> {
            let names = texts(&states, "state").into_iter();
            let of = |name: Option<String>| name.is_some_and(|n| n.trim_end_matches('+') == state);
            names.zip(spans(&states)).map(|(n, ns)| if of(n) { ns } else { 0 }).collect()
        };
        let utids = ints(&threads, "utid");
        for (i, task) in order(&threads).into_iter().zip(&summary.tasks) {
            let sum = |of: &Table, ns: &[i64]| sum_by(of, "utid", ns, utids[i]) as u64;
            prop_assert_eq!(sum(&slices, &spans(&slices)), task.runtime_ns);
            prop_assert_eq!(sum(&states, &in_state("Running")), task.runtime_ns);
            prop_assert_eq!(sum(&states, &in_state("R")), task.wait_ns);
            prop_assert_eq!(sum(&states, &in_state("S")), task.sleep_ns);
            if origin_ns == 0 {
                prop_assert_eq!(sum(&slices, &ints(&slices, "overhead_ns")), task.overhead_ns);
            }
        }
        let since = |of: &Table| ints(of, "ts").into_iter().filter(|ts| *ts >= 0).count() as u64;
        prop_assert_eq!(since(&table(&tables, "migration")), summary.migrations);
        let overhead = table(&tables, "overhead");
        let spent = ints(&overhead, "ts").into_iter().zip(ints(&overhead, "ns"));
        let spent: i64 = spent.filter(|(ts, _)| *ts >= 0).map(|(_, ns)| ns).sum();
        prop_assert_eq!(spent as u64, summary.overhead.total_ns());
    }

    #[test]
    fn numbers_are_unique(words in prop::collection::vec(any::<u32>(), 0..400)) {
        let (stream, end_ns) = random_stream(2, 7, &words);
        let (tables, _) = run(&stream, 2, 0, end_ns);
        for name in ["sched_slice", "thread_state", "slice", "counter"] {
            let mut ids = ints(&table(&tables, name), "id");
            ids.sort();
            prop_assert_eq!(&ids, &(0..ids.len() as i64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn full_batches_leave_at_once() {
    let mut tables = EventTables::new(0, 0, Vec::<Table>::new());
    let mut stream = Stream::new();
    stream.task(0, 1, "a").probe_name(0, "level", false);
    stream.play(&mut tables);
    let probe = |time_ns, value| tiltyard_model::Event {
        time_ns,
        cpu: Cpu(0),
        kind: EventKind::Probe {
            probe: 0,
            key: 1,
            value,
        },
    };
    for i in 0..200_000i64 {
        tables.event(&probe(i as u64, i));
    }
    let counter = table(&tables.finish(0), "counter");
    let sizes: Vec<usize> = counter.batches.iter().map(|b| b.num_rows()).collect();
    assert_eq!(sizes, [65536, 65536, 65536, 3392]);
    assert_eq!(ints(&counter, "value"), (0..200_000).collect::<Vec<_>>());
}
