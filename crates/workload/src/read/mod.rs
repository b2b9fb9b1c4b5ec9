// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a workload file: rt-app's dialect, strictly, and the key `tiltyard`.
//!
//! One pass over the tree builds the [`Workload`]; what is wrong is noted and reading goes on, so
//! that one run names several mistakes. Order of keys is order of events.

mod attrs;
mod check;
mod event;
mod extension;
mod names;
mod task;
mod values;

pub(crate) use attrs::policy_name;

use crate::error::{ReadError, line_and_column};
use crate::json::{self, Member, NodeKind, SyntaxError, Value};
use crate::keys;
use crate::program::*;
use names::Names;
use std::ops::Range;
use tiltyard_misspelt::nearest;

/// More mistakes than this are not worth reading.
const MAX_ERRORS: usize = 50;
/// Words that other programs have for keys of this format.
const OTHER_NAMES: [(&str, &str); 2] = [("nice", "priority"), ("affinity", "cpus")];

/// Reads the text of a workload file; `file` is its name, for messages and as the workload's name.
///
/// Errors come in the order in which they stand in the file.
pub fn read(text: &str, file: &str) -> Result<Workload, Vec<ReadError>> {
    let mut reader = Reader::new(text, file);
    match json::parse(text) {
        Ok(root) => reader.root(&root),
        Err(SyntaxError {
            span,
            what,
            way_out,
        }) => reader.error(span, "", what, way_out),
    }
    if reader.errors.is_empty() {
        return Ok(reader.workload);
    }
    reader.errors.sort_by_key(|error| error.span.start);
    reader.errors.truncate(MAX_ERRORS);
    Err(reader.errors)
}

/// The name of a workload whose file does not give one: the file's name without folder and ending.
fn stem(file: &str) -> &str {
    let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let stem = std::path::Path::new(base).file_stem();
    stem.and_then(|stem| stem.to_str()).unwrap_or(base)
}

/// What `global` says that tasks need to know.
#[derive(Default)]
struct Defaults {
    policy: Option<Policy>,
    inherit_priority: bool,
}

struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    errors: Vec<ReadError>,
    workload: Workload,
    names: Names,
    defaults: Defaults,
    /// Task names in order, known before the first task is read.
    tasks: Vec<String>,
    /// Places in the file that the checks at the end point to.
    notes: check::Notes,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, file: &'a str) -> Self {
        let workload = Workload {
            name: stem(file).to_string(),
            ..Workload::default()
        };
        Reader {
            text,
            file,
            errors: Vec::new(),
            workload,
            names: Names::default(),
            defaults: Defaults::default(),
            tasks: Vec::new(),
            notes: check::Notes::default(),
        }
    }

    fn error(
        &mut self,
        span: Range<usize>,
        key: &str,
        what: impl Into<String>,
        way_out: impl Into<String>,
    ) {
        // Twice the limit, because they are sorted before they are cut off.
        if self.errors.len() >= 2 * MAX_ERRORS {
            return;
        }
        let (line, column) = line_and_column(self.text, span.start);
        self.errors.push(ReadError {
            file: self.file.to_string(),
            line,
            column,
            key: key.to_string(),
            what: what.into(),
            way_out: way_out.into(),
            span,
        });
    }

    fn root(&mut self, root: &Value) {
        let NodeKind::Object(members) = &root.kind else {
            let what = format!("found {} where the workload belongs", root.kind.name());
            return self.error(root.span.clone(), "", what, "write { \"tasks\": { ... } }");
        };
        self.known_keys(members, &[keys::TOP]);
        if let Some(global) = self.object_of(members, "global") {
            self.global(global);
        }
        let tasks = self.object_of(members, "tasks");
        if let Some(tasks) = tasks {
            self.tasks = tasks.iter().map(|task| task.key.clone()).collect();
        }
        if let Some(extension) = self.object_of(members, keys::EXTENSION) {
            self.extension(extension);
        }
        if let Some(resources) = self.object_of(members, "resources") {
            self.legacy_resources(resources);
        }
        match tasks {
            Some(tasks) => self.read_tasks(tasks),
            // A wrong type or a misspelt key has been complained about.
            None if !self.errors.is_empty() => {}
            None => self.error(
                root.span.start..root.span.start + 1,
                "tasks",
                "missing",
                "add \"tasks\": { ... }",
            ),
        }
        self.check();
    }

    /// Complains about keys that are in none of the lists, and about keys that come twice.
    fn known_keys(&mut self, members: &[Member], known: &[&[&'static str]]) {
        for (at, member) in members.iter().enumerate() {
            if !known.iter().any(|list| list.contains(&member.key.as_str())) {
                self.unknown_key(member, known);
            } else if members[..at].iter().any(|before| before.key == member.key) {
                self.twice(member);
            }
        }
    }

    fn unknown_key(&mut self, member: &Member, known: &[&[&'static str]]) {
        let known_keys = || known.iter().copied().flatten().copied();
        let named_otherwise = OTHER_NAMES
            .iter()
            .find(|(other, key)| *other == member.key && known_keys().any(|known| known == *key));
        let meant = named_otherwise.map(|(_, key)| *key);
        let way_out = match meant.or_else(|| nearest(&member.key, known_keys())) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => {
                let mut words: Vec<&str> = known_keys().collect();
                words.sort_unstable();
                words.dedup();
                format!("known here: {}", words.join(", "))
            }
        };
        self.error(member.key_span.clone(), &member.key, "unknown key", way_out);
    }

    fn twice(&mut self, member: &Member) {
        self.error(
            member.key_span.clone(),
            &member.key,
            "given twice",
            "keep one",
        );
    }

    fn global(&mut self, members: &[Member]) {
        self.known_keys(members, &[keys::GLOBAL]);
        for member in members {
            match member.key.as_str() {
                "duration" => self.global_duration(member),
                "default_policy" => self.defaults.policy = self.policy(member),
                "pi_enabled" => {
                    self.defaults.inherit_priority = self.boolean(member).unwrap_or(false)
                }
                "mem_buffer_size" => {
                    if let Some(bytes) = self.at_least_one(member, "bytes") {
                        self.workload.mem_buffer_bytes = bytes;
                    }
                }
                "io_device" => {
                    if let Some(path) = self.string(member) {
                        self.workload.io_device = path.to_string();
                    }
                }
                _ => self.housekeeping(member),
            }
        }
    }

    fn global_duration(&mut self, member: &Member) {
        if matches!(&member.value.kind, NodeKind::Number(number) if number == "-1") {
            return;
        }
        if let Some(seconds) = self.at_least_one(member, "s (or -1: no limit)") {
            match seconds.checked_mul(1_000_000_000) {
                Some(ns) => self.workload.duration_ns = Some(ns),
                None => self.wrong_value(member, "is more than 584 years", "write less"),
            }
        }
    }

    /// Keys that steer rt-app's own logs and calibration: they change nothing of what the tasks do.
    /// Their types are checked, so that a typing mistake does not hide there.
    fn housekeeping(&mut self, member: &Member) {
        match (member.key.as_str(), &member.value.kind) {
            ("lock_pages" | "gnuplot" | "cumulative_slack", _) => {
                let _ = self.boolean(member);
            }
            ("logdir" | "log_basename", _) => {
                let _ = self.string(member);
            }
            ("frag", _) | ("calibration" | "log_size", NodeKind::Number(_)) => {
                let _ = self.at_least_one(member, "");
            }
            ("calibration", _) => {
                let cpu = self
                    .string(member)
                    .map(|text| text.strip_prefix("CPU").map(str::parse::<u32>));
                if matches!(cpu, Some(None | Some(Err(_)))) {
                    self.wrong_value(member, "is no CPU", "write \"CPU0\" or the ns of one loop");
                }
            }
            ("log_size", _) => {
                let size = self.string(member).map(str::to_ascii_lowercase);
                if size.is_some_and(|size| !["file", "disable", "auto"].contains(&size.as_str())) {
                    self.wrong_value(
                        member,
                        "is no size",
                        "write MB, or \"file\", \"disable\", \"auto\"",
                    );
                }
            }
            ("ftrace", NodeKind::Bool(_)) => {}
            ("ftrace", _) => self.ftrace(member),
            _ => {}
        }
    }

    fn ftrace(&mut self, member: &Member) {
        let categories = self.string(member).unwrap_or("").to_string();
        for category in categories
            .split(',')
            .map(str::trim)
            .filter(|category| !category.is_empty())
        {
            if !["none", "main", "task", "loop", "event", "stats"].contains(&category) {
                let what = format!("unknown category {category:?}");
                self.error(
                    member.value.span.clone(),
                    &member.key,
                    what,
                    "use main, task, loop, event, stats or none",
                );
            }
        }
    }

    /// rt-app's old section: resources are created on first use today, so it only gives them an order.
    fn legacy_resources(&mut self, members: &[Member]) {
        for member in members {
            let Some(fields) = self.object(member) else {
                continue;
            };
            self.known_keys(fields, &[&["type"]]);
            let Some(kind) = fields.iter().find(|field| field.key == "type") else {
                continue;
            };
            match self.string(kind) {
                Some("mutex") => {
                    self.mutex_named(&member.key);
                }
                Some("wait" | "signal" | "broadcast" | "sync") => {
                    self.cond_named(&member.key);
                }
                Some("timer") => {
                    self.timer_named(&member.key, TimerMode::Relative);
                }
                Some(_) => self.wrong_value(
                    kind,
                    "is no resource",
                    "leave the section resources out: rt-app needs none",
                ),
                None => {}
            }
        }
    }
}
