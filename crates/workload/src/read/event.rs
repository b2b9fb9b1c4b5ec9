// SPDX-License-Identifier: GPL-2.0-or-later
//! Events: one key of a phase, or of a block under `tiltyard`, to one [`Op`].

use super::Reader;
use super::names::Shared;
use crate::json::{Member, NodeKind, Value};
use crate::program::*;
use tiltyard_misspelt::nearest;

/// Where an event stands.
#[derive(Clone)]
pub(super) struct Scope<'t> {
    /// Inside `tiltyard`, where more may be said than rt-app understands.
    pub extended: bool,
    /// Enclosing repeats: which counters an index may name.
    pub loops: usize,
    pub task: usize,
    pub task_name: &'t str,
    /// Happens in every run of the task, so that a fork here is a fork for certain.
    pub sure: bool,
}

impl Reader<'_> {
    /// The event that `member` stands for; `None` after an error.
    pub(super) fn event(
        &mut self,
        kind: &'static str,
        member: &Member,
        scope: &Scope,
    ) -> Option<Op> {
        let op = self.event_of(kind, member, scope)?;
        self.notes.passed(&op);
        Some(op)
    }

    fn event_of(&mut self, kind: &'static str, member: &Member, scope: &Scope) -> Option<Op> {
        let key = member.key.as_str();
        let value = &member.value;
        match kind {
            "run" => self.duration(key, value, scope).map(Op::Run),
            "runtime" => self.duration(key, value, scope).map(Op::Runtime),
            "sleep" => self.duration(key, value, scope).map(Op::Sleep),
            "timer" => self.timer(member),
            "lock" => self
                .reference(Shared::Mutex, key, value, scope)
                .map(Op::Lock),
            "unlock" => self
                .reference(Shared::Mutex, key, value, scope)
                .map(Op::Unlock),
            "signal" => self
                .reference(Shared::Cond, key, value, scope)
                .map(Op::Signal),
            "broad" => self
                .reference(Shared::Cond, key, value, scope)
                .map(Op::Broadcast),
            "wait" => self
                .waiting(member, scope)
                .map(|(cond, mutex)| Op::CondWait { cond, mutex }),
            "sync" => self
                .waiting(member, scope)
                .map(|(cond, mutex)| Op::Sync { cond, mutex }),
            "barrier" => self.barrier(member, scope),
            "suspend" => self.suspend(member, scope),
            "resume" => self.string(member).map(|name| Op::Resume {
                place: self.place_named(name),
            }),
            "sem_wait" => self
                .reference(Shared::Sem, key, value, scope)
                .map(Op::SemWait),
            "sem_post" => self
                .reference(Shared::Sem, key, value, scope)
                .map(Op::SemPost),
            "mem" => self.count(member, "bytes").map(|bytes| Op::Mem { bytes }),
            "memrun" => self.memrun(member),
            "iorun" => self.count(member, "bytes").map(|bytes| Op::IoRun { bytes }),
            // rt-app takes any value here.
            "yield" => Some(Op::Yield),
            "fork" => {
                let task = self.task_named(member, scope)?;
                Some(Op::Fork { task })
            }
            _ => self.our_event(kind, member, scope),
        }
    }

    fn duration(&mut self, key: &str, value: &Value, scope: &Scope) -> Option<Dist> {
        if scope.extended {
            self.dist(key, value)
        } else {
            self.whole_micros(key, value).map(Dist::Const)
        }
    }

    /// The value of `name` among `fields`, which must be there.
    pub(super) fn field<'v>(
        &mut self,
        member: &Member,
        fields: &'v [Member],
        name: &str,
    ) -> Option<&'v Member> {
        let found = fields.iter().find(|field| field.key == name);
        if found.is_none() {
            self.error(
                member.value.span.clone(),
                &member.key,
                format!("{name} is missing"),
                format!("add \"{name}\""),
            );
        }
        found
    }

    fn timer(&mut self, member: &Member) -> Option<Op> {
        let fields = self.object(member)?;
        self.known_keys(fields, &[&["ref", "period", "mode"]]);
        let name = self.field(member, fields, "ref")?;
        let name = self.string(name)?;
        let period = self.field(member, fields, "period")?;
        let period_ns = self.whole_micros(&period.key, &period.value)?;
        let mut mode = TimerMode::Relative;
        if let Some(field) = fields.iter().find(|field| field.key == "mode") {
            mode = match self.string(field)? {
                "relative" => TimerMode::Relative,
                "absolute" => TimerMode::Absolute,
                _ => {
                    self.wrong_value(field, "is no mode", "write \"relative\" or \"absolute\"");
                    return None;
                }
            };
        }
        // In rt-app the mode belongs to the timer: one event that says absolute makes all of them so.
        if self.notes.absolute_timers.contains(name) {
            mode = TimerMode::Absolute;
        }
        Some(Op::Timer {
            timer: self.timer_named(name, mode),
            period_ns,
        })
    }

    /// Condition and mutex of `wait` and `sync`.
    fn waiting(&mut self, member: &Member, scope: &Scope) -> Option<(Ref, Ref)> {
        let fields = self.object(member)?;
        self.known_keys(fields, &[&["ref", "mutex"]]);
        let cond = self.field(member, fields, "ref");
        let mutex = self.field(member, fields, "mutex");
        let cond = self.reference(Shared::Cond, "ref", &cond?.value, scope);
        let mutex = self.reference(Shared::Mutex, "mutex", &mutex?.value, scope);
        Some((cond?, mutex?))
    }

    fn barrier(&mut self, member: &Member, scope: &Scope) -> Option<Op> {
        let barrier = self.reference(Shared::Barrier, &member.key, &member.value, scope)?;
        self.notes.barrier_use(&barrier, scope.task, member);
        Some(Op::Barrier(barrier))
    }

    /// Without a value a task waits at the place that has its own name.
    fn suspend(&mut self, member: &Member, scope: &Scope) -> Option<Op> {
        let name = match &member.value.kind {
            NodeKind::Absent => scope.task_name,
            _ => self.string(member)?,
        };
        let name = if name.is_empty() {
            scope.task_name
        } else {
            name
        };
        Some(Op::Suspend {
            place: self.place_named(name),
        })
    }

    fn memrun(&mut self, member: &Member) -> Option<Op> {
        let fields = self.object(member)?;
        self.known_keys(
            fields,
            &[&["type", "size", "count", "stride", "pattern", "ref"]],
        );
        let find = |name: &str| fields.iter().find(|field| field.key == name);
        let field = self.field(member, fields, "type")?;
        let kind = match self.string(field)? {
            "read" => MemKind::Read,
            "write" => MemKind::Write,
            "chase" => MemKind::Chase,
            _ => {
                self.wrong_value(
                    field,
                    "is no type",
                    "write \"read\", \"write\" or \"chase\"",
                );
                return None;
            }
        };
        let size = self.field(member, fields, "size")?;
        let size_bytes = self.at_least_one(size, "bytes")?;
        let count = self.field(member, fields, "count")?;
        let count = self.count(count, "")?;
        let (stride_bytes, random) = self.chase_fields(kind, find("stride"), find("pattern"))?;
        if kind == MemKind::Chase && size_bytes / 2 < stride_bytes {
            self.wrong_value(
                size,
                "holds no two pointers",
                "write at least twice the stride",
            );
            return None;
        }
        let buffer = match find("ref") {
            Some(field) => Some(self.string(field).map(|name| self.buffer_named(name))?),
            None => None,
        };
        let op = Op::MemRun {
            kind,
            size_bytes,
            count,
            stride_bytes,
            random,
            buffer,
        };
        self.notes.shared_buffer(&op, member);
        Some(op)
    }

    /// Stride and whether the pattern is random, which only `chase` has.
    fn chase_fields(
        &mut self,
        kind: MemKind,
        stride: Option<&Member>,
        pattern: Option<&Member>,
    ) -> Option<(u64, bool)> {
        if let (true, Some(field)) = (kind != MemKind::Chase, stride.or(pattern)) {
            self.error(
                field.key_span.clone(),
                &field.key,
                "means something to chase only",
                "leave it out",
            );
            return None;
        }
        let stride_bytes = stride.map_or(Some(DEFAULT_STRIDE_BYTES), |field| {
            self.at_least_one(field, "bytes")
        });
        let random = pattern.map_or(Some(true), |field| self.pattern(field));
        Some((stride_bytes?, random?))
    }

    fn pattern(&mut self, field: &Member) -> Option<bool> {
        match self.string(field)? {
            "random" => Some(true),
            "sequential" => Some(false),
            _ => {
                self.wrong_value(field, "is no pattern", "write \"random\" or \"sequential\"");
                None
            }
        }
    }

    /// The task that is forked or spawned here.
    pub(super) fn task_named(&mut self, member: &Member, scope: &Scope) -> Option<usize> {
        let task = self.task_name(member)?;
        self.notes.birth(scope, task, member);
        Some(task)
    }

    pub(super) fn task_name(&mut self, member: &Member) -> Option<usize> {
        let name = self.string(member)?;
        let found = self.tasks.iter().position(|task| task == name);
        if found.is_none() {
            let way_out = match nearest(name, self.tasks.iter().map(String::as_str)) {
                Some(nearest) => format!("did you mean {nearest}?"),
                None => "write the name of a task of this file".to_string(),
            };
            self.error(
                member.value.span.clone(),
                &member.key,
                format!("there is no task {name:?}"),
                way_out,
            );
        }
        found
    }
}
