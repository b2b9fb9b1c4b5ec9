// SPDX-License-Identifier: GPL-2.0-or-later
//! Built objects, kept by content.
//!
//! A *request* is everything that is known before a compiler runs: source path, flags, which clang. Its manifest lists
//! the files that the compiler read, with their hashes, and the key of the result. While none of these files has
//! changed, and none has come that the compiler might read instead, the request is answered without running anything.
//! The *key* is over contents and names only, so that the same scheduler has the same key on every machine, and a copy of
//! one that was built is only compiled, not lowered.

use crate::BuildError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file changed this shortly before it was recorded may change again within the same time stamp.
const RACY: Duration = Duration::from_secs(2);

/// A file that went into an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    path: PathBuf,
    size: u64,
    /// Of the last change; 0 where time stamps cannot be trusted and the contents must be read.
    mtime_ns: u64,
    sha256: String,
    /// Uses `__has_include`: its meaning can change although no listed input does.
    asks: bool,
}

/// What asks the compiler for a file.
const ASKS: &[u8] = b"__has_include";

/// What a request was answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub key: String,
    /// The compiler's, one line each. They name the place of the source, which the key does not.
    pub warnings: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    answer: Answer,
    inputs: Vec<Input>,
    namesakes: BTreeSet<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// `$XDG_CACHE_HOME/tiltyard`, by default `~/.cache/tiltyard`; `None` without a home. A relative path counts as not set, as
/// the XDG Base Directory Specification requires.
pub fn default_dir() -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    let base = absolute("XDG_CACHE_HOME").or_else(home)?;
    Some(base.join("tiltyard"))
}

/// Hash over parts, each with its length, so that no two lists of parts have the same.
pub fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn mtime_ns(metadata: &fs::Metadata) -> u64 {
    let since = metadata
        .modified()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |d| d.as_nanos() as u64)
}

