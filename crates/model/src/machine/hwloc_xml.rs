// SPDX-License-Identifier: GPL-2.0-or-later
//! hwloc's XML, version 2 and 3: the tree that `lstopo FILE.xml` writes of a real machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use roxmltree::{Document, Node};

use super::topology::{LOCAL, Topology, without_gaps};
use super::{Caches, CpuPlace, Machine, MachineError};

const EXPORT: &str = "write the file with lstopo of hwloc 2 or newer: lstopo FILE.xml";

/// Kinds of distances (bits of hwloc_distances_kind_e): the values are latencies.
const MEANS_LATENCY: u32 = 1 << 2;

/// The capacity of a CPU of the fastest kind.
const FULL: u32 = 1024;

/// Bound on nesting, far above any machine: the XML parser recurses, and a hostile file shall not
/// exhaust the stack.
const MAX_DEPTH: usize = 128;

struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

impl Source<'_> {
    fn error(&self, span: Range<usize>, what: impl Into<String>, help: &str) -> MachineError {
        MachineError::in_file(self.text, self.file, span, what, help)
    }

    /// Points at the opening of `node`'s element.
    fn at(&self, node: Node, what: impl Into<String>, help: &str) -> MachineError {
        let start = node.range().start;
        let end = start + 1 + node.tag_name().name().len();
        self.error(start..end.min(self.text.len()), what, help)
    }
}

/// What the objects around a CPU say about it. Ids are those of XML nodes, renumbered at the end.
#[derive(Clone, Copy, Default)]
struct Around {
    package: u32,
    /// Innermost package, die or holder of a memory node: shares the last-level cache where no
    /// cache is described.
    vicinity: u32,
    /// Outermost data or unified cache.
    llc: Option<u32>,
    core: Option<u32>,
    /// Operating system's number of the memory node.
    node: Option<u32>,
}

#[derive(Default)]
struct Found {
    cpus: Vec<(u32, Around)>,
    /// The numbers of the memory nodes so far.
    nodes: BTreeSet<u32>,
    caches: Caches,
}

pub(super) fn parse(text: &str, file: &str) -> Result<Topology, MachineError> {
    let source = Source { text, file };
    source.check_nesting()?;
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|e| source.syntax(&e))?;
    let root = document.root_element();
    check_version(&source, root)?;
    let mut found = Found::default();
    for object in objects(root) {
        walk(&source, object, Around::default(), &mut found)?;
    }
    topology(&source, root, found)
}

impl Source<'_> {
    /// Bounds the depth of the tree before anything recurses into it. Counts tags without reading
    /// them, so text in comments counts too; entities, which could hide tags, are refused.
    fn check_nesting(&self) -> Result<(), MachineError> {
        let mut depth = 0usize;
        for (at, _) in self.text.match_indices(['<', '>']) {
            let (before, rest) = self.text.split_at(at);
            match () {
                () if rest.starts_with("<!ENTITY") => {
                    return Err(self.error(at..at + 8, "entities", EXPORT));
                }
                () if rest.starts_with("</") => depth = depth.saturating_sub(1),
                () if rest.starts_with("<?") || rest.starts_with("<!") => {}
                () if rest.starts_with('<') => depth += 1,
                () if before.ends_with('/') => depth = depth.saturating_sub(1),
                () => {}
            }
            if depth > MAX_DEPTH {
                return Err(self.error(at..at + 1, "elements nested too deep", EXPORT));
            }
        }
        Ok(())
    }

    fn syntax(&self, error: &roxmltree::Error) -> MachineError {
        let pos = error.pos();
        let line_start = self
            .text
            .split_inclusive('\n')
            .take(pos.row.saturating_sub(1) as usize)
            .map(str::len);
        let at = line_start.sum::<usize>() + pos.col.saturating_sub(1) as usize;
        let at =
            (at.min(self.text.len())..=self.text.len()).find(|i| self.text.is_char_boundary(*i));
        let at = at.unwrap_or(self.text.len());
        self.error(at..at, format!("no XML: {error}"), EXPORT)
    }
}

