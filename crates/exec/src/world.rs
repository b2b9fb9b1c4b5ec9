// SPDX-License-Identifier: GPL-2.0-or-later
//! All that the processes of a run share: the workload, what its tasks use, who lives, and how it ends.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::SeqCst};

use tiltyard_workload::rng::Streams;
use tiltyard_workload::{Op, Workload};

use crate::burn::Speed;
use crate::files::{Pipe, visit};
use crate::groups::Groups;
use crate::mapping::{Plain, Shared};
use crate::measure::Measures;
use crate::memory::{Buffer, Shape};
use crate::sync::{Gate, Lock, Sem};
use crate::{ExecError, sys};

/// More tasks at once are taken for a fork bomb, as in the simulated machine.
pub const MAX_LIVE_TASKS: usize = 65_536;
/// Longest message of a task that fails.
const MESSAGE_BYTES: usize = 1024;
/// Spec of shells.
pub const NO_SPEC: u32 = u32::MAX;

/// What a task waits for; the numbers are in its slot's upper half, the index in the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Wait {
    /// It runs, or time will end its wait.
    Nothing,
    Mutex,
    Cond,
    Barrier,
    Sem,
    PipeRead,
    PipeWrite,
    Place,
    Children,
}

const WAITS: [Wait; 9] = [
    Wait::Nothing,
    Wait::Mutex,
    Wait::Cond,
    Wait::Barrier,
    Wait::Sem,
    Wait::PipeRead,
    Wait::PipeWrite,
    Wait::Place,
    Wait::Children,
];

/// A task that lives, or one that has ended and whose children live.
#[repr(align(64))]
#[derive(Default)]
pub struct Slot {
    /// The task itself and each of its children; 0: free. Who joins sleeps on it.
    pub holders: AtomicU32,
    pub alive: AtomicU32,
    pub spec: AtomicU32,
    pub instance: AtomicU32,
    pub parent: AtomicU32,
    /// 0 until it has begun to run.
    pub tid: AtomicU32,
    wait: AtomicU64,
    /// How often it has waited for another task.
    pub waits: AtomicU64,
}

// SAFETY: atomics; 0 is a free slot.
unsafe impl Plain for Slot {}

impl Slot {
    /// Says what the task waits for while `block` does it.
    pub fn waiting<T>(&self, wait: Wait, index: usize, block: impl FnOnce() -> T) -> T {
        self.waits.fetch_add(1, SeqCst);
        self.wait
            .store(u64::from(wait as u32) << 32 | index as u64, SeqCst);
        let result = block();
        self.wait.store(0, SeqCst);
        result
    }

    pub fn wait(&self) -> (Wait, usize) {
        let wait = self.wait.load(SeqCst);
        (WAITS[(wait >> 32) as usize], wait as u32 as usize)
    }
}

/// Counters of the whole run.
#[derive(Default)]
pub struct Control {
    pub origin_ns: AtomicU64,
    /// Tasks whose end the run waits for: those that live and those that shells will start.
    awaited: AtomicU32,
    pub live: AtomicU32,
    /// Tasks that shells will start.
    pub unborn: AtomicU32,
    /// Where to look for a free slot next.
    hint: AtomicU32,
    /// Changes, and is woken, when there is something for the supervisor to see.
    pub bell: AtomicU32,
    pub done: AtomicU32,
    /// 0, then 1 while a task writes why the run fails, then 2 and the kind of the error.
    failure: AtomicU32,
}

// SAFETY: atomics; 0 is a run that has not begun.
unsafe impl Plain for Control {}

pub struct World {
    pub workload: Workload,
    pub speed: Speed,
    pub exact: bool,
    pub streams: Streams,
    pub groups: Option<Groups>,
    pub pipes: Vec<Pipe>,
    pub io_device: Option<File>,
    /// Of `memrun`s that share one.
    pub buffers: Vec<Option<Buffer>>,
    pub measures: Measures,
    control: Shared<Control>,
    message: Shared<AtomicU8>,
    pub slots: Shared<Slot>,
    pub mutexes: Shared<Lock>,
    pub conds: Shared<Gate>,
    pub barriers: Shared<Gate>,
    pub sems: Shared<Sem>,
    pub places: Shared<Gate>,
    pub counters: Shared<AtomicU64>,
    /// Next base of each timer that tasks share; 0 until its first use.
    pub timers: Shared<AtomicU64>,
    /// When each channel of each device is free again.
    channels: Shared<AtomicU64>,
    channels_of: Vec<Range<usize>>,
}

/// What a [`World`] is made of beside the workload.
pub struct Parts {
    pub speed: Speed,
    pub exact: bool,
    pub streams: Streams,
    pub groups: Option<Groups>,
    pub pipes: Vec<Pipe>,
    pub io_device: Option<File>,
}

