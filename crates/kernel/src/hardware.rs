// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine as QEMU arguments: sockets, dies (one for each last-level cache), cores, threads, and
//! memory nodes with their distances.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tiltyard_model::Machine;
use tiltyard_model::machine::CpuPlace;

use crate::error::KernelError;
use crate::protocol::SERIAL_ARGUMENT;
use crate::release;

/// What runs the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accel {
    /// The host's own CPU.
    Kvm,
    /// Emulation in software: decisions are real, times are not.
    Emulated,
    /// The same with a clock that counts instructions: exactly repeatable. Several CPUs share one stream
    /// of instructions: with N of them at work each does an Nth of what one would, and has the stream until it pauses,
    /// halts, or a timer is due.
    Counted,
}

impl Accel {
    /// Human-readable.
    pub fn name(self) -> &'static str {
        match self {
            Accel::Kvm => "KVM",
            Accel::Emulated => "emulated",
            Accel::Counted => "emulated, instructions counted",
        }
    }

    /// For the guest kernel's command line.
    pub(crate) fn kernel_options(self, machine: &Machine, release: &str) -> String {
        let mut exact = match self {
            Accel::Counted => "nokaslr norandmaps noautogroup idle=halt damon_stat.enabled=0",
            Accel::Kvm | Accel::Emulated => "",
        }
        .to_owned();
        if self == Accel::Counted && machine.nr_cpus() > 1 {
            // A CPU that has the stream keeps it until the next timer of any is due. With ticks at one moment each would
            // have it for a whole tick, and answer the others only after all of them.
            exact += " skew_tick=1";
            if release::waits_for_cpus_without_pause(release) {
                // Such a wait at boot never ends: ticks are periodic then, so each of its turns lasts until a timer is due,
                // and QEMU (seen with 7.2) gives the next CPU no turn in that moment. Init starts the other CPUs, when
                // each tick sets the timer of the next one, which ends a turn early.
                exact += " maxcpus=1";
            }
        }
        if let Some(limits) = self.stall_limits(machine) {
            exact = format!("{exact} {limits}");
        }
        match self.model(machine) {
            // What Intel's CPUs leak, emulated ones do not, and keeping it in would cost them time.
            WITH_DIES => format!("{exact} mitigations=off"),
            _ => exact,
        }
    }

    /// The kernel's limits that grow with emulation, as words of its command line: emulated CPUs take turns on few real
    /// ones, so a task that holds up others on one CPU does so for many times longer.
    pub fn stall_limits(self, machine: &Machine) -> Option<&'static str> {
        (self != Accel::Kvm && machine.nr_cpus() > 1).then_some(STALL_LIMITS)
    }

    /// `-cpu`. The default model lacks what newer kernels expect.
    fn model(self, machine: &Machine) -> &'static str {
        let count =
            |key: fn(&CpuPlace) -> u32| machine.cpus.iter().map(key).collect::<BTreeSet<_>>().len();
        match self {
            Accel::Kvm => "host",
            _ if count(|cpu| cpu.llc) > count(|cpu| cpu.package) => WITH_DIES,
            Accel::Emulated | Accel::Counted => "max",
        }
    }

    /// Further arguments of the guest's init.
    pub(crate) fn init_arguments(self) -> &'static str {
        match self {
            Accel::Counted => SERIAL_ARGUMENT,
            Accel::Kvm | Accel::Emulated => "",
        }
    }

    /// `seed` is what the random numbers of a guest that is exactly repeatable begin with.
    pub(crate) fn arguments(self, machine: &Machine, seed: u32) -> Vec<String> {
        let seed = seed.to_string();
        let words: &[&str] = match self {
            Accel::Kvm => &["-accel", "kvm"],
            // One emulation thread: the guest kernel patches its own text (static keys), and a second
            // emulated CPU can run the half-patched place and die of a stray int3.
            Accel::Emulated => &["-accel", "tcg,thread=single"],
            Accel::Counted => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                // Whatever else could differ between two boots: random numbers and the date.
                "-seed",
                &seed,
                "-rtc",
                "base=2000-01-01,clock=vm",
            ],
        };
        let model = ["-cpu", self.model(machine)];
        let words = words.iter().chain(&model);
        words.map(|word| (*word).to_owned()).collect()
    }
}

