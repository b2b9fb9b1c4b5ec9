// SPDX-License-Identifier: GPL-2.0-or-later
//! Workload files with some of their numbers changed: JSON merge patches (RFC 7396), with one rule more, so that a
//! slip of the pen is an error and not a task that nobody asked for: a patch adds no objects.

use crate::error::PatchError;
use crate::json::{self, Member, NodeKind, Value};
use crate::write::Node;
use std::collections::HashSet;

/// The text of a workload file after `patch`, a JSON object: what it names is replaced, `null` removes, all else stays.
/// Comments go.
pub fn patch(text: &str, patch: &str) -> Result<String, PatchError> {
    let mut target = parse(text, false)?;
    merge(&mut target, &parse(patch, true)?, "")?;
    Ok(node(&target).print())
}

/// The text of a workload file with the number at `path` (keys, with points between) `factor` times as large. A whole
/// number stays one, 1 at least; 0 stays 0.
pub fn scale(text: &str, path: &str, factor: f64) -> Result<String, PatchError> {
    let no_number = || PatchError::NoNumber {
        path: path.to_owned(),
    };
    let mut target = parse(text, false)?;
    let number = path.split('.').try_fold(&mut target, |value, key| {
        let NodeKind::Object(members) = &mut value.kind else {
            return None;
        };
        members
            .iter_mut()
            .find(|m| m.key == key)
            .map(|m| &mut m.value)
    });
    let Some(NodeKind::Number(number)) = number.map(|value| &mut value.kind) else {
        return Err(no_number());
    };
    let value: f64 = number.parse().map_err(|_| no_number())?;
    *number = match number.contains(['.', 'e', 'E']) {
        true => format!("{:.6}", value * factor),
        false if value == 0.0 => number.clone(),
        false => format!("{}", (value * factor).round().max(1.0)),
    };
    Ok(node(&target).print())
}

fn parse(text: &str, is_patch: bool) -> Result<Value, PatchError> {
    json::parse(text).map_err(|e| PatchError::Syntax {
        is_patch,
        what: e.what,
        way_out: e.way_out,
    })
}

fn merge(target: &mut Value, patch: &Value, path: &str) -> Result<(), PatchError> {
    let NodeKind::Object(changes) = &patch.kind else {
        target.kind = patch.kind.clone();
        return Ok(());
    };
    let NodeKind::Object(members) = &mut target.kind else {
        return Err(PatchError::NoKeys {
            path: path.to_owned(),
            is: target.kind.name(),
        });
    };
    let mut given = HashSet::new();
    for change in changes {
        let path = match path {
            "" => change.key.clone(),
            path => format!("{path}.{}", change.key),
        };
        if !given.insert(&change.key) {
            return Err(PatchError::GivenTwice { path });
        }
        let mut places = (0..members.len()).filter(|&i| members[i].key == change.key);
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => return Err(PatchError::Twice { path }),
            (Some(at), None) if change.value.kind == NodeKind::Null => {
                members.remove(at);
            }
            (Some(at), None) => merge(&mut members[at].value, &change.value, &path)?,
            (None, _) if matches!(change.value.kind, NodeKind::Object(_) | NodeKind::Null) => {
                return Err(PatchError::NoKey { path });
            }
            (None, _) => members.push(change.clone()),
        }
    }
    Ok(())
}

/// The same for the writer.
fn node(value: &Value) -> Node {
    match &value.kind {
        NodeKind::Absent => Node::Absent,
        NodeKind::Null => Node::Plain("null".to_owned()),
        NodeKind::Bool(flag) => Node::Plain(flag.to_string()),
        NodeKind::Number(number) => Node::Plain(number.clone()),
        NodeKind::String(text) => Node::text(text),
        NodeKind::Array(values) => Node::List(values.iter().map(node).collect()),
        NodeKind::Object(members) => {
            let member = |m: &Member| (m.key.clone(), node(&m.value));
            Node::Object(members.iter().map(member).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{patch, scale};
    use crate::read;

    const HOGS: &str =
        r#"{ "tasks" : { /* many */ "hog" : { "instance" : 4, "run" : 5, "sleep" : 2, }, } }"#;

    #[test]
    fn numbers_change_and_order_stays() {
        let text = patch(
            HOGS,
            r#"{"tasks":{"hog":{"run":null,"instance":16,"priority":5}}}"#,
        )
        .unwrap();
        assert_eq!(
            text,
            "{\n\t\"tasks\" : {\n\t\t\"hog\" : { \"instance\" : 16, \"sleep\" : 2, \"priority\" : 5 }\n\t}\n}\n"
        );
    }

    #[test]
    fn an_empty_patch_changes_nothing_that_matters() {
        let text = patch(HOGS, "{}").unwrap();
        assert_eq!(read(&text, "x").unwrap(), read(HOGS, "x").unwrap());
        assert_eq!(patch(&text, "{}").unwrap(), text);
    }

    #[test]
    fn one_number_is_scaled() {
        let text =
            r#"{ "tasks" : { "a" : { "loop" : 3, "run" : 2.5, "sleep" : { "exp" : 7 } } } }"#;
        let scaled = scale(text, "tasks.a.run", 0.5).unwrap();
        assert!(scaled.contains("\"run\" : 1.250000"), "{scaled}");
        let scaled = scale(text, "tasks.a.sleep.exp", 0.5).unwrap();
        assert!(scaled.contains("\"exp\" : 4"), "{scaled}");
        for path in ["tasks.b.run", "tasks.a.sleep", "tasks.a.run.x"] {
            let error = scale(text, path, 2.0).unwrap_err().to_string();
            assert_eq!(error, format!("{path}: there is no number to scale"));
        }
    }

    #[test]
    fn slips_of_the_pen_are_errors() {
        for (change, expected) in [
            (
                r#"{"tasks":{"hgo":{"instance":5}}}"#,
                "tasks.hgo: there is no such key to patch",
            ),
            (
                r#"{"tasks":{"hog":{"rum":null}}}"#,
                "tasks.hog.rum: there is no such key to patch",
            ),
            (
                r#"{"tasks":{"hog":{"run":{"exp":5}}}}"#,
                "tasks.hog.run is a number, which has no keys to patch",
            ),
            (
                r#"{"tasks":{"hog":{"run":5,"run":6}}}"#,
                "the patch gives tasks.hog.run twice; keep one",
            ),
            ("{", "the patch is not JSON: "),
            ("{tasks}", "the patch is not JSON: found 't'"),
        ] {
            let error = patch(HOGS, change).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let twice = r#"{ "tasks" : { "a" : { "run" : 1, "run" : 2 } } }"#;
        let error = patch(twice, r#"{"tasks":{"a":{"run":3}}}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tasks.a.run occurs more than once; give each its own name"
        );
    }
}
