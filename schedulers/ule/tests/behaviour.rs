// SPDX-License-Identifier: GPL-2.0-or-later
//! What ULE is known for, on a machine that charges nothing: who runs, for how long, and where.

use std::collections::BTreeMap;
use tiltyard_model::event::{EventKind, SwitchCause};
use tiltyard_model::machine::Noise;
use tiltyard_model::{Event, EventSink, Machine, TaskInfo, Tid};
use tiltyard_schedtest::{Lab, globals, object, parse, repository};
use tiltyard_sim::{ExitKind, Outcome, run};

const MS: u64 = 1_000_000;
/// A tick of the machine, and of the port.
const TICK: u64 = 4 * MS;

/// One time on a CPU.
#[derive(Clone, Copy, Debug)]
struct Turn {
    tid: Tid,
    cpu: u32,
    from_ns: u64,
    to_ns: u64,
}

/// Times count from the workload's start.
#[derive(Default)]
struct Seen {
    names: BTreeMap<Tid, String>,
    running: BTreeMap<u32, (Tid, u64)>,
    turns: Vec<Turn>,
    preemptions: usize,
    probes: BTreeMap<u16, String>,
    /// The values of each probe for each task, in time.
    told: BTreeMap<(Tid, String), Vec<(u64, i64)>>,
    /// How long each task had waited that the guard let run, ms.
    rescued_ms: Vec<(Tid, i64)>,
}

impl EventSink for Seen {
    fn task(&mut self, info: &TaskInfo) {
        self.names.insert(info.tid, info.name.clone());
    }

    fn probe_name(&mut self, probe: u16, name: &str, _: bool) {
        self.probes.insert(probe, name.to_owned());
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { next, cause, .. } => {
                self.preemptions += usize::from(cause == SwitchCause::Preempt);
                let cpu = event.cpu.0;
                if let Some((tid, from_ns)) = self.running.insert(cpu, (next, event.time_ns)) {
                    let to_ns = event.time_ns;
                    self.turns.push(Turn {
                        tid,
                        cpu,
                        from_ns,
                        to_ns,
                    });
                }
            }
            EventKind::Probe { probe, key, value } => {
                let name = self.probes[&probe].clone();
                if name == "rescued_ms" {
                    self.rescued_ms.push((Tid(key), value));
                }
                let told = self.told.entry((Tid(key), name)).or_default();
                told.push((event.time_ns, value));
            }
            _ => {}
        }
    }
}

impl Seen {
    /// Turns of tasks whose name begins with `name`, wholly between two times.
    fn turns(&self, name: &str, from_ns: u64, to_ns: u64) -> Vec<Turn> {
        let of = |t: &&Turn| self.names.get(&t.tid).is_some_and(|n| n.starts_with(name));
        let during = |t: &&Turn| t.from_ns >= from_ns && t.to_ns <= to_ns;
        self.turns
            .iter()
            .filter(of)
            .filter(during)
            .copied()
            .collect()
    }

    fn told(&self, name: &str, probe: &str) -> Vec<(u64, i64)> {
        let tid = *self.names.iter().find(|(_, n)| *n == name).expect(name).0;
        self.told[&(tid, probe.to_owned())].clone()
    }

    fn penalties(&self, name: &str) -> Vec<(u64, i64)> {
        self.told(name, "penalty")
    }
}

/// Runs `workload` for a time and returns what was seen; the run's origin is the time 0.
fn watch(cpus: u32, tunables: &[(&str, i128)], workload: &str, seconds: u64) -> Seen {
    let machine = machine(cpus);
    let (mut seen, outcome) = try_run(&machine, tunables, workload, seconds, false);
    assert_eq!(outcome.exit.message, "");
    for turn in &mut seen.turns {
        turn.from_ns = turn.from_ns.saturating_sub(outcome.origin_ns);
        turn.to_ns = turn.to_ns.saturating_sub(outcome.origin_ns);
    }
    for (at_ns, _) in seen.told.values_mut().flatten() {
        *at_ns = at_ns.saturating_sub(outcome.origin_ns);
    }
    seen
}

fn machine(cpus: u32) -> Machine {
    let file = repository().join("machines/ideal1.toml");
    let text = std::fs::read_to_string(file).expect("ideal1");
    let line = text
        .lines()
        .find(|l| l.starts_with("topology"))
        .expect("topology");
    let topology = format!("topology = \"package:1 l3:1 core:{cpus} pu:1\"");
    Machine::parse_toml(&text.replace(line, &topology), "test").expect("machine")
}

