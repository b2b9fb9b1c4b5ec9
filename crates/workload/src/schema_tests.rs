// SPDX-License-Identifier: GPL-2.0-or-later
//! The schema against files that the reader takes and files that it refuses. The validator knows the words that the schema
//! uses, and no others.

use std::path::{Path, PathBuf};

use super::schema;
use crate::json::{Member, NodeKind, Value, parse};
use crate::read;

fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match &value.kind {
        NodeKind::Object(members) => {
            let mut members = members.iter();
            members.find(|m| m.key == key).map(|m| &m.value)
        }
        _ => None,
    }
}

fn members(value: &Value) -> &[Member] {
    match &value.kind {
        NodeKind::Object(members) => members,
        _ => &[],
    }
}

fn text(value: &Value) -> &str {
    match &value.kind {
        NodeKind::String(text) | NodeKind::Number(text) => text,
        _ => "",
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    match value.map(|v| &v.kind) {
        Some(NodeKind::Array(items)) => items,
        _ => &[],
    }
}

/// The patterns of the schema: `^kind.`, and `^kind(?!rest|rest)(?!.*_(unit|unit)$)[0-9]*(_.+)?$`, of which the first
/// parenthesis may be missing.
fn matches(pattern: &str, key: &str) -> bool {
    let pattern = pattern.strip_prefix('^').expect("from the beginning");
    let Some(pattern) = pattern.strip_suffix("$)[0-9]*(_.+)?$") else {
        let kind = pattern.strip_suffix('.').expect("a known form");
        return key.strip_prefix(kind).is_some_and(|rest| !rest.is_empty());
    };
    let (pattern, units) = pattern.split_once("(?!.*_(").expect("units");
    let (kind, rests) = pattern.split_once("(?!").unwrap_or((pattern, ")"));
    let Some(rest) = key.strip_prefix(kind) else {
        return false;
    };
    let mut longer = rests.trim_end_matches(')').split('|');
    let mut units = units.trim_end_matches(')').split('|');
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_suffix = name.is_empty() || name.len() > 1 && name.starts_with('_');
    let is_longer = longer.any(|r| !r.is_empty() && rest.starts_with(r));
    is_suffix && !is_longer && !units.any(|unit| rest.ends_with(&format!("_{unit}")))
}

struct Validator {
    root: Value,
}

impl Validator {
    /// The path of the first place that the schema refuses.
    fn fault(&self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        if let Some(reference) = member(schema, "$ref") {
            let name = text(reference).trim_start_matches("#/$defs/");
            let defs = member(&self.root, "$defs").expect("definitions");
            let target = member(defs, name).unwrap_or_else(|| panic!("no definition {name}"));
            return self.fault(target, value, path);
        }
        let wrong = || Some(path.to_owned());
        let options = list(member(schema, "anyOf"));
        if !options.is_empty() && options.iter().all(|s| self.fault(s, value, path).is_some()) {
            return wrong();
        }
        let is_one_of = |allowed: &[Value]| allowed.iter().any(|one| one.kind == value.kind);
        if member(schema, "enum").is_some_and(|e| !is_one_of(list(Some(e)))) {
            return wrong();
        }
        if member(schema, "const").is_some_and(|c| c.kind != value.kind) {
            return wrong();
        }
        if !member(schema, "type").is_none_or(|t| is_a(text(t), value)) {
            return wrong();
        }
        let number = |key: &str| member(schema, key).map(|v| text(v).parse::<f64>().unwrap());
        if let NodeKind::Number(_) = value.kind {
            let n: f64 = text(value).parse().unwrap();
            if number("minimum").is_some_and(|m| n < m) || number("maximum").is_some_and(|m| n > m)
            {
                return wrong();
            }
        }
        self.fault_inside(schema, value, path)
    }

    fn fault_inside(&self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        let required = list(member(schema, "required"));
        if required
            .iter()
            .any(|key| member(value, text(key)).is_none())
        {
            return Some(path.to_owned());
        }
        let items = member(schema, "items");
        for item in list(Some(value)) {
            if let Some(fault) = items.and_then(|s| self.fault(s, item, path)) {
                return Some(fault);
            }
        }
        for m in members(value) {
            let path = format!("{path}/{}", m.key);
            let mut schemas: Vec<&Value> = Vec::new();
            schemas.extend(member(schema, "properties").and_then(|p| member(p, &m.key)));
            let patterns = member(schema, "patternProperties").map_or(&[][..], members);
            let patterns = patterns.iter().filter(|p| matches(&p.key, &m.key));
            schemas.extend(patterns.map(|p| &p.value));
            match member(schema, "additionalProperties") {
                Some(more) if schemas.is_empty() => match more.kind {
                    NodeKind::Bool(false) => return Some(path),
                    _ => schemas.push(more),
                },
                _ => {}
            }
            let mut faults = schemas
                .iter()
                .filter_map(|s| self.fault(s, &m.value, &path));
            if let Some(fault) = faults.next() {
                return Some(fault);
            }
        }
        None
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match (kind, &value.kind) {
        ("object", NodeKind::Object(_)) | ("array", NodeKind::Array(_)) => true,
        ("string", NodeKind::String(_)) | ("boolean", NodeKind::Bool(_)) => true,
        ("number", NodeKind::Number(_)) => true,
        ("integer", NodeKind::Number(text)) => text.parse::<i64>().is_ok(),
        _ => false,
    }
}

fn fault(file: &str) -> Option<String> {
    let root = parse(&schema()).expect("the schema is JSON");
    let value = parse(file).expect("JSON");
    let validator = Validator { root };
    validator.fault(&validator.root, &value, "")
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let entries = folder
        .read_dir()
        .expect("a folder")
        .map(|e| e.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries
        .filter(|f| f.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
}

#[test]
fn the_schema_takes_every_shipped_workload() {
    let folders = [
        "workloads",
        "workloads/probe",
        "workloads/suite",
        "fidelity/workloads",
    ];
    let data = ["bench/workloads", "crates/workload/tests/data"];
    let all: Vec<PathBuf> = folders.iter().chain(&data).flat_map(|f| files(f)).collect();
    assert!(all.len() > 60, "{} files", all.len());
    for file in all {
        let content = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(fault(&content), None, "{}", file.display());
    }
}

/// Each with the place that the schema names. The reader refuses them, too.
#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    for (tasks, place) in [
        (r#""a": { "lopo": 1, "run": 1 }"#, "/tasks/a/lopo"),
        (r#""a": { "runn": 1 }"#, "/tasks/a/runn"),
        (r#""a": { "run_": 1 }"#, "/tasks/a/run_"),
        (r#""a": { "sleep_ms": 1 }"#, "/tasks/a/sleep_ms"),
        (r#""a": { "runtimes": 1 }"#, "/tasks/a/runtimes"),
        (
            r#""a": { "tiltyard": { "spawns": "b" } }"#,
            "/tasks/a/tiltyard/spawns",
        ),
        (r#""a": { "run": "long" }"#, "/tasks/a/run"),
        (r#""a": { "run": -1 }"#, "/tasks/a/run"),
        (r#""a": { "run": 1, "policy": "FAST" }"#, "/tasks/a/policy"),
        (r#""a": { "run": 1, "cpus": 3 }"#, "/tasks/a/cpus"),
        (
            r#""a": { "phases": { "p": { "instance": 2 } } }"#,
            "/tasks/a/phases/p/instance",
        ),
        (
            r#""a": { "run": 1, "tiltyard": { "appp": "x" } }"#,
            "/tasks/a/tiltyard/appp",
        ),
        (
            r#""a": { "tiltyard": { "run": { "exp": "x" } } }"#,
            "/tasks/a/tiltyard/run",
        ),
        (
            r#""a": { "tiltyard": { "chance": { "p": 2, "do": {} } } }"#,
            "/tasks/a/tiltyard/chance/p",
        ),
        (
            r#""a": { "tiltyard": { "repeat": { "count": 2 } } }"#,
            "/tasks/a/tiltyard/repeat",
        ),
        (
            r#""a": { "tiltyard": { "set": { "priority": 2 } } }"#,
            "/tasks/a/tiltyard/set/priority",
        ),
    ] {
        let file = format!("{{ \"tasks\": {{ {tasks} }} }}");
        assert_eq!(fault(&file).as_deref(), Some(place), "{file}");
        assert!(read(&file, "w.json").is_err(), "{file}");
    }
    assert_eq!(fault("{ }").as_deref(), Some(""), "tasks are required");
    let global = r#"{ "tasks": {}, "global": { "druation": 1 } }"#;
    assert_eq!(fault(global).as_deref(), Some("/global/druation"));
}

/// A key more in the reader's lists is a key more in the schema.
#[test]
fn every_key_of_the_reader_is_in_the_schema() {
    use crate::keys::*;
    let text = schema();
    let keys = [
        TOP, GLOBAL, ATTRS, TASK, PHASE, EXT_TOP, EXT_TASK, EXT_ATTRS,
    ];
    for key in keys.into_iter().flatten() {
        assert!(text.contains(&format!("\"{key}\":")), "{key}");
    }
    for kind in RTAPP_EVENTS.iter().chain(OUR_EVENTS) {
        assert!(text.contains(&format!("\"^{kind}")), "{kind}");
    }
}
