// SPDX-License-Identifier: GPL-2.0-or-later
//! Which value of which map an address lies in, for messages.

use super::{Key, MapId, MapSet, Store};

/// What a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Index(u32),
    /// A key of up to eight bytes, as a number.
    Key(u64),
    LongKey,
    /// The index of a task or a cgroup.
    Owner(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    pub map: MapId,
    pub holder: Holder,
    /// For per-CPU maps: the CPU whose copy it is.
    pub cpu: Option<u32>,
    /// From the start of the value.
    pub offset: usize,
}

impl MapSet {
    /// Whether callbacks share this memory. Records of ring buffers belong to whoever has reserved them.
    pub fn is_shared(&self, address: usize) -> bool {
        let in_record = |store: &Store| match store {
            Store::RingBuf(ring) => ring.holds(address),
            _ => false,
        };
        self.memory.range().contains(&address)
            && !self.maps.iter().any(|entry| in_record(&entry.store))
    }

    pub fn locate(&self, address: usize) -> Option<Located> {
        (0..self.maps.len() as u32).find_map(|map| self.locate_in(MapId(map), address))
    }

    fn locate_in(&self, map: MapId, address: usize) -> Option<Located> {
        let entry = &self.maps[map.0 as usize];
        let (holder, value) = match &entry.store {
            Store::Array(_) | Store::Hash(_) => {
                let element = self.element_at(map, address)?;
                let holder = match element.key {
                    Key::Index(index) => Holder::Index(index),
                    Key::At(key) => match entry.decl.key_size as usize {
                        bytes @ 0..=8 => {
                            let mut number = [0; 8];
                            // SAFETY: the entry begins with its key, and stays where it is between callbacks.
                            unsafe { key.copy_to(number.as_mut_ptr(), bytes) };
                            Holder::Key(u64::from_le_bytes(number))
                        }
                        _ => Holder::LongKey,
                    },
                };
                (holder, element.value as usize)
            }
            Store::TaskStorage(storage) | Store::CgroupStorage(storage) => {
                let (owner, value) = storage.owner_at(address)?;
                (Holder::Owner(owner), value as usize)
            }
            _ => return None,
        };
        let cpu = match &entry.store {
            Store::Array(array) => array.copy_at(address),
            Store::Hash(hash) => hash.copy_at(address - value),
            _ => None,
        };
        let mut offset = address.checked_sub(value)?;
        if let (Store::Hash(_), Some(cpu)) = (&entry.store, cpu) {
            offset -= cpu * (entry.decl.value_size as usize).next_multiple_of(8);
        }
        Some(Located {
            map,
            holder,
            cpu: cpu.map(|cpu| cpu as u32),
            offset,
        })
    }
}