fn try_run(
    machine: &Machine,
    tunables: &[(&str, i128)],
    workload: &str,
    seconds: u64,
    watchdog: bool,
) -> (Seen, Outcome) {
    let (workload, globals) = (parse(workload), globals(tunables));
    let mut lab = Lab::new(machine, object("ule", 2));
    lab.globals = &globals;
    lab.duration_ns = Some(seconds * 1000 * MS);
    lab.watchdog = watchdog;
    let mut seen = Seen::default();
    let outcome = run(&lab.setup(&workload), &mut seen, &mut |_| {}).expect("run");
    (seen, outcome)
}

fn hogs(count: u32) -> String {
    format!(r#"{{ "tasks": {{ "hog": {{ "instance": {count}, "run": 1000000000 }} }} }}"#)
}

#[test]
fn slices_are_shared_out_in_whole_ticks() {
    for (count, ticks) in [(2, 10), (3, 5), (4, 3), (5, 2), (6, 2), (7, 1), (10, 1)] {
        let seen = watch(1, &[], &hogs(count), 20);
        let turns = seen.turns("hog", 10_000 * MS, 20_000 * MS);
        assert!(turns.len() > 100, "{count} hogs: {} turns", turns.len());
        for turn in turns {
            assert_eq!(
                turn.to_ns - turn.from_ns,
                ticks * TICK,
                "{count} hogs: {turn:?}"
            );
        }
    }
}

#[test]
fn batch_tasks_share_fairly_and_waiting_is_no_sleep() {
    let seen = watch(1, &[], &hogs(8), 30);
    let mut shares = BTreeMap::new();
    for turn in seen.turns("hog", 10_000 * MS, 30_000 * MS) {
        *shares.entry(turn.tid).or_insert(0) += turn.to_ns - turn.from_ns;
    }
    assert_eq!(shares.len(), 8);
    let (least, most) = (
        shares.values().min().unwrap(),
        shares.values().max().unwrap(),
    );
    assert!(most - least <= 250 * MS, "10 % of 2.5 s: {shares:?}");
    for name in seen.names.values().filter(|n| n.starts_with("hog")) {
        let penalties = seen.penalties(name);
        assert!(
            penalties.iter().map(|p| p.1).is_sorted(),
            "{name} never sleeps: {penalties:?}"
        );
    }
}

/// 20 tasks of 1 ms each 16 ms are more than one CPU can do.
const FLOOD: &str = r#"{ "tasks": {
    "hog": { "run": 1000000000 },
    "sleeper": { "instance": 20, "loop": -1, "run": 1000, "sleep": 15000 } } }"#;

#[test]
fn interactive_tasks_starve_batch_tasks() {
    let seen = watch(1, &[], FLOOD, 30);
    assert!(
        !seen.turns("hog", 0, 1000 * MS).is_empty(),
        "interactive at first"
    );
    assert!(
        seen.turns("hog", 2000 * MS, 30_000 * MS).is_empty(),
        "then never again"
    );
    assert!(seen.rescued_ms.is_empty());

    let guarded = watch(1, &[("starve_limit_ms", 1000)], FLOOD, 30);
    let turns = guarded.turns("hog", 2000 * MS, 30_000 * MS);
    for pair in turns.windows(2) {
        let wait_ns = pair[1].from_ns - pair[0].to_ns;
        assert!(
            wait_ns <= 1200 * MS,
            "the guard's limit and its steps: {wait_ns}"
        );
    }
    assert!(turns.len() >= 20, "{}", turns.len());
    let rescued = guarded.rescued_ms.len();
    assert!(rescued.abs_diff(turns.len()) <= 2, "{rescued}: each counts");
    for (tid, waited_ms) in guarded.rescued_ms {
        assert!(guarded.names[&tid].starts_with("hog"), "{tid:?}");
        assert!((1000..=1200).contains(&waited_ms), "{waited_ms}");
    }
}

