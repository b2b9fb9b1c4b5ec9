// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF state of the loaded scheduler: maps, masks, timers, and what its programs print.

use crate::bpf::cpumask::{CpuMask, CpuSet, Cpumasks};
use crate::bpf::format::HostMemory;
use crate::bpf::maps::{MapError, MapId, MapSet};
use crate::bpf::prandom::Prandom;
use crate::bpf::rng::Streams;
use crate::bpf::timers::{Arming, Timers};
use crate::engine::{Engine, RunError, Setup};
use crate::ext::ops::Context;
use crate::topology::Topology;
use tiltyard_model::EventKind;
use tiltyard_native::Instance;

/// Name of the map that carries probes, see schedulers/lib/tiltyard.bpf.h.
const PROBE_MAP: &str = "tilt_probes";
const PROBE_NAME_BYTES: usize = 20;
const PROBE_RECORD_BYTES: usize = 40;

pub struct Bpf {
    pub maps: MapSet,
    pub masks: Cpumasks,
    pub timers: Timers,
    pub prandom: Prandom,
    /// Lines that a dump op has printed.
    pub dump: String,
    /// Numbers for the addresses that messages print.
    pub memory: HostMemory,
    /// What was printed last.
    pub printed: Vec<u8>,
    /// Calls of bpf_printk() that succeeded.
    pub lines_printed: u64,
    probe_map: Option<MapId>,
    probes: Vec<[u8; PROBE_NAME_BYTES]>,
    /// An always empty mask, for schedulers that track idle CPUs themselves.
    pub no_cpus: CpuSet,
}

impl Bpf {
    pub fn new(setup: &Setup, instance: &Instance, topology: &Topology) -> Result<Bpf, RunError> {
        let nr_cpus = topology.online.nr_cpus();
        let decls = &setup.object.maps;
        let mut maps = MapSet::new(decls, nr_cpus as usize).map_err(|error| match error {
            MapError::Unsupported { .. } => RunError::NotModelled(error.to_string()),
            _ => RunError::Scheduler(error.to_string()),
        })?;
        instance.set_map_memory(maps.memory());
        // What inner maps are like has no variable.
        let of_variables = decls.iter().enumerate();
        for (i, decl) in of_variables.filter(|(_, decl)| !decl.symbol.is_empty()) {
            let Some(variable) = instance.symbol(&decl.symbol) else {
                return Err(RunError::Scheduler(format!(
                    "map '{}' has no variable",
                    decl.name
                )));
            };
            // SAFETY: a map variable is at least as large as its `type` member, a pointer.
            unsafe { maps.bind(MapId(i as u32), variable) };
        }
        Ok(Bpf {
            probe_map: maps.find(PROBE_MAP),
            maps,
            masks: Cpumasks::new(nr_cpus),
            timers: Timers::new(),
            prandom: Prandom::new(&Streams::new(setup.seed), nr_cpus),
            dump: String::new(),
            // SAFETY: only formats of the scheduler's own calls are printed, with the strings that they name.
            memory: unsafe { HostMemory::new() },
            printed: Vec::new(),
            lines_printed: 0,
            probes: Vec::new(),
            no_cpus: CpuSet::new(nr_cpus),
        })
    }
}

impl Engine<'_> {
    /// A mask that a scheduler holds a pointer to.
    ///
    /// # Safety
    /// `ptr` is a `struct cpumask *` that the simulated kernel handed out.
    pub(crate) unsafe fn mask(&self, ptr: u64) -> CpuMask {
        // SAFETY: the caller's promise.
        unsafe { CpuMask::from_raw(ptr as *const _, self.topology.online.nr_cpus()) }
    }

    /// Work that a callback leaves behind.
    #[inline]
    pub(crate) fn after_callback(&mut self) {
        self.ext.bpf.masks.reclaim();
        if self.ext.bpf.maps.take_unsettled() {
            self.settle_maps();
        }
        if let Some(accesses) = &mut self.ext.accesses {
            accesses.forget();
        }
    }

    /// Freed map values, misuse that a verifier would have rejected, probes.
    #[inline(never)]
    fn settle_maps(&mut self) {
        let bpf = &mut self.ext.bpf;
        let timers = &mut bpf.timers;
        let races = &mut self.races;
        bpf.maps.reclaim(|freed| {
            if let Some(races) = races {
                races.forget(freed.clone());
            }
            timers.forget(freed);
        });
        if let Some(misuse) = bpf.maps.take_misuse() {
            self.fail(RunError::Scheduler(misuse.to_string()));
        }
        if self.probes {
            self.drain_probes();
        }
    }

    /// Turns the scheduler's probe records into events.
    fn drain_probes(&mut self) {
        let Some(map) = self.ext.bpf.probe_map else {
            return;
        };
        while let Some(record) = self.ext.bpf.maps.ringbuf_take(map) {
            match <[u8; PROBE_RECORD_BYTES]>::try_from(record) {
                Ok(fields) => self.probe_event(&fields),
                Err(_) => {
                    let what = format!("a record of {} bytes in map '{PROBE_MAP}'", record.len());
                    return self.fail(RunError::NotModelled(what));
                }
            }
        }
    }

    fn probe_event(&mut self, record: &[u8; PROBE_RECORD_BYTES]) {
        let mut name = [0u8; PROBE_NAME_BYTES];
        name.copy_from_slice(&record[..PROBE_NAME_BYTES]);
        let word = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let per_cpu = record[20] != 0;
        // A scheduler has a handful of probes: a linear search beats hashing.
        let known = self.ext.bpf.probes.iter().position(|n| *n == name);
        let probe = known.unwrap_or_else(|| {
            self.ext.bpf.probes.push(name);
            let probe = self.ext.bpf.probes.len() - 1;
            let len = name.iter().position(|b| *b == 0).unwrap_or(name.len());
            self.sink.probe_name(
                probe as u16,
                &String::from_utf8_lossy(&name[..len]),
                per_cpu,
            );
            probe
        }) as u16;
        let kind = EventKind::Probe {
            probe,
            key: word(24) as u32,
            value: word(32) as i64,
        };
        self.emit(self.exec_cpu, kind);
    }

    /// A bpf_timer's time has come, on the CPU that started it: `callback(map, key, value)` without any lock.
    pub(crate) fn bpf_timer_fires(&mut self, arming: Arming, cpu: u32) {
        let Some(fired) = self.ext.bpf.timers.fire(arming) else {
            return;
        };
        self.exec_cpu = cpu;
        let Some(element) = self.ext.bpf.maps.element_at(fired.map, fired.timer) else {
            return;
        };
        let map = self.ext.bpf.maps.variable(fired.map) as u64;
        let args = [map, element.key.as_ptr() as u64, element.value as u64];
        let callback = fired.callback as *const std::ffi::c_void;
        self.timer_fires(fired.timer);
        // SAFETY: the scheduler set this callback for a timer, whose arguments these are.
        self.call_bpf(Context::default(), |instance| unsafe {
            instance.call3(callback, args)
        });
        self.ext.bpf.timers.done();
        self.timer_done(fired.timer);
    }
}
