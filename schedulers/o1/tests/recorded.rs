// SPDX-License-Identifier: GPL-2.0-or-later
//! Decisions of the original.
//!
//! kernel.jsonl.zst: 3325 decisions of Linux 2.6.22.19 (`kernel/sched.c`), whose functions were compiled in user space,
//! unaltered, with stubs for locks, lists, the clock and the context switch, and run on random states and some written by
//! hand. `zstdcat` shows them: a line with the machines, then one JSON object a line. Times are ns, slices are ticks;
//! lists are in order of service, the running task in its place.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::LazyLock;
use tiltyard_native::Value as Global;
use tiltyard_schedtest::kernel::{Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

pub static RECORDS: LazyLock<Records> = LazyLock::new(Records::read);

/// Tasks of a record are numbered from 0; the scheduler's index 0 is none.
pub const FIRST: i64 = 1;
const TASKS: i64 = 256;
/// Jiffies of the records.
pub const TICK_0: i64 = 100_000;
/// Any time, long after boot, for records that have none.
pub const NOW: i64 = 100_000_000_000;

pub struct Records {
    topologies: Value,
    all: Vec<Value>,
}

impl Records {
    fn read() -> Records {
        let bytes = zstd::decode_all(&include_bytes!("kernel.jsonl.zst")[..]).expect("zstd");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let mut lines = text.lines().map(|line| line.parse().expect("JSON"));
        let mut header: Value = lines.next().expect("a header");
        Records {
            topologies: header["topologies"].take(),
            all: lines.collect(),
        }
    }

    pub fn topologies(&self) -> &Value {
        &self.topologies
    }

    /// Checks all records of a kind. `nr` is how many there are, `excluded` how many are about what sched_ext does not
    /// hand out: `check` answers None for those.
    #[track_caller]
    pub fn check(
        &self,
        kind: &str,
        nr: usize,
        excluded: usize,
        mut check: impl FnMut(&mut Machines, &Value) -> Option<Result<(), String>>,
    ) {
        let (mut machines, mut checked, mut left_out) = (Machines::default(), 0, 0);
        let mut wrong = Vec::new();
        for record in self.all.iter().filter(|r| r["kind"] == kind) {
            match check(&mut machines, record) {
                None => left_out += 1,
                Some(Ok(())) => checked += 1,
                Some(Err(how)) => wrong.push(format!("{}: {how}", record["id"])),
            }
        }
        let shown = wrong[..wrong.len().min(8)].join("\n");
        let count = wrong.len();
        assert!(
            wrong.is_empty(),
            "{kind}: {count} differ, among them\n{shown}"
        );
        assert_eq!((checked + left_out, left_out), (nr, excluded), "{kind}");
    }
}

/// Machines of the records, booted once each.
#[derive(Default)]
pub struct Machines(HashMap<(String, i64, i64), Machine>);

impl Machines {
    /// An empty machine of this topology, HZ and number of online CPUs (0: all).
    pub fn get(&mut self, topology: &str, hz: i64, online: i64) -> &mut Machine {
        let key = (topology.to_owned(), hz, online);
        let machine = self.0.entry(key).or_insert_with(|| {
            let mut machine = Machine::boot(topology, hz, &[]);
            machine.build(online);
            machine
        });
        machine.clear();
        machine
    }

    pub fn up(&mut self, hz: i64) -> &mut Machine {
        self.get("up", hz, 0)
    }
}

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is no list"))
}

pub fn ints(value: &Value) -> Vec<i64> {
    list(value).iter().map(int).collect()
}

/// A number, or -1 for none.
pub fn or_none(value: &Value) -> i64 {
    value.as_i64().unwrap_or(-1)
}

pub fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

/// How a task slept, as enum sleep_type has it.
pub fn sleep_type(name: &Value) -> i64 {
    let names = ["NORMAL", "NONINT", "INTERACTIVE", "INTERRUPTED"];
    let at = names.iter().position(|known| name == known);
    at.unwrap_or_else(|| panic!("{name} is no sleep type")) as i64
}

/// Realtime tasks, which sched_ext does not hand out.
pub fn is_realtime(policy: &Value) -> bool {
    policy == "fifo" || policy == "rr"
}

/// A task before it is queued.
pub struct Task {
    pub id: i64,
    pub cpu: i64,
    pub nice: i64,
    /// 0: as its sleep_avg has it.
    pub prio: i64,
    /// 0: full.
    pub slice: i64,
    pub savg: i64,
    pub timestamp: i64,
    pub sleep_type: i64,
    pub user: bool,
    pub batch: bool,
    pub first: bool,
    /// -1: that of its nice value.
    pub weight: i64,
    pub last_ran: i64,
    /// CPUs, -1 for all.
    pub allowed: i64,
}

impl Task {
    pub fn new(id: i64) -> Task {
        Task {
            id,
            cpu: 0,
            nice: 0,
            prio: 0,
            slice: 0,
            savg: 0,
            timestamp: NOW,
            sleep_type: 0,
            user: true,
            batch: false,
            first: false,
            weight: -1,
            last_ran: 0,
            allowed: -1,
        }
    }
}

/// What the scheduler knows of a task.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub prio: i64,
    pub slice: i64,
    pub savg: i64,
    pub timestamp: i64,
    pub sleep_type: i64,
    /// 0 active, 1 expired, 2 none.
    pub array: i64,
    pub first: bool,
    pub weight: i64,
    pub cpu: i64,
}

/// What it knows of a CPU.
#[derive(Debug, PartialEq, Eq)]
pub struct SeenCpu {
    /// -1: none.
    pub curr: i64,
    pub expired_timestamp: i64,
    pub best_expired: i64,
    pub which_active: i64,
    pub resched: bool,
    pub nr_running: i64,
    pub load: i64,
    /// -1: none.
    pub push_to: i64,
}

