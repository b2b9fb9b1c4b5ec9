// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks share: its declaration under `tiltyard`, and what of it rt-app cannot have.

use super::Writer;
use super::micros;
use super::text::Node;
use crate::program::*;
use std::collections::BTreeMap;

/// One declaration: a single thing, or the members `name[0]`, `name[1]`...
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    pub first: usize,
    pub len: usize,
    pub name: String,
    pub array: bool,
}

/// The declarations of each kind, in order.
pub(super) struct Tables {
    pub mutexes: Vec<Declaration>,
    pub conds: Vec<Declaration>,
    pub barriers: Vec<Declaration>,
    pub sems: Vec<Declaration>,
    pub pipes: Vec<Declaration>,
    pub devices: Vec<Declaration>,
    pub counters: Vec<Declaration>,
}

impl Tables {
    pub fn of(w: &Workload) -> Result<Self, String> {
        Ok(Tables {
            mutexes: declarations(&w.mutexes, |mutex| &mutex.name)?,
            conds: declarations(&w.conds, |cond| cond)?,
            barriers: declarations(&w.barriers, |barrier| &barrier.name)?,
            sems: declarations(&w.sems, |sem| &sem.name)?,
            pipes: declarations(&w.pipes, |pipe| &pipe.name)?,
            devices: declarations(&w.devices, |device| &device.name)?,
            counters: declarations(&w.counters, |counter| &counter.name)?,
        })
    }
}

/// Finds the arrays among names: `a`, `b[0]`, `b[1]` are a single one and an array of two.
fn declarations<T>(list: &[T], name: fn(&T) -> &String) -> Result<Vec<Declaration>, String> {
    let mut declarations: Vec<Declaration> = Vec::new();
    for (at, item) in list.iter().enumerate() {
        let full = name(item);
        let Some((base, index)) = full
            .strip_suffix(']')
            .and_then(|inner| inner.split_once('['))
        else {
            declarations.push(Declaration {
                first: at,
                len: 1,
                name: full.clone(),
                array: false,
            });
            continue;
        };
        match declarations.last_mut() {
            Some(last) if last.array && last.name == base && index == last.len.to_string() => {
                last.len += 1
            }
            _ if index == "0" => declarations.push(Declaration {
                first: at,
                len: 1,
                name: base.to_string(),
                array: true,
            }),
            _ => return Err(format!("{full} is not after the members before it")),
        }
    }
    Ok(declarations)
}

