// SPDX-License-Identifier: GPL-2.0-or-later
//! Whole schedules of the original (see recorded.rs), second by second: here is the machine, its clock, its ticks and the
//! tasks' programs; O(1) decides, through the handles of decisions.bpf.c.
//!
//! In one respect the machine is the original's and not ours: each of its CPUs has a clock of its own, whose last sample
//! (tick or switch) corrects the times of tasks that come from another CPU. The scheduler has one clock; the correction is
//! made here, so that schedules can be compared exactly.

use super::recorded::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Run(i64),
    Sleep(i64, i64),
    Yield,
    Nice(i64),
    Fork(i64, Vec<Op>, i64),
    Exit,
}

fn program(ops: &Value) -> Vec<Op> {
    let op = |op: &Value| match op[0].as_str() {
        Some("run") => Op::Run(int(&op[1])),
        Some("sleep") => Op::Sleep(int(&op[1]), int(&op[2])),
        Some("yield") => Op::Yield,
        Some("nice") => Op::Nice(int(&op[1])),
        Some("fork") => Op::Fork(int(&op[1]), program(&op[2]), int(&op[3])),
        Some("exit") => Op::Exit,
        _ => panic!("{op} is no operation"),
    };
    list(ops).iter().map(op).collect()
}

struct Thread {
    program: Vec<Op>,
    /// The operation under way, and what is left of it if it runs.
    at: usize,
    left: i64,
    wakes_at: Option<i64>,
    in_interrupt: bool,
    waker: Option<i64>,
    ran: i64,
    parent: Option<i64>,
}

struct Run<'a> {
    m: &'a mut Machine,
    threads: BTreeMap<i64, Thread>,
    /// Who runs on each CPU, -1 for nobody; the last sample of its clock; when it balances next.
    curr: Vec<i64>,
    clock: Vec<i64>,
    tick_ns: i64,
    /// Ns since the start.
    t: i64,
    log: Vec<Value>,
}

