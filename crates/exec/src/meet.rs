// SPDX-License-Identifier: GPL-2.0-or-later
//! Where tasks meet: operations that wait for other tasks or wake them.

use std::sync::atomic::Ordering::SeqCst;

use tiltyard_workload::Op;

use crate::sync::Gate;
use crate::sys;
use crate::task::Task;
use crate::world::Wait;

impl Task<'_> {
    /// Executes an operation that may wait or wake.
    pub fn meet(&mut self, op: &Op) {
        let world = self.world;
        match op {
            Op::Lock(mutex) => self.lock(self.resolve(mutex)),
            Op::Unlock(mutex) => self.unlock(self.resolve(mutex)),
            Op::CondWait { cond, mutex } => {
                let (cond, mutex) = (self.resolve(cond), self.resolve(mutex));
                self.wait_for(cond, mutex);
            }
            Op::Sync { cond, mutex } => {
                let (cond, mutex) = (self.resolve(cond), self.resolve(mutex));
                world.conds[cond].signal();
                self.wait_for(cond, mutex);
            }
            Op::Signal(cond) => world.conds[self.resolve(cond)].signal(),
            Op::Broadcast(cond) => world.conds[self.resolve(cond)].broadcast(),
            Op::Barrier(barrier) => self.barrier(self.resolve(barrier)),
            Op::Suspend { place } => {
                let gate = &world.places[*place];
                self.pass(gate, gate.arrive(), Wait::Place, *place);
            }
            Op::Resume { place } => world.places[*place].broadcast(),
            Op::SemPost(sem) => world.sems[self.resolve(sem)].post(),
            Op::SemWait(sem) => {
                let sem = self.resolve(sem);
                let gate = &world.sems[sem];
                let ticket = gate.arrive();
                if !gate.is_open(ticket) {
                    self.slot.waiting(Wait::Sem, sem, || gate.wait(ticket));
                }
            }
            Op::PipeWrite { pipe, bytes } => {
                let pipe = self.resolve(pipe);
                let capacity = world.pipes[pipe].capacity_bytes;
                if *bytes > capacity {
                    let name = &world.workload.pipes[pipe].name;
                    self.fails(&format!(
                        "writes {bytes} bytes into pipe '{name}' of {capacity}"
                    ));
                }
                self.through_pipe(pipe, *bytes, Wait::PipeWrite);
            }
            Op::PipeRead { pipe, bytes } => {
                self.through_pipe(self.resolve(pipe), *bytes, Wait::PipeRead);
            }
            Op::Join => self.slot.waiting(Wait::Children, 0, || world.join(self.at)),
            _ => unreachable!("{op:?} concerns nobody else"),
        }
    }

    fn pass(&self, gate: &Gate, ticket: u32, wait: Wait, index: usize) {
        if !gate.is_open(ticket) {
            self.slot.waiting(wait, index, || gate.wait(ticket));
        }
    }

    fn lock(&self, mutex: usize) {
        let lock = &self.world.mutexes[mutex];
        if lock.try_lock(self.tid) {
            return;
        }
        let spec = &self.world.workload.mutexes[mutex];
        if lock.owner() == Some(self.tid) {
            let name = &spec.name;
            self.fails(&format!(
                "locks '{name}', which it holds already (deadlock)"
            ));
        }
        let wait = || lock.lock(self.tid, spec.inherit_priority);
        if let Err(error) = self.slot.waiting(Wait::Mutex, mutex, wait) {
            self.refused(&format!("mutex '{}': {error}", spec.name));
        }
    }

    fn unlock(&self, mutex: usize) {
        let lock = &self.world.mutexes[mutex];
        let spec = &self.world.workload.mutexes[mutex];
        let owner = lock.owner();
        if owner != Some(self.tid) {
            let of = |tid| {
                let slots = self.world.slots().iter();
                let mut holders = slots.filter(|s| s.alive.load(SeqCst) == 1);
                let holder = holders.find(|s| s.tid.load(SeqCst) == tid);
                holder.map_or(format!("[{tid}]"), |s| self.world.label(s))
            };
            let (name, holder) = (&spec.name, owner.map_or("nobody".to_owned(), of));
            self.fails(&format!("unlocks '{name}', which {holder} holds"));
        }
        if let Err(error) = lock.unlock(self.tid, spec.inherit_priority) {
            self.refused(&format!("mutex '{}': {error}", spec.name));
        }
    }

    /// Arrives before it unlocks: a signal given under the mutex afterwards is not lost.
    fn wait_for(&self, cond: usize, mutex: usize) {
        let gate = &self.world.conds[cond];
        let ticket = gate.arrive();
        self.unlock(mutex);
        self.pass(gate, ticket, Wait::Cond, cond);
        self.lock(mutex);
    }

    /// The last that arrives opens it; the others spin for a while and then sleep.
    fn barrier(&mut self, barrier: usize) {
        let world = self.world;
        let gate = &world.barriers[barrier];
        let spec = &world.workload.barriers[barrier];
        let ticket = gate.arrive();
        if ticket.wrapping_add(1).is_multiple_of(spec.parties) {
            return gate.post(spec.parties);
        }
        if spec.spin_ns > 0 {
            let end_ns = sys::now_ns() + spec.spin_ns;
            while !gate.is_open(ticket) && sys::now_ns() < end_ns {
                std::hint::spin_loop();
            }
        }
        self.pass(gate, ticket, Wait::Barrier, barrier);
    }
}