impl Writer<'_> {
    pub(super) fn extension(&mut self) -> Node {
        let w = self.w;
        let mut members = vec![("name".to_string(), Node::text(&w.name))];
        let mut add = |key: &str, node: Node| members.push((key.to_string(), node));
        if !w.description.is_empty() {
            add("description", Node::text(&w.description));
        }
        if let Some(metric) = &w.metric {
            add("metric", Node::text(metric));
        }
        if let Some(ns) = w.duration_ns.filter(|ns| ns % 1_000_000_000 != 0) {
            add("duration", micros(ns));
        }
        let apps = w.apps.iter().map(|app| (app.name.clone(), self.app(app)));
        add("apps", Node::Object(apps.collect()));
        for (key, list) in self.sections() {
            if !list.is_empty() {
                add(key, Node::Object(list));
            }
        }
        for (key, names) in [
            ("places", &w.places),
            ("buffers", &w.buffers),
            ("requests", &w.requests),
        ] {
            if !names.is_empty() {
                add(
                    key,
                    Node::List(names.iter().map(|name| Node::text(name)).collect()),
                );
            }
        }
        if !w.timers.is_empty() {
            add("timers", Node::List(w.timers.iter().map(timer).collect()));
        }
        Node::Object(members)
    }

    /// Everything that is declared by name, section by section.
    fn sections(&self) -> [(&'static str, Members); 8] {
        let (w, t) = (self.w, &self.tables);
        let weight = |group: &Group| {
            if group.is_root() {
                return Node::object([]);
            }
            Node::object([("weight", Node::number(group.weight))])
        };
        let groups = w
            .groups
            .iter()
            .map(|group| (group.path.clone(), weight(group)));
        [
            ("groups", groups.collect()),
            (
                "mutexes",
                declared(&t.mutexes, &w.mutexes, |m| {
                    vec![("pi", Node::Plain(m.inherit_priority.to_string()))]
                }),
            ),
            ("conditions", declared(&t.conds, &w.conds, |_| vec![])),
            (
                "barriers",
                declared(&t.barriers, &w.barriers, |b| {
                    vec![
                        ("parties", Node::number(b.parties)),
                        ("spin", micros(b.spin_ns)),
                    ]
                }),
            ),
            (
                "semaphores",
                declared(&t.sems, &w.sems, |s| {
                    vec![("initial", Node::number(s.initial))]
                }),
            ),
            (
                "pipes",
                declared(&t.pipes, &w.pipes, |p| {
                    vec![("capacity", Node::number(p.capacity_bytes))]
                }),
            ),
            (
                "devices",
                declared(&t.devices, &w.devices, |d| vec![("channels", channels(d))]),
            ),
            (
                "counters",
                declared(&t.counters, &w.counters, |c| {
                    vec![("start", Node::number(c.start))]
                }),
            ),
        ]
    }

    fn app(&self, app: &App) -> Node {
        let mut members = Vec::new();
        if let Some(group) = app.group.and_then(|group| self.w.groups.get(group)) {
            members.push(("group".to_string(), Node::text(&group.path)));
        }
        members.push(("history".to_string(), micros(app.history_ns)));
        Node::Object(members)
    }

    /// Notes what rt-app has no words for among the shared things. Events refuse for themselves.
    pub(super) fn refuse_shared(&mut self) {
        let w = self.w;
        let default_app = App {
            name: DEFAULT_APP.to_string(),
            group: None,
            history_ns: DEFAULT_HISTORY_NS,
        };
        for app in w.apps.iter().filter(|app| **app != default_app) {
            self.refuse(format!("app {}", app.name));
        }
        for group in w.groups.iter().filter(|group| group.weight != 100) {
            self.refuse(format!("weight of group {}", group.path));
        }
        if w.groups.len() > RTAPP_MAX_GROUPS {
            self.refuse(format!("more than {RTAPP_MAX_GROUPS} groups"));
        }
        for barrier in w.barriers.iter().filter(|barrier| barrier.spin_ns > 0) {
            self.refuse(format!("spinning at barrier {}", barrier.name));
        }
        for sem in w.sems.iter().filter(|sem| sem.initial > 0) {
            self.refuse(format!("initial value of semaphore {}", sem.name));
        }
        if w.mutexes.iter().any(|mutex| mutex.inherit_priority)
            && !w.mutexes.iter().all(|mutex| mutex.inherit_priority)
        {
            self.refuse("priority inheritance of some mutexes only");
        }
        self.refuse_parties();
    }

    /// rt-app counts the users of a barrier itself: events times instances.
    fn refuse_parties(&mut self) {
        let mut users: BTreeMap<usize, u64> = BTreeMap::new();
        for task in &self.w.tasks {
            for op in task.phases.iter().flat_map(|phase| &phase.ops) {
                if let Op::Barrier(barrier) = op {
                    *users.entry(barrier.first).or_default() += u64::from(task.instances);
                }
            }
        }
        for (at, users) in users {
            let Some(barrier) = self.w.barriers.get(at) else {
                continue;
            };
            if u64::from(barrier.parties) != users {
                let (name, parties) = (barrier.name.clone(), barrier.parties);
                self.refuse(format!(
                    "{parties} parties at barrier {name}, which has {users} users"
                ));
            }
        }
    }
}

type Members = Vec<(String, Node)>;

/// rt-app is built for this many taskgroups.
const RTAPP_MAX_GROUPS: usize = 32;

/// Declarations as members of an object, with the fields of the first member of each.
fn declared<T>(
    declarations: &[Declaration],
    list: &[T],
    fields: fn(&T) -> Vec<(&'static str, Node)>,
) -> Members {
    let mut members = Vec::new();
    for declaration in declarations {
        let mut object: Vec<(String, Node)> = Vec::new();
        if declaration.array {
            object.push(("count".to_string(), Node::number(declaration.len)));
        }
        object.extend(
            fields(&list[declaration.first])
                .into_iter()
                .map(|(key, node)| (key.to_string(), node)),
        );
        members.push((declaration.name.clone(), Node::Object(object)));
    }
    members
}

fn channels(device: &Device) -> Node {
    if device.channels == u32::MAX {
        Node::text("unlimited")
    } else {
        Node::number(device.channels)
    }
}

fn timer(timer: &Timer) -> Node {
    Node::object([
        ("ref", Node::text(&timer.name)),
        ("mode", Node::text(mode_name(timer.mode))),
    ])
}

pub(super) fn mode_name(mode: TimerMode) -> &'static str {
    match mode {
        TimerMode::Relative => "relative",
        TimerMode::Absolute => "absolute",
    }
}
