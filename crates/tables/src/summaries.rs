// SPDX-License-Identifier: GPL-2.0-or-later
//! The figures of a run as tables, and the row that says which run it was.

use tiltyard_measure::{
    AppSummary, Latency, Overhead, ProbeSeries, ProbeSummary, QUANTILES_PPM, RequestSummary,
    Summary, Switches, TaskSummary,
};

use crate::rows::{Rows, Table, Value};

/// What a run was of. Columns of the table `run`.
#[derive(Clone, Debug, Default)]
pub struct RunFacts<'a> {
    /// Repeats it.
    pub command: &'a str,
    /// `sim` or `kernel`.
    pub arena: &'a str,
    /// Version of Tiltyard.
    pub tiltyard: &'a str,
    pub workload: &'a str,
    pub workload_sha256: Option<&'a str>,
    pub machine: &'a str,
    pub machine_sha256: Option<&'a str>,
    /// The label that comparisons show.
    pub scheduler: &'a str,
    pub object_sha256: Option<&'a str>,
    /// A JSON object of what was set.
    pub tunables: &'a str,
    pub seed: Option<u64>,
    pub round: Option<u64>,
    pub duration_ns: u64,
    pub nr_cpus: u64,
    pub trace_hash: Option<&'a str>,
    /// Release of a real kernel.
    pub kernel: Option<&'a str>,
    pub lost_events: u64,
}

/// The table `run` with one row.
pub fn run_table(run: u32, facts: &RunFacts) -> Table {
    let mut rows = Rows::new("run", run);
    rows.push(&[
        facts.command.into(),
        facts.arena.into(),
        facts.tiltyard.into(),
        facts.workload.into(),
        facts.workload_sha256.into(),
        facts.machine.into(),
        facts.machine_sha256.into(),
        facts.scheduler.into(),
        facts.object_sha256.into(),
        facts.tunables.into(),
        facts.seed.into(),
        facts.round.into(),
        facts.duration_ns.into(),
        facts.nr_cpus.into(),
        facts.trace_hash.into(),
        facts.kernel.into(),
        facts.lost_events.into(),
    ]);
    rows.into_table()
}

/// All figures of a run: every table from `summary` on, empty ones included.
pub fn summary_tables(run: u32, summary: &Summary) -> Vec<Table> {
    let rows = |table: &str| Rows::new(table, run);
    let mut all = vec![whole(rows("summary"), summary)];
    all.push(fill(rows("app"), &summary.apps, app));
    all.push(fill(rows("task"), &summary.tasks, task));
    all.push(fill(rows("request"), &summary.requests, request));
    all.push(fill(rows("mark"), &summary.marks, |m| {
        vec![
            (&m.mark).into(),
            m.count.into(),
            m.first_ns.into(),
            m.last_ns.into(),
        ]
    }));
    all.push(cpus(rows("cpu"), summary));
    all.push(quantiles(rows("latency_quantile"), summary));
    all.push(fill(
        rows("overhead_total"),
        &overhead(&summary.overhead),
        |(cause, ns)| vec![(*cause).into(), (*ns).into()],
    ));
    all.push(fill(rows("preemption"), &summary.preemptions, |p| {
        vec![(&p.by).into(), (&p.of).into(), p.count.into()]
    }));
    all.push(task_preemptions(rows("task_preemption"), summary));
    all.push(fill(rows("starvation"), &summary.starvation, |s| {
        vec![
            s.tid.into(),
            (&s.app).into(),
            s.begin_ns.into(),
            s.wait_ns.into(),
            s.open.into(),
        ]
    }));
    all.push(runtime(rows("runtime"), summary));
    all.push(depth(rows("depth"), summary));
    all.push(probes(rows("probe"), summary));
    all.push(probe_buckets(rows("probe_bucket"), summary));
    all
}

/// One row for each item.
fn fill<'a, T>(mut rows: Rows, items: &'a [T], row: impl Fn(&'a T) -> Vec<Value<'a>>) -> Table {
    for item in items {
        rows.push(&row(item));
    }
    rows.into_table()
}

