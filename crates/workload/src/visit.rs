// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be said of a workload from all of its operations.

use std::collections::BTreeSet;

use crate::program::{Op, Workload};

impl Workload {
    /// The classes of the requests that tasks of an app make, in the workload's order.
    pub fn classes_of(&self, app: usize) -> Vec<&str> {
        let mut classes = BTreeSet::new();
        let own = self.tasks.iter().filter(|task| task.app == app);
        for phase in own.flat_map(|task| &task.phases) {
            visit(&phase.ops, &mut |op| {
                if let Op::End { request } | Op::Done { request } = op {
                    classes.insert(*request);
                }
            });
        }
        let names = classes.into_iter();
        names.map(|class| self.requests[class].as_str()).collect()
    }
}

/// Each operation, with those in the bodies of others.
pub(crate) fn visit(ops: &[Op], look: &mut dyn FnMut(&Op)) {
    for op in ops {
        look(op);
        match op {
            Op::Repeat { body, .. }
            | Op::Countdown { body, .. }
            | Op::Until { body, .. }
            | Op::During { body, .. }
            | Op::Chance { body, .. } => visit(body, look),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn classes_are_those_of_the_apps_own_tasks() {
        let text = r#"{ "tiltyard": { "apps": { "db": {}, "web": {} } }, "tasks": {
            "a": { "loop": 1, "tiltyard": { "app": "db", "repeat": { "count": 2, "do": {
                "begin": "query", "run": 1, "end": "query" } } } },
            "b": { "loop": 1, "run": 1, "tiltyard": { "app": "db", "done": "commit" } },
            "c": { "loop": 1, "run": 1, "tiltyard": { "app": "web" } } } }"#;
        let workload = crate::read(text, "f.json").unwrap_or_else(|e| panic!("{}", e[0]));
        let of = |name: &str| {
            let app = workload.apps.iter().position(|app| app.name == name);
            workload.classes_of(app.unwrap())
        };
        assert_eq!(of("db"), ["query", "commit"]);
        assert!(of("web").is_empty());
    }
}
