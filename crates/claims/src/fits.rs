// SPDX-License-Identifier: GPL-2.0-or-later
//! The table of numbers that were fitted to a result, and of the verdicts that depend on them.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiment::Experiment;
use crate::parameter::{Fitted, Owner, Parameter};
use crate::sensitivity::Variation;

const HEAD: &str = "
## What is fitted

Numbers of workloads, machines and presets that were chosen by looking at a result: one of the source's, or one of a run. The
data is `experiments/fitted.toml`. Which verdicts depend on them was measured: each number was tried as something else
(`tiltyard reproduce --sensitivity`), in all experiments that have it.

| number | value | fitted to | tried as | verdicts that turn |
| --- | --- | --- | --- | --- |
";

const CHOICES_HEAD: &str = "
Other choices made when a result was already known. No sensitivity run can vary them.

| what | chosen after |
| --- | --- |
";

/// The section of the page.
pub(crate) fn section(
    out: &mut String,
    experiments: &[Experiment],
    fitted: &Fitted,
    variations: &[Variation],
) {
    if !fitted.parameters.is_empty() {
        out.push_str(HEAD);
        parameters(out, experiments, &fitted.parameters, variations);
    }
    if !fitted.choices.is_empty() {
        out.push_str(CHOICES_HEAD);
    }
    for choice in &fitted.choices {
        let _ = writeln!(out, "| {} | {} |", choice.what, choice.chosen_after);
    }
}

fn parameters(
    out: &mut String,
    experiments: &[Experiment],
    fitted: &[Parameter],
    variations: &[Variation],
) {
    for parameter in fitted {
        let concerned = experiments
            .iter()
            .filter(|e| e.jobs().iter().any(|job| parameter.concerns(job)));
        let concerned: Vec<&str> = concerned.map(|e| e.id.as_str()).collect();
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
            turned(parameter, &concerned, &own),
        );
    }
}

/// `` `costs.line_mem_ps` = 150000 in `machines/opteron1.toml` ``.
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

/// The claims whose verdict differs in a variation, each with these variations. `concerned`: the experiments with
/// runs that have the number; unless it was tried in all of them, it is not reported as one without effect.
fn turned(parameter: &Parameter, concerned: &[&str], own: &[&Variation]) -> String {
    if concerned.is_empty() {
        return "no experiment so far has it".to_owned();
    }
    let changes = parameter.changes().into_iter().map(|c| c.to_string());
    let was_tried =
        |to: &String, id: &&str| own.iter().any(|v| v.to == *to && v.experiment == **id);
    let missing = changes.filter(|to| !concerned.iter().all(|id| was_tried(to, id)));
    let missing: Vec<String> = missing.collect();
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
        return "none".to_owned();
    }
    let lines = by_claim
        .iter()
        .map(|(id, how)| format!("`{id}` ({})", how.join(", ")));
    lines.collect::<Vec<_>>().join("<br>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::read_fitted;

    const EXPERIMENT: &str = "
title = 't'
[[run]]
machine = 'uni'
workload = 'w'
schedulers = { a = 'a' }
";

    fn fitted(machine: &str) -> Fitted {
        let text = format!(
            "[[parameter]]\nname = 'n'\nmachine = '{machine}'\nat = ['costs.a', 'costs.b']\nis = [1, 2]\nvalues = [7, 8]\n\
             reason = 'r'\nfitted_to = 'Figure 1'\n"
        );
        read_fitted(&text, "fitted.toml").unwrap()
    }

    fn row(machine: &str, variations: &[Variation]) -> String {
        let fitted = fitted(machine);
        let experiments = [Experiment::read(EXPERIMENT, "e", "e.toml").unwrap()];
        let mut out = String::new();
        section(&mut out, &experiments, &fitted, variations);
        out.lines().last().unwrap().to_owned()
    }

    fn variation(to: &str, changes: &str) -> Variation {
        let text = format!(
            r#"{{"experiment":"e","parameter":"n","place":"machine uni","to":"{to}","claims":3,"changes":[{changes}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn choices_are_listed_without_parameters() {
        let text = "[[choice]]\nwhat = 'a band'\nchosen_after = 'the first run'\n";
        let fitted = read_fitted(text, "fitted.toml").unwrap();
        let mut out = String::new();
        section(&mut out, &[], &fitted, &[]);
        assert!(out.ends_with("| a band | the first run |\n"), "{out}");
        assert!(!out.contains("What is fitted"), "{out}");
    }

    #[test]
    fn a_number_that_was_not_tried_is_none_on_which_nothing_depends() {
        let head = "| n: r | `costs.a` = 1, `costs.b` = 2 in `-m uni` | Figure 1 | = 7, = 8 | ";
        assert_eq!(
            row("uni", &[]),
            format!("{head}not measured yet: = 7, = 8 |")
        );
        let seven = variation("= 7", "");
        assert_eq!(
            row("uni", std::slice::from_ref(&seven)),
            format!("{head}not measured yet: = 8 |")
        );
        assert_eq!(
            row("uni", &[seven.clone(), variation("= 8", "")]),
            format!("{head}none |")
        );
        let change =
            r#"{"id":"s.p.c","from":"reproduced","to":"not-reproduced","before":[],"after":[]}"#;
        let both = [seven, variation("= 8", change)];
        assert_eq!(
            row("uni", &both),
            format!("{head}`s.p.c` (= 8: not-reproduced) |")
        );
        assert!(row("v890", &both).ends_with("| no experiment so far has it |"));
        // A second experiment has it, in which it was not tried.
        let parameter = &fitted("uni").parameters[0];
        let own: Vec<&Variation> = both.iter().collect();
        assert_eq!(
            turned(parameter, &["e", "other"], &own),
            "not measured yet: = 7, = 8"
        );
    }
}
