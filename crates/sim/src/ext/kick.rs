// SPDX-License-Identifier: GPL-2.0-or-later
//! Kicks and other work that ops defer until they have returned.

use crate::engine::Engine;
use crate::ext::flags::*;
use crate::task::{Class, TaskId};
use tiltyard_model::OverheadCause;

impl Engine<'_> {
    /// `scx_bpf_kick_cpu()` after its arguments were checked: only marks; [`Engine::run_irq_work`] acts.
    pub(crate) fn kick(&mut self, cpu: u32, flags: u64) {
        if self.ext.depth > 0 {
            self.ext.counts.kicks[self.ext.ctx.slot()] += 1;
        }
        let idle_only = flags & KICK_IDLE != 0;
        let rq = &self.rqs[cpu as usize];
        if idle_only && !rq.curr.is_idle() && !rq.in_balance {
            return;
        }
        let kick = &mut self.rqs[cpu as usize].kick;
        if !kick.any() {
            self.ext.kicked.push(cpu);
        }
        if flags & KICK_WAIT != 0 {
            self.ext.waits.push((self.exec_cpu, cpu));
        }
        if idle_only {
            kick.idle |= !kick.normal;
        } else {
            kick.normal = true;
            kick.idle = false;
            kick.preempt |= flags & KICK_PREEMPT != 0;
        }
    }

    /// The interrupt work that ops requested: deferred inserts, then kicks in CPU order, then waits.
    #[inline]
    pub(crate) fn run_irq_work(&mut self) {
        while !self.ext.deferred_cpus.is_empty() || !self.ext.kicked.is_empty() {
            self.irq_work();
        }
    }

    fn irq_work(&mut self) {
        for cpu in std::mem::take(&mut self.ext.deferred_cpus) {
            self.lock_rq(cpu);
            self.run_deferred(cpu);
            self.unlock_rq(cpu);
        }
        let mut kicked = std::mem::take(&mut self.ext.kicked);
        if !kicked.is_empty() {
            let kick_ns = self.machine.costs.kick_ns;
            self.charge(self.exec_cpu, OverheadCause::Ipi, kick_ns);
        }
        kicked.sort_unstable();
        for cpu in kicked.drain(..) {
            self.lock_rq_for_kick(cpu);
            self.do_kick(cpu);
            self.unlock_rq_after_kick(cpu);
        }
        if self.ext.kicked.is_empty() {
            // Its memory serves again.
            self.ext.kicked = kicked;
        }
        self.begin_waits();
    }

    /// `kick_one_cpu()`.
    fn do_kick(&mut self, cpu: u32) {
        let kick = std::mem::take(&mut self.rqs[cpu as usize].kick);
        let curr = self.rqs[cpu as usize].curr;
        if kick.idle && !kick.normal {
            if curr.is_idle() {
                self.resched(cpu);
            }
            return;
        }
        // The scheduler may not disturb a higher class.
        if let Class::Rt { .. } = self.class_of(curr) {
            return;
        }
        if kick.preempt && self.class_of(curr) == Class::Ext {
            self.end_slice_by_kick(cpu, curr);
        }
        self.resched(cpu);
    }

    /// An idle CPU was kicked to look for work and found none: its bit is set again, without a callback.
    pub(crate) fn still_idle(&mut self, cpu: u32, prev: TaskId) {
        if prev.is_idle() {
            self.ext_update_idle(cpu, true, false);
            self.rqs[cpu as usize].idle_entered_ns = self.now;
        }
    }
}