fn latency(latency: &Latency) -> [Value<'static>; 7] {
    [
        latency.count.into(),
        latency.mean_ns.into(),
        latency.p50_ns.into(),
        latency.p90_ns.into(),
        latency.p99_ns.into(),
        latency.p999_ns.into(),
        latency.max_ns.into(),
    ]
}

fn switches(switches: &Switches) -> [Value<'static>; 8] {
    switches.named().map(|(_, count)| count.into())
}

/// Causes under the names that the table `overhead` uses.
fn overhead(overhead: &Overhead) -> [(&'static str, u64); 7] {
    [
        ("switch", overhead.switch_ns),
        ("cache_refill", overhead.cache_refill_ns),
        ("tick", overhead.tick_ns),
        ("wakeup", overhead.wakeup_ns),
        ("ipi", overhead.ipi_ns),
        ("scheduler", overhead.scheduler_ns),
        ("select_cpu", overhead.select_cpu_ns),
    ]
}

fn whole(mut rows: Rows, summary: &Summary) -> Table {
    let mut row: Vec<Value> = vec![
        summary.duration_ns.into(),
        summary.starvation_ns.into(),
        summary.events.into(),
        summary.irregular.into(),
        summary.migrations.into(),
        summary.tasks_left_out.into(),
    ];
    row.extend(switches(&summary.switches));
    rows.push(&row);
    rows.into_table()
}

fn app(app: &AppSummary) -> Vec<Value<'_>> {
    let mut row: Vec<Value> = vec![
        (&app.app).into(),
        app.tasks.into(),
        app.started_ns.into(),
        app.ended_ns.into(),
        app.active_ns.map(|(from_ns, _)| from_ns).into(),
        app.active_ns.map(|(_, until_ns)| until_ns).into(),
        app.runtime_ns.into(),
        app.wait_ns.into(),
        app.sleep_ns.into(),
        app.overhead_ns.into(),
    ];
    row.extend(latency(&app.wait));
    row.extend(latency(&app.wakeup));
    row.extend::<[Value; 6]>([
        app.longest_wait_ns.into(),
        app.longest_wait_cut.into(),
        app.never_ran.into(),
        app.starved_tasks.into(),
        app.starved_episodes.into(),
        app.starved_ns.into(),
    ]);
    row.extend(switches(&app.switches));
    row.extend::<[Value; 5]>([
        app.migrations.into(),
        app.fairness.share_min_ppm.into(),
        app.fairness.share_median_ppm.into(),
        app.fairness.share_max_ppm.into(),
        app.fairness.jain_ppm.into(),
    ]);
    row
}

fn task(task: &TaskSummary) -> Vec<Value<'_>> {
    let mut row: Vec<Value> = vec![
        task.tid.into(),
        task.tgid.into(),
        (&task.name).into(),
        (&task.app).into(),
        task.nice.into(),
        task.started_ns.into(),
        task.ended_ns.into(),
        task.lifetime_ns.into(),
        task.runtime_ns.into(),
        task.wait_ns.into(),
        task.sleep_ns.into(),
        task.overhead_ns.into(),
        task.wakeups.into(),
    ];
    row.extend(latency(&task.wakeup));
    row.extend::<[Value; 3]>([
        task.longest_wait_ns.into(),
        task.starved_episodes.into(),
        task.starved_ns.into(),
    ]);
    row.extend(switches(&task.switches));
    row.push(task.migrations.into());
    row
}

fn request(request: &RequestSummary) -> Vec<Value<'_>> {
    let mut row: Vec<Value> = vec![(&request.class).into(), (&request.app).into()];
    row.extend(latency(&request.latency));
    row.extend::<[Value; 2]>([request.first_begin_ns.into(), request.last_end_ns.into()]);
    row
}

