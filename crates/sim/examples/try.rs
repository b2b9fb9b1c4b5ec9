// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs one scheduler on one workload and prints what happened: the engine alone, without the command line.
//! cargo run -p tiltyard-sim --example try -- SCHEDULER.bpf.c WORKLOAD.json MACHINE.toml SECONDS [NAME=VALUE...]

use std::time::Instant;
use tiltyard_build::{Builder, Source};
use tiltyard_model::{Event, EventKind, EventSink, Machine, TaskInfo};
use tiltyard_native::Value;
use tiltyard_sim::{Setup, run};

#[derive(Default)]
struct Count {
    switches: u64,
    wakeups: u64,
    requests: u64,
    verbose: bool,
}

impl EventSink for Count {
    fn task(&mut self, info: &TaskInfo) {
        if self.verbose {
            println!("{:?}", info);
        }
    }
    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Switch { .. } => self.switches += 1,
            EventKind::Wakeup { .. } => self.wakeups += 1,
            EventKind::Request { .. } => self.requests += 1,
            _ => {}
        }
        if self.verbose {
            println!("{:>12} {} {:?}", event.time_ns, event.cpu, event.kind);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut source = Source::new(&args[0]);
    source.include_dirs.push("schedulers/lib".into());
    let object = Builder::default().native(&source)?;
    let text = std::fs::read_to_string(&args[1])?;
    let workload = tiltyard_workload::read(&text, &args[1]).map_err(|e| e[0].to_string())?;
    let machine = Machine::parse_toml(&std::fs::read_to_string(&args[2])?, &args[2])?;
    let mut globals = Vec::new();
    for setting in &args[4..] {
        let (name, value) = setting.split_once('=').ok_or("NAME=VALUE")?;
        globals.push((name.to_owned(), Value::Int(value.parse()?)));
    }
    let seconds: f64 = args[3].parse()?;
    let setup = Setup {
        machine: &machine,
        workload: &workload,
        object: &object,
        globals: &globals,
        environment: &tiltyard_environment::EMPTY,
        seed: 1,
        duration_ns: (seconds > 0.0).then_some((seconds * 1e9) as u64),
        watchdog: false,
        probes: std::env::var_os("TRY_VERBOSE").is_some(),
    };
    let mut sink = Count {
        verbose: std::env::var_os("TRY_VERBOSE").is_some(),
        ..Count::default()
    };
    let start = Instant::now();
    let outcome = run(&setup, &mut sink, &mut |_| {})?;
    let wall = start.elapsed().as_secs_f64();
    println!("{outcome:#?}");
    println!(
        "{:.3} s wall, {} switches ({:.2} M/s), {} ticks, {} wakeups, {} requests",
        wall,
        sink.switches,
        sink.switches as f64 / wall / 1e6,
        outcome.ticks,
        sink.wakeups,
        sink.requests
    );
    Ok(())
}
