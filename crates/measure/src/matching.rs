// SPDX-License-Identifier: GPL-2.0-or-later
//! How many idle CPUs could be put to work at once: a maximum matching between them and the waiting tasks, each task with
//! the set of CPUs on which it may run.
//!
//! It is kept up to date instead of computed: one task or CPU more or less changes its size by at most one, so one search
//! for an augmenting path (Berge) restores the maximum. Tasks with the same set are one node of that search.

use std::ops::Range;

/// No set: the CPU is not idle, or is idle and without a task.
const BUSY: u32 = u32::MAX;
const FREE: u32 = u32::MAX - 1;

/// The waiting tasks that may run on one set of CPUs.
#[derive(Clone, Debug, Default)]
struct Group {
    cpus: Vec<Range<u32>>,
    waiting: u32,
    /// Of these, how many have an idle CPU.
    matched: u32,
    /// Index in `Matching::occupied`, while some wait.
    at: usize,
    /// In a search: the group that would take a CPU from this one, and that CPU.
    taken_by: Option<(u32, u32)>,
    seen: bool,
}

/// A CPU gets a task, or has none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    pub cpu: u32,
    pub matched: bool,
}

#[derive(Clone, Debug)]
pub struct Matching {
    /// By the number of the set.
    groups: Vec<Group>,
    /// Groups in which tasks wait.
    occupied: Vec<u32>,
    /// By CPU: BUSY, FREE or the group whose task it has.
    cpus: Vec<u32>,
    /// CPUs that are FREE, as a bitmap.
    free: Vec<u64>,
    nr_free: u32,
    nr_waiting: u32,
    nr_matched: u32,
    /// Changes of the last call: two at most.
    pub changed: Vec<Changed>,
    queue: Vec<u32>,
}

