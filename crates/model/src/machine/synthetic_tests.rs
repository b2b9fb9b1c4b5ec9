// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

fn cpus(text: &str) -> Vec<CpuPlace> {
    parse(text).unwrap_or_else(|e| panic!("{e}")).cpus
}

/// (core, llc, node, package) of each CPU.
fn places(text: &str) -> Vec<(u32, u32, u32, u32)> {
    cpus(text)
        .iter()
        .map(|c| (c.core, c.llc, c.node, c.package))
        .collect()
}

#[track_caller]
fn refused(text: &str, character: usize, what: &str) {
    let error = parse(text).expect_err(text).to_string();
    assert!(
        error.contains(&format!("character {character}:")),
        "{error}"
    );
    assert!(error.contains(what), "{error}");
}

#[test]
fn smt_siblings_share_a_core_and_a_cache() {
    let all =
        places("pack:2 [numa(memory=8GiB)] l3:1(size=8MiB) l2:2(size=512KiB) l1d:1 core:1 pu:2");
    assert_eq!(
        all[..4],
        [(0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0)]
    );
    assert_eq!(all[4..6], [(2, 1, 1, 1), (2, 1, 1, 1)]);
}

#[test]
fn the_outermost_data_cache_is_the_last_level() {
    assert_eq!(
        places("pack:1 l2:1 l1d:2 core:1 pu:1"),
        [(0, 0, 0, 0), (1, 0, 0, 0)]
    );
    assert_eq!(
        places("pack:1 l2:2 l1d:1 core:1 pu:1"),
        [(0, 0, 0, 0), (1, 1, 0, 0)]
    );
    assert_eq!(
        places("l3i:1 pack:2 l2:1 pu:1"),
        [(0, 0, 0, 0), (1, 1, 0, 1)],
        "instructions do not count"
    );
}

#[test]
fn without_caches_the_finer_of_package_die_and_node_is_the_last_level() {
    assert_eq!(places("pack:2 core:1 pu:1"), [(0, 0, 0, 0), (1, 1, 0, 1)]);
    assert_eq!(places("pack:1 numa:2 pu:1"), [(0, 0, 0, 0), (1, 1, 1, 0)]);
    assert_eq!(places("pu:2"), [(0, 0, 0, 0), (1, 0, 0, 0)]);
}

#[test]
fn sizes_are_decimal_or_binary_as_hwloc_reads_them() {
    let caches = |text: &str| parse(text).unwrap().caches;
    assert_eq!(caches("l3:1(size=6MB) pu:1").l3_bytes, 6_000_000);
    assert_eq!(caches("l3:1(size=6MiB) pu:1").l3_bytes, 6 << 20);
    let defaults = Caches {
        l1_bytes: 32 << 10,
        l2_bytes: 4 << 20,
        l3_bytes: 16 << 20,
    };
    assert_eq!(caches("l3:1 l2:1 l1:1 pu:1"), defaults);
    assert_eq!(caches("core:1 pu:1"), Caches::default());
}

#[test]
fn bare_numbers_get_the_usual_types() {
    assert_eq!(
        places("2 3 4 5 6"),
        places("package:2 numanode:3 l2cache:4 core:5 pu:6")
    );
    assert_eq!(
        places("[numa] 2 3 4"),
        places("[numa] package:2 core:3 pu:4")
    );
    assert_eq!(places("2 3"), places("numa:2 pu:3"));
}

#[test]
fn cpus_are_numbered_by_indexes() {
    let by_pair = places("pack:2 core:2 pu:2(indexes=2*4:1*2)");
    assert_eq!(by_pair, places("pack:2 core:2 pu:2(indexes=core:pack)"));
    assert_eq!(
        by_pair.iter().map(|p| p.0).collect::<Vec<_>>(),
        [0, 1, 2, 3, 0, 1, 2, 3]
    );
    let swapped = places("pack:2 pu:1(indexes=1,0)");
    assert_eq!(swapped.iter().map(|p| p.3).collect::<Vec<_>>(), [1, 0]);
    let nodes = places("numa:2(indexes=1,0) pu:1");
    assert_eq!(nodes.iter().map(|p| p.2).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn errors_point_at_the_character() {
    refused("pack:2 foo:3", 8, "unknown type \"foo\"");
    refused("pack:2 core:2", 8, "not pu");
    refused("pack:0 pu:1", 6, "0 objects");
    refused("pack:100000 pu:100000", 6, "100000 objects");
    refused("pack:99999999999999999999 pu:1", 6, "too large");
    refused("pack:2 pu", 10, "no count");
    refused("pack:2 pu:", 11, "no number");
    refused("pack:2 [numa pu:1", 13, "no closing ]");
    refused("pack:2 [core] pu:1", 9, "core cannot be attached");
    refused("pack:2 l2:1(size=3X) pu:1", 18, "\"3X\" is no size");
    refused("pack:2(size=3) pu:1", 8, "size= does not belong");
    refused("pack:2 pu:1(colour=3)", 13, "unknown attribute");
    refused("pack:2 pack:2 pu:1", 8, "twice");
    refused("[numa] pack:2 [numa] pu:1", 15, "two memory nodes");
    refused(
        "pack:2 pu:2(indexes=0,1,1,3)",
        21,
        "3 different numbers for 4",
    );
    refused("pack:2 pu:2(indexes=pu:pack)", 21, "no list and no rule");
    refused("2 core:2 3", 1, "without a type");
    refused("1 1 1 1 1 1 1 1 1", 1, "9 levels without types");
    refused("", 1, "without CPUs");
    refused("pu:1 é", 6, "unknown type");
    refused("a\u{a1} pu:1", 1, "unknown type \"a\"");
    refused("numa:60000 pu:1", 1, "60000 memory nodes");
    refused("machine:1 pu:1", 1, "unknown type");
}
