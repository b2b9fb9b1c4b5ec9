// SPDX-License-Identifier: GPL-2.0-or-later
//! Streams of events for tests: by hand, and legal ones at random.

use std::ops::Range;

use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SwitchCause, TaskInfo,
    Tid,
};

/// An event or name that a sink receives.
#[derive(Clone, Debug)]
pub enum Call {
    Task(TaskInfo),
    CpuSet(u32, Vec<Range<u32>>),
    Class(u16, String),
    Probe(u16, String, bool),
    Event(Event),
}

/// A stream that is written down call by call.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    pub calls: Vec<Call>,
}

impl Stream {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn play(&self, sink: &mut impl EventSink) {
        for call in &self.calls {
            match call {
                Call::Task(info) => sink.task(info),
                Call::CpuSet(set, cpus) => sink.cpu_set(*set, cpus),
                Call::Class(class, name) => sink.request_class(*class, name),
                Call::Probe(probe, name, per_cpu) => sink.probe_name(*probe, name, *per_cpu),
                Call::Event(event) => sink.event(event),
            }
        }
    }

    pub fn event(&mut self, time_ns: u64, cpu: u32, kind: EventKind) -> &mut Self {
        let cpu = Cpu(cpu);
        self.calls.push(Call::Event(Event { time_ns, cpu, kind }));
        self
    }

    pub fn task(&mut self, born_ns: u64, tid: u32, app: &str) -> &mut Self {
        self.thread(born_ns, tid, tid, app)
    }

    pub fn thread(&mut self, born_ns: u64, tid: u32, tgid: u32, app: &str) -> &mut Self {
        self.calls.push(Call::Task(TaskInfo {
            tid: Tid(tid),
            tgid: Tid(tgid),
            parent: Tid::IDLE,
            name: format!("{app}-{tid}"),
            app: app.to_owned(),
            nice: 0,
            born_ns,
            is_shell: false,
        }));
        self
    }

    pub fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) -> &mut Self {
        self.calls.push(Call::CpuSet(set, cpus.to_vec()));
        self
    }

    pub fn affinity(&mut self, time_ns: u64, tid: u32, set: u32) -> &mut Self {
        let task = Tid(tid);
        self.event(time_ns, 0, EventKind::Affinity { task, set })
    }

    pub fn class(&mut self, class: u16, name: &str) -> &mut Self {
        self.calls.push(Call::Class(class, name.to_owned()));
        self
    }

    pub fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) -> &mut Self {
        self.calls
            .push(Call::Probe(probe, name.to_owned(), per_cpu));
        self
    }

    pub fn wake(&mut self, time_ns: u64, cpu: u32, tid: u32) -> &mut Self {
        let (task, waker, target) = (Tid(tid), Tid::IDLE, Cpu(cpu));
        self.event(
            time_ns,
            cpu,
            EventKind::Wakeup {
                task,
                waker,
                target,
            },
        )
    }

    pub fn wake_new(&mut self, time_ns: u64, cpu: u32, tid: u32) -> &mut Self {
        let (task, target) = (Tid(tid), Cpu(cpu));
        self.event(time_ns, cpu, EventKind::WakeupNew { task, target })
    }

    /// From an idle CPU to `next`.
    pub fn start(&mut self, time_ns: u64, cpu: u32, next: u32) -> &mut Self {
        self.switch(
            time_ns,
            cpu,
            0,
            PrevState::Runnable,
            SwitchCause::FromIdle,
            next,
        )
    }

    /// `prev` goes to sleep; 0 stands for the idle task.
    pub fn block(&mut self, time_ns: u64, cpu: u32, prev: u32, next: u32) -> &mut Self {
        self.switch(
            time_ns,
            cpu,
            prev,
            PrevState::Sleeping,
            SwitchCause::Block,
            next,
        )
    }

    pub fn preempt(&mut self, time_ns: u64, cpu: u32, prev: u32, next: u32) -> &mut Self {
        self.switch(
            time_ns,
            cpu,
            prev,
            PrevState::Runnable,
            SwitchCause::Preempt,
            next,
        )
    }

    pub fn slice_end(&mut self, time_ns: u64, cpu: u32, prev: u32, next: u32) -> &mut Self {
        self.switch(
            time_ns,
            cpu,
            prev,
            PrevState::Runnable,
            SwitchCause::SliceEnd,
            next,
        )
    }

    pub fn exit(&mut self, time_ns: u64, cpu: u32, prev: u32, next: u32) -> &mut Self {
        self.event(time_ns, cpu, EventKind::Exit { task: Tid(prev) });
        self.switch(
            time_ns,
            cpu,
            prev,
            PrevState::Exited,
            SwitchCause::Block,
            next,
        )
    }

    pub fn switch(
        &mut self,
        time_ns: u64,
        cpu: u32,
        prev: u32,
        prev_state: PrevState,
        cause: SwitchCause,
        next: u32,
    ) -> &mut Self {
        let (prev, next) = (Tid(prev), Tid(next));
        self.event(
            time_ns,
            cpu,
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            },
        )
    }

    pub fn migrate(&mut self, time_ns: u64, tid: u32, from: u32, to: u32) -> &mut Self {
        let (task, from, target) = (Tid(tid), Cpu(from), Cpu(to));
        self.event(
            time_ns,
            to,
            EventKind::Migrate {
                task,
                from,
                to: target,
            },
        )
    }

    pub fn overhead(&mut self, time_ns: u64, cpu: u32, cause: OverheadCause, ns: u64) -> &mut Self {
        self.event(time_ns, cpu, EventKind::Overhead(Overhead::of(cause, ns)))
    }

    pub fn request(&mut self, time_ns: u64, tid: u32, class: u16, start_ns: u64) -> &mut Self {
        let task = Tid(tid);
        self.event(
            time_ns,
            0,
            EventKind::Request {
                task,
                class,
                start_ns,
            },
        )
    }

    pub fn mark(&mut self, time_ns: u64, tid: u32, class: u16) -> &mut Self {
        self.event(
            time_ns,
            0,
            EventKind::Mark {
                task: Tid(tid),
                class,
            },
        )
    }

    pub fn probe(&mut self, time_ns: u64, probe: u16, key: u32, value: i64) -> &mut Self {
        self.event(time_ns, 0, EventKind::Probe { probe, key, value })
    }
}

