// SPDX-License-Identifier: GPL-2.0-or-later
//! What `-s` accepts: a shipped name, a preset, `NAME:tunable=value:...`, or a path to a `.bpf.c`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tiltyard_environment::Environment;

use crate::Error;
use crate::source::Source;
use crate::{data, in_use, nearest};

/// One scheduler as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As typed: its name in errors and commands.
    pub argument: String,
    /// Its name in tables: the argument, without the folders and suffix of a path.
    pub label: String,
    /// Path of the `.bpf.c`.
    pub source: PathBuf,
    /// Tunables and their values, those typed after those of a preset. A name occurs once.
    pub tunables: Vec<(String, String)>,
    /// Whether a run with it should eject it for starving tasks, as the kernel would.
    pub watchdog: bool,
    /// What its user-space half does with the machine.
    pub environment: Environment,
    /// What is different in a real kernel.
    pub kernel: KernelSettings,
    /// What it does and can be switched off, by name.
    pub mechanisms: Vec<Mechanism>,
}

impl Choice {
    /// The scheduler that it is a variant of: the name of its source without suffix.
    pub fn family(&self) -> String {
        let file = self.source.file_name().unwrap_or_default();
        let file = file.to_string_lossy();
        file.strip_suffix(".bpf.c").unwrap_or(&file).to_owned()
    }
}

/// What a scheduler needs in a real kernel, which allows less than the simulated machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// Tunables and their values, unless set otherwise.
    pub tunables: Vec<(String, String)>,
    /// Counters of the scheduler's deviations from itself, and what each counts.
    pub deviations: Vec<(String, String)>,
}

/// Something that a scheduler does, and the tunables that switch it off: `[mechanisms.NAME]` beside its presets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// Mechanisms of other schedulers and of the machine with the same name are switched off with it.
    pub name: String,
    /// What happens while it is on, in a sentence.
    pub description: String,
    /// Whether it has no effect on a machine with one CPU.
    pub multicore: bool,
    /// Tunables and the values that they must have: otherwise this variant of the scheduler lacks the mechanism.
    pub when: Vec<(String, String)>,
    /// Tunables, and their values that switch it off.
    pub off: Vec<(String, String)>,
}

/// A scheduler and a set of values with a name, from `schedulers/NAME/presets.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The preset's name.
    pub name: String,
    /// The scheduler's name.
    pub scheduler: String,
    /// What it stands for, in a sentence.
    pub description: String,
    /// What it sets, and to what.
    pub tunables: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct PresetFile {
    /// False for a scheduler that starves tasks by design: the simulated machine then allows it.
    #[serde(default = "yes")]
    watchdog: bool,
    #[serde(default)]
    kernel: KernelTable,
    #[serde(default)]
    environment: toml::Table,
    #[serde(default)]
    mechanisms: BTreeMap<String, MechanismTable>,
    #[serde(flatten)]
    presets: BTreeMap<String, PresetTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelTable {
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
    #[serde(default)]
    deviations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MechanismTable {
    description: String,
    #[serde(default)]
    multicore: bool,
    #[serde(default)]
    when: BTreeMap<String, toml::Value>,
    set: BTreeMap<String, toml::Value>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PresetTable {
    description: String,
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
}

/// Shipped schedulers: folders that contain a source of the same name.
pub fn names() -> Result<Vec<String>, Error> {
    let folder = data::folder()?.join("schedulers");
    let mut names = data::names(&folder, "")?;
    names.retain(|name| source_of(&folder, name).is_file());
    Ok(names)
}

fn source_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).join(format!("{name}.bpf.c"))
}

/// What `argument` is, in a sentence: what a preset stands for, else how the README beside its source begins; empty if
/// nothing says it.
pub fn about(argument: &str) -> String {
    let (name, settings) = split(argument);
    let preset = presets().unwrap_or_default();
    let preset = preset.into_iter().find(|preset| preset.name == name);
    let about = match preset {
        Some(preset) => preset.description,
        None => {
            let source = choose(argument).map(|choice| choice.source);
            let folder = source.ok().and_then(|s| s.parent().map(Path::to_owned));
            folder.map_or(String::new(), |folder| about_folder(&folder))
        }
    };
    match (about.as_str(), settings) {
        (_, "") => about,
        ("", settings) => settings.to_owned(),
        (about, settings) if about.ends_with('.') => format!("{about} With {settings}."),
        (about, settings) => format!("{about}; with {settings}"),
    }
}

/// The first sentence of the README of a scheduler's folder, below its title.
pub fn about_folder(folder: &Path) -> String {
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let lines = readme
        .lines()
        .skip_while(|l| l.starts_with('#') || l.starts_with("<!--") || l.trim().is_empty());
    let paragraph: Vec<&str> = lines.take_while(|l| !l.trim().is_empty()).collect();
    let text = paragraph.join(" ");
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text,
    }
}

