// SPDX-License-Identifier: GPL-2.0-or-later

use super::*;
use crate::bpf::errno::EACCES;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[test]
fn cpus_that_the_machine_does_not_have_are_ignored() {
    let mut set = CpuSet::new(3);
    set.set(3);
    set.set(u32::MAX);
    assert!(set.is_empty() && !set.test(3) && !set.test(u32::MAX));
    set.set_all();
    set.clear(64);
    assert!(set.is_full());
    assert_eq!(
        (set.weight(), set.first_zero(), set.next(3)),
        (3, None, None)
    );
}

#[test]
fn any_distribute_goes_round_and_skips_cpu_0_at_first() {
    let set = CpuSet::of(70, [0, 3, 69]);
    let mut rotor = 0;
    let picks: Vec<_> = (0..5)
        .map(|_| set.any_distribute(&mut rotor).unwrap())
        .collect();
    assert_eq!(picks, [3, 69, 0, 3, 69]);
    assert_eq!(CpuSet::new(70).any_distribute(&mut rotor), None);
    assert_eq!(rotor, 69, "an empty mask leaves the rotor alone");
    let other = CpuSet::of(70, [0, 5, 69]);
    assert_eq!(set.any_and_distribute(&other, &mut rotor), Some(0));
    assert_eq!(set.any_and_distribute(&other, &mut rotor), Some(69));
}

#[test]
fn a_scheduler_sees_the_bits_at_an_address_that_never_changes() {
    let mut set = CpuSet::new(130);
    let pointer = set.as_ptr();
    set.set(129);
    let moved = Box::new(set);
    assert_eq!(moved.as_ptr(), pointer);
    // SAFETY: live, three words.
    let words = unsafe { std::slice::from_raw_parts((*pointer).bits, 3) };
    assert_eq!(words, [0, 0, 2]);
}

#[test]
fn shown_as_ranges() {
    let shown = |cpus: &[u32]| CpuSet::of(100, cpus.iter().copied()).to_string();
    assert_eq!(shown(&[]), "");
    assert_eq!(shown(&[0, 1, 2, 3, 8, 63, 64, 99]), "0-3,8,63-64,99");
    assert_eq!(CpuSet::all(8192).to_string(), "0-8191");
    assert_eq!(CpuSet::all(64).weight(), 64);
}

#[test]
fn kfuncs_return_what_the_kernel_returns() {
    let mut masks = Cpumasks::new(10);
    let (a, b) = (masks.create(), masks.create());
    // SAFETY: live masks of this machine.
    unsafe {
        assert_eq!(
            (masks.first(a), masks.first_zero(a), masks.weight(a)),
            (10, 0, 0)
        );
        masks.set_cpu(4, a);
        masks.set_cpu(10, a);
        assert!(masks.test_cpu(4, a) && !masks.test_cpu(10, a) && !masks.empty(a));
        assert!(!masks.test_and_set_cpu(5, a) && masks.test_and_set_cpu(5, a));
        assert!(!masks.test_and_set_cpu(10, a) && !masks.test_and_clear_cpu(10, a));
        masks.setall(b);
        assert!(masks.full(b) && masks.subset(a, b) && !masks.subset(b, a));
        assert_eq!((masks.first_zero(b), masks.first_and(a, b)), (10, 4));
        assert!(
            masks.and(b, b, a) && masks.equal(a, b),
            "operands may be the same mask"
        );
        masks.xor(b, a, b);
        assert!(masks.empty(b) && !masks.intersects(a, b) && !masks.and(b, a, b));
        masks.or(b, a, b);
        masks.clear_cpu(4, b);
        assert_eq!((masks.first(b), masks.weight(b)), (5, 1));
        assert!(masks.test_and_clear_cpu(5, b) && masks.empty(b));
        masks.copy(b, a);
        masks.clear(a);
        let mut rotor = 4;
        assert_eq!(masks.any_distribute(&mut rotor, b), 5);
        assert_eq!(masks.any_and_distribute(&mut rotor, a, b), 10);
        assert_eq!(masks.populate(a, [0xffu8, 0xfe].as_ptr(), 2), 0);
        assert_eq!((masks.weight(a), masks.test_cpu(8, a)), (9, false));
        assert_eq!(masks.populate(a, [0u8].as_ptr(), 1), -EACCES);
    }
}

