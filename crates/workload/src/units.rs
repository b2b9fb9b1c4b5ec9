// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers as written to integers as meant, exactly or not at all.

/// Why a number cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    Negative,
    /// More decimals than the unit has.
    TooFine,
    TooLarge,
}

/// `number` (JSON's grammar) times `10^decimals`, which must be a whole number that fits.
///
/// 12.5 with 3 decimals is 12500: microseconds to nanoseconds, shares to thousandths.
pub(crate) fn scaled(number: &str, decimals: u32) -> Result<u64, NumberError> {
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    if negative {
        return Err(NumberError::Negative);
    }
    let exponent: i64 = exponent
        .parse()
        .map_err(|_| exponent_out_of_range(exponent))?;
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let shift = exponent + i64::from(decimals) - fraction.len() as i64 + trailing as i64;
    if shift < 0 {
        return Err(NumberError::TooFine);
    }
    let value: u64 = significant.parse().map_err(|_| NumberError::TooLarge)?;
    let power = u32::try_from(shift)
        .ok()
        .and_then(|shift| 10u64.checked_pow(shift));
    power
        .and_then(|power| value.checked_mul(power))
        .ok_or(NumberError::TooLarge)
}

/// `number` times `factor`, written; `None` unless it is a whole number of 0 or more that fits.
pub(crate) fn times(number: &str, factor: u64) -> Option<String> {
    let decimals = factor.checked_ilog10()?;
    let rest = factor / 10u64.pow(decimals);
    let value = scaled(number, decimals).ok()?.checked_mul(rest)?;
    Some(value.to_string())
}

fn exponent_out_of_range(exponent: &str) -> NumberError {
    if exponent.starts_with('-') {
        NumberError::TooFine
    } else {
        NumberError::TooLarge
    }
}

/// The shortest decimal that [`scaled`] turns into `value` again.
pub(crate) fn unscaled(value: u64, decimals: u32) -> String {
    let unit = 10u64.pow(decimals);
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = decimals as usize;
    format!("{whole}.{fraction:0width$}")
        .trim_end_matches('0')
        .to_string()
}

/// A whole number with its sign. `None`: a fraction, or out of range.
pub(crate) fn integer(number: &str) -> Option<i64> {
    match number.strip_prefix('-') {
        Some(positive) => i64::try_from(scaled(positive, 0).ok()?).ok().map(|n| -n),
        None => i64::try_from(scaled(number, 0).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(scaled("12.5", 3), Ok(12_500));
        assert_eq!(scaled("0.001", 3), Ok(1));
        assert_eq!(scaled("158e6", 3), Ok(158_000_000_000));
        assert_eq!(scaled("1.50e1", 0), Ok(15));
        assert_eq!(scaled("-0.0", 3), Ok(0));
        assert_eq!(scaled("18446744073709551615", 0), Ok(u64::MAX));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(scaled("-1", 3), Err(NumberError::Negative));
        assert_eq!(scaled("0.0001", 3), Err(NumberError::TooFine));
        assert_eq!(
            scaled("1e-99999999999999999999", 3),
            Err(NumberError::TooFine)
        );
        assert_eq!(
            scaled("18446744073709551616", 0),
            Err(NumberError::TooLarge)
        );
        assert_eq!(
            scaled("1e99999999999999999999", 0),
            Err(NumberError::TooLarge)
        );
    }

    #[test]
    fn whole_numbers_keep_their_sign() {
        assert_eq!(integer("-19"), Some(-19));
        assert_eq!(integer("2e3"), Some(2000));
        assert_eq!(integer("1.5"), None);
        assert_eq!(integer("9223372036854775808"), None);
    }

    proptest! {
        #[test]
        fn writing_then_reading_gives_the_same(value: u64, decimals in 0u32..=6) {
            prop_assert_eq!(scaled(&unscaled(value, decimals), decimals), Ok(value));
        }
    }
}
