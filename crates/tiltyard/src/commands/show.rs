// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard show`: all that is known about a scheduler, a workload, a machine or a claim.

use std::fmt::Write;

use tiltyard_claims::Claim;
use tiltyard_model::Machine;
use tiltyard_model::machine::Per;
use tiltyard_runner::{Error, campaign, data, machines, reproduce, schedulers, workloads};

use super::list::What;
use crate::failure::Failure;

/// Explain a scheduler, a workload, a machine, a claim or a campaign.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard show schedulers ule
  tiltyard show workloads fibo-sysbench-1c
  tiltyard show machines opteron32
  tiltyard show machines \"pack:2 l3:1 core:16 pu:2\"
  tiltyard show claims atc18.tab2.tps-ratio")]
pub struct Args {
    what: What,
    /// What to explain; all if nothing is named. Files work too, as for `tiltyard run`.
    names: Vec<String>,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let named = |all: fn() -> Result<Vec<String>, Error>| match args.names.as_slice() {
        [] => all(),
        names => Ok(names.to_vec()),
    };
    let pages: Result<Vec<String>, Failure> = match args.what {
        What::Schedulers => named(schedulers::names)?
            .iter()
            .map(|n| scheduler(n))
            .collect(),
        What::Workloads => named(workloads::names)?
            .iter()
            .map(|n| workload(n))
            .collect(),
        What::Machines => named(machines::names)?.iter().map(|n| machine(n)).collect(),
        What::Claims => claims(&args.names),
        What::Campaigns => named(campaign::names)?.iter().map(|n| shown(n)).collect(),
    };
    super::print(&pages?.join("\n"))
}

/// What a campaign runs, and what decides.
fn shown(name: &str) -> Result<String, Failure> {
    let path = campaign::path(name)?;
    let campaign = campaign::read(&path)?;
    let mut page = format!("{}\n\n", campaign.title);
    if !campaign.about.trim().is_empty() {
        let _ = writeln!(page, "{}\n", campaign.about.trim());
    }
    for discipline in &campaign.disciplines {
        let metric = discipline.metric.as_ref().map_or("", |m| m.name.as_str());
        let _ = writeln!(page, "  workload {}: {metric}", discipline.name);
    }
    for machine in &campaign.machines {
        let _ = writeln!(page, "  machine {}: {}", machine.name, machine.argument);
    }
    let schedulers = campaign.schedulers.iter().map(|s| s.name.as_str());
    let schedulers: Vec<&str> = schedulers.collect();
    let _ = writeln!(page, "  schedulers: {}", schedulers.join(", "));
    let _ = writeln!(page, "  seeds: {}", campaign.seeds);
    let _ = writeln!(page, "  the file: {}", data::shown(&path));
    Ok(page)
}

/// The README beside the source, and the presets.
fn scheduler(name: &str) -> Result<String, Failure> {
    let choice = schedulers::choose(name)?;
    let readme = choice.source.with_file_name("README.md");
    let mut page = match readme.is_file() {
        true => data::read(&readme)?,
        false => format!(
            "{0}: no README.md beside it; `tiltyard build {0}` lists its ops and tunables\n",
            data::shown(&choice.source)
        ),
    };
    for preset in schedulers::presets()?.iter().filter(|p| {
        choice
            .source
            .ends_with(format!("{0}/{0}.bpf.c", p.scheduler))
    }) {
        let set: Vec<String> = preset
            .tunables
            .iter()
            .map(|(t, v)| format!("{t}={v}"))
            .collect();
        let _ = write!(
            page,
            "\nPreset {}: {} ({}:{})\n",
            preset.name,
            preset.description,
            preset.scheduler,
            set.join(":")
        );
    }
    Ok(page)
}

fn workload(name: &str) -> Result<String, Failure> {
    let (file, workload) = (workloads::path(name)?, workloads::load(name)?);
    let mut page = format!("{}\n\n", workload.name);
    if !workload.description.trim().is_empty() {
        let _ = writeln!(page, "{}\n", workload.description.trim());
    }
    if let Some(metric) = &workload.metric {
        let _ = writeln!(page, "  judged by {metric}");
    }
    for task in &workload.tasks {
        let app = workload.apps.get(task.app).map_or("", |a| a.name.as_str());
        let kind = if task.daemon { ", a daemon" } else { "" };
        let started = match task.instances {
            0 => "started by others".to_owned(),
            n => format!("{n} from the start"),
        };
        let _ = writeln!(page, "  task {} of {app}: {started}{kind}", task.name);
    }
    if let Some(ns) = workload.duration_ns {
        let _ = writeln!(page, "  ends after {} s at the latest", ns as f64 / 1e9);
    }
    let _ = writeln!(page, "  what each task does: {}", data::shown(&file));
    Ok(page)
}

