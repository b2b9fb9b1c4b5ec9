// SPDX-License-Identifier: GPL-2.0-or-later
//! 4BSD's arithmetic: numbers that were computed by hand or by an independent model, and recorded ones of the original.

use crate::bsd4::machine::{Machine, OF_2012, OF_2016, START_NS};
use crate::bsd4::records::Compared::{No, Part, Whole};
use crate::bsd4::records::{Reason, compare, differs, int, ints, or};
use serde_json::{Value, json};
use tiltyard_schedtest::{globals, object, vectors};

const IDLE_LOOP: Reason = "the idle loop is the kernel's";
const IDLE_TASK: Reason = "the kernel calls no tick for an idle CPU";
const READ_BACK: Reason = "nobody asks a scheduler for its quantum";

/// A load average of 1.
const ONE: i64 = 2048;

fn machine(nr_cpus: i64) -> Machine {
    let mut m = Machine::boot(1, &[]);
    m.call("t_cpus", &[nr_cpus]);
    m
}

#[test]
pub fn estcpu_has_a_limit_that_grows_with_the_cpus() {
    for (cpus, limit) in [
        (1, 295),
        (2, 591),
        (4, 1183),
        (8, 2367),
        (16, 4735),
        (32, 9471),
    ] {
        let mut m = Machine::boot(1, &[]);
        assert_eq!(m.call("t_cpus", &[cpus])[2], limit, "{cpus} CPUs");
    }
}

/// estcpu of a task that waits, second by second.
fn decays(m: &mut Machine, load: i64, est: i64, seconds: usize) -> Vec<i64> {
    m.call("t_load", &[load]);
    let th = m.thread(&json!({ "id": 1, "pri": 140, "est": est }));
    m.call("t_state", &[th.address, 140, 140, 0, 1, 0, 0]);
    (0..seconds)
        .map(|_| {
            m.call("t_schedcpu", &[]);
            m.known(1).est
        })
        .collect()
}

#[test]
fn estcpu_decays_the_slower_the_higher_the_load() {
    let sequence = [196, 130, 86, 57, 38, 25, 16, 10, 6, 4, 2, 1, 0];
    assert_eq!(decays(&mut machine(1), ONE, 295, 13), sequence);
    assert_eq!(decays(&mut machine(1), 2 * ONE, 295, 3), [236, 188, 150]);
    // Until a tenth is left.
    for (load, seconds) in [
        (ONE / 2, 4),
        (ONE, 6),
        (2 * ONE, 11),
        (4 * ONE, 19),
        (8 * ONE, 35),
    ] {
        let left = decays(&mut machine(1), load, 295, seconds);
        assert!(
            left[seconds - 1] <= 29 && left[seconds - 2] > 29,
            "{load}: {left:?}"
        );
    }
}

#[test]
pub fn priority_follows_use_and_nice() {
    let mut m = machine(1);
    for (est, nice, pri, fifo) in [
        (0, 0, 140, 35),
        (7, 0, 140, 35),
        (8, 0, 141, 35),
        (31, 0, 143, 35),
        (32, 0, 144, 36),
        (127, 0, 155, 38),
        (295, 0, 176, 44),
        (0, -20, 120, 30),
        (295, 20, 196, 49),
        (0, 20, 160, 40),
        (295, -20, 156, 39),
    ] {
        let out = m.call("t_pri", &[est, nice]);
        assert_eq!(out[2..4], [pri, fifo], "estcpu {est}, nice {nice}");
    }
    let mut m = machine(4);
    for (est, pri) in [(0, 140), (127, 143), (508, 155), (1183, 176)] {
        assert_eq!(m.call("t_pri", &[est, 0])[2], pri, "4 CPUs, estcpu {est}");
    }
}

/// So many ticks a second, then a second passes: estcpu before and after, the priority between and after.
fn hog(cpus: i64, load: i64, ticks: usize, seconds: usize) -> Vec<[i64; 4]> {
    let mut m = machine(cpus);
    m.call("t_load", &[load]);
    let th = m.thread(&json!({ "id": 1, "pri": 140 }));
    m.call("t_state", &[th.address, 140, 140, 0, 1, 1, 1]);
    (0..seconds)
        .map(|_| {
            for _ in 0..ticks {
                m.call("t_clock", &[th.address, 0, START_NS as i64]);
            }
            let before = m.known(1);
            m.call("t_schedcpu", &[]);
            let after = m.known(1);
            [before.est, after.est, before.pri, after.pri]
        })
        .collect()
}

