// SPDX-License-Identifier: GPL-2.0-or-later
//! Machine files: a topology string, costs, kernel threads, jitter. docs/reference/machine-files.md has every key.

use std::ops::Range;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use tiltyard_misspelt::toml_line;
use toml::Spanned;

use super::topology::{LOCAL, Topology};
use super::{Costs, Jitter, Machine, MachineError, Noise, Per, synthetic};

/// Largest cost: one second. Larger ones are typing errors, and would overflow sums.
const MAX_COST_NS: u64 = 1_000_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    topology: Spanned<String>,
    tick_hz: Spanned<u32>,
    #[serde(default)]
    preemptible: bool,
    #[serde(default = "yes")]
    sync_to_waker: bool,
    #[serde(default = "yes")]
    lock_waits: bool,
    #[serde(default = "yes")]
    mutex_waits: bool,
    distances: Option<Spanned<Vec<Vec<u32>>>>,
    capacity: Option<Spanned<Vec<u32>>>,
    costs: CostTable,
    #[serde(default, deserialize_with = "one_or_more")]
    noise: Vec<NoiseTable>,
    jitter: Option<JitterTable>,
}

fn yes() -> bool {
    true
}

/// Most keys are required: a missing number would be a number without a source. The optional ones are costs of paths
/// that are known only for calibrated machines: without them a path has no cost of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    switch_ns: Spanned<u64>,
    wakeup_ns: Spanned<u64>,
    timer_wakeup_ns: Option<Spanned<u64>>,
    timer_irq_ns: Option<Spanned<u64>>,
    block_ns: Option<Spanned<u64>>,
    fork_ns: Option<Spanned<u64>>,
    exit_ns: Option<Spanned<u64>>,
    ipi_ns: Spanned<u64>,
    idle_exit_ns: Option<Spanned<u64>>,
    tick_ns: Spanned<u64>,
    callback_ns: Spanned<u64>,
    insn_ps: Spanned<u64>,
    kfunc_ns: Spanned<u64>,
    map_lookup_ns: Option<Spanned<u64>>,
    storage_lookup_ns: Option<Spanned<u64>>,
    spin_lock_ns: Option<Spanned<u64>>,
    task_lookup_ns: Option<Spanned<u64>>,
    kick_ns: Option<Spanned<u64>>,
    visit_llc_ns: Option<Spanned<u64>>,
    visit_near_ns: Spanned<u64>,
    visit_far_ns: Spanned<u64>,
    line_l2_ps: Spanned<u64>,
    line_l3_ps: Spanned<u64>,
    line_mem_ps: Spanned<u64>,
    line_far_ps: Spanned<u64>,
    refill_overlap_permille: Spanned<u64>,
    node_mb_per_s: Option<Spanned<u64>>,
    smt_permille: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoiseTable {
    name: Option<Spanned<String>>,
    #[serde(default)]
    per: PerKey,
    sleep_mean_ns: Spanned<u64>,
    run_mean_ns: Spanned<u64>,
    per_exit_permille: Option<Spanned<u64>>,
    nice: Option<Spanned<i64>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PerKey {
    #[default]
    Cpu,
    Machine,
}

/// `[noise]` is one kind of thread, `[[noise]]` are several.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NoiseTable>, D::Error> {
    struct Tables;
    impl<'de> Visitor<'de> for Tables {
        type Value = Vec<NoiseTable>;

        fn expecting(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
            out.write_str("a table [noise] or tables [[noise]]")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            NoiseTable::deserialize(MapAccessDeserializer::new(map)).map(|table| vec![table])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    from.deserialize_any(Tables)
}

/// All keys are required here, too. A file without the table has the reference jitter.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JitterTable {
    start_span_ns: Spanned<u64>,
    timer_late_mean_ns: Spanned<u64>,
    work_spread_ppm: Spanned<u64>,
}

/// Where values are checked: a text, its name, and errors that point into it.
struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

pub(super) fn parse(text: &str, file: &str) -> Result<Machine, MachineError> {
    let source = Source { text, file };
    let read: File = toml::from_str(text).map_err(|e| source.syntax(&e))?;
    let topology = source.topology(&read)?;
    let mut machine = Machine::from_topology(&name_of(file), &read.description, topology);
    machine.tick_hz = source.within(&read.tick_hz, 1..=100_000)?;
    machine.preemptible = read.preemptible;
    machine.sync_to_waker = read.sync_to_waker;
    machine.lock_waits = read.lock_waits;
    machine.mutex_waits = read.mutex_waits;
    machine.costs = source.costs(&read.costs)?;
    // Ticks that take all of the time leave none to the tasks.
    let half_period_ns = 500_000_000 / u64::from(machine.tick_hz);
    source.within(&read.costs.tick_ns, 0..=half_period_ns)?;
    let noise = read.noise.iter().map(|table| source.noise(table));
    machine.noise = noise.collect::<Result<_, _>>()?;
    if let Some(jitter) = &read.jitter {
        machine.jitter = source.jitter(jitter)?;
    }
    Ok(machine)
}

/// A machine is called as its file is.
fn name_of(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    last.strip_suffix(".toml").unwrap_or(last).to_owned()
}

impl Source<'_> {
    fn error(&self, span: Range<usize>, what: impl AsRef<str>, help: &str) -> MachineError {
        let what = format!("{}{}", self.key_at(span.start), what.as_ref());
        MachineError::in_file(self.text, self.file, span, what, help)
    }

    /// The key of the line at byte `at`, to name in the error: `tick_hz: `.
    fn key_at(&self, at: usize) -> String {
        let start = self
            .text
            .get(..at)
            .and_then(|t| t.rfind('\n'))
            .map_or(0, |n| n + 1);
        let line = self
            .text
            .get(start..)
            .and_then(|t| t.lines().next())
            .unwrap_or("");
        line.split_once('=')
            .map_or(String::new(), |(key, _)| format!("{}: ", key.trim()))
    }

    fn syntax(&self, error: &toml::de::Error) -> MachineError {
        let what = toml_line(error);
        let span = error.span().unwrap_or(0..0);
        let help = "machines/opteron1.toml shows every key";
        // What is missing is missing in a whole table, which no line's key names.
        match what.starts_with("missing field") {
            true => MachineError::in_file(self.text, self.file, span, what, help),
            false => self.error(span, what, help),
        }
    }

    fn topology(&self, read: &File) -> Result<Topology, MachineError> {
        let string = read.topology.as_ref();
        let mut topology = synthetic::parse(string).map_err(|e| {
            let opening = read.topology.span().start + 1; // the quotation mark
            self.error(
                opening + e.span.start..opening + e.span.end,
                e.what,
                &e.help,
            )
        })?;
        if let Some(distances) = &read.distances {
            self.check_distances(distances, topology.nr_nodes())?;
            topology.distances = Some(distances.as_ref().clone());
        }
        if let Some(capacity) = &read.capacity {
            self.check_capacity(capacity, topology.cpus.len())?;
            for (cpu, capacity) in topology.cpus.iter_mut().zip(capacity.as_ref()) {
                cpu.capacity = *capacity;
            }
        }
        Ok(topology)
    }

    fn check_distances(
        &self,
        distances: &Spanned<Vec<Vec<u32>>>,
        nodes: usize,
    ) -> Result<(), MachineError> {
        let rows = distances.as_ref();
        let square = rows.len() == nodes && rows.iter().all(|row| row.len() == nodes);
        let plausible = rows.iter().enumerate().all(|(a, row)| {
            row.iter().enumerate().all(|(b, d)| {
                if a == b {
                    *d == LOCAL
                } else {
                    *d > LOCAL && *d < 256
                }
            })
        });
        let help =
            "write one row a node, 10 for itself and 11 to 255 for others, as in the ACPI SLIT";
        match square && plausible {
            true => Ok(()),
            false => Err(self.error(
                distances.span(),
                format!("these are no distances between {nodes} nodes"),
                help,
            )),
        }
    }

    fn check_capacity(
        &self,
        capacity: &Spanned<Vec<u32>>,
        cpus: usize,
    ) -> Result<(), MachineError> {
        let values = capacity.as_ref();
        let odd = values.iter().find(|c| !(1..=1024).contains(*c));
        let what = match odd {
            _ if values.len() != cpus => format!("{} values for {cpus} CPUs", values.len()),
            Some(odd) => format!("{odd} is no capacity"),
            None if !values.contains(&1024) => "none is 1024".to_owned(),
            None => return Ok(()),
        };
        Err(self.error(
            capacity.span(),
            what,
            "write one a CPU, 1 to 1024, 1024 for the fastest",
        ))
    }

    /// The value, if it lies in the range.
    fn within<N>(
        &self,
        value: &Spanned<N>,
        range: std::ops::RangeInclusive<N>,
    ) -> Result<N, MachineError>
    where
        N: Copy + PartialOrd + std::fmt::Display,
    {
        let number = *value.as_ref();
        match range.contains(&number) {
            true => Ok(number),
            false => {
                let help = format!("write {} to {}", range.start(), range.end());
                Err(self.error(value.span(), format!("{number} is out of range"), &help))
            }
        }
    }

    fn costs(&self, table: &CostTable) -> Result<Costs, MachineError> {
        let ns = |value: &Spanned<u64>| self.within(value, 0..=MAX_COST_NS);
        let given = |value: &Option<Spanned<u64>>| value.as_ref().map(ns).transpose();
        let optional = |value| Ok(given(value)?.unwrap_or(0));
        let ps = |value| self.within(value, 0..=MAX_COST_NS);
        Ok(Costs {
            switch_ns: ns(&table.switch_ns)?,
            wakeup_ns: ns(&table.wakeup_ns)?,
            timer_wakeup_ns: ns(table.timer_wakeup_ns.as_ref().unwrap_or(&table.wakeup_ns))?,
            timer_irq_ns: optional(&table.timer_irq_ns)?,
            block_ns: optional(&table.block_ns)?,
            fork_ns: optional(&table.fork_ns)?,
            exit_ns: optional(&table.exit_ns)?,
            ipi_ns: ns(&table.ipi_ns)?,
            idle_exit_ns: optional(&table.idle_exit_ns)?,
            tick_ns: ns(&table.tick_ns)?,
            callback_ns: ns(&table.callback_ns)?,
            insn_ps: ps(&table.insn_ps)?,
            kfunc_ns: ns(&table.kfunc_ns)?,
            map_lookup_ns: given(&table.map_lookup_ns)?,
            storage_lookup_ns: given(&table.storage_lookup_ns)?,
            spin_lock_ns: optional(&table.spin_lock_ns)?,
            task_lookup_ns: optional(&table.task_lookup_ns)?,
            kick_ns: optional(&table.kick_ns)?,
            visit_llc_ns: given(&table.visit_llc_ns)?,
            visit_near_ns: ns(&table.visit_near_ns)?,
            visit_far_ns: ns(&table.visit_far_ns)?,
            line_l2_ps: ps(&table.line_l2_ps)?,
            line_l3_ps: ps(&table.line_l3_ps)?,
            line_mem_ps: ps(&table.line_mem_ps)?,
            line_far_ps: ps(&table.line_far_ps)?,
            refill_overlap_permille: self.within(&table.refill_overlap_permille, 0..=1000)?,
            node_mb_per_s: match &table.node_mb_per_s {
                Some(rate) => Some(self.within(rate, 1..=1_000_000_000)?),
                None => None,
            },
            smt_permille: self.within(&table.smt_permille, 1..=1000)?,
        })
    }

    fn noise(&self, table: &NoiseTable) -> Result<Noise, MachineError> {
        const DAY_NS: u64 = 86_400_000_000_000;
        let name = match &table.name {
            Some(name) => self.thread_name(name)?,
            None => Noise::WORKER,
        };
        let per_exit = table.per_exit_permille.as_ref();
        Ok(Noise {
            name: name.to_owned(),
            per: match table.per {
                PerKey::Cpu => Per::Cpu,
                PerKey::Machine => Per::Machine,
            },
            sleep_mean_ns: self.within(&table.sleep_mean_ns, 1..=DAY_NS)?,
            run_mean_ns: self.within(&table.run_mean_ns, 1..=DAY_NS)?,
            per_exit_permille: per_exit
                .map(|value| self.within(value, 1..=Noise::MAX_PER_EXIT_PERMILLE))
                .transpose()?,
            nice: match &table.nice {
                Some(value) => self.within(value, -20..=19)? as i8,
                None => 0,
            },
        })
    }

    fn thread_name<'a>(&self, name: &'a Spanned<String>) -> Result<&'a str, MachineError> {
        let text = name.as_ref().as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match (1..=Noise::MAX_NAME_BYTES).contains(&text.len()) && text.chars().all(plain) {
            true => Ok(text),
            false => {
                let what = format!("\"{text}\" is no name of a kernel thread");
                let help = "write 1 to 15 letters, digits, '_' and '-', without the number of the CPU: \"kworker\"";
                Err(self.error(name.span(), what, help))
            }
        }
    }

    fn jitter(&self, table: &JitterTable) -> Result<Jitter, MachineError> {
        Ok(Jitter {
            start_span_ns: self.within(&table.start_span_ns, 0..=Jitter::MAX_START_SPAN_NS)?,
            timer_late_mean_ns: self
                .within(&table.timer_late_mean_ns, 0..=Jitter::MAX_TIMER_LATE_NS)?,
            work_spread_ppm: self
                .within(&table.work_spread_ppm, 0..=Jitter::MAX_WORK_SPREAD_PPM)?,
        })
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
