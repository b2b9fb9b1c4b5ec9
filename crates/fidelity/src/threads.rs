// SPDX-License-Identifier: GPL-2.0-or-later
//! From what the kernel's own threads did in four periods to the noise of a machine file.
//!
//! What a thread does while nothing happens, it does by itself. What it does more while tasks end one by one is counted for
//! each of them. How soon it may come again is known from a period in which there is always something to do for it.

use tiltyard_exec::costs::{KernelThreads, Period, Runs};
use tiltyard_model::machine::{Noise, Per};

/// Fewer turns than this are chance.
const LEAST_RUNS: u64 = 8;

/// On several CPUs this softirq's thread balances the fair class (on one, where there is nothing to balance, it does not run at
/// all). A kernel whose tasks are all under a scheduler of BPF does not (`sched_tick()` of Linux 6.12 and later).
const FAIR_BALANCER: &str = "ksoftirqd";

/// `switch_ns`: the part of a thread's time on the CPU that is a switch, which the machine charges in addition. `for_bpf`:
/// of the kernel as it is under schedulers of BPF.
pub fn profile(threads: &KernelThreads, switch_ns: u64, for_bpf: bool) -> Vec<Noise> {
    let mut kinds: Vec<(&str, bool)> = [&threads.quiet, &threads.births]
        .into_iter()
        .flat_map(|period| &period.threads)
        .map(|runs| (runs.name.as_str(), runs.per_cpu))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let is_balancer = |name: &str| for_bpf && name == FAIR_BALANCER && threads.nr_cpus > 1;
    kinds.retain(|(name, _)| !is_balancer(name));
    let profiles = kinds.into_iter().flat_map(|(name, per_cpu)| {
        let copies = if per_cpu { threads.nr_cpus } else { 1 };
        let kind = ThreadKind {
            name,
            per_cpu,
            copies,
            switch_ns,
        };
        let quiet = kind.in_period(&threads.quiet);
        let by_itself = quiet.filter(|runs| runs.runs >= LEAST_RUNS);
        let by_itself = by_itself.map(|runs| kind.noise(&threads.quiet, runs, runs, None));
        [by_itself, kind.after_exits(threads, quiet)]
    });
    profiles.flatten().collect()
}

struct ThreadKind<'a> {
    name: &'a str,
    per_cpu: bool,
    /// Threads that do the work.
    copies: u64,
    switch_ns: u64,
}

impl ThreadKind<'_> {
    fn in_period<'a>(&self, period: &'a Period) -> Option<&'a Runs> {
        let same = |runs: &&Runs| runs.name == self.name && runs.per_cpu == self.per_cpu;
        period.threads.iter().find(same)
    }

    /// What it does because tasks end, beyond what it does anyway.
    fn after_exits(&self, threads: &KernelThreads, quiet: Option<&Runs>) -> Option<Noise> {
        let births = &threads.births;
        // What too few of the exits that come alone need is counted where there are many.
        let permille = [&threads.alone, births]
            .into_iter()
            .find_map(|period| self.per_exit_permille(period, quiet, &threads.quiet))?;
        let runs = self.in_period(births)?;
        // A thread that does not come sooner in a flood has its pace from the births.
        let busiest = [&threads.flood, births]
            .into_iter()
            .filter_map(|period| Some((period, self.in_period(period)?)))
            .max_by_key(|(period, runs)| runs.runs * 1_000_000_000 / period.lasted_ns.max(1))?;
        Some(self.noise(busiest.0, busiest.1, runs, Some(permille)))
    }

    /// Its turns for each exit, beyond those that it has anyway; `None` if they are chance.
    fn per_exit_permille(
        &self,
        period: &Period,
        quiet: Option<&Runs>,
        whole_quiet: &Period,
    ) -> Option<u64> {
        let anyway = quiet.map_or(0, |quiet| {
            quiet.runs * period.lasted_ns / whole_quiet.lasted_ns.max(1)
        });
        let more = self.in_period(period)?.runs.saturating_sub(anyway);
        let permille = (more * 1000 / period.exits.max(1)).min(Noise::MAX_PER_EXIT_PERMILLE);
        (more >= LEAST_RUNS && permille > 0).then_some(permille)
    }

    /// `pace`: how often at most, in this period; `work`: how long.
    fn noise(&self, period: &Period, pace: &Runs, work: &Runs, per_exit: Option<u64>) -> Noise {
        let every_ns = period.lasted_ns * self.copies / pace.runs;
        let run_ns = |runs: &Runs| runs.run_ns / runs.runs;
        Noise {
            name: self.name.to_owned(),
            per: if self.per_cpu { Per::Cpu } else { Per::Machine },
            sleep_mean_ns: every_ns.saturating_sub(run_ns(pace)).max(1),
            run_mean_ns: run_ns(work).saturating_sub(self.switch_ns).max(1),
            per_exit_permille: per_exit,
            nice: 0,
        }
    }
}

