// SPDX-License-Identifier: GPL-2.0-or-later
//! Maps against simple models, over random calls.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

proptest! {
    #[test]
    fn hash_behaves_as_an_insertion_ordered_list(
        steps in prop::collection::vec((0u8..4, 0u32..12, any::<u64>(), 0u64..4), 1..400),
    ) {
        const MAX: usize = 6;
        let mut set = one(MapKind::Hash, 4, 8, MAX as u32);
        let mut model: Vec<(u32, u64)> = Vec::new();
        for (step, key, value, flags) in steps {
            let place = model.iter().position(|entry| entry.0 == key);
            match step {
                0 | 1 => {
                    let expected = match (flags, place) {
                        (3, _) => -EINVAL,
                        (BPF_NOEXIST, Some(_)) => -EEXIST,
                        (BPF_EXIST, None) => -ENOENT,
                        (_, None) if model.len() == MAX => -E2BIG,
                        _ => 0,
                    };
                    prop_assert_eq!(set.set(key, value, flags, 0), expected);
                    match place {
                        _ if expected != 0 => {}
                        Some(place) => model[place].1 = value,
                        None => model.push((key, value)),
                    }
                }
                2 => {
                    prop_assert_eq!(set.del(key), if place.is_some() { 0 } else { -ENOENT });
                    place.map(|place| model.remove(place));
                }
                _ => set.reclaim(|_| {}),
            }
            prop_assert_eq!(set.get(key, 0), model.iter().find(|e| e.0 == key).map(|e| e.1));
            prop_assert_eq!(set.keys(), model.iter().map(|e| e.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lru_hash_behaves_as_a_list_by_use(
        steps in prop::collection::vec((0u8..4, 0u32..12), 1..400),
    ) {
        const MAX: usize = 6;
        let mut set = one(MapKind::LruHash, 4, 8, MAX as u32);
        let mut by_use: Vec<u32> = Vec::new();
        for (step, key) in steps {
            let place = by_use.iter().position(|&k| k == key);
            place.map(|place| by_use.remove(place));
            match step {
                0 => prop_assert_eq!(set.del(key), if place.is_some() { 0 } else { -ENOENT }),
                1 => {
                    prop_assert_eq!(set.get(key, 0).is_some(), place.is_some());
                    by_use.extend(place.map(|_| key));
                }
                _ => {
                    prop_assert_eq!(set.set(key, 0, 0, 0), 0);
                    if by_use.len() == MAX {
                        by_use.remove(0);
                    }
                    by_use.push(key);
                }
            }
            let (mut held, mut expected) = (set.keys(), by_use.clone());
            held.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(held, expected);
        }
    }

    #[test]
    fn queue_and_stack_behave_as_a_deque(
        lifo in any::<bool>(),
        steps in prop::collection::vec((0u8..4, any::<u64>(), 0u64..4), 1..200),
    ) {
        const MAX: usize = 5;
        let mut set = one(if lifo { MapKind::Stack } else { MapKind::Queue }, 0, 8, MAX as u32);
        let mut model: VecDeque<u64> = VecDeque::new();
        for (step, value, flags) in steps {
            let next = if lifo { model.back() } else { model.front() }.copied();
            let found = (if next.is_some() { 0 } else { -ENOENT }, next.unwrap_or(0));
            match step {
                0 => {
                    prop_assert_eq!(set.pop_number(), found);
                    if lifo { model.pop_back() } else { model.pop_front() };
                }
                1 => prop_assert_eq!(set.peek_number(), found),
                _ => {
                    let full = model.len() == MAX;
                    let expected = match flags {
                        1 | 3 => -EINVAL,
                        0 if full => -E2BIG,
                        _ => 0,
                    };
                    prop_assert_eq!(set.push_number(value, flags), expected);
                    if expected == 0 {
                        if full {
                            model.pop_front();
                        }
                        model.push_back(value);
                    }
                }
            }
        }
    }
}
