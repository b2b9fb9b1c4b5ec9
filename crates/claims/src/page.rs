// SPDX-License-Identifier: GPL-2.0-or-later
//! `docs/claims.md` and the scoreboard of the README, from results that are kept in the tree.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiment::{Claim, Experiment};
use crate::fitted::section as fitted_section;
use crate::history;
use crate::judge::{Outcome, Verdict};
use crate::parameter::Parameter;
use crate::scoreboard::{by_section, measured};
use crate::sensitivity::Variation;

/// Results, as `tiltyard reproduce` wrote them.
pub struct Kept {
    pub sim: Vec<Verdict>,
    /// In a real kernel.
    pub kernel: Vec<Verdict>,
    pub sensitivity: Vec<Variation>,
}

/// Sections with something to tell, one row each; sections of which nothing was run are one row together.
pub fn scoreboard(kept: &Kept) -> String {
    let mut out = String::from(
        "| section | claims | reproduced | not reproduced | not run | in a kernel too |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let all: Vec<&Verdict> = kept.sim.iter().collect();
    let mut rest = 0;
    let mut total = [0; 3];
    for (section, counts) in by_section(&all) {
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        if counts[0] + counts[1] == 0 {
            rest += counts[2];
            continue;
        }
        let prefix = format!("{section}.");
        let real = kept.kernel.iter().filter(|v| v.id.starts_with(&prefix));
        let real: Vec<&Verdict> = real.filter(|v| v.verdict != Outcome::NotRun).collect();
        let held = real
            .iter()
            .filter(|v| v.verdict == Outcome::Reproduced)
            .count();
        let real = match real.len() {
            0 => String::new(),
            n => format!("{held} of {n}"),
        };
        let [good, bad, open] = counts;
        let _ = writeln!(
            out,
            "| `{section}` | {} | {good} | {bad} | {open} | {real} |",
            good + bad + open
        );
    }
    if rest > 0 {
        let _ = writeln!(
            out,
            "| sections without an experiment so far | {rest} | | | {rest} | |"
        );
    }
    let [good, bad, open] = total;
    let _ = writeln!(
        out,
        "| **all** | **{}** | **{good}** | **{bad}** | **{open}** | |",
        good + bad + open
    );
    out
}

/// The whole page.
pub fn page(experiments: &[Experiment], fitted: &[Parameter], kept: &Kept) -> String {
    let claims: BTreeMap<&str, &Claim> = experiments
        .iter()
        .flat_map(|e| e.claims.iter().map(|c| (c.id.as_str(), c)))
        .collect();
    let mut out = String::from(HEAD);
    out += &scoreboard(kept);
    out += MISSES;
    for verdict in kept
        .sim
        .iter()
        .filter(|v| v.verdict == Outcome::NotReproduced || v.broken)
    {
        if let Some(claim) = claims.get(verdict.id.as_str()) {
            miss(&mut out, claim, verdict);
        }
    }
    disagreements(&mut out, kept, &claims);
    contradictions(&mut out, kept, &claims);
    fitted_section(&mut out, experiments, fitted, &kept.sensitivity);
    sensitivity(&mut out, &kept.sensitivity);
    history::section(&mut out, experiments, &kept.sim);
    all_claims(&mut out, experiments, kept);
    out
}

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Printed by `make claims`; edit experiments/, not this page. -->
# What papers claim, and what comes out

Every statement of the sources that can be checked, with a verdict. `tiltyard reproduce` does this on your machine; this page
is printed from results in `experiments/results/`.

A claim is *reproduced* when its check holds for the medians over ten seeds, *not reproduced* when it does not, *not run*
while there is no experiment for it. Checks, tolerances and their reasons are in `experiments/`. They were written before the
experiments existed, by authors who had tried a rough model of a few hundred lines; \"What was changed after a result\" lists
each check, measure and run that was changed later. \"What is fitted\" lists the numbers that were chosen by looking at a
result. Brackets are intervals of the median (97.9 % with ten seeds); without brackets all seeds agree.

Sources: `atc18` \"The Battle of the Schedulers: FreeBSD ULE vs. Linux CFS\" (USENIX ATC'18), `zh` its Chinese translation,
`wiki` the FreeBSD wiki's comparison of 4BSD and ULE, `bfs09` the University of New Mexico's study of BFS and CFS (2009),
`linux49` CFS in Linux 4.9 and `freebsd11` ULE in FreeBSD 11.1 and in the source of the paper's port: rules that the paper leaves out.

";

const MISSES: &str = "
## What is not reproduced
";

fn miss(out: &mut String, claim: &Claim, verdict: &Verdict) {
    let _ = writeln!(
        out,
        "\n### {}\n\n{} ({})\n",
        claim.id, claim.statement, claim.place
    );
    let mut row = |name: &str, text: &str| {
        let _ = writeln!(out, "- **{name}**: {text}");
    };
    row("expected", &claim.expected);
    row("check", &format!("`{}`", verdict.check));
    match &verdict.reason {
        Some(reason) => row("broken", reason),
        None => {
            row("measured", &measured(verdict).join("; "));
            row("seeds", &verdict.agreement());
        }
    }
    row(
        "why",
        claim.explanation.as_deref().unwrap_or("not explained yet"),
    );
    if let Some(command) = &claim.shown_by {
        row("shown by", &format!("`{command}`"));
    }
    if let Some(note) = &claim.inconsistency {
        row("the source", note);
    }
}

/// Where the kernel says otherwise.
fn disagreements(out: &mut String, kept: &Kept, claims: &BTreeMap<&str, &Claim>) {
    if kept.kernel.is_empty() {
        return;
    }
    let judged: Vec<&Verdict> = kept
        .kernel
        .iter()
        .filter(|v| v.verdict != Outcome::NotRun)
        .collect();
    let _ = writeln!(
        out,
        "\n## In a real kernel\n\n{} claims were judged in a real kernel as well (one CPU, instructions counted; `tiltyard reproduce \
         --arena kernel --vm`).",
        judged.len()
    );
    let sim = |id: &str| kept.sim.iter().find(|v| v.id == id);
    let differ = judged.iter().filter_map(|real| {
        let sim = sim(&real.id)?;
        (sim.verdict != real.verdict).then_some((sim, *real))
    });
    let differ: Vec<(&Verdict, &Verdict)> = differ.collect();
    if differ.is_empty() {
        out.push_str("All verdicts agree with the simulator's.\n");
        return;
    }
    out.push_str(
        "The verdicts that differ:\n\n| claim | simulated | in the kernel | why |\n| --- | --- | --- | --- |\n",
    );
    for (sim, real) in differ {
        let shown = |v: &Verdict| format!("{}: {}", v.verdict.name(), measured(v).join("; "));
        let why = claims
            .get(sim.id.as_str())
            .and_then(|c| c.in_kernel.as_deref());
        let why = why.unwrap_or("no explanation yet");
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {why} |",
            sim.id,
            shown(sim),
            shown(real)
        );
    }
}

