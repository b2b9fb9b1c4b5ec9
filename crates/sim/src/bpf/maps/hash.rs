// SPDX-License-Identifier: GPL-2.0-or-later
//! HASH, LRU_HASH, PERCPU_HASH and the slots of HASH_OF_MAPS.
//!
//! An entry is its key, padded, and its value (a value for each CPU in a per-CPU hash), and never
//! moves. The hash index contains only entry numbers. Iterations go by age of the key in the map,
//! so nothing depends on the hash function or on addresses.

use super::region::{Slab, VALUE_ALIGN};
use super::{BPF_EXIST, BPF_NOEXIST};
use crate::bpf::errno::{E2BIG, EEXIST, EINVAL, ENOENT};
use hashbrown::HashTable;
use std::ops::Range;
use std::rc::Rc;
use tiltyard_native::Memory;

const NONE: u32 = u32::MAX;

pub struct Hash {
    keys: Keys,
    entries: Slab,
    index: HashTable<u32>,
    max_entries: u32,
    value_size: usize,
    /// From the start of an entry to its (first) value.
    value_offset: usize,
    /// From one CPU's value to the next CPU's; 0 when all share one.
    cpu_stride: usize,
    /// Slots by age, `NONE` where one was deleted; and each slot's place in it.
    order: Vec<u32>,
    places: Vec<u32>,
    /// Present in LRU hashes.
    recency: Option<Recency>,
}

/// What the map does when it is full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    Refuse,
    /// The kernel's LRU hash approximates this with reference bits and per-CPU batches of free
    /// nodes and may evict before it is full; here the least recently used entry goes, exactly.
    EvictOldest,
}

impl Hash {
    /// `copies`: 1, or the number of CPUs for a per-CPU hash.
    pub fn new(
        memory: &Rc<Memory>,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
        copies: usize,
        when_full: WhenFull,
    ) -> Hash {
        let value_offset = (key_size as usize).next_multiple_of(VALUE_ALIGN);
        let stride = (value_size as usize).next_multiple_of(VALUE_ALIGN);
        Hash {
            keys: Keys {
                size: key_size as usize,
            },
            entries: Slab::new(memory, value_offset + stride * copies),
            index: HashTable::new(),
            max_entries,
            value_size: value_size as usize,
            value_offset,
            cpu_stride: if copies > 1 { stride } else { 0 },
            order: Vec::new(),
            places: Vec::new(),
            recency: (when_full == WhenFull::EvictOldest).then(Recency::default),
        }
    }

    /// Null if absent.
    ///
    /// # Safety
    /// `key` is readable for the key size.
    #[inline]
    pub unsafe fn lookup(&mut self, key: *const u8, cpu: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let found = unsafe { self.find(self.keys.hash(key), key) };
        let Some(slot) = found else {
            return std::ptr::null_mut();
        };
        if let Some(recency) = &mut self.recency {
            recency.touch(slot);
        }
        self.value(slot, cpu)
    }

    /// Replacing a value makes a new entry, as in the kernel: a holder of the old value still sees
    /// it unchanged. Only per-CPU values are overwritten in place.
    ///
    /// # Safety
    /// `key` and `value` are readable for their sizes.
    pub unsafe fn update(
        &mut self,
        key: *const u8,
        value: *const u8,
        flags: u64,
        cpu: usize,
    ) -> i64 {
        // SAFETY: the caller's promise.
        let hash = unsafe { self.keys.hash(key) };
        // SAFETY: the same.
        let old = unsafe { self.find(hash, key) };
        match (flags, old) {
            (BPF_NOEXIST, Some(_)) => return -EEXIST,
            (BPF_EXIST, None) => return -ENOENT,
            (0 | BPF_NOEXIST | BPF_EXIST, _) => {}
            _ => return -EINVAL,
        }
        if let (Some(slot), true) = (old, self.cpu_stride > 0) {
            // SAFETY: the caller's promise; `slot` is live.
            unsafe { value.copy_to(self.value(slot, cpu), self.value_size) };
            return 0;
        }
        if old.is_none() && self.index.len() == self.max_entries as usize {
            let Some(oldest) = self.recency.as_ref().map(Recency::oldest) else {
                return -E2BIG;
            };
            self.remove(oldest);
        }
        let new = self.entries.take();
        // SAFETY: the caller's promise; the entry has room for both.
        unsafe {
            key.copy_to(self.entries.at(new), self.keys.size);
            value.copy_to(self.value(new, cpu), self.value_size);
        }
        match old {
            Some(old) => self.replace(hash, old, new),
            None => self.insert(hash, new),
        }
        0
    }

