// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole schedules of the original (see recorded.rs), event by event: here are the machine, its clock and ticks, and the
//! tasks' programs; SD decides, through the handles of vectors.bpf.c.
//!
//! Left out are the schedule with an ISO task and the one with a realtime task: see decisions.rs.

use super::recorded::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiltyard_native::Value as Global;
use tiltyard_schedtest::globals;
use tiltyard_schedtest::kernel::TaskId;

/// Tick at which schedules begin.
const TICK_0: i64 = 100_000;

#[derive(Clone)]
enum Op {
    Run(i64),
    Sleep(i64, bool),
    Yield,
    Nice(i64),
    Fork(i64, Vec<Op>, i64),
    Exit,
}

fn program(ops: &Value) -> Vec<Op> {
    let op = |op: &Value| match op[0].as_str() {
        Some("run") => Op::Run(int(&op[1])),
        Some("sleep") => Op::Sleep(int(&op[1]), int(&op[2]) == 2),
        Some("yield") => Op::Yield,
        Some("nice") => Op::Nice(int(&op[1])),
        Some("fork") => Op::Fork(int(&op[1]), program(&op[2]), int(&op[3])),
        Some("exit") => Op::Exit,
        _ => panic!("{op} is no operation"),
    };
    ops.as_array().expect("operations").iter().map(op).collect()
}

struct Thread {
    program: Vec<Op>,
    /// The operation under way, and what is left of it if it runs.
    at: usize,
    left: i64,
    wakes_at: Option<i64>,
    waker: Option<i64>,
    ran: i64,
    nice: i64,
    parent: Option<i64>,
}

pub struct Run {
    sd: Sd,
    structs: Vec<TaskId>,
    threads: BTreeMap<i64, Thread>,
    /// Who runs on each CPU.
    curr: Vec<Option<i64>>,
    tick_ns: i64,
    /// Ns since the start.
    t: i64,
    pub log: Vec<Value>,
}

impl Run {
    /// Time that a task has had, in ms.
    pub fn ran_ms(&self, id: i64) -> i64 {
        self.threads[&id].ran / 1_000_000
    }

    fn now(&self) -> i64 {
        TICK_0 * self.tick_ns + self.t
    }

    fn cpus(&self) -> std::ops::Range<usize> {
        0..self.curr.len()
    }

    fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.sd.call(program, words)
    }

    /// Callbacks run on this CPU; it is seen as busy if it is about to go idle.
    fn on_cpu(&mut self, cpu: usize, busy: bool) {
        let idle = |c: usize| c < self.curr.len() && self.curr[c].is_none() && !(busy && c == cpu);
        let state = self.sd.kernel.state();
        state.cpu = cpu as u32;
        state.set_idle(idle);
    }

    fn schedule(&mut self, cpu: usize, yields: bool) {
        let (now, c) = (self.now(), cpu as i64);
        let before = self.call("t_cpu_get", &[c]);
        if before[6] == 0 && self.curr.len() > 1 {
            self.on_cpu(cpu, true);
            self.call("t_newidle", &[c, now]);
        }
        let next = match self.call("t_pick", &[c, 0, now])[3] {
            0 => None,
            next => Some(next - 1),
        };
        if self.call("t_cpu_get", &[c])[1] != before[1] {
            self.log.push(json!([self.t, cpu, "swap"]));
        }
        if next != self.curr[cpu] || yields {
            let prio = next.map(|id| self.call("t_task_get", &[id + 1])[4]);
            self.log.push(json!([self.t, cpu, next, prio]));
        }
        if let Some(next) = next {
            self.call("t_begin", &[next + 1, now]);
        }
        self.curr[cpu] = next;
    }

    /// CPUs that are to choose again do so, this one first: an idle one has got a task.
    fn reschedule(&mut self, first: usize) {
        let others = self.cpus().filter(|cpu| *cpu != first);
        for cpu in std::iter::once(first).chain(others) {
            let w = self.call("t_cpu_get", &[cpu as i64]);
            if w[5] != 0 || (self.curr[cpu].is_none() && w[6] > 0) {
                self.call("t_resched_done", &[cpu as i64]);
                self.schedule(cpu, false);
            }
        }
    }

    fn ticks(&mut self, cpu: usize) {
        let now = self.now();
        self.call("t_cpu_tick", &[cpu as i64, now]);
        if self.curr.len() > 1 {
            self.on_cpu(cpu, false);
            let idle = self.curr[cpu].is_none();
            let asked = self.call("t_rebalance", &[cpu as i64, idle.into(), now])[3];
            if asked >= 0 {
                self.log.push(json!([self.t, asked, "push"]));
            }
        }
        self.reschedule(cpu);
    }

    fn wake(&mut self, id: i64) {
        let thread = self.threads.get_mut(&id).expect("a thread");
        thread.wakes_at = None;
        let waker = thread.waker;
        let last = self.call("t_task_get", &[id + 1])[6];
        let here = waker.unwrap_or(last) as usize;
        self.on_cpu(here, false);
        let mut cpu = last;
        if self.curr.len() > 1 {
            let address = self.sd.kernel.state().address(self.structs[id as usize]);
            let tick = self.now() / self.tick_ns;
            cpu = self.call("t_place_wakee", &[address, id + 1, last, tick])[4];
        }
        let now = self.now();
        self.call("t_join", &[id + 1, cpu, now]);
        self.reschedule(here);
    }

    /// The operation of the task that runs on this CPU has ended: the next ones, until one that takes time.
    fn proceed(&mut self, cpu: usize) {
        let id = self.curr[cpu].expect("a task");
        while self.curr[cpu] == Some(id) {
            let thread = self.threads.get_mut(&id).expect("a thread");
            thread.at = (thread.at + 1) % thread.program.len();
            match thread.program[thread.at].clone() {
                Op::Run(ns) => {
                    thread.left = ns;
                    break;
                }
                Op::Sleep(ns, uninterruptible) => {
                    thread.wakes_at = Some(self.t + ns);
                    let now = self.now();
                    self.call("t_block", &[id + 1, now]);
                    if uninterruptible {
                        self.call("t_unsuitable", &[id + 1]);
                    }
                    self.schedule(cpu, false);
                    break;
                }
                Op::Yield => {
                    self.call("t_yield", &[cpu as i64, id + 1]);
                    self.schedule(cpu, true);
                    break;
                }
                Op::Nice(nice) => {
                    thread.nice = nice;
                    self.call("t_renice", &[cpu as i64, id + 1, nice + 20]);
                    self.reschedule(cpu);
                }
                Op::Fork(child, program, vm) => self.forks(cpu, child, program, vm),
                Op::Exit => {
                    let parent = self.threads[&id].parent.expect("a parent");
                    self.log.push(json!([self.t, cpu, "exit", id]));
                    let now = self.now();
                    // As a thread does: before it is charged for the last time.
                    self.call("t_exit", &[parent + 1, id + 1]);
                    self.call("t_block", &[id + 1, now]);
                    self.schedule(cpu, false);
                    break;
                }
            }
        }
    }

    fn forks(&mut self, cpu: usize, child: i64, program: Vec<Op>, vm: i64) {
        let id = self.curr[cpu].expect("a task");
        let nice = self.threads[&id].nice;
        let task = json!([child, nice, "normal", 100, 0, 0, []]);
        self.sd.task(&task, cpu as i64, false);
        self.call("t_fork", &[cpu as i64, child + 1, id + 1, vm]);
        let thread = Thread {
            // Before its first operation.
            at: program.len() - 1,
            program,
            left: 0,
            wakes_at: None,
            waker: None,
            ran: 0,
            nice,
            parent: Some(id),
        };
        self.threads.insert(child, thread);
        self.log.push(json!([self.t, cpu, "fork", child]));
        self.reschedule(cpu);
    }

    /// Ns until the next tick, wakeup, or end of an operation.
    fn quiet(&self) -> i64 {
        let tick = self.tick_ns - self.t % self.tick_ns;
        let wakes = self.threads.values().filter_map(|thread| thread.wakes_at);
        let running = self.curr.iter().flatten();
        let ends = running.map(|id| self.threads[id].left);
        let next = wakes.map(|at| at - self.t).chain(ends).min();
        next.map_or(tick, |next| next.min(tick))
    }

    fn advance(&mut self, ns: i64) {
        self.t += ns;
        for id in self.curr.iter().flatten() {
            let thread = self.threads.get_mut(id).expect("a thread");
            thread.left -= ns;
            thread.ran += ns;
        }
    }

    fn events(&mut self) {
        if self.t > 0 && self.t % self.tick_ns == 0 {
            for cpu in self.cpus() {
                self.ticks(cpu);
            }
        }
        let due = self.threads.iter();
        let due = due.filter(|(_, thread)| thread.wakes_at == Some(self.t));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.wake(id);
        }
        for cpu in self.cpus() {
            // Who has just come may have nothing left to do, too.
            while let Some(id) = self.curr[cpu] {
                if self.threads[&id].left > 0 {
                    break;
                }
                self.proceed(cpu);
            }
        }
    }
}

