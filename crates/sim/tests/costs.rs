// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine charges what a scheduler does.

use crate::common::{Lab, check_books, ideal, object, parse};
use tiltyard_native::Value;

/// A look at the own runqueue is free, one within the node costs a near visit, one beyond it a far one.
#[test]
fn looking_at_another_cpu_costs_by_distance() {
    let mut machine = ideal("package:2 [numa] core:2 pu:1", 250);
    machine.costs.visit_near_ns = 100;
    machine.costs.visit_far_ns = 1000;
    machine.lock_waits = false;
    let looker = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/tests/schedulers/looker.bpf.c"
    );
    let workload = parse(
        r#"{ "tasks": { "pinned": { "cpus": [0], "loop": 100, "run": 50, "sleep": 100 } } }"#,
    );
    let overhead_ns = |target: i128| {
        let globals = [("target".to_owned(), Value::Int(target))];
        let mut lab = Lab::new(&machine, object(looker, 2));
        lab.globals = &globals;
        let ran = lab.run(&workload).expect("a run");
        check_books(&ran);
        ran.outcome.cpus.iter().map(|c| c.overhead_ns).sum::<u64>()
    };
    let [own, near, far] = [0, 1, 2].map(overhead_ns);
    // The task is born elsewhere: one look comes from there, and then the counter of looks, which it has written.
    assert!(own <= 1000, "{own}");
    assert!((9_900..=11_000).contains(&near), "{near}");
    assert!((99_000..=101_100).contains(&far), "{far}");
}

/// What CPU 0 and another pay for a counter of turns, which both write if it is `shared`, each its own else.
fn turns_overhead_ns(topology: &str, cpu: u32, globals: [(&str, bool); 4]) -> u64 {
    let mut machine = ideal(topology, 250);
    machine.costs.visit_llc_ns = Some(10);
    machine.costs.visit_near_ns = 100;
    machine.costs.visit_far_ns = 1000;
    let sharer = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../sim/tests/schedulers/sharer.bpf.c"
    );
    let text = r#"{ "tasks": {
        "a": { "cpus": [0], "loop": 100, "run": 50, "sleep": 50 },
        "b": { "cpus": [CPU], "delay": 55, "loop": 100, "run": 30, "sleep": 70 } } }"#;
    let workload = parse(&text.replace("CPU", &cpu.to_string()));
    let globals = globals.map(|(name, set)| (name.to_owned(), Value::Int(set.into())));
    let mut lab = Lab::new(&machine, object(sharer, 2));
    lab.globals = &globals;
    let ran = lab.run(&workload).expect("a run");
    check_books(&ran);
    ran.outcome.cpus.iter().map(|c| c.overhead_ns).sum()
}

/// A variable, or a value of a map, that two CPUs write in turn comes from the other one each time, from as far as that is; what
/// only one CPU uses stays, and SMT siblings share a cache.
#[test]
fn a_shared_variable_costs_a_transfer_for_each_turn() {
    let small = ("package:2 [numa] l3:2 core:1 pu:2", 1, 2, 4);
    // Sets of cores that take three words.
    let large = ("package:2 [numa] l3:2 core:33 pu:2", 1, 2 * 63, 2 * 130);
    for (topology, sibling, near, far) in [small, large] {
        for how in ["", "named", "locked", "mapped", "locked mapped"] {
            let globals = |shared| {
                let is = |name| (name, how.contains(name));
                [("shared", shared), is("named"), is("locked"), is("mapped")]
            };
            let own = turns_overhead_ns(topology, far, globals(false));
            let more = |cpu| turns_overhead_ns(topology, cpu, globals(true)) - own;
            let [sibling, near, far] = [sibling, near, far].map(more);
            // About 200 turns; a few are two in a row of one CPU.
            assert!(sibling < 20 * 100, "{sibling}");
            assert!((18_000..=22_000).contains(&near), "{near}");
            assert!((180_000..=220_000).contains(&far), "{far}");
        }
    }
}

