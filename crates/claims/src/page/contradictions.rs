// SPDX-License-Identifier: GPL-2.0-or-later
//! Where sources contradict themselves or each other.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Kept;
use crate::experiment::Claim;
use crate::judge::ClaimOutcome;

pub(super) fn contradictions(out: &mut String, kept: &Kept, claims: &BTreeMap<&str, &Claim>) {
    out.push_str("\n## Where the sources contradict themselves or each other\n\n");
    for verdict in kept
        .sim
        .iter()
        .filter(|v| v.verdict != ClaimOutcome::NotRun)
    {
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
