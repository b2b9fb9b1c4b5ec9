// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts by section of the sources, for the page and for README.md.

use std::fmt::Write;

use super::{Kept, specificity};
use crate::experiment::{Experiment, section_of};
use crate::judge::{Outcome, Verdict};
use crate::scoreboard::by_section;
use crate::trial::Class;

/// Sections with something to tell, one row each; sections of which nothing was run are one row together.
pub fn scoreboard(experiments: &[Experiment], kept: &Kept) -> String {
    let mut out = String::from(
        "| section | claims | reproduced | not reproduced | not run | specific | shared | vacuous | in a kernel too |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let classes = specificity::classes(experiments, kept);
    let by_class = |is: &dyn Fn(&str) -> bool| {
        let count = |class| {
            let such = classes.iter().filter(|(id, c)| **c == class && is(id));
            such.count()
        };
        match classes.is_empty() {
            true => "| | |".to_owned(),
            false => format!(
                "| {} | {} | {} |",
                count(Class::Specific),
                count(Class::Shared),
                count(Class::Vacuous)
            ),
        }
    };
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
            "| `{section}` | {} | {good} | {bad} | {open} {} {real} |",
            good + bad + open,
            by_class(&|id| section_of(id) == section)
        );
    }
    if rest > 0 {
        let _ = writeln!(
            out,
            "| sections without an experiment so far | {rest} | | | {rest} | | | | |"
        );
    }
    let [good, bad, open] = total;
    let _ = writeln!(
        out,
        "| **all** | **{}** | **{good}** | **{bad}** | **{open}** {} |",
        good + bad + open,
        by_class(&|_| true)
    );
    out
}
