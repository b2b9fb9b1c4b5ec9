// SPDX-License-Identifier: GPL-2.0-or-later
//! The sink that turns events into rows, as they come.

use std::collections::HashMap;

use tiltyard_measure::states::{State, Transition, Wait};
use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SwitchCause, TaskInfo,
    Tid,
};

use crate::rows::{BatchSink, Rows, Value};
use crate::tasks::{IDLE, Tasks, state_name, utid_of};

/// Receives the events of one run and gives rows to `B`. Its interpretation of events agrees with
/// [`tiltyard_measure::Recorder`], because both follow [`tiltyard_measure::states`].
pub struct EventTables<B: BatchSink> {
    run: u32,
    origin_ns: u64,
    tasks: Tasks,
    cpus: Vec<OnCpu>,
    classes: HashMap<u16, String>,
    probes: HashMap<u16, Probe>,
    /// The probes that have rows; `None`: all.
    probe_names: Option<Vec<String>>,
    callbacks: Names,
    places: Names,
    /// Runqueues that each CPU has locked, in that order.
    locked: HashMap<Cpu, Vec<Cpu>>,
    /// Number of the track by probe and `utid` or CPU.
    tracks: HashMap<(u16, u32), u64>,
    ids: Ids,
    rows: AllRows,
    out: B,
}

/// Names by number, of callbacks or of places.
#[derive(Default)]
struct Names {
    /// Those whose accesses have rows; `None`: all.
    kept: Option<Vec<String>>,
    /// `None` if it is not kept.
    of: HashMap<u16, Option<String>>,
}

impl Names {
    fn keeps(&self, name: &str) -> bool {
        let among = |kept: &Vec<String>| kept.iter().any(|kept| kept == name);
        self.kept.as_ref().is_none_or(among)
    }

    fn declare(&mut self, number: u16, name: &str) {
        let kept = self.keeps(name).then(|| name.to_owned());
        self.of.insert(number, kept);
    }

    /// The name of this number if it is kept; empty if it has not been declared.
    fn of(&self, number: u16) -> Option<&str> {
        match self.of.get(&number) {
            Some(name) => name.as_deref(),
            None => self.keeps("").then_some(""),
        }
    }
}

/// A probe of the scheduler.
struct Probe {
    name: String,
    per_cpu: bool,
    is_kept: bool,
}

/// The next number of each table whose rows have one.
#[derive(Default)]
struct Ids {
    sched_slice: u64,
    thread_state: u64,
    slice: u64,
    counter: u64,
}

struct AllRows {
    sched_slice: Rows,
    thread_state: Rows,
    wakeup: Rows,
    migration: Rows,
    nice_change: Rows,
    overhead: Rows,
    slice: Rows,
    instant: Rows,
    counter_track: Rows,
    counter: Rows,
    access: Rows,
    runqueue_lock: Rows,
}

impl AllRows {
    fn all(&mut self) -> [&mut Rows; 12] {
        [
            &mut self.sched_slice,
            &mut self.thread_state,
            &mut self.wakeup,
            &mut self.migration,
            &mut self.nice_change,
            &mut self.overhead,
            &mut self.slice,
            &mut self.instant,
            &mut self.counter_track,
            &mut self.counter,
            &mut self.access,
            &mut self.runqueue_lock,
        ]
    }
}

/// What a CPU is at.
#[derive(Clone, Copy, Debug, Default)]
struct OnCpu {
    utid: u32,
    since_ns: u64,
    slice_id: u64,
    /// Of this slice.
    overhead_ns: u64,
    settled_ns: u64,
    /// Overhead that struck occupies the CPU until then: one follows the other.
    overhead_until_ns: u64,
}

impl OnCpu {
    fn settle(&mut self, now_ns: u64) {
        let until_ns = self.overhead_until_ns.clamp(self.settled_ns, now_ns);
        self.overhead_ns += until_ns - self.settled_ns;
        self.settled_ns = now_ns;
    }

