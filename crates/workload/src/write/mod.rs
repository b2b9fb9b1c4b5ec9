// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes a workload as a file: in full with the key `tiltyard`, or as plain rt-app where rt-app can
//! say it. What rt-app cannot say is refused by name, never dropped.

mod event;
mod resources;
mod task;
mod text;

use crate::error::WriteError;
use crate::program::*;
use crate::units::unscaled;
use resources::Tables;
pub(crate) use text::Node;

/// How a workload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// For rt-app itself. Name and description become a comment.
    RtApp,
    /// Everything, with the key `tiltyard`: reading it gives the same workload.
    Tiltyard,
}

/// Writes the text of a workload file.
///
/// # Errors
/// [`WriteError::NotInRtApp`] names what plain rt-app cannot say; [`WriteError::Broken`] explains why no
/// file can say this workload (ids out of range, attributes that contradict each other).
pub fn write(workload: &Workload, dialect: Dialect) -> Result<String, WriteError> {
    let mut writer = Writer::new(workload, dialect)?;
    let root = writer.root();
    if let Some(what) = writer.broken {
        return Err(WriteError::Broken(what));
    }
    if !writer.refused.is_empty() {
        return Err(WriteError::NotInRtApp(writer.refused));
    }
    let text = root.print();
    match dialect {
        Dialect::RtApp => Ok(comment(workload) + &text),
        Dialect::Tiltyard => {
            proofread(workload, &text)?;
            Ok(text)
        }
    }
}

/// A file must mean what it was written from; a workload that no file can say is found here at the latest.
fn proofread(workload: &Workload, text: &str) -> Result<(), WriteError> {
    match crate::read(text, &workload.name) {
        Ok(again) if again == *workload => Ok(()),
        Ok(again) => Err(WriteError::Broken(format!(
            "{} cannot be said in a file",
            first_difference(workload, &again)
        ))),
        Err(errors) => Err(WriteError::Broken(
            errors
                .first()
                .map_or(String::new(), |e| format!("{}: {}", e.key, e.what)),
        )),
    }
}

/// Names the part in which two workloads differ.
fn first_difference(a: &Workload, b: &Workload) -> String {
    if let Some((task, _)) = a.tasks.iter().zip(&b.tasks).find(|(a, b)| a != b) {
        return format!("task {}", task.name);
    }
    let parts = [
        ("name", a.name == b.name),
        ("description", a.description == b.description),
        ("metric", a.metric == b.metric),
        ("apps", a.apps == b.apps),
        ("groups", a.groups == b.groups),
        ("barriers", a.barriers == b.barriers),
        ("timers", a.timers == b.timers),
    ];
    parts
        .iter()
        .find(|(_, same)| !same)
        .map_or("one of the shared things", |(part, _)| part)
        .to_string()
}

/// Name and description as a JSON comment, for a dialect that has no key for them.
fn comment(workload: &Workload) -> String {
    let Workload {
        name, description, ..
    } = workload;
    let text = if description.is_empty() {
        name.clone()
    } else {
        format!("{name}: {description}")
    };
    format!("/* {} */\n", text.replace("*/", "* /"))
}

struct Writer<'w> {
    w: &'w Workload,
    dialect: Dialect,
    tables: Tables,
    /// What rt-app cannot say, each once, in order.
    refused: Vec<String>,
    broken: Option<String>,
}

impl<'w> Writer<'w> {
    fn new(w: &'w Workload, dialect: Dialect) -> Result<Self, WriteError> {
        let tables = Tables::of(w).map_err(WriteError::Broken)?;
        Ok(Writer {
            w,
            dialect,
            tables,
            refused: Vec::new(),
            broken: None,
        })
    }

    fn plain(&self) -> bool {
        self.dialect == Dialect::RtApp
    }

    /// Notes what rt-app cannot say.
    fn refuse(&mut self, part: impl Into<String>) {
        let part = part.into();
        if self.plain() && !self.refused.contains(&part) {
            self.refused.push(part);
        }
    }

    fn broken(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    fn root(&mut self) -> Node {
        let mut members = Vec::new();
        if self.plain() {
            self.refuse_shared();
        } else {
            members.push((crate::keys::EXTENSION.to_string(), self.extension()));
        }
        let tasks = self
            .w
            .tasks
            .iter()
            .enumerate()
            .map(|(at, task)| (task.name.clone(), self.task(at, task)))
            .collect();
        members.push(("tasks".to_string(), Node::Object(tasks)));
        let global = self.global();
        if !global.is_empty() {
            members.push(("global".to_string(), Node::Object(global)));
        }
        Node::Object(members)
    }

    fn global(&mut self) -> Vec<(String, Node)> {
        let mut members = Vec::new();
        if let Some(duration_ns) = self.w.duration_ns {
            if duration_ns % 1_000_000_000 == 0 {
                members.push((
                    "duration".to_string(),
                    Node::number(duration_ns / 1_000_000_000),
                ));
            } else {
                self.refuse("a duration of part of a second");
            }
        }
        if self.w.mem_buffer_bytes != DEFAULT_MEM_BUFFER_BYTES {
            members.push((
                "mem_buffer_size".to_string(),
                self.amount(self.w.mem_buffer_bytes, "mem_buffer_size"),
            ));
        }
        if self.w.io_device != DEFAULT_IO_DEVICE {
            members.push(("io_device".to_string(), Node::text(&self.w.io_device)));
        }
        if self.plain() {
            members.push(("calibration".to_string(), Node::text("CPU0")));
            if self.w.mutexes.iter().any(|mutex| mutex.inherit_priority) {
                members.push(("pi_enabled".to_string(), Node::Plain("true".into())));
            }
        }
        members
    }

    /// A whole number; rt-app's are of 32 bits.
    fn amount(&mut self, value: u64, what: &str) -> Node {
        if value > i32::MAX as u64 {
            self.refuse(format!("{what} above {}", i32::MAX));
        }
        Node::number(value)
    }
}

/// Microseconds with as many decimals as needed.
fn micros(ns: u64) -> Node {
    Node::Plain(unscaled(ns, 3))
}
