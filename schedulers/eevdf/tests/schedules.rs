// SPDX-License-Identifier: GPL-2.0-or-later
//! Scripts of tasks on one CPU, and the turns that the kernel gave them: which task, from when to when, and its vruntime
//! and deadline when it got the CPU.
//!
//! The core's side (sleeping, waking, forking, renicing) is here, in the order of calls of the kernel's core.

use super::machine::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a task does next, or waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Not started, or gone.
    Absent,
    Blocked,
    /// Queued or running: what is left of its present run, in ns.
    Runnable(i64),
}

struct Task {
    index: i64,
    ops: Vec<Value>,
    /// The op to do next.
    at: usize,
    state: State,
    wakes_at: Option<i64>,
    starts_at: Option<i64>,
    ran: i64,
    nice: i64,
    /// min_vruntime of its queue when that was empty.
    origin: i64,
}

/// A turn: task, from, to, vruntime and deadline at its beginning.
type Turn = [i64; 5];

struct Cpu {
    eevdf: Eevdf,
    tasks: Vec<Task>,
    now: i64,
    tick_ns: i64,
    current: Option<usize>,
    resched: bool,
    turns: Vec<Turn>,
}

impl Cpu {
    fn new(script: &Value, switches: &[(&str, i128)]) -> Cpu {
        let tick_ns = int(&script["tick"]);
        let base = int(&script["base"]);
        let eevdf = Eevdf::new(tick_ns, base, switches);
        for (number, group) in (1..).zip(script["groups"].as_array().expect("groups")) {
            eevdf.call("t_group", &[number, int(&group[0]), int(&group[1])]);
        }
        let tasks = script["tasks"].as_array().expect("tasks").iter();
        let tasks = tasks.map(|task| {
            let [nice, slice, group, start] = [0, 1, 2, 3].map(|n| int(&task[n]));
            let words = [
                nice,
                if slice > 0 { slice } else { base },
                (slice > 0).into(),
                group,
                0,
            ];
            Task {
                index: eevdf.call("t_task", &words),
                ops: task[4].as_array().expect("ops").clone(),
                at: 0,
                state: State::Absent,
                wakes_at: None,
                starts_at: (start >= 0).then_some(start),
                ran: 0,
                nice,
                origin: eevdf.call("t_origin", &[group]),
            }
        });
        let tasks = tasks.collect();
        Cpu {
            eevdf,
            tasks,
            now: 0,
            tick_ns,
            current: None,
            resched: false,
            turns: Vec::new(),
        }
    }

    fn call(&self, program: &str, words: &[i64]) -> i64 {
        self.eevdf.call(program, words)
    }

    /// Task `n` is runnable from now on: new, or woken up.
    fn arrive(&mut self, n: usize) {
        let index = self.tasks[n].index;
        if self.eevdf.read(index).delayed == 1 {
            self.call("t_rejoin", &[index, self.now]);
        } else {
            self.call("t_enqueue", &[index, self.now]);
        }
        self.tasks[n].state = State::Runnable(0);
        self.tasks[n].wakes_at = None;
        self.check_preemption(n);
    }

    fn check_preemption(&mut self, n: usize) {
        let pending = i64::from(self.resched);
        let words = [self.tasks[n].index, self.now, pending];
        let preempts = self.call("t_preempts", &words) == 1;
        self.resched |= preempts || self.current.is_none();
    }

    fn start(&mut self, n: usize) {
        self.tasks[n].starts_at = None;
        self.arrive(n);
    }

    fn wake(&mut self, n: usize) {
        if self.tasks[n].state == State::Blocked {
            self.arrive(n);
        }
    }

    /// The running task leaves the CPU for good or until it is woken.
    fn block(&mut self, how: i64, state: State) {
        let n = self.current.expect("who blocks runs");
        self.tasks[n].state = state;
        self.call("t_dequeue", &[self.tasks[n].index, self.now, how]);
        self.end_turn();
        self.resched = true;
    }

    fn end_turn(&mut self) {
        if self.current.take().is_none() {
            return;
        }
        if let Some(turn) = self.turns.last_mut() {
            turn[2] = self.now;
        }
        // Turns of no length are not recorded.
        self.turns.pop_if(|turn| turn[1] == turn[2]);
    }

