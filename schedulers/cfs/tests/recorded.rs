// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded states of machines, set up under the kernel for tests.
//!
//! multicore.jsonl.zst: 6056 decisions of Linux 4.9.0 (`kernel/sched/fair.c`, `core.c`), compiled in user space and run
//! on made-up states of machines, and the domains that it built for these. Facts: inputs and outputs, no code. One JSON
//! object a line; `zstdcat` shows them. HZ 250 unless a record says otherwise; time stands still.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use tiltyard_native::Value as Global;
use tiltyard_schedtest::kernel::{Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

/// The tick at which everything happens, and its time.
pub const TICK: i64 = 1_000_000;
pub const NOW_NS: i64 = TICK * 4_000_000;
/// Entities and pids are above this: 0 is none.
pub const FIRST: i64 = 1;
/// Which tasks a machine has, and so their pids.
const TASKS: i64 = 2200;

pub struct Records {
    topologies: BTreeMap<String, Value>,
    records: Vec<Value>,
}

impl Records {
    pub fn read() -> Records {
        let bytes = zstd::decode_all(&include_bytes!("multicore.jsonl.zst")[..]).expect("zstd");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let records: Vec<Value> = lines.collect();
        let topologies = records.iter().filter(|r| r["k"] == "topo");
        Records {
            topologies: topologies.map(|t| (text_of(&t["t"]), t.clone())).collect(),
            records,
        }
    }

    /// A machine of the records of which nothing is recorded: all idle, no task.
    pub fn machine(&self, topology: &str, tunables: &[(&str, i128)]) -> Machine {
        let mut machine = Machine::boot(&self.topologies[topology], 250, tunables);
        machine.clear();
        machine
    }

    /// Checks all records of a kind; `count` of them. Each machine is built once.
    pub fn check(
        &self,
        kind: &str,
        count: usize,
        tunables: &[(&str, i128)],
        check: impl Fn(&mut Machine, &Value) -> Result<(), String>,
    ) {
        let mut machines: HashMap<String, Machine> = HashMap::new();
        let (mut wrong, mut nr) = (Vec::new(), 0);
        for r in self.records.iter().filter(|r| r["k"] == kind) {
            let name = r["t"].as_str().unwrap_or("smp4").to_owned();
            let hz = r["hz"].as_i64().unwrap_or(250);
            let topology = &self.topologies[&name];
            let machine = machines
                .entry(format!("{name} {hz}"))
                .or_insert_with(|| Machine::boot(topology, hz, tunables));
            machine.clear();
            nr += 1;
            if let Err(how) = check(machine, r) {
                wrong.push(format!("{} {}: {how}", r["k"], r["i"]));
            }
        }
        let shown = wrong[..wrong.len().min(6)].join("\n");
        assert!(
            wrong.is_empty(),
            "{kind}: {} of {nr} differ, among them\n{shown}",
            wrong.len()
        );
        assert_eq!(nr, count, "{kind}: records");
    }
}

pub fn text_of(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The numbers of an array, none if there is none.
pub fn ints(value: &Value) -> Vec<i64> {
    let all = value.as_array();
    all.map_or(Vec::new(), |all| all.iter().map(int).collect())
}

/// A mask in hex, bit n for CPU n; none: all.
pub fn bits(mask: &Value) -> u64 {
    let hex = mask.as_str();
    hex.map_or(u64::MAX, |hex| u64::from_str_radix(hex, 16).expect("hex"))
}

pub fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

/// The state of a CPU that balances, as enum balance_idle has it.
pub fn state_of(idle: &Value) -> i64 {
    match idle.as_str() {
        Some("idle") => 0,
        Some("busy") => 1,
        Some("newidle") => 2,
        _ => panic!("{idle} is no state"),
    }
}

/// CFS on a machine of the records.
pub struct Machine {
    pub kernel: Kernel,
    pub nr_cpus: usize,
    pub nodes: usize,
    pub full_capacity: i64,
    /// Levels as the record names them.
    pub levels: Vec<String>,
    tasks: Vec<TaskId>,
}

impl Machine {
    fn boot(topology: &Value, hz: i64, tunables: &[(&str, i128)]) -> Machine {
        let nr_cpus = int(&topology["n"]) as usize;
        let distances: Vec<i64> = topology["dist"]
            .as_array()
            .expect("rows")
            .iter()
            .flat_map(ints)
            .collect();
        let nodes = topology["dist"].as_array().map_or(1, Vec::len);
        let mut values = globals(
            &[
                tunables,
                &[("tick_hz", hz.into()), ("nr_nodes", nodes as i128)],
                // As the kernel that was recorded.
                &[("group_construction_bug", 1)],
            ]
            .concat(),
        );
        let package = int(&topology["numa_in_package"]);
        values.push(("numa_in_package".to_owned(), Global::Int(package.into())));
        for (name, of) in [
            ("cpu_core_id", ints(&topology["core"])),
            ("cpu_llc_id", ints(&topology["llc"])),
            ("cpu_node_id", ints(&topology["node"])),
            ("node_distance", distances),
        ] {
            let numbers = of.into_iter().map(i128::from).collect();
            values.push((name.to_owned(), Global::Ints(numbers)));
        }
        let object = object("schedulers/cfs/tests/multicore.bpf.c", 2);
        let mut kernel = Kernel::boot(object, &values, nr_cpus as u32);
        kernel.state().now_ns = NOW_NS as u64;
        let tasks = (0..TASKS).map(|pid| kernel.state().add_task((pid + FIRST) as i32, 0));
        let tasks = tasks.collect();
        assert_eq!(kernel.call("t_build", &[]).0[0], 0);
        let levels = topology["levels"].as_array().expect("levels");
        Machine {
            kernel,
            nr_cpus,
            nodes,
            full_capacity: int(&topology["cap_orig"]),
            levels: levels.iter().map(|level| text_of(&level["name"])).collect(),
            tasks,
        }
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    fn clear(&mut self) {
        self.call("t_clear", &[NOW_NS]);
        let state = self.kernel.state();
        state.kicks.clear();
        state.readings_ns.clear();
        state.cpu = 0;
        state.set_idle(|_| false);
    }

    /// The level of a name: levels of one CPU are left out.
    pub fn level(&self, record: &Value) -> i64 {
        if let Some(lvl) = record["lvl"].as_i64() {
            return lvl;
        }
        let name = text_of(&record["level"]);
        self.levels
            .iter()
            .position(|level| *level == name)
            .expect("a level") as i64
    }

    /// CPUs of a group, as a mask.
    pub fn members(&mut self, group: i64, nr: i64) -> u64 {
        (0..nr)
            .map(|n| 1u64 << self.call("t_member", &[group, n])[2])
            .sum()
    }

    /// The groups of a domain from its own one on: number, CPUs, nodes whose CPUs may balance, balancer.
    pub fn groups(&mut self, cpu: i64, level: i64) -> Vec<(i64, u64, u64, i64)> {
        let nr = self.call("t_level", &[cpu, level])[4];
        let group = |n| {
            let w = self.call("t_group", &[cpu, level, n]);
            (w[3], self.members(w[3], w[4]), w[5] as u64, w[6])
        };
        (0..nr).map(group).collect()
    }

    /// The number of a group among those of a CPU's domain.
    pub fn group(&mut self, cpu: i64, level: i64, mask: u64) -> i64 {
        let groups = self.groups(cpu, level);
        groups.into_iter().find(|g| g.1 == mask).expect("a group").0
    }

    pub fn set_idle(&mut self, mask: u64) {
        self.kernel
            .state()
            .set_idle(|cpu| cpu < 64 && mask & 1 << cpu != 0);
    }

    /// Sets tasks, other tasks, load, utilisation and capacity of the CPUs from arrays that may be absent; those
    /// without tasks are idle.
    pub fn cpus(&mut self, record: &Value, nr: &str) {
        let (nr, rt) = (ints(&record[nr]), ints(&record["rt"]));
        let (load, util) = (ints(&record["load"]), ints(&record["util"]));
        let (capacity, history) = (ints(&record["cap"]), ints(&record["hist"]));
        let or = |of: &[i64], cpu: usize, default| of.get(cpu).copied().unwrap_or(default);
        let mut idle = 0;
        for cpu in 0..self.nr_cpus {
            let (tasks, other) = (or(&nr, cpu, 0), or(&rt, cpu, 0));
            let whole = self.full_capacity;
            let words = [
                cpu as i64,
                tasks,
                other,
                or(&load, cpu, 0),
                or(&util, cpu, 0),
                or(&capacity, cpu, whole),
            ];
            self.call("t_cpu", &words);
            idle |= u64::from(tasks + other == 0) << cpu;
            // Which average it is depends on the level and the state: all are set.
            if let Some(average) = history.get(cpu) {
                for n in 0..5 {
                    self.call("t_history", &[cpu as i64, n, *average]);
                }
            }
        }
        self.set_idle(idle);
    }

    /// `struct task_struct` of a task that may run on these CPUs.
    pub fn task(&mut self, entity: i64, allowed: u64) -> i64 {
        let id = self.tasks[(entity - FIRST) as usize];
        let nr_cpus = self.nr_cpus;
        let state = self.kernel.state();
        state.allow(id, |cpu| cpu < nr_cpus && allowed & 1 << cpu != 0);
        state.address(id)
    }

    /// The scheduler knows the task of an entity by its `struct task_struct`, too, which this returns.
    pub fn known_task(&mut self, entity: i64) -> i64 {
        let task = self.task(entity, u64::MAX);
        self.call("t_slot", &[task, entity]);
        task
    }

    /// Callbacks find this task running.
    pub fn set_current(&mut self, entity: i64) {
        let id = self.tasks[(entity - FIRST) as usize];
        self.kernel.state().current = Some(id);
    }

    /// Queues the tasks of a CPU, given head first: `[id, load, allowed, ns since it ran, policy]`.
    pub fn queue(&mut self, cpu: i64, tasks: &Value) {
        for task in tasks.as_array().expect("tasks").iter().rev() {
            let entity = int(&task[0]) + FIRST;
            self.task(entity, bits(&task[2]));
            let ran_ns = NOW_NS - task[3].as_i64().unwrap_or(10_000_000);
            let policy = task[4].as_i64().unwrap_or(0);
            self.call(
                "t_task",
                &[entity, cpu, int(&task[1]), ran_ns, policy, NOW_NS],
            );
        }
    }

    /// Sets up the tasks of all CPUs, who runs, and the figures of the CPUs.
    pub fn queues(&mut self, record: &Value) {
        let (load, util) = (ints(&record["load"]), ints(&record["util"]));
        let (running, capacity) = (ints(&record["running"]), ints(&record["cap"]));
        let tasks = record["tasks"].as_array().expect("CPUs");
        let mut idle = 0;
        for (cpu, tasks) in tasks.iter().enumerate() {
            let at = cpu as i64;
            self.queue(at, tasks);
            if running[cpu] >= 0 {
                self.call("t_run", &[running[cpu] + FIRST, NOW_NS]);
            }
            self.call("t_queue", &[at, load[cpu], load[cpu], util[cpu], 0, 0]);
            let nr = self.call("t_cpu_balance_get", &[at])[5];
            let whole = capacity.get(cpu).copied().unwrap_or(self.full_capacity);
            self.call("t_cpu", &[at, nr, 0, load[cpu], util[cpu], whole]);
            idle |= u64::from(nr == 0) << cpu;
        }
        // Without a history the load has long been what it is.
        let history = if record["hist"].is_null() {
            "load"
        } else {
            "hist"
        };
        for (cpu, average) in ints(&record[history]).into_iter().enumerate() {
            for n in 0..5 {
                self.call("t_history", &[cpu as i64, n, average]);
            }
        }
        self.set_idle(idle);
    }

    /// A CPU that looks for a task before it idles.
    pub fn set_busy(&mut self, cpu: i64) {
        self.kernel.state().set_busy(cpu as usize);
    }

    /// The tasks of a CPU from the head of its list.
    pub fn list(&mut self, cpu: i64) -> Vec<i64> {
        let mut list = Vec::new();
        let mut entity = self.call("t_first", &[cpu])[1];
        while entity != 0 {
            list.push(entity - FIRST);
            entity = self.call("t_next", &[entity])[1];
        }
        list
    }
}
