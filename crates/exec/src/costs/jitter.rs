// SPDX-License-Identifier: GPL-2.0-or-later
//! How much the same thing varies from time to time: the lateness of timers, the length of computations.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use super::{JitterReadings, median};
use crate::burn::{Speed, WorkingSet};
use crate::sys;

const SLEEPS: usize = 100;
const SLEEP_NS: u64 = 1_000_000;
/// Several ticks of any kernel, and no multiple of one.
const IDLE_NS: u64 = 51_300_000;
const COMPUTATIONS: usize = 50;
const COMPUTATION_NS: u64 = 10_000_000;
/// ln 2, in 1/1,000,000.
const LN_2_PPM: u64 = 693_147;

pub fn measure(cpu: usize) -> io::Result<JitterReadings> {
    Ok(JitterReadings {
        timer_late_mean_ns: timer_late_mean_ns(cpu)?,
        work_spread_ppm: work_spread_ppm(),
    })
}

/// Mean lateness of a timer interrupt. The CPU is kept awake, for to leave an idle state is no lateness of the timer; the
/// smallest lateness is the wakeup and the switch, which have readings of their own. Of an exponential distribution the
/// median is ln 2 times the mean, and rare long delays of other origin hardly move it.
fn timer_late_mean_ns(cpu: usize) -> io::Result<u64> {
    let late = lateness(cpu)?;
    let least_ns = late.iter().min().copied().unwrap_or(0);
    Ok((median(late) - least_ns) * 1_000_000 / LN_2_PPM)
}

/// The usual lateness of a thread that a timer wakes on a CPU that is awake.
pub fn timer_wakeup(cpu: usize) -> io::Result<u64> {
    Ok(median(lateness(cpu)?))
}

/// The same where nothing else runs, and so long after the last wakeup that the tick was stopped.
pub fn idle_wakeup() -> u64 {
    sys::exact_timers();
    median((0..SLEEPS).map(|_| late_after(IDLE_NS)).collect())
}

fn late_after(sleep_ns: u64) -> u64 {
    let end_ns = sys::now_ns() + sleep_ns;
    sys::sleep_until(end_ns);
    sys::now_ns() - end_ns
}

/// How much later than they should threads wake up, ns.
fn lateness(cpu: usize) -> io::Result<Vec<u64>> {
    beside_idle_class(cpu, || (0..SLEEPS).map(|_| late_after(SLEEP_NS)).collect())
}

/// Does something with exact timers while a thread of the idle class keeps the CPU awake.
pub fn beside_idle_class<T>(cpu: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let awake = scope.spawn(|| -> io::Result<()> {
            sys::pin(cpu)?;
            sys::become_idle_class()?;
            while !stop.load(SeqCst) {
                std::hint::spin_loop();
            }
            Ok(())
        });
        sys::exact_timers();
        let done = work();
        stop.store(true, SeqCst);
        awake.join().expect("it does not panic")?;
        Ok(done)
    })
}

/// Spread of a computation's CPU time, in 1/1,000,000 of its length: half the width of the uniform distribution whose
/// middle half is as wide as that of the readings.
fn work_spread_ppm() -> u64 {
    let mut set = WorkingSet::new(0);
    let steps = Speed::measure().steps(COMPUTATION_NS);
    let compute = |_| {
        let begun_ns = sys::thread_cpu_ns();
        set.work(steps);
        sys::thread_cpu_ns() - begun_ns
    };
    spread_ppm((0..COMPUTATIONS).map(compute).collect())
}

fn spread_ppm(mut times_ns: Vec<u64>) -> u64 {
    times_ns.sort_unstable();
    let at = |quarter: usize| {
        times_ns
            .get(times_ns.len() * quarter / 4)
            .copied()
            .unwrap_or(0)
    };
    (at(3) - at(1)) * 1_000_000 / at(2).max(1)
}

#[cfg(test)]
mod tests {
    use super::spread_ppm;

    #[test]
    fn a_uniform_distribution_has_its_half_width() {
        // 1,000,000 +- 3,000.
        let times = (0..6_000).map(|i| 997_000 + i).collect();
        assert_eq!(spread_ppm(times), 3_000);
        assert_eq!(spread_ppm(vec![5; 9]), 0);
    }
}
