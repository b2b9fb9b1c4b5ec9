// SPDX-License-Identifier: GPL-2.0-or-later
//! What O(1) decides on several CPUs, record by record (see recorded.rs), through the handles of decisions.bpf.c.

use super::recorded::*;
use serde_json::Value;

/// The moment of a record: at tick 100000.
const MOMENT: i64 = TICK_0 * 1_000_000;

fn state_of(idle: &Value) -> i64 {
    match idle.as_str() {
        Some("idle") => 0,
        Some("busy") => 1,
        Some("newidle") => 2,
        _ => panic!("{idle} is no state"),
    }
}

fn set_idle(m: &mut Machine, idle: i64) {
    m.kernel
        .state()
        .set_idle(|cpu| cpu < 64 && idle & 1 << cpu != 0);
}

/// Domains, their figures and groups, for each CPU of each machine. Flags as the kernel of the records has them.
#[test]
fn domains() {
    const FLAGS: [(i64, i64); 8] = [
        (2, 1),
        (4, 2),
        (8, 4),
        (16, 8),
        (32, 16),
        (64, 32),
        (128, 128),
        (1024, 64),
    ];
    let mut machines = Machines::default();
    let topologies = RECORDS.topologies().as_object().expect("machines");
    assert_eq!(topologies.len(), 5);
    for (name, topology) in topologies {
        let m = machines.get(name, 1000, 0);
        assert_eq!(m.nr_cpus, int(&topology["ncpu"]));
        let levels = list(&topology["levels"]);
        for cpu in 0..m.nr_cpus {
            for (l, level) in levels.iter().enumerate() {
                let at = [cpu, l as i64, 0];
                let (w, f) = (m.call("t_level", &at), m.call("t_level_figures", &at));
                let of = |key: &str| int(&level[key]);
                let figures = ["tries", "mini", "maxi", "bf", "cache_hot_ns"].map(of);
                assert_eq!(f[3..8], figures, "{name} level {l}");
                let indices = ["bidx", "iidx", "nidx", "widx", "fidx"].map(of);
                let index = |n: i64| f[2] >> (8 * n) & 0xff;
                assert_eq!([0, 1, 2, 3, 4].map(index), indices, "{name} level {l}");
                let flag = |(theirs, ours)| i64::from(of("flags") & theirs != 0) * ours;
                let flags: i64 = FLAGS.into_iter().map(flag).sum();
                assert_eq!([w[5], w[6]], [of("pct"), flags], "{name} level {l}");
                // All balance, the first time after a millisecond.
                assert_eq!(of("flags") & 1, 1);
                assert_eq!(m.call("t_domain_get", &at)[3], 1);
                domains_groups(m, cpu, l as i64, w[4], &level["groups"]);
            }
            assert_eq!(m.call("t_level", &[cpu, levels.len() as i64])[2], -1);
        }
    }
}

/// The groups from the own one on, ascending and around.
fn domains_groups(m: &mut Machine, cpu: i64, level: i64, nr: i64, sets: &Value) {
    let of_cpu = |set: &&Value| {
        let span: i64 = list(set).iter().map(|group| int(&group[0])).sum();
        span & 1 << cpu != 0
    };
    let mut groups: Vec<Vec<i64>> = list(list(sets).iter().find(of_cpu).expect("a set"))
        .iter()
        .map(ints)
        .collect();
    let own = groups.iter().position(|group| group[0] & 1 << cpu != 0);
    groups.rotate_left(own.expect("the own group"));
    let is: Vec<Vec<i64>> = (0..nr)
        .map(|n| m.call("t_group", &[cpu, level, n])[3..5].to_vec())
        .collect();
    assert_eq!(is, groups, "CPU {cpu} level {level}");
}

