// SPDX-License-Identifier: GPL-2.0-or-later
//! The figures of one run that a comparison puts side by side.

use crate::cell::{Better, Unit};
use crate::names::{self, KERNEL, MACHINE, WHILE};
use crate::summary::{AppSummary, RequestSummary, Summary, Switches};
use serde::{Deserialize, Serialize};

/// One figure; runs are compared where group and metric agree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The app, "machine" or "command".
    pub group: String,
    /// Its stable name within the group, for programs: it has its unit, and does not change with the words of `metric`.
    pub name: String,
    /// What tables call it.
    pub metric: String,
    pub unit: Unit,
    pub better: Better,
    pub headline: bool,
    pub value: f64,
}

/// The group of a command's scores.
pub const COMMAND: &str = "command";

/// Above this number of apps, who got how much while whom was running is no longer listed in pairs.
const MAX_APPS_IN_PAIRS: usize = 4;

struct Figures {
    group: String,
    list: Vec<Figure>,
}

impl Figures {
    fn add(
        &mut self,
        name: impl Into<String>,
        metric: impl Into<String>,
        unit: Unit,
        better: Better,
        headline: bool,
        value: f64,
    ) {
        let name = name.into();
        debug_assert!(names::is_listed(&name), "names.rs lacks {name}");
        self.list.push(Figure {
            group: self.group.clone(),
            name,
            metric: metric.into(),
            unit,
            better,
            headline,
            value,
        });
    }

    /// A time, of which less is better.
    fn time(
        &mut self,
        name: impl Into<String>,
        metric: impl Into<String>,
        headline: bool,
        ns: u64,
    ) {
        self.add(
            name,
            metric,
            Unit::TimeNs,
            Better::Lower,
            headline,
            ns as f64,
        );
    }

    /// How often something happened, which is neither good nor bad.
    fn count(&mut self, name: &str, count: u64) {
        let value = count as f64;
        self.add(name, name, Unit::Count, Better::Neither, false, value);
    }
}

/// All figures of a run: apps in their order, then the machine.
pub fn figures(run: &Summary) -> Vec<Figure> {
    let mut out = Figures {
        group: String::new(),
        list: Vec::new(),
    };
    for app in &run.apps {
        out.group.clone_from(&app.app);
        app_figures(&mut out, run, app);
    }
    out.group = MACHINE.to_owned();
    machine_figures(&mut out, run);
    out.list
}

/// In the order of a reader's questions: did it finish, how much got done, how long did it take, who got
/// the CPU and who waited, how often did it change hands. Warm-up comes last.
fn app_figures(out: &mut Figures, run: &Summary, app: &AppSummary) {
    let classes: Vec<&RequestSummary> = run.requests.iter().filter(|r| r.app == app.app).collect();
    let (warm_up, measured): (Vec<&RequestSummary>, Vec<&RequestSummary>) =
        classes.iter().partition(|class| class.is_warm_up());
    let several = app.request_classes.len().max(classes.len()) > 1;
    finish_figures(out, run, app);
    for class in &measured {
        request_figures(out, class, several, true);
    }
    wakeup_figures(out, app);
    share_figures(out, run, app, !classes.is_empty());
    let preempted = app.switches.preempt + app.switches.higher_class;
    out.count("preempted", preempted);
    out.count("migrations", app.migrations);
    for class in &warm_up {
        request_figures(out, class, several, false);
    }
}

/// Of fewer values the 99th percentile is the largest one: chance, or what the longest wait shows.
const LEAST_FOR_P99: u64 = 100;

/// Requests of this class are shown under its name.
const ROUND_TRIP: &str = "round trip";

/// When the app was done, or else when it last wanted a CPU.
fn finish_figures(out: &mut Figures, run: &Summary, app: &AppSummary) {
    if let Some(completed_ns) = app.completed_ns {
        let ns = completed_ns.saturating_sub(app.started_ns);
        out.time("completion_us", "completion", true, ns);
    }
    if let Some((_, until_ns)) = app.active_ns {
        // Of an app that sleeps and wakes to the end it is the last time it woke, which nobody asks for.
        let before_the_end = app.completed_ns.is_none() && until_ns < run.duration_ns / 10 * 9;
        out.add(
            "active_until_us",
            "active until",
            Unit::TimeNs,
            Better::Neither,
            before_the_end,
            until_ns as f64,
        );
    }
}

