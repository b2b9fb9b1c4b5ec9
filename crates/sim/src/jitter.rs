// SPDX-License-Identifier: GPL-2.0-or-later
//! What differs between two runs of the same programs on the same hardware: when programs start, how late timer
//! interrupts are, how long computations take. The machine gives the amounts, the seed draws the values.
//! Each task has its own streams, from which it draws in the order of its program, so schedulers that decide
//! differently still run the same programs.

use crate::bpf::rng::{Pcg, Streams};
use std::collections::BTreeMap;
use tiltyard_model::machine::Jitter;
use tiltyard_workload::Workload;

const MILLION: u64 = 1_000_000;

/// Lateness of the timer interrupts of one user. They are never early.
#[derive(Debug)]
pub struct Lateness {
    rng: Pcg,
    mean_ns: u64,
}

impl Lateness {
    pub fn new(jitter: &Jitter, streams: &Streams, user: &str, number: u64) -> Lateness {
        Lateness {
            rng: streams.stream(&format!("late/{user}"), number),
            mean_ns: jitter.timer_late_mean_ns,
        }
    }

    #[inline]
    pub fn draw_ns(&mut self) -> u64 {
        late_ns(&mut self.rng, self.mean_ns)
    }
}

fn late_ns(rng: &mut Pcg, mean_ns: u64) -> u64 {
    match mean_ns {
        0 => 0,
        mean_ns => rng.exponential(mean_ns),
    }
}

/// The draws of one task. The amounts are the machine's: there may be a million tasks.
#[derive(Debug)]
pub struct TaskJitter {
    late: Pcg,
    work: Pcg,
}

impl TaskJitter {
    pub fn new(streams: &Streams, name: &str, number: u64) -> TaskJitter {
        TaskJitter {
            late: streams.stream(&format!("late/{name}"), number),
            work: streams.stream(&format!("work/{name}"), number),
        }
    }

    /// How late the task's next timer is.
    #[inline]
    pub fn late_ns(&mut self, jitter: &Jitter) -> u64 {
        late_ns(&mut self.late, jitter.timer_late_mean_ns)
    }

    /// Length of a computation of `ns` this time: as often shorter as longer, `ns` on average.
    #[inline]
    pub fn work_ns(&mut self, jitter: &Jitter, ns: u64) -> u64 {
        let ppm = jitter.work_spread_ppm;
        if ppm == 0 {
            return ns;
        }
        // A wide division takes ten times as long, and few computations last for hours.
        let spread_ns = match ns.checked_mul(ppm) {
            Some(product) => product / MILLION,
            None => (u128::from(ns) * u128::from(ppm) / u128::from(MILLION)) as u64,
        };
        self.work
            .uniform(ns - spread_ns, ns.saturating_add(spread_ns))
    }
}

/// Where the tick grid lies: its first tick, within one period.
pub fn tick_phase_ns(jitter: &Jitter, streams: &Streams, tick_ns: u64) -> u64 {
    match jitter.start_span_ns {
        0 => 0,
        _ => streams.stream("tick phase", 0).below(tick_ns),
    }
}

