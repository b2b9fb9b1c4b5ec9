// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts by section of the sources for the page, by source for README.md.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::kernel::is_current;
use super::{Kept, specificity};
use crate::experiment::{Experiment, section_of};
use crate::judge::{ClaimOutcome, Verdict};
use crate::scoreboard::by_section;
use crate::trial::Class;

/// One row per source, for README.md. Two kernels' own rules count as sources, too.
pub fn totals(experiments: &[Experiment], kept: &Kept) -> String {
    let mut out = String::from(
        "| source | claims | reproduced | not reproduced | not run | specific | shared |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let classes = specificity::classes(experiments, kept);
    let mut sources: BTreeMap<&str, ([usize; 3], [usize; 2])> = BTreeMap::new();
    for verdict in &kept.sim {
        let (counts, of_class) = sources.entry(&verdict.source).or_default();
        counts[verdict.verdict as usize] += 1;
        match classes.get(verdict.id.as_str()) {
            Some(Class::Specific) => of_class[0] += 1,
            Some(Class::Shared) => of_class[1] += 1,
            Some(Class::Vacuous) | None => {}
        }
    }
    let mut sum = ([0; 3], [0; 2]);
    for (source, (counts, of_class)) in &sources {
        out += &totals_row(&format!("`{source}`"), *counts, *of_class);
        (0..3).for_each(|i| sum.0[i] += counts[i]);
        (0..2).for_each(|i| sum.1[i] += of_class[i]);
    }
    out + &totals_row("**all**", sum.0, sum.1) + &close_calls(kept)
}

/// How many claims are reproduced by the medians of the seeds, but not by each seed.
fn close_calls(kept: &Kept) -> String {
    let partly = kept.sim.iter().filter(|v| v.holds_for_medians_only());
    let (most, few): (Vec<_>, Vec<_>) = partly.partition(|v| 2 * v.holds_with > v.seeds);
    match most.len() + few.len() {
        0 => String::new(),
        n => format!(
            "\nOf the reproduced claims, {n} hold for the medians of the seeds but not with each seed alone, {} of them with at most \
             half of the seeds.\n",
            few.len()
        ),
    }
}

fn totals_row(name: &str, [good, bad, open]: [usize; 3], [specific, shared]: [usize; 2]) -> String {
    let claims = good + bad + open;
    format!("| {name} | {claims} | {good} | {bad} | {open} | {specific} | {shared} |\n")
}

/// One row per section in which something was run; all other sections are one row together.
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
        let real: Vec<&Verdict> = real.filter(|v| is_current(v, &kept.sim)).collect();
        let held = real
            .iter()
            .filter(|v| v.verdict == ClaimOutcome::Reproduced)
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
            "| sections whose claims no run can decide | {rest} | | | {rest} | | | | |"
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
