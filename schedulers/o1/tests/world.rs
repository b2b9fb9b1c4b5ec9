// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine on which O(1) is in charge of tasks, and whose callbacks tests call themselves.

use super::recorded::{Machine, Seen, SeenCpu};
use std::ptr::without_provenance;
use tiltyard_native::Value;
use tiltyard_native::layout::InitTaskArgs;
use tiltyard_schedtest::globals;
use tiltyard_schedtest::kernel::TaskId;

/// Flags of callbacks, as the kernel has them.
pub const WAKE_SYNC: i64 = 16;
pub const ENQUEUE_WAKEUP: i64 = 1;
pub const ENQUEUE_RESTORE: i64 = 2;
pub const ENQUEUE_MIGRATED: i64 = 0x40;
pub const ENQUEUE_NEW: i64 = 0x88;
pub const ENQUEUE_LAST: i64 = 1 << 41;
pub const DEQUEUE_SLEEP: i64 = 1;
pub const DEQUEUE_SAVE: i64 = 2;
pub const TASK_QUEUED: u32 = 1;
pub const PF_EXITING: u32 = 4;
pub const TASK_INTERRUPTIBLE: u32 = 1;
pub const TASK_UNINTERRUPTIBLE: u32 = 2;
/// An idle kernel thread.
pub const TASK_IDLE: u32 = 0x402;
pub const POLICY_BATCH: u32 = 3;
pub const POLICY_IDLE: u32 = 5;

pub const MS: i64 = 1_000_000;
pub const NONINT: i64 = 1;
pub const INTERACTIVE: i64 = 2;
pub const INTERRUPTED: i64 = 3;
pub const EXPIRED: i64 = 1;
pub const NO_ARRAY: i64 = 2;

/// O(1) in charge of tasks: the first is number 0.
pub struct World {
    pub m: Machine,
    pub ids: Vec<TaskId>,
}

impl World {
    /// As many CPUs, each with a cache of its own.
    pub fn new(nr_cpus: i64, tunables: &[(&str, i128)]) -> World {
        let mut values = globals(&[("tick_hz", 1000)]);
        values.extend(globals(tunables));
        let ids = (0..i128::from(nr_cpus)).collect::<Vec<i128>>();
        for name in ["cpu_core_id", "cpu_llc_id"] {
            values.push((name.to_owned(), Value::Ints(ids.clone())));
        }
        let mut m = Machine::with(&values, nr_cpus);
        let (_, error) = m.kernel.call("o1_init", &[]);
        assert_eq!(error as i32, 0);
        World { m, ids: Vec::new() }
    }

    /// A task of an application that is there already, on `cpu`.
    pub fn task(&mut self, cpu: u32) -> i64 {
        self.ids.push(
            self.m
                .kernel
                .state()
                .add_task(1000 + self.ids.len() as i32, cpu),
        );
        let n = self.ids.len() as i64 - 1;
        self.struct_of(n, |p| p.mm = without_provenance(8));
        self.init(n, false);
        n
    }

    /// A new task of `parent`, which runs.
    pub fn fork(&mut self, parent: i64, cpu: u32, thread: bool) -> i64 {
        let id = self
            .m
            .kernel
            .state()
            .add_task(1000 + self.ids.len() as i32, cpu);
        self.ids.push(id);
        let n = self.ids.len() as i64 - 1;
        let (tgid, address) = (1000 + parent as i32, self.address(parent));
        self.struct_of(n, |p| {
            p.mm = without_provenance(8);
            p.real_parent = without_provenance(address as usize);
            if thread {
                p.tgid = tgid;
            }
        });
        self.m.kernel.state().current = Some(self.ids[parent as usize]);
        self.init(n, true);
        n
    }

    pub fn init(&mut self, n: i64, fork: bool) {
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let mut args: InitTaskArgs = unsafe { std::mem::zeroed() };
        args.fork = fork;
        let words = [self.address(n), &raw const args as i64];
        let (_, error) = self.m.kernel.call("o1_init_task", &words);
        assert_eq!(error as i32, 0);
    }

    pub fn address(&mut self, n: i64) -> i64 {
        let id = self.ids[n as usize];
        self.m.kernel.state().address(id)
    }

    pub fn struct_of(
        &mut self,
        n: i64,
        change: impl FnOnce(&mut tiltyard_native::layout::TaskStruct),
    ) {
        change(self.m.kernel.state().task(self.ids[n as usize]));
    }

    /// A callback about a task, with one more argument.
    pub fn about(&mut self, callback: &str, n: i64, argument: i64) -> i64 {
        let p = self.address(n);
        self.m.kernel.call(callback, &[p, argument]).1
    }

    pub fn wakes(&mut self, n: i64) {
        self.about("linux26_enqueue", n, ENQUEUE_WAKEUP);
    }

    /// The CPU chooses: `prev` has the CPU until then.
    pub fn dispatch(&mut self, cpu: i64, prev: Option<i64>) {
        let p = prev.map_or(0, |n| self.address(n));
        self.m.kernel.state().cpu = cpu as u32;
        self.m.kernel.call("linux26_dispatch", &[cpu, p]);
    }

    /// A task wakes up and gets the CPU.
    pub fn runs(&mut self, n: i64, cpu: i64) {
        self.wakes(n);
        self.dispatch(cpu, None);
        assert_eq!(self.cpu(cpu).curr, n);
        self.about("linux26_running", n, 0);
        self.struct_of(n, |p| p.scx.flags |= TASK_QUEUED);
        self.m.kernel.state().kicks.clear();
    }

    pub fn sleeps(&mut self, n: i64, state: u32) {
        self.struct_of(n, |p| p.state = state);
        self.about("linux26_stopping", n, 0);
        self.about("linux26_quiescent", n, DEQUEUE_SLEEP);
    }

    pub fn ticks(&mut self, n: i64, ticks: i64) {
        for _ in 0..ticks {
            self.later(MS);
            self.about("linux26_tick", n, 0);
        }
    }

    pub fn later(&mut self, ns: i64) {
        self.m.kernel.state().now_ns += ns as u64;
    }

    pub fn now(&mut self) -> i64 {
        self.m.kernel.state().now_ns as i64
    }

    pub fn slice(&mut self, n: i64) -> u64 {
        let id = self.ids[n as usize];
        self.m.kernel.state().task(id).scx.slice
    }

    pub fn set_slice(&mut self, n: i64, slice: u64) {
        self.struct_of(n, |p| p.scx.slice = slice);
    }

    pub fn kicks(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.m.kernel.state().kicks)
    }

    pub fn local(&mut self, cpu: u32) -> Vec<i64> {
        let local = self.m.kernel.state().local(cpu).to_vec();
        let number = |id: &TaskId| self.ids.iter().position(|known| known == id);
        local
            .iter()
            .map(|id| number(id).expect("a task") as i64)
            .collect()
    }

    pub fn seen(&mut self, n: i64) -> Seen {
        self.m.seen(n)
    }

    pub fn cpu(&mut self, cpu: i64) -> SeenCpu {
        self.m.seen_cpu(cpu)
    }

    pub fn queued(&mut self, cpu: i64) -> [Vec<i64>; 2] {
        [self.m.queued(cpu, false), self.m.queued(cpu, true)]
    }
}
