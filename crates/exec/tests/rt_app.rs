// SPDX-License-Identifier: GPL-2.0-or-later
//! A plain rt-app file, through the distribution's rt-app and through ours: the same threads, about the same CPU time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tiltyard_exec::{Setup, run};
use tiltyard_workload::read;

/// With phases: rt-app 1.0 repeats a task without them forever, whatever its loop says; later versions do not.
const FILE: &str = r#"{
	"tasks" : {
		"worker" : { "instance" : 2, "loop" : 1, "phases" : { "p" : { "loop" : 20, "run" : 5000, "sleep" : 5000 } } },
		"burner" : { "loop" : 1, "phases" : { "p" : { "loop" : 20, "runtime" : 5000, "sleep" : 5000 } } },
		"locker" : { "instance" : 3, "loop" : 2, "phases" : {
			"p" : { "loop" : 10, "lock" : "m", "run" : 2000, "unlock" : "m", "sleep" : 1000 } } }
	},
	"global" : { "logdir" : "LOGDIR", "default_policy" : "SCHED_OTHER" }
}"#;

/// What the two may differ by: each measures the machine's speed by itself, and others use the machine too.
const FACTOR: u64 = 4;
const ATTEMPTS: u32 = 3;

/// Number of threads and their CPU time, by the name of the task.
type Seen = BTreeMap<String, (usize, u64)>;

#[test]
fn both_run_the_same_threads_for_about_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let text = FILE.replace("LOGDIR", &folder.path().display().to_string());
    let path = folder.path().join("plain.json");
    std::fs::write(&path, &text).unwrap();
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some(theirs) = with_rt_app(&path) else {
            eprintln!("skipped: no rt-app here (apt-get install rt-app)");
            return;
        };
        let ours = with_our_threads(&text);
        let counts = |seen: &Seen| -> Vec<(String, usize)> {
            seen.iter()
                .map(|(name, (n, _))| (name.clone(), *n))
                .collect()
        };
        assert_eq!(counts(&theirs), counts(&ours));
        let agree = |name: &String| {
            let (a, b) = (theirs[name].1, ours[name].1);
            a <= b * FACTOR && b <= a * FACTOR
        };
        if ours.keys().all(agree) {
            return;
        }
        last = Some((theirs, ours));
    }
    panic!("CPU time, ns, of rt-app and of ours: {last:?}");
}

fn with_our_threads(text: &str) -> Seen {
    let workload = read(text, "plain.json").unwrap();
    let setup = Setup {
        history_limit_ns: 0,
        ..Setup::default()
    };
    let outcome = run(&workload, &setup, &mut |_| {}).unwrap();
    assert!(outcome.done);
    let seen = outcome.tasks.into_iter();
    seen.map(|t| (t.name, (t.started as usize, t.cpu_ns)))
        .collect()
}

/// Without the main thread, which only waits. `None`: there is no rt-app.
fn with_rt_app(file: &Path) -> Option<Seen> {
    let mut command = Command::new("rt-app");
    command
        .arg(file)
        // It leaves a log of each thread where it is started.
        .current_dir(file.parent().expect("a file lies in a folder"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut threads = watch(&mut child);
    threads.remove(&child.id().to_string());
    assert!(child.wait().unwrap().success());
    let mut seen = Seen::new();
    for (name, cpu_ns) in threads.into_values() {
        // Its threads are called after their task, in later versions with a number of their own.
        let digits = |c: char| c.is_ascii_digit();
        let task = name.trim_end_matches(digits).trim_end_matches('-');
        let sum = seen.entry(task.to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + cpu_ns);
    }
    Some(seen)
}

/// Name and CPU time of every thread of a process, by tid, as last seen before it ended.
fn watch(child: &mut Child) -> BTreeMap<String, (String, u64)> {
    let tasks = format!("/proc/{}/task", child.id());
    let mut threads = BTreeMap::new();
    while child.try_wait().unwrap().is_none() {
        for thread in std::fs::read_dir(&tasks).into_iter().flatten().flatten() {
            let read = |file| std::fs::read_to_string(thread.path().join(file)).ok();
            if let (Some(name), Some(times)) = (read("comm"), read("schedstat")) {
                let cpu_ns = times.split(' ').next().and_then(|ns| ns.parse().ok());
                let tid = thread.file_name().to_string_lossy().into_owned();
                threads.insert(tid, (name.trim_end().to_owned(), cpu_ns.unwrap_or(0)));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    threads
}
