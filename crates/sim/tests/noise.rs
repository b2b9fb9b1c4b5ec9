// SPDX-License-Identifier: GPL-2.0-or-later
//! Threads of the kernel's own come as often, and stay as long, as the machine file says.

use crate::common::{Lab, Ran, check_books, ideal, object, parse};
use tiltyard_model::machine::{Noise, Per};
use tiltyard_model::{Event, EventKind, EventSink, Machine, TaskInfo, Tid};

const MS: u64 = 1_000_000;

fn noise(name: &str, per: Per, per_exit_permille: Option<u64>) -> Noise {
    Noise {
        name: name.to_owned(),
        per,
        sleep_mean_ns: 10 * MS,
        run_mean_ns: MS / 10,
        per_exit_permille,
        nice: 0,
    }
}

fn machine(noise: Vec<Noise>) -> Machine {
    let mut machine = ideal("package:1 core:2 pu:1", 250);
    machine.noise = noise;
    machine
}

fn run(machine: &Machine, workload: &str, seconds: u64) -> Ran {
    let mut lab = Lab::new(machine, object("fifo", 2));
    lab.duration_ns = Some(seconds * 1000 * MS);
    let ran = lab.run(&parse(workload)).expect("a run");
    check_books(&ran);
    ran
}

/// Wakeups, and the mean of a turn's time, us.
fn turns(ran: &Ran, name: &str) -> (u64, u64) {
    let task = ran.summary.tasks.iter().find(|task| task.name == name);
    let task = task.unwrap_or_else(|| panic!("no {name}"));
    (task.wakeups, task.runtime_ns / task.wakeups.max(1) / 1000)
}

const SLEEPER: &str = r#"{ "tasks": { "A": { "loop": -1, "run": 100, "sleep": 100000 } } }"#;

#[test]
fn each_kind_has_its_threads_and_its_means() {
    let kinds = [
        noise("kworker", Per::Cpu, None),
        noise("kworker", Per::Cpu, None),
        noise("ksoftirqd", Per::Cpu, None),
        noise("rcu_preempt", Per::Machine, None),
    ];
    let ran = run(&machine(kinds.into()), SLEEPER, 20);
    let names = [
        "kworker/0:0",
        "kworker/1:0",
        "kworker/0:1",
        "kworker/1:1",
        "ksoftirqd/0",
        "ksoftirqd/1",
        "rcu_preempt",
    ];
    let kernel = ran.summary.tasks.iter().filter(|task| task.app == "kernel");
    let mut runtimes_ns: Vec<_> = kernel.map(|task| task.runtime_ns).collect();
    assert_eq!(runtimes_ns.len(), names.len());
    for name in names {
        let (wakeups, run_us) = turns(&ran, name);
        // 20 s in steps of 10.1 ms to the nearest tick, which is never the one of the last wakeup and so 1 ms further on
        // the mean; three standard deviations of the mean of so many draws.
        assert!((1_680..=1_930).contains(&wakeups), "{name}: {wakeups}");
        assert!((93..=107).contains(&run_us), "{name}: {run_us} us");
    }
    // Each draws for itself.
    runtimes_ns.sort_unstable();
    runtimes_ns.dedup();
    assert_eq!(runtimes_ns.len(), names.len());
}

#[test]
fn a_kernel_thread_is_born_with_its_nice_value() {
    let mut machine = machine(vec![noise("kworker", Per::Cpu, None)]);
    machine.noise[0].nice = -20;
    let ran = run(&machine, SLEEPER, 1);
    let nice = |app: &str| {
        let of = ran.summary.tasks.iter().filter(|task| task.app == app);
        of.map(|task| task.nice).collect::<Vec<_>>()
    };
    assert_eq!(nice("kernel"), [-20, -20]);
    assert!(nice("rt-app").iter().all(|nice| *nice == 0));
}

/// A thread that starts another every so often, which ends at once.
fn births(every_ms: u64) -> String {
    format!(
        r#"{{ "tasks": {{
        "make": {{ "loop": -1, "tiltyard": {{ "sleep": {}, "spawn": "cc", "join": true }} }},
        "cc": {{ "instance": 0, "loop": 1, "run": 10 }} }} }}"#,
        every_ms * 1000
    )
}

