// SPDX-License-Identifier: GPL-2.0-or-later
//! Data races in scheduler code, as the kernel's memory model defines them: two accesses to the same bytes from
//! different CPUs, of which at least one writes and at least one is plain (neither volatile nor atomic), and nothing
//! orders them.
//!
//! Order ("happens before") is computed with vector clocks: each CPU knows its own past; whoever acquires what another CPU
//! released knows that CPU's past, too. Two accesses may be ordered in one run by chance, by a lock that is taken
//! for another reason; so a check of one run finds no false races, but it may miss some.
//!
//! Knows neither the engine nor schedulers: CPUs, tasks and lines are numbers.

mod clock;
mod shadow;
#[cfg(test)]
mod tests;

use clock::VectorClock;
use hashbrown::HashMap;
use shadow::Shadow;
pub use shadow::{AccessKind, Site};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use tiltyard_native::object::how;

/// What one CPU releases and another one acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sync {
    /// The lock of this CPU's runqueue.
    Runqueue(u32),
    /// `p->pi_lock` of this task.
    Task(u32),
    /// `p->on_cpu` of this task, which is cleared by the CPU that the task has left.
    OffCpu(u32),
    /// The references to this task, the last of which frees it.
    References(u32),
    /// The lock of a DSQ: the scheduler's own in this slot, or a node's global one.
    Dsq(u32),
    GlobalDsq(u32),
    /// `cgroup_mutex`
    Cgroups,
    /// A `bpf_spin_lock`, by its address.
    Spin(usize),
    /// A timer, by its address: its lock, and the end of its callback.
    Timer(usize),
    TimerDone(usize),
}

/// Two accesses that nothing orders; the earlier one first.
#[derive(Clone, Debug)]
pub struct Pair {
    pub sites: [Site; 2],
    pub kinds: [AccessKind; 2],
    /// The first byte that both access, the number of what it belongs to, and its name.
    pub address: usize,
    pub owner: u32,
    pub what: String,
    /// How often such a pair occurred between these lines, about this variable; the rest is of the first occurrence.
    pub times: u64,
}

/// Lines of a pair in the order of their numbers, each with what it does; and a number of what they access, because a line
/// may access several variables.
type Lines = ([(u32, bool, bool); 2], u32);

/// What a CPU knows.
#[derive(Debug)]
struct Cpu {
    clock: VectorClock,
    /// What it knew at its last full barrier: what a marked store publishes.
    at_fence: VectorClock,
    /// What marked loads have seen since: it takes effect at the next full barrier.
    seen: VectorClock,
}

/// The check of one run.
#[derive(Debug)]
pub struct Races {
    cpus: Vec<Cpu>,
    released: HashMap<Sync, VectorClock>,
    /// What marked stores have published, by the address.
    published: HashMap<usize, VectorClock>,
    shadow: Shadow,
    pairs: BTreeMap<Lines, Pair>,
    /// Pairs whose memory has no name yet.
    fresh: Vec<Lines>,
}

impl Races {
    pub fn new(nr_cpus: usize) -> Races {
        let cpu = |number: usize| {
            let mut clock = VectorClock::new(nr_cpus);
            clock.step(number);
            Cpu {
                clock,
                at_fence: VectorClock::new(nr_cpus),
                seen: VectorClock::new(nr_cpus),
            }
        };
        Races {
            cpus: (0..nr_cpus).map(cpu).collect(),
            released: HashMap::new(),
            published: HashMap::new(),
            shadow: Shadow::default(),
            pairs: BTreeMap::new(),
            fresh: Vec::new(),
        }
    }

    pub fn acquire(&mut self, cpu: u32, from: Sync) {
        if let Some(clock) = self.released.get(&from) {
            self.cpus[cpu as usize].clock.join(clock);
        }
    }

    /// Whoever acquires it next learns this CPU's past, and everything that this CPU has learned from others.
    pub fn release(&mut self, cpu: u32, to: Sync) {
        let own = &mut self.cpus[cpu as usize].clock;
        self.released.entry(to).or_default().join(own);
        own.step(cpu as usize);
    }

    /// A lock is taken and dropped.
    pub fn pass(&mut self, cpu: u32, through: Sync) {
        self.acquire(cpu, through);
        self.release(cpu, through);
    }

