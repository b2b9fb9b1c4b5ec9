// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded decisions about a whole machine: a task joins, leaves, changes; a second passes.

use crate::bsd4::machine::{Known, Machine, OF_2012, OF_2016};
use crate::bsd4::records::Compared::{No, Part, Whole};
use crate::bsd4::records::{Check, Reason, bits, compare, cpus, differs, int, list, or};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const BOOT: Reason = "a scheduler is loaded after the machine has booted";
const BOUND: Reason = "Linux binds a task by its mask alone";
const OFFLINE: Reason = "halted and stopped CPUs are offline, and never idle";
const AT_ONCE: Reason = "whether the switch comes at once is the kernel's affair";
const LENT: Reason = "locks lend no priority";
const MOVES: Reason = "the kernel itself moves a running task off a CPU that is forbidden to it";
const NO_REASON: Reason =
    "no task leaves its CPU of its own accord and still wants to run, unless it yields";

/// Whose CPUs were interrupted or woken by the record, sorted.
fn interrupted(log: &Value) -> Vec<u32> {
    let mut all = Vec::new();
    for entry in list(log) {
        match entry[0].as_str().expect("a word") {
            "ipi" => all.extend(cpus(bits(&entry[2]).expect("a mask"))),
            "mwait" => all.push(int(&entry[1]) as u32),
            "switch" => {}
            other => panic!("{other}"),
        }
    }
    all.sort_unstable();
    all
}

fn kicked(m: &mut Machine) -> Vec<u32> {
    m.note_kicks();
    let mut kicked: Vec<u32> = m.kicked.iter().map(|(cpu, _)| *cpu).collect();
    kicked.sort_unstable();
    kicked
}

type Before = (BTreeMap<i64, Known>, (Value, Value));

fn before(m: &mut Machine) -> Before {
    (m.all_known(), m.queues())
}

/// Queues and threads are as they should be; the record names what has changed. Of a thread in `lent`, only what locks cannot
/// change is compared.
fn after(m: &mut Machine, was: &Before, expected: &Value, lent: &[i64]) -> Result<(), String> {
    if lent.is_empty() {
        let queues = m.queues();
        let should = |name: &str, before: &Value| match &expected[name] {
            Value::Null => before.clone(),
            changed => changed.clone(),
        };
        differs("q", &queues.0, &should("q", &was.1.0))?;
        differs("pq", &queues.1, &should("pq", &was.1.1))?;
    }
    for (id, known) in &was.0 {
        let changed = &expected["th"][id.to_string()];
        let should = Known {
            est: or(&changed["est"], known.est),
            slept: or(&changed["slp"], known.slept),
            ticks: or(&changed["cpt"], known.ticks),
            share: or(&changed["pct"], known.share),
            user_pri: or(&changed["upri"], known.user_pri),
            pri: or(&changed["pri"], known.pri),
            slice: known.slice,
            last_cpu: or(&changed["last"], known.last_cpu),
            did_run: or(&changed["didrun"], known.did_run.into()) != 0,
            resched: or(&changed["nr"], known.resched.into()) != 0,
        };
        differs("base", &or(&changed["base"], should.pri), &should.pri)?;
        let mut is = m.known(*id);
        is.slice = should.slice;
        if lent.contains(id) {
            (is.user_pri, is.pri) = (should.user_pri, should.pri);
        }
        differs(&format!("thread {id}"), &is, &should)?;
    }
    Ok(())
}