/// Where a wakee goes, with what priority, and whom it preempts.
#[test]
fn wakeups() {
    const WAKEE: i64 = 100;
    RECORDS.check("wakesmp", 215, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        let mut idle = 0;
        for (cpu, of) in (0..).zip(list(&with["cpus"])) {
            if of[3].is_null() {
                idle |= 1 << cpu;
            } else {
                m.add(&Task {
                    cpu,
                    prio: int(&of[3][0]),
                    weight: int(&of[3][1]),
                    ..Task::new(cpu)
                });
                m.enqueue(&[cpu], false);
            }
            m.set_cpu(cpu, if of[3].is_null() { -1 } else { cpu }, 0, 140, MOMENT);
            let loads = ints(&of[2]);
            let words = [
                cpu,
                loads[0],
                loads[1],
                loads[2],
                TICK_0,
                int(&of[0]),
                int(&of[1]),
            ];
            m.call("t_load", &words);
        }
        set_idle(m, idle);
        let last = int(&with["last"]);
        m.add(&Task {
            cpu: last,
            nice: int(&with["nice"]),
            savg: int(&with["savg"]),
            timestamp: MOMENT - int(&with["sleep"]),
            weight: int(&with["weight"]),
            ..Task::new(WAKEE)
        });
        let task = m.task_struct(WAKEE, int(&with["allowed"]));
        let (here, sync) = (int(&with["self"]), int(&with["sync"]));
        m.kernel.state().cpu = here as u32;
        let cpu = m.call("t_place_wakee", &[task, WAKEE + FIRST, last, sync, TICK_0])[5];
        let sync = i64::from(sync != 0 && cpu == here);
        m.call("t_sleeps", &[WAKEE + FIRST, 1, 0, sync]);
        let resched = m.call("t_wake", &[WAKEE + FIRST, cpu, int(&with["irq"]), MOMENT])[4];
        let rescheds = if resched != 0 { vec![cpu] } else { Vec::new() };
        Some(differs(
            "cpu, prio, resched",
            &(cpu, m.seen(WAKEE).prio, rescheds),
            &(int(&out["cpu"]), int(&out["prio"]), ints(&out["resched"])),
        ))
    });
}

/// Where a new task runs, or one that begins a program.
#[test]
fn placement() {
    RECORDS.check("place", 172, 0, |machines, r| {
        let with = &r["in"];
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        for (cpu, of) in (0..).zip(list(&with["cpus"])) {
            let (nr, raw, load) = (int(&of[0]), int(&of[1]), int(&of[2]));
            m.call("t_load", &[cpu, load, load, load, TICK_0, nr, raw]);
        }
        let task = m.task_struct(0, int(&with["allowed"]));
        let new = i64::from(with["event"] == "fork");
        let cpu = m.call("t_place_new", &[task, int(&with["self"]), new, TICK_0])[4];
        Some(differs("cpu", &cpu, &int(&r["out"]["cpu"])))
    });
}

/// The busiest group, what is to be moved, and the busiest CPU of it.
#[test]
fn busiest_groups() {
    RECORDS.check("fbg", 210, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        let mut idle = 0;
        for (cpu, of) in (0..).zip(list(&with["cpus"])) {
            let loads = ints(&of[2]);
            let words = [
                cpu,
                loads[0],
                loads[1],
                loads[2],
                TICK_0,
                int(&of[0]),
                int(&of[1]),
            ];
            m.call("t_load", &words);
            idle |= int(&of[3]) << cpu;
        }
        set_idle(m, idle);
        let (cpu, level) = (int(&with["self"]), int(&with["level"]));
        let w = m.call("t_busiest", &[cpu, level, state_of(&with["idle"]), MOMENT]);
        let mask = match w[4] {
            -1 => -1,
            group => (0..8)
                .map(|n| m.call("t_group", &[cpu, level, n]))
                .find(|of| of[5] == group)
                .expect("a group")[3],
        };
        Some(differs(
            "group, imbalance, balance, queue",
            &[mask, w[5], 1 - w[6], w[7]],
            &[
                or_none(&out["group"]),
                int(&out["imbalance"]),
                int(&out["balance"]),
                or_none(&out["queue"]),
            ],
        ))
    });
}

/// Sets up the CPUs of a record: `[running, averages, active, expired, best expired]`, and its tasks: `[id, prio, weight,
/// ns since it ran, allowed]`.
fn queues(m: &mut Machine, with: &Value, cpus: &[i64]) {
    let mut idle = 0;
    for (cpu, of) in cpus.iter().copied().zip(list(&with["cpus"])) {
        let (active, expired) = (ints(&of[2]), ints(&of[3]));
        for task in list(&with["tasks"]) {
            let id = int(&task[0]);
            if active.contains(&id) || expired.contains(&id) {
                m.add(&Task {
                    cpu,
                    prio: int(&task[1]),
                    weight: int(&task[2]),
                    last_ran: MOMENT - int(&task[3]),
                    allowed: int(&task[4]),
                    ..Task::new(id)
                });
            }
        }
        m.enqueue(&active, false);
        m.enqueue(&expired, true);
        m.set_cpu(cpu, or_none(&of[0]), 0, int(&of[4]), MOMENT);
        idle |= i64::from(of[0].is_null()) << cpu;
        let loads = ints(&of[1]);
        m.call(
            "t_load",
            &[cpu, loads[0], loads[1], loads[2], TICK_0, -1, -1],
        );
    }
    set_idle(m, idle);
}