/// All presets of all shipped schedulers. Their names are one namespace.
pub fn presets() -> Result<Vec<Preset>, Error> {
    let folder = data::folder()?.join("schedulers");
    let mut presets: Vec<Preset> = Vec::new();
    for scheduler in names()? {
        let file = folder.join(&scheduler).join("presets.toml");
        if is_there(&file) {
            presets.extend(read_presets(&file, &scheduler)?);
        }
    }
    Ok(presets)
}

fn read_presets(file: &Path, scheduler: &str) -> Result<Vec<Preset>, Error> {
    let presets = read_file(file)?.presets.into_iter().map(|(name, table)| {
        Ok(Preset {
            tunables: values(file, &name, table.set)?,
            name,
            scheduler: scheduler.to_owned(),
            description: table.description,
        })
    });
    presets.collect()
}

/// The values of a table of this name.
fn values(
    file: &Path,
    name: &str,
    set: BTreeMap<String, toml::Value>,
) -> Result<Vec<(String, String)>, Error> {
    let value = |(tunable, value): (String, toml::Value)| match value {
        toml::Value::Integer(number) => Ok((tunable, number.to_string())),
        toml::Value::Boolean(flag) => Ok((tunable, flag.to_string())),
        toml::Value::Array(list) if list.iter().all(toml::Value::is_integer) => {
            let words: Vec<String> = list.iter().map(toml::Value::to_string).collect();
            Ok((tunable, words.join("/")))
        }
        other => {
            let place = format!("{}: [{name}] {tunable} = {other}", data::shown(file));
            let line = format!("{place}: no integer, boolean or array of integers");
            Err(Error::input(line))
        }
    };
    set.into_iter().map(value).collect()
}

/// Even if it cannot be read: that is an error, not a scheduler without presets.
fn is_there(file: &Path) -> bool {
    let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory];
    !matches!(file.symlink_metadata(), Err(error) if absent.contains(&error.kind()))
}

fn read_file(file: &Path) -> Result<PresetFile, Error> {
    if file.exists() && !file.is_file() {
        let line = format!("{}: {}", data::shown(file), data::no_file(file));
        return Err(Error::input(line));
    }
    let help = "write [PRESET], description = \"...\", set = { tunable = value }";
    Source::read(file)?.toml(help)
}

/// What the file beside a source says of all its presets.
struct Beside {
    watchdog: bool,
    environment: Environment,
    kernel: KernelSettings,
    mechanisms: Vec<Mechanism>,
}

fn beside(source: &Path) -> Result<Beside, Error> {
    let file = source.with_file_name("presets.toml");
    if !is_there(&file) {
        return Ok(Beside {
            watchdog: true,
            environment: Environment::default(),
            kernel: KernelSettings::default(),
            mechanisms: Vec::new(),
        });
    }
    let read = read_file(&file)?;
    let environment = Environment::from_toml(read.environment)
        .map_err(|error| Error::input(format!("{}: {error}", data::shown(&file))))?;
    let kernel = KernelSettings {
        tunables: values(&file, "kernel", read.kernel.set)?,
        deviations: read.kernel.deviations.into_iter().collect(),
    };
    let mechanisms = read.mechanisms.into_iter().map(|(name, table)| {
        let place = format!("mechanisms.{name}");
        Ok(Mechanism {
            when: values(&file, &place, table.when)?,
            off: values(&file, &place, table.set)?,
            name,
            description: table.description,
            multicore: table.multicore,
        })
    });
    Ok(Beside {
        watchdog: read.watchdog,
        environment,
        kernel,
        mechanisms: mechanisms.collect::<Result<_, Error>>()?,
    })
}

