// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be known to be wrong before anything runs.

use super::Reader;
use super::attrs::{Class, class};
use super::event::Scope;
use crate::json::Member;
use crate::program::*;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A place in the file.
#[derive(Clone)]
struct MemberSpan {
    key: String,
    span: Range<usize>,
}

impl MemberSpan {
    fn of(member: &Member) -> Self {
        MemberSpan {
            key: member.key.clone(),
            span: member.key_span.clone(),
        }
    }
}

/// A fork or a spawn.
struct Birth {
    parent: usize,
    child: usize,
    /// Every run of the parent comes here, without waiting for anybody on the way.
    sure: bool,
    place: MemberSpan,
}

/// What reading leaves behind for the checks.
#[derive(Default)]
pub(super) struct Notes {
    /// Of the task that is being read.
    pub absolute_timers: HashSet<String>,
    /// Whether the task that is being read may already have stopped for good before the event that is next.
    pub may_stop: bool,
    /// Barrier, task, place; only barriers that are named without a varying index.
    barrier_uses: Vec<(usize, usize, MemberSpan)>,
    /// Barriers that are used with a varying index: who meets there is not known.
    varying_barriers: Vec<Range<usize>>,
    births: Vec<Birth>,
    shared_buffers: Vec<(Op, MemberSpan)>,
}

impl Notes {
    pub fn barrier_use(&mut self, barrier: &Ref, task: usize, member: &Member) {
        match &barrier.index {
            Index::Const(at) => {
                self.barrier_uses
                    .push((barrier.first + *at as usize, task, MemberSpan::of(member)))
            }
            _ => self
                .varying_barriers
                .push(barrier.first..barrier.first + barrier.len),
        }
    }

    pub fn birth(&mut self, scope: &Scope, child: usize, member: &Member) {
        self.births.push(Birth {
            parent: scope.task,
            child,
            sure: scope.sure && !self.may_stop,
            place: MemberSpan::of(member),
        });
    }

    /// Called for each event that was read: some may hold a task up forever, or end it.
    pub fn passed(&mut self, op: &Op) {
        self.may_stop |= matches!(
            op,
            Op::Lock(_)
                | Op::CondWait { .. }
                | Op::Sync { .. }
                | Op::Barrier(_)
                | Op::Suspend { .. }
                | Op::SemWait(_)
                | Op::PipeWrite { .. }
                | Op::PipeRead { .. }
                | Op::Join
                | Op::Exit
        );
    }

    pub fn shared_buffer(&mut self, op: &Op, member: &Member) {
        if matches!(
            op,
            Op::MemRun {
                buffer: Some(_),
                ..
            }
        ) {
            self.shared_buffers
                .push((op.clone(), MemberSpan::of(member)));
        }
    }
}