    fn schedule(&mut self) {
        self.resched = false;
        let before = self.current;
        let index = self.call("t_pick", &[self.now, 1]);
        let next = self.tasks.iter().position(|task| task.index == index);
        if next == before {
            return;
        }
        if before.is_some() {
            self.end_turn();
        }
        self.current = next;
        if let Some(n) = next {
            let (task, now) = (&self.tasks[n], self.eevdf.read(index));
            let place = [now.v - task.origin, now.deadline - task.origin];
            self.turns
                .push([n as i64, self.now, self.now, place[0], place[1]]);
        }
    }

    /// Acts upon what has been asked for.
    fn settle(&mut self) {
        while self.resched || self.call("t_over", &[0]) == 1 {
            self.schedule();
            self.run_ops();
        }
    }

    /// The ops of the running task up to its next run of some length.
    fn run_ops(&mut self) {
        while let Some(n) = self.current {
            if self.resched || self.tasks[n].state != State::Runnable(0) {
                return;
            }
            let task = &mut self.tasks[n];
            let op = task.ops[task.at].clone();
            task.at = (task.at + 1) % task.ops.len();
            self.do_op(n, &op);
            if self.call("t_over", &[0]) == 1 {
                return;
            }
        }
    }

    fn do_op(&mut self, n: usize, op: &Value) {
        let number = op.get(1).map_or(0, int);
        match op[0].as_str().expect("op") {
            "R" => self.tasks[n].state = State::Runnable(number),
            "S" => {
                self.tasks[n].wakes_at = Some(self.now + number);
                self.block(SLEEP, State::Blocked);
            }
            "B" => self.block(SLEEP, State::Blocked),
            "X" => self.block(SLEEP | FOREVER, State::Absent),
            "Y" => {
                self.call("t_yield", &[self.tasks[n].index, self.now]);
                self.resched = true;
            }
            "W" => self.wake(number as usize),
            "F" => self.start(number as usize),
            other => panic!("op {other}"),
        }
    }

    /// A change of a task's nice value or slice.
    fn change(&mut self, n: usize, value: i64, is_slice: bool) {
        let (index, runs) = (self.tasks[n].index, self.current == Some(n));
        let old = self.tasks[n].nice;
        let Entity {
            queued,
            delayed,
            slice,
            ..
        } = self.eevdf.read(index);
        // To ask for the default is never the same: it is 0, and the slice is not.
        if value == (if is_slice { slice } else { old }) {
            return;
        }
        if !is_slice {
            self.tasks[n].nice = value;
        }
        let out = queued == 1 && delayed == 0;
        if out {
            self.call("t_dequeue", &[index, self.now, BRIEFLY]);
        }
        self.call("t_change", &[index, value, self.now, is_slice.into()]);
        if out {
            self.call("t_enqueue", &[index, self.now]);
        }
        if runs {
            self.call("t_set_current", &[index, self.now]);
        }
        let alone = self.call("t_nr_queued", &[]) == 1;
        if is_slice || queued == 0 || alone {
            return;
        }
        if runs {
            self.resched |= value > old;
        } else {
            self.check_preemption(n);
        }
    }

    fn happen(&mut self, event: &Value) {
        let (a, b) = (int(&event[2]), event.get(3).map_or(0, int));
        match event[1].as_str().expect("event") {
            "W" => self.wake(a as usize),
            "N" => self.change(a as usize, b, false),
            "C" => self.change(a as usize, b, true),
            "G" => {
                self.call("t_shares", &[a, b, self.now]);
            }
            other => panic!("event {other}"),
        }
    }

    /// When the next thing happens after `now`, events from outside aside.
    fn next_time(&self, ticks: i64) -> i64 {
        let timers = self
            .tasks
            .iter()
            .flat_map(|t| [t.wakes_at, t.starts_at])
            .flatten();
        let run = self.current.and_then(|n| match self.tasks[n].state {
            State::Runnable(left) => Some(self.now + left),
            _ => None,
        });
        let all = timers.chain(run).chain([ticks * self.tick_ns]);
        all.min().expect("there is always a tick")
    }

