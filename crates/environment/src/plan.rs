// SPDX-License-Identifier: GPL-2.0-or-later
//! The values of an environment for one machine.

use tiltyard_model::Machine;

use crate::bytes::{Number, le_bytes};
use crate::facts::{Each, Part};
use crate::table::{CallTable, Environment, EnvironmentError, MapTable, Term, array_key, when_key};

/// What a loader does for one machine, in this order: sizes, variables and flags before the scheduler is loaded, then
/// the elements of maps, then calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Elements of RESIZABLE_ARRAYs.
    pub sizes: Vec<(String, u64)>,
    pub variables: Vec<Variable>,
    pub flags: Vec<Flag>,
    pub entries: Vec<Entry>,
    /// The CPU on which the scheduler is attached; `None`: any.
    pub attach_on: Option<u32>,
    pub calls: Vec<Call>,
}

/// A variable and its value: one number, or the first elements of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub values: Vec<i64>,
    pub is_array: bool,
}

/// What a plan must know of a scheduler.
#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    /// For errors.
    pub name: &'a str,
    /// Variables that the user has set: they are left alone.
    pub given: &'a [&'a str],
    /// Its variable of this name; `None`: there is none.
    pub variable: &'a dyn Fn(&str) -> Option<Room>,
}

/// The room that a scheduler has for a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Elements of an array; 1 for a number.
    pub elements: u64,
    pub is_array: bool,
    /// The number, or what each element is.
    pub number: Number,
    /// Declared `const volatile`: whoever loads the scheduler sets it.
    pub is_constant: bool,
}

/// A bit of ops.flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: String,
    pub is_set: bool,
    /// It is no error if the kernel does not have it.
    pub is_optional: bool,
}

/// An element of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub map: String,
    pub key: i64,
    pub value: i64,
}

/// A call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub arguments: Vec<(String, i64)>,
    pub moment: Moment,
    /// The CPU on which it must run; `None`: any.
    pub cpu: Option<u32>,
}

/// When a program is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Loaded, and not yet in charge.
    Loaded,
    /// As soon as it is in charge.
    Attached,
    /// Periodically while it is in charge, the first time after one period.
    Every { ms: u64 },
}

/// Up to this one, all whole numbers are exact as floating-point numbers.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

impl Environment {
    /// The plan of a scheduler for `machine`. It includes those of the usual constants that the scheduler has.
    pub fn plan(&self, machine: &Machine, scheduler: &Scheduler) -> Result<Plan, EnvironmentError> {
        let (variable, given) = (scheduler.variable, scheduler.given);
        let mut plan = Plan::default();
        for (name, term) in &self.resize {
            let key = format!("resize.{name}");
            let size = term.number(&key, Each::Once, once(machine))?;
            let size = u64::try_from(size).ok().filter(|size| *size > 0);
            let size = size.ok_or_else(|| EnvironmentError::Value {
                key: key.clone(),
                value: "0 or less".to_owned(),
                what: "an array has at least one element".to_owned(),
            })?;
            plan.sizes.push((name.clone(), size));
        }
        let sizes = plan.sizes.clone();
        let resized = |name: &str| sizes.iter().find(|(n, _)| n == name).map(|(_, size)| *size);
        let room = |name: &str| {
            let own = variable(name)?;
            let elements = resized(name).unwrap_or(own.elements);
            Some(Room { elements, ..own })
        };
        let is_constant = |name: &str| variable(name).is_some_and(|room| room.is_constant);
        let own: Vec<&str> = self.variables().collect();
        let usual = Environment::usual();
        let mut variables = usual.values(machine)?;
        variables.retain(|(_, v)| is_constant(&v.name) && !own.contains(&v.name.as_str()));
        variables.extend(self.values(machine)?);
        variables.retain(|(_, v)| !given.contains(&v.name.as_str()));
        for (key, variable) in &variables {
            let room = room(&variable.name);
            fits(key, variable, room, machine, scheduler.name)?;
        }
        plan.variables = variables.into_iter().map(|(_, v)| v).collect();
        plan.flags = self.planned_flags(machine)?;
        plan.attach_on = match &self.attach_on {
            Some(on) => Some(on.cpu("attach_on", Each::Once, once(machine), machine)?),
            None => None,
        };
        for map in &self.maps {
            map.plan(machine, &mut plan.entries)?;
        }
        for call in &self.calls {
            call.plan(machine, &mut plan.calls)?;
        }
        Ok(plan)
    }