/// O(1) on a machine of the records.
pub struct Machine {
    pub kernel: Kernel,
    pub nr_cpus: i64,
    tasks: Vec<TaskId>,
}

impl Machine {
    pub fn boot(topology: &str, hz: i64, tunables: &[(&str, i128)]) -> Machine {
        // Core, cache, node of each CPU.
        let (core, llc, node): (&[i128], &[i128], &[i128]) = match topology {
            "up" => (&[0], &[0], &[0]),
            "smp2" => (&[0, 1], &[0, 1], &[0, 0]),
            "smp4" => (&[0, 1, 2, 3], &[0, 1, 2, 3], &[0; 4]),
            "smt4" => (&[0, 0, 1, 1], &[0, 0, 1, 1], &[0; 4]),
            "numa4" => (&[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 0, 1, 1]),
            _ => panic!("no topology {topology}"),
        };
        let nodes = node.last().expect("a CPU") + 1;
        let mut values = globals(&[("tick_hz", hz.into()), ("nr_nodes", nodes)]);
        values.extend(globals(tunables));
        for (name, of) in [
            ("cpu_core_id", core),
            ("cpu_llc_id", llc),
            ("cpu_node_id", node),
            ("node_distance", &[10, 20, 20, 10]),
        ] {
            values.push((name.to_owned(), Global::Ints(of.to_vec())));
        }
        Machine::with(&values, core.len() as i64)
    }

    /// Any machine: its ids and distances are among the values.
    pub fn with(values: &[(String, Global)], nr_cpus: i64) -> Machine {
        let object = object("schedulers/o1/tests/decisions.bpf.c", 2);
        let mut kernel = Kernel::boot(object, values, nr_cpus as u32);
        kernel.state().now_ns = NOW as u64;
        let tasks = (0..TASKS).map(|pid| kernel.state().add_task((pid + FIRST) as i32, 0));
        let tasks = tasks.collect();
        Machine {
            kernel,
            nr_cpus,
            tasks,
        }
    }

    pub fn build(&mut self, online: i64) {
        assert_eq!(self.call("t_build", &[online])[0], 0);
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    pub fn clear(&mut self) {
        self.call("t_clear", &[]);
        let state = self.kernel.state();
        state.kicks.clear();
        state.cpu = 0;
        state.set_idle(|_| false);
    }

    pub fn add(&mut self, t: &Task) {
        let id = t.id + FIRST;
        let words = [
            id,
            t.cpu,
            t.nice,
            t.prio,
            t.slice,
            t.savg,
            t.timestamp,
            t.sleep_type,
        ];
        self.call("t_task", &words);
        let all = (1 << self.nr_cpus) - 1;
        let allowed = match t.allowed & all == all {
            true => -1,
            false => t.allowed,
        };
        let [user, batch, first] = [t.user, t.batch, t.first].map(i64::from);
        let words = [id, user, batch, first, t.weight, t.last_ran, allowed];
        self.call("t_task_more", &words);
    }

    /// Queues tasks at the tail, in this order.
    pub fn enqueue(&mut self, tasks: &[i64], expired: bool) {
        for task in tasks {
            self.call("t_enqueue", &[task + FIRST, i64::from(expired)]);
        }
    }

    /// Who runs (-1: nobody), and since when tasks are expired.
    pub fn set_cpu(&mut self, cpu: i64, curr: i64, exp_ts: i64, best_exp: i64, clock: i64) {
        self.call("t_cpu", &[cpu, curr + FIRST, exp_ts, best_exp, clock]);
    }

    pub fn seen(&mut self, task: i64) -> Seen {
        let w = self.call("t_task_get", &[task + FIRST]);
        Seen {
            prio: w[1],
            slice: w[2],
            savg: w[3],
            timestamp: w[4],
            sleep_type: w[5],
            array: w[6],
            first: w[7] & 1 != 0,
            weight: (w[7] & 0xffff_ffff) >> 1,
            cpu: w[7] >> 32,
        }
    }

    pub fn seen_cpu(&mut self, cpu: i64) -> SeenCpu {
        let w = self.call("t_cpu_get", &[cpu]);
        SeenCpu {
            curr: w[1] - FIRST,
            expired_timestamp: w[2],
            best_expired: w[3],
            which_active: w[4],
            resched: w[5] != 0,
            nr_running: w[6],
            load: w[7] & 0xffff_ffff,
            push_to: (w[7] >> 32) - 1,
        }
    }

    /// The tasks of an array in order of service.
    pub fn queued(&mut self, cpu: i64, expired: bool) -> Vec<i64> {
        let nth = |n| match self.call("t_nth", &[cpu, i64::from(expired), n])[3] {
            0 => None,
            task => Some(task - FIRST),
        };
        (0..).map_while(nth).collect()
    }

    /// Both arrays against those of a record.
    pub fn arrays_differ(
        &mut self,
        cpu: i64,
        active: &Value,
        expired: &Value,
    ) -> Result<(), String> {
        differs("active", &self.queued(cpu, false), &ints(active))?;
        differs("expired", &self.queued(cpu, true), &ints(expired))
    }

    /// `struct task_struct` of a task that may run on these CPUs.
    pub fn task_struct(&mut self, task: i64, allowed: i64) -> i64 {
        let id = self.tasks[task as usize];
        let nr_cpus = self.nr_cpus as usize;
        let state = self.kernel.state();
        state.allow(id, |cpu| cpu < nr_cpus && allowed & 1 << cpu != 0);
        state.address(id)
    }
}
