// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

/// Two packages of one core with two threads each; the second package's node is number 3.
const TWO_PACKAGES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0"/>
      <object type="L2Cache" cache_size="524288" cache_type="0">
        <object type="L1iCache" cache_size="999" cache_type="2">
        <object type="L1Cache" cache_size="65536" cache_type="1">
          <object type="Core" os_index="0">
            <object type="PU" os_index="0"/><object type="PU" os_index="2"/>
          </object>
        </object>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="MemCache"><object type="NUMANode" os_index="3"/></object>
      <object type="Core" os_index="1">
        <object type="PU" os_index="1"/><object type="PU" os_index="5"/>
      </object>
    </object>
    <object type="Bridge"><object type="PCIDev"/></object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="1">0 </indexes><indexes length="1">3</indexes>
    <u64values length="4">10 21 20 10</u64values>
  </distances2>
</topology>"#;

#[track_caller]
fn refused(from: &str, to: &str, place: &str, what: &str) {
    assert!(TWO_PACKAGES.contains(from), "{from}");
    let error = parse(&TWO_PACKAGES.replace(from, to), "m.xml")
        .expect_err(to)
        .to_string();
    assert!(error.starts_with(&format!("m.xml:{place}: ")), "{error}");
    assert!(error.contains(what), "{error}");
}

#[test]
fn cpus_are_numbered_in_the_order_of_the_operating_system() {
    let topology = parse(TWO_PACKAGES, "m.xml").unwrap();
    let places: Vec<_> = topology
        .cpus
        .iter()
        .map(|c| (c.core, c.llc, c.node, c.package))
        .collect();
    assert_eq!(
        places,
        [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, 0), (1, 1, 1, 1)]
    );
    assert_eq!(
        topology.caches,
        Caches {
            l1_bytes: 65536,
            l2_bytes: 524288,
            l3_bytes: 0
        }
    );
    assert_eq!(topology.distances(), [[10, 21], [20, 10]]);
}

#[test]
fn without_distances_packages_decide() {
    let text = TWO_PACKAGES.replace("kind=\"5\"", "kind=\"9\""); // bandwidths
    assert_eq!(
        parse(&text, "m.xml").unwrap().distances(),
        [[10, 16], [16, 10]]
    );
}

#[test]
fn errors_point_at_the_element() {
    refused("version=\"2.0\"", "version=\"1.0\"", "3:1", "version 1.0");
    refused("<topology version", "<machine version", "29:1", "no XML");
    refused("\"Machine\"", "\"Robot\"", "4:3", "type \"Robot\"");
    refused(
        "\"PU\" os_index=\"5\"",
        "\"PU\" os_index=\"x\"",
        "20:41",
        "os_index=\"x\"",
    );
    refused(
        "\"PU\" os_index=\"5\"",
        "\"PU\" os_index=\"2\"",
        "3:1",
        "CPU 2 twice",
    );
    refused("10 21 20 10", "10 21 20", "25:3", "do not fit");
    refused("10 21 20 10", "11 21 20 10", "25:3", "itself");
    refused("10 21 20 10", "10 0 20 10", "25:3", "11 to 255");
    refused("10 21 20 10", "10 21 256 10", "25:3", "11 to 255");
    refused(
        "\"Bridge\"",
        "\"NUMANode\" os_index=\"7\"",
        "6:7",
        "two memory nodes",
    );
    refused("\"PU\"", "\"Misc\"", "3:1", "0 CPUs");
    refused(
        "  <distances2",
        "  <object type=\"PU\" os_index=\"7\"/><distances2",
        "3:1",
        "CPU 7 belongs to no memory node",
    );
    refused(
        "\"NUMANode\" os_index=\"3\"",
        "\"NUMANode\" os_index=\"0\"",
        "18:31",
        "memory node 0 twice",
    );
    // Each thread of the second package's core has a node of its own.
    let of_pu = |pu: u32, node: u32| {
        format!(
            "<object type=\"Group\"><object type=\"NUMANode\" os_index=\"{node}\"/><object type=\"PU\" os_index=\"{pu}\"/></object>"
        )
    };
    let apart = [of_pu(1, 3), of_pu(5, 4)].concat();
    let text = TWO_PACKAGES
        .replace(
            "<object type=\"MemCache\"><object type=\"NUMANode\" os_index=\"3\"/></object>",
            "",
        )
        .replace(
            "<object type=\"PU\" os_index=\"1\"/><object type=\"PU\" os_index=\"5\"/>",
            &apart,
        );
    let error = parse(&text, "m.xml")
        .expect_err("a core in two nodes")
        .to_string();
    assert!(
        error.contains("CPUs 1 and 5 are one core, and in two memory nodes"),
        "{error}"
    );
    let kind = |capacity: u32| {
        format!(
            "<cpukind cpuset=\"0x1\"><info name=\"LinuxCapacity\" value=\"{capacity}\"/></cpukind>\n</topology>"
        )
    };
    refused("</topology>", &kind(2000), "29:23", "a capacity of 2000");
    let core = |kind: &str| {
        format!("<cpukind cpuset=\"0x1\"><info name=\"CoreType\" value=\"{kind}\"/></cpukind>")
    };
    let kinds = |kinds: [&str; 2]| kinds.map(core).concat() + "\n</topology>";
    let types = kinds(["IntelAtom", "IntelCore"]);
    let what = "cores of types IntelAtom and IntelCore, but no capacities";
    refused("</topology>", &types, "29:96", what);
    // Favoured cores are of one type.
    let text = TWO_PACKAGES.replace("</topology>", &kinds(["IntelCore", "IntelCore"]));
    parse(&text, "m.xml").unwrap();
}

#[test]
fn kinds_of_cpus_have_capacities() {
    let kinds = "<cpukind cpuset=\"0x00000001,,0x00000006\"><info name=\"LinuxCapacity\" value=\"718\"/></cpukind>\n\
        <cpukind cpuset=\"0x00000008\"><info name=\"CoreType\" value=\"IntelCore\"/></cpukind></topology>";
    let text = TWO_PACKAGES.replace("</topology>", kinds);
    let topology = parse(&text, "m.xml").unwrap();
    let capacities: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.capacity).collect();
    // CPUs 0, 1, 2 and 5.
    assert_eq!(capacities, [1024, 718, 718, 1024]);
    let sets = cpu_set("0x00000001,,0x00000006").unwrap();
    assert_eq!(sets.into_iter().collect::<Vec<u32>>(), [1, 2, 64]);
    assert_eq!(cpu_set("all"), None);
}

#[test]
fn hostile_nesting_ends_in_an_error() {
    let deep = format!(
        "<topology version=\"2.0\">{}",
        "<object type=\"Group\">".repeat(5_000)
    );
    assert!(parse(&deep, "m.xml").is_err());
    let closed = format!("{deep}{}</topology>", "</object>".repeat(5_000));
    assert!(parse(&closed, "m.xml").is_err());
}