    /// All its variables, each with its key in the table.
    fn values(&self, machine: &Machine) -> Result<Vec<(String, Variable)>, EnvironmentError> {
        let mut variables = Vec::new();
        for (name, term) in &self.set {
            let key = format!("set.{name}");
            let variable = Variable {
                name: name.clone(),
                values: vec![term.number(&key, Each::Once, once(machine))?],
                is_array: false,
            };
            variables.push((key, variable));
        }
        for (each, arrays) in &self.arrays {
            let parts = each.parts(machine);
            for (name, term) in arrays {
                let key = array_key(*each, name);
                let values = parts.iter().map(|part| term.number(&key, *each, *part));
                let variable = Variable {
                    name: name.clone(),
                    values: values.collect::<Result<_, _>>()?,
                    is_array: true,
                };
                variables.push((key, variable));
            }
        }
        Ok(variables)
    }

    fn planned_flags(&self, machine: &Machine) -> Result<Vec<Flag>, EnvironmentError> {
        let mut flags = Vec::new();
        for (kind, table) in [
            ("flags", &self.flags),
            ("optional_flags", &self.optional_flags),
        ] {
            for (name, term) in table {
                flags.push(Flag {
                    name: name.clone(),
                    is_set: term.truth(&format!("{kind}.{name}"), Each::Once, once(machine))?,
                    is_optional: kind == "optional_flags",
                });
            }
        }
        Ok(flags)
    }
}

impl Plan {
    /// `own` flags of the ops with the planned bits; `bit` gives the kernel's value of a flag that it knows.
    pub fn ops_flags(
        &self,
        own: u64,
        bit: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<u64, EnvironmentError> {
        self.flags
            .iter()
            .try_fold(own, |flags, flag| match (bit(&flag.name), flag.is_set) {
                (Some(bit), true) => Ok(flags | bit),
                (Some(bit), false) => Ok(flags & !bit),
                (None, _) if flag.is_optional => Ok(flags),
                (None, _) => {
                    let what = "flag in this kernel";
                    Err(EnvironmentError::missing("flags", &flag.name, what))
                }
            })
    }
}

fn once(machine: &Machine) -> Part<'_> {
    Each::Once.parts(machine)[0]
}

/// An error unless the scheduler has the variable, with room for all its values, and they fit its type.
fn fits(
    key: &str,
    variable: &Variable,
    room: Option<Room>,
    machine: &Machine,
    scheduler: &str,
) -> Result<(), EnvironmentError> {
    let missing = |what| {
        let key = key.to_owned();
        EnvironmentError::Missing { key, what }
    };
    let room = room.ok_or_else(|| missing("variable"))?;
    match (variable.is_array, room.is_array) {
        (true, false) => return Err(missing("array")),
        (false, true) => return Err(missing("number (it is an array)")),
        _ => {}
    }
    let Number { kind, size } = room.number;
    for value in &variable.values {
        le_bytes(key, *value, size, Some(kind))?;
    }
    let elements = room.elements;
    let (scheduler, name) = (scheduler.to_owned(), variable.name.clone());
    match variable.values.len() as u64 {
        values if values <= elements => Ok(()),
        cpus if cpus == machine.nr_cpus() as u64 => Err(EnvironmentError::TooManyCpus {
            scheduler,
            name,
            holds: elements,
            cpus,
        }),
        values => Err(EnvironmentError::TooManyValues {
            scheduler,
            name,
            holds: elements,
            values,
        }),
    }
}

impl MapTable {
    fn plan(&self, machine: &Machine, entries: &mut Vec<Entry>) -> Result<(), EnvironmentError> {
        let key = format!("maps, {}", self.name);
        for part in self.each.parts(machine) {
            if holds(&self.when, &key, self.each, part)? {
                entries.push(Entry {
                    map: self.name.clone(),
                    key: self.key.number(&key, self.each, part)?,
                    value: self.value.number(&key, self.each, part)?,
                });
            }
        }
        Ok(())
    }
}