/// Which tasks are moved, in which order, and whether they preempt.
#[test]
fn moves() {
    RECORDS.check("move", 175, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        let (to, level) = (int(&with["self"]), int(&with["level"]));
        // The record does not say which CPU of the domain is the source: they are alike.
        let span = m.call("t_group", &[to, level, 1])[5];
        queues(m, with, &[to, span]);
        m.kernel.state().cpu = to as u32;
        m.call("t_domain", &[to, level, int(&with["failed"]), 1, 0]);
        let w = m.call(
            "t_move",
            &[
                to,
                level,
                span,
                int(&with["max_nr"]),
                int(&with["max_load"]),
            ],
        );
        let resched = i64::from(m.seen_cpu(to).resched);
        let same = differs(
            "moved, pinned, resched",
            &[w[5], w[6], resched],
            &["moved", "pinned", "resched"].map(|key| int(&out[key])),
        );
        Some(
            same.and_then(|()| m.arrays_differ(to, &out["to"][0], &out["to"][1]))
                .and_then(|()| m.arrays_differ(span, &out["from"][0], &out["from"][1])),
        )
    });
}

/// A task whose hand-over has failed leaves its queue, unless the core has brought it back meanwhile.
#[test]
pub fn a_task_that_is_back_in_custody_keeps_its_place() {
    let mut m = Machine::boot("smp4", 1000, &[]);
    m.build(0b1111);
    m.clear();
    m.add(&Task::new(0));
    m.enqueue(&[0], false);
    m.call("t_lost", &[FIRST, NOW, 0]);
    assert_eq!(m.queued(0, false), [0]);
    // Running, it is in nobody's custody. If that is elsewhere, it stays there.
    m.set_cpu(0, 0, 0, 140, NOW);
    m.call("t_lost", &[FIRST, NOW, 2]);
    assert_eq!(m.queued(0, false), [0]);
    m.call("t_lost", &[FIRST, NOW, 0]);
    assert_eq!((m.queued(0, false), m.seen_cpu(0).nr_running), (vec![], 0));
}

fn all_arrays_differ(m: &mut Machine, cpus: &Value) -> Result<(), String> {
    for (cpu, of) in (0..).zip(list(cpus)) {
        m.arrays_differ(cpu, &of[0], &of[1])
            .map_err(|how| format!("CPU {cpu}: {how}"))?;
    }
    Ok(())
}

/// One level balanced, with all that it remembers.
#[test]
pub fn balancing() {
    RECORDS.check("balance", 152, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        let (cpu, level) = (int(&with["self"]), int(&with["level"]));
        queues(m, with, &[0, 1, 2, 3]);
        m.kernel.state().cpu = cpu as u32;
        let (failed, interval) = (int(&with["failed"]), int(&with["interval"]));
        m.call("t_domain", &[cpu, level, failed, interval, 0]);
        let w = m.call("t_balance", &[cpu, level, state_of(&with["idle"]), MOMENT]);
        let after = m.call("t_domain_get", &[cpu, level]);
        let pushes = (0..m.nr_cpus).find_map(|src| match m.seen_cpu(src).push_to {
            -1 => None,
            to => Some(vec![src, to]),
        });
        let should = match &out["push"] {
            Value::Null => None,
            push => Some(ints(push)),
        };
        let same = differs(
            "result, balance, failed, interval, push",
            &(w[4], 1 - w[5], after[2], after[3], pushes),
            &(
                int(&out["ret"]),
                int(&out["balance"]),
                int(&out["failed"]),
                int(&out["interval"]),
                should,
            ),
        );
        Some(same.and_then(|()| all_arrays_differ(m, &out["cpus"])))
    });
}

/// A CPU that runs dry looks for tasks at one level.
#[test]
fn newly_idle() {
    RECORDS.check("newidle", 152, 0, |machines, r| {
        let (with, out) = (&r["in"], &r["out"]);
        let m = machines.get(r["topo"].as_str().expect("a name"), 1000, 0);
        let (cpu, level) = (int(&with["self"]), int(&with["level"]));
        queues(m, with, &[0, 1, 2, 3]);
        m.kernel.state().cpu = cpu as u32;
        m.call("t_domain", &[cpu, level, int(&with["failed"]), 1, 0]);
        let result = m.call("t_balance_newidle", &[cpu, level, MOMENT])[3];
        let failed = m.call("t_domain_get", &[cpu, level])[2];
        let same = differs(
            "result, failed",
            &[result, failed],
            &[int(&out["ret"]), int(&out["failed"])],
        );
        Some(same.and_then(|()| all_arrays_differ(m, &out["cpus"])))
    });
}

