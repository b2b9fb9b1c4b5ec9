// SPDX-License-Identifier: GPL-2.0-or-later
//! A JSON schema (2020-12) of workload files, for editors. Made of the reader's own lists of keys, so that it knows the same
//! words. It checks keys and types; what only the whole file shows (references, barriers that cannot open) is the reader's.

use crate::keys::{
    ATTRS, EXT_ATTRS, EXT_TASK, EXT_TOP, EXTENSION, GLOBAL, OUR_EVENTS, PHASE, RTAPP_EVENTS, TASK,
    TOP, UNITS,
};

/// The schema as text.
pub fn schema() -> String {
    let top = TOP.iter().map(|key| {
        let value = match *key {
            "tasks" => format!(
                r#"{{"type":"object","minProperties":1,"additionalProperties":{}}}"#,
                reference("task")
            ),
            "global" => closed(GLOBAL.iter().map(|key| (*key, global(key))), []),
            EXTENSION => closed(EXT_TOP.iter().map(|key| (*key, shared(key))), []),
            _ => "{}".to_owned(),
        };
        (*key, value)
    });
    let definitions = [
        ("task", task()),
        ("phase", phase()),
        ("extended", closed([], event_patterns(&all_events(), true))),
        (
            "task-extended",
            closed(
                EXT_TASK.iter().map(|key| (*key, of_task(key))),
                event_patterns(&all_events(), true),
            ),
        ),
        ("time", TIME.to_owned()),
    ];
    let top = closed(top, []);
    let rest = top.strip_prefix('{').expect("an object");
    format!(
        r#"{{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Tiltyard workload","required":["tasks"],"$defs":{},{rest}"#,
        members(definitions)
    ) + "\n"
}

const ANY: &str = "{}";
const TEXT: &str = r#"{"type":"string"}"#;
const FLAG: &str = r#"{"type":"boolean"}"#;
const COUNT: &str = r#"{"type":"integer","minimum":0}"#;
const INTEGER: &str = r#"{"type":"integer"}"#;
const NUMBER: &str = r#"{"type":"number"}"#;
const INTEGERS: &str = r#"{"type":"array","items":{"type":"integer","minimum":0}}"#;
const TEXTS: &str = r#"{"type":"array","items":{"type":"string"}}"#;
const OBJECT: &str = r#"{"type":"object"}"#;
const OBJECTS: &str = r#"{"type":"object","additionalProperties":{"type":"object"}}"#;

/// µs, or how they are drawn.
const TIME: &str = r#"{"anyOf":[{"type":"number","minimum":0},{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":false,"properties":{"exp":{"type":"number","minimum":0},"lognormal":{"type":"object","required":["median","sigma"],"additionalProperties":false,"properties":{"median":{"type":"number"},"sigma":{"type":"number"}}},"uniform":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"number","minimum":0}}}}]}"#;

fn reference(name: &str) -> String {
    format!(r##"{{"$ref":"#/$defs/{name}"}}"##)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn members<'a>(members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let members = members.into_iter();
    let list = members.map(|(key, value)| format!("{}:{value}", quoted(key)));
    format!("{{{}}}", list.collect::<Vec<_>>().join(","))
}

/// An object of these members, of members whose keys match these patterns, and of no others.
fn closed<'a>(
    known: impl IntoIterator<Item = (&'a str, String)>,
    patterns: impl IntoIterator<Item = (String, String)>,
) -> String {
    let patterns: Vec<(String, String)> = patterns.into_iter().collect();
    let patterns = patterns
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()));
    format!(
        r#"{{"type":"object","properties":{},"patternProperties":{},"additionalProperties":false}}"#,
        members(known),
        members(patterns)
    )
}

fn all_events() -> Vec<&'static str> {
    RTAPP_EVENTS.iter().chain(OUR_EVENTS).copied().collect()
}

fn task() -> String {
    let own = TASK.iter().map(|key| match *key {
        "loop" => (*key, INTEGER.to_owned()),
        "instance" | "delay" | "runtime" | "period" | "deadline" => (*key, COUNT.to_owned()),
        "phases" => {
            let phases = format!(
                r#"{{"type":"object","additionalProperties":{}}}"#,
                reference("phase")
            );
            (*key, phases)
        }
        _ => (*key, reference("task-extended")),
    });
    let attrs = ATTRS.iter().map(|key| (*key, attribute(key)));
    let mut patterns = event_patterns(RTAPP_EVENTS, false);
    patterns.push((format!("^{EXTENSION}."), reference("task-extended")));
    closed(own.chain(attrs), patterns)
}

fn phase() -> String {
    let own = PHASE.iter().map(|key| match *key {
        "loop" => (*key, INTEGER.to_owned()),
        _ => (*key, reference("extended")),
    });
    let attrs = ATTRS.iter().map(|key| (*key, attribute(key)));
    let mut patterns = event_patterns(RTAPP_EVENTS, false);
    patterns.push((format!("^{EXTENSION}."), reference("extended")));
    closed(own.chain(attrs), patterns)
}

