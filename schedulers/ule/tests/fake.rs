// SPDX-License-Identifier: GPL-2.0-or-later
//! Recorded states of machines, set up under the kernel for tests, and read back.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Debug;
use tiltyard_native::Value as Global;
use tiltyard_schedtest::kernel::{Kernel, TaskId};
use tiltyard_schedtest::{globals, object};

/// Levels of topology.h.
const ALL: i64 = 0;
const LLC: i64 = 2;
const CORE: i64 = 3;
/// Slice that each task has used up.
const USED: i64 = 3;

/// A file of records: topologies, then one record a line.
pub struct Records {
    pub port: bool,
    topologies: Value,
    records: Vec<Value>,
}

impl Records {
    pub fn freebsd() -> Records {
        Records::read(false, include_bytes!("freebsd_multicore.jsonl.zst"))
    }

    pub fn port() -> Records {
        Records::read(true, include_bytes!("port_multicore.jsonl.zst"))
    }

    fn read(port: bool, file: &[u8]) -> Records {
        let bytes = zstd::decode_all(file).expect("zstd");
        let text = String::from_utf8(bytes).expect("UTF-8");
        let mut lines = text.lines();
        let line = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
        let topologies = line(lines.next().expect("a header"))["topologies"].take();
        Records {
            port,
            topologies,
            records: lines.map(line).collect(),
        }
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().filter(move |r| r["kind"] == kind)
    }
}

pub fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The numbers of an array, none if there is none.
pub fn ints(value: &Value) -> Vec<i64> {
    value
        .as_array()
        .map_or(Vec::new(), |all| all.iter().map(int).collect())
}

pub fn differs<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), String> {
    match is == should {
        true => Ok(()),
        false => Err(format!("{what} {is:?}, not {should:?}")),
    }
}

/// A mask in hex, bit n for CPU n; none: all.
fn bits(mask: &Value) -> u64 {
    mask.as_str()
        .map_or(u64::MAX, |hex| u64::from_str_radix(hex, 16).expect("hex"))
}

/// How often the generator was used between two states of it: once for each CPU that a search visits.
pub fn lcg_steps(from: u32, to: u32) -> i64 {
    let next = |state: &u32| Some(state.wrapping_mul(69_069).wrapping_add(5));
    let mut states = std::iter::successors(Some(from), next).take(1 << 20);
    states
        .position(|state| state == to)
        .map_or(-1, |at| at as i64)
}

/// A group of CPUs: what the record calls it, its level, its CPUs.
struct Group {
    name: i64,
    level: i64,
    mask: u64,
}

/// FreeBSD's tree: `[name, parent, level of the cache, whether SMT, mask]`.
fn tree(groups: &Value) -> Vec<Group> {
    let group = |g: &Value| Group {
        name: int(&g[0]),
        level: match int(&g[2]) {
            0 => ALL,
            3 => LLC,
            _ => CORE,
        },
        mask: bits(&g[4]),
    };
    groups
        .as_array()
        .expect("groups")
        .iter()
        .map(group)
        .collect()
}

/// The port's domains, from the smallest: masks of each, and their number for a name. Pairs are cores.
fn domains(domains: &Value) -> Vec<Group> {
    let domains = domains.as_array().expect("domains");
    let mut groups = Vec::new();
    for (name, masks) in domains.iter().enumerate() {
        for mask in masks.as_array().expect("masks") {
            let mask = bits(mask);
            let level = match mask.count_ones() {
                _ if name + 1 == domains.len() => ALL,
                2 => CORE,
                _ => LLC,
            };
            groups.push(Group {
                name: name as i64,
                level,
                mask,
            });
        }
    }
    groups
}

/// ULE on a machine of a record.
pub struct Machine {
    pub kernel: Kernel,
    pub tick_ns: i64,
    port: bool,
    nr_cpus: usize,
    slots: i64,
    groups: Vec<Group>,
    /// Queued tasks: by id, CPU and number.
    tasks: HashMap<TaskId, (usize, i64)>,
    nr_moves: usize,
}