#[test]
fn hogs_reach_an_equilibrium() {
    let alone = hog(1, ONE, 127, 6)
        .into_iter()
        .map(|[a, b, _, p]| (a, b, p));
    let expected = [
        (127, 84, 150),
        (211, 140, 157),
        (267, 178, 162),
        (295, 196, 164),
    ];
    assert_eq!(alone.clone().take(4).collect::<Vec<_>>(), expected);
    assert!(alone.skip(4).all(|second| second == (295, 196, 164)));
    let four = hog(1, 4 * ONE, 32, 8)
        .into_iter()
        .map(|[a, b, p, _]| (a, b, p));
    assert_eq!(
        four.collect::<Vec<_>>(),
        [
            (32, 28, 144),
            (60, 53, 147),
            (85, 75, 150),
            (107, 95, 153),
            (127, 112, 155),
            (144, 128, 158),
            (160, 142, 160),
            (174, 154, 161),
        ]
    );
    let on_four = hog(4, 4 * ONE, 127, 8)
        .into_iter()
        .map(|[a, b, p, _]| (a, b, p));
    assert_eq!(
        on_four.collect::<Vec<_>>(),
        [
            (127, 112, 143),
            (239, 212, 147),
            (339, 301, 150),
            (428, 380, 153),
            (507, 450, 155),
            (577, 512, 158),
            (639, 568, 159),
            (695, 617, 161),
        ]
    );
}

#[test]
fn a_wakeup_makes_up_for_the_seconds_asleep() {
    for (load, slept, est) in [
        (ONE, 2, 200),
        (ONE, 3, 133),
        (ONE, 4, 88),
        (ONE, 5, 58),
        (ONE, 8, 16),
        (ONE, 15, 0),
        (0, 5, 0),
    ] {
        let mut m = machine(1);
        m.call("t_load", &[load]);
        let th = m.thread(&json!({ "id": 1, "pri": 104, "est": 200, "slp": slept }));
        m.call("bsd4_runnable", &[th.address, 1]);
        assert_eq!(m.known(1).est, est, "{slept} s asleep");
    }
}

#[test]
pub fn the_load_average_approaches_the_number_of_tasks() {
    let mut m = machine(1);
    m.call("t_cpu", &[0, 0, 255, 1, 0, 1]);
    let averages: Vec<i64> = (0..12).map(|_| m.call("t_loadav", &[])[0]).collect();
    let expected = [
        164, 314, 452, 579, 696, 804, 903, 994, 1078, 1155, 1226, 1291,
    ];
    assert_eq!(averages, expected);
}

#[test]
fn a_child_that_exits_leaves_its_use_to_its_parent() {
    for (cpus, sum) in [(1, 295), (4, 350)] {
        assert_eq!(machine(cpus).call("t_limit", &[200, 150])[2], sum);
    }
}

#[test]
fn the_share_of_a_cpu_decays_by_a_twentieth() {
    let mut m = machine(1);
    let th = m.thread(&json!({ "id": 1, "pri": 140 }));
    m.call("t_state", &[th.address, 140, 140, 0, 1, 1, 1]);
    let mut shares = Vec::new();
    for _ in 0..60 {
        for _ in 0..127 {
            m.call("t_clock", &[th.address, 0, START_NS as i64]);
        }
        m.call("t_schedcpu", &[]);
        shares.push(m.known(1).share);
    }
    let at = [1, 2, 3, 20, 60].map(|second| shares[second - 1]);
    assert_eq!(at, [100, 195, 285, 1288, 1936]);
}

#[test]
pub fn a_turn_is_twelve_ticks() {
    let m = Machine::boot(1, &[]);
    assert_eq!((m.slice, m.quantum), (12, 100));
}

