// SPDX-License-Identifier: GPL-2.0-or-later
//! From readings to the costs of a machine file.
//!
//! A scheduler's work is weighed by difference: two threads that wake each other in turn are timed under a scheduler
//! that does next to nothing, then under the same with a known amount of work more. In a round each of the two is
//! enqueued once, leaves once and comes once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tiltyard_exec::costs::Readings;
use tiltyard_model::machine::{Costs, Jitter, Noise};

use crate::threads;

/// How often an enqueue does more of what is weighed, where that can be done more than once.
pub(crate) const REPEATS: u64 = 100;
/// Instructions of one pass of work() in costs.bpf.c, as the simulated machine counts them.
pub(crate) const PASS_INSNS: u64 = 146;
/// Callbacks of a round more under [`ExtraWork::Callbacks`]: runnable, running, stopping and quiescent of two threads.
const CALLBACKS: u64 = 8;
/// Enqueues of a round.
const ENQUEUES: u64 = 2;

/// What a scheduler does more than the one that does next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExtraWork {
    /// Four more callbacks for every turn of a thread, which do nothing.
    Callbacks,
    /// Code as schedulers have it, [`REPEATS`] times in every enqueue.
    Work,
    /// Tasks go through a queue of the scheduler's, by one more kernel function and callback.
    Queue,
    /// Each [`REPEATS`] times in every enqueue. Lookups in arrays cost a kernel nothing beyond their instructions, so the
    /// others are held against them.
    ArrayLookups,
    MapLookups,
    StorageLookups,
    SpinLocks,
    TaskLookups,
    /// Every enqueue kicks its own CPU.
    Kick,
}

impl ExtraWork {
    pub const ALL: [ExtraWork; 9] = [
        ExtraWork::Callbacks,
        ExtraWork::Work,
        ExtraWork::Queue,
        ExtraWork::ArrayLookups,
        ExtraWork::MapLookups,
        ExtraWork::StorageLookups,
        ExtraWork::SpinLocks,
        ExtraWork::TaskLookups,
        ExtraWork::Kick,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ExtraWork::Callbacks => "callbacks",
            ExtraWork::Work => "work",
            ExtraWork::Queue => "queue",
            ExtraWork::ArrayLookups => "array-lookups",
            ExtraWork::MapLookups => "map-lookups",
            ExtraWork::StorageLookups => "storage-lookups",
            ExtraWork::SpinLocks => "spin-locks",
            ExtraWork::TaskLookups => "task-lookups",
            ExtraWork::Kick => "kick",
        }
    }

    /// What of costs.bpf.c makes the difference; "": that it is built with CALLBACKS.
    pub fn tunable(self) -> &'static str {
        match self {
            ExtraWork::Callbacks => "",
            ExtraWork::Work => "passes=100",
            ExtraWork::Queue => "queue=true",
            ExtraWork::ArrayLookups => "array_lookups=100",
            ExtraWork::MapLookups => "map_lookups=100",
            ExtraWork::StorageLookups => "storage_lookups=100",
            ExtraWork::SpinLocks => "spin_locks=100",
            ExtraWork::TaskLookups => "task_lookups=100",
            ExtraWork::Kick => "kick=true",
        }
    }
}

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
    /// Under schedulers of BPF; `None`: this kernel has none, or they were not asked for.
    pub bpf: Option<Bpf>,
}

/// Readings under a scheduler of BPF that does next to nothing, and the lengths of a round with a known amount more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bpf {
    pub base: Readings,
    pub rounds_ns: BTreeMap<ExtraWork, u64>,
}

/// What [`Bpf`] comes to.
#[derive(Default)]
struct Work {
    callback_ns: u64,
    insn_ps: u64,
    kfunc_ns: u64,
    map_lookup_ns: u64,
    storage_lookup_ns: u64,
    spin_lock_ns: u64,
    task_lookup_ns: u64,
    kick_ns: u64,
}

impl Weighed {
    /// The readings that are of no scheduler: under the lightest one there is.
    pub(crate) fn machine(&self) -> &Readings {
        self.bpf.as_ref().map_or(&self.own, |bpf| &bpf.base)
    }