fn check_version(source: &Source, root: Node) -> Result<(), MachineError> {
    if root.tag_name().name() != "topology" {
        return Err(source.at(root, "no hwloc topology", EXPORT));
    }
    let version = root.attribute("version").unwrap_or("1.0");
    match version.split('.').next() {
        Some("2" | "3") => Ok(()),
        _ => Err(source.at(
            root,
            format!("hwloc XML of version {version} is not read"),
            EXPORT,
        )),
    }
}

fn objects<'a>(node: Node<'a, 'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(|n| n.has_tag_name("object"))
}

/// Visits `object` and what it holds; `around` is what the objects outside say.
fn walk(
    source: &Source,
    object: Node,
    mut around: Around,
    found: &mut Found,
) -> Result<(), MachineError> {
    let id = object.id().get();
    match object.attribute("type").unwrap_or("") {
        "Package" => (around.package, around.vicinity) = (id, id),
        "Die" => around.vicinity = id,
        "Core" => around.core = Some(id),
        "PU" => {
            around.core = around.core.or(Some(id));
            found
                .cpus
                .push((number(source, object, "os_index")?, around));
        }
        cache if is_data_cache(cache, object) => {
            around.llc = around.llc.or(Some(id));
            found.cache(source, cache, object)?;
        }
        "NUMANode" | "MemCache" => return Ok(()), // read below, at the object that they are attached to
        "Bridge" | "PCIDev" | "OSDev" | "Misc" => return Ok(()), // no CPUs and no memory in them
        "Machine" | "Group" => {}
        kind if kind.starts_with('L') && kind.ends_with("iCache") => {}
        kind => {
            return Err(source.at(
                object,
                format!("objects of type \"{kind}\" are not modelled"),
                EXPORT,
            ));
        }
    }
    for node in memory_nodes(object) {
        if around.node.is_some() {
            let help = "give each CPU one NUMANode: remove those that hold memory only";
            return Err(source.at(node, "CPUs with two memory nodes are not modelled", help));
        }
        let number = number(source, node, "os_index")?;
        if !found.nodes.insert(number) {
            return Err(source.at(node, format!("memory node {number} twice"), EXPORT));
        }
        around.node = Some(number);
        around.vicinity = id;
    }
    for inner in objects(object) {
        walk(source, inner, around, found)?;
    }
    Ok(())
}

fn is_data_cache(kind: &str, object: Node) -> bool {
    kind.starts_with('L') && kind.ends_with("Cache") && object.attribute("cache_type") != Some("2")
}

/// Memory nodes attached to `object`, those behind memory-side caches too.
fn memory_nodes<'a>(object: Node<'a, 'a>) -> Vec<Node<'a, 'a>> {
    let mut nodes = Vec::new();
    let mut open: Vec<Node> = objects(object).collect();
    while let Some(node) = open.pop() {
        match node.attribute("type") {
            Some("NUMANode") => nodes.push(node),
            Some("MemCache") => open.extend(objects(node)),
            _ => {}
        }
    }
    nodes
}

impl Found {
    /// The largest cache of each level counts; hybrid machines have several sizes.
    fn cache(&mut self, source: &Source, kind: &str, object: Node) -> Result<(), MachineError> {
        let bytes: u64 = number(source, object, "cache_size")?;
        let level = match kind {
            "L1Cache" => &mut self.caches.l1_bytes,
            "L2Cache" => &mut self.caches.l2_bytes,
            _ => &mut self.caches.l3_bytes,
        };
        *level = bytes.max(*level);
        Ok(())
    }
}

fn number<N: std::str::FromStr>(
    source: &Source,
    object: Node,
    key: &str,
) -> Result<N, MachineError> {
    let text = object.attribute(key).unwrap_or("");
    text.parse()
        .map_err(|_| source.at(object, format!("{key}=\"{text}\" is no number"), EXPORT))
}

