// SPDX-License-Identifier: GPL-2.0-or-later
//! The key `tiltyard`: what rt-app cannot say.
//!
//! At the top it declares what tasks share, in a task it says what the task is, in a phase it holds
//! events of ours, beside which rt-app's events may take distributions and indices.

use super::Reader;
use super::event::Scope;
use super::names::{MAX_MEMBERS, Shared, Slot, is_name};
use crate::json::{Member, NodeKind, Value};
use crate::keys::{self, SuffixFault};
use crate::program::*;
use crate::units;

/// Of a POSIX semaphore.
const SEM_VALUE_MAX: i64 = i32::MAX as i64;
/// Of rows in tables, beside those of apps.
const RESERVED: [&str; 2] = ["kernel", "machine"];

impl Reader<'_> {
    pub(super) fn extension(&mut self, members: &[Member]) {
        self.known_keys(members, &[keys::EXT_TOP]);
        // Apps name groups, whatever comes first in the file.
        if let Some(groups) = self.object_of(members, "groups") {
            self.groups(groups);
        }
        for member in members {
            match member.key.as_str() {
                "name" => self.text(member, |workload| &mut workload.name),
                "description" => self.description(member),
                "metric" => self.metric(member),
                "duration" => self.exact_duration(member),
                "apps" => self.apps(member),
                "mutexes" => self.section(member, Shared::Mutex),
                "conditions" => self.section(member, Shared::Cond),
                "barriers" => self.section(member, Shared::Barrier),
                "semaphores" => self.section(member, Shared::Sem),
                "pipes" => self.section(member, Shared::Pipe),
                "devices" => self.section(member, Shared::Device),
                "counters" => self.section(member, Shared::Counter),
                "timers" => self.timers(member),
                "places" => self.listed(member, Self::place_named),
                "buffers" => self.listed(member, Self::buffer_named),
                "requests" => self.listed(member, Self::request_named),
                _ => {}
            }
        }
    }

    fn text(&mut self, member: &Member, slot: fn(&mut Workload) -> &mut String) {
        if let Some(text) = self.string(member) {
            *slot(&mut self.workload) = text.to_string();
        }
    }

    /// A string, or a list of lines that are joined by blanks.
    fn description(&mut self, member: &Member) {
        let NodeKind::Array(lines) = &member.value.kind else {
            return self.text(member, |workload| &mut workload.description);
        };
        let lines: Option<Vec<&str>> = lines
            .iter()
            .map(|line| self.string_value(&member.key, line))
            .collect();
        self.workload.description = lines.unwrap_or_default().join(" ");
    }

    /// Does not check that the metric exists; the runner does.
    fn metric(&mut self, member: &Member) {
        let Some(name) = self.string(member).map(str::to_owned) else {
            return;
        };
        if name.trim().is_empty() {
            self.wrong_value(
                member,
                "is not the name of a metric",
                "tiltyard compare FILE --list-metrics lists the names",
            );
        }
        self.workload.metric = Some(name);
    }

    fn exact_duration(&mut self, member: &Member) {
        if self.workload.duration_ns.is_some() {
            self.error(
                member.key_span.clone(),
                &member.key,
                "global gives a duration too",
                "keep one",
            );
        }
        self.workload.duration_ns = self.micros(&member.key, &member.value);
        if self.workload.duration_ns == Some(0) {
            self.wrong_value(member, "ends before it begins", "write more than 0");
        }
    }

    fn apps(&mut self, member: &Member) {
        for app in self.object(member).unwrap_or_default() {
            let Some(fields) = self.object(app) else {
                continue;
            };
            self.known_keys(fields, &[&["group", "history"]]);
            let find = |name: &str| fields.iter().find(|field| field.key == name);
            if RESERVED.contains(&app.key.as_str()) {
                self.error(
                    app.key_span.clone(),
                    &app.key,
                    "results have rows of this name for the machine's own threads, and for all of it",
                    "give the app another name",
                );
            }
            let group = find("group").and_then(|field| self.taskgroup(field));
            let history = find("history").map(|field| self.micros(&field.key, &field.value));
            if self
                .names
                .apps
                .insert(app.key.clone(), self.workload.apps.len())
                .is_some()
            {
                self.twice(app);
            }
            let history_ns = history.flatten().unwrap_or(DEFAULT_HISTORY_NS);
            self.workload.apps.push(App {
                name: app.key.clone(),
                group,
                history_ns,
            });
        }
    }

    fn groups(&mut self, members: &[Member]) {
        for (at, member) in members.iter().enumerate() {
            if !Self::is_group_path(&member.key) {
                let what = format!("{:?} is no path of a group", member.key);
                self.error(
                    member.key_span.clone(),
                    &member.key,
                    what,
                    "write \"/name\" or \"/name/name\"",
                );
                continue;
            }
            if members[..at].iter().any(|before| before.key == member.key) {
                self.twice(member);
            }
            let group = self.group_named(&member.key);
            let Some(fields) = self.object(member) else {
                continue;
            };
            self.known_keys(fields, &[&["weight"]]);
            if let Some(field) = fields.first()
                && self.workload.groups[group].is_root()
            {
                let what = "the machine's root group has no weight".to_owned();
                self.error(
                    field.key_span.clone(),
                    &field.key,
                    what,
                    "leave it out, or give the group a name",
                );
                continue;
            }
            let weight = fields
                .first()
                .and_then(|field| self.between(field, 1, 10_000));
            self.workload.groups[group].weight = weight.map_or(100, |weight| weight as u32);
        }
    }

    fn timers(&mut self, member: &Member) {
        for timer in self.list(member).unwrap_or_default() {
            let NodeKind::Object(fields) = &timer.kind else {
                self.wrong(
                    &member.key,
                    timer,
                    "is no timer",
                    "write {\"ref\": name, \"mode\": \"relative\" or \"absolute\"}",
                );
                continue;
            };
            self.known_keys(fields, &[&["ref", "mode"]]);
            let find = |name: &str| fields.iter().find(|field| field.key == name);
            let name = find("ref").and_then(|field| self.string(field));
            let mode = find("mode").and_then(|field| self.string(field));
            match (name, mode) {
                (Some(name), Some("absolute")) => {
                    self.timer_named(name, TimerMode::Absolute);
                }
                (Some(name), None | Some("relative")) => {
                    self.timer_named(name, TimerMode::Relative);
                }
                _ => self.wrong(
                    &member.key,
                    timer,
                    "is no timer",
                    "give ref, and mode relative or absolute",
                ),
            }
        }
    }

    /// A list of names that only need an order.
    fn listed(&mut self, member: &Member, add: fn(&mut Self, &str) -> usize) {
        for item in self.list(member).unwrap_or_default() {
            if let Some(name) = self.string_value(&member.key, item) {
                add(self, name);
            }
        }
    }

    /// One section of shared things: `"semaphores": { "req": { "count": 80, "initial": 0 } }`.
    fn section(&mut self, member: &Member, kind: Shared) {
        for declared in self.object(member).unwrap_or_default() {
            let Some(fields) = self.object(declared) else {
                continue;
            };
            if !is_name(&declared.key) {
                let what = format!("{:?} is no name", declared.key);
                self.error(
                    declared.key_span.clone(),
                    &declared.key,
                    what,
                    "use no [ or ]; \"count\" makes an array",
                );
                continue;
            }
            if self.slot(kind, &declared.key).is_some() {
                self.twice(declared);
                continue;
            }
            let count = fields.iter().find(|field| field.key == "count");
            let len = count
                .map_or(Some(1), |field| self.at_least_one(field, "members"))
                .unwrap_or(1);
            let Some(len) = self.room_for(declared, len) else {
                continue;
            };
            let first = self.make(kind, declared, fields, len, count.is_some());
            self.declare(
                kind,
                &declared.key,
                Slot {
                    first,
                    len,
                    array: count.is_some(),
                },
            );
        }
    }

    /// `len`, unless the workload would hold more shared things than any machine needs.
    fn room_for(&mut self, declared: &Member, len: u64) -> Option<usize> {
        let w = &self.workload;
        let held = w.mutexes.len()
            + w.conds.len()
            + w.barriers.len()
            + w.sems.len()
            + w.pipes.len()
            + w.devices.len();
        let len = usize::try_from(len)
            .ok()
            .filter(|len| held + w.counters.len() + len <= MAX_MEMBERS);
        if len.is_none() {
            self.wrong_value(
                declared,
                "is too many",
                &format!("declare at most {MAX_MEMBERS} members together"),
            );
        }
        len
    }

    /// Makes the members of one declaration; returns the first one's id.
    fn make(
        &mut self,
        kind: Shared,
        declared: &Member,
        fields: &[Member],
        len: usize,
        array: bool,
    ) -> usize {
        let base = declared.key.as_str();
        let names = (0..len).map(|at| {
            if array {
                format!("{base}[{at}]")
            } else {
                base.to_string()
            }
        });
        let find = |name: &str| fields.iter().find(|field| field.key == name);
        match kind {
            Shared::Mutex => {
                self.known_keys(fields, &[&["pi", "count"]]);
                let pi = find("pi").and_then(|field| self.boolean(field));
                let inherit_priority = pi.unwrap_or(self.defaults.inherit_priority);
                append(&mut self.workload.mutexes, names, |name| Mutex {
                    name,
                    inherit_priority,
                })
            }
            Shared::Cond => {
                self.known_keys(fields, &[&["count"]]);
                append(&mut self.workload.conds, names, |name| name)
            }
            Shared::Barrier => {
                let (parties, spin_ns) = self.barrier_fields(declared, fields);
                append(&mut self.workload.barriers, names, |name| Barrier {
                    name,
                    parties,
                    spin_ns,
                })
            }
            Shared::Sem => {
                self.known_keys(fields, &[&["initial", "count"]]);
                let initial = find("initial")
                    .and_then(|field| self.between(field, 0, SEM_VALUE_MAX))
                    .unwrap_or(0) as u64;
                append(&mut self.workload.sems, names, |name| Sem { name, initial })
            }
            Shared::Pipe => {
                self.known_keys(fields, &[&["capacity", "count"]]);
                let capacity = find("capacity").and_then(|field| self.at_least_one(field, "bytes"));
                let capacity_bytes = capacity.unwrap_or(DEFAULT_PIPE_BYTES);
                append(&mut self.workload.pipes, names, |name| Pipe {
                    name,
                    capacity_bytes,
                })
            }
            Shared::Device => {
                self.known_keys(fields, &[&["channels", "count"]]);
                let channels = find("channels").map_or(1, |field| self.channels(field));
                append(&mut self.workload.devices, names, |name| Device {
                    name,
                    channels,
                })
            }
            Shared::Counter => {
                self.known_keys(fields, &[&["start", "count"]]);
                let start = self
                    .field(declared, fields, "start")
                    .and_then(|field| self.count(field, ""));
                let start = start.unwrap_or(0);
                append(&mut self.workload.counters, names, |name| Counter {
                    name,
                    start,
                })
            }
        }
    }

    fn barrier_fields(&mut self, declared: &Member, fields: &[Member]) -> (u32, u64) {
        self.known_keys(fields, &[&["parties", "spin", "count"]]);
        let parties = self.field(declared, fields, "parties");
        let parties = parties.and_then(|field| self.between(field, 1, u32::MAX.into()));
        let spin = fields.iter().find(|field| field.key == "spin");
        let spin = spin.and_then(|field| self.micros(&field.key, &field.value));
        (
            parties.map_or(1, |parties| parties as u32),
            spin.unwrap_or(0),
        )
    }

    fn channels(&mut self, field: &Member) -> u32 {
        match &field.value.kind {
            NodeKind::String(text) if text == "unlimited" => u32::MAX,
            _ => self
                .between(field, 1, i64::from(u32::MAX) - 1)
                .map_or(1, |channels| channels as u32),
        }
    }

    /// The events of a block under `tiltyard`, in order. `beside`: other keys that belong there, for messages.
    pub(super) fn body(
        &mut self,
        members: &[Member],
        scope: &Scope,
        beside: &[&'static str],
    ) -> Vec<Op> {
        let mut ops = Vec::new();
        for member in members {
            if let Some(kind) = self.body_event(member, beside)
                && let Some(op) = self.event(kind, member, scope)
            {
                ops.push(op);
            }
        }
        ops
    }

    fn body_event(&mut self, member: &Member, beside: &[&'static str]) -> Option<&'static str> {
        let all = || keys::RTAPP_EVENTS.iter().chain(keys::OUR_EVENTS);
        let kind = keys::event_kind(&member.key, all());
        match kind {
            None => self.unknown_key(member, &[keys::RTAPP_EVENTS, keys::OUR_EVENTS, beside]),
            Some(kind) => {
                if let Some(fault) = keys::suffix_fault(&member.key, kind, all()) {
                    self.bad_suffix(member, kind, fault);
                    return None;
                }
            }
        }
        kind
    }

    pub(super) fn bad_suffix(&mut self, member: &Member, kind: &str, fault: SuffixFault) {
        let unit = keys::unit_of(kind);
        let (what, way_out) = match (fault, &member.value.kind) {
            (SuffixFault::Misspelt(meant), _) => (
                "unknown key".to_owned(),
                format!(
                    "did you mean {meant}? a suffix is digits, or _ and a name: {kind}1, {kind}_a"
                ),
            ),
            (SuffixFault::Unit(Some(factor)), NodeKind::Number(number))
                if units::times(number, factor).is_some() =>
            {
                let value = units::times(number, factor).unwrap_or_default();
                (
                    format!("{kind} is in {unit}, whatever its suffix"),
                    format!("write \"{kind}\": {value}"),
                )
            }
            _ if unit.is_empty() => (
                format!("{kind} has no unit"),
                format!("write \"{kind}\", or another suffix"),
            ),
            _ => (
                format!("{kind} is in {unit}, whatever its suffix"),
                format!("write \"{kind}\", with its value in {unit}"),
            ),
        };
        self.error(member.key_span.clone(), &member.key, what, way_out);
    }

    /// Events that only stand under `tiltyard`.
    pub(super) fn our_event(
        &mut self,
        kind: &'static str,
        member: &Member,
        scope: &Scope,
    ) -> Option<Op> {
        match kind {
            "write" => self
                .transfer(member, scope)
                .map(|(pipe, bytes)| Op::PipeWrite { pipe, bytes }),
            "read" => self
                .transfer(member, scope)
                .map(|(pipe, bytes)| Op::PipeRead { pipe, bytes }),
            "io" => self.io(member, scope),
            "spawn" => self.spawn(member, scope),
            "join" => self.bare(member, Op::Join),
            "exit" => self.bare(member, Op::Exit),
            "set" => {
                let fields = self.object(member)?;
                Some(Op::Set(self.set_attrs(fields, &[])))
            }
            "set_other" => self.set_other(member, scope),
            "repeat" | "countdown" | "until" | "during" | "chance" => {
                self.block(kind, member, scope)
            }
            "begin" => self.string(member).map(|name| Op::Begin {
                request: self.request_named(name),
            }),
            "end" => self.string(member).map(|name| Op::End {
                request: self.request_named(name),
            }),
            "done" => self.string(member).map(|name| Op::Done {
                request: self.request_named(name),
            }),
            "mark" => self.string(member).map(|name| Op::Mark {
                mark: self.request_named(name),
            }),
            _ => {
                self.unknown_key(member, &[keys::RTAPP_EVENTS, keys::OUR_EVENTS]);
                None
            }
        }
    }

    /// An event that needs no value: `"join": true`.
    fn bare(&mut self, member: &Member, op: Op) -> Option<Op> {
        if matches!(member.value.kind, NodeKind::Absent | NodeKind::Bool(true)) {
            return Some(op);
        }
        self.wrong_value(member, "is not needed", "write true");
        None
    }

    fn transfer(&mut self, member: &Member, scope: &Scope) -> Option<(Ref, u64)> {
        let fields = self.object(member)?;
        self.known_keys(fields, &[&["pipe", "bytes"]]);
        let pipe = self.field(member, fields, "pipe");
        let bytes = self.field(member, fields, "bytes");
        let pipe = self.reference(Shared::Pipe, "pipe", &pipe?.value, scope);
        let bytes = self.at_least_one(bytes?, "bytes");
        Some((pipe?, bytes?))
    }

    fn io(&mut self, member: &Member, scope: &Scope) -> Option<Op> {
        let fields = self.object(member)?;
        self.known_keys(fields, &[&["device", "service"]]);
        let device = self.field(member, fields, "device");
        let service = self.field(member, fields, "service");
        let device = self.reference(Shared::Device, "device", &device?.value, scope);
        let service = self.dist("service", &service?.value);
        Some(Op::Io {
            device: device?,
            service: service?,
        })
    }

    /// `"spawn": "client"`, or with a count: `"spawn": { "task": "client", "count": 80 }`.
    fn spawn(&mut self, member: &Member, scope: &Scope) -> Option<Op> {
        let NodeKind::Object(fields) = &member.value.kind else {
            let task = self.task_named(member, scope)?;
            return Some(Op::Spawn { task, count: 1 });
        };
        self.known_keys(fields, &[&["task", "count"]]);
        let task = self.field(member, fields, "task")?;
        let task = self.task_named(task, scope)?;
        let count = fields.iter().find(|field| field.key == "count");
        let count = count.map_or(Some(1), |field| self.at_least_one(field, "children"))?;
        Some(Op::Spawn { task, count })
    }

    fn set_other(&mut self, member: &Member, scope: &Scope) -> Option<Op> {
        let fields = self.object(member)?;
        let attrs = self.set_attrs(fields, &["task", "instance"]);
        let task = self.field(member, fields, "task")?;
        let task = self.task_name(task)?;
        let instance = match fields.iter().find(|field| field.key == "instance") {
            Some(field) => Some(self.instance(field, scope)?),
            None => None,
        };
        Some(Op::SetOther {
            task,
            instance,
            attrs,
        })
    }

    /// A number, or an index expression in a string.
    fn instance(&mut self, field: &Member, scope: &Scope) -> Option<Index> {
        if matches!(field.value.kind, NodeKind::Number(_)) {
            return self.between(field, 0, i64::MAX).map(Index::Const);
        }
        let text = self.string(field)?;
        match crate::index::parse(text, scope.loops) {
            Ok(index) => Some(index),
            Err(what) => {
                self.error(
                    field.value.span.clone(),
                    &field.key,
                    what,
                    "write a number or an expression like \"j\"",
                );
                None
            }
        }
    }

    /// The blocks: an object with what steers it, and `do`.
    fn block(&mut self, kind: &'static str, member: &Member, scope: &Scope) -> Option<Op> {
        let steer: &'static str = match kind {
            "repeat" => "count",
            "countdown" => "counter",
            "until" | "during" => "time",
            _ => "p",
        };
        let fields = self.object(member)?;
        let known: &[&'static str] = &[steer, "do"];
        self.known_keys(fields, &[known]);
        let steered = self.field(member, fields, steer);
        let body = self.field(member, fields, "do");
        let inner = Scope {
            loops: scope.loops + usize::from(kind == "repeat"),
            sure: scope.sure && kind == "repeat",
            ..scope.clone()
        };
        let body = self
            .object(body?)
            .map(|members| self.body(members, &inner, &[]))?;
        let steered = steered?;
        if body.is_empty() {
            self.wrong_value(member, "does nothing", "put events into \"do\"");
            return None;
        }
        match kind {
            "repeat" => self
                .at_least_one(steered, "passes")
                .map(|count| Op::Repeat { count, body }),
            "countdown" => {
                let counter = self.reference(Shared::Counter, steer, &steered.value, scope)?;
                Some(Op::Countdown { counter, body })
            }
            "until" => self
                .micros(steer, &steered.value)
                .map(|time_ns| Op::Until { time_ns, body }),
            "during" => self
                .micros(steer, &steered.value)
                .map(|time_ns| Op::During { time_ns, body }),
            _ => self
                .probability(&steered.value)
                .map(|ppm| Op::Chance { ppm, body }),
        }
    }

    fn probability(&mut self, value: &Value) -> Option<u32> {
        let ppm = self.scaled("p", value, 6, "")?;
        if ppm > 1_000_000 {
            self.wrong("p", value, "is more than certain", "write 0 to 1");
            return None;
        }
        Some(ppm as u32)
    }
}

/// Appends one item for each name and returns where the first one is.
fn append<T>(
    list: &mut Vec<T>,
    names: impl Iterator<Item = String>,
    item: impl Fn(String) -> T,
) -> usize {
    let first = list.len();
    list.extend(names.map(item));
    first
}
