// SPDX-License-Identifier: GPL-2.0-or-later
//! From readings to the costs of a machine file.
//!
//! A scheduler's work is weighed by difference: two threads that wake each other in turn are timed under a scheduler
//! that does next to nothing, then under the same with a known amount of work more. In a round each of the two is
//! enqueued once, leaves once and comes once.

use serde::{Deserialize, Serialize};
use tiltyard_exec::costs::Readings;
use tiltyard_model::machine::{Costs, Jitter};

/// Instructions that an enqueue does more under [`Weighed::insns`].
pub const INSNS: u64 = 12_800;
/// Callbacks of a round more under [`Weighed::callbacks`]: runnable, running, stopping and quiescent of two threads.
const CALLBACKS: u64 = 8;
/// Enqueues of a round.
const ENQUEUES: u64 = 2;

/// The readings of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    /// `uname -r` of the kernel that was measured.
    pub kernel_release: String,
    /// Whether the scheduler's events were recorded meanwhile, as `tiltyard kernel` does.
    pub recorded: bool,
    /// The clock counts instructions: two boots are the same.
    pub exact: bool,
    /// Under the kernel's own scheduler.
    pub own: Readings,
    /// Under schedulers of BPF; `None`: this kernel has none.
    pub bpf: Option<Bpf>,
}

/// Readings under a scheduler of BPF that does next to nothing, and with a known amount more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bpf {
    pub base: Readings,
    /// Four more callbacks for every turn of a thread, which do nothing.
    pub callbacks: Readings,
    /// [`INSNS`] instructions more in every enqueue.
    pub insns: Readings,
    /// Tasks go through a queue of the scheduler's, by one more kernel function and callback.
    pub queue: Readings,
}

impl Weighed {
    /// The readings that are of no scheduler: under the lightest one there is.
    fn machine(&self) -> &Readings {
        self.bpf.as_ref().map_or(&self.own, |bpf| &bpf.base)
    }

    /// What the simulated machine is to charge.
    ///
    /// Without schedulers of BPF callbacks cost nothing: what the kernel's own scheduler does is part of the
    /// switches and wakeups as they were measured.
    pub fn costs(&self) -> Costs {
        let machine = self.machine();
        let [callback_ns, insn_ps, kfunc_ns] = self.bpf.as_ref().map_or([0; 3], Bpf::costs);
        // An enqueue and its insertion into a queue are within the wakeup.
        let wakeup_ns = machine.wakeup_ns.saturating_sub(callback_ns + kfunc_ns);
        let block_ns = machine.futex_call_ns;
        let switch_ns = (machine.round_ns / 2).saturating_sub(machine.wakeup_ns + block_ns);
        // Timers are read under the kernel's own scheduler, where a thread that wakes preempts.
        let own = &self.own;
        let own_switch_ns = (own.round_ns / 2).saturating_sub(own.wakeup_ns + own.futex_call_ns);
        let timer_wakeup_ns = own
            .timer_wakeup_ns
            .unwrap_or(0)
            .saturating_sub(own_switch_ns);
        let remote_ns = machine.remote_wakeup_ns.unwrap_or(0);
        let ipi_ns = remote_ns.saturating_sub(machine.wakeup_ns + switch_ns);
        let [first_ps, second_ps, third_ps, memory_ps] = self.own.line_ps;
        let line_mem_ps = memory_ps.saturating_sub(first_ps);
        let streamed_ps = self.own.stream_line_ps.saturating_sub(first_ps);
        let [near_ns, far_ns] = match self.bpf {
            Some(_) => self.own.handover_ns.unwrap_or_default(),
            None => [0; 2],
        };
        Costs {
            switch_ns,
            wakeup_ns,
            timer_wakeup_ns,
            block_ns,
            fork_ns: machine.creation_ns.saturating_sub(machine.wakeup_ns),
            ipi_ns,
            tick_ns: machine.tick_ns,
            callback_ns,
            insn_ps,
            kfunc_ns,
            visit_near_ns: near_ns,
            visit_far_ns: far_ns.max(near_ns),
            line_l2_ps: second_ps.saturating_sub(first_ps),
            line_l3_ps: third_ps.saturating_sub(first_ps),
            line_mem_ps,
            line_far_ps: line_mem_ps,
            refill_overlap_permille: match line_mem_ps {
                0 => 1000,
                _ => 1000 - (streamed_ps * 1000 / line_mem_ps).min(1000),
            },
            smt_permille: self.own.smt_permille.unwrap_or(1000).max(1),
        }
    }

