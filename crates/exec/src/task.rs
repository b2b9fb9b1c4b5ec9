// SPDX-License-Identifier: GPL-2.0-or-later
//! A task's life: executes its program, operation by operation.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tiltyard_workload::rng::Pcg;
use tiltyard_workload::{Attrs, Dist, Op, Ref, TaskSpec, TimerMode};

use crate::burn::WorkingSet;
use crate::files::visit;
use crate::memory::{Buffer, Shape};
use crate::world::{Slot, Wait, World};
use crate::{ExecError, attrs, birth, sys};

/// Name of the stream that lays out private `memrun` buffers, so that it moves no draw of the program.
const BUFFER_STREAM: &str = "memrun";

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Exit,
}

/// A task while it lives.
pub struct Task<'a> {
    pub world: &'a Arc<World>,
    pub at: u32,
    pub slot: &'a Slot,
    pub tid: u32,
    spec: &'a TaskSpec,
    instance: u32,
    rng: Pcg,
    /// Passes of the enclosing repeats, innermost last: what index expressions see.
    passes: Vec<i64>,
    /// When each class of requests was begun; 0: it was not.
    begun_ns: Vec<u64>,
    /// Base of each timer of its own; 0 until its first use.
    timers_ns: Vec<u64>,
    /// Start of its clock, for timers.
    base_ns: u64,
    set: WorkingSet,
    /// For `mem` and `iorun`.
    memory: Vec<u8>,
    /// For `memrun` without a name.
    buffers: Vec<Buffer>,
    /// What goes through pipes.
    message: Vec<u8>,
}

/// All memory that a task needs for itself.
pub struct Kit {
    passes: Vec<i64>,
    begun_ns: Vec<u64>,
    timers_ns: Vec<u64>,
    set: WorkingSet,
    memory: Vec<u8>,
    buffers: Vec<Buffer>,
    message: Vec<u8>,
}

impl Kit {
    /// For the task in this slot.
    pub fn new(world: &World, at: u32) -> Kit {
        let (workload, slot) = (&world.workload, &world.slots[at as usize]);
        let spec = &workload.tasks[slot.spec.load(SeqCst) as usize];
        let instance = slot.instance.load(SeqCst);
        let needs = Needs::of(spec);
        let memory_bytes = if needs.memory {
            workload.mem_buffer_bytes
        } else {
            0
        };
        let mut layout = world.streams.stream(BUFFER_STREAM, u64::from(instance));
        let buffers = needs.shapes.iter().map(|s| Buffer::new(*s, &mut layout));
        let buffers = buffers.collect::<Result<_, _>>().unwrap_or_else(|error| {
            let name = &spec.name;
            world.fail(ExecError::Environment(format!(
                "{name}: no memory for memrun: {error}"
            )))
        });
        Kit {
            passes: Vec::with_capacity(8),
            begun_ns: vec![0; workload.requests.len()],
            timers_ns: vec![0; workload.timers.len()],
            set: WorkingSet::new(spec.working_set_bytes),
            // Written to, so that no operation has to wait for its pages.
            memory: vec![1; memory_bytes as usize],
            buffers,
            message: vec![1; needs.message_bytes as usize],
        }
    }
}

/// Lives in the calling thread, which has its name already, the life of the task in this slot. `base_ns`: where its timers begin.
pub fn live(world: &Arc<World>, at: u32, base_ns: u64, kit: Kit) {
    let slot = &world.slots[at as usize];
    let tid = sys::tid();
    slot.tid.store(tid, SeqCst);
    let mut task = Task::new(world, at, slot, tid, base_ns, kit);
    task.run();
    task.lets_go_of_all();
    world.leave(at, sys::thread_cpu_ns());
}

