// SPDX-License-Identifier: GPL-2.0-or-later
//! `--by`: whether each row of a comparison is a task, an application or a cgroup.

use std::collections::HashMap;

use tiltyard_measure::Regrouped;
use tiltyard_model::{EventSink, TaskInfo, Tid};
use tiltyard_workload::Workload;
use tiltyard_workload::program::TaskSpec;

use crate::Error;

/// What each row of a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each task separately.
    Task,
    /// The tasks of an application together.
    App,
    /// The tasks of a cgroup together.
    Group,
}

/// The name of a task's row.
pub type Label<'a> = Box<dyn FnMut(&TaskInfo) -> String + 'a>;

/// Tasks with their own rows; those created later share [`OTHERS`]. A row costs some 50 KiB.
const MAX_TASKS: usize = 512;

const OTHERS: &str = "(other tasks)";

/// The cgroup of tasks that the workload puts nowhere else.
const ROOT: &str = "/";

impl By {
    /// As in results: "task", "app", "group".
    pub fn name(self) -> &'static str {
        match self {
            By::Task => "task",
            By::App => "app",
            By::Group => "group",
        }
    }

    /// `sink` with tasks grouped as requested. [`By::check`] has accepted the workload.
    pub fn regroup<'a, S: EventSink + 'a>(
        self,
        workload: &'a Workload,
        sink: S,
    ) -> Regrouped<S, Label<'a>> {
        let label = self.labels_of_events();
        let label = label.unwrap_or_else(|| Box::new(group_labels(workload)));
        Regrouped::new(sink, label)
    }

    /// Labels that need only events; `None` if they need the workload, since events do not show cgroups.
    pub fn labels_of_events<'a>(self) -> Option<Label<'a>> {
        match self {
            By::Task => Some(Box::new(task_labels())),
            By::App => Some(Box::new(|info: &TaskInfo| info.app.clone())),
            By::Group => None,
        }
    }

    /// A task that moves from one group to another belongs to no row.
    pub fn check(self, workload: &Workload) -> Result<(), Error> {
        let moves = |task: &&TaskSpec| own_groups(task).len() > 1;
        match workload.tasks.iter().find(moves) {
            Some(task) if self == By::Group => {
                let line = format!(
                    "group: task '{}' of {} moves between cgroups",
                    task.name, workload.name
                );
                Err(Error::NotModelled(line))
            }
            _ => Ok(()),
        }
    }
}

fn task_labels() -> impl FnMut(&TaskInfo) -> String {
    let mut seen = 0;
    move |info| {
        seen += 1;
        match seen <= MAX_TASKS {
            true => info.name.clone(),
            false => OTHERS.to_owned(),
        }
    }
}

/// A task is in the group that the workload gives it, else in that of its parent, else in that of its app.
fn group_labels(workload: &Workload) -> impl FnMut(&TaskInfo) -> String {
    let mut group_of: HashMap<Tid, String> = HashMap::new();
    move |info| {
        let own = spec_of(workload, &info.name).and_then(|spec| own_groups(spec)[0]);
        let app = workload.apps.iter().find(|app| app.name == info.app);
        let inherited = || group_of.get(&info.parent).cloned();
        let path = |group: usize| workload.groups[group].path.clone();
        let group = own.map(path).or_else(inherited);
        let group = group.or_else(|| app?.group.map(path));
        let group = group.unwrap_or_else(|| ROOT.to_owned());
        group_of.insert(info.tid, group.clone());
        group
    }
}

/// Instances are named `NAME-3`.
fn spec_of<'a>(workload: &'a Workload, name: &str) -> Option<&'a TaskSpec> {
    let named = |name: &str| workload.tasks.iter().find(|task| task.name == name);
    let instance_of = || {
        let (base, number) = name.rsplit_once('-')?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| named(base)).flatten()
    };
    named(name).or_else(instance_of)
}

/// The groups that a task is in, in order; `None`: the one that it inherits.
fn own_groups(task: &TaskSpec) -> Vec<Option<usize>> {
    let mut phases = task.phases.iter().map(|phase| phase.attrs.group);
    // Settings of the first phase apply from the beginning.
    let first = phases.next().flatten().or(task.attrs.group);
    let later = phases.filter(Option::is_some);
    let mut groups: Vec<Option<usize>> = [first].into_iter().chain(later).collect();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiltyard_model::Event;

    struct Apps(Vec<String>);

    impl EventSink for Apps {
        fn task(&mut self, info: &TaskInfo) {
            self.0.push(info.app.clone());
        }
        fn event(&mut self, _: &Event) {}
    }

    fn workload(tasks: &str) -> Workload {
        let text = format!(
            "{{ \"tiltyard\": {{ \"apps\": {{ \"db\": {{ \"group\": \"/db\" }} }} }}, \"tasks\": {{ {tasks} }} }}"
        );
        tiltyard_workload::read(&text, "w.json").unwrap_or_else(|e| panic!("{e:?}"))
    }

    fn labels(by: By, workload: &Workload, tasks: &[(u32, u32, &str, &str)]) -> Vec<String> {
        let mut sink = by.regroup(workload, Apps(Vec::new()));
        for (tid, parent, name, app) in tasks {
            sink.task(&TaskInfo {
                tid: Tid(*tid),
                tgid: Tid(*tid),
                parent: Tid(*parent),
                name: (*name).to_owned(),
                app: (*app).to_owned(),
                nice: 0,
                born_ns: 0,
                is_shell: false,
            });
        }
        sink.sink.0
    }

    const TASKS: &str = "\"one\": { \"instance\": 2, \"loop\": 1, \"run\": 1, \"taskgroup\": \"/own\" }, \
                         \"two\": { \"loop\": 1, \"run\": 1, \"tiltyard\": { \"app\": \"db\" } }";

    #[test]
    fn tasks_are_in_their_own_group_or_that_of_their_parent_or_app() {
        let workload = workload(TASKS);
        let tasks = [
            (1, 0, "kworker/0:0", "kernel"),
            (2, 0, "sh-db", "db"),
            (3, 2, "two", "db"),
            (4, 3, "helper", "db"),
            (5, 0, "one-1", "rt-app"),
        ];
        let groups = labels(By::Group, &workload, &tasks);
        assert_eq!(groups, ["/", "/db", "/db", "/db", "/own"]);
        assert_eq!(labels(By::App, &workload, &tasks)[3..], ["db", "rt-app"]);
        assert_eq!(
            labels(By::Task, &workload, &tasks)[3..],
            ["helper", "one-1"]
        );
        By::Group.check(&workload).unwrap();
    }

    #[test]
    fn a_task_that_moves_has_no_group() {
        let phases =
            "\"phases\": { \"a\": { \"run\": 1 }, \"b\": { \"run\": 1, \"taskgroup\": \"/x\" } }";
        let workload = workload(&format!("\"mover\": {{ \"loop\": 1, {phases} }}"));
        let error = By::Group.check(&workload).unwrap_err().to_string();
        assert!(error.contains("'mover'"), "{error}");
        By::Task.check(&workload).unwrap();
    }

    #[test]
    fn there_is_an_end_of_tasks_with_rows_of_their_own() {
        let workload = workload(TASKS);
        let many: Vec<_> = (1..=600).map(|tid| (tid, 0, "t", "rt-app")).collect();
        let labels = labels(By::Task, &workload, &many);
        assert_eq!(
            labels.iter().filter(|l| *l == OTHERS).count(),
            600 - MAX_TASKS
        );
    }
}
