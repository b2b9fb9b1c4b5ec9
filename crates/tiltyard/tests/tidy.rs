// SPDX-License-Identifier: GPL-2.0-or-later
//! The house rules that a command can check. CONTRIBUTING.md has them in words.

#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/prose.rs"]
mod prose;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, lines. Files that are longer for a reason stand in [`TOO_LONG`].
const MAX_LINES: usize = 700;

/// Longest test: tables of number vectors are long.
const MAX_TEST_LINES: usize = 800;

/// Known offenders. Shorten them and take them out; never add one.
const TOO_LONG: [&str; 0] = [];

/// How many modules of a crate may use each other in a circle: a type and what is made of it, in two files.
const MAX_CIRCLE: usize = 2;

/// Known offenders and their largest circles. Dissolve them and take them out; never add one.
const CIRCLES: [(&str, usize); 2] = [("claims", 6), ("sim", 17)];

/// Which crates a crate may use, as ARCHITECTURE.md states it.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("expr", &[]),
    ("misspelt", &[]),
    ("environment", &["expr", "misspelt", "model"]),
    ("model", &["misspelt"]),
    ("workload", &["misspelt"]),
    ("native", &[]),
    ("build", &["native"]),
    ("sim", &["model", "workload", "native", "environment"]),
    ("kernel", &["model", "environment"]),
    ("exec", &["workload"]),
    ("measure", &["model"]),
    ("tables", &["model", "measure"]),
    ("trace", &["model"]),
    ("claims", &["measure", "misspelt", "tables", "expr"]),
    ("report", &["model", "measure"]),
    ("fidelity", &["model", "measure", "exec"]),
    (
        "runner",
        &[
            "misspelt",
            "model",
            "workload",
            "native",
            "build",
            "sim",
            "kernel",
            "exec",
            "measure",
            "report",
            "tables",
            "fidelity",
            "claims",
            "trace",
            "environment",
        ],
    ),
    (
        "tiltyard",
        &[
            "runner",
            "model",
            "workload",
            "native",
            "build",
            "sim",
            "kernel",
            "exec",
            "measure",
            "report",
            "tables",
            "fidelity",
            "claims",
            "trace",
            "environment",
        ],
    ),
    (
        "schedtest",
        &[
            "model",
            "workload",
            "native",
            "build",
            "sim",
            "measure",
            "environment",
        ],
    ),
    ("tests", &[]),
    (
        "bench",
        &[
            "model",
            "workload",
            "native",
            "build",
            "sim",
            "measure",
            "environment",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every file that git knows, with its path from the root. Without git (an unpacked archive) the tests skip.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output();
    let Ok(output) = listed else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = text
        .split('\0')
        .filter(|f| !f.is_empty() && root().join(f).is_file());
    files.map(str::to_owned).collect()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// Sources that we wrote: third parties' files keep their own heads.
fn sources() -> Vec<String> {
    let ours = |f: &String| {
        !f.contains("/assets/uPlot")
            && !f.contains("/rt-app-examples/")
            && !f.contains("/examples/")
    };
    let kinds = [".rs", ".c", ".h", ".py", ".sh", ".toml", ".css", ".js"];
    files()
        .into_iter()
        .filter(|f| ours(f) && kinds.iter().any(|k| f.ends_with(k)))
        .collect()
}

#[track_caller]
fn none(offenders: Vec<String>, rule: &str) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

#[test]
fn dependencies_point_one_way() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let metadata = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let may_use = BTreeMap::from(MAY_USE);
    let mut offenders = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = short(package["name"].as_str().unwrap());
        let Some(allowed) = may_use.get(name) else {
            offenders.push(format!(
                "{name}: a crate that ARCHITECTURE.md and this test do not know"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let ours = dependency["path"].is_string() && dependency["kind"].is_null();
            let used = short(dependency["name"].as_str().unwrap());
            if ours && !allowed.contains(&used) {
                offenders.push(format!("{name} uses {used}"));
            }
        }
    }
    none(offenders, "dependencies against ARCHITECTURE.md");
}

#[test]
fn modules_do_not_use_each_other_in_circles() {
    let all = files();
    let mut offenders = Vec::new();
    for crate_folder in root().join("crates").read_dir().unwrap() {
        let name = crate_folder.unwrap().file_name();
        let name = name.to_string_lossy();
        let src = format!("crates/{name}/src/");
        let is_source = |f: &&String| f.starts_with(&src) && f.ends_with(".rs") && !is_test(f);
        let texts: Vec<(&str, String)> = all
            .iter()
            .filter(is_source)
            .map(|f| (&f[src.len()..], read(f)))
            .collect();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(f, text)| (*f, text.as_str())).collect();
        let circle = modules::Uses::of(&texts).largest_circle();
        let known = CIRCLES.iter().find(|(known, _)| *known == name);
        match known {
            None if circle.len() <= MAX_CIRCLE => {}
            Some((_, size)) if circle.len() == *size => {}
            _ => offenders.push(format!("{name}, {}: {}", circle.len(), circle.join(", "))),
        }
    }
    none(offenders, "circles that CIRCLES does not know, or not so");
}

fn short(name: &str) -> &str {
    name.strip_prefix("tiltyard-").unwrap_or(name)
}

/// The simulator's determinism rests on what it cannot see.
#[test]
fn the_simulator_touches_nothing_outside() {
    let outside = [
        "std::fs",
        "std::env",
        "std::time",
        "std::thread",
        "std::net",
        "std::process",
        "SystemTime",
        "Instant::now",
        "rand::rng",
        "RandomState",
    ];
    let own = |f: &String| f.starts_with("crates/sim/src/") || f.starts_with("crates/measure/src/");
    let mut offenders = Vec::new();
    for file in sources().into_iter().filter(own) {
        // Tests and micro benchmarks stand at the end of a file or in files of their own.
        if is_test(&file) || file.ends_with("/bench.rs") {
            continue;
        }
        let text = read(&file);
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let uses = outside.iter().filter(|word| code.contains(**word));
        offenders.extend(uses.map(|word| format!("{file} uses {word}")));
    }
    none(
        offenders,
        "clocks, files, threads, the environment in the simulator or the measures",
    );
}

#[test]
fn every_source_names_its_licence() {
    let silent = |f: &String| {
        !read(f)
            .lines()
            .take(3)
            .any(|l| l.contains("SPDX-License-Identifier: GPL-2.0-or-later"))
    };
    none(
        sources().into_iter().filter(silent).collect(),
        "no SPDX line in the first three",
    );
}

/// `tiltyard kernel --list` shows the head; what it promises, the script does.
#[test]
fn every_application_has_a_head_that_its_script_keeps() {
    let applications: Vec<String> = files()
        .into_iter()
        .filter(|f| f.starts_with("applications/"))
        .collect();
    assert!(!applications.is_empty());
    let offenders = applications.iter().flat_map(|file| {
        let faults = application_faults(&read(file)).into_iter();
        faults.map(move |fault| format!("{file}: {fault}"))
    });
    none(offenders.collect(), "applications");
}

fn application_faults(text: &str) -> Vec<String> {
    let field = |key: &str| {
        let prefix = format!("# {key}: ");
        text.lines().find_map(|line| line.strip_prefix(&prefix))
    };
    let mut faults = Vec::new();
    let missing = ["about", "needs", "sizes", "scores"]
        .into_iter()
        .filter(|key| field(key).is_none());
    faults.extend(missing.map(|key| format!("no {key}")));
    if field("packages").is_some() == field("source").is_some() {
        faults.push("either packages or source".to_owned());
    }
    let words = |key: &str| field(key).unwrap_or_default().split_whitespace();
    if words("sizes").next() != Some("small") {
        faults.push("the first size is small".to_owned());
    }
    let no_case = words("sizes").filter(|size| !text.contains(&format!("\n{size}) ")));
    faults.extend(no_case.map(|size| format!("no case for the size {size}")));
    let is_printed = |score: &&str| {
        let ending = score.find('_').map_or("", |at| &score[at..]);
        // Whole, or put together from a variable and its ending, by printf or by awk.
        let forms = [
            format!("score: {score}"),
            format!("score: %s{ending}"),
            format!("\"{ending}\""),
        ];
        forms.iter().any(|form| text.contains(form))
    };
    let silent = words("scores").filter(|score| !is_printed(score));
    faults.extend(silent.map(|score| format!("does not print the score {score}")));
    faults
}

#[test]
fn faults_of_applications_are_found() {
    let head = "# about: a\n# needs: b\n# packages: b\n# sizes: small full\n# scores: c_per_s\n";
    let body = "case $1 in\nsmall) n=1 ;;\nfull) n=2 ;;\nesac\necho score: c_per_s $n\n";
    assert_eq!(application_faults(&format!("{head}{body}")), [""; 0]);
    for (from, to, fault) in [
        ("# about: a\n", "", "no about"),
        ("# packages", "# parcels", "either packages or source"),
        ("small full", "full small", "the first size is small"),
        ("full) n", "large) n", "no case for the size full"),
        (
            "score: c_per_s $n",
            "it took $n",
            "does not print the score c_per_s",
        ),
    ] {
        let text = format!("{head}{body}").replace(from, to);
        assert_eq!(application_faults(&text), [fault]);
    }
}

#[test]
fn files_stay_short() {
    // Experiments are lists of claims, not code.
    let is_list = |f: &str| f.starts_with("experiments/");
    let is_long = |f: &str| {
        let limit = if is_test(f) {
            MAX_TEST_LINES
        } else {
            MAX_LINES
        };
        !is_list(f) && read(f).lines().count() > limit
    };
    let long = |f: &String| is_long(f) && !TOO_LONG.contains(&f.as_str());
    none(
        sources().into_iter().filter(long).collect(),
        "longer than MAX_LINES",
    );
    let fixed = TOO_LONG.into_iter().filter(|f| !is_long(f));
    none(
        fixed.map(str::to_owned).collect(),
        "short now: take them out of TOO_LONG",
    );
}

/// The schedulers that no crate names. Two names mean something else as well: POSIX policies, queue disciplines.
fn names_of_schedulers() -> Vec<String> {
    let mut names = shipped_schedulers();
    names.retain(|n| n != "fifo" && n != "rr");
    names
}

/// Cargo does not look for the tests that `crates/tests` compiles: a file that it does not list would never run.
#[test]
fn every_file_of_tests_is_compiled() {
    let targets = read("crates/tests/Cargo.toml");
    let is_left_out = |file: &String| {
        let Some((of, name)) = file.split_once("/tests/") else {
            return false;
        };
        let Some(module) = name.strip_suffix(".rs").filter(|name| !name.contains('/')) else {
            return false;
        };
        let manifest = std::fs::read_to_string(root().join(of).join("Cargo.toml"));
        let main = std::fs::read_to_string(root().join(of).join("tests/main.rs"));
        let own = manifest.is_ok_and(|text| text.contains("\nautotests = false"));
        let path = format!(
            "path = \"../{}/tests/{name}\"",
            of.trim_start_matches("crates/")
        );
        let is_target = || targets.contains(&path);
        let is_module = || main.is_ok_and(|text| text.contains(&format!("mod {module};\n")));
        own && !is_target() && !is_module()
    };
    let left_out = sources().into_iter().filter(is_left_out).collect();
    none(
        left_out,
        "a file of tests that no program in crates/tests has",
    );
}

/// Rust sources of crates, but for those in which `ule` is LLVM's "unsigned less or equal".
fn crate_sources() -> impl Iterator<Item = String> {
    let is_ir = |f: &String| f.starts_with("crates/build/src/rewrite/");
    let is_ours = move |f: &String| f.starts_with("crates/") && f.ends_with(".rs") && !is_ir(f);
    sources().into_iter().filter(is_ours)
}

/// Lines from `text` that contain one of the words.
fn lines_with<'a>(text: &'a str, words: &'a [String]) -> impl Iterator<Item = (usize, &'a str)> {
    let is_named = |line: &str| {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| words.iter().any(|w| w == word))
    };
    let lines = text.lines().enumerate();
    lines.filter(move |(_, line)| is_named(line))
}