    /// What a seed is to draw. Starts are not measured: how long programs take to start is not the machine's alone.
    pub fn jitter(&self) -> Jitter {
        match &self.own.jitter {
            _ if self.exact => Jitter::NONE,
            None => Jitter::REFERENCE,
            Some(own) => Jitter {
                start_span_ns: Jitter::REFERENCE.start_span_ns,
                timer_late_mean_ns: own.timer_late_mean_ns.min(Jitter::MAX_TIMER_LATE_NS),
                work_spread_ppm: own.work_spread_ppm.min(Jitter::MAX_WORK_SPREAD_PPM),
            },
        }
    }

    /// The machine file, with the way in which each number was found.
    pub fn machine_file(&self, description: &str) -> String {
        let costs = self.costs();
        let (machine, own) = (self.machine(), &self.own);
        let under = match self.bpf {
            Some(_) => "under a scheduler of BPF that does next to nothing",
            None => "under the kernel's own scheduler, whose work is within",
        };
        let bpf = |what: &str| match self.bpf {
            Some(_) => format!("by difference: {what}"),
            None => {
                "within switch_ns and wakeup_ns: this kernel has no schedulers of BPF".to_owned()
            }
        };
        let remote = match machine.remote_wakeup_ns {
            Some(ns) => format!(
                "{ns} ns from a wakeup to the first instruction on an idle CPU, less wakeup and switch"
            ),
            None => "one CPU: there are none".to_owned(),
        };
        let moved = match machine.migration_ns {
            Some(ns) => format!(
                "\n# A thread that moves itself to another CPU takes {ns} ns: two switches, a wakeup and an interrupt; no cost of its own here."
            ),
            None => String::new(),
        };
        let recorded = match self.recorded {
            true => "while events were recorded, as tiltyard kernel does",
            false => "while nothing was recorded",
        };
        let mut file = format!(
            "# SPDX-License-Identifier: GPL-2.0-or-later\n\
             # Measured by tiltyard calibrate in Linux {}, {recorded}.{moved}\n\
             description = {description:?}\ntopology = {:?}\ntick_hz = {} # the step of the coarse clock\n\n[costs]\n",
            self.kernel_release,
            own.topology,
            own.tick_hz.max(1),
        );
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
        for (key, value, why) in [
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
                    "{} ns from the end of a sleep to the sleeper's first instruction, less a switch; under the kernel's own scheduler",
                    own.timer_wakeup_ns.unwrap_or(0)
                ),
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
                "wakeup_ns",
                costs.wakeup_ns,
                format!(
                    "{} ns for the call, less an enqueue; {under}",
                    machine.wakeup_ns
                ),
            ),
            ("ipi_ns", costs.ipi_ns, remote),
            (
                "tick_ns",
                costs.tick_ns,
                "what a busy thread loses when the coarse clock moves".to_owned(),
            ),
            (
                "callback_ns",
                costs.callback_ns,
                bpf("four empty callbacks more in each turn of a thread"),
            ),
            (
                "insn_ps",
                costs.insn_ps,
                bpf(&format!("{INSNS} instructions more in each enqueue")),
            ),
            (
                "kfunc_ns",
                costs.kfunc_ns,
                bpf("tasks go through a queue, less the callback that takes them from it"),
            ),
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
        ] {
            file += &format!("{key} = {value} # {why}\n");
        }
        file + &self.jitter_table()
    }
}