    fn charge(&mut self, now_ns: u64, ns: u64) {
        self.overhead_until_ns = self.overhead_until_ns.max(now_ns).saturating_add(ns);
    }
}

impl<B: BatchSink> EventTables<B> {
    /// `run` fills the first column of all rows; `origin_ns` is the time 0 of all others.
    pub fn new(run: u32, origin_ns: u64, out: B) -> Self {
        let rows = |table: &str| Rows::new(table, run);
        EventTables {
            run,
            origin_ns,
            tasks: Tasks::default(),
            cpus: Vec::new(),
            classes: HashMap::new(),
            probes: HashMap::new(),
            probe_names: None,
            callbacks: Names::default(),
            places: Names::default(),
            locked: HashMap::new(),
            tracks: HashMap::new(),
            ids: Ids::default(),
            rows: AllRows {
                sched_slice: rows("sched_slice"),
                thread_state: rows("thread_state"),
                wakeup: rows("wakeup"),
                migration: rows("migration"),
                nice_change: rows("nice_change"),
                overhead: rows("overhead"),
                slice: rows("slice"),
                instant: rows("instant"),
                counter_track: rows("counter_track"),
                counter: rows("counter"),
                access: rows("access"),
                runqueue_lock: rows("runqueue_lock"),
            },
            out,
        }
    }

    /// Keeps the rows of these tables only, besides those of tasks. What is kept is the same as without.
    pub fn with_tables(mut self, is_kept: impl Fn(&str) -> bool) -> Self {
        for rows in self.rows.all() {
            if !is_kept(rows.name()) {
                rows.drop_all();
            }
        }
        self
    }

    /// Keeps only the rows of probes with these names, as if the scheduler had no others.
    pub fn with_probes_named(mut self, names: Vec<String>) -> Self {
        self.probe_names = Some(names);
        self
    }

    /// Keeps only the accesses in callbacks with these names.
    pub fn with_accesses_in(mut self, callbacks: Vec<String>) -> Self {
        self.callbacks.kept = Some(callbacks);
        self
    }

    /// Keeps only the accesses to places with these names.
    pub fn with_accesses_to(mut self, places: Vec<String>) -> Self {
        self.places.kept = Some(places);
        self
    }

    /// Ends what is under way at `end_ns` on the arena's clock, or at the last event if that came
    /// later, and hands over the rest. A table without a row has no batch.
    pub fn finish(mut self, end_ns: u64) -> B {
        let last_ns = self.now_ns();
        self.tasks
            .states
            .advance(end_ns.max(last_ns).max(self.origin_ns));
        for cpu in 0..self.cpus.len() {
            self.end_slice(cpu, None, None);
        }
        for slot in self.tasks.states.slots() {
            let transition = self.tasks.states.close(slot);
            self.transition(transition);
        }
        let origin_ns = self.origin_ns;
        let ts = |ns: u64| ns as i64 - origin_ns as i64;
        self.tasks.write(self.run, &mut self.out, ts);
        for rows in self.rows.all() {
            rows.flush(&mut self.out);
        }
        self.out
    }

    fn ts(&self, ns: u64) -> i64 {
        ns as i64 - self.origin_ns as i64
    }

    fn now_ns(&self) -> u64 {
        self.tasks.states.now_ns()
    }