impl World {
    pub fn new(workload: Workload, parts: Parts) -> io::Result<World> {
        let mut channels = 0;
        let take = |device: &tiltyard_workload::Device| {
            // With more channels than tasks nobody ever waits for one.
            let own = device.channels as usize;
            let own = if own >= MAX_LIVE_TASKS { 0 } else { own };
            channels += own;
            channels - own..channels
        };
        let channels_of = workload.devices.iter().map(take).collect();
        let world = World {
            speed: parts.speed,
            exact: parts.exact,
            streams: parts.streams,
            groups: parts.groups,
            pipes: parts.pipes,
            io_device: parts.io_device,
            buffers: shared_buffers(&workload, parts.streams)?,
            measures: Measures::new(&workload)?,
            control: Shared::new(1)?,
            message: Shared::new(MESSAGE_BYTES)?,
            slots: Shared::new(MAX_LIVE_TASKS)?,
            mutexes: Shared::new(workload.mutexes.len())?,
            conds: Shared::new(workload.conds.len())?,
            barriers: Shared::new(workload.barriers.len())?,
            sems: Shared::new(workload.sems.len())?,
            places: Shared::new(workload.places.len())?,
            counters: Shared::new(workload.counters.len())?,
            timers: Shared::new(workload.timers.len())?,
            channels: Shared::new(channels)?,
            channels_of,
            workload,
        };
        world.set_up();
        Ok(world)
    }

    fn set_up(&self) {
        let workload = &self.workload;
        for (sem, spec) in self.sems.iter().zip(&workload.sems) {
            sem.begin_with(spec.initial.min(i32::MAX as u64) as u32);
        }
        for (value, counter) in self.counters.iter().zip(&workload.counters) {
            value.store(counter.start, SeqCst);
        }
        let unborn = |daemons: bool| -> u32 {
            let counted = workload.tasks.iter().filter(|t| daemons || !t.daemon);
            counted.map(|t| t.instances).sum()
        };
        self.control().unborn.store(unborn(true), SeqCst);
        self.control().awaited.store(unborn(false), SeqCst);
    }

    pub fn control(&self) -> &Control {
        &self.control[0]
    }

    /// When the workload starts.
    pub fn origin_ns(&self) -> u64 {
        self.control().origin_ns.load(SeqCst)
    }

    /// The task's name as the simulated machine gives it.
    pub fn name(&self, slot: &Slot) -> String {
        let instance = slot.instance.load(SeqCst);
        match slot.spec.load(SeqCst) {
            NO_SPEC => format!("sh-{}", self.workload.apps[instance as usize].name),
            spec => {
                let spec = &self.workload.tasks[spec as usize];
                match (spec.instances, instance) {
                    (1, 0) => spec.name.clone(),
                    _ => format!("{}-{instance}", spec.name),
                }
            }
        }
    }

    /// Name and tid, for messages.
    pub fn label(&self, slot: &Slot) -> String {
        format!("{}[{}]", self.name(slot), slot.tid.load(SeqCst))
    }

    /// A slot for the shell of an app.
    pub fn claim_shell(&self, app: usize) -> u32 {
        let at = self.free_slot().expect("there are more slots than apps");
        let slot = &self.slots[at as usize];
        slot.spec.store(NO_SPEC, SeqCst);
        slot.instance.store(app as u32, SeqCst);
        slot.parent.store(at, SeqCst);
        at
    }

    /// A slot for a new task; everything but its thread exists afterwards.
    pub fn claim(&self, spec: usize, parent: u32, by_shell: bool) -> u32 {
        let control = self.control();
        let task = &self.workload.tasks[spec];
        let live = control.live.fetch_add(1, SeqCst) as usize;
        let slot = (live < MAX_LIVE_TASKS / 2).then(|| self.free_slot());
        let Some(at) = slot.flatten() else {
            let parent = self.label(&self.slots[parent as usize]);
            self.fail(ExecError::Workload(format!(
                "{parent}: more than {} tasks at once (fork bomb)",
                MAX_LIVE_TASKS / 2
            )));
        };
        if by_shell {
            control.unborn.fetch_sub(1, SeqCst);
        } else if !task.daemon {
            control.awaited.fetch_add(1, SeqCst);
        }
        self.slots[parent as usize].holders.fetch_add(1, SeqCst);
        let slot = &self.slots[at as usize];
        let started = &self.measures.totals[spec].started;
        slot.instance.store(started.fetch_add(1, SeqCst), SeqCst);
        slot.spec.store(spec as u32, SeqCst);
        slot.parent.store(parent, SeqCst);
        slot.tid.store(0, SeqCst);
        slot.alive.store(1, SeqCst);
        at
    }

    /// Slots of all tasks that live, among others.
    pub fn slots(&self) -> &[Slot] {
        let used = self.control().hint.load(SeqCst) as usize;
        &self.slots[..used.min(self.slots.len())]
    }

