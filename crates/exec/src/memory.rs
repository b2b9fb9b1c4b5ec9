// SPDX-License-Identifier: GPL-2.0-or-later
//! Buffers of `mem`, `memrun` and `iorun`.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tiltyard_workload::rng::Pcg;
use tiltyard_workload::{MemKind, Op};

use crate::mapping::Shared;

const WORD_BYTES: u64 = size_of::<u64>() as u64;

/// What a `memrun` needs a buffer to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    size_bytes: u64,
    /// Of the pointers in a chase; `None`: bytes in order.
    stride: Option<(u64, bool)>,
}

impl Shape {
    /// `None`: the op is no `memrun`.
    pub fn of(op: &Op) -> Option<Shape> {
        let Op::MemRun {
            kind,
            size_bytes,
            stride_bytes,
            random,
            ..
        } = op
        else {
            return None;
        };
        Some(Shape {
            size_bytes: *size_bytes,
            stride: (*kind == MemKind::Chase).then_some((*stride_bytes, *random)),
        })
    }
}

/// Memory of one task, or of several in several processes.
pub struct Buffer {
    pub shape: Shape,
    words: Shared<AtomicU64>,
}

impl Buffer {
    /// Filled with pointers where it is for a chase.
    pub fn new(shape: Shape, rng: &mut Pcg) -> io::Result<Buffer> {
        let words = Shared::new((shape.size_bytes / WORD_BYTES).max(1) as usize)?;
        let buffer = Buffer { shape, words };
        match shape.stride {
            None => buffer.words.iter().for_each(|w| w.store(1, Relaxed)),
            Some((stride_bytes, random)) => buffer.link(stride_bytes, random, rng),
        }
        Ok(buffer)
    }

    /// Makes one circle of all places that lie `stride_bytes` apart: each names the next.
    fn link(&self, stride_bytes: u64, random: bool, rng: &mut Pcg) {
        let stride = (stride_bytes / WORD_BYTES).max(1);
        let places = (self.words.len() as u64 / stride).max(1);
        let mut order: Vec<u64> = (0..places).map(|i| i * stride).collect();
        if random {
            for i in (1..order.len()).rev() {
                order.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        let next = order.iter().cycle().skip(1);
        for (at, next) in order.iter().zip(next) {
            self.words[*at as usize].store(*next, Relaxed);
        }
    }

    /// `count` bytes read or written in order, or `count` pointers followed.
    pub fn use_it(&self, kind: MemKind, count: u64) {
        let len = self.words.len();
        let in_order = (0..len).cycle().take((count / WORD_BYTES) as usize);
        match kind {
            MemKind::Read => {
                let sum = in_order.fold(0u64, |s, i| s.wrapping_add(self.words[i].load(Relaxed)));
                black_box(sum);
            }
            MemKind::Write => in_order.for_each(|i| self.words[i].store(i as u64, Relaxed)),
            MemKind::Chase => {
                let follow = |at: u64, _| self.words[at as usize].load(Relaxed);
                black_box((0..count).fold(0, follow));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_workload::rng::Streams;

    #[test]
    fn a_chase_comes_by_every_place_once() {
        for random in [false, true] {
            let shape = Shape {
                size_bytes: 4096,
                stride: Some((64, random)),
            };
            let buffer = Buffer::new(shape, &mut Streams::new(1).stream("chase", 0)).unwrap();
            let mut seen = std::collections::BTreeSet::new();
            let mut at = 0;
            while seen.insert(at) {
                at = buffer.words[at as usize].load(Relaxed);
            }
            assert_eq!((seen.len(), at), (64, 0));
        }
    }
}
