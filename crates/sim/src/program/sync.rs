// SPDX-License-Identifier: GPL-2.0-or-later
//! Where tasks wait for each other: locks, condition variables, barriers, semaphores, pipes, devices.
//!
//! A waker only makes its wakee runnable. Mutexes and pipes may be taken by another task before the
//! wakee runs, as with futexes; it then waits again. Semaphore posts are handed to the first waiter.
//!
//! A mutex is a futex word, as in glibc. A task that takes it when it is free does not know of waiters, so its unlock wakes
//! nobody: until the woken waiter runs, the mutex may change hands any number of times without another wakeup.

use std::collections::VecDeque;

use super::Wait;
use super::step::Flow;
use crate::clock::Alarm;
use crate::engine::{Engine, RunError};
use crate::task::{Life, TaskId};
use tiltyard_workload::{Op, Ref};

/// Stage of a task that has slept for a mutex and tries again.
const WAITED: u8 = 2;

impl Engine<'_> {
    /// Operations that may block or wake. `None`: it is another kind of operation.
    pub(crate) fn execute_blocking(&mut self, id: TaskId, op: &Op) -> Option<Flow> {
        let flow = match op {
            Op::Lock(mutex) => self.resolve(id, mutex).map(|m| self.lock(id, m)),
            Op::Unlock(mutex) => self.resolve(id, mutex).map(|m| self.unlock_op(id, m)),
            Op::CondWait { cond, mutex } => self
                .both(id, cond, mutex)
                .map(|(c, m)| self.cond_wait(id, c, m, false)),
            Op::Sync { cond, mutex } => self
                .both(id, cond, mutex)
                .map(|(c, m)| self.cond_wait(id, c, m, true)),
            Op::Signal(cond) => self.resolve(id, cond).map(|c| self.signal(id, c, false)),
            Op::Broadcast(cond) => self.resolve(id, cond).map(|c| self.signal(id, c, true)),
            Op::Barrier(barrier) => self.resolve(id, barrier).map(|b| self.barrier(id, b)),
            Op::Suspend { place } => Some(self.suspend(id, *place)),
            Op::Resume { place } => Some(self.resume(id, *place)),
            Op::SemPost(sem) => self.resolve(id, sem).map(|s| self.sem_post(id, s)),
            Op::SemWait(sem) => self.resolve(id, sem).map(|s| self.sem_wait(id, s)),
            Op::PipeWrite { pipe, bytes } => self
                .resolve(id, pipe)
                .map(|p| self.pipe_write(id, p, *bytes)),
            Op::PipeRead { pipe, bytes } => self
                .resolve(id, pipe)
                .map(|p| self.pipe_read(id, p, *bytes)),
            Op::Io { device, service } => self.resolve(id, device).map(|d| {
                let service_ns = self.draw(id, *service);
                self.io(id, d, service_ns)
            }),
            Op::Join => Some(self.join(id)),
            _ => return None,
        };
        // A reference that could not be resolved has ended the run.
        Some(flow.unwrap_or(Flow::Busy))
    }

    fn both(&mut self, id: TaskId, a: &Ref, b: &Ref) -> Option<(usize, usize)> {
        Some((self.resolve(id, a)?, self.resolve(id, b)?))
    }

    /// Continues with the next instruction.
    fn advance(&mut self, id: TaskId) -> Flow {
        let cursor = &mut self.tasks[id.index()].cursor;
        cursor.pc += 1;
        cursor.stage = 0;
        cursor.wait = Wait::Nothing;
        Flow::Next
    }

    /// Sleeps and then evaluates the same instruction again.
    fn block_on(&mut self, id: TaskId, wait: Wait) -> Flow {
        self.tasks[id.index()].cursor.wait = wait;
        Flow::Block
    }

    /// Sleeps, and continues with the next instruction when woken.
    fn block_and_advance(&mut self, id: TaskId, wait: Wait) -> Flow {
        self.advance(id);
        self.block_on(id, wait)
    }

    fn wake_waiter(&mut self, id: TaskId, sync: bool) {
        let task = &mut self.tasks[id.index()];
        task.cursor.wait = Wait::Nothing;
        if task.spec.is_some() && task.life == Life::Blocked {
            self.programs.stuck -= 1;
        }
        self.wake(id, false, sync);
    }

    /// Wakes these, one after the other. Who may be preempted inside of the kernel may be so after each.
    fn wake_all(&mut self, id: TaskId, woken: VecDeque<TaskId>) -> Flow {
        if self.machine.preemptible {
            self.tasks[id.index()].cursor.seldom().to_wake = woken;
        } else {
            for waiter in woken {
                self.wake_waiter(waiter, false);
            }
        }
        Flow::Next
    }

    /// The next of [`Engine::wake_all`].
    pub(super) fn wake_next(&mut self, id: TaskId) -> bool {
        let next = self.tasks[id.index()].cursor.seldom().to_wake.pop_front();
        if let Some(waiter) = next {
            self.wake_waiter(waiter, false);
        }
        next.is_some()
    }

    fn lock(&mut self, id: TaskId, m: usize) -> Flow {
        if !self.machine.mutex_waits {
            return self.advance(id);
        }
        let has_waited = self.tasks[id.index()].cursor.stage == WAITED;
        let mutex = &mut self.programs.res.mutexes[m];
        match mutex.owner {
            None => {
                mutex.owner = Some(id);
                // It cannot know whether it was the only one.
                mutex.contended = has_waited;
                self.advance(id)
            }
            Some(owner) if owner == id => {
                let (label, name) = (self.task_label(id), self.workload.mutexes[m].name.clone());
                self.fail(RunError::Workload(format!(
                    "{label}: locks '{name}', which it holds already (deadlock)"
                )));
                Flow::Busy
            }
            Some(owner) => {
                mutex.contended = true;
                mutex.waiters.push_back(id);
                self.tasks[id.index()].cursor.stage = WAITED;
                if self.workload.mutexes[m].inherit_priority
                    && self.class_of(id).above(self.class_of(owner))
                {
                    let what = format!(
                        "priority inheritance: {} waits for {}",
                        self.task_label(id),
                        self.task_label(owner)
                    );
                    self.fail(RunError::NotModelled(what));
                }
                let flow = self.block_on(id, Wait::Mutex(m as u32));
                self.check_lock_cycle(id);
                flow
            }
        }
    }

    fn unlock_op(&mut self, id: TaskId, m: usize) -> Flow {
        if self.unlock(id, m) {
            self.advance(id)
        } else {
            Flow::Busy
        }
    }

    fn unlock(&mut self, id: TaskId, m: usize) -> bool {
        if !self.machine.mutex_waits {
            return true;
        }
        let mutex = &mut self.programs.res.mutexes[m];
        if mutex.owner != Some(id) {
            let owner = mutex.owner;
            let holder = owner.map_or("nobody".to_owned(), |o| self.task_label(o));
            let (label, name) = (self.task_label(id), self.workload.mutexes[m].name.clone());
            self.fail(RunError::Workload(format!(
                "{label}: unlocks '{name}', which {holder} holds"
            )));
            return false;
        }
        mutex.owner = None;
        if mutex.contended
            && let Some(waiter) = mutex.waiters.pop_front()
        {
            self.wake_waiter(waiter, false);
        }
        true
    }

    /// Stage 0: [signal,] release the mutex and sleep. Later: signalled; take the mutex again.
    fn cond_wait(&mut self, id: TaskId, c: usize, m: usize, signal_first: bool) -> Flow {
        if self.tasks[id.index()].cursor.stage > 0 {
            return self.lock(id, m);
        }
        if signal_first && let Some(waiter) = self.programs.res.conds[c].pop_front() {
            self.wake_waiter(waiter, false);
        }
        if !self.unlock(id, m) {
            return Flow::Busy;
        }
        self.tasks[id.index()].cursor.stage = 1;
        self.programs.res.conds[c].push_back(id);
        self.block_on(id, Wait::Cond(c as u32))
    }

    fn signal(&mut self, id: TaskId, c: usize, all: bool) -> Flow {
        self.advance(id);
        let waiting = &mut self.programs.res.conds[c];
        let woken = match all {
            true => std::mem::take(waiting),
            false => waiting.pop_front().into_iter().collect(),
        };
        self.wake_all(id, woken)
    }

    /// Stage 0: arrive. Stage 1: the spin is over; sleep, unless the barrier opened meanwhile. Stage 2: it opened.
    fn barrier(&mut self, id: TaskId, b: usize) -> Flow {
        match self.tasks[id.index()].cursor.stage {
            0 => self.barrier_arrive(id, b),
            1 => {
                self.tasks[id.index()].work.spins = false;
                let barrier = &mut self.programs.res.barriers[b];
                barrier.spinners.retain(|t| *t != id);
                barrier.sleepers.push_back(id);
                self.block_and_advance(id, Wait::Barrier(b as u32))
            }
            _ => {
                self.tasks[id.index()].work.spins = false;
                self.memory_traffic_changes(self.tasks[id.index()].cpu);
                self.advance(id)
            }
        }
    }

    fn barrier_arrive(&mut self, id: TaskId, b: usize) -> Flow {
        let now = self.now;
        let barrier = &mut self.programs.res.barriers[b];
        barrier.arrived += 1;
        if barrier.arrived < barrier.parties {
            if barrier.spin_ns == 0 {
                barrier.sleepers.push_back(id);
                return self.block_and_advance(id, Wait::Barrier(b as u32));
            }
            barrier.spinners.push(id);
            let until = now + barrier.spin_ns;
            let task = &mut self.tasks[id.index()];
            task.cursor.stage = 1;
            task.work.until_ns = Some(until);
            task.work.spins = true;
            let cpu = task.cpu;
            self.memory_traffic_changes(cpu);
            return Flow::Busy;
        }
        barrier.arrived = 0;
        barrier.generation += 1;
        let spinners = std::mem::take(&mut barrier.spinners);
        let sleepers = std::mem::take(&mut barrier.sleepers);
        self.advance(id);
        for spinner in spinners {
            self.stop_spinning(spinner);
        }
        self.wake_all(id, sleepers)
    }

    fn stop_spinning(&mut self, id: TaskId) {
        let now = self.now;
        let task = &mut self.tasks[id.index()];
        task.cursor.stage = 2;
        task.work.until_ns = Some(now);
        let cpu = task.cpu;
        if self.rqs[cpu as usize].curr == id {
            self.arm_work(cpu);
        }
    }

    fn suspend(&mut self, id: TaskId, place: usize) -> Flow {
        self.programs.res.places[place].push_back(id);
        self.block_and_advance(id, Wait::Place(place as u32))
    }

    fn resume(&mut self, id: TaskId, place: usize) -> Flow {
        self.advance(id);
        // Tasks that suspend themselves again while being woken wait for the next resume.
        let suspended = std::mem::take(&mut self.programs.res.places[place]);
        self.wake_all(id, suspended)
    }

    fn sem_post(&mut self, id: TaskId, s: usize) -> Flow {
        self.advance(id);
        match self.programs.res.sems[s].waiters.pop_front() {
            Some(waiter) => self.wake_waiter(waiter, false),
            None => self.programs.res.sems[s].count += 1,
        }
        Flow::Next
    }

    fn sem_wait(&mut self, id: TaskId, s: usize) -> Flow {
        let sem = &mut self.programs.res.sems[s];
        if sem.count > 0 {
            sem.count -= 1;
            return self.advance(id);
        }
        sem.waiters.push_back(id);
        self.block_and_advance(id, Wait::Sem(s as u32))
    }

    /// Writes as a whole; a pipe wakes its reader with the sync hint.
    fn pipe_write(&mut self, id: TaskId, p: usize, bytes: u64) -> Flow {
        let pipe = &mut self.programs.res.pipes[p];
        if bytes > pipe.capacity_bytes {
            let capacity = pipe.capacity_bytes;
            let (label, name) = (self.task_label(id), &self.workload.pipes[p].name);
            self.fail(RunError::Workload(format!(
                "{label}: writes {bytes} bytes into pipe '{name}' of {capacity}"
            )));
            return Flow::Busy;
        }
        if pipe.fill_bytes + bytes > pipe.capacity_bytes {
            pipe.writers.push_back(id);
            return self.block_on(id, Wait::PipeWrite(p as u32));
        }
        pipe.fill_bytes += bytes;
        let reader = pipe.readers.pop_front();
        self.advance(id);
        if let Some(reader) = reader {
            self.wake_waiter(reader, true);
        }
        Flow::Next
    }

    fn pipe_read(&mut self, id: TaskId, p: usize, bytes: u64) -> Flow {
        let pipe = &mut self.programs.res.pipes[p];
        if pipe.fill_bytes < bytes {
            pipe.readers.push_back(id);
            return self.block_on(id, Wait::PipeRead(p as u32));
        }
        pipe.fill_bytes -= bytes;
        let writer = pipe.writers.pop_front();
        // What one reader leaves may suffice for the next.
        let reader = if pipe.fill_bytes > 0 {
            pipe.readers.pop_front()
        } else {
            None
        };
        self.advance(id);
        for waiter in [writer, reader].into_iter().flatten() {
            self.wake_waiter(waiter, true);
        }
        Flow::Next
    }

    fn io(&mut self, id: TaskId, d: usize, service_ns: u64) -> Flow {
        let device = &mut self.programs.res.devices[d];
        if (device.serving.len() as u64) < u64::from(device.channels) {
            self.serve(d, id, service_ns);
        } else {
            device.queue.push_back((id, service_ns));
        }
        self.block_and_advance(id, Wait::Device(d as u32))
    }

    fn serve(&mut self, d: usize, id: TaskId, service_ns: u64) {
        let at = self.now + service_ns;
        let device = &mut self.programs.res.devices[d];
        device.seq += 1;
        device.serving.insert((at, device.seq, id));
        self.clock.arm(at, Alarm::Device { device: d as u32 });
    }

    /// The task whose request this device completes next.
    pub(crate) fn served_next(&self, d: u32) -> Option<TaskId> {
        let serving = &self.programs.res.devices[d as usize].serving;
        serving.first().map(|(_, _, id)| *id)
    }

    /// A device interrupt: the first request is done, the next in line starts. It arrives on the CPU of the requester.
    pub(crate) fn device_done(&mut self, d: u32) {
        let device = &mut self.programs.res.devices[d as usize];
        let Some((_, _, id)) = device.serving.pop_first() else {
            return;
        };
        if let Some((next, service_ns)) = device.queue.pop_front() {
            self.serve(d as usize, next, service_ns);
        }
        self.interrupt_to_wake(id);
    }

    fn join(&mut self, id: TaskId) -> Flow {
        if self.tasks[id.index()].live_children == 0 {
            return self.advance(id);
        }
        self.block_on(id, Wait::Children)
    }

    /// After a task has ended: its parent may have waited for it.
    pub(crate) fn child_exited(&mut self, parent: TaskId) {
        let task = &mut self.tasks[parent.index()];
        task.live_children -= 1;
        let waits = task.life == Life::Blocked || task.cursor.leaves;
        if task.live_children == 0 && waits && task.cursor.wait == Wait::Children {
            self.wake_waiter(parent, false);
        }
    }
}
