// SPDX-License-Identifier: GPL-2.0-or-later
//! The workload's cgroups in the cgroup v2 hierarchy: directly below its root, so that the workload's `/` is the
//! machine's, or, where processes may not move there, below a group of this run's own.
//!
//! They are threaded: threads of one process may be in different groups, as in the simulated machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tiltyard_workload::Workload;

/// Where the hierarchy can be; with version 1 beside it, it has no cpu controller.
const MOUNTS: &str = "/proc/self/mounts";

pub struct Groups {
    /// Who leaves goes there.
    base: PathBuf,
    /// The workload's `/`: `base`, or a folder of this run's own in it.
    root: PathBuf,
    folders: Vec<PathBuf>,
    /// The folders that this run has made, in order.
    made: Vec<PathBuf>,
}

impl Groups {
    /// Makes the groups. The error is why there can be none here, and the way out.
    pub fn new(workload: &Workload) -> Result<Groups, String> {
        let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let folder = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(folder))
        });
        let mount = mount.ok_or("no cgroup v2 hierarchy is mounted")?;
        let own = own_folder(&mount);
        let limit = own.as_deref().and_then(|own| limit_up_to(&mount, own));
        if let Some(file) = limit {
            return Err(format!(
                "{}: sets a limit, which groups of the workload's would leave",
                file.display()
            ));
        }
        let base = [Some(mount.clone()), own];
        let mut bases = base.into_iter().flatten();
        bases
            .find(|base| enable_cpu(base).is_ok())
            .ok_or(format!(
                "{}: the cpu controller cannot be given to groups there; it takes root and a machine without cgroup v1",
                mount.display()
            ))
            .and_then(|base| Groups::below(base, workload))
    }

    fn below(base: PathBuf, workload: &Workload) -> Result<Groups, String> {
        let own = format!("tiltyard-{}", std::process::id());
        let in_root = is_root(&base);
        let root = if in_root {
            base.clone()
        } else {
            base.join(&own)
        };
        let mut folders: Vec<PathBuf> = Vec::new();
        for group in &workload.groups {
            let name = group.path.rsplit('/').next().unwrap_or_default();
            folders.push(match group.parent {
                _ if group.is_root() => root.clone(),
                Some(parent) => folders[parent].join(name),
                None if in_root => root.join(format!("{own}.{name}")),
                None => root.join(name),
            });
        }
        let mut groups = Groups {
            base,
            root,
            folders,
            made: Vec::new(),
        };
        match groups.make(workload) {
            Ok(()) => Ok(groups),
            Err((folder, error)) => {
                groups.delete();
                Err(format!("{}: {error}", folder.display()))
            }
        }
    }

    fn make(&mut self, workload: &Workload) -> Result<(), (PathBuf, io::Error)> {
        let at = |folder: &Path| {
            let folder = folder.to_owned();
            move |error| (folder, error)
        };
        let pairs = self.folders.iter().zip(&workload.groups);
        let below = pairs.filter(|(_, group)| !group.is_root());
        if self.root != self.base {
            fs::create_dir(&self.root).map_err(at(&self.root))?;
            self.made.push(self.root.clone());
        }
        for (folder, _) in below.clone() {
            fs::create_dir(folder).map_err(at(folder))?;
            self.made.push(folder.clone());
            fs::write(folder.join("cgroup.type"), "threaded").map_err(at(folder))?;
        }
        enable_cpu(&self.root).map_err(at(&self.root))?;
        for (folder, group) in below {
            let weight = group.weight.to_string();
            fs::write(folder.join("cpu.weight"), weight).map_err(at(folder))?;
            enable_cpu(folder).map_err(at(folder))?;
        }
        Ok(())
    }

    /// The calling process joins this run; those that it forks are born there.
    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.root.join("cgroup.procs"), "0")
    }

    pub fn join(&self, group: usize, tid: u32) -> io::Result<()> {
        fs::write(self.folders[group].join("cgroup.threads"), tid.to_string())
    }

    /// After all others have ended: leaves, and removes what [`Groups::new`] made.
    pub fn remove(&self) {
        let _ = fs::write(self.base.join("cgroup.procs"), "0");
        self.delete();
    }

    fn delete(&self) {
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn enable_cpu(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.subtree_control"), "+cpu")
}

/// Whether a folder is the root of the whole hierarchy, and not only that of a namespace.
fn is_root(folder: &Path) -> bool {
    !folder.join("cgroup.type").exists()
}

/// Folder of the cgroup in which this process is.
fn own_folder(mount: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(path))
}

/// The file that limits the members of a group, its own or that of a group above it, if one does. What limits all of the
/// hierarchy that is seen here is not left.
fn limit_up_to(mount: &Path, folder: &Path) -> Option<PathBuf> {
    let below_mount = |f: &&Path| f.starts_with(mount) && *f != mount;
    let above = folder.ancestors().skip(1).take_while(below_mount);
    std::iter::once(folder).chain(above).find_map(limit_of)
}

/// The file that limits the members of a group, if one does. The root has none of these files.
fn limit_of(folder: &Path) -> Option<PathBuf> {
    let limits = [
        ("memory.max", "max"),
        ("cpu.max", "max"),
        ("cpuset.cpus", ""),
    ];
    let limits = limits.map(|(file, none)| (folder.join(file), none));
    limits.into_iter().find_map(|(file, none)| {
        let text = fs::read_to_string(&file).ok()?;
        let first = text.split_whitespace().next().unwrap_or_default();
        (first != none).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::{limit_of, limit_up_to};
    use std::fs;
    use std::path::Path;

    #[test]
    fn limits_are_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let limit = || limit_of(folder.path());
        let write = |file: &str, text: &str| {
            fs::write(folder.path().join(file), text).expect("a file");
        };
        assert_eq!(limit(), None);
        write("memory.max", "max\n");
        write("cpu.max", "max 100000\n");
        write("cpuset.cpus", "\n");
        assert_eq!(limit(), None);
        write("cpuset.cpus", "0-1\n");
        assert_eq!(limit(), Some(folder.path().join("cpuset.cpus")));
        let below = folder.path().join("part/deeper");
        let up_to = |mount: &Path| limit_up_to(mount, &below);
        let above = folder.path().parent().expect("a folder above");
        assert_eq!(up_to(above), Some(folder.path().join("cpuset.cpus")));
        assert_eq!(up_to(folder.path()), None, "nobody leaves the mount");
        write("memory.max", "52428800\n");
        assert_eq!(limit(), Some(folder.path().join("memory.max")));
    }
}