/// The emulated CPU calls itself one of AMD's from before these had several caches in a package, and kernels take it
/// at its word. Intel models report dies.
const WITH_DIES: &str = "max,vendor=GenuineIntel,family=6,model=85,stepping=4";

/// The longest times that the kernel's watchdogs take (RCU 300 s instead of 21, soft lockups twice 60 s instead of twice 10),
/// and 20 minutes instead of two for tasks that hang. None changes what a scheduler decides.
const STALL_LIMITS: &str = "rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60 \
     sysctl.kernel.hung_task_timeout_secs=1200";

/// `-smp`, `-m` and `-numa` for `machine`, with `memory_mib` spread evenly over its nodes.
pub(crate) fn arguments(machine: &Machine, memory_mib: u32) -> Result<Vec<String>, KernelError> {
    let refuse = |why: &str| {
        let name = &machine.name;
        KernelError::Job(format!("machine {name}: QEMU cannot build it: {why}"))
    };
    let cpus = &machine.cpus;
    if cpus.iter().any(|cpu| cpu.capacity != 1024) {
        return Err(refuse("its CPUs differ in speed"));
    }
    let (sockets, caches, cores) = (
        groups(cpus, |cpu| cpu.package),
        groups(cpus, |cpu| cpu.llc),
        groups(cpus, |cpu| cpu.core),
    );
    let nodes = groups(cpus, |cpu| cpu.node);
    let all = [&sockets, &caches, &cores, &nodes];
    let [Some(sockets), Some(caches), Some(cores), Some(nodes)] = all else {
        return Err(refuse(
            "the CPUs of a package, cache, core or node are not neighbours",
        ));
    };
    let even = [sockets, caches, cores].iter().all(|groups| {
        let len = groups[0].len();
        groups.iter().all(|group| group.len() == len)
    });
    if !even || caches.len() % sockets.len() != 0 || cores.len() % caches.len() != 0 {
        return Err(refuse("its packages, caches or cores are not all alike"));
    }
    let mut words = vec![
        "-smp".to_owned(),
        format!(
            "{},sockets={},dies={},cores={},threads={}",
            cpus.len(),
            sockets.len(),
            caches.len() / sockets.len(),
            cores.len() / caches.len(),
            cores[0].len()
        ),
        "-m".to_owned(),
        format!("{memory_mib}M"),
    ];
    words.extend(match nodes.as_slice() {
        [_] => vec![
            "-object".to_owned(),
            memory(0, memory_mib as usize),
            "-machine".to_owned(),
            "memory-backend=memory0".to_owned(),
        ],
        nodes => memory_nodes(machine, nodes, memory_mib),
    });
    Ok(words)
}

/// Shared with Tiltyard, which reads requests for files there and writes the answers.
fn memory(id: usize, size_mib: usize) -> String {
    format!("memory-backend-memfd,id=memory{id},size={size_mib}M,share=on")
}

fn memory_nodes(machine: &Machine, nodes: &[Range<usize>], memory_mib: u32) -> Vec<String> {
    let (each, count) = (memory_mib as usize / nodes.len(), nodes.len());
    let mut words = Vec::new();
    for (id, cpus) in nodes.iter().enumerate() {
        // What does not divide evenly goes to the last.
        let size = match id + 1 == count {
            true => memory_mib as usize - each * id,
            false => each,
        };
        let (first, last) = (cpus.start, cpus.end - 1);
        words.extend([
            "-object".to_owned(),
            memory(id, size),
            "-numa".to_owned(),
            format!("node,nodeid={id},cpus={first}-{last},memdev=memory{id}"),
        ]);
    }
    for (from, row) in machine.node_distance.iter().enumerate() {
        for (to, distance) in row.iter().enumerate() {
            words.extend([
                "-numa".to_owned(),
                format!("dist,src={from},dst={to},val={distance}"),
            ]);
        }
    }
    words
}

