// SPDX-License-Identifier: GPL-2.0-or-later
//! `freebsd.h`: how tasks of Linux correspond to threads of FreeBSD.

use tiltyard_schedtest::kernel::{Kernel, TaskId};
use tiltyard_schedtest::object;

/// `PF_KTHREAD`, `SCHED_IDLE`.
const KTHREAD: u32 = 0x0020_0000;
const IDLE: u32 = 5;

fn kernel() -> Kernel {
    Kernel::boot(object("schedulers/lib/tests/lib.bpf.c", 2), &[], 1)
}

/// Pid of its heir, whether it is a kernel thread, of the idle class.
fn asked(kernel: &mut Kernel, task: TaskId) -> [i64; 3] {
    let address = kernel.state().address(task);
    let out = kernel.call("t_freebsd", &[address]).0;
    [out[5], out[6], out[7]]
}

#[test]
fn a_thread_is_inherited_by_its_process_and_a_process_by_its_parent() {
    let mut kernel = kernel();
    let state = kernel.state();
    let (parent, first, thread) = (
        state.add_task(10, 0),
        state.add_task(20, 0),
        state.add_task(21, 0),
    );
    let parents = state.address(parent) as *const _;
    for task in [first, thread] {
        state.task(task).real_parent = parents;
    }
    state.task(thread).tgid = 20;
    assert_eq!(asked(&mut kernel, thread)[0], 20);
    assert_eq!(asked(&mut kernel, first)[0], 10);
    assert_eq!(asked(&mut kernel, parent)[0], 0, "nobody");
    // The parent's first thread, whichever of them forked.
    kernel.state().task(parent).tgid = 5;
    assert_eq!(asked(&mut kernel, first)[0], 5);
}

#[test]
fn kernel_threads_and_the_idle_class_are_known_by_flag_and_policy() {
    let mut kernel = kernel();
    let task = kernel.state().add_task(10, 0);
    assert_eq!(asked(&mut kernel, task)[1..], [0, 0]);
    kernel.state().task(task).flags = KTHREAD;
    assert_eq!(asked(&mut kernel, task)[1], 1);
    for (policy, idle) in [(IDLE, 1), (3, 0), (0, 0)] {
        kernel.state().task(task).policy = policy;
        assert_eq!(asked(&mut kernel, task)[2], idle, "policy {policy}");
    }
}
