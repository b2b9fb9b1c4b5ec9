// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded schedules of whole machines: what happens is played to the scheduler event by event, and after each one, who runs
//! and waits, who was interrupted and what has changed is as in the original.
//!
//! What is FreeBSD's kernel there and Linux's here is played, too: a task keeps its flag to make way while it is in the kernel,
//! and an idle CPU looks for work when it was woken.

use crate::bsd4::arithmetic::forks;
use crate::bsd4::machine::{INITIAL, Known, MS, Machine, OF_2012, OF_2016, START_NS, WAKEUP};
use crate::bsd4::records::Compared::Whole;
use crate::bsd4::records::{bits, compare, cpus, differs, int, list, or};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[test]
pub fn recorded_scripts() {
    compare("script", 56, &[], |given, expected| {
        let of_2012 = given["version"] == "2011";
        let tunables = if of_2012 { OF_2012 } else { OF_2016 };
        let mut play = Play::new(given, tunables);
        for (nr, event) in list(&given["events"]).iter().enumerate() {
            play.event(event)
                .map_err(|how| format!("event {nr} {event}: {how}"))?;
        }
        differs("cur", &json!(play.m.cur), &expected["cur"])?;
        differs("load", &play.m.load(), &int(&expected["load"]))?;
        for (id, last) in expected["th"].as_object().expect("threads") {
            let id = id.parse().expect("a number");
            if !play.m.threads.contains_key(&id) {
                continue;
            }
            let k = play.m.known(id);
            // 2016 writes no CPU as 255.
            let cpu = if k.last_cpu < 0 { 255 } else { k.last_cpu };
            let mut last = last.clone();
            if play.m.cur.contains(&Some(id)) {
                // Where it runs counts there when it leaves, and here when it comes.
                last[3] = json!(cpu);
            }
            let is = json!([k.est, k.pri, k.user_pri, cpu, k.slept, k.ticks]);
            differs(&format!("thread {id} at the end"), &is, &last)?;
        }
        Ok(Whole)
    });
}

struct Play {
    m: Machine,
    /// CPUs that were woken and have not looked for work since.
    woken: Vec<bool>,
    /// Of an event: switches, and CPUs that were interrupted.
    switches: Vec<Value>,
    interrupted: Vec<u32>,
    /// Threads that are in user mode, or will be as soon as they run.
    time: i64,
}

impl Play {
    fn new(given: &Value, tunables: &[(&str, i128)]) -> Play {
        let tunables = [tunables, &[("sleep_priority", 0)]].concat();
        let nr_cpus = int(&given["ncpu"]) as usize;
        let mut m = Machine::boot(nr_cpus, &tunables);
        m.call("t_load", &[int(&given["ldavg"])]);
        for th in list(&given["th"]) {
            m.thread(th);
        }
        Play {
            m,
            woken: vec![false; nr_cpus],
            switches: Vec::new(),
            interrupted: Vec::new(),
            time: 0,
        }
    }

    fn set_time(&mut self, time: i64) {
        let state = self.m.kernel.state();
        state.now_ns = u64::max(state.now_ns + 1, START_NS + time as u64 * MS);
        self.time = time;
    }

    /// What was kicked in a call: other CPUs are interrupted; the own one has its flags.
    fn kicks(&mut self) {
        for (cpu, _) in std::mem::take(&mut self.m.kicked) {
            self.interrupted.push(cpu);
            self.woken[cpu as usize] = true;
        }
    }

    fn schedule(&mut self, cpu: usize, still_wants: bool) {
        self.schedule_out(cpu, still_wants, true);
    }

    fn schedule_out(&mut self, cpu: usize, still_wants: bool, sleeps: bool) {
        if let Some((from, to)) = self.m.schedule_out(cpu, still_wants, sleeps) {
            self.switches.push(json!([cpu, from, to]));
        }
        self.kicks();
    }

    /// A preemption that is owed, now that the critical section ends.
    fn owed(&mut self, cpu: usize) {
        self.kicks();
        let idle = self.m.cur[cpu].is_none();
        if (idle && self.local_work(cpu)) || self.m.asked(cpu)[1] {
            self.schedule(cpu, true);
        }
    }