impl Reader<'_> {
    /// Runs all checks. They need a whole workload, so errors of reading come first.
    pub(super) fn check(&mut self) {
        if !self.errors.is_empty() {
            return;
        }
        let notes = std::mem::take(&mut self.notes);
        self.check_somebody_starts(&notes);
        self.check_barriers(&notes);
        self.check_endless_births(&notes);
        self.check_buffers(&notes);
        self.check_groups_of_realtime();
        self.check_names_of_shells();
        self.check_names_of_instances();
    }

    fn complain(
        &mut self,
        place: &MemberSpan,
        what: impl Into<String>,
        way_out: impl Into<String>,
    ) {
        self.error(place.span.clone(), &place.key, what, way_out);
    }

    fn check_somebody_starts(&mut self, notes: &Notes) {
        let place = MemberSpan {
            key: "tasks".into(),
            span: self.find_key("tasks"),
        };
        if self.workload.tasks.iter().all(|task| task.instances == 0) {
            return self.complain(&place, "no task starts", "give one of them \"instance\": 1");
        }
        let total: u64 = self
            .workload
            .tasks
            .iter()
            .map(|task| u64::from(task.instances))
            .sum();
        if total > MAX_INSTANCES as u64 {
            self.complain(
                &place,
                format!("{total} instances at the start"),
                format!("start at most {MAX_INSTANCES}"),
            );
        }
        for at in 0..self.workload.tasks.len() {
            let task = &self.workload.tasks[at];
            if task.instances == 0 && !notes.births.iter().any(|birth| birth.child == at) {
                let place = MemberSpan {
                    key: task.name.clone(),
                    span: self.find_key(&task.name),
                };
                self.complain(
                    &place,
                    "has 0 instances and nobody forks or spawns it",
                    "give it instances, or remove it",
                );
            }
        }
    }

    /// Where a key stands that is known to be in the file, for complaints about the whole of it.
    fn find_key(&self, key: &str) -> Range<usize> {
        let quoted = format!("{key:?}");
        self.text
            .find(&quoted)
            .map_or(0..0, |at| at..at + quoted.len())
    }

    /// Counts the users of barriers that do not say how many they take, as rt-app does: each event times
    /// the task's instances. Then looks for barriers that can never open.
    fn check_barriers(&mut self, notes: &Notes) {
        let born: HashSet<usize> = notes.births.iter().map(|birth| birth.child).collect();
        let mut uses: HashMap<usize, Vec<(usize, &MemberSpan)>> = HashMap::new();
        for (barrier, task, place) in &notes.barrier_uses {
            uses.entry(*barrier).or_default().push((*task, place));
        }
        for at in 0..self.workload.barriers.len() {
            let Some(uses) = uses.get(&at) else { continue };
            let place = uses[0].1;
            let instances = |task: usize| u64::from(self.workload.tasks[task].instances);
            let uncounted = uses.iter().find(|(task, _)| born.contains(task));
            let textual: u64 = uses.iter().map(|(task, _)| instances(*task)).sum();
            let tasks: HashSet<usize> = uses.iter().map(|(task, _)| *task).collect();
            let at_once: u64 = tasks.iter().map(|task| instances(*task)).sum();
            let name = self.workload.barriers[at].name.clone();
            let declared = self.workload.barriers[at].parties;
            if declared == 0 && uncounted.is_some() {
                let what = format!("{name}: users that are forked or spawned cannot be counted");
                self.complain(place, what, format!("declare \"tiltyard\": {{ \"barriers\": {{ {name:?}: {{ \"parties\": ... }} }} }}"));
                continue;
            }
            let parties = if declared == 0 {
                textual
            } else {
                u64::from(declared)
            };
            let varying = notes
                .varying_barriers
                .iter()
                .any(|range| range.contains(&at));
            if uncounted.is_none() && !varying && parties > at_once {
                let what = format!(
                    "{name} waits for {parties} tasks, but only {at_once} can be there at once: it never opens"
                );
                self.complain(
                    place,
                    what,
                    "use a name of its own for each meeting, or fewer parties",
                );
            }
            self.workload.barriers[at].parties = u32::try_from(parties).unwrap_or(u32::MAX);
        }
    }

    /// A task that in every run starts, by itself or through others, one more of itself never stops growing.
    fn check_endless_births(&mut self, notes: &Notes) {
        let mut children: HashMap<usize, HashSet<usize>> = HashMap::new();
        let mut first_places = Vec::new();
        for birth in notes.births.iter().filter(|birth| birth.sure) {
            if children
                .entry(birth.parent)
                .or_default()
                .insert(birth.child)
            {
                first_places.push(birth);
            }
        }
        for birth in first_places {
            let mut reached = HashSet::new();
            let mut next = vec![birth.child];
            while let Some(task) = next.pop() {
                if reached.insert(task) {
                    next.extend(children.get(&task).into_iter().flatten());
                }
            }
            if reached.contains(&birth.parent) {
                let parent = self.workload.tasks[birth.parent].name.clone();
                let what = format!(
                    "every {parent} starts another {parent}: the number of tasks grows without bound"
                );
                let way_out = "break the circle, or make it depend on chance or countdown";
                return self.complain(&birth.place, what, way_out);
            }
        }
    }

    fn check_buffers(&mut self, notes: &Notes) {
        let shape = |op: &Op| match op {
            Op::MemRun {
                kind,
                size_bytes,
                stride_bytes,
                random,
                buffer,
                ..
            } => (
                *buffer,
                *kind == MemKind::Chase,
                *size_bytes,
                *stride_bytes,
                *random,
            ),
            _ => (None, false, 0, 0, false),
        };
        for (at, (op, place)) in notes.shared_buffers.iter().enumerate() {
            let earlier = notes.shared_buffers[..at]
                .iter()
                .find(|(other, _)| shape(other).0 == shape(op).0);
            if earlier.is_some_and(|(other, _)| shape(other) != shape(op)) {
                self.complain(
                    place,
                    "shares a buffer with a memrun of another shape",
                    "give size, stride and pattern the same values, or use another ref",
                );
            }
        }
    }

    /// Results know the shell of an app by its name and leave its waits out.
    fn check_names_of_shells(&mut self) {
        for at in 0..self.workload.tasks.len() {
            let name = self.workload.tasks[at].name.clone();
            let mut apps = self.workload.apps.iter();
            let Some(app) = apps.find(|app| name.strip_prefix("sh-") == Some(&app.name)) else {
                continue;
            };
            let what = format!("this is the name of the shell of app {}", app.name);
            let place = MemberSpan {
                span: self.find_key(&name),
                key: name,
            };
            self.complain(&place, what, "give the task another name");
        }
    }

    /// Results know each of several instances as NAME-0, NAME-1, ..
    fn check_names_of_instances(&mut self) {
        for at in 0..self.workload.tasks.len() {
            let name = self.workload.tasks[at].name.clone();
            let is_number = |text: &str| text.parse::<u32>().is_ok_and(|n| n.to_string() == text);
            let Some((of, number)) = name.rsplit_once('-').filter(|(_, end)| is_number(end)) else {
                continue;
            };
            let mut tasks = self.workload.tasks.iter();
            if !tasks.any(|task| task.name == of && task.instances != 1) {
                continue;
            }
            let what = format!("this is the name of instance {number} of task {of}");
            let place = MemberSpan {
                span: self.find_key(&name),
                key: name,
            };
            self.complain(&place, what, "give the task another name");
        }
    }

    /// cgroups have no share to give to a realtime or deadline task; rt-app refuses the pair too.
    fn check_groups_of_realtime(&mut self) {
        for at in 0..self.workload.tasks.len() {
            let task = &self.workload.tasks[at];
            let mut policy = task.attrs.policy.unwrap_or(Policy::Other);
            let mut group = task.attrs.group;
            let mut clash = class(policy) != Class::Fair && group.is_some();
            for phase in &task.phases {
                policy = phase.attrs.policy.unwrap_or(policy);
                group = phase.attrs.group.or(group);
                clash |= class(policy) != Class::Fair && group.is_some();
            }
            if clash {
                let place = MemberSpan {
                    key: task.name.clone(),
                    span: self.find_key(&task.name),
                };
                self.complain(
                    &place,
                    "a taskgroup needs SCHED_OTHER, SCHED_BATCH or SCHED_IDLE",
                    "change the policy, or leave the group out",
                );
            }
        }
    }
}
