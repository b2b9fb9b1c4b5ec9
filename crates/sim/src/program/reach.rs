// SPDX-License-Identifier: GPL-2.0-or-later
//! What tasks may still do: the instructions to which a program may come from where it is, whom they may wake, and what they
//! may start. More than will be done where that depends on chance, on time to come or on passes of a loop.

use super::Wait;
use super::compile::Insn;
use crate::engine::Engine;
use crate::task::TaskId;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tiltyard_workload::{Index, Op, Ref};

/// What the tasks that have been added may still do.
#[derive(Default)]
pub struct Reach {
    /// Waits that one of them may end.
    wakes: HashSet<Wait>,
    /// Where programs may come from a position.
    positions: HashMap<(u32, u32), Rc<[u32]>>,
    /// Programs that have been added from their start.
    started: HashSet<u32>,
}

impl Reach {
    /// Whether one of the tasks may end such a wait.
    pub fn wakes(&self, wait: Wait) -> bool {
        self.wakes.contains(&wait)
    }
}

impl Engine<'_> {
    /// Adds what this task may still do, and what those may do that it may start.
    pub fn add_reach(&self, id: TaskId, reach: &mut Reach) {
        let cursor = &self.tasks[id.index()].cursor;
        // An operation that is still to wake somebody is already behind.
        let from = cursor.pc.saturating_sub(cursor.is_to_wake().into());
        let mut new = vec![(Some(id), cursor.code, from)];
        while let Some((task, program, from)) = new.pop() {
            let code = self.programs.code[program as usize].clone();
            for at in self.positions(program, from, reach).iter() {
                let Insn::Do(op) = &code[*at as usize] else {
                    continue;
                };
                if let Op::Fork { task } | Op::Spawn { task, .. } = op
                    && reach.started.insert(*task as u32)
                {
                    new.push((None, *task as u32, 0));
                }
                self.add_wakes(op, task, reach);
            }
        }
    }

    /// Whether the task may still do such an operation.
    pub fn may_do(&self, id: TaskId, reach: &mut Reach, wanted: impl Fn(&Op) -> bool) -> bool {
        let cursor = &self.tasks[id.index()].cursor;
        let code = &self.programs.code[cursor.code as usize];
        let positions = self.positions(cursor.code, cursor.pc, reach);
        let mut insns = positions.iter().map(|at| &code[*at as usize]);
        insns.any(|insn| matches!(insn, Insn::Do(op) if wanted(op)))
    }

    /// To which instructions a program may come from this one.
    fn positions(&self, program: u32, from: u32, reach: &mut Reach) -> Rc<[u32]> {
        if let Some(known) = reach.positions.get(&(program, from)) {
            return known.clone();
        }
        let code = &self.programs.code[program as usize];
        let mut all = vec![];
        let mut seen = vec![false; code.len()];
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            if let Some(seen) = seen.get_mut(at as usize)
                && !std::mem::replace(seen, true)
            {
                all.push(at);
                next.extend(self.successors(code, at).into_iter().flatten());
            }
        }
        let all: Rc<[u32]> = all.into();
        reach.positions.insert((program, from), all.clone());
        all
    }

    fn successors(&self, code: &[Insn], at: u32) -> [Option<u32>; 2] {
        let behind = Some(at + 1);
        match &code[at as usize] {
            Insn::Exit | Insn::Do(Op::Exit) => [None, None],
            Insn::Jump { to } => [Some(*to), None],
            Insn::LoopBegin {
                count: Some(0),
                end,
                ..
            } => [Some(*end), None],
            Insn::LoopEnd { begin } => match code[*begin as usize] {
                Insn::LoopBegin { count: None, .. } => [Some(begin + 1), None],
                Insn::LoopBegin { count: Some(1), .. } => [behind, None],
                _ => [Some(begin + 1), behind],
            },
            Insn::Take { counter, end } => match self.is_used_up(counter) {
                true => [Some(*end), None],
                false => [behind, Some(*end)],
            },
            Insn::UnlessAfter { time_ns, end } => match self.now >= self.origin_ns + time_ns {
                true => [Some(*end), None],
                false => [behind, Some(*end)],
            },
            Insn::UnlessOver { end } => [behind, Some(*end)],
            Insn::Chance { ppm: 0, end } => [Some(*end), None],
            Insn::Chance { ppm, .. } if *ppm >= 1_000_000 => [behind, None],
            Insn::Chance { end, .. } => [behind, Some(*end)],
            _ => [behind, None],
        }
    }

    /// Whichever of the counters is meant: none is ever filled again.
    fn is_used_up(&self, counter: &Ref) -> bool {
        let all = &self.programs.res.counters[counter.first..counter.first + counter.len];
        match counter.index {
            Index::Const(at) => all.get(at as usize) == Some(&0),
            _ => all.iter().all(|left| *left == 0),
        }
    }

    /// Adds the waits that an operation may end. `task`: who does it; `None`: one that does not exist yet.
    fn add_wakes(&self, op: &Op, task: Option<TaskId>, reach: &mut Reach) {
        let mut add = |of: &Ref, wait: fn(u32) -> Wait| {
            let index = self.known_index(task, &of.index);
            let each = match index {
                Some(index) => index.max(0) as usize..index.max(-1).saturating_add(1) as usize,
                None => 0..of.len,
            };
            let each = each.start.min(of.len)..each.end.min(of.len);
            reach
                .wakes
                .extend(each.map(|i| wait((of.first + i) as u32)));
        };
        match op {
            Op::Signal(cond) | Op::Broadcast(cond) | Op::Sync { cond, .. } => add(cond, Wait::Cond),
            Op::Barrier(barrier) => add(barrier, Wait::Barrier),
            Op::SemPost(sem) => add(sem, Wait::Sem),
            Op::PipeWrite { pipe, .. } => add(pipe, Wait::PipeRead),
            Op::PipeRead { pipe, .. } => {
                add(pipe, Wait::PipeWrite);
                // A reader that leaves data wakes the next one.
                add(pipe, Wait::PipeRead);
            }
            Op::Resume { place } => drop(reach.wakes.insert(Wait::Place(*place as u32))),
            _ => {}
        }
    }

    /// An index that is the same whenever this task computes it; `None`: unknown.
    pub fn known_index(&self, task: Option<TaskId>, index: &Index) -> Option<i64> {
        let both = |a, b| Some((self.known_index(task, a)?, self.known_index(task, b)?));
        match index {
            Index::Const(value) => Some(*value),
            Index::Instance => Some(i64::from(self.tasks[task?.index()].instance)),
            Index::Loop(_) => None,
            Index::Add(a, b) => both(a, b).and_then(|(a, b)| a.checked_add(b)),
            Index::Sub(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b)),
            Index::Mul(a, b) => both(a, b).and_then(|(a, b)| a.checked_mul(b)),
            Index::Div(a, b) => both(a, b).and_then(|(a, b)| a.checked_div_euclid(b)),
            Index::Rem(a, b) => both(a, b).and_then(|(a, b)| a.checked_rem_euclid(b)),
        }
    }
}