    fn now(&self) -> Value<'static> {
        self.ts(self.now_ns()).into()
    }

    /// The number of a task; one that nobody introduced gets one.
    #[inline]
    fn utid(&mut self, tid: Tid) -> u32 {
        match self.tasks.utid(tid) {
            Some(utid) => utid,
            None => self.adopt(tid),
        }
    }

    #[cold]
    fn adopt(&mut self, tid: Tid) -> u32 {
        let stranger = self.tasks.states.stranger(tid);
        self.task(&stranger);
        self.tasks.utid(tid).unwrap_or(IDLE)
    }

    fn cpu(&mut self, cpu: Cpu) -> &mut OnCpu {
        if self.cpus.len() <= cpu.index() {
            self.cpus.resize(cpu.index() + 1, OnCpu::default());
        }
        &mut self.cpus[cpu.index()]
    }

    /// A row for the state that a task was in.
    #[inline]
    fn transition(&mut self, transition: Transition) {
        let now_ns = self.now_ns();
        let Transition { from, since_ns, .. } = transition;
        let utid = utid_of(transition.slot);
        let thread = self.tasks.get(utid);
        let (id, waker, born_ns) = (thread.state_id, thread.waker.take(), thread.born_ns);
        // Most tasks are woken at the moment of their birth: they never slept.
        if from == State::Sleeping && since_ns == born_ns && now_ns <= born_ns {
            return;
        }
        thread.state_id = self.ids.thread_state;
        self.ids.thread_state += 1;
        let cpu = match from {
            State::Running { cpu } => Some(cpu),
            _ => None,
        };
        let row: [Value; 7] = [
            id.into(),
            self.ts(since_ns).into(),
            now_ns.saturating_sub(since_ns).into(),
            cpu.into(),
            utid.into(),
            state_name(from).into(),
            waker.into(),
        ];
        self.rows.thread_state.push_to(&mut self.out, &row);
    }

    fn switch(
        &mut self,
        cpu: Cpu,
        prev: Tid,
        prev_state: PrevState,
        cause: SwitchCause,
        next: Tid,
    ) {
        let (prev, next) = (self.utid(prev), self.utid(next));
        let left =
            Tasks::slot(prev).map(|slot| self.tasks.states.leave(slot, cpu, prev_state, cause));
        let (now_ns, running) = (self.now_ns(), self.cpu(cpu).utid);
        let end = left.filter(|_| running == prev).map(|t| (t.to, cause));
        self.end_slice(cpu.index(), end, (next != IDLE).then_some(next));
        if let Some(left) = left {
            self.transition(left);
            if left.to == State::Dead {
                self.tasks.end(prev, now_ns);
            }
        }
        if let Some(slot) = Tasks::slot(next) {
            let runs = self.tasks.states.run(slot, cpu);
            self.transition(runs);
        }
        let slice_id = self.ids.sched_slice;
        self.ids.sched_slice += u64::from(next != IDLE);
        let on = self.cpu(cpu);
        (on.utid, on.since_ns, on.slice_id) = (next, now_ns, slice_id);
    }

    /// A row for the task that had a CPU, if any. How it ended is not known at the end of the run,
    /// nor where events were lost.
    fn end_slice(&mut self, cpu: usize, end: Option<(State, SwitchCause)>, next: Option<u32>) {
        let now_ns = self.now_ns();
        let on = &mut self.cpus[cpu];
        on.settle(now_ns);
        let overhead_ns = std::mem::take(&mut on.overhead_ns);
        let on = *on;
        if on.utid == IDLE {
            return;
        }
        let row: [Value; 9] = [
            on.slice_id.into(),
            self.ts(on.since_ns).into(),
            (now_ns - on.since_ns).into(),
            (cpu as u64).into(),
            on.utid.into(),
            end.map(|(state, _)| state_name(state)).into(),
            end.map(|(_, cause)| cause_name(cause)).into(),
            next.into(),
            overhead_ns.into(),
        ];
        self.rows.sched_slice.push_to(&mut self.out, &row);
    }

    /// A wakeup that finds the task awake changes nothing and is no row.
    fn wake(&mut self, cpu: Cpu, tid: Tid, waker: Option<Tid>, target: Cpu) {
        let utid = self.utid(tid);
        let Some(slot) = Tasks::slot(utid) else {
            return;
        };
        let wait = match waker {
            Some(_) => Wait::Woken,
            None => Wait::Forked,
        };
        let Some(transition) = self.tasks.states.wake(slot, target, wait) else {
            return;
        };
        let by = match waker {
            Some(tid) => Some(self.utid(tid)).filter(|utid| *utid != IDLE),
            None => self.tasks.get(utid).parent,
        };
        self.transition(transition);
        self.tasks.get(utid).waker = by;
        let row: [Value; 6] = [
            self.now(),
            utid.into(),
            by.into(),
            cpu.0.into(),
            target.0.into(),
            waker.is_none().into(),
        ];
        self.rows.wakeup.push_to(&mut self.out, &row);
    }

    fn overhead(&mut self, cpu: Cpu, overhead: &Overhead) {
        let now_ns = self.now_ns();
        let on = self.cpu(cpu);
        on.settle(now_ns);
        on.charge(now_ns, overhead.total_ns());
        let utid = Some(on.utid).filter(|utid| *utid != IDLE);
        for cause in OverheadCause::ALL {
            let ns = overhead.ns(cause);
            if ns > 0 {
                let cause = overhead_name(cause);
                let row = [
                    self.now(),
                    cpu.0.into(),
                    utid.into(),
                    cause.into(),
                    ns.into(),
                ];
                self.rows.overhead.push_to(&mut self.out, &row);
            }
        }
    }

    fn request(&mut self, tid: Tid, class: u16, start_ns: u64) {
        let utid = self.utid(tid);
        let row: [Value; 5] = [
            self.ids.slice.into(),
            self.ts(start_ns).into(),
            self.now_ns().saturating_sub(start_ns).into(),
            utid.into(),
            self.classes.get(&class).map_or("", String::as_str).into(),
        ];
        self.rows.slice.push_to(&mut self.out, &row);
        self.ids.slice += 1;
    }

    fn mark(&mut self, tid: Tid, class: u16) {
        let utid = self.utid(tid);
        let name = self.classes.get(&class).map_or("", String::as_str);
        let row = [self.now(), utid.into(), name.into(), "mark".into()];
        self.rows.instant.push_to(&mut self.out, &row);
    }

    fn probe(&mut self, probe: u16, key: u32, value: i64) {
        let known = self.probes.get(&probe);
        if known.is_some_and(|probe| !probe.is_kept) {
            return;
        }
        let per_cpu = known.is_some_and(|probe| probe.per_cpu);
        let of = if per_cpu { key } else { self.utid(Tid(key)) };
        if !per_cpu && of == IDLE {
            return; // the idle task has no figures
        }
        let known = self.tracks.len() as u64;
        let track = *self.tracks.entry((probe, of)).or_insert(known);
        if track == known {
            let name = self.probes.get(&probe).map_or("", |probe| &probe.name);
            let (utid, cpu) = (Some(of).filter(|_| !per_cpu), Some(of).filter(|_| per_cpu));
            let row = [track.into(), name.into(), utid.into(), cpu.into()];
            self.rows.counter_track.push_to(&mut self.out, &row);
        }
        let row = [
            self.ids.counter.into(),
            self.now(),
            track.into(),
            value.into(),
        ];
        self.rows.counter.push_to(&mut self.out, &row);
        self.ids.counter += 1;
    }

    fn runqueue_lock(&mut self, cpu: Cpu, of: Cpu, taken: bool) {
        let now = self.now();
        let locked = self.locked.entry(cpu).or_default();
        if !taken {
            locked.retain(|held| *held != of);
            return;
        }
        let held = locked.last().map(|held| held.0);
        locked.push(of);
        let row: [Value; 4] = [now, cpu.0.into(), of.0.into(), held.into()];
        self.rows.runqueue_lock.push_to(&mut self.out, &row);
    }
}

