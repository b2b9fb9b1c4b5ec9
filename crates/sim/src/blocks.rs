// SPDX-License-Identifier: GPL-2.0-or-later
//! A list whose items keep their address, because schedulers hold pointers to them, and of which there may be a million:
//! so they stand in blocks, not each in an allocation of its own.

use std::ops::{Index, IndexMut};

/// Items of a block: a power of two, so that finding one takes a shift; so many that what a block leaves of its last
/// page does not matter.
const BLOCK: usize = 1024;

/// Items are only added.
#[derive(Debug)]
pub struct Blocks<T> {
    /// All full but the last, none ever grows beyond what it was made for.
    blocks: Vec<Vec<T>>,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks { blocks: Vec::new() }
    }
}

impl<T> Blocks<T> {
    pub fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::len);
        self.blocks.len().saturating_sub(1) * BLOCK + last
    }

    /// The new item, at the place where it stays.
    pub fn push(&mut self, item: T) -> &mut T {
        if self.len().is_multiple_of(BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let block = self.blocks.last_mut().expect("there is one with room");
        block.push(item);
        block.last_mut().expect("just pushed")
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        self.blocks.get(index / BLOCK)?.get(index % BLOCK)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.iter_from(0)
    }

    /// Those from this number on, in a time that does not depend on it.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &T> {
        let blocks = self.blocks.get(index / BLOCK..).unwrap_or_default();
        blocks.iter().flatten().skip(index % BLOCK)
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.blocks[index / BLOCK][index % BLOCK]
    }
}

impl<T> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.blocks[index / BLOCK][index % BLOCK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_keeps_its_address() {
        let mut blocks = Blocks::default();
        let mut addresses = Vec::new();
        for i in 0..3 * BLOCK + 1 {
            assert_eq!(blocks.len(), i);
            addresses.push(std::ptr::from_ref(blocks.push(i)));
        }
        for (i, address) in addresses.into_iter().enumerate() {
            assert_eq!((std::ptr::from_ref(&blocks[i]), blocks[i]), (address, i));
            assert_eq!(blocks.get(i), Some(&i));
        }
        assert!(blocks.get(blocks.len()).is_none());
        assert!(blocks.iter().copied().eq(0..blocks.len()));
        for from in [BLOCK - 1, BLOCK, 2 * BLOCK + 7, blocks.len()] {
            assert!(blocks.iter_from(from).copied().eq(from..blocks.len()));
        }
    }
}