fn wakeup_figures(out: &mut Figures, app: &AppSummary) {
    let wakeup = &app.wakeup;
    if wakeup.count == 0 {
        return;
    }
    let many = wakeup.count >= LEAST_FOR_P99;
    for (name, metric, headline, ns) in [
        ("wakeup_latency_us_p50", "wakeup p50", false, wakeup.p50_ns),
        ("wakeup_latency_us_p99", "wakeup p99", many, wakeup.p99_ns),
        (
            "wakeup_latency_us_p999",
            "wakeup p99.9",
            false,
            wakeup.p999_ns,
        ),
        ("wakeup_latency_us_max", "wakeup max", false, wakeup.max_ns),
    ] {
        out.time(name, metric, headline, ns);
    }
}

/// Who got the CPU, and who waited for it.
fn share_figures(out: &mut Figures, run: &Summary, app: &AppSummary, serves: bool) {
    let capacity_ns = run.duration_ns as f64 * run.cpus.len() as f64;
    if capacity_ns > 0.0 {
        // For an app that serves requests or completes its work, CPU time is a cost, not a benefit. The same holds for
        // kernel threads.
        let is_price = serves || app.completed_ns.is_some() || app.app == KERNEL;
        let better = match is_price {
            true => Better::Neither,
            false => Better::Higher,
        };
        let share = app.runtime_ns as f64 / capacity_ns;
        out.add(
            "cpu_share_percent",
            "share of CPU",
            Unit::Share,
            better,
            app.tasks > 0 || app.starved_ns > 0,
            share,
        );
    }
    pair_figures(out, run, app);
    out.add(
        "runtime_us",
        "runtime",
        Unit::TimeNs,
        Better::Neither,
        false,
        app.runtime_ns as f64,
    );
    if app.tasks > 0 || app.starved_ns > 0 {
        out.time("longest_wait_us", "longest wait", true, app.longest_wait_ns);
    }
    out.time(
        "starved_us",
        "starved, all tasks",
        app.starved_ns > 0,
        app.starved_ns,
    );
    if app.tasks > 1 {
        let jain = f64::from(app.fairness.jain_ppm) / 1e6;
        out.add(
            "jain_index",
            "Jain index",
            Unit::Plain,
            Better::Higher,
            false,
            jain,
        );
    }
}

/// Whether preemptions can be counted: a kernel does not say why its own scheduler takes a CPU from a task. A switch in
/// a hundred may be of unknown cause.
pub(crate) fn causes_are_known(switches: &Switches) -> bool {
    switches.unknown * 100 <= switches.total()
}

/// Of an app with several classes, names begin with the class. `latencies`: some of them are headlines.
fn request_figures(out: &mut Figures, class: &RequestSummary, of_several: bool, latencies: bool) {
    let named = |name: &str, metric: &str| match of_several {
        true => (
            format!("{}.{name}", class.class),
            format!("{} {metric}", class.class),
        ),
        false => (name.to_owned(), metric.to_owned()),
    };
    if let Some(per_s) = class.throughput_per_s() {
        let (name, metric) = named("throughput_per_s", "throughput");
        out.add(name, metric, Unit::PerSecond, Better::Higher, true, per_s);
    }
    let latency = &class.latency;
    let (name, metric) = named("requests", "requests");
    let count = latency.count as f64;
    out.add(name, metric, Unit::Count, Better::Neither, false, count);
    if latency.max_ns == 0 {
        return; // completions without a beginning have no latency
    }
    let many = latency.count >= LEAST_FOR_P99;
    for (name, metric, headline, ns) in [
        ("latency_us_mean", "latency mean", true, latency.mean_ns),
        ("latency_us_p50", "latency p50", true, latency.p50_ns),
        ("latency_us_p99", "latency p99", many, latency.p99_ns),
        ("latency_us_p999", "latency p99.9", false, latency.p999_ns),
        ("latency_us_max", "latency max", false, latency.max_ns),
    ] {
        // A round trip is a time already.
        let metric = match class.class == ROUND_TRIP && !of_several {
            true => metric.replace("latency", ROUND_TRIP),
            false => metric.to_owned(),
        };
        let (name, metric) = named(name, &metric);
        out.time(name, metric, headline && latencies, ns);
    }
}

