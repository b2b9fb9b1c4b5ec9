// SPDX-License-Identifier: GPL-2.0-or-later
//! Numbers that small tables would not survive.

use crate::arm::{Arm, Case, EndKind};
use std::collections::BTreeSet;

/// 300 CPUs, 1000 tasks, 1024 queues, a task-storage value for each task.
pub fn many_cpus_and_tasks(arm: &impl Arm) {
    let tasks = r#""A": { "instance": 1000, "loop": 2, "run": 2000, "sleep": 1000 }"#;
    let log = arm.run(&Case::new("many", tasks).on("core:300 pu:1"));
    assert_eq!(log.end.kind, EndKind::Unregistered, "{}", log.end.message);
    assert_eq!(log.nr_exited(), 1000);
    let cpus: BTreeSet<u32> = log.runs().into_iter().map(|r| r.cpu).collect();
    assert_eq!(cpus.len(), 300);
    let runs = log.values("runs", "A-999");
    assert_eq!(runs, (1..=runs.len() as i64).collect::<Vec<_>>());
    assert!(runs.len() >= 2);
}

/// Simulations share nothing: eight at once give what one alone gives.
pub fn many_simulations_at_once(arm: &(impl Arm + Sync)) {
    let tasks = r#""A": { "instance": 20, "loop": 20, "run": 700, "sleep": 300 }"#;
    let case = Case::new("shared", tasks).on("core:4 pu:1");
    let alone = arm.run(&case);
    let logs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| arm.run(&case))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a run"))
            .collect()
    });
    for log in logs {
        assert!(log == alone, "a run beside others differs from one alone");
    }
}
