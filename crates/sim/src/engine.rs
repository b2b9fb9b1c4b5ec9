// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine: state of one simulated machine and its main loop.

use crate::bpf::cpumask::IndexedSet;
use crate::bpf::rng::Streams;
use crate::bpf::timers::Arming;
use crate::cgroup::Cgroups;
use crate::clock::{Alarm, Clock, Due, Ticks};
use crate::cpu::Rq;
use crate::ext::exit::Exit;
use crate::ext::progress::{Progress, Stranded};
use crate::ext::{self, Ext};
use crate::jitter::{Lateness, tick_phase_ns};
use crate::kfuncs::Checked;
use crate::memory::waits::MemoryLoad;
use crate::program::{Programs, Stuck};
use crate::races::Races;
use crate::sched::affinity::CpuSets;
use crate::sched::locks::RqLocks;
use crate::task::{Class, TaskId, Tasks};
use crate::topology::Topology;
use tiltyard_environment::{Environment, EnvironmentError, Plan};
use tiltyard_model::machine::Jitter;
use tiltyard_model::{Cpu, Event, EventKind, EventSink, Machine, OverheadCause};
use tiltyard_native::{Crash, Instance, LoadError, Object, Value};
use tiltyard_workload::Workload;

/// Everything that a run depends on.
pub struct Setup<'a> {
    pub machine: &'a Machine,
    pub workload: &'a Workload,
    pub object: &'a Object,
    /// Tunables and other globals of the scheduler that the user has set, by name.
    pub globals: &'a [(String, Value)],
    /// What the scheduler's user-space half does.
    pub environment: &'a Environment,
    pub seed: u64,
    /// From the workload's start; `None`: until the workload ends by itself.
    pub duration_ns: Option<u64>,
    /// Eject the scheduler when a runnable task waits longer than its `timeout_ms`, as the kernel does.
    pub watchdog: bool,
    /// Record the scheduler's probes.
    pub probes: bool,
}

/// The outcome of a finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Why the scheduler was unloaded.
    pub exit: Exit,
    /// When the workload started, on the clock of the events.
    pub origin_ns: u64,
    /// When the run ended, on the same clock.
    pub end_ns: u64,
    pub cpus: Vec<CpuTimes>,
    pub switches: u64,
    pub ticks: u64,
    pub callbacks: u64,
    /// Whether anything was drawn at random. If not, the run is the same with every seed.
    pub left_to_chance: bool,
    /// Tasks that had not exited at the end, without kernel threads.
    pub tasks_left: u64,
    pub tasks_total: u64,
    /// Of a completed run: tasks that waited without reason.
    pub stranded: Option<Stranded>,
    /// Tasks that wait for each other, and that nobody would ever have woken.
    pub stuck: Option<Stuck>,
    /// Lines that the scheduler printed (`bpf_printk`).
    pub lines_printed: u64,
}

/// How a CPU spent its time; busy + idle + overhead is the elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    pub busy_ns: u64,
    pub idle_ns: u64,
    pub overhead_ns: u64,
}

