// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded decisions about queues: which task is next, which CPU gets a task, who is woken or interrupted for it.

use crate::bsd4::machine::{GLOBAL, Machine, WAKEUP};
use crate::bsd4::records::Compared::{No, Part, Whole};
use crate::bsd4::records::{Reason, bits, compare, cpus, differs, int, ints, list, or};
use serde_json::{Value, json};

const BOOT: Reason = "a scheduler is loaded after the machine has booted";
const NO_CALLER: Reason = "nothing calls it with a CPU";
const OFFLINE: Reason = "halted and stopped CPUs are offline, and never idle";
const AT_ONCE: Reason = "whether the switch comes at once is the kernel's affair";

/// The build options of a record's outcomes.
const OPTIONS: [(&str, [(&str, i128); 3]); 4] = [
    (
        "none",
        [
            ("preemption", 0),
            ("ipi_preemption", 0),
            ("full_preemption", 0),
        ],
    ),
    (
        "default",
        [
            ("preemption", 1),
            ("ipi_preemption", 0),
            ("full_preemption", 0),
        ],
    ),
    (
        "ipi",
        [
            ("preemption", 1),
            ("ipi_preemption", 1),
            ("full_preemption", 0),
        ],
    ),
    (
        "full",
        [
            ("preemption", 1),
            ("ipi_preemption", 1),
            ("full_preemption", 1),
        ],
    ),
];