/// Resolves `argument`. Names of tunables are checked when the scheduler has been built.
pub fn choose(argument: &str) -> Result<Choice, Error> {
    let (name, settings) = split(argument);
    if settings.is_empty() && argument.ends_with(':') {
        let what = "ends with a colon; write NAME, or NAME:tunable=value";
        return Err(unknown(argument, what.to_owned()));
    }
    let (source, mut tunables) = find(argument, name)?;
    let mut given = Vec::new();
    for setting in settings.split(':').filter(|s| !s.is_empty()) {
        let (tunable, value) = setting
            .split_once('=')
            .filter(|(t, v)| !t.is_empty() && !v.is_empty())
            .ok_or_else(|| {
                let what = format!("\"{setting}\" sets nothing; write NAME:tunable=value");
                unknown(argument, what)
            })?;
        if given.contains(&tunable) {
            let what = format!("{tunable} is given twice; keep one");
            return Err(unknown(argument, what));
        }
        given.push(tunable);
        // The preset's own value, if it has one.
        tunables.retain(|(known, _)| known != tunable);
        tunables.push((tunable.to_owned(), value.to_owned()));
    }
    let Beside {
        watchdog,
        environment,
        mut kernel,
        mechanisms,
    } = beside(&source)?;
    let is_given = |name: &String| tunables.iter().any(|(given, _)| given == name);
    kernel.tunables.retain(|(name, _)| !is_given(name));
    Ok(Choice {
        argument: argument.to_owned(),
        label: label(argument),
        source,
        tunables,
        watchdog,
        environment,
        kernel,
        mechanisms,
    })
}

/// [`choose`] for several that are compared; `all` means each shipped one that is not also named.
pub fn choose_all(arguments: &[String]) -> Result<Vec<Choice>, Error> {
    let mut choices: Vec<Choice> = Vec::new();
    for argument in arguments {
        let shipped = match argument.as_str() {
            "all" => {
                let mut names = names()?;
                names.retain(|name| !arguments.contains(name));
                names
            }
            _ => vec![argument.clone()],
        };
        for argument in shipped {
            if choices.iter().any(|other| other.argument == argument) {
                return Err(unknown(&argument, "given twice; keep one".to_owned()));
            }
            choices.push(choose(&argument)?);
        }
    }
    tell_apart(&mut choices);
    Ok(choices)
}

/// Where two would have the same name, each is named as typed.
pub fn tell_apart(choices: &mut [Choice]) {
    let labels: Vec<String> = choices.iter().map(|c| c.label.clone()).collect();
    for choice in choices {
        if labels.iter().filter(|l| **l == choice.label).count() > 1 {
            choice.label.clone_from(&choice.argument);
        }
    }
}

/// Names that the scx project gives to every scheduler's source and its folders.
const NO_NAMES: [&str; 3] = ["main", "bpf", "src"];

/// `./folder/my.bpf.c:slice_ms=5` is named `my:slice_ms=5`, `scx_my/src/bpf/main.bpf.c` is named `scx_my`.
fn label(argument: &str) -> String {
    let (name, settings) = split(argument);
    let path = name.strip_suffix(".bpf.c").unwrap_or(name);
    let names = path
        .rsplit('/')
        .filter(|part| !part.trim_matches('.').is_empty());
    let own = names.clone().find(|part| !NO_NAMES.contains(part));
    let stem = own.or(names.clone().next()).unwrap_or(name);
    match settings {
        "" => stem.to_owned(),
        _ => format!("{stem}:{settings}"),
    }
}

/// The name or path, and the settings after it.
pub fn split(argument: &str) -> (&str, &str) {
    const SUFFIX: &str = ".bpf.c";
    let after_path = argument.find(".bpf.c:").map(|at| at + SUFFIX.len());
    match after_path.or_else(|| argument.find(':').filter(|_| !argument.ends_with(SUFFIX))) {
        Some(colon) => (&argument[..colon], &argument[colon + 1..]),
        None => (argument, ""),
    }
}

/// About a file that is no scheduler's source.
const NO_SOURCE: &str = "a scheduler's source is C; name a file that ends in .bpf.c";

/// Source and preset values of a name or path.
fn find(argument: &str, name: &str) -> Result<(PathBuf, Vec<(String, String)>), Error> {
    let folder = data::folder()?.join("schedulers");
    if name.ends_with(".bpf.c") || name.contains('/') {
        let path = PathBuf::from(name);
        return match path.is_file() {
            true if path.extension().is_none_or(|extension| extension != "c") => {
                Err(unknown(argument, NO_SOURCE.to_owned()))
            }
            true => {
                in_use::is_read(&path);
                Ok((path, Vec::new()))
            }
            false => own_preset(argument, &path),
        };
    }
    let shipped = names()?;
    let presets = presets()?;
    // A preset may have its scheduler's name: then the name alone means the preset.
    if let Some(preset) = presets.iter().find(|p| p.name == name) {
        let source = source_of(&folder, &preset.scheduler);
        return Ok((source, preset.tunables.clone()));
    }
    if shipped.iter().any(|s| s == name) {
        return Ok((source_of(&folder, name), Vec::new()));
    }
    // Some presets have their scheduler's name.
    let known: BTreeSet<String> = shipped
        .into_iter()
        .chain(presets.into_iter().map(|p| p.name))
        .collect();
    let known: Vec<String> = known.into_iter().collect();
    let hint = match name.split_once('=') {
        Some((tunable, value)) => {
            format!("write tunables after a scheduler's name: NAME:{tunable}={value}")
        }
        None if Path::new(name).is_file() => return Err(unknown(argument, NO_SOURCE.to_owned())),
        None => {
            own_source(name).unwrap_or_else(|| nearest::hint_of_listed(name, &known, "schedulers"))
        }
    };
    let what = format!("no scheduler or preset has this name; {hint}");
    Err(unknown(argument, what))
}