fn no_core_in_two_nodes(
    source: &Source,
    root: Node,
    cpus: &[(u32, Around)],
) -> Result<(), MachineError> {
    let mut first_of = BTreeMap::new();
    for (cpu, around) in cpus {
        let (first, node) = *first_of.entry(around.core).or_insert((cpu, around.node));
        if node != around.node {
            let help = "attach each NUMANode to an object that holds whole cores";
            let what = format!("CPUs {first} and {cpu} are one core, and in two memory nodes");
            return Err(source.at(root, what, help));
        }
    }
    Ok(())
}

fn topology(source: &Source, root: Node, mut found: Found) -> Result<Topology, MachineError> {
    found.cpus.sort_by_key(|(number, _)| *number);
    if found.cpus.is_empty() || found.cpus.len() > Machine::MAX_CPUS {
        let what = format!("{} CPUs (objects of type PU)", found.cpus.len());
        return Err(source.at(root, what, EXPORT));
    }
    if let Some(pair) = found.cpus.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(source.at(root, format!("CPU {} twice", pair[0].0), EXPORT));
    }
    no_core_in_two_nodes(source, root, &found.cpus)?;
    let around: Vec<Around> = found.cpus.iter().map(|(_, around)| *around).collect();
    let column =
        |of: &dyn Fn(&Around) -> u32| without_gaps(&around.iter().map(of).collect::<Vec<_>>());
    let node_names: Vec<u32> = around.iter().map(|a| a.node.unwrap_or(0)).collect();
    let nr_nodes = node_names.iter().collect::<BTreeSet<_>>().len();
    if nr_nodes > Machine::MAX_NODES {
        return Err(source.at(root, format!("{nr_nodes} memory nodes with CPUs"), EXPORT));
    }
    let llc = column(&|a| a.llc.unwrap_or(a.vicinity));
    let (core, package, node) = (
        column(&|a| a.core.unwrap_or(0)),
        column(&|a| a.package),
        without_gaps(&node_names),
    );
    let in_node = |(_, around): &(u32, Around)| around.node.is_some();
    if found.cpus.iter().any(in_node)
        && let Some((cpu, _)) = found.cpus.iter().find(|cpu| !in_node(cpu))
    {
        let help = "add a NUMANode to the object that contains this CPU, or remove the CPU";
        return Err(source.at(root, format!("CPU {cpu} belongs to no memory node"), help));
    }
    let capacities = capacities(source, root)?;
    let capacity = |cpu: u32| {
        let mut kinds = capacities.iter();
        kinds.find_map(|(set, capacity)| set.contains(&cpu).then_some(*capacity))
    };
    let place = |i: usize| CpuPlace {
        core: core[i],
        llc: llc[i],
        node: node[i],
        package: package[i],
        capacity: capacity(found.cpus[i].0).unwrap_or(FULL),
    };
    let cpus = (0..around.len()).map(place).collect();
    Ok(Topology {
        cpus,
        caches: found.caches,
        distances: distances(source, root, node_names)?,
    })
}

/// The CPUs and the capacity of each kind whose capacity the file has. Linux reports it for hybrid machines.
fn capacities(source: &Source, root: Node) -> Result<Vec<(BTreeSet<u32>, u32)>, MachineError> {
    let mut kinds = Vec::new();
    for kind in root.children().filter(|n| n.has_tag_name("cpukind")) {
        let named = |info: &Node| info.attribute("name") == Some("LinuxCapacity");
        let Some(info) = kind.children().find(named) else {
            continue;
        };
        let capacity: u32 = number(source, info, "value")?;
        if !(1..=FULL).contains(&capacity) {
            let what = format!("a capacity of {capacity}");
            return Err(source.at(info, what, "Linux reports 1 to 1024"));
        }
        let set = kind.attribute("cpuset").and_then(cpu_set);
        let set = set.ok_or_else(|| source.at(kind, "no set of CPUs", EXPORT))?;
        kinds.push((set, capacity));
    }
    if kinds.is_empty() {
        one_type(source, root)?;
    }
    Ok(kinds)
}

