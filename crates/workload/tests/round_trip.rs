// SPDX-License-Identifier: GPL-2.0-or-later
//! What is written is read again as the same workload.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tiltyard_workload::*;

const TASKS: usize = 3;

fn one(first: usize) -> Ref {
    Ref {
        first,
        len: 1,
        index: Index::Const(0),
    }
}

/// A single thing (0) or a member of the array that follows it (1..=4).
fn reference(loops: usize) -> impl Strategy<Value = Ref> {
    let index = prop_oneof![
        (0i64..4).prop_map(Index::Const),
        Just(Index::Instance),
        Just(Index::Rem(
            Box::new(Index::Add(
                Box::new(Index::Instance),
                Box::new(Index::Const(3))
            )),
            Box::new(Index::Const(4))
        )),
        (0..loops.max(1) as u8).prop_map(move |at| if loops == 0 {
            Index::Const(1)
        } else {
            Index::Loop(at)
        }),
    ];
    prop_oneof![
        Just(one(0)),
        index.prop_map(|index| Ref {
            first: 1,
            len: 4,
            index
        })
    ]
}

fn dist() -> impl Strategy<Value = Dist> {
    let ns = 1u64..10_000_000_000;
    prop_oneof![
        (0u64..5_000_000).prop_map(|micros| Dist::Const(micros * 1000)),
        ns.clone().prop_map(Dist::Const),
        ns.clone().prop_map(|mean| Dist::Exp { mean }),
        (ns.clone(), 0u64..=10_000).prop_map(|(median, sigma_milli)| Dist::LogNormal {
            median,
            sigma_milli
        }),
        (ns.clone(), ns).prop_map(|(a, b)| Dist::Uniform {
            low: a.min(b),
            high: a.max(b)
        }),
    ]
}

/// Attributes as `set` takes them.
fn set_attrs() -> impl Strategy<Value = Attrs> {
    let policy = prop_oneof![
        Just(Policy::Other),
        Just(Policy::Batch),
        Just(Policy::Idle),
        Just(Policy::Fifo),
        Just(Policy::Rr)
    ];
    let first = (
        option::of(policy),
        option::of(-20i8..=19),
        option::of(1u8..=99),
        option::of(vec(0u32..64, 0..3)),
    );
    let second = (
        option::of(0usize..3),
        option::of(vec(0u32..4, 1..3)),
        option::of(0u32..512),
        option::of(512u32..=1024),
        option::of(1u64..1_000_000),
    );
    (first, second).prop_map(
        |(
            (policy, nice, rt_priority, cpus),
            (group, nodes_membind, util_min, util_max, slice_ns),
        )| Attrs {
            policy,
            nice,
            rt_priority,
            cpus,
            group,
            nodes_membind,
            util_min,
            util_max,
            deadline: None,
            slice_ns,
        },
    )
}

/// Attributes as tasks and phases take them: a policy comes with its priority. What
/// phases say of `cpus` depends on the task, see [`with_cpus`].
fn own_attrs() -> impl Strategy<Value = Attrs> {
    let fair = (
        prop_oneof![Just(Policy::Other), Just(Policy::Batch), Just(Policy::Idle)],
        -20i8..=19,
        option::of(0usize..3),
        option::of(1u64..9),
    )
        .prop_map(|(policy, nice, group, slice)| Attrs {
            policy: Some(policy),
            nice: Some(nice),
            group,
            slice_ns: slice.map(|ms| ms * 1_000_000),
            ..Attrs::default()
        });
    let realtime = (prop_oneof![Just(Policy::Fifo), Just(Policy::Rr)], 1u8..=99).prop_map(
        |(policy, priority)| Attrs {
            policy: Some(policy),
            rt_priority: Some(priority),
            ..Attrs::default()
        },
    );
    let deadline = (1u64..100, 0u64..100, 0u64..100).prop_map(|(runtime, more, yet_more)| {
        let ns = |ms: u64| ms * 1_000_000;
        let deadline = Deadline {
            runtime_ns: ns(runtime),
            deadline_ns: ns(runtime + more),
            period_ns: ns(runtime + more + yet_more),
        };
        Attrs {
            policy: Some(Policy::Deadline),
            deadline: Some(deadline),
            ..Attrs::default()
        }
    });
    let unsaid = option::of(0u32..=1024).prop_map(|util_min| Attrs {
        util_min,
        ..Attrs::default()
    });
    prop_oneof![3 => unsaid, 3 => fair, 1 => realtime, 1 => deadline]
}

