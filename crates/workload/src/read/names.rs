// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of what tasks share: declared under `tiltyard` or, as in rt-app, created on first use.

use super::Reader;
use super::event::Scope;
use crate::index;
use crate::json::Value;
use crate::keys;
use crate::program::*;
use std::collections::HashMap;
use tiltyard_misspelt::nearest;

/// Members of all arrays together; a workload that needs more is a mistake in `count`.
pub(super) const MAX_MEMBERS: usize = 4_000_000;

/// Kinds of shared things that a [`Ref`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shared {
    Mutex,
    Cond,
    Barrier,
    Sem,
    Pipe,
    Device,
    Counter,
}

impl Shared {
    /// The key under `tiltyard` that declares things of this kind.
    pub fn section(self) -> &'static str {
        match self {
            Shared::Mutex => "mutexes",
            Shared::Cond => "conditions",
            Shared::Barrier => "barriers",
            Shared::Sem => "semaphores",
            Shared::Pipe => "pipes",
            Shared::Device => "devices",
            Shared::Counter => "counters",
        }
    }
}

/// Where a name's members lie in the workload's vector of that kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub first: usize,
    pub len: usize,
    /// Declared with `count`: must be used with an index.
    pub array: bool,
}

#[derive(Default)]
pub(super) struct Names {
    shared: HashMap<(Shared, String), Slot>,
    /// Shared timers by name; private ones by name and mode.
    timers: HashMap<(String, Option<bool>), usize>,
    places: HashMap<String, usize>,
    buffers: HashMap<String, usize>,
    requests: HashMap<String, usize>,
    groups: HashMap<String, usize>,
    pub apps: HashMap<String, usize>,
}

fn index_of(table: &mut HashMap<String, usize>, list: &mut Vec<String>, name: &str) -> usize {
    if let Some(at) = table.get(name) {
        return *at;
    }
    table.insert(name.to_string(), list.len());
    list.push(name.to_string());
    list.len() - 1
}

