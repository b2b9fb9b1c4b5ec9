// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the headers that schedulers include are found. build.rs lays them out.

use crate::BuildError;
use std::path::{Path, PathBuf};

/// Which `scx/*.bpf.h` a source is compiled against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeaderSet {
    /// Those that come with Tiltyard (crate scx_cargo).
    Shipped,
    /// A folder that holds `scx/common.bpf.h`, such as `tools/sched_ext/include` of a kernel tree.
    Folder(PathBuf),
}

impl HeaderSet {
    /// The headers in an `include` folder beside the source if there are any, as kernel trees have them.
    pub fn beside(source: &Path) -> HeaderSet {
        let folder = source.parent().unwrap_or(Path::new(".")).join("include");
        if folder.join("scx/common.bpf.h").is_file() {
            HeaderSet::Folder(folder)
        } else {
            HeaderSet::Shipped
        }
    }

    /// Include folders in order of search.
    pub fn include_dirs(&self) -> Result<Vec<PathBuf>, BuildError> {
        let root = headers_dir();
        if !root.join("vmlinux/vmlinux.h").is_file() {
            return Err(BuildError::NoHeaders { path: root });
        }
        let scx = match self {
            HeaderSet::Shipped => root.join("scx"),
            HeaderSet::Folder(folder) => folder.clone(),
        };
        Ok(vec![
            root.join("vmlinux"),
            scx.clone(),
            scx.join("bpf-compat"),
            root.join("bpf"),
        ])
    }
}

/// The root of the headers: `TILTYARD_HEADERS`, else what is installed beside the program, else where the build left them.
pub fn headers_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("TILTYARD_HEADERS") {
        return dir.into();
    }
    let installed = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.parent()?.join("share/tiltyard/headers")))
        .filter(|dir| dir.is_dir());
    installed.unwrap_or_else(|| Path::new(env!("OUT_DIR")).join("headers"))
}
