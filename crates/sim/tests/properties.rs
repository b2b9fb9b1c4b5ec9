// SPDX-License-Identifier: GPL-2.0-or-later
//! Random workloads x schedulers x machines: no task is lost, the books balance to the nanosecond, and the
//! same inputs give the same trace at every level of lowering and on any thread.

use crate::common::{Lab, Ran, check_books, costed, ideal, kernel_example, object, shipped};
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, TestRng, TestRunner};
use tiltyard_model::Machine;
use tiltyard_model::machine::{Jitter, Noise};
use tiltyard_workload::{
    App, Attrs, Barrier, Device, Dist, Group, Index, Mutex, Op, Phase, Policy, Ref, Sem, TaskSpec,
    Workload,
};

const US: u64 = 1_000;

/// One thing that a planned task does; durations in us.
#[derive(Clone, Debug)]
enum Step {
    Run(u64),
    Sleep(u64),
    /// Runs while it holds lock `.0`.
    Locked(usize, u64),
    /// And lock `.0 + 1` inside it: always in this order, so that no circle can form.
    LockedTwice(usize, u64),
    Post(usize),
    /// Only for consumers, who post nothing: so posts never wait for posts.
    Take(usize),
    Io(u64),
    Yield,
    Nice(i8),
    Affinity(u16),
    Children(u64),
}

#[derive(Clone, Debug)]
struct TaskPlan {
    instances: u32,
    loops: u64,
    nice: i8,
    cpus: Option<u16>,
    policy: Policy,
    group: Option<usize>,
    thread: bool,
    consumer: bool,
    /// Meets all others of its kind before anything else.
    meets: bool,
    joins: bool,
    delay_us: u64,
    working_set_kib: u64,
    steps: Vec<Step>,
}

const LOCKS: usize = 3;
const SEMS: usize = 2;
/// Spin before the barrier's sleep.
const SPIN_NS: u64 = 50 * US;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..8_000).prop_map(Step::Run),
        3 => (1u64..6_000).prop_map(Step::Sleep),
        2 => (0..LOCKS, 1u64..2_000).prop_map(|(lock, us)| Step::Locked(lock, us)),
        1 => (0..LOCKS - 1, 1u64..500).prop_map(|(lock, us)| Step::LockedTwice(lock, us)),
        2 => (0..SEMS).prop_map(Step::Post),
        2 => (0..SEMS).prop_map(Step::Take),
        1 => (1u64..2_000).prop_map(Step::Io),
        1 => Just(Step::Yield),
        1 => (-20i8..20).prop_map(Step::Nice),
        1 => any::<u16>().prop_map(Step::Affinity),
        1 => (1u64..3).prop_map(Step::Children),
    ]
}

fn task() -> impl Strategy<Value = TaskPlan> {
    let who = (
        1u32..6,
        1u64..4,
        -20i8..20,
        proptest::option::weighted(0.3, any::<u16>()),
    );
    let policy = prop_oneof![
        6 => Just(Policy::Other),
        1 => Just(Policy::Batch),
        1 => Just(Policy::Idle),
        1 => Just(Policy::Fifo),
        1 => Just(Policy::Rr),
    ];
    let what = (
        policy,
        proptest::option::weighted(0.3, 0usize..2),
        any::<[bool; 4]>(),
        0u64..3_000,
        0u64..256,
        proptest::collection::vec(step(), 1..7),
    );
    (who, what).prop_map(|(who, what)| {
        let (instances, loops, nice, cpus) = who;
        let (policy, group, [thread, consumer, meets, joins], delay_us, working_set_kib, steps) =
            what;
        TaskPlan {
            instances,
            loops,
            nice,
            cpus,
            policy,
            group,
            thread,
            consumer,
            meets,
            joins,
            delay_us,
            working_set_kib,
            steps,
        }
    })
}

fn one(first: usize, len: usize, which: usize) -> Ref {
    Ref {
        first,
        len,
        index: Index::Const(which as i64),
    }
}

