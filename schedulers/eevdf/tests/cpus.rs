// SPDX-License-Identifier: GPL-2.0-or-later
//! Machines of several CPUs for the tests of how Linux 6.18 compares CPUs, through the handles of multicore.bpf.c.

use tiltyard_native::Value as Global;
use tiltyard_schedtest::kernel::{Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

pub const NOW_NS: i64 = 4_000_000_000_000;
/// `enum balance_idle`.
pub const IDLE: i64 = 0;
pub const BUSY: i64 = 1;
pub const NEWIDLE: i64 = 2;
/// Tasks that tests may use.
const TASKS: i64 = 8;

/// Declares `Cpu`, with a function for each field that changes it.
macro_rules! cpu {
    ($($field:ident)+) => {
        /// What is known of a CPU: runnable tasks, others, some that sleep without having left; averages; what other classes
        /// take of 1024. Without tasks it is idle.
        #[derive(Clone, Copy, Default)]
        pub struct Cpu { $($field: i64),+ }

        impl Cpu {
            $(pub fn $field(mut self, to: i64) -> Cpu {
                self.$field = to;
                self
            })+
        }

        pub const NONE: Cpu = Cpu { $($field: 0),+ };
    };
}

cpu! { tasks other delayed load util runnable taken }

/// `tasks` that always run or wait.
pub fn hogs(tasks: i64) -> Cpu {
    NONE.tasks(tasks)
        .load(1024 * tasks)
        .util(1024.min(1024 * tasks))
        .runnable(1024 * tasks)
}

/// `tasks` that are runnable just now, but seldom.
pub fn light(tasks: i64) -> Cpu {
    NONE.tasks(tasks)
        .load(100 * tasks)
        .util(100)
        .runnable(100 * tasks)
}

pub struct Machine {
    pub kernel: Kernel,
    cpus: Vec<Cpu>,
    tasks: Vec<TaskId>,
}

impl Machine {
    /// For each node its caches, for each cache the CPUs of each core. Nodes are 20 apart, unless their distances are given.
    pub fn new(nodes: &[Vec<Vec<i64>>], distances: &[i128], tunables: &[(&str, i128)]) -> Machine {
        let (mut core, mut cache, mut node) = (Vec::new(), Vec::new(), Vec::new());
        let (mut nr_cores, mut nr_caches) = (0, 0);
        for (at, caches) in nodes.iter().enumerate() {
            for cores in caches {
                for threads in cores {
                    nr_cores += 1;
                    for _ in 0..*threads {
                        core.push(nr_cores);
                        cache.push(nr_caches);
                        node.push(at as i128);
                    }
                }
                nr_caches += 1;
            }
        }
        let nr = nodes.len();
        let apart = |n| if n % (nr + 1) == 0 { 10 } else { 20 };
        let distances = match distances {
            [] => (0..nr * nr).map(apart).collect(),
            given => given.to_vec(),
        };
        let nr_cpus = core.len();
        let mut values = globals(&[tunables, &[("nr_nodes", nr as i128)]].concat());
        for (name, numbers) in [
            ("cpu_core_id", core),
            ("cpu_llc_id", cache),
            ("cpu_node_id", node),
            ("node_distance", distances),
            ("imbalance_pct", vec![110, 117, 117, 117]),
        ] {
            values.push((name.to_owned(), Global::Ints(numbers)));
        }
        let object = object("schedulers/eevdf/tests/multicore.bpf.c", 2);
        let mut kernel = Kernel::boot(object, &values, nr_cpus as u32);
        kernel.state().now_ns = NOW_NS as u64;
        let tasks = (0..TASKS).map(|n| kernel.state().add_task(n as i32 + 1, 0));
        let tasks = tasks.collect();
        assert_eq!(kernel.call("t_build", &[]).0[0], 0);
        let mut machine = Machine {
            kernel,
            cpus: Vec::new(),
            tasks,
        };
        machine.cpus.resize(nr_cpus, NONE);
        machine.clear();
        machine
    }

    /// So many caches of a node, cores of a cache, CPUs of a core; several nodes are alike.
    pub fn even(nodes: usize, caches: usize, cores: usize, threads: i64) -> Machine {
        let node = vec![vec![threads; cores]; caches];
        Machine::new(&vec![node; nodes], &[], &[])
    }

    /// All idle.
    pub fn clear(&mut self) {
        self.call("t_clear", &[NOW_NS]);
        self.set(0..self.cpus.len(), NONE);
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    pub fn set(&mut self, cpus: impl IntoIterator<Item = usize>, to: Cpu) {
        for cpu in cpus {
            self.cpus[cpu] = to;
            let averages = [to.load, to.util, to.runnable, 1024 - to.taken];
            let tasks = [cpu as i64, to.tasks, to.other, to.delayed];
            self.call("t_cpu", &[tasks, averages].concat());
        }
        let idle = |cpu: &Cpu| cpu.tasks + cpu.other + cpu.delayed == 0;
        let idle: Vec<bool> = self.cpus.iter().map(idle).collect();
        let state = self.kernel.state();
        state.set_idle(|cpu| idle.get(cpu).is_some_and(|idle| *idle));
    }

    /// The same for CPUs that carry a load together.
    pub fn set_load(&mut self, cpus: std::ops::Range<usize>, to: Cpu, load: i64) {
        let of = to.load(0);
        self.set(cpus.clone(), of);
        self.set([cpus.start], to.load(load));
    }

    /// The number of a group of a CPU's domain, counted from its own.
    pub fn group(&mut self, cpu: i64, level: i64, n: i64) -> i64 {
        self.call("t_group", &[cpu, level, n])[3]
    }

    /// `struct task_struct` of a task that may run on these CPUs.
    pub fn task(&mut self, entity: i64, allowed: impl Fn(usize) -> bool) -> i64 {
        let nr_cpus = self.cpus.len();
        let id = self.tasks[entity as usize - 1];
        let state = self.kernel.state();
        state.allow(id, |cpu| cpu < nr_cpus && allowed(cpu));
        let task = state.address(id);
        self.call("t_slot", &[task, entity]);
        task
    }

    pub fn pass(&mut self, cpu: i64, level: i64, state: i64) {
        self.call("t_pass", &[cpu, level, state, NOW_NS]);
    }
}

/// A node with two caches of four CPUs; their groups are of level 1.
pub fn two_caches() -> Machine {
    let mut m = Machine::even(1, 2, 4, 1);
    m.pass(0, 1, IDLE);
    m
}

/// Three of them.
pub fn three_caches() -> Machine {
    Machine::even(1, 3, 4, 1)
}

/// A cache of four cores of two CPUs; cores are groups of level 1.
pub fn siblings() -> Machine {
    let mut m = Machine::even(1, 1, 4, 2);
    m.pass(0, 1, IDLE);
    m
}

/// Four nodes of two caches of four CPUs, two and two near each other.
pub fn four_nodes() -> Machine {
    let far = [
        [10, 20, 30, 30],
        [20, 10, 30, 30],
        [30, 30, 10, 20],
        [30, 30, 20, 10],
    ];
    Machine::new(&vec![vec![vec![1; 4]; 2]; 4], far.as_flattened(), &[])
}