#[test]
fn masks_live_as_long_as_somebody_refers_to_them() {
    let mut masks = Cpumasks::new(4);
    let mask = masks.create();
    assert_eq!(masks.acquire(mask), Ok(mask));
    assert_eq!(masks.release(mask), Ok(()));
    assert_eq!(masks.live(), 1);
    assert_eq!(masks.release(mask), Ok(()));
    assert_eq!(masks.live(), 0);
    // SAFETY: readable until reclaim.
    assert!(unsafe { masks.empty(mask) });
    assert!(masks.release(mask).is_err() && masks.acquire(mask).is_err());
    masks.reclaim();
    assert!(masks.release(std::ptr::null_mut()).is_err());
}

proptest! {
    #[test]
    fn behaves_as_an_ordered_set(
        nr_cpus in prop_oneof![1u32..=130, Just(8192)],
        a in prop::collection::btree_set(0u32..8300, 0..40),
        b in prop::collection::btree_set(0u32..140, 0..40),
        from in 0u32..140,
    ) {
        let cut = |set: &BTreeSet<u32>| -> BTreeSet<u32> {
            set.iter().copied().filter(|&cpu| cpu < nr_cpus).collect()
        };
        let (x, y) = (CpuSet::of(nr_cpus, a.clone()), CpuSet::of(nr_cpus, b.clone()));
        let (a, b) = (cut(&a), cut(&b));
        let list = |set: &CpuSet| set.iter().collect::<BTreeSet<u32>>();
        prop_assert_eq!(list(&x), a.clone());
        prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(x.weight() as usize, a.len());
        prop_assert_eq!(x.first(), a.first().copied());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.is_full(), a.len() as u32 == nr_cpus);
        prop_assert_eq!(x.first_zero(), (0..nr_cpus).find(|cpu| !a.contains(cpu)));
        prop_assert_eq!(x.next(from), a.range(from..).next().copied());
        prop_assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x == y, a == b);
        prop_assert_eq!(x.first_and(&y), a.intersection(&b).next().copied());
        let mut z = CpuSet::new(nr_cpus);
        prop_assert_eq!(z.assign_and(&x, &y), !a.is_disjoint(&b));
        prop_assert_eq!(list(&z), a.intersection(&b).copied().collect::<BTreeSet<_>>());
        z.assign_or(&x, &y);
        prop_assert_eq!(list(&z), a.union(&b).copied().collect::<BTreeSet<_>>());
        z.assign_xor(&x, &y);
        prop_assert_eq!(list(&z), a.symmetric_difference(&b).copied().collect::<BTreeSet<_>>());
        prop_assert_eq!(z.clone(), z.clone());
    }

    /// Sets, of few words or of more than 64, with any of their CPUs set and cleared in any order.
    #[test]
    fn indexed_sets_find_what_sets_find(
        nr_cpus in prop_oneof![1u32..200, 4000u32..10_000],
        changes in proptest::collection::vec((any::<u32>(), any::<bool>()), 0..60),
        domain in proptest::collection::vec(any::<u32>(), 0..30),
        allowed in proptest::collection::vec(any::<u32>(), 0..30),
        from in any::<u32>(),
    ) {
        let mut set = IndexedSet::new(nr_cpus);
        let mut plain = CpuSet::new(nr_cpus);
        for (cpu, on) in changes {
            let cpu = cpu % nr_cpus;
            if on {
                set.set(cpu);
                plain.set(cpu);
            } else {
                prop_assert_eq!(set.test_and_clear(cpu), plain.test_and_clear(cpu));
            }
        }
        let near = |cpus: Vec<u32>| {
            let mut all = plain.iter().collect::<Vec<_>>();
            all.truncate(cpus.len() / 2);
            CpuSet::of(nr_cpus, cpus.into_iter().map(|cpu| cpu % nr_cpus).chain(all))
        };
        let (domain, allowed) = (near(domain), near(allowed));
        let mut indexed = IndexedSet::new(nr_cpus);
        domain.iter().for_each(|cpu| indexed.set(cpu));
        let from = from % (nr_cpus + 1);
        prop_assert_eq!(&**set, &*plain);
        prop_assert_eq!(set.is_empty(), plain.is_empty());
        prop_assert_eq!(set.next(from), plain.next(from));
        let mut both = CpuSet::new(nr_cpus);
        both.assign_and(&domain, &allowed);
        let (mut rotor, mut same) = (from, from);
        for _ in 0..4 {
            prop_assert_eq!(
                set.any_of(&indexed, &allowed, &mut rotor),
                plain.any_and_distribute(&both, &mut same)
            );
            prop_assert_eq!(rotor, same);
        }
    }
}
