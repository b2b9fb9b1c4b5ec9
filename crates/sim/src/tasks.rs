// SPDX-License-Identifier: GPL-2.0-or-later
//! All tasks of the machine, by number. A task keeps its address, because schedulers hold pointers to it, and there may
//! be a million: so they stand in blocks, not each in an allocation of its own.

use crate::task::Task;
use std::ops::{Index, IndexMut};

/// Tasks of a block: a power of two, so that finding one takes a shift; so many that what a block leaves of its last
/// page does not matter.
const BLOCK: usize = 1024;

/// Tasks are only added, dead ones stay.
#[derive(Debug, Default)]
pub struct Tasks {
    /// All full but the last, none ever grows beyond what it was made for.
    blocks: Vec<Vec<Task>>,
}

impl Tasks {
    pub fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::len);
        self.blocks.len().saturating_sub(1) * BLOCK + last
    }

    /// The new task, at the place where it stays.
    pub fn push(&mut self, task: Task) -> &mut Task {
        if self.len().is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let block = self.blocks.last_mut().expect("there is one with room");
        block.push(task);
        block.last_mut().expect("just pushed")
    }

    pub fn get(&self, index: usize) -> Option<&Task> {
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Task> {
        self.iter_from(0)
    }

    /// Those from this number on, in a time that does not depend on it.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &Task> {
        let blocks = self.blocks.get(index / BLOCK..).unwrap_or_default();
        blocks.iter().flatten().skip(index % BLOCK)
    }
}

impl Index<usize> for Tasks {
    type Output = Task;

    #[inline]
    fn index(&self, index: usize) -> &Task {
        &self.blocks[index / BLOCK][index % BLOCK]
    }
}

impl IndexMut<usize> for Tasks {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Task {
        &mut self.blocks[index / BLOCK][index % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::testing::task;

    #[test]
    fn a_task_keeps_its_address() {
        let mut tasks = Tasks::default();
        let mut addresses = Vec::new();
        for i in 0..3 * BLOCK + 1 {
            assert_eq!(tasks.len(), i);
            let new = tasks.push(task());
            new.instance = i as u32;
            addresses.push(new.kernel_ptr());
        }
        for (i, address) in addresses.into_iter().enumerate() {
            assert_eq!(tasks[i].kernel_ptr(), address);
            assert_eq!(tasks.get(i).map(|task| task.instance), Some(i as u32));
        }
        assert!(tasks.get(tasks.len()).is_none());
        let instances = tasks.iter().map(|task| task.instance);
        assert!(instances.eq(0..tasks.len() as u32));
        for from in [BLOCK - 1, BLOCK, 2 * BLOCK + 7, tasks.len()] {
            let instances = tasks.iter_from(from).map(|task| task.instance);
            assert!(instances.eq(from as u32..tasks.len() as u32));
        }
    }
}
