// SPDX-License-Identifier: GPL-2.0-or-later
//! Real applications as ready experiments: one script each, with a header that lists its requirements.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::data;
use crate::nearest;

/// A script of `applications/` and what its header says.
pub struct Application {
    /// The script's name without suffix.
    pub name: String,
    /// Its path; it takes a size as its only argument.
    pub script: PathBuf,
    /// What it does, in a sentence.
    pub about: String,
    /// Required programs.
    pub needs: Vec<String>,
    /// The Debian packages that contain them, separated by spaces; none if Debian has none.
    pub packages: Option<String>,
    /// Where its source is, if no package contains it.
    pub source: Option<String>,
    /// The first is for a small virtual machine, the others are for servers.
    pub sizes: Vec<String>,
    /// Its scores, as [`tiltyard_measure::score`] names them.
    pub scores: Vec<String>,
}

impl Application {
    /// Needed programs that are not on PATH.
    pub fn missing(&self) -> Vec<&str> {
        // Servers are in folders that are not on an ordinary user's PATH.
        let is_there = |program: &&String| {
            let server = Path::new("/usr/sbin").join(program);
            server.is_file() || tiltyard_kernel::elf::find_command(program).is_ok()
        };
        let missing = self.needs.iter().filter(|program| !is_there(program));
        missing.map(String::as_str).collect()
    }

    /// How to install what is missing.
    pub fn remedy(&self) -> String {
        match (&self.packages, &self.source) {
            (Some(packages), _) => format!("install the packages {packages}"),
            (None, source) => format!(
                "not packaged in Debian: build it from {} and put it on PATH",
                source.as_deref().unwrap_or("its source")
            ),
        }
    }
}

/// All shipped applications, by name.
pub fn all() -> Result<Vec<Application>, Error> {
    let folder = data::folder()?.join("applications");
    let names = data::names(&folder, ".sh")?;
    let read = |name: String| {
        let script = folder.join(format!("{name}.sh"));
        let text = data::read(&script)?;
        let field = |key: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(&format!("# {key}: ")));
            value.map(str::to_owned)
        };
        let words = |key: &str| -> Vec<String> {
            let field = field(key).unwrap_or_default();
            field.split_whitespace().map(str::to_owned).collect()
        };
        Ok(Application {
            about: field("about").unwrap_or_default(),
            needs: words("needs"),
            packages: field("packages"),
            source: field("source"),
            sizes: words("sizes"),
            scores: words("scores"),
            name,
            script,
        })
    };
    names.into_iter().map(read).collect()
}

/// The command of `NAME` or `NAME:SIZE`.
pub fn command(argument: &str) -> Result<Vec<String>, Error> {
    let (name, size) = match argument.split_once(':') {
        Some((name, size)) => (name, Some(size)),
        None => (argument, None),
    };
    let applications = all()?;
    let Some(application) = applications.iter().find(|a| a.name == name) else {
        let known: Vec<String> = applications.into_iter().map(|a| a.name).collect();
        let hint = nearest::hint(name, &known);
        let what = format!("there is no such application; {hint}");
        return Err(Error::argument("application", name, what));
    };
    let sizes = &application.sizes;
    let smallest = sizes.first().map_or("small", String::as_str);
    let size = size.unwrap_or(smallest);
    if !sizes.iter().any(|known| known == size) {
        let sizes = sizes.join(" or ");
        let what = format!("{size} is no size; write {sizes}");
        return Err(Error::argument("application", argument, what));
    }
    let missing = application.missing();
    if !missing.is_empty() {
        return Err(Error::Application {
            application: name.to_owned(),
            programs: missing.join(", "),
            remedy: application.remedy(),
        });
    }
    let script = application.script.display().to_string();
    Ok(vec!["sh".to_owned(), script, size.to_owned()])
}
