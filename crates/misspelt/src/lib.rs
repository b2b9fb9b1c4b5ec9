// SPDX-License-Identifier: GPL-2.0-or-later
//! What a misspelt word was meant to be. All readers of input share this.

/// The known word that is nearest to the typed one, if it is close enough to have been meant; the first in the alphabet if
/// several are.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).clamp(1, 3);
    nearest_within(typed, known, limit)
}

/// The same for words that few others resemble: up to this distance.
pub fn nearest_within<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Edit distance: an insertion, deletion, replacement or swap of neighbours counts 1. Case is ignored. Long words are compared by
/// their first 64 characters.
pub fn distance(a: &str, b: &str) -> usize {
    let letters = |s: &str| s.to_ascii_lowercase().chars().take(64).collect::<String>();
    strsim::osa_distance(&letters(a), &letters(b))
}

/// An error of a TOML file in one line. Of a key that is not known it names the nearest of those that are; if none is near,
/// all of them, as serde does.
pub fn toml_line(error: &toml::de::Error) -> String {
    let line = error.message().lines().collect::<Vec<_>>().join(", ");
    let unknown = line.strip_prefix("unknown field `");
    let Some((typed, expected)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return line;
    };
    // Names are between backquotes: every second piece.
    match nearest(typed, expected.split('`').skip(1).step_by(2)) {
        Some(known) => format!("unknown field `{typed}`, did you mean `{known}`?"),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_offered() {
        let known = ["opteron1", "opteron32", "smp2"];
        assert_eq!(nearest("opteron", known), Some("opteron1"));
        assert_eq!(nearest("smp", known), Some("smp2"));
        assert_eq!(nearest("sparc", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest("OPTERON1", known), Some("opteron1"));
        assert_eq!(nearest("msp2", known), Some("smp2"), "two letters swapped");
        assert_eq!(nearest("prio", ["period", "priority"]), None);
        assert_eq!(nearest_within("fofi", ["fifo"], 2), Some("fifo"));
    }

    #[test]
    fn unknown_keys_of_toml_are_compared_with_the_known() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code)]
        struct Costs {
            switch_ns: u64,
            tick_ns: Option<u64>,
        }
        let line = |text: &str| toml_line(&toml::from_str::<Costs>(text).unwrap_err());
        assert_eq!(
            line("swich_ns = 5"),
            "unknown field `swich_ns`, did you mean `switch_ns`?"
        );
        assert_eq!(
            line("colour = 5"),
            "unknown field `colour`, expected `switch_ns` or `tick_ns`"
        );
        assert_eq!(line("tick_ns = 5"), "missing field `switch_ns`");
    }
}