/// Each task that a CPU looks at in a queue costs a step, inside a callback or, in the global queue, without one.
#[test]
fn steps_along_a_queue_cost() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let global = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/conformance/schedulers/global.bpf.c"
    );
    let workload = parse(r#"{ "tasks": { "A": { "loop": 100, "run": 50, "sleep": 100 } } }"#);
    let mut overhead_ns = |scheduler: &str, step_ns: u64| {
        machine.costs.visit_near_ns = step_ns;
        let ran = Lab::new(&machine, object(scheduler, 2)).run(&workload);
        let ran = ran.expect("a run");
        check_books(&ran);
        ran.outcome.cpus[0].overhead_ns
    };
    for scheduler in [global, "rr"] {
        assert_eq!(overhead_ns(scheduler, 0), 0);
        let once = overhead_ns(scheduler, 100);
        assert!((9_900..=11_000).contains(&once), "{scheduler}: {once}");
    }
}

/// The same work takes a CPU of half the capacity twice as long, to the nanosecond.
#[test]
fn work_takes_longer_on_a_slower_cpu() {
    let mut machine = ideal("package:1 [numa] core:2 pu:1", 250);
    machine.cpus[1].capacity = 512;
    let workload = parse(
        r#"{ "tasks": { "fast": { "cpus": [0], "loop": 10, "run": 5000, "sleep": 100 },
                        "slow": { "cpus": [1], "loop": 10, "run": 5000, "sleep": 100 } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let runtime_us = |name: &str| {
        let task = ran.summary.tasks.iter().find(|t| t.name == name);
        task.expect(name).runtime_ns / 1000
    };
    assert_eq!((runtime_us("fast"), runtime_us("slow")), (50_000, 100_000));
}

/// Two siblings share a core as the machine file says; more of them share the throughput of two.
#[test]
fn a_core_does_no_more_for_many_siblings_than_for_two() {
    let workload = parse(r#"{ "tasks": { "hog": { "instance": 8, "loop": 1, "run": 100000 } } }"#);
    let longest_us = |topology: &str| {
        let mut machine = ideal(topology, 250);
        machine.costs.smt_permille = 600;
        let ran = Lab::new(&machine, object("fifo", 8)).run(&workload);
        let tasks = ran.expect("a run").summary.tasks;
        tasks
            .iter()
            .map(|task| task.runtime_ns / 1000)
            .max()
            .unwrap_or_default()
    };
    let [one, two, eight] = ["core:8 pu:1", "core:4 pu:2", "core:1 pu:8"].map(longest_us);
    let is_near = |us: u64, factor: f64| (us as f64 / one as f64 / factor - 1.0).abs() < 0.02;
    assert!(is_near(two, 1.0 / 0.6), "{one} {two}");
    assert!(is_near(eight, 8.0 / 1.2), "{one} {eight}");
}

/// A task that comes from another node brings its working set from there.
#[test]
fn a_refill_from_another_node_costs_its_distance() {
    let mut machine = ideal("package:2 [numa] core:1 pu:1", 250);
    machine.caches.l2_bytes = 1 << 20;
    machine.costs.line_mem_ps = 1_000;
    machine.costs.refill_overlap_permille = 0;
    let workload = parse(
        r#"{ "tasks": { "mover": { "tiltyard": { "working_set": 65536 }, "loop": 1, "phases": {
            "here": { "cpus": [0], "run": 1000 }, "there": { "cpus": [1], "run": 1000 } } } } }"#,
    );
    let refill_ns = |far_ps: u64| {
        let mut machine = machine.clone();
        machine.costs.line_far_ps = far_ps;
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        ran.expect("a run").summary.overhead.cache_refill_ns
    };
    // At least once; where it is born is the scheduler's choice.
    let (lines, more_ns) = (65536 / 64, refill_ns(3_000) - refill_ns(1_000));
    assert!(more_ns > 0 && more_ns % (lines * 2) == 0, "{more_ns} ns");
}