impl CallTable {
    fn plan(&self, machine: &Machine, calls: &mut Vec<Call>) -> Result<(), EnvironmentError> {
        let key = format!("calls, {}", self.program);
        for part in self.each.parts(machine) {
            if !holds(&self.when, &key, self.each, part)? {
                continue;
            }
            let arguments = self.arguments.iter().map(|(name, term)| {
                let value = term.number(&key, self.each, part)?;
                Ok((name.clone(), value))
            });
            let arguments = arguments.collect::<Result<_, EnvironmentError>>()?;
            let on = self
                .on
                .as_ref()
                .map(|on| on.cpu(&key, self.each, part, machine));
            calls.push(Call {
                program: self.program.clone(),
                arguments,
                moment: self.moment(),
                cpu: on.transpose()?,
            });
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        match self.every_ms {
            Some(ms) => Moment::Every { ms },
            None if self.after_attach => Moment::Attached,
            None => Moment::Loaded,
        }
    }
}

fn holds(
    when: &Option<Term>,
    key: &str,
    each: Each,
    part: Part<'_>,
) -> Result<bool, EnvironmentError> {
    match when {
        Some(term) => term.truth(&when_key(key), each, part),
        None => Ok(true),
    }
}

impl Term {
    /// Its value for `part`: a whole number; 1 for true, 0 for false.
    fn number(&self, key: &str, each: Each, part: Part<'_>) -> Result<i64, EnvironmentError> {
        let text = match self {
            Term::Bool(truth) => return Ok(i64::from(*truth)),
            Term::Int(number) => return Ok(*number),
            Term::Expr(text) => text,
        };
        let wrong = |what: String| EnvironmentError::Expression {
            key: key.to_owned(),
            text: text.clone(),
            what,
        };
        let expr = Term::parse(text, key, each)?;
        let value = |name: &str| part.value(name);
        if expr.is_truth() {
            let truth = expr
                .truth(&value)
                .map_err(|error| wrong(error.to_string()))?;
            return Ok(i64::from(truth));
        }
        let number = expr
            .number(&value)
            .map_err(|error| wrong(error.to_string()))?;
        match number.fract() == 0.0 && number.abs() <= MAX_WHOLE {
            true => Ok(number as i64),
            false => Err(wrong(format!("{number} is not a whole number"))),
        }
    }

    /// A CPU of the machine.
    fn cpu(
        &self,
        key: &str,
        each: Each,
        part: Part<'_>,
        machine: &Machine,
    ) -> Result<u32, EnvironmentError> {
        let cpu = self.number(key, each, part)?;
        let known = u32::try_from(cpu)
            .ok()
            .filter(|cpu| (*cpu as usize) < machine.nr_cpus());
        known.ok_or_else(|| EnvironmentError::Value {
            key: key.to_owned(),
            value: format!("CPU {cpu}"),
            what: format!("the machine has {} CPUs", machine.nr_cpus()),
        })
    }

