// SPDX-License-Identifier: GPL-2.0-or-later
//! cgroups with the cpu controller, and sessions (autogroups), as schedulers see them.

use crate::engine::Engine;
use crate::task::TaskId;
use std::ffi::CString;
use std::ptr;
use tiltyard_native::layout::{
    Autogroup, Cgroup, CgroupSubsysState, CssSet, KernfsNode, SignalStruct, TaskGroup,
};
use tiltyard_workload::Workload;
use tiltyard_workload::program::App;

/// The root cgroup's weight and the default of all others.
pub const DEFAULT_WEIGHT: u32 = 100;

#[derive(Debug)]
pub struct Group {
    pub weight: u32,
    pub parent: Option<u32>,
    pub path: String,
    pub kernel: Box<Cgroup>,
    css_set: Box<CssSet>,
    task_group: Box<TaskGroup>,
    /// Owned by `kernel`: kept alive here because schedulers follow pointers.
    _node: Box<KernfsNode>,
    _name: CString,
    /// ops.cgroup_init succeeded.
    pub inited: bool,
}

/// Groups in creation order, parents before children; 0 is the root.
#[derive(Debug)]
pub struct Cgroups {
    pub groups: Vec<Group>,
    /// Where each group of the workload's is among `groups`.
    places: Vec<u32>,
    /// One for each application, with a session unless it is in the root group, and a last one, without, for kernel threads.
    /// Never grows: tasks point at them.
    signals: Box<[SignalStruct]>,
    _autogroups: Box<[Autogroup]>,
}

impl Cgroups {
    pub fn new(workload: &Workload) -> Cgroups {
        let mut groups = vec![Group::new("/", None, DEFAULT_WEIGHT, 0, 1)];
        let mut places: Vec<u32> = Vec::new();
        for spec in &workload.groups {
            if spec.is_root() {
                places.push(0);
                continue;
            }
            let parent = spec.parent.map_or(0, |p| places[p]);
            let level = groups[parent as usize].kernel.level + 1;
            let id = groups.len() as u64 + 1;
            places.push(groups.len() as u32);
            groups.push(Group::new(&spec.path, Some(parent), spec.weight, level, id));
        }
        let autogroups: Box<[Autogroup]> = (1..=workload.apps.len() as u64)
            .map(|id| Autogroup { id, nice: 0 })
            .collect();
        let session = |autogroup| SignalStruct {
            nr_threads: 1,
            autogroup,
        };
        let none = std::iter::once(session(ptr::null()));
        let of_app = |(app, group): (&App, &Autogroup)| {
            let in_root = app.group.is_some_and(|g| workload.groups[g].is_root());
            session(if in_root { ptr::null() } else { group })
        };
        let signals = workload
            .apps
            .iter()
            .zip(&autogroups)
            .map(of_app)
            .chain(none)
            .collect();
        Cgroups {
            groups,
            places,
            signals,
            _autogroups: autogroups,
        }
    }

    /// Number of a group of the workload's.
    pub fn of_workload(&self, group: usize) -> u32 {
        self.places[group]
    }

    /// Signal struct of an application; `None` for kernel threads.
    pub fn signal(&self, app: Option<u32>) -> *const SignalStruct {
        let i = app.map_or(self.signals.len() - 1, |a| a as usize);
        ptr::from_ref(&self.signals[i])
    }

    pub fn kernel_ptr(&self, group: u32) -> *const Cgroup {
        ptr::from_ref(&*self.groups[group as usize].kernel)
    }

    /// The group behind a pointer returned by [`Cgroups::kernel_ptr`].
    pub fn find(&self, cgroup: *const Cgroup) -> Option<u32> {
        self.groups
            .iter()
            .position(|g| ptr::from_ref(&*g.kernel) == cgroup)
            .map(|i| i as u32)
    }

    pub fn find_id(&self, id: u64) -> Option<u32> {
        (id >= 1 && id <= self.groups.len() as u64).then(|| id as u32 - 1)
    }
}

impl Group {
    fn new(path: &str, parent: Option<u32>, weight: u32, level: i32, id: u64) -> Group {
        let name = CString::new(path.rsplit('/').find(|s| !s.is_empty()).unwrap_or("/"))
            .unwrap_or_default();
        let node = Box::new(KernfsNode {
            id,
            name: name.as_ptr(),
        });
        let mut kernel = Box::new(Cgroup {
            self_css: CgroupSubsysState {
                cgroup: ptr::null(),
            },
            kn: ptr::from_ref(&*node),
            level,
        });
        let cgroup = ptr::from_ref(&*kernel);
        kernel.self_css.cgroup = cgroup;
        Group {
            weight,
            parent,
            path: path.to_owned(),
            css_set: Box::new(CssSet { dfl_cgrp: cgroup }),
            task_group: Box::new(TaskGroup {
                css: CgroupSubsysState { cgroup },
            }),
            kernel,
            _node: node,
            _name: name,
            inited: false,
        }
    }
}

impl Engine<'_> {
    /// Membership as the task struct shows it.
    pub(crate) fn join_group(&mut self, id: TaskId, group: u32) {
        let entry = &self.cgroups.groups[group as usize];
        let task = &mut self.tasks[id.index()];
        task.cgroup = group;
        task.kern.cgroups = ptr::from_ref(&*entry.css_set);
        task.kern.sched_task_group = ptr::from_ref(&*entry.task_group);
    }
}

#[cfg(test)]
mod tests {
    use super::Cgroups;
    use tiltyard_workload::Workload;
    use tiltyard_workload::program::{App, Group};

    #[test]
    fn the_root_group_of_a_workload_is_the_machines_and_has_no_sessions() {
        let group = |path: &str, parent| Group {
            path: path.to_owned(),
            parent,
            weight: 100,
        };
        let app = |name: &str, group| App {
            name: name.to_owned(),
            group,
            history_ns: 0,
        };
        let workload = Workload {
            groups: vec![group("/a", None), group("/", None), group("/a/b", Some(0))],
            apps: vec![
                app("in-a", Some(0)),
                app("in-root", Some(1)),
                app("none", None),
            ],
            ..Workload::default()
        };
        let cgroups = Cgroups::new(&workload);
        let level = |group| {
            cgroups.groups[cgroups.of_workload(group) as usize]
                .kernel
                .level
        };
        assert_eq!([0, 1, 2].map(level), [1, 0, 2]);
        assert_eq!(cgroups.groups.len(), 3);
        for (at, group) in cgroups.groups.iter().enumerate() {
            // SAFETY: nodes live as long as their groups.
            let id = unsafe { (*group.kernel.kn).id };
            assert_eq!(cgroups.find_id(id), Some(at as u32));
        }
        // SAFETY: signals live as long as `cgroups`.
        let session = |app| unsafe { !(*cgroups.signal(app)).autogroup.is_null() };
        let sessions = [Some(0), Some(1), Some(2), None].map(session);
        assert_eq!(sessions, [true, false, true, false]);
    }
}