impl Matching {
    /// No CPU is idle.
    pub fn new(nr_cpus: usize) -> Self {
        Matching {
            groups: Vec::new(),
            occupied: Vec::new(),
            cpus: vec![BUSY; nr_cpus],
            free: vec![0; nr_cpus.div_ceil(64)],
            nr_free: 0,
            nr_waiting: 0,
            nr_matched: 0,
            changed: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// Declares the next set.
    pub fn add_set(&mut self, cpus: &[Range<u32>]) {
        self.groups.push(Group {
            cpus: cpus.to_vec(),
            ..Group::default()
        });
    }

    pub fn nr_sets(&self) -> usize {
        self.groups.len()
    }

    pub fn is_idle(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize] != BUSY
    }

    /// A task that may run on `set` waits. If there is a choice it gets `near`.
    pub fn add_task(&mut self, set: u32, near: u32) {
        self.changed.clear();
        let is_first = self.nr_waiting == self.nr_matched;
        self.nr_waiting += 1;
        let group = &mut self.groups[set as usize];
        group.waiting += 1;
        if group.waiting == 1 {
            group.at = self.occupied.len();
            self.occupied.push(set);
        }
        let fits = is_first && self.cpus[near as usize] == FREE;
        if fits && group.cpus.iter().any(|range| range.contains(&near)) {
            group.matched += 1;
            self.occupy(near, set);
        } else {
            self.augment();
        }
    }

    /// One of them waits no longer. If there is a choice, `near` is the CPU that it had.
    pub fn remove_task(&mut self, set: u32, near: u32) {
        self.changed.clear();
        self.nr_waiting -= 1;
        let group = &mut self.groups[set as usize];
        group.waiting -= 1;
        if group.waiting == 0 {
            let at = group.at;
            self.occupied.swap_remove(at);
            if let Some(moved) = self.occupied.get(at) {
                self.groups[*moved as usize].at = at;
            }
        }
        if self.groups[set as usize].matched > self.groups[set as usize].waiting {
            let cpu = self.cpu_of(set, near);
            self.groups[set as usize].matched -= 1;
            self.nr_matched -= 1;
            self.release(cpu);
            self.changed.push(Changed {
                cpu,
                matched: false,
            });
            self.augment();
        }
    }

    pub fn add_cpu(&mut self, cpu: u32) {
        self.changed.clear();
        self.release(cpu);
        self.augment();
    }

    pub fn remove_cpu(&mut self, cpu: u32) {
        self.changed.clear();
        let set = std::mem::replace(&mut self.cpus[cpu as usize], BUSY);
        if set == FREE {
            self.free[cpu as usize / 64] &= !(1 << (cpu % 64));
            self.nr_free -= 1;
            return;
        }
        self.groups[set as usize].matched -= 1;
        self.nr_matched -= 1;
        self.changed.push(Changed {
            cpu,
            matched: false,
        });
        self.augment();
    }

    fn cpu_of(&self, set: u32, near: u32) -> u32 {
        if self.cpus[near as usize] == set {
            return near;
        }
        let ranges = self.groups[set as usize].cpus.iter().rev();
        let mut cpus = ranges.flat_map(|range| range.clone().rev());
        let has = |cpu: &u32| self.cpus[*cpu as usize] == set;
        cpus.find(has).expect("as many CPUs as tasks are matched")
    }

    fn release(&mut self, cpu: u32) {
        self.cpus[cpu as usize] = FREE;
        self.free[cpu as usize / 64] |= 1 << (cpu % 64);
        self.nr_free += 1;
    }

    /// A free CPU gets a task of this group.
    fn occupy(&mut self, cpu: u32, set: u32) {
        self.free[cpu as usize / 64] &= !(1 << (cpu % 64));
        self.nr_free -= 1;
        self.nr_matched += 1;
        self.cpus[cpu as usize] = set;
        self.changed.push(Changed { cpu, matched: true });
    }

    /// Matches one task more, if any can be.
    #[inline]
    fn augment(&mut self) {
        if self.nr_free > 0 && self.nr_waiting > self.nr_matched {
            self.search();
        }
    }

    /// Breadth first, from all groups with tasks that have no CPU, over groups that could give up one of theirs.
    fn search(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        for &set in &self.occupied {
            let group = &mut self.groups[set as usize];
            if group.waiting > group.matched {
                group.seen = true;
                queue.push(set);
            }
        }
        let mut at = 0;
        while let Some(&set) = queue.get(at) {
            at += 1;
            if let Some(cpu) = self.first_free(set) {
                self.follow(set, cpu);
                break;
            }
            self.visit_rivals(set, &mut queue);
        }
        for set in queue.drain(..) {
            let group = &mut self.groups[set as usize];
            (group.seen, group.taken_by) = (false, None);
        }
        self.queue = queue;
    }

    fn visit_rivals(&mut self, set: u32, queue: &mut Vec<u32>) {
        let group = &mut self.groups[set as usize];
        let ranges = std::mem::take(&mut group.cpus);
        for cpu in ranges.iter().cloned().flatten() {
            let rival = self.cpus[cpu as usize];
            if rival == BUSY || self.groups[rival as usize].seen {
                continue;
            }
            let group = &mut self.groups[rival as usize];
            (group.seen, group.taken_by) = (true, Some((set, cpu)));
            queue.push(rival);
        }
        self.groups[set as usize].cpus = ranges;
    }

    /// The group at the end of the path gets the free CPU, and gives up one of its own; so back to the beginning.
    fn follow(&mut self, mut set: u32, free: u32) {
        self.occupy(free, set);
        while let Some((by, cpu)) = self.groups[set as usize].taken_by {
            self.cpus[cpu as usize] = by;
            set = by;
        }
        self.groups[set as usize].matched += 1;
    }

    fn first_free(&self, set: u32) -> Option<u32> {
        let mut ranges = self.groups[set as usize].cpus.iter();
        ranges.find_map(|range| self.first_free_in(range))
    }

    fn first_free_in(&self, range: &Range<u32>) -> Option<u32> {
        let words = range.start / 64..range.end.div_ceil(64);
        words.into_iter().find_map(|word| {
            let low = range.start.saturating_sub(word * 64).min(63);
            let bits = self.free[word as usize] & (u64::MAX << low);
            let cpu = word * 64 + bits.trailing_zeros();
            (bits != 0 && cpu < range.end).then_some(cpu)
        })
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "a set of CPUs is a list of ranges, often of one"
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Matching {
        fn size(&self) -> u32 {
            self.nr_matched
        }
    }

    /// Sets: every one of 4 CPUs, {0}, {0, 1}, {2, 3}.
    fn four() -> Matching {
        let mut matching = Matching::new(4);
        for cpus in [vec![0..4], vec![0..1], vec![0..2], vec![2..4]] {
            matching.add_set(&cpus);
        }
        matching
    }

    #[test]
    fn a_task_makes_way_for_one_that_has_no_other_cpu() {
        let mut matching = four();
        matching.add_cpu(0);
        matching.add_task(2, 0);
        assert_eq!(
            matching.changed,
            [Changed {
                cpu: 0,
                matched: true
            }]
        );
        matching.add_task(1, 0);
        assert_eq!((matching.size(), matching.changed.len()), (1, 0));
        // CPU 1 goes to the task that may use it, CPU 0 to the one that has no other.
        matching.add_cpu(1);
        assert_eq!(
            (matching.size(), matching.cpus[0], matching.cpus[1]),
            (2, 1, 2)
        );
        matching.add_cpu(3);
        assert_eq!(matching.size(), 2, "nobody left for it");
        matching.add_task(0, 2);
        assert_eq!((matching.size(), matching.cpus[3]), (3, 0));
        // The task of CPU 0 leaves: nobody else needs it.
        matching.remove_task(1, 0);
        assert_eq!((matching.size(), matching.cpus[0]), (2, FREE));
        matching.remove_cpu(3);
        assert_eq!(
            (matching.size(), matching.cpus[0]),
            (2, 0),
            "any CPU will do"
        );
    }

    #[test]
    fn pinned_tasks_cannot_use_other_cpus() {
        let mut matching = four();
        for _ in 0..5 {
            matching.add_task(1, 0);
        }
        for cpu in 1..4 {
            matching.add_cpu(cpu);
        }
        assert_eq!(matching.size(), 0);
        matching.add_cpu(0);
        assert_eq!(matching.size(), 1);
    }

    /// By Koenig and Hall: idle CPUs less the largest lack over all subsets of them, for few CPUs.
    fn by_hand(idle: u32, waiting: &[(u32, u32)]) -> u32 {
        let subsets = (0..1u32 << 8).filter(|subset| subset & !idle == 0);
        let lack = |subset: u32| {
            let near = waiting.iter().filter(|(cpus, _)| cpus & subset != 0);
            let tasks: u32 = near.map(|(_, tasks)| tasks).sum();
            subset.count_ones().saturating_sub(tasks)
        };
        idle.count_ones() - subsets.map(lack).max().unwrap_or(0)
    }

    proptest! {
        /// Whatever comes and goes, the size is that of a maximum matching, and what changed is what differs.
        #[test]
        fn its_size_is_the_maximum(
            masks in prop::collection::vec(1u32..256, 1..6),
            steps in prop::collection::vec((any::<u8>(), any::<u8>()), 0..60),
        ) {
            let mut matching = Matching::new(8);
            for mask in &masks {
                let bits = (0..8).filter(|bit| mask >> bit & 1 == 1);
                let cpus: Vec<_> = bits.map(|bit| bit..bit + 1).collect();
                matching.add_set(&cpus);
            }
            let (mut idle, mut matched) = (0u32, 0u32);
            let mut waiting: Vec<(u32, u32)> = masks.iter().map(|mask| (*mask, 0)).collect();
            for (what, which) in steps {
                let (cpu, set) = (u32::from(which % 8), usize::from(which) % masks.len());
                match what % 3 {
                    0 if matching.is_idle(cpu) => matching.remove_cpu(cpu),
                    0 => matching.add_cpu(cpu),
                    1 if waiting[set].1 > 0 => matching.remove_task(set as u32, cpu),
                    _ => matching.add_task(set as u32, cpu),
                }
                match what % 3 {
                    0 => idle ^= 1 << cpu,
                    1 if waiting[set].1 > 0 => waiting[set].1 -= 1,
                    _ => waiting[set].1 += 1,
                }
                for changed in &matching.changed {
                    prop_assert_eq!(matched >> changed.cpu & 1 == 1, !changed.matched);
                    matched ^= 1 << changed.cpu;
                }
                prop_assert_eq!(matching.size(), by_hand(idle, &waiting));
                prop_assert_eq!(matched.count_ones(), matching.size());
                prop_assert_eq!(matched & !idle, 0);
            }
        }
    }
}
