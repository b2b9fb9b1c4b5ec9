// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a file again: its head at once, its events to a sink.

use std::io::{self, Read};

use tiltyard_model::EventSink;
use zstd::bulk::Decompressor;

use crate::about::About;
use crate::block::{Checked, Lengths, MAX_BYTES, MAX_HEAD_BYTES};
use crate::bytes::Bytes;
use crate::check::Check;
use crate::{FIRST_VERSION, MAGIC, VERSION, record};

/// Why a file cannot be read, as the end of a line that begins with its name.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(
        "is not an event file; tiltyard run and tiltyard kernel write one for each run with --events DIR"
    )]
    NotEvents,
    #[error(
        "has format {0}, and this tiltyard reads formats {FIRST_VERSION} to {VERSION}: use a tiltyard as new as the one that wrote it"
    )]
    Version(u32),
    #[error("is incomplete: copy it again, or record the run again")]
    Truncated,
    #[error("is damaged before byte {0}: copy it again, or record the run again")]
    Damaged(u64),
    #[error(
        "has a head that this tiltyard does not understand: {0}; use the tiltyard that wrote it"
    )]
    Head(String),
    #[error("cannot read: {0}")]
    Io(io::Error),
}

/// An event file whose head has been read.
pub struct Reader<R> {
    input: Checked<R>,
    about: About,
}

impl<R: Read> Reader<R> {
    /// Reads and checks the head.
    pub fn open(input: R) -> Result<Self, ReadError> {
        let mut input = Checked::new(input);
        require_magic(&mut input)?;
        let version = u32::from_le_bytes(read(&mut input, Checked::array)?);
        if !(FIRST_VERSION..=VERSION).contains(&version) {
            return Err(ReadError::Version(version));
        }
        let length = u32::from_le_bytes(read(&mut input, Checked::array)?) as usize;
        let mut head = Vec::new();
        if length > MAX_HEAD_BYTES {
            return Err(ReadError::Damaged(input.at));
        }
        read(&mut input, |input| input.take(length, &mut head))?;
        require_whole(&mut input)?;
        let about: About =
            serde_json::from_slice(&head).map_err(|error| ReadError::Head(error.to_string()))?;
        match about.fault() {
            None => Ok(Reader { input, about }),
            Some(fault) => Err(ReadError::Head(fault.to_owned())),
        }
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// Sends all events to `sink`. After an error, `sink` has received only some of them; discard its result.
    pub fn replay(mut self, sink: &mut dyn EventSink) -> Result<(), ReadError> {
        let input = &mut self.input;
        let mut check = Check::new(self.about.machine.nr_cpus, self.about.end_ns);
        let mut decompressor = Decompressor::new().map_err(ReadError::Io)?;
        let (mut stored, mut records) = (Vec::new(), Vec::new());
        loop {
            let lengths = Lengths::parse(read(input, Checked::array)?);
            let (stored_bytes, raw_bytes) = (lengths.stored as usize, lengths.raw as usize);
            if stored_bytes.max(raw_bytes) > MAX_BYTES {
                return Err(ReadError::Damaged(input.at));
            }
            read(input, |input| input.take(stored_bytes, &mut stored))?;
            require_whole(input)?;
            if lengths == Lengths::END {
                return require_end(input);
            }
            records.clear();
            records.reserve(raw_bytes);
            let length = decompressor.decompress_to_buffer(&stored, &mut records);
            if !length.is_ok_and(|length| length == raw_bytes) {
                return Err(ReadError::Damaged(input.at));
            }
            let mut bytes = Bytes { rest: &records };
            while !bytes.rest.is_empty() {
                record::replay(&mut bytes, &mut check, sink)
                    .map_err(|_| ReadError::Damaged(input.at))?;
            }
        }
    }
}

fn read<R, T>(
    input: &mut Checked<R>,
    take: impl FnOnce(&mut Checked<R>) -> io::Result<T>,
) -> Result<T, ReadError> {
    take(input).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated,
        _ => ReadError::Io(error),
    })
}

/// A file that ends within the magic bytes is a truncated one, if it has at least one of them.
fn require_magic(input: &mut Checked<impl Read>) -> Result<(), ReadError> {
    let mut begin = Vec::new();
    match input.take(MAGIC.len(), &mut begin) {
        Ok(()) if begin == MAGIC => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(ReadError::Io(error)),
        Err(_) if !begin.is_empty() && MAGIC.starts_with(&begin) => Err(ReadError::Truncated),
        _ => Err(ReadError::NotEvents),
    }
}

fn require_whole(input: &mut Checked<impl Read>) -> Result<(), ReadError> {
    match read(input, Checked::read_check)? {
        true => Ok(()),
        false => Err(ReadError::Damaged(input.at)),
    }
}

/// Nothing follows the end.
fn require_end(input: &mut Checked<impl Read>) -> Result<(), ReadError> {
    match read(input, |input| input.take(1, &mut Vec::new())) {
        Err(ReadError::Truncated) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(ReadError::Damaged(input.at)),
    }
}
