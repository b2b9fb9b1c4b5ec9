// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs in the simulated machine, and the books that must balance.

use tiltyard_environment::Environment;
use tiltyard_measure::{Recorder, RecorderSpec, Summary, TraceHash};
use tiltyard_model::Machine;
use tiltyard_model::machine::{Costs, Jitter};
use tiltyard_native::{Object, Value};
use tiltyard_sim::{Outcome, RunError, Setup, run};
use tiltyard_workload::Workload;

/// A machine with the reference costs, on which everything takes exactly its time.
pub fn costed(topology: &str, tick_hz: u32) -> Machine {
    let mut machine = Machine::parse_hwloc_synthetic(topology).expect("a topology");
    machine.tick_hz = tick_hz;
    machine.jitter = Jitter::NONE;
    machine
}

/// A machine on which only decisions take effect.
pub fn ideal(topology: &str, tick_hz: u32) -> Machine {
    let mut machine = costed(topology, tick_hz);
    machine.costs = Costs {
        smt_permille: 1000,
        refill_overlap_permille: 1000,
        ..Costs::default()
    };
    machine
}

pub fn parse(json: &str) -> Workload {
    tiltyard_workload::read(json, "test.json").unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// What one run gave.
#[derive(Debug, PartialEq)]
pub struct Ran {
    pub outcome: Outcome,
    pub summary: Summary,
    pub trace_hash: String,
}

/// All that a run depends on, but for its workload.
#[derive(Clone, Copy)]
pub struct Lab<'a> {
    pub machine: &'a Machine,
    pub object: &'a Object,
    pub globals: &'a [(String, Value)],
    pub environment: &'a Environment,
    pub seed: u64,
    pub duration_ns: Option<u64>,
    pub watchdog: bool,
}

impl<'a> Lab<'a> {
    pub fn new(machine: &'a Machine, object: &'a Object) -> Lab<'a> {
        Lab {
            machine,
            object,
            globals: &[],
            environment: &tiltyard_environment::EMPTY,
            seed: 1,
            duration_ns: None,
            watchdog: false,
        }
    }

    pub fn setup(&self, workload: &'a Workload) -> Setup<'a> {
        Setup {
            machine: self.machine,
            workload,
            object: self.object,
            globals: self.globals,
            environment: self.environment,
            seed: self.seed,
            duration_ns: self.duration_ns,
            watchdog: self.watchdog,
            probes: true,
        }
    }

    pub fn run(&self, workload: &Workload) -> Result<Ran, RunError> {
        let setup = self.setup(workload);
        let history_ns = workload.apps.iter().map(|a| a.history_ns).max();
        let recorder = Recorder::new(RecorderSpec {
            nr_cpus: self.machine.nr_cpus(),
            origin_ns: history_ns.unwrap_or(0),
            starvation_ns: RecorderSpec::STARVATION_NS,
        });
        let mut sink = (recorder, TraceHash::new());
        let outcome = run(&setup, &mut sink, &mut |_| {})?;
        Ok(Ran {
            summary: sink.0.finish(outcome.end_ns),
            trace_hash: sink.1.finish(),
            outcome,
        })
    }
}

/// Runtime + wait + sleep = lifetime for each task, busy + idle + overhead = duration for each CPU, and what the
/// engine counted is what the events say; all to the nanosecond. Only idle time is wasted, and none of it on one CPU:
/// the way from a wakeup to the switch is overhead there.
pub fn check_books(ran: &Ran) {
    let Ran {
        outcome, summary, ..
    } = ran;
    assert_eq!(summary.irregular, 0, "events that contradict each other");
    assert_eq!(summary.duration_ns, outcome.end_ns - outcome.origin_ns);
    for (i, (told, counted)) in summary.cpus.iter().zip(&outcome.cpus).enumerate() {
        let sum_ns = told.busy_ns + told.idle_ns + told.overhead_ns;
        assert_eq!(sum_ns, summary.duration_ns, "CPU {i}: {told:?}");
        let sum_ns = counted.busy_ns + counted.idle_ns + counted.overhead_ns;
        assert_eq!(sum_ns, outcome.end_ns, "CPU {i}: {counted:?}");
        assert!(
            told.wasted_ns.is_some_and(|ns| ns <= told.idle_ns),
            "CPU {i} wastes more than its idle time: {told:?}"
        );
        if outcome.origin_ns == 0 {
            assert_eq!(
                (told.busy_ns, told.idle_ns, told.overhead_ns),
                (counted.busy_ns, counted.idle_ns, counted.overhead_ns),
                "CPU {i}: events against the engine, busy, idle, overhead"
            );
        }
    }
    for task in &summary.tasks {
        let sum_ns = task.runtime_ns + task.wait_ns + task.sleep_ns;
        assert_eq!(sum_ns, task.lifetime_ns, "{}: {task:?}", task.name);
        assert!(
            task.overhead_ns <= task.runtime_ns,
            "{}: {task:?}",
            task.name
        );
    }
    if let [only] = &summary.cpus[..] {
        assert_eq!(only.wasted_ns, Some(0), "{only:?}");
    }
    let runtime_ns: u64 = summary.tasks.iter().map(|t| t.runtime_ns).sum();
    let occupied_ns: u64 = summary.cpus.iter().map(|c| c.busy_ns + c.overhead_ns).sum();
    assert!(
        runtime_ns <= occupied_ns,
        "{runtime_ns} ns of tasks on {occupied_ns} ns of CPUs"
    );
}