#[test]
pub fn recorded_runq() {
    compare("runq", 160, &[], |given, expected| {
        let fuzz = or(&given["fuzz"], 1);
        let own = int(&given["self"]);
        let mut m = Machine::boot(1 + own as usize, &[("runq_fuzz", fuzz.into())]);
        for (id, pri) in given["pri"].as_object().expect("priorities") {
            let last = or(&given["last"][id], 0);
            let id: i64 = id.parse().expect("a number");
            m.thread(&json!({ "id": id, "pri": pri, "last": last }));
        }
        m.on(own as usize);
        let mut picked = Vec::new();
        for op in list(&given["ops"]) {
            let (what, id) = match op.as_array() {
                Some(op) => (op[0].as_str().expect("a word"), op.get(1).map_or(0, int)),
                None => (op.as_str().expect("a word"), 0),
            };
            match what {
                "add" => m.wait_in(id, -1),
                "addhead" => m.wait_at_head(id),
                "rem" => {
                    let task = m.threads[&id].task;
                    m.kernel.state().remove(task);
                }
                "pick" => picked.push(json!(m.picks(own as usize))),
                _ => panic!("{what}"),
            }
        }
        differs("picked", &json!(picked), &expected["picked"])?;
        differs("order", &m.queues().0, &expected["order"])?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_choose() {
    compare("choose", 160, &[], |given, expected| {
        let mut m = Machine::of(given, &[]);
        let own = int(&given["self"]) as usize;
        let before = m.queues();
        m.schedule(own, false);
        let got = m.cur[own];
        differs("got", &json!(got), &expected["got"])?;
        let was_global = got.is_some_and(|id| list(&before.0).contains(&json!(id)));
        let from = match (got, was_global) {
            (None, _) => Value::Null,
            (Some(_), true) => json!("global"),
            (Some(_), false) => json!("own"),
        };
        differs("from", &from, &expected["from"])?;
        differs("load", &m.load(), &int(&expected["load"]))?;
        let did_run = got.is_some_and(|id| m.known(id).did_run);
        differs("didrun", &did_run.into(), &int(&expected["didrun"]))?;
        Ok(Whole)
    });
}

#[test]
pub fn recorded_pickcpu() {
    compare("pickcpu", 175, &[], |given, expected| {
        let mut m = Machine::boot(int(&given["ncpu"]) as usize, &[]);
        let mut id = 10;
        for (cpu, len) in ints(&given["len"]).into_iter().enumerate() {
            for _ in 0..len {
                m.thread(&json!({ "id": id, "pri": 140 }));
                m.wait_in(id, cpu as i64);
                id += 1;
            }
        }
        let th = m.thread(&json!({ "id": 1, "pri": 140, "mask": given["mask"] }));
        let last = int(&given["last"]);
        // With one CPU there is no choice, and the kernel has the task there already.
        let mask = bits(&given["mask"]).unwrap_or(u64::MAX);
        let last = match mask.count_ones() {
            1 => mask.trailing_zeros().into(),
            _ => last,
        };
        let cpu = m.call("t_pick_cpu", &[th.address, last])[2];
        differs("cpu", &cpu, &int(&expected["cpu"]))?;
        Ok(Whole)
    });
}

/// The kernel leaves CPUs that are offline in a mask; their queues are empty for ever.
#[test]
pub fn no_task_is_put_where_nobody_runs() {
    let mut m = Machine::boot(4, &[]);
    for cpu in [0, 1] {
        m.thread(&json!({ "id": 10 + cpu, "pri": 140 }));
        m.wait_in(10 + cpu, cpu);
    }
    let th = m.thread(&json!({ "id": 1, "pri": 140, "mask": "e" }));
    assert_eq!(m.call("t_pick_cpu", &[th.address, -1])[2], 2);
    for cpu in [2, 3] {
        m.call("t_offline", &[cpu]);
    }
    assert_eq!(m.call("t_pick_cpu", &[th.address, -1])[2], 1);
}

#[test]
pub fn recorded_forward() {
    let rest = [(BOOT, 18), (OFFLINE, 45), (NO_CALLER, 30)];
    compare("forward", 82, &rest, |given, expected| {
        if given["only"].is_i64() {
            return Ok(No(NO_CALLER));
        }
        if given["cold"] == 1 || given["smp_started"] == 0 {
            return Ok(No(BOOT));
        }
        let mut tunables = Vec::new();
        for (option, name) in [
            ("enabled", "ipiwakeup_enabled"),
            ("usemask", "ipiwakeup_usemask"),
            ("useloop", "ipiwakeup_useloop"),
        ] {
            if let Some(value) = given[option].as_i64() {
                tunables.push((name, i128::from(value)));
            }
        }
        let nr_cpus = int(&given["ncpu"]) as usize;
        let mut m = Machine::boot(nr_cpus, &tunables);
        let own = int(&given["self"]);
        // The CPU that runs this is online.
        let offline =
            (bits(&given["hlt"]).unwrap_or(0) | bits(&given["stopped"]).unwrap_or(0)) & !(1 << own);
        let marked = bits(&given["idle"]).expect("a mask") & !offline;
        let idle = bits(&given["running_idle"]).unwrap_or(marked) & !offline;
        for cpu in 0..nr_cpus as i64 {
            let other = if idle >> cpu & 1 != 0 { 255 } else { 0 };
            m.call("t_cpu", &[cpu, 0, other, (marked >> cpu & 1) as i64, 0, 0]);
        }
        m.on(own as usize);
        let forwarded = m.call("t_forward", &[own])[1];
        m.note_kicks();
        let mut woken: Vec<i64> = ints(&expected["mwait"]);
        woken.extend(
            cpus(bits(&expected["ipi"]).unwrap_or(0))
                .into_iter()
                .map(i64::from),
        );
        woken.sort_unstable();
        let kicked: Vec<i64> = m.kicked.iter().map(|(cpu, _)| i64::from(*cpu)).collect();
        differs("woken", &kicked, &woken)?;
        differs("forwarded", &forwarded, &int(&expected["forwarded"]))?;
        match offline {
            0 => Ok(Whole),
            _ => Ok(Part(OFFLINE)),
        }
    });
}

#[test]
pub fn recorded_kick() {
    compare("kick", 155, &[], |given, expected| {
        for (option, tunables) in OPTIONS {
            let mut m = Machine::boot(2, &tunables);
            let cur = or(&given["target_cur"], 255);
            m.call("t_cpu", &[1, 0, cur, int(&given["idle_bit"]), 0, 0]);
            m.call("t_cpu", &[0, 0, 60, 0, 0, 0]);
            let th = m.thread(&json!({ "id": 1, "pri": given["pri"], "mask": "2" }));
            m.on(0);
            m.kernel.state().set_cpu(th.task, 1);
            m.call("t_add", &[th.address, 0]);
            m.note_kicks();
            let [resched, _, remote] = m.asked(1);
            let what = match (&m.kicked[..], resched, remote) {
                ([], false, false) => "-",
                ([(1, false)], false, false) => "idle",
                ([(1, true)], true, false) => "nr+ipi_ast",
                ([(1, true)], false, true) => "ipi_pre",
                other => return Err(format!("{option}: {other:?}")),
            };
            let should = match expected[option].as_str().expect("a word") {
                "mwait" | "ipi_ast" => "idle",
                other => other,
            };
            differs(option, &what, &should)?;
        }
        Ok(Whole)
    });
}

#[test]
pub fn recorded_preempt() {
    let rest = [(BOOT, 37), (AT_ONCE, 32)];
    compare("preempt", 111, &rest, |given, expected| {
        if given["cold"] == 1 {
            return Ok(No(BOOT));
        }
        let mut partly = false;
        for (option, tunables) in OPTIONS {
            let mut m = Machine::boot(1, &tunables);
            let cur = &given["cur"];
            if cur.is_i64() {
                let th = json!({ "id": 2, "pri": cur });
                let th = m.thread(&th);
                m.runs_now(0, 2);
                let blocks = given["cur_state"] == "inhibited";
                m.kernel.state().task(th.task).state = blocks.into();
            }
            let th = m.thread(&json!({ "id": 1, "pri": given["pri"] }));
            m.on(0);
            let flags = match given["flags"].as_str().expect("flags") {
                "yielding" => 1,
                "intr" => 2,
                _ => 0,
            };
            m.call("t_add", &[th.address, flags]);
            let kicks = std::mem::take(&mut m.kernel.state().kicks);
            let [resched, preempt, _] = m.asked(0);
            let (should, nested) = (
                expected[option].as_str().expect("a word"),
                given["crit"] == 2,
            );
            differs(option, &resched, &!kicks.is_empty())?;
            if cur.is_null() {
                // The kernel runs the task on the idle CPU where it woke up.
                differs("idle", &resched, &false)?;
                partly = true;
                continue;
            }
            let what = match (preempt, resched) {
                (true, _) => "owe",
                (false, true) => "nr",
                (false, false) => "-",
            };
            match should {
                "switch" => {
                    partly = true;
                    differs(option, &what, &"owe")?;
                }
                _ => differs(option, &what, &should.trim_end_matches("+nr"))?,
            }
            if nested {
                differs("queue", &m.queues().0, &expected["queue"])?;
            }
        }
        match partly {
            true => Ok(Part(AT_ONCE)),
            false => Ok(Whole),
        }
    });
}

impl Machine {
    /// A task takes the first place of its FIFO.
    fn wait_at_head(&mut self, id: i64) {
        self.wait_in(id, -1);
        let th = self.threads[&id];
        let state = self.kernel.state();
        state.remove(th.task);
        let key = &mut state.task(th.task).scx.dsq_vtime;
        // 2^56 - the time for 2^56 + the time.
        let middle = (*key >> 57 << 57) | 1 << 56;
        *key = middle - (*key - middle);
        state.queue(GLOBAL, th.task);
    }

    /// An idle CPU takes a task, which then leaves again.
    fn picks(&mut self, cpu: usize) -> Option<i64> {
        self.on(cpu);
        self.call("bsd4_dispatch", &[cpu as i64, 0]);
        let task = self.kernel.state().take_local(cpu as u32)?;
        let mut threads = self.threads.iter();
        threads.find(|(_, th)| th.task == task).map(|(id, _)| *id)
    }
}

/// As the kernel orders the callbacks of a wakeup, the task that wakes up is counted before it is placed.
#[test]
fn a_task_counts_in_the_load_while_it_is_runnable() {
    let mut m = Machine::boot(1, &[]);
    m.thread(&json!({ "id": 1, "pri": 140 }));
    m.wakes(1, WAKEUP);
    assert_eq!(m.load(), 1);
    m.schedule(0, false);
    assert_eq!((m.cur[0], m.load()), (Some(1), 1));
    m.schedule(0, false);
    assert_eq!((m.cur[0], m.load()), (None, 0));
}
