// SPDX-License-Identifier: GPL-2.0-or-later
//! ULE's decisions on machines of several CPUs, record by record, through the handles of multicore.bpf.c.
//!
//! freebsd_multicore.jsonl.zst: 2455 decisions of FreeBSD's ULE (stable/11, svn r303160: `sys/kern/sched_ule.c` of July
//! 2016, which differs from 11.1's in assertions only), compiled in user space and run on made-up states of machines.
//! port_multicore.jsonl.zst: 1201 decisions of the port to Linux of "The Battle of the Schedulers" (ATC'18), transcribed.
//! Both are facts: inputs and outputs, no code. One JSON object a line, the topologies first; `zstdcat` shows them.
//!
//! What sched_ext has no place for:
//!
//! | records | what is not compared | why |
//! | --- | --- | --- |
//! | pickcpu `pinned`, `ourself` | all: [`STAYS`] | the kernel does not ask where a task goes that must stay |
//! | pickcpu with `last_after` | all: [`INTERRUPT`] | Linux has no threads for interrupts, which priorities 0 to 47 are |
//! | notify, local with an idle CPU | the interrupt: [`IDLE`] | the kernel itself wakes the CPU that it puts a task on |
//! | notify with `ipipending` | the interrupt: [`PENDING`] | a scheduler does not see whether a kick is pending |
//! | notify `mwait_tried` | this field | how an idle CPU is woken is the kernel's affair |
//! | steal-139 | all: [`UNSETTLED`] | idx is ahead of ridx only while slot ridx holds a task; the C code sets ridx right |
//! | ipi `critnest`, `switch_type` | whether the switch comes at once | the kernel delays it while preemption is disabled |
//! | port notify of priority <= 80 that preempts | all: [`NO_TASK`] | no task of the port's class has such a priority |

use crate::ule::fake::{Machine, Records, differs, int, ints, lcg_steps};
use serde_json::{Value, json};
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT};

/// Why a record, or a part of it, is not compared.
type Reason = &'static str;
const STAYS: Reason = "the task must stay";
const INTERRUPT: Reason = "placed by an interrupt";
const IDLE: Reason = "the CPU is idle";
const PENDING: Reason = "an interrupt is pending";
const UNSETTLED: Reason = "the calendar is never like that";
const NO_TASK: Reason = "no task has the priority";

enum Compared {
    Whole,
    Part(Reason),
    No(Reason),
}
use Compared::{No, Part, Whole};

/// Compares all records of a kind, of which so many are compared in whole, and so many in part or not for each reason.
fn compare(
    records: &Records,
    kind: &str,
    whole: usize,
    rest: &[(Reason, usize)],
    check: impl Fn(&Value) -> Result<Compared, String>,
) {
    let (mut counted, mut wrong) = ((0, Vec::new()), Vec::new());
    for record in records.of(kind) {
        match check(record) {
            Ok(Whole) => counted.0 += 1,
            Ok(Part(why) | No(why)) => {
                match counted.1.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, nr)) => *nr += 1,
                    None => counted.1.push((why, 1)),
                }
            }
            Err(how) => wrong.push(format!("{} {}: {how}", record["id"], record["note"])),
        }
    }
    let shown = wrong.iter().take(6).map(String::as_str);
    let shown: Vec<&str> = shown.collect();
    assert!(
        wrong.is_empty(),
        "{kind}: {} records differ, among them\n{}",
        wrong.len(),
        shown.join("\n")
    );
    counted.1.sort_unstable();
    assert_eq!(counted, (whole, rest.to_vec()), "{kind}: what was compared");
}

#[test]
fn freebsd_search() {
    let records = Records::freebsd();
    compare(&records, "search", 400, &[], |r| search(&records, r));
}

fn search(records: &Records, r: &Value) -> Result<Compared, String> {
    let mut m = Machine::of(records, r, &[]);
    let given = &r["in"];
    let (load, lowpri, free) = (
        ints(&given["load"]),
        ints(&given["lowpri"]),
        ints(&given["xfer"]),
    );
    for (cpu, load) in load.into_iter().enumerate() {
        let pinned = free.get(cpu).map_or(0, |free| load - free);
        let lowpri = lowpri.get(cpu).copied().unwrap_or(0);
        let lcg = m.lcg(r, cpu);
        m.call("t_cpu", &[cpu as i64, load, pinned, -1, lowpri, lcg]);
        m.call("t_mask", &[cpu as i64, m.masks(&given["mask"], cpu).into()]);
    }
    let (cpu, level) = m.group(int(&given["group"]));
    let highest = given["want"] == "highest";
    let (minpri, prefer) = match highest {
        true => (0, -1),
        false => (int(&given["minpri"]), int(&given["prefer"])),
    };
    let out = m.call(
        "t_search",
        &[
            cpu,
            level,
            highest.into(),
            int(&given["limit"]),
            minpri,
            prefer,
        ],
    );
    let out_key = if out[0] < 0 {
        Value::Null
    } else {
        json!(out[2])
    };
    differs(
        "cpu, total",
        &[out[0], out[1]],
        &[int(&r["out"]["cpu"]), int(&r["out"]["total"])],
    )?;
    differs("key", &out_key, &r["out"]["key"])?;
    m.visited(r)?;
    Ok(Whole)
}

