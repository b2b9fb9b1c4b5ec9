// SPDX-License-Identifier: GPL-2.0-or-later
//! The maps of one scheduler, with the return values of the kernel's helpers.
//!
//! Code names a map by the address of its variable. [`MapSet::bind`] writes the map's id + 1 into
//! the first 8 bytes there, so [`MapSet::id_of`] is one load. Values are handed out as raw pointers
//! that stay valid while the entry lives; after a delete or a replacement the old value stays
//! readable until [`MapSet::reclaim`], which the engine calls between callbacks and which models the
//! end of an RCU grace period.
//!
//! Calls that a kernel's verifier would reject (popping from an array, for example) do nothing,
//! return null or -EINVAL, and are kept for [`MapSet::take_misuse`]: the engine ends the run with
//! them.
//!
//! Not known here, because a map's declaration does not include it: which bytes of a value are a timer,
//! a lock or a kptr. So BPF_F_LOCK is a misuse, an update in place (arrays, per-CPU values)
//! overwrites such bytes where a kernel would skip them, and a kptr in a deleted value is not
//! released.

mod array;
mod hash;
pub mod locate;
mod queue;
mod region;
mod ringbuf;
mod rules;
mod storage;

use super::errno::EINVAL;
use array::Array;
use hash::{Hash, WhenFull};
use queue::Queue;
use ringbuf::RingBuf;
use std::ops::Range;
use std::ptr::null_mut;
use std::rc::Rc;
use storage::Storage;
use tiltyard_native::Memory;
use tiltyard_native::object::{Map, MapKind};

pub use rules::MapError;
pub(crate) use storage::BPF_LOCAL_STORAGE_GET_F_CREATE;

/// Flags of updates. 0 (BPF_ANY): create or replace.
pub const BPF_NOEXIST: u64 = 1;
pub const BPF_EXIST: u64 = 2;
/// Take the value's bpf_spin_lock.
pub const BPF_F_LOCK: u64 = 4;

/// Index of a map in its set, which is its index in the object's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapId(pub u32);

/// A use of a map that a kernel's verifier would have rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("map '{map}': {call} on a {kind} map: a kernel would not load this program")]
pub struct Misuse {
    pub map: String,
    pub kind: &'static str,
    pub call: &'static str,
}

/// An entry as iterations and timers see it.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    pub key: Key,
    pub value: *mut u8,
}

/// Arrays do not store their keys.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    Index(u32),
    At(*const u8),
}

impl Key {
    /// What a callback gets: for an index, the address of the number in this `Key`.
    pub fn as_ptr(&self) -> *const u8 {
        match self {
            Key::Index(index) => (&raw const *index).cast(),
            Key::At(key) => *key,
        }
    }
}

/// Position of a bpf_for_each_map_elem.
#[derive(Clone, Copy, Debug)]
pub struct MapCursor {
    next: usize,
    end: usize,
}

enum Store {
    Array(Array),
    Hash(Hash),
    Queue(Queue),
    RingBuf(RingBuf),
    /// Values are the inner map's id + 1, or 0.
    ArrayOfMaps(Array),
    HashOfMaps(Hash),
    TaskStorage(Storage),
    CgroupStorage(Storage),
}

struct Entry {
    store: Store,
    decl: Map,
    /// Address of the map's variable, null until bound.
    variable: *mut u8,
}

/// Storage of all maps of one scheduler instance.
pub struct MapSet {
    maps: Vec<Entry>,
    memory: Rc<Memory>,
    nr_cpus: usize,
    /// Maps with retired entries.
    dirty: Vec<MapId>,
    misuse: Option<Misuse>,
    /// There may be something to process once the callback has returned: retired entries, records, misuse.
    unsettled: bool,
}

// SAFETY: a set owns its memory; the variables it points to belong to the same simulation.
unsafe impl Send for MapSet {}

