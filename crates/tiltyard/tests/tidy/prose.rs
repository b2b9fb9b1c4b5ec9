// SPDX-License-Identifier: GPL-2.0-or-later
//! Phrases that made earlier text read like a translation stay out of documents, comments and messages.

use super::{files, root};

/// What not to write, and what to write in its place. Whole words, any case.
const BANNED: [(&str, &str); 24] = [
    ("told", "reported, printed, given"),
    ("tells", "reports, shows, describes"),
    ("heard", "received, recorded"),
    ("hears", "receives, records"),
    ("listened to", "recorded, enabled"),
    ("listens to", "records, reads"),
    ("anew", "again, rebuilt"),
    ("near enough", "within tolerance"),
    ("hangs on", "depends on"),
    ("hang on", "depend on"),
    ("what comes out", "the result"),
    ("what came out", "the result"),
    ("what came of", "the result of"),
    ("of its own will", "voluntarily"),
    ("in vain", "without success"),
    ("in its stead", "in its place"),
    ("behind itself", "after itself"),
    ("behind themselves", "after themselves"),
    ("takes along", "inherits"),
    ("for people", "human-readable"),
    ("lays out the sources", "formats the sources"),
    ("no figure is called", "unknown metric"),
    ("gave up by itself", "exited by itself"),
    ("is not there yet", "does not exist yet"),
];

/// Words of formats and third parties, and this list.
const LEFT_ALONE: [&str; 7] = [
    // Its C in a string has "\\told();" in it.
    "crates/tiltyard/tests/commands/how_to.rs",
    "/tests/golden/",
    "crates/tiltyard/tests/tidy/prose.rs",
    "/assets/uPlot",
    "/rt-app-examples/",
    "fuzz/corpus/",
    "experiments/results/",
];

/// The part of a line that people read: all of a document's; of code, comments and string literals.
fn prose(file: &str, line: &str) -> String {
    let code = [".rs", ".c", ".h", ".js", ".css"];
    if !code.iter().any(|suffix| file.ends_with(suffix)) {
        return line.to_owned();
    }
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") || trimmed.starts_with("/*") || trimmed.starts_with("* ") {
        return line.to_owned();
    }
    let mut text = String::new();
    for (index, piece) in line.split('"').enumerate() {
        // Between the first quote and the second, the third and the fourth, and so on.
        if index % 2 == 1 {
            text += piece;
        } else if let Some(at) = piece.find("// ") {
            text += &piece[at..];
            break;
        }
        text.push(' ');
    }
    text
}

/// The banned phrases in `text`, as whole words.
fn found(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    // `{told}` in a format string is a name.
    let is_word = |c: char| c.is_alphanumeric() || "_{".contains(c);
    let whole = |phrase: &&str| {
        text.match_indices(phrase).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + phrase.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    };
    BANNED
        .iter()
        .map(|(phrase, _)| *phrase)
        .filter(whole)
        .collect()
}

#[test]
fn banned_phrases_are_found_in_prose_and_not_in_code() {
    assert_eq!(found(&prose("a.md", "It tells why.")), ["tells"]);
    assert_eq!(found(&prose("a.rs", "/// What was told.")), ["told"]);
    assert_eq!(found(&prose("a.rs", "let x = 1; // Built anew")), ["anew"]);
    assert_eq!(
        found(&prose("a.rs", "print(\"heard of {told}\", told);")),
        ["heard"]
    );
    assert_eq!(found(&prose("a.rs", "let told = heard.told_ns;")), [""; 0]);
    assert_eq!(found("retells, foretold"), [""; 0]);
}

#[test]
fn prose_has_no_banned_phrases() {
    let mut offenders = Vec::new();
    for file in files() {
        if LEFT_ALONE.iter().any(|part| file.contains(part)) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(root().join(&file)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            for phrase in found(&prose(&file, line)) {
                let instead = BANNED
                    .iter()
                    .find(|(p, _)| *p == phrase)
                    .map_or("", |b| b.1);
                offenders.push(format!("{file}:{}: \"{phrase}\": {instead}", number + 1));
            }
        }
    }
    assert!(
        offenders.is_empty(),
        "plain English, please:\n{}",
        offenders.join("\n")
    );
}
