// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be switched off: costs of the machine, and what the schedulers declare beside their presets. All of it is data.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use tiltyard_measure::shapley::{Coalition, MAX_PLAYERS};
use tiltyard_model::Machine;
use tiltyard_native::Value;
use tiltyard_workload::Workload;

use crate::objects::{self, Built};
use crate::schedulers::Mechanism;
use crate::{Error, nearest};

/// The machine's mechanisms.
const OF_MACHINE: &str = include_str!("machine.toml");

/// Their owner, in results.
const MACHINE: &str = "machine";

/// The cost that only matters between threads of a core.
const SMT: &str = "smt_permille";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMachine {
    description: String,
    /// Costs by their keys in machine files, and what they are when it is off.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
    /// False: without the kernel's own threads.
    #[serde(default = "yes")]
    noise: bool,
    /// False: a lock that another CPU holds is free.
    #[serde(default = "yes")]
    lock_waits: bool,
    /// False: a mutex that another task holds is free.
    #[serde(default = "yes")]
    mutex_waits: bool,
}

fn yes() -> bool {
    true
}

impl OfMachine {
    fn switch_off(&self, machine: &mut Machine) -> Result<(), Error> {
        for (key, value) in &self.costs {
            if !machine.costs.set(key, *value) {
                let line = format!("explain/machine.toml: {key}: machines have no such cost");
                return Err(Error::input(line));
            }
        }
        if !self.noise {
            machine.noise.clear();
        }
        machine.lock_waits &= self.lock_waits;
        machine.mutex_waits &= self.mutex_waits;
        Ok(())
    }
}

/// Values of tunables, as a scheduler is loaded with them.
type Globals = Vec<(String, Value)>;

/// Something that is switched off for both sides at once: a player, in terms of the Shapley value.
#[derive(Debug)]
pub(super) struct Player {
    pub name: String,
    /// Whose it is, and what it does.
    pub of: Vec<(String, String)>,
    /// By name in `machine.toml`, if the machine has it.
    is_machines: bool,
    /// What switches it off in each scheduler; empty if that one lacks it.
    off: [Globals; 2],
}

/// The mechanisms of a machine and two schedulers, and how to leave them out.
pub(super) struct Mechanisms {
    pub all: Vec<Player>,
    /// What was left out because it has no effect here, and why, one sentence each.
    pub notes: Vec<String>,
    of_machine: BTreeMap<String, OfMachine>,
}

impl Mechanisms {
    /// Those that `machine`, running `workload`, or one of `sides` has; `wanted`: only these, or all if it is empty.
    pub fn gather(
        machine: &Machine,
        workload: &Workload,
        sides: &[Built; 2],
        wanted: &[String],
    ) -> Result<Mechanisms, Error> {
        let of_machine: BTreeMap<String, OfMachine> = toml::from_str(OF_MACHINE)
            .map_err(|e| Error::input(format!("explain/machine.toml: {}", e.message())))?;
        let mut all: Vec<Player> = Vec::new();
        let mut absent: BTreeMap<String, String> = BTreeMap::new();
        for (name, mechanism) in &of_machine {
            let mut without = machine.clone();
            mechanism.switch_off(&mut without)?;
            let why = match () {
                () if without == *machine => Some(format!("{} has none", machine.name)),
                () if mechanism.costs.contains_key(SMT) && !shares_cores(machine) => {
                    Some(format!("{} has no SMT", machine.name))
                }
                () if !mechanism.mutex_waits && workload.mutexes.is_empty() => {
                    Some("the workload has no mutex".to_owned())
                }
                // A signal that comes before its wait is lost: the mutex would have kept it back.
                () if !mechanism.mutex_waits && !workload.conds.is_empty() => {
                    Some("mutexes of the workload guard condition variables".to_owned())
                }
                () => None,
            };
            if let Some(why) = why {
                absent.insert(name.clone(), why);
                continue;
            }
            let at = of_name(&mut all, name);
            at.is_machines = true;
            at.of = vec![(MACHINE.to_owned(), mechanism.description.clone())];
        }
        for (side, built) in sides.iter().enumerate() {
            for declared in &built.choice.mechanisms {
                let off = switched_off(built, declared)?;
                let why = match () {
                    () if declared.multicore && machine.nr_cpus() == 1 => "needs several CPUs",
                    () if off.is_empty() => "neither scheduler has it",
                    () => {
                        let at = of_name(&mut all, &declared.name);
                        let label = &built.choice.label;
                        at.of.push((label.clone(), declared.description.clone()));
                        at.off[side] = off;
                        continue;
                    }
                };
                absent.insert(declared.name.clone(), why.to_owned());
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        choose(&mut all, &absent, wanted)?;
        let notes = notes(sides, &all, &absent, wanted);
        Ok(Mechanisms {
            all,
            notes,
            of_machine,
        })
    }

    /// Which of them make a difference to a side.
    pub fn mask(&self, side: usize) -> Coalition {
        let concerned = |m: &Player| m.is_machines || !m.off[side].is_empty();
        let bits = self.all.iter().enumerate();
        bits.filter(|(_, m)| concerned(m))
            .fold(0, |mask, (i, _)| mask | 1 << i)
    }

    fn chosen(&self, off: Coalition) -> impl Iterator<Item = &Player> {
        let all = self.all.iter().enumerate();
        all.filter(move |(i, _)| off >> i & 1 == 1).map(|(_, m)| m)
    }

    /// `machine` without the mechanisms of `off`.
    pub fn machine(&self, machine: &Machine, off: Coalition) -> Result<Machine, Error> {
        let mut machine = machine.clone();
        for mechanism in self.chosen(off).filter(|m| m.is_machines) {
            self.of_machine[&mechanism.name].switch_off(&mut machine)?;
        }
        Ok(machine)
    }

    /// The scheduler of a side without the mechanisms of `off`.
    pub fn scheduler(&self, sides: &[Built; 2], side: usize, off: Coalition) -> Built {
        let built = &sides[side];
        let mut globals = built.globals.clone();
        for (name, value) in self.chosen(off).flat_map(|m| &m.off[side]) {
            globals.retain(|(known, _)| known != name);
            globals.push((name.clone(), value.clone()));
        }
        Built {
            choice: built.choice.clone(),
            object: built.object.clone(),
            globals,
        }
    }

    /// "without kernel-noise, switch-cost", for messages.
    pub fn words(&self, off: Coalition) -> String {
        let names: Vec<&str> = self.chosen(off).map(|m| m.name.as_str()).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!(" without {}", names.join(", ")),
        }
    }
}

/// Whether a core has several threads.
fn shares_cores(machine: &Machine) -> bool {
    let cores: HashSet<u32> = machine.cpus.iter().map(|cpu| cpu.core).collect();
    cores.len() < machine.cpus.len()
}

/// The mechanism of this name.
fn of_name<'a>(all: &'a mut Vec<Player>, name: &str) -> &'a mut Player {
    let at = all.iter().position(|m| m.name == name);
    let at = at.unwrap_or_else(|| {
        all.push(Player {
            name: name.to_owned(),
            of: Vec::new(),
            is_machines: false,
            off: [Vec::new(), Vec::new()],
        });
        all.len() - 1
    });
    &mut all[at]
}