#[test]
fn no_crate_knows_a_scheduler_by_name() {
    let names = names_of_schedulers();
    let mut offenders = Vec::new();
    // Help texts show commands.
    let is_help = |f: &String| f.starts_with("crates/tiltyard/src/");
    for file in crate_sources().filter(|f| !is_help(f) && !is_test(f)) {
        let text = read(&file);
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        // Comments may explain by example.
        let named =
            lines_with(code, &names).filter(|(_, line)| !line.trim_start().starts_with("//"));
        offenders.extend(named.map(|(i, line)| format!("{file}:{}: {}", i + 1, line.trim())));
    }
    none(offenders, "a scheduler's name");
}

/// A scheduler's tests lie beside it, and what holds for all is tested for all. Only tests of the command line run
/// schedulers by name, as users do.
#[test]
fn no_test_of_a_crate_names_a_scheduler() {
    let names = names_of_schedulers();
    // It lists the folders whose tests it runs.
    let is_harness = |f: &String| f == "crates/schedtest/tests/schedulers.rs";
    let is_command_line = |f: &String| f.starts_with("crates/tiltyard/");
    let mut offenders = Vec::new();
    for file in crate_sources().filter(|f| !is_harness(f) && !is_command_line(f)) {
        let text = read(&file);
        let tests = match is_test(&file) {
            true => 0,
            false => text.find("#[cfg(test)]").unwrap_or(text.len()),
        };
        let first = text[..tests].lines().count();
        let named = lines_with(&text[tests..], &names);
        offenders
            .extend(named.map(|(i, line)| format!("{file}:{}: {}", first + i + 1, line.trim())));
    }
    none(offenders, "a scheduler's name in a test");
}

fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("tests.rs") || file.contains("testing")
}

fn shipped_schedulers() -> Vec<String> {
    let folders = root().join("schedulers").read_dir().unwrap();
    let names = folders.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|n| root().join(format!("schedulers/{n}/{n}.bpf.c")).is_file())
        .collect()
}

#[test]
fn every_scheduler_has_a_readme_that_lists_its_tunables() {
    let mut offenders = Vec::new();
    for name in shipped_schedulers() {
        let readme = read(&format!("schedulers/{name}/README.md"));
        if readme.is_empty() {
            offenders.push(format!("schedulers/{name}: no README.md"));
            continue;
        }
        let folder = format!("schedulers/{name}/");
        for file in files()
            .iter()
            .filter(|f| f.starts_with(&folder) && (f.ends_with(".c") || f.ends_with(".h")))
        {
            for tunable in tunables(&read(file)) {
                if !readme.contains(&format!("`{tunable}`")) {
                    offenders.push(format!("{folder}README.md: no `{tunable}` ({file})"));
                }
            }
        }
    }
    none(offenders, "schedulers without their reference");
}

/// Scalars declared `const volatile`: arrays are facts about the machine that loaders fill in.
fn tunables(source: &str) -> Vec<String> {
    let lines = source
        .lines()
        .filter_map(|l| l.strip_prefix("const volatile "));
    let names = lines.filter_map(|l| l.split([';', '=', '[']).next()?.split_whitespace().last());
    names.map(str::to_owned).collect()
}

