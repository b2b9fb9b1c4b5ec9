// SPDX-License-Identifier: GPL-2.0-or-later
//! How time on a CPU turns into work: progress, overhead, caches, SMT.
//!
//! A CPU does one thing at a time: overhead that is charged while a task runs pushes the
//! task's progress back by exactly that much, so busy + idle + overhead is the elapsed time
//! to the nanosecond.

use crate::clock::NEVER;
use crate::engine::Engine;
use crate::memory::waits::LINE_BYTES;
use crate::task::TaskId;
use tiltyard_model::{EventKind, Overhead, OverheadCause};

impl Engine<'_> {
    /// Updates the current task's remaining work to now.
    #[inline]
    pub(crate) fn settle(&mut self, cpu: u32) {
        let rq = &mut self.rqs[cpu as usize];
        if self.now > rq.work_start_ns {
            let elapsed = self.now - rq.work_start_ns;
            rq.work_start_ns = self.now;
            if !rq.curr.is_idle() {
                let work = &mut self.tasks[rq.curr.index()].work;
                let done = match rq.speed_permille {
                    1000 => elapsed,
                    speed => elapsed * speed / 1000,
                };
                work.rem_ns = work.rem_ns.saturating_sub(done);
            }
        }
    }

    /// Takes `ns` of this CPU's time from whatever runs there.
    pub(crate) fn charge(&mut self, cpu: u32, cause: OverheadCause, ns: u64) {
        if ns == 0 {
            return;
        }
        self.settle(cpu);
        let rq = &mut self.rqs[cpu as usize];
        rq.work_start_ns += ns;
        rq.overhead_owed_ns += ns;
        if let EventKind::Overhead(overhead) = &mut rq.overhead.kind {
            overhead.charge(cause, ns);
        }
        rq.overhead_untold = true;
        if !rq.rearm {
            self.put_on_rearm_list(cpu);
        }
    }

    /// The end of the current task's work has changed. It is computed once, at the end of this instant.
    #[inline]
    pub(crate) fn arm_work(&mut self, cpu: u32) {
        if !self.rqs[cpu as usize].rearm {
            self.put_on_rearm_list(cpu);
        }
    }

    #[inline(never)]
    fn put_on_rearm_list(&mut self, cpu: u32) {
        self.rqs[cpu as usize].rearm = true;
        self.rearm.push(cpu);
    }

    pub(crate) fn arm_pending_work(&mut self) {
        self.share_memory();
        while let Some(cpu) = self.rearm.pop() {
            self.arm_now(cpu);
            // It may have come to a barrier.
            self.share_memory();
        }
    }

    fn arm_now(&mut self, cpu: u32) {
        self.tell_overhead(cpu);
        let at = self.work_end_ns(cpu);
        self.rqs[cpu as usize].rearm = false;
        self.clock.set_work_done(cpu, at);
    }

    /// When the current task will have done its work, if nothing comes between.
    #[inline]
    fn work_end_ns(&mut self, cpu: u32) -> u64 {
        let rq = &self.rqs[cpu as usize];
        let (curr, start_ns, speed) = (rq.curr, rq.work_start_ns, rq.speed_permille);
        if curr.is_idle() {
            return NEVER;
        }
        let stands_still = rq.stands_still;
        if self.tasks[curr.index()].work.is_done() {
            self.run_ahead(cpu, curr);
        }
        if stands_still {
            return NEVER;
        }
        let work = &self.tasks[curr.index()].work;
        match (work.until_ns, speed) {
            (Some(until), _) => start_ns.max(until),
            (None, 1000) => start_ns.saturating_add(work.rem_ns),
            (None, speed) => start_ns.saturating_add((work.rem_ns * 1000).div_ceil(speed)),
        }
    }

    /// Sends the overhead of this instant to the sink: it occupies the CPU from now on, or from
    /// the end of the current overhead.
    pub(crate) fn tell_overhead(&mut self, cpu: u32) {
        let rq = &mut self.rqs[cpu as usize];
        if !std::mem::take(&mut rq.overhead_untold) {
            return;
        }
        rq.overhead.time_ns = self.now;
        self.sink.event(&rq.overhead);
        if let EventKind::Overhead(overhead) = &mut rq.overhead.kind {
            *overhead = Overhead::default();
        }
    }

    /// Counts the overhead that has elapsed by now on this CPU.
    pub(crate) fn count_overhead(&mut self, cpu: u32) {
        let rq = &mut self.rqs[cpu as usize];
        let under_way = rq.work_start_ns.saturating_sub(self.now);
        let elapsed = rq.overhead_owed_ns - under_way.min(rq.overhead_owed_ns);
        rq.overhead_owed_ns -= elapsed;
        rq.overhead_total_ns += elapsed;
        if rq.curr.is_idle() {
            rq.idle_overhead_ns += elapsed;
        }
    }

    /// The cost for `task` of others having used the caches of `cpu` since it last ran.
    ///
    /// L1 is lost to any other task; the larger caches only to other address spaces, because the
    /// threads of a process share most of what they touch.
    pub(crate) fn refill_ns(&mut self, cpu: u32, task: TaskId) -> u64 {
        let machine = self.machine;
        let (caches, costs) = (&machine.caches, &machine.costs);
        let rq = &mut self.rqs[cpu as usize];
        let task = &mut self.tasks[task.index()];
        let set = task.work.working_set_bytes;
        let last_cpu = task.work.last_cpu.replace(cpu);
        if !task.work.has_worked {
            task.work.home = machine.cpus[cpu as usize].node;
        }
        let by_tasks = rq.footprint_bytes - task.work.footprint_then.min(rq.footprint_bytes);
        rq.footprint_bytes += set;
        task.work.footprint_then = rq.footprint_bytes;
        if set == 0 {
            return 0;
        }
        let by_others = rq.spaces.touch(task.kern.tgid, set, caches.largest());
        let ps = match last_cpu {
            // First run ever: everything comes from memory, and that is here from now on.
            None => lines(set, caches.largest()) * costs.line_mem_ps,
            Some(last) if last == cpu => {
                let lost_l1 = lost(set, caches.l1_bytes, by_tasks);
                let lost_l2 = lost(set, caches.l2_bytes, by_others);
                let lost_l3 = lost(set, caches.l3_bytes, by_others);
                let (from_l3, from_mem) = match caches.l3_bytes {
                    0 => (0, lost_l2),
                    _ => (lost_l2.saturating_sub(lost_l3), lost_l3),
                };
                let from_l2 = lost_l1.saturating_sub(from_l3 + from_mem);
                from_l2 / LINE_BYTES * costs.line_l2_ps
                    + from_l3 / LINE_BYTES * costs.line_l3_ps
                    + from_mem / LINE_BYTES * costs.line_mem_ps
            }
            Some(last) => {
                let (here, there) = (machine.cpus[cpu as usize], machine.cpus[last as usize]);
                let line_ps = if here.core == there.core {
                    0
                } else if here.llc == there.llc && caches.l3_bytes > 0 {
                    costs.line_l3_ps
                } else if here.node == there.node {
                    costs.line_mem_ps
                } else {
                    costs.line_far_ps
                };
                lines(set, caches.largest()) * line_ps
            }
        };
        ps * (1000 - costs.refill_overlap_permille.min(1000)) / 1_000_000
    }

    /// Speeds of a CPU and its SMT siblings after one of them became busy or idle.
    pub(crate) fn update_speed(&mut self, cpu: u32) {
        let nr_siblings = self.topology.siblings[cpu as usize].len();
        if nr_siblings == 1 {
            return;
        }
        for i in 0..nr_siblings {
            let sibling = self.topology.siblings[cpu as usize][i];
            self.set_speed(sibling);
            self.memory_traffic_changes(sibling);
        }
    }

    /// Progress of a CPU per 1000 ns for one that waits for no memory: its core's part of it.
    pub(crate) fn core_speed(&self, cpu: u32) -> u64 {
        let siblings = &self.topology.siblings[cpu as usize];
        let is_busy = |c: &&u32| !self.rqs[**c as usize].curr.is_idle();
        let full = self.full_speed(cpu);
        if siblings.len() == 1 {
            return full;
        }
        // The parameter is for two busy siblings; more of them share the throughput of two.
        match siblings.iter().filter(is_busy).count() as u64 {
            0 | 1 => full,
            busy => (full * self.machine.costs.smt_permille * 2 / (1000 * busy)).clamp(1, full),
        }
    }

    /// Takes account of how fast the core and the memory are now.
    pub(crate) fn set_speed(&mut self, cpu: u32) {
        let speed = match self.rqs[cpu as usize].slowdown_permille {
            1000 => self.core_speed(cpu),
            slowdown => (self.core_speed(cpu) * 1000 / slowdown).max(1),
        };
        if self.rqs[cpu as usize].speed_permille != speed {
            self.settle(cpu);
            self.rqs[cpu as usize].speed_permille = speed;
            self.arm_work(cpu);
        }
    }

    pub(crate) fn full_speed(&self, cpu: u32) -> u64 {
        (u64::from(self.machine.cpus[cpu as usize].capacity) * 1000 / 1024).max(1)
    }
}

