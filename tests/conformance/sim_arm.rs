// SPDX-License-Identifier: GPL-2.0-or-later
//! The conformance cases on the simulated machine.
//!
//! The cases know only the trait [`arm::Arm`]; a kernel can be put behind it and must pass the same ones.

mod arm;
mod cases;

use arm::{Arm, Case, End, EndKind, Entry, Log, SHELL, TIME, What};
use std::collections::BTreeMap;
use tiltyard_build::Builder;
use tiltyard_model::{Event, EventKind, EventSink, Machine, TaskInfo};
use tiltyard_native::Value;
use tiltyard_sim::{ExitKind, Outcome, RunError, Setup, run};

struct Sim;

macro_rules! tests {
    ($($module:ident { $($case:ident),* $(,)? })*) => {
        $(mod $module { $(
            #[test]
            fn $case() {
                crate::cases::$module::$case(&crate::Sim);
            }
        )* })*
    };
}

for_each_case!(tests);

impl Arm for Sim {
    fn run_all(&self, cases: &[Case]) -> Vec<Log> {
        cases.iter().map(simulate).collect()
    }
}

fn simulate(case: &Case) -> Log {
    let object = Builder::default()
        .native(&arm::source(case))
        .expect("the trap compiles");
    let machine = Machine::parse_toml(&machine_file(case), "machine").expect("a machine");
    let workload = tiltyard_workload::read(&arm::workload_file(case), "case")
        .unwrap_or_else(|errors| panic!("{}", errors[0]));
    let globals: Vec<(String, Value)> = case
        .tunables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::Int(*value)))
        .collect();
    let setup = Setup {
        machine: &machine,
        workload: &workload,
        object: &object,
        globals: &globals,
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: case.duration_ms.map(|ms| ms * arm::MS),
        watchdog: case.watchdog,
        probes: true,
    };
    let mut sink = Sink::default();
    let result = run(&setup, &mut sink, &mut |_| {});
    Log {
        entries: sink.entries,
        names: sink.names,
        end: end(result),
        is_exact: true,
    }
}

/// Ticks and topology of the case; nothing costs anything.
fn machine_file(case: &Case) -> String {
    let free: String = [
        "switch_ns",
        "wakeup_ns",
        "ipi_ns",
        "tick_ns",
        "callback_ns",
        "insn_ps",
        "kfunc_ns",
        "visit_near_ns",
        "visit_far_ns",
        "line_l2_ps",
        "line_l3_ps",
        "line_mem_ps",
        "line_far_ps",
    ]
    .map(|key| format!("{key} = 0\n"))
    .concat();
    format!(
        "description = \"ideal\"\ntopology = \"{}\"\ntick_hz = {}\n\
         [costs]\n{free}refill_overlap_permille = 1000\nsmt_permille = 1000\n\
         [jitter]\nstart_span_ns = 0\ntimer_late_mean_ns = 0\nwork_spread_ppm = 0\n",
        case.topology, case.tick_hz
    )
}

fn end(result: Result<Outcome, RunError>) -> End {
    let exit = match result {
        Ok(outcome) => outcome.exit,
        Err(error) => {
            return End {
                kind: EndKind::Refused,
                code: 0,
                message: error.to_string(),
                time_ns: 0,
            };
        }
    };
    let kind = match exit.kind {
        ExitKind::None | ExitKind::Unreg => EndKind::Unregistered,
        ExitKind::UnregBpf => EndKind::ByScheduler,
        // validate_ops(): what a kernel finds before a task is the scheduler's.
        ExitKind::Error if is_about_flags(&exit.message) => EndKind::Refused,
        ExitKind::Error => EndKind::Error,
        ExitKind::ErrorBpf => EndKind::SchedulerError,
        ExitKind::ErrorStall => EndKind::Stall,
    };
    End {
        kind,
        code: exit.code,
        message: exit.message,
        time_ns: exit.time_ns,
    }
}

fn is_about_flags(message: &str) -> bool {
    message.starts_with("SCX_OPS_") && message.contains(" requires ")
}

#[derive(Default)]
struct Sink {
    entries: Vec<Entry>,
    names: BTreeMap<u32, String>,
    probes: Vec<(String, bool)>,
}

impl EventSink for Sink {
    fn task(&mut self, info: &TaskInfo) {
        let name = match info.name.starts_with("sh-") {
            true => SHELL,
            false => &info.name,
        };
        self.names.insert(info.tid.0, name.to_owned());
    }

    fn event(&mut self, event: &Event) {
        let what = match event.kind {
            EventKind::Probe { probe, key, value } => {
                let (name, of_cpu) = self.probes[usize::from(probe)].clone();
                if name == TIME {
                    return;
                }
                What::Call {
                    name,
                    of_cpu,
                    key,
                    value,
                }
            }
            EventKind::Switch { prev, next, .. } => What::Switch {
                prev: prev.0,
                next: next.0,
            },
            EventKind::Exit { task } => What::Exited { pid: task.0 },
            _ => return,
        };
        self.entries.push(Entry {
            time_ns: event.time_ns,
            cpu: event.cpu.0,
            what,
        });
    }

    fn probe_name(&mut self, _probe: u16, name: &str, per_cpu: bool) {
        self.probes.push((name.to_owned(), per_cpu));
    }
}
