// SPDX-License-Identifier: GPL-2.0-or-later
//! The watchdog: ejects a scheduler that leaves a runnable task waiting too long.

use crate::clock::Alarm;
use crate::engine::Engine;
use crate::ext::exit::ExitKind;
use crate::task::{Class, Life};

impl Engine<'_> {
    pub(crate) fn arm_watchdog(&mut self) {
        if self.watchdog {
            self.clock
                .arm(self.now + self.ext.timeout_ns / 2, Alarm::Watchdog);
        }
    }

    /// `scx_watchdog_workfn()`: every half timeout, so it fires between one and one and a half timeouts.
    pub(crate) fn watchdog_check(&mut self) {
        let stalled = self.tasks.iter().find(|task| {
            task.life == Life::Runnable
                && task.class == Class::Ext
                && !task.id.is_idle()
                && self.rqs[task.cpu as usize].curr != task.id
                && self.now > task.kern.scx.runnable_at + self.ext.timeout_ns
        });
        if let Some(task) = stalled {
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
}