/// As tables of a machine file, with the way in which each was found.
pub fn tables(noise: &[Noise]) -> String {
    let table = |noise: &Noise| {
        let per = match noise.per {
            Per::Cpu => "cpu",
            Per::Machine => "machine",
        };
        let head = format!("\n[[noise]]\nname = {:?}\nper = {per:?}\n", noise.name);
        let (sleep_ns, run_ns) = (noise.sleep_mean_ns, noise.run_mean_ns);
        match noise.per_exit_permille {
            None => format!(
                "{head}sleep_mean_ns = {sleep_ns} # /proc/PID/schedstat while every CPU is busy and nothing else happens\n\
                 run_mean_ns = {run_ns} # the same, less a switch\n"
            ),
            Some(permille) => format!(
                "{head}sleep_mean_ns = {sleep_ns} # /proc/PID/schedstat while as many threads end as can\n\
                 run_mean_ns = {run_ns} # the same while threads end that compute 2 ms, less a switch\n\
                 per_exit_permille = {permille} # its turns for a thread that ends alone, beyond those that it has anyway\n"
            ),
        }
    };
    noise.iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(lasted_ms: u64, exits: u64, threads: &[(&str, bool, u64, u64)]) -> Period {
        let runs = |(name, per_cpu, runs, mean_ns): &(&str, bool, u64, u64)| Runs {
            name: (*name).to_owned(),
            per_cpu: *per_cpu,
            runs: *runs,
            run_ns: runs * mean_ns,
        };
        Period {
            lasted_ns: lasted_ms * 1_000_000,
            exits,
            threads: threads.iter().map(runs).collect(),
        }
    }

    fn noise(name: &str, per: Per, means_ns: [u64; 2], per_exit_permille: Option<u64>) -> Noise {
        Noise {
            name: name.to_owned(),
            per,
            sleep_mean_ns: means_ns[0],
            run_mean_ns: means_ns[1],
            per_exit_permille,
            nice: 0,
        }
    }

    #[test]
    fn turns_become_means() {
        let rare = ("kswapd0", false, 7, 9_000);
        let threads = KernelThreads {
            nr_cpus: 2,
            quiet: period(8_000, 0, &[("kworker", true, 16, 5_000), rare]),
            alone: period(
                4_000,
                40,
                &[("kworker", true, 15, 9_000), ("rcu", false, 160, 6_000)],
            ),
            births: period(
                4_000,
                1_000,
                &[("kworker", true, 258, 8_000), ("rcu", false, 600, 6_000)],
            ),
            flood: period(
                2_000,
                20_000,
                &[("kworker", true, 800, 30_000), ("rcu", false, 500, 5_000)],
            ),
        };
        let expected = [
            // 16 turns of two threads in 8 s: each every second.
            noise("kworker", Per::Cpu, [1_000_000_000 - 5_000, 1_000], None),
            // 258 turns, 8 of them anyway, for 1000 exits, as 7 for exits that come alone are too few; in the flood each
            // every 5 ms.
            noise("kworker", Per::Cpu, [5_000_000 - 30_000, 4_000], Some(250)),
            noise("rcu", Per::Machine, [4_000_000 - 5_000, 2_000], Some(4_000)),
        ];
        assert_eq!(profile(&threads, 4_000, true), expected);
    }

    #[test]
    fn the_fair_class_is_balanced_only_where_it_has_tasks() {
        let threads = KernelThreads {
            nr_cpus: 2,
            quiet: period(8_000, 0, &[("ksoftirqd", true, 80, 5_000)]),
            births: period(4_000, 1_000, &[("ksoftirqd", true, 500, 5_000)]),
            ..KernelThreads::default()
        };
        assert_eq!(profile(&threads, 4_000, true), []);
        let [noise, _after_exits] = &profile(&threads, 4_000, false)[..] else {
            panic!("one kind of thread");
        };
        assert_eq!(noise.sleep_mean_ns, 200_000_000 - 5_000);
    }

    #[test]
    fn nothing_that_ran_is_no_noise() {
        assert_eq!(profile(&KernelThreads::default(), 4_000, true), []);
    }
}