fn contradictions(out: &mut String, kept: &Kept, claims: &BTreeMap<&str, &Claim>) {
    out.push_str("\n## Where the sources contradict themselves or each other\n\n");
    for verdict in kept.sim.iter().filter(|v| v.verdict != Outcome::NotRun) {
        let claim = claims.get(verdict.id.as_str());
        if let Some(note) = claim.and_then(|c| c.inconsistency.as_ref()) {
            let _ = writeln!(
                out,
                "- `{}` ({}): {note}",
                verdict.id,
                verdict.verdict.name()
            );
        }
    }
}

fn sensitivity(out: &mut String, variations: &[Variation]) {
    if variations.is_empty() {
        return;
    }
    let turned = variations.iter().filter(|v| !v.changes.is_empty()).count();
    let _ = writeln!(
        out,
        "\n## How much of it is the model\n\nNumbers of workloads, machines and presets that no source fixes were changed one at a time, to half and \
         twice what they are or to values that the experiment states (`tiltyard reproduce --sensitivity`): {} variations. {} of them turn no \
         verdict. The others:\n\n\
         | number of | parameter | tried | claim | from | to | measured then |\n| --- | --- | ---: | --- | --- | --- | --- |",
        variations.len(),
        variations.len() - turned
    );
    for variation in variations {
        for change in &variation.changes {
            let _ = writeln!(
                out,
                "| {} | {} | {} | `{}` | {} | {} | {} |",
                variation.place,
                variation.parameter,
                variation.to,
                change.id,
                change.from.name(),
                change.to.name(),
                change.after.join("; ")
            );
        }
    }
}

fn all_claims(out: &mut String, experiments: &[Experiment], kept: &Kept) {
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
        out.push_str("| claim | where | statement | expected | measured | verdict | in a kernel |\n| --- | --- | --- | --- | --- | --- | --- |\n");
        for verdict in verdicts {
            let real = kept
                .kernel
                .iter()
                .find(|v| v.id == verdict.id && v.verdict != Outcome::NotRun);
            let shown = match (&verdict.reason, verdict.broken) {
                (Some(reason), _) => reason.clone(),
                (None, _) => measured(verdict).join("<br>"),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {shown} | {} | {} |",
                verdict.id,
                verdict.place,
                verdict.statement,
                verdict.expected,
                verdict.verdict.name(),
                real.map_or("", |v| v.verdict.name())
            );
        }
    }
}
