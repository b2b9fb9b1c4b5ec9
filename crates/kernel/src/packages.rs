// SPDX-License-Identifier: GPL-2.0-or-later
//! Kernels from the distribution's packages, unpacked into the user's cache.
//!
//! Debian's backports have kernels with sched_ext, its release before the last one whose own
//! scheduler is still CFS. Their suites are reached with a source list and folders of our own, so the machine's apt
//! set-up stays as it is; apt checks signature and checksum as for any package. No root is needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::KernelError;
use crate::progress::Progress;
use crate::release::{is_of, numbers};
use crate::sources::{self, DebianArchive};

/// The suites with kernels of interest: 6.1, the last long-term one with CFS; from 6.16 on, with sched_ext
/// (6.12 of the release in between has the option off).
const SUITES: [&str; 2] = ["bookworm", "trixie-backports"];
/// The flavour made for virtual machines: virtio drivers built in.
const FLAVOUR: &str = "-cloud-amd64";
const PREFIX: &str = "linux-image-";
/// What else some kernels from 6.19 on are in, whose image package is empty: configuration, image, modules.
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelImage {
    /// What `uname -r` says in it.
    pub release: String,
    pub image: PathBuf,
    /// Its build configuration.
    pub config: PathBuf,
}

/// The kernel that `choice` means: a file if it has a slash, else the newest of that version
/// ("6.18" means any 6.18.x) in the cache, else the newest that the suites offer, put there.
/// Needs the network only in the last case.
pub fn find_or_fetch(
    choice: &str,
    progress: &mut dyn Progress,
) -> Result<KernelImage, KernelError> {
    if choice.contains('/') {
        return from_file(Path::new(choice));
    }
    let (version, cache) = (choice, cache_folder()?);
    if let Some(kernel) = find(&cache, version) {
        return Ok(kernel);
    }
    let archive = sources::debian_archive(&sources::of_this_machine());
    let archive = archive.ok_or(KernelError::NoArchive)?;
    std::fs::create_dir_all(&cache).map_err(KernelError::io(&cache, "create"))?;
    // Unpacked beside its place and renamed there: a kernel is in the cache whole or not at all.
    let staging = tempfile::Builder::new()
        .prefix(".fetching-")
        .tempdir_in(&cache)
        .map_err(KernelError::io(&cache, "write"))?;
    let apt = Apt::new(&archive, staging.path())?;
    progress.step(&format!(
        "asking {} for Linux {version}",
        SUITES.join(" and ")
    ));
    apt.run("apt-get", &["update"])?;
    let release = apt.newest(version)?;
    progress.step(&format!("fetching Linux {release}"));
    let tree = apt.download(&release)?;
    gather(&tree, &release)?;
    if at(&tree, &release).is_none() {
        return Err(KernelError::Package {
            what: format!("unpacking {PREFIX}{release}"),
            status: "no kernel image inside".to_owned(),
            output: "name another version".to_owned(),
        });
    }
    let place = cache.join(&release);
    let renamed = std::fs::rename(&tree, &place);
    // If it is there although that failed, another Tiltyard was faster; its copy is as good.
    at(&place, &release).ok_or_else(|| KernelError::Io {
        path: place,
        action: "rename the kernel to",
        source: renamed
            .err()
            .unwrap_or_else(|| std::io::Error::other("it is gone")),
    })
}

/// The newest cached kernel of that version.
pub fn find_cached(version: &str) -> Option<KernelImage> {
    find(&cache_folder().ok()?, version)
}

/// `$XDG_CACHE_HOME/tiltyard/kernels`, by default below `~/.cache`.
fn cache_folder() -> Result<PathBuf, KernelError> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|h| h.join(".cache")));
    let base = base.ok_or_else(|| {
        KernelError::Job("no place for kernels: set HOME or XDG_CACHE_HOME".to_owned())
    })?;
    Ok(base.join("tiltyard/kernels"))
}

