// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded states of machines under the kernel for tests, and the part of sched_ext's core that calls BFS: in which order
//! the callbacks come when a task wakes up, leaves its CPU or is changed. No time passes; a CPU that has to choose again is
//! marked, and chooses when the test says so.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use tiltyard_native::Value as Global;
use tiltyard_schedtest::kernel::{KICK_PREEMPT, Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

/// Flags of sched_ext, and of the tasks' `p->flags` and states.
const WAKE_TTWU: i64 = 8;
const WAKE_SYNC: i64 = 16;
const WAKE_FORK: i64 = 4;
const ENQ_WAKEUP: i64 = 0x401;
const ENQ_INITIAL: i64 = 0x88;
const MIGRATED: i64 = 0x40;
const SLEEP: i64 = 9;
const SAVE: i64 = 0xa;
const MOVE: i64 = 0xe;
pub const TASK_QUEUED: u32 = 1;
const EXIT_ZOMBIE: i32 = 0x20;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;
/// A slice that lasts.
const LONG_NS: u64 = 1 << 40;
/// Pids are above this, so that none is 0.
const PID: i64 = 100;

/// 0.311 with all of its slips: what was recorded.
pub const VERBATIM: [(&str, i128); 6] = [
    ("rr_scaling", 0),
    ("stale_copy", 1),
    ("equals_preempt", 1),
    ("distance_ms", 1),
    ("charge_still_clock", 1),
    ("near_nodes", 1),
];

pub struct Records {
    topologies: Value,
    records: Vec<Value>,
}

impl Records {
    pub fn read() -> Records {
        let bytes = zstd::decode_all(&include_bytes!("decisions.jsonl.zst")[..]).expect("zstd");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let mut lines = text.lines();
        let line = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        let topologies = line(lines.next().expect("a header"))["topologies"].take();
        Records {
            topologies,
            records: lines.map(line).collect(),
        }
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().filter(move |r| r["kind"] == kind)
    }

    pub fn kinds(&self) -> BTreeSet<String> {
        let kind = |r: &Value| r["kind"].as_str().expect("a kind").to_owned();
        self.records.iter().map(kind).collect()
    }

    /// The machine of a record, without tasks.
    pub fn machine(&self, r: &Value, tunables: &[(&str, i128)]) -> Machine {
        let given = &r["in"];
        let mut values = VERBATIM.to_vec();
        values.push(("tick_hz", given["hz"].as_i64().unwrap_or(1000).into()));
        values.push(("rr_interval", given["rr"].as_i64().unwrap_or(6).into()));
        values.extend_from_slice(tunables);
        let topology = &self.topologies[given["topo"].as_str().unwrap_or("up1")];
        Machine::boot(topology, &values)
    }
}

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn ints(value: &Value) -> Vec<i64> {
    let all = value
        .as_array()
        .unwrap_or_else(|| panic!("{value}: no list"));
    all.iter().map(int).collect()
}

pub fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

pub fn bits(hex: &Value) -> u64 {
    let hex = hex.as_str().unwrap_or("ffffffffffffffff");
    u64::from_str_radix(hex, 16).expect("hex")
}

/// Of a record: what is never BFS's.
pub fn is_realtime(policy: &Value) -> bool {
    policy == "F" || policy == "R"
}

/// A recorded task.
pub struct Given<'a> {
    pub tid: i64,
    pub policy: &'a Value,
    pub nice: i64,
    pub slice: i64,
    pub deadline: i64,
    pub last_ran_ns: i64,
    pub mask: u64,
    pub cpu: i64,
    pub place: &'a str,
    pub first_slice: i64,
    pub parent: i64,
}

impl Given<'_> {
    /// `[tid, policy, nice, rt_priority, slice, deadline, last_ran, mask, last_cpu, where, first_slice, parent]`.
    pub fn of(task: &Value) -> Given<'_> {
        Given {
            tid: int(&task[0]),
            policy: &task[1],
            nice: int(&task[2]),
            slice: int(&task[4]),
            deadline: int(&task[5]),
            last_ran_ns: int(&task[6]) * 1000,
            mask: bits(&task[7]),
            cpu: int(&task[8]),
            place: task[9].as_str().expect("a place"),
            first_slice: task[10].as_i64().unwrap_or(0),
            parent: task[11].as_i64().unwrap_or(-1),
        }
    }

    /// The same of 0.350: `[tid, policy, nice, slice, deadline, mask, last_cpu, where]`.
    pub fn of_350(task: &Value) -> Given<'_> {
        Given {
            tid: int(&task[0]),
            policy: &task[1],
            nice: int(&task[2]),
            slice: int(&task[3]),
            deadline: int(&task[4]),
            last_ran_ns: 0,
            mask: bits(&task[5]),
            cpu: int(&task[6]),
            place: task[7].as_str().expect("a place"),
            first_slice: 0,
            parent: -1,
        }
    }
}

