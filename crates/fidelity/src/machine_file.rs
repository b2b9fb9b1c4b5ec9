// SPDX-License-Identifier: GPL-2.0-or-later
//! The machine file that weighed costs make, with the way in which each number was found.

use crate::costs::{PASS_INSNS, REPEATS, Weighed};
use crate::threads;

/// A key of a machine file's `[costs]`, its value, and how it was found.
type Row = (&'static str, u64, String);

impl Weighed {
    /// The machine file.
    pub fn machine_file(&self, description: &str) -> String {
        let mut file = self.head(description);
        let groups = [self.kernel_rows(), self.bpf_rows(), self.memory_rows()];
        for (key, value, why) in groups.into_iter().flatten() {
            file += &format!("{key} = {value} # {why}\n");
        }
        file + &threads::tables(&self.noise()) + &self.jitter_table()
    }

    /// All before the costs.
    fn head(&self, description: &str) -> String {
        let own = &self.own;
        let moved = match self.machine().migration_ns {
            Some(ns) => format!(
                "\n# A thread that moves itself to another CPU takes {ns} ns: two switches, a wakeup and an interrupt; no cost of its own here."
            ),
            None => String::new(),
        };
        let recorded = match self.recorded {
            true => "while events were recorded, as tiltyard kernel does",
            false => "while nothing was recorded",
        };
        // Of the built-in choice of sched_ext, not of the kernel's own scheduler.
        let sync = match self.bpf.as_ref().and_then(|bpf| bpf.base.sync_to_waker) {
            Some(value) => format!(
                "sync_to_waker = {value} # whether most of 50 readers of a pipe ran where they had slept and the writer was\n"
            ),
            None => String::new(),
        };
        format!(
            "# SPDX-License-Identifier: GPL-2.0-or-later\n\
             # Measured by tiltyard calibrate in Linux {}, {recorded}.{moved}\n\
             description = {description:?}\ntopology = {:?}\ntick_hz = {} # the step of the coarse clock\n\
             preemptible = {} # {}\n{sync}\n[costs]\n",
            self.kernel_release,
            own.topology,
            own.tick_hz.max(1),
            own.preemptible.unwrap_or(false),
            match own.preemptible {
                Some(_) =>
                    "whether the first of two realtime threads runs before the second is woken",
                None => "not measured: requires privileges",
            },
        )
    }

    /// What the kernel's own work costs.
    fn kernel_rows(&self) -> Vec<Row> {
        let costs = self.costs();
        let (machine, own) = (self.machine(), &self.own);
        let under = match self.bpf {
            Some(_) => "under a BPF scheduler that does almost nothing",
            None => "under the kernel's own scheduler, whose work is included",
        };
        let remote = match machine.remote_wakeup_ns {
            Some(ns) => format!(
                "{ns} ns from a wakeup to the first instruction on an idle CPU, less wakeup and switch"
            ),
            None => "one CPU: no remote wakeups".to_owned(),
        };
        vec![
            (
                "switch_ns",
                costs.switch_ns,
                format!(
                    "half a round of two threads that wake each other ({} ns), less the wakeup and the call; {under}",
                    machine.round_ns
                ),
            ),
            (
                "block_ns",
                costs.block_ns,
                "a call of futex() that need not wait".to_owned(),
            ),
            (
                "timer_wakeup_ns",
                costs.timer_wakeup_ns,
                format!(
                    "{} ns from the end of a sleep to the sleeper's first instruction, less a switch and timer_irq_ns; under the kernel's own scheduler",
                    own.timer_wakeup_ns.unwrap_or(0)
                ),
            ),
            (
                "timer_irq_ns",
                costs.timer_irq_ns,
                match own.timer_irq_ns {
                    Some(_) => {
                        "from the end of a sleep to the kernel's event of the wakeup, sched_waking"
                            .to_owned()
                    }
                    None => "not measured (no permission to trace); included in timer_wakeup_ns"
                        .to_owned(),
                },
            ),
            (
                "fork_ns",
                costs.fork_ns,
                format!(
                    "{} ns to create a thread, less the wakeup",
                    machine.creation_ns
                ),
            ),
            (
                "exit_ns",
                costs.exit_ns,
                format!(
                    "{} ns from a thread's last instruction to another thread's next one, less a switch; under the kernel's own scheduler",
                    own.exit_ns.unwrap_or(0)
                ),
            ),
            (
                "wakeup_ns",
                costs.wakeup_ns,
                format!(
                    "{} ns for the call, less an enqueue; {under}",
                    machine.wakeup_ns
                ),
            ),
            ("ipi_ns", costs.ipi_ns, remote),
            (
                "idle_exit_ns",
                costs.idle_exit_ns,
                format!(
                    "{} ns from the end of a long sleep to the sleeper's first instruction where nothing else runs, less timer_wakeup_ns with its switch",
                    own.idle_wakeup_ns.unwrap_or(0)
                ),
            ),
            (
                "tick_ns",
                costs.tick_ns,
                "what a busy thread loses when the coarse clock moves".to_owned(),
            ),
        ]
    }

    /// What a scheduler's work costs.
    fn bpf_rows(&self) -> Vec<Row> {
        let costs = self.costs();
        let bpf = |what: &str| match self.bpf {
            Some(_) => format!("by difference: {what}"),
            None => {
                "included in switch_ns and wakeup_ns; not measured under BPF schedulers".to_owned()
            }
        };
        vec![
            (
                "callback_ns",
                costs.callback_ns,
                bpf("four additional empty callbacks in each turn of a thread"),
            ),
            (
                "insn_ps",
                costs.insn_ps,
                bpf(&format!(
                    "{} instructions more in each enqueue, as the simulated machine counts them",
                    REPEATS * PASS_INSNS
                )),
            ),
            (
                "kfunc_ns",
                costs.kfunc_ns,
                bpf("tasks go through a queue, less the callback that takes them from it"),
            ),
            (
                "map_lookup_ns",
                costs.map_lookup_ns.unwrap_or(0),
                bpf("a lookup in a hash map, less one in an array"),
            ),
            (
                "storage_lookup_ns",
                costs.storage_lookup_ns.unwrap_or(0),
                bpf("a lookup of a task's storage, less one in an array"),
            ),
            (
                "spin_lock_ns",
                costs.spin_lock_ns,
                bpf("a lock that is taken and given back, less a lookup in an array"),
            ),
            (
                "task_lookup_ns",
                costs.task_lookup_ns,
                bpf("a task that is found by its pid and released, less a lookup in an array"),
            ),
            (
                "kick_ns",
                costs.kick_ns,
                bpf("each enqueue kicks its own CPU, less the kernel function"),
            ),
        ]
    }

    /// What caches, memory and siblings cost.
    fn memory_rows(&self) -> Vec<Row> {
        let (costs, own) = (self.costs(), &self.own);
        let level = |n: usize| {
            format!(
                "{} ps a dependent read, {} in the first level",
                own.line_ps[n], own.line_ps[0]
            )
        };
        let handed = match own.handover_ns {
            Some([near, far]) => {
                format!("a line from one CPU to the next takes {near} ns, to the last {far}")
            }
            None => "one CPU: there is no other".to_owned(),
        };
        vec![
            ("visit_near_ns", costs.visit_near_ns, handed.clone()),
            ("visit_far_ns", costs.visit_far_ns, handed),
            ("line_l2_ps", costs.line_l2_ps, level(1)),
            ("line_l3_ps", costs.line_l3_ps, level(2)),
            ("line_mem_ps", costs.line_mem_ps, level(3)),
            (
                "line_far_ps",
                costs.line_far_ps,
                "not measured: as local memory".to_owned(),
            ),
            (
                "refill_overlap_permille",
                costs.refill_overlap_permille,
                format!("{} ps a line of memory read in order", own.stream_line_ps),
            ),
            (
                "smt_permille",
                costs.smt_permille,
                "the same work alone and beside a busy sibling; 1000 without one".to_owned(),
            ),
        ]
    }

    fn jitter_table(&self) -> String {
        let jitter = self.jitter();
        let why = |measured| match self.exact {
            true => "none: two boots of a guest that counts instructions are the same",
            false => measured,
        };
        format!(
            "\n[jitter]\nstart_span_ns = {} # {}\ntimer_late_mean_ns = {} # {}\nwork_spread_ppm = {} # {}\n",
            jitter.start_span_ns,
            why("not measured: the reference machine's"),
            jitter.timer_late_mean_ns,
            why("sleeps of 1 ms beside a SCHED_IDLE thread: median less minimum, divided by ln 2"),
            jitter.work_spread_ppm,
            why("computations of 10 ms: width of the middle half of their CPU times"),
        )
    }
}
