// SPDX-License-Identifier: GPL-2.0-or-later
//! Output files, complete or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::Error;
use crate::error::Role;
use crate::in_use::ToWrite;
use crate::temporary;

/// A file that appears under its name only when it is complete.
pub struct Output {
    path: PathBuf,
    into: Into,
    /// `None`: a pipe or a device.
    _own: Option<ToWrite>,
}

enum Into {
    Temporary(BufWriter<NamedTempFile>),
    /// A pipe or a device, which is written directly.
    Itself(BufWriter<File>),
}

impl Output {
    /// Opens a temporary file beside `path`, so that a missing folder or permission shows before hours of work.
    pub fn create(path: &Path) -> Result<Output, Error> {
        let error = |e: std::io::Error| Error::file(Role::Output, path, "write", e);
        // A symbolic link stays a link: its target is replaced.
        let target = std::fs::canonicalize(path).unwrap_or(path.to_owned());
        let known = std::fs::metadata(&target).ok();
        if known.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            let line = format!("{}: is a folder; name a file in it", path.display());
            return Err(Error::Request(line));
        }
        if known.is_some_and(|known| !known.is_file()) {
            let file = File::options().write(true).open(&target).map_err(error)?;
            return Ok(Output {
                path: path.to_owned(),
                into: Into::Itself(BufWriter::new(file)),
                _own: None,
            });
        }
        let own = ToWrite::new(&target)?;
        let folder = target
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        if !folder.is_dir() {
            let missing = format!("folder {} does not exist", folder.display());
            return Err(error(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                missing,
            )));
        }
        let hidden = || temporary::hidden().tempfile_in(folder);
        let temporary = temporary::make(hidden, NamedTempFile::path);
        let temporary = temporary.map_err(error)?;
        Ok(Output {
            path: target,
            into: Into::Temporary(BufWriter::new(temporary)),
            _own: Some(own),
        })
    }

    /// Makes `bytes` the whole contents of the file.
    pub fn fill(mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.write_all(bytes) {
            Ok(()) => self.finish(),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// That it could not be written.
    pub(crate) fn failed(&self, error: std::io::Error) -> Error {
        Error::file(Role::Output, &self.path, "write", error)
    }

    /// Gives the file its name and the permissions of an ordinary new file.
    pub fn finish(self) -> Result<(), Error> {
        let Output { path, into, .. } = self;
        let error = |e: std::io::Error| Error::file(Role::Output, &path, "write", e);
        let temporary = match into {
            Into::Temporary(temporary) => temporary,
            Into::Itself(mut file) => return file.flush().map_err(error),
        };
        let file = temporary.into_inner().map_err(|e| error(e.into_error()))?;
        allow_others(file.as_file()).map_err(error)?;
        file.persist(&path).map_err(|e| error(e.error))?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.into {
            Into::Temporary(file) => file.write(bytes),
            Into::Itself(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.into {
            Into::Temporary(file) => file.flush(),
            Into::Itself(file) => file.flush(),
        }
    }
}

/// Writes `bytes` to `path` in one go.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Output::create(path)?.fill(bytes)
}

/// A folder for figures, made before the work, so that one that cannot be written to shows at once. It may exist. A new one is
/// removed if nothing has been put into it.
pub struct Folder {
    path: PathBuf,
    is_new: bool,
}

impl Folder {
    /// `None` if none is asked for.
    pub fn make(path: Option<&Path>) -> Result<Option<Folder>, Error> {
        let Some(path) = path else {
            return Ok(None);
        };
        let error = |doing| move |e| Error::file(Role::Output, path, doing, e);
        let is_new = !path.exists();
        if !is_new && !path.is_dir() {
            let line = format!("{}: is no folder; name one, or a new one", path.display());
            return Err(Error::Request(line));
        }
        if is_new {
            temporary::make_folder(path).map_err(error("create"))?;
        }
        let folder = Folder {
            path: path.to_owned(),
            is_new,
        };
        tempfile::tempfile_in(path).map_err(error("write into"))?;
        Ok(Some(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_new {
            // Fails, as it should, if something is in it.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Writes SVG files, named without extension, into a folder.
pub fn write_all(dir: &Path, figures: &[(String, String)]) -> Result<(), Error> {
    for (name, svg) in figures {
        write(&dir.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    Ok(())
}

/// Gives a file the permissions of an ordinary new file. Temporary ones have none for others.
pub(crate) fn allow_others(file: &std::fs::File) -> std::io::Result<()> {
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o666 & !umask());
    file.set_permissions(rights)
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
    fn pipes_and_devices_stay_and_links_lead_to_what_is_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        let pipe = at("pipe");
        let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
        write(&at("pipe"), b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        let kind = std::fs::metadata(at("pipe")).unwrap().file_type();
        assert!(kind.is_fifo());
        write(Path::new("/dev/null"), b"nothing").unwrap();
        assert!(!Path::new("/dev/null").is_file());

        std::fs::write(at("old"), "old").unwrap();
        std::os::unix::fs::symlink("old", at("link")).unwrap();
        write(&at("link"), b"new").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read(at("old")).unwrap(), b"new");
    }

    #[test]
    fn a_folder_that_is_not_used_goes_again() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let make = |path: &Path| Folder::make(Some(path));
        let folder = make(&at("new")).unwrap();
        assert_eq!(at("new").read_dir().unwrap().count(), 0);
        drop(folder);
        assert!(!at("new").exists());
        let folder = make(&at("new")).unwrap();
        write_all(&at("new"), &[("a".to_owned(), "<svg/>".to_owned())]).unwrap();
        drop(folder);
        assert!(at("new/a.svg").is_file());
        std::fs::create_dir(at("old")).unwrap();
        drop(make(&at("old")).unwrap());
        assert!(at("old").is_dir());
        std::fs::write(at("file"), "").unwrap();
        let refused = |path: &Path| make(path).err().unwrap().to_string();
        assert!(refused(&at("file")).contains("file: is no folder"));
        assert!(refused(Path::new("/proc/self/fd")).contains("cannot write into"));
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