/// Somebody will copy them: each line of README's blocks is a command.
#[test]
fn the_commands_of_the_readme_stand_on_lines_of_their_own() {
    let text = read("README.md");
    let blocks = text.split("\n```").skip(1).step_by(2);
    let lines = blocks.flat_map(|block| block.lines().skip(1).map(str::to_owned));
    let is_command = |line: &String| {
        let mut words = line.split_whitespace();
        let word = words.find(|word| *word != "sudo");
        word.is_none_or(|word| ["tiltyard", "make", "git", "cd"].contains(&word))
    };
    none(
        lines.filter(|line| !is_command(line)).collect(),
        "a line of a block in README is a command",
    );
}

#[test]
fn every_machine_file_parses() {
    let machines: Vec<String> = files()
        .into_iter()
        .filter(|f| f.starts_with("machines/") && f.ends_with(".toml"))
        .collect();
    let broken = machines
        .iter()
        .filter_map(|f| tiltyard_model::Machine::parse_toml(&read(f), f).err());
    none(
        broken.map(|e| e.to_string()).collect(),
        "machine files that do not parse",
    );
}

#[test]
fn every_number_of_a_machine_has_its_reason() {
    let mut offenders = Vec::new();
    for file in files()
        .into_iter()
        .filter(|f| f.starts_with("machines/") && f.ends_with(".toml"))
    {
        let text = read(&file);
        let table = |name: &str| {
            let behind = text.split(name).nth(1).unwrap_or("");
            behind.split("\n[").next().unwrap_or("").to_owned()
        };
        let numbers = table("[costs]") + &table("[jitter]");
        let bare = numbers
            .lines()
            .filter(|l| l.contains('=') && !l.starts_with('#') && !l.contains(" # "));
        offenders.extend(bare.map(|l| format!("{file}: {l}")));
    }
    none(offenders, "numbers without a source or reason beside them");
}

