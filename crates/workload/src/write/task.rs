// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks, phases, attributes.

use super::event::{Keys, overflows_rtapp};
use super::text::Node;
use super::{Writer, micros};
use crate::keys;
use crate::program::*;
use crate::read::policy_name;
use crate::units::unscaled;

type Members = Vec<(String, Node)>;

impl Writer<'_> {
    pub(super) fn task(&mut self, at: usize, task: &TaskSpec) -> Node {
        let mut members: Members = Vec::new();
        if self.w.tasks[..at]
            .iter()
            .any(|before| before.name == task.name)
        {
            self.broken(format!("two tasks are called {}", task.name));
        }
        if task.instances != 1 {
            members.push(("instance".to_string(), Node::number(task.instances)));
        }
        if task.delay_ns > 0 {
            members.push((
                "delay".to_string(),
                self.whole_micros(task.delay_ns, "delay", task),
            ));
        }
        members.extend(self.attrs(&task.attrs, None, task));
        let mut block = self.what_it_is(task);
        match single_phase(task) {
            Some((phase, loops)) => {
                if let Some(loops) = loops {
                    members.push(("loop".to_string(), self.amount(loops, "loop")));
                }
                self.take_block(&mut members, &mut block);
                members.extend(self.phase_events(task, phase, Keys::after_block(!self.plain())));
            }
            None => {
                if let Some(loops) = task.loops {
                    members.push(("loop".to_string(), self.amount(loops, "loop")));
                }
                self.take_block(&mut members, &mut block);
                let phases = task
                    .phases
                    .iter()
                    .map(|phase| (phase.name.clone(), self.phase(task, phase)))
                    .collect();
                members.push(("phases".to_string(), Node::Object(phases)));
            }
        }
        Node::Object(members)
    }

    fn take_block(&self, members: &mut Members, block: &mut Members) {
        if !block.is_empty() {
            members.push((
                keys::EXTENSION.to_string(),
                Node::Object(std::mem::take(block)),
            ));
        }
    }

    /// The block `tiltyard` of a task, or its refusal.
    fn what_it_is(&mut self, task: &TaskSpec) -> Members {
        let mut block: Members = Vec::new();
        let name = &task.name;
        let mut add = |key: &str, node: Node| block.push((key.to_string(), node));
        match self.w.apps.get(task.app) {
            Some(app) => add("app", Node::text(&app.name)),
            None => self.broken(format!("task {name} belongs to app number {}", task.app)),
        }
        if !task.thread {
            add("process", Node::Plain("true".into()));
            self.refuse(format!("task {name} as a process"));
        }
        if task.daemon {
            add("daemon", Node::Plain("true".into()));
            self.refuse(format!("task {name} as a daemon"));
        }
        if task.working_set_bytes > 0 {
            add("working_set", Node::number(task.working_set_bytes));
            self.refuse(format!("working set of task {name}"));
        }
        if task.memory_bound_permille > 0 {
            add(
                "stall_share",
                Node::Plain(unscaled(task.memory_bound_permille.into(), 3)),
            );
            self.refuse(format!("stall share of task {name}"));
        }
        if self.plain() { Vec::new() } else { block }
    }

    fn phase(&mut self, task: &TaskSpec, phase: &Phase) -> Node {
        let mut members: Members = Vec::new();
        if task
            .phases
            .iter()
            .filter(|other| other.name == phase.name)
            .count()
            > 1
        {
            self.refuse(format!(
                "two phases called {} in task {}",
                phase.name, task.name
            ));
        }
        match phase.loops {
            Some(1) => {}
            Some(loops) => members.push(("loop".to_string(), self.amount(loops, "loop"))),
            None => members.push(("loop".to_string(), Node::Plain("-1".into()))),
        }
        members.extend(self.attrs(&phase.attrs, Some(phase), task));
        members.extend(self.phase_events(task, phase, Keys::default()));
        Node::Object(members)
    }

    /// Events in order: rt-app's own where it has them, between blocks of `tiltyard`.
    fn phase_events(&mut self, task: &TaskSpec, phase: &Phase, mut keys: Keys) -> Members {
        let mut members: Members = Vec::new();
        let mut block: Vec<Op> = Vec::new();
        for op in &phase.ops {
            match self.plain_event(op) {
                Ok((kind, node)) => {
                    self.close_block(&mut members, &mut keys, &mut block, task);
                    if overflows_rtapp(op) {
                        self.refuse(format!("{kind} above {} in task {}", i32::MAX, task.name));
                    }
                    members.push((keys.next(kind), node));
                }
                Err(part) => {
                    self.refuse(format!("{part} in task {}", task.name));
                    block.push(op.clone());
                }
            }
        }
        self.close_block(&mut members, &mut keys, &mut block, task);
        members
    }

    fn close_block(
        &mut self,
        members: &mut Members,
        keys: &mut Keys,
        block: &mut Vec<Op>,
        task: &TaskSpec,
    ) {
        if block.is_empty() {
            return;
        }
        match self.body(block, 0) {
            Ok(body) => members.push((keys.next(keys::EXTENSION), Node::Object(body))),
            Err(what) => self.broken(format!("task {}: {what}", task.name)),
        }
        block.clear();
    }

    fn whole_micros(&mut self, ns: u64, what: &str, task: &TaskSpec) -> Node {
        if !ns.is_multiple_of(1000) {
            self.broken(format!(
                "task {}: {what} of part of a microsecond",
                task.name
            ));
        }
        self.amount(ns / 1000, what)
    }

    /// Attributes of a task or a phase, in rt-app's words.
    fn attrs(&mut self, attrs: &Attrs, phase: Option<&Phase>, task: &TaskSpec) -> Members {
        let mut members: Members = Vec::new();
        let mut add = |key: &str, node: Node| members.push((key.to_string(), node));
        if let Some(policy) = attrs.policy {
            add("policy", Node::text(policy_name(policy)));
            let complete = match policy {
                Policy::Other | Policy::Batch | Policy::Idle => attrs.nice.is_some(),
                Policy::Fifo | Policy::Rr => attrs.rt_priority.is_some(),
                Policy::Deadline => attrs.deadline.is_some(),
            };
            if !complete {
                self.broken(format!("task {}: a policy without its priority", task.name));
            }
        }
        if attrs.nice.is_some() && attrs.rt_priority.is_some() {
            self.broken(format!(
                "task {}: both a nice value and a realtime priority",
                task.name
            ));
        }
        if let Some(priority) = attrs
            .nice
            .map(i64::from)
            .or(attrs.rt_priority.map(i64::from))
        {
            add("priority", Node::number(priority));
        }
        if let Some(Deadline {
            runtime_ns,
            period_ns,
            deadline_ns,
        }) = attrs.deadline
        {
            add(
                "dl-runtime",
                self.whole_micros(runtime_ns, "dl-runtime", task),
            );
            add("dl-period", self.whole_micros(period_ns, "dl-period", task));
            add(
                "dl-deadline",
                self.whole_micros(deadline_ns, "dl-deadline", task),
            );
        }
        if let Some(slice_ns) = attrs.slice_ns {
            add(
                "dl-runtime",
                self.whole_micros(slice_ns, "dl-runtime", task),
            );
        }
        match &attrs.cpus {
            // Back to every CPU: what rt-app does in a phase that says nothing.
            Some(cpus) if cpus.is_empty() && phase.is_some() && task.attrs.cpus.is_none() => {}
            Some(cpus) if cpus.is_empty() => self.broken(format!(
                "task {}: back to every CPU, but it has CPUs of its own",
                task.name
            )),
            Some(cpus) => add("cpus", numbers(cpus)),
            None => {}
        }
        self.common(attrs, &mut members);
        members
    }

    /// What both rt-app's attributes and `set` call the same.
    fn common(&mut self, attrs: &Attrs, members: &mut Members) {
        let mut add = |key: &str, node: Node| members.push((key.to_string(), node));
        if let Some(nodes) = &attrs.nodes_membind {
            add("nodes_membind", numbers(nodes));
        }
        if let Some(util) = attrs.util_min {
            add("util_min", Node::number(util));
        }
        if let Some(util) = attrs.util_max {
            add("util_max", Node::number(util));
        }
        if let Some(group) = attrs.group {
            match self.w.groups.get(group) {
                Some(group) => add("taskgroup", Node::text(&group.path)),
                None => self.broken(format!("group number {group}")),
            }
        }
    }

    /// Attributes of `set` and `set_other`.
    pub(super) fn set_attrs(&self, attrs: &Attrs) -> Result<Members, String> {
        let mut members: Members = Vec::new();
        let mut add = |key: &str, node: Node| members.push((key.to_string(), node));
        if let Some(policy) = attrs.policy {
            add("policy", Node::text(policy_name(policy)));
        }
        if let Some(nice) = attrs.nice {
            add("nice", Node::number(nice));
        }
        if let Some(priority) = attrs.rt_priority {
            add("rt_priority", Node::number(priority));
        }
        if let Some(Deadline {
            runtime_ns,
            period_ns,
            deadline_ns,
        }) = attrs.deadline
        {
            for (key, ns) in [
                ("dl-runtime", runtime_ns),
                ("dl-period", period_ns),
                ("dl-deadline", deadline_ns),
            ] {
                add(key, Node::number(ns / 1000));
            }
        }
        if let Some(slice_ns) = attrs.slice_ns {
            add("slice", micros(slice_ns));
        }
        if let Some(cpus) = &attrs.cpus {
            add(
                "cpus",
                if cpus.is_empty() {
                    Node::text("all")
                } else {
                    numbers(cpus)
                },
            );
        }
        if let Some(group) = attrs.group {
            let group = self
                .w
                .groups
                .get(group)
                .ok_or_else(|| format!("group number {group}"))?;
            add("taskgroup", Node::text(&group.path));
        }
        for (key, util) in [("util_min", attrs.util_min), ("util_max", attrs.util_max)] {
            if let Some(util) = util {
                add(key, Node::number(util));
            }
        }
        if let Some(nodes) = &attrs.nodes_membind {
            add("nodes_membind", numbers(nodes));
        }
        Ok(members)
    }
}

/// A task whose only phase needs no name is that phase: its events are in the task. Returned with `loop`.
fn single_phase(task: &TaskSpec) -> Option<(&Phase, Option<u64>)> {
    let [phase] = task.phases.as_slice() else {
        return None;
    };
    let loops = match (task.loops, phase.loops) {
        (None, Some(1)) => None,
        (Some(1), Some(loops)) => Some(loops),
        _ => return None,
    };
    (phase.name.is_empty() && phase.attrs == Attrs::default()).then_some((phase, loops))
}

fn numbers(list: &[u32]) -> Node {
    Node::List(list.iter().map(Node::number).collect())
}