fn find(cache: &Path, version: &str) -> Option<KernelImage> {
    std::fs::read_dir(cache)
        .ok()?
        .flatten()
        .filter_map(|entry| at(&entry.path(), &entry.file_name().into_string().ok()?))
        .filter(|kernel| is_of(&kernel.release, version))
        .max_by_key(|kernel| numbers(&kernel.release))
}

/// The kernel that is unpacked in `tree`, if its image and configuration are there.
fn at(tree: &Path, release: &str) -> Option<KernelImage> {
    let image = tree.join(format!("boot/vmlinuz-{release}"));
    let config = tree.join(format!("boot/config-{release}"));
    let is_whole = image.is_file() && config.is_file();
    let release = release.to_owned();
    is_whole.then_some(KernelImage {
        release,
        image,
        config,
    })
}

/// Packages in parts keep image and configuration beside the modules: puts them where all others have them.
fn gather(tree: &Path, release: &str) -> Result<(), KernelError> {
    let boot = tree.join("boot");
    for part in ["vmlinuz", "config"] {
        let from = tree.join(format!("usr/lib/modules/{release}/{part}"));
        if from.is_file() {
            std::fs::create_dir_all(&boot).map_err(KernelError::io(&boot, "create"))?;
            let to = boot.join(format!("{part}-{release}"));
            std::fs::rename(&from, to).map_err(KernelError::io(&from, "move"))?;
        }
    }
    Ok(())
}

/// A kernel as it lies in a boot folder: its configuration beside it, its modules where its
/// distribution puts them.
fn from_file(path: &Path) -> Result<KernelImage, KernelError> {
    let bytes = std::fs::read(path).map_err(KernelError::io(path, "read"))?;
    let release = release_of(&bytes).ok_or_else(|| {
        let path = path.display();
        KernelError::Job(format!("{path}: no kernel image (bzImage) of x86"))
    })?;
    let image = std::path::absolute(path).map_err(KernelError::io(path, "find"))?;
    let config = image.with_file_name(format!("config-{release}"));
    match config.is_file() {
        true => Ok(KernelImage {
            release,
            image,
            config,
        }),
        false => Err(KernelError::Job(format!(
            "{}: its configuration is missing: put it beside the kernel",
            config.display()
        ))),
    }
}

/// What a bzImage calls itself: the first word of the text to which its header points
/// (Documentation/arch/x86/boot.rst: magic at 0x202, pointer at 0x20e).
fn release_of(image: &[u8]) -> Option<String> {
    let magic = image.get(0x202..0x206)?;
    let at = u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?);
    let text = image.get(0x200 + usize::from(at)..)?;
    let end = text.iter().position(|b| *b == b' ' || *b == 0)?;
    let release = std::str::from_utf8(&text[..end]).ok()?;
    (magic == b"HdrS" && !release.is_empty()).then(|| release.to_owned())
}