impl Machine {
    /// Two CPUs, unless `nr_cpu_ids` is among the tunables, that share all.
    pub fn small(port: bool, tunables: &[(&str, i128)]) -> Machine {
        let nr_cpus = tunables.iter().find(|(name, _)| *name == "nr_cpu_ids");
        let nr_cpus = nr_cpus.map_or(2, |(_, nr)| *nr as usize);
        let machine = Group {
            name: 0,
            level: ALL,
            mask: u64::MAX,
        };
        Machine::boot(port, nr_cpus, vec![machine], tunables)
    }

    /// The machine of a record. Without draws they are all 0, but still counted.
    pub fn of(records: &Records, r: &Value, tunables: &[(&str, i128)]) -> Machine {
        let topology = &records.topologies[r["topo"].as_str().expect("a topology")];
        let nr_cpus = int(&topology["ncpu"]) as usize;
        let noise = if r["in"]["rng"].is_null() { 1 } else { 32 };
        let mut tunables = tunables.to_vec();
        tunables.push(("search_noise", noise));
        let groups = match records.port {
            true => domains(&topology["domains"]),
            false => tree(&topology["groups"]),
        };
        let mut machine = Machine::boot(records.port, nr_cpus, groups, &tunables);
        machine.kernel.state().cpu = int(&r["in"]["self"]) as u32;
        machine
    }

    fn boot(port: bool, nr_cpus: usize, groups: Vec<Group>, tunables: &[(&str, i128)]) -> Machine {
        let mode = [("mode", i128::from(!port)), ("hz", 1000)];
        let mut values = globals(&[&mode, tunables].concat());
        for (name, level) in [("cpu_llc_id", LLC), ("cpu_core_id", CORE)] {
            let ids = (0..nr_cpus).map(|cpu| {
                let of_level = groups.iter().filter(|g| g.level == level);
                let at = of_level.into_iter().position(|g| g.mask & 1 << cpu != 0);
                at.unwrap_or(0) as i128
            });
            values.push((name.to_owned(), Global::Ints(ids.collect())));
        }
        let object = object("schedulers/ule/tests/multicore.bpf.c", 2);
        let mut kernel = Kernel::boot(object, &values, nr_cpus as u32);
        let setup = kernel.call("t_setup", &[]).0;
        assert_eq!(setup[0], 0, "set-up");
        Machine {
            kernel,
            tick_ns: setup[3],
            port,
            nr_cpus,
            slots: setup[1],
            groups,
            tasks: HashMap::new(),
            nr_moves: 0,
        }
    }

    pub fn nr_cpus(&self) -> usize {
        self.nr_cpus
    }

    pub fn call(&mut self, program: &str, words: &[i64]) -> [i64; 8] {
        self.kernel.call(program, words).0
    }

    /// First state of a CPU's generator: that of the CPU that decides may be given.
    pub fn lcg(&self, r: &Value, cpu: usize) -> i64 {
        match int(&r["in"]["self"]) == cpu as i64 {
            true => r["in"]["rng"].as_i64().unwrap_or(0),
            false => 0,
        }
    }

    pub fn masks(&self, mask: &Value, cpu: usize) -> bool {
        bits(mask) & 1 << cpu != 0
    }

    /// First CPU and level of a group by the record's name for it.
    pub fn group(&self, name: i64) -> (i64, i64) {
        let group = self
            .groups
            .iter()
            .find(|g| g.name == name)
            .expect("a group");
        (group.mask.trailing_zeros().into(), group.level)
    }

    /// The record's name for the group of a CPU at a level.
    pub fn name(&self, cpu: i64, level: i64) -> i64 {
        let is = |g: &&Group| g.level == level && g.mask & 1 << cpu != 0;
        self.groups.iter().find(is).map_or(-1, |g| g.name)
    }

    /// A new task and its address.
    pub fn task(&mut self, tid: i64, cpu: i64, mask: &Value) -> (TaskId, i64) {
        let (bits, nr_cpus) = (bits(mask), self.nr_cpus);
        let state = self.kernel.state();
        let id = state.add_task(tid as i32, cpu as u32);
        state.allow(id, |cpu| cpu < nr_cpus && bits & 1 << cpu != 0);
        (id, state.address(id))
    }

