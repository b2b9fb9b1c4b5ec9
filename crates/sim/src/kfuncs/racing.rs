// SPDX-License-Identifier: GPL-2.0-or-later
//! The check for data races (`races`) in terms of the engine: which accesses it sees, and which memory a pair is about.

use super::access::Accesses;
use crate::bpf::maps::MapId;
use crate::bpf::maps::locate::{Holder, Located};
use crate::engine::Engine;
use crate::races::{AccessKind, Pair, Site};
use crate::task::TaskId;
use tiltyard_native::object::{MapKind, how};

/// Numbers of owners of memory: below, variables; from here on, maps.
const MAPS: u32 = 1 << 16;
const NO_MAP: u32 = u32::MAX - MAPS;

/// What a run's check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Each pair of lines once for each variable or map, by place.
    pub races: Vec<Race>,
    /// The scheduler touched more memory than the check remembers: there may be more races.
    pub is_partial: bool,
}

/// Two accesses to the same memory that nothing orders, one of which writes and one of which is plain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Race {
    /// The earlier one of the first occurrence, then the later one.
    pub sides: [Side; 2],
    /// The variable or the map; empty for freed memory.
    pub owner: String,
    /// `cpus[3], byte 16`; of the first occurrence.
    pub what: String,
    /// Of the first occurrence, on the clock of the events.
    pub time_ns: u64,
    /// How often these lines raced on it.
    pub times: u64,
}

/// One access of a race.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// `mine.bpf.c:42`; `?` where that is not known.
    pub place: String,
    /// The op, or `timer`.
    pub callback: String,
    pub cpu: u32,
    /// The task that the callback is about: `name[pid]`.
    pub task: Option<String>,
    /// `reads`, `writes` or `updates`.
    pub action: &'static str,
    /// Whether it is neither volatile nor atomic.
    pub plain: bool,
}

impl Engine<'_> {
    /// Scheduler code accesses memory, which may be its stack.
    pub(crate) fn check_access(&mut self, address: usize, bytes: u64, how: u64, place: u32) {
        if how & how::MEANT != 0 {
            return;
        }
        let maps = &self.ext.bpf.maps;
        let variables = self.ext.accesses.as_ref();
        let is_shared =
            variables.is_some_and(|v| v.variable_at(address).is_some()) || maps.is_shared(address);
        let owner = |address| match variables.and_then(|v| v.number_at(address)) {
            Some(variable) => variable.into(),
            None => MAPS + maps.locate(address).map_or(NO_MAP, |at| at.map.0),
        };
        let context = &self.ext.ctx;
        let site = Site {
            cpu: self.exec_cpu,
            place,
            callback: Accesses::callback_number(context.op),
            task: context.subject.0,
            time_ns: self.now,
        };
        let Some(races) = &mut self.races else { return };
        if is_shared {
            let end = address.saturating_add(bytes as usize);
            races.access(site, address..end, how, owner);
            if races.has_fresh() {
                self.name_races();
            }
        } else if how & how::FENCE != 0 {
            // smp_mb() is an atomic operation on a local variable.
            races.fence(self.exec_cpu);
        }
    }

    /// bpf_map_update_elem has overwritten a value in place, as it does in arrays; other maps get a new one, which
    /// nobody else knows yet.
    ///
    /// # Safety
    /// `key` is readable for the key size.
    pub(super) unsafe fn check_update(&mut self, map: MapId, key: *const u8) {
        let maps = &mut self.ext.bpf.maps;
        let (kind, bytes) = (maps.decl(map).kind, maps.decl(map).value_size);
        if kind == MapKind::Array {
            // SAFETY: the caller's promise.
            let value = unsafe { maps.lookup(map, key, self.exec_cpu as usize) };
            let place = self.instance.place();
            self.check_access(value as usize, bytes.into(), how::WRITE, place);
        }
    }

    /// Names the memory of new pairs while its owner still exists.
    #[cold]
    fn name_races(&mut self) {
        let Some(mut races) = self.races.take() else {
            return;
        };
        races.name_fresh(|address| self.memory_label(address));
        self.races = Some(races);
    }

    /// `cpus[3], byte 16`
    fn memory_label(&self, address: usize) -> String {
        let variable = self
            .ext
            .accesses
            .as_ref()
            .and_then(|v| v.variable_at(address));
        if let Some((name, index, offset)) = variable {
            let index = index.map_or(String::new(), |i| format!("[{i}]"));
            return format!("{name}{index}{}", byte(offset));
        }
        match self.ext.bpf.maps.locate(address) {
            Some(located) => self.value_label(&located),
            None => "freed memory".to_owned(),
        }
    }

    fn value_label(&self, located: &Located) -> String {
        let decl = self.ext.bpf.maps.decl(located.map);
        let holder = match (located.holder, decl.kind) {
            (Holder::Index(index), _) => format!("[{index}]"),
            (Holder::Key(key), _) => format!("[{key}]"),
            (Holder::LongKey, _) => String::new(),
            (Holder::Owner(owner), MapKind::TaskStorage) => {
                format!(" of {}", self.task_label(TaskId(owner)))
            }
            (Holder::Owner(owner), _) => {
                let group = self.cgroups.groups.get(owner as usize);
                format!(" of {}", group.map_or("?", |g| g.path.as_str()))
            }
        };
        let cpu = located
            .cpu
            .map_or(String::new(), |cpu| format!(" of CPU {cpu}"));
        format!("{}{holder}{cpu}{}", decl.name, byte(located.offset))
    }

    pub(crate) fn checked(&self) -> Checked {
        let Some(races) = &self.races else {
            return Checked::default();
        };
        let mut found: Vec<Race> = races.pairs().map(|pair| self.race(pair)).collect();
        found.sort_by_cached_key(|race| race.sides.clone().map(|side| place_key(&side.place)));
        Checked {
            races: found,
            is_partial: races.is_partial(),
        }
    }

    fn race(&self, pair: &Pair) -> Race {
        let side = |site: &Site, kind: &AccessKind| Side {
            place: self.object.place(site.place).unwrap_or("?".to_owned()),
            callback: Accesses::callback_name(site.callback).to_owned(),
            cpu: site.cpu,
            task: Some(TaskId(site.task))
                .filter(|task| !task.is_idle())
                .map(|task| self.task_label(task)),
            action: match kind {
                AccessKind { update: true, .. } => "updates",
                AccessKind { write: true, .. } => "writes",
                _ => "reads",
            },
            plain: !kind.marked,
        };
        let [first, second] = [0, 1].map(|at| side(&pair.sites[at], &pair.kinds[at]));
        let owner = match pair.owner.checked_sub(MAPS) {
            None => self.ext.accesses.as_ref().map(|v| v.name(pair.owner)),
            Some(NO_MAP) => None,
            Some(map) => Some(self.ext.bpf.maps.decl(MapId(map)).name.as_str()),
        };
        Race {
            sides: [first, second],
            owner: owner.unwrap_or_default().to_owned(),
            what: pair.what.clone(),
            time_ns: pair.sites[1].time_ns,
            times: pair.times,
        }
    }
}

fn byte(offset: usize) -> String {
    match offset {
        0 => String::new(),
        offset => format!(", byte {offset}"),
    }
}

/// Orders `a.h:9` before `a.h:10`.
pub(crate) fn place_key(place: &str) -> (String, u32) {
    let (file, line) = place.rsplit_once(':').unwrap_or((place, "0"));
    (file.to_owned(), line.parse().unwrap_or(0))
}
