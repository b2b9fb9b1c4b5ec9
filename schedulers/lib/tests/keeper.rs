// SPDX-License-Identifier: GPL-2.0-or-later
//! custody.h and groups.h in a scheduler that does nothing else, in the simulated machine.

use std::collections::BTreeMap;
use tiltyard_model::{Event, EventKind, EventSink, TaskInfo, Tid};
use tiltyard_native::Value;
use tiltyard_schedtest::{Lab, check_books, ideal, object, parse};
use tiltyard_sim::{RunError, run};

const KEEPER: &str = "schedulers/lib/tests/keeper.bpf.c";
/// NICE_0_WEIGHT
const SHARES: i64 = 1024;

/// What a probe last said of each task, by name.
#[derive(Default)]
struct Told {
    names: BTreeMap<Tid, String>,
    probes: Vec<String>,
    values: BTreeMap<(String, String), i64>,
}

impl Told {
    fn of(&self, task: &str, probe: &str) -> i64 {
        self.values[&(task.to_owned(), probe.to_owned())]
    }
}

impl EventSink for Told {
    fn task(&mut self, info: &TaskInfo) {
        self.names.insert(info.tid, info.name.clone());
    }

    fn event(&mut self, event: &Event) {
        if let EventKind::Probe { probe, key, value } = event.kind {
            let name = self.names[&Tid(key)].clone();
            let probe = self.probes[usize::from(probe)].clone();
            self.values.insert((name, probe), value);
        }
    }

    fn probe_name(&mut self, _probe: u16, name: &str, _per_cpu: bool) {
        self.probes.push(name.to_owned());
    }
}

fn keep(workload: &str) -> Told {
    let machine = ideal("package:1 core:2 pu:1", 250);
    let mut lab = Lab::new(&machine, object(KEEPER, 2));
    lab.duration_ns = Some(1_000_000_000);
    let workload = parse(workload);
    let mut told = Told::default();
    let outcome = run(&lab.setup(&workload), &mut told, &mut |_| {}).expect("a run");
    assert_eq!(outcome.exit.message, "");
    told
}

const CROWD: &str = r#"{ "tasks" : {
    "hog" : { "instance" : 5, "loop" : -1, "run" : 1000000 },
    "sleeper" : { "instance" : 5, "loop" : -1, "run" : 300, "sleep" : 2000 },
    "brief" : { "instance" : 3, "loop" : 40, "run" : 500, "sleep" : 100 } } }"#;

/// Tasks in custody are run in the order in which they came: hogs get equal turns, and nobody is lost who sleeps or ends.
fn keeps_custody(globals: &[(String, Value)]) {
    let machine = ideal("package:1 core:2 pu:1", 250);
    let mut lab = Lab::new(&machine, object(KEEPER, 2));
    lab.globals = globals;
    lab.duration_ns = Some(10_000_000_000);
    lab.watchdog = true;
    let ran = lab.run(&parse(CROWD)).expect("a run");
    check_books(&ran);
    assert_eq!(ran.outcome.exit.message, "");
    let hogs = ran
        .summary
        .tasks
        .iter()
        .filter(|t| t.name.starts_with("hog"));
    let turns: Vec<u64> = hogs.map(|hog| hog.runtime_ns / 1_000_000).collect();
    let (least, most) = (turns.iter().min(), turns.iter().max());
    assert!(turns.len() == 5 && least > Some(&2_000), "{turns:?}");
    assert!(
        most.zip(least).is_some_and(|(m, l)| m - l <= 20),
        "{turns:?}"
    );
}

#[test]
fn custody_ends_with_the_hand_over() {
    keeps_custody(&[]);
}

/// Who has chosen a task does not get it if the core takes it away and brings it back before the hand-over, whether or not
/// another CPU has chosen it since.
#[test]
fn a_choice_ends_when_the_core_takes_the_task() {
    let snatches = ("snatches".to_owned(), Value::Int(1));
    let rivals = ("rivals".to_owned(), Value::Int(1));
    keeps_custody(std::slice::from_ref(&snatches));
    keeps_custody(&[snatches, rivals]);
}