fn memrun() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(MemKind::Read), Just(MemKind::Write)];
    let plain =
        (kind, 1u64..1_000_000, 0u64..1000).prop_map(|(kind, size_bytes, count)| Op::MemRun {
            kind,
            size_bytes,
            count,
            stride_bytes: DEFAULT_STRIDE_BYTES,
            random: true,
            buffer: None,
        });
    let chase = (64u64..1_000_000, 1u64..=32, any::<bool>(), 0u64..1000).prop_map(
        |(size_bytes, stride_bytes, random, count)| Op::MemRun {
            kind: MemKind::Chase,
            size_bytes,
            count,
            stride_bytes,
            random,
            buffer: None,
        },
    );
    let shared = (0u64..1000).prop_map(|count| Op::MemRun {
        kind: MemKind::Write,
        size_bytes: 4096,
        count,
        stride_bytes: DEFAULT_STRIDE_BYTES,
        random: true,
        buffer: Some(0),
    });
    prop_oneof![plain, chase, shared]
}

/// An event that holds no others, inside `loops` repeats. Forks go to later tasks, so that nothing
/// grows without bound; `task` is the one that does it.
fn simple_op(task: usize, loops: usize) -> impl Strategy<Value = Op> {
    let r = move || reference(loops);
    let waits = prop_oneof![
        r().prop_map(Op::Lock),
        r().prop_map(Op::Unlock),
        (r(), r()).prop_map(|(cond, mutex)| Op::CondWait { cond, mutex }),
        (r(), r()).prop_map(|(cond, mutex)| Op::Sync { cond, mutex }),
        r().prop_map(Op::Signal),
        r().prop_map(Op::Broadcast),
        r().prop_map(Op::Barrier),
        r().prop_map(Op::SemPost),
        r().prop_map(Op::SemWait),
        (0usize..3).prop_map(|place| Op::Suspend { place }),
        (0usize..3).prop_map(|place| Op::Resume { place }),
        ((0usize..3), 0u64..1000).prop_map(|(timer, ms)| Op::Timer {
            timer,
            period_ns: ms * 1_000_000
        }),
    ];
    let works = prop_oneof![
        dist().prop_map(Op::Run),
        dist().prop_map(Op::Runtime),
        dist().prop_map(Op::Sleep),
        (0u64..1 << 40).prop_map(|bytes| Op::Mem { bytes }),
        (0u64..1 << 40).prop_map(|bytes| Op::IoRun { bytes }),
        memrun(),
        (r(), 1u64..1 << 20).prop_map(|(pipe, bytes)| Op::PipeWrite { pipe, bytes }),
        (r(), 1u64..1 << 20).prop_map(|(pipe, bytes)| Op::PipeRead { pipe, bytes }),
        (r(), dist()).prop_map(|(device, service)| Op::Io { device, service }),
    ];
    let child = move || {
        (task + 1..=TASKS)
            .prop_map(|child| child.min(TASKS - 1))
            .prop_filter("a later task", move |c| *c > task)
    };
    let births = if task + 1 < TASKS {
        prop_oneof![
            child().prop_map(|task| Op::Fork { task }),
            (child(), 1u64..9).prop_map(|(task, count)| Op::Spawn { task, count })
        ]
        .boxed()
    } else {
        Just(Op::Join).boxed()
    };
    let instance = option::of(prop_oneof![
        Just(Index::Instance),
        (0i64..5).prop_map(Index::Const)
    ]);
    let rest = prop_oneof![
        Just(Op::Yield),
        Just(Op::Join),
        Just(Op::Exit),
        births,
        set_attrs().prop_map(Op::Set),
        (0..TASKS, instance, set_attrs()).prop_map(|(task, instance, attrs)| Op::SetOther {
            task,
            instance,
            attrs
        }),
        (0usize..2).prop_map(|request| Op::Begin { request }),
        (0usize..2).prop_map(|request| Op::End { request }),
        (0usize..2).prop_map(|request| Op::Done { request }),
        (0usize..2).prop_map(|mark| Op::Mark { mark }),
    ];
    prop_oneof![waits, works, rest]
}

