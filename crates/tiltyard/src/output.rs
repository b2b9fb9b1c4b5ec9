// SPDX-License-Identifier: GPL-2.0-or-later
//! Output files, complete or not at all.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Code, Failure};
use crate::interrupt;

/// A file that appears under its name only when it is complete.
pub struct Output {
    path: PathBuf,
    temporary: BufWriter<NamedTempFile>,
}

impl Output {
    /// Opens a temporary file beside `path`, so that a missing folder or permission shows before hours of work.
    pub fn create(path: &Path) -> Result<Output, Failure> {
        let error = |e: std::io::Error| Failure::io(Code::Other, path, "write", &e);
        let folder = path
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        if path.is_dir() {
            let line = format!("{}: is a folder; name a file in it", path.display());
            return Err(Failure::usage(line));
        }
        let temporary = tempfile::Builder::new()
            .prefix(".tiltyard-")
            .tempfile_in(folder)
            .map_err(error)?;
        interrupt::remove_on_interrupt(temporary.path());
        Ok(Output {
            path: path.to_owned(),
            temporary: BufWriter::new(temporary),
        })
    }

    /// Makes `bytes` the whole contents of the file.
    pub fn fill(mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.temporary.write_all(bytes);
        written.map_err(|e| Failure::io(Code::Other, &self.path, "write", &e))?;
        self.finish()
    }

    /// Gives the file its name and the permissions of an ordinary new file.
    pub fn finish(self) -> Result<(), Failure> {
        let Output { path, temporary } = self;
        let error = |e: std::io::Error| Failure::io(Code::Other, &path, "write", &e);
        let file = temporary.into_inner().map_err(|e| error(e.into_error()))?;
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o666 & !umask());
        file.as_file().set_permissions(rights).map_err(error)?;
        file.persist(&path).map_err(|e| error(e.error))?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.temporary.flush()
    }
}

/// Writes `bytes` to `path` in one go.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    Output::create(path)?.fill(bytes)
}

/// Writes SVG files, named without extension, into a folder that need not exist.
pub fn write_all(dir: &Path, figures: &[(String, String)]) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::io(Code::Other, dir, "create", &e))?;
    for (name, svg) in figures {
        write(&dir.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    Ok(())
}

/// The permissions that this process withholds from new files (umask).
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("Umask:"));
    line.and_then(|m| u32::from_str_radix(m.trim(), 8).ok())
        .unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_is_dropped_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        write(&path, b"whole").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let failure = Output::create(Path::new("/nowhere/at/all.html"))
            .err()
            .unwrap();
        assert!(
            failure
                .to_string()
                .starts_with("/nowhere/at/all.html: cannot write"),
            "{failure}"
        );
    }
}
