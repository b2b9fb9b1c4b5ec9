// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded states of CPUs, set up in SD's own memory, and read back.
//!
//! recorded.jsonl.zst: 2400 decisions and schedules of SD as in 2.6.22-ck1, whose functions were compiled in user space and
//! run on made-up states. Facts: inputs and outputs, no code. One JSON object a line; `zstdcat` shows them.

use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::LazyLock;
use tiltyard_schedtest::kernel::Kernel;
use tiltyard_schedtest::{Globals, globals, object};

/// Time at which everything happens, unless it is a schedule.
pub const NOW_NS: i64 = 1_000_000_000_000;
/// `BEST_NONE` and `MAX_RT_PRIO`.
pub const BEST_NONE: i64 = 139;
const MAX_RT_PRIO: i64 = 100;
/// Policies of the kernel.
const BATCH: i64 = 3;
const IDLE: i64 = 5;

pub static RECORDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let bytes = zstd::decode_all(&include_bytes!("recorded.jsonl.zst")[..]).expect("zstd");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let lines = text.lines().skip(1);
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
});

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn ints(value: &Value) -> Vec<i64> {
    let all = value.as_array();
    all.map_or(Vec::new(), |all| all.iter().map(int).collect())
}

pub fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

/// The set of these bits.
fn set_of(bits: &Value) -> i64 {
    ints(bits).iter().fold(0, |set, bit| set | 1 << bit)
}

pub fn bits_of(set: i64) -> Vec<i64> {
    (0..63).filter(|bit| set & 1 << bit != 0).collect()
}

/// Realtime and ISO tasks do not come to a sched_ext scheduler: the former have a class above it, and no kernel has the
/// latter.
pub fn expressible(policy: &Value) -> bool {
    !["fifo", "rr", "iso"].contains(&policy.as_str().expect("a policy"))
}

pub fn policy(name: &Value) -> i64 {
    match name.as_str() {
        Some("batch") => BATCH,
        Some("idleprio") => IDLE,
        _ => 0,
    }
}

/// SD in its own memory.
pub struct Sd {
    pub kernel: Kernel,
}

impl Sd {
    pub fn boot(nr_cpus: i64, tunables: &[(&str, i128)]) -> Sd {
        Sd::with(nr_cpus, &globals(tunables))
    }