/// What a task finds again on the CPU where it last ran, after another one has used its caches: each lost line is fetched once,
/// from the nearest cache that still has it.
#[test]
fn a_refill_on_the_same_cpu_fetches_each_line_once() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let (own, others) = (64 << 10, 4 << 20);
    (machine.caches.l1_bytes, machine.caches.l2_bytes) = (32 << 10, 1 << 20);
    machine.costs.refill_overlap_permille = 0;
    // Two processes take turns; the first one's set is small, the other one's drives it out of L1 and L2.
    let workload = format!(
        r#"{{ "tiltyard": {{ "apps": {{ "a": {{}}, "b": {{}} }} }}, "tasks": {{
            "small": {{ "tiltyard": {{ "app": "a", "working_set": {own} }}, "loop": 11, "run": 1000, "sleep": 9000 }},
            "large": {{ "tiltyard": {{ "app": "b", "working_set": {others} }}, "loop": 10, "sleep": 9000, "run": 1000 }} }} }}"#
    );
    let workload = parse(&workload);
    let refill_ns = |l3_bytes: u64, prices: [u64; 3]| {
        let mut machine = machine.clone();
        machine.caches.l3_bytes = l3_bytes;
        let costs = &mut machine.costs;
        [costs.line_l2_ps, costs.line_l3_ps, costs.line_mem_ps] = prices;
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        ran.expect("a run").summary.overhead.cache_refill_ns
    };
    // L3 holds both: nothing of either comes from L2 or, after its first run, from memory.
    let l3 = 64 << 20;
    assert_eq!(refill_ns(l3, [1_000, 0, 0]), 0);
    let (first_runs, shells) = ((own + others) / 64, 512);
    let from_memory = refill_ns(l3, [0, 0, 1_000]);
    assert!(
        (first_runs..first_runs + shells).contains(&from_memory),
        "{from_memory}"
    );
    // Without it, everything that is lost comes from memory, each time, and nothing from L2 as well.
    assert_eq!(refill_ns(0, [1_000, 0, 0]), 0);
    let first_runs = (own + machine.caches.l2_bytes) / 64;
    assert!(refill_ns(0, [0, 0, 1_000]) > first_runs + 15 * own / 64);
}

/// A task that moves within a last-level cache finds its working set there, and beside it only in memory.
#[test]
fn a_refill_from_another_cache_comes_from_memory() {
    let mut machine = ideal("package:1 [numa] l3:2 core:2 pu:1", 250);
    machine.caches.l3_bytes = 1 << 20;
    (machine.costs.line_l3_ps, machine.costs.line_mem_ps) = (1_000, 10_000);
    machine.costs.refill_overlap_permille = 0;
    let refill_ns = |there: u32| {
        let workload = format!(
            r#"{{ "tasks": {{ "mover": {{ "tiltyard": {{ "working_set": 65536 }}, "loop": 1, "phases": {{
            "here": {{ "cpus": [0], "run": 1000 }}, "there": {{ "cpus": [{there}], "run": 1000 }} }} }} }} }}"#
        );
        let ran = Lab::new(&machine, object("fifo", 2)).run(&parse(&workload));
        ran.expect("a run").summary.overhead.cache_refill_ns
    };
    let lines = 65536 / 64;
    assert_eq!(refill_ns(2) - refill_ns(1), lines * 9);
}

/// Wakeups by timers have a cost of their own.
#[test]
fn each_wakeup_is_charged() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    (machine.costs.wakeup_ns, machine.costs.timer_wakeup_ns) = (1_000, 3_000);
    let charged_ns = |workload: &str| {
        let ran = Lab::new(&machine, object("fifo", 2)).run(&parse(workload));
        let ran = ran.expect("a run");
        check_books(&ran);
        ran.summary.overhead.wakeup_ns
    };
    let timer = charged_ns(r#"{ "tasks": { "A": { "loop": 100, "run": 50, "sleep": 100 } } }"#);
    assert!((300_000..=305_000).contains(&timer), "{timer} ns");
    let task = charged_ns(
        r#"{ "tasks": { "A": { "loop": 100, "tiltyard": { "run": 50, "sem_post": "b", "sem_wait": "a" } },
                        "B": { "loop": 100, "tiltyard": { "sem_wait": "b", "run": 50, "sem_post": "a" } } } }"#,
    );
    assert!((190_000..=210_000).contains(&task), "{task} ns");
}