impl Run<'_> {
    /// The scheduler's clock, and the tick.
    fn now(&self) -> i64 {
        TICK_0 * self.tick_ns + self.t
    }

    fn tick(&self) -> i64 {
        TICK_0 + self.t / self.tick_ns
    }

    fn cpus(&self) -> std::ops::Range<i64> {
        0..self.curr.len() as i64
    }

    /// Callbacks run on this CPU; it is seen as busy if it is about to go idle.
    fn on_cpu(&mut self, cpu: i64, busy: bool) {
        let idle: i64 = self
            .cpus()
            .filter(|c| self.curr[*c as usize] < 0 && !(busy && *c == cpu))
            .map(|c| 1 << c)
            .sum();
        let state = self.m.kernel.state();
        state.cpu = cpu as u32;
        state.set_idle(|cpu| cpu < 64 && idle & 1 << cpu != 0);
    }

    fn places(&mut self) -> BTreeMap<i64, i64> {
        let ids: Vec<i64> = self.threads.keys().copied().collect();
        let place = |id| (id, self.m.seen(id).cpu);
        ids.into_iter().map(place).collect()
    }

    /// What has moved since has its time by the clock of its new CPU.
    fn correct_moved(&mut self, before: &BTreeMap<i64, i64>) {
        for (id, from) in before {
            let seen = self.m.seen(*id);
            if seen.cpu != *from {
                let by = self.clock[seen.cpu as usize] - self.clock[*from as usize];
                let words = [id + FIRST, seen.timestamp + by];
                self.m.call("t_timestamp", &words);
            }
        }
    }

    fn schedule(&mut self, cpu: i64, yields: bool) {
        let now = self.now();
        let prev = self.curr[cpu as usize];
        if self.m.seen_cpu(cpu).nr_running == 0 {
            self.on_cpu(cpu, true);
            let before = self.places();
            self.m.call("t_newidle", &[cpu, now]);
            self.correct_moved(&before);
        }
        self.clock[cpu as usize] = now;
        let before = self.m.seen_cpu(cpu).which_active;
        let next = self.m.call("t_schedule", &[cpu, now])[2] - FIRST;
        if next < 0 {
            self.m.call("t_idles", &[cpu]);
        }
        if self.m.seen_cpu(cpu).which_active != before {
            self.log.push(json!([self.t, cpu, "swap"]));
        }
        if next != prev || yields {
            let line = match next {
                -1 => json!([self.t, cpu, null, null]),
                task => json!([self.t, cpu, task, self.m.seen(task).prio]),
            };
            self.log.push(line);
        }
        self.curr[cpu as usize] = next;
    }

    /// CPUs that are to choose again do so, this one first.
    fn reschedule(&mut self, first: i64) {
        let others = self.cpus().filter(|cpu| *cpu != first);
        for cpu in std::iter::once(first).chain(others) {
            if self.m.seen_cpu(cpu).resched {
                self.m.call("t_resched_done", &[cpu]);
                self.schedule(cpu, false);
            }
        }
    }

    /// One CPU's tick, and balancing if that is due.
    fn ticks(&mut self, cpu: i64) {
        let (now, tick) = (self.now(), self.tick());
        let idle = self.curr[cpu as usize] < 0;
        self.clock[cpu as usize] = now;
        self.m.call("t_tick", &[cpu, tick, now]);
        if self.curr.len() > 1 {
            self.on_cpu(cpu, false);
            let before = self.places();
            self.m.call("t_rebalance", &[cpu, idle.into(), now]);
            self.correct_moved(&before);
            for src in self.cpus() {
                let seen = self.m.seen_cpu(src);
                if seen.push_to < 0 {
                    continue;
                }
                self.log.push(json!([self.t, src, "push"]));
                self.m.call("t_push_done", &[src]);
            }
        }
        self.reschedule(cpu);
    }

    fn wake(&mut self, id: i64) {
        let thread = self.threads.get_mut(&id).expect("a thread");
        thread.wakes_at = None;
        let (in_interrupt, waker) = (thread.in_interrupt, thread.waker);
        let last = self.m.seen(id).cpu;
        let here = waker.unwrap_or(last);
        self.on_cpu(here, false);
        let mut cpu = last;
        if self.curr.len() > 1 {
            let task = self.m.task_struct(id, -1);
            let words = [task, id + FIRST, last, 0, self.tick()];
            cpu = self.m.call("t_place_wakee", &words)[5];
        }
        let mut now = self.now();
        if cpu != here {
            now += self.clock[cpu as usize] - self.clock[here as usize];
        }
        self.m
            .call("t_wake", &[id + FIRST, cpu, in_interrupt.into(), now]);
        self.reschedule(here);
    }

    /// The operation of the task that runs on this CPU has ended: the next ones, until one that takes time.
    fn proceed(&mut self, cpu: i64) {
        let id = self.curr[cpu as usize];
        loop {
            let thread = self.threads.get_mut(&id).expect("a thread");
            thread.at = (thread.at + 1) % thread.program.len();
            let op = thread.program[thread.at].clone();
            match op {
                Op::Run(ns) => {
                    thread.left = ns;
                    break;
                }
                Op::Sleep(ns, state) => {
                    thread.wakes_at = Some(self.t + ns);
                    // The next operation begins when it runs again.
                    self.blocks(cpu, state != 1);
                    break;
                }
                Op::Yield => {
                    self.m.call("t_yield", &[cpu]);
                    self.schedule(cpu, true);
                    break;
                }
                Op::Nice(nice) => {
                    self.m.call("t_nice", &[id + FIRST, nice]);
                    self.reschedule(cpu);
                }
                Op::Fork(child, program, vm) => self.forks(cpu, child, program, vm),
                Op::Exit => {
                    self.exits(cpu);
                    break;
                }
            }
            if self.curr[cpu as usize] != id {
                break;
            }
        }
    }

    fn blocks(&mut self, cpu: i64, uninterruptible: bool) {
        let id = self.curr[cpu as usize];
        let words = [id + FIRST, self.now(), uninterruptible.into()];
        self.m.call("t_block", &words);
        self.schedule(cpu, false);
    }

    fn forks(&mut self, cpu: i64, child: i64, program: Vec<Op>, vm: i64) {
        let (id, now) = (self.curr[cpu as usize], self.now());
        let nice = self.threads_nice(id);
        self.m.add(&Task {
            nice,
            cpu,
            ..Task::new(child)
        });
        let (parent_index, child_index) = (id + FIRST, child + FIRST);
        self.m
            .call("t_fork", &[child_index, parent_index, now, vm, cpu]);
        let thread = Thread {
            // Before its first operation.
            at: program.len() - 1,
            program,
            left: 0,
            wakes_at: None,
            in_interrupt: true,
            waker: None,
            ran: 0,
            parent: Some(id),
        };
        self.threads.insert(child, thread);
        self.log.push(json!([self.t, cpu, "fork", child]));
        self.m.call("t_wake_new", &[child_index, now]);
        self.reschedule(cpu);
    }

    /// Forks of records are by tasks of nice 0.
    fn threads_nice(&mut self, id: i64) -> i64 {
        assert_eq!(self.m.seen(id).weight, 128);
        0
    }

    fn exits(&mut self, cpu: i64) {
        let id = self.curr[cpu as usize];
        let parent = self.threads[&id].parent;
        self.log.push(json!([self.t, cpu, "exit", id]));
        if let Some(parent) = parent {
            self.m.call("t_exit", &[parent + FIRST, id + FIRST]);
        }
        self.blocks(cpu, false);
    }

    /// Ns until the next tick, wakeup, or end of an operation.
    fn quiet(&self) -> i64 {
        let tick = self.tick_ns - self.t % self.tick_ns;
        let wakes = self.threads.values().filter_map(|thread| thread.wakes_at);
        let running = self.curr.iter().filter(|id| **id >= 0);
        let ends = running.map(|id| self.threads[id].left);
        let next = wakes.map(|at| at - self.t).chain(ends).min();
        next.map_or(tick, |next| next.min(tick))
    }

    fn advance(&mut self, ns: i64) {
        self.t += ns;
        for id in self.curr.iter().filter(|id| **id >= 0) {
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
        let due: Vec<i64> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.wakes_at == Some(self.t))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.wake(id);
        }
        for cpu in self.cpus() {
            // Who has just come may have nothing left to do, too.
            while let id @ 0.. = self.curr[cpu as usize] {
                if self.threads[&id].left > 0 {
                    break;
                }
                self.proceed(cpu);
            }
        }
    }
}