fn machine(name: &str) -> Result<String, Failure> {
    let machine = machines::load(name)?;
    let count = |id: fn(&tiltyard_model::machine::CpuPlace) -> u32| {
        machine
            .cpus
            .iter()
            .map(id)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    };
    let mut page = format!("{}\n\n{}\n\n", machine.name, machine.description);
    let _ = writeln!(
        page,
        "  {} CPUs, {} cores, {} last-level caches, {} memory nodes, {} packages",
        machine.nr_cpus(),
        count(|c| c.core),
        count(|c| c.llc),
        count(|c| c.node),
        count(|c| c.package),
    );
    let caches = machine.caches;
    let _ = writeln!(
        page,
        "  caches, bytes: L1 {}, L2 {}, L3 {}",
        caches.l1_bytes, caches.l2_bytes, caches.l3_bytes
    );
    if machine.cpus.iter().any(|cpu| cpu.capacity != 1024) {
        let capacities: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.capacity).collect();
        let runs = capacities.chunk_by(|a, b| a == b);
        let runs: Vec<String> = runs
            .map(|run| format!("{} x {}", run.len(), run[0]))
            .collect();
        let _ = writeln!(
            page,
            "  capacities of CPUs, in their order: {}",
            runs.join(", ")
        );
    }
    if machine.nr_nodes() > 1 {
        let _ = writeln!(
            page,
            "  distances between nodes: {:?}",
            machine.node_distance
        );
    }
    let _ = writeln!(page, "  {} ticks/s", machine.tick_hz);
    if !machine.sync_to_waker {
        page += "  a kernel that does not take sync wakeups to the waker's CPU\n";
    }
    if !machine.lock_waits {
        page += "  CPUs do not wait for locks that others hold\n";
    }
    if !machine.mutex_waits {
        page += "  tasks do not wait for mutexes that others hold\n";
    }
    if machine.preemptible {
        page += "  a preemptible kernel\n";
    }
    let limit = machine.costs.node_mb_per_s.map(|mb| ("node_mb_per_s", mb));
    for (name, value) in costs(&machine).into_iter().chain(limit) {
        let _ = writeln!(page, "  {name:<24} {value}");
    }
    for noise in &machine.noise {
        let (name, run_us) = (&noise.name, noise.run_mean_ns / 1000);
        let per = match noise.per {
            Per::Cpu => " of each CPU",
            Per::Machine => "",
        };
        let after = noise.per_exit_permille.map_or(String::new(), |permille| {
            format!(", {permille} times for 1000 tasks that end one by one")
        });
        let nice = match noise.nice {
            0 => String::new(),
            nice => format!(" at nice {nice}"),
        };
        let _ = writeln!(
            page,
            "  kernel thread {name}{per}{nice}: sleeps {} us and runs {run_us} us on average{after}",
            noise.sleep_mean_ns / 1000
        );
    }
    let jitter = machine.jitter;
    let _ = writeln!(
        page,
        "  jitter: programs start up to {} us late, timers fire {} ns late on average, computations vary by {} ppm",
        jitter.start_span_ns / 1000,
        jitter.timer_late_mean_ns,
        jitter.work_spread_ppm
    );
    Ok(page)
}

/// The claims of these ids, globs, sources or sections.
fn claims(patterns: &[String]) -> Result<Vec<String>, Failure> {
    let experiments = reproduce::load(&data::folder()?.join("experiments"))?;
    let ids = reproduce::select(&experiments, patterns, None)?;
    let all = experiments.iter().flat_map(|experiment| {
        let file = format!("experiments/{}.toml", experiment.id);
        experiment.claims.iter().map(move |c| (c, file.clone()))
    });
    let chosen = all.filter(|(claim, _)| ids.contains(&claim.id));
    Ok(chosen.map(|(c, file)| claim(c, &file)).collect())
}

fn claim(claim: &Claim, file: &str) -> String {
    let mut page = format!("{}\n\n{}\n\n", claim.id, claim.statement.trim());
    let facts = [
        ("where", Some(&claim.place)),
        ("expected", Some(&claim.expected)),
        ("tolerance", Some(&claim.tolerance)),
        ("check", claim.check.as_ref()),
        ("not run", claim.not_run.as_ref()),
        ("contradiction", claim.inconsistency.as_ref()),
        ("explanation", claim.explanation.as_ref()),
    ];
    for (name, text) in facts {
        if let Some(text) = text {
            let _ = writeln!(page, "  {name}: {}", text.trim());
        }
    }
    if claim.not_run.is_none() {
        let _ = writeln!(page, "  the runs and their measures: {file}");
        let _ = writeln!(page, "  check it: tiltyard reproduce {}", claim.id);
    }
    page
}

fn costs(machine: &Machine) -> [(&'static str, u64); 27] {
    let c = &machine.costs;
    [
        ("switch_ns", c.switch_ns),
        ("wakeup_ns", c.wakeup_ns),
        ("timer_wakeup_ns", c.timer_wakeup_ns),
        ("timer_irq_ns", c.timer_irq_ns),
        ("block_ns", c.block_ns),
        ("fork_ns", c.fork_ns),
        ("exit_ns", c.exit_ns),
        ("ipi_ns", c.ipi_ns),
        ("idle_exit_ns", c.idle_exit_ns),
        ("tick_ns", c.tick_ns),
        ("callback_ns", c.callback_ns),
        ("insn_ps", c.insn_ps),
        ("kfunc_ns", c.kfunc_ns),
        ("map_lookup_ns", c.map_lookup_ns.unwrap_or(c.kfunc_ns)),
        (
            "storage_lookup_ns",
            c.storage_lookup_ns.unwrap_or(c.kfunc_ns),
        ),
        ("spin_lock_ns", c.spin_lock_ns),
        ("task_lookup_ns", c.task_lookup_ns),
        ("kick_ns", c.kick_ns),
        ("visit_llc_ns", c.visit_llc_ns.unwrap_or(c.visit_near_ns)),
        ("visit_near_ns", c.visit_near_ns),
        ("visit_far_ns", c.visit_far_ns),
        ("line_l2_ps", c.line_l2_ps),
        ("line_l3_ps", c.line_l3_ps),
        ("line_mem_ps", c.line_mem_ps),
        ("line_far_ps", c.line_far_ps),
        ("refill_overlap_permille", c.refill_overlap_permille),
        ("smt_permille", c.smt_permille),
    ]
}
