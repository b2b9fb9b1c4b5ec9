// SPDX-License-Identifier: GPL-2.0-or-later
//! What the recorder knows of tasks, apps and CPUs.

use crate::grid::Depth;
use crate::histogram::{AppDurations, TaskDurations};
use crate::summary::{Latency, Switches};
use smallvec::SmallVec;

/// No slot: the idle task, or a tid that nobody introduced.
pub const NONE: u32 = u32::MAX;

/// The counters of a task, those first that most events need. Facts that no event needs stand apart in [`Facts`].
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Task {
    pub app: u32,
    /// Waits of a shell do not count for its app.
    pub shell: Shell,
    pub runtime_ns: u64,
    pub wait_ns: u64,
    pub sleep_ns: u64,
    pub longest_wait_ns: u64,
    pub overhead_ns: u64,
    pub wakeups: u64,
    pub migrations: u64,
    pub wakeup: TaskDurations,
    pub switches: Switches,
    pub preemptors: Preemptors,
    pub starved_episodes: u64,
    pub starved_ns: u64,
}

/// Whether a task is the shell of its app. Until a forked task has a name of its own, it has that of its parent; and a
/// shell takes that of a thread while it creates it, so that the thread inherits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    No,
    /// By the name that it was born with.
    Born,
    /// By a name that it took later.
    Named,
}

