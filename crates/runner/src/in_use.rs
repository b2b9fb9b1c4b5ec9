// SPDX-License-Identifier: GPL-2.0-or-later
//! Paths that a command reads, or is about to write: nothing else may be written there.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::Error;

static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static TO_WRITE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registers a file that the process reads.
pub fn is_read(path: &Path) {
    if let Ok(mut read) = READ.lock() {
        read.push(identity(path));
    }
}

/// A path that is about to be written. Dropping it gives the path back.
#[derive(Debug)]
pub struct ToWrite(PathBuf);

impl ToWrite {
    /// Fails for what the process reads, and for what it is about to write already.
    pub fn new(path: &Path) -> Result<ToWrite, Error> {
        let target = identity(path);
        let holds = |paths: &Mutex<Vec<PathBuf>>| {
            let paths = paths.lock();
            paths.is_ok_and(|paths| paths.contains(&target))
        };
        let wrong = |what: &str| Err(Error::Request(format!("{}: {what}", path.display())));
        if holds(&READ) {
            return wrong("is an input of this command; name another file to write");
        }
        if holds(&TO_WRITE) {
            return wrong("is to be written twice; name another file or folder");
        }
        if let Ok(mut paths) = TO_WRITE.lock() {
            paths.push(target.clone());
        }
        Ok(ToWrite(target))
    }
}

impl Drop for ToWrite {
    fn drop(&mut self) {
        if let Ok(mut paths) = TO_WRITE.lock()
            && let Some(at) = paths.iter().position(|path| *path == self.0)
        {
            paths.swap_remove(at);
        }
    }
}

/// The same for all ways to name a file, which need not exist; its folder need not either.
fn identity(path: &Path) -> PathBuf {
    let in_folder = || {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let found = path.canonicalize().ok().or_else(in_folder);
    found.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_or_written_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (
            folder.path().join("in.json"),
            folder.path().join("out.html"),
        );
        std::fs::write(&input, "{}").unwrap();
        is_read(&input);
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&input, &link).unwrap();
        for path in [&input, &link] {
            let error = ToWrite::new(path).unwrap_err().to_string();
            assert!(error.contains("is an input"), "{error}");
        }
        let first = ToWrite::new(&output).unwrap();
        let again = folder.path().join("./out.html");
        let error = ToWrite::new(&again).unwrap_err().to_string();
        assert!(error.contains("written twice"), "{error}");
        drop(first);
        ToWrite::new(&again).unwrap();
    }
}