/// Bytes of a working set that were in a cache of `size` bytes and are not after `since` bytes of others.
fn lost(set: u64, size: u64, since: u64) -> u64 {
    let set_here = set.min(size);
    (set_here + since).saturating_sub(size).min(set_here)
}

/// Address spaces that ran on a CPU, most recent first, with the bytes each touched.
#[derive(Debug, Default)]
pub struct Spaces(Vec<(i32, u64)>);

impl Spaces {
    /// `space` runs now and touches `set` bytes. Returns the bytes that other spaces have touched since
    /// it last ran here: everything the stack remembers, if it never did.
    fn touch(&mut self, space: i32, set: u64, cache_bytes: u64) -> u64 {
        let mut others = 0;
        let mut at = None;
        for (i, (id, bytes)) in self.0.iter().enumerate() {
            if *id == space {
                at = Some(i);
                break;
            }
            others += bytes;
        }
        match at {
            Some(0) => self.0[0].1 = self.0[0].1.max(set),
            Some(i) => {
                let (id, bytes) = self.0.remove(i);
                self.0.insert(0, (id, bytes.max(set)));
            }
            None => {
                others = others.max(cache_bytes);
                self.0.insert(0, (space, set));
                // Entries beyond the cache size do not matter.
                let mut sum = 0;
                let keep = self.0.iter().take_while(|(_, bytes)| {
                    let fits = sum <= 2 * cache_bytes;
                    sum += bytes;
                    fits
                });
                let keep = keep.count();
                self.0.truncate(keep);
            }
        }
        others
    }
}

fn lines(set: u64, largest_cache: u64) -> u64 {
    set.min(largest_cache) / LINE_BYTES
}

/// The largest cache a CPU has.
trait Largest {
    fn largest(&self) -> u64;
}

impl Largest for tiltyard_model::machine::Caches {
    fn largest(&self) -> u64 {
        self.l1_bytes.max(self.l2_bytes).max(self.l3_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Spaces, lost};

    #[test]
    fn a_set_is_lost_as_far_as_others_need_its_room() {
        assert_eq!(lost(16, 64, 0), 0);
        assert_eq!(lost(16, 64, 48), 0);
        assert_eq!(lost(16, 64, 56), 8);
        assert_eq!(lost(16, 64, 1000), 16);
        assert_eq!(lost(100, 64, 0), 0);
    }

    #[test]
    fn address_spaces_push_each_other_out() {
        let mut spaces = Spaces::default();
        assert_eq!(spaces.touch(1, 10, 100), 100);
        assert_eq!(spaces.touch(1, 10, 100), 0);
        spaces.touch(2, 30, 100);
        spaces.touch(3, 5, 100);
        spaces.touch(2, 30, 100);
        assert_eq!(spaces.touch(1, 10, 100), 35);
    }
}
