// SPDX-License-Identifier: GPL-2.0-or-later
//! Real applications as ready experiments: a script each, with a head that says what it needs.

use std::path::{Path, PathBuf};

use crate::data;
use crate::failure::{Code, Failure};
use crate::nearest;

/// Sizes of each: for a small virtual machine, for a server.
pub const SIZES: [&str; 2] = ["small", "full"];

pub struct Application {
    pub name: String,
    pub script: PathBuf,
    pub about: String,
    /// Programs that must be there, and the packages that have them.
    pub needs: Vec<String>,
    pub packages: String,
}

impl Application {
    /// Needed programs that are not on PATH.
    pub fn missing(&self) -> Vec<&str> {
        // Servers lie where ordinary users' PATH does not lead.
        let is_there = |program: &&String| {
            let server = Path::new("/usr/sbin").join(program);
            server.is_file() || tiltyard_kernel::elf::find_command(program).is_ok()
        };
        let missing = self.needs.iter().filter(|program| !is_there(program));
        missing.map(String::as_str).collect()
    }
}

pub fn all() -> Result<Vec<Application>, Failure> {
    let folder = data::folder()?.join("applications");
    let names = data::names(&folder, ".sh")?;
    let read = |name: String| {
        let script = folder.join(format!("{name}.sh"));
        let text = data::read(&script)?;
        let field = |key: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(&format!("# {key}: ")));
            value.unwrap_or_default().to_owned()
        };
        Ok(Application {
            about: field("about"),
            needs: field("needs")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            packages: field("packages"),
            name,
            script,
        })
    };
    names.into_iter().map(read).collect()
}

/// The command of `NAME` or `NAME:SIZE`.
pub fn command(argument: &str) -> Result<Vec<String>, Failure> {
    let (name, size) = argument.split_once(':').unwrap_or((argument, SIZES[0]));
    let applications = all()?;
    let Some(application) = applications.iter().find(|a| a.name == name) else {
        let known: Vec<String> = applications.into_iter().map(|a| a.name).collect();
        let hint = nearest::hint(name, &known);
        let line = format!("--application {name}: there is no such application; {hint}");
        return Err(Failure::usage(line));
    };
    if !SIZES.contains(&size) {
        let sizes = SIZES.join(" or ");
        let line = format!("--application {argument}: {size} is no size; write {sizes}");
        return Err(Failure::usage(line));
    }
    let missing = application.missing();
    if !missing.is_empty() {
        let (missing, packages) = (missing.join(", "), &application.packages);
        let line = format!("{name} needs {missing}: install the packages {packages}");
        return Err(Failure::new(Code::Environment, line));
    }
    let script = application.script.display().to_string();
    Ok(vec!["sh".to_owned(), script, size.to_owned()])
}

/// All of them, with what is missing on this machine.
pub fn page() -> Result<String, Failure> {
    let mut page = String::new();
    for application in all()? {
        page += &format!("{:<18}{}\n", application.name, application.about);
        let missing = application.missing();
        if !missing.is_empty() {
            let packages = &application.packages;
            page += &format!(
                "{:<18}missing here: {}; packages {packages}\n",
                "",
                missing.join(", ")
            );
        }
    }
    Ok(
        page + "\nEach takes a size: NAME:small (the default) fits two emulated CPUs, NAME:full a server.\n"
    )
}