/// A key is the event with the longest name that it begins with: what goes on as a longer name is excluded. It also
/// excludes invalid suffixes and units ([`crate::keys::suffix_fault`]).
fn event_patterns(kinds: &[&str], extended: bool) -> Vec<(String, String)> {
    let pattern = |kind: &str| {
        let longer = kinds.iter().filter_map(|other| other.strip_prefix(kind));
        let rests: Vec<&str> = longer.filter(|rest| !rest.is_empty()).collect();
        let longer = match rests.is_empty() {
            true => String::new(),
            false => format!("(?!{})", rests.join("|")),
        };
        let units: Vec<&str> = UNITS.iter().map(|(unit, _)| *unit).collect();
        format!("^{kind}{longer}(?!.*_({})$)[0-9]*(_.+)?$", units.join("|"))
    };
    let of = |kind: &&str| (pattern(kind), event(kind, extended));
    kinds.iter().map(of).collect()
}

/// The value of an event.
fn event(kind: &str, extended: bool) -> String {
    let with_do = |key: &str, value: &str| {
        format!(
            r#"{{"type":"object","required":["{key}","do"],"additionalProperties":false,"properties":{{"{key}":{value},"do":{}}}}}"#,
            reference("extended")
        )
    };
    match kind {
        "run" | "runtime" | "sleep" if extended => reference("time"),
        "run" | "runtime" | "sleep" | "mem" | "iorun" => COUNT.to_owned(),
        "lock" | "unlock" | "signal" | "broad" | "barrier" | "resume" | "sem_wait" | "sem_post"
        | "fork" | "begin" | "end" | "done" | "mark" => TEXT.to_owned(),
        "timer" | "wait" | "sync" | "memrun" | "write" | "read" | "io" => OBJECT.to_owned(),
        "set" => closed(changes(), []),
        "set_other" => {
            let whose = [("task", TEXT.to_owned()), ("instance", ANY.to_owned())];
            closed(changes().chain(whose), [])
        }
        "spawn" => format!(r#"{{"anyOf":[{TEXT},{OBJECT}]}}"#),
        "join" | "exit" => r#"{"const":true}"#.to_owned(),
        "repeat" => with_do("count", ANY),
        "countdown" => with_do("counter", TEXT),
        "until" | "during" => with_do("time", NUMBER),
        "chance" => with_do("p", r#"{"type":"number","minimum":0,"maximum":1}"#),
        // "suspend" may stand alone in files for workgen, and rt-app takes any value for "yield".
        _ => ANY.to_owned(),
    }
}

/// Attributes that a running task can change.
fn changes() -> impl Iterator<Item = (&'static str, String)> {
    EXT_ATTRS.iter().map(|key| match *key {
        "cpus" => (
            *key,
            format!(r#"{{"anyOf":[{INTEGERS},{{"const":"all"}}]}}"#),
        ),
        "nice" | "rt_priority" => (*key, INTEGER.to_owned()),
        "slice" | "dl-runtime" | "dl-period" | "dl-deadline" => (*key, NUMBER.to_owned()),
        _ => (*key, attribute(key)),
    })
}

/// A scheduling attribute.
fn attribute(key: &str) -> String {
    match key {
        "policy" => r#"{"enum":["SCHED_OTHER","SCHED_BATCH","SCHED_IDLE","SCHED_FIFO","SCHED_RR","SCHED_DEADLINE"]}"#.to_owned(),
        "priority" => INTEGER.to_owned(),
        "cpus" | "nodes_membind" => INTEGERS.to_owned(),
        "util_min" | "util_max" => r#"{"type":"integer","minimum":-1,"maximum":1024}"#.to_owned(),
        "taskgroup" => TEXT.to_owned(),
        _ => COUNT.to_owned(),
    }
}

fn global(key: &str) -> String {
    match key {
        "duration" => INTEGER.to_owned(),
        "default_policy" => attribute("policy"),
        "pi_enabled" => FLAG.to_owned(),
        "mem_buffer_size" => COUNT.to_owned(),
        "io_device" => TEXT.to_owned(),
        _ => ANY.to_owned(),
    }
}

/// What tasks share.
fn shared(key: &str) -> String {
    match key {
        "name" | "metric" => TEXT.to_owned(),
        "description" => format!(r#"{{"anyOf":[{TEXT},{TEXTS}]}}"#),
        "duration" => r#"{"type":"number","minimum":0}"#.to_owned(),
        "timers" | "places" | "buffers" | "requests" => ANY.to_owned(),
        _ => OBJECTS.to_owned(),
    }
}

/// What a task is.
fn of_task(key: &str) -> String {
    match key {
        "app" => TEXT.to_owned(),
        "process" | "daemon" => FLAG.to_owned(),
        "stall_share" => r#"{"type":"number","minimum":0,"maximum":1}"#.to_owned(),
        _ => COUNT.to_owned(),
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