    fn free_slot(&self) -> Option<u32> {
        for _ in 0..self.slots.len() {
            let at = self.control().hint.fetch_add(1, SeqCst) % self.slots.len() as u32;
            let holders = &self.slots[at as usize].holders;
            if holders.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
                return Some(at);
            }
        }
        None
    }

    /// The task in this slot has ended, having used so much CPU time.
    pub fn leave(&self, at: u32, cpu_ns: u64) {
        let slot = &self.slots[at as usize];
        let spec = slot.spec.load(SeqCst) as usize;
        let totals = &self.measures.totals[spec];
        totals.cpu_ns.fetch_add(cpu_ns, SeqCst);
        slot.alive.store(0, SeqCst);
        totals.ended.fetch_add(1, SeqCst);
        let control = self.control();
        control.live.fetch_sub(1, SeqCst);
        let parent = slot.parent.load(SeqCst);
        self.release(at);
        self.release(parent);
        let daemon = self.workload.tasks[spec].daemon;
        let awaited = match daemon {
            true => control.awaited.load(SeqCst),
            false => control.awaited.fetch_sub(1, SeqCst) - 1,
        };
        if awaited == 0 {
            control.done.store(1, SeqCst);
            self.ring();
        }
    }

    /// One holder of a slot less.
    pub fn release(&self, at: u32) {
        let holders = &self.slots[at as usize].holders;
        if holders.fetch_sub(1, SeqCst) == 2 {
            sys::futex_wake(holders, 1, u32::MAX);
        }
    }

    /// Waits until the task in this slot has no children left.
    pub fn join(&self, at: u32) {
        let holders = &self.slots[at as usize].holders;
        loop {
            match holders.load(SeqCst) {
                0 | 1 => return,
                seen => sys::futex_wait(holders, seen, u32::MAX, None),
            }
        }
    }

    pub fn nobody_is_awaited(&self) -> bool {
        self.control().awaited.load(SeqCst) == 0
    }

    fn ring(&self) {
        self.control().bell.fetch_add(1, SeqCst);
        sys::futex_wake(&self.control().bell, 1, u32::MAX);
    }

    /// Ends the run with an error and stops here.
    pub fn fail(&self, error: ExecError) -> ! {
        self.report(&error);
        loop {
            sys::sleep_until(u64::MAX / 4);
        }
    }

    /// Ends the run with an error, unless another one has done so.
    pub fn report(&self, error: &ExecError) {
        let (kind, text) = match error {
            ExecError::Workload(text) => (0, text),
            ExecError::Environment(text) => (1, text),
            ExecError::NotModelled(text) => (2, text),
        };
        let failure = &self.control().failure;
        if failure.compare_exchange(0, 1, SeqCst, SeqCst).is_ok() {
            for (to, from) in self.message.iter().zip(text.bytes()) {
                to.store(from, SeqCst);
            }
            failure.store(2 + kind, SeqCst);
            self.ring();
        }
    }

    pub fn failure(&self) -> Option<ExecError> {
        let kind = self.control().failure.load(SeqCst).checked_sub(2)?;
        let bytes = self.message.iter().map(|b| b.load(SeqCst));
        let bytes: Vec<u8> = bytes.take_while(|b| *b != 0).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(match kind {
            0 => ExecError::Workload(text),
            1 => ExecError::Environment(text),
            _ => ExecError::NotModelled(text),
        })
    }

    /// When a request that comes now and takes so long has been served: each channel serves one at a time, in order.
    pub fn serve(&self, device: usize, service_ns: u64) -> u64 {
        let channels = &self.channels[self.channels_of[device].clone()];
        loop {
            let now_ns = sys::now_ns();
            let free = channels.iter().map(|c| (c.load(SeqCst), c));
            let Some((free_ns, channel)) = free.min_by_key(|(free_ns, _)| *free_ns) else {
                return now_ns + service_ns;
            };
            let done_ns = free_ns.max(now_ns) + service_ns;
            if channel
                .compare_exchange(free_ns, done_ns, SeqCst, SeqCst)
                .is_ok()
            {
                return done_ns;
            }
        }
    }
}

/// Buffers that several tasks use, each as its first user wants it: the reader has seen to it that all agree.
fn shared_buffers(workload: &Workload, streams: Streams) -> io::Result<Vec<Option<Buffer>>> {
    let mut shapes = vec![None; workload.buffers.len()];
    for phase in workload.tasks.iter().flat_map(|t| &t.phases) {
        for op in &phase.ops {
            visit(op, &mut |op| {
                if let Op::MemRun {
                    buffer: Some(buffer),
                    ..
                } = op
                {
                    shapes[*buffer] = shapes[*buffer].or(Shape::of(op));
                }
            });
        }
    }
    let make = |(i, shape): (usize, Option<Shape>)| {
        let rng = &mut streams.stream("buffer", i as u64);
        shape.map(|shape| Buffer::new(shape, rng)).transpose()
    };
    shapes.into_iter().enumerate().map(make).collect()
}
