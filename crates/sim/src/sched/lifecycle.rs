// SPDX-License-Identifier: GPL-2.0-or-later
//! Creation and end of tasks: shells, forks, exits.

use crate::engine::{Engine, MAX_LIVE_TASKS, RunError};
use crate::ext::flags::*;
use crate::jitter::{TaskJitter, starts_ns};
use crate::program::compile::{Insn, compile_shell};
use crate::program::{Cursor, Wait};
use crate::sched::Leave;
use crate::task::{
    Class, ExtState, ExtTask, Life, NO_APP, Task, TaskId, Work, default_slice_ns, long_name,
    new_task_struct,
};
use std::ptr;
use std::rc::Rc;
use tiltyard_model::{EventKind, OverheadCause, SHELL_PREFIX, TaskInfo, Tid, is_shells_name};
use tiltyard_workload::Op;

/// Application name of the machine's own threads.
const KERNEL_APP: &str = "kernel";
/// Bytes that a kernel thread or a shell touches: small. Assumed, the same for every scheduler.
pub(super) const SMALL_SET_BYTES: u64 = 8 << 10;

/// What distinguishes a new task.
pub(super) struct Birth<'a> {
    pub name: String,
    pub app: Option<u32>,
    pub spec: Option<u32>,
    pub instance: u32,
    pub code: u32,
    pub parent: TaskId,
    pub cpu: u32,
    /// The task whose process this one joins as a thread.
    pub leader: Option<TaskId>,
    pub working_set_bytes: u64,
    pub stall_permille: u32,
    pub stream: (&'a str, u64),
}