/// Any event; blocks nest at most `depth` deep.
fn op(task: usize, loops: usize, depth: usize) -> BoxedStrategy<Op> {
    if depth == 0 {
        return simple_op(task, loops).boxed();
    }
    let body = move |loops: usize| vec(op(task, loops, depth - 1), 1..4);
    prop_oneof![
        6 => simple_op(task, loops),
        1 => (1u64..100, body(loops + 1)).prop_map(|(count, body)| Op::Repeat { count, body }),
        1 => (reference(loops), body(loops)).prop_map(|(counter, body)| Op::Countdown { counter, body }),
        1 => (0u64..1 << 50, body(loops)).prop_map(|(time_ns, body)| Op::Until { time_ns, body }),
        1 => (0u64..1 << 50, body(loops)).prop_map(|(time_ns, body)| Op::During { time_ns, body }),
        1 => (0u32..=1_000_000, body(loops)).prop_map(|(ppm, body)| Op::Chance { ppm, body }),
    ]
    .boxed()
}

/// Realtime and deadline tasks have no group: readers refuse the pair.
fn without_clash(mut spec: TaskSpec) -> TaskSpec {
    let fair = |attrs: &Attrs| {
        matches!(
            attrs.policy,
            None | Some(Policy::Other | Policy::Batch | Policy::Idle)
        )
    };
    if !fair(&spec.attrs) || !spec.phases.iter().all(|phase| fair(&phase.attrs)) {
        spec.attrs.group = None;
        spec.phases
            .iter_mut()
            .for_each(|phase| phase.attrs.group = None);
    }
    spec
}

/// All phases say which CPUs they have, or none does; those that say nothing beside others have the
/// task's own, and without those every CPU.
fn with_cpus(mut spec: TaskSpec, own: Option<Vec<u32>>, of_a_phase: Option<Vec<u32>>) -> TaskSpec {
    if let (Some(cpus), true) = (of_a_phase, spec.phases[0].name == "p0") {
        let otherwise = own.clone().unwrap_or_default();
        spec.phases
            .iter_mut()
            .for_each(|phase| phase.attrs.cpus = Some(otherwise.clone()));
        spec.phases[0].attrs.cpus = Some(cpus);
    }
    spec.attrs.cpus = own;
    spec
}

fn task(at: usize) -> impl Strategy<Value = TaskSpec> {
    let phase = (option::of(1u64..100), own_attrs(), vec(op(at, 0, 2), 1..6));
    let phases = vec(phase, 1..4).prop_map(|phases| {
        let named = phases.into_iter().enumerate();
        named
            .map(|(at, (loops, attrs, ops))| Phase {
                name: format!("p{at}"),
                loops,
                attrs,
                ops,
            })
            .collect::<Vec<_>>()
    });
    let single = vec(op(at, 0, 2), 1..6).prop_map(|ops| {
        vec![Phase {
            name: String::new(),
            loops: Some(1),
            attrs: Attrs::default(),
            ops,
        }]
    });
    let what = (
        0usize..2,
        1u32..50,
        0u64..10_000_000,
        any::<bool>(),
        any::<bool>(),
    );
    let rest = (
        option::of(1u64..100),
        own_attrs(),
        prop_oneof![phases, single],
        0u64..1 << 30,
        0u32..=1000,
    );
    let cpus = || option::of(vec(0u32..64, 1..4));
    (what, rest, (cpus(), cpus())).prop_map(
        move |(
            (app, instances, delay_us, daemon, thread),
            (loops, attrs, phases, working_set_bytes, memory_bound_permille),
            (own_cpus, phase_cpus),
        )| {
            let spec = TaskSpec {
                name: format!("task {at}"),
                app,
                instances,
                delay_ns: delay_us * 1000,
                daemon,
                thread,
                loops,
                attrs,
                phases,
                working_set_bytes,
                memory_bound_permille,
            };
            with_cpus(without_clash(spec), own_cpus, phase_cpus)
        },
    )
}

