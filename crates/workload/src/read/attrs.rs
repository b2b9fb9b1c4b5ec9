// SPDX-License-Identifier: GPL-2.0-or-later
//! Scheduling attributes: of a task, of a phase, of `set` and `set_other`.

use super::Reader;
use crate::json::{Member, NodeKind};
use crate::keys;
use crate::program::*;

/// What a number called `priority` or `dl-runtime` means: it depends on the policy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Fair,
    Realtime,
    Deadline,
}

pub(super) fn class(policy: Policy) -> Class {
    match policy {
        Policy::Other | Policy::Batch | Policy::Idle => Class::Fair,
        Policy::Fifo | Policy::Rr => Class::Realtime,
        Policy::Deadline => Class::Deadline,
    }
}

/// rt-app's default for SCHED_FIFO and SCHED_RR.
const DEFAULT_RT_PRIORITY: u8 = 10;

const POLICIES: &[(&str, Policy)] = &[
    ("SCHED_OTHER", Policy::Other),
    ("SCHED_BATCH", Policy::Batch),
    ("SCHED_IDLE", Policy::Idle),
    ("SCHED_FIFO", Policy::Fifo),
    ("SCHED_RR", Policy::Rr),
    ("SCHED_DEADLINE", Policy::Deadline),
];

pub(crate) fn policy_name(policy: Policy) -> &'static str {
    POLICIES
        .iter()
        .find(|(_, known)| *known == policy)
        .map_or("SCHED_OTHER", |(name, _)| name)
}

pub(super) fn policy_of(name: &str) -> Option<Policy> {
    POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, policy)| *policy)
}

/// Where attributes stand.
#[derive(Clone, Copy)]
pub(super) enum Level {
    /// At a task: what is not said has rt-app's default.
    Task,
    /// At a phase: what is not said stays. The policy is the one in force so far; `None`: it depends
    /// on which phase ran before.
    Phase { policy: Option<Policy> },
    /// In `set`: nice values and realtime priorities have names of their own.
    Set,
}

