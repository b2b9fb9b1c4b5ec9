// SPDX-License-Identifier: GPL-2.0-or-later
//! What the timeline records of a run.

use tiltyard_measure::testing::Stream;
use tiltyard_model::{Cpu, EventKind, Tid};
use tiltyard_report::timeline::{Left, Ready, Recorded, Timeline, Window};

const US: u64 = 1000;

/// Two CPUs: 1 creates 2, 2 is woken by 1 on the other CPU and preempts 3.
fn stream() -> Stream {
    let mut s = Stream::new();
    s.task(0, 1, "a").wake_new(0, 0, 1).start(10 * US, 0, 1);
    s.task(0, 3, "b<").wake_new(0, 1, 3).start(20 * US, 1, 3);
    s.task(30 * US, 2, "a")
        .wake_new(30 * US, 1, 2)
        .block(40 * US, 1, 3, 2);
    s.wake(50 * US, 1, 3).slice_end(60 * US, 1, 2, 3);
    s.preempt(70 * US, 1, 3, 2).block(80 * US, 1, 2, 3);
    let wakeup = EventKind::Wakeup {
        task: Tid(2),
        waker: Tid(1),
        target: Cpu(1),
    };
    s.event(85 * US, 0, wakeup)
        .preempt(90 * US, 1, 3, 2)
        .exit(95 * US, 1, 2, 3);
    s
}

fn record(from_ns: u64, to_ns: Option<u64>, max_slices: usize) -> Recorded {
    let window = Window {
        from_ns,
        to_ns,
        max_slices,
    };
    let mut timeline = Timeline::new(2, 0, window);
    stream().play(&mut timeline);
    timeline.finish(100 * US)
}

/// Slices as (tid, begin, end, why it left), in us.
fn slices(recorded: &Recorded) -> Vec<(u32, u64, u64, Left)> {
    let slices = &recorded.slices;
    let mut end_ns = recorded.from_ns;
    let slice = |i: usize| {
        end_ns += slices.end_ns[i];
        let left = Left::ALL[usize::from(slices.left[i])].0;
        let tid = recorded.tasks[slices.task[i]].tid;
        (tid, (end_ns - slices.length_ns[i]) / US, end_ns / US, left)
    };
    (0..slices.len()).map(slice).collect()
}

#[test]
fn every_slice_is_there_with_why_it_ended() {
    let all = record(0, None, 100);
    let expected = [
        (3, 20, 40, Left::Sleeps),
        (2, 40, 60, Left::SliceEnd),
        (3, 60, 70, Left::Preempted),
        (2, 70, 80, Left::Sleeps),
        (3, 80, 90, Left::Preempted),
        (2, 90, 95, Left::Exits),
        (1, 10, 100, Left::StillRuns),
        (3, 95, 100, Left::StillRuns),
    ];
    assert_eq!(slices(&all), expected);
    assert_eq!((all.from_ns, all.to_ns, all.full), (0, 100 * US, false));
    assert_eq!(all.slices.cpu, [1, 1, 1, 1, 1, 1, 0, 1]);
    assert_eq!(all.apps, ["b<", "a"]);
}

#[test]
fn a_slice_knows_who_woke_its_task_and_how_long_it_waited() {
    let all = record(0, None, 100);
    let how = |i: usize| {
        let s = &all.slices;
        (s.ready[i], s.wait_ns[i] / US, s.waker[i], s.waker_cpu[i])
    };
    assert_eq!(
        how(1),
        (Ready::Created as u8, 10, 0, 1),
        "its parent is nobody's task"
    );
    assert_eq!(how(2), (Ready::Woken as u8, 10, 0, 1), "by a timer");
    assert_eq!(
        how(3),
        (Ready::Waited as u8, 10, 0, 0),
        "it had lost the CPU"
    );
    let waker = 1 + all.tasks.iter().position(|t| t.tid == 1).unwrap();
    assert_eq!(
        how(5),
        (Ready::Woken as u8, 5, waker, 0),
        "by task 1 on CPU 0"
    );
}

#[test]
fn a_window_has_what_touches_it_and_nothing_else() {
    let part = record(45 * US, Some(75 * US), 100);
    let expected = [
        (2, 40, 60, Left::SliceEnd),
        (3, 60, 70, Left::Preempted),
        (1, 10, 75, Left::StillRuns),
        (2, 70, 75, Left::StillRuns),
    ];
    assert_eq!(slices(&part), expected);
    assert_eq!((part.to_ns, part.full), (75 * US, false));
    let beyond = record(200 * US, Some(300 * US), 100);
    assert!(beyond.slices.is_empty() && !beyond.full);
}

/// Who never gets a CPU has no slice, and must be seen waiting all the same.
#[test]
fn waits_that_no_slice_ends_are_kept() {
    let waits = |recorded: &Recorded| {
        let waits = recorded.waiting.iter();
        let waits = waits.map(|w| (recorded.tasks[w.task].tid, w.since_ns / US));
        waits.collect::<Vec<_>>()
    };
    assert_eq!(waits(&record(0, Some(55 * US), 100)), [(3, 50)]);
    // Task 2 has been waiting since 30, before the window, and gets no CPU in it.
    assert_eq!(waits(&record(32 * US, Some(38 * US), 100)), [(2, 30)]);
    assert_eq!(waits(&record(0, None, 100)), []);
}

#[test]
fn the_limit_ends_it_and_says_so() {
    let few = record(0, None, 2);
    let expected = [
        (3, 20, 40, Left::Sleeps),
        (2, 40, 60, Left::SliceEnd),
        (1, 10, 60, Left::StillRuns),
        (3, 60, 60, Left::StillRuns),
    ];
    assert_eq!(slices(&few), expected);
    assert!(few.full && few.to_ns == 60 * US);
}

#[test]
fn reasons_are_numbered_as_they_are_named() {
    for (index, (left, name)) in Left::ALL.iter().enumerate() {
        assert_eq!(*left as usize, index, "{name}");
    }
}
