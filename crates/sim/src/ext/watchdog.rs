// SPDX-License-Identifier: GPL-2.0-or-later
//! The watchdog: ejects a scheduler that leaves a runnable task waiting too long.

use crate::clock::Alarm;
use crate::engine::Engine;
use crate::ext::exit::ExitKind;
use crate::task::{Class, Life, Task};

impl Engine<'_> {
    pub(crate) fn arm_watchdog(&mut self) {
        if self.watchdog {
            self.clock
                .arm(self.now + self.ext.timeout_ns / 2, Alarm::Watchdog);
        }
    }

    /// `scx_watchdog_workfn()`: every half timeout, so it fires between one and one and a half timeouts.
    pub(crate) fn watchdog_check(&mut self) {
        let patience_ends_ns = self.now.saturating_sub(self.ext.timeout_ns);
        if let Some(task) = self.waiting_since_before(patience_ends_ns) {
            let waited_ms = (self.now - task.kern.scx.runnable_at) / 1_000_000;
            let message = format!(
                "{} failed to run for {}.{:03}s",
                self.task_label(task.id),
                waited_ms / 1000,
                waited_ms % 1000
            );
            self.ext_exit(ExitKind::ErrorStall, 0, message);
        }
        self.arm_watchdog();
    }

    /// The event queue is empty but the workload is not over: the scheduler holds a task and waits for something
    /// that will never happen. This cannot occur in a kernel, because its clock never stops.
    pub(crate) fn ran_dry(&mut self) {
        if let Some(task) = self.waiting_since_before(self.now + 1) {
            let message = format!(
                "{} waits to run, and nothing will ever happen again",
                self.task_label(task.id)
            );
            self.ext_exit(ExitKind::ErrorStall, 0, message);
        }
    }

    /// The first task by pid that has been runnable without running since before this time.
    fn waiting_since_before(&self, time_ns: u64) -> Option<&Task> {
        self.tasks.iter().find(|task| {
            task.life == Life::Runnable
                && task.class == Class::Ext
                && !task.id.is_idle()
                && self.rqs[task.cpu as usize].curr != task.id
                && task.kern.scx.runnable_at < time_ns
        })
    }
}