/// As a kernel would; with the guard that a kernel gets, it has no reason.
#[test]
fn the_watchdog_ejects_a_scheduler_that_starves_unless_it_is_guarded() {
    let (_, starved) = try_run(&machine(1), &[], FLOOD, 120, true);
    assert_eq!(starved.exit.kind, ExitKind::ErrorStall);
    let guard = [("starve_limit_ms", 20_000)];
    let (seen, guarded) = try_run(&machine(1), &guard, FLOOD, 120, true);
    assert_eq!(guarded.exit.message, "");
    assert!(seen.rescued_ms.len() >= 4, "{:?}", seen.rescued_ms);
}

/// One that has much to do counts as a batch task, which waits for all interactive ones.
#[test]
fn under_the_guard_kernel_threads_of_a_cpu_are_always_served() {
    let mut machine = machine(1);
    machine.noise = vec![Noise::workers(20 * MS, 100 * MS)];
    let ran_ms = |limit_ms| {
        let tunables = [("starve_limit_ms", limit_ms)];
        let (seen, outcome) = try_run(&machine, &tunables, FLOOD, 30, false);
        assert_eq!(outcome.exit.message, "");
        let turns = seen.turns("kworker", 15_000 * MS, u64::MAX);
        turns.iter().map(|t| t.to_ns - t.from_ns).sum::<u64>() / MS
    };
    assert_eq!(ran_ms(0), 0, "ULE itself");
    let ran_ms = ran_ms(20_000);
    assert!(ran_ms > 1000, "{ran_ms} of 15 s");
}

#[test]
fn only_freebsd_preempts_for_a_woken_task() {
    let pair = r#"{ "tasks": {
        "hog": { "run": 1000000000 },
        "sleeper": { "loop": -1, "run": 1000, "sleep": 50000 } } }"#;
    assert_eq!(watch(1, &[], pair, 10).preemptions, 0);
    let freebsd = watch(1, &[("mode", 1), ("hz", 1000)], pair, 10);
    assert!(freebsd.preemptions > 100, "{}", freebsd.preemptions);
    let turns = freebsd.turns("sleeper", 5000 * MS, 10_000 * MS);
    assert!(
        turns.len() >= 97,
        "it runs as soon as it wakes: {}",
        turns.len()
    );
}

/// A shell that slept: 5 s of history, cut to 4. "The Battle of the Schedulers", section 2.2.
#[test]
fn a_hog_turns_batch_when_it_has_run_six_tenths_of_its_sleep() {
    for (fork_scale, from_ms, to_ms) in [(0, 2090, 2120), (1, 300, 312)] {
        let seen = watch(1, &[("fork_scale", fork_scale)], &hogs(1), 10);
        let hog = seen.names.values().find(|n| n.starts_with("hog")).unwrap();
        let penalties = seen.penalties(hog);
        let batch = penalties.iter().find(|p| p.1 >= 30).unwrap();
        assert!(
            (from_ms * MS..=to_ms * MS).contains(&batch.0),
            "{fork_scale}: {batch:?}"
        );
    }
}

#[test]
fn probes_tell_history_slice_and_queue() {
    let hog_and_sleeper = r#"{ "tasks" : {
        "hog" : { "loop" : -1, "run" : 1000000 },
        "sleeper" : { "loop" : -1, "run" : 8000, "sleep" : 40000 } } }"#;
    let seen = watch(1, &[("fork_scale", 0)], hog_and_sleeper, 20);
    let last = |name: &str, probe: &str| seen.told(name, probe).last().unwrap().1;
    for name in ["hog", "sleeper"] {
        let (run_us, slept_us) = (last(name, "hist_run_us"), last(name, "hist_slept_us"));
        assert!(
            (3_900_000..=5_000_000).contains(&(run_us + slept_us)),
            "{run_us} {slept_us}"
        );
        let penalty = match run_us > slept_us {
            true => 100 - 50 * slept_us / run_us,
            false => 50 * run_us / slept_us,
        };
        assert!(
            (penalty - last(name, "penalty")).abs() <= 1,
            "{name} {penalty}"
        );
    }
    // One task waits at most: a slice is ten ticks, of which the tenth ends it.
    let used = seen.told("hog", "slice_used").into_iter().map(|t| t.1);
    assert_eq!(used.skip(1).max(), Some(9));
    // The hog is born interactive and turns batch once; its slots then only grow. The sleeper stays what it is.
    let queues =
        |name: &str| -> Vec<i64> { seen.told(name, "queue").iter().map(|t| t.1).collect() };
    assert_eq!((queues("hog"), queues("sleeper")), (vec![0, 1], vec![0]));
    let slots = seen.told("hog", "fifo");
    assert!(slots.len() > 100 && slots[1..].is_sorted_by(|a, b| a.1 < b.1));
    assert_eq!(seen.told("sleeper", "fifo").len(), 1);
}

