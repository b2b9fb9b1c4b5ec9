// SPDX-License-Identifier: GPL-2.0-or-later
//! What a run may take of the machine: a control group (cgroup v2) around the command and all that it starts.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::KernelError;

/// Where the tree of groups is mounted.
pub const TREE: &str = "/sys/fs/cgroup";
/// How the groups are called that runs get, followed by the number of Tiltyard's process.
const PREFIX: &str = "tiltyard-";
/// How long processes that were killed may take to leave their group.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Who takes more is killed. Files that live in memory count.
    pub memory_mib: Option<u32>,
    /// It runs on the first so many CPUs.
    pub cpus: Option<u32>,
}

impl Limits {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The controllers that are needed, each with the option that asks for it.
    fn controllers(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let memory = self.memory_mib.map(|_| ("memory", "--limit-memory"));
        let cpus = self.cpus.map(|_| ("cpuset", "--limit-cpus"));
        memory.into_iter().chain(cpus)
    }

    /// Err where this kernel cannot keep them.
    pub fn check(&self, tree: &Path) -> Result<(), KernelError> {
        let offered = std::fs::read_to_string(tree.join("cgroup.controllers")).unwrap_or_default();
        for (controller, option) in self.controllers() {
            if !offered.split_whitespace().any(|one| one == controller) {
                return Err(KernelError::NoController {
                    option,
                    tree: tree.to_owned(),
                    controller,
                });
            }
        }
        Ok(())
    }
}

/// A group of its own for one run. Gone when dropped, with all that is still in it.
pub struct Group {
    folder: PathBuf,
    members: File,
    limits: Limits,
}

impl Group {
    /// None where nothing is limited.
    pub fn new(limits: Limits) -> io::Result<Option<Group>> {
        if limits.is_none() {
            return Ok(None);
        }
        let tree = Path::new(TREE);
        limits.check(tree).map_err(io::Error::other)?;
        remove_stale(tree);
        for (controller, _) in limits.controllers() {
            write(tree, "cgroup.subtree_control", &format!("+{controller}"))?;
        }
        let folder = tree.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(named(&folder, "make"))?;
        let members = folder.join("cgroup.procs");
        let members = File::options().write(true).open(&members);
        let group = Group {
            members: members.map_err(named(&folder, "use"))?,
            folder,
            limits,
        };
        if let Some(mib) = limits.memory_mib {
            write(&group.folder, "memory.max", &format!("{mib}M"))?;
            write(&group.folder, "memory.oom.group", "1")?;
            // Where there is no swap at all, there is no such file.
            let _ = write(&group.folder, "memory.swap.max", "0");
        }
        if let Some(cpus) = limits.cpus {
            let path = tree.join("cpuset.cpus.effective");
            let there = std::fs::read_to_string(&path).map_err(named(&path, "read"))?;
            write(&group.folder, "cpuset.cpus", &first(&there, cpus)?)?;
        }
        Ok(Some(group))
    }

    /// Lets the command, once started, find itself in it.
    pub fn enter(&self, command: &mut Command) -> io::Result<()> {
        let mut members = self.members.try_clone()?;
        // SAFETY: only a write to an open file happens between fork and exec; 0 is who writes.
        unsafe { command.pre_exec(move || members.write_all(b"0")) };
        Ok(())
    }

    /// The memory limit, if someone was killed for it.
    pub fn was_exceeded(&self) -> Option<u32> {
        let events = std::fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let kills = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        self.limits
            .memory_mib
            .filter(|_| kills.is_some_and(|kills| kills != "0"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = write(&self.folder, "cgroup.kill", "1");
        let give_up = Instant::now() + LEAVE_LIMIT;
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Empty groups of a Tiltyard that was killed.
fn remove_stale(tree: &Path) {
    for entry in std::fs::read_dir(tree).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The first `count` CPUs of a list such as "0-2,5".
fn first(list: &str, count: u32) -> io::Result<String> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?)
    };
    let cpus = list.trim().split(',').filter_map(range).flatten();
    let cpus: Vec<String> = cpus
        .take(count as usize)
        .map(|cpu| cpu.to_string())
        .collect();
    match cpus.len() == count as usize && count > 0 {
        true => Ok(cpus.join(",")),
        false => Err(io::Error::other(format!(
            "--limit-cpus {count}: this machine has CPUs {}",
            list.trim()
        ))),
    }
}

fn write(folder: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = folder.join(file);
    std::fs::write(&path, value).map_err(named(&path, "write"))
}

fn named(path: &Path, action: &str) -> impl FnOnce(io::Error) -> io::Error {
    let what = format!("cannot {action} {}", path.display());
    move |error| io::Error::other(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpus_of_those_that_there_are() {
        assert_eq!(first("0-2,5\n", 1).unwrap(), "0");
        assert_eq!(first("0-2,5\n", 4).unwrap(), "0,1,2,5");
        let error = first("0-2,5\n", 5).unwrap_err().to_string();
        assert_eq!(error, "--limit-cpus 5: this machine has CPUs 0-2,5");
    }

    #[test]
    fn a_kernel_that_cannot_keep_a_limit_says_which() {
        let tree = tempfile::tempdir().unwrap();
        let limits = Limits {
            memory_mib: Some(1),
            cpus: Some(1),
        };
        let error = limits.check(tree.path()).unwrap_err().to_string();
        assert!(error.starts_with("--limit-memory: "), "{error}");
        std::fs::write(tree.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        let error = limits.check(tree.path()).unwrap_err().to_string();
        assert!(error.starts_with("--limit-cpus: "), "{error}");
        std::fs::write(tree.path().join("cgroup.controllers"), "cpuset memory\n").unwrap();
        assert!(limits.check(tree.path()).is_ok());
        assert!(Limits::default().check(Path::new("/nowhere")).is_ok());
    }
}
