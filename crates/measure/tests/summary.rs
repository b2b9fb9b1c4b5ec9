// SPDX-License-Identifier: GPL-2.0-or-later
//! What a summary makes of the figures of its tasks: which tasks it lists, and what it says of an app whose shell waits.

use tiltyard_measure::testing::{Call, Stream};
use tiltyard_measure::{AppSummary, MAX_TASKS, Recorder, RecorderSpec, Summary};
use tiltyard_model::{PrevState, SwitchCause, is_shells_name};

fn play(stream: &Stream, starvation_ns: u64, end_ns: u64) -> Summary {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 1,
        origin_ns: 0,
        starvation_ns,
    });
    stream.play(&mut recorder);
    recorder.finish(end_ns)
}

fn app<'s>(summary: &'s Summary, name: &str) -> &'s AppSummary {
    summary.apps.iter().find(|app| app.app == name).unwrap()
}

/// Every task has runtime, wait or neither; the idle ones are born first and last.
#[test]
fn of_too_many_tasks_the_busiest_are_listed() {
    let mut s = Stream::new();
    let nr = MAX_TASKS as u32 + 3;
    for tid in 1..=nr {
        s.task(0, tid, "app");
    }
    let idle = [1, 700, nr];
    let waiting = (1..=nr).filter(|tid| !idle.contains(tid));
    for tid in waiting.clone() {
        s.wake(10, 0, tid);
    }
    // Runs all the time, and so does not wait.
    s.start(10, 0, 2);
    let got = play(&s, 1000, 100);
    let listed: Vec<u32> = got.tasks.iter().map(|task| task.tid).collect();
    assert_eq!(listed, waiting.collect::<Vec<_>>());
    assert_eq!(app(&got, "app").tasks, u64::from(nr));
}

/// An app of the named tasks, all of which wait from 10 on. Only a hog runs.
fn waiting(names: &[&str]) -> Stream {
    let mut s = Stream::new();
    s.task(0, 9, "hog").wake_new(0, 0, 9).start(0, 0, 9);
    for (tid, name) in (1..).zip(names) {
        s.task(0, tid, "db");
        if let Some(Call::Task(info)) = s.calls.last_mut() {
            info.name = (*name).to_owned();
            info.is_shell = is_shells_name(name, "db");
        }
        s.wake_new(10, 0, tid);
    }
    s
}

/// Nobody else of it could start.
#[test]
fn an_app_waits_if_only_its_shell_does() {
    let waits = |names: &[&str], starvation_ns| {
        let got = play(&waiting(names), starvation_ns, 100);
        let db = app(&got, "db");
        let starved = (db.starved_tasks, db.starved_episodes, db.starved_ns);
        (db.longest_wait_ns, db.longest_wait_cut, starved)
    };
    assert_eq!(waits(&["sh-db"], 89), (90, true, (1, 1, 90)));
    assert_eq!(waits(&["sh-db"], 90), (0, false, (0, 0, 0)), "not longer");
    // A shell beside a task that exists counts as nothing, and a task's own waits are counted already.
    assert_eq!(waits(&["sh-db", "worker"], 89), (90, true, (1, 1, 90)));
    assert_eq!(waits(&["worker"], 89), (90, true, (1, 1, 90)));
}

/// A row that is only a shell because tasks are grouped by name has another name than the shell's app.
#[test]
fn a_shell_by_itself_is_not_its_app() {
    let mut s = waiting(&["sh-db"]);
    for call in &mut s.calls {
        if let Call::Task(info) = call
            && info.is_shell
        {
            info.app = "sh-db".to_owned();
        }
    }
    let got = play(&s, 89, 100);
    let shell = app(&got, "sh-db");
    assert_eq!((shell.longest_wait_ns, shell.starved_tasks), (0, 0));
}

/// By whom and of whom, the most frequent first.
#[test]
fn preemptions_are_in_order_of_their_number() {
    let mut s = Stream::new();
    s.task(0, 1, "a").task(0, 2, "b").task(0, 3, "c");
    s.wake(0, 0, 1).wake(0, 0, 2).wake(0, 0, 3).start(0, 0, 1);
    s.preempt(10, 0, 1, 2);
    s.switch(20, 0, 2, PrevState::Runnable, SwitchCause::HigherClass, 3);
    s.preempt(30, 0, 3, 2);
    s.switch(40, 0, 2, PrevState::Runnable, SwitchCause::HigherClass, 3);
    // Neither of these preempts anybody.
    s.slice_end(50, 0, 3, 1).block(60, 0, 1, 2);
    let got = play(&s, 1000, 100);
    let pairs = got.preemptions.iter().map(|p| (&*p.by, &*p.of, p.count));
    let wanted = [("c", "b", 2), ("b", "a", 1), ("b", "c", 1)];
    assert_eq!(pairs.collect::<Vec<_>>(), wanted);
}
