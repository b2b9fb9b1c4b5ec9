// SPDX-License-Identifier: GPL-2.0-or-later
//! What a case asks of an arena, and what it gets back.

use std::collections::BTreeMap;
use std::path::Path;
use tiltyard_build::Source;

/// An arena that can run a case: the simulated machine, or a kernel.
pub trait Arm {
    /// Several at once cost a kernel one boot.
    fn run_all(&self, cases: &[Case]) -> Vec<Log>;

    fn run(&self, case: &Case) -> Log {
        let logs = self.run_all(std::slice::from_ref(case));
        logs.into_iter().next().expect("a log for each case")
    }
}

/// One scheduler on one workload on one machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Name of a file in `schedulers/`, without `.bpf.c`.
    pub scheduler: &'static str,
    /// `NAME=VALUE` for its compiler.
    pub defines: Vec<&'static str>,
    /// Its `const volatile` globals.
    pub tunables: Vec<(&'static str, i128)>,
    /// The members of a workload file's `tasks`.
    pub tasks: String,
    /// hwloc's synthetic description.
    pub topology: &'static str,
    pub tick_hz: u32,
    /// `None`: until every task has ended.
    pub duration_ms: Option<u64>,
    pub watchdog: bool,
}

impl Case {
    /// On one CPU with 250 ticks a second, as Debian's kernel has them, to the end.
    pub fn new(scheduler: &'static str, tasks: impl Into<String>) -> Case {
        Case {
            scheduler,
            defines: Vec::new(),
            tunables: Vec::new(),
            tasks: tasks.into(),
            topology: "pu:1",
            tick_hz: 250,
            duration_ms: None,
            watchdog: false,
        }
    }

    pub fn on(mut self, topology: &'static str) -> Case {
        self.topology = topology;
        self
    }

    pub fn define(mut self, define: &'static str) -> Case {
        self.defines.push(define);
        self
    }

    pub fn tunable(mut self, name: &'static str, value: i128) -> Case {
        self.tunables.push((name, value));
        self
    }

    pub fn for_ms(mut self, duration_ms: u64) -> Case {
        self.duration_ms = Some(duration_ms);
        self
    }

    pub fn watched(mut self) -> Case {
        self.watchdog = true;
        self
    }
}

/// The trap.
pub fn source(case: &Case) -> Source {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/schedulers");
    let mut source = Source::new(here.join(format!("{}.bpf.c", case.scheduler)));
    let shared = here.join("../../../schedulers/lib");
    source.include_dirs.push(shared);
    source.defines = case.defines.iter().map(|d| (*d).to_owned()).collect();
    source
}

/// The shell has no past, so that the workload starts at time 0.
pub fn workload_file(case: &Case) -> String {
    let groups = match case.tasks.contains("taskgroup") {
        true => r#""groups": { "/g": {} },"#,
        false => "",
    };
    format!(
        r#"{{
            "tiltyard": {{
                "apps": {{ "app": {{ "history": 0 }} }},
                {groups}
                "pipes": {{ "p": {{}} }}
            }},
            "tasks": {{ {} }}
        }}"#,
        case.tasks
    )
}

/// A record with a time only.
pub const TIME: &str = "time";

/// Everything that happened, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub entries: Vec<Entry>,
    /// Names of tasks by their pid.
    pub names: BTreeMap<u32, String>,
    pub end: End,
    /// Whether nothing cost anything. Else the kernel's own work took time.
    pub is_exact: bool,
}

/// Times count from the start of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub time_ns: u64,
    /// The CPU that executed it.
    pub cpu: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A record of the scheduler: a callback, or a figure of its own. `key` is a pid or a CPU.
    Call {
        name: String,
        of_cpu: bool,
        key: u32,
        value: i64,
    },
    /// A context switch; 0 is the idle task.
    Switch {
        prev: u32,
        next: u32,
    },
    Exited {
        pid: u32,
    },
}

/// How the scheduler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// By its user, undisturbed.
    Unregistered,
    /// scx_bpf_exit().
    ByScheduler,
    /// The core found a mistake.
    Error,
    /// scx_bpf_error().
    SchedulerError,
    /// The watchdog found a task that never ran.
    Stall,
    /// It was never loaded, or something else ended the run.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub kind: EndKind,
    pub code: i64,
    pub message: String,
    pub time_ns: u64,
}

/// A task had a CPU without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub task: String,
    pub cpu: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

pub const MS: u64 = 1_000_000;

impl Log {
    /// `dispatch 0 A`, `enqueue A 0x409`, `running B`: the scheduler's callbacks, without ticks.
    pub fn calls(&self) -> Vec<(u64, String)> {
        self.all_calls()
            .filter(|(_, text)| !text.starts_with("tick "))
            .collect()
    }

