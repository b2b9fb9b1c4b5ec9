// SPDX-License-Identifier: GPL-2.0-or-later
//! The reference page is right: its examples are read, and no word of the dialect is missing from it.

use tiltyard_workload::read;

fn page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/workload-files.md");
    std::fs::read_to_string(path).expect("docs/reference/workload-files.md")
}

#[test]
fn examples_are_read() {
    let page = page();
    let examples: Vec<&str> = page
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(examples.len() >= 2);
    for example in examples {
        if let Err(errors) = read(example, "example.json") {
            panic!("{}\n{example}", errors[0]);
        }
    }
}

/// The reader lists the known words when it meets one that is like none: each must be on the page.
#[test]
fn every_word_is_explained() {
    let page = page();
    let places = [
        "{ \"zzzzzzzzz\": 1 }",
        "{ \"global\": { \"zzzzzzzzz\": 1 } }",
        "{ \"tasks\": { \"a\": { \"zzzzzzzzz\": 1 } } }",
        "{ \"tasks\": { \"a\": { \"phases\": { \"p\": { \"zzzzzzzzz\": 1 } } } } }",
        "{ \"tasks\": { \"a\": { \"tiltyard\": { \"zzzzzzzzz\": 1 } } } }",
        "{ \"tasks\": { \"a\": { \"tiltyard\": { \"set\": { \"zzzzzzzzz\": 1 } } } } }",
        "{ \"tasks\": { \"a\": { \"tiltyard\": { \"zzzzzzzzz\": 1 }, \"phases\": { \"p\": { \"run\": 1 } } } } }",
        "{ \"tiltyard\": { \"zzzzzzzzz\": 1 } }",
    ];
    let mut words = 0;
    for place in places {
        let errors = read(place, "x.json").expect_err("an unknown key");
        let error = errors
            .iter()
            .find(|e| e.key == "zzzzzzzzz")
            .expect("of the key");
        let list = error
            .way_out
            .strip_prefix("known here: ")
            .expect(&error.way_out);
        for word in list.split(", ") {
            assert!(
                page.contains(&format!("`{word}`")),
                "{word} is not explained"
            );
            words += 1;
        }
    }
    assert!(words > 120, "{words}");
}
