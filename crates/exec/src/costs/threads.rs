// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own threads: which ran, how often and how long, from what /proc/PID/schedstat counts.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, io, thread};

use serde::{Deserialize, Serialize};

use crate::sys;

const WARM_UP: Duration = Duration::from_millis(200);
/// Threads that run twice a second are to be seen often enough for a mean.
const QUIET: Duration = Duration::from_secs(8);
const BIRTHS: Duration = Duration::from_secs(4);
/// Time between two exits that leaves each to itself: RCU needs two grace periods of a few ticks.
const ALONE: Duration = Duration::from_millis(100);
/// Short, because a recorder has thousands of threads to record then.
const FLOOD: Duration = Duration::from_millis(500);

/// PF_KTHREAD of include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;
/// SCHED_FIFO, SCHED_RR, SCHED_DEADLINE.
const HIGHER_CLASSES: [u64; 3] = [1, 2, 6];
/// A task's name is no longer (TASK_COMM_LEN).
const NAME_BYTES: usize = 15;

/// What they did in four periods, in which every CPU was busy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelThreads {
    pub nr_cpus: u64,
    /// Nothing happened beside that.
    pub quiet: Period,
    /// A thread was created and ended now and then.
    pub alone: Period,
    /// Threads were created, computed, and ended.
    pub births: Period,
    /// Threads were created and ended as fast as could be.
    pub flood: Period,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    pub lasted_ns: u64,
    /// Threads of the measurement that ended.
    pub exits: u64,
    pub threads: Vec<Runs>,
}

/// All threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// Without what distinguishes threads of one kind: `kworker`.
    pub name: String,
    /// Whether each belongs to a CPU.
    pub per_cpu: bool,
    /// Turns on a CPU, and their time.
    pub runs: u64,
    pub run_ns: u64,
}

/// Watches the four periods; a third of a minute.
pub fn measure(cpus: &[usize]) -> io::Result<KernelThreads> {
    Ok(KernelThreads {
        nr_cpus: cpus.len() as u64,
        quiet: period(cpus, QUIET, None)?,
        alone: period(cpus, BIRTHS, Some(Births::ALONE))?,
        births: period(cpus, BIRTHS, Some(Births::BUILD))?,
        flood: period(cpus, FLOOD, Some(Births::FLOOD))?,
    })
}

/// Threads that are created together, again and again.
#[derive(Clone, Copy)]
struct Births {
    threads: u64,
    /// What each computes.
    compute_ns: u64,
    /// Between the end of all and the next.
    pause: Duration,
}

impl Births {
    const ALONE: Births = Births {
        threads: 1,
        compute_ns: 0,
        pause: ALONE,
    };
    /// As a build does.
    const BUILD: Births = Births {
        threads: 3,
        compute_ns: 2_000_000,
        pause: Duration::ZERO,
    };
    const FLOOD: Births = Births {
        compute_ns: 0,
        ..Births::BUILD
    };
}

/// `births`: what else happens; `None`: nothing.
fn period(cpus: &[usize], length: Duration, births: Option<Births>) -> io::Result<Period> {
    let (stop, exits) = (AtomicBool::new(false), AtomicU64::new(0));
    let watch = || -> io::Result<Period> {
        thread::sleep(WARM_UP);
        let (begun_ns, exits_before, before) = (sys::now_ns(), exits.load(Relaxed), read()?);
        thread::sleep(length);
        let (after, exits_after) = (read()?, exits.load(Relaxed));
        Ok(Period {
            lasted_ns: sys::now_ns() - begun_ns,
            exits: exits_after - exits_before,
            threads: between(&before, &after),
        })
    };
    thread::scope(|scope| {
        for cpu in cpus {
            scope.spawn(|| {
                let _ = sys::pin(*cpu);
                while !stop.load(Relaxed) {
                    be_busy();
                }
            });
        }
        if let Some(births) = births {
            scope.spawn({
                let (stop, exits) = (&stop, &exits);
                move || {
                    while !stop.load(Relaxed) {
                        thread::scope(|children| {
                            (0..births.threads).for_each(|_| {
                                children.spawn(move || compute(births.compute_ns));
                            });
                        });
                        exits.fetch_add(births.threads, Relaxed);
                        thread::sleep(births.pause);
                    }
                }
            });
        }
        let watched = watch();
        stop.store(true, Relaxed);
        watched
    })
}

fn compute(ns: u64) {
    let end_ns = sys::thread_cpu_ns() + ns;
    while sys::thread_cpu_ns() < end_ns {
        be_busy();
    }
}

/// Not spin_loop(): an emulator gives up its turn at each such hint, and a second of them takes minutes.
fn be_busy() {
    black_box(0);
}