    /// What the simulated machine is to charge.
    ///
    /// Without schedulers of BPF callbacks cost nothing: what the kernel's own scheduler does is part of the
    /// switches and wakeups as they were measured.
    pub fn costs(&self) -> Costs {
        let machine = self.machine();
        let work = self.bpf.as_ref().map_or_else(Work::default, Bpf::work);
        // An enqueue and its insertion into a queue are within the wakeup.
        let wakeup_ns = machine
            .wakeup_ns
            .saturating_sub(work.callback_ns + work.kfunc_ns);
        let block_ns = machine.futex_call_ns;
        let switch_ns = (machine.round_ns / 2).saturating_sub(machine.wakeup_ns + block_ns);
        // Timers are read under the kernel's own scheduler, where a thread that wakes preempts.
        let own_switch_ns = self.own_switch_ns();
        let timer_irq_ns = self.timer_irq_ns();
        let timer_wakeup_ns = self
            .own
            .timer_wakeup_ns
            .unwrap_or(0)
            .saturating_sub(own_switch_ns + timer_irq_ns);
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
            timer_irq_ns,
            block_ns,
            fork_ns: machine.creation_ns.saturating_sub(machine.wakeup_ns),
            exit_ns: self.own.exit_ns.unwrap_or(0).saturating_sub(own_switch_ns),
            ipi_ns,
            idle_exit_ns: self.idle_exit_ns(),
            tick_ns: machine.tick_ns,
            callback_ns: work.callback_ns,
            insn_ps: work.insn_ps,
            kfunc_ns: work.kfunc_ns,
            map_lookup_ns: Some(work.map_lookup_ns),
            storage_lookup_ns: Some(work.storage_lookup_ns),
            spin_lock_ns: work.spin_lock_ns,
            task_lookup_ns: work.task_lookup_ns,
            kick_ns: work.kick_ns,
            visit_llc_ns: None,
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
            node_mb_per_s: None,
            smt_permille: self.own.smt_permille.unwrap_or(1000).max(1),
        }
    }

    fn idle_exit_ns(&self) -> u64 {
        let [idle_ns, awake_ns] =
            [self.own.idle_wakeup_ns, self.own.timer_wakeup_ns].map(Option::unwrap_or_default);
        idle_ns.saturating_sub(awake_ns)
    }

    /// 0 where nothing was traced: the whole path then counts from the wakeup on.
    fn timer_irq_ns(&self) -> u64 {
        self.own.timer_irq_ns.unwrap_or(0)
    }

    fn own_switch_ns(&self) -> u64 {
        let own = &self.own;
        (own.round_ns / 2).saturating_sub(own.wakeup_ns + own.futex_call_ns)
    }

    /// The threads of the kernel's own.
    pub fn noise(&self) -> Vec<Noise> {
        let threads = self.own.threads.as_ref();
        threads.map_or(Vec::new(), |threads| {
            threads::profile(threads, self.own_switch_ns(), self.bpf.is_some())
        })
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
}

