// SPDX-License-Identifier: GPL-2.0-or-later
//! Wasted CPU time: small streams worked out by hand, and random ones against a second way to compute it.

#![allow(
    clippy::single_range_in_vec_init,
    reason = "a set of CPUs is a list of ranges, often of one"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tiltyard_measure::testing::{Call, Stream, random_sets, random_stream};
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::{Event, EventKind, OverheadCause, PrevState, Tid};

fn play(stream: &Stream, nr_cpus: usize, origin_ns: u64, end_ns: u64) -> Summary {
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus,
        origin_ns,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    stream.play(&mut recorder);
    recorder.finish(end_ns)
}

fn wasted_ns(summary: &Summary) -> Vec<Option<u64>> {
    summary.cpus.iter().map(|cpu| cpu.wasted_ns).collect()
}

/// Of 4 CPUs: set 1 is CPU 0, set 2 the upper half.
fn four_cpus() -> Stream {
    let mut s = Stream::new();
    s.cpu_set(0, &[0..4])
        .cpu_set(1, &[0..1])
        .cpu_set(2, &[2..4]);
    s
}

/// Three tasks on CPU 0 while the others idle.
fn three_on_one() -> Stream {
    let mut s = four_cpus();
    for tid in 1..=3 {
        s.task(0, tid, "hog").wake_new(0, 0, tid);
    }
    s.start(0, 0, 1);
    s
}

#[test]
fn waiting_tasks_waste_as_many_idle_cpus() {
    let got = play(&three_on_one(), 4, 0, 100);
    assert_eq!(got.wasted_ns(), Some(200));
    assert_eq!(got.cpus[0].wasted_ns, Some(0), "it is not idle");
}

#[test]
fn bound_tasks_waste_nothing_and_released_ones_do_from_then_on() {
    let mut s = three_on_one();
    for tid in 1..=3 {
        s.affinity(0, tid, 1);
    }
    assert_eq!(play(&s, 4, 0, 100).wasted_ns(), Some(0));
    // At 60 one may go to the upper half; it does at 80.
    s.affinity(60, 2, 2).migrate(80, 2, 0, 3).start(80, 3, 2);
    let got = play(&s, 4, 0, 100);
    assert_eq!(wasted_ns(&got), [Some(0), Some(0), Some(20), Some(0)]);
}

#[test]
fn only_the_window_counts() {
    assert_eq!(play(&three_on_one(), 4, 70, 100).wasted_ns(), Some(60));
}

#[test]
fn a_cpu_under_overhead_is_not_idle_and_a_waking_task_counts_for_its_own_cpu() {
    let mut s = four_cpus();
    // CPU 2 takes the interrupt at 30, works on it until 45, and switches only at 50.
    s.task(0, 1, "server").wake(10, 2, 1);
    s.overhead(30, 2, OverheadCause::Ipi, 15).start(50, 2, 1);
    s.block(60, 2, 1, 0);
    let got = play(&s, 4, 0, 100);
    // From 30 on CPU 0 could have had the task, while CPU 2 was not idle and after that.
    assert_eq!(wasted_ns(&got), [Some(20), Some(0), Some(20), Some(0)]);
    let alone = play(&of_one_cpu(), 1, 0, 100);
    assert_eq!(wasted_ns(&alone), [Some(25)], "10 to 30 and 45 to 50");
}

/// The same without other CPUs.
fn of_one_cpu() -> Stream {
    let mut s = Stream::new();
    s.cpu_set(0, &[0..1]).task(0, 1, "server").wake(10, 0, 1);
    s.overhead(30, 0, OverheadCause::Ipi, 15).start(50, 0, 1);
    s
}

#[test]
fn buckets_hold_what_was_wasted_in_them() {
    let mut s = three_on_one();
    s.migrate(1_500_000, 2, 0, 1).start(1_500_000, 1, 2);
    s.migrate(1_500_000, 3, 0, 2).start(1_500_000, 2, 3);
    let got = play(&s, 4, 0, 3_000_000);
    assert_eq!(got.depth.begin_ns, [0, 1_000_000, 2_000_000]);
    let buckets = |cpu: usize| got.depth.cpus[cpu].wasted_ns.clone();
    assert_eq!(buckets(1), Some(vec![1_000_000, 500_000, 0]));
    assert_eq!(buckets(3), Some(vec![0, 0, 0]));
}

#[test]
fn without_affinities_it_is_unknown() {
    let mut s = three_on_one();
    s.calls.retain(|call| !matches!(call, Call::CpuSet(..)));
    let got = play(&s, 4, 0, 100);
    assert_eq!((got.wasted_ns(), got.irregular), (None, 0));
    assert_eq!(got.depth.cpus[1].wasted_ns, None);
    let figures = tiltyard_measure::figures(&got);
    assert!(figures.iter().all(|figure| figure.name != "wasted_cpu_us"));
    // A set that nobody declared is a contradiction.
    s.affinity(50, 2, 1);
    assert_eq!(play(&s, 4, 0, 100).irregular, 1);
    // Affinities that come too late for some tasks are of no use.
    s.cpu_set(0, &[0..4]);
    assert_eq!(play(&s, 4, 0, 100).wasted_ns(), None);
}

