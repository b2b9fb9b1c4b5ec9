// SPDX-License-Identifier: GPL-2.0-or-later
//! Event files as inputs of a command.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use tiltyard_model::EventSink;
use tiltyard_trace::{About, EXTENSION, MAGIC, ReadError, Reader};

use crate::Error;
use crate::data;
use crate::error::Role;
use crate::in_use;

/// An event file whose head has been read. It is closed until its events are read: there may be more files than a process
/// may have open.
pub struct EventFile {
    path: PathBuf,
    /// The head of the file.
    pub about: About,
}

fn reader(path: &Path) -> Result<Reader<BufReader<File>>, Error> {
    let file = File::open(path).map_err(|e| Error::file(Role::Input, path, "read", e))?;
    Reader::open(BufReader::new(file)).map_err(|e| failure(path, &e))
}

impl EventFile {
    fn open(path: &Path) -> Result<EventFile, Error> {
        if !path.is_file() {
            let line = format!("{}: {}", path.display(), data::no_file(path));
            return Err(Error::input(line));
        }
        Ok(EventFile {
            path: path.to_owned(),
            about: reader(path)?.about().clone(),
        })
    }

    /// The file's name, for messages.
    pub fn shown(&self) -> String {
        data::shown(&self.path)
    }

    /// What the arena has put into the head.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let result = serde_json::from_value(self.about.result.clone());
        result.map_err(|e| failure(&self.path, &ReadError::Head(e.to_string())))
    }

    /// Sends all events to `sink`. Its result may be used only after success.
    pub fn replay(&self, sink: &mut dyn EventSink) -> Result<(), Error> {
        let reader = reader(&self.path)?;
        if *reader.about() != self.about {
            let line = format!("{}: changed while it was read", self.shown());
            return Err(Error::input(line));
        }
        reader.replay(sink).map_err(|e| failure(&self.path, &e))
    }
}

/// Whether `path` begins as event files do.
pub fn is_event_file(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    let mut read = || File::open(path)?.read_exact(&mut begin);
    // A pipe is not opened: that would wait for somebody who writes to it.
    path.is_file() && read().is_ok() && begin == MAGIC
}

fn failure(path: &Path, error: &ReadError) -> Error {
    Error::input(format!("{}: {error}", data::shown(path)))
}

/// Opens files and all event files in folders. They are in the order of their runs if they are from one command, which
/// numbers its runs; otherwise in the order in which they were named.
pub fn open(paths: &[PathBuf]) -> Result<Vec<EventFile>, Error> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(in_folder(path)?),
            false => files.push(EventFile::open(path)?),
        }
    }
    files.iter().for_each(|file| in_use::is_read(&file.path));
    let mut numbers: Vec<u32> = files.iter().map(|file| file.about.run).collect();
    numbers.sort_unstable();
    if numbers.windows(2).all(|pair| pair[0] < pair[1]) {
        files.sort_by_key(|file| file.about.run);
    }
    Ok(files)
}

fn in_folder(folder: &Path) -> Result<Vec<EventFile>, Error> {
    let suffix = format!(".{EXTENSION}");
    let names = data::names(folder, &suffix)?;
    if names.is_empty() {
        let line = format!(
            "{}: has no event files (*{suffix}); tiltyard run and tiltyard kernel write them with --events DIR",
            folder.display()
        );
        return Err(Error::input(line));
    }
    let paths = names
        .iter()
        .map(|name| folder.join(format!("{name}{suffix}")));
    paths.map(|path| EventFile::open(&path)).collect()
}
