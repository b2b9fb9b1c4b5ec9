// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run gave. Times are integers in ns, counted from the origin; lists have a fixed order, so
//! that the same run gives the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tiltyard_model::{OverheadCause, SwitchCause};

/// Version of this format: raised when a field changes its meaning or goes.
pub const SUMMARY_FORMAT: u32 = 1;

/// The figures of one run. Definitions of the words: the crate's documentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub format: u32,
    /// Origin to end.
    pub duration_ns: u64,
    /// What counts as starvation: a wait longer than this.
    pub starvation_ns: u64,
    /// Number of events, including those before the origin.
    pub events: u64,
    /// Events that contradict what was known (a sleeping task that runs without a wakeup, an unknown
    /// task, time that runs backwards). 0 in the simulated machine; lost records in a real trace.
    pub irregular: u64,
    pub cpus: Vec<CpuSummary>,
    /// In the order in which the apps appeared.
    pub apps: Vec<AppSummary>,
    /// By tid, then by birth. Of more than [`MAX_TASKS`] those with the most runtime and wait.
    pub tasks: Vec<TaskSummary>,
    pub tasks_left_out: u64,
    pub requests: Vec<RequestSummary>,
    pub marks: Vec<MarkSummary>,
    pub switches: Switches,
    /// Which app took the CPU from which, most frequent first.
    pub preemptions: Vec<Preemption>,
    pub migrations: u64,
    pub overhead: Overhead,
    /// The longest starvation episodes, longest first, at most [`MAX_STARVATION`].
    pub starvation: Vec<Starvation>,
    pub runtime: RuntimeSeries,
    pub depth: DepthSeries,
    pub probes: Vec<ProbeSummary>,
}

impl Summary {
    /// CPU time in which idle CPUs could have been put to work, summed over CPUs; `None`: the arena does not report on
    /// which CPUs tasks may run, or the summary is older than this figure.
    pub fn wasted_ns(&self) -> Option<u64> {
        self.cpus.iter().map(|cpu| cpu.wasted_ns).sum()
    }

    /// By app, the classes of its workload's requests.
    pub fn request_classes(&self) -> BTreeMap<String, Vec<String>> {
        let having = self.apps.iter().filter(|a| !a.request_classes.is_empty());
        having
            .map(|a| (a.app.clone(), a.request_classes.clone()))
            .collect()
    }

    /// It is known that apps make requests of these classes, and of no others.
    pub fn set_request_classes(&mut self, by_app: &BTreeMap<String, Vec<String>>) {
        for app in &mut self.apps {
            app.request_classes = by_app.get(&app.app).cloned().unwrap_or_default();
        }
    }
}

/// Tasks listed one by one in a [`Summary`].
pub const MAX_TASKS: usize = 4096;

/// Starvation episodes listed one by one in a [`Summary`].
pub const MAX_STARVATION: usize = 32;

/// busy + idle + overhead = duration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSummary {
    pub busy_ns: u64,
    pub idle_ns: u64,
    pub overhead_ns: u64,
    /// Part of the idle time: a task that may run here waited, and no other idle CPU was left for it. `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasted_ns: Option<u64>,
    pub switches: u64,
    /// Tasks that came from another CPU's runqueue.
    pub migrations_in: u64,
}

/// A distribution of durations. All zero when `count` is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    /// The quantiles of [`crate::QUANTILES_PPM`]; empty when `count` is 0.
    pub quantiles_ns: Vec<u64>,
}

/// The tasks of one app together. Its shell, which starts them and waits for them, counts in what adds up to the
/// machine's (the sums of times, switches, migrations, birth and death), and in nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSummary {
    pub app: String,
    /// Without the shell; 0 where a shell has a row of its own.
    pub tasks: u64,
    /// Birth of its first task; 0 for one older than the origin.
    pub started_ns: u64,
    /// Death of its last task; `None` while one lives.
    pub ended_ns: Option<u64>,
    /// Death of the last task but the shell, which may still be about to notice; `None` while one lives.
    #[serde(default)]
    pub completed_ns: Option<u64>,
    /// When a task of it first ran or waited and when one last did; `None`: never.
    pub active_ns: Option<(u64, u64)>,
    pub runtime_ns: u64,
    pub wait_ns: u64,
    pub sleep_ns: u64,
    /// Part of the runtime.
    pub overhead_ns: u64,
    pub wait: Latency,
    pub wakeup: Latency,
    pub longest_wait_ns: u64,
    /// That wait was not over when the run ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub longest_wait_cut: bool,
    /// Tasks that were starved at least once.
    pub starved_tasks: u64,
    /// Tasks that never ran, although they waited for a tenth of the run or longer.
    #[serde(default)]
    pub never_ran: u64,
    pub starved_episodes: u64,
    pub starved_ns: u64,
    pub switches: Switches,
    pub migrations: u64,
    pub fairness: Fairness,
    /// Classes of its workload's requests, whether or not any of them has ended. If there are several, the names of their
    /// figures begin with the class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub request_classes: Vec<String>,
}

