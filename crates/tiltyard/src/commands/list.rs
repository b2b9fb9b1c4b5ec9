// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard list`: names and one line about each.

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use tiltyard_report::csv::Csv;
use tiltyard_runner::{campaign, data, machines, reproduce, schedulers, workloads};

use crate::failure::Failure;

/// List what is shipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tiltyard list schedulers
  tiltyard list workloads --format json
  tiltyard list machines --format csv
  tiltyard list claims
  tiltyard list campaigns")]
pub struct Args {
    what: What,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    #[value(alias = "scheduler")]
    Schedulers,
    #[value(alias = "workload")]
    Workloads,
    #[value(alias = "machine")]
    Machines,
    /// What tiltyard reproduce checks.
    #[value(alias = "claim")]
    Claims,
    /// What tiltyard campaign runs.
    #[value(alias = "campaign")]
    Campaigns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable.
    Table,
    Json,
    /// Lines with commas, below a header.
    Csv,
}

#[derive(serde::Serialize)]
struct Entry {
    name: String,
    about: String,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let entries = match args.what {
        What::Schedulers => schedulers()?,
        What::Workloads => workloads()?,
        What::Machines => machines()?,
        What::Claims => claims()?,
        What::Campaigns => campaigns()?,
    };
    match args.format {
        Format::Table => super::print(&table(entries)),
        Format::Json => super::print(&format!("{:#}\n", serde_json::json!(entries))),
        Format::Csv => {
            let mut csv = Csv::new(&["name", "about"]);
            entries.iter().for_each(|e| csv.line(&[&e.name, &e.about]));
            super::print(&csv.finish())
        }
    }
}

fn schedulers() -> Result<Vec<Entry>, Failure> {
    let folder = data::folder()?.join("schedulers");
    let mut entries = Vec::new();
    let presets = schedulers::presets()?;
    for name in schedulers::names()? {
        let about = schedulers::about_folder(&folder.join(&name));
        let own = presets
            .iter()
            .filter(|p| p.scheduler == name && p.name != name);
        let own: Vec<Entry> = own
            .map(|p| Entry {
                name: p.name.clone(),
                about: format!("preset of {}: {}", p.scheduler, p.description),
            })
            .collect();
        entries.push(Entry { name, about });
        entries.extend(own);
    }
    Ok(entries)
}

fn workloads() -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for name in workloads::names()? {
        let about = first_sentence(&workloads::load(&name)?.description);
        entries.push(Entry { name, about });
    }
    Ok(entries)
}

fn machines() -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for name in machines::names()? {
        let mut about = machines::load(&name)?.description;
        if name == machines::DEFAULT {
            about += " (the default)";
        }
        entries.push(Entry { name, about });
    }
    Ok(entries)
}

fn claims() -> Result<Vec<Entry>, Failure> {
    let experiments = reproduce::load(&data::folder()?.join("experiments"))?;
    let claims = experiments.into_iter().flat_map(|e| e.claims);
    let mut entries: Vec<Entry> = claims
        .map(|claim| Entry {
            about: claim.statement,
            name: claim.id,
        })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

fn campaigns() -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for name in campaign::names()? {
        let about = campaign::read(&campaign::path(&name)?)?.title;
        entries.push(Entry { name, about });
    }
    Ok(entries)
}

fn first_sentence(text: &str) -> String {
    let mut ends = text.match_indices(". ").map(|(end, _)| end);
    match ends.find(|&end| !text[..end].ends_with(" vs")) {
        Some(end) => text[..=end].to_owned(),
        None => text.to_owned(),
    }
}

fn table(entries: Vec<Entry>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    for entry in entries {
        table.add_row([entry.name, entry.about]);
    }
    format!("{}\n", table.trim_fmt())
}