/// Who is still on the CPU where it ran is waited for, however long it takes, but not any more once the core has taken it.
#[test]
fn a_hand_over_waits_for_the_switch_but_not_for_whom_the_core_has_taken() {
    let [lingers, taken_at] = [("lingers", 1000), ("taken_at", 100)]
        .map(|(name, value)| (name.to_owned(), Value::Int(value)));
    keeps_custody(std::slice::from_ref(&lingers));
    keeps_custody(&[lingers, taken_at]);
}

/// These tests fail for a scheduler that forgets to end custody.
#[test]
fn custody_that_does_not_end_is_noticed() {
    let machine = ideal("package:1 core:2 pu:1", 250);
    let globals = [("forgets".to_owned(), Value::Int(1))];
    let mut lab = Lab::new(&machine, object(KEEPER, 2));
    lab.globals = &globals;
    lab.duration_ns = Some(10_000_000_000);
    let ended = lab.run(&parse(CROWD));
    let message = match ended {
        Ok(ran) => ran.outcome.exit.message,
        Err(RunError::Scheduler(message)) => message,
        Err(other) => panic!("{other}"),
    };
    assert!(message.contains("in custody twice"), "{message}");
}

#[test]
fn cgroups_are_groups_below_that_of_their_parent() {
    let told = keep(
        r#"{ "tiltyard" : {
            "apps" : { "one" : { "group" : "/a" }, "two" : { "group" : "/a/b" }, "three" : { "group" : "/c" } },
            "groups" : { "/a" : { "weight" : 300 }, "/a/b" : { "weight" : 1 } } },
        "tasks" : {
            "one" : { "loop" : 9, "run" : 1000, "tiltyard" : { "app" : "one" } },
            "two" : { "loop" : 9, "run" : 1000, "tiltyard" : { "app" : "two" } },
            "three" : { "loop" : 9, "run" : 1000, "tiltyard" : { "app" : "three" } } } }"#,
    );
    let [one, two, three] = ["one", "two", "three"].map(|name| told.of(name, "group"));
    assert!(one > 0 && two > 0 && three > 0 && one != two && two != three && one != three);
    let of_each = |probe| ["one", "two", "three"].map(|name| told.of(name, probe));
    assert_eq!(of_each("parent"), [0, one, 0]);
    assert_eq!(of_each("depth"), [1, 2, 1]);
    // Weight 100 is 1024 shares; the least is the weight 1, rounded.
    assert_eq!(of_each("shares"), [3 * SHARES, 10, SHARES]);
    assert_eq!(of_each("session"), [0, 0, 0]);
}

/// Tasks of an app without a cgroup share their session's group, which they leave when they end.
#[test]
fn sessions_are_groups_of_those_who_have_no_other() {
    let told = keep(
        r#"{ "tiltyard" : { "apps" : { "x" : {}, "y" : {} } },
        "tasks" : {
            "a" : { "loop" : -1, "run" : 1000, "sleep" : 1000, "tiltyard" : { "app" : "x" } },
            "b" : { "loop" : 9, "run" : 1000, "tiltyard" : { "app" : "x" } },
            "c" : { "loop" : -1, "run" : 1000, "tiltyard" : { "app" : "y" } } } }"#,
    );
    let [a, b, c] = ["a", "b", "c"].map(|name| told.of(name, "group"));
    assert!(a == b && a != c && a > 0 && c > 0, "{a} {b} {c}");
    assert!(told.of("a", "session") != told.of("c", "session"));
    // The shell is in its session, too.
    assert_eq!((told.of("b", "members"), told.of("a", "members")), (3, 2));
    for name in ["a", "c"] {
        assert_eq!((told.of(name, "parent"), told.of(name, "depth")), (0, 1));
        assert_eq!(told.of(name, "shares"), SHARES);
    }
}
