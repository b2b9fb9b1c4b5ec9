// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for map values: zero-filled, at addresses that never change.

use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use tiltyard_native::Memory;

/// The kernel rounds value sizes up to this, so every value is aligned to it.
pub const VALUE_ALIGN: usize = 8;

/// A block of zero-filled memory, freed with all others of the scheduler.
///
/// Raw on purpose: schedulers keep pointers into it, so no Rust reference to its contents may exist
/// while a scheduler runs.
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    _memory: Rc<Memory>,
}

// SAFETY: a region owns its memory alone; the count of owners stays within the set of maps, which moves as a whole.
unsafe impl Send for Region {}

impl Region {
    /// `None` if there is not enough memory. Pages cost nothing until they are touched.
    pub fn zeroed(memory: &Rc<Memory>, bytes: usize) -> Option<Region> {
        let bytes = bytes.max(VALUE_ALIGN);
        Some(Region {
            start: memory.take(bytes)?,
            bytes,
            _memory: memory.clone(),
        })
    }

    /// Address of the byte at `offset_bytes`, which is inside the region.
    #[inline]
    pub fn at(&self, offset_bytes: usize) -> *mut u8 {
        debug_assert!(offset_bytes < self.bytes);
        self.start.as_ptr().wrapping_add(offset_bytes)
    }

    /// Where in the region an address lies, in bytes from its start.
    pub fn offset_of(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start.as_ptr() as usize)?;
        (offset < self.bytes).then_some(offset)
    }
}

/// Entries of one size in blocks that are added as needed. A retired entry stays readable until
/// [`Slab::reclaim`], as memory freed under RCU does.
pub struct Slab {
    memory: Rc<Memory>,
    entry_bytes: usize,
    /// log2 of the entries in a block.
    block_shift: u32,
    blocks: Vec<Region>,
    /// Slots handed out at least once.
    used: u32,
    free: Vec<u32>,
    retired: Vec<u32>,
}

impl Slab {
    /// Small enough that a map with two entries stays small, large enough that blocks are few.
    const BLOCK_BYTES: usize = 16 << 10;

    pub fn new(memory: &Rc<Memory>, entry_bytes: usize) -> Slab {
        let per_block = (Self::BLOCK_BYTES / entry_bytes).max(1);
        Slab {
            memory: memory.clone(),
            entry_bytes,
            block_shift: per_block.ilog2(),
            blocks: Vec::new(),
            used: 0,
            free: Vec::new(),
            retired: Vec::new(),
        }
    }

    /// A zero-filled entry; aborts as any allocation does when the machine is out of memory.
    pub fn take(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            // SAFETY: a free slot's whole entry has no owner.
            unsafe { self.at(slot).write_bytes(0, self.entry_bytes) };
            return slot;
        }
        let slot = self.used;
        if slot as usize >> self.block_shift == self.blocks.len() {
            let bytes = self.entry_bytes << self.block_shift;
            let block =
                Region::zeroed(&self.memory, bytes).expect("memory for a block of map entries");
            self.blocks.push(block);
        }
        self.used += 1;
        slot
    }

    #[inline]
    pub fn at(&self, slot: u32) -> *mut u8 {
        let in_block = slot as usize & ((1 << self.block_shift) - 1);
        self.blocks[slot as usize >> self.block_shift].at(in_block * self.entry_bytes)
    }

    /// The slot whose entry holds this address, whether live, retired or free.
    pub fn slot_at(&self, address: usize) -> Option<u32> {
        self.blocks.iter().enumerate().find_map(|(i, block)| {
            let in_block = block.offset_of(address)? / self.entry_bytes;
            Some(((i << self.block_shift) + in_block) as u32)
        })
    }

    pub fn retire(&mut self, slot: u32) {
        self.retired.push(slot);
    }

    /// Frees what was retired, passing the addresses to `freed`.
    pub fn reclaim(&mut self, freed: &mut dyn FnMut(Range<usize>)) {
        for slot in std::mem::take(&mut self.retired) {
            let start = self.at(slot) as usize;
            freed(start..start + self.entry_bytes);
            self.free.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_are_reused_only_after_reclaim() {
        let mut slab = Slab::new(&Rc::new(Memory::reserve().unwrap()), 24);
        let slots: Vec<u32> = (0..5000).map(|_| slab.take()).collect();
        let first = slab.at(slots[0]);
        // SAFETY: live entry of 24 bytes.
        unsafe { first.write(7) };
        slab.retire(slots[0]);
        assert_ne!(slab.take(), slots[0]);
        // SAFETY: retired entries stay readable.
        assert_eq!(unsafe { first.read() }, 7);
        let mut freed = Vec::new();
        slab.reclaim(&mut |span| freed.push((span.start, span.len())));
        assert_eq!(freed, [(first as usize, 24)]);
        assert_eq!(slab.take(), slots[0]);
        // SAFETY: live again.
        assert_eq!(unsafe { first.read() }, 0, "zeroed on reuse");
        assert_eq!(
            slab.slot_at(slab.at(slots[4321]) as usize + 23),
            Some(slots[4321])
        );
        assert_eq!(slab.slot_at(8), None);
    }
}
