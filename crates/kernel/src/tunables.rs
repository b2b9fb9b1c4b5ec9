// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler's tunables: its `const volatile` globals, set by name in the object's read-only
//! data before it is loaded, each in its own type.

use crate::protocol::Tunable;
use crate::types::{Slot, TypeKind};

#[derive(Debug, thiserror::Error)]
pub enum TunableError {
    #[error("the scheduler has no tunable {name:?}; it has: {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },

    #[error("tunable {name}: {value:?} is not {expected}")]
    Value {
        name: String,
        value: String,
        expected: String,
    },
}

/// Writes all values into `rodata`, whose variables are `variables`.
pub fn set_all(
    rodata: &mut [u8],
    variables: &[&Slot],
    values: &[Tunable],
) -> Result<(), TunableError> {
    let settable: Vec<&Slot> = variables
        .iter()
        .copied()
        .filter(|slot| is_tunable(slot))
        .collect();
    values
        .iter()
        .try_for_each(|tunable| set(rodata, &settable, tunable))
}

/// What a user may set: the scheduler's own numbers, not what the headers keep beside them.
fn is_tunable(slot: &Slot) -> bool {
    let is_number = match &slot.kind {
        TypeKind::Bool | TypeKind::Signed | TypeKind::Unsigned => {
            matches!(slot.size, 1 | 2 | 4 | 8)
        }
        TypeKind::Array { elements, .. } => {
            matches!(slot.size.checked_div(*elements), Some(1 | 2 | 4 | 8))
        }
        _ => false,
    };
    is_number
        && !slot.name.starts_with("__")
        && !slot.name.starts_with("scx_lib_")
        && slot.name != "tilt_probes_on"
}

fn set(rodata: &mut [u8], settable: &[&Slot], tunable: &Tunable) -> Result<(), TunableError> {
    let Some(slot) = settable.iter().find(|slot| slot.name == tunable.name) else {
        let known = settable.iter().map(|slot| slot.name.clone()).collect();
        return Err(TunableError::Unknown {
            name: tunable.name.clone(),
            known,
        });
    };
    let wrong = |expected: String| TunableError::Value {
        name: tunable.name.clone(),
        value: tunable.value.clone(),
        expected,
    };
    let (kind, elements, words): (&TypeKind, usize, Vec<&str>) = match &slot.kind {
        // The first elements; the others keep their values.
        TypeKind::Array { element, elements } => {
            (element, *elements, tunable.value.split('/').collect())
        }
        kind => (kind, 1, vec![&tunable.value]),
    };
    if words.len() > elements {
        return Err(wrong(format!("at most {elements} values")));
    }
    let size = slot.size / elements;
    for (index, word) in words.into_iter().enumerate() {
        let (bytes, expected) = encode(kind, size, word);
        let bytes = bytes.ok_or_else(|| wrong(expected))?;
        // BPF objects are little-endian here (clang -mlittle-endian), so the low bytes come first.
        let at = slot.offset + index * size;
        rodata[at..at + size].copy_from_slice(&bytes[..size]);
    }
    Ok(())
}

/// The value as bytes, low first, or none if it does not fit; and what would.
fn encode(kind: &TypeKind, size: usize, value: &str) -> (Option<[u8; 8]>, String) {
    let bits = 8 * size as u32;
    match kind {
        TypeKind::Bool => {
            let number = match value {
                "true" | "1" => Some(1_u64),
                "false" | "0" => Some(0),
                _ => None,
            };
            (number.map(u64::to_le_bytes), "true or false".to_owned())
        }
        TypeKind::Signed => {
            let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
            let number = value
                .parse()
                .ok()
                .filter(|number| (low..=high).contains(number));
            (
                number.map(i64::to_le_bytes),
                format!("a whole number from {low} to {high}"),
            )
        }
        _ => {
            let high = u64::MAX >> (64 - bits);
            let number = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            };
            let number = number.filter(|number| *number <= high);
            (
                number.map(u64::to_le_bytes),
                format!("a whole number from 0 to {high}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str, offset: usize, size: usize, kind: TypeKind) -> Slot {
        Slot {
            name: name.to_owned(),
            offset,
            size,
            kind,
        }
    }

    fn tunable(name: &str, value: &str) -> Tunable {
        Tunable {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn arrays_take_their_first_elements() {
        let kind = TypeKind::Array {
            element: Box::new(TypeKind::Unsigned),
            elements: 3,
        };
        let capacity = slot("capacity", 2, 6, kind);
        let mut rodata = [9; 10];
        set_all(
            &mut rodata,
            &[&capacity],
            &[tunable("capacity", "1024/0x200")],
        )
        .unwrap();
        assert_eq!(rodata, [9, 9, 0, 4, 0, 2, 9, 9, 9, 9]);
        let error = |value| {
            let mut rodata = [0; 10];
            let set = set_all(&mut rodata, &[&capacity], &[tunable("capacity", value)]);
            set.unwrap_err().to_string()
        };
        assert_eq!(
            error("1/2/3/4"),
            "tunable capacity: \"1/2/3/4\" is not at most 3 values"
        );
        assert_eq!(
            error("1/70000"),
            "tunable capacity: \"1/70000\" is not a whole number from 0 to 65535"
        );
    }

    #[test]
    fn values_land_at_their_place_in_their_size() {
        let slice = slot("slice_ms", 4, 4, TypeKind::Unsigned);
        let nice = slot("nice", 8, 2, TypeKind::Signed);
        let mut rodata = [0xff; 12];
        let values = [tunable("slice_ms", "0x102"), tunable("nice", "-2")];
        set_all(&mut rodata, &[&slice, &nice], &values).unwrap();
        assert_eq!(
            rodata,
            [255, 255, 255, 255, 2, 1, 0, 0, 0xfe, 0xff, 255, 255]
        );
    }

    #[test]
    fn an_unknown_tunable_lists_the_right_ones() {
        let slice = slot("slice_ms", 0, 4, TypeKind::Unsigned);
        let error = set_all(&mut [0; 4], &[&slice], &[tunable("slice", "1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the scheduler has no tunable \"slice\"; it has: slice_ms"
        );
    }

    #[test]
    fn a_value_that_does_not_fit_says_what_would() {
        let check = |kind, size, value: &str| {
            let slot = slot("x", 0, size, kind);
            set_all(&mut [0; 8], &[&slot], &[tunable("x", value)])
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            check(TypeKind::Unsigned, 1, "256"),
            "tunable x: \"256\" is not a whole number from 0 to 255"
        );
        assert_eq!(
            check(TypeKind::Signed, 1, "-129"),
            "tunable x: \"-129\" is not a whole number from -128 to 127"
        );
        assert_eq!(
            check(TypeKind::Bool, 1, "maybe"),
            "tunable x: \"maybe\" is not true or false"
        );
    }

    #[test]
    fn what_the_headers_keep_is_no_tunable() {
        let number = |name: &str| slot(name, 0, 4, TypeKind::Unsigned);
        assert!(is_tunable(&number("slice_ms")));
        assert!(!is_tunable(&number("__SCX_SLICE_DFL")));
        assert!(!is_tunable(&number("scx_lib_features")));
        assert!(!is_tunable(&number("tilt_probes_on")));
        assert!(!is_tunable(&slot("table", 0, 4, TypeKind::Other("array"))));
    }
}