/// Tunables that a declared mechanism changes in this variant of its scheduler; none if it lacks the mechanism.
fn switched_off(built: &Built, declared: &Mechanism) -> Result<Globals, Error> {
    let (choice, object) = (&built.choice, &built.object);
    let has = |(name, value): &(String, Value)| {
        let default = object.tunables[name].default.map(Value::Int);
        current(&built.globals, name, default.as_ref()) == Some(value)
    };
    let when = objects::values(choice, object, &declared.when)?;
    if !when.iter().all(has) {
        return Ok(Vec::new());
    }
    let mut off = objects::values(choice, object, &declared.off)?;
    off.retain(|pair| !has(pair));
    Ok(off)
}

/// The value given for a tunable, else its default.
fn current<'v>(
    given: &'v [(String, Value)],
    name: &str,
    default: Option<&'v Value>,
) -> Option<&'v Value> {
    let given = given.iter().find(|(known, _)| known == name);
    given.map(|(_, value)| value).or(default)
}

/// Keeps the wanted ones.
fn choose(
    all: &mut Vec<Player>,
    absent: &BTreeMap<String, String>,
    wanted: &[String],
) -> Result<(), Error> {
    for name in wanted {
        if all.iter().any(|m| m.name == *name) {
            continue;
        }
        let what = match absent.get(name) {
            Some(why) => format!("nothing to switch off here: {why}"),
            None => {
                let known: Vec<String> = all.iter().map(|m| m.name.clone()).collect();
                format!("no such mechanism; {}", nearest::hint(name, &known))
            }
        };
        return Err(Error::argument("mechanisms", name, what));
    }
    all.retain(|m| wanted.is_empty() || wanted.contains(&m.name));
    if all.len() > MAX_PLAYERS {
        let line = format!(
            "{} mechanisms, and shares are computed for at most {MAX_PLAYERS}; name those that matter with --mechanisms",
            all.len()
        );
        return Err(Error::Request(line));
    }
    Ok(())
}

/// What the reader should know of what is not among `all`.
fn notes(
    sides: &[Built; 2],
    all: &[Player],
    absent: &BTreeMap<String, String>,
    wanted: &[String],
) -> Vec<String> {
    let declares_none = |built: &&Built| built.choice.mechanisms.is_empty();
    let none = sides.iter().filter(declares_none).map(|built| {
        let label = &built.choice.label;
        format!(
            "{label} declares no mechanisms of its own, so only the machine's are switched off. A presets.toml beside its \
             source can declare some, in three lines each."
        )
    });
    let mut notes: Vec<String> = none.collect();
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, why) in absent {
        if !all.iter().any(|m| m.name == *name) && wanted.is_empty() {
            by_reason.entry(why).or_default().push(name);
        }
    }
    let left_out = by_reason.iter();
    notes.extend(left_out.map(|(why, names)| format!("Left out, {why}: {}.", names.join(", "))));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing that is switched off changes what another one switches off.
    #[test]
    fn mechanisms_of_the_machine_are_apart() {
        let machine = crate::machines::load("epyc-7763x2").unwrap();
        let all: BTreeMap<String, OfMachine> = toml::from_str(OF_MACHINE).unwrap();
        let mut seen = Vec::new();
        for (name, mechanism) in &all {
            let mut without = machine.clone();
            mechanism.switch_off(&mut without).unwrap();
            assert_ne!(without, machine, "{name} does nothing");
            seen.extend(mechanism.costs.keys());
        }
        let costs = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), costs, "a cost belongs to two mechanisms");
    }

    #[test]
    fn cores_are_shared_by_their_threads_only() {
        let machine = |name| crate::machines::load(name).unwrap();
        assert!(shares_cores(&machine("epyc-7763x2")));
        assert!(!shares_cores(&machine("opteron32")));
    }

    #[test]
    fn a_given_value_counts_more_than_the_default() {
        let given = vec![("slice".to_owned(), Value::Int(3))];
        let default = Value::Int(7);
        let current = |name| current(&given, name, Some(&default));
        assert_eq!(current("slice"), Some(&Value::Int(3)));
        assert_eq!(current("other"), Some(&default));
    }
}