    fn truth(&self, key: &str, each: Each, part: Part<'_>) -> Result<bool, EnvironmentError> {
        match self.number(key, each, part)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(EnvironmentError::Value {
                key: key.to_owned(),
                value: other.to_string(),
                what: "neither true nor false".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::NumberKind;

    const TWO: &str = "package:2 [numa] l3:1 core:2 pu:2";

    fn plan(
        table: &str,
        topology: &str,
        given: &[&str],
        variables: &[(&str, u64)],
    ) -> Result<Plan, String> {
        let machine = Machine::parse_hwloc_synthetic(topology).unwrap();
        let environment = Environment::from_toml(toml::from_str(table).unwrap()).unwrap();
        let room = |name: &str| {
            let (name, elements) = variables.iter().find(|(n, _)| *n == name)?;
            let kind = match *name {
                "is_on" => NumberKind::Bool,
                "nice" => NumberKind::Signed,
                _ => NumberKind::Unsigned,
            };
            Some(Room {
                elements: *elements,
                is_array: *elements > 1,
                number: Number { kind, size: 4 },
                is_constant: *name != "nr_cpus",
            })
        };
        let plan = environment.plan(
            &machine,
            &Scheduler {
                name: "mine",
                given,
                variable: &room,
            },
        );
        plan.map_err(|error| error.to_string())
    }

    fn shown(plan: &Plan) -> Vec<String> {
        let shown = |v: &Variable| format!("{} = {:?}", v.name, v.values);
        plan.variables.iter().map(shown).collect()
    }

    #[test]
    fn the_usual_variables_come_without_a_table() {
        // The scheduler's own variable has a usual name, too.
        let variables = [("nr_cpu_ids", 1), ("cpu_core_id", 8), ("nr_cpus", 1)];
        let usual = plan("", TWO, &[], &variables).unwrap();
        let expected = ["nr_cpu_ids = [8]", "cpu_core_id = [0, 0, 1, 1, 2, 2, 3, 3]"];
        assert_eq!(shown(&usual), expected);
        // More nodes than packages: the rows of the distances are as long as there are nodes.
        let nodes = "package:2 group:2 [numa] l3:1 core:1 pu:1";
        let variables_of_nodes = [("nr_nodes", 1), ("tick_hz", 1), ("node_distance", 64)];
        let usual = plan("", nodes, &[], &variables_of_nodes).unwrap();
        let [nodes, tick, distances] = usual.variables.as_slice() else {
            panic!("{:?}", shown(&usual))
        };
        assert_eq!((tick.name.as_str(), tick.values.len()), ("tick_hz", 1));
        assert_eq!(
            (nodes.name.as_str(), nodes.values[0]),
            ("nr_nodes", 4.into())
        );
        assert_eq!(distances.values.len(), 16);
        let given = plan("", TWO, &["nr_cpu_ids"], &variables).unwrap();
        assert_eq!(shown(&given), expected[1..]);
        let own = plan("set = { nr_cpu_ids = 7 }", TWO, &[], &variables).unwrap();
        assert_eq!(shown(&own), [expected[1], "nr_cpu_ids = [7]"]);
        let error = plan("", TWO, &[], &[("cpu_core_id", 7)]).unwrap_err();
        assert_eq!(
            error,
            "mine supports 7 CPUs, the length of its cpu_core_id; this machine has 8"
        );
        let error = plan(
            "",
            "package:2 group:2 [numa] l3:1 core:1 pu:1",
            &[],
            &[("node_distance", 9)],
        )
        .unwrap_err();
        assert_eq!(
            error,
            "mine has room for 9 values of node_distance; this machine has 16"
        );
        let error = plan("", TWO, &[], &[("cpu_core_id", 1)]).unwrap_err();
        let expected = "[environment] arrays.cpu.cpu_core_id: the scheduler has no such array";
        assert_eq!(error, expected);
    }

    #[test]
    fn variables_sizes_flags_entries_and_calls() {
        let table = r#"
            set = { smt = "nr_cores < nr_cpus", third = 3, on = true }
            resize = { per_cpu = "nr_cpus" }
            flags = { A = true, B = "nr_nodes > 2" }
            optional_flags = { C = "nr_nodes > 1" }
            arrays.cpu_by_capacity = { per_cpu = "cpu" }
            [[maps]]
            name = "node_of"
            each = "node"
            key = "cpu"
            value = "node + 1"
            [[calls]]
            program = "enable"
            each = "sibling"
            when = "cpu < 2"
            arguments = { cpu_id = "cpu", sibling_id = "sibling" }
            [[calls]]
            program = "start"
            on = "nr_cpus - 1"
            after_attach = true
            [[calls]]
            program = "poll"
            every_ms = 5
        "#;
        let variables = [("smt", 1), ("third", 1), ("on", 1), ("per_cpu", 2)];
        let plan = plan(table, TWO, &[], &variables).unwrap();
        assert_eq!(
            shown(&plan),
            [
                "on = [1]",
                "smt = [1]",
                "third = [3]",
                "per_cpu = [0, 1, 2, 3, 4, 5, 6, 7]"
            ]
        );
        assert_eq!(plan.sizes, [("per_cpu".to_owned(), 8)]);
        let flags: Vec<_> = plan
            .flags
            .iter()
            .map(|f| (f.name.as_str(), f.is_set))
            .collect();
        assert_eq!(flags, [("A", true), ("B", false), ("C", true)]);
        assert!(plan.flags[2].is_optional && !plan.flags[0].is_optional);
        let entries: Vec<_> = plan.entries.iter().map(|e| (e.key, e.value)).collect();
        assert_eq!(entries, [(0, 1), (4, 2)]);
        let call = |program: &str, arguments: &[(&str, i64)], moment, cpu| Call {
            program: program.to_owned(),
            arguments: arguments
                .iter()
                .map(|(n, v)| ((*n).to_owned(), *v))
                .collect(),
            moment,
            cpu,
        };
        let pair = |a, b| {
            call(
                "enable",
                &[("cpu_id", a), ("sibling_id", b)],
                Moment::Loaded,
                None,
            )
        };
        let expected = [
            pair(0, 1),
            pair(1, 0),
            call("start", &[], Moment::Attached, Some(7)),
            call("poll", &[], Moment::Every { ms: 5 }, None),
        ];
        assert_eq!(plan.calls, expected);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for (table, expected) in [
            (
                "set = { y = 1 }",
                "[environment] set.y: the scheduler has no such variable",
            ),
            (
                "set = { x = \"nr_cpus / 3\" }",
                "[environment] set.x = \"nr_cpus / 3\": 2.6666666666666665 is not a whole number",
            ),
            (
                "flags = { A = \"nr_cpus\" }",
                "[environment] flags.A = 8: neither true nor false",
            ),
            (
                "[[maps]]\nname = \"caps\"\nkey = 0\nvalue = 0\nwhen = \"3\"",
                "[environment] maps, caps, when = 3: neither true nor false",
            ),
            (
                "resize = { x = \"nr_cpus - 8\" }",
                "[environment] resize.x = 0 or less: an array has at least one element",
            ),
            (
                "[[calls]]\nprogram = \"p\"\non = 8",
                "[environment] calls, p = CPU 8: the machine has 8 CPUs",
            ),
        ] {
            let error = plan(table, TWO, &[], &[("x", 1)]).unwrap_err();
            assert_eq!(error, expected, "{table}");
        }
    }

    #[test]
    fn variables_are_checked_against_their_types() {
        let variables = [("is_on", 1), ("nice", 1), ("x", 1), ("xs", 8)];
        for (table, expected) in [
            (
                "set = { is_on = 7 }",
                "set.is_on = 7: neither true nor false",
            ),
            (
                "set = { nice = 3_000_000_000 }",
                "set.nice = 3000000000: it must be from -2147483648 to 2147483647",
            ),
            (
                "set = { x = -1 }",
                "set.x = -1: it must be from 0 to 4294967295",
            ),
            (
                "[arrays.cpu]\nxs = \"cpu - 1\"",
                "arrays.cpu.xs = -1: it must be from 0 to 4294967295",
            ),
            (
                "set = { xs = 3 }",
                "set.xs: the scheduler has no such number (it is an array)",
            ),
            (
                "[arrays.cpu]\nx = 1",
                "arrays.cpu.x: the scheduler has no such array",
            ),
        ] {
            for topology in [TWO, "package:1 core:1 pu:1"] {
                let error = plan(table, topology, &[], &variables).unwrap_err();
                assert_eq!(error, format!("[environment] {expected}"), "{table}");
            }
        }
    }

    #[test]
    fn flags_are_set_and_cleared_as_far_as_the_kernel_has_them() {
        let flag = |name: &str, is_set, is_optional| Flag {
            name: name.to_owned(),
            is_set,
            is_optional,
        };
        let bit = |name: &str| match name {
            "A" => Some(1),
            "B" => Some(2),
            _ => None,
        };
        let mut plan = Plan {
            flags: vec![
                flag("A", false, false),
                flag("B", true, false),
                flag("C", true, true),
            ],
            ..Plan::default()
        };
        assert_eq!(plan.ops_flags(0b101, &bit), Ok(0b110));
        plan.flags.push(flag("D", false, false));
        let error = plan.ops_flags(0, &bit).unwrap_err().to_string();
        assert_eq!(
            error,
            "[environment] flags.D: the scheduler has no such flag in this kernel"
        );
    }
}
