// SPDX-License-Identifier: GPL-2.0-or-later
//! `--events DIR`: a folder with one event file for each run, written completely or not at all.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tiltyard_trace::{About, EXTENSION, Ended, Recording, WriteError};

use crate::Error;
use crate::error::Role;
use crate::in_use::ToWrite;
use crate::temporary;

/// Longest part of a file's name that comes from a scheduler's label; labels may list many tunables.
const MAX_LABEL_BYTES: usize = 100;

/// The event files of a command, on their way into a folder. Runs may be recorded concurrently.
pub struct EventDir {
    dir: PathBuf,
    /// Beside `dir`, so that its content can be renamed to `dir`.
    temporary: TempDir,
    _own: ToWrite,
}

/// The events of one run on their way into a file.
pub type RunRecording = Recording<BufWriter<File>>;

impl EventDir {
    /// Checks before hours of work whether `dir` may be written: it is new, empty, or holds nothing but event files,
    /// which are replaced at the end.
    pub fn create(dir: &Path) -> Result<EventDir, Error> {
        let own = ToWrite::new(dir)?;
        check(dir)?;
        let error = |e: io::Error| Error::file(Role::Output, dir, "write", e);
        // A symbolic link stays a link: its target is replaced.
        let target = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let hidden = || temporary::hidden().tempdir_in(parent);
        let temporary = temporary::make(hidden, TempDir::path);
        let temporary = temporary.map_err(error)?;
        let all = EventDir {
            dir: target,
            temporary,
            _own: own,
        };
        for folder in [all.blocks(), all.files()] {
            fs::create_dir(folder).map_err(error)?;
        }
        Ok(all)
    }

    fn blocks(&self) -> PathBuf {
        self.temporary.path().join("blocks")
    }

    fn files(&self) -> PathBuf {
        self.temporary.path().join("files")
    }

    fn failure(&self, error: &WriteError) -> Error {
        Error::Output(format!("{}: {error}", self.dir.display()))
    }

    fn io_failure(&self, error: io::Error) -> Error {
        self.failure(&WriteError::Io(error))
    }

    /// A sink for the events of the run with this number.
    pub fn record(&self, run: u32) -> Result<RunRecording, Error> {
        let file = File::create(self.blocks().join(run.to_string()));
        let file = file.map_err(|e| self.io_failure(e))?;
        Ok(Recording::new(BufWriter::new(file)))
    }

    /// The run is over. Its file can be written once everything about it is known.
    pub fn end(&self, recording: RunRecording) -> Result<Ended, Error> {
        let (_, ended) = recording.end().map_err(|e| self.failure(&e))?;
        Ok(ended)
    }

    /// Writes the file of the run that `about` describes.
    pub fn write(&self, ended: Ended, about: &About) -> Result<(), Error> {
        let path = self.blocks().join(about.run.to_string());
        let blocks = File::open(&path).map_err(|e| self.io_failure(e))?;
        let own = self.files().join(name(about));
        let file = File::create(&own).map_err(|e| self.io_failure(e))?;
        let (mut blocks, mut file) = (BufReader::new(blocks), BufWriter::new(file));
        if let Err(error) = ended.write(about, &mut blocks, &mut file) {
            // Other runs' files are whole, and the folder gets its name.
            let _ = fs::remove_file(&own);
            return Err(self.failure(&error));
        }
        fs::remove_file(&path).map_err(|e| self.io_failure(e))
    }

    /// Gives the folder its name.
    pub fn finish(self) -> Result<(), Error> {
        let _moved = temporary::undisturbed();
        check(&self.dir)?; // the runs took their time
        let old = self.temporary.path().join("old");
        let has_old = self.dir.exists();
        if has_old {
            fs::rename(&self.dir, &old).map_err(|e| self.io_failure(e))?;
        }
        fs::rename(self.files(), &self.dir).map_err(|error| {
            if has_old {
                let _ = fs::rename(&old, &self.dir);
            }
            self.io_failure(error)
        })
    }
}

/// The number comes first, so that names are unique and in the order of the runs.
fn name(about: &About) -> String {
    let mut label = String::new();
    for c in about.scheduler.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '=' => label.push(c),
            _ if label.ends_with('-') => {}
            _ => label.push('-'),
        }
    }
    label.truncate(MAX_LABEL_BYTES); // ASCII by now
    let label = label.trim_matches(['-', '.']);
    let which = match (about.seed, about.round) {
        (Some(seed), _) => format!("seed{seed}"),
        (None, round) => format!("round{}", round.unwrap_or(0)),
    };
    format!("{:03}-{label}-{which}.{EXTENSION}", about.run)
}

/// Whether `dir` is new, empty, or holds nothing but event files.
fn check(dir: &Path) -> Result<(), Error> {
    let error = |e: io::Error| Error::file(Role::Output, dir, "write", e);
    let entries = match dir.read_dir() {
        Err(e) if e.kind() == io::ErrorKind::NotFound && dir.file_name().is_some() => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            let line = format!(
                "{}: is not a folder; name one that is new or empty",
                dir.display()
            );
            return Err(Error::Request(line));
        }
        entries => entries.map_err(error)?,
    };
    for entry in entries {
        let name = entry.map_err(error)?.file_name();
        if Path::new(&name).extension() != Some(EXTENSION.as_ref()) {
            let line = format!(
                "{}: holds {}, which is not an event file; name a folder that is new or empty",
                dir.display(),
                name.display()
            );
            return Err(Error::Request(line));
        }
    }
    Ok(())
}
