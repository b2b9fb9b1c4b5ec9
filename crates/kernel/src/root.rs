// SPDX-License-Identifier: GPL-2.0-or-later
//! The tree in which the guest's command runs: the host's files below, and above them a layer in
//! memory that takes what is written. Init stays outside of it.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::share;

/// The host's files.
const LOWER: &str = "/tiltyard/host";
/// What is written.
const LAYER: &str = "/tiltyard/layer";
/// Both in one.
const ROOT: &str = "/tiltyard/root";

/// What must not be the host's: views of its kernel, and what its services left for each other.
/// /tmp is the host's, because people's programs and data lie there too.
const FRESH: [(&str, &str, &str); 7] = [
    ("proc", "proc", ""),
    ("sysfs", "sys", ""),
    ("cgroup2", "sys/fs/cgroup", ""),
    ("devtmpfs", "dev", ""),
    ("devpts", "dev/pts", "ptmxmode=666"),
    ("tmpfs", "dev/shm", "mode=1777"),
    ("tmpfs", "run", "mode=755"),
];

/// Names in /dev that devtmpfs leaves to user space.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts the host's files, once in a guest's life.
pub fn mount_host() -> io::Result<()> {
    for (target, link) in DEVICE_LINKS {
        std::os::unix::fs::symlink(target, link)?;
    }
    mount("virtiofs", share::TAG, LOWER, libc::MS_RDONLY, "")
}

/// One such tree, with nothing written yet. Gone when dropped.
pub struct Root(());

impl Root {
    /// Makes the tree. There is one at a time.
    pub fn new() -> io::Result<Self> {
        let root = Self(());
        mount("tmpfs", "layer", LAYER, 0, "mode=755")?;
        let (upper, work) = (format!("{LAYER}/upper"), format!("{LAYER}/work"));
        std::fs::create_dir(&upper)?;
        std::fs::create_dir(&work)?;
        // Without redirect_dir, a folder of the host could not be renamed.
        let layers = format!("lowerdir={LOWER},upperdir={upper},workdir={work},redirect_dir=on");
        mount("overlay", "root", ROOT, 0, &layers)?;
        for (kind, place, options) in FRESH {
            mount(kind, kind, &format!("{ROOT}/{place}"), 0, options)?;
        }
        Ok(root)
    }

    /// Puts a file of init's own into the tree, at the same path.
    pub fn bring(&self, path: &str) -> io::Result<()> {
        let target = format!("{ROOT}{path}");
        if let Some(folder) = std::path::Path::new(&target).parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::copy(path, target).map(drop)
    }

    /// Lets the command find itself in `folder` of this tree, as on any machine: a mere chroot
    /// would not let it make user namespaces.
    pub fn enter(&self, command: &mut Command, folder: &str) -> io::Result<()> {
        let (root, folder) = (CString::new(ROOT)?, CString::new(folder)?);
        let into = move || {
            let (here, top) = (c".".as_ptr(), c"/".as_ptr());
            let nothing = std::ptr::null();
            // SAFETY: plain system calls; the strings outlive them.
            let failed = unsafe {
                libc::unshare(libc::CLONE_NEWNS) < 0
                    || libc::chdir(root.as_ptr()) < 0
                    || libc::mount(here, top, nothing, libc::MS_MOVE, nothing.cast()) < 0
                    || libc::chroot(here) < 0
                    || libc::chdir(folder.as_ptr()) < 0
            };
            match failed {
                false => Ok(()),
                true => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: only async-signal-safe system calls run between fork and exec.
        unsafe { command.pre_exec(into) };
        Ok(())
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        for place in [ROOT, LAYER] {
            let place = CString::new(place).expect("no NUL in a constant");
            // SAFETY: a plain system call; the string outlives it. Where nothing is mounted, it
            // fails, and nothing is to do.
            unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// Mounts a file system on `target`, which is made if it is not there.
pub fn mount(
    kind: &str,
    source: &str,
    target: &str,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("cannot mount {kind} on {target}: {error}"));
    std::fs::create_dir_all(target).map_err(failed)?;
    let [kind, source, place, options] = [kind, source, target, options].map(CString::new);
    let (kind, source, place, options) = (kind?, source?, place?, options?);
    // SAFETY: the strings outlive the call.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}
