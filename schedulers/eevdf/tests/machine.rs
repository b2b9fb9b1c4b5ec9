// SPDX-License-Identifier: GPL-2.0-or-later
//! An empty CPU under EEVDF, driven by hand, and the recorded results of the kernel.

use serde_json::Value;
use tiltyard_native::{Instance, Value as Global};
use tiltyard_schedtest::object;
use tiltyard_schedtest::vectors::{call, load};

/// Ways to leave a queue, as rule.h has them.
pub const SLEEP: i64 = 1;
pub const BRIEFLY: i64 = 2;
pub const FOREVER: i64 = 4;

/// Everything in decisions happens at this time.
pub const NOW: i64 = 1_000_000_000_000;

/// What a task is now; `lag` is the end of its protection while it has the turn.
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    pub v: i64,
    pub deadline: i64,
    pub lag: i64,
    pub slice: i64,
    pub delayed: i64,
    pub relative: i64,
    pub custom: i64,
    pub queued: i64,
}

pub struct Eevdf {
    instance: Instance,
    /// min_vruntime of an empty root queue; recorded virtual times count from it.
    pub origin: i64,
}

impl Eevdf {
    /// Ticks of `tick_ns`, default requests of `base_ns`; `switches` are tunables.
    pub fn new(tick_ns: i64, base_ns: i64, switches: &[(&str, i128)]) -> Eevdf {
        let mut globals = vec![(
            "tick_hz".to_owned(),
            Global::Int((1_000_000_000 / tick_ns).into()),
        )];
        for (name, value) in switches {
            globals.push(((*name).to_owned(), Global::Int(*value)));
        }
        let instance = load(object("schedulers/eevdf/tests/vectors.bpf.c", 2), &globals);
        let mut eevdf = Eevdf {
            instance,
            origin: 0,
        };
        eevdf.empty(base_ns);
        eevdf
    }

    /// Nothing is left of what was.
    pub fn empty(&mut self, base_ns: i64) {
        self.call("t_reset", &[base_ns]);
        self.origin = self.call("t_origin", &[0]);
    }

    pub fn call(&self, program: &str, words: &[i64]) -> i64 {
        call(&self.instance, program, words).0
    }

    pub fn read(&self, entity: i64) -> Entity {
        let [v, deadline, lag, slice, delayed, relative, custom, queued] =
            call(&self.instance, "t_read", &[entity]).1;
        Entity {
            v,
            deadline,
            lag,
            slice,
            delayed,
            relative,
            custom,
            queued,
        }
    }
}

/// Recorded results of a kind.
pub fn records(kind: &str) -> Vec<Value> {
    let bytes = zstd::decode_all(&include_bytes!("kernel.jsonl.zst")[..]).expect("zstd");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|record| record["k"] == kind).collect()
}

/// A number of a record.
pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}
