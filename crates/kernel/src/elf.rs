// SPDX-License-Identifier: GPL-2.0-or-later
//! What a program needs to start somewhere else: its dynamic loader, its shared libraries,
//! and only those of its bytes that are mapped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{FileHeader64, PT_INTERP};
use object::endian::Endianness;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::error::KernelError;

/// A 64-bit ELF program or library, read into memory.
pub struct Program {
    path: PathBuf,
    bytes: Vec<u8>,
    loadable_len: usize,
    interpreter: Option<PathBuf>,
}

impl Program {
    /// Reads `path`. [`KernelError::NotElf`] for anything but a 64-bit ELF file.
    pub fn read(path: &Path) -> Result<Self, KernelError> {
        let bytes = std::fs::read(path).map_err(KernelError::io(path, "read"))?;
        let (loadable_len, interpreter) = inspect(&bytes).ok_or_else(|| KernelError::NotElf {
            path: path.to_owned(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            loadable_len,
            interpreter,
        })
    }

    /// The bytes that the kernel and the dynamic loader look at. Debug information and section
    /// headers lie behind the last segment and would only make the guest slower to boot.
    pub fn loadable(&self) -> &[u8] {
        &self.bytes[..self.loadable_len]
    }

    /// Every file that must exist at its path for the program to start: the loader and all
    /// libraries, direct or not. Empty for a static program.
    ///
    /// The program's own loader is asked, as ldd does, so that search paths, the cache and
    /// $ORIGIN mean what they mean on this host.
    pub fn libraries(&self) -> Result<BTreeSet<PathBuf>, KernelError> {
        let Some(interpreter) = &self.interpreter else {
            return Ok(BTreeSet::new());
        };
        let failed = |detail: String| KernelError::Libraries {
            path: self.path.clone(),
            detail,
        };
        let output = Command::new(interpreter)
            .arg("--list")
            .arg(&self.path)
            .output()
            .map_err(|error| failed(format!("{}: {error}", interpreter.display())))?;
        if !output.status.success() {
            return Err(failed(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let mut libraries = parse_list(&String::from_utf8_lossy(&output.stdout)).map_err(failed)?;
        libraries.insert(interpreter.clone());
        Ok(libraries)
    }
}

/// Length up to the end of the last segment, and the dynamic loader if one is named.
fn inspect(bytes: &[u8]) -> Option<(usize, Option<PathBuf>)> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let table_end = header.e_phoff(endian)
        + u64::from(header.e_phentsize(endian)) * u64::from(header.e_phnum(endian));
    let (mut end, mut interpreter) = (table_end, None);
    for segment in header.program_headers(endian, bytes).ok()? {
        end = end.max(
            segment
                .p_offset(endian)
                .checked_add(segment.p_filesz(endian))?,
        );
        if segment.p_type(endian) == PT_INTERP {
            let name = segment.data(endian, bytes).ok()?;
            let name = std::str::from_utf8(name).ok()?.trim_end_matches('\0');
            interpreter = Some(PathBuf::from(name));
        }
    }
    let end = usize::try_from(end).ok()?;
    (end <= bytes.len()).then_some((end, interpreter))
}

/// Reads the loader's `--list` output: `NAME => /PATH (0xADDRESS)`, `/PATH (0xADDRESS)` and, for
/// what the kernel provides itself, `NAME (0xADDRESS)`.
fn parse_list(output: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut paths = BTreeSet::new();
    for line in output.lines() {
        let line = line.trim();
        let target = line.split_once(" => ").map_or(line, |(_, target)| target);
        if target == "not found" {
            return Err(line.to_owned());
        }
        let path = target.rsplit_once(" (0x").map_or(target, |(path, _)| path);
        if path.starts_with('/') {
            paths.insert(PathBuf::from(path));
        }
    }
    Ok(paths)
}

/// Finds `command` as a shell would: a path if it holds a slash, else along PATH.
pub fn find_command(command: &str) -> Result<PathBuf, KernelError> {
    let not_found = || KernelError::CommandNotFound {
        command: command.to_owned(),
    };
    if command.contains('/') {
        return std::path::absolute(command)
            .ok()
            .filter(|path| path.is_file())
            .ok_or_else(not_found);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(command))
        .find(|candidate| is_executable(candidate))
        .ok_or_else(not_found)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_output_gives_the_files_and_not_the_vdso() {
        let output = "\tlinux-vdso.so.1 (0x00007ffc0)\n\
                      \tlibelf.so.1 => /lib/x86_64-linux-gnu/libelf.so.1 (0x00007f1)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n";
        let paths = parse_list(output).unwrap();
        let expected = [
            "/lib/x86_64-linux-gnu/libelf.so.1",
            "/lib64/ld-linux-x86-64.so.2",
        ]
        .map(PathBuf::from);
        assert_eq!(paths, BTreeSet::from(expected));
    }

    #[test]
    fn a_missing_library_is_named() {
        let error = parse_list("\tlibgone.so.3 => not found\n").unwrap_err();
        assert!(error.contains("libgone.so.3"), "{error}");
    }

    #[test]
    fn closure_of_this_test_program() {
        let program = Program::read(&std::env::current_exe().unwrap()).unwrap();
        let libraries = program.libraries().unwrap();
        let has = |part: &str| {
            libraries
                .iter()
                .any(|path| path.to_string_lossy().contains(part))
        };
        assert!(has("libc.so"), "{libraries:?}");
        assert!(has("ld-"), "the loader too: {libraries:?}");
    }

    /// The cut program must still start: that is the whole claim.
    #[test]
    fn a_program_without_its_debug_information_still_runs() {
        let whole = Program::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            whole.loadable().len() < whole.bytes.len(),
            "a test has debug information"
        );
        let folder = tempfile::tempdir().unwrap();
        let (data, cut) = (folder.path().join("data"), folder.path().join("cut"));
        std::fs::write(&data, whole.loadable()).unwrap();
        // By another process: what this one has open for writing, a fork in another test's thread has too, and
        // then it cannot be started (ETXTBSY).
        let install = Command::new("install")
            .args(["-m", "755"])
            .args([&data, &cut])
            .status();
        assert!(install.unwrap().success());
        let status = Command::new(&cut).arg("--list").output().unwrap().status;
        assert!(status.success(), "{status}");
    }

    #[test]
    fn a_script_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = Program::read(&script).err().unwrap().to_string();
        assert!(error.contains("script: not an ELF program"), "{error}");
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = find_command("no-such-command-here")
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("no-such-command-here: command not found"),
            "{error}"
        );
    }
}
