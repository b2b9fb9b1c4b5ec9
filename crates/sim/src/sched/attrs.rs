// SPDX-License-Identifier: GPL-2.0-or-later
//! Changing a task's attributes: nice value, policy, affinity, cgroup.

use crate::bpf::cpumask::CpuSet;
use crate::cpu::PreemptHint;
use crate::engine::{Engine, RunError};
use crate::ext::flags::*;
use crate::races::Sync;
use crate::sched::rt::rr_slice_ticks;
use crate::sched::{Leave, ON_RQ_MIGRATING, ON_RQ_QUEUED};
use crate::task::{Class, ExtState, Life, TaskId, default_slice_ns, ext_weight};
use std::rc::Rc;
use tiltyard_model::EventKind;
use tiltyard_workload::{Attrs, Policy};

/// `p->policy` numbers.
const SCHED_NORMAL: u32 = 0;
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_BATCH: u32 = 3;
const SCHED_IDLE: u32 = 5;

/// Slices that tasks ask for are brought into these bounds (`__setparam_fair()` of Linux 6.18).
const LEAST_SLICE_NS: u64 = 100_000;
const MOST_SLICE_NS: u64 = 100_000_000;

impl Engine<'_> {
    /// Applies what is set in `attrs`, in rt-app's order: policy and nice, affinity, group.
    pub(crate) fn set_attrs(&mut self, id: TaskId, attrs: &Attrs) {
        if attrs.deadline.is_some() || attrs.policy == Some(Policy::Deadline) {
            return self.fail(RunError::NotModelled("SCHED_DEADLINE".into()));
        }
        if attrs.util_min.is_some() || attrs.util_max.is_some() {
            return self.fail(RunError::NotModelled(
                "utilisation clamps (util_min, util_max)".into(),
            ));
        }
        if attrs.nodes_membind.is_some() {
            return self.fail(RunError::NotModelled("nodes_membind".into()));
        }
        if attrs.policy.is_some()
            || attrs.nice.is_some()
            || attrs.rt_priority.is_some()
            || attrs.slice_ns.is_some()
        {
            self.lock_task(id);
            self.set_policy(id, attrs);
            self.unlock_task(id);
        }
        if let Some(cpus) = &attrs.cpus {
            self.lock_task(id);
            self.set_affinity(id, cpus);
            self.unlock_task(id);
        }
        if let Some(group) = attrs.group {
            // All under cgroup_mutex, the change itself under task_rq_lock().
            self.acquire(Sync::Cgroups);
            self.lock_task(id);
            self.move_to_group(id, self.cgroups.of_workload(group));
            self.unlock_task(id);
            self.release(Sync::Cgroups);
        }
    }

    /// `sched_autogroup_exit_task()`: an exiting task undergoes a group change that changes nothing. The reference
    /// kernel does so wherever autogroups are compiled in, as in distributions, used or not.
    pub(super) fn leave_autogroup(&mut self, id: TaskId) {
        let cpu = self.tasks[id.index()].cpu;
        self.lock_rq(cpu);
        self.with_task_off(id, DEQ_SAVE | DEQ_MOVE | DEQ_NOCLOCK, |_| 0);
        self.unlock_rq(cpu);
    }

    /// Takes a queued task off its locked runqueue around a change, as every `sched_*` call does. The change may add
    /// flags to those with which the task is enqueued again.
    fn with_task_off(&mut self, id: TaskId, flags: u64, change: impl FnOnce(&mut Self) -> u64) {
        let task = &self.tasks[id.index()];
        let (cpu, queued) = (task.cpu, task.life == Life::Runnable);
        let running = queued && self.rqs[cpu as usize].curr == id;
        if running {
            self.settle(cpu);
        }
        if queued {
            self.dequeue(cpu, id, flags);
        }
        let more_flags = change(self);
        if queued {
            self.enqueue(cpu, id, flags | more_flags);
        }
        if running {
            match self.tasks[id.index()].class {
                Class::Rt { priority, .. } => {
                    self.rqs[cpu as usize].rt.remove(priority, id);
                    self.tasks[id.index()].kern.se.exec_start = self.now;
                }
                Class::Ext => self.ext_set_next(cpu, id),
                Class::Idle => {}
            }
        }
    }

    /// `set_user_nice()` if only the nice value is given, else `sched_setattr()`.
    fn set_policy(&mut self, id: TaskId, attrs: &Attrs) {
        let old = self.tasks[id.index()].class;
        let renice =
            attrs.policy.is_none() && attrs.rt_priority.is_none() && attrs.slice_ns.is_none();
        let class = match attrs.policy {
            Some(Policy::Fifo | Policy::Rr) => Class::Rt {
                priority: attrs.rt_priority.unwrap_or(10),
                round_robin: attrs.policy == Some(Policy::Rr),
            },
            Some(_) => Class::Ext,
            None => match (old, attrs.rt_priority) {
                (Class::Rt { round_robin, .. }, Some(priority)) => Class::Rt {
                    priority,
                    round_robin,
                },
                _ => old,
            },
        };
        let nice = attrs.nice.unwrap_or(self.tasks[id.index()].nice);
        let policy = match attrs.policy {
            Some(Policy::Batch) => SCHED_BATCH,
            Some(Policy::Idle) => SCHED_IDLE,
            Some(Policy::Fifo) => SCHED_FIFO,
            Some(Policy::Rr) => SCHED_RR,
            Some(_) => SCHED_NORMAL,
            None => self.tasks[id.index()].kern.policy,
        };
        let unchanged = match class {
            Class::Rt { .. } => class == old,
            // sched_setattr() always proceeds, because its slice, 0, never equals the task's.
            _ => renice && nice == self.tasks[id.index()].nice,
        };
        if renice && matches!(class, Class::Rt { .. }) {
            self.note_nice(id, nice);
        }
        if unchanged {
            return;
        }
        let (cpu, old_prio) = (self.tasks[id.index()].cpu, self.tasks[id.index()].kern.prio);
        self.lock_rq(cpu);
        let changes_class = matches!(old, Class::Ext) != matches!(class, Class::Ext);
        let mut flags = DEQ_SAVE | DEQ_NOCLOCK;
        if changes_class {
            flags |= DEQ_MOVE;
        }
        self.with_task_off(id, flags, |engine| {
            if !renice && class == Class::Ext {
                engine.apply_slice(id, attrs.slice_ns.unwrap_or(0));
            }
            engine.apply_policy(id, class, policy, nice);
            // A task whose priority sched_setattr() lowers goes ahead of its new peers.
            let lowered = !renice && engine.tasks[id.index()].kern.prio > old_prio;
            if lowered { ENQ_HEAD } else { 0 }
        });
        if changes_class && class != Class::Ext && self.ext.enabled {
            self.ext_disable_task(id);
        }
        if self.tasks[id.index()].life == Life::Runnable {
            if self.rqs[cpu as usize].curr == id {
                self.resched(cpu);
            } else {
                self.wakeup_preempt(cpu, id);
            }
        }
        self.unlock_rq(cpu);
    }

    /// Only the nice value: its whole effect on a realtime task.
    fn note_nice(&mut self, id: TaskId, nice: i8) {
        let task = &mut self.tasks[id.index()];
        let renamed = std::mem::replace(&mut task.nice, nice) != nice;
        task.kern.static_prio = 120 + i32::from(nice);
        if renamed {
            let kind = EventKind::Nice {
                task: id.tid(),
                nice,
            };
            self.emit(self.exec_cpu, kind);
        }
    }

    /// The part of `__setscheduler_params()` that is about the slice: 0 ns means the default.
    fn apply_slice(&mut self, id: TaskId, slice_ns: u64) {
        let default_slice_ns = default_slice_ns(self.rqs.len());
        let kern = &mut self.tasks[id.index()].kern;
        kern.custom_slice = u8::from(slice_ns > 0);
        kern.se.slice = match slice_ns {
            0 => default_slice_ns,
            asked => asked.clamp(LEAST_SLICE_NS, MOST_SLICE_NS),
        };
    }

    /// `__setscheduler_params()` and `check_class_changing()`.
    fn apply_policy(&mut self, id: TaskId, class: Class, policy: u32, nice: i8) {
        self.note_nice(id, nice);
        let hz = self.machine.tick_hz;
        let task = &mut self.tasks[id.index()];
        let was_ext = task.class == Class::Ext;
        task.class = class;
        task.kern.policy = policy;
        let (prio, rt_priority) = match class {
            Class::Rt { priority, .. } => (99 - i32::from(priority), u32::from(priority)),
            _ => (task.kern.static_prio, 0),
        };
        task.kern.prio = prio;
        task.kern.normal_prio = prio;
        task.kern.rt_priority = rt_priority;
        task.rt_slice_ticks = rr_slice_ticks(hz);
        task.kern.scx.weight = if policy == SCHED_IDLE {
            1
        } else {
            ext_weight(nice)
        };
        if !self.ext.enabled {
            return;
        }
        if was_ext {
            // Also of a task that is about to leave: the kernel sets the weight before the class.
            self.ext_set_weight(id);
        } else if class == Class::Ext && self.tasks[id.index()].ext.state == ExtState::Ready {
            self.ext_enable_task(id);
            self.ext_set_cpumask(id);
        }
    }

    /// Declares set 0, every CPU, which tasks have unless an event says otherwise.
    pub(crate) fn declare_cpus(&mut self) {
        let all = self.topology.online.ranges();
        self.cpu_sets.number(all, self.sink);
    }

    /// Reports a task's affinity, which has changed or is not that of other new tasks.
    pub(crate) fn report_affinity(&mut self, id: TaskId) {
        let cpus = self.tasks[id.index()].cpus.ranges();
        let set = self.cpu_sets.number(cpus, self.sink);
        let task = id.tid();
        self.emit(self.exec_cpu, EventKind::Affinity { task, set });
    }

    /// `sched_setaffinity()`. CPUs that the machine does not have are ignored as long as one remains.
    pub(crate) fn set_affinity(&mut self, id: TaskId, cpus: &[u32]) {
        let nr_cpus = self.rqs.len() as u32;
        let set = match cpus {
            [] => CpuSet::all(nr_cpus),
            cpus => CpuSet::of(nr_cpus, cpus.iter().copied()),
        };
        if set.is_empty() {
            let name = self.task_label(id);
            let list = format!("{cpus:?}");
            return self.fail(RunError::Workload(format!(
                "{name}: affinity to {list}, but the machine has CPUs 0-{}",
                nr_cpus - 1
            )));
        }
        if set == *self.tasks[id.index()].cpus {
            return;
        }
        let cpu = self.tasks[id.index()].cpu;
        self.lock_rq(cpu);
        self.with_task_off(id, DEQ_SAVE | DEQ_NOCLOCK, |engine| {
            let task = &mut engine.tasks[id.index()];
            task.set_cpus(Rc::new(set));
            // That other CPUs were idle before concerns nobody.
            task.ext.waits_since_ns = engine.now;
            engine.report_affinity(id);
            if engine.ext.enabled && engine.tasks[id.index()].class == Class::Ext {
                engine.ext_set_cpumask(id);
            }
            0
        });
        let stays = self.tasks[id.index()].may_run_on(cpu);
        let target = self.fallback_cpu(id);
        match self.tasks[id.index()].life {
            _ if stays => self.unlock_rq(cpu),
            Life::Runnable if self.rqs[cpu as usize].curr == id => {
                self.unlock_rq(cpu);
                self.push_away(id, target);
            }
            Life::Runnable => {
                self.move_queued(id, target);
                self.run_deferred(target);
                self.unlock_rq(target);
            }
            _ => {
                self.tasks[id.index()].kern.wake_cpu = target as i32;
                self.unlock_rq(cpu);
            }
        }
    }

    /// `move_queued_task()`: from one runqueue to another without a sleep in between. It is entered with the old one
    /// locked and left with the new one locked.
    fn move_queued(&mut self, id: TaskId, target: u32) {
        let from = self.tasks[id.index()].cpu;
        self.tasks[id.index()].kern.on_rq = ON_RQ_MIGRATING;
        self.dequeue(from, id, DEQ_NOCLOCK);
        self.set_task_cpu(id, target);
        self.relock_rq(from, target);
        self.enqueue(target, id, ENQ_MIGRATED);
        self.tasks[id.index()].kern.on_rq = ON_RQ_QUEUED;
        self.wakeup_preempt(target, id);
    }

    /// The stopper thread preempts a running task that may no longer be on this CPU and moves it.
    fn push_away(&mut self, id: TaskId, target: u32) {
        let from = self.tasks[id.index()].cpu;
        if !self.require_stopper(from) {
            return;
        }
        self.settle(from);
        self.lock_rq(from);
        if self.class_of(id) == Class::Ext {
            self.ext_stopped_for_migration(from, id);
        }
        self.rqs[from as usize].preempt_hint = PreemptHint::Affinity;
        self.move_queued(id, target);
        self.unlock_rq(target);
        let here = self.exec_cpu;
        self.exec_cpu = from;
        self.schedule(from, Leave::Runnable);
        self.exec_cpu = here;
    }

    /// Moves a task to another cgroup (0 is the root).
    pub(crate) fn move_to_group(&mut self, id: TaskId, group: u32) {
        let from = self.tasks[id.index()].cgroup;
        if from == group {
            return;
        }
        if !self.ext_cgroup_prep_move(id, from, group) {
            return;
        }
        let cpu = self.tasks[id.index()].cpu;
        self.lock_rq(cpu);
        self.with_task_off(id, DEQ_SAVE | DEQ_MOVE | DEQ_NOCLOCK, |engine| {
            engine.join_group(id, group);
            engine.ext_cgroup_move(id, from, group);
            0
        });
        if self.rqs[cpu as usize].curr == id {
            self.resched(cpu);
        }
        self.unlock_rq(cpu);
    }
}