    /// # Safety
    /// `key` is readable for the key size.
    pub unsafe fn delete(&mut self, key: *const u8) -> i64 {
        // SAFETY: the caller's promise.
        match unsafe { self.find(self.keys.hash(key), key) } {
            Some(slot) => {
                self.remove(slot);
                0
            }
            None => -ENOENT,
        }
    }

    /// Frees deleted and replaced entries and closes the gaps they left in the order, so no
    /// iteration may be under way.
    pub fn reclaim(&mut self, freed: &mut dyn FnMut(Range<usize>)) {
        self.entries.reclaim(freed);
        /// Number of gaps not worth closing.
        const SLACK: usize = 32;
        if self.order.len() > 2 * self.index.len() + SLACK {
            self.order.retain(|&slot| slot != NONE);
            for (place, &slot) in self.order.iter().enumerate() {
                self.places[slot as usize] = place as u32;
            }
        }
    }

    /// Where an iteration that starts now must end: entries added meanwhile are not visited.
    pub fn order_len(&self) -> usize {
        self.order.len()
    }

    /// The first live entry at or after `place` in the order and before `end`: its place, key and value.
    pub fn entry_from(
        &self,
        place: usize,
        end: usize,
        cpu: usize,
    ) -> Option<(usize, *const u8, *mut u8)> {
        let place = (place..end.min(self.order.len())).find(|&place| self.order[place] != NONE)?;
        let slot = self.order[place];
        Some((place, self.entries.at(slot), self.value(slot, cpu)))
    }

    /// Key and (first) value of the entry that holds this address.
    pub fn element_at(&self, address: usize) -> Option<(*const u8, *mut u8)> {
        let slot = self.entries.slot_at(address)?;
        Some((self.entries.at(slot), self.value(slot, 0)))
    }

    /// For a per-CPU hash: the CPU whose value is this far from the first.
    pub fn copy_at(&self, offset: usize) -> Option<usize> {
        offset.checked_div(self.cpu_stride)
    }

    #[inline]
    fn value(&self, slot: u32, cpu: usize) -> *mut u8 {
        // SAFETY: values lie behind the key, inside the entry.
        unsafe {
            self.entries
                .at(slot)
                .add(self.value_offset + cpu * self.cpu_stride)
        }
    }

    #[inline]
    unsafe fn find(&self, hash: u64, key: *const u8) -> Option<u32> {
        // SAFETY: the caller's promise; slots of the index are live entries.
        self.index
            .find(hash, |&slot| unsafe {
                self.keys.equal(self.entries.at(slot), key)
            })
            .copied()
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let (entries, keys) = (&self.entries, self.keys);
        // SAFETY: slots of the index are live entries.
        self.index
            .insert_unique(hash, slot, |&s| unsafe { keys.hash(entries.at(s)) });
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NONE);
        }
        self.places[slot as usize] = self.order.len() as u32;
        self.order.push(slot);
        if let Some(recency) = &mut self.recency {
            recency.touch(slot);
        }
    }

    /// The key keeps its age.
    fn replace(&mut self, hash: u64, old: u32, new: u32) {
        *self
            .index
            .find_mut(hash, |&slot| slot == old)
            .expect("a live entry is indexed") = new;
        if self.places.len() <= new as usize {
            self.places.resize(new as usize + 1, NONE);
        }
        let place = self.places[old as usize];
        self.places[new as usize] = place;
        self.order[place as usize] = new;
        if let Some(recency) = &mut self.recency {
            recency.remove(old);
            recency.touch(new);
        }
        self.entries.retire(old);
    }

    fn remove(&mut self, slot: u32) {
        // SAFETY: a live entry.
        let hash = unsafe { self.keys.hash(self.entries.at(slot)) };
        let entry = self.index.find_entry(hash, |&s| s == slot);
        entry.expect("a live entry is indexed").remove();
        self.order[self.places[slot as usize] as usize] = NONE;
        if let Some(recency) = &mut self.recency {
            recency.remove(slot);
        }
        self.entries.retire(slot);
    }
}

