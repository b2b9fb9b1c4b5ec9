// SPDX-License-Identifier: GPL-2.0-or-later
//! The shipped set of settings and workloads, and folders in which results are kept: SETTING.json, and the machine that was
//! measured with them, SETTING.toml.

use std::path::{Path, PathBuf};

use tiltyard_fidelity::page;
use tiltyard_fidelity::set::{Results, Set};
use tiltyard_misspelt::toml_line;
use tiltyard_model::Machine;

use crate::{Error, data, output, workloads};

/// The folder `fidelity` of the shipped data.
pub struct Shipped {
    /// Its settings and tolerances.
    pub set: Set,
    /// The names of its workloads, sorted.
    pub workloads: Vec<String>,
    folder: PathBuf,
}

impl Shipped {
    /// Fails if the folder or the set's file is not there or wrong.
    pub fn read() -> Result<Shipped, Error> {
        let folder = data::folder()?.join("fidelity");
        let path = folder.join("set.toml");
        let set = Set::parse(&data::read(&path)?).map_err(|e| wrong(&path, &toml_line(&e)))?;
        let workloads = data::names(&folder.join("workloads"), ".json")?;
        Ok(Shipped {
            set,
            workloads,
            folder,
        })
    }

    /// The file of one of the workloads.
    pub fn workload(&self, name: &str) -> PathBuf {
        self.folder.join(format!("workloads/{name}.json"))
    }

    /// The results in a folder, in the set's order, each with its machine file and that machine. An error if there are none.
    pub fn kept(&self, folder: &Path) -> Result<Vec<SettingResults>, Error> {
        let mut kept = Vec::new();
        for setting in &self.set.settings {
            let path = folder.join(format!("{}.json", setting.name));
            if path.is_file() {
                let results = serde_json::from_str(&data::read(&path)?)
                    .map_err(|e| wrong(&path, &e.to_string()))?;
                kept.push(SettingResults::read(results, path.with_extension("toml"))?);
            }
        }
        if kept.is_empty() {
            let line = "no results there; tiltyard fidelity --out makes them";
            return Err(Error::input(format!("{}: {line}", folder.display())));
        }
        Ok(kept)
    }

    /// docs/fidelity.md, from the results in a folder.
    pub fn page(&self, results: &Path) -> Result<String, Error> {
        let kept = self.kept(results)?;
        let results: Vec<Results> = kept.into_iter().map(|kept| kept.results).collect();
        let mut about = Vec::new();
        for name in &self.workloads {
            let workload = workloads::load(&self.workload(name).display().to_string())?;
            about.push((name.clone(), workload.description.replace('\n', " ")));
        }
        let reasons = data::read(&self.folder.join("reasons.md"))?;
        Ok(page::render(&results, &about, &reasons))
    }
}

/// One setting's results.
pub struct SettingResults {
    /// Both sides of every workload.
    pub results: Results,
    /// The simulated machine, as measured.
    pub machine: Machine,
    /// The machine file.
    pub text: String,
}

impl SettingResults {
    fn read(results: Results, path: PathBuf) -> Result<SettingResults, Error> {
        let text = data::read(&path)?;
        let machine = Machine::parse_toml(&text, &data::shown(&path))
            .map_err(|error| Error::input(error.to_string()))?;
        Ok(SettingResults {
            results,
            machine,
            text,
        })
    }

    /// Writes both files to a folder that exists.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let name = &self.results.setting.name;
        let json = format!("{:#}\n", serde_json::json!(self.results));
        output::write(&folder.join(format!("{name}.json")), json.as_bytes())?;
        output::write(&folder.join(format!("{name}.toml")), self.text.as_bytes())
    }
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::input(format!("{}: {what}", data::shown(path)))
}