/// What this app got while another one was at work; a headline where that is not the whole run.
fn pair_figures(out: &mut Figures, run: &Summary, app: &AppSummary) {
    if run.apps.len() > MAX_APPS_IN_PAIRS || app.tasks == 0 {
        return;
    }
    for other in run.apps.iter().filter(|other| other.app != app.app) {
        let (from_ns, to_ns, verb) = work_window(run, other);
        let window_ns = to_ns.saturating_sub(from_ns);
        // Of a moment it shows nothing at all. Less than 2 % off the whole run, nothing that the share of CPU does not show; but
        // under another scheduler the window may be shorter.
        let part = window_ns as f64 / run.duration_ns as f64;
        if part < 0.001 {
            continue;
        }
        let headline = part <= 0.98;
        let gained_ns = runtime_at_ns(run, &app.app, to_ns) - runtime_at_ns(run, &app.app, from_ns);
        let capacity_ns = window_ns as f64 * run.cpus.len() as f64;
        let share = gained_ns / capacity_ns;
        out.add(
            format!("{WHILE}{}", other.app),
            format!("share while {} {verb}", other.app),
            Unit::Share,
            Better::Neither,
            headline,
            share,
        );
    }
}

/// When an app was at work: from its first request's begin to its last one's end, or, without requests,
/// from its first to its last runnable moment; and how to say so.
fn work_window(run: &Summary, app: &AppSummary) -> (u64, u64, &'static str) {
    let own = || {
        run.requests
            .iter()
            .filter(|r| r.app == app.app && r.latency.count > 0)
    };
    let begin_ns = own().map(|r| r.first_begin_ns).min();
    let end_ns = own().map(|r| r.last_end_ns).max();
    match (begin_ns.zip(end_ns), app.active_ns) {
        (Some((from_ns, to_ns)), _) => (from_ns, to_ns, "serves"),
        (None, Some((from_ns, to_ns))) => (from_ns, to_ns, "is active"),
        (None, None) => (0, 0, "is active"),
    }
}

/// Cumulative runtime of an app at a time, interpolated between two points of its curve: off by less
/// than one bucket's width, a thousandth of the run or two.
fn runtime_at_ns(run: &Summary, app: &str, at_ns: u64) -> f64 {
    let Some(curve) = run.runtime.apps.iter().find(|c| c.app == app) else {
        return 0.0;
    };
    let times = &run.runtime.at_ns;
    let after = times
        .partition_point(|&t| t < at_ns)
        .min(times.len().saturating_sub(1));
    let (Some(before), Some(&high)) = (after.checked_sub(1), curve.runtime_ns.get(after)) else {
        return 0.0;
    };
    let low = curve.runtime_ns[before];
    let part =
        (at_ns.min(times[after]) - times[before]) as f64 / (times[after] - times[before]) as f64;
    low as f64 + (high - low) as f64 * part
}

fn machine_figures(out: &mut Figures, run: &Summary) {
    let capacity_ns = run.duration_ns as f64 * run.cpus.len() as f64;
    if capacity_ns == 0.0 {
        return;
    }
    let sum =
        |of: fn(&crate::summary::CpuSummary) -> u64| run.cpus.iter().map(of).sum::<u64>() as f64;
    let share = |ns: f64| ns / capacity_ns;
    out.add(
        "busy_percent",
        "busy",
        Unit::Share,
        Better::Neither,
        true,
        share(sum(|c| c.busy_ns)),
    );
    out.add(
        "idle_percent",
        "idle",
        Unit::Share,
        Better::Neither,
        false,
        share(sum(|c| c.idle_ns)),
    );
    if let Some(wasted_ns) = run.wasted_ns() {
        // Less is the way of wakeups to idle CPUs.
        let headline = wasted_ns as f64 * 1000.0 >= capacity_ns;
        out.time("wasted_cpu_us", "wasted CPU time", headline, wasted_ns);
    }
    let per_s = |count: u64| count as f64 * 1e9 / run.duration_ns as f64;
    let preemptions = run.switches.preempt + run.switches.higher_class;
    let known = causes_are_known(&run.switches);
    for (name, metric, headline, count) in [
        ("switches_per_s", "switches", true, run.switches.total()),
        ("preemptions_per_s", "preemptions", true, preemptions),
        (
            "migrations_per_s",
            "migrations",
            run.cpus.len() > 1,
            run.migrations,
        ),
    ] {
        if name == "preemptions_per_s" && !known {
            continue;
        }
        out.add(
            name,
            metric,
            Unit::PerSecond,
            Better::Neither,
            headline,
            per_s(count),
        );
    }
    out.add(
        "overhead_percent",
        "overhead",
        Unit::Share,
        Better::Lower,
        true,
        share(sum(|c| c.overhead_ns)),
    );
    let scheduler_ns = run.overhead.scheduler_ns + run.overhead.select_cpu_ns;
    let scheduler = share(scheduler_ns as f64);
    out.add(
        "scheduler_percent",
        "scheduler's own work",
        Unit::Share,
        Better::Lower,
        false,
        scheduler,
    );
}
