// SPDX-License-Identifier: GPL-2.0-or-later
//! The tutorial and the how-to pages do what they promise: their commands run step by step, in order, in a folder of their own.
//!
//! Each code block without a language is commands. Comments beside a block, which readers of the book do not see:
//!
//! * `<!-- file: NAME -->` before a block: its content is saved under that name.
//! * `<!-- replaces: FUNCTION in FILE -->` before C code: it takes the place of the function and of the comment above it.
//! * `<!-- not run: REASON -->` before a block, or `<!-- page not run: REASON -->`.
//! * `<!-- shorter: TEXT = TEXT -->` before a block: replaced in its commands, because a test has little time.
//! * `<!-- exit: CODE -->` after a block: how its last command ends, else 0.
//! * `<!-- shows: WORDS -->` after a block: its output has a line with these words in a row. Numbers may be off by a
//!   twentieth, and by 0.5.
//! * `<!-- printed: by the last commands -->` before a block of text: they print its lines, in this order, perhaps with others
//!   between them. Numbers as above.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of code, and the comments beside it.
#[derive(Debug, Default, PartialEq)]
struct Block {
    language: String,
    code: String,
    /// Comments before it, as (key, value).
    before: Vec<(String, String)>,
    after: Vec<(String, String)>,
}

impl Block {
    fn of<'b>(list: &'b [(String, String)], key: &str) -> Vec<&'b str> {
        let of_key = list.iter().filter(|(k, _)| k == key);
        of_key.map(|(_, value)| value.as_str()).collect()
    }
}

/// `<!-- key: value -->`.
fn comment(line: &str) -> Option<(String, String)> {
    let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    let (key, value) = text.split_once(':')?;
    Some((key.trim().to_owned(), value.trim().to_owned()))
}

/// The blocks of a page; a comment belongs to the block behind it if its key says so, else to the one before.
fn blocks(page: &str) -> Vec<Block> {
    const BEFORE: [&str; 5] = ["file", "replaces", "not run", "shorter", "printed"];
    let mut blocks: Vec<Block> = Vec::new();
    let mut pending = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (open.take(), line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block {
                    language: language.to_owned(),
                    before: std::mem::take(&mut pending),
                    ..Block::default()
                });
            }
            (Some(block), Some(_)) => blocks.push(block),
            (Some(mut block), None) => {
                block.code += line;
                block.code.push('\n');
                open = Some(block);
            }
            (None, None) => match comment(line) {
                Some(found) if BEFORE.contains(&found.0.as_str()) => pending.push(found),
                Some(found) => blocks.last_mut().expect("a block before").after.push(found),
                None => {}
            },
        }
    }
    blocks
}

/// The commands of a block: lines, with those joined that end in a backslash.
fn commands(code: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in code.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (text, more) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line, false),
        };
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => command.push_str(text),
            None => commands.push(text.to_owned()),
        }
        goes_on = more;
    }
    commands
}

/// Whether some line has these words in a row, numbers about the same.
fn shows(output: &str, words: &str) -> bool {
    let words: Vec<&str> = words.split_whitespace().collect();
    output.lines().any(|line| {
        let line: Vec<&str> = line.split_whitespace().collect();
        line.windows(words.len()).any(|part| agree(part, &words))
    })
}

/// The first line of `text` that is not in the output, after those before it and with the same words, numbers about the same.
fn not_printed<'t>(output: &str, text: &'t str) -> Option<&'t str> {
    let words =
        |line: &'_ str| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let mut printed = output.lines().map(words);
    text.lines().find(|line| {
        let wanted = words(line);
        !wanted.is_empty() && !printed.any(|got| agree(&got, &wanted))
    })
}

fn agree(got: &[impl AsRef<str>], wanted: &[impl AsRef<str>]) -> bool {
    let mut pairs = got.iter().zip(wanted);
    got.len() == wanted.len() && pairs.all(|(got, wanted)| is_about(got.as_ref(), wanted.as_ref()))
}

fn is_about(got: &str, wanted: &str) -> bool {
    match (got.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(got), Ok(wanted)) => (got - wanted).abs() <= 0.5 + wanted.abs() / 20.0,
        _ => got == wanted,
    }
}