/// By pid.
type Reading = BTreeMap<u32, Runs>;

fn read() -> io::Result<Reading> {
    let mut reading = Reading::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let file = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        // It may have ended meanwhile.
        if let (Ok(stat), Ok(schedstat)) = (file("stat"), file("schedstat"))
            && let Some(runs) = parse(&stat, &schedstat)
        {
            reading.insert(pid, runs);
        }
    }
    Ok(reading)
}

/// `None`: no kernel thread, or of a class above the schedulers'.
fn parse(stat: &str, schedstat: &str) -> Option<Runs> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let comm = head.split_once('(')?.1;
    // proc_pid_stat(5) counts from 1, and the state, which comes first here, is 3.
    let field = |number: usize| rest.split(' ').nth(number - 3)?.trim().parse::<u64>().ok();
    if field(9)? & PF_KTHREAD == 0 || HIGHER_CLASSES.contains(&field(41)?) {
        return None;
    }
    let mut counted = schedstat.split_whitespace().map(str::parse::<u64>);
    let (run_ns, runs) = (counted.next()?.ok()?, counted.nth(1)?.ok()?);
    let (name, per_cpu) = kind(comm);
    Some(Runs {
        name,
        per_cpu,
        runs,
        run_ns,
    })
}

/// `kworker/3:1-events` is a worker of CPU 3, `kworker/u8:0` one of any.
fn kind(comm: &str) -> (String, bool) {
    let (name, place) = comm.split_once('/').unwrap_or((comm, ""));
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
        true => c,
        false => '_',
    };
    let name = name.chars().map(plain).take(NAME_BYTES).collect();
    (name, place.starts_with(|c: char| c.is_ascii_digit()))
}

/// What has been added, of those that ran.
fn between(before: &Reading, after: &Reading) -> Vec<Runs> {
    let mut kinds: BTreeMap<(&str, bool), (u64, u64)> = BTreeMap::new();
    let none = Runs::default();
    for (pid, now) in after {
        let then = before.get(pid).unwrap_or(&none);
        let (runs, run_ns) = kinds.entry((&now.name, now.per_cpu)).or_default();
        *runs += now.runs.saturating_sub(then.runs);
        *run_ns += now.run_ns.saturating_sub(then.run_ns);
    }
    let ran = kinds.into_iter().filter(|(_, (runs, _))| *runs > 0);
    ran.map(|((name, per_cpu), (runs, run_ns))| Runs {
        name: name.to_owned(),
        per_cpu,
        runs,
        run_ns,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{Reading, Runs, between, parse};

    fn stat(comm: &str, flags: u32, policy: u32) -> String {
        let zeros = |count: usize| vec!["0"; count].join(" ");
        format!("7 ({comm}) S {} {flags} {} {policy} 0", zeros(5), zeros(31))
    }

    #[test]
    fn kernel_threads_are_told_by_their_flag_and_class() {
        let worker = parse(&stat("kworker/3:1-events", 0x0420_8060, 0), "900 5 3\n");
        let expected = Runs {
            name: "kworker".to_owned(),
            per_cpu: true,
            runs: 3,
            run_ns: 900,
        };
        assert_eq!(worker, Some(expected));
        let kind = |comm: &str| {
            let runs = parse(&stat(comm, 0x0020_0000, 0), "0 0 0").expect(comm);
            (runs.name, runs.per_cpu)
        };
        assert_eq!(kind("kworker/u8:0"), ("kworker".to_owned(), false));
        assert_eq!(kind("rcu_preempt"), ("rcu_preempt".to_owned(), false));
        assert_eq!(kind("a) b (c"), ("a__b__c".to_owned(), false));
        assert_eq!(parse(&stat("bash", 0x40_0000, 0), "1 1 1"), None);
        assert_eq!(parse(&stat("migration/0", 0x0420_8040, 1), "1 1 1"), None);
        assert_eq!(parse("", ""), None);
    }

    #[test]
    fn two_readings_are_what_ran_between_them() {
        let runs = |runs, run_ns| Runs {
            name: "kworker".to_owned(),
            per_cpu: true,
            runs,
            run_ns,
        };
        let idle = Runs {
            name: "kswapd0".to_owned(),
            ..Runs::default()
        };
        let before = Reading::from([(7, runs(10, 1_000)), (8, runs(5, 50)), (9, idle.clone())]);
        // 8 has ended, 11 is new.
        let after = Reading::from([(7, runs(13, 1_600)), (9, idle), (11, runs(2, 400))]);
        assert_eq!(between(&before, &after), [runs(5, 1_000)]);
    }
}
