// SPDX-License-Identifier: GPL-2.0-or-later
//! Events: one [`Op`] to one key and its value.

use super::Writer;
use super::micros;
use super::resources::{Declaration, mode_name};
use super::text::Node;
use crate::index;
use crate::program::*;
use crate::units::unscaled;

/// An event's kind and value.
pub(super) type Event = (&'static str, Node);

/// rt-app's integers hold no more.
const RTAPP_MAX: u64 = i32::MAX as u64;

impl Writer<'_> {
    /// The event in rt-app's words, or why rt-app has none for it.
    pub(super) fn plain_event(&self, op: &Op) -> Result<Event, String> {
        let t = &self.tables;
        Ok(match op {
            Op::Run(dist) => ("run", plain_duration(*dist, "run")?),
            Op::Runtime(dist) => ("runtime", plain_duration(*dist, "runtime")?),
            Op::Sleep(dist) => ("sleep", plain_duration(*dist, "sleep")?),
            Op::Timer { timer, period_ns } => ("timer", self.timer_event(*timer, *period_ns)?),
            Op::Lock(mutex) => ("lock", plain_name(&t.mutexes, mutex)?),
            Op::Unlock(mutex) => ("unlock", plain_name(&t.mutexes, mutex)?),
            Op::CondWait { cond, mutex } => (
                "wait",
                pair(plain_name(&t.conds, cond)?, plain_name(&t.mutexes, mutex)?),
            ),
            Op::Sync { cond, mutex } => (
                "sync",
                pair(plain_name(&t.conds, cond)?, plain_name(&t.mutexes, mutex)?),
            ),
            Op::Signal(cond) => ("signal", plain_name(&t.conds, cond)?),
            Op::Broadcast(cond) => ("broad", plain_name(&t.conds, cond)?),
            Op::Barrier(barrier) => ("barrier", plain_name(&t.barriers, barrier)?),
            Op::Suspend { place } => ("suspend", listed(&self.w.places, *place)?),
            Op::Resume { place } => ("resume", listed(&self.w.places, *place)?),
            Op::SemPost(sem) => ("sem_post", plain_name(&t.sems, sem)?),
            Op::SemWait(sem) => ("sem_wait", plain_name(&t.sems, sem)?),
            Op::Mem { bytes } => ("mem", Node::number(bytes)),
            Op::MemRun { .. } => ("memrun", self.memrun(op)?),
            Op::IoRun { bytes } => ("iorun", Node::number(bytes)),
            Op::Yield => ("yield", Node::text("")),
            Op::Fork { task } => ("fork", Node::text(self.task_name(*task)?)),
            other => return Err(kind_of(other).to_string()),
        })
    }

    /// The event in the words of `tiltyard`, inside `loops` repeats.
    pub(super) fn extended_event(&self, op: &Op, loops: usize) -> Result<Event, String> {
        let t = &self.tables;
        let name =
            |declarations: &[Declaration], which: &Ref| member_name(declarations, which, loops);
        Ok(match op {
            Op::Run(dist) => ("run", distribution(*dist)),
            Op::Runtime(dist) => ("runtime", distribution(*dist)),
            Op::Sleep(dist) => ("sleep", distribution(*dist)),
            Op::Lock(mutex) => ("lock", name(&t.mutexes, mutex)?),
            Op::Unlock(mutex) => ("unlock", name(&t.mutexes, mutex)?),
            Op::CondWait { cond, mutex } => (
                "wait",
                pair(name(&t.conds, cond)?, name(&t.mutexes, mutex)?),
            ),
            Op::Sync { cond, mutex } => (
                "sync",
                pair(name(&t.conds, cond)?, name(&t.mutexes, mutex)?),
            ),
            Op::Signal(cond) => ("signal", name(&t.conds, cond)?),
            Op::Broadcast(cond) => ("broad", name(&t.conds, cond)?),
            Op::Barrier(barrier) => ("barrier", name(&t.barriers, barrier)?),
            Op::SemPost(sem) => ("sem_post", name(&t.sems, sem)?),
            Op::SemWait(sem) => ("sem_wait", name(&t.sems, sem)?),
            Op::PipeWrite { pipe, bytes } => ("write", transfer(name(&t.pipes, pipe)?, *bytes)),
            Op::PipeRead { pipe, bytes } => ("read", transfer(name(&t.pipes, pipe)?, *bytes)),
            Op::Io { device, service } => (
                "io",
                Node::object([
                    ("device", name(&t.devices, device)?),
                    ("service", distribution(*service)),
                ]),
            ),
            Op::Spawn { task, count } => ("spawn", self.spawn(*task, *count)?),
            Op::Join => ("join", Node::Plain("true".into())),
            Op::Exit => ("exit", Node::Plain("true".into())),
            Op::Set(attrs) => ("set", Node::Object(self.set_attrs(attrs)?)),
            Op::SetOther {
                task,
                instance,
                attrs,
            } => (
                "set_other",
                self.set_other(*task, instance.as_ref(), attrs, loops)?,
            ),
            Op::Repeat { count, body } => (
                "repeat",
                self.block("count", Node::number(count), body, loops + 1)?,
            ),
            Op::Countdown { counter, body } => (
                "countdown",
                self.block("counter", name(&t.counters, counter)?, body, loops)?,
            ),
            Op::Until { time_ns, body } => {
                ("until", self.block("time", micros(*time_ns), body, loops)?)
            }
            Op::During { time_ns, body } => {
                ("during", self.block("time", micros(*time_ns), body, loops)?)
            }
            Op::Chance { ppm, body } => (
                "chance",
                self.block("p", Node::Plain(unscaled((*ppm).into(), 6)), body, loops)?,
            ),
            Op::Begin { request } => ("begin", listed(&self.w.requests, *request)?),
            Op::End { request } => ("end", listed(&self.w.requests, *request)?),
            Op::Done { request } => ("done", listed(&self.w.requests, *request)?),
            Op::Mark { mark } => ("mark", listed(&self.w.requests, *mark)?),
            plain => self.plain_event(plain)?,
        })
    }

    /// Events of a block, with keys that are all different.
    pub(super) fn body(&self, ops: &[Op], loops: usize) -> Result<Vec<(String, Node)>, String> {
        let mut keys = Keys::default();
        ops.iter()
            .map(|op| {
                self.extended_event(op, loops)
                    .map(|(kind, node)| (keys.next(kind), node))
            })
            .collect()
    }

    fn block(&self, steer: &str, value: Node, body: &[Op], loops: usize) -> Result<Node, String> {
        Ok(Node::object([
            (steer, value),
            ("do", Node::Object(self.body(body, loops)?)),
        ]))
    }

    fn task_name(&self, task: usize) -> Result<&str, String> {
        self.w
            .tasks
            .get(task)
            .map(|task| task.name.as_str())
            .ok_or_else(|| format!("task number {task}"))
    }

    fn timer_event(&self, timer: usize, period_ns: u64) -> Result<Node, String> {
        let timer = self
            .w
            .timers
            .get(timer)
            .ok_or_else(|| format!("timer number {timer}"))?;
        let period = plain_duration(Dist::Const(period_ns), "timer")?;
        let mut members = vec![
            ("ref".to_string(), Node::text(&timer.name)),
            ("period".to_string(), period),
        ];
        if timer.mode == TimerMode::Absolute {
            members.push(("mode".to_string(), Node::text(mode_name(timer.mode))));
        }
        Ok(Node::Object(members))
    }

    fn memrun(&self, op: &Op) -> Result<Node, String> {
        let Op::MemRun {
            kind,
            size_bytes,
            count,
            stride_bytes,
            random,
            buffer,
        } = op
        else {
            return Err("memrun".into());
        };
        let name = match kind {
            MemKind::Read => "read",
            MemKind::Write => "write",
            MemKind::Chase => "chase",
        };
        let mut members = vec![
            ("type", Node::text(name)),
            ("size", Node::number(size_bytes)),
            ("count", Node::number(count)),
        ];
        if *kind == MemKind::Chase {
            members.push(("stride", Node::number(stride_bytes)));
            members.push((
                "pattern",
                Node::text(if *random { "random" } else { "sequential" }),
            ));
        }
        if let Some(buffer) = buffer {
            members.push(("ref", listed(&self.w.buffers, *buffer)?));
        }
        Ok(Node::Object(
            members
                .into_iter()
                .map(|(key, node)| (key.to_string(), node))
                .collect(),
        ))
    }

    fn spawn(&self, task: usize, count: u64) -> Result<Node, String> {
        let task = Node::text(self.task_name(task)?);
        Ok(if count == 1 {
            task
        } else {
            Node::object([("task", task), ("count", Node::number(count))])
        })
    }

    fn set_other(
        &self,
        task: usize,
        instance: Option<&Index>,
        attrs: &Attrs,
        loops: usize,
    ) -> Result<Node, String> {
        let mut members = vec![("task".to_string(), Node::text(self.task_name(task)?))];
        if let Some(instance) = instance {
            members.push((
                "instance".to_string(),
                Node::Text(index_text(instance, loops)?),
            ));
        }
        members.extend(self.set_attrs(attrs)?);
        Ok(Node::Object(members))
    }
}