    /// What an idle CPU added itself: the task is on its own runqueue.
    fn local_work(&mut self, cpu: usize) -> bool {
        let (global, own) = self.m.queues();
        !list(&global).is_empty() || own[cpu.to_string()].is_array()
    }

    fn settle(&mut self) {
        loop {
            let mut happened = false;
            for cpu in 0..self.m.nr_cpus {
                let Some(id) = self.m.cur[cpu] else {
                    if std::mem::take(&mut self.woken[cpu]) && self.local_work(cpu) {
                        self.schedule(cpu, false);
                        happened = true;
                    }
                    continue;
                };
                self.woken[cpu] = false;
                if !self.m.threads[&id].in_kernel && self.m.asked(cpu)[0] {
                    self.m.return_to_user(id);
                    self.schedule(cpu, true);
                    happened = true;
                }
            }
            if !happened {
                return;
            }
        }
    }

    fn event(&mut self, event: &Value) -> Result<(), String> {
        let time = int(&event[0]);
        let args: Vec<i64> = list(event)[2..].iter().filter_map(Value::as_i64).collect();
        let name = event[1].as_str().expect("a name");
        let (before, queues) = (self.m.all_known(), self.m.queues());
        self.switches.clear();
        self.interrupted.clear();
        if name != "stat" {
            self.set_time(time);
        }
        let cpu = args[0] as usize;
        if !matches!(name, "stat" | "la") {
            self.m.on(cpu);
        }
        match name {
            "start" => {
                self.m.wakes(args[1], INITIAL);
                self.owed(cpu);
            }
            "wake" => {
                if let Some(pri) = args.get(2) {
                    let (th, k) = (self.m.threads[&args[1]], self.m.known(args[1]));
                    self.m.call("t_set_pri", &[th.address, k.pri.min(*pri)]);
                }
                self.m.wakes(args[1], WAKEUP);
                self.owed(cpu);
            }
            "intr" => {
                self.m.wakes(args[1], INITIAL);
                self.owed(cpu);
            }
            "iwait" => self.schedule_out(cpu, false, false),
            "sleep" => self.leaves(cpu, args[1]),
            "user" => {
                if let Some(id) = self.m.cur[cpu] {
                    self.m.return_to_user(id);
                    self.m.threads.get_mut(&id).expect("a thread").in_kernel = false;
                }
            }
            "yield" => {
                self.m.yields(cpu);
                self.schedule(cpu, true);
            }
            "stat" => self.ticks(time, args[0]),
            "fork" => self.forks(cpu, args[1]),
            "exit" => self.exits(cpu, args[1]),
            "nice" => {
                self.m.set_nice(args[1], args[2]);
                self.kicks();
            }
            "aff" => self.set_mask(cpu, args[1], list(event)[4].clone()),
            "la" => {
                self.m.call("t_load", &[args[0]]);
            }
            "sec" => {
                // It runs in a thread of its own.
                let idles = self.m.call("t_cpu_get", &[cpu as i64])[4];
                self.m.call("t_idle", &[cpu as i64, 0]);
                self.m.call("t_schedcpu", &[]);
                self.m.call("t_idle", &[cpu as i64, idles]);
                self.m.note_kicks();
                self.kicks();
            }
            _ => panic!("{name}"),
        }
        if name != "stat" {
            self.settle();
        }
        let expected = list(event).last().expect("a result");
        self.is_as(name, expected, &before, &queues)
    }

    fn leaves(&mut self, cpu: usize, pri: i64) {
        let id = self.m.cur[cpu];
        self.schedule(cpu, false);
        let Some(id) = id else { return };
        let th = *self.m.threads.get(&id).expect("a thread");
        self.m.threads.get_mut(&id).expect("a thread").in_kernel = true;
        if pri != 0 && th.timeshare {
            self.m.call("t_set_pri", &[th.address, pri]);
        }
    }

