// SPDX-License-Identifier: GPL-2.0-or-later
//! Wakeups: of sleeping and of new tasks.

use crate::engine::Engine;
use crate::ext::flags::*;
use crate::task::{Class, Life, TaskId};
use tiltyard_model::{Cpu, EventKind, OverheadCause, Tid};

impl Engine<'_> {
    /// `try_to_wake_up()`, called on `self.exec_cpu` by its current task or by an interrupt there.
    /// Ignores a task that is not asleep.
    pub(crate) fn wake(&mut self, id: TaskId, by_interrupt: bool, sync: bool) {
        if self.tasks[id.index()].life != Life::Blocked {
            return;
        }
        self.lock_task(id);
        self.await_off_cpu(id);
        let here = self.exec_cpu;
        let costs = &self.machine.costs;
        let cost_ns = match by_interrupt {
            true => costs.timer_wakeup_ns,
            false => costs.wakeup_ns,
        };
        self.charge(here, OverheadCause::Wakeup, cost_ns);
        let mut wake_flags = WAKE_TTWU;
        if sync {
            wake_flags |= WAKE_SYNC;
        }
        let (cpu, selected) = self.select_task_rq(id, wake_flags);
        let waker = if by_interrupt {
            Tid::IDLE
        } else {
            self.rqs[here as usize].curr.tid()
        };
        self.emit(
            here,
            EventKind::Wakeup {
                task: id.tid(),
                waker,
                target: Cpu(cpu),
            },
        );
        let mut flags = ENQ_WAKEUP | ENQ_NOCLOCK;
        if selected {
            flags |= ENQ_CPU_SELECTED;
        }
        if cpu != self.tasks[id.index()].cpu {
            flags |= ENQ_MIGRATED;
            self.set_task_cpu(id, cpu);
        }
        self.activate_woken(cpu, id, flags);
        self.unlock_task(id);
        self.run_irq_work();
    }

    /// `wake_up_new_task()`, called on the forking CPU.
    pub(crate) fn wake_new(&mut self, id: TaskId) {
        self.lock_task(id);
        let here = self.exec_cpu;
        self.charge(here, OverheadCause::Wakeup, self.machine.costs.wakeup_ns);
        let (cpu, _) = self.select_task_rq(id, WAKE_FORK);
        self.emit(
            here,
            EventKind::WakeupNew {
                task: id.tid(),
                target: Cpu(cpu),
            },
        );
        self.place_new(id, cpu);
        self.activate_woken(cpu, id, ENQ_INITIAL | ENQ_NOCLOCK);
        self.unlock_task(id);
        self.run_irq_work();
    }

    /// Until here only the task itself was locked: it is on no runqueue.
    fn activate_woken(&mut self, cpu: u32, id: TaskId, flags: u64) {
        self.lock_rq(cpu);
        self.tasks[id.index()].kern.state = 0;
        self.enqueue(cpu, id, flags);
        self.wakeup_preempt(cpu, id);
        self.run_deferred(cpu);
        self.unlock_rq(cpu);
    }

    /// `select_task_rq()`: the class chooses unless there is no choice. Returns the CPU and whether the class was
    /// asked.
    fn select_task_rq(&mut self, id: TaskId, wake_flags: u64) -> (u32, bool) {
        let task = &self.tasks[id.index()];
        if task.kern.nr_cpus_allowed <= 1 || task.kern.migration_disabled > 0 {
            return (task.cpus.first().unwrap_or(0), false);
        }
        let cpu = match task.class {
            Class::Ext => self.ext_select_cpu(id, wake_flags),
            _ => self.rt_select_cpu(id),
        };
        let task = &self.tasks[id.index()];
        if task.may_run_on(cpu) {
            return (cpu, true);
        }
        self.ext.select_cpu_fallbacks += 1;
        (self.fallback_cpu(id), true)
    }

    /// `select_fallback_rq()`: an allowed CPU of the same node, else any allowed one.
    pub(crate) fn fallback_cpu(&self, id: TaskId) -> u32 {
        let task = &self.tasks[id.index()];
        let node = self.rqs[task.cpu as usize].place.node as usize;
        let near = self.topology.node_cpus[node].first_and(&task.cpus);
        near.or_else(|| task.cpus.first()).unwrap_or(0)
    }

    /// `wakeup_preempt()`: a higher class takes the CPU at once; within ext no task does.
    pub(crate) fn wakeup_preempt(&mut self, cpu: u32, id: TaskId) {
        let curr = self.rqs[cpu as usize].curr;
        let (class, curr_class) = (self.class_of(id), self.class_of(curr));
        let outranks = match (class, curr_class) {
            (
                Class::Rt { priority, .. },
                Class::Rt {
                    priority: current, ..
                },
            ) => priority > current,
            _ => class.above(curr_class),
        };
        if outranks {
            self.resched(cpu);
        }
    }
}