impl Weighed {
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

impl Bpf {
    /// `callback_ns`, `insn_ps`, `kfunc_ns`.
    fn costs(&self) -> [u64; 3] {
        let more_ns = |with: &Readings| with.round_ns.saturating_sub(self.base.round_ns);
        let callback_ns = more_ns(&self.callbacks) / CALLBACKS;
        let insn_ps = more_ns(&self.insns) * 1000 / (ENQUEUES * INSNS);
        let kfunc_ns = (more_ns(&self.queue) / ENQUEUES).saturating_sub(callback_ns);
        [callback_ns, insn_ps, kfunc_ns]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_exec::costs::JitterReadings;
    use tiltyard_model::Machine;

    fn readings(round_ns: u64) -> Readings {
        Readings {
            topology: "[numa] package:1 core:2 pu:1".to_owned(),
            tick_hz: 250,
            tick_ns: 900,
            wakeup_ns: 1_000,
            futex_call_ns: 300,
            timer_wakeup_ns: Some(2_200),
            creation_ns: 6_000,
            round_ns,
            remote_wakeup_ns: Some(4_500),
            migration_ns: Some(6_000),
            handover_ns: Some([100, 180]),
            line_ps: [1_000, 4_000, 15_000, 81_000],
            stream_line_ps: 9_000,
            smt_permille: Some(600),
            jitter: Some(JitterReadings {
                timer_late_mean_ns: 1_300,
                work_spread_ppm: 2_000,
            }),
        }
    }

    fn weighed() -> Weighed {
        Weighed {
            kernel_release: "6.18.1".to_owned(),
            recorded: false,
            exact: false,
            own: readings(3_000),
            bpf: Some(Bpf {
                base: readings(6_000),
                callbacks: readings(6_160),
                insns: readings(6_000 + 12_800),
                queue: readings(6_220),
            }),
        }
    }

    #[test]
    fn costs_are_differences() {
        let costs = weighed().costs();
        // 160 ns for 8 callbacks; 12,800 ns for 25,600 instructions; 110 ns an enqueue for a callback and a function.
        assert_eq!(
            (costs.callback_ns, costs.insn_ps, costs.kfunc_ns),
            (20, 500, 90)
        );
        // 3,000 ns half a round: 1,000 are the wakeup, of which 110 the enqueue; 300 the call that blocks.
        assert_eq!((costs.switch_ns, costs.wakeup_ns), (1_700, 890));
        assert_eq!((costs.block_ns, costs.fork_ns), (300, 5_000));
        // Under the kernel's own scheduler a switch takes 200 ns.
        assert_eq!(costs.timer_wakeup_ns, 2_000);
        assert_eq!(costs.ipi_ns, 1_800);
        assert_eq!(
            (costs.line_l2_ps, costs.line_l3_ps, costs.line_mem_ps),
            (3_000, 14_000, 80_000)
        );
        assert_eq!(costs.refill_overlap_permille, 900);
        assert_eq!((costs.visit_near_ns, costs.visit_far_ns), (100, 180));
        assert_eq!(costs.smt_permille, 600);
    }

    #[test]
    fn without_schedulers_of_bpf_callbacks_are_free() {
        let costs = Weighed {
            bpf: None,
            ..weighed()
        }
        .costs();
        assert_eq!(
            (
                costs.callback_ns,
                costs.insn_ps,
                costs.kfunc_ns,
                costs.visit_near_ns
            ),
            (0, 0, 0, 0)
        );
        assert_eq!((costs.switch_ns, costs.wakeup_ns), (200, 1_000));
    }

    #[test]
    fn the_file_is_a_machine_with_these_costs() {
        for weighed in [
            weighed(),
            Weighed {
                bpf: None,
                exact: true,
                ..weighed()
            },
        ] {
            let file = weighed.machine_file("a \"test\"");
            let machine =
                Machine::parse_toml(&file, "test").unwrap_or_else(|e| panic!("{e}\n{file}"));
            assert_eq!(machine.costs, weighed.costs());
            assert_eq!(machine.jitter, weighed.jitter());
            assert_eq!(machine.jitter == Jitter::NONE, weighed.exact);
            assert_eq!((machine.nr_cpus(), machine.tick_hz), (2, 250));
        }
    }
}
