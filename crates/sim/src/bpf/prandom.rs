// SPDX-License-Identifier: GPL-2.0-or-later
//! bpf_get_prandom_u32: one generator for each CPU, as in a kernel, so what one CPU's callbacks draw
//! does not depend on the other CPUs.

use super::rng::{Pcg, Streams};

pub struct Prandom {
    cpus: Vec<Pcg>,
}

impl Prandom {
    pub fn new(streams: &Streams, nr_cpus: u32) -> Prandom {
        let stream = |cpu| streams.stream("bpf_get_prandom_u32", u64::from(cpu));
        Prandom {
            cpus: (0..nr_cpus).map(stream).collect(),
        }
    }

    /// The next number of a CPU of the machine.
    #[inline]
    pub fn u32(&mut self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].u32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_draw_from_streams_of_their_own() {
        let streams = Streams::new(1);
        let mut alone = Prandom::new(&streams, 4);
        let expected: Vec<u32> = (0..8).map(|_| alone.u32(2)).collect();
        let mut mixed = Prandom::new(&streams, 4);
        for value in expected {
            assert_ne!(mixed.u32(0), mixed.u32(3));
            assert_eq!(mixed.u32(2), value);
        }
    }
}