/// CPUs that share what `key` names, group by group; `None` unless each is a run of neighbours.
fn groups(cpus: &[CpuPlace], key: fn(&CpuPlace) -> u32) -> Option<Vec<Range<usize>>> {
    let mut groups: Vec<(u32, Range<usize>)> = Vec::new();
    for (cpu, place) in cpus.iter().enumerate() {
        let known = groups.iter().position(|(name, _)| *name == key(place));
        match known {
            None => groups.push((key(place), cpu..cpu + 1)),
            Some(at) if at + 1 == groups.len() => groups[at].1.end = cpu + 1,
            Some(_) => return None,
        }
    }
    Some(groups.into_iter().map(|(_, group)| group).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(topology: &str) -> Result<String, String> {
        let machine = Machine::parse_hwloc_synthetic(topology).expect("a topology");
        arguments(&machine, 2049)
            .map(|words| words.join(" "))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn threads_cores_caches_and_packages() {
        assert_eq!(
            built("package:2 [numa] l3:2 core:3 pu:2").unwrap(),
            "-smp 24,sockets=2,dies=2,cores=3,threads=2 -m 2049M \
             -object memory-backend-memfd,id=memory0,size=1024M,share=on -numa node,nodeid=0,cpus=0-11,memdev=memory0 \
             -object memory-backend-memfd,id=memory1,size=1025M,share=on -numa node,nodeid=1,cpus=12-23,memdev=memory1 \
             -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=16 \
             -numa dist,src=1,dst=0,val=16 -numa dist,src=1,dst=1,val=10"
        );
        assert_eq!(
            built("pu:1").unwrap(),
            "-smp 1,sockets=1,dies=1,cores=1,threads=1 -m 2049M \
             -object memory-backend-memfd,id=memory0,size=2049M,share=on -machine memory-backend=memory0"
        );
    }

    /// Only machines that need it: on all others results stay comparable with older ones.
    #[test]
    fn several_caches_in_a_package_take_a_cpu_that_tells() {
        let machine = |topology| Machine::parse_hwloc_synthetic(topology).expect("a topology");
        let model = |accel: Accel, topology| accel.arguments(&machine(topology), 1).last().cloned();
        let two_caches = "package:1 [numa] l3:2 core:2 pu:1";
        for accel in [Accel::Emulated, Accel::Counted] {
            assert_eq!(model(accel, two_caches).as_deref(), Some(WITH_DIES));
            let options = accel.kernel_options(&machine(two_caches), "6.18.15");
            assert!(options.ends_with(" mitigations=off"), "{options}");
            assert_eq!(
                model(accel, "package:2 [numa] core:2 pu:1").as_deref(),
                Some("max")
            );
        }
        assert_eq!(model(Accel::Kvm, two_caches).as_deref(), Some("host"));
        assert_eq!(
            Accel::Kvm.kernel_options(&machine(two_caches), "6.18.15"),
            ""
        );
    }

    #[test]
    fn on_a_clock_of_instructions_old_kernels_leave_other_cpus_to_init() {
        let is_left = |accel: Accel, topology, release| {
            let machine = Machine::parse_hwloc_synthetic(topology).expect("a topology");
            accel
                .kernel_options(&machine, release)
                .contains("maxcpus=1")
        };
        assert!(is_left(Accel::Counted, "pu:2", "6.1.0-50-cloud-amd64"));
        assert!(!is_left(Accel::Counted, "pu:1", "6.1.0-50-cloud-amd64"));
        assert!(!is_left(Accel::Counted, "pu:2", "6.18.15"));
        assert!(!is_left(Accel::Emulated, "pu:2", "6.1.0-50-cloud-amd64"));
    }

    #[test]
    fn what_qemu_cannot_build_is_said() {
        let mut machine = Machine::parse_hwloc_synthetic("package:2 core:2 pu:1").expect("fine");
        machine.cpus.swap(1, 2);
        let error = arguments(&machine, 512).unwrap_err().to_string();
        assert!(error.contains("not neighbours"), "{error}");
        machine.cpus.swap(1, 2);
        machine.cpus[0].capacity = 512;
        let error = arguments(&machine, 512).unwrap_err().to_string();
        assert!(error.contains("differ in speed"), "{error}");
        machine.cpus[0].capacity = 1024;
        machine.cpus.pop();
        let error = arguments(&machine, 512).unwrap_err().to_string();
        assert!(error.contains("not all alike"), "{error}");
    }
}