/// `sched_wakeup()` of FreeBSD: what is left of a slice does not outlive a sleep.
#[test]
fn a_wakeup_begins_a_slice() {
    let alone = r#"{ "tasks": { "A": { "loop": -1, "run": 40000, "sleep": 40000 } } }"#;
    let seen = watch(1, &[("mode", 1)], alone, 10);
    // It is born near the end of a slice.
    let used = seen.told("A", "slice_used").into_iter();
    let used = used.filter(|(at_ns, _)| *at_ns > 5000 * MS);
    // 40 ms are six ticks of 127 Hz at most, the slice is ten or more.
    let most = used.map(|(_, ticks)| ticks).max();
    assert!((4..=6).contains(&most.expect("it ran")), "{most:?}");
}

#[test]
fn a_childs_run_time_goes_to_its_parent() {
    let tree = r#"{
        "tiltyard": { "apps": { "a": {} } },
        "tasks": {
            "parent": { "loop": 1, "tiltyard": { "app": "a", "process": true,
                "repeat": { "count": 5, "do": { "spawn": "child", "join": true } } }, "run": 100 },
            "child": { "instance": 0, "loop": 1, "tiltyard": { "app": "a", "process": true },
                "run": 1000000 } } }"#;
    let seen = watch(1, &[("fork_scale", 0), ("fork_charge_ticks", 0)], tree, 10);
    let penalties = seen.penalties("parent");
    assert_eq!(penalties[0].1, 0);
    // About 47 after five children of 1 s, the parent asleep meanwhile; how many ticks hit each child
    // decides.
    let last = penalties[penalties.len() - 2].1;
    assert!((43..=52).contains(&last), "{penalties:?}");
    assert!(
        penalties.last().unwrap().1 >= 30,
        "who spawns batch tasks becomes one"
    );
}

/// Tasks with work left on each CPU at a time: where they last ran.
fn spread(seen: &Seen, cpus: u32, at_ns: u64) -> Vec<usize> {
    let mut last = BTreeMap::new();
    for turn in seen
        .turns("hog", 0, u64::MAX)
        .iter()
        .filter(|t| t.from_ns <= at_ns)
    {
        last.insert(turn.tid, turn.cpu);
    }
    (0..cpus)
        .map(|cpu| last.values().filter(|&&c| c == cpu).count())
        .collect()
}

/// Section 6.1 in small: tasks pinned to one CPU are let go.
#[test]
fn idle_cpus_steal_one_task_each_and_the_balancer_evens_out_the_rest() {
    // An idle CPU looks for work when it has had some: hence a little of it on each.
    let noise = |cpu: u32| {
        format!(r#""noise{cpu}": {{ "loop": -1, "cpus": [{cpu}], "run": 10, "sleep": 50000 }}"#)
    };
    let hogs = r#""hog": { "instance": 12, "loop": 1, "phases": {
        "pinned": { "loop": 1, "cpus": [0], "run": 100000 },
        "free": { "loop": 1, "cpus": [0, 1, 2, 3], "run": 100000000 } } }"#;
    let (one, two, three) = (noise(1), noise(2), noise(3));
    let spinners = &format!(r#"{{ "tasks": {{ {one}, {two}, {three}, {hogs} }} }}"#);
    for mode in [&[("mode", 0)][..], &[("mode", 1), ("hz", 1000)]] {
        let mut tunables = mode.to_vec();
        let balanced = watch(4, &tunables, spinners, 30);
        assert_eq!(spread(&balanced, 4, 29_000 * MS), [3, 3, 3, 3], "{mode:?}");
        for off in [("balance", 0), ("balance_bug", 1)] {
            tunables.push(off);
            let stolen = watch(4, &tunables, spinners, 30);
            tunables.pop();
            assert_eq!(
                spread(&stolen, 4, 29_000 * MS),
                [9, 1, 1, 1],
                "{mode:?} {off:?}"
            );
        }
        tunables.extend([("balance", 0), ("steal_idle", 0)]);
        let alone = watch(4, &tunables, spinners, 30);
        assert_eq!(spread(&alone, 4, 29_000 * MS), [12, 0, 0, 0], "{mode:?}");
    }
}