    /// All searches and takings so far.
    pub fn log(&mut self) -> Vec<[i64; 6]> {
        let mut log = Vec::new();
        loop {
            let w = self.call("t_log", &[log.len() as i64]);
            if w[7] == 0 {
                return log;
            }
            log.push(w[..6].try_into().expect("six words"));
        }
    }

    /// The draws: the generator's last state, and with it how many CPUs were visited.
    pub fn visited(&mut self, r: &Value) -> Result<(), String> {
        let cpu = int(&r["in"]["self"]);
        let (before, after) = (self.lcg(r, cpu as usize), self.call("t_cpu_get", &[cpu])[6]);
        if let Some(expected) = r["out"]["rng_after"].as_i64() {
            differs("rng_after", &after, &expected)?;
        }
        let steps = lcg_steps(before as u32, after as u32);
        differs("visited", &steps, &int(&r["out"]["visited"]))
    }

    /// Sets up the CPUs and queues of a record; they come out in its order.
    pub fn queues(&mut self, r: &Value) -> Result<(), String> {
        for (cpu, recorded) in r["in"]["cpus"].as_array().expect("CPUs").iter().enumerate() {
            let c = Cpu::of(self.port, recorded);
            let lcg = self.lcg(r, cpu);
            let pinned = c.queue.iter().filter(|q| q.pinned).count() as i64;
            let cpu = cpu as i64;
            self.call("t_cpu", &[cpu, c.load, pinned, c.pri, c.lowpri, lcg]);
            let base = 4 * self.slots + c.ridx;
            let ahead = |slot: i64| base + (slot - c.ridx).rem_euclid(self.slots);
            let run_slot = c.running.as_ref().filter(|q| q.class == 1);
            let run_slot = run_slot.map_or(-1, |q| ahead(q.slot));
            let calendar = [cpu, ahead(c.idx), base, run_slot];
            let keys: Vec<i64> = c
                .queue
                .iter()
                .map(|q| match q.class {
                    1 => 1 << 60 | ahead(q.slot) << 28 | 1 << 27,
                    class => class << 60 | q.slot << 28 | 1 << 27,
                })
                .collect();
            self.call("t_calendar", &calendar);
            for (q, key) in c.queue.iter().zip(keys) {
                let (id, task) = self.task(q.tid, cpu, &q.mask);
                let state = self.kernel.state();
                state.task(id).migration_disabled = q.pinned.into();
                state.task(id).scx.dsq_vtime = key as u64;
                state.queue((cpu << 2 | i64::from(q.class != 0)) as u64, id);
                self.tasks.insert(id, (cpu as usize, q.tid));
                self.call("t_task", &[task, q.pri, cpu, USED, 0]);
            }
            let queue: Vec<Value> = c.queue.iter().map(Queued::place).collect();
            differs(
                &format!("queue of {cpu}"),
                &json!(self.queue(cpu)),
                &json!(queue),
            )?;
        }
        Ok(())
    }

    /// The queue of a CPU in the order in which it would run: number, class, FIFO or slot.
    fn queue(&mut self, cpu: i64) -> Vec<Value> {
        let slots = self.slots;
        let state = self.kernel.state();
        let mut ids = state.local(cpu as u32).to_vec();
        for queue in [cpu << 2, cpu << 2 | 1] {
            ids.extend(state.queued(queue as u64));
        }
        let mut queue = Vec::new();
        for id in ids {
            let key = state.task(id).scx.dsq_vtime as i64;
            let (class, position) = (key >> 60, key >> 28 & 0xffff_ffff);
            let slot = if class == 1 {
                position % slots
            } else {
                position
            };
            queue.push(json!([self.tasks[&id].1, class, slot]));
        }
        queue
    }

    /// The task that was taken from a CPU, if the next taking `found` one, and its place in the recorded queue; else -1, -1.
    pub fn taken(&mut self, r: &Value, from: i64, found: i64) -> (i64, i64) {
        if found == 255 {
            return (-1, -1);
        }
        let task = self.kernel.state().moves[self.nr_moves].task;
        self.nr_moves += 1;
        let (cpu, tid) = self.tasks[&task];
        assert_eq!(cpu as i64, from, "taken from the CPU that was asked");
        let recorded = &r["in"]["cpus"][cpu];
        let queue = recorded
            .as_array()
            .and_then(|c| c.last()?.as_array())
            .expect("a queue");
        let at = queue
            .iter()
            .position(|q| q[0] == tid)
            .expect("it was there");
        (tid, at as i64)
    }