/// apt with a source list, state and cache of our own.
struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    fn new(archive: &DebianArchive, folder: &Path) -> Result<Self, KernelError> {
        if !archive.keyring.exists() {
            return Err(KernelError::Package {
                what: format!("verifying {}", SUITES.join(", ")),
                status: format!("{} is missing", archive.keyring.display()),
                output: "install the package debian-archive-keyring".to_owned(),
            });
        }
        for name in [
            "lists/partial",
            "cache/archives/partial",
            "download",
            "tree",
        ] {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).map_err(KernelError::io(&path, "create"))?;
        }
        let list = folder.join("sources.list");
        let (keyring, uri) = (archive.keyring.display(), &archive.uri);
        let lines = SUITES.map(|suite| format!("deb [signed-by={keyring}] {uri} {suite} main\n"));
        std::fs::write(&list, lines.concat()).map_err(KernelError::io(&list, "write"))?;
        let at = |name: &str| folder.join(name).display().to_string();
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferences=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            "Acquire::Languages=none".to_owned(),
            // A suite that cannot be reached must not look like an empty one.
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        Ok(Self {
            folder: folder.to_owned(),
            options: options.to_vec(),
        })
    }

    fn run(&self, tool: &'static str, arguments: &[&str]) -> Result<String, KernelError> {
        let mut command = Command::new(tool);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
            .arg("-q")
            .args(arguments)
            .current_dir(self.folder.join("download"));
        checked(
            command,
            tool,
            "apt",
            &format!("{tool} {}", arguments.join(" ")),
        )
    }

    /// The newest release of `version` that the suites offer.
    fn newest(&self, version: &str) -> Result<String, KernelError> {
        let names = self.run("apt-cache", &["pkgnames", "linux-"])?;
        pick(&names, version).ok_or_else(|| KernelError::NoKernel {
            version: version.to_owned(),
            offered: offered(&names),
        })
    }

    /// Fetches and unpacks the packages of `release`; the folder with their files.
    fn download(&self, release: &str) -> Result<PathBuf, KernelError> {
        let names = self.run("apt-cache", &["pkgnames", "linux-"])?;
        let packages = packages_of(&names, release);
        let mut words = vec!["download"];
        words.extend(packages.iter().map(String::as_str));
        self.run("apt-get", &words)?;
        let folder = self.folder.join("download");
        let files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map_err(KernelError::io(&folder, "read"))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect();
        if files.len() != packages.len() {
            return Err(KernelError::Package {
                what: format!("apt-get {}", words.join(" ")),
                status: format!("{} package files", files.len()),
                output: folder.display().to_string(),
            });
        }
        let tree = self.folder.join("tree");
        for file in &files {
            let mut command = Command::new("dpkg-deb");
            command.arg("--extract").arg(file).arg(&tree);
            let what = format!("dpkg-deb --extract {}", file.display());
            checked(command, "dpkg-deb", "dpkg", &what)?;
        }
        Ok(tree)
    }
}

/// Runs to the end; its stdout. The error holds what it said on stderr, as one line.
fn checked(
    mut command: Command,
    tool: &'static str,
    package: &'static str,
    what: &str,
) -> Result<String, KernelError> {
    let output = command.output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => KernelError::ToolMissing { tool, package },
        _ => KernelError::Io {
            path: tool.into(),
            action: "start",
            source,
        },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The first error is the cause ("Failed to fetch..."), later ones sum up.
    let error = said
        .lines()
        .find(|line| line.starts_with("E: ") || line.contains("error: "))
        .unwrap_or_else(|| said.trim());
    Err(KernelError::Package {
        what: what.to_owned(),
        status: output.status.to_string(),
        output: error.to_owned(),
    })
}

/// The package of a release, and those that hold parts of it.
fn packages_of(names: &str, release: &str) -> Vec<String> {
    let parts = PARTS.map(|part| format!("{part}{release}"));
    let offered = parts
        .into_iter()
        .filter(|part| names.lines().any(|n| n == part));
    std::iter::once(format!("{PREFIX}{release}"))
        .chain(offered)
        .collect()
}

/// Releases of the flavour among package names. Archives keep image packages for longer than other parts: a release
/// that is in parts and lacks one is none.
fn releases(names: &str) -> impl Iterator<Item = &str> {
    let is_whole = |release: &str| matches!(packages_of(names, release).len(), 1 | 4);
    names
        .lines()
        .filter_map(|name| name.strip_prefix(PREFIX))
        .filter(|release| release.ends_with(FLAVOUR) && release.starts_with(char::is_numeric))
        .filter(move |release| is_whole(release))
}

fn pick(names: &str, version: &str) -> Option<String> {
    releases(names)
        .filter(|release| is_of(release, version))
        .max_by_key(|release| numbers(release))
        .map(str::to_owned)
}

