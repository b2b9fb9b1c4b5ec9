// SPDX-License-Identifier: GPL-2.0-or-later
//! Where a real kernel's verdict differs, and what its own scheduler does.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Kept;
use crate::experiment::Claim;
use crate::judge::{ClaimOutcome, Verdict};
use crate::scoreboard::measured;

/// Whether a kernel's verdict was reached with the claim's current check. Others do not count.
pub(super) fn is_current(real: &Verdict, sim: &[Verdict]) -> bool {
    let same = |v: &Verdict| v.id == real.id && v.check == real.check;
    real.verdict != ClaimOutcome::NotRun && sim.iter().any(same)
}

/// The claims whose verdicts differ, and why.
pub(super) fn disagreements(out: &mut String, kept: &Kept, claims: &BTreeMap<&str, &Claim>) {
    if kept.kernel.is_empty() {
        return;
    }
    let judged: Vec<&Verdict> = kept
        .kernel
        .iter()
        .filter(|v| is_current(v, &kept.sim))
        .collect();
    let run = kept
        .kernel
        .iter()
        .filter(|v| v.verdict != ClaimOutcome::NotRun);
    let outdated = run.count() - judged.len();
    let _ = writeln!(
        out,
        "\n## In a real kernel\n\n{} claims were judged in a real kernel as well (instructions counted; `tiltyard reproduce \
         --arena kernel --vm`). Most take one CPU. On several emulated CPUs, which take turns, only decisions and counts are judged.",
        judged.len()
    );
    if outdated > 0 {
        let _ = writeln!(
            out,
            "{outdated} more were judged with a check that has changed since, and do not count until `scripts/claims.sh kernel` has run \
             again."
        );
    }
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

fn shown(verdict: &Verdict) -> String {
    format!(
        "{}: {}",
        verdict.verdict.name(),
        measured(verdict).join("; ")
    )
}

/// What the sources say, the simulated scheduler, the same in a kernel, and a kernel's own in its place.
pub(super) fn own_scheduler(out: &mut String, kept: &Kept) {
    let own = kept.own_scheduler.iter();
    let own: Vec<&Verdict> = own.filter(|v| is_current(v, &kept.sim)).collect();
    let Some(first) = own.first() else {
        return;
    };
    let _ = writeln!(
        out,
        "\n### Beside the kernel's own scheduler\n\nClaims about a scheduler that a kernel itself contains, run with the kernel's own in its place \
         (for instance `{}`).\n\n\
         | claim | the source | simulated | in a kernel with sched_ext | the kernel's own |\n\
         | --- | --- | --- | --- | --- |",
        first.command
    );
    for own in own {
        let of = |all: &[Verdict]| {
            let found = all.iter().find(|v| v.id == own.id);
            found.filter(|v| is_current(v, &kept.sim)).map(shown)
        };
        let cell = |shown: Option<String>| shown.unwrap_or_else(|| "not run".to_owned());
        let (sim, ours) = (cell(of(&kept.sim)), cell(of(&kept.kernel)));
        let (id, expected) = (&own.id, &own.expected);
        let _ = writeln!(
            out,
            "| `{id}` | {expected} | {sim} | {ours} | {} |",
            shown(own)
        );
    }
}
