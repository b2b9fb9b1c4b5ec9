// SPDX-License-Identifier: GPL-2.0-or-later
//! The verifier of a real kernel as a service: objects are loaded into a guest and dropped again.
//!
//! A guest takes seconds to boot and most verifications milliseconds, so the guest is kept: whoever asks first starts a
//! server in the background ([`server`]), which boots one and ends, guest and files included, when nobody has asked for
//! a while. In the guest, [`guest`] does the work. All of them speak in files of one folder, which the guest sees through
//! its share of the host's files; only the guest's answers come another way, as lines of its output.

mod client;
pub mod guest;
pub mod server;

pub use client::verify;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use tiltyard_environment::Environment;

use crate::protocol::Tunable;

/// Memory of the guest, MiB: with half of it, the verifier's states of the largest shipped scheduler do not fit.
const MEMORY_MIB: u32 = 2048;

/// What is to be verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Path of the BPF object on the host, outside of the folders that a guest has for itself (/run, /dev, /proc, /sys).
    pub object: PathBuf,
    /// Values decide which code the verifier sees.
    pub tunables: Vec<Tunable>,
    pub environment: Environment,
}

/// What the kernel makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What `uname -r` prints there.
    pub kernel_release: String,
    /// Why it refuses the object; none if it takes it.
    pub refusal: Option<String>,
    /// The fault is in the table `[environment]`; the kernel has not seen the object.
    pub is_input: bool,
}

/// Where server, guest and clients meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Folder {
        Folder(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Requests, `ID.json` each.
    fn requests(&self) -> PathBuf {
        self.0.join("requests")
    }

    /// The requests that the guest has been given, one a line: file name, tab, contents. The guest's kernel remembers for
    /// long which files there are, so one file grows instead.
    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// Verdicts of the same names.
    fn answers(&self) -> PathBuf {
        self.0.join("answers")
    }

    /// Locked by the server as long as it serves.
    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Why the last server ended, if it could not serve.
    fn error(&self) -> PathBuf {
        self.0.join("error")
    }
}

/// Writes beside the target and renames: readers see all of it or nothing.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(partial, path)
}
