// SPDX-License-Identifier: GPL-2.0-or-later
//! What is not reproduced, with the best known explanation.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Kept;
use crate::experiment::Claim;
use crate::judge::{ClaimOutcome, Verdict};
use crate::scoreboard::{measured, unmet};
use crate::trial::Trials;

/// One after the other, in the order of the results.
pub(super) fn misses(out: &mut String, kept: &Kept, claims: &BTreeMap<&str, &Claim>) {
    out.push_str(
        "\n## What is not reproduced\n\n\
         The commands after *shown by* were chosen after the results were known. They replace a scheduler or a machine, break a rule \
         or change a number, and show what a verdict depends on. A claim that holds only in such a run does not count as reproduced.\n",
    );
    for verdict in &kept.sim {
        let missed = verdict.verdict == ClaimOutcome::NotReproduced || verdict.broken;
        if let Some(claim) = claims.get(verdict.id.as_str()).filter(|_| missed) {
            miss(out, claim, verdict);
            if let Some(names) = holds_in(kept, verdict) {
                let _ = writeln!(out, "- **holds in**: {names}");
            }
        }
    }
}

/// The presets and variants of its scheduler in which a claim that is not reproduced holds.
pub(super) fn holds_in(kept: &Kept, verdict: &Verdict) -> Option<String> {
    let is_it = |t: &&Trials| t.id == verdict.id && t.check == verdict.check;
    let names = kept.presets.iter().find(is_it)?.holds_in();
    let missed = verdict.verdict == ClaimOutcome::NotReproduced && !names.is_empty();
    missed.then(|| names.join(", "))
}

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
            let unmet: Vec<String> = unmet(verdict).iter().map(|c| format!("`{c}`")).collect();
            if !unmet.is_empty() {
                row("not met", &unmet.join(", "));
            }
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
