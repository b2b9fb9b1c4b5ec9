// SPDX-License-Identifier: GPL-2.0-or-later
//! What the engine's tests share: what tests of schedulers share, and the kernel's own schedulers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
pub use tiltyard_schedtest::*;

/// One of the kernel's own schedulers, from the distribution's package; `None` where that is not installed.
pub fn kernel_example(name: &str) -> Option<String> {
    let file = kernel_tree()?.join(format!("tools/sched_ext/{name}.bpf.c"));
    Some(file.display().to_string())
}

/// What there is of sched_ext under `tools/` of the newest kernel whose source package is installed and whose interface
/// the reference kernel has: its schedulers, their headers, its selftests. Unpacked once, into the folder for what tests
/// make; `None` where no such package is installed.
pub fn kernel_tree() -> Option<&'static Path> {
    const PARTS: [&str; 2] = ["tools/sched_ext", "tools/testing/selftests/sched_ext"];
    static UNPACKED: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let package = (12..=18)
            .rev()
            .map(|minor| PathBuf::from(format!("/usr/src/linux-source-6.{minor}.tar.xz")))
            .find(|package| package.exists())?;
        let name = package.file_name()?.to_str()?.strip_suffix(".tar.xz")?;
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-tools"));
        if !dir.exists() {
            // Several tests may do this at once: the last rename wins, and all are the same.
            let work = tempdir(&dir);
            let status = Command::new("tar")
                .arg("-xf")
                .arg(&package)
                .arg("-C")
                .arg(&work)
                .arg("--strip-components=1")
                .args(PARTS.map(|part| format!("{name}/{part}")))
                .status()
                .expect("tar runs");
            assert!(status.success(), "the package cannot be unpacked");
            if std::fs::rename(&work, &dir).is_err() {
                std::fs::remove_dir_all(&work).expect("a folder of our own");
            }
        }
        Some(dir)
    });
    UNPACKED.as_deref()
}

fn tempdir(beside: &Path) -> PathBuf {
    let work = beside.with_extension(std::process::id().to_string());
    std::fs::create_dir_all(&work).expect("a folder for what is unpacked");
    work
}
