// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's noise: threads of the kernel's own, which wake up by themselves or after tasks have ended.

use super::lifecycle::{Birth, SMALL_SET_BYTES};
use crate::bpf::cpumask::CpuSet;
use crate::clock::Alarm;
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::program::Wait;
use crate::program::compile::Insn;
use crate::task::{TaskId, ext_weight};
use std::rc::Rc;
use tiltyard_model::machine::{Noise, Per};
use tiltyard_workload::{Dist, Op};

/// What one wakeup takes of what exits have added.
const WAKEUP_PERMILLE: u64 = 1000;

/// A thread of the kernel's own.
pub struct KernelThread {
    id: TaskId,
    sleep_mean_ns: u64,
    /// `None`: it wakes up by itself.
    after_exits: Option<AfterExits>,
}

/// The work that tasks leave which end.
struct AfterExits {
    per_exit_permille: u64,
    owed_permille: u64,
}

impl AfterExits {
    /// An exit shares the wakeups that earlier ones still have to come, as callbacks of RCU share grace periods.
    fn add_exit(&mut self) {
        let most = self.per_exit_permille + WAKEUP_PERMILLE - 1;
        self.owed_permille = (self.owed_permille + self.per_exit_permille).min(most);
    }

    fn take_wakeup(&mut self) -> bool {
        let enough = self.owed_permille >= WAKEUP_PERMILLE;
        if enough {
            self.owed_permille -= WAKEUP_PERMILLE;
        }
        enough
    }
}

impl Engine<'_> {
    pub(crate) fn create_kernel_threads(&mut self) {
        let machine = self.machine;
        self.programs.woken_by_exits = vec![Vec::new(); self.rqs.len()];
        for (at, noise) in machine.noise.iter().enumerate() {
            // Threads of one name draw from streams of their own.
            let same = |other: &&Noise| other.name == noise.name;
            let nth = machine.noise[..at].iter().filter(same).count() as u32;
            match noise.per {
                Per::Cpu => {
                    for cpu in 0..self.rqs.len() as u32 {
                        self.create_kernel_thread(noise, nth, Some(cpu));
                    }
                }
                Per::Machine => self.create_kernel_thread(noise, nth, None),
            }
        }
    }

    fn create_kernel_thread(&mut self, noise: &Noise, nth: u32, cpu: Option<u32>) {
        let sleep = Insn::SleepAsKernel {
            thread: self.programs.kernel_threads.len() as u32,
        };
        let run = Insn::Do(Op::Run(Dist::Exp {
            mean: noise.run_mean_ns,
        }));
        let code = self.programs.add(vec![sleep, run, Insn::Jump { to: 0 }]);
        let nr_cpus = self.rqs.len() as u32;
        let number = nth * nr_cpus + cpu.unwrap_or(0);
        let id = self.create_task(Birth {
            name: thread_name(&noise.name, nth, cpu),
            app: None,
            spec: None,
            instance: number,
            code,
            parent: TaskId::IDLE,
            cpu: cpu.unwrap_or(0),
            leader: None,
            working_set_bytes: SMALL_SET_BYTES,
            stall_permille: 0,
            stream: (&noise.name, u64::from(number)),
        });
        let task = &mut self.tasks[id.index()];
        let prio = 120 + i32::from(noise.nice);
        task.nice = noise.nice;
        (task.kern.static_prio, task.kern.prio, task.kern.normal_prio) = (prio, prio, prio);
        task.kern.scx.weight = ext_weight(noise.nice);
        task.kern.flags |= PF_FORKNOEXEC | PF_NOFREEZE | PF_KTHREAD;
        if noise.name == Noise::WORKER {
            task.kern.flags |= PF_WQ_WORKER;
        }
        if let Some(cpu) = cpu {
            task.kern.flags |= PF_NO_SETAFFINITY;
            task.set_cpus(Rc::new(CpuSet::of(nr_cpus, [cpu])));
        }
        let after_exits = noise.per_exit_permille.map(|per_exit_permille| AfterExits {
            per_exit_permille,
            owed_permille: 0,
        });
        if after_exits.is_some() {
            // Exits elsewhere are not the business of a CPU's own thread.
            let of_exits = match cpu {
                Some(cpu) => &mut self.programs.woken_by_exits[cpu as usize..=cpu as usize],
                None => &mut self.programs.woken_by_exits[..],
            };
            let thread = self.programs.kernel_threads.len() as u32;
            of_exits.iter_mut().for_each(|threads| threads.push(thread));
        }
        self.programs.kernel_threads.push(KernelThread {
            id,
            sleep_mean_ns: noise.sleep_mean_ns,
            after_exits,
        });
        self.announce(id);
        if cpu.is_some() {
            self.report_affinity(id);
        }
        self.start_asleep(id);
    }

    /// A kernel thread sleeps until a tick on which it has work, or until exits leave it some.
    pub(crate) fn await_kernel_work(&mut self, at: u32) {
        let thread = &mut self.programs.kernel_threads[at as usize];
        let (id, mean) = (thread.id, thread.sleep_mean_ns);
        let sleep_ns = match thread.after_exits.as_mut().map(AfterExits::take_wakeup) {
            None => self.draw(id, Dist::Exp { mean }),
            Some(true) => mean,
            Some(false) => {
                self.tasks[id.index()].cursor.wait = Wait::Exits;
                return;
            }
        };
        self.wake_on_tick(id, sleep_ns);
    }

    /// A task has ended on this CPU.
    pub(super) fn exit_makes_work(&mut self, cpu: u32) {
        for i in 0..self.programs.woken_by_exits[cpu as usize].len() {
            let at = self.programs.woken_by_exits[cpu as usize][i];
            let thread = &mut self.programs.kernel_threads[at as usize];
            if let Some(work) = &mut thread.after_exits {
                work.add_exit();
            }
            if self.tasks[thread.id.index()].cursor.wait == Wait::Exits {
                self.await_kernel_work(at);
            }
        }
    }

    /// A sleeping thread's alarm: on the tick that comes nearest to the end of its sleep. The kernel's timers are as fine as its
    /// ticks, and what RCU or a worker is woken for is found by the softirqs behind one.
    fn wake_on_tick(&mut self, id: TaskId, sleep_ns: u64) {
        let at_ns = self.clock.tick_near(self.now, sleep_ns) + self.machine.costs.tick_ns;
        let task = &mut self.tasks[id.index()];
        task.generation += 1;
        task.cursor.wait = Wait::Time;
        let alarm = Alarm::Woken {
            task: id.0,
            generation: task.generation,
        };
        self.clock.arm(at_ns, alarm);
    }
}

/// As the kernel names its threads: `kworker/3:0`, `kworker/u:0`, `ksoftirqd/3`, `rcu_preempt`.
fn thread_name(name: &str, nth: u32, cpu: Option<u32>) -> String {
    match (name == Noise::WORKER, cpu) {
        (true, Some(cpu)) => format!("{name}/{cpu}:{nth}"),
        (true, None) => format!("{name}/u:{nth}"),
        (false, Some(cpu)) => format!("{name}/{cpu}"),
        (false, None) => name.to_owned(),
    }
}
