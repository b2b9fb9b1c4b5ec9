// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers of a plan as they lie in the scheduler's memory.

use crate::plan::{Call, Entry};
use crate::table::EnvironmentError;

/// A number as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub kind: NumberKind,
    /// Bytes, 1 to 8.
    pub size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    Bool,
    Signed,
    Unsigned,
}

/// A number in the struct that a program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a str,
    pub offset: usize,
    pub number: Number,
}

impl Call {
    /// The struct that the program takes, up to the last of its numbers. Those that the call does not name are 0.
    pub fn argument_bytes(&self, fields: &[Field]) -> Result<Vec<u8>, EnvironmentError> {
        let end = fields.iter().map(|field| field.offset + field.number.size);
        let mut bytes = vec![0; end.max().unwrap_or(0)];
        for (name, value) in &self.arguments {
            let key = format!("calls, {}, {name}", self.program);
            let field = fields.iter().find(|field| field.name == name);
            let Some(Field { offset, number, .. }) = field else {
                let what = "argument of the program";
                return Err(EnvironmentError::Missing { key, what });
            };
            let own = le_bytes(&key, *value, number.size, Some(number.kind))?;
            bytes[*offset..offset + number.size].copy_from_slice(&own);
        }
        Ok(bytes)
    }
}

impl Entry {
    /// Key and value as they lie in memory, in so many bytes each.
    pub fn bytes(
        &self,
        key_size: usize,
        value_size: usize,
    ) -> Result<(Vec<u8>, Vec<u8>), EnvironmentError> {
        let name = format!("maps, {}", self.map);
        Ok((
            le_bytes(&format!("{name}, key"), self.key, key_size, None)?,
            le_bytes(&format!("{name}, value"), self.value, value_size, None)?,
        ))
    }

    /// The map does not take it.
    pub fn refused(&self, why: &str) -> EnvironmentError {
        EnvironmentError::Value {
            key: format!("maps, {}, key", self.map),
            value: self.key.to_string(),
            what: format!("the map does not take this element: {why}"),
        }
    }
}

/// A number in `size` bytes, low byte first, if it fits them: with or without a sign where the kind is not known.
pub(crate) fn le_bytes(
    key: &str,
    value: i64,
    size: usize,
    kind: Option<NumberKind>,
) -> Result<Vec<u8>, EnvironmentError> {
    let wrong = |what: &str| EnvironmentError::Value {
        key: key.to_owned(),
        value: value.to_string(),
        what: what.to_owned(),
    };
    if !(1..=8).contains(&size) {
        return Err(wrong(&format!(
            "the scheduler has {size} bytes there, no number"
        )));
    }
    let half = 1_i128 << (8 * size - 1);
    let (low, high) = match kind {
        Some(NumberKind::Bool) => (0, 1),
        Some(NumberKind::Signed) => (-half, half - 1),
        Some(NumberKind::Unsigned) => (0, 2 * half - 1),
        None => (-half, 2 * half - 1),
    };
    match kind {
        _ if (low..=high).contains(&i128::from(value)) => Ok(value.to_le_bytes()[..size].to_vec()),
        Some(NumberKind::Bool) => Err(wrong("neither true nor false")),
        Some(_) => Err(wrong(&format!("it must be from {low} to {high}"))),
        None => Err(wrong(&format!("it does not fit {size} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Moment;

    #[test]
    fn numbers_that_do_not_fit_are_errors() {
        let call = |name: &str, value| Call {
            program: "p".to_owned(),
            arguments: vec![(name.to_owned(), value)],
            moment: Moment::Loaded,
            cpu: None,
        };
        let field = |name, offset, size, kind| Field {
            name,
            offset,
            number: Number { kind, size },
        };
        let fields = [
            field("a", 0, 4, NumberKind::Signed),
            field("b", 6, 2, NumberKind::Unsigned),
        ];
        let bytes = |name: &str, value| {
            let bytes = call(name, value).argument_bytes(&fields);
            bytes.map_err(|error| error.to_string())
        };
        assert_eq!(bytes("a", -2), Ok(vec![0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
        assert_eq!(bytes("b", 65_535), Ok(vec![0, 0, 0, 0, 0, 0, 0xff, 0xff]));
        let error = |text: &str| Err(format!("[environment] {text}"));
        assert_eq!(
            bytes("b", 65_536),
            error("calls, p, b = 65536: it must be from 0 to 65535")
        );
        assert_eq!(
            bytes("a", 3_000_000_000),
            error("calls, p, a = 3000000000: it must be from -2147483648 to 2147483647")
        );
        assert_eq!(
            bytes("c", 0),
            error("calls, p, c: the scheduler has no such argument of the program")
        );
        let entry = Entry {
            map: "m".to_owned(),
            key: 256,
            value: -1,
        };
        assert_eq!(entry.bytes(2, 1), Ok((vec![0, 1], vec![0xff])));
        let error = |key, value| entry.bytes(key, value).unwrap_err().to_string();
        assert_eq!(
            error(1, 1),
            "[environment] maps, m, key = 256: it does not fit 1 bytes"
        );
        assert_eq!(
            error(2, 16),
            "[environment] maps, m, value = -1: the scheduler has 16 bytes there, no number"
        );
        assert_eq!(
            entry.refused("E2BIG").to_string(),
            "[environment] maps, m, key = 256: the map does not take this element: E2BIG"
        );
    }
}
