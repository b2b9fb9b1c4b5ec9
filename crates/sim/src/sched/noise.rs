// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine's noise: threads of the kernel's own, which wake up by themselves or after tasks have ended.

use super::lifecycle::{Birth, SMALL_SET_BYTES};
use crate::bpf::cpumask::CpuSet;
use crate::clock::Alarm;
use crate::engine::Engine;
use crate::ext::flags::*;
use crate::program::compile::Insn;
use crate::program::{Flow, Wait};
use crate::task::TaskId;
use tiltyard_model::machine::{Noise, Per};
use tiltyard_workload::{Dist, Op};

/// What one wakeup takes of what exits have added.
const WAKEUP_PERMILLE: u64 = 1000;
/// Most that is owed at a time: work that piles up is done together. Assumed, the same for every scheduler.
const MAX_OWED_PERMILLE: u64 = 4 * WAKEUP_PERMILLE;

/// A kernel thread that has work when tasks have ended.
pub struct Cleaner {
    thread: TaskId,
    /// Only exits there are its business; `None`: all.
    cpu: Option<u32>,
    per_exit_permille: u64,
    owed_permille: u64,
    sleep: Dist,
}

impl Engine<'_> {
    pub(crate) fn create_kernel_threads(&mut self) {
        let machine = self.machine;
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
        let sleep = Dist::Exp {
            mean: noise.sleep_mean_ns,
        };
        let wait = match noise.per_exit_permille {
            None => Insn::Do(Op::Sleep(sleep)),
            Some(_) => Insn::SleepAfterExit {
                cleaner: self.programs.cleaners.len() as u32,
            },
        };
        let run = Insn::Do(Op::Run(Dist::Exp {
            mean: noise.run_mean_ns,
        }));
        let code = self.programs.add(vec![wait, run, Insn::Jump { to: 0 }]);
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
            stream: (&noise.name, u64::from(number)),
        });
        let task = &mut self.tasks[id.index()];
        task.kern.flags |= PF_FORKNOEXEC | PF_NOFREEZE | PF_KTHREAD;
        if noise.name == Noise::WORKER {
            task.kern.flags |= PF_WQ_WORKER;
        }
        if let Some(cpu) = cpu {
            task.kern.flags |= PF_NO_SETAFFINITY;
            task.cpus.copy_from(&CpuSet::of(nr_cpus, [cpu]));
            task.kern.nr_cpus_allowed = 1;
        }
        if let Some(per_exit_permille) = noise.per_exit_permille {
            self.programs.cleaners.push(Cleaner {
                thread: id,
                cpu,
                per_exit_permille,
                owed_permille: 0,
                sleep,
            });
        }
        self.announce(id);
        self.start_asleep(id);
    }

    /// The current task sleeps for a while if there is work for it, else until there has been some for a while.
    pub(crate) fn sleep_after_exit(&mut self, id: TaskId, cleaner: u32) -> Flow {
        if self.take_work(cleaner as usize) {
            self.arm_cleaner(cleaner as usize);
        } else {
            self.tasks[id.index()].cursor.wait = Wait::Exits;
        }
        Flow::Block
    }

    /// A task has ended on this CPU.
    pub(super) fn exit_makes_work(&mut self, cpu: u32) {
        for at in 0..self.programs.cleaners.len() {
            let cleaner = &mut self.programs.cleaners[at];
            if cleaner.cpu.is_some_and(|own| own != cpu) {
                continue;
            }
            let most = MAX_OWED_PERMILLE.max(cleaner.per_exit_permille);
            cleaner.owed_permille = (cleaner.owed_permille + cleaner.per_exit_permille).min(most);
            let thread = cleaner.thread;
            if self.tasks[thread.index()].cursor.wait == Wait::Exits && self.take_work(at) {
                self.arm_cleaner(at);
            }
        }
    }

    fn take_work(&mut self, cleaner: usize) -> bool {
        let owed = &mut self.programs.cleaners[cleaner].owed_permille;
        let enough = *owed >= WAKEUP_PERMILLE;
        if enough {
            *owed -= WAKEUP_PERMILLE;
        }
        enough
    }

    fn arm_cleaner(&mut self, cleaner: usize) {
        let Cleaner { thread, sleep, .. } = self.programs.cleaners[cleaner];
        let sleep_ns = self.draw(thread, sleep);
        let task = &mut self.tasks[thread.index()];
        task.generation += 1;
        task.cursor.wait = Wait::Time;
        let alarm = Alarm::Task {
            task: thread.0,
            generation: task.generation,
        };
        self.clock.arm(self.now + sleep_ns, alarm);
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
