// SPDX-License-Identifier: GPL-2.0-or-later
//! `tiltyard teach`, and the lessons of docs/teaching: their pages are up to date, and the commands on them print what they say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

/// A page is small enough for a slow line.
const MAX_BYTES: usize = 150_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn teaching() -> PathBuf {
    root().join("docs/teaching")
}

fn tiltyard() -> Command {
    let mut command = Command::cargo_bin("tiltyard").unwrap();
    command.env("TILTYARD_DATA", root());
    command
}

/// Names of the shipped lessons.
fn lessons() -> BTreeSet<String> {
    let entries = teaching().read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned));
    names.collect()
}

fn page(lesson: &str) -> String {
    fs::read_to_string(teaching().join(format!("{lesson}.html"))).unwrap()
}

#[test]
fn each_scheduler_has_a_lesson_and_a_link() {
    let folders = root().join("schedulers").read_dir().unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let schedulers: BTreeSet<String> = names
        .filter(|name| {
            root()
                .join(format!("schedulers/{name}/{name}.bpf.c"))
                .is_file()
        })
        .collect();
    assert_eq!(lessons(), schedulers);
    let index = fs::read_to_string(teaching().join("README.md")).unwrap();
    for name in schedulers {
        assert!(index.contains(&format!("({name}.html)")), "{name}");
        let size = page(&name).len();
        assert!(size < MAX_BYTES, "{name}: {size} bytes");
        assert_eq!(questions(&page(&name)).len(), 2, "{name}");
    }
}

#[test]
fn pages_are_those_of_the_lessons() {
    let folder = tempfile::tempdir().unwrap();
    let files = lessons();
    let files = files
        .iter()
        .map(|name| teaching().join(format!("{name}.toml")));
    let made = tiltyard()
        .arg("teach")
        .args(files)
        .arg("-o")
        .arg(folder.path())
        .assert();
    made.success();
    for name in lessons() {
        let made = fs::read_to_string(folder.path().join(format!("{name}.html"))).unwrap();
        assert!(
            made == page(&name),
            "docs/teaching/{name}.html is not what its lesson gives: tiltyard teach docs/teaching/*.toml"
        );
    }
}

/// What a question of a page asserts: the changed command, and a row of its table before and after.
#[derive(Debug)]
struct Asserted {
    command: String,
    task: String,
    row: String,
    before: String,
    after: String,
}

/// Markup as the text that it shows.
fn shown(markup: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for c in markup.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    let entities = [
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text, |text, (of, to)| text.replace(of, to))
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let text = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin}"))
        .1;
    text.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

fn questions(page: &str) -> Vec<Asserted> {
    let sections = page.split("<section class=\"question\">").skip(1);
    let question = |section: &str| {
        let row = between(between(section, "<tbody>", "</tbody>"), "<tr>", "</tr>");
        let cells: Vec<String> = row.split("</td>").map(shown).collect();
        Asserted {
            command: shown(between(section, "<pre>", "</pre>")),
            task: cells[0].clone(),
            row: cells[1].clone(),
            before: cells[2].clone(),
            after: cells[3].clone(),
        }
    };
    sections.map(question).collect()
}

/// What a command prints in this row of this task.
fn printed(command: &str, task: &str, row: &str) -> String {
    let output = super::how_to::run(&root(), command);
    assert_eq!(output.0, 0, "{command}\n{}", output.1);
    let mut group = String::new();
    for line in output.1.lines().skip(2) {
        let line = match line.split_once(' ') {
            Some((first, rest)) if !first.is_empty() => {
                group = first.to_owned();
                rest
            }
            _ => line,
        };
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if let (true, Some(value)) = (group == task, line.strip_prefix(&format!("{row} "))) {
            return value.to_owned();
        }
    }
    panic!("{command}: no {row} of {task} in\n{}", output.1)
}

#[test]
fn commands_print_what_the_pages_say() {
    for name in lessons() {
        let page = page(&name);
        let base = shown(between(&page, "<pre>", "</pre>"));
        for of in questions(&page) {
            let before = printed(&base, &of.task, &of.row);
            assert_eq!(before, of.before, "{name}: {base}");
            let after = printed(&of.command, &of.task, &of.row);
            assert_eq!(after, of.after, "{name}: {}", of.command);
        }
    }
}

const LESSON: &str = r#"
title = "mine: a lesson"
rule = "A rule with `code`."
example = "An example."
window = "100ms..200ms"

[run]
workload = "teaching/editor"
scheduler = "fifo:slice_ms=20"
duration = "1s"

[[panel]]
probe = "waiting"
title = "Waiting"

[[question]]
ask = "What if?"
change = ["slice_ms=20", "slice_ms=5"]
metric = "editor.longest_wait_us"
goes = "down"
answer = "From {before} to {after}."
"#;

/// The end of `tiltyard teach` with LESSON changed.
fn teach(from: &str, to: &str) -> assert_cmd::assert::Assert {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    assert!(LESSON.contains(from), "{from}");
    fs::write(&file, LESSON.replacen(from, to, 1)).unwrap();
    tiltyard().arg("teach").arg(&file).assert()
}

#[test]
fn a_lesson_that_is_wrong_is_refused() {
    let cases = [
        ("title", "titel", "mine.toml:2: unknown field `titel`"),
        (
            "\"waiting\"",
            "\"level\"",
            "mine.toml: probe level: the run has",
        ),
        (
            "duration =",
            "patch = '{\"tasks\":{\"none\":{\"run\":-1}}}'\nduration =",
            "mine.toml: ",
        ),
        (
            "[\"slice_ms=20\"",
            "[\"slice_ms=21\"",
            "it is 0 times in \"tiltyard run",
        ),
        (
            "editor.longest_wait_us",
            "editor.runtime_us",
            "metric editor.runtime_us: tiltyard run does not print it",
        ),
        (
            "longest_wait_us",
            "longest_wait",
            "metric editor.longest_wait: no run has it",
        ),
        ("goes = \"down\"", "goes = \"up\"", "but goes = \"up\""),
    ];
    for (from, to, message) in cases {
        teach(from, to)
            .code(3)
            .stderr(predicates::str::contains(message));
    }
    teach("title", "title").success();
}

/// One page would overwrite the other.
#[test]
fn two_lessons_of_one_name_need_two_folders() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| folder.path().join(name).join("mine.toml"));
    for file in &files {
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, LESSON).unwrap();
    }
    let pages = folder.path().join("pages");
    let mut command = tiltyard();
    command.arg("teach").args(&files).arg("-o").arg(&pages);
    let same = predicates::str::contains("would both be written to");
    command.assert().code(2).stderr(same);
    assert!(!pages.exists(), "nothing was written");
}
