// SPDX-License-Identifier: GPL-2.0-or-later
//! Scores that a command prints: transactions per second, for instance.

use crate::cell::{Better, Unit};
use crate::figures::{COMMAND, Figure};

/// Understands `NAME VALUE` and `NAME VALUE higher|lower`. A name ends with its unit: `transactions_per_s`, or a time
/// as `latency_p99_ms`; of rates the higher, of times the lower one is better. Anything else is a number without a
/// unit, of which only the third word says what is good.
pub fn score(text: &str) -> Option<Figure> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, value, direction) = match words[..] {
        [name, value] => (name, value, None),
        [name, value, direction] => (name, value, Some(direction)),
        _ => return None,
    };
    let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    let units = [
        ("_per_s", Unit::PerSecond, Better::Higher, 1.0),
        ("_ns", Unit::TimeNs, Better::Lower, 1.0),
        ("_us", Unit::TimeNs, Better::Lower, 1e3),
        ("_ms", Unit::TimeNs, Better::Lower, 1e6),
        ("_s", Unit::TimeNs, Better::Lower, 1e9),
    ];
    let known = units.into_iter().find_map(|(ending, unit, better, scale)| {
        Some((name.strip_suffix(ending)?, unit, better, scale))
    });
    let (metric, unit, usual, scale) = known.unwrap_or((name, Unit::Plain, Better::Neither, 1.0));
    let better = match direction {
        None => usual,
        Some("higher") => Better::Higher,
        Some("lower") => Better::Lower,
        Some(_) => return None,
    };
    (!metric.is_empty()).then(|| Figure {
        group: COMMAND.to_owned(),
        name: name.to_owned(),
        metric: metric.replace('_', " "),
        unit,
        better,
        headline: true,
        value: value * scale,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_unit() {
        let got = |text| score(text).map(|s| (s.metric, s.unit, s.better, s.value));
        let expect =
            |metric: &str, unit, better, value| Some((metric.to_owned(), unit, better, value));
        assert_eq!(
            got("transactions_per_s 532.1"),
            expect("transactions", Unit::PerSecond, Better::Higher, 532.1)
        );
        assert_eq!(
            got("latency_p99_ms 12"),
            expect("latency p99", Unit::TimeNs, Better::Lower, 12e6)
        );
        assert_eq!(
            got("build_s 2.5 higher"),
            expect("build", Unit::TimeNs, Better::Higher, 2.5e9)
        );
        assert_eq!(
            got("frames_dropped 3 lower"),
            expect("frames dropped", Unit::Plain, Better::Lower, 3.0)
        );
        assert_eq!(
            got("tasks 3"),
            expect("tasks", Unit::Plain, Better::Neither, 3.0)
        );
    }

    #[test]
    fn what_is_no_score_is_none() {
        for text in [
            "",
            "one",
            "a b",
            "a 1 best",
            "a 1 lower still",
            "a nan",
            "a inf",
            "_per_s 3",
        ] {
            assert_eq!(score(text), None, "{text}");
        }
    }
}
