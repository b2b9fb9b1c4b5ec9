// SPDX-License-Identifier: GPL-2.0-or-later
//! What the CPUs of this machine share, as the kernel reports it.

use std::collections::BTreeSet;
use std::fs;

const CPUS: &str = "/sys/devices/system/cpu";

/// The machine as hwloc's synthetic description, on the assumption that each part has as many parts as its neighbours.
pub fn topology(cpus: &[usize]) -> String {
    let count = |file: &str| {
        let values = cpus.iter().map(|cpu| read(*cpu, file));
        values.collect::<BTreeSet<_>>().len()
    };
    let packages = count("topology/package_cpus_list");
    let nodes = nodes();
    let caches = |index: usize| count(&format!("cache/index{index}/shared_cpu_list"));
    let cores = count("topology/thread_siblings_list");
    let mut text = match nodes {
        0 | 1 => format!("[numa] package:{packages}"),
        _ if nodes == packages => format!("package:{packages} [numa]"),
        _ => format!("package:{packages} die:{} [numa]", nodes.div_ceil(packages)),
    };
    let mut outer = nodes.max(packages);
    for (level, name) in [(3, "l3"), (2, "l2"), (1, "l1d")] {
        let Some((index, bytes)) = cache(cpus[0], level) else {
            continue;
        };
        // Emulators give every thread of a core caches of its own.
        let own = caches(index).clamp(outer, cores.max(outer));
        text += &format!(" {name}:{}(size={}KiB)", own / outer, bytes >> 10);
        outer = own;
    }
    let cores = cores.max(outer);
    text + &format!(" core:{} pu:{}", cores / outer, cpus.len() / cores)
}

/// The other CPU of this one's core.
pub fn sibling(cpu: usize) -> Option<usize> {
    let text = read(cpu, "topology/thread_siblings_list");
    let numbers = text.split([',', '-']).map(str::parse);
    numbers.filter_map(Result::ok).find(|other| *other != cpu)
}

/// Bytes of the data cache of this level; 0: there is none that the kernel knows.
pub fn cache_bytes(cpu: usize, level: u32) -> usize {
    cache(cpu, level).map_or(0, |(_, bytes)| bytes)
}

/// Its number in the kernel's list, and its bytes.
fn cache(cpu: usize, level: u32) -> Option<(usize, usize)> {
    let file = |index, what| read(cpu, &format!("cache/index{index}/{what}"));
    let index = (0..8).find(|index| {
        file(*index, "level") == level.to_string() && file(*index, "type") != "Instruction"
    })?;
    let size = file(index, "size");
    let kib: usize = size.strip_suffix('K')?.parse().ok()?;
    Some((index, kib << 10))
}

fn nodes() -> usize {
    let entries = fs::read_dir("/sys/devices/system/node")
        .into_iter()
        .flatten();
    let names = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names
        .filter(|name| {
            name.strip_prefix("node")
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .count()
}

fn read(cpu: usize, file: &str) -> String {
    let text = fs::read_to_string(format!("{CPUS}/cpu{cpu}/{file}"));
    text.unwrap_or_default().trim().to_owned()
}
