// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests, marks and CPU time, counted in shared memory while tasks run: no system call, no allocation.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tiltyard_workload::{Op, Workload};

use crate::files::visit;
use crate::mapping::{Plain, Shared};
use crate::outcome::{Latency, Mark, Request, TaskTotal};

/// Parts of each power of two: latencies are exact to 1/64.
const PARTS: u64 = 64;
const PARTS_LOG2: u32 = PARTS.trailing_zeros();
const BUCKETS: usize = (64 - PARTS_LOG2 as usize + 1) * PARTS as usize;
/// Tasks count in different places, so that they do not wait for each other's cache lines.
const SHARDS: usize = 16;

/// What is known of all tasks with one spec.
#[derive(Default)]
pub struct Totals {
    pub started: AtomicU32,
    pub ended: AtomicU32,
    pub cpu_ns: AtomicU64,
}

// SAFETY: atomics; 0 is nothing counted.
unsafe impl Plain for Totals {}

/// One class of requests or marks, as one shard of the tasks sees it.
#[repr(align(128))]
#[derive(Default)]
struct Class {
    requests: AtomicU64,
    marks: AtomicU64,
    /// One more than the earliest beginning, so that 0 means none.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    max_ns: AtomicU64,
    /// Of all latencies.
    sum_ns: AtomicU64,
}

// SAFETY: atomics; 0 is nothing counted.
unsafe impl Plain for Class {}

pub struct Measures {
    pub totals: Shared<Totals>,
    classes: Shared<Class>,
    /// Latencies, by class, shard and bucket.
    buckets: Shared<AtomicU64>,
}

impl Measures {
    pub fn new(workload: &Workload) -> io::Result<Measures> {
        let places = workload.requests.len() * SHARDS;
        Ok(Measures {
            totals: Shared::new(workload.tasks.len())?,
            classes: Shared::new(places)?,
            buckets: Shared::new(places * BUCKETS)?,
        })
    }

    /// A request of this class has been served.
    pub fn request(&self, class: usize, shard: u32, start_ns: u64, end_ns: u64) {
        let place = class * SHARDS + shard as usize % SHARDS;
        let latency_ns = end_ns.saturating_sub(start_ns);
        self.buckets[place * BUCKETS + bucket(latency_ns)].fetch_add(1, Relaxed);
        let seen = &self.classes[place];
        seen.requests.fetch_add(1, Relaxed);
        seen.max_ns.fetch_max(latency_ns, Relaxed);
        seen.sum_ns.fetch_add(latency_ns, Relaxed);
        seen.see(start_ns, end_ns);
    }

    pub fn mark(&self, class: usize, shard: u32, at_ns: u64) {
        let seen = &self.classes[class * SHARDS + shard as usize % SHARDS];
        seen.marks.fetch_add(1, Relaxed);
        seen.see(at_ns, at_ns);
    }

    /// `names` of specs; what still runs has used `running_ns` more.
    pub fn tasks(&self, workload: &Workload, running_ns: &[u64]) -> Vec<TaskTotal> {
        let total = |(i, totals): (usize, &Totals)| TaskTotal {
            name: workload.tasks[i].name.clone(),
            started: totals.started.load(Relaxed),
            ended: totals.ended.load(Relaxed),
            cpu_ns: totals.cpu_ns.load(Relaxed) + running_ns[i],
        };
        self.totals.iter().enumerate().map(total).collect()
    }

    /// Classes that saw requests, and those that saw marks; times count from `origin_ns`.
    pub fn requests(&self, workload: &Workload, origin_ns: u64) -> (Vec<Request>, Vec<Mark>) {
        let (mut requests, mut marks) = (Vec::new(), Vec::new());
        for (class, name) in workload.requests.iter().enumerate() {
            let shards = &self.classes[class * SHARDS..(class + 1) * SHARDS];
            let sum = |count: fn(&Class) -> &AtomicU64| -> u64 {
                shards.iter().map(|s| count(s).load(Relaxed)).sum()
            };
            let first_ns = shards.iter().filter_map(Class::first_ns).min().unwrap_or(0);
            let last_ns = shards.iter().map(|s| s.last_ns.load(Relaxed)).max();
            let last_ns = last_ns.unwrap_or(0);
            let (nr_requests, nr_marks) = (sum(|s| &s.requests), sum(|s| &s.marks));
            if let Some(mean_ns) = sum(|s| &s.sum_ns).checked_div(nr_requests) {
                let max_ns = shards.iter().map(|s| s.max_ns.load(Relaxed)).max();
                requests.push(Request {
                    name: name.clone(),
                    app: app_of(workload, class),
                    count: nr_requests,
                    first_ns: first_ns.saturating_sub(origin_ns),
                    last_ns: last_ns.saturating_sub(origin_ns),
                    per_s: nr_requests as f64 * 1e9 / (last_ns - first_ns).max(1) as f64,
                    latency: max_ns
                        .filter(|max_ns| *max_ns > 0)
                        .map(|max_ns| self.latency(class, nr_requests, mean_ns, max_ns)),
                });
            }
            if nr_marks > 0 {
                marks.push(Mark {
                    name: name.clone(),
                    count: nr_marks,
                    first_ns: first_ns.saturating_sub(origin_ns),
                    last_ns: last_ns.saturating_sub(origin_ns),
                });
            }
        }
        (requests, marks)
    }

