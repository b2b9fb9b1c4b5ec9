// SPDX-License-Identifier: GPL-2.0-or-later
//! When the kernel's own tracepoints say that something happened: for what user space cannot see of a path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::jitter;
use crate::sys;

const TRACEFS: &str = "/sys/kernel/tracing";
const WAKING: &str = "events/sched/sched_waking";
const SLEEPS: u64 = 100;
const SLEEP_NS: u64 = 1_000_000;
/// The trace has whole microseconds: with sleeps that differ by this much, what is cut off averages out.
const STEP_NS: u64 = 137;

/// A buffer of its own for events of this process, which others do not see. Removed when it is dropped.
struct Instance(PathBuf);

impl Instance {
    /// Traces the calling thread's wakeups. `None` without the right to trace, or without a kernel that can. Where tracefs is
    /// not mounted, it is, and stays so.
    fn new() -> Option<Instance> {
        let tracefs = Path::new(TRACEFS);
        if !tracefs.join("instances").exists() {
            sys::mount_tracefs(tracefs).ok()?;
        }
        let path = tracefs.join(format!("instances/tiltyard-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let instance = Instance(path);
        instance.trace_wakings(sys::tid()).ok()?;
        Some(instance)
    }

    fn trace_wakings(&self, tid: u32) -> io::Result<()> {
        self.set("trace_clock", "mono")?;
        self.set(&format!("{WAKING}/filter"), &format!("pid == {tid}"))?;
        self.set(&format!("{WAKING}/enable"), "1")
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.0.join(file), value)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing depends on it: an instance that is left behind traces one thread, which ends.
        let _ = fs::remove_dir(&self.0);
    }
}

/// From the time at which a timer should wake a thread to the kernel's event of that wakeup (sched_waking), on a CPU that is
/// awake; the mean of the middle half of the readings. `None`: that takes the right to trace.
pub fn timer_irq(cpu: usize) -> io::Result<Option<u64>> {
    let Some(instance) = Instance::new() else {
        return Ok(None);
    };
    let ends_ns: Vec<u64> = jitter::beside_idle_class(cpu, || {
        let sleep = |n| {
            let end_ns = sys::now_ns() + SLEEP_NS + n * STEP_NS;
            sys::sleep_until(end_ns);
            end_ns
        };
        (0..SLEEPS).map(sleep).collect()
    })?;
    instance.set("tracing_on", "0")?;
    let trace = fs::read_to_string(instance.0.join("trace"))?;
    Ok(mean_of_middle(&ends_ns, &wakings_ns(&trace)))
}

/// Times of the events in a trace as tracefs prints it: `comm-pid [cpu] flags seconds: event: fields`.
fn wakings_ns(trace: &str) -> Vec<u64> {
    let time = |line: &str| {
        let (before, _) = line.split_once(": sched_waking: ")?;
        let (s, us) = before.split_whitespace().next_back()?.split_once('.')?;
        Some((s.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?) * 1_000)
    };
    trace.lines().filter_map(time).collect()
}

/// How much later than each end the first event from its start on is.
fn mean_of_middle(ends_ns: &[u64], woken_ns: &[u64]) -> Option<u64> {
    let late = |&end_ns: &u64| {
        let after = |&&at_ns: &&u64| at_ns + 1_000 > end_ns;
        let first = woken_ns.iter().find(after)?;
        (*first < end_ns + SLEEP_NS / 2).then(|| *first as i64 - end_ns as i64)
    };
    let mut late: Vec<i64> = ends_ns.iter().filter_map(late).collect();
    late.sort_unstable();
    let middle = &late[late.len() / 4..late.len() - late.len() / 4];
    let sum: i64 = middle.iter().sum();
    (!middle.is_empty()).then(|| (sum / middle.len() as i64).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read() {
        let trace = "# tracer: nop\n#\n\
            \x20         <idle>-0       [000] d.h1.    12.345678: sched_waking: comm=a b: c pid=7 prio=120 target_cpu=000\n\
            \x20    some name-12      [001] dNh2.    13.000002: sched_waking: comm=x pid=7 prio=120 target_cpu=001\n\
            \x20    some name-12      [001] dNh2.    13.000003: sched_switch: prev_comm=x\n";
        assert_eq!(wakings_ns(trace), [12_345_678_000, 13_000_002_000]);
    }

    /// An event that is missing, and one that came very late, change nothing.
    #[test]
    fn the_middle_half_counts() {
        let ends: Vec<u64> = (1..=8).map(|n| n * 1_000_000).collect();
        let mut woken: Vec<u64> = ends.iter().map(|at| at + 2_000).collect();
        woken[2] += 300_000;
        woken.remove(5);
        assert_eq!(mean_of_middle(&ends, &woken), Some(2_000));
        assert_eq!(mean_of_middle(&ends, &[]), None);
    }
}
