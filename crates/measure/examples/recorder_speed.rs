// SPDX-License-Identifier: GPL-2.0-or-later
//! What one event costs: `cargo run --release -p tiltyard-measure --example recorder_speed`.

use std::time::Instant;
use tiltyard_measure::testing::{Call, Stream};
use tiltyard_measure::{Recorder, RecorderSpec, TraceHash};
use tiltyard_model::{Event, EventSink};

/// Tasks that take turns on 32 CPUs: wakeup, switch in, overhead, switch out.
fn events(tasks: u32, rounds: u64) -> (Stream, Vec<Event>) {
    let (mut births, mut stream) = (Stream::new(), Stream::new());
    for tid in 1..=tasks {
        births.task(0, tid, ["a", "b", "c"][tid as usize % 3]);
    }
    for round in 0..rounds {
        for tid in 1..=tasks {
            let (at_ns, cpu) = (round * 1_000_000 + u64::from(tid) * 1000, tid % 32);
            stream
                .wake(at_ns, cpu, tid)
                .start(at_ns + 100 + round % 37, cpu, tid);
            stream.overhead(at_ns + 200, cpu, tiltyard_model::OverheadCause::Switch, 50);
            stream.block(at_ns + 600, cpu, tid, 0);
        }
    }
    let heard = stream.calls.into_iter().filter_map(|call| match call {
        Call::Event(event) => Some(event),
        _ => None,
    });
    (births, heard.collect())
}

fn time(what: &str, events: &[Event], sink: &mut impl EventSink) {
    let begin = Instant::now();
    events.iter().for_each(|event| sink.event(event));
    let ns = begin.elapsed().as_nanos() as f64 / events.len() as f64;
    println!("{what:<28} {ns:6.1} ns per event");
}

fn main() {
    let (births, events) = events(512, 2000);
    let mut recorder = Recorder::new(RecorderSpec {
        nr_cpus: 32,
        origin_ns: 0,
        starvation_ns: RecorderSpec::STARVATION_NS,
    });
    births.play(&mut recorder);
    time("Recorder (512 tasks, 32 CPUs)", &events, &mut recorder);
    time("TraceHash", &events, &mut TraceHash::new());
}
