// SPDX-License-Identifier: GPL-2.0-or-later
//! Detects runs that only look fine: tasks that get no CPU although one is idle, or because the scheduler lost them, and
//! CPUs on which scheduler code leaves no time for the task that should run.

use crate::bpf::cpumask::CpuSet;
use crate::cpu::Rq;
use crate::engine::{Engine, RunError};
use crate::ext::dsq::Dsq;
use crate::ext::exit::ExitKind;
use crate::ext::flags::DSQ_GLOBAL;
use crate::ext::ops::{Counts, OP_SLOTS, Op};
use crate::task::{Class, DsqRef, Life, OpsState, Task};
use std::cmp::Reverse;

/// Events that one instant may hold. At most all tasks wake, run and block at the same nanosecond, and each of these
/// takes a few events; 16 leave room. Anything beyond repeats itself, for example a timer that is started with a delay
/// of 0.
const EVENTS_PER_TASK: u32 = 16;

/// The same for up to 200,000 tasks: detected within about a second.
const EVENTS_PER_INSTANT: u32 = EVENTS_PER_TASK * 200_000;

/// A CPU makes progress if its task gets at least this part of the time, in 1/1000. A task that is preempted at
/// each tick of 1000 Hz by a scheduler that takes 900 us still gets a hundred times more.
const PROGRESS_PERMILLE: u64 = 1;

/// Minimum wait until the run's end for a task to count as left waiting: five of the kernel's default slices.
const WAITED_NS: u64 = 100_000_000;

/// The same if no task ever ran: longer than any switch takes.
const NOTHING_RAN_NS: u64 = 1_000_000;

/// Tasks left waiting, and where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranded {
    /// `name[pid]` of each.
    pub tasks: Vec<String>,
    /// How many of them never ran.
    pub never_ran: usize,
    /// "DSQ 0 was filled and never consumed", one for each place.
    pub places: Vec<String>,
    /// A CPU that the first of them may use and that was idle meanwhile. None: the scheduler lost some of them, whatever the
    /// CPUs did.
    pub idle_cpu: Option<u32>,
}

/// Since when a CPU has done nothing but overhead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    since_ns: u64,
    overhead_ns: u64,
    /// A task that yields or blocks makes progress, even if it does nothing else.
    leaves: u64,
}

/// State of [`Engine::check_progress`].
#[derive(Debug)]
pub struct Progress {
    marks: Vec<Mark>,
    /// What each op had done when the oldest mark was set.
    counts: Counts,
    /// Events at this instant, and what each op had done when half of the limit was reached.
    events: u32,
    instant_ns: u64,
    counts_at_half: Counts,
    /// When a task last ran for the first time after a wait of at least half of [`WAITED_NS`], and that wait.
    late_start_ns: u64,
    late_start_waited_ns: u64,
}

impl Progress {
    pub fn new(nr_cpus: usize) -> Progress {
        Progress {
            marks: vec![Mark::default(); nr_cpus],
            counts: Counts::default(),
            events: 0,
            instant_ns: 0,
            counts_at_half: Counts::default(),
            late_start_ns: 0,
            late_start_waited_ns: 0,
        }
    }

    /// A task runs for the first time, after a wait of `waited_ns`.
    #[inline]
    pub fn first_run(&mut self, now_ns: u64, waited_ns: u64) {
        if waited_ns >= WAITED_NS / 2 {
            self.late_start_ns = now_ns;
            self.late_start_waited_ns = waited_ns;
        }
    }

    /// Whether a new task that had waited for at least half of `patience_ns` ran for the first time in the last quarter of
    /// it. This is so while a scheduler slowly spreads many new tasks over many CPUs, until the last of them has run.
    fn backlog_moves(&self, now_ns: u64, patience_ns: u64) -> bool {
        let is_lately = now_ns - self.late_start_ns <= patience_ns / 4;
        is_lately && self.late_start_waited_ns >= patience_ns / 2
    }
}

