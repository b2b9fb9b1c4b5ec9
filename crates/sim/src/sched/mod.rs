// SPDX-License-Identifier: GPL-2.0-or-later
//! The scheduling core: what kernel/sched/core.c does around the classes.

pub mod affinity;
pub mod attrs;
pub mod lifecycle;
pub mod locks;
pub mod noise;
mod order;
pub mod rt;
pub mod wakeup;

use crate::clock::{Alarm, NEVER};
use crate::cpu::PreemptHint;
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::task::{Class, Life, TaskId};
use tiltyard_model::{EventKind, OverheadCause, PrevState, SwitchCause};

/// `p->on_rq`
pub const ON_RQ_QUEUED: i32 = 1;
pub const ON_RQ_MIGRATING: i32 = 2;

/// How the current task enters `schedule()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It stays runnable.
    Runnable,
    Sleep,
    Exit,
}

impl Engine<'_> {
    /// `schedule()` because `need_resched` was set, as soon as the CPU's current kernel work is done.
    pub(crate) fn come_to_schedule(&mut self, cpu: u32) {
        if self.is_leaving(cpu) {
            // The current task is on its way there itself.
            return;
        }
        self.enter_schedule(cpu);
        if !self.is_in_kernel_work(cpu) {
            return self.schedule(cpu, Leave::Runnable);
        }
        let rq = &mut self.rqs[cpu as usize];
        if !rq.schedule_armed {
            rq.schedule_armed = true;
            self.clock.arm(rq.work_start_ns, Alarm::Schedule { cpu });
        }
    }

    /// Charges half of a switch, once, which precedes its event in the kernel as here: the way into `schedule()`, out of
    /// the idle state if need be.
    pub(crate) fn enter_schedule(&mut self, cpu: u32) {
        let rq = &mut self.rqs[cpu as usize];
        if !rq.in_schedule {
            rq.in_schedule = true;
            let idle_ns = self.now - rq.idle_entered_ns;
            if rq.curr.is_idle() && idle_ns >= self.clock.tick_ns() {
                self.charge(cpu, OverheadCause::Wakeup, self.machine.costs.idle_exit_ns);
            }
            self.charge(cpu, OverheadCause::Switch, self.machine.costs.switch_ns / 2);
        }
    }

    /// What the scheduler took to choose lies before the switch. Nothing else happens meanwhile: where something is due
    /// earlier, on any CPU, the switch comes before it, and what is left of the time after the switch.
    fn pass_choice(&mut self, cpu: u32) {
        let chosen_ns = self.rqs[cpu as usize].work_start_ns;
        // Whoever stands still is charged from one event to the next.
        let stands_still = !self.ext.still.is_empty();
        if chosen_ns <= self.now || stands_still || self.is_instant_unsettled(cpu) {
            return;
        }
        self.tell_overhead(cpu);
        self.arm_work(cpu);
        if self.clock.next_ns() <= chosen_ns {
            // Perhaps it is the work of the previous task that is due, which is over.
            self.clock.set_work_done(cpu, NEVER);
        }
        let other_ns = self.clock.next_ns().saturating_sub(1);
        self.now = chosen_ns.min(other_ns).min(self.end_ns).max(self.now);
    }

    /// What the scheduler read and reported while it chose has the time of the switch.
    fn emit_choice(&mut self) {
        self.is_choosing = false;
        if self.choice_events.is_empty() {
            return;
        }
        for (cpu, kind) in std::mem::take(&mut self.choice_events) {
            self.emit(cpu, kind);
        }
    }

    /// Whether the CPU is still busy with work of the kernel's that it has been charged for.
    pub(crate) fn is_in_kernel_work(&self, cpu: u32) -> bool {
        self.rqs[cpu as usize].work_start_ns > self.now
    }

    fn is_leaving(&self, cpu: u32) -> bool {
        let curr = self.rqs[cpu as usize].curr;
        self.tasks[curr.index()].cursor.leaves
    }

    /// `__schedule()`: the current task of `cpu` leaves or may stay; the best one runs next.
    pub(crate) fn schedule(&mut self, cpu: u32, leave: Leave) {
        let prev = self.rqs[cpu as usize].curr;
        self.lock_rq(cpu);
        self.clear_resched(cpu);
        self.settle(cpu);
        self.is_choosing = true;
        if leave != Leave::Runnable {
            self.block(cpu, prev, leave);
        }
        let next = self.pick_next(cpu, prev);
        let entered = std::mem::take(&mut self.rqs[cpu as usize].in_schedule);
        if next == prev {
            self.rqs[cpu as usize].preempt_hint = PreemptHint::None;
            self.still_idle(cpu, prev);
            self.emit_choice();
            self.arm_work(cpu);
        } else {
            let cause = self.switch_cause(cpu, prev, next, leave);
            self.put_prev(cpu, prev, next);
            self.set_next(cpu, next);
            self.pass_choice(cpu);
            self.emit_choice();
            self.switch_to(cpu, prev, next, leave, cause);
            self.left_cpu(prev);
            let switch_ns = self.machine.costs.switch_ns;
            let left_ns = if entered {
                switch_ns - switch_ns / 2
            } else {
                switch_ns
            };
            if !next.is_idle() {
                self.charge(cpu, OverheadCause::Switch, left_ns);
            }
        }
        self.run_deferred(cpu);
        self.unlock_rq(cpu);
    }

    /// The current task stops being runnable.
    fn block(&mut self, cpu: u32, id: TaskId, leave: Leave) {
        let task = &mut self.tasks[id.index()];
        task.life = if leave == Leave::Exit {
            Life::Dead
        } else {
            Life::Blocked
        };
        task.kern.state = if leave == Leave::Exit { 0x80 } else { 1 };
        task.kern.nvcsw += 1;
        let special = if leave == Leave::Exit { DEQ_SPECIAL } else { 0 };
        self.dequeue(cpu, id, DEQ_SLEEP | DEQ_NOCLOCK | special);
        self.tasks[id.index()].kern.on_rq = 0;
    }

    /// `pick_next_task()`: balance from the previous task's class downwards, then the highest class that has a task.
    fn pick_next(&mut self, cpu: u32, prev: TaskId) -> TaskId {
        let runnable = self.stays_here(cpu, prev);
        let rt_prev = runnable && matches!(self.class_of(prev), Class::Rt { .. });
        let rq = &self.rqs[cpu as usize];
        // A realtime task that is current or leaves was found by its own class's balance before ext.
        let rt_decides =
            matches!(self.class_of(prev), Class::Rt { .. }) && (rt_prev || !rq.rt.is_empty());
        if !rt_decides {
            self.ext_balance(cpu, prev);
        }
        if rt_prev {
            self.rt_requeue_prev(cpu, prev);
        }
        let rq = &mut self.rqs[cpu as usize];
        if let Some(next) = rq.rt.pop() {
            return next;
        }
        self.ext_pick(cpu, prev).unwrap_or(TaskId::IDLE)
    }

    /// Whether the task running on `cpu` may continue there.
    pub(crate) fn stays_here(&self, cpu: u32, id: TaskId) -> bool {
        let task = &self.tasks[id.index()];
        !id.is_idle() && task.life == Life::Runnable && task.cpu == cpu
    }

    /// The running realtime task competes with those that wait: ahead of its peers unless its turn is over.
    fn rt_requeue_prev(&mut self, cpu: u32, prev: TaskId) {
        let Class::Rt { priority, .. } = self.class_of(prev) else {
            return;
        };
        let rq = &mut self.rqs[cpu as usize];
        let head = rq.preempt_hint == PreemptHint::None;
        rq.rt.push(priority, prev, head);
    }

    fn switch_cause(&self, cpu: u32, prev: TaskId, next: TaskId, leave: Leave) -> SwitchCause {
        if prev.is_idle() {
            return SwitchCause::FromIdle;
        }
        if leave != Leave::Runnable {
            return SwitchCause::Block;
        }
        match self.rqs[cpu as usize].preempt_hint {
            PreemptHint::Affinity => SwitchCause::Affinity,
            PreemptHint::Yield => SwitchCause::Yield,
            _ if self.class_of(next).above(self.class_of(prev)) => SwitchCause::HigherClass,
            PreemptHint::Kick => SwitchCause::Preempt,
            PreemptHint::SliceEnd | PreemptHint::None => SwitchCause::SliceEnd,
        }
    }

    fn put_prev(&mut self, cpu: u32, prev: TaskId, next: TaskId) {
        match self.class_of(prev) {
            Class::Idle => self.ext_update_idle(cpu, false, true),
            Class::Ext => self.ext_put_prev(cpu, prev, next),
            Class::Rt { .. } => {
                self.update_runtime(prev);
            }
        }
    }

    fn set_next(&mut self, cpu: u32, next: TaskId) {
        match self.class_of(next) {
            Class::Idle => self.ext_update_idle(cpu, true, true),
            Class::Ext => self.ext_set_next(cpu, next),
            Class::Rt { .. } => self.tasks[next.index()].kern.se.exec_start = self.now,
        }
    }

    /// The context switch itself: time, caches and the event.
    pub(crate) fn switch_to(
        &mut self,
        cpu: u32,
        prev: TaskId,
        next: TaskId,
        leave: Leave,
        cause: SwitchCause,
    ) {
        self.count_overhead(cpu);
        let prev_state = match leave {
            Leave::Runnable => PrevState::Runnable,
            Leave::Sleep => PrevState::Sleeping,
            Leave::Exit => PrevState::Exited,
        };
        self.emit(
            cpu,
            EventKind::Switch {
                prev: prev.tid(),
                prev_state,
                cause,
                next: next.tid(),
            },
        );
        self.switches += 1;
        if !prev.is_idle() {
            let task = &mut self.tasks[prev.index()];
            task.kern.on_cpu = 0;
            if leave == Leave::Runnable {
                task.ext.waits_since_ns = self.now;
                task.kern.nivcsw += 1;
            }
        }
        let now = self.now;
        let rq = &mut self.rqs[cpu as usize];
        rq.curr = next;
        rq.preempt_hint = PreemptHint::None;
        match (prev.is_idle(), next.is_idle()) {
            (true, false) => {
                rq.idle_total_ns += now - rq.idle_since_ns;
                self.busy.set(cpu);
                self.clock.start_ticks(now);
                self.update_speed(cpu);
            }
            (false, true) => {
                rq.idle_since_ns = now;
                rq.idle_entered_ns = now;
                self.busy.clear(cpu);
                if self.busy.is_empty() {
                    self.clock.stop_ticks();
                }
                self.update_speed(cpu);
            }
            _ => {}
        }
        if next.is_idle() {
            self.memory_users_change(cpu, prev, next);
            self.arm_work(cpu);
            return;
        }
        let task = &mut self.tasks[next.index()];
        task.kern.on_cpu = 1;
        if !task.ext.ran {
            task.ext.ran = true;
            self.progress.first_run(now, now - task.ext.waits_since_ns);
        }
        task.kern.recent_used_cpu = cpu as i32;
        let refill_ns = self.refill_ns(cpu, next);
        self.charge(cpu, OverheadCause::CacheRefill, refill_ns);
        self.memory_users_change(cpu, prev, next);
        self.arm_work(cpu);
    }

    /// The timer tick on a CPU that runs a task.
    pub(crate) fn tick(&mut self, cpu: u32) {
        self.ticks += 1;
        self.charge(cpu, OverheadCause::Tick, self.machine.costs.tick_ns);
        let curr = self.rqs[cpu as usize].curr;
        self.memory_follows(cpu, curr);
        self.lock_rq(cpu);
        match self.class_of(curr) {
            Class::Ext => self.ext_tick(cpu, curr),
            Class::Rt { .. } => self.rt_tick(cpu),
            Class::Idle => {}
        }
        self.unlock_rq(cpu);
    }

    /// `update_curr()` of any class: brings `sum_exec_runtime` up to now.
    pub(crate) fn update_runtime(&mut self, id: TaskId) -> u64 {
        let now = self.now;
        let task = &mut self.tasks[id.index()];
        let delta = now - task.kern.se.exec_start.min(now);
        task.kern.se.exec_start = now;
        task.kern.se.sum_exec_runtime += delta;
        delta
    }

    /// Puts a task that became runnable on a runqueue of its class.
    pub(crate) fn enqueue(&mut self, cpu: u32, id: TaskId, flags: u64) {
        let now = self.now;
        let task = &mut self.tasks[id.index()];
        if task.life != Life::Runnable {
            task.ext.waits_since_ns = now;
        }
        task.life = Life::Runnable;
        if task.kern.on_rq != ON_RQ_MIGRATING {
            task.kern.on_rq = ON_RQ_QUEUED;
        }
        match task.class {
            Class::Rt { priority, .. } => {
                self.rqs[cpu as usize].nr_running += 1;
                self.rqs[cpu as usize]
                    .rt
                    .push(priority, id, flags & ENQ_HEAD != 0);
            }
            Class::Ext => self.ext_enqueue_task(cpu, id, flags),
            Class::Idle => {}
        }
    }

    /// Takes a task off the runqueue of its class.
    pub(crate) fn dequeue(&mut self, cpu: u32, id: TaskId, flags: u64) {
        match self.tasks[id.index()].class {
            Class::Rt { priority, .. } => {
                let rq = &mut self.rqs[cpu as usize];
                rq.nr_running -= 1;
                if rq.curr == id {
                    self.update_runtime(id);
                } else {
                    rq.rt.remove(priority, id);
                }
            }
            Class::Ext => self.ext_dequeue_task(cpu, id, flags),
            Class::Idle => {}
        }
    }

    /// `__set_task_cpu()`: of a new task, which comes from nowhere.
    pub(crate) fn place_new(&mut self, id: TaskId, cpu: u32) {
        let task = &mut self.tasks[id.index()];
        task.cpu = cpu;
        task.kern.thread_cpu = cpu;
        task.kern.wake_cpu = cpu as i32;
    }

    /// `set_task_cpu()`.
    pub(crate) fn set_task_cpu(&mut self, id: TaskId, cpu: u32) {
        let from = self.tasks[id.index()].cpu;
        self.place_new(id, cpu);
        if from != cpu {
            let kind = EventKind::Migrate {
                task: id.tid(),
                from: tiltyard_model::Cpu(from),
                to: tiltyard_model::Cpu(cpu),
            };
            self.emit(self.exec_cpu, kind);
        }
    }
}