/// How keys are hashed and compared: as bytes, with shortcuts for common sizes.
#[derive(Clone, Copy)]
struct Keys {
    size: usize,
}

impl Keys {
    /// # Safety
    /// `key` is readable for the key size.
    #[inline]
    unsafe fn hash(self, key: *const u8) -> u64 {
        /// 2^64 divided by the golden ratio, made odd: spreads consecutive numbers.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let fold = |word: u64| {
            let product = u128::from(word ^ SPREAD) * u128::from(SPREAD);
            product as u64 ^ (product >> 64) as u64
        };
        // SAFETY: the caller's promise.
        unsafe {
            match self.size {
                4 => fold(key.cast::<u32>().read_unaligned().into()),
                8 => fold(key.cast::<u64>().read_unaligned()),
                size => std::slice::from_raw_parts(key, size)
                    .chunks(8)
                    .fold(0, |hash, chunk| {
                        let mut word = [0; 8];
                        word[..chunk.len()].copy_from_slice(chunk);
                        fold(hash ^ u64::from_le_bytes(word))
                    }),
            }
        }
    }

    /// # Safety
    /// Both are readable for the key size.
    #[inline]
    unsafe fn equal(self, a: *const u8, b: *const u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self.size {
                4 => a.cast::<u32>().read_unaligned() == b.cast::<u32>().read_unaligned(),
                8 => a.cast::<u64>().read_unaligned() == b.cast::<u64>().read_unaligned(),
                size => std::slice::from_raw_parts(a, size) == std::slice::from_raw_parts(b, size),
            }
        }
    }
}

/// Slots from the least to the most recently used: a doubly linked list by number.
#[derive(Default)]
struct Recency {
    /// `None`: the slot is not in the list.
    links: Vec<Option<Link>>,
    /// Least and most recently used; `None` in an empty list.
    ends: Option<(u32, u32)>,
}

#[derive(Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
}

impl Recency {
    /// The map is full and has room for at least one, so there is one.
    fn oldest(&self) -> u32 {
        self.ends.expect("a full map has entries").0
    }

    fn touch(&mut self, slot: u32) {
        self.remove(slot);
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, None);
        }
        let (oldest, newest) = self.ends.unwrap_or((slot, NONE));
        if let Some(link) = self.link_mut(newest) {
            link.newer = slot;
        }
        self.links[slot as usize] = Some(Link {
            older: newest,
            newer: NONE,
        });
        self.ends = Some((oldest, slot));
    }

    fn remove(&mut self, slot: u32) {
        let Some(Link { older, newer }) = self.link_mut(slot).copied() else {
            return;
        };
        self.links[slot as usize] = None;
        if let Some(link) = self.link_mut(older) {
            link.newer = newer;
        }
        if let Some(link) = self.link_mut(newer) {
            link.older = older;
        }
        self.ends = self.ends.and_then(|(oldest, newest)| {
            let oldest = if oldest == slot { newer } else { oldest };
            let newest = if newest == slot { older } else { newest };
            (oldest != NONE).then_some((oldest, newest))
        });
    }

    fn link_mut(&mut self, slot: u32) -> Option<&mut Link> {
        self.links.get_mut(slot as usize)?.as_mut()
    }
}
