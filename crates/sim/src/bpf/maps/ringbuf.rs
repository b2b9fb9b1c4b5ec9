// SPDX-License-Identifier: GPL-2.0-or-later
//! RINGBUF: records from the scheduler to the reader, in the order in which they were reserved. A
//! record that is reserved and not yet submitted holds back those after it.

use super::region::Region;
use super::{MapId, MapSet, Store};
use crate::bpf::errno::{EAGAIN, EINVAL};
use std::ptr::null_mut;
use std::rc::Rc;
use tiltyard_native::Memory;

/// Before each record: its length with the two bits below, and four bytes unused.
const HEADER_BYTES: u64 = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Longest record, the kernel's RINGBUF_MAX_RECORD_SZ.
const RECORD_BYTES_MAX: u64 = u32::MAX as u64 / 4;

const BPF_RB_NO_WAKEUP: u64 = 1 << 0;
const BPF_RB_FORCE_WAKEUP: u64 = 1 << 1;

pub struct RingBuf {
    /// Twice the ring, so that a record that begins before the end of the ring continues past it in
    /// one piece. There is never more than one such record.
    data: Region,
    size_bytes: u64,
    /// Bytes ever reserved and ever consumed.
    producer: u64,
    consumer: u64,
}

impl RingBuf {
    /// `size_bytes` is a power of two.
    pub fn new(memory: &Rc<Memory>, size_bytes: u32) -> Option<RingBuf> {
        let data = Region::zeroed(memory, size_bytes as usize * 2)?;
        Some(RingBuf {
            data,
            size_bytes: size_bytes.into(),
            producer: 0,
            consumer: 0,
        })
    }

    /// Whether this is an address of a record.
    pub fn holds(&self, address: usize) -> bool {
        self.data.offset_of(address).is_some()
    }

    fn header(&self, position: u64) -> *mut u32 {
        self.data
            .at((position & (self.size_bytes - 1)) as usize)
            .cast()
    }

    fn span(record_bytes: u64) -> u64 {
        (record_bytes + HEADER_BYTES).next_multiple_of(HEADER_BYTES)
    }

    /// Room for a record, or null: no room (the ring never fills to its last byte), too long, or flags.
    pub fn reserve(&mut self, size: u64, flags: u64) -> *mut u8 {
        if flags != 0 || size > RECORD_BYTES_MAX {
            return null_mut();
        }
        let end = self.producer + Self::span(size);
        if end - self.consumer >= self.size_bytes {
            return null_mut();
        }
        let header = self.header(self.producer);
        self.producer = end;
        // SAFETY: header and record lie inside the doubled ring, in bytes that no record holds.
        unsafe {
            header.write(size as u32 | BUSY);
            header.cast::<u8>().add(HEADER_BYTES as usize)
        }
    }

    /// Ends a reservation. False when `record` is not one of this ring's open reservations.
    pub fn commit(&mut self, record: *mut u8, discard: bool) -> bool {
        let header_at = (record as usize).wrapping_sub(HEADER_BYTES as usize);
        let Some(offset) = self.data.offset_of(header_at) else {
            return false;
        };
        if offset % HEADER_BYTES as usize != 0 || offset as u64 >= self.size_bytes {
            return false;
        }
        let header = self.data.at(offset).cast::<u32>();
        // SAFETY: an aligned word inside the region.
        let len = unsafe { header.read() };
        if len & BUSY == 0 {
            return false;
        }
        let done = len & !BUSY | if discard { DISCARDED } else { 0 };
        // SAFETY: as above.
        unsafe { header.write(done) };
        true
    }

    /// # Safety
    /// `data` is readable for `size` bytes.
    pub unsafe fn output(&mut self, data: *const u8, size: u64, flags: u64) -> i64 {
        if flags & !(BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP) != 0 {
            return -EINVAL;
        }
        let record = self.reserve(size, 0);
        if record.is_null() {
            return -EAGAIN;
        }
        // SAFETY: the caller's promise; the record has just been reserved.
        unsafe { data.copy_to(record, size as usize) };
        self.commit(record, false);
        0
    }

    /// BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE, BPF_RB_CONS_POS, BPF_RB_PROD_POS; anything else is 0.
    pub fn query(&self, what: u64) -> u64 {
        match what {
            0 => self.producer - self.consumer,
            1 => self.size_bytes,
            2 => self.consumer,
            3 => self.producer,
            _ => 0,
        }
    }

    /// Consumes the next submitted record; `None` at the end or before an open one.
    fn consume(&mut self) -> Option<&[u8]> {
        while self.consumer < self.producer {
            let header = self.header(self.consumer);
            // SAFETY: a header that `reserve` wrote.
            let state = unsafe { header.read() };
            if state & BUSY != 0 {
                return None;
            }
            let len = state & !DISCARDED;
            self.consumer += Self::span(len.into());
            if state & DISCARDED == 0 {
                // SAFETY: a submitted record of this length, overwritten only by new reservations, which borrow the ring again.
                return Some(unsafe {
                    let start = header.cast::<u8>().add(HEADER_BYTES as usize);
                    std::slice::from_raw_parts(start, len as usize)
                });
            }
        }
        None
    }
}

/// The helpers, and the reader's side.
impl MapSet {
    /// bpf_ringbuf_output: 0, -EINVAL (flags) or -EAGAIN (no room).
    ///
    /// # Safety
    /// `data` is readable for `size` bytes.
    pub unsafe fn ringbuf_output(
        &mut self,
        map: MapId,
        data: *const u8,
        size: u64,
        flags: u64,
    ) -> i64 {
        self.unsettled = true;
        match &mut self.maps[map.0 as usize].store {
            // SAFETY: the caller's promise.
            Store::RingBuf(ring) => unsafe { ring.output(data, size, flags) },
            _ => self.misused(map, "bpf_ringbuf_output", -EINVAL),
        }
    }

    /// bpf_ringbuf_reserve: room for a record of `size` bytes, or null.
    pub fn ringbuf_reserve(&mut self, map: MapId, size: u64, flags: u64) -> *mut u8 {
        match &mut self.maps[map.0 as usize].store {
            Store::RingBuf(ring) => ring.reserve(size, flags),
            _ => self.misused(map, "bpf_ringbuf_reserve", null_mut()),
        }
    }

    /// bpf_ringbuf_submit, or with `discard` bpf_ringbuf_discard: the record identifies its ring.
    /// False if it is not an open reservation, which ends the run.
    #[must_use]
    pub fn ringbuf_commit(&mut self, record: *mut u8, discard: bool) -> bool {
        self.unsettled = true;
        self.maps.iter_mut().any(|entry| match &mut entry.store {
            Store::RingBuf(ring) => ring.commit(record, discard),
            _ => false,
        })
    }

    /// bpf_ringbuf_query.
    pub fn ringbuf_query(&mut self, map: MapId, what: u64) -> u64 {
        match &self.maps[map.0 as usize].store {
            Store::RingBuf(ring) => ring.query(what),
            _ => self.misused(map, "bpf_ringbuf_query", 0),
        }
    }

    /// Takes the next submitted record out of a ring. `None` when there is none, or the map is not
    /// a ring. A ring without a reader fills up and accepts no more, as in a kernel.
    #[inline]
    pub fn ringbuf_take(&mut self, map: MapId) -> Option<&[u8]> {
        match &mut self.maps[map.0 as usize].store {
            Store::RingBuf(ring) => ring.consume(),
            _ => None,
        }
    }
}