impl<'a> Task<'a> {
    fn new(
        world: &'a Arc<World>,
        at: u32,
        slot: &'a Slot,
        tid: u32,
        base_ns: u64,
        kit: Kit,
    ) -> Task<'a> {
        let spec = &world.workload.tasks[slot.spec.load(SeqCst) as usize];
        let instance = slot.instance.load(SeqCst);
        Task {
            world,
            at,
            slot,
            tid,
            spec,
            instance,
            rng: world.streams.stream(&spec.name, u64::from(instance)),
            passes: kit.passes,
            begun_ns: kit.begun_ns,
            timers_ns: kit.timers_ns,
            base_ns,
            set: kit.set,
            memory: kit.memory,
            buffers: kit.buffers,
            message: kit.message,
        }
    }

    fn run(&mut self) -> Flow {
        let spec = self.spec;
        self.set_attrs(self.tid, &spec.attrs);
        let mut pass = 0;
        while spec.loops.is_none_or(|n| pass < n) {
            for phase in &spec.phases {
                self.set_attrs(self.tid, &phase.attrs);
                let mut pass = 0;
                while phase.loops.is_none_or(|n| pass < n) {
                    if self.all(&phase.ops) == Flow::Exit {
                        return Flow::Exit;
                    }
                    pass += 1;
                }
            }
            pass += 1;
        }
        Flow::Exit
    }

    fn all(&mut self, ops: &[Op]) -> Flow {
        for op in ops {
            if self.execute(op) == Flow::Exit {
                return Flow::Exit;
            }
        }
        Flow::Next
    }

    fn execute(&mut self, op: &Op) -> Flow {
        match op {
            Op::Repeat { .. }
            | Op::Countdown { .. }
            | Op::Until { .. }
            | Op::During { .. }
            | Op::Chance { .. } => return self.control(op),
            Op::Exit => return Flow::Exit,
            Op::Run(dist) => {
                let ns = self.draw(*dist);
                match self.world.exact {
                    true => self.burn_own_time(ns),
                    false => self.set.work(self.world.speed.steps(ns)),
                }
            }
            Op::Runtime(dist) => {
                let end_ns = sys::now_ns() + self.draw(*dist);
                self.burn_until(end_ns);
            }
            Op::Sleep(dist) => {
                let end_ns = sys::now_ns() + self.draw(*dist);
                sys::sleep_until(end_ns);
            }
            Op::Timer { timer, period_ns } => self.timer(*timer, *period_ns),
            Op::Io { device, service } => {
                let service_ns = self.draw(*service);
                let device = self.resolve(device);
                sys::sleep_until(self.world.serve(device, service_ns));
            }
            Op::Mem { bytes } => self.fill_memory(*bytes),
            Op::MemRun {
                kind,
                count,
                buffer,
                ..
            } => self.memrun(op, *buffer).use_it(*kind, *count),
            Op::IoRun { bytes } => self.write_to_device(*bytes),
            Op::Yield => sys::yield_now(),
            Op::Fork { task } => self.spawn(*task, 1),
            Op::Spawn { task, count } => self.spawn(*task, *count),
            Op::Set(attrs) => self.set_attrs(self.tid, attrs),
            Op::SetOther {
                task,
                instance,
                attrs,
            } => self.set_other(*task, instance.as_ref(), attrs),
            Op::Begin { .. } | Op::End { .. } | Op::Done { .. } | Op::Mark { .. } => {
                self.measure(op);
            }
            blocking => self.meet(blocking),
        }
        Flow::Next
    }

    fn control(&mut self, op: &Op) -> Flow {
        match op {
            Op::Repeat { count, body } => {
                for pass in 0..*count {
                    self.passes.push(pass as i64);
                    let flow = self.all(body);
                    self.passes.pop();
                    if flow == Flow::Exit {
                        return flow;
                    }
                }
            }
            Op::Countdown { counter, body } => {
                let counter = self.resolve(counter);
                let take = |left: u64| left.checked_sub(1);
                let counter = &self.world.counters[counter];
                #[allow(
                    deprecated,
                    reason = "its new name, try_update, is younger than Rust 1.91"
                )]
                while counter.fetch_update(SeqCst, SeqCst, take).is_ok() {
                    if self.all(body) == Flow::Exit {
                        return Flow::Exit;
                    }
                }
            }
            Op::Until { time_ns, body } => {
                return self.all_until(self.world.origin_ns() + time_ns, body);
            }
            Op::During { time_ns, body } => {
                return self.all_until(sys::now_ns() + time_ns, body);
            }
            Op::Chance { ppm, body } => {
                if self.rng.chance(*ppm) {
                    return self.all(body);
                }
            }
            _ => unreachable!("{op:?} has no body"),
        }
        Flow::Next
    }

    /// Again and again; looks at the clock before each pass.
    fn all_until(&mut self, end_ns: u64, ops: &[Op]) -> Flow {
        while sys::now_ns() < end_ns {
            if self.all(ops) == Flow::Exit {
                return Flow::Exit;
            }
        }
        Flow::Next
    }

    pub fn fails(&self, what: &str) -> ! {
        let label = self.world.label(self.slot);
        self.world
            .fail(ExecError::Workload(format!("{label}: {what}")))
    }

    /// The system has refused something.
    pub fn refused(&self, what: &str) -> ! {
        let label = self.world.label(self.slot);
        self.world
            .fail(ExecError::Environment(format!("{label}: {what}")))
    }

    fn draw(&mut self, dist: Dist) -> u64 {
        match dist {
            Dist::Const(value) => value,
            dist => self.rng.draw(&dist),
        }
    }

    /// Index of the resource that the task means.
    pub fn resolve(&self, reference: &Ref) -> usize {
        let index = reference.index.eval(i64::from(self.instance), &self.passes);
        match index.and_then(|i| usize::try_from(i).ok()) {
            Some(index) if index < reference.len => reference.first + index,
            _ => {
                let what = index.map_or("a division by zero".to_owned(), |i| i.to_string());
                let len = reference.len;
                self.fails(&format!(
                    "index {what} outside 0..{len} of a resource array"
                ))
            }
        }
    }

    /// Works until the clock shows this, looking at it every microsecond or so.
    pub fn burn_until(&mut self, end_ns: u64) {
        let steps = self.world.speed.steps(1000).max(1);
        while sys::now_ns() < end_ns {
            self.set.work(steps);
        }
    }

    /// Works until this thread has had so much of a CPU. It reads that clock rarely, each time after half of what is left:
    /// EEVDF ends a turn when a read finds the slice used up, so a program that reads all the time has shorter turns.
    fn burn_own_time(&mut self, ns: u64) {
        let piece = self.world.speed.steps(5000).max(1);
        let mut now_ns = sys::thread_cpu_ns();
        let end_ns = now_ns + ns;
        let (mut pieces, mut fastest_ns) = (1, u64::MAX);
        while now_ns < end_ns {
            for _ in 0..pieces {
                self.set.work(piece);
                // To emulated CPUs that share a stream of instructions: another one's turn.
                std::hint::spin_loop();
            }
            let read_ns = sys::thread_cpu_ns();
            // Without the other CPUs' turns, which may be missing next time.
            fastest_ns = fastest_ns.min((read_ns - now_ns) / pieces).max(1);
            now_ns = read_ns;
            pieces = (end_ns.saturating_sub(now_ns) / 2 / fastest_ns).max(1);
        }
    }

    fn timer(&mut self, timer: usize, period_ns: u64) {
        let spec = &self.world.workload.timers[timer];
        let now_ns = sys::now_ns();
        let first_ns = self.base_ns;
        let next = |base_ns: u64| {
            let base_ns = if base_ns == 0 { first_ns } else { base_ns };
            let at_ns = base_ns + period_ns;
            let missed = at_ns < now_ns && spec.mode == TimerMode::Relative;
            (at_ns, if missed { now_ns } else { at_ns })
        };
        let at_ns = if spec.per_task {
            let (at_ns, base_ns) = next(self.timers_ns[timer]);
            self.timers_ns[timer] = base_ns;
            at_ns
        } else {
            let shared = &self.world.timers[timer];
            #[allow(
                deprecated,
                reason = "its new name, try_update, is younger than Rust 1.91"
            )]
            let old_ns = shared.fetch_update(SeqCst, SeqCst, |base_ns| Some(next(base_ns).1));
            next(old_ns.unwrap_or_default()).0
        };
        sys::sleep_until(at_ns);
    }

    fn fill_memory(&mut self, mut bytes: u64) {
        while bytes > 0 && !self.memory.is_empty() {
            let part = bytes.min(self.memory.len() as u64) as usize;
            self.memory[..part].fill(bytes as u8);
            std::hint::black_box(&mut self.memory);
            bytes -= part as u64;
        }
    }

    fn memrun(&self, op: &Op, shared: Option<usize>) -> &Buffer {
        let shape = Shape::of(op);
        let own = || self.buffers.iter().find(|b| Some(b.shape) == shape);
        let found = match shared {
            Some(shared) => self.world.buffers[shared].as_ref(),
            None => own(),
        };
        found.expect("each memrun's buffer was made before")
    }

    fn write_to_device(&mut self, mut bytes: u64) {
        let Some(mut device) = self.world.io_device.as_ref() else {
            return;
        };
        while bytes > 0 && !self.memory.is_empty() {
            let part = bytes.min(self.memory.len() as u64) as usize;
            if let Err(error) = device.write_all(&self.memory[..part]) {
                let path = &self.world.workload.io_device;
                self.refused(&format!("global.io_device {path}: cannot write: {error}"));
            }
            bytes -= part as u64;
        }
    }

    fn spawn(&mut self, spec: usize, count: u64) {
        // In the simulated machine all are there at once. Here their parent would compete with those that it has made, and a scheduler
        // that prefers them would never let it make the rest.
        let _alone = (self.world.exact && count > 1).then(sys::Alone::begin);
        for _ in 0..count {
            let born = birth::give(self.world, spec, self.at, None);
            if let Err(error) = born {
                self.refused(&birth::refusal(&self.world.workload.tasks[spec], &error));
            }
        }
    }

    fn set_attrs(&self, tid: u32, given: &Attrs) {
        if let Err(what) = attrs::apply(tid, given) {
            self.refused(&what);
        }
        if let (Some(group), Some(groups)) = (given.group, &self.world.groups)
            && let Err(error) = groups.join(group, tid)
        {
            let path = &self.world.workload.groups[group].path;
            self.refused(&format!("cannot join cgroup {path}: {error}"));
        }
    }

    fn set_other(&self, spec: usize, instance: Option<&tiltyard_workload::Index>, attrs: &Attrs) {
        let only = instance.map(|i| i.eval(i64::from(self.instance), &self.passes));
        for slot in self.world.slots().iter() {
            let means = slot.alive.load(SeqCst) == 1
                && slot.spec.load(SeqCst) == spec as u32
                && only.is_none_or(|only| only == Some(i64::from(slot.instance.load(SeqCst))));
            if !means {
                continue;
            }
            // A process that was just started may not have run yet; nor may its parent have gone on.
            while slot.tid.load(SeqCst) == 0 && slot.alive.load(SeqCst) == 1 {
                sys::sleep_until(sys::now_ns() + 100_000);
            }
            let tid = slot.tid.load(SeqCst);
            if let Err(what) = attrs::apply(tid, attrs)
                && slot.alive.load(SeqCst) == 1
            {
                let other = self.world.label(slot);
                self.refused(&format!("{other}: {what}"));
            }
            if let (Some(group), Some(groups)) = (attrs.group, &self.world.groups) {
                // It may have ended meanwhile.
                let _ = groups.join(group, tid);
            }
        }
    }

    fn measure(&mut self, op: &Op) {
        let now_ns = sys::now_ns();
        let measures = &self.world.measures;
        match op {
            Op::Begin { request } => self.begun_ns[*request] = now_ns,
            Op::Done { request } => measures.request(*request, self.at, now_ns, now_ns),
            Op::Mark { mark } => measures.mark(*mark, self.at, now_ns),
            Op::End { request } => match std::mem::take(&mut self.begun_ns[*request]) {
                0 => {
                    let name = &self.world.workload.requests[*request];
                    self.fails(&format!("request '{name}' ends but was not begun"));
                }
                begun_ns => measures.request(*request, self.at, begun_ns, now_ns),
            },
            _ => unreachable!("{op:?} measures nothing"),
        }
    }

    fn lets_go_of_all(&self) {
        let held = |lock: &crate::sync::Lock| lock.owner() == Some(self.tid);
        if let Some(m) = self.world.mutexes.iter().position(held) {
            let name = &self.world.workload.mutexes[m].name;
            self.fails(&format!("exits while it holds '{name}'"));
        }
    }

    /// Sends or takes this many bytes.
    pub fn through_pipe(&mut self, pipe: usize, bytes: u64, wait: Wait) {
        let (world, slot) = (self.world, self.slot);
        let message = &mut self.message[..bytes as usize];
        let file = &world.pipes[pipe];
        let moved = slot.waiting(wait, pipe, || match wait {
            Wait::PipeRead => file.read(message),
            _ => file.write(message),
        });
        if let Err(error) = moved {
            let name = &world.workload.pipes[pipe].name;
            self.refused(&format!("pipe '{name}': {error}"));
        }
    }
}

/// What a task must have before it begins, so that nothing is allocated while it runs.
struct Needs {
    memory: bool,
    shapes: Vec<Shape>,
    message_bytes: u64,
}

impl Needs {
    fn of(spec: &TaskSpec) -> Needs {
        let mut needs = Needs {
            memory: false,
            shapes: Vec::new(),
            message_bytes: 0,
        };
        let mut see = |op: &Op| match op {
            Op::Mem { .. } | Op::IoRun { .. } => needs.memory = true,
            Op::PipeRead { bytes, .. } | Op::PipeWrite { bytes, .. } => {
                needs.message_bytes = needs.message_bytes.max(*bytes);
            }
            Op::MemRun { buffer: None, .. } => {
                let new = Shape::of(op).filter(|s| !needs.shapes.contains(s));
                needs.shapes.extend(new);
            }
            _ => {}
        };
        let ops = spec.phases.iter().flat_map(|p| &p.ops);
        ops.for_each(|op| visit(op, &mut see));
        needs
    }
}
