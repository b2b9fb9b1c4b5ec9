// SPDX-License-Identifier: GPL-2.0-or-later
//! Where the headers that schedulers include are found. build.rs lays them out.

use crate::BuildError;
use std::path::{Path, PathBuf};

/// Where folders with `scx/common.bpf.h` are in the trees that schedulers come from, seen from a folder above the source:
/// beside a copied source, in a kernel tree (tools/sched_ext, tools/testing/selftests/sched_ext), in the scx project.
const PLACES: [&str; 4] = [
    "include",
    "sched_ext/include",
    "tools/sched_ext/include",
    "scheds/include",
];

/// Which `scx/*.bpf.h` a source is compiled against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeaderSet {
    /// Those that come with Tiltyard (crate scx_cargo).
    Shipped,
    /// A folder that holds `scx/common.bpf.h`, such as `tools/sched_ext/include` of a kernel tree.
    Folder(PathBuf),
}

impl HeaderSet {
    /// The source's own headers if it has any: beside it, or where the trees that schedulers come from have them.
    pub fn beside(source: &Path) -> HeaderSet {
        let source = source.canonicalize().unwrap_or_else(|_| source.to_owned());
        let Some(folder) = source.parent() else {
            return HeaderSet::Shipped;
        };
        let above = folder
            .ancestors()
            .flat_map(|folder| PLACES.map(|place| folder.join(place)));
        [folder.to_owned()]
            .into_iter()
            .chain(above)
            .find(|place| place.join("scx/common.bpf.h").is_file())
            .map_or(HeaderSet::Shipped, HeaderSet::Folder)
    }

    /// Where these headers come from, and how to use others: for messages of a compiler, most of whose causes in
    /// schedulers of other projects are headers of another version.
    pub fn about(&self) -> String {
        match self {
            HeaderSet::Shipped => concat!(
                "compiled with the headers that Tiltyard ships (",
                env!("TILTYARD_SHIPPED_HEADERS"),
                "); a source written for others needs those beside it: copy its tree's tools/sched_ext/include there, as \
                 include/"
            )
            .to_owned(),
            HeaderSet::Folder(folder) => format!(
                "compiled with the headers in {}, and with those that Tiltyard ships where it has none",
                folder.display()
            ),
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