/// Which series there are, oldest first.
fn offered(names: &str) -> Vec<String> {
    let mut series: Vec<Vec<u32>> = releases(names)
        .map(|release| numbers(release).into_iter().take(2).collect())
        .collect();
    series.sort();
    series.dedup();
    series
        .iter()
        .map(|numbers| {
            numbers
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(".")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "\
linux-image-6.18.9+deb13-cloud-amd64
linux-image-6.18.15+deb13-cloud-amd64
linux-image-6.18.15+deb13-cloud-amd64-dbg
linux-image-6.18.20+deb13-amd64
linux-image-6.19.3+deb13-cloud-amd64
linux-binary-6.19.3+deb13-cloud-amd64
linux-image-6.1.0-9-cloud-amd64
linux-image-6.1.0-41-cloud-amd64
linux-image-6.1.0-41-cloud-amd64-unsigned
linux-image-cloud-amd64
";

    #[test]
    fn the_newest_of_a_series_by_number() {
        assert_eq!(
            pick(NAMES, "6.18").as_deref(),
            Some("6.18.15+deb13-cloud-amd64")
        );
        assert_eq!(
            pick(NAMES, "6.18.9").as_deref(),
            Some("6.18.9+deb13-cloud-amd64")
        );
        assert_eq!(pick(NAMES, "6.1").as_deref(), Some("6.1.0-41-cloud-amd64"));
        assert_eq!(pick(NAMES, "6.2"), None);
        assert_eq!(pick(NAMES, "6.19"), None, "its modules are not there");
        assert_eq!(offered(NAMES), ["6.1", "6.18"]);
    }

    #[test]
    fn a_file_says_which_kernel_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("bzImage");
        let mut bytes = vec![0; 0x300];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x80u16.to_le_bytes());
        bytes[0x280..0x292].copy_from_slice(b"6.18.2-mine (me@x)");
        std::fs::write(&image, &bytes).unwrap();
        let error = from_file(&image).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "config-6.18.2-mine: its configuration is missing: put it beside the kernel"
            ),
            "{error}"
        );
        std::fs::write(folder.path().join("config-6.18.2-mine"), "").unwrap();
        assert_eq!(from_file(&image).unwrap().release, "6.18.2-mine");
        std::fs::write(&image, &bytes[..0x210]).unwrap();
        let error = from_file(&image).unwrap_err().to_string();
        assert!(
            error.ends_with("no kernel image (bzImage) of x86"),
            "{error}"
        );
    }

    #[test]
    fn a_kernel_in_parts_becomes_whole() {
        let names = "linux-base-7.2.1+x\nlinux-binary-7.2.1+x\nlinux-modules-7.2.1+x\nlinux-base-7.2.1+x-dbg\n";
        let expected = ["image", "base", "binary", "modules"].map(|p| format!("linux-{p}-7.2.1+x"));
        assert_eq!(packages_of(names, "7.2.1+x"), expected);
        assert_eq!(packages_of(names, "6.18.1+x"), ["linux-image-6.18.1+x"]);
        let tree = tempfile::tempdir().unwrap();
        let modules = tree.path().join("usr/lib/modules/7.2.1+x");
        std::fs::create_dir_all(&modules).unwrap();
        for part in ["vmlinuz", "config"] {
            std::fs::write(modules.join(part), "").unwrap();
        }
        assert_eq!(at(tree.path(), "7.2.1+x"), None);
        gather(tree.path(), "7.2.1+x").unwrap();
        assert!(at(tree.path(), "7.2.1+x").is_some());
    }

    #[test]
    fn a_kernel_counts_only_when_whole() {
        let cache = tempfile::tempdir().unwrap();
        let boot = cache.path().join("6.18.1+x/boot");
        std::fs::create_dir_all(&boot).unwrap();
        std::fs::write(boot.join("vmlinuz-6.18.1+x"), "").unwrap();
        assert_eq!(find(cache.path(), "6.18"), None);
        std::fs::write(boot.join("config-6.18.1+x"), "").unwrap();
        assert_eq!(find(cache.path(), "6.18").unwrap().release, "6.18.1+x");
        assert_eq!(find(cache.path(), "6.1"), None, "6.18 is not 6.1");
    }
}
