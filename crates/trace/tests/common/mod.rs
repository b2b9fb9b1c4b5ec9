// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls of a sink as values, and files made from them.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use tiltyard_model::{
    Cpu, Event, EventKind, EventSink, Overhead, OverheadCause, PrevState, SwitchCause, TaskInfo,
    Tid, is_shells_name,
};
use tiltyard_trace::{About, Arena, MAX_TID, Machine, ReadError, Reader, Recording, WriteError};

pub const NR_CPUS: u32 = 300;

/// One call of an [`EventSink`].
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    Task(TaskInfo),
    Event(Event),
    CpuSet(u32, Vec<Range<u32>>),
    RequestClass(u16, String),
    ProbeName(u16, String, bool),
    CallbackName(u16, String),
    PlaceName(u16, String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls(pub Vec<Call>);

impl EventSink for Calls {
    fn task(&mut self, info: &TaskInfo) {
        self.0.push(Call::Task(info.clone()));
    }
    fn event(&mut self, event: &Event) {
        self.0.push(Call::Event(*event));
    }
    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        self.0.push(Call::CpuSet(set, cpus.to_vec()));
    }
    fn request_class(&mut self, class: u16, name: &str) {
        self.0.push(Call::RequestClass(class, name.to_owned()));
    }
    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        self.0
            .push(Call::ProbeName(probe, name.to_owned(), per_cpu));
    }
    fn callback_name(&mut self, callback: u16, name: &str) {
        self.0.push(Call::CallbackName(callback, name.to_owned()));
    }
    fn place_name(&mut self, place: u16, name: &str) {
        self.0.push(Call::PlaceName(place, name.to_owned()));
    }
}

impl Calls {
    pub fn play(&self, sink: &mut dyn EventSink) {
        for call in &self.0 {
            match call {
                Call::Task(info) => sink.task(info),
                Call::Event(event) => sink.event(event),
                Call::CpuSet(set, cpus) => sink.cpu_set(*set, cpus),
                Call::RequestClass(number, name) => sink.request_class(*number, name),
                Call::ProbeName(number, name, per_cpu) => sink.probe_name(*number, name, *per_cpu),
                Call::CallbackName(number, name) => sink.callback_name(*number, name),
                Call::PlaceName(number, name) => sink.place_name(*number, name),
            }
        }
    }

    pub fn file(&self) -> Vec<u8> {
        self.try_file(&about()).expect("it is allowed")
    }

    pub fn try_file(&self, about: &About) -> Result<Vec<u8>, WriteError> {
        let mut recording = Recording::new(Vec::new());
        self.play(&mut recording);
        let (blocks, ended) = recording.end()?;
        let mut file = Vec::new();
        ended.write(about, &mut blocks.as_slice(), &mut file)?;
        Ok(file)
    }
}

pub fn about() -> About {
    About {
        tiltyard: "0.1.0".to_owned(),
        arena: Arena::Sim,
        kernel: None,
        workload: "w".to_owned(),
        workload_sha256: None,
        machine: Machine {
            name: "m".to_owned(),
            description: String::new(),
            sha256: None,
            nr_cpus: NR_CPUS,
            tick_hz: Some(250),
            topology: None,
        },
        scheduler: "s".to_owned(),
        object_sha256: None,
        tunables: serde_json::Map::new(),
        seed: Some(1),
        round: None,
        command: "tiltyard run".to_owned(),
        run: 0,
        origin_ns: 5,
        end_ns: 1 << 62,
        lost_events: 0,
        request_classes: [("web".to_owned(), vec!["get".to_owned()])].into(),
        result: serde_json::json!({ "ticks": 7 }),
    }
}

/// All of a file, or why there is none of it.
pub fn read(file: &[u8]) -> Result<(About, Calls), ReadError> {
    let reader = Reader::open(file)?;
    let about = reader.about().clone();
    let mut calls = Calls::default();
    reader.replay(&mut calls)?;
    Ok((about, calls))
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..200_u64, any::<u64>(), Just(u64::MAX)]
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![0..50_u32, 0..MAX_TID].prop_map(Tid)
}

/// Not the idle task's.
fn own_tid() -> impl Strategy<Value = Tid> {
    prop_oneof![1..50_u32, 1..MAX_TID].prop_map(Tid)
}

fn cpu() -> impl Strategy<Value = Cpu> {
    (0..NR_CPUS).prop_map(Cpu)
}

fn state() -> impl Strategy<Value = PrevState> {
    use PrevState::{Exited, Runnable, Sleeping};
    prop::sample::select(vec![Runnable, Sleeping, Exited])
}

fn cause() -> impl Strategy<Value = SwitchCause> {
    use SwitchCause::{Affinity, Block, FromIdle, HigherClass, Preempt, SliceEnd, Unknown, Yield};
    prop::sample::select(vec![
        Block,
        SliceEnd,
        Preempt,
        HigherClass,
        Yield,
        Affinity,
        FromIdle,
        Unknown,
    ])
}