// What the records leave open.

/// A group may have a quarter more load than the own one: of many light tasks none is moved for less.
#[test]
fn a_difference_is_tolerated() {
    for (load, imbalance) in [(625, 0), (626, 63)] {
        let mut machines = Machines::default();
        let m = machines.get("smp2", 1000, 0);
        // 100 tasks of nice 19, more or less.
        m.call("t_load", &[0, load, load, load, TICK_0, 100, load]);
        m.call("t_load", &[1, 500, 500, 500, TICK_0, 80, 500]);
        let w = m.call("t_busiest", &[1, 0, state_of(&"busy".into()), MOMENT]);
        assert_eq!(w[5], imbalance, "{load} against 500");
    }
}

/// Two tasks on CPU 0, the one that waits bound to it. After three passes that moved nothing beyond those that respect a
/// warm cache, the running one is pushed.
#[test]
fn repeated_failure_pushes_the_running_task() {
    for (failed, push_to, failed_after) in [(1, -1, 2), (2, -1, 3), (3, 1, 2)] {
        let mut machines = Machines::default();
        let m = machines.get("smp2", 1000, 0);
        for (id, allowed) in [(0, 3), (1, 1)] {
            m.add(&Task {
                prio: 125,
                allowed,
                ..Task::new(id)
            });
        }
        m.enqueue(&[0, 1], false);
        m.set_cpu(0, 0, 0, 140, MOMENT);
        m.set_cpu(1, -1, 0, 140, MOMENT);
        m.call("t_load", &[0, 256, 256, 256, TICK_0, -1, -1]);
        set_idle(m, 2);
        m.kernel.state().cpu = 1;
        m.call("t_domain", &[1, 0, failed, 1, 0]);
        m.call("t_balance", &[1, 0, state_of(&"idle".into()), MOMENT]);
        let after = m.call("t_domain_get", &[1, 0])[2];
        assert_eq!(
            (m.seen_cpu(0).push_to, after),
            (push_to, failed_after),
            "{failed} failures before"
        );
    }
}

/// All tasks of the busiest CPU are bound to it: it is left out, and the next one asked.
#[test]
fn a_cpu_of_pinned_tasks_is_left_out() {
    let mut machines = Machines::default();
    let m = machines.get("smp4", 1000, 0);
    for (cpu, ids, allowed) in [(0, 0..5, 1), (1, 5..8, 15)] {
        for id in ids.clone() {
            m.add(&Task {
                cpu,
                prio: 125,
                allowed,
                ..Task::new(id)
            });
        }
        let load = 128 * (ids.end - ids.start);
        m.enqueue(&ids.clone().collect::<Vec<i64>>(), false);
        m.set_cpu(cpu, ids.start, 0, 140, MOMENT);
        m.call("t_load", &[cpu, load, load, load, TICK_0, -1, -1]);
    }
    for cpu in [2, 3] {
        m.set_cpu(cpu, -1, 0, 140, MOMENT);
    }
    set_idle(m, 12);
    m.kernel.state().cpu = 3;
    let moved = m.call("t_balance", &[3, 0, state_of(&"idle".into()), MOMENT])[4];
    assert_eq!(moved, 1);
    assert_eq!(m.queued(3, false), [7], "the last of the list");
}

/// An idle thread of the same core is no use to a task that may not run there.
#[test]
fn an_idle_sibling_has_to_be_allowed() {
    for (allowed, found) in [(0b1111, 1), (0b1101, 0)] {
        let mut m = Machine::boot("smt4", 1000, &[]);
        m.build(0);
        m.clear();
        m.add(&Task::new(0));
        m.enqueue(&[0], false);
        m.set_cpu(0, 0, 0, 140, NOW);
        let state = m.kernel.state();
        state.set_idle(|cpu| cpu != 0);
        let wakee = state.add_task(900, 0);
        state.allow(wakee, |cpu| cpu < 4 && allowed >> cpu & 1 != 0);
        let p = state.address(wakee);
        let cpu = m.call("t_place_wakee", &[p, FIRST, 0, 0, NOW / 1_000_000])[5];
        assert_eq!(cpu, found);
    }
}