    fn all_calls(&self) -> impl Iterator<Item = (u64, String)> + '_ {
        self.entries
            .iter()
            .filter_map(|e| Some((e.time_ns, self.show(&e.what)?)))
    }

    /// The same with ticks, times left out.
    pub fn calls_with_ticks(&self) -> Vec<String> {
        self.all_calls().map(|(_, text)| text).collect()
    }

    /// The same at one time, ticks included.
    pub fn calls_at(&self, time_ns: u64) -> Vec<String> {
        self.all_calls()
            .filter(|(at, _)| *at == time_ns)
            .map(|(_, text)| text)
            .collect()
    }

    /// The same from one time on, before another, ticks and times left out.
    pub fn calls_in(&self, times_ns: std::ops::Range<u64>) -> Vec<String> {
        self.calls()
            .into_iter()
            .filter(|(at, _)| times_ns.contains(at))
            .map(|(_, text)| text)
            .collect()
    }

    /// When this happened; every time.
    pub fn times_of(&self, call: &str) -> Vec<u64> {
        self.all_calls()
            .filter(|(_, text)| text == call)
            .map(|(at, _)| at)
            .collect()
    }

    /// When this happened first.
    pub fn time_of(&self, call: &str) -> u64 {
        *self
            .times_of(call)
            .first()
            .unwrap_or_else(|| panic!("no '{call}' in {:#?}", self.calls()))
    }

    /// Values of a figure of the scheduler's own, for a task or (by number) a CPU.
    pub fn values(&self, figure: &str, of: &str) -> Vec<i64> {
        self.entries
            .iter()
            .filter_map(|e| match &e.what {
                What::Call {
                    name,
                    key,
                    value,
                    of_cpu,
                } if name == figure && self.who(*of_cpu, *key) == of => Some(*value),
                _ => None,
            })
            .collect()
    }

    /// Who had which CPU when, the shell left out.
    pub fn runs(&self) -> Vec<Run> {
        let mut since: BTreeMap<u32, u64> = BTreeMap::new();
        let mut runs = Vec::new();
        for entry in &self.entries {
            let What::Switch { prev, .. } = entry.what else {
                continue;
            };
            let from_ns = since.insert(entry.cpu, entry.time_ns).unwrap_or(0);
            let task = self.name(prev);
            if prev != 0 && task != SHELL && from_ns < entry.time_ns {
                runs.push(Run {
                    task,
                    cpu: entry.cpu,
                    from_ns,
                    to_ns: entry.time_ns,
                });
            }
        }
        runs
    }

    /// `A 0-20, B 20-30`: the same of one CPU, in ms.
    pub fn turns(&self, cpu: u32) -> String {
        let ms = |ns: u64| ns as f64 / MS as f64;
        let turns: Vec<String> = self
            .runs()
            .iter()
            .filter(|r| r.cpu == cpu)
            .map(|r| format!("{} {}-{}", r.task, ms(r.from_ns), ms(r.to_ns)))
            .collect();
        turns.join(", ")
    }

    /// Where the kernel's own work takes time, sums may be off by a fiftieth and half a millisecond.
    pub fn assert_about(&self, actual_ns: u64, expected_ns: u64) {
        let slack_ns = match self.is_exact {
            true => 0,
            false => expected_ns / 50 + MS / 2,
        };
        assert!(
            actual_ns.abs_diff(expected_ns) <= slack_ns,
            "{actual_ns} ns, not {expected_ns}"
        );
    }

    pub fn runtime_ns(&self, task: &str) -> u64 {
        let of_task = self.runs().into_iter().filter(|r| r.task == task);
        of_task.map(|r| r.to_ns - r.from_ns).sum()
    }

    /// CPUs on which a task ran for any time.
    pub fn cpus_of(&self, task: &str) -> Vec<u32> {
        let mut cpus: Vec<u32> = self
            .runs()
            .into_iter()
            .filter(|r| r.task == task)
            .map(|r| r.cpu)
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    pub fn exited(&self, task: &str) -> Option<u64> {
        self.entries.iter().find_map(|e| match e.what {
            What::Exited { pid } if self.name(pid) == task => Some(e.time_ns),
            _ => None,
        })
    }

    pub fn nr_exited(&self) -> usize {
        let exits = self.entries.iter();
        exits
            .filter(|e| matches!(e.what, What::Exited { .. }))
            .count()
    }

    fn name(&self, pid: u32) -> String {
        match self.names.get(&pid) {
            _ if pid == 0 => "-".to_owned(),
            Some(name) => name.clone(),
            None => format!("pid {pid}"),
        }
    }

    fn who(&self, of_cpu: bool, key: u32) -> String {
        if of_cpu {
            key.to_string()
        } else {
            self.name(key)
        }
    }

    /// `None` for what is not a callback, and for callbacks about the shell.
    fn show(&self, what: &What) -> Option<String> {
        let What::Call {
            name,
            of_cpu,
            key,
            value,
        } = what
        else {
            return None;
        };
        let who = self.who(*of_cpu, *key);
        if who == SHELL {
            return None;
        }
        let figure = match name.as_str() {
            "dispatch" => format!(" {}", self.name(*value as u32)),
            "select_cpu" | "enqueue" | "dequeue" | "runnable" | "quiescent" => {
                format!(" {value:#x}")
            }
            "tick" | "running" | "yield" | "enable" | "disable" | "exit_task" => String::new(),
            _ => format!(" {value}"),
        };
        Some(format!("{name} {who}{figure}"))
    }
}

/// The task that starts the others.
pub const SHELL: &str = "shell";
