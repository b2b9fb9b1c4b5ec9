// SPDX-License-Identifier: GPL-2.0-or-later
//! Regroups tasks: passes all events on, but replaces each task's app by `label`'s result, for example the task's own name
//! or its cgroup.

use std::ops::Range;
use tiltyard_model::{Event, EventSink, TaskInfo};

/// Passes everything on, with `label`'s result in place of each task's app.
pub struct Regrouped<S, F> {
    pub sink: S,
    label: F,
}

impl<S: EventSink, F: FnMut(&TaskInfo) -> String> Regrouped<S, F> {
    pub fn new(sink: S, label: F) -> Self {
        Regrouped { sink, label }
    }
}

impl<S: EventSink, F: FnMut(&TaskInfo) -> String> EventSink for Regrouped<S, F> {
    fn task(&mut self, info: &TaskInfo) {
        let app = (self.label)(info);
        let info = info.clone();
        self.sink.task(&TaskInfo { app, ..info });
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        self.sink.event(event);
    }

    fn cpu_set(&mut self, set: u32, cpus: &[Range<u32>]) {
        self.sink.cpu_set(set, cpus);
    }

    fn request_class(&mut self, class: u16, name: &str) {
        self.sink.request_class(class, name);
    }

    fn probe_name(&mut self, probe: u16, name: &str, per_cpu: bool) {
        self.sink.probe_name(probe, name, per_cpu);
    }

    fn callback_name(&mut self, callback: u16, name: &str) {
        self.sink.callback_name(callback, name);
    }

    fn place_name(&mut self, place: u16, name: &str) {
        self.sink.place_name(place, name);
    }

    fn uses_access(&self, callback: &str, place: &str) -> bool {
        self.sink.uses_access(callback, place)
    }
}
