// SPDX-License-Identifier: GPL-2.0-or-later
//! The bpf_cpumask_* kernel functions. Methods have the same names without the prefix.

use super::{CpuMask, CpuSet};
use crate::bpf::errno::EACCES;
use std::collections::BTreeMap;
use tiltyard_native::layout::Cpumask;

/// The masks that a scheduler has created, with their reference counts, and operations on any mask
/// that it holds. CPU numbers come as u32; "none" is returned as the number of CPUs.
///
/// Every `unsafe` method here requires the same: each pointer is a live mask of this machine, and
/// the first one passed to a method that changes a mask was created by [`Cpumasks::create`].
pub struct Cpumasks {
    nr_cpus: u32,
    /// By address. Never iterated.
    live: BTreeMap<usize, Counted>,
    /// Released for good, readable until [`Cpumasks::reclaim`].
    retired: Vec<CpuSet>,
}

struct Counted {
    set: CpuSet,
    references: u32,
}

/// A kernel's verifier prevents this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{call}: the scheduler holds no reference to this mask: a kernel would not load this program"
)]
pub struct BadReference {
    pub call: &'static str,
}

impl Cpumasks {
    pub fn new(nr_cpus: u32) -> Cpumasks {
        Cpumasks {
            nr_cpus,
            live: BTreeMap::new(),
            retired: Vec::new(),
        }
    }

    /// An empty mask with one reference.
    pub fn create(&mut self) -> *mut Cpumask {
        let set = CpuSet::new(self.nr_cpus);
        let mask = set.as_ptr().cast_mut();
        self.live
            .insert(mask as usize, Counted { set, references: 1 });
        mask
    }

    /// Whether the scheduler created it and still holds it.
    pub fn is_own(&self, mask: *const Cpumask) -> bool {
        self.live.contains_key(&(mask as usize))
    }

    /// One more reference.
    pub fn acquire(&mut self, mask: *mut Cpumask) -> Result<*mut Cpumask, BadReference> {
        let bad = BadReference {
            call: "bpf_cpumask_acquire",
        };
        self.live.get_mut(&(mask as usize)).ok_or(bad)?.references += 1;
        Ok(mask)
    }

    /// One less; the mask goes with the last one.
    pub fn release(&mut self, mask: *mut Cpumask) -> Result<(), BadReference> {
        let bad = BadReference {
            call: "bpf_cpumask_release",
        };
        let counted = self.live.get_mut(&(mask as usize)).ok_or(bad)?;
        counted.references -= 1;
        if counted.references == 0 {
            let counted = self.live.remove(&(mask as usize)).expect("just found");
            self.retired.push(counted.set);
        }
        Ok(())
    }

    /// Masks that the scheduler holds.
    #[cfg(test)]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Frees released masks. Call it between callbacks of the scheduler.
    #[inline]
    pub fn reclaim(&mut self) {
        self.retired.clear();
    }

    #[inline]
    unsafe fn mask(&self, mask: *const Cpumask) -> CpuMask {
        // SAFETY: the caller's promise.
        unsafe { CpuMask::from_raw(mask, self.nr_cpus) }
    }

    fn or_none(&self, cpu: Option<u32>) -> u32 {
        cpu.unwrap_or(self.nr_cpus)
    }
}

/// `name(arguments) -> result: expression`, with every mask argument turned into a [`CpuMask`].
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($mask:ident),+; $($arg:ident: $ty:ty),*) -> $ret:ty:
        |$this:ident| $body:expr;)+) => {
        impl Cpumasks {
            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As [`Cpumasks`] says.
                #[inline]
                #[allow(unused_mut, reason = "most operations only read their first mask")]
                pub unsafe fn $name(&self, $($arg: $ty,)* $($mask: *const Cpumask),+) -> $ret {
                    let $this = self;
                    // SAFETY: the caller's promise.
                    $(let mut $mask = unsafe { self.mask($mask) };)+
                    $body
                }
            )+
        }
    };
}

operations! {
    /// First CPU of the mask.
    first(mask;) -> u32: |this| this.or_none(mask.first());
    /// First CPU that is not in the mask.
    first_zero(mask;) -> u32: |this| this.or_none(mask.first_zero());
    /// First CPU of both.
    first_and(a, b;) -> u32: |this| this.or_none(a.first_and(&b));
    /// Ignores a CPU that the machine does not have.
    set_cpu(mask; cpu: u32) -> (): |_this| mask.set(cpu);
    /// Ignores a CPU that the machine does not have.
    clear_cpu(mask; cpu: u32) -> (): |_this| mask.clear(cpu);
    /// False for a CPU that the machine does not have.
    test_cpu(mask; cpu: u32) -> bool: |_this| mask.test(cpu);
    /// Whether it was set.
    test_and_set_cpu(mask; cpu: u32) -> bool: |_this| mask.test_and_set(cpu);
    /// Whether it was set.
    test_and_clear_cpu(mask; cpu: u32) -> bool: |_this| mask.test_and_clear(cpu);
    /// Sets all CPUs of the machine.
    setall(mask;) -> (): |_this| mask.set_all();
    /// Empties the mask.
    clear(mask;) -> (): |_this| mask.clear_all();
    /// `dst` becomes what is in both; returns whether there is any.
    and(dst, a, b;) -> bool: |_this| dst.assign_and(&a, &b);
    /// `dst` becomes what is in either.
    or(dst, a, b;) -> (): |_this| dst.assign_or(&a, &b);
    /// `dst` becomes what is in one only.
    xor(dst, a, b;) -> (): |_this| dst.assign_xor(&a, &b);
    /// `dst` becomes `src`.
    copy(dst, src;) -> (): |_this| dst.copy_from(&src);
    /// Whether both hold the same CPUs.
    equal(a, b;) -> bool: |_this| a == b;
    /// Whether they have a CPU in common.
    intersects(a, b;) -> bool: |_this| a.intersects(&b);
    /// Whether all of `a` is in `b`.
    subset(a, b;) -> bool: |_this| a.is_subset(&b);
    /// Whether no CPU is in it.
    empty(mask;) -> bool: |_this| mask.is_empty();
    /// Whether all CPUs of the machine are in it.
    full(mask;) -> bool: |_this| mask.is_full();
    /// How many CPUs are in it.
    weight(mask;) -> u32: |_this| mask.weight();
    /// The next one after the calling CPU's rotor.
    any_distribute(mask; rotor: &mut u32) -> u32: |this| this.or_none(mask.any_distribute(rotor));
    /// The next one of both after the calling CPU's rotor.
    any_and_distribute(a, b; rotor: &mut u32) -> u32:
        |this| this.or_none(a.any_and_distribute(&b, rotor));
}

impl Cpumasks {
    /// Takes the bits from memory: 0, or -EACCES when `src_bytes` are too few for all CPUs.
    ///
    /// # Safety
    /// As [`Cpumasks`] says, and `src` is readable for `src_bytes`.
    pub unsafe fn populate(&self, dst: *mut Cpumask, src: *const u8, src_bytes: u64) -> i64 {
        if src_bytes.saturating_mul(8) < self.nr_cpus.into() {
            return -EACCES;
        }
        // SAFETY: the caller's promise.
        let mut dst = unsafe { self.mask(dst) };
        dst.clear_all();
        for cpu in 0..self.nr_cpus {
            // SAFETY: within the bytes that were just checked.
            let byte = unsafe { src.add(cpu as usize / 8).read() };
            if byte >> (cpu % 8) & 1 != 0 {
                dst.set(cpu);
            }
        }
        0
    }
}