/// The CPUs of this machine among those that the bits name; never none.
fn cpu_list(bits: u16, nr_cpus: usize) -> Vec<u32> {
    let cpus: Vec<u32> = (0..nr_cpus as u32)
        .filter(|cpu| bits >> cpu & 1 == 1)
        .collect();
    if cpus.is_empty() {
        vec![u32::from(bits) % nr_cpus as u32]
    } else {
        cpus
    }
}

fn ops(plan: &TaskPlan, child: usize, nr_cpus: usize) -> Vec<Op> {
    let us = |us: u64| Dist::Const(us * US);
    let lock = |which| one(0, LOCKS, which);
    let mut ops = Vec::new();
    for step in &plan.steps {
        match *step {
            Step::Run(time) => ops.push(Op::Run(us(time))),
            Step::Sleep(time) => ops.push(Op::Sleep(us(time))),
            Step::Locked(m, time) => {
                ops.extend([Op::Lock(lock(m)), Op::Run(us(time)), Op::Unlock(lock(m))]);
            }
            Step::LockedTwice(m, time) => ops.extend([
                Op::Lock(lock(m)),
                Op::Run(us(time)),
                Op::Lock(lock(m + 1)),
                Op::Sleep(us(time)),
                Op::Unlock(lock(m + 1)),
                Op::Unlock(lock(m)),
            ]),
            Step::Post(s) if !plan.consumer => ops.push(Op::SemPost(one(0, SEMS, s))),
            Step::Take(s) if plan.consumer => ops.push(Op::SemWait(one(0, SEMS, s))),
            Step::Post(_) | Step::Take(_) => {}
            Step::Io(service) => ops.push(Op::Io {
                device: one(0, 1, 0),
                service: us(service),
            }),
            Step::Yield => ops.push(Op::Yield),
            Step::Nice(nice) => ops.push(Op::Set(Attrs {
                nice: Some(nice),
                ..Attrs::default()
            })),
            Step::Affinity(bits) => ops.push(Op::Set(Attrs {
                cpus: Some(cpu_list(bits, nr_cpus)),
                ..Attrs::default()
            })),
            Step::Children(count) => {
                ops.push(Op::Spawn { task: child, count });
                if plan.joins {
                    ops.push(Op::Join);
                }
            }
        }
    }
    ops
}

fn spec(name: String, plan: &TaskPlan, phases: Vec<Phase>, nr_cpus: usize) -> TaskSpec {
    let realtime = matches!(plan.policy, Policy::Fifo | Policy::Rr);
    TaskSpec {
        name,
        app: 0,
        instances: plan.instances,
        delay_ns: plan.delay_us * US,
        daemon: false,
        thread: plan.thread,
        loops: Some(1),
        attrs: Attrs {
            policy: Some(plan.policy),
            nice: (!realtime).then_some(plan.nice),
            rt_priority: realtime.then_some((plan.nice + 21) as u8),
            cpus: plan.cpus.map(|bits| cpu_list(bits, nr_cpus)),
            group: plan.group.filter(|_| !realtime),
            ..Attrs::default()
        },
        phases,
        working_set_bytes: plan.working_set_kib << 10,
        memory_bound_permille: stall_permille(plan),
    }
}

/// Half of the tasks wait for memory, with as random a share as their sets are.
fn stall_permille(plan: &TaskPlan) -> u32 {
    match plan.working_set_kib % 2 {
        0 => 0,
        _ => (plan.working_set_kib * 4).min(1000) as u32,
    }
}

fn phase(loops: u64, ops: Vec<Op>) -> Phase {
    Phase {
        name: "phase".into(),
        loops: Some(loops),
        attrs: Attrs::default(),
        ops,
    }
}

