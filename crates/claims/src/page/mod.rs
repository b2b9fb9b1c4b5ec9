// SPDX-License-Identifier: GPL-2.0-or-later
//! `docs/claims.md` and the scoreboard of the README, from results that are kept in the tree: a module for each section.

mod all;
mod board;
mod contradictions;
mod kernel;
mod misses;
mod mutations;
mod sensitivity;
mod specificity;

use std::collections::BTreeMap;

pub use board::{scoreboard, totals};

use crate::experiment::{Claim, Experiment};
use crate::fits::section as fitted_section;
use crate::history;
use crate::judge::Verdict;
use crate::mutation::{Mutations, Tried};
use crate::parameter::Fitted;
use crate::sensitivity::Variation;
use crate::trial::Trials;

/// Results, as `tiltyard reproduce` wrote them.
pub struct Kept {
    pub sim: Vec<Verdict>,
    /// In a real kernel.
    pub kernel: Vec<Verdict>,
    /// In a kernel with its own scheduler in place of one of ours.
    pub own_scheduler: Vec<Verdict>,
    pub sensitivity: Vec<Variation>,
    /// Claims with other schedulers in place of their own.
    pub specificity: Vec<Trials>,
    /// Claims that are not reproduced, with the presets of their scheduler.
    pub presets: Vec<Trials>,
    pub mutations: Vec<Tried>,
    /// The rules that mutations break.
    pub rules: Vec<Mutations>,
}

/// The whole page.
pub fn page(experiments: &[Experiment], fitted: &Fitted, kept: &Kept) -> String {
    let claims: BTreeMap<&str, &Claim> = experiments
        .iter()
        .flat_map(|e| e.claims.iter().map(|c| (c.id.as_str(), c)))
        .collect();
    let mut out = String::from(HEAD);
    out += &scoreboard(experiments, kept);
    let classes = specificity::classes(experiments, kept);
    misses::misses(&mut out, kept, &claims);
    kernel::disagreements(&mut out, kept, &claims);
    kernel::own_scheduler(&mut out, kept);
    contradictions::contradictions(&mut out, kept, &claims);
    specificity::specificity(&mut out, kept, &claims, &classes);
    mutations::mutations(&mut out, kept);
    fitted_section(&mut out, experiments, fitted, &kept.sensitivity);
    sensitivity::sensitivity(&mut out, &kept.sensitivity);
    history::section(&mut out, experiments, &kept.sim);
    all::all_claims(&mut out, experiments, kept, &classes);
    out
}

const HEAD: &str = "\
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Printed by `make claims`; edit experiments/, not this page. -->
# Published claims, re-tested

Every checkable statement of the sources, with a verdict. `tiltyard reproduce --seeds 10` repeats this on your
machine; this page is generated from the results in `experiments/results/`.

A claim is *reproduced* if its check holds for the medians over ten seeds, *not reproduced* if it does not, and *not run*
if no run can decide it. Checks, tolerances and their reasons are in `experiments/`. The first versions were written
before the experiments existed, by authors who had tried a rough model of a few hundred lines; \"What was changed after a
result\" lists every check, measure and run that was changed later. \"What is fitted\" lists what else was chosen by
looking at a result. Brackets are intervals of the median (97.9 % with ten seeds); without brackets, both ends are the median. If a
reproduced claim does not hold with each seed alone, \"All claims\" says with how many it does. (A check that compares seeds with each
other cannot hold with one.)

Sources: `atc18` \"The Battle of the Schedulers: FreeBSD ULE vs. Linux CFS\" (USENIX ATC'18), `zh` its Chinese translation,
`eurosys16` \"The Linux Scheduler: a Decade of Wasted Cores\" (EuroSys'16): its four bugs, each a tunable,
`wiki` the FreeBSD wiki's comparison of 4BSD and ULE, `bfs09` the University of New Mexico's study of BFS and CFS (2009),
`linux49` CFS in Linux 4.9 and `freebsd11` ULE in FreeBSD 11.1 and in the source of the paper's port: rules that the paper leaves out.

";
