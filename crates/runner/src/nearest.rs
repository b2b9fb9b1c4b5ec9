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

/// ` did you mean X?`, or the list of all names, or that there are none: the remedy in an error.
pub fn hint(typed: &str, known: &[String]) -> String {
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
    match nearest(typed, known.iter().map(String::as_str)) {
        _ if (1..=CHOICE).contains(&begin.len()) => {
            format!("did you mean {}?", begin.join(" or "))
        }
        Some(name) => format!("did you mean {name}?"),
        None if (1..=CHOICE).contains(&contain.len()) => {
            format!("did you mean {}?", contain.join(" or "))
        }
        None if known.is_empty() => "there are none".to_owned(),
        None if known.len() <= FEW => format!("there are {}", known.join(", ")),
        None => {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            let (near, all) = (closest(typed, &names, CHOICE).join(", "), known.len());
            format!("the nearest are {near}; tiltyard list shows all {all}")
        }
    }
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

/// The nearest of `known`, `most` of them, however far: first those with most of the typed words.
pub fn closest<'a>(typed: &str, known: &[&'a str], most: usize) -> Vec<&'a str> {
    let is_separator = |c: char| "_. -".contains(c);
    let words: Vec<&str> = typed.split(is_separator).collect();
    let missing = |name: &str| {
        let lacks = |word: &&&str| !name.split(is_separator).any(|own| own == **word);
        words.iter().filter(lacks).count()
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