/// When the shells start each task of the workload, from the workload's start on.
///
/// A task starts up to the machine's span later than its delay, but always before tasks with a longer delay; tasks of
/// one application that have the same delay keep their order in the file. Instances of a task start together, as
/// the threads that a program creates in a loop do.
pub fn starts_ns(workload: &Workload, jitter: &Jitter, streams: &Streams) -> Vec<u64> {
    let mut starts: Vec<u64> = workload.tasks.iter().map(|t| t.delay_ns).collect();
    if jitter.start_span_ns == 0 {
        return starts;
    }
    // Tasks with the same delay, by application, in the order of the file.
    let mut by_delay: BTreeMap<u64, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for (i, task) in workload
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, t)| t.instances > 0)
    {
        let apps = by_delay.entry(task.delay_ns).or_default();
        apps.entry(task.app).or_default().push(i);
    }
    let delays: Vec<u64> = by_delay.keys().copied().collect();
    for (at, (delay_ns, apps)) in by_delay.iter().enumerate() {
        let gap_ns = delays.get(at + 1).map_or(u64::MAX, |next| next - delay_ns);
        let span_ns = jitter.start_span_ns.min(gap_ns);
        for together in apps.values() {
            let phase = |i: &usize| {
                let user = format!("start/{}", workload.tasks[*i].name);
                streams.stream(&user, 0).below(span_ns)
            };
            let mut phases: Vec<u64> = together.iter().map(phase).collect();
            phases.sort_unstable();
            for (i, phase_ns) in together.iter().zip(phases) {
                starts[*i] += phase_ns;
            }
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const JITTER: Jitter = Jitter {
        start_span_ns: 30_000,
        timer_late_mean_ns: 1_000,
        work_spread_ppm: 10_000,
    };

    fn workload() -> Workload {
        let json = r#"{ "tasks": {
            "first": { "run": 1 }, "second": { "run": 1 }, "third": { "run": 1 },
            "soon": { "delay": 5, "run": 1 }, "late": { "delay": 1000, "run": 1 }
        } }"#;
        tiltyard_workload::read(json, "test").unwrap_or_else(|e| panic!("{}", e[0]))
    }

    #[test]
    fn starts_differ_by_seed_and_keep_the_order_of_the_file() {
        let workload = workload();
        let starts = |seed| starts_ns(&workload, &JITTER, &Streams::new(seed));
        let all: Vec<Vec<u64>> = (0..200).map(starts).collect();
        for starts in &all {
            assert!(starts.is_sorted(), "{starts:?}");
            // No task starts after one with a longer delay: 5 us here.
            assert!(starts[2] < 5_000 && (5_000..35_000).contains(&starts[3]));
            assert!((1_000_000..1_030_000).contains(&starts[4]));
        }
        let last = |starts: &Vec<u64>| starts[4] - 1_000_000;
        let (least, most) = (all.iter().map(last).min(), all.iter().map(last).max());
        assert!(
            least < Some(1_000) && most > Some(29_000),
            "{least:?} {most:?}"
        );
        assert_eq!(starts(7), all[7]);
    }

    #[test]
    fn without_jitter_everything_is_as_written() {
        let (workload, streams) = (workload(), Streams::new(1));
        let starts = starts_ns(&workload, &Jitter::NONE, &streams);
        assert_eq!(starts, [0, 0, 0, 5_000, 1_000_000]);
        let mut task = TaskJitter::new(&streams, "first", 0);
        assert_eq!(task.work_ns(&Jitter::NONE, 7_000), 7_000);
        assert_eq!(task.late_ns(&Jitter::NONE), 0);
        assert_eq!(tick_phase_ns(&Jitter::NONE, &streams, 4_000_000), 0);
        assert_eq!(
            Lateness::new(&Jitter::NONE, &streams, "tick", 0).draw_ns(),
            0
        );
    }

    #[test]
    fn computations_are_as_long_as_written_on_average_and_timers_late() {
        let mut task = TaskJitter::new(&Streams::new(1), "t", 0);
        let draws: Vec<u64> = (0..100_000)
            .map(|_| task.work_ns(&JITTER, 1_000_000))
            .collect();
        assert!(draws.iter().all(|d| (990_000..=1_010_000).contains(d)));
        let mean = draws.iter().sum::<u64>() / 100_000;
        // Standard error: 10,000 / sqrt(3) / sqrt(100,000) = 18.
        assert!(mean.abs_diff(1_000_000) < 90, "{mean}");
        let late = (0..100_000).map(|_| task.late_ns(&JITTER)).sum::<u64>() / 100_000;
        assert!(late.abs_diff(1_000) < 20, "{late}");
        assert_eq!(task.work_ns(&JITTER, 0), 0);
        task.work_ns(&JITTER, u64::MAX);
    }
}