/// How evenly the tasks of an app got CPU time. A task's share is its runtime over its lifetime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fairness {
    pub share_min_ppm: u32,
    pub share_median_ppm: u32,
    pub share_max_ppm: u32,
    /// Jain's index of the shares, (sum x)^2 / (n sum x^2): 1 000 000 when all are equal, 1 / n when one
    /// task has everything. 0 when no task ran.
    pub jain_ppm: u32,
}

/// runtime + wait + sleep = lifetime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSummary {
    pub tid: u32,
    pub tgid: u32,
    pub name: String,
    pub app: String,
    /// The last one it had.
    pub nice: i8,
    /// 0 for one older than the origin.
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub lifetime_ns: u64,
    pub runtime_ns: u64,
    pub wait_ns: u64,
    pub sleep_ns: u64,
    pub overhead_ns: u64,
    pub wakeups: u64,
    pub wakeup: Latency,
    pub longest_wait_ns: u64,
    pub starved_episodes: u64,
    pub starved_ns: u64,
    pub switches: Switches,
    pub migrations: u64,
    /// Who preempted it most, with counts (approximate from the fifth rival on).
    pub preempted_by: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSummary {
    pub class: String,
    /// The app of the tasks that made them.
    pub app: String,
    /// Zero durations throughout when the workload only counts completions.
    pub latency: Latency,
    pub first_begin_ns: u64,
    pub last_end_ns: u64,
}

/// Requests of such a class only prepare what is measured.
fn is_warm_up(class: &str) -> bool {
    class.starts_with("warm")
}

impl RequestSummary {
    pub(crate) fn is_warm_up(&self) -> bool {
        is_warm_up(&self.class)
    }

    /// Requests per second between the first begin and the last end; `None` for an empty window.
    pub fn throughput_per_s(&self) -> Option<f64> {
        let window_ns = self.last_end_ns.checked_sub(self.first_begin_ns)?;
        (window_ns > 0).then(|| self.latency.count as f64 * 1e9 / window_ns as f64)
    }
}

/// Fewer requests than these may have long gaps for no reason.
const MANY_REQUESTS: u64 = 10;

impl Summary {
    /// Classes that have had no request for longer than their requests lasted, although tasks of the app live on. Their
    /// throughput is that of the time before. Not of warm-up.
    pub fn stopped_requests(&self) -> impl Iterator<Item = &RequestSummary> {
        self.requests.iter().filter(|class| {
            let mut apps = self.apps.iter();
            let lives = apps.any(|app| app.app == class.app && app.completed_ns.is_none());
            let silent_ns = self.duration_ns.saturating_sub(class.last_end_ns);
            let window_ns = class.last_end_ns.saturating_sub(class.first_begin_ns);
            let is_measured = lives && !class.is_warm_up();
            is_measured && class.latency.count >= MANY_REQUESTS && silent_ns > window_ns
        })
    }