impl Shell {
    pub fn renamed(self, is_shell: bool) -> Shell {
        match self {
            _ if is_shell => Shell::Named,
            Shell::Named => Shell::Named,
            Shell::Born | Shell::No => Shell::No,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub tid: u32,
    pub tgid: u32,
    pub name: Name,
    pub nice: i8,
    pub born_ns: u64,
    pub end: Option<Box<End>>,
}

#[derive(Clone, Debug)]
pub struct End {
    pub time_ns: u64,
    /// Made when the task ends, so that its histogram can go.
    pub wakeup: Latency,
}

/// A name, in place if it is as short as the kernel's are.
#[derive(Clone, Debug)]
pub struct Name(SmallVec<[u8; 16]>);

impl Name {
    pub fn new(name: &str) -> Name {
        Name(SmallVec::from_slice(name.as_bytes()))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Facts {
    pub fn ended_ns(&self) -> Option<u64> {
        self.end.as_ref().map(|end| end.time_ns)
    }
}

impl Task {
    pub fn is_shell(&self) -> bool {
        self.shell != Shell::No
    }

    pub fn new(app: u32, is_shell: bool) -> Self {
        Task {
            app,
            shell: if is_shell { Shell::Born } else { Shell::No },
            runtime_ns: 0,
            wait_ns: 0,
            sleep_ns: 0,
            overhead_ns: 0,
            longest_wait_ns: 0,
            starved_episodes: 0,
            starved_ns: 0,
            wakeups: 0,
            migrations: 0,
            switches: Switches::default(),
            wakeup: TaskDurations::default(),
            preemptors: Preemptors::default(),
        }
    }
}

/// The counters of an app. Its runtime at any time t is `settled_ns + running * t - since_sum_ns`,
/// without a look at its tasks.
#[derive(Clone, Debug)]
pub struct App {
    pub name: String,
    pub settled_ns: u64,
    /// Tasks of this app on a CPU now.
    pub running: u64,
    /// Sum over these of the time since when they run.
    pub since_sum_ns: u64,
    /// First and last moment at which a task other than the shell ran or waited; the first is `u64::MAX` until there is one.
    pub active_from_ns: u64,
    pub active_until_ns: u64,
    /// Waits that began with a wakeup, and all other waits, here and in what follows without the shell's.
    pub wakeup: AppDurations,
    pub other_wait: AppDurations,
    pub longest_wait_ns: u64,
    /// The longest of those that were over before the end of the run.
    pub longest_over_ns: u64,
    pub starved_episodes: u64,
    pub starved_ns: u64,
    /// Cumulative runtime at the ends of the grid's buckets.
    pub runtime_samples: Vec<u64>,
    /// Preemptions suffered, by the app that took the CPU.
    pub preempted_by: Vec<u64>,
}

impl App {
    pub fn new(name: &str, filled: usize) -> Self {
        App {
            name: name.to_owned(),
            settled_ns: 0,
            running: 0,
            since_sum_ns: 0,
            active_from_ns: u64::MAX,
            active_until_ns: 0,
            wakeup: AppDurations::default(),
            other_wait: AppDurations::default(),
            longest_wait_ns: 0,
            longest_over_ns: 0,
            starved_episodes: 0,
            starved_ns: 0,
            runtime_samples: vec![0; filled],
            preempted_by: Vec::new(),
        }
    }

    pub fn runtime_at_ns(&self, now_ns: u64) -> u64 {
        // Each running task started at or before now, so the sum cannot exceed the product.
        self.settled_ns + (self.running * now_ns - self.since_sum_ns)
    }

    pub fn count_preemption(&mut self, by: u32) {
        let by = by as usize;
        if self.preempted_by.len() <= by {
            self.preempted_by.resize(by + 1, 0);
        }
        self.preempted_by[by] += 1;
    }
}

/// The time of one CPU: on two cache lines, the first of which most events need; there may be thousands of CPUs.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub struct CpuTime {
    /// Slot of the task that has it, or [`NONE`].
    current: u32,
    /// Overhead that struck while that task had it.
    current_overhead_ns: u64,
    settled_ns: u64,
    /// Overhead occupies the CPU until then.
    overhead_until_ns: u64,
    pub busy_ns: u64,
    pub idle_ns: u64,
    pub overhead_ns: u64,
    pub switches: u64,
    pub migrations_in: u64,
    pub depth: Depth,
}

impl CpuTime {
    pub fn new(origin_ns: u64) -> Self {
        CpuTime {
            current: NONE,
            current_overhead_ns: 0,
            settled_ns: origin_ns,
            overhead_until_ns: 0,
            busy_ns: 0,
            idle_ns: 0,
            overhead_ns: 0,
            switches: 0,
            migrations_in: 0,
            depth: Depth::default(),
        }
    }

    pub fn is_idle(&self) -> bool {
        self.current == NONE
    }

    /// From when on it can do work.
    pub fn overhead_until_ns(&self) -> u64 {
        self.overhead_until_ns
    }

    /// Overhead strikes now, up to when the CPU is settled.
    pub fn charge(&mut self, now_ns: u64, ns: u64) {
        self.overhead_until_ns = self.overhead_until_ns.max(now_ns).saturating_add(ns);
    }

    /// The task in this slot, or none, has it from now on. Returns which one had it, and the overhead that struck meanwhile.
    pub fn pass_to(&mut self, next: u32) -> Option<(usize, u64)> {
        let previous = std::mem::replace(&mut self.current, next);
        let overhead_ns = std::mem::take(&mut self.current_overhead_ns);
        (previous != NONE).then_some((previous as usize, overhead_ns))
    }

    /// Accounts the time up to now, from the origin on.
    pub fn settle(&mut self, now_ns: u64) {
        if now_ns <= self.settled_ns {
            return;
        }
        let overhead_end_ns = self.overhead_until_ns.clamp(self.settled_ns, now_ns);
        let overhead_ns = overhead_end_ns - self.settled_ns;
        let rest_ns = now_ns - overhead_end_ns;
        self.overhead_ns += overhead_ns;
        if self.current == NONE {
            self.idle_ns += rest_ns;
        } else {
            self.busy_ns += rest_ns;
            self.current_overhead_ns += overhead_ns;
        }
        self.settled_ns = now_ns;
    }
}

/// The tasks that preempted one task most often, in fixed memory (the space-saving sketch of Metwally,
/// Agrawal and El Abbadi): exact up to four rivals, beyond that a count may be too high by at most the
/// smallest one kept.
#[derive(Clone, Debug, Default)]
pub struct Preemptors {
    /// Most tasks of a run with very many are never preempted.
    slots: Option<Box<[(u32, u64); 4]>>,
}

impl Preemptors {
    pub fn count(&mut self, tid: u32) {
        let slots = self.slots.get_or_insert_default();
        if let Some(known) = slots.iter_mut().find(|s| s.0 == tid && s.1 > 0) {
            known.1 += 1;
            return;
        }
        let least = slots.iter_mut().min_by_key(|s| s.1).expect("four slots");
        *least = (tid, least.1 + 1);
    }

    /// Most frequent first.
    pub fn top(&self) -> Vec<(u32, u64)> {
        let slots = self.slots.iter().flat_map(|slots| slots.iter().copied());
        let mut top: Vec<_> = slots.filter(|s| s.1 > 0).collect();
        top.sort_by_key(|&(tid, count)| (std::cmp::Reverse(count), tid));
        top
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_small_because_there_may_be_a_million() {
        assert_eq!((size_of::<Task>(), size_of::<Facts>()), (184, 56));
        assert_eq!(size_of::<CpuTime>(), 128);
    }

    #[test]
    fn overhead_queues_up_and_is_neither_busy_nor_idle() {
        let mut cpu = CpuTime::new(100);
        cpu.charge(95, 10); // five of it before the origin
        cpu.charge(98, 2); // follows: until 107
        cpu.settle(90);
        cpu.settle(120);
        assert_eq!(cpu.pass_to(3), None);
        cpu.settle(125);
        cpu.charge(125, 100); // beyond the end
        cpu.settle(130);
        assert_eq!(cpu.pass_to(4), Some((3, 5)));
        assert_eq!(cpu.pass_to(NONE), Some((4, 0)));
        assert_eq!((cpu.busy_ns, cpu.idle_ns, cpu.overhead_ns), (5, 13, 12));
    }

    #[test]
    fn the_most_frequent_preemptor_survives_many_rivals() {
        let mut top = Preemptors::default();
        for rival in 1..=100u32 {
            top.count(7);
            top.count(1000 + rival);
        }
        assert_eq!(top.top()[0], (7, 100));
        assert_eq!(top.top().len(), 4);
    }

    #[test]
    fn runtime_of_an_app_needs_no_look_at_its_tasks() {
        let mut app = App::new("a", 0);
        app.settled_ns = 5;
        app.running = 2;
        app.since_sum_ns = 10 + 14;
        assert_eq!(app.runtime_at_ns(20), 5 + 10 + 6);
    }
}
