// SPDX-License-Identifier: GPL-2.0-or-later
//! What things take on this machine, under whatever scheduler is in charge of it: the raw readings from which a
//! machine file is made.
//!
//! Each is the median of many, so that an interrupt in one of them does not count.

mod jitter;
mod kernel;
mod memory;
mod place;
mod threads;
mod tracefs;

pub use threads::{KernelThreads, Period, Runs};

use std::io;

use serde::{Deserialize, Serialize};

use crate::sys;

/// Readings of one measurement. Those that need a second CPU are `None` on a machine with one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// What its CPUs share, as hwloc's synthetic description.
    pub topology: String,
    /// Ticks a second of a CPU that is busy.
    pub tick_hz: u32,
    /// What one of them takes.
    pub tick_ns: u64,
    /// Whether a thread that wakes can preempt its waker inside of the kernel; `None`: that takes privileges.
    pub preemptible: Option<bool>,
    /// Whether a sync wakeup takes a thread that slept on the waker's CPU there, though others are idle.
    pub sync_to_waker: Option<bool>,
    /// Waking a thread that sleeps on this CPU and does not preempt, from call to return.
    pub wakeup_ns: u64,
    /// A call of futex() that finds that it need not wait: the path to sleep, and back.
    pub futex_call_ns: u64,
    /// From the time at which a timer should wake a thread to the thread's first instruction, on a CPU that is awake;
    /// measured only on request.
    pub timer_wakeup_ns: Option<u64>,
    /// The part of that until the kernel's event of the wakeup (sched_waking); `None`: not requested, or no right to trace.
    #[serde(default)]
    pub timer_irq_ns: Option<u64>,
    /// The same on a CPU that has been idle for several ticks; measured only on request.
    pub idle_wakeup_ns: Option<u64>,
    /// Creating a thread that does not preempt, from call to return.
    pub creation_ns: u64,
    /// From the last instruction of a thread that ends to the next of another on its CPU; measured only on request.
    pub exit_ns: Option<u64>,
    /// Two threads on one CPU wake each other in turn: from one turn of a thread to its next.
    pub round_ns: u64,
    /// From before the call that wakes a thread on an idle CPU to its first instruction there.
    pub remote_wakeup_ns: Option<u64>,
    /// A thread moves itself to another CPU.
    pub migration_ns: Option<u64>,
    /// A cache line goes from one CPU to the next, and to the last.
    pub handover_ns: Option<[u64; 2]>,
    /// Reading a line that lies in the first, second, third level and in memory: one after the other, each read
    /// depending on the one before; picoseconds. A level that is not there is as the one before it.
    pub line_ps: [u64; 4],
    /// The same of memory when the reads are independent and in order, as a task refills its working set.
    pub stream_line_ps: u64,
    /// Speed of one of two busy siblings against one alone, in 1/1000; `None`: no core has two.
    pub smt_permille: Option<u64>,
    /// What varies from time to time, if that was asked for.
    pub jitter: Option<JitterReadings>,
    /// What the kernel's own threads do; measured only on request.
    pub threads: Option<KernelThreads>,
}

/// How much the same thing varies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JitterReadings {
    /// How late a timer interrupt is, on average.
    pub timer_late_mean_ns: u64,
    /// By how much more or less than its length a computation takes, in 1/1,000,000.
    pub work_spread_ppm: u64,
}

/// Takes all readings; some seconds. The CPUs are those on which the calling thread may run. `own`: also of timers, which
/// need a scheduler under which a thread that wakes preempts one of the idle class, and of the kernel's threads.
pub fn measure(own: bool, with_jitter: bool) -> io::Result<Readings> {
    let cpus = sys::allowed_cpus();
    let home = *cpus.first().ok_or(io::ErrorKind::NotFound)?;
    let other = cpus.get(1).copied();
    sys::pin(home)?;
    let (tick_hz, tick_ns) = kernel::tick();
    let caches = memory::Caches::of(home);
    let handover = |next| {
        let last = cpus.last().copied().unwrap_or(next);
        Ok::<_, io::Error>([kernel::handover(next)?, kernel::handover(last)?])
    };
    let mut readings = Readings {
        topology: place::topology(&cpus),
        tick_hz,
        tick_ns,
        preemptible: kernel::is_preemptible(home)?,
        sync_to_waker: other
            .map(|_| kernel::sync_goes_to_waker(home, &cpus))
            .transpose()?,
        wakeup_ns: kernel::wakeup(home)?,
        futex_call_ns: kernel::futex_call(),
        timer_wakeup_ns: own.then(|| jitter::timer_wakeup(home)).transpose()?,
        timer_irq_ns: own.then(|| tracefs::timer_irq(home)).transpose()?.flatten(),
        idle_wakeup_ns: own.then(jitter::idle_wakeup),
        creation_ns: kernel::creation(home)?,
        round_ns: kernel::round(home)?,
        remote_wakeup_ns: other.map(kernel::remote_wakeup).transpose()?,
        migration_ns: other.map(|cpu| kernel::migration(home, cpu)).transpose()?,
        handover_ns: other.map(handover).transpose()?,
        line_ps: memory::lines_ps(&caches),
        stream_line_ps: memory::stream_line_ps(&caches),
        smt_permille: place::sibling(home).map(kernel::smt_permille).transpose()?,
        exit_ns: own.then(|| kernel::exit(home)).transpose()?,
        jitter: with_jitter.then(|| jitter::measure(home)).transpose()?,
        threads: None,
    };
    sys::pin_to(&cpus)?;
    if own {
        readings.threads = Some(threads::measure(&cpus)?);
    }
    Ok(readings)
}

/// [`Readings::round_ns`] alone.
pub fn round() -> io::Result<u64> {
    let cpus = sys::allowed_cpus();
    let home = *cpus.first().ok_or(io::ErrorKind::NotFound)?;
    sys::pin(home)?;
    let round_ns = kernel::round(home)?;
    sys::pin_to(&cpus)?;
    Ok(round_ns)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
