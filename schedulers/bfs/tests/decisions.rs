// SPDX-License-Identifier: GPL-2.0-or-later
//! Decisions of BFS, record by record, through its callbacks and the handles of vectors.bpf.c.
//!
//! decisions.jsonl.zst: 2643 decisions and 98 schedules (scripts.rs) of BFS 0.311 (`kernel/sched_bfs.c` for Linux 2.6.31),
//! and 610 decisions of 0.350 in the kinds named so, compiled in user space and run on made-up states. Facts: inputs and
//! outputs, no code. One JSON object a line, the topologies first; `zstdcat` shows them.
//!
//! What sched_ext has no place for:
//!
//! | records | what is not compared | why |
//! | --- | --- | --- |
//! | realtime tasks that are picked, woken, forked or changed | all: [`REALTIME`] | the kernel's own class runs them. Where one only keeps a CPU busy, the record is compared |
//! | isotick with a realtime task | that CPU's slice and mark | the same |
//! | prio of idle tasks with signals or freezing | all: [`SIGNAL`] | a scheduler does not see them |
//! | wake of a task bound to one CPU, by a waker about to sleep | who is marked: [`SYNC`] | `select_cpu`, which gets this flag, is not called |
//! | policy to or from ISO | all: [`RENAMED`] | here a task is isochronous by its name |
//! | policy that stays the same | all: [`FOR_NOTHING`] | today's kernel returns at once |
//! | deadline, offsets beyond 31 bits | these: [`OVERFLOW`] | the original overflows |

use crate::bfs::fake::{Given, Machine, Records, bits, differs, int, ints, is_realtime};
use serde_json::{Value, json};

/// Why a record, or a part of it, is not compared.
pub type Reason = &'static str;
const REALTIME: Reason = "a realtime task is the kernel's";
const SIGNAL: Reason = "a scheduler sees no signals and no freezing";
const SYNC: Reason = "of a task that is bound to one CPU the kernel does not pass how it is woken";
const RENAMED: Reason = "no scheduler is called when a task becomes isochronous by its name";
const OVERFLOW: Reason = "32 bits overflow";
const FOR_NOTHING: Reason = "the kernel sees no change and calls no scheduler";

pub enum Compared {
    Whole,
    Part(Reason),
    No(Reason),
}
use Compared::{No, Part, Whole};

pub type Checked = Result<Compared, String>;
type Check = fn(&Records, &Value) -> Checked;

/// Compares all records of a kind, of which so many are compared in whole, and so many in part or not for each reason.
fn compare(kind: &str, whole: usize, rest: &[(Reason, usize)], check: Check) {
    let records = Records::read();
    let (mut counted, mut wrong) = ((0, Vec::new()), Vec::new());
    for record in records.of(kind) {
        match check(&records, record) {
            Ok(Whole) => counted.0 += 1,
            Ok(Part(why) | No(why)) => {
                match counted.1.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, nr)) => *nr += 1,
                    None => counted.1.push((why, 1)),
                }
            }
            Err(how) => wrong.push(format!("{}: {how}", record["id"])),
        }
    }
    let shown: Vec<&str> = wrong.iter().take(8).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{kind}: {} records differ, among them\n{}",
        wrong.len(),
        shown.join("\n")
    );
    counted.1.sort_unstable();
    assert_eq!(counted, (whole, rest.to_vec()), "{kind}: what was compared");
}

/// A kind of records: how many of them are compared in whole, in part or not for each reason, and how.
macro_rules! kinds {
    ($($check:ident $kind:literal $whole:literal [$($rest:expr),*])*) => {
        $(mod $check {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn as_recorded() {
                compare($kind, $whole, &[$($rest),*], super::$check);
            }
        })*

        pub const KINDS: &[(&str, Check)] = &[$(($kind, $check)),*];
    };
}

