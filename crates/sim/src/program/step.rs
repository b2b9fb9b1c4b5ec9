// SPDX-License-Identifier: GPL-2.0-or-later
//! Executes the program of the task that runs on a CPU, up to where it needs time or must wait.

use super::compile::Insn;
use super::{LoopFrame, Wait};
use crate::clock::Alarm;
use crate::engine::{Engine, RunError};
use crate::sched::Leave;
use crate::task::{Class, Life, NO_APP, TaskId};
use std::rc::Rc;
use tiltyard_model::{EventKind, OverheadCause};
use tiltyard_workload::{Dist, Index, MemKind, Op, Ref, TimerMode};

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Done at once; the next instruction may follow.
    Next,
    /// Set work for the CPU.
    Busy,
    /// Must sleep.
    Block,
    Exit,
    /// Yielded the CPU.
    Yield,
}

/// Instructions at one instant before a program counts as taking no time.
const MAX_INSTANT_INSNS: u32 = 1_000_000;

/// Writing to a device that throws everything away: one system call. Assumed, the same for every scheduler.
const NULL_WRITE_NS: u64 = 300;

impl Engine<'_> {
    /// The current task of `cpu` has finished its current work.
    pub(crate) fn work_done(&mut self, cpu: u32) {
        self.exec_cpu = cpu;
        self.settle(cpu);
        self.arm_work(cpu);
        let id = self.rqs[cpu as usize].curr;
        let work = &mut self.tasks[id.index()].work;
        work.until_ns = None;
        work.rem_ns = 0;
        let cursor = &mut self.tasks[id.index()].cursor;
        if std::mem::take(&mut cursor.leaves) {
            if cursor.wait != Wait::Nothing {
                return self.sleep_current(cpu, id);
            }
            // Woken on the way: it continues, unless it should leave for another reason.
            if self.rqs[cpu as usize].need_resched {
                self.resched_local(cpu);
            }
        }
        self.step(cpu, id);
    }

    fn step(&mut self, cpu: u32, id: TaskId) {
        let code = self.code_of(id);
        loop {
            let rq = &self.rqs[cpu as usize];
            if rq.is_interrupted(self.now) || self.failure.is_some() {
                return self.arm_work(cpu);
            }
            match self.execute(cpu, id, &code) {
                Flow::Next => {}
                Flow::Busy => return self.arm_work(cpu),
                Flow::Block => return self.block_current(cpu, id),
                Flow::Exit => return self.exit_current(cpu, id),
                Flow::Yield => {
                    self.yield_current(cpu, id);
                    return self.schedule(cpu, Leave::Runnable);
                }
            }
            if self.rqs[cpu as usize].curr != id {
                return;
            }
        }
    }

    /// Executes the next instructions that affect only the task itself, up to its next computation. Their exact
    /// time is not visible, and executing them now saves an event later.
    pub(crate) fn run_ahead(&mut self, cpu: u32, id: TaskId) {
        if !self.next_is_private(id) {
            return;
        }
        let code = self.code_of(id);
        while self.execute(cpu, id, &code) == Flow::Next && self.next_is_private(id) {}
    }

    fn code_of(&self, id: TaskId) -> Rc<[Insn]> {
        self.programs.code[self.tasks[id.index()].cursor.code as usize].clone()
    }

    fn next_is_private(&self, id: TaskId) -> bool {
        let cursor = &self.tasks[id.index()].cursor;
        if cursor.leaves || cursor.is_to_wake() {
            return false;
        }
        // A task that has executed its exit has nothing left.
        let code = &self.programs.code[cursor.code as usize];
        matches!(
            code.get(cursor.pc as usize),
            Some(
                Insn::Do(Op::Run(_))
                    | Insn::LoopBegin { .. }
                    | Insn::LoopEnd { .. }
                    | Insn::Chance { .. }
                    | Insn::Jump { .. }
            )
        )
    }

    /// The task leaves the CPU when the path to its switch, which takes time, is behind it.
    fn block_current(&mut self, cpu: u32, id: TaskId) {
        self.charge(cpu, OverheadCause::Switch, self.machine.costs.block_ns);
        self.enter_schedule(cpu);
        if self.is_in_kernel_work(cpu) {
            self.tasks[id.index()].cursor.leaves = true;
            return self.arm_work(cpu);
        }
        self.sleep_current(cpu, id);
    }

    /// Starts `count` tasks. Creating each takes time before it can run.
    fn start(&mut self, cpu: u32, id: TaskId, spec: u32, count: u32) -> Flow {
        let cost_ns = self.machine.costs.fork_ns;
        if cost_ns == 0 {
            self.spawn(id, spec, count);
            return Flow::Next;
        }
        let cursor = &mut self.tasks[id.index()].cursor;
        if cursor.stage == 0 {
            // Comes back when the time is over.
            (cursor.stage, cursor.pc) = (1, cursor.pc - 1);
            self.charge(cpu, OverheadCause::Wakeup, cost_ns);
            return Flow::Busy;
        }
        cursor.stage = 0;
        cursor.started += 1;
        match cursor.started < count {
            true => cursor.pc -= 1,
            false => cursor.started = 0,
        }
        self.spawn(id, spec, 1);
        Flow::Next
    }

    fn sleep_current(&mut self, cpu: u32, id: TaskId) {
        let task = &self.tasks[id.index()];
        let is_ours = task.spec.is_some();
        let stuck = is_ours && !task.cursor.wait.ends_by_itself();
        self.rqs[cpu as usize].leaves += u64::from(is_ours);
        self.schedule(cpu, Leave::Sleep);
        if stuck {
            self.programs.stuck += 1;
            self.check_deadlock();
        }
    }

    fn yield_current(&mut self, cpu: u32, id: TaskId) {
        self.rqs[cpu as usize].leaves += 1;
        match self.class_of(id) {
            Class::Ext => self.ext_yield(cpu, id),
            _ => self.rqs[cpu as usize].preempt_hint = crate::cpu::PreemptHint::Yield,
        }
    }

    fn execute(&mut self, cpu: u32, id: TaskId, code: &[Insn]) -> Flow {
        if self.tasks[id.index()].cursor.is_to_wake() && self.wake_next(id) {
            return Flow::Next;
        }
        let cursor = &mut self.tasks[id.index()].cursor;
        if cursor.spin_time_ns != self.now {
            (cursor.spin_time_ns, cursor.spin_count) = (self.now, 0);
        }
        cursor.spin_count += 1;
        if cursor.spin_count > MAX_INSTANT_INSNS {
            self.never_takes_time(id);
            return Flow::Busy;
        }
        let pc = cursor.pc;
        match &code[pc as usize] {
            Insn::Do(op) => self.execute_op(cpu, id, op),
            insn => self.execute_control(cpu, id, insn, pc),
        }
    }

    #[cold]
    fn never_takes_time(&mut self, id: TaskId) {
        let label = self.task_label(id);
        self.fail(RunError::Workload(format!(
            "{label}: a loop of its program never takes any time"
        )));
    }

    fn execute_control(&mut self, cpu: u32, id: TaskId, insn: &Insn, pc: u32) -> Flow {
        let cursor = &mut self.tasks[id.index()].cursor;
        cursor.pc = pc + 1;
        match insn {
            Insn::LoopBegin {
                count: Some(0),
                end,
                ..
            } => cursor.pc = *end,
            Insn::LoopBegin { count, counted, .. } => {
                cursor.loops.push(LoopFrame {
                    left: count.map_or(LoopFrame::FOREVER, |n| n - 1),
                    pass: if *counted { 0 } else { LoopFrame::UNSEEN },
                });
            }
            Insn::LoopEnd { begin } => {
                if let Some(frame) = cursor.loops.last_mut() {
                    if frame.left == 0 {
                        cursor.loops.pop();
                    } else {
                        if frame.left != LoopFrame::FOREVER {
                            frame.left -= 1;
                        }
                        if frame.pass != LoopFrame::UNSEEN {
                            frame.pass += 1;
                        }
                        cursor.pc = begin + 1;
                    }
                }
            }
            Insn::Take { counter, end } => {
                let Some(i) = self.resolve(id, counter) else {
                    return Flow::Busy;
                };
                match &mut self.programs.res.counters[i] {
                    0 => self.tasks[id.index()].cursor.pc = *end,
                    left => *left -= 1,
                }
            }
            Insn::UnlessAfter { time_ns, end } => {
                if self.now >= self.origin_ns + time_ns {
                    cursor.pc = *end;
                }
            }
            Insn::Last { time_ns } => cursor.seldom().ends_ns.push(self.now + time_ns),
            Insn::UnlessOver { end } => {
                let ends_ns = &mut cursor.seldom().ends_ns;
                if ends_ns.last().is_none_or(|over| self.now >= *over) {
                    ends_ns.pop();
                    cursor.pc = *end;
                }
            }
            Insn::Chance { ppm, end } => {
                self.left_to_chance = true;
                let task = &mut self.tasks[id.index()];
                if !task.rng.chance(*ppm) {
                    task.cursor.pc = *end;
                }
            }
            Insn::Jump { to } => cursor.pc = *to,
            Insn::SetAttrs(attrs) => self.set_attrs(id, attrs),
            Insn::SleepUntil { time_ns } => return self.sleep_until(id, *time_ns),
            Insn::SleepAsKernel { thread } => {
                self.await_kernel_work(*thread);
                return Flow::Block;
            }
            Insn::Start { task, count } => return self.start(cpu, id, *task, *count),
            Insn::Exit => return Flow::Exit,
            Insn::Do(_) => unreachable!("execute() does operations"),
        }
        Flow::Next
    }

    fn execute_op(&mut self, cpu: u32, id: TaskId, op: &Op) -> Flow {
        if let Some(flow) = self.execute_blocking(id, op) {
            return flow;
        }
        self.tasks[id.index()].cursor.pc += 1;
        match op {
            Op::Run(dist) => {
                let ns = self.draw(id, *dist);
                self.busy_for(id, ns)
            }
            Op::Runtime(dist) => {
                let ns = self.draw(id, *dist);
                self.tasks[id.index()].work.until_ns = Some(self.now + ns);
                Flow::Busy
            }
            Op::Sleep(dist) => {
                let ns = self.draw(id, *dist);
                self.sleep_until(id, self.now + ns)
            }
            Op::Timer { timer, period_ns } => self.wait_for_timer(id, *timer, *period_ns),
            Op::Mem { bytes } => {
                let ns = self.memory_ns(*bytes / 64, self.workload.mem_buffer_bytes);
                self.busy_for(id, ns)
            }
            Op::MemRun {
                kind,
                size_bytes,
                count,
                ..
            } => {
                let lines = if *kind == MemKind::Chase {
                    *count
                } else {
                    count / 64
                };
                let ns = self.memory_ns(lines, *size_bytes);
                self.busy_for(id, ns)
            }
            Op::IoRun { .. } if self.workload.io_device != "/dev/null" => {
                let device = &self.workload.io_device;
                self.fail(RunError::NotModelled(format!(
                    "iorun to {device}: say what the device does with the extension's io"
                )));
                Flow::Busy
            }
            Op::IoRun { .. } => self.busy_for(id, NULL_WRITE_NS),
            Op::Yield => Flow::Yield,
            Op::Fork { task } => self.start(cpu, id, *task as u32, 1),
            Op::Spawn { task, count } => self.start(cpu, id, *task as u32, *count as u32),
            Op::Exit => Flow::Exit,
            Op::Set(attrs) => {
                self.set_attrs(id, attrs);
                Flow::Next
            }
            Op::SetOther {
                task,
                instance,
                attrs,
            } => {
                let only = instance.as_ref().and_then(|index| self.evaluate(id, index));
                let targets: Vec<TaskId> = self
                    .tasks
                    .iter()
                    .filter(|t| t.spec == Some(*task as u32) && t.life != Life::Dead)
                    .filter(|t| instance.is_none() || only == Some(i64::from(t.instance)))
                    .map(|t| t.id)
                    .collect();
                targets
                    .into_iter()
                    .for_each(|target| self.set_attrs(target, attrs));
                Flow::Next
            }
            Op::Begin { request } => {
                let now = self.now;
                let begun = &mut self.tasks[id.index()].cursor.seldom().begun;
                begun.retain(|(class, _)| usize::from(*class) != *request);
                begun.push((*request as u16, now));
                Flow::Next
            }
            Op::End { request } => self.end_request(cpu, id, *request),
            Op::Done { request } => {
                let kind = EventKind::Request {
                    task: id.tid(),
                    class: *request as u16,
                    start_ns: self.now,
                };
                self.emit(cpu, kind);
                Flow::Next
            }
            Op::Mark { mark } => {
                self.emit(
                    cpu,
                    EventKind::Mark {
                        task: id.tid(),
                        class: *mark as u16,
                    },
                );
                Flow::Next
            }
            other => unreachable!("{other:?} is compiled to jumps or blocks"),
        }
    }

    fn end_request(&mut self, cpu: u32, id: TaskId, request: usize) -> Flow {
        let begun = &mut self.tasks[id.index()].cursor.seldom().begun;
        let Some(at) = begun
            .iter()
            .position(|(class, _)| usize::from(*class) == request)
        else {
            let (label, name) = (self.task_label(id), &self.workload.requests[request]);
            self.fail(RunError::Workload(format!(
                "{label}: request '{name}' ends but was not begun"
            )));
            return Flow::Busy;
        };
        let (class, start_ns) = begun.swap_remove(at);
        self.emit(
            cpu,
            EventKind::Request {
                task: id.tid(),
                class,
                start_ns,
            },
        );
        Flow::Next
    }

    /// A computation that takes `ns` on average.
    pub(crate) fn busy_for(&mut self, id: TaskId, ns: u64) -> Flow {
        if ns == 0 {
            return Flow::Next;
        }
        let task = &mut self.tasks[id.index()];
        task.work.has_worked = true;
        task.work.rem_ns = match task.app {
            NO_APP => ns,
            _ => task.jitter.work_ns(&self.machine.jitter, ns),
        };
        Flow::Busy
    }

    /// The current task sleeps until `at_ns`, or longer if the timer is late; a time in the past costs nothing.
    fn sleep_until(&mut self, id: TaskId, at_ns: u64) -> Flow {
        if at_ns <= self.now {
            return Flow::Next;
        }
        let task = &mut self.tasks[id.index()];
        task.generation += 1;
        task.cursor.wait = Wait::Time;
        let alarm = Alarm::Task {
            task: id.0,
            generation: task.generation,
        };
        let late_ns = match task.app {
            NO_APP => 0,
            _ => task.jitter.late_ns(&self.machine.jitter),
        };
        self.clock.arm(at_ns.saturating_add(late_ns), alarm);
        Flow::Block
    }

    /// A timed sleep ends.
    pub(crate) fn task_alarm(&mut self, id: TaskId, generation: u32) {
        if self.still_waits(id, generation) {
            self.interrupt_to_wake(id);
        }
    }

    /// Nothing has woken the task since the alarm was set, and it sleeps or is about to.
    fn still_waits(&self, id: TaskId, generation: u32) -> bool {
        let task = &self.tasks[id.index()];
        task.generation == generation && (task.life == Life::Blocked || task.cursor.leaves)
    }

    /// The interrupt of a timer or a device arrives on the CPU where the task went to sleep.
    pub(crate) fn interrupt_to_wake(&mut self, id: TaskId) {
        let (irq_ns, task) = (self.machine.costs.timer_irq_ns, &self.tasks[id.index()]);
        let (cpu, generation) = (task.cpu, task.generation);
        if irq_ns == 0 {
            return self.woken(id, generation);
        }
        self.charge(cpu, OverheadCause::Wakeup, irq_ns);
        let alarm = Alarm::Woken {
            task: id.0,
            generation,
        };
        self.clock.arm(self.now + irq_ns, alarm);
    }

    /// The interrupt's handler wakes the task.
    pub(crate) fn woken(&mut self, id: TaskId, generation: u32) {
        if !self.still_waits(id, generation) {
            return;
        }
        let task = &mut self.tasks[id.index()];
        task.cursor.wait = Wait::Nothing;
        self.exec_cpu = task.cpu;
        self.wake(id, true, false);
    }

    /// rt-app's timer: the next expiry is one period after the last; the first base is the start plus the delay.
    fn wait_for_timer(&mut self, id: TaskId, timer: usize, period_ns: u64) -> Flow {
        let spec = &self.workload.timers[timer];
        let first = self.tasks[id.index()].kern.start_time;
        let base = if spec.per_task {
            let timers = &mut self.tasks[id.index()].cursor.seldom().timers;
            match timers.iter().position(|(t, _)| *t as usize == timer) {
                Some(at) => &mut timers[at].1,
                None => {
                    timers.push((timer as u32, first));
                    &mut timers.last_mut().expect("just pushed").1
                }
            }
        } else {
            self.programs.res.timers[timer].get_or_insert(first)
        };
        let at = *base + period_ns;
        let missed = at < self.now;
        *base = if missed && spec.mode == TimerMode::Relative {
            self.now
        } else {
            at
        };
        self.sleep_until(id, at)
    }

    pub(crate) fn draw(&mut self, id: TaskId, dist: Dist) -> u64 {
        match dist {
            Dist::Const(value) => value,
            dist => {
                self.left_to_chance = true;
                self.tasks[id.index()].rng.draw(&dist)
            }
        }
    }

    /// Time to touch `lines` cache lines of a buffer of this size: one nanosecond each if they hit L1.
    fn memory_ns(&self, lines: u64, size_bytes: u64) -> u64 {
        let (caches, costs) = (&self.machine.caches, &self.machine.costs);
        let line_ps = match size_bytes {
            size if size <= caches.l1_bytes => 0,
            size if size <= caches.l2_bytes => costs.line_l2_ps,
            size if size <= caches.l3_bytes => costs.line_l3_ps,
            _ => costs.line_mem_ps,
        };
        lines * line_ps.max(1000) / 1000
    }

    /// Index of the resource that a task means; an index out of range ends the run.
    pub(crate) fn resolve(&mut self, id: TaskId, reference: &Ref) -> Option<usize> {
        let index = match reference.index {
            Index::Const(index) => Some(index),
            Index::Instance => Some(i64::from(self.tasks[id.index()].instance)),
            ref index => self.evaluate(id, index),
        };
        match index {
            Some(index) if index >= 0 && (index as u64) < reference.len as u64 => {
                Some(reference.first + index as usize)
            }
            index => {
                self.no_such_element(id, index, reference.len);
                None
            }
        }
    }

    #[cold]
    fn no_such_element(&mut self, id: TaskId, index: Option<i64>, len: usize) {
        let label = self.task_label(id);
        let what = match index {
            Some(index) => format!("index {index} outside 0..{len}"),
            None => "division by zero or overflow in the index".to_owned(),
        };
        self.fail(RunError::Workload(format!(
            "{label}: {what} of a resource array"
        )));
    }

    fn evaluate(&self, id: TaskId, index: &Index) -> Option<i64> {
        let both = |a: &Index, b: &Index| Some((self.evaluate(id, a)?, self.evaluate(id, b)?));
        let task = &self.tasks[id.index()];
        match index {
            Index::Const(value) => Some(*value),
            Index::Instance => Some(i64::from(task.instance)),
            Index::Loop(depth) => {
                let passes = task.cursor.loops.iter().rev().map(|f| f.pass);
                let mut seen = passes.filter(|pass| *pass != LoopFrame::UNSEEN);
                seen.nth(usize::from(*depth)).map(|pass| pass as i64)
            }
            Index::Add(a, b) => both(a, b).and_then(|(a, b)| a.checked_add(b)),
            Index::Sub(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b)),
            Index::Mul(a, b) => both(a, b).and_then(|(a, b)| a.checked_mul(b)),
            Index::Div(a, b) => both(a, b).and_then(|(a, b)| a.checked_div_euclid(b)),
            Index::Rem(a, b) => both(a, b).and_then(|(a, b)| a.checked_rem_euclid(b)),
        }
    }
}