fn cpus(mut rows: Rows, summary: &Summary) -> Table {
    for (number, cpu) in (0u64..).zip(&summary.cpus) {
        rows.push(&[
            number.into(),
            cpu.busy_ns.into(),
            cpu.idle_ns.into(),
            cpu.overhead_ns.into(),
            cpu.wasted_ns.into(),
            cpu.switches.into(),
            cpu.migrations_in.into(),
        ]);
    }
    rows.into_table()
}

fn quantiles(mut rows: Rows, summary: &Summary) -> Table {
    let mut add = |latency: &str, name: &str, of: &Latency| {
        for (ppm, ns) in QUANTILES_PPM.iter().zip(&of.quantiles_ns) {
            rows.push(&[latency.into(), name.into(), (*ppm).into(), (*ns).into()]);
        }
    };
    for app in &summary.apps {
        add("wait", &app.app, &app.wait);
        add("wakeup", &app.app, &app.wakeup);
    }
    for request in &summary.requests {
        add("request", &request.class, &request.latency);
    }
    rows.into_table()
}

fn task_preemptions(mut rows: Rows, summary: &Summary) -> Table {
    for task in &summary.tasks {
        for (by_tid, count) in &task.preempted_by {
            rows.push(&[
                task.tid.into(),
                task.started_ns.into(),
                (*by_tid).into(),
                (*count).into(),
            ]);
        }
    }
    rows.into_table()
}

fn runtime(mut rows: Rows, summary: &Summary) -> Table {
    for app in &summary.runtime.apps {
        for (at_ns, runtime_ns) in summary.runtime.at_ns.iter().zip(&app.runtime_ns) {
            rows.push(&[(&app.app).into(), (*at_ns).into(), (*runtime_ns).into()]);
        }
    }
    rows.into_table()
}

fn depth(mut rows: Rows, summary: &Summary) -> Table {
    for (number, cpu) in (0u64..).zip(&summary.depth.cpus) {
        let wasted_ns = |bucket: usize| cpu.wasted_ns.as_ref().map(|all| all[bucket]);
        for (bucket, begin_ns) in summary.depth.begin_ns.iter().enumerate() {
            rows.push(&[
                number.into(),
                (*begin_ns).into(),
                cpu.mean_milli[bucket].into(),
                cpu.max[bucket].into(),
                wasted_ns(bucket).into(),
            ]);
        }
    }
    rows.into_table()
}

/// Every series of a probe, with what it is of.
fn series(probe: &ProbeSummary) -> impl Iterator<Item = (&'static str, &ProbeSeries)> {
    let key = if probe.per_cpu { "cpu" } else { "task" };
    let apps = probe.apps.iter().map(|series| ("app", series));
    apps.chain(probe.keys.iter().map(move |series| (key, series)))
}

fn probes(mut rows: Rows, summary: &Summary) -> Table {
    for probe in &summary.probes {
        for (scope, series) in series(probe) {
            rows.push(&[
                (&probe.probe).into(),
                scope.into(),
                (&series.name).into(),
                (&series.app).into(),
                series.count.into(),
                series.first.into(),
                series.last.into(),
                series.min.into(),
                series.mean.into(),
                series.max.into(),
                series.width_ns.into(),
            ]);
        }
    }
    rows.into_table()
}

fn probe_buckets(mut rows: Rows, summary: &Summary) -> Table {
    for probe in &summary.probes {
        for (scope, series) in series(probe) {
            let means = series.bucket_mean.iter().zip(&series.bucket_max);
            let buckets = series.bucket_min.iter().zip(means);
            for (k, (min, (mean, max))) in (0u64..).zip(buckets) {
                if let (Some(min), Some(mean), Some(max)) = (min, mean, max) {
                    rows.push(&[
                        (&probe.probe).into(),
                        scope.into(),
                        (&series.name).into(),
                        (&series.app).into(),
                        (k * series.width_ns).into(),
                        (*min).into(),
                        (*mean).into(),
                        (*max).into(),
                    ]);
                }
            }
        }
    }
    rows.into_table()
}