/// C source with a function in place of the one of that name and of the comment above it.
fn replaced(source: &str, function: &str, code: &str) -> String {
    let forms = [format!("({function},"), format!(" {function}(struct")];
    let begin = forms
        .iter()
        .find_map(|form| source.find(form))
        .unwrap_or_else(|| panic!("no {function}"));
    let begin = source[..begin].rfind("\n\n").map_or(0, |at| at + 2);
    let end = begin + source[begin..].find("\n}\n").expect("its end") + 3;
    format!("{}{code}{}", &source[..begin], &source[end..])
}

/// A folder like the source tree.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path();
    for name in [
        "schedulers",
        "workloads",
        "machines",
        "campaigns",
        "experiments",
        "fidelity",
    ] {
        let copied = Command::new("cp")
            .arg("-R")
            .arg(root().join(name))
            .arg(to)
            .status();
        assert!(copied.unwrap().success(), "cp {name}");
    }
    std::fs::create_dir_all(to.join("target/release")).unwrap();
    let program = assert_cmd::cargo::cargo_bin("tiltyard");
    std::os::unix::fs::symlink(program, to.join("target/release/tiltyard")).unwrap();
    folder
}

/// Runs a command in a folder like the source tree; its exit code, and what it printed.
pub fn run(folder: &Path, command: &str) -> (i32, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let program = assert_cmd::cargo::cargo_bin("tiltyard");
    let programs = program.parent().expect("a folder");
    let output = Command::new("bash")
        .args(["-c", command])
        .current_dir(folder)
        .env("TILTYARD_DATA", folder)
        .env("PATH", format!("{}:{path}", programs.display()))
        .output()
        .expect("bash");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap_or(-1), said)
}

/// Does what a block asks for. `said`: what the last commands printed.
fn do_block(folder: &Path, block: &Block, said: &mut String) {
    if !Block::of(&block.before, "printed").is_empty() {
        let missing = not_printed(said, &block.code);
        return assert_eq!(missing, None, "not in the output, there or at all:\n{said}");
    }
    if let [name] = Block::of(&block.before, "file")[..] {
        return std::fs::write(folder.join(name), &block.code).unwrap();
    }
    if let [what] = Block::of(&block.before, "replaces")[..] {
        let (function, file) = what.split_once(" in ").expect("FUNCTION in FILE");
        let source = std::fs::read_to_string(folder.join(file)).unwrap();
        return std::fs::write(folder.join(file), replaced(&source, function, &block.code))
            .unwrap();
    }
    if !block.language.is_empty() || !Block::of(&block.before, "not run").is_empty() {
        return;
    }
    let mut code = block.code.clone();
    for shorter in Block::of(&block.before, "shorter") {
        let (long, short) = shorter.split_once(" = ").expect("TEXT = TEXT");
        assert!(code.contains(long), "nothing to shorten: {long}");
        code = code.replace(long, short);
    }
    let commands = commands(&code);
    said.clear();
    for (at, command) in commands.iter().enumerate() {
        let last = at + 1 == commands.len();
        let exit = Block::of(&block.after, "exit");
        let wanted = exit
            .first()
            .filter(|_| last)
            .map_or(0, |code| code.parse().unwrap());
        let (code, output) = run(folder, command);
        assert_eq!(code, wanted, "{command}\n{output}");
        *said += &output;
    }
    for words in Block::of(&block.after, "shows") {
        assert!(
            shows(said, words),
            "no \"{words}\" in the output of\n{code}\n{said}"
        );
    }
}

/// All steps of a page; how many blocks of commands were run.
fn do_page(file: &str) -> usize {
    let page = std::fs::read_to_string(root().join(file)).unwrap();
    if page
        .lines()
        .filter_map(comment)
        .any(|(key, _)| key == "page not run")
    {
        return 0;
    }
    let folder = folder();
    let blocks = blocks(&page);
    let mut said = String::new();
    blocks
        .iter()
        .for_each(|block| do_block(folder.path(), block, &mut said));
    let is_run = |b: &&Block| b.language.is_empty() && Block::of(&b.before, "not run").is_empty();
    blocks.iter().filter(is_run).count()
}