#[test]
fn freebsd_pickcpu() {
    let records = Records::freebsd();
    let rest = [(INTERRUPT, 20), (STAYS, 16)];
    compare(&records, "pickcpu", 524, &rest, |r| pickcpu(&records, r));
}

#[test]
fn port_pickcpu() {
    let records = Records::port();
    compare(&records, "pickcpu", 450, &[], |r| pickcpu(&records, r));
}

fn pickcpu(records: &Records, r: &Value) -> Result<Compared, String> {
    let (given, expected) = (&r["in"], &r["out"]);
    if expected["last_after"].is_i64() {
        return Ok(No(INTERRUPT));
    }
    if given["pinned"] == 1 || given["ourself"] == 1 {
        return Ok(No(STAYS));
    }
    let affinity = given["affinity"].as_i64().unwrap_or(0);
    let mut m = Machine::of(records, r, &[("affinity_ticks", affinity.into())]);
    let (load, lowpri) = (ints(&given["load"]), ints(&given["lowpri"]));
    for cpu in 0..m.nr_cpus() {
        let lcg = m.lcg(r, cpu);
        m.call("t_cpu", &[cpu as i64, load[cpu], 0, -1, lowpri[cpu], lcg]);
    }
    let (last, now) = (int(&given["last"]), 1_000_000);
    let (_, task) = m.task(1, last, &given["mask"]);
    // FreeBSD's cache is warm since it last ran, the port's since its share of the CPU was brought up to date.
    let since = now - int(&given["ago"]);
    let (ran, counted) = if records.port {
        (now, since)
    } else {
        (since, now)
    };
    let pri = int(&given["pri"]);
    m.call("t_task", &[task, pri, -1, 0, ran, counted]);
    let cpu = m.call("t_pickcpu", &[task, last, now])[3];
    let mut scans = Vec::new();
    for [what, of, level, limit, minpri, found] in m.log() {
        differs("a search", &[what, limit], &[0, i32::MAX.into()])?;
        scans.push(json!([m.name(of, level), minpri, found]));
    }
    differs("scans", &json!(scans), &expected["scans"])?;
    differs("cpu", &json!(cpu), &expected["cpu"])?;
    m.visited(r)?;
    Ok(Whole)
}

#[test]
fn freebsd_steal() {
    let records = Records::freebsd();
    compare(&records, "steal", 399, &[(UNSETTLED, 1)], |r| {
        match r["id"] == "steal-139" {
            true => Ok(No(UNSETTLED)),
            false => steal(&records, r),
        }
    });
}

#[test]
fn port_steal() {
    let records = Records::port();
    compare(&records, "steal", 330, &[], |r| steal(&records, r));
}

fn steal(records: &Records, r: &Value) -> Result<Compared, String> {
    let (given, expected) = (&r["in"], &r["out"]);
    let of = |name: &'static str, default: i128| {
        (name, given[name].as_i64().map_or(default, i128::from))
    };
    let mut m = Machine::of(records, r, &[of("steal_thresh", 2), of("steal_idle", 1)]);
    m.queues(r)?;
    let cpu = int(&given["self"]);
    let stole = m.call("t_steal", &[cpu])[1] != 0;

    let (mut tries, mut got) = (Vec::new(), Value::Null);
    for [what, of, level, limit, _, found] in m.log() {
        if what == 1 {
            let mut entry = vec![m.name(of, level)];
            entry.extend((!records.port).then_some(limit));
            entry.push(found);
            tries.push(entry);
            continue;
        }
        let (tid, pos) = m.taken(r, of, found);
        tries.last_mut().expect("a search first").extend([tid, pos]);
        if tid >= 0 {
            got = json!({ "frm": of, "tid": tid, "pos": pos });
        }
    }
    differs("tries", &json!(tries), &expected["tries"])?;
    differs("got", &got, &expected["got"])?;
    differs("stole", &stole, &!got.is_null())?;
    m.after(r)?;
    m.visited(r)?;
    if !records.port {
        let switch = i64::from(m.call("t_cpu_get", &[cpu])[0] > 0);
        differs("switch", &switch, &int(&expected["switch"]))?;
    }
    Ok(Whole)
}

