// SPDX-License-Identifier: GPL-2.0-or-later
//! Figures as people read them: three significant digits and a unit.

/// `value` with three significant digits, without an exponent.
fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // Round first: 9.996 has two digits before its point once it is 10.0.
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    let whole_digits = rounded.abs().log10().floor() as i32 + 1;
    let decimals = (3 - whole_digits).clamp(0, 6) as usize;
    format!("{rounded:.decimals$}")
}

/// A duration in the largest unit that leaves at least 1 before the point.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size >= 999.5e6 => (ns / 1e9, "s"),
        size if size >= 999.5e3 => (ns / 1e6, "ms"),
        size if size >= 999.5 => (ns / 1e3, "us"),
        _ => (ns.round(), "ns"),
    };
    match unit {
        "s" if value.abs() >= 1000.0 => format!("{} s", count(value)),
        _ => format!("{} {unit}", three_digits(value)),
    }
}

/// A whole number in groups of three digits.
pub fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value <= -0.5 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A fraction of one as a percentage.
pub fn share(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent.abs() {
        0.0 => "0 %".to_owned(),
        size if size < 0.005 => "< 0.01 %".to_owned(),
        size if size < 0.1 => format!("{percent:.2} %"),
        size if size < 99.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// A difference as a percentage, with its sign.
pub fn change(fraction: f64) -> String {
    format!("{} %", signed_percent(fraction))
}

/// The same without its unit.
pub fn signed_percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent.abs() {
        size if size < 0.05 => "0.0".to_owned(),
        size if size < 99.95 => format!("{percent:+.1}"),
        _ if percent > 0.0 => format!("+{}", count(percent)),
        _ => count(percent),
    }
}

/// A rate.
pub fn per_second(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => format!("{} /s", count(value)),
        _ => format!("{} /s", three_digits(value)),
    }
}

/// A ratio or an index.
pub fn plain(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => count(value),
        size if size > 0.0 && size < 0.005 => "< 0.01".to_owned(),
        size if size < 1.0 => format!("{value:.2}"),
        _ => three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_three_digits() {
        let cases = [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1.00 us"),
            (999_600.0, "1.00 ms"),
            (148_000_000.0, "148 ms"),
            (11_846_000.0, "11.8 ms"),
            (9_996_000.0, "10.0 ms"),
            (141e9, "141 s"),
            (86_400e9, "86 400 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn changes_have_a_sign() {
        let got = [0.1234, -0.0512, 0.0001, -1.0, 12.346].map(change);
        assert_eq!(got, ["+12.3 %", "-5.1 %", "0.0 %", "-100 %", "+1 235 %"]);
    }

    #[test]
    fn counts_shares_and_ratios() {
        assert_eq!(count(1_204_113.0), "1 204 113");
        assert_eq!(count(-12.0), "-12");
        assert_eq!(
            (share(0.491), share(0.00001), share(1.0)),
            ("49.1 %".into(), "< 0.01 %".into(), "100 %".into())
        );
        assert_eq!(
            (plain(0.5), plain(2.0), plain(0.001)),
            ("0.50".into(), "2.00".into(), "< 0.01".into())
        );
        assert_eq!(
            (per_second(531.2), per_second(12345.0)),
            ("531 /s".into(), "12 345 /s".into())
        );
    }
}
