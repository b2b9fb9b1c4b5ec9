// SPDX-License-Identifier: GPL-2.0-or-later
//! What `tiltyard reproduce` prints: verdicts of one arena, or of both side by side.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use tiltyard_claims::{Claim, ClaimOutcome, Verdict, scoreboard};
use tiltyard_runner::reproduce::{Account, Judged};

use crate::terminal;

/// The results of an arena.
pub struct Results<'a> {
    pub judged: Vec<Judged<'a>>,
    pub account: Account,
    /// None in the simulated machine, and if no claim needed a kernel.
    pub kernel_release: Option<String>,
}

impl Results<'_> {
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.judged.iter().flat_map(|judged| &judged.verdicts)
    }

    /// Each verdict with its claim and its deviations.
    fn all(&self) -> impl Iterator<Item = (&Claim, &Verdict, &[String])> {
        self.judged.iter().flat_map(|judged| {
            let verdicts = judged.verdicts.iter().zip(&judged.deviations);
            verdicts.filter_map(|(verdict, deviations)| {
                let mut claims = judged.experiment.claims.iter();
                let claim = claims.find(|claim| claim.id == verdict.id)?;
                Some((claim, verdict, deviations.as_slice()))
            })
        })
    }
}

/// A verdict with its circumstances.
#[derive(Serialize)]
struct WholeVerdict<'a> {
    arena: &'static str,
    #[serde(flatten)]
    verdict: &'a Verdict,
    #[serde(flatten)]
    real: Option<Circumstances<'a>>,
    /// A kernel's verdict, beside the simulated machine's.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<KernelVerdict<'a>>,
}

/// For a verdict from a kernel.
#[derive(Serialize)]
struct Circumstances<'a> {
    kernel_release: Option<&'a str>,
    /// How runs deviated from the experiment: guards, what real threads could not do.
    deviations: &'a [String],
    /// Why shorter runs than the simulated machine's are enough.
    shortened: Vec<String>,
}

#[derive(Serialize)]
struct KernelVerdict<'a> {
    verdict: ClaimOutcome,
    measured: &'a BTreeMap<String, f64>,
    reason: &'a Option<String>,
    #[serde(flatten)]
    real: Circumstances<'a>,
}

/// An array with an object for each claim.
pub fn json(simulated: Option<&Results>, real: Option<&Results>) -> serde_json::Value {
    let told: Vec<WholeVerdict> = match (simulated, real) {
        (Some(simulated), real) => {
            let told = simulated.all().map(|(claim, verdict, _)| WholeVerdict {
                arena: "sim",
                verdict,
                real: None,
                kernel: real.and_then(|real| in_kernel(real, &claim.id)),
            });
            told.collect()
        }
        (None, Some(real)) => {
            let told = real.all().map(|(_, verdict, deviations)| WholeVerdict {
                arena: "kernel",
                verdict,
                real: Some(circumstances(real, &verdict.id, deviations)),
                kernel: None,
            });
            told.collect()
        }
        (None, None) => Vec::new(),
    };
    serde_json::json!(told)
}

fn in_kernel<'a>(real: &'a Results, id: &str) -> Option<KernelVerdict<'a>> {
    let (_, verdict, deviations) = real.all().find(|(claim, ..)| claim.id == id)?;
    Some(KernelVerdict {
        verdict: verdict.verdict,
        measured: &verdict.measured,
        reason: &verdict.reason,
        real: circumstances(real, id, deviations),
    })
}

fn circumstances<'a>(real: &'a Results, id: &str, deviations: &'a [String]) -> Circumstances<'a> {
    Circumstances {
        kernel_release: real.kernel_release.as_deref(),
        deviations,
        shortened: real.shortened(id),
    }
}

impl Results<'_> {
    /// The reasons why runs of this claim were made shorter.
    fn shortened(&self, id: &str) -> Vec<String> {
        let of_claim = self.judged.iter().find_map(|judged| {
            let at = judged
                .verdicts
                .iter()
                .position(|verdict| verdict.id == id)?;
            Some(judged.shortened[at].clone())
        });
        of_claim.unwrap_or_default()
    }
}

/// As text: one claim in full, or a row for each, then the counts.
pub fn page(simulated: Option<&Results>, real: Option<&Results>, wall_s: f64) -> String {
    let width = terminal::width();
    let mut page = match (simulated, real) {
        (Some(one), None) | (None, Some(one)) => {
            let verdicts: Vec<&Verdict> = one.verdicts().collect();
            match one.all().next() {
                Some((claim, verdict, _)) if verdicts.len() == 1 => {
                    scoreboard::detail(claim, verdict)
                }
                _ => scoreboard::table(&verdicts, width),
            }
        }
        (Some(simulated), Some(real)) => {
            let pairs: Vec<(&Verdict, &Verdict)> = simulated
                .verdicts()
                .filter_map(|one| Some((one, real.verdicts().find(|other| other.id == one.id)?)))
                .collect();
            scoreboard::side_by_side(&pairs, ["simulated", "in a kernel"], width)
        }
        (None, None) => String::new(),
    };
    if let Some(real) = real {
        notes(&mut page, real);
    }
    page.push('\n');
    for (name, results) in [("simulated", simulated), ("in a kernel", real)] {
        let Some(results) = results else { continue };
        let both = simulated.is_some() && real.is_some();
        let prefix = if both {
            format!("{name}: ")
        } else {
            String::new()
        };
        page += &format!("{prefix}{}\n", counts(results));
    }
    page.pop();
    page + &format!(", {wall_s:.1} s\n")
}

/// Notes for a reader of the kernel's verdicts, claim by claim.
fn notes(page: &mut String, real: &Results) {
    for (claim, _, deviations) in real.all() {
        let shortened = real.shortened(&claim.id);
        for (what, lines) in [
            ("deviation", deviations),
            ("shortened", shortened.as_slice()),
        ] {
            for line in lines {
                let _ = writeln!(page, "{what}   {}: {line}", claim.id);
            }
        }
    }
    if let Some(release) = &real.kernel_release {
        let _ = writeln!(
            page,
            "kernel      Linux {release}, emulated, instructions counted"
        );
    }
}

fn claims(count: usize) -> String {
    match count {
        1 => "1 claim".to_owned(),
        n => format!("{n} claims"),
    }
}

fn counts(results: &Results) -> String {
    let count = |outcome| results.verdicts().filter(|v| v.verdict == outcome).count();
    format!(
        "{}: {} reproduced, {} not reproduced, {} not run ({} runs done, {} reused)",
        claims(results.verdicts().count()),
        count(ClaimOutcome::Reproduced),
        count(ClaimOutcome::NotReproduced),
        count(ClaimOutcome::NotRun),
        results.account.done,
        results.account.known,
    )
}