impl Engine<'_> {
    /// One more event. Ends a run in which simulated time does not advance.
    #[inline]
    pub(crate) fn count_event(&mut self) {
        if self.progress.instant_ns != self.now {
            self.progress.instant_ns = self.now;
            self.progress.events = 0;
        }
        self.progress.events += 1;
        if self.progress.events >= EVENTS_PER_INSTANT / 2 {
            self.time_stands_still();
        }
    }

    #[cold]
    fn time_stands_still(&mut self) {
        let most = EVENTS_PER_INSTANT.max(EVENTS_PER_TASK * self.tasks.len() as u32);
        if self.progress.events == most / 2 {
            self.progress.counts_at_half = self.ext.counts;
        }
        if self.progress.events == most {
            let blame = self.blame(&self.progress.counts_at_half);
            let now = self.now;
            self.fail(RunError::Scheduler(format!(
                "simulated time does not advance: {most} events at {now} ns; {blame}"
            )));
        }
    }

    /// Looks for CPUs that have done nothing but overhead for a whole watchdog timeout, as the kernel's tick looks for
    /// a watchdog that did not get a CPU for that long. Called occasionally; `at_end`: a shorter time counts, too.
    pub(crate) fn check_progress(&mut self, at_end: bool) {
        let run_ns = self.now.saturating_sub(self.origin_ns);
        let patience_ns = match at_end {
            true => self.ext.timeout_ns.min(WAITED_NS.max(run_ns / 2)),
            false => self.ext.timeout_ns,
        };
        let mut any_reset = false;
        for cpu in 0..self.rqs.len() {
            let rq = &self.rqs[cpu];
            let (mark, overhead_ns) = (self.progress.marks[cpu], self.elapsed_overhead_ns(rq));
            let window_ns = self.now - mark.since_ns;
            let spent_ns = overhead_ns - mark.overhead_ns;
            let stuck = !rq.curr.is_idle()
                && rq.leaves == mark.leaves
                && !rq.stands_still
                && window_ns.saturating_sub(spent_ns) <= window_ns / 1000 * PROGRESS_PERMILLE;
            if !stuck {
                any_reset = true;
                self.progress.marks[cpu] = Mark {
                    since_ns: self.now,
                    overhead_ns,
                    leaves: self.rqs[cpu].leaves,
                };
            } else if window_ns >= patience_ns {
                return self.livelock(cpu as u32, window_ns);
            }
        }
        if any_reset {
            self.progress.counts = self.ext.counts;
        }
    }

    fn elapsed_overhead_ns(&self, rq: &Rq) -> u64 {
        let under_way = rq.work_start_ns.saturating_sub(self.now);
        rq.overhead_total_ns + rq.overhead_owed_ns.saturating_sub(under_way)
    }

    fn livelock(&mut self, cpu: u32, window_ns: u64) {
        let task = self.task_label(self.rqs[cpu as usize].curr);
        let blame = self.blame(&self.progress.counts);
        let ms = window_ns / 1_000_000;
        let message = format!(
            "watchdog failed to check in for {}.{:03}s: CPU {cpu} did nothing but scheduling, and {task} made no progress; {blame}",
            ms / 1000,
            ms % 1000,
        );
        self.ext_exit(ExitKind::ErrorStall, 0, message);
    }

    /// The callback that kicked most since then, or otherwise was called most.
    fn blame(&self, since: &Counts) -> String {
        let (now, before) = (&self.ext.counts, since);
        let most = |now: &[u64; OP_SLOTS], before: &[u64; OP_SLOTS]| {
            let counts = now.iter().zip(before).map(|(now, before)| now - before);
            // Ties: the first.
            let most = counts.enumerate().min_by_key(|(_, count)| Reverse(*count));
            most.filter(|(_, count)| *count > 0)
        };
        if let Some((slot, count)) = most(&now.kicks, &before.kicks) {
            return format!("{} kicked a CPU {count} times", Op::label(slot));
        }
        match most(&now.calls, &before.calls) {
            Some((slot, count)) => format!("{} was called {count} times", Op::label(slot)),
            None => "no callback of the scheduler was called".to_owned(),
        }
    }

    /// At the end of a run that nothing disturbed: tasks that wait although a CPU that they may use has been idle for as
    /// long as they do; half of that is enough for a task that never ran, or whose DSQ no CPU ever takes tasks from. Tasks
    /// that starve because others are preferred keep their CPUs busy and are not counted, nor are new tasks at the end of a
    /// backlog that moves (see `backlog_moves`). A task that ran before may belong to a scheduler that shares nothing between
    /// CPUs: it counts only if none of its CPUs is busy, or if no CPU ever takes tasks from its DSQ. Tasks that the scheduler
    /// has lost (see `is_lost`) count whatever the CPUs do.
    pub(crate) fn stranded(&self) -> Option<Stranded> {
        let nothing_ran = !self.tasks.iter().any(|t| t.spec.is_some() && t.ext.ran);
        let run_ns = self.now.saturating_sub(self.origin_ns);
        let patience_ns = match nothing_ran {
            true => NOTHING_RAN_NS,
            false => WAITED_NS.max(run_ns / 2),
        };
        let idle = self.idle_for(patience_ns);
        let waiting = self.tasks.iter().skip(1);
        let waiting: Vec<(&Task, Option<u32>)> = waiting
            .filter(|task| task.life == Life::Runnable && task.class == Class::Ext)
            .map(|task| (task, self.idle_beside(task, &idle, patience_ns)))
            .filter(|(task, idle_cpu)| idle_cpu.is_some() || self.is_lost(task))
            .collect();
        let (_, first_cpu) = *waiting.first()?;
        let idle_cpu = first_cpu.filter(|_| waiting.iter().all(|(_, cpu)| cpu.is_some()));
        let mut places = Vec::new();
        for (task, _) in &waiting {
            let place = self.place_of(task, waiting.len() == 1);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let label = |(task, _): &(&Task, Option<u32>)| self.task_label(task.id);
        Some(Stranded {
            tasks: waiting.iter().map(label).collect(),
            never_ran: waiting.iter().filter(|(task, _)| !task.ext.ran).count(),
            places,
            idle_cpu,
        })
    }

    /// CPUs that have been idle for at least that long.
    fn idle_for(&self, patience_ns: u64) -> CpuSet {
        let idle = self.rqs.iter().filter(|rq| {
            rq.curr.is_idle() && self.now.saturating_sub(rq.idle_since_ns) >= patience_ns
        });
        CpuSet::of(self.rqs.len() as u32, idle.map(|rq| rq.kernel.cpu as u32))
    }

    /// How long a task has waited; 0 if it is running.
    fn waited_ns(&self, task: &Task) -> u64 {
        match self.rqs[task.cpu as usize].curr == task.id {
            true => 0,
            false => self.now.saturating_sub(task.ext.waits_since_ns),
        }
    }

    /// Whether ops.enqueue returned without inserting a task, under a scheduler that neither has code to insert one later, nor
    /// ever has done so: it keeps no queue of its own, from which the task could still come.
    fn is_lost(&self, task: &Task) -> bool {
        let keeps_tasks = self.object.inserts_later || self.ext.keeps_tasks;
        let is_nowhere = matches!(task.ext.ops_state, OpsState::Queued(_));
        is_nowhere && !keeps_tasks && self.waited_ns(task) >= WAITED_NS
    }

    /// A CPU of `idle` that `task` may use, if it waited for as long.
    fn idle_beside(&self, task: &Task, idle: &CpuSet, patience_ns: u64) -> Option<u32> {
        let waited_ns = self.waited_ns(task);
        if waited_ns < patience_ns {
            return None;
        }
        let never_taken = || self.queue_of(task).is_some_and(|(_, dsq)| dsq.taken == 0);
        let never_ran = !task.ext.ran && !self.progress.backlog_moves(self.now, patience_ns);
        match never_ran || never_taken() {
            true => idle
                .first_and(&task.cpus)
                .or_else(|| self.mostly_idle(task, waited_ns)),
            false if task.cpus.is_subset(idle) => task.cpus.first(),
            false => None,
        }
    }

    /// A CPU that `task` may use and that was idle for at least half of the wait, with breaks.
    fn mostly_idle(&self, task: &Task, waited_ns: u64) -> Option<u32> {
        // Idle time is counted from 0, before the origin, too.
        let before_ns = self.now - waited_ns;
        let mut cpus = task.cpus.iter();
        cpus.find(|&cpu| {
            let rq = &self.rqs[cpu as usize];
            let now_ns = match rq.curr.is_idle() {
                true => self.now - rq.idle_since_ns,
                false => 0,
            };
            // If all of the time before was idle, so much of the wait was.
            let idle_ns = (rq.idle_total_ns + now_ns).saturating_sub(before_ns);
            idle_ns >= waited_ns.div_ceil(2)
        })
    }

    /// The DSQ that a task is on, and its name.
    fn queue_of(&self, task: &Task) -> Option<(String, &Dsq)> {
        let place = task.ext.dsq?;
        let dsq = self.dsq(place);
        let name = match place {
            DsqRef::Local(cpu) => format!("the local DSQ of CPU {cpu}"),
            DsqRef::User(_) | DsqRef::Global(_) => dsq_name(dsq.id),
        };
        Some((name, dsq))
    }

    /// Where a waiting task is, and what that shows about the scheduler.
    fn place_of(&self, task: &Task, is_alone: bool) -> String {
        let Some((name, dsq)) = self.queue_of(task) else {
            let them = if is_alone { "it" } else { "them" };
            return format!(
                "ops.enqueue inserted {them} into no DSQ, and nothing dispatched {them} later"
            );
        };
        match (dsq.taken, dsq.len) {
            (0, _) => format!("{name} was filled and never consumed"),
            (_, 1) => format!("{name} holds 1 task"),
            (_, len) => format!("{name} holds {len} tasks"),
        }
    }
}

/// As in scheduler sources: small numbers in decimal.
fn dsq_name(id: u64) -> String {
    match id {
        DSQ_GLOBAL => "the global DSQ".to_owned(),
        0..=0xffff => format!("DSQ {id}"),
        _ => format!("DSQ {id:#x}"),
    }
}
