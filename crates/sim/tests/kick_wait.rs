// SPDX-License-Identifier: GPL-2.0-or-later
//! CPUs that stand still in a kick: their books, and what cannot reach them meanwhile.

use crate::common::{Lab, check_books, costed, ideal, object, parse, repository};
use tiltyard_model::{Event, EventKind, EventSink, Machine, TaskInfo};
use tiltyard_native::Value;
use tiltyard_sim::{RunError, Setup, run};

const MS: u64 = 1_000_000;
/// Half of it goes by before a CPU that was kicked picks a task: so long does a wait take.
const SWITCH_NS: u64 = 6 * MS;
const PREEMPT: i128 = 2;
const WAIT: i128 = 4;

/// CPU 0, on which A runs, kicks CPU 1 once, 100.3 ms after A has begun. Slices are endless.
fn kick_once(kick_flags: i128, others: &str) -> Result<Seen, RunError> {
    let path = repository().join("tests/conformance/schedulers/timer_kick.bpf.c");
    let globals = [
        ("kick_flags", kick_flags),
        ("kick_cpu", 1),
        ("period_ns", 100_300_000),
        ("fires", 1),
        ("slice_ns", i128::from(u64::MAX)),
    ]
    .map(|(name, value)| (name.to_owned(), Value::Int(value)));
    let workload = parse(&format!(
        r#"{{
        "tiltyard": {{ "apps": {{ "rt-app": {{ "history": 0 }} }} }},
        "tasks": {{
            {others}
            "Y": {{ "loop": 1, "cpus": [1], "run": 200000 }},
            "A": {{ "loop": 1, "cpus": [0], "sleep": 20000, "run": 150000 }}
        }} }}"#
    ));
    let mut machine: Machine = ideal("core:3 pu:1", 1000);
    machine.costs.switch_ns = SWITCH_NS;
    let setup = Setup {
        machine: &machine,
        workload: &workload,
        object: object(&path.display().to_string(), 2),
        globals: &globals,
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: None,
        watchdog: false,
        probes: true,
    };
    let mut seen = Seen::default();
    run(&setup, &mut seen, &mut |_| {})?;
    Ok(seen)
}

/// When what happened.
#[derive(Default)]
struct Seen {
    probes: Vec<String>,
    x: Option<u32>,
    kicked_ns: u64,
    /// On CPU 0.
    ticks_ns: Vec<u64>,
    x_woke_ns: u64,
}

impl Seen {
    fn ticks_of_wait(&self) -> Vec<u64> {
        let wait = self.kicked_ns + 1..=self.kicked_ns + SWITCH_NS / 2;
        let ticks = self.ticks_ns.iter().copied();
        ticks.filter(|at| wait.contains(at)).collect()
    }
}

impl EventSink for Seen {
    fn task(&mut self, info: &TaskInfo) {
        if info.name == "X" {
            self.x = Some(info.tid.0);
        }
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Probe { probe, .. } => match self.probes[usize::from(probe)].as_str() {
                "timer" => self.kicked_ns = event.time_ns,
                "tick" if event.cpu.0 == 0 => self.ticks_ns.push(event.time_ns),
                _ => {}
            },
            EventKind::Wakeup { task, .. } if Some(task.0) == self.x => {
                self.x_woke_ns = event.time_ns;
            }
            _ => {}
        }
    }

    fn probe_name(&mut self, _probe: u16, name: &str, _per_cpu: bool) {
        self.probes.push(name.to_owned());
    }
}

/// One late tick stands for all that were due, and what else is due comes in when the wait is over: X, which slept on
/// CPU 0, wakes up then.
#[test]
fn interrupts_and_ticks_wait_as_well() {
    let x = r#""X": { "loop": 1, "cpus": [0], "sleep": 95000, "run": 1000 },"#;
    let [without, with] =
        [PREEMPT, PREEMPT | WAIT].map(|flags| kick_once(flags, x).expect("an end"));
    let over_ns = with.kicked_ns + SWITCH_NS / 2;
    assert_eq!(without.kicked_ns, with.kicked_ns);
    assert!((with.kicked_ns..over_ns).contains(&without.x_woke_ns));
    assert_eq!(with.x_woke_ns, over_ns);
    assert_eq!(without.ticks_of_wait().len(), 3);
    assert_eq!(with.ticks_of_wait(), [over_ns]);
}

/// The stopper thread cannot come either, and in a kernel whoever sent it would wait for it.
#[test]
fn a_task_is_not_moved_off_a_cpu_that_stands_still() {
    let m = r#""M": { "loop": 1, "cpus": [2], "run": 97000,
                      "tiltyard": { "set_other": { "task": "A", "cpus": [2] } }, "run1": 1000 },"#;
    assert!(kick_once(PREEMPT, m).is_ok());
    match kick_once(PREEMPT | WAIT, m) {
        Err(RunError::NotModelled(text)) => assert!(text.contains("CPU 0 stands still"), "{text}"),
        other => panic!("{:?}", other.err()),
    }
}

/// CPU 0 kicks CPU 1 every 2 ms and waits for it. What wakes, ticks and ends meanwhile is lost nowhere.
#[test]
fn books_close_when_kicks_wait() {
    let path = repository().join("tests/conformance/schedulers/timer_kick.bpf.c");
    let tunables = [("kick_flags", 6), ("kick_cpu", 1), ("period_ns", 2_000_000)]
        .map(|(name, value)| (name.to_owned(), Value::Int(value)));
    let workload = parse(
        r#"{
        "tiltyard": { "devices": { "disk": { "channels": 1 } }, "apps": { "rt-app": { "history": 0 } } },
        "tasks": {
            "a": { "instance": 3, "loop": 40, "run": 900, "sleep": 400,
                   "tiltyard": { "io": { "device": "disk", "service": 250 } } },
            "b": { "loop": -1, "cpus": [1], "run": 300, "sleep": 500, "tiltyard": { "daemon": true } },
            "A": { "loop": 20, "cpus": [0], "run": 200, "sleep": 100 }
        } }"#,
    );
    for machine in [ideal("core:2 pu:1", 1000), costed("core:1 pu:2", 1000)] {
        let mut lab = Lab::new(&machine, object(&path.display().to_string(), 2));
        lab.globals = &tunables;
        let ran = lab.run(&workload).expect("an orderly end");
        check_books(&ran);
        assert_eq!(ran.outcome.tasks_left, 1, "b alone: {:?}", ran.outcome);
        let again = lab.run(&workload).expect("an orderly end");
        assert_eq!(ran.outcome, again.outcome);
        // Where the target takes a moment to pick, the CPU that waits for it loses as much.
        let unwaited = [("kick_flags", 2), ("kick_cpu", 1), ("period_ns", 2_000_000)]
            .map(|(name, value)| (name.to_owned(), Value::Int(value)));
        lab.globals = &unwaited;
        let unwaited = lab.run(&workload).expect("an orderly end");
        let [with, without] = [&ran, &unwaited].map(|r| r.outcome.cpus[0].overhead_ns);
        assert_eq!(
            with > without,
            machine.costs.switch_ns > 0,
            "{with} {without}"
        );
    }
}