/// Tasks that all can end: semaphores start with as much as is taken beyond what is posted.
fn workload(plans: &[TaskPlan], nr_cpus: usize) -> Workload {
    let child = plans.len();
    let meet = Op::Barrier(one(0, 1, 0));
    let mut tasks: Vec<TaskSpec> = Vec::new();
    for (i, plan) in plans.iter().enumerate() {
        let start = if plan.meets {
            vec![meet.clone()]
        } else {
            vec![]
        };
        let body = phase(plan.loops, ops(plan, child, nr_cpus));
        tasks.push(spec(
            format!("t{i}"),
            plan,
            vec![phase(1, start), body],
            nr_cpus,
        ));
    }
    tasks.push(TaskSpec {
        name: "child".into(),
        instances: 0,
        attrs: Attrs::default(),
        phases: vec![phase(
            2,
            vec![
                Op::Run(Dist::Const(300 * US)),
                Op::Sleep(Dist::Const(100 * US)),
            ],
        )],
        ..spec("child".into(), &plans[0], vec![], nr_cpus)
    });
    let times = |plan: &TaskPlan, wanted: fn(&Step, usize) -> bool, s: usize| {
        let per_pass = plan.steps.iter().filter(|step| wanted(step, s)).count() as u64;
        per_pass * plan.loops * u64::from(plan.instances)
    };
    let sems = (0..SEMS).map(|s| {
        let taken: u64 = plans
            .iter()
            .filter(|p| p.consumer)
            .map(|p| times(p, |step, s| matches!(step, Step::Take(t) if *t == s), s))
            .sum();
        let posted: u64 = plans
            .iter()
            .filter(|p| !p.consumer)
            .map(|p| times(p, |step, s| matches!(step, Step::Post(t) if *t == s), s))
            .sum();
        Sem {
            name: format!("sem{s}"),
            initial: taken.saturating_sub(posted),
        }
    });
    let parties: u32 = plans.iter().filter(|p| p.meets).map(|p| p.instances).sum();
    Workload {
        name: "random".into(),
        tasks,
        apps: vec![App {
            name: "app".into(),
            group: None,
            history_ns: 0,
        }],
        groups: (0..2)
            .map(|g| Group {
                path: format!("/g{g}"),
                parent: None,
                weight: 100 + 400 * g,
            })
            .collect(),
        mutexes: (0..LOCKS)
            .map(|m| Mutex {
                name: format!("lock{m}"),
                inherit_priority: false,
            })
            .collect(),
        barriers: vec![Barrier {
            name: "meeting".into(),
            parties: parties.max(1),
            spin_ns: SPIN_NS,
        }],
        sems: sems.collect(),
        devices: vec![Device {
            name: "disk".into(),
            channels: 2,
        }],
        ..Workload::default()
    }
}

const TOPOLOGIES: [&str; 6] = [
    "pu:1",
    "core:2 pu:1",
    "core:5 pu:1",
    "core:2 pu:2",
    "package:2 [numa] l3:1 core:2 pu:2",
    "package:2 [numa] l3:2 core:4 pu:1",
];

fn machine() -> impl Strategy<Value = Machine> {
    (0..TOPOLOGIES.len(), any::<[bool; 4]>()).prop_map(
        |(topology, [costs, fast, noise, jitter])| {
            let make = if costs { costed } else { ideal };
            let mut machine = make(TOPOLOGIES[topology], if fast { 1000 } else { 250 });
            machine.caches.l3_bytes = 512 << 10;
            machine.costs.node_mb_per_s = noise.then_some(6_000);
            machine.noise = match noise {
                true => vec![Noise::workers(5_000 * US, 100 * US)],
                false => vec![],
            };
            machine.jitter = if jitter {
                Jitter::REFERENCE
            } else {
                Jitter::NONE
            };
            machine
        },
    )
}

/// Work that each instance asks for; a spin at the barrier would add to it.
fn asked_ns(plan: &TaskPlan) -> u64 {
    let of_step = |step: &Step| match *step {
        Step::Run(us) | Step::Locked(_, us) | Step::LockedTwice(_, us) => us * US,
        _ => 0,
    };
    plan.loops * plan.steps.iter().map(of_step).sum::<u64>()
}