impl MapSet {
    /// Empty maps as declared. Errors name the map and what it requests that does not exist.
    pub fn new(decls: &[Map], nr_cpus: usize) -> Result<MapSet, MapError> {
        let mut set = MapSet {
            maps: Vec::with_capacity(decls.len()),
            memory: Rc::new(Memory::reserve().ok_or(MapError::NoAddresses)?),
            nr_cpus,
            dirty: Vec::new(),
            misuse: None,
            unsettled: false,
        };
        for decl in decls {
            set.push(decl)?;
        }
        for (outer, decl) in decls.iter().enumerate() {
            set.fill_nested(MapId(outer as u32), &decl.values)?;
        }
        Ok(set)
    }

    fn push(&mut self, decl: &Map) -> Result<MapId, MapError> {
        rules::check(decl)?;
        let store =
            new_store(&self.memory, decl, self.nr_cpus).ok_or_else(|| MapError::no_memory(decl))?;
        self.maps.push(Entry {
            store,
            decl: decl.clone(),
            variable: null_mut(),
        });
        Ok(MapId(self.maps.len() as u32 - 1))
    }

    /// Declared `values` are keyed by their index, as in libbpf.
    fn fill_nested(&mut self, outer: MapId, values: &[Option<usize>]) -> Result<(), MapError> {
        let short_keys = self.decl(outer).key_size == 4;
        for (index, inner) in values.iter().enumerate() {
            let Some(inner) = inner else { continue };
            let (key, inner) = (index as u32, MapId(*inner as u32));
            // SAFETY: the key has the 4 bytes that the map's keys have.
            let set = short_keys
                && unsafe { self.set_inner(outer, (&raw const key).cast(), Some(inner)) } == 0;
            if !set {
                return Err(MapError::inner(&self.maps[outer.0 as usize].decl, index));
            }
        }
        Ok(())
    }

    /// Where values are: a scheduler may write here.
    pub fn memory(&self) -> Range<usize> {
        self.memory.range()
    }

    /// Makes `variable` the address by which code names this map.
    ///
    /// # Safety
    /// `variable` points to at least 8 writable bytes, aligned to 8, that outlive the set.
    pub unsafe fn bind(&mut self, map: MapId, variable: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { variable.cast::<u64>().write(u64::from(map.0) + 1) };
        self.maps[map.0 as usize].variable = variable;
    }

    /// The map that a bound variable represents; `None` for anything else.
    ///
    /// # Safety
    /// `variable` is readable for 8 bytes, or null.
    #[inline]
    pub unsafe fn id_of(&self, variable: *const u8) -> Option<MapId> {
        if variable.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let id = unsafe { variable.cast::<u64>().read_unaligned() }.wrapping_sub(1);
        (id < self.maps.len() as u64).then_some(MapId(id as u32))
    }

    /// The address by which code names this map; null before [`MapSet::bind`].
    #[inline]
    pub fn variable(&self, map: MapId) -> *mut u8 {
        self.maps[map.0 as usize].variable
    }

    pub fn find(&self, name: &str) -> Option<MapId> {
        self.maps
            .iter()
            .position(|entry| entry.decl.name == name)
            .map(|i| MapId(i as u32))
    }

    /// The declaration.
    pub fn decl(&self, map: MapId) -> &Map {
        &self.maps[map.0 as usize].decl
    }

    /// The same as [`MapSet::lookup`] in the array whose variable this is; `None` for other maps.
    ///
    /// # Safety
    /// As [`MapSet::id_of`] and [`MapSet::lookup`].
    #[inline(always)]
    pub unsafe fn array_value(
        &self,
        variable: *const u8,
        key: *const u8,
        cpu: usize,
    ) -> Option<*mut u8> {
        // SAFETY: the caller's promise.
        let id = unsafe { self.id_of(variable) }?;
        let Store::Array(array) = &self.maps[id.0 as usize].store else {
            return None;
        };
        // SAFETY: the caller's promise.
        Some(array.lookup(unsafe { key.cast::<u32>().read_unaligned() }, cpu))
    }

