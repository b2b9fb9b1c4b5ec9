// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine under 4BSD, without a kernel: states are set up and the callbacks called by hand, in the kernel's order.

use crate::bsd4::records::{bits, int, ints, list, or};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT, Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

pub const GLOBAL: u64 = 4096;
pub const MS: u64 = 1_000_000;
/// The time at which recorded machines start.
pub const START_NS: u64 = 1_000_000 * MS;
/// Flags of enqueues and dequeues: a wakeup, a new task, a changed one; a task that falls asleep.
pub const WAKEUP: i64 = 1;
pub const INITIAL: i64 = 0x88;
pub const CHANGED: i64 = 0xa;
pub const SLEEP: i64 = 1;
/// `SCX_TASK_QUEUED`
const TASK_QUEUED: u32 = 1;
/// `enum bsd4_class`
const TIMESHARE: i64 = 0;
const FIXED: i64 = 1;

/// What is changed from the newest version for the one of 2012 and for that of 2016.
pub const OF_2012: &[(&str, i128)] = &[("slice_counter", 0), ("head_rule", 0)];
pub const OF_2016: &[(&str, i128)] = &[("slice_counter", 1), ("head_rule", 2)];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thread {
    pub task: TaskId,
    pub address: i64,
    pub slot: i64,
    /// It has slept and not returned to user mode, or never does: it does not make way.
    pub in_kernel: bool,
    pub timeshare: bool,
}

/// What the scheduler knows about a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    pub est: i64,
    pub slept: i64,
    pub ticks: i64,
    pub share: i64,
    pub user_pri: i64,
    pub pri: i64,
    pub slice: i64,
    pub last_cpu: i64,
    pub did_run: bool,
    /// NEEDRESCHED
    pub resched: bool,
}

pub struct Machine {
    pub kernel: Kernel,
    pub nr_cpus: usize,
    pub threads: BTreeMap<i64, Thread>,
    pub cur: Vec<Option<i64>>,
    /// Kicks of other CPUs; true: PREEMPT.
    pub kicked: Vec<(u32, bool)>,
    /// A task that gets a CPU has not yet returned to user mode.
    pub keeps_priorities: bool,
    /// A turn in statistics ticks and in hz ticks.
    pub slice: i64,
    pub quantum: i64,
}

impl Machine {
    /// All CPUs idle. Err: what the scheduler says about its tunables.
    pub fn boot(nr_cpus: usize, tunables: &[(&str, i128)]) -> Machine {
        let object = object("schedulers/bsd4/tests/vectors.bpf.c", 2);
        let kernel = Kernel::boot(object, &globals(tunables), nr_cpus as u32);
        let mut machine = Machine {
            kernel,
            nr_cpus,
            threads: BTreeMap::new(),
            cur: vec![None; nr_cpus],
            kicked: Vec::new(),
            keeps_priorities: true,
            slice: 0,
            quantum: 0,
        };
        machine.kernel.state().now_ns = START_NS;
        let setup = machine.call("t_setup", &[]);
        assert_eq!((setup[0], setup[1]), (0, nr_cpus as i64), "set-up");
        (machine.slice, machine.quantum) = (setup[2], setup[3]);
        for cpu in 0..nr_cpus as i64 {
            let switched = (START_NS / MS) as i64;
            machine.call("t_cpu", &[cpu, 0, 255, 1, switched, 0]);
        }
        machine
    }

