// SPDX-License-Identifier: GPL-2.0-or-later
//! Kicks that wait (SCX_KICK_WAIT): the kicking CPU halts, with interrupts off, until each CPU that ran an ext task
//! when it was kicked has picked or put one. The kick itself makes that CPU reschedule, so this takes no longer than
//! its current kernel work; but CPUs that wait for each other never get there.
//! The length is not known in advance. But nothing happens between one event and the next, so a halted CPU is
//! charged up to the next event, repeatedly, until one releases it.

use crate::clock::Alarm;
use crate::engine::{Engine, RunError};
use crate::task::{Class, TaskId};
use tiltyard_model::OverheadCause;

/// A halted CPU.
#[derive(Debug)]
pub struct Standstill {
    cpu: u32,
    /// CPUs that it waits for; empty when it is about to continue.
    for_cpus: Vec<u32>,
    missed_tick: bool,
    /// Pending interrupts.
    put_off: Vec<Alarm>,
}

impl Engine<'_> {
    /// After the kicks: the requesting CPU waits, but not for itself, nor for a CPU that runs no ext task.
    pub(crate) fn begin_waits(&mut self) {
        for (cpu, target) in std::mem::take(&mut self.ext.waits) {
            let curr = self.rqs[target as usize].curr;
            if cpu != target && self.class_of(curr) == Class::Ext {
                self.begin_wait(cpu, target);
            }
        }
    }

    fn begin_wait(&mut self, cpu: u32, target: u32) {
        let still = match self.ext.still.iter_mut().find(|s| s.cpu == cpu) {
            Some(still) => still,
            None => {
                self.ext.still.push(Standstill {
                    cpu,
                    for_cpus: Vec::new(),
                    missed_tick: false,
                    put_off: Vec::new(),
                });
                self.ext.still.last_mut().expect("just pushed")
            }
        };
        if !still.for_cpus.contains(&target) {
            still.for_cpus.push(target);
        }
        self.rqs[cpu as usize].stands_still = true;
        self.settle(cpu);
        self.arm_work(cpu);
        self.refuse_ring(cpu);
    }

    /// CPUs that wait for each other never continue.
    fn refuse_ring(&mut self, cpu: u32) {
        let mut reached = vec![cpu];
        let mut i = 0;
        while i < reached.len() {
            let waits = self.ext.still.iter().find(|s| s.cpu == reached[i]);
            for next in waits.map_or(&[][..], |s| &s.for_cpus) {
                if *next == cpu {
                    return self.ext_error(format!(
                        "CPU {cpu} and CPU {} wait for each other forever (SCX_KICK_WAIT)",
                        reached[i]
                    ));
                }
                if !reached.contains(next) {
                    reached.push(*next);
                }
            }
            i += 1;
        }
    }

    /// Halted CPUs lose the time up to the next event.
    pub(crate) fn stand_still_until(&mut self, at_ns: u64) {
        for i in 0..self.ext.still.len() {
            let cpu = self.ext.still[i].cpu;
            let from_ns = self.rqs[cpu as usize].work_start_ns.max(self.now);
            self.charge(cpu, OverheadCause::Ipi, at_ns.saturating_sub(from_ns));
        }
        self.arm_pending_work();
    }

    /// `cpu` has put or picked an ext task, even the same as before.
    pub(crate) fn ext_came_by(&mut self, cpu: u32) {
        for still in &mut self.ext.still {
            let before = still.for_cpus.len();
            still.for_cpus.retain(|target| *target != cpu);
            if still.for_cpus.is_empty() && before > 0 {
                self.clock.arm(self.now, Alarm::WaitOver { cpu: still.cpu });
            }
        }
    }

    /// Interrupts are on again: pending ones are delivered, and requests to the CPU are handled.
    pub(crate) fn wait_over(&mut self, cpu: u32) {
        let over = |s: &Standstill| s.cpu == cpu && s.for_cpus.is_empty();
        let Some(at) = self.ext.still.iter().position(over) else {
            return;
        };
        let still = self.ext.still.remove(at);
        let rq = &mut self.rqs[cpu as usize];
        rq.stands_still = false;
        if rq.need_resched {
            self.resched_local(cpu);
        }
        self.arm_work(cpu);
        for alarm in still.put_off {
            self.clock.arm(self.now, alarm);
        }
        if still.missed_tick {
            self.tick_one(cpu);
        }
    }

    /// One late tick represents all that a CPU missed.
    pub(crate) fn miss_tick(&mut self, cpu: u32) {
        if let Some(still) = self.ext.still.iter_mut().find(|s| s.cpu == cpu) {
            still.missed_tick = true;
        }
    }

    /// Keeps an interrupt for later if its CPU is halted, and says so.
    pub(crate) fn delay_if_halted(&mut self, alarm: Alarm) -> bool {
        let cpu = match alarm {
            Alarm::Task { task, .. } | Alarm::Woken { task, .. } => {
                self.tasks[TaskId(task).index()].cpu
            }
            Alarm::BpfTimer { cpu, .. } => cpu.into(),
            Alarm::Resched { cpu } | Alarm::Schedule { cpu } => cpu,
            Alarm::Device { device } => match self.served_next(device) {
                Some(id) => self.tasks[id.index()].cpu,
                None => return false,
            },
            Alarm::Program { call } => self.program_cpu(call as usize),
            Alarm::Watchdog | Alarm::WaitOver { .. } => return false,
        };
        match self.ext.still.iter_mut().find(|s| s.cpu == cpu) {
            Some(still) => {
                still.put_off.push(alarm);
                true
            }
            None => false,
        }
    }

    /// The stopper thread cannot reach a CPU whose interrupts are off, and its sender would have to wait: that ends the run.
    /// False if so.
    pub(crate) fn require_stopper(&mut self, cpu: u32) -> bool {
        let stands_still = self.rqs[cpu as usize].stands_still;
        if stands_still {
            self.fail(RunError::NotModelled(format!(
                "SCX_KICK_WAIT: CPU {cpu} stands still and its task is to be moved away"
            )));
        }
        !stands_still
    }
}