/// The hint for a user who typed the name of a folder, or left out a file's extension.
fn own_source(typed: &str) -> Option<String> {
    let path = typed.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    nearest::own_file(&[format!("{path}.bpf.c"), format!("{path}/{name}.bpf.c")])
}

/// `FOLDER/PRESET`: a preset of the scheduler in a folder of the user's own.
fn own_preset(argument: &str, path: &Path) -> Result<(PathBuf, Vec<(String, String)>), Error> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let file = folder.join("presets.toml");
    let own = match is_there(&file) {
        true => read_presets(&file, "")?,
        false => Vec::new(),
    };
    let name = path.file_name().unwrap_or_default();
    let Some(preset) = own.into_iter().find(|preset| name == preset.name.as_str()) else {
        let other = "name a .bpf.c that exists, or a preset of the presets.toml there";
        let hint = own_source(&path.to_string_lossy()).unwrap_or_else(|| other.to_owned());
        let what = format!("{}; {hint}", data::no_file(path));
        return Err(unknown(argument, what));
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut sources = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".bpf.c")
    });
    match (sources.next(), sources.next()) {
        (Some(source), None) => {
            in_use::is_read(&source);
            Ok((source, preset.tunables))
        }
        _ => {
            let what = "a preset of a folder needs one .bpf.c there".to_owned();
            Err(unknown(argument, what))
        }
    }
}

