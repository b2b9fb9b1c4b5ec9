// SPDX-License-Identifier: GPL-2.0-or-later
//! A sample to draw: "fibo" computes, sixteen "sysbench" threads serve requests; one made-up scheduler
//! lets the threads always go first, the other gives each app half of every CPU.

use tiltyard_measure::testing::Stream;
use tiltyard_measure::{Recorder, RecorderSpec, Summary};
use tiltyard_model::OverheadCause;

const MS: u64 = 1_000_000;
const THREADS: u32 = 16;

/// When the threads come and how long the run lasts.
pub const START_NS: u64 = 7_000 * MS;
pub const END_NS: u64 = 30_000 * MS;

/// One run as figures.
pub fn run(nr_cpus: u32, half: bool, seed: u64) -> Summary {
    let spec = RecorderSpec {
        nr_cpus: nr_cpus as usize,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    };
    let mut recorder = Recorder::new(spec);
    stream(nr_cpus, half, seed).play(&mut recorder);
    recorder.finish(END_NS)
}

/// One run on `nr_cpus` CPUs, each with a fibo and its sixteen threads. `half`: fibo has every second turn.
pub fn stream(nr_cpus: u32, half: bool, seed: u64) -> Stream {
    let mut s = Stream::new();
    s.class(0, "transaction").probe_name(0, "penalty", false);
    for cpu in 0..nr_cpus {
        s.task(0, fibo(cpu), "fibo")
            .wake_new(0, cpu, fibo(cpu))
            .start(0, cpu, fibo(cpu));
    }
    for second in 0..START_NS / MS / 1000 {
        s.probe(second * 1000 * MS, 0, fibo(0), (second as i64 * 18).min(98));
    }
    let mut draw = seed + 1;
    for cpu in 0..nr_cpus {
        for k in 0..THREADS {
            s.task(START_NS, thread(cpu, k), "sysbench")
                .wake_new(START_NS, cpu, thread(cpu, k));
        }
    }
    let mut now_ns = START_NS;
    let mut turn = 0u32;
    let mut since_ns = vec![START_NS; THREADS as usize];
    while now_ns < END_NS - 100 * MS {
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let slice_ns = 2 * MS + (draw >> 33) % (3 * MS);
        let k = turn % THREADS;
        for cpu in 0..nr_cpus {
            serve(&mut s, cpu, k, now_ns, half || turn == 0);
            s.overhead(now_ns, cpu, OverheadCause::Switch, 2_000);
            s.overhead(
                now_ns,
                cpu,
                OverheadCause::Scheduler,
                1_000 + (draw >> 40) % 900,
            );
        }
        now_ns += slice_ns;
        s.request(now_ns, thread(0, k), 0, since_ns[k as usize]);
        s.probe(now_ns, 0, thread(0, k), (draw >> 50) as i64 % 9);
        let next = thread(0, (k + 1) % THREADS);
        since_ns[k as usize] = now_ns;
        for cpu in 0..nr_cpus {
            let next = if half {
                fibo(cpu)
            } else {
                next - thread(0, 0) + thread(cpu, 0)
            };
            s.block(now_ns, cpu, thread(cpu, k), next);
            // Asleep for a moment that no one notices.
            s.wake(now_ns, cpu, thread(cpu, k));
        }
        now_ns += if half { slice_ns } else { 0 };
        turn += 1;
    }
    s
}

/// Thread `k` gets the CPU: from fibo by preemption, else it has it already.
fn serve(s: &mut Stream, cpu: u32, k: u32, now_ns: u64, from_fibo: bool) {
    if from_fibo {
        s.preempt(now_ns, cpu, fibo(cpu), thread(cpu, k));
    }
}

fn fibo(cpu: u32) -> u32 {
    cpu + 1
}

fn thread(cpu: u32, k: u32) -> u32 {
    1000 + cpu * THREADS + k
}

/// Both schedulers with three seeds each.
pub fn runs(nr_cpus: u32) -> Vec<(String, Vec<Summary>)> {
    let seeds = |half| (0..3).map(|seed| run(nr_cpus, half, seed)).collect();
    vec![
        ("first".to_owned(), seeds(false)),
        ("half".to_owned(), seeds(true)),
    ]
}
