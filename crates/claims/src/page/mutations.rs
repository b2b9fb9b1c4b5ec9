// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of the schedulers, mutations that break them, and claims that turn.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use super::Kept;
use crate::mutation::{Mutation, Mutations, Rule, Score, is_covered, result_of, scores};

const HEAD: &str = "
## Which claims detect a broken rule

A scoreboard that cannot fail proves nothing. Each rule of a scheduler (`experiments/mutations/`) is broken on purpose, in one place
of its source or by a tunable, and the claims are judged again (`tiltyard reproduce --mutations`). A rule is *covered* if a claim
that is named beforehand changes outright, from reproduced to not reproduced or the other way round; a claim that can no longer be
measured does not count. At least the claims that a mutation names are judged with it, with one seed, or with three where one of them
does not hold with the first.

";

pub(super) fn mutations(out: &mut String, kept: &Kept) {
    if kept.rules.is_empty() || kept.mutations.is_empty() {
        return;
    }
    out.push_str(HEAD);
    out.push_str("| scheduler | file | rules of the paper | rules on one core | multicore rules |\n| --- | --- | --- | --- | --- |\n");
    let share = |score: Score| match score.all {
        0 => String::new(),
        all => format!("{} of {all} ({:.0} %)", score.covered, score.percent()),
    };
    for rules in &kept.rules {
        let all = scores(rules, &kept.mutations);
        let name = &rules.scheduler;
        let (paper, single) = (share(all.paper), share(all.single_core));
        let _ = writeln!(
            out,
            "| `{name}` | {} | {paper} | {single} | {} |",
            file_name(rules),
            share(all.multicore)
        );
    }
    for rules in &kept.rules {
        of_scheduler(out, rules, kept);
    }
}

/// A scheduler may have several files.
fn file_name(rules: &Mutations) -> &str {
    let name = Path::new(&rules.file).file_name();
    name.and_then(OsStr::to_str).unwrap_or_default()
}

fn of_scheduler(out: &mut String, rules: &Mutations, kept: &Kept) {
    let _ = writeln!(
        out,
        "\n### Rules of {} ({})\n\n| rule | where | paper | mutation | claims turned |\n| --- | --- | --- | --- | --- |",
        rules.scheduler,
        file_name(rules)
    );
    for rule in &rules.rules {
        let of_rule = rules.mutations.iter().filter(|m| m.rule == rule.id);
        let of_rule: Vec<&Mutation> = of_rule.collect();
        let mark = match is_covered(rules, rule, &kept.mutations) {
            true => String::new(),
            false if rule.multicore => " (with the multicore claims)".to_owned(),
            false => " **not covered**".to_owned(),
        };
        let head = head(rule, &mark);
        if of_rule.is_empty() {
            let _ = writeln!(out, "{head} no mutation yet | |");
        }
        for mutation in of_rule {
            let what = &mutation.what;
            let _ = writeln!(out, "{head} {what} | {} |", turned(rules, mutation, kept));
        }
    }
}

fn head(rule: &Rule, mark: &str) -> String {
    let paper = if rule.paper { "yes" } else { "" };
    format!("| {}{mark} | {} | {paper} |", rule.text, rule.place)
}

/// The claims that turned, first those that had to.
fn turned(rules: &Mutations, mutation: &Mutation, kept: &Kept) -> String {
    let Some(tried) = result_of(rules, mutation, &kept.mutations) else {
        return "not tried yet".to_owned();
    };
    let unturned = tried.unturned(mutation);
    let named = mutation
        .turns
        .iter()
        .filter(|id| !unturned.contains(&id.as_str()));
    let mut parts: Vec<String> = named.map(|id| format!("`{id}`")).collect();
    let others = tried
        .turned
        .iter()
        .filter(|id| !mutation.turns.contains(id))
        .count();
    match (parts.is_empty(), others) {
        (_, 0) => {}
        (true, n) => parts.push(format!("{n} that were not named")),
        (false, n) => parts.push(format!("{n} more")),
    }
    if !unturned.is_empty() {
        parts.push(format!("**unmoved: {}**", unturned.join(", ")));
    }
    match (&mutation.survives, parts.is_empty()) {
        (Some(why), true) => format!("none: {why}"),
        (_, true) => "**none**".to_owned(),
        _ => parts.join(", "),
    }
}
