// SPDX-License-Identifier: GPL-2.0-or-later
//! What can be said of a workload from all of its operations.

use std::collections::BTreeSet;

use crate::program::{Attrs, Op, TaskSpec, Workload};

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

impl Workload {
    /// A task that is bound, at its start or later, to CPUs none of which a machine with so many has; and these CPUs.
    pub fn bound_beyond(&self, nr_cpus: u32) -> Option<(&TaskSpec, Vec<u32>)> {
        self.tasks.iter().find_map(|task| {
            let mut found = None;
            let mut look = |attrs: &Attrs| {
                if let Some(cpus) = &attrs.cpus
                    && !cpus.is_empty()
                    && cpus.iter().all(|cpu| *cpu >= nr_cpus)
                {
                    found.get_or_insert_with(|| cpus.clone());
                }
            };
            look(&task.attrs);
            for phase in &task.phases {
                look(&phase.attrs);
                visit(&phase.ops, &mut |op| match op {
                    Op::Set(attrs) | Op::SetOther { attrs, .. } => look(attrs),
                    _ => {}
                });
            }
            found.map(|cpus| (task, cpus))
        })
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
    #[test]
    fn a_task_needs_one_of_its_cpus() {
        let beyond = |task: &str, nr_cpus: u32| {
            let text = format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, "run": 1, {task} }} }} }}"#);
            let workload = crate::read(&text, "f.json").unwrap_or_else(|e| panic!("{}", e[0]));
            let found = workload.bound_beyond(nr_cpus);
            found.map(|(task, cpus)| (task.name.clone(), cpus))
        };
        let found = Some(("a".to_owned(), vec![4, 5]));
        assert_eq!(beyond(r#""cpus": [4, 5]"#, 4), found);
        assert_eq!(beyond(r#""cpus": [4, 5]"#, 5), None);
        let later = r#""phases": { "p": { "loop": 1, "run": 1, "cpus": [4, 5] } }"#;
        let text = format!(r#"{{ "tasks": {{ "a": {{ "loop": 1, {later} }} }} }}"#);
        let workload = crate::read(&text, "f.json").unwrap_or_else(|e| panic!("{}", e[0]));
        assert!(workload.bound_beyond(4).is_some() && workload.bound_beyond(6).is_none());
    }
}
