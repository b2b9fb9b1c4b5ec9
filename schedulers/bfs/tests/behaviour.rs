// SPDX-License-Identifier: GPL-2.0-or-later
//! What BFS is known for: turns of hogs on a machine where only decisions take effect, then runs in the
//! simulated machine.

use crate::bfs::fake::Records;
use crate::bfs::scripts::Stage;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiltyard_model::event::EventKind;
use tiltyard_model::{Event, EventSink, TaskInfo};
use tiltyard_schedtest::{Lab, globals, ideal, object, parse};
use tiltyard_sim::run;

const HOG: i64 = 1_000_000_000;

/// BFS as it is by default: the records' machines have its slips.
const DEFAULTS: [(&str, i128); 4] = [
    ("stale_copy", 0),
    ("equals_preempt", 0),
    ("distance_ms", 0),
    ("charge_still_clock", 0),
];

/// The turns on one CPU, HZ 1000: task, from and to in ms. Tasks: nice, pattern, start in us.
fn turns(len_ms: i64, tasks: &[(i64, Value, i64)]) -> Vec<(i64, i64, i64)> {
    let task = |(tid, (nice, pattern, start)): (usize, &(i64, Value, i64))| json!({ "tid": tid, "nice": nice, "pat": pattern, "start": start });
    let tasks: Vec<Value> = tasks.iter().enumerate().map(task).collect();
    let given = json!({ "topo": "up1", "hz": 1000, "rr": 6, "len": len_ms * 1000, "tasks": tasks });
    let r = json!({ "in": given });
    let mut stage = Stage::new(&Records::read(), &r, &DEFAULTS);
    stage.play(&r);
    let at = |s: &Value| s[0].as_i64().expect("a time") / 1000;
    let pairs = stage.switches.iter().zip(stage.switches.iter().skip(1));
    pairs
        .map(|(s, next)| (s[2].as_i64().expect("a task"), at(s), at(next)))
        .filter(|(tid, from, to)| *tid >= 0 && from < to)
        .collect()
}

fn hogs(nices: &[i64]) -> Vec<(i64, Value, i64)> {
    let hog = |nice: &i64| (*nice, json!([[HOG, 0]]), 0);
    nices.iter().map(hog).collect()
}

/// Two hogs: the better one runs ceil((offset of the worse - offset of the better) / rr) slices for each of the other, at least
/// one.
#[test]
fn slices_of_the_better_hog() {
    for (nice, better, worse) in [
        (1, 1, 1),
        (2, 2, 1),
        (3, 3, 1),
        (5, 4, 1),
        (8, 8, 1),
        (10, 11, 1),
        (15, 21, 1),
        (19, 34, 1),
        (-1, 1, 1),
        (-5, 1, 3),
        (-10, 1, 4),
        (-20, 1, 6),
    ] {
        let turns = turns(3_000, &hogs(&[0, nice]));
        // The first turns depend on who came first.
        for (tid, from, to) in &turns[3..] {
            let slices = [better, worse][*tid as usize];
            assert_eq!(to - from, 6 * slices, "0 and {nice}: task {tid} at {from}");
        }
        assert!(turns.len() > 8, "0 and {nice}");
    }
}

#[test]
fn equal_hogs_take_turns() {
    for n in [2, 3, 5, 12] {
        let turns = turns(400, &hogs(&vec![0; n]));
        for (at, (tid, from, to)) in turns.iter().enumerate() {
            assert_eq!((*tid, *from), ((at % n) as i64, 6 * at as i64));
            assert_eq!(*to, from + 6);
        }
    }
}

/// Three hogs on two CPUs, slices of 12 ms: what each has after 150 ms. Without a common cache one keeps its CPU.
#[test]
fn three_hogs_on_two_cpus() {
    for (topology, expected) in [("sep2", [150, 78, 72]), ("mc2", [102, 102, 96])] {
        let hog = |tid: usize| json!({ "tid": tid, "nice": 0, "pat": [[HOG, 0]], "start": 0 });
        let hogs: Vec<Value> = (0..3).map(hog).collect();
        let given =
            json!({ "topo": topology, "hz": 1000, "rr": 12, "len": 150_000, "tasks": hogs });
        let r = json!({ "in": given });
        let mut stage = Stage::new(&Records::read(), &r, &DEFAULTS);
        stage.play(&r);
        let mut ran = [0; 3];
        for cpu in [0, 1] {
            let on_cpu = |s: &&Value| s[1] == cpu;
            let mut turns: Vec<(i64, i64)> = stage
                .switches
                .iter()
                .filter(on_cpu)
                .map(|s| {
                    (
                        s[0].as_i64().expect("a time"),
                        s[2].as_i64().expect("a task"),
                    )
                })
                .collect();
            turns.push((150_000, -1));
            for turn in turns.windows(2).filter(|turn| turn[0].1 >= 0) {
                ran[turn[0].1 as usize] += (turn[1].0 - turn[0].0) / 1000;
            }
        }
        ran.sort_by_key(|ms| -ms);
        assert_eq!(ran, expected, "{topology}");
    }
}