    /// The state of a record.
    pub fn of(given: &Value, tunables: &[(&str, i128)]) -> Machine {
        let mut m = Machine::boot(int(&given["ncpu"]) as usize, tunables);
        m.call("t_load", &[or(&given["ldavg"], 0)]);
        for thread in list(&given["th"]) {
            m.thread(thread);
        }
        let mut runnable = 0;
        for (cpu, id) in list(&given["cur"]).iter().enumerate() {
            if let Some(id) = id.as_i64() {
                m.set_running(cpu, id);
                runnable += 1;
            }
        }
        let idle = bits(&given["idle"]);
        for cpu in 0..m.nr_cpus {
            let slot = m.cur[cpu].map_or(0, |id| m.threads[&id].slot);
            let idles = idle.map_or(slot == 0, |idle| idle >> cpu & 1 != 0);
            let other = if slot == 0 { 255 } else { 0 };
            let switched = (START_NS / MS) as i64;
            m.call(
                "t_cpu",
                &[cpu as i64, slot, other, idles.into(), switched, 0],
            );
            let flagged = m.cur[cpu].is_some_and(|id| {
                let th = list(&given["th"]).iter().find(|th| th["id"] == id);
                th.is_some_and(|th| th["nr"] == 1)
            });
            m.call("t_asked", &[cpu as i64, flagged.into(), 0, 0, 0]);
        }
        for id in ints(&given["q"]) {
            m.wait_in(id, -1);
            runnable += 1;
        }
        if let Some(queues) = given["pq"].as_object() {
            for (cpu, ids) in queues {
                for id in ints(ids) {
                    m.wait_in(id, cpu.parse().expect("a CPU"));
                    runnable += 1;
                }
            }
        }
        let slot = m.cur[0].map_or(0, |id| m.threads[&id].slot);
        let other = if slot == 0 { 255 } else { 0 };
        let idles = m.call("t_cpu_get", &[0])[4];
        let switched = (START_NS / MS) as i64;
        let asked = m.call("t_cpu_get", &[0])[0];
        m.call("t_cpu", &[0, slot, other, idles, switched, runnable]);
        m.call("t_asked", &[0, asked, 0, 0, 0]);
        m.on(or(&given["self"], 0) as usize);
        m
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    /// Calls happen on this CPU from here on, by the task that runs there.
    pub fn on(&mut self, cpu: usize) {
        let current = self.cur[cpu].map(|id| self.threads[&id].task);
        let state = self.kernel.state();
        (state.cpu, state.current) = (cpu as u32, current);
    }

    pub fn mask(&self, mask: &Value) -> u64 {
        bits(mask).unwrap_or(u64::MAX) & (u64::MAX >> (64 - self.nr_cpus))
    }

    /// A thread as records describe them, which neither runs nor waits.
    pub fn thread(&mut self, th: &Value) -> Thread {
        let (id, pri) = (int(&th["id"]), int(&th["pri"]));
        let mask = self.mask(&th["mask"]);
        let class = th["cls"].as_str().unwrap_or("ts");
        let last = or(&th["last"], 0);
        let state = self.kernel.state();
        // A task that may run on one CPU only is there.
        let cpu = match mask.count_ones() {
            1 if th["pin"].is_null() => mask.trailing_zeros(),
            _ => last.clamp(0, 63) as u32,
        };
        let task = state.add_task(id as i32, cpu);
        state.allow(task, |cpu| cpu < 64 && mask >> cpu & 1 != 0);
        let nice = or(&th["nice"], 0);
        state.task(task).static_prio = 120 + nice as i32;
        state.task(task).migration_disabled = 2 * or(&th["pin"], 0) as u16;
        let address = state.address(task);
        let number = |name: &str| or(&th[name], 0);
        let words = [
            address,
            number("est"),
            number("slp"),
            number("cpt"),
            number("pct"),
            nice,
            if class == "ts" { TIMESHARE } else { FIXED },
            or(&th["slice"], self.slice),
        ];
        let slot = self.call("t_task", &words)[0];
        let thread = Thread {
            task,
            address,
            slot,
            in_kernel: class != "ts",
            timeshare: class == "ts",
        };
        self.threads.insert(id, thread);
        let user_pri = or(&th["upri"], pri);
        let words = [address, user_pri, pri, last, 0, 0, number("didrun")];
        self.call("t_state", &words);
        thread
    }

    /// A task returns to user mode.
    pub fn return_to_user(&mut self, id: i64) {
        let (th, k) = (self.threads[&id], self.known(id));
        self.call("t_set_pri", &[th.address, k.user_pri]);
    }

    fn set_state(&mut self, id: i64, runs: bool) {
        let (k, th) = (self.known(id), self.threads[&id]);
        let did_run = k.did_run.into();
        let words = [
            th.address,
            k.user_pri,
            k.pri,
            k.last_cpu,
            1,
            runs.into(),
            did_run,
        ];
        self.call("t_state", &words);
    }

    /// A task runs on a CPU, as if it had for long.
    pub fn runs_now(&mut self, cpu: usize, id: i64) {
        self.set_running(cpu, id);
        let slot = self.threads[&id].slot;
        self.call("t_cpu", &[cpu as i64, slot, 0, 0, 0, 1]);
    }

    fn set_running(&mut self, cpu: usize, id: i64) {
        self.cur[cpu] = Some(id);
        let th = self.threads[&id];
        self.kernel.state().set_cpu(th.task, cpu as u32);
        self.set_state(id, true);
    }

    /// Puts a task at the tail of its FIFO, -1: of the global queue.
    pub fn wait_in(&mut self, id: i64, cpu: i64) {
        let th = self.threads[&id];
        self.set_state(id, false);
        let now_ns = self.pass_ns();
        let key = self.call("t_queue", &[th.address, cpu, now_ns])[0];
        let state = self.kernel.state();
        state.task(th.task).scx.dsq_vtime = key as u64;
        state.queue(if cpu < 0 { GLOBAL } else { cpu as u64 }, th.task);
    }

    /// No two things happen at the same time.
    pub fn pass_ns(&mut self) -> i64 {
        let state = self.kernel.state();
        state.now_ns += 1;
        state.now_ns as i64
    }

    pub fn known(&mut self, id: i64) -> Known {
        let th = self.threads[&id];
        let k = self.call("t_get", &[th.address]);
        let flags = self.call("t_flags", &[th.address]);
        let runs_on = self.cur.iter().position(|cur| *cur == Some(id));
        let resched = match runs_on {
            Some(cpu) => self.call("t_cpu_get", &[cpu as i64])[0],
            None => flags[3],
        };
        Known {
            est: k[0],
            slept: k[1],
            ticks: k[2],
            share: k[3],
            user_pri: k[4],
            pri: k[5],
            slice: k[6],
            last_cpu: k[7],
            did_run: flags[0] != 0,
            resched: resched != 0,
        }
    }

    pub fn all_known(&mut self) -> BTreeMap<i64, Known> {
        let ids: Vec<i64> = self.threads.keys().copied().collect();
        ids.into_iter().map(|id| (id, self.known(id))).collect()
    }

    fn ids(&mut self, dsq: u64) -> Vec<i64> {
        let tasks = self.kernel.state().queued(dsq).to_vec();
        let name = |task: &TaskId| {
            let mut threads = self.threads.iter();
            *threads
                .find(|(_, th)| th.task == *task)
                .expect("a thread")
                .0
        };
        tasks.iter().map(name).collect()
    }

    /// The global queue, and those of CPUs that are not empty.
    pub fn queues(&mut self) -> (Value, Value) {
        let mut of_cpus = serde_json::Map::new();
        for cpu in 0..self.nr_cpus as u64 {
            let ids = self.ids(cpu);
            if !ids.is_empty() {
                of_cpus.insert(cpu.to_string(), json!(ids));
            }
        }
        (json!(self.ids(GLOBAL)), Value::Object(of_cpus))
    }

    /// Runnable tasks, as the scheduler counts them.
    pub fn load(&mut self) -> i64 {
        self.call("t_cpu_get", &[0])[5]
    }

    /// Notes the kicks of other CPUs than this one.
    pub fn note_kicks(&mut self) {
        let state = self.kernel.state();
        let (own, kicks) = (state.cpu, std::mem::take(&mut state.kicks));
        for (cpu, flags) in kicks {
            assert!(flags == KICK_IDLE || flags == KICK_PREEMPT, "{flags}");
            if cpu != own {
                self.kicked.push((cpu, flags == KICK_PREEMPT));
            }
        }
    }

    /// A task becomes runnable on the machine's CPU: the callbacks of a wakeup or of a new task.
    pub fn wakes(&mut self, id: i64, flags: i64) {
        self.pass_ns();
        let th = self.threads[&id];
        let state = self.kernel.state();
        let (cpu, last) = (state.cpu, self.known(id).last_cpu);
        let task = self.kernel.state().task(th.task);
        let (pinned, allowed) = (task.migration_disabled != 0, task.nr_cpus_allowed);
        let prev = if last < 0 { cpu.into() } else { last };
        if !pinned && allowed > 1 {
            let chosen = self
                .kernel
                .call("bsd4_select_cpu", &[th.address, prev, 8])
                .1;
            self.kernel.state().set_cpu(th.task, chosen as u32);
        } else if !pinned {
            let mut all = 0..self.nr_cpus as u32;
            let only = all.find(|cpu| self.kernel.state().allows(th.task, *cpu));
            self.kernel.state().set_cpu(th.task, only.expect("a CPU"));
        } else {
            self.kernel.state().set_cpu(th.task, prev as u32);
        }
        self.call("bsd4_runnable", &[th.address, flags]);
        self.call("bsd4_enqueue", &[th.address, flags]);
        self.note_kicks();
    }

    /// A property of a task has changed, by `op`: a waiting one leaves its queue and comes back.
    pub fn changes(&mut self, id: i64, op: impl FnOnce(&mut Machine)) {
        self.pass_ns();
        let th = self.threads[&id];
        let waits = self.waits(id);
        if waits {
            self.kernel.state().remove(th.task);
            self.call("bsd4_quiescent", &[th.address, CHANGED]);
        }
        op(self);
        if waits {
            self.call("bsd4_runnable", &[th.address, CHANGED]);
            self.call("bsd4_enqueue", &[th.address, CHANGED]);
        }
        self.note_kicks();
    }

    pub fn waits(&mut self, id: i64) -> bool {
        let task = self.threads[&id].task;
        let mut queues = (0..self.nr_cpus as u64).chain([GLOBAL]);
        queues.any(|queue| self.kernel.state().queued(queue).contains(&task))
    }

    pub fn set_nice(&mut self, id: i64, nice: i64) {
        let th = self.threads[&id];
        self.changes(id, |m| {
            m.kernel.state().task(th.task).static_prio = 120 + nice as i32;
            m.call("bsd4_set_weight", &[th.address, 100]);
        });
    }

    /// `schedule()` on a CPU: its task leaves to sleep, or still wants to run. Returns who ran and who runs, if that is another.
    pub fn schedule(
        &mut self,
        cpu: usize,
        still_wants: bool,
    ) -> Option<(Option<i64>, Option<i64>)> {
        self.schedule_out(cpu, still_wants, true)
    }

    /// The same; `sleeps`: if it leaves, it is to sleep, and not to wait for an interrupt.
    pub fn schedule_out(
        &mut self,
        cpu: usize,
        still_wants: bool,
        sleeps: bool,
    ) -> Option<(Option<i64>, Option<i64>)> {
        self.pass_ns();
        self.on(cpu);
        let prev = self.cur[cpu];
        let address = prev.map_or(0, |id| self.threads[&id].address);
        let wants = prev.is_some() && still_wants;
        if let Some(id) = prev {
            let task = self.threads[&id].task;
            let task = self.kernel.state().task(task);
            task.scx.slice = 0;
            task.scx.flags = if wants { TASK_QUEUED } else { 0 };
            if !wants {
                self.call("bsd4_stopping", &[address, 0]);
                self.call("bsd4_quiescent", &[address, if sleeps { SLEEP } else { 0 }]);
            }
        }
        self.call("bsd4_dispatch", &[cpu as i64, address]);
        let taken = self.kernel.state().take_local(cpu as u32);
        if let Some(task) = taken {
            if wants {
                self.call("bsd4_stopping", &[address, 1]);
                self.call("bsd4_enqueue", &[address, 0]);
            }
            self.runs(cpu, task);
        } else if prev.is_some_and(|id| !wants || !self.may_run(id, cpu)) {
            if wants {
                // The kernel moves a task off a CPU that is forbidden to it.
                self.call("bsd4_stopping", &[address, 1]);
                self.call("bsd4_enqueue", &[address, 0]);
            }
            self.cur[cpu] = None;
            self.call("bsd4_update_idle", &[cpu as i64, 1]);
        }
        self.note_kicks();
        let next = self.cur[cpu];
        (prev != next).then_some((prev, next))
    }

    fn may_run(&mut self, id: i64, cpu: usize) -> bool {
        let task = self.threads[&id].task;
        let state = self.kernel.state();
        state.task(task).scx.slice = 0;
        state.allows(task, cpu as u32)
    }

    fn runs(&mut self, cpu: usize, task: TaskId) {
        let mut threads = self.threads.iter();
        let (id, th) = threads.find(|(_, th)| th.task == task).expect("a thread");
        let (id, th) = (*id, *th);
        if self.cur[cpu].is_none() {
            self.call("bsd4_update_idle", &[cpu as i64, 0]);
        }
        self.kernel.state().set_cpu(task, cpu as u32);
        let pri = self.known(id).pri;
        self.cur[cpu] = Some(id);
        self.call("bsd4_running", &[th.address]);
        // The scheduler takes it to be back in user mode now; recorded threads are when the record says so.
        if self.keeps_priorities {
            self.call("t_set_pri", &[th.address, pri]);
        }
    }

    /// Flags of a CPU's next switch: NEEDRESCHED, preempted by a task on this CPU, from another one.
    pub fn asked(&mut self, cpu: usize) -> [bool; 3] {
        let c = self.call("t_cpu_get", &[cpu as i64]);
        [c[0] != 0, c[1] != 0, c[2] != 0]
    }

    pub fn idle_mask(&mut self) -> u64 {
        let idles = |m: &mut Machine, cpu: usize| m.call("t_cpu_get", &[cpu as i64])[4] as u64;
        (0..self.nr_cpus).map(|cpu| idles(self, cpu) << cpu).sum()
    }
}

impl Machine {
    /// A task that the scheduler has got to know by itself.
    pub fn adopt(&mut self, id: i64, task: TaskId, address: i64) {
        let thread = Thread {
            task,
            address,
            slot: self.threads.len() as i64 + 1,
            in_kernel: false,
            timeshare: true,
        };
        self.threads.insert(id, thread);
    }
}

impl Machine {
    /// A thread of the kernel's runs on a CPU, whatever else does.
    pub fn busy(&mut self, cpu: usize) {
        let c = self.call("t_cpu_get", &[cpu as i64]);
        let slot = self.cur[cpu].map_or(0, |id| self.threads[&id].slot);
        self.call("t_cpu", &[cpu as i64, slot, 0, 0, 0, c[5]]);
    }

    /// The task of a CPU calls sched_yield().
    pub fn yields(&mut self, cpu: usize) {
        self.on(cpu);
        if let Some(id) = self.cur[cpu] {
            let address = self.threads[&id].address;
            self.call("bsd4_yield", &[address, 0]);
        }
    }
}
