// SPDX-License-Identifier: GPL-2.0-or-later
//! The table of numbers that were chosen by looking at a result, and of the verdicts that depend on them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::parameter::{Owner, Parameter};
use crate::sensitivity::Variation;

const HEAD: &str = "
## What is fitted

Numbers of workloads, machines and presets that were chosen by looking at a result: one of the source's, or one of a run. The
data is `experiments/fitted.toml`. Which verdicts depend on them was measured: each number was tried as something else
(`tiltyard reproduce --sensitivity`), in all experiments that have it.

| number | value | fitted to | tried as | verdicts that turn |
| --- | --- | --- | --- | --- |
";

/// The section of the page.
pub(crate) fn section(out: &mut String, fitted: &[Parameter], variations: &[Variation]) {
    if fitted.is_empty() {
        return;
    }
    out.push_str(HEAD);
    for parameter in fitted {
        let own: Vec<&Variation> = variations
            .iter()
            .filter(|v| v.parameter == parameter.name)
            .collect();
        let _ = writeln!(
            out,
            "| {}: {} | {} | {} | {} | {} |",
            parameter.name,
            parameter.reason,
            value(parameter),
            parameter.fitted_to.as_deref().unwrap_or_default(),
            tried(parameter),
            turned(parameter, &own),
        );
    }
}

/// `` `costs.visit_far_ns` = 135 in `machines/opteron1.toml` ``.
fn value(parameter: &Parameter) -> String {
    let places = parameter.at.iter().zip(&parameter.is);
    let values: Vec<String> = places.map(|(at, is)| format!("`{at}` = {is}")).collect();
    let (owner, names) = parameter.owner();
    let files: Vec<String> = names
        .iter()
        .map(|name| match owner {
            Owner::Workload => format!("`-w {name}`"),
            Owner::Machine => format!("`-m {name}`"),
            Owner::Scheduler => format!("`-s {name}`"),
        })
        .collect();
    format!("{} in {}", values.join(", "), files.join(", "))
}

fn tried(parameter: &Parameter) -> String {
    let changes: Vec<String> = parameter.changes().iter().map(|c| c.to_string()).collect();
    changes.join(", ")
}

/// The claims whose verdict is another in a variation, each with the variations that do it.
fn turned(parameter: &Parameter, own: &[&Variation]) -> String {
    let missing: Vec<String> = parameter
        .changes()
        .iter()
        .map(|change| change.to_string())
        .filter(|to| !own.iter().any(|v| v.to == *to))
        .collect();
    if !missing.is_empty() {
        return format!("not measured yet: {}", missing.join(", "));
    }
    let mut by_claim: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for variation in own {
        for change in &variation.changes {
            let line = format!("{}: {}", variation.to, change.to.name());
            by_claim.entry(&change.id).or_default().push(line);
        }
    }
    if by_claim.is_empty() {
        let judged: usize = own.iter().map(|v| v.claims).max().unwrap_or_default();
        return format!("none of {judged} judged again");
    }
    let lines = by_claim
        .iter()
        .map(|(id, how)| format!("`{id}` ({})", how.join(", ")));
    lines.collect::<Vec<_>>().join("<br>")
}