/// What an interrupt takes before its wakeup is sleep, what it takes afterwards is latency; a busy CPU loses both.
#[test]
fn the_way_to_a_wakeup_is_charged_before_it() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    (machine.costs.timer_irq_ns, machine.costs.timer_wakeup_ns) = (2_000, 3_000);
    let times_ns = |others: &str| {
        let workload = parse(&format!(
            r#"{{ "tasks": {{ "A": {{ "loop": 100, "run": 50, "sleep": 100 }} {others} }} }}"#
        ));
        let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
        let ran = ran.expect("a run");
        check_books(&ran);
        let a = ran.summary.tasks.iter().find(|t| t.name == "A").expect("A");
        (a.sleep_ns, a.wait_ns, ran.summary.overhead.wakeup_ns)
    };
    // The shell that starts A sleeps, too, once.
    let (sleep_ns, wait_ns, charged_ns) = times_ns("");
    assert_eq!((sleep_ns, charged_ns), (10_200_000, 505_000));
    assert!((300_000..=301_000).contains(&wait_ns), "{wait_ns} ns");
    let (_, _, beside_hog_ns) = times_ns(r#", "hog": { "loop": 30, "run": 1000 }"#);
    assert_eq!(beside_hog_ns, 505_000);
}

/// The way of a task to its sleep takes its time, beside the switch.
#[test]
fn each_sleep_is_charged() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    machine.costs.block_ns = 700;
    let workload = parse(r#"{ "tasks": { "A": { "loop": 100, "run": 50, "sleep": 100 } } }"#);
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let charged_ns = ran.summary.overhead.switch_ns;
    assert!((70_000..=72_000).contains(&charged_ns), "{charged_ns} ns");
    // A sleep ends when it would have: its timer starts first.
    let a = ran.summary.tasks.iter().find(|t| t.name == "A").expect("A");
    assert_eq!(a.sleep_ns + a.overhead_ns, 10_000_000);
}

