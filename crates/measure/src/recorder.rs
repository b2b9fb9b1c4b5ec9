// SPDX-License-Identifier: GPL-2.0-or-later
//! The sink that turns events into counters, as they come.

use crate::grid::{Grid, fold_samples};
use crate::histogram::AppDurations;
use crate::probe::{self, Probe};
use crate::states::{Introduced, State, States, Transition, Wait};
use crate::summary::{MAX_STARVATION, Switches};
use crate::task::{App, CpuTime, End, Facts, NONE, Name, Task};
use crate::waste::Waste;
use std::collections::BTreeMap;
use std::ops::Range;
use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, Overhead, PrevState, SwitchCause, TaskInfo, Tid,
};

/// Points of a curve over time (cumulative runtime, probes of an app).
const FINE_POINTS: usize = 1024;

/// Points of what exists many times over (depth per CPU, probes of single tasks), for few CPUs; see
/// [`coarse_points`].
const COARSE_POINTS: usize = 512;

/// Depth buckets over all CPUs together, about: half a MiB.
const COARSE_BUDGET: usize = 32 * 1024;

/// Closing a bucket visits all CPUs, so on a machine of more CPUs than this, buckets are wider than 1 ms from the beginning.
const CPUS_PER_MS: usize = 1024;

/// What a [`Recorder`] must know beforehand.
#[derive(Clone, Copy, Debug)]
pub struct RecorderSpec {
    pub nr_cpus: usize,
    /// The start of the workload: what came before establishes state and does not count.
    pub origin_ns: u64,
    /// A wait longer than this is starvation; [`RecorderSpec::STARVATION_NS`] unless there is a reason.
    pub starvation_ns: u64,
}

impl RecorderSpec {
    /// One second: far beyond any scheduling period, well below the kernel's 30 s watchdog.
    pub const STARVATION_NS: u64 = 1_000_000_000;
}

/// Receives the events of one run and keeps its metrics. Events must name CPUs below `nr_cpus` and tids below 2^24.
pub struct Recorder {
    pub(crate) spec: RecorderSpec,
    pub(crate) states: States,
    /// The next boundary of either grid.
    boundary_ns: u64,
    pub(crate) fine: Grid,
    pub(crate) coarse: Grid,
    /// By slot, as `facts`.
    pub(crate) tasks: Vec<Task>,
    pub(crate) facts: Vec<Facts>,
    pub(crate) apps: Vec<App>,
    pub(crate) cpus: Vec<CpuTime>,
    pub(crate) waste: Waste,
    pub(crate) classes: Vec<Class>,
    pub(crate) probes: Vec<Probe>,
    tasks_per_app: u32,
    /// Probes that are kept; `None`: all.
    probe_names: Option<Vec<String>>,
    /// Whether how long single waits take is kept.
    distributions: bool,
    pub(crate) switches: Switches,
    pub(crate) overhead: Overhead,
    pub(crate) migrations: u64,
    pub(crate) starvation: Vec<Starved>,
    pub(crate) events: u64,
    pub(crate) irregular: u64,
}

/// A class of requests or marks.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub name: String,
    /// By app: tasks of several may make requests of one class.
    pub requests: BTreeMap<u32, Requests>,
    pub marks: u64,
    pub first_mark_ns: u64,
    pub last_mark_ns: u64,
}

/// Requests of one class and app.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    pub latency: AppDurations,
    pub first_begin_ns: u64,
    pub last_end_ns: u64,
}

/// A wait longer than the bound; times on the arena's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    pub slot: u32,
    pub begin_ns: u64,
    pub wait_ns: u64,
    pub open: bool,
}

fn coarse_points(nr_cpus: usize) -> usize {
    let share = (COARSE_BUDGET / nr_cpus.max(1)).clamp(64, COARSE_POINTS);
    share - share % 2
}

impl Recorder {
    pub fn new(spec: RecorderSpec) -> Self {
        let fine = Grid::new(spec.origin_ns, FINE_POINTS);
        let coarse = Grid::new(spec.origin_ns, coarse_points(spec.nr_cpus));
        let coarse = coarse.wider(spec.nr_cpus.div_ceil(CPUS_PER_MS) as u64);
        Recorder {
            spec,
            states: States::default(),
            boundary_ns: fine.boundary_ns().min(coarse.boundary_ns()),
            fine,
            coarse,
            tasks: Vec::new(),
            facts: Vec::new(),
            apps: Vec::new(),
            cpus: vec![CpuTime::new(spec.origin_ns); spec.nr_cpus],
            waste: Waste::new(spec.nr_cpus, spec.origin_ns),
            classes: Vec::new(),
            probes: Vec::new(),
            tasks_per_app: probe::TASKS_PER_APP,
            probe_names: None,
            distributions: true,
            switches: Switches::default(),
            overhead: Overhead::default(),
            migrations: 0,
            starvation: Vec::new(),
            events: 0,
            irregular: 0,
        }
    }