/// Keys for events of one object: `run`, `run1`, `run2`, because JSON wants them different.
#[derive(Default)]
pub(super) struct Keys(std::collections::HashMap<&'static str, usize>);

impl Keys {
    /// For an object that already has the key `tiltyard` when `block`.
    pub fn after_block(block: bool) -> Self {
        let mut keys = Keys::default();
        if block {
            keys.next(crate::keys::EXTENSION);
        }
        keys
    }

    pub fn next(&mut self, kind: &'static str) -> String {
        let used = self.0.entry(kind).or_default();
        let key = if *used == 0 {
            kind.to_string()
        } else {
            format!("{kind}{used}")
        };
        *used += 1;
        key
    }
}

/// How an event that rt-app lacks is called in the refusal.
fn kind_of(op: &Op) -> &'static str {
    match op {
        Op::PipeWrite { .. } | Op::PipeRead { .. } => "pipes",
        Op::Io { .. } => "devices",
        Op::Spawn { .. } => "spawn",
        Op::Join => "join",
        Op::Exit => "exit",
        Op::Set(_) => "set",
        Op::SetOther { .. } => "set_other",
        Op::Repeat { .. } => "repeat",
        Op::Countdown { .. } => "countdown",
        Op::Until { .. } => "until",
        Op::During { .. } => "during",
        Op::Chance { .. } => "chance",
        Op::Begin { .. } | Op::End { .. } | Op::Done { .. } => "requests",
        Op::Mark { .. } => "marks",
        _ => "this event",
    }
}

