// SPDX-License-Identifier: GPL-2.0-or-later
//! rt-app's own example files, taken from the distribution's package when the test runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tiltyard_workload::{Dialect, Op, Workload, read, write};

/// Files that are no workloads of today's rt-app, with what is said about each.
const REFUSED: &[(&str, &str)] = &[
    // Parts that a script of rt-app's puts together, in the grammar before version 1.0.
    ("merge/global.json", "tasks: missing"),
    ("merge/resources.json", "unknown key"),
    ("merge/thread0.json", "exec: unknown key"),
    ("merge/thread1.json", "exec: unknown key"),
    ("merge/thread2.json", "exec: unknown key"),
    ("merge/thread3.json", "exec: unknown key"),
    // The same old grammar; rt-app 1.0 stops at it too.
    ("taskset.json", "exec: unknown key"),
];

/// Where the package is unpacked, or why it cannot be had. Tests run side by side: one of them fetches it.
fn package() -> &'static Result<PathBuf, String> {
    static PACKAGE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rt-app");
        if folder.is_dir() {
            Ok(folder)
        } else {
            fetch(&folder).map(|()| folder)
        }
    })
}

/// Unpacks beside `folder` and renames, so that a folder of that name is a whole one.
fn fetch(folder: &Path) -> Result<(), String> {
    let half = folder.with_extension(std::process::id().to_string());
    std::fs::create_dir_all(&half).map_err(|e| e.to_string())?;
    run(Command::new("apt-get")
        .args(["download", "rt-app"])
        .current_dir(&half))?;
    let entries = std::fs::read_dir(&half).map_err(|e| e.to_string())?;
    let package = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "deb"));
    run(Command::new("dpkg")
        .arg("-x")
        .arg(package.ok_or("no package came")?)
        .arg(&half))?;
    std::fs::rename(&half, folder).map_err(|e| e.to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", output.status))
    }
}

fn json_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            json_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
}

/// The examples by name, or `None` (said on stderr) where the package cannot be had.
fn examples() -> Option<BTreeMap<String, String>> {
    let docs = match package() {
        Ok(folder) => folder.join("usr/share/doc/rt-app"),
        Err(why) => {
            eprintln!("skipped: rt-app's examples need the Debian package rt-app: {why}");
            return None;
        }
    };
    let mut files = Vec::new();
    json_files(&docs, &mut files);
    let name = |file: &PathBuf| {
        let name = file
            .strip_prefix(&docs)
            .expect("below")
            .to_string_lossy()
            .into_owned();
        name.strip_prefix("examples/")
            .map(str::to_string)
            .unwrap_or(name)
    };
    Some(
        files
            .iter()
            .map(|file| (name(file), std::fs::read_to_string(file).expect("text")))
            .collect(),
    )
}

#[test]
fn all_examples_are_read_or_refused_for_a_reason() {
    let Some(examples) = examples() else { return };
    assert!(examples.len() >= 20, "{} examples", examples.len());
    for (name, text) in &examples {
        let refused = REFUSED.iter().find(|(file, _)| file == name);
        match (read(text, name), refused) {
            (Ok(w), None) => assert!(!w.tasks.is_empty()),
            (Err(errors), Some((_, why))) => {
                assert!(
                    errors.iter().any(|e| e.to_string().contains(why)),
                    "{name}: {}",
                    errors[0]
                );
            }
            (Err(errors), None) => panic!("{}", errors[0]),
            (Ok(_), Some(_)) => panic!("{name} should be refused"),
        }
    }
}

#[test]
fn examples_survive_both_dialects() {
    let Some(examples) = examples() else { return };
    for (name, text) in &examples {
        let Ok(w) = read(text, name) else { continue };
        let full = write(&w, Dialect::Tiltyard).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read(&full, name).as_ref(), Ok(&w), "{name}");
        match write(&w, Dialect::RtApp) {
            Ok(plain) => assert_eq!(read(&plain, name).as_ref(), Ok(&w), "{name}\n{plain}"),
            // The one file that gives a name twice, which JSON readers like rt-app's would lose.
            Err(e) => assert!(
                name == "spreading-tasks.json"
                    && e.to_string().contains("two phases called heavy1"),
                "{name}: {e}"
            ),
        }
    }
}

fn example(name: &str) -> Option<Workload> {
    let examples = examples()?;
    Some(read(&examples[name], name).expect(name))
}

#[test]
fn repeated_keys_are_repeated_events() {
    let Some(w) = example("tutorial/example5.json") else {
        return;
    };
    let ops = &w.tasks[1].phases[0].ops;
    let suspends = ops
        .iter()
        .filter(|op| matches!(op, Op::Suspend { .. }))
        .count();
    assert_eq!((ops.len(), suspends), (8, 2));
}

#[test]
fn barriers_count_their_users() {
    let Some(w) = example("tutorial/example7.json") else {
        return;
    };
    let parties: Vec<_> = w
        .barriers
        .iter()
        .map(|barrier| (barrier.name.as_str(), barrier.parties))
        .collect();
    assert_eq!(parties, [("FIRST", 2), ("SECOND", 2), ("THIRD", 2)]);
}

#[test]
fn a_phase_without_cpus_goes_back_to_the_tasks_own() {
    let Some(w) = example("tutorial/example8.json") else {
        return;
    };
    let cpus: Vec<_> = w.tasks[0]
        .phases
        .iter()
        .map(|phase| phase.attrs.cpus.clone().unwrap())
        .collect();
    assert_eq!(cpus, [vec![0], vec![1], vec![2]]);
}

#[test]
fn a_suspend_without_value_waits_for_its_own_name() {
    let Some(w) = example("video-short.json") else {
        return;
    };
    let Op::Suspend { place } = w.tasks[0].phases[0].ops[0] else {
        panic!()
    };
    assert_eq!(w.places[place], "surfaceflinger");
}

/// rt-app itself runs what is written for it. Examples that any user may run on any machine: others
/// want negative nice values or a third CPU.
#[test]
fn rt_app_takes_what_is_written_for_it() {
    let Some(examples) = examples() else { return };
    let program = package().as_ref().expect("fetched").join("usr/bin/rt-app");
    if !Command::new(&program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.code() != Some(127))
    {
        eprintln!(
            "skipped: rt-app does not start here; it needs the packages libjson-c5 and libnuma1"
        );
        return;
    }
    for name in [
        "tutorial/example3.json",
        "tutorial/example6.json",
        "tutorial/example7.json",
    ] {
        let mut w = read(&examples[name], name).expect(name);
        w.duration_ns = Some(1_000_000_000);
        let written = write(&w, Dialect::RtApp).expect(name);
        // A given ns per loop, so that rt-app does not spend seconds on measuring it; and no logs.
        let written = written.replace(
            "\"calibration\" : \"CPU0\"",
            "\"calibration\" : 100, \"log_size\" : \"disable\"",
        );
        let file = program.with_file_name(format!("{}.json", w.name));
        std::fs::write(&file, &written).expect("writable");
        // Some versions leave a log of each thread all the same, where they are started.
        let output = Command::new(&program)
            .arg(&file)
            .current_dir(program.parent().expect("it lies in a folder"))
            .output()
            .expect("starts");
        assert!(
            output.status.success(),
            "{name}: {}\n{written}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
