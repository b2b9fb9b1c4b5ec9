// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of runs, of whatever type, kept by the hash of everything that determines them: a stopped command resumes, and a repeated
//! one has nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tiltyard_build::{content_hash, default_cache_dir};
use tiltyard_claims::Point;
use tiltyard_report::timeline::Recorded;

use crate::error::Role;
use crate::stuck::StuckTasks;
use crate::{Error, data, output, program, tables};

/// Raised when the meaning of an entry changes.
const FORMAT: u32 = 4;

/// The kept result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// By name, without scheduler and suffix; `None` if the query returned NULL.
    pub measures: BTreeMap<String, Option<f64>>,
    /// Queries that failed, and why: by a measure's name, or `figure N`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, String>,
    /// By index among the experiment's figures.
    pub figures: BTreeMap<usize, Vec<Point>>,
    /// What happened when the last task started, slice by slice; only for a run that figures show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Recorded>,
    /// Whether anything was drawn at random: if not, other seeds give the same result.
    pub left_to_chance: bool,
    /// Tasks that wait forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<StuckTasks>,
    /// How the run deviated from the experiment, one line each.
    #[serde(default)]
    pub deviations: Vec<String>,
}

impl Kept {
    /// The result with another seed of a run that draws nothing at random: figures show only the first.
    pub fn without_pictures(&self) -> Kept {
        let mut kept = self.clone();
        kept.figures.clear();
        kept.timeline = None;
        kept.faults.retain(|name, _| !name.starts_with("figure "));
        kept
    }
}

/// The first line of an entry. The second is the result.
#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    key: String,
    /// Of the second line: disks and editors change files, too.
    sha256: String,
}

/// The text of an entry, or why it has none; `None` if there is no entry.
fn text_of(path: &Path) -> Option<Result<String, String>> {
    // Not of a pipe or a device, which may have no end.
    let known = fs::metadata(path).ok()?;
    if !known.is_file() {
        return Some(Err("not a regular file".to_owned()));
    }
    Some(fs::read_to_string(path).map_err(|e| format!("not readable ({e})")))
}

/// The result in an entry's text, or why it is of no use.
fn read<T: DeserializeOwned>(text: &str, key: &str) -> Result<T, String> {
    let (head, kept) = text.split_once('\n').ok_or("not whole")?;
    let not_whole = |e| format!("not whole ({e})");
    let head: Head = serde_json::from_str(head).map_err(not_whole)?;
    if head.format != FORMAT {
        let format = head.format;
        return Err(format!(
            "format {format} where this version writes {FORMAT}"
        ));
    }
    if head.key != key {
        return Err("another run's results under its name".to_owned());
    }
    if head.sha256 != tables::sha256(kept) {
        return Err("not whole, or changed since".to_owned());
    }
    serde_json::from_str(kept).map_err(not_whole)
}

/// The folder of entries; without a home folder there is none, and nothing is kept.
pub struct Cache {
    folder: Option<PathBuf>,
    /// The program itself: another engine, compiler or recorder gives other results.
    program: String,
    complaints: Mutex<Vec<String>>,
}

impl Cache {
    /// The user's cache; nothing is kept or found unless it is `wanted`.
    pub fn open(wanted: bool) -> Cache {
        let folder = default_cache_dir()
            .filter(|_| wanted)
            .map(|dir| dir.join("runs"));
        let program = program::path().ok().and_then(|path| fs::read(path).ok());
        Cache {
            // Without its own hash, it could not distinguish entries of other versions.
            folder: folder.filter(|_| program.is_some()),
            program: tables::sha256(program.unwrap_or_default()),
            complaints: Mutex::new(Vec::new()),
        }
    }

    /// Results in a folder of their own, which several machines may share, or whose files may be copied together: a name is
    /// a hash of all that determines the result. The folder is created; one that cannot be written is an error.
    pub fn in_folder(folder: &Path) -> Result<Cache, Error> {
        let wrong = |action| move |e| Error::file(Role::Output, folder, action, e);
        fs::create_dir_all(folder).map_err(wrong("create"))?;
        tempfile::NamedTempFile::new_in(folder).map_err(wrong("write"))?;
        Cache::at(folder)
    }

    fn at(folder: &Path) -> Result<Cache, Error> {
        let program = program::path().and_then(|path| {
            fs::read(&path).map_err(|e| Error::file(Role::Own, &path, "read", e))
        })?;
        Ok(Cache {
            folder: Some(folder.to_owned()),
            program: tables::sha256(program),
            complaints: Mutex::new(Vec::new()),
        })
    }

    /// The same to be read only: the folder must be there.
    pub fn of_folder(folder: &Path) -> Result<Cache, Error> {
        std::fs::read_dir(folder).map_err(|e| Error::file(Role::Input, folder, "read", e))?;
        Cache::at(folder)
    }

    /// Whether results outlive this process.
    pub fn keeps(&self) -> bool {
        self.folder.is_some()
    }

    /// The hash of `parts` and this program.
    pub fn key(&self, parts: &[&str]) -> String {
        let all = std::iter::once(self.program.as_str()).chain(parts.iter().copied());
        content_hash(all.map(str::as_bytes))
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(&key[..2]).join(format!("{key}.json")))
    }

    /// The result of the run with this key. An unusable entry is reported and computed again.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let path = self.path(key)?;
        let wrong = match text_of(&path)? {
            Ok(text) => match read(&text, key) {
                Ok(kept) => return Some(kept),
                Err(wrong) => wrong,
            },
            Err(wrong) => wrong,
        };
        let complaint = format!("{}: {wrong}; it does not count", data::shown(&path));
        if let Ok(mut complaints) = self.complaints.lock() {
            complaints.push(complaint);
        }
        None
    }

    /// A cache that cannot be written only costs time.
    pub fn put<T: Serialize>(&self, key: &str, kept: &T) {
        let _ = self.keep(key, kept);
    }

    /// The same where the entry is the result.
    pub fn keep<T: Serialize>(&self, key: &str, kept: &T) -> Result<(), Error> {
        let Some(path) = self.path(key) else {
            return Ok(());
        };
        let write = || -> std::io::Result<()> {
            let kept = serde_json::to_string(kept)?;
            let head = serde_json::to_string(&Head {
                format: FORMAT,
                key: key.to_owned(),
                sha256: tables::sha256(&kept),
            })?;
            let folder = path.parent().unwrap_or(&path);
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            output::allow_others(file.as_file())?;
            write!(file, "{head}\n{kept}")?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|e| Error::file(Role::Output, &path, "write", e))
    }

    /// Entries that could not be used, one line each.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints
            .lock()
            .map(|c| c.clone())
            .unwrap_or_default()
    }
}