    /// All CPUs are as they should be.
    pub fn after(&mut self, r: &Value) -> Result<(), String> {
        for (cpu, before) in r["in"]["cpus"].as_array().expect("CPUs").iter().enumerate() {
            let was = Cpu::of(self.port, before);
            let expected = &r["out"]["after"][cpu.to_string()];
            let cpu = cpu as i64;
            let c = self.call("t_cpu_get", &[cpu]);
            let stored = [c[3], c[4], c[5]].map(|slot| slot % self.slots);
            let ridx = if was.is_settled() {
                stored[2]
            } else {
                stored[1]
            };
            let mut is = vec![
                json!(c[0]),
                json!(c[1]),
                json!(c[2]),
                json!(stored[0]),
                json!(ridx),
                json!(self.queue(cpu)),
            ];
            let mut should = match expected.as_array() {
                Some(changed) => changed.clone(),
                None => was.unchanged(self.port),
            };
            if self.port {
                is.remove(1);
                let running = was.running.as_ref().map(|q| q.tid);
                let queue = should[4].as_array_mut().expect("a queue");
                queue.retain(|q| q[0].as_i64() != running);
            }
            differs(&format!("CPU {cpu} afterwards"), &json!(is), &json!(should))?;
        }
        Ok(())
    }
}

/// A recorded CPU. In the port the running task is one of the recorded queue, but not here.
struct Cpu {
    /// Of the running task; -1: none.
    pri: i64,
    load: i64,
    transferable: i64,
    lowpri: i64,
    idx: i64,
    ridx: i64,
    queue: Vec<Queued>,
    running: Option<Queued>,
}

struct Queued {
    tid: i64,
    pri: i64,
    /// 0 realtime and interactive, 1 calendar, 2 idle class; FIFO or slot.
    class: i64,
    slot: i64,
    pinned: bool,
    mask: Value,
}

impl Queued {
    fn place(&self) -> Value {
        json!([self.tid, self.class, self.slot])
    }
}

impl Cpu {
    fn of(port: bool, recorded: &Value) -> Cpu {
        let word = |at: usize| int(&recorded[at - usize::from(port && at > 2)]);
        let queued = |q: &Value| Queued {
            tid: int(&q[0]),
            pri: int(&q[1]),
            class: int(&q[2]),
            slot: int(&q[3]),
            pinned: !port && q[4] == 1,
            mask: q[if port { 4 } else { 5 }].clone(),
        };
        let queue = recorded.as_array().and_then(|c| c.last()?.as_array());
        let mut queue: Vec<Queued> = queue.expect("a queue").iter().map(queued).collect();
        let at = queue.iter().position(|q| port && recorded[0] == q.tid);
        let running = at.map(|at| queue.remove(at));
        Cpu {
            pri: match (&running, port) {
                (Some(q), _) => q.pri,
                (None, true) => -1,
                (None, false) if recorded[0] == 255 => -1,
                (None, false) => word(0),
            },
            load: word(1),
            transferable: if port { 0 } else { word(2) },
            lowpri: word(3),
            idx: word(4),
            ridx: word(5),
            queue,
            running,
        }
    }

    /// FreeBSD keeps idx ahead of ridx only while slot ridx holds a task, and so does the C code, at the next use of the
    /// calendar. Many recorded states are not so, and such a CPU keeps what is stored.
    fn is_settled(&self) -> bool {
        let first = |q: &Queued| q.class == 1 && q.slot == self.ridx;
        self.idx == self.ridx || self.queue.iter().chain(&self.running).any(first)
    }

    fn unchanged(&self, port: bool) -> Vec<Value> {
        let queue: Vec<Value> = self.queue.iter().map(Queued::place).collect();
        let mut words = vec![
            self.load,
            self.transferable,
            self.lowpri,
            self.idx,
            self.ridx,
        ];
        if port {
            words.remove(1);
        }
        words
            .into_iter()
            .map(Value::from)
            .chain([json!(queue)])
            .collect()
    }
}