/// A run that did not end normally.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("scheduler: {0}")]
    Load(#[from] LoadError),
    #[error("scheduler: {0}")]
    Environment(#[from] EnvironmentError),
    #[error("scheduler crashed in {op} on CPU {cpu}, task {task}: {what}")]
    Crash {
        /// `ops.running()`
        op: String,
        cpu: u32,
        task: String,
        time_ns: u64,
        /// Source line, if known.
        place: Option<String>,
        what: String,
        crash: Crash,
    },
    #[error("scheduler: {0}")]
    Scheduler(String),
    #[error("workload: {0}")]
    Workload(String),
    #[error("not modelled: {0}")]
    NotModelled(String),
}

/// More live tasks than any workload intends: a fork bomb.
pub const MAX_LIVE_TASKS: u32 = 1_000_000;

/// Reschedules that one event may cause: several times the CPUs of any machine.
const MAX_RESCHEDULES: u32 = 1 << 16;

pub struct Engine<'a> {
    pub(crate) object: &'a Object,
    /// The loaded copy of the object: outside of the engine, which its callbacks change.
    pub(crate) instance: &'a Instance,
    pub(crate) machine: &'a Machine,
    pub(crate) workload: &'a Workload,
    pub(crate) sink: &'a mut dyn EventSink,
    pub(crate) topology: Topology,
    pub(crate) memory: MemoryLoad,
    pub(crate) now: u64,
    pub(crate) origin_ns: u64,
    /// When the run is over at the latest.
    pub(crate) end_ns: u64,
    pub(crate) clock: Clock,
    pub(crate) streams: Streams,
    pub(crate) left_to_chance: bool,
    /// Of timers that the scheduler starts.
    pub(crate) bpf_timers_late: Lateness,
    /// Indexed by [`TaskId`]; 0 is the idle task.
    pub(crate) tasks: Tasks,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) rq_locks: RqLocks,
    pub(crate) cpu_sets: CpuSets,
    /// CPUs that run a task.
    pub(crate) busy: IndexedSet,
    /// CPU whose instruction stream is being simulated right now.
    pub(crate) exec_cpu: u32,
    /// CPUs whose end of work has changed.
    pub(crate) rearm: Vec<u32>,
    /// CPUs that must reschedule at this instant.
    pending_resched: IndexedSet,
    pub(crate) ext: Ext,
    /// In runs that check for data races.
    pub(crate) races: Option<Box<Races>>,
    pub(crate) cgroups: Cgroups,
    pub(crate) programs: Programs,
    /// Inside of `schedule()`, before the switch, and what the scheduler did there, which has the time of the switch.
    pub(crate) is_choosing: bool,
    pub(crate) choice_events: Vec<(u32, EventKind)>,
    pub(crate) failure: Option<RunError>,
    pub(crate) done: bool,
    pub(crate) switches: u64,
    pub(crate) ticks: u64,
    pub(crate) watchdog: bool,
    pub(crate) probes: bool,
    pub(crate) progress: Progress,
}

