// SPDX-License-Identifier: GPL-2.0-or-later
//! Every claim of every experiment, one table per experiment.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Kept;
use super::kernel::is_current;
use super::misses::holds_in;
use crate::experiment::Experiment;
use crate::judge::Verdict;
use crate::picture::Picture;
use crate::scoreboard::measured;
use crate::trial::Class;

pub(super) fn all_claims(
    out: &mut String,
    experiments: &[Experiment],
    kept: &Kept,
    classes: &BTreeMap<&str, Class>,
) {
    out.push_str("\n## All claims\n");
    for experiment in experiments {
        let of_experiment = |v: &&Verdict| experiment.claims.iter().any(|c| c.id == v.id);
        let verdicts: Vec<&Verdict> = kept.sim.iter().filter(of_experiment).collect();
        if verdicts.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "\n### {}\n\n`experiments/{}.toml`\n",
            experiment.title, experiment.id
        );
        out.extend(experiment.pictures.iter().map(Picture::paragraph));
        out.push_str("| claim | where | statement | expected | measured | verdict | | in a kernel |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for verdict in verdicts {
            let real = kept
                .kernel
                .iter()
                .find(|v| v.id == verdict.id && is_current(v, &kept.sim));
            let shown = match (&verdict.reason, verdict.broken) {
                (Some(reason), _) => reason.clone(),
                (None, _) => measured(verdict).join("<br>"),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {shown} | {} | {} | {} |",
                verdict.id,
                verdict.place,
                verdict.statement,
                verdict.expected,
                verdict.verdict.name(),
                remark(kept, verdict, classes),
                real.map_or("", |v| v.verdict.name())
            );
        }
    }
}

/// For a reproduced claim, whether it is specific, and with how many seeds it holds if not with each; for any other, where it
/// holds.
fn remark(kept: &Kept, verdict: &Verdict, classes: &BTreeMap<&str, Class>) -> String {
    if let Some(names) = holds_in(kept, verdict) {
        return format!("holds in: {names}");
    }
    let class = classes.get(verdict.id.as_str()).map(|class| class.name());
    let class = class.unwrap_or_default();
    match verdict.holds_for_medians_only() {
        true => format!("{class}<br>{}", verdict.agreement()),
        false => class.to_owned(),
    }
}
