// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks and their phases.

use super::Reader;
use super::attrs::{Level, class, policy_of};
use super::event::Scope;
use crate::json::{Member, NodeKind, Value};
use crate::keys;
use crate::program::*;
use std::collections::HashSet;
use tiltyard_misspelt::nearest;

impl Reader<'_> {
    pub(super) fn read_tasks(&mut self, tasks: &[Member]) {
        let mut names = HashSet::new();
        for (at, task) in tasks.iter().enumerate() {
            if !names.insert(&task.key) {
                self.error(
                    task.key_span.clone(),
                    &task.key,
                    "a task of this name exists",
                    "give it another name",
                );
            }
            // Names are printed to terminals unescaped.
            if task.key.contains(char::is_control) {
                self.error(
                    task.key_span.clone(),
                    "tasks",
                    "the name has a control character",
                    "give it another name",
                );
            }
            if task.key.is_empty() {
                let way_out = "give it one";
                self.error(
                    task.key_span.clone(),
                    "tasks",
                    "a task has no name",
                    way_out,
                );
            }
            if let Some(members) = self.object(task) {
                let spec = self.task(at, task, members);
                self.workload.tasks.push(spec);
            }
        }
        if self.workload.apps.is_empty() {
            let name = DEFAULT_APP.to_string();
            self.workload.apps.push(App {
                name,
                group: None,
                history_ns: DEFAULT_HISTORY_NS,
            });
        }
    }

    fn task(&mut self, at: usize, task: &Member, members: &[Member]) -> TaskSpec {
        let phases = members.iter().find(|member| member.key == "phases");
        self.task_keys(members, phases.is_some());
        self.notes.absolute_timers = absolute_timers(members);
        self.notes.may_stop = false;
        let find = |key: &str| members.iter().find(|member| member.key == key);
        let instances = find("instance").and_then(|member| self.between(member, 0, MAX_INSTANCES));
        let delay = find("delay").and_then(|member| self.whole_micros(&member.key, &member.value));
        let loops = find("loop").map(|member| self.loops(member));
        let mut spec = TaskSpec {
            name: task.key.clone(),
            app: 0,
            instances: instances.map_or(1, |instances| instances as u32),
            delay_ns: delay.unwrap_or(0),
            daemon: false,
            thread: true,
            loops: None,
            attrs: self.attrs(members, Level::Task),
            phases: Vec::new(),
            working_set_bytes: 0,
            memory_bound_permille: 0,
        };
        self.what_it_is(task, members, &mut spec);
        let scope = Scope {
            extended: false,
            loops: 0,
            task: at,
            task_name: &task.key,
            sure: true,
        };
        match phases {
            Some(phases) => {
                spec.loops = loops.unwrap_or(None);
                self.phases(phases, &scope, &mut spec);
            }
            None => {
                // The task is its own single phase; its `loop` counts the runs of that phase.
                let ops = self.events(task, members, &scope, &[keys::ATTRS, keys::TASK]);
                let once = loops.flatten();
                spec.loops = once.map(|_| 1);
                spec.phases.push(Phase {
                    name: String::new(),
                    loops: Some(once.unwrap_or(1)),
                    attrs: Attrs::default(),
                    ops,
                });
            }
        }
        spec
    }

    /// Keys of a task that are neither events nor known are errors; with phases, so are events.
    fn task_keys(&mut self, members: &[Member], phases: bool) {
        for (at, member) in members.iter().enumerate() {
            let key = member.key.as_str();
            let attribute = keys::ATTRS.contains(&key) || keys::TASK.contains(&key);
            if matches!(key, "period" | "deadline") && !is_deadline(members, &self.defaults.policy)
            {
                let what = "is the old name of a parameter of SCHED_DEADLINE";
                self.error(
                    member.key_span.clone(),
                    key,
                    what,
                    "set the policy, or use timer for a period",
                );
            } else if attribute && !matches!(key, "runtime" | "tiltyard") {
                if members[..at].iter().any(|before| before.key == key) {
                    self.twice(member);
                }
            } else if phases && key == "runtime" && is_deadline(members, &self.defaults.policy) {
                // The old name of dl-runtime: no event, because this is no phase.
            } else if phases && !key.starts_with(keys::EXTENSION) {
                let what = match keys::event_kind(key, keys::RTAPP_EVENTS.iter()) {
                    Some(_) => "an event beside phases would never run",
                    None => {
                        self.unknown_key(member, &[keys::ATTRS, keys::TASK]);
                        continue;
                    }
                };
                self.error(member.key_span.clone(), key, what, "move it into a phase");
            }
        }
    }

    /// `loop`; `None`: forever.
    fn loops(&mut self, member: &Member) -> Option<u64> {
        if matches!(&member.value.kind, NodeKind::Number(number) if number == "-1") {
            return None;
        }
        self.at_least_one(member, "(or -1: forever)").or(Some(1))
    }

    /// `tiltyard` in a task: app, process, daemon, working set. With phases nothing else may stand there.
    fn what_it_is(&mut self, task: &Member, members: &[Member], spec: &mut TaskSpec) {
        let mut app = None;
        let mut seen = HashSet::new();
        for block in members
            .iter()
            .filter(|member| member.key.starts_with(keys::EXTENSION))
        {
            for field in self.object(block).unwrap_or_default() {
                let key = field.key.as_str();
                if keys::EXT_TASK.contains(&key) && !seen.insert(key) {
                    self.twice(field);
                }
                match key {
                    "app" => app = Some(field),
                    "process" => spec.thread = !self.boolean(field).unwrap_or(false),
                    "daemon" => spec.daemon = self.boolean(field).unwrap_or(false),
                    "working_set" => {
                        spec.working_set_bytes = self.count(field, "bytes").unwrap_or(0)
                    }
                    "stall_share" => spec.memory_bound_permille = self.permille(field).unwrap_or(0),
                    _ if members.iter().any(|member| member.key == "phases") => {
                        self.unknown_key(field, &[keys::EXT_TASK]);
                    }
                    _ => {}
                }
            }
        }
        spec.app = self.app_of(task, app);
    }

    fn permille(&mut self, field: &Member) -> Option<u32> {
        let permille = self.scaled(&field.key, &field.value, 3, "")?;
        if permille > 1000 {
            self.wrong_value(field, "is more than all", "write 0 to 1");
            return None;
        }
        Some(permille as u32)
    }

    /// The app that a task belongs to; it need not say so where there is only one.
    fn app_of(&mut self, task: &Member, field: Option<&Member>) -> usize {
        let apps: Vec<&str> = self
            .workload
            .apps
            .iter()
            .map(|app| app.name.as_str())
            .collect();
        let Some(field) = field else {
            if apps.len() > 1 {
                let way_out = format!(
                    "add \"{}\": {{ \"app\": one of {} }}",
                    keys::EXTENSION,
                    apps.join(", ")
                );
                self.error(
                    task.key_span.clone(),
                    &task.key,
                    "belongs to no app",
                    way_out,
                );
            }
            return 0;
        };
        let name = self.string(field).unwrap_or("").to_string();
        match self.names.apps.get(&name) {
            Some(at) => *at,
            None => {
                let apps = self.workload.apps.iter().map(|app| app.name.as_str());
                let way_out = match nearest(&name, apps) {
                    Some(nearest) => format!("did you mean {nearest}?"),
                    None => format!(
                        "declare it under \"{}\": {{ \"apps\": ... }}",
                        keys::EXTENSION
                    ),
                };
                self.error(
                    field.value.span.clone(),
                    &field.key,
                    format!("there is no app {name:?}"),
                    way_out,
                );
                0
            }
        }
    }

    fn phases(&mut self, phases: &Member, scope: &Scope, spec: &mut TaskSpec) {
        let Some(list) = self.object(phases) else {
            return;
        };
        if list.is_empty() {
            self.wrong_value(
                phases,
                "holds no phase",
                "add a phase, or put events into the task",
            );
        }
        let own_cpus = spec.attrs.cpus.clone().unwrap_or_default();
        let mut policies = Policies::of(spec, list);
        for member in list {
            let Some(members) = self.object(member) else {
                continue;
            };
            let ops = self.events(member, members, scope, &[keys::ATTRS, keys::PHASE]);
            let loops = members
                .iter()
                .find(|m| m.key == "loop")
                .map_or(Some(1), |m| self.loops(m));
            let attrs = self.attrs(
                members,
                Level::Phase {
                    policy: policies.in_force,
                },
            );
            policies.pass(&attrs);
            self.notes.may_stop |= loops.is_none();
            spec.phases.push(Phase {
                name: member.key.clone(),
                loops,
                attrs,
                ops,
            });
        }
        // A phase without cpus goes back to the task's own, so each says what it has once one does.
        if spec.phases.iter().any(|phase| phase.attrs.cpus.is_some()) {
            for phase in &mut spec.phases {
                phase.attrs.cpus.get_or_insert_with(|| own_cpus.clone());
            }
        }
    }

    /// The events of a phase (or of a task that is its own phase), in order.
    fn events(
        &mut self,
        phase: &Member,
        members: &[Member],
        scope: &Scope,
        other: &[&[&'static str]],
    ) -> Vec<Op> {
        let mut ops = Vec::new();
        let before = self.errors.len();
        for (at, member) in members.iter().enumerate() {
            let key = member.key.as_str();
            if key.starts_with(keys::EXTENSION) {
                let extended = Scope {
                    extended: true,
                    ..scope.clone()
                };
                ops.extend(self.extension_events(member, &extended, other.contains(&keys::TASK)));
            } else if other.iter().any(|list| list.contains(&key)) && key != "runtime" {
                if !other.contains(&keys::TASK) && members[..at].iter().any(|m| m.key == key) {
                    self.twice(member);
                }
            } else if let Some(op) = self.plain_event(member, scope, other) {
                ops.push(op);
            }
        }
        if ops.is_empty() && self.errors.len() == before {
            self.error(
                phase.key_span.clone(),
                &phase.key,
                "does nothing",
                "add an event, for instance \"run\": 1000",
            );
        }
        ops
    }

    fn extension_events(&mut self, member: &Member, scope: &Scope, task: bool) -> Vec<Op> {
        let NodeKind::Object(members) = &member.value.kind else {
            // A task's block has been complained about where its attributes were read.
            if !task {
                let _ = self.object(member);
            }
            return Vec::new();
        };
        let events: Vec<Member> = members
            .iter()
            .filter(|m| !(task && keys::EXT_TASK.contains(&m.key.as_str())))
            .cloned()
            .collect();
        self.body(&events, scope, if task { keys::EXT_TASK } else { &[] })
    }

    fn plain_event(
        &mut self,
        member: &Member,
        scope: &Scope,
        other: &[&[&'static str]],
    ) -> Option<Op> {
        let known = || {
            keys::RTAPP_EVENTS
                .iter()
                .chain(other.iter().copied().flatten())
        };
        let Some(kind) = keys::event_kind(&member.key, keys::RTAPP_EVENTS.iter()) else {
            if keys::event_kind(&member.key, keys::OUR_EVENTS.iter())
                .is_some_and(|kind| kind == member.key)
            {
                let way_out = format!("write \"{}\": {{ {:?}: ... }}", keys::EXTENSION, member.key);
                self.error(
                    member.key_span.clone(),
                    &member.key,
                    "rt-app knows no such event",
                    way_out,
                );
            } else {
                let mut lists = vec![keys::RTAPP_EVENTS];
                lists.extend(other);
                self.unknown_key(member, &lists);
            }
            return None;
        };
        if let Some(fault) = keys::suffix_fault(&member.key, kind, known()) {
            self.bad_suffix(member, kind, fault);
            return None;
        }
        self.event(kind, member, scope)
    }
}

/// Whether a task is of SCHED_DEADLINE, by its own policy or the default one.
fn is_deadline(members: &[Member], default: &Option<Policy>) -> bool {
    match members.iter().find(|member| member.key == "policy") {
        Some(policy) => {
            matches!(&policy.value.kind, NodeKind::String(text) if text == "SCHED_DEADLINE")
        }
        None => *default == Some(Policy::Deadline),
    }
}

/// Follows the policy through the phases of a task, to know what `priority` means where a phase
/// gives no policy. Where that depends on the round, it is not known.
struct Policies {
    in_force: Option<Policy>,
    mixed: bool,
}

impl Policies {
    fn of(spec: &TaskSpec, phases: &[Member]) -> Self {
        let start = spec.attrs.policy.unwrap_or(Policy::Other);
        let mixed = phases
            .iter()
            .filter_map(named_policy)
            .any(|policy| class(policy) != class(start));
        Policies {
            in_force: (!mixed).then_some(start),
            mixed,
        }
    }

    fn pass(&mut self, attrs: &Attrs) {
        if !self.mixed && attrs.policy.is_some() {
            self.in_force = attrs.policy;
        }
    }
}

/// The policy that a phase names; errors in it are reported where it is read.
fn named_policy(phase: &Member) -> Option<Policy> {
    let NodeKind::Object(members) = &phase.value.kind else {
        return None;
    };
    match &members
        .iter()
        .find(|member| member.key == "policy")?
        .value
        .kind
    {
        NodeKind::String(name) => policy_of(name),
        _ => None,
    }
}

/// Names of the timers that some event below `members` calls absolute.
fn absolute_timers(members: &[Member]) -> HashSet<String> {
    let mut names = HashSet::new();
    for member in members {
        collect_absolute(&member.key, &member.value, &mut names);
    }
    names
}

fn collect_absolute(key: &str, value: &Value, names: &mut HashSet<String>) {
    let NodeKind::Object(members) = &value.kind else {
        return;
    };
    let text = |name: &str| {
        members
            .iter()
            .find(|m| m.key == name)
            .map(|m| &m.value.kind)
    };
    if let (true, Some(NodeKind::String(name)), Some(NodeKind::String(mode))) =
        (key.starts_with("timer"), text("ref"), text("mode"))
        && mode == "absolute"
    {
        names.insert(name.clone());
    }
    for member in members {
        collect_absolute(&member.key, &member.value, names);
    }
}
