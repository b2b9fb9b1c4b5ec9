// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's own tests of sched_ext (tools/testing/selftests/sched_ext), not a line changed, from the distribution's
//! package of kernel sources: each program ends in the simulated machine as the driver beside it expects. What the
//! simulated machine does not model is listed with its reason, and printed.

use crate::common::{ideal, kernel_tree, object, parse};
use std::collections::BTreeMap;
use std::path::Path;
use tiltyard_measure::TraceHash;
use tiltyard_model::Machine;
use tiltyard_native::{Object, Value};
use tiltyard_sim::{Exit, ExitKind, Setup, run_then};

/// Programs that end otherwise than in a kernel, or that cannot be run, and why.
const SKIPPED: &[(&str, &str)] = &[
    (
        "hotplug",
        "CPUs of the simulated machine neither come nor go",
    ),
    (
        "prog_run",
        "the simulated machine has no user space that calls SEC(\"syscall\") programs",
    ),
    (
        "maybe_null_fail_dsp",
        "only the verifier refuses it: tiltyard build --verify",
    ),
    (
        "maybe_null_fail_yld",
        "only the verifier refuses it: tiltyard build --verify",
    ),
];

/// Programs that a test of this file runs.
const RUN: &[&str] = &[
    "create_dsq",
    "ddsp_bogus_dsq_fail",
    "ddsp_vtimelocal_fail",
    "dsp_local_on",
    "enq_last_no_enq_fails",
    "enq_select_cpu_fails",
    "exit",
    "init_enable_count",
    "maximal",
    "maybe_null",
    "minimal",
    "select_cpu_dfl",
    "select_cpu_dfl_nodispatch",
    "select_cpu_dispatch",
    "select_cpu_dispatch_bad_dsq",
    "select_cpu_dispatch_dbl_dsp",
    "select_cpu_vtime",
];

/// What else goes on while a driver sleeps for a second: more tasks than CPUs, and moments without any.
const BACKGROUND: &str = r#"{
    "global": { "duration": 1 },
    "tasks": {
        "daemon": { "instance": 6, "loop": -1, "run": 2000, "sleep": 3000 },
        "hog": { "instance": 2, "loop": -1, "run": 30000, "sleep": 50000, "yield": "" }
    }
}"#;

/// What the drivers of the select_cpu tests do: 1028 children that sleep for a second. They are called as the test
/// program is, because select_cpu_dfl looks at tasks of that name alone.
const CHILDREN: &str = r#"{
    "tasks": {
        "select_cpu": { "loop": 1, "tiltyard": {
            "repeat": { "count": 1028, "do": { "spawn": "select_cpu_kid" } }, "join": true } },
        "select_cpu_kid": { "instance": 0, "loop": 1, "run": 50, "sleep": 1000000, "run2": 50 }
    }
}"#;

/// A program of the tests with its driver's settings; `None`, said plainly, without the package.
struct Program {
    name: &'static str,
    object: &'static Object,
    machine: Machine,
    globals: Vec<(String, Value)>,
}

/// How a program ended, and what its variables held then.
struct Ended {
    exit: Exit,
    tasks_left: u64,
    variables: BTreeMap<String, Vec<u8>>,
}

impl Program {
    fn new(name: &'static str) -> Option<Program> {
        let Some(tree) = kernel_tree() else {
            eprintln!(
                "SKIPPED {name}: no package linux-source-6.12 or newer; apt-get install linux-source-6.12"
            );
            return None;
        };
        assert!(RUN.contains(&name), "{name} is not in the list");
        let source = selftests(tree).join(format!("{name}.bpf.c"));
        Some(Program {
            name,
            object: object(&source.display().to_string(), 2),
            machine: ideal("package:1 [numa] l3:2 core:2 pu:1", 1000),
            globals: Vec::new(),
        })
    }

    fn set(mut self, name: &str, value: i128) -> Program {
        self.globals.push((name.to_owned(), Value::Int(value)));
        self
    }

