// SPDX-License-Identifier: GPL-2.0-or-later
//! Durations as users type them: 10s, 500ms, 1.5m.

const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not a number with a unit.
    #[error("write a number and a unit (ns, us, ms, s, m, h): 10s, 500ms, 1.5m")]
    Syntax,
    /// Less than 1 ns.
    #[error("a duration of 0; write 1ns or more")]
    Zero,
    /// More ns than 64 bits hold.
    #[error("a duration of more than 584 years")]
    TooLong,
}

/// Reads a duration, ns. Exact: no floating point on the way.
pub fn parse_ns(text: &str) -> Result<u64, DurationError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or(DurationError::Syntax)?;
    let (number, unit) = text.split_at(end);
    let (_, unit_ns) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or(DurationError::Syntax)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().map_err(|_| DurationError::Syntax)?;
    if fraction.len() > 12 || number.ends_with('.') {
        return Err(DurationError::Syntax);
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let fraction: u64 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| DurationError::Syntax)?
    };
    let part_ns = u128::from(fraction) * u128::from(*unit_ns) / u128::from(scale);
    let sum_ns = u128::from(whole) * u128::from(*unit_ns) + part_ns;
    match u64::try_from(sum_ns) {
        Ok(0) => Err(DurationError::Zero),
        Ok(ns) => Ok(ns),
        Err(_) => Err(DurationError::TooLong),
    }
}

/// `ns` in the largest unit that leaves no fraction: what [`parse_ns`] reads.
pub fn write(ns: u64) -> String {
    let fits = UNITS
        .iter()
        .rev()
        .find(|(_, unit_ns)| ns.is_multiple_of(*unit_ns));
    let (unit, unit_ns) = fits.unwrap_or(&UNITS[0]);
    format!("{}{unit}", ns / unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions_are_exact() {
        assert_eq!(parse_ns("10s"), Ok(10_000_000_000));
        assert_eq!(parse_ns("500ms"), Ok(500_000_000));
        assert_eq!(parse_ns("1.5m"), Ok(90_000_000_000));
        assert_eq!(parse_ns("0.000000001s"), Ok(1));
        assert_eq!(parse_ns("7ns"), Ok(7));
        for text in ["7ns", "20s", "1500ms", "2h", "90m"] {
            assert_eq!(write(parse_ns(text).unwrap()), text);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "10",
            "s",
            "10 s",
            "-1s",
            "1e3s",
            "1.s",
            "1.2.3s",
            "0s",
            "0.1ns",
            "10d",
            "99999999999h",
        ] {
            assert!(parse_ns(text).is_err(), "{text}");
        }
    }
}