impl Reader<'_> {
    pub(super) fn place_named(&mut self, name: &str) -> usize {
        index_of(&mut self.names.places, &mut self.workload.places, name)
    }

    pub(super) fn buffer_named(&mut self, name: &str) -> usize {
        index_of(&mut self.names.buffers, &mut self.workload.buffers, name)
    }

    pub(super) fn request_named(&mut self, name: &str) -> usize {
        index_of(&mut self.names.requests, &mut self.workload.requests, name)
    }

    /// A timer whose name begins with `unique` is one per task. Private timers of one name and
    /// different modes are different timers; a shared one is absolute when anybody says so.
    pub(super) fn timer_named(&mut self, name: &str, mode: TimerMode) -> usize {
        let per_task = name.starts_with("unique");
        let key = (
            name.to_string(),
            per_task.then_some(mode == TimerMode::Absolute),
        );
        if let Some(at) = self.names.timers.get(&key).copied() {
            if mode == TimerMode::Absolute {
                self.workload.timers[at].mode = mode;
            }
            return at;
        }
        let at = self.workload.timers.len();
        self.workload.timers.push(Timer {
            name: name.to_string(),
            per_task,
            mode,
        });
        self.names.timers.insert(key, at);
        at
    }

    /// The group of a path like `/a/b`, made with its parents when it is new.
    pub(super) fn group_named(&mut self, path: &str) -> usize {
        if let Some(at) = self.names.groups.get(path) {
            return *at;
        }
        let parent = match path.rfind('/') {
            Some(cut) if cut > 0 => Some(self.group_named(&path[..cut])),
            _ => None,
        };
        let at = self.workload.groups.len();
        self.workload.groups.push(Group {
            path: path.to_string(),
            parent,
            weight: 100,
        });
        self.names.groups.insert(path.to_string(), at);
        at
    }

    /// Whether `text` is the path of a cgroup: `/`, or names after slashes.
    pub(super) fn is_group_path(text: &str) -> bool {
        let depth = text.matches('/').count();
        text == "/"
            || (depth <= 16
                && text.starts_with('/')
                && text[1..]
                    .split('/')
                    .all(|name| !matches!(name, "" | "." | "..")))
    }

    pub(super) fn mutex_named(&mut self, name: &str) -> usize {
        if let Some(slot) = self.slot(Shared::Mutex, name) {
            return slot.first;
        }
        let at = self.workload.mutexes.len();
        let inherit_priority = self.defaults.inherit_priority;
        self.workload.mutexes.push(Mutex {
            name: name.to_string(),
            inherit_priority,
        });
        self.declare(
            Shared::Mutex,
            name,
            Slot {
                first: at,
                len: 1,
                array: false,
            },
        );
        at
    }

    pub(super) fn cond_named(&mut self, name: &str) -> usize {
        if let Some(slot) = self.slot(Shared::Cond, name) {
            return slot.first;
        }
        let at = self.workload.conds.len();
        self.workload.conds.push(name.to_string());
        self.declare(
            Shared::Cond,
            name,
            Slot {
                first: at,
                len: 1,
                array: false,
            },
        );
        at
    }

    pub(super) fn declare(&mut self, kind: Shared, name: &str, slot: Slot) {
        self.names.shared.insert((kind, name.to_string()), slot);
    }

    pub(super) fn slot(&self, kind: Shared, name: &str) -> Option<Slot> {
        self.names.shared.get(&(kind, name.to_string())).copied()
    }

    /// Creates what rt-app creates on first use. Pipes, devices and counters have no default.
    fn created(&mut self, kind: Shared, name: &str) -> Option<Slot> {
        let first = match kind {
            Shared::Mutex => self.mutex_named(name),
            Shared::Cond => self.cond_named(name),
            Shared::Sem => {
                self.workload.sems.push(Sem {
                    name: name.to_string(),
                    initial: 0,
                });
                self.workload.sems.len() - 1
            }
            Shared::Barrier => {
                // The users are counted as they are read.
                self.workload.barriers.push(Barrier {
                    name: name.to_string(),
                    parties: 0,
                    spin_ns: 0,
                });
                self.workload.barriers.len() - 1
            }
            Shared::Pipe | Shared::Device | Shared::Counter => return None,
        };
        let slot = Slot {
            first,
            len: 1,
            array: false,
        };
        self.declare(kind, name, slot);
        Some(slot)
    }

    /// What `value` names: `"log"` or, inside `tiltyard`, a member of an array: `"req[i]"`.
    pub(super) fn reference(
        &mut self,
        kind: Shared,
        key: &str,
        value: &Value,
        scope: &Scope,
    ) -> Option<Ref> {
        let text = self.string_value(key, value)?;
        let (name, index) = match text
            .strip_suffix(']')
            .and_then(|inner| inner.split_once('['))
        {
            Some((name, index)) if scope.extended => (name, Some(index)),
            _ => (text, None),
        };
        if !is_name(name) {
            let what = format!("{text:?} is no name");
            let way_out = if scope.extended {
                "write a name, or name[index]".to_string()
            } else {
                format!(
                    "write a name without [ and ]; an index goes under \"{}\"",
                    keys::EXTENSION
                )
            };
            self.error(value.span.clone(), key, what, way_out);
            return None;
        }
        let Some(slot) = self.slot(kind, name).or_else(|| {
            if index.is_none() {
                self.created(kind, name)
            } else {
                None
            }
        }) else {
            self.undeclared(kind, key, value, name);
            return None;
        };
        let index = self.member_index(key, value, name, slot, index, scope)?;
        Some(Ref {
            first: slot.first,
            len: slot.len,
            index,
        })
    }

    fn undeclared(&mut self, kind: Shared, key: &str, value: &Value, name: &str) {
        let section = kind.section();
        let known = self
            .names
            .shared
            .keys()
            .filter(|(k, _)| *k == kind)
            .map(|(_, name)| name.as_str());
        let way_out = match nearest(name, known) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => format!(
                "declare it: \"{}\": {{ \"{section}\": {{ {name:?}: ... }} }}",
                keys::EXTENSION
            ),
        };
        self.error(
            value.span.clone(),
            key,
            format!("{name:?} is not among {section}"),
            way_out,
        );
    }

    fn member_index(
        &mut self,
        key: &str,
        value: &Value,
        name: &str,
        slot: Slot,
        index: Option<&str>,
        scope: &Scope,
    ) -> Option<Index> {
        let len = slot.len;
        let (what, way_out) = match index {
            None if !slot.array => return Some(Index::Const(0)),
            None => (
                format!("{name} has {len} members"),
                format!("say which: {name}[index]"),
            ),
            Some(_) if !slot.array => (
                format!("{name} is a single one"),
                format!("write {name}, or declare a count"),
            ),
            Some(index) => match index::parse(index, scope.loops) {
                Ok(Index::Const(at)) if !(0..len as i64).contains(&at) => (
                    format!("{name}[{at}] does not exist"),
                    format!("members are {name}[0] to {name}[{}]", len - 1),
                ),
                Ok(index) => return Some(index),
                Err(what) => (
                    what,
                    "write + - * / % ( ) over numbers, i and the counters j, k, l, m".to_string(),
                ),
            },
        };
        self.error(value.span.clone(), key, what, way_out);
        None
    }
}

/// Names must not look like members of arrays.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['[', ']'])
}