    fn run(&self, workload: &str) -> Ended {
        let workload = parse(workload);
        let setup = Setup {
            machine: &self.machine,
            workload: &workload,
            object: self.object,
            globals: &self.globals,
            environment: &tiltyard_environment::EMPTY,
            seed: 1,
            duration_ns: None,
            watchdog: true,
            probes: true,
        };
        let mut variables = BTreeMap::new();
        let mut look = |instance: &tiltyard_native::Instance| {
            for (name, global) in &self.object.globals {
                let at = instance.symbol(&global.symbol).expect(name);
                let mut bytes = vec![0; global.size as usize];
                // SAFETY: the object's own variable of this size, which nobody writes any more.
                unsafe { at.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
                variables.insert(name.clone(), bytes);
            }
        };
        let outcome = run_then(&setup, &mut TraceHash::new(), &mut |_| {}, &mut look);
        let outcome = outcome.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        Ended {
            exit: outcome.exit,
            tasks_left: outcome.tasks_left,
            variables,
        }
    }

    /// The driver's second of sleep, and the kind of exit that it expects then.
    #[track_caller]
    fn ends(&self, kind: ExitKind) -> Ended {
        let ended = self.run(BACKGROUND);
        assert_eq!(ended.exit.kind, kind, "{}: {:?}", self.name, ended.exit);
        ended
    }

    /// The driver's children, all of which must end.
    #[track_caller]
    fn serves_children(&self) -> Ended {
        let ended = self.run(CHILDREN);
        let kind = ended.exit.kind;
        assert_eq!(kind, ExitKind::Unreg, "{}: {:?}", self.name, ended.exit);
        assert_eq!(ended.tasks_left, 0, "{}", self.name);
        ended
    }
}

impl Ended {
    fn number(&self, name: &str) -> u64 {
        let bytes = &self.variables[name];
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }
}

fn selftests(tree: &Path) -> std::path::PathBuf {
    tree.join("tools/testing/selftests/sched_ext")
}

#[test]
fn every_program_is_run_or_skipped_for_a_reason() {
    let Some(tree) = kernel_tree() else {
        eprintln!("SKIPPED: no package linux-source-6.12 or newer");
        return;
    };
    for (name, reason) in SKIPPED {
        eprintln!("SKIPPED {name}: {reason}");
    }
    let files = std::fs::read_dir(selftests(tree)).expect("the selftests");
    let names = files.flatten().filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        name.strip_suffix(".bpf.c").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut known: Vec<&str> = SKIPPED.iter().map(|(name, _)| *name).collect();
    known.extend(RUN);
    known.sort_unstable();
    assert_eq!(names, known);
}

#[test]
fn the_smallest_and_the_largest() {
    for name in ["minimal", "maximal", "maybe_null"] {
        let Some(program) = Program::new(name) else {
            return;
        };
        program.ends(ExitKind::Unreg);
    }
}

#[test]
fn create_dsq() {
    let Some(program) = Program::new("create_dsq") else {
        return;
    };
    program.ends(ExitKind::Unreg);
}

#[test]
fn direct_dispatch_to_queues_that_are_none() {
    for name in [
        "ddsp_bogus_dsq_fail",
        "ddsp_vtimelocal_fail",
        "select_cpu_dispatch_bad_dsq",
        "select_cpu_dispatch_dbl_dsp",
    ] {
        let Some(program) = Program::new(name) else {
            return;
        };
        program.ends(ExitKind::Error);
    }
}

#[test]
fn dsp_local_on() {
    let Some(program) = Program::new("dsp_local_on") else {
        return;
    };
    program.set("nr_cpus", 4).ends(ExitKind::Unreg);
}

#[test]
fn enq_last_without_enqueue() {
    let Some(program) = Program::new("enq_last_no_enq_fails") else {
        return;
    };
    let ended = program.ends(ExitKind::Error);
    assert_eq!(ended.number("exit_kind"), ExitKind::Error as u64);
}

/// Its driver looks at nothing but that it can be attached; the reference kernel allows what it tries.
#[test]
fn enq_select_cpu() {
    let Some(program) = Program::new("enq_select_cpu_fails") else {
        return;
    };
    program.ends(ExitKind::Unreg);
}

#[test]
fn exit() {
    // EXIT_SELECT_CPU to EXIT_INIT of exit_test.h.
    for point in 0..6 {
        let Some(program) = Program::new("exit") else {
            return;
        };
        let ended = program.set("exit_point", point).ends(ExitKind::UnregBpf);
        assert_eq!(i128::from(ended.exit.code), point);
        assert_eq!(ended.exit.message, point.to_string());
        // What ops.exit() wrote down: kind, and the code eight bytes on (struct user_exit_info).
        let uei = &ended.variables["uei"];
        let kind = i32::from_le_bytes(uei[..4].try_into().unwrap());
        assert_eq!(kind, ExitKind::UnregBpf as i32, "exit point {point}");
    }
}

/// The half of it that switches all tasks; the other one needs SCX_OPS_SWITCH_PARTIAL, which is not modelled.
#[test]
fn init_enable_count() {
    let Some(program) = Program::new("init_enable_count") else {
        return;
    };
    eprintln!("SKIPPED init_enable_count, its second half: SCX_OPS_SWITCH_PARTIAL is not modelled");
    let ended = program.run(
        r#"{ "tasks": {
            "parent": { "loop": 1, "tiltyard": { "repeat": { "count": 10, "do": { "spawn": "child" } }, "join": true } },
            "child": { "instance": 0, "loop": 1, "run": 1 }
        } }"#,
    );
    assert_eq!(ended.exit.kind, ExitKind::Unreg, "{:?}", ended.exit);
    let children = 10;
    for counter in [
        "init_task_cnt",
        "exit_task_cnt",
        "enable_cnt",
        "disable_cnt",
        "init_fork_cnt",
    ] {
        assert!(ended.number(counter) >= children, "{counter}");
    }
    // More of the former than of the latter in the driver, which forks 1024 tasks before: here nothing but kernel threads
    // and the application's shell is there before the scheduler.
    assert!(ended.number("init_transition_cnt") > 0);
    assert_eq!(
        ended.number("init_task_cnt"),
        ended.number("exit_task_cnt"),
        "each task leaves as it came"
    );
    assert_eq!(ended.number("enable_cnt"), ended.number("disable_cnt"));
}