#[test]
fn presets_set_tunables_that_exist() {
    let mut offenders = Vec::new();
    for name in shipped_schedulers() {
        let folder = format!("schedulers/{name}/");
        // Shared headers have tunables, too.
        let is_its =
            |f: &String| f.starts_with(&folder) || f.starts_with("schedulers/lib/tiltyard/");
        let code = files()
            .into_iter()
            .filter(|f| is_its(f) && (f.ends_with(".c") || f.ends_with(".h")));
        let code: String = code.map(|f| read(&f)).collect();
        let known = tunables(&code);
        let text = read(&format!("{folder}presets.toml"));
        let presets: toml::Table =
            toml::from_str(&text).unwrap_or_else(|e| panic!("{folder}: {e}"));
        let mechanisms = presets.get("mechanisms").and_then(|m| m.as_table());
        let tables = presets.iter().chain(mechanisms.into_iter().flatten());
        for (preset, table) in tables.filter(|(_, t)| t.is_table()) {
            let set = ["set", "when"].map(|key| table.get(key).and_then(|s| s.as_table()));
            let unknown = set
                .into_iter()
                .flatten()
                .flat_map(|s| s.keys())
                .filter(|k| !known.contains(k));
            offenders.extend(unknown.map(|k| format!("{folder}presets.toml: [{preset}] {k}")));
            let counters = table.get("deviations").and_then(|s| s.as_table());
            let counters = counters.into_iter().flat_map(|s| s.keys());
            let missing = counters.filter(|k| !code.contains(&format!("\nu64 {k};\n")));
            offenders.extend(missing.map(|k| format!("{folder}presets.toml: [{preset}] {k}")));
        }
    }
    none(offenders, "presets that set what is no tunable");
}

/// What deny.toml says, for machines without cargo-deny.
const LICENCES: [&str; 9] = [
    "GPL-2.0-or-later",
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
];

/// Locked, and never linked into the program: headers that are compiled into scheduler objects, and what arrow-array
/// needs on WebAssembly alone. deny.toml has the same exceptions.
const NOT_LINKED: [(&str, &str); 2] = [("scx_cargo", "GPL-2.0-only"), ("tiny-keccak", "CC0-1.0")];

#[test]
fn all_that_is_linked_may_be() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let mut offenders = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let (name, licence) = (
            &package["name"],
            package["license"].as_str().unwrap_or("none"),
        );
        if !is_allowed(licence)
            && !NOT_LINKED
                .iter()
                .any(|(known, of)| name == known && licence == *of)
        {
            offenders.push(format!("{name}: {licence}"));
        }
    }
    none(offenders, "licences");
}

/// Whether one of the alternatives, each in all its parts, is among [`LICENCES`].
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ");
    if let Some((choice, rest)) = expression.strip_prefix('(').and_then(|e| e.split_once(')')) {
        let rest = rest.strip_prefix(" AND ").unwrap_or(rest);
        return is_allowed(choice) && (rest.is_empty() || is_allowed(rest));
    }
    let all = |alternative: &str| {
        alternative
            .split(" AND ")
            .all(|part| LICENCES.contains(&part.trim()))
    };
    expression.split(" OR ").any(all)
}

#[test]
fn licence_expressions_are_understood() {
    assert!(is_allowed("LGPL-2.1-only OR BSD-2-Clause"));
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(is_allowed("Unlicense/MIT"));
    assert!(!is_allowed("GPL-2.0-only"));
    assert!(!is_allowed("(MIT OR Apache-2.0) AND Proprietary"));
    assert!(!is_allowed("MIT AND GPL-3.0-only"));
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut offenders = Vec::new();
    for page in files().into_iter().filter(|f| f.ends_with(".md")) {
        let folder = root().join(&page).parent().unwrap().to_owned();
        let text = read(&page);
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let inside = targets.filter(|t| !t.contains("://") && !t.starts_with('#'));
        let lost = inside.filter(|t| !folder.join(t.split('#').next().unwrap_or("")).exists());
        offenders.extend(lost.map(|t| format!("{page}: {t}")));
    }
    none(offenders, "links to nowhere");
}