/// A task got exactly the work it asked for, jitter and overhead apart; more time only where siblings share a core or it waits for
/// memory.
fn check_work(ran: &Ran, plans: &[TaskPlan], machine: &Machine) {
    let core_is_shared = machine.costs.smt_permille < 1000
        && machine
            .cpus
            .iter()
            .any(|a| machine.cpus.iter().filter(|b| b.core == a.core).count() > 1);
    for task in ran.summary.tasks.iter().filter(|t| t.name.starts_with('t')) {
        let number = task.name[1..]
            .split('-')
            .next()
            .and_then(|n| n.parse::<usize>().ok());
        let plan = &plans[number.expect("tasks are called t0, t1-0...")];
        if plan.meets {
            continue;
        }
        let (worked_ns, asked_ns) = (task.runtime_ns - task.overhead_ns, asked_ns(plan));
        let spread_ns = asked_ns * machine.jitter.work_spread_ppm / 1_000_000;
        if core_is_shared || stall_permille(plan) > 0 {
            assert!(
                worked_ns + spread_ns >= asked_ns,
                "{}: {worked_ns} of {asked_ns}",
                task.name
            );
            // All of it missing in the cache and far away, on a shared core.
            let slowest = match machine.costs.line_l3_ps {
                0 => 1,
                l3_ps => machine.costs.line_far_ps.div_ceil(l3_ps).max(1),
            };
            let slowest = slowest * 1000u64.div_ceil(machine.costs.smt_permille) + 1;
            assert!(
                machine.costs.node_mb_per_s.is_some()
                    || worked_ns <= asked_ns * slowest + spread_ns,
                "{}: {worked_ns} of {asked_ns}",
                task.name
            );
        } else {
            assert!(
                worked_ns.abs_diff(asked_ns) <= spread_ns,
                "{}: {worked_ns} of {asked_ns}",
                task.name
            );
        }
    }
}

fn check(scheduler: &str, plans: &[TaskPlan], machine: &Machine, seed: u64) {
    let workload = workload(plans, machine.nr_cpus());
    let lab = |level| {
        let mut lab = Lab::new(machine, object(scheduler, level));
        lab.seed = seed;
        // Far more than the work takes: what has not ended by then is lost.
        lab.duration_ns = Some(60_000_000 * US);
        lab
    };
    let run = |level: u8| -> Ran {
        lab(level)
            .run(&workload)
            .unwrap_or_else(|e| panic!("{scheduler}: {e}"))
    };
    let ran = run(2);
    assert!(
        !ran.outcome.exit.kind.is_error(),
        "{scheduler}: {:?}",
        ran.outcome.exit
    );
    assert_eq!(ran.outcome.tasks_left, 0, "{scheduler}: tasks are lost");
    check_books(&ran);
    check_work(&ran, plans, machine);
    // Twice on other threads at once, and once more without optimisation.
    let (a, b) = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(|| run(2)), scope.spawn(|| run(0)));
        (a.join().expect("a run"), b.join().expect("a run"))
    });
    assert_eq!(ran.trace_hash, a.trace_hash, "{scheduler}: two runs differ");
    assert_eq!(
        ran.trace_hash, b.trace_hash,
        "{scheduler}: -O0 and -O2 differ"
    );
}

fn holds_under(scheduler: &str) {
    let persistence = FileFailurePersistence::WithSource("regressions");
    let config = ProptestConfig {
        cases: 300,
        max_shrink_iters: 400,
        // Only of a test that fails: a run that stalls takes seconds.
        max_shrink_time: 60_000,
        failure_persistence: Some(Box::new(persistence)),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    };
    // Other cases whenever the scheduler changes, and only then.
    let seed = &object(scheduler, 2).key.as_bytes()[..32];
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let plans = proptest::collection::vec(task(), 1..9);
    let inputs = (plans, machine(), 0u64..1000);
    let holds = runner.run(&inputs, |(plans, machine, seed)| {
        check(scheduler, &plans, &machine, seed);
        Ok(())
    });
    holds.unwrap_or_else(|e| panic!("{scheduler}: {e}"));
}

#[test]
fn the_rules_hold_under_every_scheduler() {
    let mut schedulers = shipped();
    match kernel_example("scx_simple") {
        Some(scheduler) => schedulers.push(scheduler),
        None => eprintln!("skipped: the package linux-source-6.12 is not installed"),
    }
    std::thread::scope(|scope| {
        for scheduler in &schedulers {
            scope.spawn(|| holds_under(scheduler));
        }
    });
}