fn overhead(charges: [u64; 6]) -> Overhead {
    let mut overhead = Overhead::default();
    for (cause, ns) in OverheadCause::ALL.into_iter().zip(charges) {
        overhead.charge(cause, ns);
    }
    overhead
}

fn kind() -> impl Strategy<Value = EventKind> {
    let small = any::<u16>;
    prop_oneof![
        (tid(), state(), cause(), tid()).prop_map(|(prev, prev_state, cause, next)| {
            EventKind::Switch {
                prev,
                prev_state,
                cause,
                next,
            }
        }),
        (own_tid(), tid(), cpu()).prop_map(|(task, waker, target)| EventKind::Wakeup {
            task,
            waker,
            target
        }),
        (own_tid(), cpu()).prop_map(|(task, target)| EventKind::WakeupNew { task, target }),
        (own_tid(), cpu(), cpu()).prop_map(|(task, from, to)| EventKind::Migrate {
            task,
            from,
            to
        }),
        (tid(), own_tid()).prop_map(|(parent, child)| EventKind::Fork { parent, child }),
        own_tid().prop_map(|task| EventKind::Exit { task }),
        (own_tid(), any::<i8>()).prop_map(|(task, nice)| EventKind::Nice { task, nice }),
        (own_tid(), 0..NR_SETS).prop_map(|(task, set)| EventKind::Affinity { task, set }),
        (own_tid(), small(), number()).prop_map(|(task, class, start_ns)| EventKind::Request {
            task,
            class,
            start_ns
        }),
        (own_tid(), small()).prop_map(|(task, class)| EventKind::Mark { task, class }),
        (small(), any::<u32>(), any::<i64>()).prop_map(|(probe, key, value)| EventKind::Probe {
            probe,
            key,
            value
        }),
        (number(), small(), small(), number(), any::<bool>()).prop_map(
            |(call, callback, place, index, write)| EventKind::Access {
                call,
                callback,
                place,
                index,
                write
            }
        ),
        (cpu(), any::<bool>()).prop_map(|(of, taken)| EventKind::RunqueueLock { of, taken }),
        prop::array::uniform6(number()).prop_map(|all| EventKind::Overhead(overhead(all))),
    ]
}

fn task() -> impl Strategy<Value = TaskInfo> {
    (own_tid(), tid(), tid(), ".*", ".*", any::<i8>(), number()).prop_map(
        |(tid, tgid, parent, name, app, nice, born_ns)| TaskInfo {
            tid,
            tgid,
            parent,
            // Files do not have it: the names say it.
            is_shell: is_shells_name(&name, &app),
            name,
            app,
            nice,
            born_ns,
        },
    )
}

/// Sets of CPUs that every stream of calls begins with.
const NR_SETS: u32 = 3;

fn cpu_sets() -> impl Strategy<Value = Vec<Call>> {
    let cpus = prop::collection::btree_set(0..NR_CPUS, 2..20);
    vec(cpus, NR_SETS as usize).prop_map(|sets| {
        let ends = |cpus: std::collections::BTreeSet<u32>| cpus.into_iter().collect::<Vec<_>>();
        let ranges = |ends: &[u32]| ends.chunks_exact(2).map(|end| end[0]..end[1]).collect();
        let sets = sets.into_iter().map(|cpus| ranges(&ends(cpus)));
        (0..)
            .zip(sets)
            .map(|(set, cpus)| Call::CpuSet(set, cpus))
            .collect()
    })
}

/// A call, and for an event the time since the one before.
fn call() -> impl Strategy<Value = (u64, Call)> {
    let event = (0..(1 << 62) / 1000_u64, cpu(), kind()).prop_map(|(since_ns, cpu, kind)| {
        let time_ns = 0;
        (since_ns, Call::Event(Event { time_ns, cpu, kind }))
    });
    let name = (any::<u16>(), ".*");
    prop_oneof![
        12 => event,
        1 => task().prop_map(|info| (0, Call::Task(info))),
        1 => name.prop_map(|(number, name)| (0, Call::RequestClass(number, name))),
        1 => (any::<u16>(), ".*", any::<bool>()).prop_map(|(n, name, p)| (0, Call::ProbeName(n, name, p))),
        1 => (any::<u16>(), ".*").prop_map(|(n, name)| (0, Call::CallbackName(n, name))),
        1 => (any::<u16>(), ".*").prop_map(|(n, name)| (0, Call::PlaceName(n, name))),
    ]
}

/// Any calls in order of time.
pub fn calls(most: usize) -> impl Strategy<Value = Calls> {
    (cpu_sets(), vec(call(), 0..most)).prop_map(|(sets, calls)| {
        let mut now_ns = 0;
        let timed = calls.into_iter().map(|(since_ns, mut call)| {
            if let Call::Event(event) = &mut call {
                now_ns += since_ns;
                event.time_ns = now_ns;
            }
            call
        });
        Calls(sets.into_iter().chain(timed).collect())
    })
}