/// What BFS knows of a task, and a CPU's copy of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told {
    pub slice: i64,
    pub deadline: i64,
    pub last_ran_ns: i64,
    pub first_slice: i64,
    pub cpu: i64,
    pub prio: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copied {
    pub slice: i64,
    pub deadline: i64,
    pub prio: i64,
    pub policy: &'static str,
    pub last_ran_ns: i64,
    pub idle: bool,
}

struct Known {
    id: TaskId,
    address: i64,
    mask: u64,
}

/// BFS on the machine of a record.
pub struct Machine {
    pub kernel: Kernel,
    pub nr_cpus: i64,
    pub hz: i64,
    tasks: BTreeMap<i64, Known>,
    slots: HashMap<i64, i64>,
    /// The task that runs on each CPU; one that is none of BFS's is not here, but its CPU is in `others`.
    running: BTreeMap<i64, i64>,
    others: BTreeSet<i64>,
    /// CPUs that are to choose again.
    pub marked: BTreeSet<i64>,
}

impl Machine {
    fn boot(topology: &Value, tunables: &[(&str, i128)]) -> Machine {
        let nr_cpus = int(&topology["ncpu"]);
        let mut values = globals(tunables);
        values.push(("nr_cpu_ids".to_owned(), Global::Int(nr_cpus.into())));
        let domains = topology["domains"].as_array().expect("domains");
        // The number of the first CPU of its group, of the widest of these kinds that there is; else its own.
        let ids = |kinds: &[&str]| -> Vec<i128> {
            let group = |cpu: usize| {
                let of_kind = |kind| domains.iter().find(|d| d[0] == kind);
                let domain = kinds.iter().copied().find_map(of_kind);
                domain.map_or(cpu as i128, |d| bits(&d[1][cpu]).trailing_zeros().into())
            };
            (0..nr_cpus as usize).map(group).collect()
        };
        let far = domains.iter().any(|d| d[0] == "ALLNODES");
        let mut nodes = vec![0; nr_cpus as usize];
        if far {
            let firsts = ids(&["CPU"]);
            let mut all = firsts.clone();
            all.dedup();
            let number = |first: &i128| all.iter().position(|f| f == first).expect("it is one");
            nodes = firsts.iter().map(|first| number(first) as i128).collect();
        }
        let nr_nodes = nodes.iter().max().expect("a CPU") + 1;
        values.push(("nr_nodes".to_owned(), Global::Int(nr_nodes)));
        values.push(("cpu_node_id".to_owned(), Global::Ints(nodes)));
        values.push(("cpu_llc_id".to_owned(), Global::Ints(ids(&["MC", "SMT"]))));
        values.push(("cpu_core_id".to_owned(), Global::Ints(ids(&["SMT"]))));
        let object = object("schedulers/bfs/tests/vectors.bpf.c", 2);
        let mut kernel = Kernel::boot(object, &values, nr_cpus as u32);
        assert_eq!(kernel.call("bfs_init", &[]).1, 0, "set-up");
        let hz = tunables.iter().rfind(|(name, _)| *name == "tick_hz");
        Machine {
            kernel,
            nr_cpus,
            hz: hz.map_or(1000, |(_, hz)| *hz as i64),
            tasks: BTreeMap::new(),
            slots: HashMap::new(),
            running: BTreeMap::new(),
            others: BTreeSet::new(),
            marked: BTreeSet::new(),
        }
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    pub fn set_now(&mut self, now_ns: i64) {
        self.kernel.state().now_ns = now_ns as u64;
    }

    /// Calls a callback and carries out its kicks.
    pub fn callback(&mut self, name: &str, words: &[i64]) -> i64 {
        let result = self.kernel.call(name, words).1;
        for (cpu, flags) in std::mem::take(&mut self.kernel.state().kicks) {
            let cpu = i64::from(cpu);
            match self.running.get(&cpu) {
                Some(tid) if flags == KICK_PREEMPT => {
                    let id = self.tasks[tid].id;
                    self.kernel.state().task(id).scx.slice = 0;
                }
                Some(_) => continue,
                None => (),
            }
            self.marked.insert(cpu);
        }
        result
    }

    pub fn address(&self, tid: i64) -> i64 {
        self.tasks[&tid].address
    }

    pub fn slot(&self, tid: i64) -> i64 {
        let mut slots = self.slots.iter();
        slots
            .find(|(_, of)| **of == tid)
            .map_or(0, |(slot, _)| *slot)
    }

    fn task(&mut self, tid: i64) -> &mut tiltyard_native::layout::TaskStruct {
        let id = self.tasks[&tid].id;
        self.kernel.state().task(id)
    }

    /// A task that exists but sleeps. Realtime ones that run take their CPU, others are nowhere.
    pub fn add(&mut self, given: &Given) {
        if is_realtime(given.policy) {
            if given.place == "r" {
                self.others.insert(given.cpu);
                self.callback("bfs_update_idle", &[given.cpu, 0]);
            }
            return;
        }
        self.new_task(given, &mut [0; 16]);
        let words = [
            self.address(given.tid),
            given.slice,
            given.deadline,
            given.last_ran_ns,
            given.first_slice,
            given.cpu,
            i64::from(given.place == "d"),
        ];
        let slot = self.call("t_task", &words)[0];
        self.slots.insert(slot, given.tid);
    }

    fn new_task(&mut self, given: &Given, args: &mut [u8; 16]) {
        let nr_cpus = self.nr_cpus;
        let state = self.kernel.state();
        let id = state.add_task((PID + given.tid) as i32, given.cpu as u32);
        state.allow(id, |cpu| {
            (cpu as i64) < nr_cpus && given.mask & 1 << cpu != 0
        });
        let address = state.address(id);
        let mask = given.mask;
        self.tasks.insert(given.tid, Known { id, address, mask });
        self.set_policy(given.tid, given.policy);
        let p = self.task(given.tid);
        p.static_prio = 120 + given.nice as i32;
        p.scx.slice = LONG_NS;
        // SAFETY: of struct scx_init_task_args BFS reads `fork` only, which comes first.
        let args = args.as_mut_ptr() as i64;
        assert_eq!(self.callback("bfs_init_task", &[address, args]), 0);
    }

    fn set_policy(&mut self, tid: i64, policy: &Value) {
        let p = self.task(tid);
        p.policy = match policy.as_str() {
            Some("B") => SCHED_BATCH,
            Some("IDLE") => SCHED_IDLE,
            _ => 0,
        };
        let name = if policy == "ISO" { "iso-" } else { "task" };
        for (to, from) in p.comm.iter_mut().zip(name.bytes()) {
            *to = from as i8;
        }
    }

    /// Puts the tasks of a record where they are.
    pub fn place(&mut self, r: &Value, of: fn(&Value) -> Given) {
        let given = &r["in"];
        let tasks = given["tasks"].as_array().expect("tasks").iter().map(of);
        let (running, rest): (Vec<Given>, Vec<Given>) = tasks.partition(|task| task.place == "r");
        let iso = given["iso"]
            .as_array()
            .map_or([0, 0], |iso| [int(&iso[0]), int(&iso[1])]);
        // In records of this kind isochronous tasks began to run before they were throttled.
        if r["kind"] != "nice" {
            self.call("t_iso", &iso);
        }
        for task in &running {
            self.add(task);
            if self.is_known(task.tid) {
                self.run(task.tid, task.cpu);
            }
        }
        self.call("t_iso", &iso);
        for task in &rest {
            self.add(task);
            if task.place == "q" && self.is_known(task.tid) {
                self.enqueue(task.tid, 0);
            }
        }
        self.marked.clear();
    }

    pub fn is_known(&self, tid: i64) -> bool {
        self.tasks.contains_key(&tid)
    }

    pub fn runs_other(&self, cpu: i64) -> bool {
        self.others.contains(&cpu)
    }

    pub fn running_on(&self, cpu: i64) -> Option<i64> {
        self.running.get(&cpu).copied()
    }

    pub fn cpu_of(&self, tid: i64) -> Option<i64> {
        let mut running = self.running.iter();
        running.find(|(_, of)| **of == tid).map(|(cpu, _)| *cpu)
    }

    pub fn enqueue(&mut self, tid: i64, flags: i64) {
        self.task(tid).scx.flags |= TASK_QUEUED;
        self.callback("bfs_enqueue", &[self.tasks[&tid].address, flags]);
    }

    /// The task gets a CPU.
    pub fn run(&mut self, tid: i64, cpu: i64) {
        let id = self.tasks[&tid].id;
        self.kernel.state().set_cpu(id, cpu as u32);
        self.task(tid).scx.flags |= TASK_QUEUED;
        if self.task(tid).scx.slice == 0 {
            self.task(tid).scx.slice = LONG_NS;
        }
        if self.running.insert(cpu, tid).is_none() {
            self.callback("bfs_update_idle", &[cpu, 0]);
        }
        self.callback("bfs_running", &[self.address(tid)]);
    }

    pub fn told(&mut self, tid: i64) -> Told {
        let w = self.call("t_task_get", &[self.address(tid)]);
        Told {
            slice: w[0],
            deadline: w[1],
            last_ran_ns: w[2],
            first_slice: w[3],
            cpu: w[4],
            prio: w[5],
        }
    }

    pub fn copied(&mut self, cpu: i64) -> Copied {
        let w = self.call("t_cpu_get", &[cpu]);
        Copied {
            slice: w[0],
            deadline: w[1],
            prio: w[2],
            policy: ["N", "B", "ISO", "IDLE"][w[3] as usize],
            last_ran_ns: w[5],
            idle: w[6] != 0,
        }
    }

    /// The queues that are not empty, as records have them.
    pub fn queues(&mut self) -> BTreeMap<String, Vec<i64>> {
        let mut queues = BTreeMap::new();
        for prio in 100..103 {
            let (mut queue, mut slot) = (Vec::new(), 0);
            loop {
                slot = self.call("t_next", &[prio, slot])[0];
                if slot == 0 {
                    break;
                }
                queue.push(self.slots[&slot]);
            }
            if !queue.is_empty() {
                queues.insert(prio.to_string(), queue);
            }
        }
        queues
    }

    pub fn idle_map(&mut self) -> u64 {
        let idle = (0..self.nr_cpus).filter(|cpu| self.call("t_cpu_get", &[*cpu])[6] != 0);
        let cpus: Vec<i64> = idle.collect();
        cpus.iter().map(|cpu| 1 << cpu).sum()
    }

    /// try_to_wake_up() and wake_up_new_task(), on CPU `me`.
    fn place_and_enqueue(&mut self, tid: i64, me: i64, wake_flags: i64, enq_flags: i64) {
        self.kernel.state().cpu = me as u32;
        let id = self.tasks[&tid].id;
        let p = self.task(tid);
        let alone = p.nr_cpus_allowed == 1;
        let mut cpu = i64::from(self.tasks[&tid].mask.trailing_zeros());
        if !alone {
            let prev = match wake_flags {
                WAKE_FORK => me,
                _ => self.told(tid).cpu,
            };
            cpu = self.callback("bfs_select_cpu", &[self.address(tid), prev, wake_flags]);
            if self.tasks[&tid].mask & 1 << cpu == 0 {
                cpu = i64::from(self.tasks[&tid].mask.trailing_zeros());
            }
        }
        self.kernel.state().set_cpu(id, cpu as u32);
        self.enqueue(tid, enq_flags);
        // The core wakes the CPU of a woken task if that is idle.
        if !self.running.contains_key(&cpu) && !self.others.contains(&cpu) {
            self.marked.insert(cpu);
        }
    }

    pub fn wake(&mut self, tid: i64, me: i64, sync: bool) {
        let flags = WAKE_TTWU | if sync { WAKE_SYNC } else { 0 };
        self.place_and_enqueue(tid, me, flags, ENQ_WAKEUP);
    }

    /// The running task of CPU `me` creates another one, with or without memory of its own, which then wakes up.
    pub fn fork(&mut self, parent: i64, child: &Given, shares: bool, me: i64) {
        let parent = self.tasks[&parent].id;
        let state = self.kernel.state();
        state.cpu = me as u32;
        state.current = Some(parent);
        let mut args = [0; 16];
        args[0] = 1;
        self.new_task(child, &mut args);
        let w = self.call("t_task_get", &[self.address(child.tid)]);
        let words = [self.address(child.tid), w[0], w[1], w[2], w[3], w[4], 0];
        let slot = self.call("t_task", &words)[0];
        self.slots.insert(slot, child.tid);
        let memory: [*const u8; 2] = [1, 2].map(std::ptr::without_provenance);
        self.task(child.tid).mm = memory[usize::from(shares)];
        self.kernel.state().task(parent).mm = memory[1];
    }

    pub fn wake_new(&mut self, tid: i64, me: i64) {
        self.place_and_enqueue(tid, me, WAKE_FORK, ENQ_INITIAL);
        self.kernel.state().current = None;
    }

    /// The running task of a CPU goes to sleep, in this state; or ends, if that is 0.
    pub fn sleep(&mut self, cpu: i64, state: u32) {
        let tid = self.running[&cpu];
        self.task(tid).state = state;
        if state == 0 {
            self.task(tid).exit_state = EXIT_ZOMBIE;
        }
        let address = self.address(tid);
        self.callback("bfs_stopping", &[address, 0]);
        self.task(tid).scx.flags &= !TASK_QUEUED;
        self.callback("bfs_quiescent", &[address, SLEEP]);
        self.marked.insert(cpu);
    }

    /// The same of one that is asleep already and is reaped.
    pub fn end(&mut self, tid: i64, parent: i64) {
        let parent = self.address(parent);
        let p = self.task(tid);
        p.exit_state = EXIT_ZOMBIE;
        p.real_parent = parent as *const _;
        self.callback("bfs_quiescent", &[self.tasks[&tid].address, SLEEP]);
    }

    pub fn set_parent(&mut self, tid: i64, parent: i64) {
        let parent = self.address(parent);
        self.task(tid).real_parent = parent as *const _;
    }

    /// schedule() on a CPU. The task that it runs afterwards.
    pub fn schedule(&mut self, cpu: i64) -> Option<i64> {
        self.schedule_with(cpu, |_| ())
    }

    /// The same; something else happens when the next task has been chosen and the previous one is not yet back in the queue.
    pub fn schedule_with(&mut self, cpu: i64, meanwhile: impl FnOnce(&mut Machine)) -> Option<i64> {
        self.marked.remove(&cpu);
        self.kernel.state().cpu = cpu as u32;
        let mut prev = self.running_on(cpu);
        let stays = |m: &mut Machine, tid| m.task(tid).scx.flags & TASK_QUEUED != 0;
        let mut queued = prev.is_some_and(|tid| stays(self, tid));
        if let Some(tid) = prev
            && queued
            && self.tasks[&tid].mask & 1 << cpu == 0
        {
            self.push_away(tid, cpu);
            prev = None;
            queued = false;
        }
        if let Some(tid) = prev
            && queued
            && self.task(tid).scx.slice > 0
        {
            return prev;
        }
        let address = prev.map_or(0, |tid| self.address(tid));
        self.callback("bfs_dispatch", &[cpu, address]);
        if let Some(tid) = prev
            && queued
            && self.task(tid).scx.slice > 0
        {
            return prev;
        }
        let Some(next) = self.picked(cpu) else {
            assert!(!queued, "CPU {cpu} keeps its task without a slice");
            if self.running.remove(&cpu).is_some() {
                self.callback("bfs_update_idle", &[cpu, 1]);
            }
            return None;
        };
        if let Some(tid) = prev
            && queued
        {
            meanwhile(self);
            self.kernel.state().cpu = cpu as u32;
            self.callback("bfs_stopping", &[address, 1]);
            self.enqueue(tid, 0);
        }
        self.run(next, cpu);
        Some(next)
    }

    /// The stopper takes a running task off a CPU where it may no longer be.
    fn push_away(&mut self, tid: i64, cpu: i64) {
        let to = self.tasks[&tid].mask.trailing_zeros();
        let id = self.tasks[&tid].id;
        self.callback("bfs_stopping", &[self.address(tid), 1]);
        self.running.remove(&cpu);
        self.kernel.state().set_cpu(id, to);
        self.enqueue(tid, MIGRATED);
    }

    /// A task is taken out, changed and brought back as it was, as the core does with all changes.
    fn change(&mut self, tid: i64, flags: i64, change: impl FnOnce(&mut Machine, i64)) {
        let address = self.address(tid);
        let cpu = self.cpu_of(tid);
        let queued = self.task(tid).scx.flags & TASK_QUEUED != 0;
        if cpu.is_some() {
            self.callback("bfs_stopping", &[address, 0]);
        } else if queued {
            self.callback("bfs_dequeue", &[address, flags]);
        }
        if queued {
            self.callback("bfs_quiescent", &[address, flags]);
        }
        change(self, address);
        if cpu.is_some() {
            self.callback("bfs_running", &[address]);
        } else if queued {
            self.enqueue(tid, flags);
        }
    }

    /// The halves of a change of a queued task that is as it was afterwards.
    pub fn begin_change(&mut self, tid: i64) {
        let address = self.address(tid);
        self.callback("bfs_dequeue", &[address, SAVE]);
        self.callback("bfs_quiescent", &[address, SAVE]);
    }

    pub fn end_change(&mut self, tid: i64) {
        self.enqueue(tid, SAVE);
    }

    pub fn set_nice(&mut self, tid: i64, nice: i64) {
        if !(-20..20).contains(&nice) || self.task(tid).static_prio == 120 + nice as i32 {
            return;
        }
        self.change(tid, SAVE, |m, address| {
            m.task(tid).static_prio = 120 + nice as i32;
            m.callback("bfs_set_weight", &[address, 1]);
        });
    }

    pub fn change_policy(&mut self, tid: i64, policy: &Value) {
        self.change(tid, MOVE, |m, _| m.set_policy(tid, policy));
    }

    pub fn set_mask(&mut self, tid: i64, mask: u64) {
        let (nr_cpus, id) = (self.nr_cpus, self.tasks[&tid].id);
        self.change(tid, SAVE, |m, address| {
            let state = m.kernel.state();
            state.allow(id, |cpu| (cpu as i64) < nr_cpus && mask & 1 << cpu != 0);
            m.tasks.get_mut(&tid).expect("known").mask = mask;
            let mask = m.task(tid).cpus_ptr as i64;
            m.callback("bfs_set_cpumask", &[address, mask]);
        });
        let queued = self.task(tid).scx.flags & TASK_QUEUED != 0;
        match self.cpu_of(tid) {
            Some(cpu) if mask & 1 << cpu == 0 => _ = self.marked.insert(cpu),
            None if queued => {
                let address = self.address(tid);
                self.callback("bfs_dequeue", &[address, 8]);
                self.kernel.state().set_cpu(id, mask.trailing_zeros());
                self.enqueue(tid, MIGRATED);
            }
            _ => (),
        }
    }

    /// A tick of a CPU. One that does not run a task of BFS has none that BFS sees.
    pub fn tick(&mut self, cpu: i64) {
        let Some(tid) = self.running_on(cpu) else {
            self.call("t_iso_tick", &[cpu]);
            return;
        };
        self.kernel.state().cpu = cpu as u32;
        self.callback("bfs_tick", &[self.address(tid)]);
        if self.task(tid).scx.slice == 0 {
            self.marked.insert(cpu);
        }
    }

    pub fn give_way(&mut self, cpu: i64) {
        let tid = self.running[&cpu];
        self.callback("bfs_yield", &[self.address(tid), 0]);
        self.marked.insert(cpu);
    }

    /// All marked CPUs choose, the lowest first, until none is marked.
    pub fn settle(&mut self) {
        while let Some(cpu) = self.marked.first().copied() {
            self.schedule(cpu);
        }
    }

    /// What the scheduler has given to a CPU.
    pub fn picked(&mut self, cpu: i64) -> Option<i64> {
        let id = self.kernel.state().take_local(cpu as u32)?;
        let mut tasks = self.tasks.iter();
        tasks.find(|(_, known)| known.id == id).map(|(tid, _)| *tid)
    }

    /// The slice that the core knows.
    pub fn core_slice(&mut self, tid: i64) -> u64 {
        self.task(tid).scx.slice
    }

    /// The core has it on this CPU's runqueue.
    pub fn set_rq(&mut self, tid: i64, cpu: i64) {
        let id = self.tasks[&tid].id;
        self.kernel.state().set_cpu(id, cpu as u32);
    }

    pub fn set_flags(&mut self, tid: i64, flags: u32) {
        self.task(tid).flags = flags;
    }

    /// What makes the running task of a CPU choose again.
    pub fn mark(&mut self, cpu: i64) {
        if let Some(tid) = self.running_on(cpu) {
            self.task(tid).scx.slice = 0;
        }
        self.marked.insert(cpu);
    }
}