/// A single `x` and an array of four, `y[0]` to `y[3]`.
fn names() -> impl Iterator<Item = String> {
    std::iter::once("x".to_string()).chain((0..4).map(|at| format!("y[{at}]")))
}

fn workload() -> impl Strategy<Value = Workload> {
    let tasks = (task(0), task(1), task(2)).prop_map(|(a, b, c)| vec![a, b, c]);
    let numbers = (
        option::of(1u64..1 << 50),
        1u32..=10_000,
        0u64..9,
        1u64..1 << 30,
        1u32..9,
        any::<bool>(),
        any::<u64>(),
    );
    (tasks, ".{0,20}", ".{0,60}", numbers).prop_map(
        |(tasks, name, description, (duration_ns, weight, initial, bytes, channels, pi, start))| {
            Workload {
                name,
                description,
                duration_ns,
                tasks,
                apps: vec![
                    App {
                        name: "one".into(),
                        group: Some(1),
                        history_ns: 0,
                    },
                    App {
                        name: "two".into(),
                        group: None,
                        history_ns: 5_000_000_001,
                    },
                ],
                groups: vec![
                    Group {
                        path: "/g".into(),
                        parent: None,
                        weight,
                    },
                    Group {
                        path: "/g/h".into(),
                        parent: Some(0),
                        weight: 100,
                    },
                    Group {
                        path: "/".into(),
                        parent: None,
                        weight: 100,
                    },
                ],
                mutexes: names()
                    .map(|name| Mutex {
                        name,
                        inherit_priority: pi,
                    })
                    .collect(),
                conds: names().collect(),
                barriers: names()
                    .map(|name| Barrier {
                        name,
                        parties: 1,
                        spin_ns: initial,
                    })
                    .collect(),
                sems: names().map(|name| Sem { name, initial }).collect(),
                pipes: names()
                    .map(|name| Pipe {
                        name,
                        capacity_bytes: bytes,
                    })
                    .collect(),
                devices: names()
                    .map(|name| Device {
                        name,
                        channels: if pi { u32::MAX } else { channels },
                    })
                    .collect(),
                counters: names().map(|name| Counter { name, start }).collect(),
                timers: vec![
                    Timer {
                        name: "t".into(),
                        per_task: false,
                        mode: TimerMode::Relative,
                    },
                    Timer {
                        name: "u".into(),
                        per_task: false,
                        mode: TimerMode::Absolute,
                    },
                    Timer {
                        name: "unique".into(),
                        per_task: true,
                        mode: TimerMode::Relative,
                    },
                ],
                places: vec!["here".into(), "there \"quoted\"".into(), "über\nall".into()],
                buffers: vec!["b".into()],
                requests: vec!["r".into(), "s".into()],
                mem_buffer_bytes: bytes,
                ..Workload::default()
            }
        },
    )
}