    /// Probes keep series of `count` tasks of each app one by one, the first ones seen, instead of a few.
    /// Must be called before the first event.
    pub fn with_probed_tasks(mut self, count: u32) -> Recorder {
        self.tasks_per_app = count;
        self
    }

    /// Probes of other names are not kept. Must be called before the first event.
    pub fn with_probes_named(mut self, names: Vec<String>) -> Recorder {
        self.probe_names = Some(names);
        self
    }

    /// Distributions of waits and of wakeup latencies stay empty; sums and extremes of all waits are there. To be called
    /// before the first event.
    pub fn without_distributions(mut self) -> Recorder {
        self.distributions = false;
        self
    }

    fn new_probe(&self, name: &str, per_cpu: bool) -> Probe {
        let among = |names: &Vec<String>| names.iter().any(|kept| kept == name);
        let kept = self.probe_names.as_ref().is_none_or(among);
        Probe::new(name, per_cpu, self.tasks_per_app, kept)
    }

    /// Events count from the origin on.
    fn counts(&self) -> bool {
        self.states.now_ns() >= self.spec.origin_ns
    }

    /// Closes every bucket that ends at or before `to_ns`.
    pub(crate) fn cross(&mut self, to_ns: u64) {
        while self.boundary_ns <= to_ns {
            let at_ns = self.boundary_ns;
            if self.fine.boundary_ns() == at_ns {
                self.close_fine(at_ns);
            }
            if self.coarse.boundary_ns() == at_ns {
                self.close_coarse(at_ns);
            }
            self.boundary_ns = self.fine.boundary_ns().min(self.coarse.boundary_ns());
        }
    }

    fn close_fine(&mut self, at_ns: u64) {
        let fold = self.fine.close();
        for app in &mut self.apps {
            let runtime_ns = app.runtime_at_ns(at_ns);
            app.runtime_samples.push(runtime_ns);
            if fold {
                fold_samples(&mut app.runtime_samples);
            }
        }
        for probe in &mut self.probes {
            probe.close_fine(fold);
        }
    }

    fn close_coarse(&mut self, at_ns: u64) {
        let fold = self.coarse.close();
        for cpu in &mut self.cpus {
            cpu.depth.close(at_ns, self.spec.origin_ns);
            if fold {
                cpu.depth.fold();
            }
        }
        self.waste.close(at_ns);
        if fold {
            self.waste.fold();
        }
        for probe in &mut self.probes {
            probe.close_coarse(fold);
        }
    }

    fn app(&mut self, name: &str) -> u32 {
        let known = self.apps.iter().position(|app| app.name == name);
        known.unwrap_or_else(|| {
            self.apps.push(App::new(name, self.fine.filled));
            self.apps.len() - 1
        }) as u32
    }

    fn class(&mut self, class: u16) -> &mut Class {
        while self.classes.len() <= usize::from(class) {
            self.classes.push(Class {
                name: format!("class {}", self.classes.len()),
                requests: BTreeMap::new(),
                marks: 0,
                first_mark_ns: 0,
                last_mark_ns: 0,
            });
        }
        &mut self.classes[usize::from(class)]
    }

    /// The slot of a task; one that nobody introduced gets one and counts as irregular.
    #[inline]
    fn slot(&mut self, tid: Tid) -> usize {
        match self.states.slot(tid) {
            Some(slot) => slot,
            None => self.adopt(tid),
        }
    }

    #[cold]
    fn adopt(&mut self, tid: Tid) -> usize {
        let stranger = self.states.stranger(tid);
        self.task(&stranger);
        self.states.slot(tid).expect("just introduced")
    }