kinds! {
    deadline "deadline" 55 [(OVERFLOW, 5)]
    deadline_350 "deadline350" 7 [(OVERFLOW, 3)]
    rr_scale "rrscale" 64 []
    pick "pick" 251 [(REALTIME, 19)]
    pick_350 "pick350" 150 []
    preempt "preempt" 195 [(REALTIME, 15)]
    preempt_350 "preempt350" 150 []
    best_idle "bestidle" 154 [(REALTIME, 16)]
    wake "wake" 145 [(REALTIME, 12), (SYNC, 8)]
    prio "prio" 94 [(REALTIME, 56), (SIGNAL, 18)]
    schedule "schedule" 186 [(REALTIME, 24)]
    charge "charge" 99 [(REALTIME, 61)]
    refill "refill" 160 []
    refill_350 "refill350" 150 []
    fork "fork" 159 [(REALTIME, 21)]
    fork_350 "fork350" 150 []
    exit "exit" 160 []
    nice "nice" 144 [(REALTIME, 16)]
    policy "policy" 56 [(REALTIME, 69), (RENAMED, 28), (FOR_NOTHING, 17)]
    affinity "affinity" 134 [(REALTIME, 16)]
    iso_tick "isotick" 83 [(REALTIME, 77)]
    iso_run "isorun" 26 []
}

/// The machine of a record, its tasks in their places.
fn machine(records: &Records, r: &Value) -> Machine {
    let mut m = records.machine(r, &[]);
    m.set_now(r["in"]["now"].as_i64().unwrap_or(0) * 1000);
    m.place(r, Given::of);
    m
}

/// The same of 0.350, where times are in ns.
fn machine_350(records: &Records, r: &Value) -> Machine {
    let mut m = records.machine(r, &[("version", 350)]);
    m.set_now(int(&r["in"]["now"]));
    m.place(r, Given::of_350);
    m
}

/// The recorded task of this number.
fn given<'a>(r: &'a Value, tid: &Value) -> Given<'a> {
    let tasks = r["in"]["tasks"].as_array().expect("tasks");
    Given::of(tasks.iter().find(|t| t[0] == *tid).expect("it is there"))
}

fn marked(m: &Machine) -> Vec<i64> {
    m.marked.iter().copied().collect()
}

/// Recorded queues without those of realtime tasks.
fn queues(recorded: &Value) -> Value {
    let mut queues = recorded.clone();
    let map = queues.as_object_mut().expect("queues");
    map.retain(|prio, _| prio.parse::<i64>().expect("a number") >= 100);
    queues
}

fn check_deadlines(m: &mut Machine, r: &Value, wide: impl Fn(i64) -> i64) -> Checked {
    let (offsets, units) = (ints(&r["out"]["offset"]), ints(&r["out"]["unit"]));
    let mut whole = true;
    for nice in 0..40 {
        let w = m.call("t_params", &[nice]);
        let at = nice as usize;
        let product = wide(nice);
        if product <= i32::MAX.into() {
            differs(&format!("offset of {nice}"), &w[0], &offsets[at])?;
        } else {
            whole = false;
        }
        differs(&format!("unit of {nice}"), &w[1], &units[at])?;
        if let (39, true, Some(longest)) = (nice, whole, r["out"]["longest"].as_i64()) {
            differs("longest", &w[0], &longest)?;
        }
        differs("slice", &w[2], &int(&r["out"]["slice"]))?;
    }
    Ok(if whole { Whole } else { Part(OVERFLOW) })
}

/// Ratios by their definition: a tenth more, rounded down, with each nice.
fn ratio(base: i64, nice: i64) -> i64 {
    (0..nice).fold(base, |ratio, _| ratio * 11 / 10)
}

fn deadline(records: &Records, r: &Value) -> Checked {
    let (rr, hz) = (int(&r["in"]["rr"]), int(&r["in"]["hz"]));
    let mut m = records.machine(r, &[]);
    check_deadlines(&mut m, r, |nice| ratio(100, nice) * rr * hz)
}