/// The record's tasks sleep from the start until theirs.
fn set_up(m: &mut Machine, with: &Value, tick_ns: i64) -> BTreeMap<i64, Thread> {
    let mut threads = BTreeMap::new();
    for (id, task) in (0..).zip(list(&with["tasks"])) {
        m.add(&Task {
            nice: int(&task["nice"]),
            cpu: task["cpu"].as_i64().unwrap_or(0),
            savg: task["savg"].as_i64().unwrap_or(0),
            batch: task["pol"] == "batch",
            timestamp: TICK_0 * tick_ns,
            last_ran: TICK_0 * tick_ns,
            ..Task::new(id)
        });
        m.call("t_sleeps", &[id + FIRST, 1, 0, 0]);
        let program = program(&task["prog"]);
        let thread = Thread {
            at: program.len() - 1,
            program,
            left: 0,
            wakes_at: Some(task["start"].as_i64().unwrap_or(0)),
            in_interrupt: task["irq"].as_i64().unwrap_or(1) != 0,
            waker: task["wcpu"].as_i64(),
            ran: 0,
            parent: None,
        };
        threads.insert(id, thread);
    }
    threads
}

/// Runs a record, and compares the log of switches and what the tasks are left with.
fn schedule_differs(m: &mut Machine, r: &Value) -> Result<(), String> {
    let (with, out) = (&r["in"], &r["out"]);
    let tick_ns = 1_000_000_000 / int(&with["hz"]);
    for cpu in 0..m.nr_cpus {
        m.set_cpu(cpu, -1, 0, 140, 0);
        m.call("t_load", &[cpu, 0, 0, 0, TICK_0, -1, -1]);
        m.call("t_next_balance", &[cpu, TICK_0 + 1 + cpu]);
        for level in 0..2 {
            m.call("t_domain", &[cpu, level, 0, 1, TICK_0]);
        }
    }
    let threads = set_up(m, with, tick_ns);
    let nr_cpus = m.nr_cpus as usize;
    let mut run = Run {
        m,
        threads,
        curr: vec![-1; nr_cpus],
        clock: vec![TICK_0 * tick_ns; nr_cpus],
        tick_ns,
        t: 0,
        log: Vec::new(),
    };
    run.events();
    loop {
        let ns = run.quiet();
        if run.t + ns >= int(&with["dur_ns"]) {
            run.advance(int(&with["dur_ns"]) - run.t);
            break;
        }
        run.advance(ns);
        run.events();
    }
    for (line, should) in run.log.iter().zip(list(&out["log"])) {
        differs("log", line, should)?;
    }
    differs("lines", &run.log.len(), &list(&out["log"]).len())?;
    for should in list(&out["final"]) {
        let id = int(&should[0]);
        let seen = run.m.seen(id);
        let is = json!([id, run.threads[&id].ran, seen.savg, seen.prio, seen.slice]);
        differs("in the end", &is, should)?;
    }
    Ok(())
}

/// The one with realtime tasks is left out.
#[test]
pub fn schedules() {
    RECORDS.check("trace", 69, 1, |machines, r| {
        let with = &r["in"];
        if list(&with["tasks"])
            .iter()
            .any(|task| is_realtime(&task["pol"]))
        {
            return None;
        }
        let m = machines.get(r["topo"].as_str().expect("a name"), int(&with["hz"]), 0);
        Some(schedule_differs(m, r))
    });
}