    /// Nobody will acquire it again.
    pub fn drop_sync(&mut self, what: Sync) {
        self.released.remove(&what);
    }

    /// All CPUs wait for each other.
    pub fn barrier(&mut self) {
        let mut all = VectorClock::default();
        for cpu in &self.cpus {
            all.join(&cpu.clock);
        }
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.clock.copy_from(&all);
            cpu.clock.step(number);
        }
    }

    /// `smp_mb()`
    pub fn fence(&mut self, cpu: u32) {
        let own = &mut self.cpus[cpu as usize];
        own.clock.join(&own.seen);
        own.at_fence.copy_from(&own.clock);
        own.clock.step(cpu as usize);
    }

    /// An access to memory that CPUs share; `how` as in the object. `owner`: the number of what an address belongs to.
    pub fn access(
        &mut self,
        site: Site,
        range: Range<usize>,
        how: u64,
        owner: impl Fn(usize) -> u32,
    ) {
        let cpu = site.cpu as usize;
        if how & how::FENCE != 0 {
            self.fence(site.cpu);
        }
        let kind = AccessKind {
            write: how & how::WRITE != 0,
            marked: how & how::MARKED != 0,
            update: how & how::UPDATE != 0,
        };
        let clock = &self.cpus[cpu].clock;
        let (pairs, fresh) = (&mut self.pairs, &mut self.fresh);
        self.shadow.access(
            &range,
            (site, kind, clock.of(cpu)),
            |other, step| step <= clock.of(other as usize),
            |address, earlier| {
                let (earlier, later) = ((earlier.site, earlier.kind), (site, kind));
                note(pairs, fresh, (address, owner(address)), earlier, later);
            },
        );
        if kind.marked {
            self.communicate(cpu, range.start, how);
        }
        if how & how::FENCE != 0 {
            self.fence(site.cpu);
        }
    }

    /// What a marked access publishes to other CPUs, and what it learns from them.
    fn communicate(&mut self, cpu: usize, address: usize, how: u64) {
        let own = &mut self.cpus[cpu];
        let reads = how & how::WRITE == 0 || how & how::FENCE != 0;
        if reads && let Some(published) = self.published.get(&address) {
            own.seen.join(published);
            if how & how::ACQUIRE != 0 {
                own.clock.join(published);
            }
        }
        if how & how::WRITE == 0 {
            return;
        }
        // An update goes on from the store that it has read; a store begins again.
        if how & how::UPDATE == 0 {
            self.published.remove(&address);
        }
        if how & how::RELEASE != 0 {
            self.published.entry(address).or_default().join(&own.clock);
            own.clock.step(cpu);
        } else if !own.at_fence.is_empty() {
            let published = self.published.entry(address).or_default();
            published.join(&own.at_fence);
        }
    }

    /// The memory is freed.
    pub fn forget(&mut self, range: Range<usize>) {
        self.shadow.forget(&range);
        self.published.retain(|at, _| !range.contains(at));
    }

    /// Whether there are pairs whose memory has no name yet.
    pub fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Names the memory of pairs that were found since the last call.
    pub fn name_fresh(&mut self, name: impl Fn(usize) -> String) {
        for lines in self.fresh.drain(..) {
            if let Some(pair) = self.pairs.get_mut(&lines) {
                pair.what = name(pair.address);
            }
        }
    }

    /// Each pair of lines once for each variable, in the order of their numbers.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.values()
    }

    /// Whether there was more memory than the check remembers.
    pub fn is_partial(&self) -> bool {
        self.shadow.has_forgotten()
    }
}

fn note(
    pairs: &mut BTreeMap<Lines, Pair>,
    fresh: &mut Vec<Lines>,
    (address, owner): (usize, u32),
    earlier: (Site, AccessKind),
    later: (Site, AccessKind),
) {
    let line = |(site, kind): (Site, AccessKind)| (site.place, kind.write, kind.marked);
    let mut both = [line(earlier), line(later)];
    both.sort_unstable();
    let lines = (both, owner);
    match pairs.entry(lines) {
        Entry::Occupied(mut known) => known.get_mut().times += 1,
        Entry::Vacant(free) => {
            free.insert(Pair {
                sites: [earlier.0, later.0],
                kinds: [earlier.1, later.1],
                address,
                owner,
                what: String::new(),
                times: 1,
            });
            fresh.push(lines);
        }
    }
}