impl Engine<'_> {
    pub(crate) fn create_idle_task(&mut self) {
        let code = self.programs.add(vec![]);
        let id = self.create_task(Birth {
            name: "swapper/0".into(),
            app: None,
            spec: None,
            instance: 0,
            code,
            parent: TaskId::IDLE,
            cpu: 0,
            leader: None,
            working_set_bytes: 0,
            stall_permille: 0,
            stream: ("idle", 0),
        });
        let task = &mut self.tasks[id.index()];
        task.class = Class::Idle;
        // As init_idle() and cpu_startup_entry() leave it.
        task.kern.flags = PF_IDLE | PF_KTHREAD | PF_NO_SETAFFINITY;
        task.kern.state = 0;
        task.kern.nr_cpus_allowed = 1;
    }

    pub(crate) fn declare_requests(&mut self) {
        for (i, name) in self.workload.requests.iter().enumerate() {
            self.sink.request_class(i as u16, name);
        }
    }

    /// One shell for each application: a task that sleeps until the workload starts.
    pub(crate) fn create_shells(&mut self) {
        let starts_ns = starts_ns(self.workload, &self.machine.jitter, &self.streams);
        for (i, app) in self.workload.apps.iter().enumerate() {
            let code =
                self.programs
                    .add(compile_shell(i, self.workload, self.origin_ns, &starts_ns));
            let id = self.create_task(Birth {
                name: format!("{SHELL_PREFIX}{}", app.name),
                app: Some(i as u32),
                spec: None,
                instance: 0,
                code,
                parent: TaskId::IDLE,
                cpu: 0,
                leader: None,
                working_set_bytes: SMALL_SET_BYTES,
                stall_permille: 0,
                stream: ("shell", i as u64),
            });
            if let Some(group) = app.group {
                self.join_group(id, self.cgroups.of_workload(group));
            }
            self.announce(id);
            self.start_asleep(id);
        }
    }

    /// A task that exists before the scheduler is loaded, asleep in the first instruction of its program.
    pub(super) fn start_asleep(&mut self, id: TaskId) {
        let code = self.tasks[id.index()].cursor.code as usize;
        let at = match self.programs.code[code].first() {
            Some(Insn::SleepUntil { time_ns }) => *time_ns,
            Some(Insn::SleepAsKernel { thread }) => {
                let thread = *thread;
                self.tasks[id.index()].cursor.pc = 1;
                return self.await_kernel_work(thread);
            }
            // Nothing to start: it ends when the workload starts.
            _ => self.origin_ns,
        };
        if !matches!(self.programs.code[code].first(), Some(Insn::Do(Op::Join))) {
            self.tasks[id.index()].cursor.pc = 1;
        }
        self.tasks[id.index()].cursor.wait = Wait::Time;
        let generation = self.tasks[id.index()].generation;
        self.clock.arm(
            at,
            crate::clock::Alarm::Task {
                task: id.0,
                generation,
            },
        );
    }

    pub(super) fn create_task(&mut self, birth: Birth) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        let cpus = Rc::clone(&self.topology.anywhere);
        let (user, number) = birth.stream;
        // A thread is a child of the process's parent, not of the thread that created it (CLONE_THREAD).
        let parent = match birth.leader {
            Some(leader) => Some(self.tasks[leader.index()].kern.real_parent),
            None => {
                let parent = self.tasks.get(birth.parent.index());
                parent.map(|parent| parent.kernel_ptr().cast_const())
            }
        };
        let group_leader = (birth.leader).map(|leader| self.tasks[leader.index()].kernel_ptr());
        let task = self.tasks.push(Task {
            kern: new_task_struct(id.0 as i32, &birth.name),
            id,
            long_name: long_name(&birth.name),
            app: birth.app.unwrap_or(NO_APP),
            spec: birth.spec,
            instance: birth.instance,
            life: Life::Blocked,
            class: Class::Ext,
            nice: 0,
            cpu: birth.cpu,
            cpus: Rc::clone(&cpus),
            cgroup: 0,
            ext: ExtTask::default(),
            work: Work {
                working_set_bytes: birth.working_set_bytes,
                stall_permille: birth.stall_permille,
                ..Work::default()
            },
            cursor: Cursor {
                code: birth.code,
                ..Cursor::default()
            },
            rng: self.streams.stream(user, number),
            jitter: TaskJitter::new(&self.streams, user, number),
            parent: birth.parent,
            live_children: 0,
            generation: 0,
            rt_slice_ticks: 0,
        });
        task.set_cpus(cpus);
        task.kern.wake_cpu = birth.cpu as i32;
        task.kern.thread_cpu = birth.cpu;
        task.kern.start_time = self.now;
        task.kern.se.slice = default_slice_ns(self.rqs.len());
        task.kern.scx.flags |= TASK_RESET_RUNNABLE_AT;
        task.kern.scx.runnable_at = self.now;
        task.kern.signal = self.cgroups.signal(birth.app);
        // Kernel threads have no address space: schedulers test for NULL, none reads it.
        task.kern.mm = birth
            .app
            .map_or(ptr::null(), |_| ptr::NonNull::dangling().as_ptr());
        let myself = task.kernel_ptr().cast_const();
        task.kern.parent = parent.unwrap_or(myself);
        task.kern.real_parent = task.kern.parent;
        task.kern.group_leader = group_leader.map_or(myself, |leader| leader.cast_const());
        task.kern.tgid = birth.leader.unwrap_or(id).0 as i32;
        self.join_group(id, 0);
        id
    }

    pub(super) fn announce(&mut self, id: TaskId) {
        let task = &self.tasks[id.index()];
        let app = self
            .workload
            .apps
            .get(task.app as usize)
            .map_or(KERNEL_APP, |a| &a.name);
        let name = task.name();
        let info = TaskInfo {
            tid: id.tid(),
            tgid: Tid(task.kern.tgid as u32),
            parent: task.parent.tid(),
            is_shell: is_shells_name(&name, app),
            name,
            app: app.to_owned(),
            nice: task.nice,
            born_ns: self.now,
        };
        self.sink.task(&info);
    }

    /// `parent`, which runs on the executing CPU, starts `count` more instances of a task of the workload.
    pub(crate) fn spawn(&mut self, parent: TaskId, spec: u32, count: u32) {
        for _ in 0..count {
            if self.failure.is_some() || !self.fork(parent, spec) {
                return;
            }
        }
    }

    /// `copy_process()` and `wake_up_new_task()`.
    fn fork(&mut self, parent: TaskId, spec_index: u32) -> bool {
        if self.programs.live_total >= MAX_LIVE_TASKS {
            let label = self.task_label(parent);
            self.fail(RunError::Workload(format!(
                "{label}: more than {MAX_LIVE_TASKS} tasks at once (fork bomb)"
            )));
            return false;
        }
        let spec = &self.workload.tasks[spec_index as usize];
        let instance = self.programs.started[spec_index as usize];
        self.programs.started[spec_index as usize] += 1;
        let name = if spec.instances == 1 && instance == 0 {
            spec.name.clone()
        } else {
            format!("{}-{instance}", spec.name)
        };
        let by_shell = self.tasks[parent.index()].spec.is_none();
        let leader = if spec.thread {
            self.process_of(parent, spec.app as u32, by_shell)
        } else {
            None
        };
        let id = self.create_task(Birth {
            name,
            app: Some(spec.app as u32),
            spec: Some(spec_index),
            instance,
            code: spec_index,
            parent,
            cpu: self.exec_cpu,
            leader,
            working_set_bytes: spec.working_set_bytes,
            stall_permille: spec.memory_bound_permille,
            stream: (&spec.name, u64::from(instance)),
        });
        let (group, nice, class) = {
            let parent = &self.tasks[parent.index()];
            (parent.cgroup, parent.nice, parent.class)
        };
        self.inherit(id, parent, nice, class);
        self.join_group(id, group);
        if by_shell {
            self.programs.unborn_total -= 1;
            self.programs.unborn_awaited -= u32::from(!spec.daemon);
        }
        self.programs.live_total += 1;
        if !spec.daemon {
            self.programs.live_awaited += 1;
        }
        self.tasks[parent.index()].live_children += 1;
        self.announce(id);
        self.emit(
            self.exec_cpu,
            EventKind::Fork {
                parent: parent.tid(),
                child: id.tid(),
            },
        );
        if !self.tasks[id.index()].cpus.is_full() {
            self.report_affinity(id);
        }
        let error = self.ext_init_task(id, true);
        if error != 0 {
            let message = self.init_task_failed(id, error);
            self.fail(RunError::Scheduler(format!("{message}: its fork fails")));
            return false;
        }
        if class == Class::Ext {
            let cpu = self.tasks[id.index()].cpu;
            self.lock_rq(cpu);
            self.ext_enable_task(id);
            self.unlock_rq(cpu);
        }
        self.wake_new(id);
        true
    }

    /// Scheduling attributes pass from parent to child.
    fn inherit(&mut self, id: TaskId, parent: TaskId, nice: i8, class: Class) {
        let (policy, prio, weight, cpus, slice) = {
            let parent = &self.tasks[parent.index()];
            (
                parent.kern.policy,
                parent.kern.prio,
                parent.kern.scx.weight,
                Rc::clone(&parent.cpus),
                (parent.kern.custom_slice, parent.kern.se.slice),
            )
        };
        let task = &mut self.tasks[id.index()];
        task.nice = nice;
        task.class = class;
        task.kern.policy = policy;
        task.kern.static_prio = 120 + i32::from(nice);
        task.kern.prio = prio;
        task.kern.normal_prio = prio;
        task.kern.scx.weight = weight;
        (task.kern.custom_slice, task.kern.se.slice) = slice;
        task.set_cpus(cpus);
    }

    /// The process that a new thread joins: the forking thread's, or, for a shell's child, the first task of its app.
    fn process_of(&mut self, parent: TaskId, app: u32, by_shell: bool) -> Option<TaskId> {
        if !by_shell {
            return Some(TaskId(self.tasks[parent.index()].kern.tgid as u32));
        }
        // Nobody before the last one found will be: ids count up, and the dead stay dead.
        let from = self.programs.first_of_app[app as usize];
        let first = self
            .tasks
            .iter_from(from.index())
            .find(|t| t.app == app && t.spec.is_some() && t.life != Life::Dead)?;
        self.programs.first_of_app[app as usize] = first.id;
        Some(TaskId(first.kern.tgid as u32))
    }

    /// `do_exit()` of the current task of `cpu`: it notifies its parent, and disappears at its next schedule. The
    /// parent may take the CPU in between; the exiting task then waits for its turn to finish.
    pub(crate) fn exit_current(&mut self, cpu: u32, id: TaskId) {
        if self.tasks[id.index()].kern.flags & PF_EXITING == 0 {
            let (cost_ns, cursor) = (
                self.machine.costs.exit_ns,
                &mut self.tasks[id.index()].cursor,
            );
            if cost_ns > 0 && cursor.stage == 0 {
                // Comes back when the time is over.
                (cursor.stage, cursor.pc) = (1, cursor.pc - 1);
                self.charge(cpu, OverheadCause::Switch, cost_ns);
                return self.arm_work(cpu);
            }
            if !self.begin_exit(id) {
                return;
            }
            let rq = &self.rqs[cpu as usize];
            if rq.is_interrupted(self.now) {
                // Return to the same instruction.
                self.tasks[id.index()].cursor.pc -= 1;
                return self.arm_work(cpu);
            }
        }
        self.finish_exit(cpu, id);
    }

    /// False if the task may not exit in its state, which ends the run.
    fn begin_exit(&mut self, id: TaskId) -> bool {
        let mutexes = &self.programs.res.mutexes;
        if let Some(m) = mutexes.iter().position(|m| m.owner == Some(id)) {
            let (label, name) = (self.task_label(id), &self.workload.mutexes[m].name);
            self.fail(RunError::Workload(format!(
                "{label}: exits while it holds '{name}'"
            )));
            return false;
        }
        self.tasks[id.index()].kern.flags |= PF_EXITING;
        self.leave_autogroup(id);
        let parent = self.tasks[id.index()].parent;
        if !parent.is_idle() && self.tasks[parent.index()].life != Life::Dead {
            self.child_exited(parent);
        }
        true
    }

    fn finish_exit(&mut self, cpu: u32, id: TaskId) {
        self.emit(cpu, EventKind::Exit { task: id.tid() });
        self.exit_makes_work(cpu);
        let spec = self.tasks[id.index()].spec;
        if let Some(spec) = spec {
            self.programs.live_total -= 1;
            if !self.workload.tasks[spec as usize].daemon {
                self.programs.live_awaited -= 1;
            }
        }
        self.schedule(cpu, Leave::Exit);
        // The reference kernel calls these when the last reference to the task is dropped, soon after.
        if self.tasks[id.index()].ext.state != ExtState::None {
            self.ext_exit_task(id);
        }
        if self.programs.live_awaited == 0 && self.programs.unborn_awaited == 0 {
            self.done = true;
        } else if spec.is_some() {
            self.check_deadlock();
        }
    }
}