#[test]
pub fn recorded_decay() {
    compare("decay", 160, &[], |given, expected| {
        let mut m = machine(int(&given["ncpu"]));
        m.call("t_load", &[int(&given["ldavg"])]);
        let th = m.thread(&json!({ "id": 1, "pri": 140, "est": given["est"] }));
        m.call("t_state", &[th.address, 140, 140, 0, 1, 0, 0]);
        let (mut est, mut pri) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            m.call("t_schedcpu", &[]);
            est.push(m.known(1).est);
            pri.push(m.known(1).user_pri);
        }
        differs("est", &est, &ints(&expected["est"]))?;
        differs("upri", &pri, &ints(&expected["upri"]))?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_wakeup() {
    compare("wakeup", 175, &[], |given, expected| {
        let nr_cpus = int(&given["ncpu"]) as usize;
        let mut th = given.clone();
        th["id"] = json!(1);
        let mut m = Machine::boot(nr_cpus, &[]);
        m.call("t_load", &[int(&given["ldavg"])]);
        let th = m.thread(&th);
        m.wakes(1, 1);
        let k = m.known(1);
        let fifo = m.kernel.state().task(th.task).scx.dsq_vtime >> 57;
        differs(
            "est, upri, pri, slp, fifo",
            &[k.est, k.user_pri, k.pri, k.slept, fifo as i64],
            &["est", "upri", "pri", "slp", "fifo"].map(|name| int(&expected[name])),
        )?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_clock() {
    let rest = [(IDLE_LOOP, 220), (IDLE_TASK, 10)];
    compare("clock", 0, &rest, |given, expected| {
        if given["idlethread"] == 1 {
            return Ok(No(IDLE_TASK));
        }
        for of_2012 in [true, false] {
            let mut tunables = if of_2012 { OF_2012 } else { OF_2016 }.to_vec();
            let hz = int(&given["hz"]);
            tunables.push(("hz", hz.into()));
            let mut m = Machine::boot(1, &tunables);
            m.call("t_cpus", &[int(&given["ncpu"])]);
            let mut th = given.clone();
            th["id"] = json!(1);
            let th = m.thread(&th);
            m.call(
                "t_state",
                &[
                    th.address,
                    or(&given["upri"], int(&given["pri"])),
                    int(&given["pri"]),
                    0,
                    1,
                    1,
                    1,
                ],
            );
            let tick_ns = 1_000_000_000 / hz;
            let now = START_NS as i64;
            m.call(
                "t_cpu",
                &[0, th.slot, 0, 0, now / tick_ns - int(&given["ago"]), 1],
            );
            for _ in 0..int(&given["ticks"]) {
                m.call("t_clock", &[th.address, 0, now]);
            }
            let (k, asked) = (m.known(1), i64::from(m.asked(0)[0]));
            differs(
                "est, cpt, upri, pri",
                &[k.est, k.ticks, k.user_pri, k.pri],
                &["est", "cpt", "upri", "pri"].map(|name| int(&expected[name])),
            )?;
            if of_2012 {
                differs("nr", &asked, &int(&expected["nr"]))?;
            } else {
                differs("slice", &vec![k.slice, asked], &ints(&expected["slice"]))?;
            }
        }
        Ok(Part(IDLE_LOOP))
    });
}

#[test]
pub fn recorded_quantum() {
    compare("rr", 0, &[(READ_BACK, 160)], |given, expected| {
        for (of_2012, expected) in [(true, expected), (false, &expected["slice_version"])] {
            let quantum = or(&given["set_us"], 0);
            let tunables = [
                ("hz", int(&given["hz"]).into()),
                ("stathz", int(&given["stathz"]).into()),
                ("quantum_us", quantum.into()),
                ("slice_counter", i128::from(!of_2012)),
            ];
            let object = object("schedulers/bsd4/tests/vectors.bpf.c", 2);
            let instance = vectors::load(object, &globals(&tunables));
            let out = vectors::call(&instance, "t_setup", &[]).1;
            if expected["err"] == 22 {
                differs("error", &out[0], &-22)?;
                continue;
            }
            let hz = int(&given["hz"]);
            let stathz = match int(&given["stathz"]) {
                0 => hz,
                stathz => stathz,
            };
            // In hz ticks: of one turn, rounded, and of two.
            let (turn, two) = match of_2012 {
                true => (out[3], 2 * out[3]),
                false => (
                    (hz * out[2] + stathz / 2) / stathz,
                    (2 * hz * out[2] + stathz / 2) / stathz,
                ),
            };
            differs("rr", &turn.max(1), &int(&expected["rr"]))?;
            differs("hogticks", &two.max(1), &int(&expected["hogticks"]))?;
        }
        Ok(Part(READ_BACK))
    });
}

#[test]
pub fn recorded_return_to_user() {
    compare("userret", 150, &[], |given, expected| {
        let mut m = Machine::boot(1, &[]);
        let mut th = given.clone();
        th["id"] = json!(1);
        let th = m.thread(&th);
        m.call("bsd4_running", &[th.address]);
        let pri = m.known(1).pri;
        differs("pri", &pri, &int(&expected["pri"]))?;
        differs("base", &pri, &int(&expected["base"]))?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_sleep() {
    compare("sleep", 150, &[], |given, expected| {
        let sleep = [("sleep_priority", int(&given["sleep_pri"]).into())];
        let mut m = Machine::boot(1, &sleep);
        let mut th = given.clone();
        th["id"] = json!(1);
        let th = m.thread(&th);
        m.call("bsd4_quiescent", &[th.address, 1]);
        let k = m.known(1);
        differs(
            "pri, base, upri, slp",
            &[k.pri, k.pri, k.user_pri, k.slept],
            &["pri", "base", "upri", "slp"].map(|name| int(&expected[name])),
        )?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_fork() {
    compare("fork", 160, &[], |given, expected| {
        for (tunables, of_2012) in [(OF_2012, true), (OF_2016, false)] {
            let mut m = Machine::boot(int(&given["ncpu"]) as usize, tunables);
            let mut th = given.clone();
            th["id"] = json!(1);
            let creator = m.thread(&th);
            let child = forks(&mut m, creator.task, 2, &given["mask"]);
            let k = m.known(2);
            let aff = m.call("t_flags", &[child])[5];
            differs(
                "est, pri, base, upri, slp, cpt, pct, nr, aff, parent_est",
                &[
                    k.est,
                    k.pri,
                    k.pri,
                    k.user_pri,
                    k.slept,
                    k.ticks,
                    k.share,
                    k.resched.into(),
                    aff,
                    m.known(1).est,
                ],
                &[
                    "est",
                    "pri",
                    "base",
                    "upri",
                    "slp",
                    "cpt",
                    "pct",
                    "nr",
                    "aff",
                    "parent_est",
                ]
                .map(|name| int(&expected[name])),
            )?;
            match of_2012 {
                true => differs("last", &k.last_cpu, &int(&expected["last"]))?,
                false => differs("slice", &k.slice, &int(&expected["slice"]))?,
            }
        }
        Ok(Whole)
    });
}

/// A task creates another one, of this id and mask; returns its address.
pub fn forks(
    m: &mut Machine,
    creator: tiltyard_schedtest::kernel::TaskId,
    id: i64,
    mask: &Value,
) -> i64 {
    let mask = m.mask(mask);
    let state = m.kernel.state();
    let nice = state.task(creator).static_prio;
    let task = state.add_task(id as i32, 0);
    state.allow(task, |cpu| cpu < 64 && mask >> cpu & 1 != 0);
    state.task(task).static_prio = nice;
    let address = state.address(task);
    let current = state.current.replace(creator);
    // `struct scx_init_task_args`: fork, cgroup.
    let args = [1u64, 0];
    let (_, error) = m
        .kernel
        .call("bsd4_init_task", &[address, args.as_ptr() as i64]);
    assert_eq!(error, 0);
    m.kernel.state().current = current;
    m.adopt(id, task, address);
    address
}

#[test]
pub fn recorded_exit() {
    const NO_LOAD: Reason = "every task counts in the load";
    compare("exit", 118, &[(NO_LOAD, 42)], |given, expected| {
        let mut m = Machine::boot(int(&given["ncpu"]) as usize, &[]);
        let parent = m.thread(
            &json!({ "id": 1, "pri": expected["parent_upri"], "est": given["parent_est"] }),
        );
        let exiting = m.thread(&json!({ "id": 2, "pri": 140, "est": given["exiting_est"] }));
        m.call("t_cpu", &[0, exiting.slot, 0, 0, 0, int(&given["load"])]);
        m.call("t_state", &[exiting.address, 140, 140, 0, 1, 1, 1]);
        let parents = m.kernel.state().address(parent.task) as *const _;
        let task = m.kernel.state().task(exiting.task);
        match given["what"] == "thread" {
            true => task.tgid = 1,
            false => task.real_parent = parents,
        }
        task.exit_state = 16;
        m.call("bsd4_quiescent", &[exiting.address, 1]);
        let k = m.known(1);
        differs(
            "parent_est, parent_upri",
            &[k.est, k.user_pri],
            &[int(&expected["parent_est"]), int(&expected["parent_upri"])],
        )?;
        if given["noload"] == 1 {
            return Ok(Part(NO_LOAD));
        }
        differs("load", &m.load(), &int(&expected["load"]))?;
        Ok(Whole)
    });
}