#[test]
pub fn recorded_schedcpu() {
    compare("schedcpu", 118, &[(LENT, 37)], |given, expected| {
        let stathz = int(&given["stathz"]);
        let mut m = Machine::of(given, &[("stathz", stathz.into())]);
        // It runs in a thread of its own.
        let own = int(&given["self"]) as usize;
        m.busy(own);
        let was = before(&mut m);
        m.call("t_schedcpu", &[]);
        let lent: Vec<i64> = list(&given["th"])
            .iter()
            .filter(|th| th["lend"].is_i64())
            .map(|th| int(&th["id"]))
            .collect();
        after(&mut m, &was, expected, &lent)?;
        if !lent.is_empty() {
            return Ok(Part(LENT));
        }
        differs(
            "interrupted",
            &kicked(&mut m),
            &interrupted(&expected["log"]),
        )?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_nice() {
    compare("nice", 150, &[], |given, expected| {
        let mut m = Machine::of(given, &[]);
        let was = before(&mut m);
        for th in list(&given["th"]).iter().filter(|th| th["proc"] == 50) {
            m.set_nice(int(&th["id"]), int(&given["nice_to"]));
        }
        after(&mut m, &was, expected, &[])?;
        differs(
            "interrupted",
            &kicked(&mut m),
            &interrupted(&expected["log"]),
        )?;
        Ok(Whole)
    });
}

#[test]
fn recorded_setprio() {
    compare("setprio", 155, &[], |given, expected| {
        let mut m = Machine::of(given, &[]);
        let was = before(&mut m);
        let (th, to) = (m.threads[&int(&given["id"])], int(&given["to"]));
        let now_ns = m.pass_ns();
        m.call("t_prio", &[th.slot, to, now_ns]);
        after(&mut m, &was, expected, &[])?;
        differs(
            "interrupted",
            &kicked(&mut m),
            &interrupted(&expected["log"]),
        )?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_add() {
    let rest = [(BOUND, 4), (BOOT, 7), (OFFLINE, 16), (AT_ONCE, 17)];
    compare("add", 151, &rest, |given, expected| {
        if given["smp_started"] == 0 {
            return Ok(No(BOOT));
        }
        let id = int(&given["add"]);
        let added = list(&given["th"]).iter().find(|th| th["id"] == id);
        let added = added.expect("the thread");
        if added["bound"].is_i64() {
            return Ok(No(BOUND));
        }
        let own = int(&given["self"]) as usize;
        let offline = bits(&given["hlt"]).unwrap_or(0) | bits(&given["stopped"]).unwrap_or(0);
        let mut m = Machine::of(given, &[]);
        let offline = offline & m.idle_mask() & !(1 << own);
        for cpu in cpus(offline) {
            m.call("t_idle", &[cpu.into(), 0]);
        }
        let was = before(&mut m);
        let th = m.threads[&id];
        let runnable = m.load();
        let flags = match given["flags"].as_str().expect("flags") {
            "intr" => 2,
            "yielding" => 1,
            _ => 0,
        };
        m.pass_ns();
        m.call("bsd4_runnable", &[th.address, 0x88]);
        m.call("t_add", &[th.address, flags]);
        differs("load", &m.load(), &(runnable + 1))?;
        let switches = list(&expected["log"]).iter().any(|e| e[0] == "switch");
        let idle_self = m.cur[own].is_none();
        let owes = m.asked(own)[1];
        differs("load", &m.load(), &int(&expected["load"]))?;
        let kicked = kicked(&mut m);
        if switches || expected["idlenr"].is_object() {
            // FreeBSD has switched, or will at once; here, the task waits until the kernel does.
            differs("preempts", &(owes || idle_self), &true)?;
            return Ok(Part(AT_ONCE));
        }
        after(&mut m, &was, expected, &[])?;
        if let Some(owe) = expected["th"].as_object() {
            let owe = owe.values().any(|th| th["owe"] == 1);
            differs("owe", &owes, &owe)?;
        }
        match offline {
            0 => {
                differs("interrupted", &kicked, &interrupted(&expected["log"]))?;
                Ok(Whole)
            }
            _ => {
                differs("interrupted", &kicked, &interrupted(&expected["log"]))?;
                Ok(Part(OFFLINE))
            }
        }
    });
}

#[test]
fn recorded_idle() {
    compare("idle", 150, &[], |given, expected| {
        let mut m = Machine::of(given, &[]);
        let own = int(&given["self"]) as usize;
        let was = before(&mut m);
        let of_own = was.1.1[own.to_string()].is_array();
        let seen = i64::from(!list(&was.1.0).is_empty()) + i64::from(of_own);
        differs("runnable", &seen, &int(&expected["runnable"]))?;
        m.schedule(own, false);
        ran(&mut m, was, given, expected, own)
    });
}

/// After a switch on CPU `own`.
fn ran(m: &mut Machine, mut was: Before, given: &Value, expected: &Value, own: usize) -> Check {
    let cur = match &expected["cur"] {
        Value::Null => &given["cur"],
        changed => changed,
    };
    differs("cur", &json!(m.cur), cur)?;
    // Where a thread ran last is not among what a record says of a switch.
    for (id, known) in &mut was.0 {
        known.last_cpu = m.known(*id).last_cpu;
    }
    after(m, &was, expected, &[])?;
    if let Some(idle) = bits(&expected["idle"]) {
        differs("idle", &m.idle_mask(), &idle)?;
    }
    let _ = own;
    Ok(Whole)
}

#[test]
pub fn recorded_switch() {
    compare("switch", 156, &[(NO_REASON, 19)], |given, expected| {
        let own = int(&given["self"]) as usize;
        let why = given["why"].as_str().expect("why");
        for (tunables, of_2012) in [(OF_2012, true), (OF_2016, false)] {
            let slice = &expected["slice_version"];
            let tunables = [tunables, &[("sleep_priority", 0)]].concat();
            let mut m = Machine::of(given, &tunables);
            // A record without a version of 2016 does not say; an ended slice, which it then does not contradict.
            let ended = i64::from(slice["sliceend"] != 0);
            let flagged = m.asked(own)[0];
            if flagged && why == "bindlike" && !of_2012 {
                return Ok(Part(NO_REASON));
            }
            let resched = i64::from(flagged || (why == "needresched" && !of_2012));
            let preempt = i64::from(why == "preempt");
            m.call("t_asked", &[own as i64, resched, preempt, 0, ended]);
            if why == "yield" {
                m.yields(own);
            }
            let was = before(&mut m);
            if let Some(id) = m.cur[own].filter(|_| why == "needresched") {
                m.return_to_user(id);
            }
            m.schedule(own, why != "sleep");
            if of_2012 {
                ran(&mut m, was, given, expected, own)?;
                if let Some(load) = expected["load"].as_i64() {
                    differs("load", &m.load(), &load)?;
                }
                continue;
            }
            // What the record does not name has not changed, if it has a version of 2016; else it is as in 2012.
            let of_2016 = if slice.is_null() { expected } else { slice };
            let should = |name: &str, before: &Value| match &of_2016[name] {
                Value::Null => before.clone(),
                changed => changed.clone(),
            };
            differs("cur of 2016", &json!(m.cur), &should("cur", &given["cur"]))?;
            let queues = m.queues();
            differs("q of 2016", &queues.0, &should("q", &was.1.0))?;
            differs("pq of 2016", &queues.1, &should("pq", &was.1.1))?;
        }
        Ok(Whole)
    });
}

#[test]
pub fn recorded_affinity() {
    compare("affinity", 120, &[(MOVES, 40)], |given, expected| {
        let mut m = Machine::of(given, &[]);
        let was = before(&mut m);
        let id = int(&given["id"]);
        let (th, mask) = (m.threads[&id], m.mask(&given["to"]));
        let runs = m.cur.contains(&Some(id));
        m.changes(id, |m| {
            let state = m.kernel.state();
            state.allow(th.task, |cpu| cpu < 64 && mask >> cpu & 1 != 0);
        });
        let aff = m.call("t_flags", &[th.address])[5];
        let pinned = m.kernel.state().task(th.task).migration_disabled != 0;
        if !pinned {
            let all = mask == m.mask(&Value::Null);
            differs("aff", &aff, &i64::from(!all))?;
        }
        let mut expected = expected.clone();
        let moves = runs && expected["th"][id.to_string()]["nr"] == 1;
        if moves {
            expected["th"][id.to_string()]["nr"] = json!(0);
        }
        after(&mut m, &was, &expected, &[])?;
        if moves {
            return Ok(Part(MOVES));
        }
        differs(
            "interrupted",
            &kicked(&mut m),
            &interrupted(&expected["log"]),
        )?;
        Ok(Whole)
    });
}
