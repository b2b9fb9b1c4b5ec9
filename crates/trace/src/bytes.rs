// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers and names as bytes: LEB128, as protocol buffers and DWARF have it.

/// The bytes are not a valid record: whatever wrote the file did not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong;

/// Appends `value`, seven bits a byte, the lowest first; the highest bit is set if more bytes follow.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps small numbers of either sign to small unsigned numbers: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Length in bytes, then UTF-8.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Takes bytes from the front of `rest`.
pub struct Bytes<'a> {
    pub rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn u8(&mut self) -> Result<u8, Wrong> {
        let (first, rest) = self.rest.split_first().ok_or(Wrong)?;
        self.rest = rest;
        Ok(*first)
    }

    pub fn u64(&mut self) -> Result<u64, Wrong> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Wrong);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Wrong)
    }

    pub fn u32(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.u64()?).map_err(|_| Wrong)
    }

    pub fn u16(&mut self) -> Result<u16, Wrong> {
        u16::try_from(self.u64()?).map_err(|_| Wrong)
    }

    pub fn i64(&mut self) -> Result<i64, Wrong> {
        self.u64().map(unzigzag)
    }

    pub fn i8(&mut self) -> Result<i8, Wrong> {
        i8::try_from(self.i64()?).map_err(|_| Wrong)
    }

    pub fn flag(&mut self) -> Result<bool, Wrong> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Wrong),
        }
    }

    pub fn text(&mut self) -> Result<String, Wrong> {
        let length = usize::try_from(self.u64()?).map_err(|_| Wrong)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(Wrong)?;
        self.rest = rest;
        str::from_utf8(text).map(str::to_owned).map_err(|_| Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were_at_every_width() {
        let edges = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, u64::MAX >> bit]);
        for value in edges {
            let mut out = Vec::new();
            put(&mut out, value);
            put(&mut out, zigzag(value as i64));
            let mut bytes = Bytes { rest: &out };
            assert_eq!(bytes.u64(), Ok(value));
            assert_eq!(bytes.i64(), Ok(value as i64));
            assert!(bytes.rest.is_empty());
        }
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn numbers_that_are_too_long_or_cut_are_wrong() {
        let read = |rest: &[u8]| Bytes { rest }.u64();
        let ten = |last| [[0xff; 9].as_slice(), &[last]].concat();
        assert_eq!(read(&ten(1)), Ok(u64::MAX));
        assert_eq!(read(&ten(2)), Err(Wrong));
        assert_eq!(read(&ten(0x81)), Err(Wrong));
        assert_eq!(read(&[0x80]), Err(Wrong));
        assert_eq!(Bytes { rest: &[3, b'a'] }.text(), Err(Wrong));
        assert_eq!(Bytes { rest: &[1, 0xff] }.text(), Err(Wrong));
    }
}