#[test]
fn select_cpu_dfl() {
    let Some(program) = Program::new("select_cpu_dfl") else {
        return;
    };
    assert_eq!(program.serves_children().number("saw_local"), 0);
}

#[test]
fn select_cpu_dfl_nodispatch() {
    let Some(program) = Program::new("select_cpu_dfl_nodispatch") else {
        return;
    };
    assert_eq!(program.serves_children().number("saw_local"), 1);
}

#[test]
fn select_cpu_dispatch() {
    let Some(program) = Program::new("select_cpu_dispatch") else {
        return;
    };
    program.serves_children();
}

#[test]
fn select_cpu_vtime() {
    let Some(program) = Program::new("select_cpu_vtime") else {
        return;
    };
    let ended = program.ends(ExitKind::Unreg);
    assert_eq!(ended.number("consumed"), 1);
}

/// Two threads attach and detach again and again; each has a machine of its own here, and the same must come of it.
#[test]
fn reload_loop() {
    let Some(program) = Program::new("maximal") else {
        return;
    };
    let short = r#"{ "tasks": { "a": { "instance": 3, "loop": 2, "run": 100, "sleep": 100 } } }"#;
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..256 {
                    let ended = program.run(short);
                    assert_eq!(ended.exit.kind, ExitKind::Unreg);
                    assert_eq!(ended.tasks_left, 0);
                }
            });
        }
    });
}