#[test]
fn freebsd_balance() {
    let records = Records::freebsd();
    compare(&records, "balance", 360, &[], |r| balance(&records, r));
}

#[test]
fn port_balance() {
    let records = Records::port();
    compare(&records, "balance", 330, &[], |r| balance(&records, r));
}

fn balance(records: &Records, r: &Value) -> Result<Compared, String> {
    let expected = &r["out"];
    let mut m = Machine::of(records, r, &[]);
    m.queues(r)?;
    m.call("t_balance", &[]);
    let (mut log, mut moves) = (Vec::new(), Vec::new());
    for [what, a, b, limit, _, found] in m.log() {
        log.push(match what {
            0 => json!(["L", limit, found]),
            1 => json!(["H", found]),
            _ => {
                let (tid, pos) = m.taken(r, a, found);
                if tid >= 0 {
                    moves.push(json!([a, b, tid, pos]));
                }
                json!(["M", a, b, tid, pos])
            }
        });
    }
    differs("log", &json!(log), &expected["log"])?;
    differs("moves", &json!(moves), &expected["moves"])?;
    m.after(r)?;
    let loads: Vec<i64> = (0..m.nr_cpus() as i64)
        .map(|cpu| m.call("t_cpu_get", &[cpu])[0])
        .collect();
    differs("load", &json!(loads), &expected["load"])?;
    // A kick that wakes only an idle CPU is no interrupt: FreeBSD's idle CPUs poll.
    let kicks = m.kernel.state().kicks.iter();
    let kicked: Vec<u32> = kicks
        .filter(|(_, flags)| flags & KICK_IDLE == 0)
        .map(|(cpu, _)| *cpu)
        .collect();
    differs(
        "interrupts",
        &json!(kicked),
        &expected[if records.port { "resched" } else { "ipi" }],
    )?;
    m.visited(r)?;
    Ok(Whole)
}

/// Puts a task of priority `pri` on `cpu`, where one of `cur` runs; the kicks, and [`Machine::call`] of `t_cpu_get`.
fn put(m: &mut Machine, r: &Value, cpu: i64) -> (Vec<(u32, u64)>, [i64; 8]) {
    let (pri, cur) = (int(&r["in"]["pri"]), int(&r["in"]["cur"]));
    m.kernel.state().cpu = r["in"]["self"].as_i64().unwrap_or(0) as u32;
    let runs = i64::from(cur != 255);
    m.call(
        "t_cpu",
        &[cpu, runs, 0, if runs == 1 { cur } else { -1 }, cur, 0],
    );
    let (_, task) = m.task(1, cpu, &Value::Null);
    m.call("t_task", &[task, pri, -1, 0, 0, 0]);
    m.call("ule_enqueue", &[task, 1]);
    let kicks = std::mem::take(&mut m.kernel.state().kicks);
    (kicks, m.call("t_cpu_get", &[cpu]))
}

fn threshold(r: &Value) -> (&'static str, i128) {
    (
        "preempt_thresh",
        r["in"]["thresh"].as_i64().unwrap_or(80).into(),
    )
}

#[test]
fn freebsd_notify() {
    let records = Records::freebsd();
    let rest = [(PENDING, 15), (IDLE, 77)];
    compare(&records, "notify", 238, &rest, |r| {
        let (given, expected) = (&r["in"], &r["out"]);
        let mut m = Machine::small(false, &[threshold(r)]);
        let cpu = int(&given["cpu"]);
        let (kicks, c) = put(&mut m, r, cpu);
        differs("lowpri", &c[2], &int(&expected["lowpri"]))?;
        if given["cur"] == 255 {
            return Ok(Part(IDLE));
        }
        if given["ipipending"] == 1 {
            return Ok(Part(PENDING));
        }
        let ipi: &[_] = if expected["ipi"] == 1 {
            &[(cpu as u32, KICK_PREEMPT)]
        } else {
            &[]
        };
        differs("kicks", &kicks, &ipi.to_vec())?;
        differs("pending", &expected["ipipending"], &expected["ipi"])?;
        Ok(Whole)
    });
}