    /// Time passes for who runs.
    fn advance(&mut self, to: i64) {
        if let Some(n) = self.current {
            let task = &mut self.tasks[n];
            if let State::Runnable(left) = &mut task.state {
                *left -= to - self.now;
            }
            task.ran += to - self.now;
        }
        self.now = to;
    }

    fn run(&mut self, script: &Value) {
        let horizon = int(&script["horizon"]);
        let events = script["events"].as_array().expect("events");
        let (mut next_event, mut ticks) = (0, 1);
        loop {
            let outside = events.get(next_event).map_or(i64::MAX, |e| int(&e[0]));
            let to = self.next_time(ticks).min(outside);
            if to > horizon {
                break;
            }
            self.advance(to);
            self.run_ops();
            self.settle();
            if ticks * self.tick_ns == self.now {
                ticks += 1;
                if let Some(n) = self.current {
                    self.call("t_tick", &[self.tasks[n].index, self.now]);
                }
                self.settle();
            }
            for n in 0..self.tasks.len() {
                if self.tasks[n].starts_at == Some(self.now) {
                    self.start(n);
                    self.run_started();
                }
                if self.tasks[n].wakes_at == Some(self.now) {
                    self.wake(n);
                    self.run_started();
                }
            }
            while events
                .get(next_event)
                .is_some_and(|e| int(&e[0]) == self.now)
            {
                self.happen(&events[next_event]);
                next_event += 1;
                self.run_started();
            }
        }
        self.advance(horizon);
        self.end_turn();
    }

    fn run_started(&mut self) {
        self.settle();
        self.run_ops();
        self.settle();
    }
}

/// Plays each script, and compares turns and CPU times.
fn play(script: &Value, out: &Value, switches: &[(&str, i128)]) -> Result<(), String> {
    let mut cpu = Cpu::new(script, switches);
    cpu.run(script);
    let expected: Vec<Turn> = serde_json::from_value(out["sched"].clone()).expect("turns");
    for (n, right) in expected.iter().enumerate() {
        match cpu.turns.get(n) {
            Some(got) if got == right => {}
            got => return Err(format!("turn {n} is {got:?}, not {right:?}")),
        }
    }
    if cpu.turns.len() != expected.len() {
        return Err(format!("{} turns, not {}", cpu.turns.len(), expected.len()));
    }
    let ran: Vec<i64> = cpu.tasks.iter().map(|task| task.ran).collect();
    let right: Vec<i64> = serde_json::from_value(out["run"].clone()).expect("run");
    (ran == right)
        .then_some(())
        .ok_or(format!("ran {ran:?}, not {right:?}"))
}

fn right_of(record: &Value) -> &Value {
    record.get("exact").unwrap_or(&record["out"])
}

fn report(wrong: &[String], all: usize) {
    assert!(
        wrong.is_empty(),
        "{} of {all} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
pub fn turns_of_scripts() {
    let scripts = records("trace");
    assert_eq!(scripts.len(), 100);
    let mut wrong = Vec::new();
    for script in scripts.iter().filter(|s| s["hrtick"] == 0) {
        let switches: &[_] = if script["hrtick"] == 1 {
            &[("hrtick", 1)]
        } else {
            &[]
        };
        if let Err(what) = play(script, right_of(script), switches) {
            wrong.push(format!("{} {}: {what}", script["cat"], script["id"]));
        }
    }
    report(&wrong, scripts.len());
}

/// The same with one switch in another position: of those scripts whose turns it changes.
#[test]
pub fn turns_with_a_feature_changed() {
    let scripts: BTreeMap<i64, Value> = records("trace")
        .into_iter()
        .map(|script| (int(&script["id"]), script))
        .collect();
    let records = records("trace_feat");
    assert_eq!(records.len(), 34);
    let mut wrong = Vec::new();
    for record in &records {
        let feature = record["feature"].as_str().expect("feature");
        let switch = (feature.to_lowercase(), int(&record["value"]).into());
        let script = &scripts[&int(&record["id"])];
        if let Err(what) = play(script, right_of(record), &[(&switch.0, switch.1)]) {
            wrong.push(format!("{feature}, script {}: {what}", record["id"]));
        }
    }
    report(&wrong, records.len());
}