fn plain_duration(dist: Dist, kind: &str) -> Result<Node, String> {
    match dist {
        Dist::Const(ns) if ns % 1000 != 0 => Err(format!("{kind} of part of a microsecond")),
        Dist::Const(ns) => Ok(Node::number(ns / 1000)),
        _ => Err(format!("{kind} with a distribution")),
    }
}

/// Whether an event holds numbers that do not fit rt-app's integers.
pub(super) fn overflows_rtapp(op: &Op) -> bool {
    match op {
        Op::Run(Dist::Const(ns)) | Op::Runtime(Dist::Const(ns)) | Op::Sleep(Dist::Const(ns)) => {
            ns / 1000 > RTAPP_MAX
        }
        Op::Timer { period_ns, .. } => period_ns / 1000 > RTAPP_MAX,
        Op::Mem { bytes } | Op::IoRun { bytes } => *bytes > RTAPP_MAX,
        Op::MemRun {
            size_bytes,
            count,
            stride_bytes,
            ..
        } => [size_bytes, count, stride_bytes]
            .iter()
            .any(|n| **n > RTAPP_MAX),
        _ => false,
    }
}

fn distribution(dist: Dist) -> Node {
    match dist {
        Dist::Const(ns) => micros(ns),
        Dist::Exp { mean } => Node::object([("exp", micros(mean))]),
        Dist::LogNormal {
            median,
            sigma_milli,
        } => {
            let sigma = Node::Plain(unscaled(sigma_milli, 3));
            Node::object([(
                "lognormal",
                Node::object([("median", micros(median)), ("sigma", sigma)]),
            )])
        }
        Dist::Uniform { low, high } => {
            Node::object([("uniform", Node::List(vec![micros(low), micros(high)]))])
        }
    }
}

fn pair(cond: Node, mutex: Node) -> Node {
    Node::object([("ref", cond), ("mutex", mutex)])
}

fn transfer(pipe: Node, bytes: u64) -> Node {
    Node::object([("pipe", pipe), ("bytes", Node::number(bytes))])
}

fn declaration_of<'s>(
    declarations: &'s [Declaration],
    which: &Ref,
) -> Result<&'s Declaration, String> {
    let found = declarations
        .iter()
        .find(|declaration| declaration.first == which.first && declaration.len == which.len);
    found.ok_or_else(|| {
        format!(
            "members {} to {} are not one array",
            which.first,
            which.first + which.len
        )
    })
}

/// The name of a single thing.
fn plain_name(declarations: &[Declaration], which: &Ref) -> Result<Node, String> {
    let declaration = declaration_of(declarations, which)?;
    if declaration.array {
        Err(format!("the array {}", declaration.name))
    } else {
        Ok(Node::text(&declaration.name))
    }
}

/// The name of a single thing, or of a member of an array.
fn member_name(declarations: &[Declaration], which: &Ref, loops: usize) -> Result<Node, String> {
    let declaration = declaration_of(declarations, which)?;
    match (declaration.array, &which.index) {
        (false, Index::Const(0)) => Ok(Node::text(&declaration.name)),
        (false, _) => Err(format!(
            "an index of {}, which is no array",
            declaration.name
        )),
        (true, index) => Ok(Node::Text(format!(
            "{}[{}]",
            declaration.name,
            index_text(index, loops)?
        ))),
    }
}

fn index_text(index: &Index, loops: usize) -> Result<String, String> {
    index::write(index, loops)
        .ok_or_else(|| "an index with a counter that is not there".to_string())
}

fn listed(names: &[String], at: usize) -> Result<Node, String> {
    names
        .get(at)
        .map(|name| Node::text(name))
        .ok_or_else(|| format!("name number {at}"))
}