#[test]
fn freebsd_local() {
    let records = Records::freebsd();
    compare(&records, "local", 258, &[(IDLE, 42)], |r| {
        let (given, expected) = (&r["in"], &r["out"]);
        let mut m = Machine::small(false, &[threshold(r)]);
        let cpu = int(&given["cpu"]);
        let (kicks, c) = put(&mut m, r, cpu);
        differs("lowpri", &c[2], &int(&expected["lowpri"]))?;
        if given["cur"] == 255 {
            return Ok(Part(IDLE));
        }
        let kick: &[_] = if expected["needresched"] == 1 {
            &[(cpu as u32, KICK_PREEMPT)]
        } else {
            &[]
        };
        differs("kicks", &kicks, &kick.to_vec())?;
        differs("owes", &c[7], &int(&expected["owepreempt"]))?;
        Ok(Whole)
    });
}

#[test]
fn port_notify() {
    let records = Records::port();
    compare(&records, "notify", 50, &[(NO_TASK, 31)], |r| {
        if int(&r["in"]["pri"]) <= 80 && r["out"]["resched"] == 1 {
            return Ok(No(NO_TASK));
        }
        let mut m = Machine::small(true, &[]);
        let (kicks, _) = put(&mut m, r, 1);
        differs("kicks", &(kicks.len() as i64), &int(&r["out"]["resched"]))?;
        Ok(Whole)
    });
}

#[test]
fn freebsd_ipi() {
    let records = Records::freebsd();
    compare(&records, "ipi", 60, &[], |r| {
        let (cur, best) = (int(&r["in"]["cur"]), r["in"]["best_queued"].as_i64());
        let mut m = Machine::small(false, &[]);
        let runs = if cur == 255 { -1 } else { cur };
        let lowpri = best.map_or(cur, |best| best.min(cur));
        m.call("t_cpu", &[1, 1, 0, runs, lowpri, 0]);
        m.call("t_interrupt", &[1]);
        let preempts = r["out"]["switch"] == 1 || r["out"]["owepreempt"] == 1;
        let flags = if preempts { KICK_PREEMPT } else { 0 };
        differs("kicks", &m.kernel.state().kicks, &vec![(1, flags)])?;
        let owes = m.call("t_cpu_get", &[1])[7] != 0;
        differs("owes", &owes, &preempts)?;
        Ok(Whole)
    });
}

#[test]
fn freebsd_should_preempt() {
    let records = Records::freebsd();
    compare(&records, "shouldpreempt", 1, &[], |r| {
        let priorities = ints(&r["in"]["priorities"]);
        let mut decisions = 0;
        for row in r["out"].as_array().expect("rows") {
            let (thresh, remote, pri) = (int(&row[0]), int(&row[1]), int(&row[2]));
            let mut m = Machine::small(false, &[("preempt_thresh", thresh.into())]);
            let mut over = priorities.clone();
            over.retain(|cur| m.call("t_should_preempt", &[pri, *cur, remote])[3] != 0);
            differs(&format!("{thresh} {remote} {pri}"), &over, &ints(&row[3]))?;
            decisions += priorities.len();
        }
        differs("decisions", &decisions, &(3 * 2 * 19 * 19))?;
        Ok(Whole)
    });
}

#[test]
fn freebsd_timer() {
    let records = Records::freebsd();
    compare(&records, "timer", 44, &[], |r| timer(&records, r));
}

#[test]
fn port_timer() {
    let records = Records::port();
    compare(&records, "timer", 10, &[], |r| timer(&records, r));
}

fn timer(records: &Records, r: &Value) -> Result<Compared, String> {
    let given = &r["in"];
    let on = |name: &str| given[name].as_i64().unwrap_or(1);
    let tunables = [
        ("balance_interval_ticks", int(&given["interval"]).into()),
        ("balance", on("balance").into()),
        ("balance_bug", (1 - on("smp_started")).into()),
    ];
    let mut m = Machine::small(records.port, &tunables);
    m.call("t_cpu", &[0, 0, 0, -1, 255, int(&given["rng"])]);
    differs("error", &m.call("t_balance_init", &[])[0], &0)?;
    let tick_ns = m.tick_ns;
    let ticks = m
        .kernel
        .state()
        .timers_ns
        .first()
        .map(|ns| *ns as i64 / tick_ns);
    let countdown = ticks.unwrap_or_else(|| int(&given["before"]));
    differs("countdown", &countdown, &int(&r["out"]["countdown"]))?;
    Ok(Whole)
}