    /// bpf_map_lookup_elem: the value (of this CPU, in per-CPU maps), or null. In a map-in-map: the
    /// variable of the inner map.
    ///
    /// # Safety
    /// `key` is readable for the key size; `cpu` is a CPU of the machine.
    #[inline]
    pub unsafe fn lookup(&mut self, map: MapId, key: *const u8, cpu: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            match &mut self.maps[map.0 as usize].store {
                Store::Array(array) => array.lookup(key.cast::<u32>().read_unaligned(), cpu),
                Store::Hash(hash) => hash.lookup(key, cpu),
                Store::ArrayOfMaps(array) => {
                    let slot = array.lookup(key.cast::<u32>().read_unaligned(), 0);
                    self.variable_in(slot)
                }
                Store::HashOfMaps(hash) => {
                    let slot = hash.lookup(key, 0);
                    self.variable_in(slot)
                }
                _ => self.misused(map, "bpf_map_lookup_elem", null_mut()),
            }
        }
    }

    /// bpf_map_lookup_percpu_elem: any CPU's value; null for a CPU that the machine does not have.
    ///
    /// # Safety
    /// `key` is readable for the key size.
    pub unsafe fn lookup_percpu(&mut self, map: MapId, key: *const u8, cpu: u32) -> *mut u8 {
        let entry = &self.maps[map.0 as usize];
        if !matches!(entry.decl.kind, MapKind::PerCpuArray | MapKind::PerCpuHash) {
            return self.misused(map, "bpf_map_lookup_percpu_elem", null_mut());
        }
        if cpu as usize >= self.nr_cpus {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { self.lookup(map, key, cpu as usize) }
    }

    /// bpf_map_update_elem: 0, -EINVAL (flags), -EEXIST, -ENOENT or -E2BIG. In per-CPU maps it sets
    /// this CPU's value; a new key's other values are zero.
    ///
    /// # Safety
    /// `key` and `value` are readable for their sizes; `cpu` is a CPU of the machine.
    pub unsafe fn update(
        &mut self,
        map: MapId,
        key: *const u8,
        value: *const u8,
        flags: u64,
        cpu: usize,
    ) -> i64 {
        if flags & BPF_F_LOCK != 0 {
            return self.misused(map, "bpf_map_update_elem with BPF_F_LOCK", -EINVAL);
        }
        // SAFETY: the caller's promise.
        unsafe {
            match &mut self.maps[map.0 as usize].store {
                Store::Array(array) => {
                    array.update(key.cast::<u32>().read_unaligned(), value, flags, cpu)
                }
                Store::Hash(hash) => {
                    let result = hash.update(key, value, flags, cpu);
                    self.mark_dirty(map);
                    result
                }
                _ => self.misused(map, "bpf_map_update_elem", -EINVAL),
            }
        }
    }

    /// bpf_map_delete_elem: 0 or -ENOENT; arrays never lose an element: -EINVAL.
    ///
    /// # Safety
    /// `key` is readable for the key size.
    pub unsafe fn delete(&mut self, map: MapId, key: *const u8) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            Store::Array(_) => -EINVAL,
            Store::Hash(hash) => {
                // SAFETY: the caller's promise.
                let result = unsafe { hash.delete(key) };
                self.mark_dirty(map);
                result
            }
            _ => self.misused(map, "bpf_map_delete_elem", -EINVAL),
        }
    }

    /// bpf_map_push_elem: 0, -EINVAL (flags) or -E2BIG; BPF_EXIST drops the oldest of a full map.
    ///
    /// # Safety
    /// `value` is readable for the value size.
    pub unsafe fn push_elem(&mut self, map: MapId, value: *const u8, flags: u64) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::Queue(queue) => unsafe { queue.push(value, flags) },
            _ => self.misused(map, "bpf_map_push_elem", -EINVAL),
        }
    }

    /// bpf_map_pop_elem: 0, or -ENOENT and a zeroed `value`.
    ///
    /// # Safety
    /// `value` is writable for the value size.
    pub unsafe fn pop_elem(&mut self, map: MapId, value: *mut u8) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::Queue(queue) => unsafe { queue.pop(value) },
            _ => self.misused(map, "bpf_map_pop_elem", -EINVAL),
        }
    }

    /// bpf_map_peek_elem: as pop, without taking.
    ///
    /// # Safety
    /// `value` is writable for the value size.
    pub unsafe fn peek_elem(&mut self, map: MapId, value: *mut u8) -> i64 {
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::Queue(queue) => unsafe { queue.peek(value) },
            _ => self.misused(map, "bpf_map_peek_elem", -EINVAL),
        }
    }

    /// Begins a bpf_for_each_map_elem: arrays by index, hashes by age of the key. Entries added
    /// during the iteration are not visited, deleted ones no more. The caller passes each element
    /// to the callback, stops when it returns 1, and returns the number of calls; flags other than
    /// 0 are its -EINVAL.
    pub fn cursor(&mut self, map: MapId) -> Option<MapCursor> {
        let end = match &self.maps[map.0 as usize].store {
            Store::Array(array) => array.max_entries() as usize,
            Store::Hash(hash) => hash.order_len(),
            _ => return self.misused(map, "bpf_for_each_map_elem", None),
        };
        Some(MapCursor { next: 0, end })
    }

    /// The next element, with this CPU's value in per-CPU maps.
    pub fn advance(&self, map: MapId, cursor: &mut MapCursor, cpu: usize) -> Option<Element> {
        let (place, element) = match &self.maps[map.0 as usize].store {
            Store::Array(array) if cursor.next < cursor.end => {
                let index = cursor.next as u32;
                (
                    cursor.next,
                    Element {
                        key: Key::Index(index),
                        value: array.lookup(index, cpu),
                    },
                )
            }
            Store::Hash(hash) => {
                let (place, key, value) = hash.entry_from(cursor.next, cursor.end, cpu)?;
                (
                    place,
                    Element {
                        key: Key::At(key),
                        value,
                    },
                )
            }
            _ => return None,
        };
        cursor.next = place + 1;
        Some(element)
    }

    /// The element whose value holds this address: what a timer's callback is called with.
    pub fn element_at(&self, map: MapId, address: usize) -> Option<Element> {
        match &self.maps[map.0 as usize].store {
            Store::Array(array) => {
                let (index, value) = array.element_at(address)?;
                Some(Element {
                    key: Key::Index(index),
                    value,
                })
            }
            Store::Hash(hash) => {
                let (key, value) = hash.element_at(address)?;
                Some(Element {
                    key: Key::At(key),
                    value,
                })
            }
            _ => None,
        }
    }

    /// Inserts an inner map into a map-in-map, or removes it; only user space does that. -EINVAL if
    /// the inner map does not match the template, else as an update or a delete.
    ///
    /// # Safety
    /// `key` is readable for the key size.
    pub unsafe fn set_inner(&mut self, outer: MapId, key: *const u8, inner: Option<MapId>) -> i64 {
        if let Some(inner) = inner
            && !self.fits_template(outer, inner)
        {
            return -EINVAL;
        }
        let slot = inner.map_or(0, |inner| u64::from(inner.0) + 1);
        let value = (&raw const slot).cast();
        // SAFETY: the caller's promise; slots are 8 bytes.
        let result = unsafe {
            match (&mut self.maps[outer.0 as usize].store, inner) {
                (Store::ArrayOfMaps(array), _) => {
                    array.update(key.cast::<u32>().read_unaligned(), value, 0, 0)
                }
                (Store::HashOfMaps(hash), Some(_)) => hash.update(key, value, 0, 0),
                (Store::HashOfMaps(hash), None) => hash.delete(key),
                _ => -EINVAL,
            }
        };
        self.mark_dirty(outer);
        result
    }

    fn fits_template(&self, outer: MapId, inner: MapId) -> bool {
        let Some(inner) = self.maps.get(inner.0 as usize).map(|entry| &entry.decl) else {
            return false;
        };
        let template = self.maps[outer.0 as usize].decl.inner;
        match template.and_then(|i| self.maps.get(i)) {
            Some(template) => rules::alike(&template.decl, inner),
            None => true,
        }
    }

    /// # Safety
    /// `slot` is null or a slot of a map-in-map.
    unsafe fn variable_in(&self, slot: *const u8) -> *mut u8 {
        // SAFETY: slots hold an id + 1, as an id_of variable does.
        match unsafe { self.id_of(slot) } {
            Some(inner) => self.variable(inner),
            None => null_mut(),
        }
    }

    /// Frees deleted and replaced entries. `freed` gets their addresses: timers there are
    /// cancelled. Call it between callbacks of the scheduler, never during one.
    pub fn reclaim(&mut self, mut freed: impl FnMut(Range<usize>)) {
        while let Some(map) = self.dirty.pop() {
            match &mut self.maps[map.0 as usize].store {
                Store::Hash(hash) | Store::HashOfMaps(hash) => hash.reclaim(&mut freed),
                Store::TaskStorage(storage) | Store::CgroupStorage(storage) => {
                    storage.reclaim(&mut freed);
                }
                _ => {}
            }
        }
    }

    /// Whether anything has accumulated since the last call that [`MapSet::reclaim`], [`MapSet::take_misuse`] or
    /// [`MapSet::ringbuf_take`] would find. Usually there is nothing, and this is one load.
    #[inline]
    pub fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.unsettled)
    }

    fn mark_dirty(&mut self, map: MapId) {
        self.unsettled = true;
        if !self.dirty.contains(&map) {
            self.dirty.push(map);
        }
    }

    /// The first misuse since the last call. Call it after each callback.
    pub fn take_misuse(&mut self) -> Option<Misuse> {
        self.misuse.take()
    }

    #[cold]
    fn misused<T>(&mut self, map: MapId, call: &'static str, result: T) -> T {
        let decl = &self.maps[map.0 as usize].decl;
        let (map, kind) = (decl.name.clone(), rules::kind_name(decl.kind));
        self.unsettled = true;
        self.misuse.get_or_insert(Misuse { map, kind, call });
        result
    }
}