/// Refuses cores of two types: without capacities, all CPUs would be equally fast.
fn one_type(source: &Source, root: Node) -> Result<(), MachineError> {
    let kinds = root.children().filter(|n| n.has_tag_name("cpukind"));
    let infos = kinds.flat_map(|kind| kind.children());
    let types = infos.filter(|info| info.attribute("name") == Some("CoreType"));
    let mut types = types.filter_map(|info| Some((info, info.attribute("value")?)));
    let Some((_, first)) = types.next() else {
        return Ok(());
    };
    match types.find(|(_, other)| *other != first) {
        None => Ok(()),
        Some((info, other)) => {
            let what = format!("cores of types {first} and {other}, but no capacities");
            let help = "add <info name=\"LinuxCapacity\" value=\"N\"/> to each cpukind, 1024 for the fastest: recent \
                        kernels have them in /sys/devices/system/cpu/cpu*/cpu_capacity";
            Err(source.at(info, what, help))
        }
    }
}

/// hwloc's bitmaps: words of 32 bits in hexadecimal, the highest first, separated by commas.
fn cpu_set(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for (index, word) in text.split(',').rev().enumerate() {
        let digits = word.trim().trim_start_matches("0x");
        let bits = match digits {
            "" => 0,
            _ => u32::from_str_radix(digits, 16).ok()?,
        };
        let first = 32 * u32::try_from(index).ok()?;
        set.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| first + bit),
        );
    }
    Some(set)
}

/// The latencies between the memory nodes that hold CPUs, where the file has them.
fn distances(
    source: &Source,
    root: Node,
    mut nodes: Vec<u32>,
) -> Result<Option<Vec<Vec<u32>>>, MachineError> {
    let latencies = root.children().find(|n| {
        let kind: u32 = n
            .attribute("kind")
            .and_then(|k| k.parse().ok())
            .unwrap_or(0);
        n.has_tag_name("distances2")
            && n.attribute("type") == Some("NUMANode")
            && kind & MEANS_LATENCY != 0
    });
    let Some(matrix) = latencies else {
        return Ok(None);
    };
    let names = numbers(source, matrix, "indexes")?;
    let values = numbers(source, matrix, "u64values")?;
    let help = "one value for each pair of the nodes in indexes, 10 for a node itself";
    if matrix.attribute("indexing") != Some("os") || names.len() * names.len() != values.len() {
        return Err(source.at(matrix, "distances that do not fit their indexes", help));
    }
    nodes.sort_unstable();
    nodes.dedup();
    let row_of = |node: &u32| names.iter().position(|n| n == node);
    let Some(rows) = nodes.iter().map(row_of).collect::<Option<Vec<usize>>>() else {
        return Err(source.at(matrix, "no distances for a node that has CPUs", help));
    };
    let value = |a: usize, b: usize| values[a * names.len() + b];
    if rows.iter().any(|a| value(*a, *a) != LOCAL) {
        return Err(source.at(matrix, "a node whose distance to itself is not 10", help));
    }
    let is_near = |(a, b): (&usize, &usize)| a != b && !(LOCAL + 1..256).contains(&value(*a, *b));
    if rows.iter().any(|a| rows.iter().any(|b| is_near((a, b)))) {
        return Err(source.at(
            matrix,
            "a distance between nodes that is not 11 to 255",
            help,
        ));
    }
    Ok(Some(
        rows.iter()
            .map(|a| rows.iter().map(|b| value(*a, *b)).collect())
            .collect(),
    ))
}

/// The numbers in all child elements called `tag`: hwloc breaks long lists into several.
fn numbers(source: &Source, node: Node, tag: &str) -> Result<Vec<u32>, MachineError> {
    let lists = node.children().filter(|n| n.has_tag_name(tag));
    let words = lists.flat_map(|n| n.text().unwrap_or("").split_whitespace());
    let parsed: Result<_, _> = words.map(str::parse).collect();
    parsed.map_err(|_| source.at(node, format!("{tag}: not a list of numbers"), EXPORT))
}

#[cfg(test)]
#[path = "hwloc_xml_tests.rs"]
mod tests;