impl Bpf {
    fn work(&self) -> Work {
        let more_ns = |kind: ExtraWork| {
            let round_ns = self.rounds_ns[&kind];
            round_ns.saturating_sub(self.base.round_ns)
        };
        let repeated_ns = |kind| {
            more_ns(kind).saturating_sub(more_ns(ExtraWork::ArrayLookups)) / (ENQUEUES * REPEATS)
        };
        let callback_ns = more_ns(ExtraWork::Callbacks) / CALLBACKS;
        let kfunc_ns = (more_ns(ExtraWork::Queue) / ENQUEUES).saturating_sub(callback_ns);
        Work {
            callback_ns,
            insn_ps: more_ns(ExtraWork::Work) * 1000 / (ENQUEUES * REPEATS * PASS_INSNS),
            kfunc_ns,
            map_lookup_ns: repeated_ns(ExtraWork::MapLookups),
            storage_lookup_ns: repeated_ns(ExtraWork::StorageLookups),
            spin_lock_ns: repeated_ns(ExtraWork::SpinLocks),
            task_lookup_ns: repeated_ns(ExtraWork::TaskLookups),
            kick_ns: (more_ns(ExtraWork::Kick) / ENQUEUES).saturating_sub(kfunc_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_exec::costs::{JitterReadings, KernelThreads, Period, Runs};
    use tiltyard_model::Machine;

    fn readings(round_ns: u64) -> Readings {
        Readings {
            topology: "[numa] package:1 core:2 pu:1".to_owned(),
            tick_hz: 250,
            tick_ns: 900,
            preemptible: Some(true),
            sync_to_waker: Some(false),
            wakeup_ns: 1_000,
            futex_call_ns: 300,
            timer_wakeup_ns: Some(2_200),
            timer_irq_ns: Some(600),
            idle_wakeup_ns: Some(9_500),
            creation_ns: 6_000,
            exit_ns: Some(9_200),
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
            threads: None,
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
                rounds_ns: BTreeMap::from([
                    (ExtraWork::Callbacks, 6_160),
                    (ExtraWork::Work, 6_000 + 14_600),
                    (ExtraWork::Queue, 6_220),
                    (ExtraWork::ArrayLookups, 7_000),
                    (ExtraWork::MapLookups, 15_000),
                    (ExtraWork::StorageLookups, 11_000),
                    (ExtraWork::SpinLocks, 9_000),
                    (ExtraWork::TaskLookups, 27_000),
                    (ExtraWork::Kick, 6_680),
                ]),
            }),
        }
    }

    #[test]
    fn costs_are_differences() {
        let costs = weighed().costs();
        // 160 ns for 8 callbacks; 14,600 ns for 29,200 instructions; 110 ns an enqueue for a callback and a function.
        assert_eq!(
            (costs.callback_ns, costs.insn_ps, costs.kfunc_ns),
            (20, 500, 90)
        );
        // 200 of each in a round, less 1,000 ns for lookups in arrays; two kicks.
        assert_eq!(
            (costs.map_lookup_ns, costs.storage_lookup_ns),
            (Some(40), Some(20))
        );
        assert_eq!(
            (costs.spin_lock_ns, costs.task_lookup_ns, costs.kick_ns),
            (10, 100, 250)
        );
        // 3,000 ns half a round: 1,000 are the wakeup, of which 110 the enqueue; 300 the call that blocks.
        assert_eq!((costs.switch_ns, costs.wakeup_ns), (1_700, 890));
        assert_eq!((costs.block_ns, costs.fork_ns), (300, 5_000));
        // Under the kernel's own scheduler a switch takes 200 ns; before the wakeup it has 600.
        assert_eq!((costs.timer_irq_ns, costs.timer_wakeup_ns), (600, 1_400));
        assert_eq!(costs.exit_ns, 9_000);
        assert_eq!((costs.ipi_ns, costs.idle_exit_ns), (1_800, 7_300));
        assert_eq!(
            (costs.line_l2_ps, costs.line_l3_ps, costs.line_mem_ps),
            (3_000, 14_000, 80_000)
        );
        assert_eq!(costs.refill_overlap_permille, 900);
        assert_eq!((costs.visit_near_ns, costs.visit_far_ns), (100, 180));
        assert_eq!(costs.smt_permille, 600);
    }

    #[test]
    fn the_program_does_what_the_arithmetic_says() {
        let source = include_str!("../../kernel/bpf/costs.bpf.c");
        assert!(source.contains(&format!("#define PASS_INSNS {PASS_INSNS}\n")));
        for kind in ExtraWork::ALL
            .into_iter()
            .filter(|kind| *kind != ExtraWork::Callbacks)
        {
            let (name, value) = kind.tunable().split_once('=').unwrap();
            assert!(source.contains(&format!(" {name} = ")), "{name}");
            assert!(["true", &REPEATS.to_string()].contains(&value), "{name}");
        }
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
        let rcu = Runs {
            name: "rcu_preempt".to_owned(),
            per_cpu: false,
            runs: 1_000,
            run_ns: 5_000_000,
        };
        let period = Period {
            lasted_ns: 4_000_000_000,
            exits: 2_000,
            threads: vec![rcu],
        };
        let mut with_threads = weighed();
        with_threads.own.threads = Some(KernelThreads {
            nr_cpus: 2,
            births: period.clone(),
            quiet: Period {
                lasted_ns: 16_000_000_000,
                ..period
            },
            ..KernelThreads::default()
        });
        assert_eq!(with_threads.noise().len(), 2);
        for weighed in [
            with_threads,
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
            assert_eq!(machine.noise, weighed.noise());
            assert_eq!(machine.jitter, weighed.jitter());
            assert_eq!(machine.jitter == Jitter::NONE, weighed.exact);
            assert_eq!((machine.nr_cpus(), machine.tick_hz), (2, 250));
            // Read under a scheduler of BPF: the kernel's own has another choice.
            assert_eq!(machine.sync_to_waker, weighed.bpf.is_none());
        }
    }
}