impl Input {
    pub fn read(path: &Path) -> Result<Input, BuildError> {
        let bytes = fs::read(path).map_err(BuildError::io(path))?;
        let metadata = fs::metadata(path).map_err(BuildError::io(path))?;
        let fresh = metadata
            .modified()
            .ok()
            .and_then(|t| SystemTime::now().duration_since(t).ok())
            .is_none_or(|age| age < RACY);
        Ok(Input {
            path: path.to_owned(),
            size: metadata.len(),
            mtime_ns: if fresh { 0 } else { mtime_ns(&metadata) },
            sha256: hash([bytes.as_slice()]),
            asks: bytes.windows(ASKS.len()).any(|word| word == ASKS),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    fn is_unchanged(&self) -> bool {
        let Ok(metadata) = fs::metadata(&self.path) else {
            return false;
        };
        if metadata.len() != self.size {
            return false;
        }
        if self.mtime_ns != 0 && mtime_ns(&metadata) == self.mtime_ns {
            return true;
        }
        fs::read(&self.path).is_ok_and(|bytes| hash([bytes.as_slice()]) == self.sha256)
    }
}

/// Files with names of `inputs` in other folders that the compiler looks into: `searched`, and those of the inputs. If one
/// comes or goes, another file may be meant.
fn namesakes(inputs: &[Input], searched: &[PathBuf]) -> BTreeSet<PathBuf> {
    let searched = searched.iter().map(PathBuf::as_path);
    let own = inputs.iter().filter_map(|input| input.path.parent());
    let folders: BTreeSet<&Path> = searched.clone().chain(own).collect();
    let mut found = BTreeSet::new();
    for Input { path, .. } in inputs {
        let names = searched.clone().filter_map(|s| path.strip_prefix(s).ok());
        let others = names.flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        found.extend(others.filter(|other| other != path && other.is_file()));
    }
    found
}

impl Cache {
    pub fn new(dir: PathBuf) -> Cache {
        Cache { dir }
    }

    /// What `request` was answered with when its inputs were as they are now. `searched`: the compiler's include folders.
    pub fn lookup(&self, request: &str, searched: &[PathBuf]) -> Option<Answer> {
        let bytes = self.load(&format!("{request}.manifest"))?;
        let manifest: Manifest = serde_json::from_slice(&bytes).ok()?;
        let is_current = !manifest.inputs.iter().any(|input| input.asks)
            && manifest.inputs.iter().all(Input::is_unchanged)
            && namesakes(&manifest.inputs, searched) == manifest.namesakes;
        is_current.then_some(manifest.answer)
    }

    /// Remembers what `request`, with these inputs, was answered with. Call it when everything under the key is stored.
    pub fn record(
        &self,
        request: &str,
        answer: Answer,
        inputs: Vec<Input>,
        searched: &[PathBuf],
    ) -> Result<(), BuildError> {
        let manifest = Manifest {
            answer,
            namesakes: namesakes(&inputs, searched),
            inputs,
        };
        let bytes =
            serde_json::to_vec(&manifest).map_err(|e| BuildError::io(&self.dir)(e.into()))?;
        self.store(&format!("{request}.manifest"), &bytes).map(drop)
    }

    pub fn load(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    /// What [`store_sealed`](Self::store_sealed) wrote; `None` if it is not there, or was damaged since.
    pub fn load_sealed(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = self.load(name)?;
        let seal = bytes.split_off(bytes.len().checked_sub(hash([]).len())?);
        (seal == hash([bytes.as_slice()]).as_bytes()).then_some(bytes)
    }

    /// Writes a file, whole or not at all, with the hash of its contents at its end: code that runs must be what was built.
    pub fn store_sealed(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, BuildError> {
        self.store(name, &[bytes, hash([bytes]).as_bytes()].concat())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file whole or not at all.
    pub fn store(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, BuildError> {
        let path = self.path(name);
        fs::create_dir_all(&self.dir).map_err(BuildError::io(&self.dir))?;
        let mut file =
            tempfile::NamedTempFile::new_in(&self.dir).map_err(BuildError::io(&self.dir))?;
        file.write_all(bytes).map_err(BuildError::io(&path))?;
        file.persist(&path)
            .map_err(|e| BuildError::io(&path)(e.error))?;
        Ok(path)
    }
}

/// Files in a dependency list in make's form (`-MD`), in its order.
pub fn parse_depfile(text: &str) -> Vec<PathBuf> {
    let list = text
        .split_once(": ")
        .map_or("", |(_, list)| list)
        .replace("\\\n", " ");
    let mut files = Vec::new();
    let mut current = String::new();
    let mut characters = list.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters
                .peek()
                .is_some_and(|n| matches!(n, ' ' | '#' | '\\')) =>
            {
                current.extend(characters.next())
            }
            '$' if characters.peek() == Some(&'$') => current.extend(characters.next()),
            c if c.is_whitespace() => {
                if !current.is_empty() {
                    files.push(PathBuf::from(std::mem::take(&mut current)));
                }
            }
            c => current.push(c),
        }
    }
    if !current.is_empty() {
        files.push(current.into());
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depfiles_with_odd_names() {
        let files = parse_depfile("out.ll: /a/b.c \\\n  /c\\ d/e.h /f$$g.h\n");
        assert_eq!(
            files,
            [
                Path::new("/a/b.c"),
                Path::new("/c d/e.h"),
                Path::new("/f$g.h")
            ]
        );
    }

    #[test]
    fn a_changed_input_is_a_miss_even_with_the_same_size() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.h");
        fs::write(&file, "one").unwrap();
        let cache = Cache::new(dir.path().join("cache"));
        let answer = Answer {
            key: "k".to_owned(),
            warnings: vec!["w".to_owned()],
        };
        let inputs = vec![Input::read(&file).unwrap()];
        cache.record("r", answer.clone(), inputs, &[]).unwrap();
        assert_eq!(cache.lookup("r", &[]).as_ref(), Some(&answer));
        fs::write(&file, "two").unwrap();
        assert_eq!(cache.lookup("r", &[]), None);
        fs::write(&file, "one").unwrap();
        assert_eq!(cache.lookup("r", &[]), Some(answer));
    }

    #[test]
    fn hashes_know_where_parts_end() {
        assert_ne!(
            hash([b"ab".as_slice(), b"c"]),
            hash([b"a".as_slice(), b"bc"])
        );
    }
}