/// A legal stream made of arbitrary numbers: each word picks what happens next and when. Tasks are born
/// asleep, wake, run, are preempted, migrate, are bound, sleep and exit; CPUs are charged overhead. Returns the
/// stream and the time of its last event.
pub fn random_stream(nr_cpus: u32, nr_tasks: u32, words: &[u32]) -> (Stream, u64) {
    let mut world = World {
        stream: Stream::new(),
        now_ns: 0,
        current: vec![0; nr_cpus as usize],
        tasks: vec![None; nr_tasks as usize],
    };
    world
        .stream
        .class(0, "request")
        .probe_name(0, "level", false);
    for (set, cpus) in random_sets(nr_cpus).into_iter().enumerate() {
        world.stream.cpu_set(set as u32, &[cpus]);
    }
    for &word in words {
        world.step(word);
    }
    (world.stream, world.now_ns)
}

/// The sets of CPUs that tasks of a random stream are bound to: all CPUs, the first, the lower and the upper half.
pub fn random_sets(nr_cpus: u32) -> [Range<u32>; 4] {
    let half = nr_cpus / 2;
    [0..nr_cpus, 0..1, 0..half.max(1), half..nr_cpus]
}

/// Where a task is: its runqueue and whether it waits; `None` inside: asleep.
type Place = Option<(u32, bool)>;

struct World {
    stream: Stream,
    now_ns: u64,
    current: Vec<u32>,
    /// By tid - 1: `None`: not born or dead.
    tasks: Vec<Option<Place>>,
}

impl World {
    fn step(&mut self, word: u32) {
        // Steps of 0 ns, some us, and rarely seconds.
        self.now_ns += match word % 7 {
            0 => 0,
            6 if word.is_multiple_of(9) => u64::from(word),
            _ => u64::from(word % 9973),
        };
        let cpu = (word >> 8) % self.current.len() as u32;
        let index = ((word >> 16) as usize) % self.tasks.len();
        let (now_ns, tid) = (self.now_ns, index as u32 + 1);
        match self.tasks[index] {
            None => {
                self.stream
                    .task(now_ns, tid, ["hog", "server", "shell"][index % 3]);
                self.stream.wake_new(now_ns, cpu, tid);
                self.tasks[index] = Some(Some((cpu, true)));
            }
            Some(None) => {
                self.stream.wake(now_ns, cpu, tid);
                self.tasks[index] = Some(Some((cpu, true)));
            }
            Some(Some((home, true))) if home != cpu => {
                self.stream.migrate(now_ns, tid, home, cpu);
                if word.is_multiple_of(2) {
                    self.stream.affinity(now_ns, tid, word / 2 % 4);
                }
                self.tasks[index] = Some(Some((cpu, true)));
            }
            Some(Some((home, true))) => self.run(home, tid, word),
            Some(Some((home, false))) => self.disturb(home, tid, word),
        }
    }

    /// A waiting task gets its CPU; who has it is preempted or sleeps.
    fn run(&mut self, cpu: u32, tid: u32, word: u32) {
        let prev = std::mem::replace(&mut self.current[cpu as usize], tid);
        self.tasks[tid as usize - 1] = Some(Some((cpu, false)));
        let now_ns = self.now_ns;
        match (prev, word % 3) {
            (0, _) => self.stream.start(now_ns, cpu, tid),
            (_, 0) => self.stream.block(now_ns, cpu, prev, tid),
            (_, _) => self.stream.preempt(now_ns, cpu, prev, tid),
        };
        if prev != 0 {
            self.tasks[prev as usize - 1] = Some((!word.is_multiple_of(3)).then_some((cpu, true)));
        }
    }

    /// Something happens to a running task.
    fn disturb(&mut self, cpu: u32, tid: u32, word: u32) {
        let (now_ns, index) = (self.now_ns, tid as usize - 1);
        match word % 5 {
            0 => {
                self.stream.exit(now_ns, cpu, tid, 0);
                self.current[cpu as usize] = 0;
                self.tasks[index] = None;
            }
            1 => {
                self.stream.block(now_ns, cpu, tid, 0);
                self.current[cpu as usize] = 0;
                self.tasks[index] = Some(None);
            }
            2 => {
                let ns = u64::from(word % 20_011);
                self.stream.overhead(now_ns, cpu, OverheadCause::Tick, ns);
            }
            3 if word.is_multiple_of(2) => {
                self.stream.affinity(now_ns, tid, word / 2 % 4);
            }
            3 => {
                self.stream.probe(now_ns, 0, tid, i64::from(word % 101));
            }
            _ => {
                self.stream.request(now_ns, tid, 0, now_ns / 2);
            }
        }
    }
}