#[test]
fn a_scheduler_can_be_written_as_the_page_describes() {
    assert!(do_page("docs/how-to/write-a-scheduler.md") >= 11);
}

#[test]
fn the_tutorial_works() {
    assert!(do_page("docs/tutorial/first-comparison.md") >= 2);
}

#[test]
fn own_workloads_and_machines_work() {
    assert!(do_page("docs/how-to/own-workload-and-machine.md") >= 1);
}

#[test]
fn a_service_is_modelled_as_the_page_describes() {
    assert!(do_page("docs/how-to/model-a-service.md") >= 3);
}

#[test]
fn races_are_found_as_the_page_describes() {
    assert!(do_page("docs/how-to/find-races.md") >= 4);
}

#[test]
fn a_change_can_be_gated() {
    assert!(do_page("docs/how-to/gate-a-change-in-ci.md") >= 1);
}

#[test]
fn campaigns_are_run_as_the_page_describes() {
    assert!(do_page("docs/how-to/run-a-campaign.md") >= 4);
}

#[test]
fn a_difference_is_explained() {
    assert!(do_page("docs/how-to/explain-a-difference.md") >= 2);
}

/// Its comparisons in the simulated machine, but for the one with ten seeds, which takes minutes.
#[test]
fn the_runs_of_the_readme_succeed() {
    let folder = folder();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().filter_map(|line| line.split(" #").next());
    let runs = lines.filter(|line| line.starts_with("tiltyard run ") && !line.contains("--seeds"));
    let runs: Vec<&str> = runs.collect();
    assert!(runs.len() >= 6, "{runs:?}");
    for command in runs {
        let (code, said) = run(folder.path(), command);
        assert_eq!(code, 0, "{command}\n{said}");
    }
}

/// Each page is either run by a test of this file or gives its reason.
#[test]
fn no_page_is_forgotten() {
    let tests =
        std::fs::read_to_string(root().join("crates/tiltyard/tests/commands/how_to.rs")).unwrap();
    for folder in ["docs/how-to", "docs/tutorial"] {
        for entry in root().join(folder).read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = format!("{folder}/{name}");
            let page = std::fs::read_to_string(root().join(&file)).unwrap();
            let excused = page
                .lines()
                .filter_map(comment)
                .any(|(key, _)| key == "page not run");
            let run = tests.contains(&format!("do_page(\"{file}\")"));
            assert!(run != excused, "{file}: run it here, or say why not");
        }
    }
}

#[test]
fn pages_are_read_as_they_are_meant() {
    let page = "<!-- file: a.json -->\n```json\n{}\n```\ntext\n```\none \\\n  two\nthree\n```\n<!-- exit: 5 -->\n";
    let read = blocks(page);
    assert_eq!(read.len(), 2);
    assert_eq!(Block::of(&read[0].before, "file"), ["a.json"]);
    assert_eq!(commands(&read[1].code), ["one two", "three"]);
    assert_eq!(Block::of(&read[1].after, "exit"), ["5"]);
    assert!(shows("x\nshare  33.4 %  *\n", "share 33 %"));
    assert!(!shows("share 33.4 %", "share 25 %") && !shows("share 33 %", "share 33 ms"));
    let source = "int a(void)\n{\n}\n\n/* Old. */\nvoid OPS(mine_a, x)\n{\n\told();\n}\nrest\n";
    let new = replaced(source, "mine_a", "new\n");
    assert_eq!(new, "int a(void)\n{\n}\n\nnew\nrest\n");
    let plain = source.replace("OPS(mine_a, x)", "mine_a(struct x)");
    assert_eq!(replaced(&plain, "mine_a", "new\n"), new);
    let output = "a 1\nb  50.1 ms\nmore\nc\n";
    assert_eq!(not_printed(output, "a 1\n\nb 50.2 ms\nc\n"), None);
    assert_eq!(not_printed(output, "b 50.2 ms\na 1\n"), Some("a 1"));
    assert_eq!(not_printed(output, "b 60 ms\n"), Some("b 60 ms"));
    assert_eq!(not_printed(output, "b 50.1\n"), Some("b 50.1"));
}
