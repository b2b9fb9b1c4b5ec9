// SPDX-License-Identifier: GPL-2.0-or-later
//! Workloads that cannot end by themselves.

use crate::program::{Op, TaskSpec, Workload};
use crate::visit::visit;

impl Workload {
    /// A task for whose end the run waits and that has none: it repeats forever and never exits. `None` if there is no
    /// such task, or the workload gives its own duration. Tasks that nobody starts are refused when a file is read.
    pub fn endless_task(&self) -> Option<&TaskSpec> {
        if self.duration_ns.is_some() {
            return None;
        }
        let mut tasks = self.tasks.iter();
        tasks.find(|task| !task.daemon && task.is_endless())
    }
}

impl TaskSpec {
    /// Whether it repeats until the run ends.
    pub fn is_endless(&self) -> bool {
        let repeats = self.loops.is_none() || self.phases.iter().any(|phase| phase.loops.is_none());
        let mut exits = false;
        for phase in &self.phases {
            visit(&phase.ops, &mut |op| exits |= matches!(op, Op::Exit));
        }
        repeats && !exits
    }
}

#[cfg(test)]
mod tests {
    fn endless(tasks: &str) -> Option<String> {
        let text = format!("{{ \"tasks\": {{ {tasks} }} }}");
        let workload = crate::read(&text, "f.json").unwrap_or_else(|e| panic!("{}", e[0]));
        workload.endless_task().map(|task| task.name.clone())
    }

    #[test]
    fn what_repeats_for_ever_does_not_end() {
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(endless(r#""a": { "loop": 1, "run": 1 }"#), None);
        assert_eq!(endless(r#""a": { "loop": -1, "run": 1 }"#), named("a"));
        assert_eq!(
            endless(r#""a": { "loop": 1, "phases": { "p": { "loop": -1, "run": 1 } } }"#),
            named("a")
        );
        let daemon = r#""d": { "loop": -1, "run": 1, "tiltyard": { "daemon": true } }, "a": { "loop": 1, "run": 1 }"#;
        assert_eq!(endless(daemon), None);
        let exits = r#""a": { "loop": -1, "run": 1, "tiltyard": { "chance": { "p": 0.1, "do": { "exit": true } } } }"#;
        assert_eq!(endless(exits), None);
    }

    #[test]
    fn children_count() {
        assert_eq!(
            endless(
                r#""a": { "loop": 1, "run": 1, "fork": "c" }, "c": { "instance": 0, "loop": -1, "run": 1 }"#
            ),
            Some("c".to_owned())
        );
    }

    #[test]
    fn a_duration_ends_everything() {
        let text = r#"{ "global": { "duration": 1 }, "tasks": { "a": { "loop": -1, "run": 1 } } }"#;
        let workload = crate::read(text, "f.json").unwrap_or_else(|e| panic!("{}", e[0]));
        assert!(workload.endless_task().is_none());
    }
}