/// Runs a setup to its end. `progress` receives the simulated time occasionally.
pub fn run(
    setup: &Setup,
    sink: &mut dyn EventSink,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, RunError> {
    run_then(setup, sink, progress, &mut |_| {})
}

/// The same; `look` sees the scheduler after the last callback, as user space reads its variables.
pub fn run_then(
    setup: &Setup,
    sink: &mut dyn EventSink,
    progress: &mut dyn FnMut(u64),
    look: &mut dyn FnMut(&Instance),
) -> Result<Outcome, RunError> {
    let (instance, plan) = ext::load(setup)?;
    let mut engine = Engine::new(setup, &instance, plan, sink)?;
    engine.boot()?;
    let outcome = engine.run_on(setup, progress);
    look(&instance);
    outcome
}

/// The same run, checked for data races in the scheduler's accesses to memory. The object was built to report these.
pub fn run_and_check(
    setup: &Setup,
    sink: &mut dyn EventSink,
    progress: &mut dyn FnMut(u64),
) -> Result<(Outcome, Checked), RunError> {
    let (instance, plan) = ext::load(setup)?;
    let mut engine = Engine::new(setup, &instance, plan, sink)?;
    engine.races = Some(Box::new(Races::new(setup.machine.nr_cpus())));
    engine.boot()?;
    let outcome = engine.run_on(setup, progress)?;
    Ok((outcome, engine.checked()))
}

impl<'a> Engine<'a> {
    fn new(
        setup: &Setup<'a>,
        instance: &'a Instance,
        plan: Plan,
        sink: &'a mut dyn EventSink,
    ) -> Result<Box<Engine<'a>>, RunError> {
        let machine = setup.machine;
        let nr_cpus = machine.nr_cpus();
        let topology = Topology::new(machine);
        let ext = Ext::new(setup, plan, instance, &topology)?;
        let origin_ns = setup
            .workload
            .apps
            .iter()
            .map(|a| a.history_ns)
            .max()
            .unwrap_or(0);
        let (jitter, streams) = (&machine.jitter, Streams::new(setup.seed));
        let tick_ns = 1_000_000_000 / u64::from(machine.tick_hz);
        let ticks = Ticks::new(
            tick_ns,
            tick_phase_ns(jitter, &streams, tick_ns),
            Lateness::new(jitter, &streams, "tick", 0),
        );
        let mut engine = Box::new(Engine {
            object: setup.object,
            instance,
            machine,
            workload: setup.workload,
            sink,
            now: 0,
            origin_ns,
            end_ns: u64::MAX,
            clock: Clock::new(nr_cpus, ticks),
            streams,
            left_to_chance: *jitter != Jitter::NONE,
            bpf_timers_late: Lateness::new(jitter, &streams, "bpf_timer", 0),
            tasks: Tasks::default(),
            rqs: (0..)
                .zip(&machine.cpus)
                .map(|(cpu, place)| Rq::new(cpu, *place))
                .collect(),
            rq_locks: RqLocks::default(),
            cpu_sets: CpuSets::default(),
            busy: IndexedSet::new(nr_cpus as u32),
            exec_cpu: 0,
            rearm: Vec::with_capacity(nr_cpus),
            pending_resched: IndexedSet::new(nr_cpus as u32),
            ext,
            races: None,
            cgroups: Cgroups::new(setup.workload),
            programs: Programs::new(setup.workload),
            is_choosing: false,
            choice_events: Vec::new(),
            failure: None,
            done: false,
            switches: 0,
            ticks: 0,
            watchdog: setup.watchdog,
            probes: setup.probes,
            progress: Progress::new(nr_cpus),
            memory: MemoryLoad::new(setup, &topology),
            topology,
        });
        for cpu in 0..nr_cpus as u32 {
            engine.rqs[cpu as usize].speed_permille = engine.full_speed(cpu);
        }
        Ok(engine)
    }

    /// Everything before the first event: the idle task, kernel threads and shells, then the scheduler.
    fn boot(&mut self) -> Result<(), RunError> {
        self.create_idle_task();
        self.declare_requests();
        self.declare_cpus();
        if let Some(accesses) = &mut self.ext.accesses {
            accesses.declare(self.sink);
        }
        self.create_kernel_threads();
        self.create_shells();
        self.ext_enable();
        self.settle_instant();
        self.failure.take().map_or(Ok(()), Err)
    }

    /// From the first event to the end.
    fn run_on(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Outcome, RunError> {
        let end_ns = setup
            .duration_ns
            .or(setup.workload.duration_ns)
            .map_or(u64::MAX, |d| self.origin_ns.saturating_add(d));
        self.end_ns = end_ns;
        self.main_loop(progress);
        self.finish()
    }

    fn main_loop(&mut self, progress: &mut dyn FnMut(u64)) {
        let end_ns = self.end_ns;
        let mut events = 0u64;
        while !self.done && self.failure.is_none() && self.ext.exit.is_none() {
            let Some((at, due)) = self.clock.next(end_ns) else {
                break;
            };
            debug_assert!(at >= self.now, "time runs backwards");
            if !self.ext.still.is_empty() {
                self.stand_still_until(at);
            }
            self.now = at;
            self.count_event();
            self.handle(due);
            self.settle_instant();
            events += 1;
            if events.is_multiple_of(1 << 16) {
                progress(self.now.saturating_sub(self.origin_ns));
                self.check_progress(false);
                if end_ns == u64::MAX {
                    self.check_endless();
                }
            }
        }
        if !self.done && self.failure.is_none() && self.ext.exit.is_none() {
            match end_ns {
                u64::MAX => self.ran_dry(),
                _ => {
                    self.stand_still_until(end_ns);
                    self.now = end_ns;
                }
            }
        }
    }

    fn handle(&mut self, due: Due) {
        match due {
            Due::Alarm(alarm) if !self.ext.still.is_empty() && self.delay_if_halted(alarm) => {}
            Due::Alarm(Alarm::Task { task, generation }) => {
                self.task_alarm(TaskId(task), generation)
            }
            Due::Alarm(Alarm::Woken { task, generation }) => self.woken(TaskId(task), generation),
            Due::Alarm(Alarm::BpfTimer { timer, number, cpu }) => {
                self.bpf_timer_fires(Arming { timer, number }, cpu.into());
            }
            Due::Alarm(Alarm::Resched { cpu }) => {
                self.exec_cpu = cpu;
                let rq = &mut self.rqs[cpu as usize];
                rq.resched_in_flight = false;
                // The rest of its cost was its way there.
                let handler_ns = self.machine.costs.ipi_ns / 2;
                self.charge(cpu, OverheadCause::Ipi, handler_ns);
                self.resched_local(cpu);
            }
            Due::Alarm(Alarm::Schedule { cpu }) => {
                self.rqs[cpu as usize].schedule_armed = false;
                if self.rqs[cpu as usize].need_resched {
                    self.resched_local(cpu);
                }
            }
            Due::Alarm(Alarm::Device { device }) => self.device_done(device),
            Due::Alarm(Alarm::Program { call }) => self.program_due(call),
            Due::Alarm(Alarm::Watchdog) => self.watchdog_check(),
            Due::Alarm(Alarm::WaitOver { cpu }) => self.wait_over(cpu),
            Due::WorkDone { cpu } => self.work_done(cpu),
            Due::Tick => self.tick_all(),
        }
    }

    /// Does the remaining work of this instant: interrupts that ops requested, reschedules in CPU order.
    pub(crate) fn settle_instant(&mut self) {
        for turn in 0.. {
            self.run_irq_work();
            let Some(cpu) = self.pending_resched.next(0) else {
                break;
            };
            self.pending_resched.clear(cpu);
            if turn == MAX_RESCHEDULES {
                return self.never_settles(cpu);
            }
            let rq = &self.rqs[cpu as usize];
            if rq.need_resched && !rq.stands_still && self.failure.is_none() {
                self.exec_cpu = cpu;
                self.come_to_schedule(cpu);
            }
        }
        self.arm_pending_work();
    }

    /// Whether there is something left to do at this instant, other than the work of this CPU.
    pub(crate) fn is_instant_unsettled(&self, cpu: u32) -> bool {
        !self.pending_resched.is_empty() || self.rearm.iter().any(|other| *other != cpu)
    }

    #[cold]
    fn never_settles(&mut self, cpu: u32) {
        let now = self.now;
        self.fail(RunError::Scheduler(format!(
            "CPU {cpu} reschedules again and again at {now} ns: it is kicked, or ops.dispatch inserts, without end"
        )));
    }

    fn tick_all(&mut self) {
        let mut next = self.busy.next(0);
        while let Some(cpu) = next {
            match self.rqs[cpu as usize].stands_still {
                true => self.miss_tick(cpu),
                false => self.tick_one(cpu),
            }
            next = self.busy.next(cpu + 1);
        }
    }

    pub(crate) fn tick_one(&mut self, cpu: u32) {
        self.exec_cpu = cpu;
        self.tick(cpu);
        self.run_irq_work();
    }

    /// The current task of `cpu` should leave it at the next opportunity, because of an event on this CPU.
    pub(crate) fn resched_local(&mut self, cpu: u32) {
        self.rqs[cpu as usize].need_resched = true;
        self.pending_resched.set(cpu);
    }

    /// `resched_curr()`: on another CPU it takes an interrupt to get there.
    pub(crate) fn resched(&mut self, cpu: u32) {
        let rq = &mut self.rqs[cpu as usize];
        if rq.need_resched || rq.resched_in_flight {
            return;
        }
        let ipi_ns = self.machine.costs.ipi_ns;
        if cpu == self.exec_cpu || ipi_ns == 0 {
            self.resched_local(cpu);
        } else {
            rq.resched_in_flight = true;
            // Sent when the sender has finished its current work.
            let sent_ns = self.rqs[self.exec_cpu as usize].work_start_ns.max(self.now);
            let arrives_ns = sent_ns + ipi_ns - ipi_ns / 2;
            self.clock.arm(arrives_ns, Alarm::Resched { cpu });
        }
    }

    pub(crate) fn clear_resched(&mut self, cpu: u32) {
        self.rqs[cpu as usize].need_resched = false;
        self.pending_resched.clear(cpu);
    }

    pub(crate) fn emit(&mut self, cpu: u32, kind: EventKind) {
        if self.is_choosing && matches!(kind, EventKind::Probe { .. } | EventKind::Access { .. }) {
            return self.choice_events.push((cpu, kind));
        }
        self.sink.event(&Event {
            time_ns: self.now,
            cpu: Cpu(cpu),
            kind,
        });
    }

    /// Ends the run with an error; the first one counts.
    pub(crate) fn fail(&mut self, error: RunError) {
        self.failure.get_or_insert(error);
    }

    pub(crate) fn class_of(&self, id: TaskId) -> Class {
        if id.is_idle() {
            Class::Idle
        } else {
            self.tasks[id.index()].class
        }
    }

    /// For messages: `name[pid]`.
    pub(crate) fn task_label(&self, id: TaskId) -> String {
        match self.tasks.get(id.index()) {
            Some(task) => format!("{}[{}]", task.name(), id.0),
            None => format!("[{}]", id.0),
        }
    }

    /// The same of a task on `cpu`: one idle task stands for those of all CPUs.
    pub(crate) fn label_on(&self, cpu: u32, id: TaskId) -> String {
        match id.is_idle() {
            true => format!("swapper/{cpu}[0]"),
            false => self.task_label(id),
        }
    }

    fn finish(&mut self) -> Result<Outcome, RunError> {
        let end_ns = self.now;
        for cpu in 0..self.rqs.len() as u32 {
            self.settle(cpu);
            self.count_overhead(cpu);
        }
        let mut stranded = None;
        if self.failure.is_none() && self.ext.exit.is_none() {
            self.check_progress(true);
        }
        if self.failure.is_none() {
            stranded = self.stranded().filter(|_| self.ext.exit.is_none());
            self.ext_disable();
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let cpus = self
            .rqs
            .iter()
            .map(|rq| self.cpu_times(rq, end_ns))
            .collect();
        let tasks_left = self
            .tasks
            .iter()
            .filter(|t| t.spec.is_some() && t.life != crate::task::Life::Dead)
            .count();
        Ok(Outcome {
            exit: self.ext.exit.take().unwrap_or_default(),
            origin_ns: self.origin_ns,
            end_ns,
            cpus,
            switches: self.switches,
            ticks: self.ticks,
            callbacks: self.ext.callbacks,
            left_to_chance: self.left_to_chance,
            tasks_left: tasks_left as u64,
            tasks_total: self.tasks.iter().filter(|t| t.spec.is_some()).count() as u64,
            stranded,
            stuck: self.stuck(),
            lines_printed: self.ext.bpf.lines_printed,
        })
    }

    fn cpu_times(&self, rq: &Rq, end_ns: u64) -> CpuTimes {
        let mut idle_ns = rq.idle_total_ns;
        if rq.curr.is_idle() {
            idle_ns += end_ns - rq.idle_since_ns;
        }
        // Overhead while idle is counted as idle by the clock alone.
        let idle_ns = idle_ns - rq.idle_overhead_ns;
        CpuTimes {
            busy_ns: end_ns - idle_ns - rq.overhead_total_ns,
            idle_ns,
            overhead_ns: rq.overhead_total_ns,
        }
    }
}