/// An error about an argument of `-s`.
fn unknown(argument: &str, what: String) -> Error {
    Error::argument("scheduler", argument, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_split_from_names_and_paths() {
        assert_eq!(split("fifo"), ("fifo", ""));
        assert_eq!(split("fifo:slice_ms=5:x=1"), ("fifo", "slice_ms=5:x=1"));
        assert_eq!(split("./a:b/my.bpf.c"), ("./a:b/my.bpf.c", ""));
        assert_eq!(split("./a:b/my.bpf.c:x=1"), ("./a:b/my.bpf.c", "x=1"));
    }

    #[test]
    fn labels_leave_folders_out() {
        assert_eq!(label("fifo:slice_ms=5"), "fifo:slice_ms=5");
        assert_eq!(label("./a:b/my.bpf.c:x=1"), "my:x=1");
        assert_eq!(label("/tmp/my.bpf.c"), "my");
        assert_eq!(label("../scx_my/src/bpf/main.bpf.c:x=1"), "scx_my:x=1");
        assert_eq!(label("./main.bpf.c"), "main");
    }

    #[test]
    fn the_argument_counts_for_more_than_the_preset() {
        let choice = choose("fifo:slice_ms=6").unwrap();
        assert_eq!(choice.tunables, [("slice_ms".to_owned(), "6".to_owned())]);
        assert!(choice.source.ends_with("schedulers/fifo/fifo.bpf.c"));
    }

    #[test]
    fn a_folder_of_ones_own_has_presets_too() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| format!("{}/{name}", folder.path().display());
        std::fs::write(of("my.bpf.c"), "").unwrap();
        let presets = "[long]\ndescription = \"\"\nset = { slice_ms = 7 }\n";
        std::fs::write(of("presets.toml"), presets).unwrap();
        let choice = choose(&of("long:x=1")).unwrap();
        assert!(choice.source.ends_with("my.bpf.c"));
        assert_eq!(choice.label, "long:x=1");
        let set = |tunable: &str, value: &str| (tunable.to_owned(), value.to_owned());
        assert_eq!(choice.tunables, [set("slice_ms", "7"), set("x", "1")]);
        let refused = |name: &str| choose(&of(name)).unwrap_err().to_string();
        assert!(refused("short").contains("or a preset of the presets.toml there"));
        std::fs::write(of("other.bpf.c"), "").unwrap();
        assert!(refused("long").contains("needs one .bpf.c there"));
    }

    #[test]
    fn those_of_one_name_are_named_as_typed() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{}/fifo.bpf.c", folder.path().display());
        std::fs::write(&own, "").unwrap();
        let labels = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
            let choices = choose_all(&arguments).unwrap().into_iter();
            choices.map(|choice| choice.label).collect::<Vec<_>>()
        };
        assert_eq!(labels(&["fifo", &own]), ["fifo", own.as_str()]);
        assert_eq!(labels(&["rr", &own]), ["rr", "fifo"]);
        assert_eq!(labels(&["all"]), names().unwrap());
        assert_eq!(labels(&["all", "fifo"]).len(), names().unwrap().len());
        let twice = ["rr", "fifo", "rr"].map(str::to_owned);
        let refused = choose_all(&twice).unwrap_err().to_string();
        assert_eq!(refused, "scheduler rr: given twice; keep one");
    }

    #[test]
    fn what_is_given_counts_for_more_than_what_a_kernel_needs() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("my.bpf.c");
        std::fs::write(&source, "").unwrap();
        let file = "watchdog = false\n[kernel]\nset = { guard_ms = 5, other = true }\n\
            deviations = { nr_saved = \"tasks were saved\" }\n[one]\ndescription = \"\"\n";
        std::fs::write(folder.path().join("presets.toml"), file).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let choice = choose(source.to_str().unwrap()).unwrap();
        let both = [pair("guard_ms", "5"), pair("other", "true")];
        assert_eq!(choice.kernel.tunables, both);
        assert_eq!(
            choice.kernel.deviations,
            [pair("nr_saved", "tasks were saved")]
        );
        assert!(!choice.watchdog && choice.tunables.is_empty());
        let choice = choose(&format!("{}:guard_ms=0", source.display())).unwrap();
        assert_eq!(choice.tunables, [pair("guard_ms", "0")]);
        assert_eq!(choice.kernel.tunables, [pair("other", "true")]);
    }

    #[test]
    fn mechanisms_stand_beside_the_source() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("my.bpf.c");
        std::fs::write(&source, "").unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("presets.toml"), text).unwrap();
        write(
            "[mechanisms.stealing]\ndescription = \"d\"\nmulticore = true\nwhen = { mode = 1 }\nset = { steal = false }\n",
        );
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mechanism = Mechanism {
            name: "stealing".to_owned(),
            description: "d".to_owned(),
            multicore: true,
            when: vec![pair("mode", "1")],
            off: vec![pair("steal", "false")],
        };
        let argument = source.to_str().unwrap();
        assert_eq!(choose(argument).unwrap().mechanisms, [mechanism]);
        write("[mechanisms.stealing]\ndescription = \"d\"\nset = { steal = \"no\" }\n");
        let failure = choose(argument).unwrap_err().to_string();
        assert!(failure.contains("[mechanisms.stealing] steal"), "{failure}");
        write("[mechanisms.stealing]\ndescription = \"d\"\nsets = { steal = false }\n");
        let failure = choose(argument).unwrap_err().to_string();
        assert!(
            failure.contains("presets.toml:3: unknown field `sets`"),
            "{failure}"
        );
        let presets = folder.path().join("presets.toml");
        std::fs::remove_file(&presets).unwrap();
        assert_eq!(choose(argument).unwrap().mechanisms, []);
        let preset = folder.path().join("short");
        let refused = |what: &str| {
            for argument in [argument, preset.to_str().unwrap()] {
                let failure = choose(argument).unwrap_err().to_string();
                assert!(
                    failure.contains(&format!("presets.toml: {what}")),
                    "{failure}"
                );
            }
        };
        std::fs::create_dir(&presets).unwrap();
        refused("that is a folder");
        std::fs::remove_dir(&presets).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &presets).unwrap();
        refused("that is not a regular file");
        std::fs::remove_file(&presets).unwrap();
        std::os::unix::fs::symlink("nowhere", &presets).unwrap();
        refused("cannot read");
    }

    #[test]
    fn what_is_no_scheduler_is_refused() {
        for argument in [
            "fifi",
            "fifo:slice_ms",
            "fifo:=3",
            "fifo:slice_ms=",
            "fifo:slice_ms=5:slice_ms=6",
            "./nowhere.bpf.c",
            "no/where",
        ] {
            let failure = choose(argument).expect_err(argument);
            assert!(matches!(failure, Error::Argument { .. }), "{argument}");
            assert!(failure.to_string().contains(argument), "{failure}");
        }
    }
}