fn deadline_350(records: &Records, r: &Value) -> Checked {
    let rr = int(&r["in"]["rr"]);
    let mut m = records.machine(r, &[("version", 350)]);
    check_deadlines(&mut m, r, |nice| ratio(128, nice) * rr * 8192)
}

fn rr_scale(records: &Records, r: &Value) -> Checked {
    for (version, expected) in [(311, "rr"), (316, "rr"), (330, "rr_330"), (350, "rr_330")] {
        let mut m = records.machine(r, &[("version", version), ("rr_scaling", 1)]);
        let rr = m.call("t_scaled_rr", &[int(&r["in"]["cpus"])])[0];
        differs("rr", &rr, &int(&r["out"][expected]))?;
    }
    Ok(Whole)
}

fn check_pick(m: &mut Machine, r: &Value) -> Checked {
    let (cpu, expected) = (int(&r["in"]["cpu"]), int(&r["out"]["pick"]));
    if expected >= 0 && !m.is_known(expected) {
        return Ok(No(REALTIME));
    }
    m.kernel.state().cpu = cpu as u32;
    m.call("bfs_dispatch", &[cpu, 0]);
    let picked = m.picked(cpu).unwrap_or(-1);
    differs("pick", &picked, &expected)?;
    if let Some(left) = r["out"].get("left") {
        differs("left", &json!(m.queues()), &queues(left))?;
    }
    Ok(Whole)
}

fn pick(records: &Records, r: &Value) -> Checked {
    check_pick(&mut machine(records, r), r)
}

fn pick_350(records: &Records, r: &Value) -> Checked {
    let mut m = machine_350(records, r);
    set_last(&mut m, r);
    check_pick(&mut m, r)
}

fn set_last(m: &mut Machine, r: &Value) {
    let Some(last) = r["in"].get("last_task") else {
        return;
    };
    for (cpu, tid) in ints(last).into_iter().enumerate() {
        let slot = m.slot(tid);
        m.call("t_last", &[cpu as i64, slot]);
    }
}

