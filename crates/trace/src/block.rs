// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks of records, compressed, and the checks between them.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// Bytes of records that a block collects before it is compressed: larger blocks compress no better.
pub const FULL_BYTES: usize = 1 << 18;

/// Longest block, uncompressed and compressed, for which a reader must have room. A record is never divided, and none is
/// longer than three names.
pub const MAX_BYTES: usize = 1 << 20;

/// Longest head.
pub const MAX_HEAD_BYTES: usize = 1 << 24;

/// Bytes of a check.
pub const CHECK_BYTES: usize = 8;

/// Lengths of a block: compressed, uncompressed. Both are 0 at the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub stored: u32,
    pub raw: u32,
}

impl Lengths {
    pub const END: Lengths = Lengths { stored: 0, raw: 0 };

    pub fn bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.stored.to_le_bytes());
        bytes[4..].copy_from_slice(&self.raw.to_le_bytes());
        bytes
    }

    pub fn parse(bytes: [u8; 8]) -> Lengths {
        let [a, b, c, d, e, f, g, h] = bytes;
        Lengths {
            stored: u32::from_le_bytes([a, b, c, d]),
            raw: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

/// Hashes all that passes through it, so that each check covers the whole file before it.
pub struct Checked<T> {
    pub inner: T,
    hash: Sha256,
    /// Bytes that have passed.
    pub at: u64,
}

impl<T> Checked<T> {
    pub fn new(inner: T) -> Self {
        Checked {
            inner,
            hash: Sha256::new(),
            at: 0,
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.at += bytes.len() as u64;
    }

    /// The beginning of the SHA-256 of everything so far.
    fn check(&self) -> [u8; CHECK_BYTES] {
        let digest = self.hash.clone().finalize();
        digest[..CHECK_BYTES].try_into().expect("it has 32")
    }
}

impl<W: Write> Checked<W> {
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pass(bytes);
        self.inner.write_all(bytes)
    }

    pub fn put_check(&mut self) -> io::Result<()> {
        let check = self.check();
        self.put(&check)
    }
}

impl<R: Read> Checked<R> {
    pub fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.pass(&bytes);
        Ok(bytes)
    }

    /// Fills `into` with `length` bytes. It takes no more memory than the input has bytes.
    pub fn take(&mut self, length: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        (&mut self.inner).take(length as u64).read_to_end(into)?;
        if into.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.pass(into);
        Ok(())
    }

    /// Reads the check that follows: whether it matches what came before it.
    pub fn read_check(&mut self) -> io::Result<bool> {
        let expected = self.check();
        Ok(self.array()? == expected)
    }
}
