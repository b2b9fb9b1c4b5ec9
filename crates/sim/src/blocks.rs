// SPDX-License-Identifier: GPL-2.0-or-later
//! A list whose items keep their addresses, because schedulers hold pointers to them. There may be a million items, so
//! they are stored in blocks: allocating each one separately would cost more memory.

use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};

/// Items of a block: a power of two, so that finding one takes a shift; so many that what a block leaves of its last
/// page does not matter.
const BLOCK: usize = 1024;

/// Items are only added.
#[derive(Debug)]
pub struct Blocks<T> {
    /// As many as `len` items need; those below `len` are initialised. Arrays, because with a slice each access would
    /// look up its length.
    blocks: Vec<Box<[MaybeUninit<T>; BLOCK]>>,
    len: usize,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Blocks {
            blocks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        for index in 0..self.len {
            // SAFETY: it is below `len`, and nobody uses it afterwards.
            unsafe { self.blocks[index / BLOCK][index % BLOCK].assume_init_drop() };
        }
    }
}

impl<T> Blocks<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The new item, at the place where it stays.
    pub fn push(&mut self, item: T) -> &mut T {
        let index = self.len;
        if index.is_multiple_of(BLOCK) {
            let block = Box::new_uninit_slice(BLOCK).try_into();
            self.blocks.push(block.expect("as long as asked for"));
        }
        let place = self.blocks[index / BLOCK][index % BLOCK].write(item);
        // Only now: what is below `len` is initialised.
        self.len += 1;
        place
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        (index < self.len).then(|| &self[index])
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.iter_from(0)
    }

    /// Those from this number on.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &T> {
        (index..self.len).map(|index| &self[index])
    }
}

impl<T> Index<usize> for Blocks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        assert!(index < self.len, "there is no item {index}");
        // SAFETY: it is below `len`, so its block is there, and it is initialised.
        unsafe {
            let block = self.blocks.get_unchecked(index / BLOCK);
            block[index % BLOCK].assume_init_ref()
        }
    }
}

impl<T> IndexMut<usize> for Blocks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        assert!(index < self.len, "there is no item {index}");
        // SAFETY: it is below `len`, so its block is there, and it is initialised.
        unsafe {
            let block = self.blocks.get_unchecked_mut(index / BLOCK);
            block[index % BLOCK].assume_init_mut()
        }
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

    #[test]
    fn each_item_is_dropped_once() {
        let item = std::rc::Rc::new(());
        let mut blocks = Blocks::default();
        (0..BLOCK + 2).for_each(|_| _ = blocks.push(item.clone()));
        assert_eq!(std::rc::Rc::strong_count(&item), BLOCK + 3);
        drop(blocks);
        assert_eq!(std::rc::Rc::strong_count(&item), 1);
    }

    #[test]
    #[should_panic(expected = "there is no item 1")]
    fn what_is_not_there_cannot_be_had() {
        let mut blocks = Blocks::default();
        blocks.push(7);
        blocks[1] = 8;
    }
}
