// SPDX-License-Identifier: GPL-2.0-or-later
//! "did you mean": the known name that is closest to what was typed.

use std::path::Path;

use tiltyard_misspelt::distance;
use tiltyard_misspelt::nearest_within;

/// The nearest of `known` names, if it is close enough to be intended.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(typed, known, (1 + typed.chars().count() / 4).min(5))
}

/// More names than this are not all listed in an error.
const FEW: usize = 40;

/// Most names in one "did you mean".
const CHOICE: usize = 5;

/// The remedy in an error: `did you mean X?`, or the list of all names, or that there are none.
pub fn hint(typed: &str, known: &[String]) -> String {
    if let Some(question) = question(typed, known) {
        return question;
    }
    match known {
        [] => "there are none".to_owned(),
        _ if known.len() <= FEW => format!("there are {}", known.join(", ")),
        _ => {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            format!(
                "the nearest are {}",
                closest(typed, &names, CHOICE).join(", ")
            )
        }
    }
}

/// The same for names that `tiltyard list WHAT` lists; few of them are named, and only if they have a word of what was typed.
pub fn hint_of_listed(typed: &str, known: &[String], what: &str) -> String {
    if let Some(question) = question(typed, known) {
        return question;
    }
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut near = closest(typed, &names, CHOICE);
    near.retain(|name| words(typed).any(|word| words(name).any(|own| own == word)));
    let all = format!("tiltyard list {what} shows all {}", known.len());
    match near[..] {
        [] => all,
        [one] => format!("the nearest is {one}; {all}"),
        _ => format!("the nearest are {}; {all}", near.join(", ")),
    }
}

/// `did you mean X?`, if a name may be intended.
pub fn question(typed: &str, known: &[String]) -> Option<String> {
    let begin: Vec<&str> = known
        .iter()
        .map(String::as_str)
        .filter(|name| typed.len() > 1 && begins_with(name, typed))
        .collect();
    let contain: Vec<&str> = known
        .iter()
        .map(String::as_str)
        .filter(|name| typed.len() > 2 && name.contains(typed))
        .collect();
    let meant = match nearest(typed, known.iter().map(String::as_str)) {
        _ if (1..=CHOICE).contains(&begin.len()) => begin,
        Some(name) => vec![name],
        None if (1..=CHOICE).contains(&contain.len()) => contain,
        None => return None,
    };
    Some(format!("did you mean {}?", meant.join(" or ")))
}

/// The remedy for a user who left out a file's extension: the first of `files` that exists.
pub fn own_file(files: &[String]) -> Option<String> {
    let file = files.iter().find(|file| Path::new(file).is_file())?;
    Some(format!("did you mean the file {file}?"))
}

/// Ignores case.
fn begins_with(name: &str, typed: &str) -> bool {
    let begin = name.get(..typed.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(typed))
}

fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c| "_. -/".contains(c))
}

/// The nearest of `known`, `most` of them, however far: first those with most of the typed words.
pub fn closest<'a>(typed: &str, known: &[&'a str], most: usize) -> Vec<&'a str> {
    let missing = |name: &str| {
        let lacks = |word: &&str| !words(name).any(|own| own == *word);
        words(typed).filter(lacks).count()
    };
    let mut names = known.to_vec();
    names.sort_by_key(|name| (missing(name), distance(typed, name), *name));
    names.dedup();
    names.truncate(most);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_as_typed_is_asked_about() {
        let known = ["xeon-e3", "xeon-x5650", "smp2", "smp4-arm"].map(str::to_owned);
        let asked = |typed| hint(typed, &known);
        assert_eq!(asked("Xeon"), "did you mean xeon-e3 or xeon-x5650?");
        assert_eq!(
            asked("smp4"),
            "did you mean smp4-arm?",
            "rather than what is nearer"
        );
        assert_eq!(
            asked("xeon-e3-1230"),
            "there are xeon-e3, xeon-x5650, smp2, smp4-arm"
        );
        assert_eq!(asked("xeon-x"), "did you mean xeon-x5650?");
    }

    #[test]
    fn what_contains_the_typed_is_asked_about_if_nothing_is_near() {
        let known = ["base_slice", "busy_factor", "wakeup_gran"].map(str::to_owned);
        assert_eq!(hint("slice", &known), "did you mean base_slice?");
        assert_eq!(
            hint("ce", &known),
            "there are base_slice, busy_factor, wakeup_gran",
            "two letters say too little"
        );
    }

    #[test]
    fn of_many_names_those_with_a_typed_word_are_named() {
        let known = ["suite/hackbench", "tbench", "loop-1k"].map(str::to_owned);
        let hint = |typed| hint_of_listed(typed, &known, "workloads");
        assert_eq!(
            hint("hackbench-of-my-own.json"),
            "the nearest is suite/hackbench; tiltyard list workloads shows all 3"
        );
        assert_eq!(hint("nothere.json"), "tiltyard list workloads shows all 3");
        assert_eq!(hint("tbensh"), "did you mean tbench?");
    }

    #[test]
    fn the_closest_are_offered_however_far() {
        let known = [
            "busy",
            "wakeup_us_p50",
            "wakeup_us_p99",
            "busy",
            "latency_us_p99",
        ];
        assert_eq!(
            closest("wakeup_p99", &known, 2),
            ["wakeup_us_p99", "wakeup_us_p50"]
        );
        assert_eq!(closest("bussy", &known, 9)[0], "busy");
        assert_eq!(closest("bussy", &known, 9).len(), 4, "each once");
        assert_eq!(closest("p99", &[], 3), [""; 0]);
    }
}