/// Whether this holds for any workload. Without optimisation, the nested strategies of one need more than a test's usual stack.
fn holds_for_any(holds: fn(Workload) -> Result<(), TestCaseError>) {
    let check = move || {
        let config = ProptestConfig {
            cases: 400,
            ..ProptestConfig::with_source_file(file!())
        };
        let result = TestRunner::new(config).run(&workload(), holds);
        result.unwrap_or_else(|e| panic!("{e}"));
    };
    let thread = std::thread::Builder::new().stack_size(16 << 20);
    let checked = thread.spawn(check).expect("a thread").join();
    checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn the_full_dialect_says_everything() {
    holds_for_any(|w| {
        let text = write(&w, Dialect::Tiltyard).expect("can be written");
        prop_assert_eq!(read(&text, "x.json"), Ok(w));
        Ok(())
    });
}

/// Plain text is either refused with reasons or is without our key and means the same.
#[test]
fn the_plain_dialect_says_all_or_nothing() {
    holds_for_any(|w| {
        match write(&w, Dialect::RtApp) {
            Ok(text) => {
                prop_assert!(!text.contains("\"tiltyard\""));
                prop_assert_eq!(
                    read(&text, "x.json").map(|w| w.tasks.len()),
                    Ok(w.tasks.len())
                );
            }
            Err(WriteError::NotInRtApp(parts)) => prop_assert!(!parts.is_empty()),
            Err(broken) => prop_assert!(false, "{}", broken),
        }
        Ok(())
    });
}

#[test]
fn what_rt_app_cannot_say_is_named() {
    let text = r#"{ "tiltyard": { "pipes": { "p": { "count": 2 } }, "counters": { "c": { "start": 3 } } },
        "tasks": { "a": { "loop": 1, "tiltyard": { "daemon": true, "run": { "exp": 5 }, "write": { "pipe": "p[i]", "bytes": 1 },
        "countdown": { "counter": "c", "do": { "run": 1 } }, "sleep": 0.5 } } } }"#;
    let w = read(text, "x.json").expect("reads");
    let error = write(&w, Dialect::RtApp).expect_err("refused").to_string();
    for part in [
        "task a as a daemon",
        "run with a distribution",
        "pipes in task a",
        "countdown in task a",
        "sleep of part of a microsecond",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Shared things that rt-app has, but not so.
#[test]
fn what_rt_app_cannot_declare_is_named() {
    let text = r#"{ "tiltyard": { "apps": { "web": { "group": "/g" } }, "groups": { "/g": { "weight": 7 } },
        "barriers": { "b": { "parties": 1, "spin": 5 } }, "semaphores": { "s": { "initial": 1 } },
        "mutexes": { "m": { "pi": true }, "n": {} } },
        "tasks": { "a": { "instance": 2, "barrier": "b", "tiltyard": { "process": true, "working_set": 1 } } } }"#;
    let w = read(text, "x.json").expect("reads");
    let error = write(&w, Dialect::RtApp).expect_err("refused").to_string();
    let parts = [
        "app web",
        "weight of group /g",
        "spinning at barrier b",
        "1 parties at barrier b, which has 2 users",
        "initial value of semaphore s",
        "priority inheritance of some mutexes only",
        "task a as a process",
        "working set of task a",
    ];
    for part in parts {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Members of one array are alike; a file that says so of members that are not would say something else.
#[test]
fn unlike_members_of_an_array_are_an_error() {
    let text = r#"{ "tiltyard": { "semaphores": { "s": { "count": 2 } } }, "tasks": { "a": { "run": 1 } } }"#;
    let mut w = read(text, "x.json").expect("reads");
    assert!(write(&w, Dialect::Tiltyard).is_ok());
    w.sems[1].initial = 5;
    assert!(matches!(
        write(&w, Dialect::Tiltyard),
        Err(WriteError::Broken(_))
    ));
}

#[test]
fn a_workload_that_no_file_can_say_is_an_error() {
    let mut w = read(r#"{ "tasks": { "a": { "run": 1 } } }"#, "x.json").expect("reads");
    w.tasks[0].phases[0].ops.push(Op::Fork { task: 7 });
    assert!(matches!(
        write(&w, Dialect::Tiltyard),
        Err(WriteError::Broken(_))
    ));
    w.tasks[0].phases[0].ops.clear();
    assert!(matches!(
        write(&w, Dialect::Tiltyard),
        Err(WriteError::Broken(_))
    ));
}
