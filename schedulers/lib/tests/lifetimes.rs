// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that come and go under each scheduler.

use tiltyard_native::layout::{ExitTaskArgs, InitTaskArgs};
use tiltyard_schedtest::kernel::Kernel;
use tiltyard_schedtest::{object, shipped};

/// MAX_TASKS in slots.h.
const MAX_TASKS: usize = 1 << 16;

/// More tasks than there is room for, one after the other: each gives its place back.
#[test]
fn a_task_that_exits_leaves_its_place_to_others() {
    for scheduler in shipped() {
        let object = object(&scheduler, 2);
        let op = |name: &str| object.ops.functions.get(name);
        let Some(init_task) = op("init_task") else {
            continue;
        };
        let mut kernel = Kernel::boot(object, &[], 4);
        if let Some(init) = op("init") {
            let (_, error) = kernel.call(init, &[]);
            assert_eq!(error as i32, 0, "{scheduler}");
        }
        let id = kernel.state().add_task(1000, 0);
        kernel.state().allow(id, |cpu| cpu < 3);
        kernel.state().current = Some(id);
        let p = kernel.state().address(id);
        // SAFETY: numbers and raw pointers, for which zero is valid.
        let args: InitTaskArgs = unsafe { std::mem::zeroed() };
        let exit = ExitTaskArgs { cancelled: false };
        for nr in 0..=MAX_TASKS {
            let (_, error) = kernel.call(init_task, &[p, &raw const args as i64]);
            assert_eq!(error as i32, 0, "{scheduler}: task {nr}");
            if let Some(exit_task) = op("exit_task") {
                kernel.call(exit_task, &[p, &raw const exit as i64]);
            }
        }
    }
}