/// Tasks by name, their run time, and what probes of CPUs said.
#[derive(Default)]
struct Seen {
    names: BTreeMap<u32, String>,
    probes: BTreeMap<u16, String>,
    told: Vec<(String, i64)>,
    running: Option<(u32, u64)>,
    /// From and to.
    ran: Vec<(String, u64, u64)>,
}

impl EventSink for Seen {
    fn task(&mut self, info: &TaskInfo) {
        self.names.insert(info.tid.0, info.name.clone());
    }

    fn probe_name(&mut self, probe: u16, name: &str, _: bool) {
        self.probes.insert(probe, name.to_owned());
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { next, .. } if event.cpu.0 == 0 => {
                let before = self.running.replace((next.0, event.time_ns));
                if let Some((tid, from)) = before {
                    let name = self.names.get(&tid).cloned().unwrap_or_default();
                    self.ran.push((name, from, event.time_ns));
                }
            }
            EventKind::Probe { probe, value, .. } => {
                self.told.push((self.probes[&probe].clone(), value));
            }
            _ => {}
        }
    }
}

/// One CPU, HZ 1000. The times of runs count from the workload's start.
fn watch(tunables: &[(&str, i128)], workload: &str) -> Seen {
    let machine = ideal("pu:1", 1000);
    let globals = globals(tunables);
    let mut lab = Lab::new(&machine, object("bfs", 2));
    lab.globals = &globals;
    let workload = parse(workload);
    let mut seen = Seen::default();
    let outcome = run(&lab.setup(&workload), &mut seen, &mut |_| {}).expect("a run");
    assert_eq!(outcome.exit.message, "");
    for (_, from, to) in &mut seen.ran {
        *from = from.saturating_sub(outcome.origin_ns);
        *to = to.saturating_sub(outcome.origin_ns);
    }
    seen
}

fn ran_ms(seen: &Seen, name: &str, from_ms: u64, to_ms: u64) -> u64 {
    let of = seen.ran.iter().filter(|(of, ..)| of.starts_with(name));
    let within = |from: u64, to: u64| {
        let (from, to) = (from.max(from_ms * 1_000_000), to.min(to_ms * 1_000_000));
        to.saturating_sub(from)
    };
    of.map(|(_, from, to)| within(*from, *to)).sum::<u64>() / 1_000_000
}

const IDLE_AND_HOG: &str = r#"{ "tasks": {
    "hog": { "loop": -1, "run": 100000 },
    "lazy": { "loop": -1, "policy": "SCHED_IDLE", "sleep": 1000, "run": 100000 } },
"global": { "duration": 4 } }"#;

#[test]
fn idle_tasks_starve_and_the_guard_lets_them_run() {
    let seen = watch(&[], IDLE_AND_HOG);
    assert_eq!(ran_ms(&seen, "lazy", 100, 4_000), 0);
    let seen = watch(&[("starve_limit_ms", 500)], IDLE_AND_HOG);
    let lazy_ms = ran_ms(&seen, "lazy", 100, 4_000);
    // A turn every half second: until the next tick that finds the hog first again.
    assert!((5..60).contains(&lazy_ms), "{lazy_ms}");
}

/// From zero, a hog of all CPUs is throttled after 3551 ticks at HZ 1000, and comes back when usage is below 63 %.
#[test]
fn isochronous_hogs_are_throttled() {
    let workload = r#"{ "tasks": {
        "iso-hog": { "loop": -1, "run": 100000 },
        "hog": { "loop": -1, "run": 100000 } },
    "global": { "duration": 5 } }"#;
    let seen = watch(&[], workload);
    let normal = seen
        .ran
        .iter()
        .filter(|(name, from, _)| name.starts_with("hog") && *from > 100_000_000);
    let first_ms = normal
        .map(|(_, from, _)| from / 1_000_000)
        .min()
        .expect("it runs");
    assert!((3_500..3_600).contains(&first_ms), "{first_ms}");
    assert!(ran_ms(&seen, "hog", 3_600, 4_100) > 200);
    let seen = watch(&[("iso_by_name", 0)], workload);
    assert!(ran_ms(&seen, "hog", 100, 3_500) > 1_500);
}

/// The search visits each waiting task.
#[test]
fn a_choice_looks_at_all() {
    let looked_at = |n: u32| {
        let workload = format!(
            r#"{{ "tasks": {{ "hog": {{ "instance": {n}, "loop": -1, "run": 100000 }} }}, "global": {{ "duration": 1 }} }}"#
        );
        // 0.311 stops at the first one that has expired.
        let seen = watch(&[("version", 330)], &workload);
        let told = seen.told.iter().filter(|(name, _)| name == "looked_at");
        told.map(|(_, nr)| *nr).next_back().expect("it is probed")
    };
    assert_eq!([64, 1024].map(looked_at), [63, 1023]);
}
