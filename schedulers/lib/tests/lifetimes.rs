// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that come and go under each scheduler that gives them indices.

use tiltyard_native::layout::{ExitTaskArgs, InitTaskArgs};
use tiltyard_schedtest::kernel::Kernel;
use tiltyard_schedtest::object;

/// MAX_TASKS of slots.h
const MAX_TASKS: usize = 1 << 16;

/// More tasks than there is room for, one after the other: each gives its place back.
#[test]
fn a_task_that_exits_leaves_its_place_to_others() {
    for (scheduler, prefix) in [
        ("bfs", "bfs"),
        ("bsd4", "bsd4"),
        ("cfs", "fair"),
        ("eevdf", "fair"),
        ("o1", "o1"),
        ("sd", "sd"),
    ] {
        let mut kernel = Kernel::boot(object(scheduler, 2), &[], 4);
        let (_, error) = kernel.call(&format!("{prefix}_init"), &[]);
        assert_eq!(error as i32, 0, "{scheduler}");
        let id = kernel.state().add_task(1000, 0);
        kernel.state().allow(id, |cpu| cpu < 3);
        kernel.state().current = Some(id);
        let p = kernel.state().address(id);
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let args: InitTaskArgs = unsafe { std::mem::zeroed() };
        let exit = ExitTaskArgs { cancelled: false };
        for nr in 0..=MAX_TASKS {
            let words = [p, &raw const args as i64];
            let (_, error) = kernel.call(&format!("{prefix}_init_task"), &words);
            assert_eq!(error as i32, 0, "{scheduler}: task {nr}");
            let words = [p, &raw const exit as i64];
            kernel.call(&format!("{prefix}_exit_task"), &words);
        }
    }
}