impl Reader<'_> {
    pub(super) fn policy(&mut self, member: &Member) -> Option<Policy> {
        let text = self.string(member)?;
        let found = policy_of(text);
        if found.is_none() {
            let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
            self.wrong_value(
                member,
                "is no policy",
                &format!("write one of {}", names.join(", ")),
            );
        }
        found
    }

    /// Reads the attributes among `members`; other keys are not its business.
    pub(super) fn attrs(&mut self, members: &[Member], level: Level) -> Attrs {
        let find = |key: &str| members.iter().find(|member| member.key == key);
        let mut attrs = Attrs {
            policy: find("policy").and_then(|member| self.policy(member)),
            ..Attrs::default()
        };
        if let (None, Level::Task) = (find("policy"), level) {
            attrs.policy = self
                .defaults
                .policy
                .filter(|policy| *policy != Policy::Other);
        }
        let in_force = match level {
            Level::Task => Some(attrs.policy.unwrap_or(Policy::Other)),
            Level::Phase { policy } => attrs.policy.or(policy),
            Level::Set => attrs.policy,
        };
        if matches!(level, Level::Set) {
            attrs.nice = find("nice")
                .and_then(|m| self.between(m, -20, 19))
                .map(|nice| nice as i8);
            attrs.rt_priority = find("rt_priority")
                .and_then(|m| self.between(m, 1, 99))
                .map(|priority| priority as u8);
            attrs.slice_ns = find("slice").and_then(|m| self.micros(&m.key, &m.value));
        } else {
            self.priority(find("priority"), in_force, &mut attrs);
        }
        self.deadline(members, in_force, level, &mut attrs);
        attrs.cpus = find("cpus").and_then(|member| self.cpus(member, level));
        attrs.nodes_membind = find("nodes_membind").and_then(|member| self.numbers(member, "node"));
        self.clamps(find("util_min"), find("util_max"), &mut attrs);
        if let Some(group) = find("taskgroup").and_then(|member| self.taskgroup(member)) {
            attrs.group = Some(group);
        }
        attrs
    }

    /// A nice value or a realtime priority, by the policy in force. A policy that is set brings its default.
    fn priority(&mut self, member: Option<&Member>, in_force: Option<Policy>, attrs: &mut Attrs) {
        let Some(member) = member else {
            match attrs.policy.map(class) {
                Some(Class::Fair) => attrs.nice = Some(0),
                Some(Class::Realtime) => attrs.rt_priority = Some(DEFAULT_RT_PRIORITY),
                Some(Class::Deadline) | None => {}
            }
            return;
        };
        match in_force.map(class) {
            Some(Class::Fair) => attrs.nice = self.between(member, -20, 19).map(|nice| nice as i8),
            Some(Class::Realtime) => {
                attrs.rt_priority = self.between(member, 1, 99).map(|priority| priority as u8)
            }
            Some(Class::Deadline) => {
                self.wrong_value(member, "means nothing to SCHED_DEADLINE", "leave it out")
            }
            None => self.ambiguous(member),
        }
    }

    fn ambiguous(&mut self, member: &Member) {
        let what = "its meaning depends on which phase ran before";
        self.error(
            member.key_span.clone(),
            &member.key,
            what,
            "give the policy in this phase too",
        );
    }

    /// `dl-runtime`, `dl-period`, `dl-deadline`, and their old names at a task of SCHED_DEADLINE.
    fn deadline(
        &mut self,
        members: &[Member],
        in_force: Option<Policy>,
        level: Level,
        attrs: &mut Attrs,
    ) {
        let is_deadline = in_force == Some(Policy::Deadline);
        let find = |key: &str, old: &str| {
            let old = members
                .iter()
                .find(|m| is_deadline && matches!(level, Level::Task) && m.key == old);
            members.iter().find(|member| member.key == key).or(old)
        };
        let given = [
            find("dl-runtime", "runtime"),
            find("dl-period", "period"),
            find("dl-deadline", "deadline"),
        ];
        let [runtime, period, deadline] = given;
        let Some(first) = given.into_iter().flatten().next() else {
            if attrs.policy == Some(Policy::Deadline) {
                self.no_budget(
                    members
                        .iter()
                        .find(|m| m.key == "policy")
                        .or(members.first()),
                );
            }
            return;
        };
        match (in_force.map(class), runtime, period.or(deadline)) {
            (Some(Class::Deadline), Some(runtime), _) => {
                attrs.deadline = self.budget(runtime, period, deadline)
            }
            (Some(Class::Deadline), None, _) => self.no_budget(Some(first)),
            (Some(Class::Fair), Some(runtime), None) => {
                attrs.slice_ns = self.whole_micros(&runtime.key, &runtime.value)
            }
            (None, ..) => self.ambiguous(first),
            (_, _, other) => {
                let wrong = other.unwrap_or(first);
                self.error(
                    wrong.key_span.clone(),
                    &wrong.key,
                    "needs SCHED_DEADLINE",
                    "set the policy, or leave it out",
                );
            }
        }
    }

    fn no_budget(&mut self, place: Option<&Member>) {
        if let Some(member) = place {
            let what = "SCHED_DEADLINE without a budget";
            self.error(
                member.key_span.clone(),
                &member.key,
                what,
                "add dl-runtime and dl-period",
            );
        }
    }

    fn budget(
        &mut self,
        runtime: &Member,
        period: Option<&Member>,
        deadline: Option<&Member>,
    ) -> Option<Deadline> {
        let runtime_ns = self.whole_micros(&runtime.key, &runtime.value)?;
        let period_ns = match period {
            Some(period) => self.whole_micros(&period.key, &period.value)?,
            None => runtime_ns,
        };
        let deadline_ns = match deadline {
            Some(deadline) => self.whole_micros(&deadline.key, &deadline.value)?,
            None => period_ns,
        };
        if runtime_ns == 0 || runtime_ns > deadline_ns || deadline_ns > period_ns {
            let way_out = "keep 0 < dl-runtime <= dl-deadline <= dl-period, as the kernel asks";
            self.wrong_value(runtime, "does not fit deadline and period", way_out);
            return None;
        }
        Some(Deadline {
            runtime_ns,
            period_ns,
            deadline_ns,
        })
    }

    /// A list of CPU numbers; in `set` also `"all"`.
    fn cpus(&mut self, member: &Member, level: Level) -> Option<Vec<u32>> {
        match (&member.value.kind, level) {
            (NodeKind::String(text), Level::Set) if text == "all" => Some(Vec::new()),
            _ => self.numbers(member, "CPU"),
        }
    }

    /// A list of numbers of CPUs or nodes, at least one.
    fn numbers(&mut self, member: &Member, what: &str) -> Option<Vec<u32>> {
        let items = self.list(member)?;
        if items.is_empty() {
            self.wrong_value(
                member,
                &format!("allows no {what} at all"),
                &format!("name a {what}, or leave the key out"),
            );
            return None;
        }
        let mut numbers = Vec::with_capacity(items.len());
        for item in items {
            let number = self.scaled(&member.key, item, 0, &format!("a {what}"))?;
            match u32::try_from(number) {
                Ok(number) => numbers.push(number),
                Err(_) => {
                    self.wrong(&member.key, item, &format!("is no {what}"), "write less");
                    return None;
                }
            }
        }
        Some(numbers)
    }

    fn clamps(&mut self, min: Option<&Member>, max: Option<&Member>, attrs: &mut Attrs) {
        let mut clamp = |member: Option<&Member>| {
            let value = self.between(member?, -1, 1024)?;
            u32::try_from(value).ok()
        };
        (attrs.util_min, attrs.util_max) = (clamp(min), clamp(max));
        if let (Some(member), Some(low), Some(high)) = (min, attrs.util_min, attrs.util_max)
            && low > high
        {
            self.wrong_value(member, "is above util_max", "write util_min <= util_max");
        }
    }

    /// The group of a path; the empty path is rt-app's "none".
    pub(super) fn taskgroup(&mut self, member: &Member) -> Option<usize> {
        let path = self.string(member)?;
        if path.is_empty() {
            return None;
        }
        if !Self::is_group_path(path) {
            self.wrong_value(
                member,
                "is no path of a group",
                "write \"/name\" or \"/name/name\"",
            );
            return None;
        }
        Some(self.group_named(path))
    }

    /// Attributes inside `set` and `set_other`, where every key must be one.
    pub(super) fn set_attrs(&mut self, members: &[Member], beside: &[&'static str]) -> Attrs {
        self.known_keys(members, &[keys::EXT_ATTRS, beside]);
        self.attrs(members, Level::Set)
    }
}
