// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own example schedulers, taken at test time from the distribution's package linux-source-6.12. They are
//! not ours to ship. Stands alone, so that tests of other crates can include it by path.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

const ARCHIVE: &str = "/usr/src/linux-source-6.12.tar.xz";

/// `tools/sched_ext` of Linux 6.12 in the folder for tests' files, unpacked on first use; `None`, said plainly, if the
/// package is not installed.
pub fn sched_ext_tools() -> Option<PathBuf> {
    // Tests of one process take turns, so that the archive is read once.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("linux-source-6.12");
    let tools = folder.join("tools/sched_ext");
    if tools.is_dir() {
        return Some(tools);
    }
    if !Path::new(ARCHIVE).is_file() {
        eprintln!("SKIPPED: {ARCHIVE} is missing; apt-get install linux-source-6.12");
        return None;
    }
    unpack(&folder);
    Some(tools)
}

/// Unpacks beside the target and renames, so that tests running at the same time see all or nothing.
fn unpack(folder: &Path) {
    let partial = folder.with_extension(format!("partial.{}", std::process::id()));
    std::fs::create_dir_all(&partial).expect("create folder");
    let status = Command::new("tar")
        .args(["-xJf", ARCHIVE, "--strip-components=1", "-C"])
        .arg(&partial)
        .args(["--wildcards", "*/tools/sched_ext/*"])
        .status()
        .expect("run tar");
    assert!(status.success(), "tar cannot unpack {ARCHIVE}");
    if std::fs::rename(&partial, folder).is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
    assert!(
        folder.join("tools/sched_ext").is_dir(),
        "no tools/sched_ext in {ARCHIVE}"
    );
}