#[test]
fn a_thread_that_cleans_up_wakes_as_often_as_tasks_end() {
    for (permille, wakeups) in [(250, 50), (1000, 199), (2000, 398), (3878, 770)] {
        let rcu = noise("rcu", Per::Machine, Some(permille));
        let (seen, run_us) = turns(&run(&machine(vec![rcu]), &births(100), 20), "rcu");
        assert!(
            (wakeups - 5..=wakeups + 5).contains(&seen),
            "{permille}: {seen}"
        );
        assert!((60..=140).contains(&run_us), "{permille}: {run_us} us");
    }
    let rcu = noise("rcu", Per::Machine, Some(1000));
    assert_eq!(turns(&run(&machine(vec![rcu]), SLEEPER, 20), "rcu").0, 0);
}

#[test]
fn exits_share_the_wakeups_that_are_to_come() {
    let together = births(200).replace(r#""cc","#, r#"{ "task": "cc", "count": 10 },"#);
    let rcu = noise("rcu", Per::Machine, Some(4000));
    let (seen, _) = turns(&run(&machine(vec![rcu]), &together, 20), "rcu");
    assert!(
        (390..=500).contains(&seen),
        "{seen} after 99 times ten exits"
    );
}

/// When the threads of one name were woken.
struct Wakeups {
    name: &'static str,
    tids: Vec<Tid>,
    times_ns: Vec<u64>,
}

impl EventSink for Wakeups {
    fn task(&mut self, info: &TaskInfo) {
        if info.name == self.name {
            self.tids.push(info.tid);
        }
    }

    fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::Wakeup { task, .. } if self.tids.contains(&task) => {
                self.times_ns.push(event.time_ns);
            }
            _ => {}
        }
    }
}

#[test]
fn the_kernels_threads_wake_right_after_ticks() {
    let mut machine = machine(vec![
        noise("rcu", Per::Machine, Some(2000)),
        noise("kswapd0", Per::Machine, None),
    ]);
    machine.costs.tick_ns = 3_000;
    for name in ["rcu", "kswapd0"] {
        let mut wakeups = Wakeups {
            name,
            tids: Vec::new(),
            times_ns: Vec::new(),
        };
        let mut lab = Lab::new(&machine, object("fifo", 2));
        lab.duration_ns = Some(5_000 * MS);
        let workload = parse(&births(30));
        tiltyard_sim::run(&lab.setup(&workload), &mut wakeups, &mut |_| {}).expect("a run");
        assert!(wakeups.times_ns.len() > 100, "{name}");
        let odd = wakeups.times_ns.iter().find(|ns| *ns % (4 * MS) != 3_000);
        assert_eq!(odd, None, "{name}");
    }
}

/// Of both CPUs' exits, each thread sees those of its own.
#[test]
fn what_ends_on_a_cpu_is_cleaned_up_there() {
    let pinned = r#"{ "tasks": {
        "make": { "loop": -1, "cpus": [1], "tiltyard": { "sleep": 20000, "spawn": "cc", "join": true } },
        "cc": { "instance": 0, "loop": 1, "run": 10 } } }"#;
    let worker = noise("kworker", Per::Cpu, Some(1000));
    let ran = run(&machine(vec![worker]), pinned, 20);
    let [here, there] = ["kworker/1:0", "kworker/0:0"].map(|name| turns(&ran, name).0);
    assert!(here > 900 && there <= 1, "{here}, {there}");
}

/// More exits than it can follow: it comes as often as its sleep allows, and stops soon after the last.
#[test]
fn a_flood_is_cleaned_up_at_the_threads_own_pace() {
    let flood = r#"{ "tasks": {
        "make": { "loop": 1000, "tiltyard": { "spawn": "cc", "join": true } },
        "cc": { "instance": 0, "loop": 1, "run": 1000 },
        "rest": { "run": 20000000 } } }"#;
    let rcu = noise("rcu", Per::Machine, Some(3000));
    let (seen, _) = turns(&run(&machine(vec![rcu]), flood, 20), "rcu");
    assert!(
        (80..=120).contains(&seen),
        "{seen} in the second of 1000 exits"
    );
}
