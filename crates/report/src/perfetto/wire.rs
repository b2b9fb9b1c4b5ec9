// SPDX-License-Identifier: GPL-2.0-or-later
//! Protocol Buffers on the wire: the three encodings that a trace needs.

/// A message under construction. Fields are written in the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub bytes: Vec<u8>,
}

/// Wire types of the encoding.
const VARINT: u32 = 0;
const LENGTH_DELIMITED: u32 = 2;

impl Message {
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    /// uint32, uint64, bool and enum fields.
    pub fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    /// int32 and int64 fields: negative values take ten bytes.
    pub fn int(&mut self, field: u32, value: i64) -> &mut Self {
        self.uint(field, value as u64)
    }

    pub fn raw(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn str(&mut self, field: u32, text: &str) -> &mut Self {
        self.raw(field, text.as_bytes())
    }

    pub fn message(&mut self, field: u32, message: &Message) -> &mut Self {
        self.raw(field, &message.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn the_encodings_known_from_the_specification() {
        // The examples of "Encoding" in the Protocol Buffers documentation.
        let bytes = |message: &mut Message| std::mem::take(&mut message.bytes);
        assert_eq!(bytes(Message::new().uint(1, 150)), [0x08, 0x96, 0x01]);
        assert_eq!(bytes(Message::new().str(2, "testing")), b"\x12\x07testing");
        let minus_two = [
            0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(bytes(Message::new().int(1, -2)), minus_two);
    }
}
