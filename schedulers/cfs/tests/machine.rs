// SPDX-License-Identifier: GPL-2.0-or-later
//! An empty machine under CFS, driven by hand.

use tiltyard_native::{Instance, Object, Value};
use tiltyard_schedtest::vectors::{call, load};
use tiltyard_schedtest::{Globals, object, presets};

pub const MS: i64 = 1_000_000;
/// A segment of PELT.
pub const SEGMENT: i64 = 1024 * 1024;
pub const TICK: i64 = 4 * MS;

/// Ways to leave a queue, as queue.h has them.
pub const SLEEP: i64 = 1;
pub const FOR_GOOD: i64 = 0;

/// Buddies, as t_mark takes them.
pub const NEXT: i64 = 0;
pub const LAST: i64 = 1;
pub const SKIP: i64 = 2;

pub const POLICY_BATCH: i64 = 3;
pub const POLICY_IDLE: i64 = 5;

pub fn vectors() -> &'static Object {
    object("schedulers/cfs/tests/vectors.bpf.c", 2)
}

pub fn preset(name: &str) -> Globals {
    presets("cfs").remove(name).expect(name)
}

/// An empty machine under CFS.
pub struct Cfs {
    instance: Instance,
}

impl Cfs {
    /// `cpus` possible CPUs, `scale_cpus` that count for the factor of the tunables.
    pub fn new(globals: &[(String, Value)], cpus: i64, scale_cpus: i64) -> Cfs {
        let instance = load(vectors(), globals);
        let cfs = Cfs { instance };
        cfs.call("t_reset", &[cpus, scale_cpus]);
        cfs
    }

    /// One core under the figures of Linux 4.9 for a machine of `scale_cpus`.
    pub fn kernel49(scale_cpus: i64) -> Cfs {
        Cfs::new(&preset("cfs_kernel49"), 1, scale_cpus)
    }

    pub fn paper() -> Cfs {
        Cfs::new(&preset("cfs"), 1, 8)
    }

    pub fn with(name: &str, value: i128) -> Cfs {
        let mut globals = preset("cfs_kernel49");
        globals.retain(|(key, _)| key != name);
        globals.push((name.to_owned(), Value::Int(value)));
        Cfs::new(&globals, 1, 8)
    }

    pub fn call_all(&self, program: &str, words: &[i64]) -> (i64, [i64; 8]) {
        call(&self.instance, program, words)
    }

    pub fn call(&self, program: &str, words: &[i64]) -> i64 {
        self.call_all(program, words).0
    }

    /// A task of root that is not queued yet, vruntime `v`.
    pub fn task(&self, nice: i64, v: i64) -> i64 {
        self.call("t_task", &[nice, 0, 0, 0, v])
    }

    /// Queued tasks of group `group`, vruntime 0.
    pub fn hogs(&self, nices: &[i64], group: i64) -> Vec<i64> {
        let tasks: Vec<i64> = nices
            .iter()
            .map(|&nice| self.call("t_task", &[nice, 0, group, 0, 0]))
            .collect();
        for &task in &tasks {
            self.call("t_enqueue", &[task, 0, 0]);
        }
        tasks
    }

    pub fn queued(&self, nice: i64, v: i64) -> i64 {
        let task = self.task(nice, v);
        self.call("t_enqueue", &[task, 0, 0]);
        task
    }

    pub fn group(&self, index: i64, parent: i64) {
        self.call("t_group", &[index, parent, 1024]);
    }

    pub fn slice(&self, task: i64) -> i64 {
        self.call("t_slice", &[task, 0])
    }

    pub fn vslice(&self, task: i64) -> i64 {
        self.call("t_slice", &[task, 1])
    }

    pub fn vruntime(&self, entity: i64) -> i64 {
        self.call("t_vruntime", &[entity, 0, 0])
    }

    pub fn set_min_vruntime(&self, cpu: i64, v: i64) {
        self.call("t_min_vruntime", &[0, cpu, v, 1]);
    }

    pub fn min_vruntime(&self) -> i64 {
        self.call("t_min_vruntime", &[0, 0, 0, 0])
    }

    /// Who would run; nobody gets the turn.
    pub fn peek(&self) -> i64 {
        self.call("t_pick", &[0, 0, 0])
    }

    /// Who runs from `now` on.
    pub fn switch(&self, now: i64) -> i64 {
        self.call("t_pick", &[0, now, 1])
    }

    /// Ticks for `total` ns; each turn is (task, start, end).
    pub fn drive(&self, total: i64) -> Vec<(i64, i64, i64)> {
        let (mut turns, mut start, mut running) = (Vec::new(), 0, self.switch(0));
        for now in (TICK..=total).step_by(TICK as usize) {
            if self.call("t_tick", &[running, now]) == 0 {
                continue;
            }
            let next = self.switch(now);
            if next != running {
                turns.push((running, start, now));
                (running, start) = (next, now);
            }
        }
        turns
    }
}