    fn latency(&self, class: usize, count: u64, mean_ns: u64, max_ns: u64) -> Latency {
        let at = class * SHARDS * BUCKETS;
        let shards = &self.buckets[at..at + SHARDS * BUCKETS];
        let in_bucket = |b: usize| -> u64 {
            let each = (0..SHARDS).map(|shard| shards[shard * BUCKETS + b].load(Relaxed));
            each.sum()
        };
        let quantile = |permille: u64| {
            let rank = (count * permille).div_ceil(1000);
            let mut below = 0;
            let found = (0..BUCKETS).find(|b| {
                below += in_bucket(*b);
                below >= rank
            });
            found.map_or(max_ns, |b| upper_end(b).min(max_ns))
        };
        Latency {
            mean_ns,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            max_ns,
        }
    }
}

/// Of the first task in the file that makes requests of this class.
fn app_of(workload: &Workload, class: usize) -> String {
    let makes = |op: &Op| match op {
        Op::End { request } | Op::Done { request } => *request == class,
        _ => false,
    };
    let task = workload.tasks.iter().find(|task| {
        let mut found = false;
        let ops = task.phases.iter().flat_map(|phase| &phase.ops);
        ops.for_each(|op| visit(op, &mut |op| found |= makes(op)));
        found
    });
    task.map_or(String::new(), |task| workload.apps[task.app].name.clone())
}

impl Class {
    fn see(&self, start_ns: u64, end_ns: u64) {
        let first = self.first_ns.load(Relaxed);
        if first == 0 || start_ns < first - 1 {
            let earlier = |seen: u64| (seen == 0 || start_ns < seen - 1).then_some(start_ns + 1);
            #[allow(
                deprecated,
                reason = "its new name, try_update, is younger than Rust 1.91"
            )]
            let _ = self.first_ns.fetch_update(Relaxed, Relaxed, earlier);
        }
        self.last_ns.fetch_max(end_ns, Relaxed);
    }

    fn first_ns(&self) -> Option<u64> {
        self.first_ns.load(Relaxed).checked_sub(1)
    }
}

fn bucket(ns: u64) -> usize {
    let octave = (u64::BITS - (ns | 1).leading_zeros()).saturating_sub(PARTS_LOG2 + 1);
    ((u64::from(octave) << PARTS_LOG2) + (ns >> octave)) as usize
}

/// The largest value that falls into a bucket.
fn upper_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let octave = (bucket >> PARTS_LOG2) - 1;
    let part = bucket - (octave << PARTS_LOG2);
    (((u128::from(part) + 1) << octave) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_they_say() {
        for ns in [0, 1, 63, 64, 127, 128, 129, 1_000, 123_456_789, u64::MAX] {
            let end = upper_end(bucket(ns));
            assert!(
                end >= ns && end - ns <= ns / PARTS,
                "{ns} in one up to {end}"
            );
            assert!(bucket(ns) < BUCKETS);
            if end < u64::MAX {
                assert_eq!(bucket(end) + 1, bucket(end + 1), "{ns}");
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_what_was_seen() {
        let workload = Workload {
            requests: vec!["query".into(), "unused".into()],
            ..Workload::default()
        };
        let measures = Measures::new(&workload).unwrap();
        for i in 1..=100 {
            measures.request(0, i, 1_000_000, 1_000_000 + u64::from(i));
        }
        let (requests, marks) = measures.requests(&workload, 0);
        assert_eq!((requests.len(), marks.len()), (1, 0));
        let latency = requests[0].latency.as_ref().unwrap();
        assert_eq!((latency.mean_ns, latency.max_ns), (50, 100));
        let quantiles = [
            latency.p50_ns,
            latency.p90_ns,
            latency.p99_ns,
            latency.p999_ns,
        ];
        assert_eq!(quantiles, [50, 90, 99, 100]);
        assert_eq!(
            (requests[0].first_ns, requests[0].last_ns),
            (1_000_000, 1_000_100)
        );
        assert_eq!(requests[0].count, 100);
        assert_eq!(requests[0].per_s, 1e9);
    }
}
