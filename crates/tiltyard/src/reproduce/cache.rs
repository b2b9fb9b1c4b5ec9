// SPDX-License-Identifier: GPL-2.0-or-later
//! What runs gave, kept by the hash of everything that determines it: a command that was stopped goes on where it was,
//! and one that is repeated has nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tiltyard_build::{content_hash, default_cache_dir};
use tiltyard_claims::Point;
use tiltyard_report::timeline::Recorded;

use crate::{data, tabled};

/// Raised when the meaning of an entry changes.
const FORMAT: u32 = 3;

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// By name, without scheduler and suffix; `None` where the query gave NULL.
    pub measures: BTreeMap<String, Option<f64>>,
    /// Queries that failed, and why: by a measure's name, or `figure N`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, String>,
    /// By index among the experiment's figures.
    pub figures: BTreeMap<usize, Vec<Point>>,
    /// What happened when the last task came, slice by slice; only of a run that figures show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Recorded>,
    /// Whether anything was drawn at random: if not, other seeds give the same.
    pub left_to_chance: bool,
    /// In what the run was not what the experiment says, one line each.
    #[serde(default)]
    pub deviations: Vec<String>,
}

impl Kept {
    /// What another seed gives of a run that leaves nothing to chance: pictures are of the first alone.
    pub fn without_pictures(&self) -> Kept {
        let mut kept = self.clone();
        kept.figures.clear();
        kept.timeline = None;
        kept.faults.retain(|name, _| !name.starts_with("figure "));
        kept
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    key: String,
    kept: Kept,
}

/// The folder of entries; without a home there is none, and nothing is kept.
pub struct Cache {
    folder: Option<PathBuf>,
    /// The program itself: with another engine, another compiler or another recorder come other results.
    program: String,
    complaints: Mutex<Vec<String>>,
}

impl Cache {
    pub fn open(wanted: bool) -> Cache {
        let folder = default_cache_dir()
            .filter(|_| wanted)
            .map(|dir| dir.join("runs"));
        let program = std::env::current_exe().and_then(fs::read);
        Cache {
            // Without its own hash, it could not distinguish entries of other versions.
            folder: folder.filter(|_| program.is_ok()),
            program: tabled::sha256(program.unwrap_or_default()),
            complaints: Mutex::new(Vec::new()),
        }
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

    /// What a run with this key gave. An unusable entry is reported and computed again.
    pub fn get(&self, key: &str) -> Option<Kept> {
        let path = self.path(key)?;
        let text = fs::read_to_string(&path).ok()?;
        let wrong = match serde_json::from_str::<Entry>(&text) {
            Ok(entry) if entry.format == FORMAT && entry.key == key => return Some(entry.kept),
            Ok(entry) if entry.format != FORMAT => {
                format!("format {} where this version writes {FORMAT}", entry.format)
            }
            Ok(_) => "another run's results under its name".to_owned(),
            Err(e) => format!("not whole ({e})"),
        };
        let complaint = format!("{}: {wrong}; the run is done again", data::shown(&path));
        if let Ok(mut complaints) = self.complaints.lock() {
            complaints.push(complaint);
        }
        None
    }

    /// A cache that cannot be written costs time and nothing else.
    pub fn put(&self, key: &str, kept: &Kept) {
        let Some(path) = self.path(key) else { return };
        let entry = Entry {
            format: FORMAT,
            key: key.to_owned(),
            kept: kept.clone(),
        };
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(&path);
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(&entry)?)?;
            file.persist(&path)?;
            Ok(())
        };
        let _ = write();
    }

    /// Entries that could not be used, one line each.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints
            .lock()
            .map(|c| c.clone())
            .unwrap_or_default()
    }
}