/// `None`: not enough memory, or a kind that `rules::check` rejects.
fn new_store(memory: &Rc<Memory>, decl: &Map, nr_cpus: usize) -> Option<Store> {
    let (key_size, value_size, max_entries) = (decl.key_size, decl.value_size, decl.max_entries);
    let hash = |value_size, copies, when_full| {
        Hash::new(memory, key_size, value_size, max_entries, copies, when_full)
    };
    /// An id + 1.
    const SLOT_BYTES: u32 = 8;
    Some(match decl.kind {
        MapKind::Array => Store::Array(Array::new(memory, value_size, max_entries, 1)?),
        MapKind::PerCpuArray => Store::Array(Array::new(memory, value_size, max_entries, nr_cpus)?),
        MapKind::ArrayOfMaps => Store::ArrayOfMaps(Array::new(memory, SLOT_BYTES, max_entries, 1)?),
        MapKind::Hash => Store::Hash(hash(value_size, 1, WhenFull::Refuse)),
        MapKind::LruHash => Store::Hash(hash(value_size, 1, WhenFull::EvictOldest)),
        MapKind::PerCpuHash => Store::Hash(hash(value_size, nr_cpus, WhenFull::Refuse)),
        MapKind::HashOfMaps => Store::HashOfMaps(hash(SLOT_BYTES, 1, WhenFull::Refuse)),
        MapKind::Queue => Store::Queue(Queue::new(memory, value_size, max_entries, false)?),
        MapKind::Stack => Store::Queue(Queue::new(memory, value_size, max_entries, true)?),
        MapKind::RingBuf => Store::RingBuf(RingBuf::new(memory, rules::ring_bytes(max_entries)?)?),
        MapKind::TaskStorage => Store::TaskStorage(Storage::new(memory, value_size)),
        MapKind::CgroupStorage => Store::CgroupStorage(Storage::new(memory, value_size)),
        MapKind::BpfArena => return None,
    })
}

#[cfg(test)]
mod tests;