fn cause_name(cause: SwitchCause) -> &'static str {
    match cause {
        SwitchCause::Block => "block",
        SwitchCause::SliceEnd => "slice_end",
        SwitchCause::Preempt => "preempt",
        SwitchCause::HigherClass => "higher_class",
        SwitchCause::Yield => "yield",
        SwitchCause::Affinity => "affinity",
        SwitchCause::FromIdle => "from_idle",
        SwitchCause::Unknown => "unknown",
    }
}

fn overhead_name(cause: OverheadCause) -> &'static str {
    match cause {
        OverheadCause::Switch => "switch",
        OverheadCause::CacheRefill => "cache_refill",
        OverheadCause::Tick => "tick",
        OverheadCause::Wakeup => "wakeup",
        OverheadCause::Ipi => "ipi",
        OverheadCause::Scheduler => "scheduler",
        OverheadCause::SelectCpu => "select_cpu",
    }
}

impl<B: BatchSink> EventSink for EventTables<B> {
    fn task(&mut self, info: &TaskInfo) {
        if !info.tid.is_idle() {
            let id = self.ids.thread_state;
            self.ids.thread_state += u64::from(self.tasks.introduce(info, id));
        }
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        self.tasks.states.advance(event.time_ns);
        match event.kind {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            } => {
                self.switch(event.cpu, prev, prev_state, cause, next);
            }
            EventKind::Wakeup {
                task,
                waker,
                target,
            } => self.wake(event.cpu, task, Some(waker), target),
            EventKind::WakeupNew { task, target } => self.wake(event.cpu, task, None, target),
            EventKind::Migrate { task, from, to } => {
                let utid = self.utid(task);
                if let Some(slot) = Tasks::slot(utid) {
                    self.tasks.states.migrate(slot, to);
                }
                let row = [self.now(), utid.into(), from.0.into(), to.0.into()];
                self.rows.migration.push_to(&mut self.out, &row);
            }
            // Births come through `task`, deaths through the last switch. No table has affinities.
            EventKind::Fork { .. } | EventKind::Exit { .. } | EventKind::Affinity { .. } => {}
            EventKind::Nice { task, nice } => {
                let utid = self.utid(task);
                if utid == IDLE {
                    return;
                }
                self.tasks.get(utid).nice = nice;
                let row = [self.now(), utid.into(), nice.into()];
                self.rows.nice_change.push_to(&mut self.out, &row);
            }
            EventKind::Request {
                task,
                class,
                start_ns,
            } => self.request(task, class, start_ns),
            EventKind::Mark { task, class } => self.mark(task, class),
            EventKind::Probe { probe, key, value } => self.probe(probe, key, value),
            EventKind::Overhead(ref overhead) => self.overhead(event.cpu, overhead),
            EventKind::Access {
                call,
                callback,
                place,
                index,
                write,
            } => {
                let names = (self.callbacks.of(callback), self.places.of(place));
                let (Some(callback), Some(place)) = names else {
                    return;
                };
                let row: [Value; 7] = [
                    self.now(),
                    event.cpu.0.into(),
                    call.into(),
                    callback.into(),
                    place.into(),
                    index.into(),
                    write.into(),
                ];
                self.rows.access.push_to(&mut self.out, &row);
            }
            EventKind::RunqueueLock { of, taken } => self.runqueue_lock(event.cpu, of, taken),
        }
    }

    fn request_class(&mut self, class: u16, name: &str) {
        self.classes.insert(class, name.to_owned());
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        let among = |names: &Vec<String>| names.iter().any(|kept| kept == name);
        let known = Probe {
            name: name.to_owned(),
            per_cpu,
            is_kept: self.probe_names.as_ref().is_none_or(among),
        };
        self.probes.insert(probe, known);
    }

    fn callback_name(&mut self, callback: u16, name: &str) {
        self.callbacks.declare(callback, name);
    }

    fn place_name(&mut self, place: u16, name: &str) {
        self.places.declare(place, name);
    }

    fn uses_access(&self, callback: &str, place: &str) -> bool {
        self.rows.access.keeps() && self.callbacks.keeps(callback) && self.places.keeps(place)
    }
}