/// A slice goes on with a task that FreeBSD moves, and starts again in the port.
#[test]
fn slices_of_moved_tasks() {
    for (records, used) in [(Records::freebsd(), 3), (Records::port(), 0)] {
        let moves = |r: &&&Value| !r["out"]["got"].is_null();
        let all: Vec<&Value> = records.of("steal").collect();
        let r = all.iter().find(moves).expect("a theft");
        let mut m = Machine::of(&records, r, &[]);
        m.queues(r).expect("a state");
        m.call("t_steal", &[int(&r["in"]["self"])]);
        let task = m.kernel.state().moves[0].task;
        let task = m.kernel.state().address(task);
        let out = m.call("t_task_get", &[task]);
        assert_eq!(out[..2], [int(&r["in"]["self"]), used]);
    }
}

/// Section 6.1 of the paper: 512 spinners on one CPU, after each other CPU has stolen one.
#[test]
fn balancing_512_spinners_takes_465_passes() {
    let mut m = Machine::small(true, &[("nr_cpu_ids", 32), ("search_noise", 0)]);
    let queue = |nr: i64| (0..nr).map(|i| json!([i, 131, 1, 95])).collect::<Vec<_>>();
    let cpus: Vec<Value> = (0..32)
        .map(|cpu| if cpu == 0 { 481 } else { 1 })
        .map(|load| json!([0, load, 0, 0, 0, queue(load)]))
        .collect();
    m.queues(&json!({ "in": { "self": 0, "cpus": cpus } }))
        .expect("a state");
    let mut passes = 0;
    loop {
        let loads: Vec<i64> = (0..32).map(|cpu| m.call("t_cpu_get", &[cpu])[0]).collect();
        if loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1 {
            assert_eq!((passes, loads[0]), (465, 16));
            break;
        }
        m.call("t_balance", &[]);
        passes += 1;
        assert!(passes < 5000);
    }
}

/// One pass where the smallest difference that counts is not 1, and the numbers of ../../../ule's fact sheet where it is.
#[test]
fn balancer_passes() {
    for (diff_min, before, after) in [
        (1, [4, 0, 0, 0], [3, 1, 0, 0]),
        (1, [4, 4, 0, 0], [3, 3, 1, 1]),
        (1, [2, 1, 1, 1], [1, 2, 1, 1]),
        (1, [1, 1, 1, 1], [1, 1, 1, 1]),
        (1, [1, 1, 0, 0], [1, 1, 0, 0]),
        (1, [5, 3, 1, 1], [4, 2, 2, 2]),
        (2, [2, 1, 1, 1], [2, 1, 1, 1]),
    ] {
        let tunables = [
            ("nr_cpu_ids", 4),
            ("search_noise", 0),
            ("balance_diff_min", diff_min),
        ];
        let mut m = Machine::small(false, &tunables);
        let queue = |nr: i64| (0..nr).map(|i| json!([i, 180, 1, 24])).collect::<Vec<_>>();
        let cpu = |load: i64| match load {
            0 => json!([255, 0, 0, 255, 0, 0, []]),
            _ => json!([180, load, load - 1, 180, 0, 0, queue(load - 1)]),
        };
        let cpus: Vec<Value> = before.into_iter().map(cpu).collect();
        m.queues(&json!({ "in": { "self": 0, "cpus": cpus } }))
            .expect("a state");
        m.call("t_balance", &[]);
        let loads: Vec<i64> = (0..4).map(|cpu| m.call("t_cpu_get", &[cpu])[0]).collect();
        assert_eq!(loads, after, "{before:?}");
    }
}

#[test]
fn steps_of_the_generator_are_counted() {
    assert_eq!(
        [lcg_steps(0, 0), lcg_steps(0, 5), lcg_steps(0, 345_350)],
        [0, 1, 2]
    );
}

/// What the kernel of these tests lacks fails the test: here the copy of an exit's reason.
#[test]
#[should_panic(expected = "this kernel has no helper 115")]
fn nothing_is_missing_in_silence() {
    let mut m = Machine::small(false, &[]);
    let info = [0u64; 64];
    m.call("ule_exit", &[info.as_ptr() as i64]);
}

/// The best priority of a CPU that has had no task yet: none in FreeBSD, that of zeroed memory in the port.
#[test]
fn as_booted() {
    for (port, tunables, lowpri) in [
        (false, &[][..], 255),
        (true, &[], 0),
        (true, &[("lowpri_boot", 255)], 255),
    ] {
        assert_eq!(
            Machine::small(port, tunables).call("t_cpu_get", &[1])[2],
            lowpri
        );
    }
}