    /// Accounts the time that a task spent in the state that it leaves now.
    #[inline(always)]
    pub(crate) fn account(&mut self, transition: Transition) {
        let (now_ns, origin_ns) = (self.states.now_ns(), self.spec.origin_ns);
        let Transition {
            slot,
            from,
            since_ns,
            to,
            ..
        } = transition;
        let task = &mut self.tasks[slot];
        let app = &mut self.apps[task.app as usize];
        let from_ns = since_ns.clamp(origin_ns, now_ns.max(origin_ns));
        let span_ns = now_ns.saturating_sub(from_ns);
        if from.queued() && span_ns > 0 && !task.is_shell() {
            app.active_from_ns = app.active_from_ns.min(from_ns);
            app.active_until_ns = now_ns;
        }
        let runs = matches!(to, State::Running { .. });
        match from {
            State::Running { .. } => {
                task.runtime_ns += span_ns;
                app.settled_ns += span_ns;
                app.running -= 1;
                app.since_sum_ns -= from_ns;
            }
            State::Waiting(wait) => {
                task.wait_ns += span_ns;
                task.longest_wait_ns = task.longest_wait_ns.max(span_ns);
                if !task.is_shell() {
                    app.longest_wait_ns = app.longest_wait_ns.max(span_ns);
                }
                if self.distributions && runs && since_ns >= origin_ns {
                    let woken = wait == Wait::Woken;
                    if woken {
                        task.wakeup.add(span_ns);
                    }
                    if !task.is_shell() {
                        let of_app = match woken {
                            true => &mut app.wakeup,
                            false => &mut app.other_wait,
                        };
                        of_app.add(span_ns);
                    }
                }
            }
            State::Sleeping => task.sleep_ns += span_ns,
            State::Dead => {}
        }
        if runs {
            app.running += 1;
            app.since_sum_ns += now_ns.max(origin_ns);
        }
        if matches!(from, State::Waiting(_)) && span_ns > self.spec.starvation_ns {
            // From waiting to waiting: the run ends here and the wait does not.
            let open = matches!(to, State::Waiting(_));
            self.starved(slot, now_ns - span_ns, span_ns, open);
        }
        self.requeue(transition.from_queue, transition.to_queue);
        self.follow_wait(&transition);
    }

    /// A task that begins or ceases to wait changes which idle CPUs could be put to work.
    #[inline]
    fn follow_wait(&mut self, transition: &Transition) {
        let now_ns = self.states.now_ns();
        let waits = |state: State| matches!(state, State::Waiting(_));
        match (waits(transition.from), waits(transition.to)) {
            (false, true) => {
                let queue = transition.to_queue.expect("who waits has a runqueue");
                self.waste.waits(now_ns, transition.slot, queue);
            }
            (true, false) => {
                let queue = transition.to_queue.or(transition.from_queue);
                let queue = queue.expect("who waited had a runqueue");
                self.waste.waits_no_longer(now_ns, transition.slot, queue);
            }
            _ => {}
        }
    }

    /// Moves one task from one CPU's depth to another's.
    #[inline]
    fn requeue(&mut self, from: Option<u32>, to: Option<u32>) {
        if from == to {
            return;
        }
        let (now_ns, origin_ns) = (self.states.now_ns(), self.spec.origin_ns);
        for (cpu, delta) in [(from, -1), (to, 1)] {
            if let Some(cpu) = cpu {
                self.cpus[cpu as usize].depth.add(now_ns, origin_ns, delta);
            }
        }
    }

    fn starved(&mut self, slot: usize, begin_ns: u64, wait_ns: u64, open: bool) {
        let task = &mut self.tasks[slot];
        task.starved_episodes += 1;
        task.starved_ns += wait_ns;
        if task.is_shell() {
            return;
        }
        let app = &mut self.apps[task.app as usize];
        app.starved_episodes += 1;
        app.starved_ns += wait_ns;
        let episode = Starved {
            slot: slot as u32,
            begin_ns,
            wait_ns,
            open,
        };
        let at = self.starvation.partition_point(|e| e.wait_ns >= wait_ns);
        self.starvation.insert(at, episode);
        self.starvation.truncate(MAX_STARVATION);
    }

    /// Accounts a CPU's time up to now; the task in slot `next` has it from then on. The one that had it gets its
    /// overhead all at once: of very many, not even the one that runs is at hand.
    #[inline]
    pub(crate) fn pass_cpu(&mut self, cpu: usize, now_ns: u64, next: u32) {
        self.cpus[cpu].settle(now_ns);
        if let Some((slot, overhead_ns)) = self.cpus[cpu].pass_to(next) {
            self.tasks[slot].overhead_ns += overhead_ns;
        }
    }