/// Tasks are created one after the other, and a child runs when its creation is over.
#[test]
fn creation_takes_its_time() {
    let mut machine = ideal("package:1 [numa] core:4 pu:1", 250);
    machine.costs.fork_ns = 10_000;
    let workload = parse(
        r#"{ "tasks": { "parent": { "loop": 1, "tiltyard": { "spawn": "child", "spawn1": { "task": "child", "count": 2 }, "join": true } },
                        "child": { "instance": 0, "loop": 1, "run": 1000 } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    assert_eq!(ran.summary.overhead.wakeup_ns, 40_000);
    let children = ran
        .summary
        .tasks
        .iter()
        .filter(|t| t.name.starts_with("child"));
    let starts_us: Vec<u64> = children.map(|t| t.started_ns / 1000).collect();
    assert_eq!(
        starts_us,
        [20, 30, 40],
        "the shell creates the parent first"
    );
}

/// A task's end keeps its CPU busy, and is later by as much.
#[test]
fn an_end_takes_its_time() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    machine.costs.exit_ns = 25_000;
    let workload = parse(r#"{ "tasks": { "A": { "instance": 2, "loop": 1, "run": 1000 } } }"#);
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    // Theirs; the shell has not ended when the run has.
    assert_eq!(ran.summary.overhead.switch_ns, 50_000);
    let tasks = ran.summary.tasks.iter();
    let mut ends_us: Vec<u64> = tasks.filter_map(|t| Some(t.ended_ns? / 1000)).collect();
    ends_us.sort_unstable();
    assert_eq!(ends_us, [1_025, 2_050]);
}

/// From sending it to the end of its handler, and half of that on the CPU that it interrupts.
#[test]
fn an_interrupt_is_charged_once() {
    let mut machine = ideal("package:1 [numa] core:2 pu:1", 250);
    machine.costs.ipi_ns = 3_000;
    let workload = parse(
        r#"{ "tasks": { "A": { "cpus": [0], "loop": 100, "tiltyard": { "run": 100, "sem_post": "b" } },
                        "B": { "cpus": [1], "loop": 100, "tiltyard": { "sem_wait": "b", "run": 50 } } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let charged_ns = ran.summary.overhead.ipi_ns;
    assert!((150_000..=155_000).contains(&charged_ns), "{charged_ns} ns");
    let b = ran.summary.tasks.iter().find(|t| t.name == "B");
    let wakeup_ns = b.expect("it ran").wakeup.p50_ns;
    assert!((2_990..=3_010).contains(&wakeup_ns), "{wakeup_ns} ns");
}

/// A CPU whose tick was stopped takes longer to leave the idle state; one that was idle for less does not.
#[test]
fn a_long_idle_state_takes_time_to_leave() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    machine.costs.idle_exit_ns = 5_000;
    let overhead_ns = |sleep_us: u32| {
        let tasks = format!(
            r#"{{ "tasks": {{ "A": {{ "loop": 100, "run": 50, "sleep": {sleep_us} }} }} }}"#
        );
        let ran = Lab::new(&machine, object("fifo", 2))
            .run(&parse(&tasks))
            .expect("a run");
        check_books(&ran);
        ran.summary.overhead.wakeup_ns
    };
    // The first wakeup is that of the shell that starts the task.
    assert_eq!((overhead_ns(3_900), overhead_ns(4_000)), (5_000, 505_000));
}

/// What the scheduler takes to choose comes before the switch, as in the kernel's trace.
#[test]
fn a_woken_task_waits_until_it_is_chosen() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    machine.costs.callback_ns = 1_000;
    let workload = parse(
        r#"{ "tasks": { "A": { "loop": 200, "tiltyard": { "sem_post": "b", "sem_wait": "a" } },
                        "B": { "loop": 200, "tiltyard": { "sem_wait": "b", "sem_post": "a" } } } }"#,
    );
    let ran = Lab::new(&machine, object("fifo", 2)).run(&workload);
    let ran = ran.expect("a run");
    check_books(&ran);
    let task = ran.summary.tasks.iter().find(|t| t.name == "B");
    let wakeup_ns = task.expect("it ran").wakeup.p50_ns;
    // Its enqueue, and the dispatch that brings it to the CPU.
    assert!((1_970..=2_030).contains(&wakeup_ns), "{wakeup_ns} ns");
}

/// Between two wakeups of one system call a preemptible kernel runs whom the first has woken.
#[test]
fn a_preemptible_kernel_is_preempted_between_wakeups() {
    let mut machine = ideal("package:1 [numa] core:1 pu:1", 250);
    let workload = parse(
        r#"{ "tiltyard": { "barriers": { "all": { "parties": 3, "spin": 0 } } },
             "tasks": { "rt": { "instance": 2, "loop": 20, "policy": "SCHED_FIFO", "priority": 10, "tiltyard": { "barrier": "all", "run": 1000 } },
                        "last": { "loop": 20, "tiltyard": { "run": 10000, "barrier": "all" } } } }"#,
    );
    let mut longest_us = |preemptible| {
        machine.preemptible = preemptible;
        let ran = Lab::new(&machine, object("fifo", 2))
            .run(&workload)
            .expect("a run");
        check_books(&ran);
        let tasks = ran
            .summary
            .tasks
            .iter()
            .filter(|task| task.name.starts_with("rt"));
        tasks
            .map(|task| task.wakeup.p50_ns / 1000)
            .max()
            .unwrap_or(0)
    };
    // The second waits until the first has run, or is woken only then.
    assert_eq!([false, true].map(&mut longest_us), [1000, 0]);
}