    /// Apps with a class of requests none of which has ended. Not of warm-up.
    pub fn unserved_requests(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.apps.iter().flat_map(|app| {
            let classes = app.request_classes.iter().map(String::as_str);
            classes.map(move |class| (app.app.as_str(), class))
        });
        all.filter(|(app, class)| {
            let mut ended = self.requests.iter();
            !is_warm_up(class) && !ended.any(|r| r.app == *app && r.class == *class)
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkSummary {
    pub mark: String,
    pub count: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// Context switches by cause; of a task or an app: those by which it left a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    pub block: u64,
    pub slice_end: u64,
    pub preempt: u64,
    pub higher_class: u64,
    pub r#yield: u64,
    pub affinity: u64,
    pub from_idle: u64,
    pub unknown: u64,
}

impl Switches {
    pub(crate) fn count(&mut self, cause: SwitchCause) {
        *match cause {
            SwitchCause::Block => &mut self.block,
            SwitchCause::SliceEnd => &mut self.slice_end,
            SwitchCause::Preempt => &mut self.preempt,
            SwitchCause::HigherClass => &mut self.higher_class,
            SwitchCause::Yield => &mut self.r#yield,
            SwitchCause::Affinity => &mut self.affinity,
            SwitchCause::FromIdle => &mut self.from_idle,
            SwitchCause::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Display names with their counts, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("block", self.block),
            ("slice end", self.slice_end),
            ("preempt", self.preempt),
            ("higher class", self.higher_class),
            ("yield", self.r#yield),
            ("affinity", self.affinity),
            ("from idle", self.from_idle),
            ("unknown", self.unknown),
        ]
    }

    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn add(&mut self, other: &Switches) {
        self.block += other.block;
        self.slice_end += other.slice_end;
        self.preempt += other.preempt;
        self.higher_class += other.higher_class;
        self.r#yield += other.r#yield;
        self.affinity += other.affinity;
        self.from_idle += other.from_idle;
        self.unknown += other.unknown;
    }
}

/// A task of `by` took the CPU from a task of `of` that would have run on (causes preempt and higher
/// class).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    pub by: String,
    pub of: String,
    pub count: u64,
}

/// Time charged by events at or after the origin, by cause. The CPUs' own `overhead_ns` may differ by
/// what was under way at the ends of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overhead {
    pub switch_ns: u64,
    pub cache_refill_ns: u64,
    pub tick_ns: u64,
    pub wakeup_ns: u64,
    pub ipi_ns: u64,
    /// In callbacks other than `ops.select_cpu`.
    pub scheduler_ns: u64,
    /// In `ops.select_cpu`; 0 in summaries older than this figure, which have it in `scheduler_ns`.
    #[serde(default)]
    pub select_cpu_ns: u64,
}

impl From<tiltyard_model::Overhead> for Overhead {
    fn from(spent: tiltyard_model::Overhead) -> Overhead {
        Overhead {
            switch_ns: spent.ns(OverheadCause::Switch),
            cache_refill_ns: spent.ns(OverheadCause::CacheRefill),
            tick_ns: spent.ns(OverheadCause::Tick),
            wakeup_ns: spent.ns(OverheadCause::Wakeup),
            ipi_ns: spent.ns(OverheadCause::Ipi),
            scheduler_ns: spent.ns(OverheadCause::Scheduler),
            select_cpu_ns: spent.ns(OverheadCause::SelectCpu),
        }
    }
}

impl Overhead {
    /// Display names with times in ns, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("context switch", self.switch_ns),
            ("cache refill", self.cache_refill_ns),
            ("tick", self.tick_ns),
            ("wakeup", self.wakeup_ns),
            ("IPI", self.ipi_ns),
            ("scheduler", self.scheduler_ns),
            ("search for a CPU", self.select_cpu_ns),
        ]
    }

    pub fn total_ns(&self) -> u64 {
        self.named().iter().map(|(_, ns)| ns).sum()
    }
}

/// A wait longer than the bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starvation {
    pub tid: u32,
    pub app: String,
    pub begin_ns: u64,
    pub wait_ns: u64,
    /// It still waited when the run ended.
    pub open: bool,
}

/// Cumulative runtime of each app: `apps[i].runtime_ns[k]` at `at_ns[k]`; the first point is the origin,
/// the last the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSeries {
    pub at_ns: Vec<u64>,
    pub apps: Vec<AppRuntime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppRuntime {
    pub app: String,
    pub runtime_ns: Vec<u64>,
}

/// Runqueue depth of each CPU in buckets that begin at `begin_ns[k]`; the last ends with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepthSeries {
    pub begin_ns: Vec<u64>,
    pub cpus: Vec<CpuDepth>,
}

/// `mean_milli`: the time-weighted mean in thousandths of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuDepth {
    pub mean_milli: Vec<u64>,
    pub max: Vec<u32>,
    /// Wasted time in each bucket; `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasted_ns: Option<Vec<u64>>,
}

/// A scheduler's own figure over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSummary {
    pub probe: String,
    pub per_cpu: bool,
    /// Per app, all its tasks together; empty for a probe of CPUs.
    pub apps: Vec<ProbeSeries>,
    /// Single tasks (named by tid, the first few of each app) or CPUs (by number).
    pub keys: Vec<ProbeSeries>,
}

/// Values in buckets; bucket k covers `[k, k + 1) * width_ns`. A single task's or CPU's
/// value holds until the next one; an app's bucket is `None` without values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSeries {
    pub name: String,
    /// The app of a single task; the app itself for a series of an app; empty for a CPU.
    pub app: String,
    pub count: u64,
    pub first: i64,
    pub last: i64,
    pub min: i64,
    pub max: i64,
    /// Of all values, each counted once, however long it held.
    pub mean: i64,
    pub width_ns: u64,
    pub bucket_min: Vec<Option<i64>>,
    pub bucket_mean: Vec<Option<i64>>,
    pub bucket_max: Vec<Option<i64>>,
}