    #[inline]
    fn switch(
        &mut self,
        cpu: Cpu,
        prev: Tid,
        prev_state: PrevState,
        cause: SwitchCause,
        next: Tid,
    ) {
        let counts = self.counts();
        if counts {
            self.switches.count(cause);
            self.cpus[cpu.index()].switches += 1;
        }
        let prev_slot = (!prev.is_idle()).then(|| self.slot(prev));
        let next_slot = (!next.is_idle()).then(|| self.slot(next));
        if let Some(slot) = prev_slot {
            let left = self.states.leave(slot, cpu, prev_state, cause);
            self.leave(left);
            if counts {
                self.tasks[slot].switches.count(cause);
                if let Some(by) = next_slot {
                    self.count_preemption(slot, prev_state, cause, by);
                }
            }
        }
        if let Some(slot) = next_slot {
            let runs = self.states.run(slot, cpu);
            self.account(runs);
        }
        let next = next_slot.map_or(NONE, |slot| slot as u32);
        self.pass_cpu(cpu.index(), self.states.now_ns(), next);
        self.follow_cpu(cpu.index());
    }

    /// Another task has the CPU, or it has more overhead.
    #[inline]
    fn follow_cpu(&mut self, cpu: usize) {
        let (now_ns, time) = (self.states.now_ns(), &self.cpus[cpu]);
        match time.is_idle() {
            true => self
                .waste
                .free_from(now_ns, cpu as u32, time.overhead_until_ns()),
            false => self.waste.occupied(now_ns, cpu as u32),
        }
    }

    /// A task leaves the CPU.
    #[inline]
    fn leave(&mut self, transition: Transition) {
        self.account(transition);
        if transition.to == State::Dead {
            let slot = transition.slot;
            let task = &mut self.tasks[slot];
            self.facts[slot].end = Some(Box::new(End {
                time_ns: self.states.now_ns(),
                wakeup: task.wakeup.summary(),
            }));
            task.wakeup = crate::histogram::TaskDurations::default();
        }
    }

    #[inline]
    fn charge(&mut self, cpu: usize, overhead: &Overhead) {
        let now_ns = self.states.now_ns();
        let time = &mut self.cpus[cpu];
        time.settle(now_ns);
        time.charge(now_ns, overhead.total_ns());
        if time.is_idle() {
            self.follow_cpu(cpu);
        }
        if self.counts() {
            self.overhead += overhead;
        }
    }

