// SPDX-License-Identifier: GPL-2.0-or-later
//! Identities that hold for any legal stream, to the nanosecond.

use proptest::prelude::*;
use tiltyard_measure::testing::random_stream;
use tiltyard_measure::{Recorder, RecorderSpec, Summary};

fn run(cpus: u32, tasks: u32, words: &[u32], origin_ns: u64, extra_ns: u64) -> Summary {
    let (stream, end_ns) = random_stream(cpus, tasks, words);
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: cpus as usize,
        origin_ns,
        starvation_ns: 1_000_000,
    });
    stream.play(&mut recorder);
    recorder.finish(end_ns + extra_ns)
}

proptest! {
    #[test]
    fn times_add_up(
        cpus in 1u32..5,
        tasks in 1u32..12,
        words in prop::collection::vec(any::<u32>(), 0..800),
        origin_ns in prop_oneof![Just(0u64), 0u64..3_000_000, any::<u32>().prop_map(u64::from)],
        extra_ns in 0u64..2_000_000_000,
    ) {
        let got = run(cpus, tasks, &words, origin_ns, extra_ns);
        prop_assert_eq!(got.irregular, 0);
        for task in &got.tasks {
            prop_assert_eq!(task.runtime_ns + task.wait_ns + task.sleep_ns, task.lifetime_ns);
            prop_assert!(task.overhead_ns <= task.runtime_ns);
            prop_assert!(task.starved_ns <= task.wait_ns);
            prop_assert!(task.longest_wait_ns <= task.wait_ns);
        }
        for cpu in &got.cpus {
            prop_assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.overhead_ns, got.duration_ns);
            prop_assert!(cpu.wasted_ns <= Some(cpu.idle_ns));
        }
        let waited_ns: u64 = got.tasks.iter().map(|t| t.wait_ns).sum();
        prop_assert!(got.wasted_ns().is_some_and(|wasted_ns| wasted_ns <= waited_ns));
        for (cpu, depth) in got.cpus.iter().zip(&got.depth.cpus) {
            let of_buckets = depth.wasted_ns.as_ref().map(|all| all.iter().sum::<u64>());
            prop_assert_eq!(of_buckets, cpu.wasted_ns);
        }
        let runtime_ns: u64 = got.tasks.iter().map(|t| t.runtime_ns).sum();
        let stolen_ns: u64 = got.tasks.iter().map(|t| t.overhead_ns).sum();
        let busy_ns: u64 = got.cpus.iter().map(|c| c.busy_ns).sum();
        prop_assert_eq!(runtime_ns - stolen_ns, busy_ns);
        let switches: u64 = got.cpus.iter().map(|c| c.switches).sum();
        prop_assert_eq!(switches, got.switches.total());
    }

    #[test]
    fn series_end_at_the_totals_and_never_fall(
        words in prop::collection::vec(any::<u32>(), 0..600),
        extra_ns in 0u64..20_000_000_000,
    ) {
        let got = run(2, 6, &words, 0, extra_ns);
        for (curve, app) in got.runtime.apps.iter().zip(&got.apps) {
            prop_assert_eq!(curve.runtime_ns.len(), got.runtime.at_ns.len());
            prop_assert!(curve.runtime_ns.is_sorted());
            prop_assert_eq!(curve.runtime_ns.last().copied(), Some(app.runtime_ns));
        }
        prop_assert!(got.runtime.at_ns.len() <= 1026);
        for cpu in &got.depth.cpus {
            prop_assert_eq!(cpu.mean_milli.len(), got.depth.begin_ns.len());
        }
        for probe in got.probes.iter().flat_map(|p| p.apps.iter().chain(&p.keys)) {
            prop_assert_eq!(probe.bucket_max.len(), probe.bucket_min.len());
            prop_assert_eq!(probe.bucket_max.len() as u64, got.duration_ns / probe.width_ns + 1);
            prop_assert_eq!(probe.bucket_max.iter().flatten().max(), Some(&probe.max));
        }
    }

    #[test]
    fn a_summary_survives_json(words in prop::collection::vec(any::<u32>(), 0..300)) {
        let got = run(2, 6, &words, 0, 0);
        let text = serde_json::to_string(&got).unwrap();
        prop_assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), got);
    }
}
