// SPDX-License-Identifier: GPL-2.0-or-later
//! The results of runs in a real kernel as text.

use tiltyard_kernel::{Accel, Counter, RunOutcome, RunReport};
use tiltyard_report::table;
use tiltyard_runner::kernel_results::{KernelResults, load};
use tiltyard_runner::{kernel_fault, kernel_runs};

use crate::terminal;

/// Load per CPU above which timings are unreliable.
const NOISY_LOAD: f64 = 0.5;

/// Lines of the kernel's debug dump that are printed.
const MAX_DUMP_LINES: usize = 40;

/// What happened to each scheduler, then the schedulers side by side.
pub fn page(results: &KernelResults) -> String {
    let report = results.report;
    let boot = match report.accel {
        Some(_) => format!("booted in {:.1} s, ", report.boot_ms as f64 / 1e3),
        None => String::new(),
    };
    let total_s = report.total_ms as f64 / 1e3;
    let mut page = format!(
        "{}; {boot}all done after {total_s:.1} s\n\n",
        kernel_runs::machine(report)
    );
    for name in &results.comparison.schedulers {
        page += &scheduler(results, name);
    }
    let notes = notes(results);
    if !notes.is_empty() {
        page += &format!("\n{notes}");
    }
    if !report.runs.is_empty() {
        page += &format!(
            "\n{}\n",
            table::render(&results.comparison, terminal::width())
        );
    }
    page + &format!("Repeat  {}\n", results.subject.command)
}

/// What happened to a scheduler.
fn scheduler(results: &KernelResults, name: &str) -> String {
    let runs = results.report.runs.iter();
    let own: Vec<&RunReport> = runs.filter(|run| run.scheduler == name).collect();
    // Successful rounds are alike; readers want to know about the one that failed.
    let shown = own.iter().find(|run| !run.is_success()).or(own.last());
    let mut text = format!("{name}\n");
    for line in shown.map_or(Vec::new(), |run| lines(run)) {
        text += &format!("  {line}\n");
    }
    for (counter, count) in deviations(&own) {
        let (what, name) = (counter.what, counter.name);
        text += &format!("  deviation       {count}: {what} ({name})\n");
    }
    text
}

/// What readers must know before they trust the metrics.
fn notes(results: &KernelResults) -> String {
    let report = results.report;
    let mut notes = String::new();
    if let Some(reason) = &report.cut_short {
        notes += &format!("Cut short  {reason}\n");
    }
    let lost: u64 = results.recorded.iter().map(|recorded| recorded.lost).sum();
    if lost > 0 {
        notes += &format!("Lost    {lost} events found no room: metrics do not include them\n");
    }
    if let Some(line) = kernel_runs::bad_score(report) {
        notes += &format!(
            "Score   not understood: \"{line}\"; write score: NAME VALUE, or score: NAME VALUE higher|lower\n"
        );
    }
    let busy = load(report);
    let exact = report.accel == Some(Accel::Counted);
    if !exact && busy > NOISY_LOAD * f64::from(results.subject.host_cpus) {
        notes += &format!(
            "Noise   the machine was already loaded (load {busy:.1}): timings may be unreliable\n"
        );
    }
    if report.accel == Some(Accel::Emulated) {
        notes += "Time    the CPUs are emulated: timings are not meaningful; use KVM, or --icount for exact ones\n";
    }
    if let Some(limits) = &report.raised_limits {
        notes += &format!("Limits  raised with the emulation: {limits}\n");
    }
    notes
}

/// A scheduler's counters of deviations over all its runs.
fn deviations(runs: &[&RunReport]) -> Vec<(Counter, u64)> {
    let mut all: Vec<(Counter, u64)> = Vec::new();
    let counts = runs.iter().flat_map(|run| match &run.outcome {
        RunOutcome::Ran { deviations, .. } => deviations.as_slice(),
        RunOutcome::NotLoaded { .. } => &[],
    });
    for deviation in counts.filter(|deviation| deviation.count > 0) {
        match all
            .iter_mut()
            .find(|(known, _)| *known == deviation.counter)
        {
            Some((_, count)) => *count += deviation.count,
            None => all.push((deviation.counter.clone(), deviation.count)),
        }
    }
    all
}

fn lines(run: &RunReport) -> Vec<String> {
    let mut lines = Vec::new();
    match &run.outcome {
        RunOutcome::NotLoaded { reason, .. } => lines.push(format!("not loaded: {reason}")),
        RunOutcome::Ran {
            ops_name,
            command,
            exit,
            load_ms,
            command_ms,
            unload_ms,
            ..
        } => {
            let ops = ops_name.as_deref().unwrap_or("the kernel's own");
            let set = run
                .tunables
                .iter()
                .map(|t| format!(" {}={}", t.name, t.value));
            let set: String = set.collect();
            lines.push(format!("in charge       {ops}{set}"));
            lines.push(format!(
                "command         {} after {:.3} s",
                kernel_fault::status(command),
                *command_ms as f64 / 1e3
            ));
            if let Some(exit) = exit {
                let msg = if exit.msg.is_empty() {
                    String::new()
                } else {
                    format!(": {}", exit.msg)
                };
                lines.push(format!(
                    "scheduler left  {} ({}){msg}",
                    exit.reason, exit.kind_name
                ));
                lines.extend(cut(&exit.dump).iter().map(|l| format!("  {l}")));
            }
            lines.push(format!("load, unload    {load_ms} ms, {unload_ms} ms"));
        }
    }
    let complaints = run.complaints.iter();
    lines.extend(complaints.map(|line| format!("kernel says     {line}")));
    let back = if run.default_is_back() { "yes" } else { "NO" };
    lines.push(format!(
        "default is back {back} (sched_ext {})",
        run.state_after
    ));
    lines
}

/// The beginning of the kernel's debug dump, which shows the culprit and the first CPUs.
fn cut(dump: &str) -> Vec<String> {
    let left = dump.lines().count().saturating_sub(MAX_DUMP_LINES);
    let more =
        (left > 0).then(|| format!("... {left} more lines of the dump: --format json has them"));
    let lines = dump.lines().take(MAX_DUMP_LINES).map(str::to_owned);
    lines.chain(more).collect()
}