    pub fn with(nr_cpus: i64, values: &Globals) -> Sd {
        let object = object("schedulers/sd/tests/vectors.bpf.c", 2);
        let mut kernel = Kernel::boot(object, values, nr_cpus as u32);
        let setup = kernel.call("t_setup", &[nr_cpus]).0;
        assert_eq!(setup[0], 0, "set-up");
        Sd { kernel }
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    /// An empty CPU with what is known of its rotation.
    pub fn cpu(&mut self, cpu: i64, rotation: i64, of: &Value) {
        let best = |name: &str| of[name].as_i64().unwrap_or(BEST_NONE) - MAX_RT_PRIO;
        let words = [
            cpu,
            rotation,
            best("active_best"),
            best("expired_best"),
            NOW_NS,
        ];
        self.call("t_cpu", &words);
        for (nice, level) in of["levels"].as_object().into_iter().flatten() {
            let nice: i64 = nice.parse().expect("a nice value");
            self.call("t_reached", &[cpu, nice + 20, int(level) - MAX_RT_PRIO]);
        }
    }

    /// Worst levels and best static priorities of a CPU. That a level has been looked at shows in nothing: 100 is as good
    /// as none.
    pub fn rotation_is(&mut self, cpu: i64, out: &Value) -> Result<(), String> {
        let w = self.call("t_cpu_get", &[cpu]);
        for (name, is) in [("active_best", w[2]), ("expired_best", w[3])] {
            if let Some(should) = out[name].as_i64() {
                differs(name, &(is + MAX_RT_PRIO), &should)?;
            }
        }
        if let Some(should) = out["rotation"].as_i64() {
            differs("rotation", &w[1], &should)?;
        }
        let Some(levels) = out["levels"].as_object() else {
            return Ok(());
        };
        for nice in -20..20 {
            let is = self.call("t_reached_get", &[cpu, nice + 20])[2] + MAX_RT_PRIO;
            let should = levels.get(&nice.to_string()).map_or(MAX_RT_PRIO, int);
            differs(&format!("level of nice {nice}"), &is, &should)?;
        }
        Ok(())
    }

    /// Task `[id, nice, pol, prio, slice, rotation, bitmap]` with its place on a CPU.
    pub fn task(&mut self, of: &Value, cpu: i64, expired: bool) -> i64 {
        let i = int(&of[0]) + 1;
        let (nice, slice, rotation) = (int(&of[1]), int(&of[4]), int(&of[5]));
        let granted = set_of(&of[6]);
        let words = [
            i,
            nice + 20,
            policy(&of[2]),
            granted,
            rotation,
            cpu,
            expired.into(),
            slice,
        ];
        self.call("t_task", &words);
        self.call("t_task_more", &[i, int(&of[3]), 0, NOW_NS, 0, -1, 0, 1]);
        i
    }

    /// All tasks of a record on one CPU: `active` and `expired` in their order, and who runs since when.
    pub fn queues(&mut self, r: &Value) {
        self.cpu(0, int(&r["rotation"]), r);
        self.call("t_cpu_get", &[0]);
        let curr = r["curr"].as_i64();
        for of in r["tasks"].as_array().expect("tasks") {
            let id = int(&of[0]);
            let expired = ints(&r["expired"]).contains(&id);
            let i = self.task(of, 0, expired);
            if curr == Some(id) {
                let since = r["since"].as_i64().unwrap_or(0);
                let words = [i, int(&of[3]), 0, NOW_NS - since, 0, -1, 0, 0];
                self.call("t_task_more", &words);
            }
        }
        for id in ints(&r["active"]).iter().chain(&ints(&r["expired"])) {
            let runs = curr == Some(*id);
            self.call("t_queue", &[0, id + 1, runs.into()]);
        }
    }

    /// Who waits in an array, in order.
    pub fn array(&mut self, cpu: i64, expired: bool) -> Vec<i64> {
        let mut ids = Vec::new();
        for level in 0..=40 {
            let first = self.call("t_first", &[cpu, expired.into(), level])[3];
            let mut i = first;
            while i != 0 {
                ids.push(i - 1);
                i = self.call("t_next", &[i])[1];
                if i == first {
                    break;
                }
            }
        }
        ids
    }

    pub fn arrays_are(&mut self, cpu: i64, out: &Value) -> Result<(), String> {
        for (name, expired) in [("active", false), ("expired", true)] {
            if out[name].is_array() {
                differs(name, &self.array(cpu, expired), &ints(&out[name]))?;
            }
        }
        Ok(())
    }

    /// A task as a record has it; ids, policies and priorities stand for themselves.
    pub fn task_is(&mut self, should: &Value) -> Result<(), String> {
        let i = int(&should[0]) + 1;
        let w = self.call("t_task_get", &[i]);
        let is = json!([
            should[0],
            w[0] - 20,
            should[2],
            w[4],
            w[3],
            w[2],
            bits_of(w[1])
        ]);
        differs("task", &is, should)
    }
}

/// Checks all records of a kind that can be expressed: `count` of them. `setup` is what makes them so, and who boots SD.
pub fn check(
    kind: &str,
    count: usize,
    expressible: impl Fn(&Value) -> bool,
    check: impl Fn(&Value) -> Result<(), String>,
) {
    let (mut wrong, mut nr) = (Vec::new(), 0);
    for r in RECORDS
        .iter()
        .filter(|r| r["kind"] == kind && expressible(r))
    {
        nr += 1;
        if let Err(how) = check(r) {
            wrong.push(format!("{}: {how}", r["id"]));
        }
    }
    let shown = wrong[..wrong.len().min(6)].join("\n");
    assert!(
        wrong.is_empty(),
        "{kind}: {} of {nr} differ, among them\n{shown}",
        wrong.len()
    );
    assert_eq!(nr, count, "{kind}: records");
}