    fn ticks(&mut self, time: i64, nr: i64) {
        for i in 1..=nr {
            self.set_time(time - 8 * (nr - i));
            for cpu in 0..self.m.nr_cpus {
                if let Some(id) = self.m.cur[cpu] {
                    self.m.on(cpu);
                    let th = self.m.threads[&id];
                    let now_ns = self.m.kernel.state().now_ns as i64;
                    self.m.call("t_clock", &[th.address, cpu as i64, now_ns]);
                }
            }
            self.settle();
        }
    }

    fn forks(&mut self, cpu: usize, child: i64) {
        let creator = self.m.cur[cpu].expect("a creator");
        let task = self.m.threads[&creator].task;
        let mask =
            (0..self.m.nr_cpus as u32).filter(|cpu| self.m.kernel.state().allows(task, *cpu));
        let mask = mask.map(|cpu| 1u64 << cpu).sum::<u64>();
        forks(&mut self.m, task, child, &json!(format!("{mask:x}")));
        self.m.on(cpu);
        self.m.wakes(child, INITIAL);
        self.owed(cpu);
    }

    fn exits(&mut self, cpu: usize, parent: i64) {
        let id = self.m.cur[cpu].expect("a task");
        let (task, parent) = (self.m.threads[&id].task, self.m.threads[&parent].task);
        let state = self.m.kernel.state();
        let parent = state.address(parent) as *const _;
        state.task(task).real_parent = parent;
        state.task(task).exit_state = 16;
        self.schedule(cpu, false);
        self.m.threads.remove(&id);
    }

    fn set_mask(&mut self, cpu: usize, id: i64, mask: Value) {
        let mask = self.m.mask(&mask);
        let task = self.m.threads[&id].task;
        self.m.changes(id, |m| {
            let state = m.kernel.state();
            state.allow(task, |cpu| cpu < 64 && mask >> cpu & 1 != 0);
        });
        self.kicks();
        let Some(runs_on) = self.m.cur.iter().position(|cur| *cur == Some(id)) else {
            return;
        };
        if mask >> runs_on & 1 != 0 {
            return;
        }
        // Linux moves it at once. FreeBSD flags it, and interrupts the first CPU that it may not use.
        self.m.call("t_asked", &[runs_on as i64, 1, 0, 0, 0]);
        if runs_on != cpu {
            let first = (!mask).trailing_zeros();
            self.interrupted.push(first);
            self.woken[first as usize] = true;
        }
    }

    fn is_as(
        &mut self,
        name: &str,
        expected: &Value,
        before: &BTreeMap<i64, Known>,
        queues: &(Value, Value),
    ) -> Result<(), String> {
        let switches = std::mem::take(&mut self.switches);
        differs("sw", &switches[..], list(&expected["sw"]))?;
        let mut interrupted = std::mem::take(&mut self.interrupted);
        interrupted.sort_unstable();
        let ipis = list(&expected["ipi"]).iter();
        let mut should: Vec<u32> = ipis
            .flat_map(|ipi| cpus(bits(&ipi[1]).expect("a mask")))
            .collect();
        should.sort_unstable();
        differs("ipi", &interrupted, &should)?;
        let now = self.m.queues();
        let changed = |what: &str, before: &Value| match &expected[what] {
            Value::Null => before.clone(),
            changed => changed.clone(),
        };
        differs("q", &now.0, &changed("q", &queues.0))?;
        differs("pq", &now.1, &changed("pq", &queues.1))?;
        let with_est = matches!(name, "wake" | "fork" | "exit" | "sec");
        for (id, was) in before {
            if !self.m.threads.contains_key(id) {
                continue;
            }
            let k = self.m.known(*id);
            let th = &expected["th"][id.to_string()];
            let mut is = vec![k.pri, k.user_pri, k.resched.into()];
            let mut should = vec![
                or(&th["pri"], was.pri),
                or(&th["upri"], was.user_pri),
                or(&th["nr"], was.resched.into()),
            ];
            if with_est {
                is.push(k.est);
                should.push(or(&th["est"], was.est));
            }
            if name == "sec" {
                is.push(k.slept);
                should.push(or(&th["slp"], was.slept));
            }
            differs(
                &format!("thread {id}: pri, upri, nr, est, slp"),
                &is,
                &should,
            )?;
        }
        Ok(())
    }
}