fn preempt(records: &Records, r: &Value) -> Checked {
    let p = given(r, &r["in"]["p"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    let words = [m.address(p.tid), int(&r["in"]["ref"])];
    let cpu = m.call("t_find_cpu", &words)[0];
    let found: Vec<i64> = (cpu >= 0).then_some(cpu).into_iter().collect();
    differs("resched", &found, &ints(&r["out"]["resched"]))?;
    Ok(Whole)
}

fn preempt_350(records: &Records, r: &Value) -> Checked {
    let mut m = machine_350(records, r);
    set_last(&mut m, r);
    let tid = int(&r["in"]["p"]);
    let words = [m.address(tid), m.told(tid).cpu];
    let cpu = m.call("t_find_cpu", &words)[0];
    let found: Vec<i64> = (cpu >= 0).then_some(cpu).into_iter().collect();
    differs("resched", &found, &ints(&r["out"]["resched"]))?;
    Ok(Whole)
}

fn best_idle(records: &Records, r: &Value) -> Checked {
    let p = given(r, &r["in"]["p"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    let cpu = m.call("t_best_idle", &[m.address(p.tid), p.cpu])[0];
    let found: Vec<i64> = (cpu >= 0).then_some(cpu).into_iter().collect();
    differs("resched", &found, &ints(&r["out"]["resched"]))?;
    Ok(Whole)
}

fn wake(records: &Records, r: &Value) -> Checked {
    let (p, expected) = (given(r, &r["in"]["p"]), &r["out"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    let sync = r["in"]["sync"] == 1;
    let untold = sync && p.mask.count_ones() == 1 && m.idle_map() & p.mask == 0;
    m.wake(p.tid, int(&r["in"]["me"]), sync);
    if !untold {
        differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    }
    differs("prio", &m.told(p.tid).prio, &int(&expected["prio"]))?;
    differs("queue", &json!(m.queues()), &queues(&expected["queue"]))?;
    Ok(if untold { Part(SYNC) } else { Whole })
}

fn prio(records: &Records, r: &Value) -> Checked {
    const EXITING: u32 = 4;
    const FREEZING: i64 = 0x4000;

    let p = given(r, &r["in"]["p"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let flags = ints(&r["in"]["flags"][0]);
    let freezes = flags[3] != 0 || flags[1] & FREEZING != 0 && p.place == "d";
    if (flags[2] != 0 || freezes) && p.policy == "IDLE" {
        return Ok(No(SIGNAL));
    }
    let mut m = machine(records, r);
    m.set_flags(p.tid, flags[1] as u32 & EXITING);
    let prio = m.call("t_prio", &[m.address(p.tid)])[0];
    differs("prio", &prio, &int(&r["out"]["prio"]))?;
    Ok(Whole)
}

fn schedule(records: &Records, r: &Value) -> Checked {
    let (cpu, expected) = (int(&r["in"]["cpu"]), &r["out"]);
    let mut m = machine(records, r);
    let next = int(&expected["next"]);
    if next >= 0 && !m.is_known(next) || m.runs_other(cpu) {
        return Ok(No(REALTIME));
    }
    let prev = m.running_on(cpu);
    if prev.is_some() {
        match r["in"]["sleep"].as_i64().unwrap_or(0) {
            0 if r["in"]["yield"] == 1 => m.give_way(cpu),
            0 => m.mark(cpu),
            state => m.sleep(cpu, state as u32),
        }
    }
    let ran = m.schedule(cpu).unwrap_or(-1);
    differs("next", &ran, &next)?;
    let c = m.copied(cpu);
    if next >= 0 {
        let copy = json!([c.slice, c.deadline, c.prio, c.policy]);
        differs("copy", &copy, &expected["cpu"])?;
    }
    differs("queue", &json!(m.queues()), &queues(&expected["queue"]))?;
    m.marked.remove(&cpu);
    differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    // Idle CPUs that are marked have been claimed.
    let claimed: u64 = m.marked.iter().map(|cpu| 1 << cpu).sum();
    differs("idle", &(m.idle_map() | claimed), &bits(&expected["idle"]))?;
    if let Some(prev) = prev {
        let t = m.told(prev);
        let told = json!([
            t.slice,
            t.deadline,
            t.prio,
            t.last_ran_ns / 1000,
            t.first_slice
        ]);
        differs("prev", &told, &expected["prev"])?;
    }
    Ok(Whole)
}

fn charge(records: &Records, r: &Value) -> Checked {
    let p = Given::of(&r["in"]["tasks"][0]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    m.tick(p.cpu);
    let c = m.copied(p.cpu);
    differs("slice", &c.slice, &int(&r["out"]["slice"]))?;
    differs("ran", &(c.last_ran_ns / 1000), &int(&r["out"]["ran"]))?;
    Ok(Whole)
}

fn refill(records: &Records, r: &Value) -> Checked {
    let p = given(r, &r["in"]["p"]);
    let mut m = machine(records, r);
    m.call(
        "t_check_deadline",
        &[m.address(p.tid), int(&r["in"]["now"]) * 1000],
    );
    let t = m.told(p.tid);
    let after = json!([t.slice, t.deadline, t.first_slice]);
    differs("after", &after, &r["out"]["after"])?;
    Ok(Whole)
}

fn refill_350(records: &Records, r: &Value) -> Checked {
    let mut m = machine_350(records, r);
    let tid = int(&r["in"]["p"]);
    m.call("t_check_deadline", &[m.address(tid), int(&r["in"]["now"])]);
    let t = m.told(tid);
    differs("slice", &t.slice, &int(&r["out"]["slice"]))?;
    differs("deadline", &t.deadline, &int(&r["out"]["dl"]))?;
    Ok(Whole)
}

fn fork(records: &Records, r: &Value) -> Checked {
    let (parent, expected) = (given(r, &json!(10)), &r["out"]);
    if is_realtime(parent.policy) {
        return Ok(No(REALTIME));
    }
    let (me, mut m) = (int(&r["in"]["me"]), machine(records, r));
    let child = Given {
        tid: 9,
        place: "s",
        ..given(r, &json!(10))
    };
    m.fork(10, &child, r["in"]["vm"] == 1, me);
    let t = m.told(9);
    let told = vec![t.slice, t.deadline, t.first_slice];
    differs("child", &told, &ints(&expected["child"])[..3].to_vec())?;
    let slice = m.copied(me).slice;
    differs("parent", &slice, &int(&expected["parent_slice"]))?;
    m.wake_new(9, me);
    differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    differs("prio", &m.told(9).prio, &int(&expected["prio"]))?;
    Ok(Whole)
}

fn fork_350(records: &Records, r: &Value) -> Checked {
    let mut m = machine_350(records, r);
    let parent = Given::of_350(&r["in"]["tasks"][0]);
    let child = Given {
        tid: 9,
        place: "s",
        ..Given::of_350(&r["in"]["tasks"][0])
    };
    m.fork(parent.tid, &child, true, parent.cpu);
    let t = m.told(9);
    differs(
        "child",
        &vec![t.slice, t.deadline],
        &ints(&r["out"]["child"]),
    )?;
    let c = m.copied(parent.cpu);
    differs(
        "parent",
        &vec![c.slice, c.deadline],
        &ints(&r["out"]["parent"]),
    )?;
    differs("resched", &marked(&m), &ints(&r["out"]["resched"]))?;
    Ok(Whole)
}

fn exit(records: &Records, r: &Value) -> Checked {
    let p = given(r, &r["in"]["p"]);
    if is_realtime(given(r, &json!(p.parent)).policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    match p.place {
        // It is reaped although it has not left its CPU: such a task does not exist.
        "r" => _ = m.call("t_end", &[m.address(p.tid), m.address(p.parent)]),
        _ => m.end(p.tid, p.parent),
    }
    let slice = m.told(p.parent).slice;
    differs("parent", &slice, &int(&r["out"]["parent"]))?;
    let copy = m.cpu_of(p.parent).map(|cpu| m.copied(cpu).slice);
    differs("copy", &json!(copy), &r["out"]["parent_cpu_slice"])?;
    Ok(Whole)
}

fn nice(records: &Records, r: &Value) -> Checked {
    let (p, expected) = (given(r, &r["in"]["p"]), &r["out"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    m.set_nice(p.tid, int(&r["in"]["to"]));
    let t = m.told(p.tid);
    differs("deadline", &t.deadline, &int(&expected["task"][0]))?;
    if p.place == "q" || p.place == "r" {
        differs("prio", &t.prio, &int(&expected["task"][1]))?;
    }
    differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    differs("queue", &json!(m.queues()), &queues(&expected["queue"]))?;
    if let Some(copy) = expected["cpu"].as_array() {
        let c = m.copied(p.cpu);
        let told = json!([c.deadline, c.prio, c.policy]);
        differs("copy", &told, &json!(copy))?;
    }
    Ok(Whole)
}

fn policy(records: &Records, r: &Value) -> Checked {
    let (p, expected) = (given(r, &r["in"]["p"]), &r["out"]);
    if is_realtime(p.policy) || is_realtime(&r["in"]["to"]) {
        return Ok(No(REALTIME));
    }
    if p.place == "q" || p.place == "r" {
        if p.policy == &r["in"]["to"] {
            return Ok(No(FOR_NOTHING));
        }
        if p.policy == "ISO" || r["in"]["to"] == "ISO" {
            return Ok(No(RENAMED));
        }
    }
    let mut m = machine(records, r);
    m.change_policy(p.tid, &r["in"]["to"]);
    differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    differs("queue", &json!(m.queues()), &queues(&expected["queue"]))?;
    if let Some(copy) = expected["cpu"].as_array() {
        let c = m.copied(p.cpu);
        let told = json!([c.deadline, c.prio, c.policy]);
        differs("copy", &told, &json!(copy))?;
    }
    Ok(Whole)
}

fn affinity(records: &Records, r: &Value) -> Checked {
    let (p, expected) = (given(r, &r["in"]["p"]), &r["out"]);
    if is_realtime(p.policy) {
        return Ok(No(REALTIME));
    }
    let mut m = machine(records, r);
    let before = m.queues();
    m.set_mask(p.tid, bits(&r["in"]["to"]));
    differs("cpu", &m.told(p.tid).cpu, &int(&expected["cpu"]))?;
    differs("resched", &marked(&m), &ints(&expected["resched"]))?;
    differs("queue", &m.queues(), &before)?;
    Ok(Whole)
}

fn iso_tick(records: &Records, r: &Value) -> Checked {
    let mut m = machine(records, r);
    let mut part = Whole;
    for cpu in ints(&r["in"]["ticks"]) {
        m.tick(cpu);
    }
    let w = m.call("t_iso_get", &[]);
    differs("iso", &vec![w[0], w[1]], &ints(&r["out"]["iso"]))?;
    let mut resched = ints(&r["out"]["resched"]);
    for (cpu, slice) in ints(&r["out"]["slices"]).into_iter().enumerate() {
        let cpu = cpu as i64;
        if m.runs_other(cpu) {
            part = Part(REALTIME);
            resched.retain(|of| *of != cpu);
        } else if m.running_on(cpu).is_some() {
            differs("slice", &m.copied(cpu).slice, &slice)?;
        }
    }
    differs("resched", &marked(&m), &resched)?;
    Ok(part)
}

/// Hogs that tick one after the other, and choose again at once when they have to.
fn iso_run(records: &Records, r: &Value) -> Checked {
    let given = &r["in"];
    let mut m = records.machine(r, &[]);
    let (hz, start) = (int(&given["hz"]), 1_000_000);
    m.set_now(start * 1000);
    let everyone: Vec<i64> = (0..m.nr_cpus).collect();
    for cpu in &everyone {
        m.tick(*cpu);
    }
    let (isos, normals) = (int(&given["iso"]), int(&given["normal"]));
    for tid in 0..isos + normals {
        let policy = json!(if tid < isos { "ISO" } else { "N" });
        let task = json!([
            tid,
            policy,
            0,
            0,
            6000,
            1000 + tid,
            start,
            null,
            tid % m.nr_cpus,
            "s"
        ]);
        m.add(&Given::of(&task));
        m.wake(tid, 0, false);
        m.settle();
    }
    let (mut changes, mut was) = (Vec::new(), 0);
    for tick in 1..=int(&given["ticks"]) {
        m.set_now(start * 1000 + tick * 1_000_000_000 / hz);
        for cpu in &everyone {
            m.tick(*cpu);
            let refractory = m.call("t_iso_get", &[])[1];
            if refractory != was {
                changes.push(vec![tick, *cpu, refractory]);
                was = refractory;
            }
            m.settle();
        }
    }
    differs("n", &(changes.len() as i64), &int(&r["out"]["n"]))?;
    changes.truncate(12);
    differs("changes", &json!(changes), &r["out"]["changes"])?;
    let w = m.call("t_iso_get", &[]);
    differs("iso", &vec![w[0], w[1]], &ints(&r["out"]["iso"]))?;
    Ok(Whole)
}

/// No kind is forgotten.
#[test]
fn all_kinds_are_compared() {
    let here = include_str!("decisions.rs").to_owned() + include_str!("scripts.rs");
    for kind in Records::read().kinds() {
        assert!(here.contains(&format!("\"{kind}\"")), "{kind}");
    }
}