/// Core, cache and node of each CPU.
fn machine(topology: &str) -> [&'static [i128]; 3] {
    match topology {
        "up" => [&[0], &[0], &[0]],
        "smp2" => [&[0, 1], &[0, 1], &[0, 0]],
        "smp4" => [&[0, 1, 2, 3], &[0, 1, 2, 3], &[0; 4]],
        "smt4" => [&[0, 0, 1, 1], &[0, 0, 1, 1], &[0; 4]],
        "numa4" => [&[0, 1, 2, 3], &[0, 1, 2, 3], &[0, 0, 1, 1]],
        _ => panic!("no topology {topology}"),
    }
}

fn boot(r: &Value, tunables: &[(&str, i128)]) -> Run {
    let with = &r["in"];
    let [core, llc, node] = machine(r["topo"].as_str().expect("a name"));
    let hz = int(&with["hz"]);
    let mut values = globals(&[
        ("tick_hz", hz.into()),
        ("rr_interval", int(&with["rr"]).into()),
        ("interactive", int(&with["interactive"]).into()),
        ("nr_nodes", node.last().expect("a CPU") + 1),
    ]);
    values.extend(globals(tunables));
    for (name, of) in [
        ("cpu_core_id", core),
        ("cpu_llc_id", llc),
        ("cpu_node_id", node),
        ("node_distance", &[10, 20, 20, 10][..]),
    ] {
        values.push((name.to_owned(), Global::Ints(of.to_vec())));
    }
    let mut sd = Sd::with(core.len() as i64, &values);
    for cpu in 0..core.len() as i64 {
        sd.cpu(cpu, 1, &Value::Null);
    }
    assert_eq!(sd.call("t_build", &[TICK_0])[0], 0);
    let mut threads = BTreeMap::new();
    let mut structs = Vec::new();
    for (id, task) in (0..).zip(with["tasks"].as_array().expect("tasks")) {
        let nice = int(&task["nice"]);
        let quota = sd.call("t_quota", &[nice + 20])[2];
        let policy = task["pol"].as_str().unwrap_or("normal");
        let state = json!([id, nice, policy, 100, quota, 0, []]);
        let cpu = task["cpu"].as_i64().unwrap_or(0);
        let i = sd.task(&state, cpu, false);
        let start = TICK_0 * (1_000_000_000 / hz);
        sd.call("t_task_more", &[i, 100, 0, start, 0, -1, 0, 1]);
        structs.push(sd.kernel.state().add_task(id as i32 + 1, cpu as u32));
        let program = program(&task["prog"]);
        let thread = Thread {
            at: program.len() - 1,
            program,
            left: 0,
            wakes_at: Some(task["start"].as_i64().unwrap_or(0)),
            waker: task["wcpu"].as_i64(),
            ran: 0,
            nice,
            parent: None,
        };
        threads.insert(id, thread);
    }
    Run {
        sd,
        structs,
        threads,
        curr: vec![None; core.len()],
        tick_ns: 1_000_000_000 / hz,
        t: 0,
        log: Vec::new(),
    }
}

/// Runs the tasks of a record until its end.
pub fn run(r: &Value, tunables: &[(&str, i128)]) -> Run {
    let mut run = boot(r, tunables);
    let end = int(&r["in"]["dur_ns"]);
    run.events();
    loop {
        let ns = run.quiet();
        run.advance(ns);
        // The records end with the first event that is not before the end, without it.
        if run.t >= end {
            break;
        }
        run.events();
    }
    run
}

/// Runs a record, and compares the log of switches and what the tasks are left with.
fn schedule_is(r: &Value) -> Result<(), String> {
    let mut run = run(r, &[]);
    let log = r["out"]["log"].as_array().expect("a log");
    for (line, should) in run.log.iter().zip(log) {
        differs("log", line, should)?;
    }
    differs("lines", &run.log.len(), &log.len())?;
    for should in r["out"]["final"].as_array().expect("tasks") {
        let id = int(&should[0]);
        let w = run.call("t_task_get", &[id + 1]);
        let granted = bits_of(w[1]);
        let is = json!([id, run.threads[&id].ran, w[3], w[4], granted]);
        differs("in the end", &is, should)?;
    }
    Ok(())
}

#[test]
pub fn schedules() {
    let known = |r: &Value| {
        let mut tasks = r["in"]["tasks"].as_array().expect("tasks").iter();
        tasks.all(|task| task["pol"].is_null() || expressible(&task["pol"]))
    };
    check("trace", 54, known, schedule_is);
}