#[test]
fn a_summary_from_before_this_figure_does_not_know_it() {
    let mut old = serde_json::to_value(play(&three_on_one(), 4, 0, 100)).expect("plain");
    for cpus in ["/cpus", "/depth/cpus"] {
        for cpu in old
            .pointer_mut(cpus)
            .and_then(|c| c.as_array_mut())
            .expect("CPUs")
        {
            cpu.as_object_mut().expect("an object").remove("wasted_ns");
        }
    }
    let read: Summary = serde_json::from_value(old).expect("still a summary");
    assert_eq!(read.wasted_ns(), None);
}

/// A second way to compute it: what holds between one moment and the next, and the largest matching by trial.
#[derive(Default)]
struct Slow {
    current: BTreeMap<u32, Tid>,
    /// Tasks that wait, and the sets of those that are bound.
    waiting: Vec<Tid>,
    set: BTreeMap<Tid, u32>,
    overhead_until_ns: BTreeMap<u32, u64>,
}

impl Slow {
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                next,
                ..
            } => {
                self.waiting.retain(|tid| *tid != next);
                if prev_state == PrevState::Runnable && !prev.is_idle() {
                    self.waiting.push(prev);
                }
                self.current.insert(event.cpu.0, next);
            }
            EventKind::Wakeup { task, .. } => self.waiting.push(task),
            EventKind::WakeupNew { task, .. } => {
                self.set.remove(&task);
                self.waiting.push(task);
            }
            EventKind::Affinity { task, set } => {
                self.set.insert(task, set);
            }
            EventKind::Overhead(overhead) => {
                let until_ns = self.overhead_until_ns.entry(event.cpu.0).or_default();
                *until_ns = (*until_ns).max(event.time_ns) + overhead.total_ns();
            }
            _ => {}
        }
    }

    /// From one moment to another, no event lies between.
    fn area(&self, nr_cpus: u32, from_ns: u64, to_ns: u64) -> u64 {
        let ends = self.overhead_until_ns.values().copied();
        let mut moments: Vec<u64> = ends.filter(|ns| (from_ns..to_ns).contains(ns)).collect();
        moments.extend([from_ns, to_ns]);
        moments.sort_unstable();
        let spans = moments.windows(2);
        spans
            .map(|span| (span[1] - span[0]) * self.wasted(nr_cpus, span[0]))
            .sum()
    }

    fn wasted(&self, nr_cpus: u32, now_ns: u64) -> u64 {
        let is_idle = |cpu: &u32| {
            let overhead = self
                .overhead_until_ns
                .get(cpu)
                .is_some_and(|ns| *ns > now_ns);
            self.current.get(cpu).is_none_or(|tid| tid.is_idle()) && !overhead
        };
        let idle: Vec<u32> = (0..nr_cpus).filter(is_idle).collect();
        let sets = random_sets(nr_cpus);
        let set_of = |tid| sets[self.set.get(tid).copied().unwrap_or(0) as usize].clone();
        let tasks: Vec<_> = self.waiting.iter().map(set_of).collect();
        largest(&idle, &mut vec![false; tasks.len()], &tasks)
    }
}

/// The first CPU takes any task or none; the rest likewise.
fn largest(cpus: &[u32], taken: &mut Vec<bool>, tasks: &[std::ops::Range<u32>]) -> u64 {
    let Some((cpu, rest)) = cpus.split_first() else {
        return 0;
    };
    let mut most = largest(rest, taken, tasks);
    for task in 0..tasks.len() {
        if !taken[task] && tasks[task].contains(cpu) {
            taken[task] = true;
            most = most.max(1 + largest(rest, taken, tasks));
            taken[task] = false;
        }
    }
    most
}

proptest! {
    #[test]
    fn random_streams_waste_what_the_slow_way_says(
        nr_cpus in 1u32..5,
        nr_tasks in 1u32..6,
        words in prop::collection::vec(any::<u32>(), 0..150),
        origin_ns in 0u64..300_000,
    ) {
        let (stream, end_ns) = random_stream(nr_cpus, nr_tasks, &words);
        let end_ns = end_ns + 1000;
        let got = play(&stream, nr_cpus as usize, origin_ns, end_ns);
        let (mut slow, mut last_ns, mut sum_ns) = (Slow::default(), 0, 0);
        let clamp = |ns: u64| ns.max(origin_ns);
        for call in &stream.calls {
            if let Call::Event(event) = call {
                sum_ns += slow.area(nr_cpus, clamp(last_ns), clamp(event.time_ns));
                slow.event(event);
                last_ns = event.time_ns;
            }
        }
        sum_ns += slow.area(nr_cpus, clamp(last_ns), clamp(end_ns));
        prop_assert_eq!(got.wasted_ns(), Some(sum_ns));
    }
}