    /// An event that is no overhead. A function of its own: it saves registers that overhead does not need.
    #[inline(never)]
    fn take(&mut self, cpu: Cpu, kind: &EventKind) {
        match *kind {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            } => self.switch(cpu, prev, prev_state, cause, next),
            EventKind::Wakeup { task, target, .. } => self.wake(task, target, Wait::Woken),
            EventKind::WakeupNew { task, target } => self.wake(task, target, Wait::Forked),
            EventKind::Migrate { task, to, .. } => self.migrate(task, to),
            // Births come through `task`, deaths through the last switch. No figure is of the scheduler's insides.
            EventKind::Fork { .. }
            | EventKind::Exit { .. }
            | EventKind::Access { .. }
            | EventKind::RunqueueLock { .. } => {}
            EventKind::Nice { task, nice } => {
                let slot = self.slot(task);
                self.facts[slot].nice = nice;
            }
            EventKind::Affinity { task, set } => self.bind(task, set),
            EventKind::Request {
                task,
                class,
                start_ns,
            } => self.request(task, class, start_ns),
            EventKind::Mark { class, .. } => self.mark(class),
            EventKind::Probe { probe, key, value } => self.probe(probe, key, value),
            EventKind::Overhead(ref overhead) => self.charge(cpu.index(), overhead),
        }
    }

    fn count_preemption(&mut self, slot: usize, state: PrevState, cause: SwitchCause, by: usize) {
        let took = matches!(cause, SwitchCause::Preempt | SwitchCause::HigherClass);
        if !took || state != PrevState::Runnable {
            return;
        }
        let (by_app, by_tid) = (self.tasks[by].app, self.facts[by].tid);
        let task = &mut self.tasks[slot];
        task.preemptors.count(by_tid);
        self.apps[task.app as usize].count_preemption(by_app);
    }

    #[inline]
    fn wake(&mut self, tid: Tid, target: Cpu, wait: Wait) {
        let slot = self.slot(tid);
        if let Some(transition) = self.states.wake(slot, target, wait) {
            self.account(transition);
            let counts = wait == Wait::Woken && self.counts();
            self.tasks[slot].wakeups += u64::from(counts);
        }
    }

    fn migrate(&mut self, tid: Tid, to: Cpu) {
        let slot = self.slot(tid);
        if self.counts() {
            self.tasks[slot].migrations += 1;
            self.migrations += 1;
            self.cpus[to.index()].migrations_in += 1;
        }
        if let Some(from) = self.states.migrate(slot, to) {
            self.requeue(Some(from), Some(to.0));
        }
    }

    fn bind(&mut self, tid: Tid, set: u32) {
        let slot = self.slot(tid);
        let waits_on = self.states.waits_on(slot);
        let is_declared = self.waste.bind(self.states.now_ns(), slot, set, waits_on);
        self.irregular += u64::from(!is_declared);
    }

    fn request(&mut self, tid: Tid, class: u16, start_ns: u64) {
        let slot = self.slot(tid);
        if start_ns < self.spec.origin_ns {
            return;
        }
        let (app, now_ns) = (self.tasks[slot].app, self.states.now_ns());
        let of_app = self.class(class).requests.entry(app);
        let requests = of_app.or_insert_with(|| Requests {
            latency: AppDurations::default(),
            first_begin_ns: u64::MAX,
            last_end_ns: 0,
        });
        requests.latency.add(now_ns.saturating_sub(start_ns));
        requests.first_begin_ns = requests.first_begin_ns.min(start_ns);
        requests.last_end_ns = now_ns;
    }

    fn mark(&mut self, class: u16) {
        if !self.counts() {
            return;
        }
        let now_ns = self.states.now_ns();
        let class = self.class(class);
        if class.marks == 0 {
            class.first_mark_ns = now_ns;
        }
        class.marks += 1;
        class.last_mark_ns = now_ns;
    }

    fn probe(&mut self, probe: u16, key: u32, value: i64) {
        if !self.counts() {
            return;
        }
        let filled = (self.fine.filled, self.coarse.filled);
        let Some(known) = self.probes.get(usize::from(probe)) else {
            self.irregular += 1;
            return;
        };
        if !known.kept {
            return;
        }
        let (index, app) = match known.per_cpu {
            true if key as usize >= self.cpus.len() => {
                self.irregular += 1;
                return;
            }
            true => (key as usize, None),
            false if key == 0 => return, // the idle task has no figures
            false => {
                let slot = self.slot(Tid(key));
                (slot, Some(self.tasks[slot].app))
            }
        };
        self.probes[usize::from(probe)].add(index, key, app, value, filled);
    }
}

impl EventSink for Recorder {
    fn task(&mut self, info: &TaskInfo) {
        match self.states.introduce(info) {
            Introduced::Idle => return,
            Introduced::Known(slot) => {
                self.facts[slot].name = Name::new(&info.name);
                let task = &mut self.tasks[slot];
                task.shell = task.shell.renamed(info.is_shell);
                return;
            }
            Introduced::New(_) => {}
        }
        let app = self.app(&info.app);
        self.tasks.push(Task::new(app, info.is_shell));
        self.facts.push(Facts {
            tid: info.tid.0,
            tgid: info.tgid.0,
            name: Name::new(&info.name),
            nice: info.nice,
            born_ns: info.born_ns,
            end: None,
        });
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        self.events += 1;
        self.states.advance(event.time_ns);
        let now_ns = self.states.now_ns();
        if now_ns >= self.boundary_ns {
            self.cross(now_ns);
        }
        self.waste.advance(now_ns);
        match &event.kind {
            EventKind::Overhead(overhead) => self.charge(event.cpu.index(), overhead),
            kind => self.take(event.cpu, kind),
        }
    }

    fn cpu_set(&mut self, _set: u32, cpus: &[Range<u32>]) {
        // Affinities are known of all tasks or of none.
        if self.tasks.is_empty() || self.waste.is_known() {
            self.waste.cpu_set(cpus);
        }
    }

    fn request_class(&mut self, class: u16, name: &str) {
        self.class(class).name = name.to_owned();
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        let probe = usize::from(probe);
        while self.probes.len() < probe {
            self.probes.push(self.new_probe("(unnamed)", false));
        }
        let new = self.new_probe(name, per_cpu);
        if self.probes.len() == probe {
            self.probes.push(new);
        } else {
            self.probes[probe] = new;
        }
    }

    fn uses_access(&self, _callback: &str, _place: &str) -> bool {
        false
    }
}
