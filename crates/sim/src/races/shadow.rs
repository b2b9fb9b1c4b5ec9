// SPDX-License-Identifier: GPL-2.0-or-later
//! The latest accesses to each byte of memory, in words of eight bytes.

use hashbrown::HashMap;
use std::collections::VecDeque;
use std::ops::Range;

const WORD_BYTES: usize = 8;
const PAGE_BYTES: usize = 4096;
const PAGE_WORDS: usize = PAGE_BYTES / WORD_BYTES;
/// Most pages of scheduler memory that are remembered, 32 MiB: as much as the largest shipped scheduler has. The
/// page that was first touched longest ago is forgotten first.
const PAGES_MOST: usize = 8192;
/// Most accesses that are remembered for a word: four lines for each CPU of a machine with 64 CPUs.
const WORD_MOST: usize = 256;

/// The code that accesses memory, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub cpu: u32,
    /// Source line, as numbered in the object.
    pub place: u32,
    /// The callback, as numbered in the engine.
    pub callback: u16,
    /// The task that the callback is about.
    pub task: u32,
    pub time_ns: u64,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessKind {
    pub write: bool,
    /// Volatile or atomic.
    pub marked: bool,
    /// Atomic, reads and writes.
    pub update: bool,
}

impl AccessKind {
    /// Whether two such accesses to the same bytes need an order: one writes, one is plain.
    fn conflicts(self, other: AccessKind) -> bool {
        (self.write || other.write) && !(self.marked && other.marked)
    }
}

/// An access to some bytes of a word.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub site: Site,
    pub kind: AccessKind,
    /// Step of its CPU.
    pub step: u32,
    /// Bytes of the word, as bits.
    bytes: u8,
}

type Word = Vec<Access>;

/// The memory that was accessed.
#[derive(Debug, Default)]
pub struct Shadow {
    pages: HashMap<usize, Box<[Word]>>,
    /// Numbers of the pages in the order of their first access.
    order: VecDeque<usize>,
    forgotten: bool,
}

/// The bytes of a word between two addresses, as bits.
fn bytes_of(word: usize, range: &Range<usize>) -> u8 {
    let from = range.start.max(word) - word;
    let to = range.end.min(word + WORD_BYTES) - word;
    ((1u16 << to) - (1u16 << from)) as u8
}

fn words(range: &Range<usize>) -> impl Iterator<Item = usize> + use<> {
    let first = range.start / WORD_BYTES * WORD_BYTES;
    (first..range.end).step_by(WORD_BYTES)
}

impl Shadow {
    /// Records an access, and passes to `raced` each earlier one that conflicts with it. `knows`: whether the
    /// accessing CPU knows this step of that CPU.
    pub fn access(
        &mut self,
        range: &Range<usize>,
        access: (Site, AccessKind, u32),
        knows: impl Fn(u32, u32) -> bool,
        mut raced: impl FnMut(usize, &Access),
    ) {
        let (site, kind, step) = access;
        for at in words(range) {
            let new = Access {
                site,
                kind,
                step,
                bytes: bytes_of(at, range),
            };
            let word = self.word(at);
            for old in word.iter() {
                if old.site.cpu != site.cpu
                    && old.bytes & new.bytes != 0
                    && old.kind.conflicts(kind)
                    && !knows(old.site.cpu, old.step)
                {
                    let shared = at + (old.bytes & new.bytes).trailing_zeros() as usize;
                    raced(shared, old);
                }
            }
            // An access that comes later and is not ordered after one of these is not ordered after the new one either,
            // and conflicts with that, too. Lines of the same CPU are kept apart, so that each has its pair.
            let plain_write = kind.write && !kind.marked;
            word.retain(|old| {
                let covered = if old.site.cpu == site.cpu {
                    old.kind == kind && old.site.place == site.place
                } else {
                    plain_write && knows(old.site.cpu, old.step)
                };
                !covered || old.bytes & !new.bytes != 0
            });
            if word.len() == WORD_MOST {
                word.remove(0);
            }
            word.push(new);
        }
    }

    fn word(&mut self, at: usize) -> &mut Word {
        let number = at / PAGE_BYTES;
        if !self.pages.contains_key(&number) {
            if self.order.len() == PAGES_MOST
                && let Some(oldest) = self.order.pop_front()
            {
                self.pages.remove(&oldest);
                self.forgotten = true;
            }
            self.order.push_back(number);
        }
        let page = self
            .pages
            .entry(number)
            .or_insert_with(|| vec![Word::new(); PAGE_WORDS].into_boxed_slice());
        &mut page[at % PAGE_BYTES / WORD_BYTES]
    }

    /// The memory is freed: whoever gets it next shares nothing with earlier owners.
    pub fn forget(&mut self, range: &Range<usize>) {
        for at in words(range) {
            if let Some(page) = self.pages.get_mut(&(at / PAGE_BYTES)) {
                let bytes = bytes_of(at, range);
                page[at % PAGE_BYTES / WORD_BYTES].retain_mut(|old| {
                    old.bytes &= !bytes;
                    old.bytes != 0
                });
            }
        }
    }

    /// Whether there was more memory than is remembered.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten
    }
}
