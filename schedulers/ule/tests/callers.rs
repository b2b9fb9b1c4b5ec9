// SPDX-License-Identifier: GPL-2.0-or-later
//! What running() and stopping() note of a task, by what is decided later.

use crate::ule::fake::Machine;
use serde_json::Value;
use tiltyard_schedtest::kernel::TaskId;

const MS: u64 = 1_000_000;
/// Flags of a wakeup and of a sleep.
const WAKEUP: i64 = 1;
const SLEEP: i64 = 1;
/// A batch task's priority, and one of the idle class.
const BATCH: i64 = 180;
const IDLE_CLASS: i64 = 230;

/// A task wakes up on CPU 0 and waits there.
fn wakes(m: &mut Machine, tid: i64, pinned: bool) -> (TaskId, i64) {
    let (id, task) = m.task(tid, 0, &Value::Null);
    m.kernel.state().task(id).migration_disabled = pinned.into();
    m.call("t_task", &[task, BATCH, -1, 0, 0, 0]);
    m.call("ule_enqueue", &[task, WAKEUP]);
    (id, task)
}

/// FreeBSD's `transferable()`: queued tasks that are not pinned. One that runs is not queued, whether it is pinned or not.
#[test]
fn beside_a_pinned_task_that_runs_a_free_one_can_be_stolen() {
    for (runner_pinned, other_pinned) in [(true, false), (false, false), (true, true)] {
        let mut m = Machine::small(false, &[]);
        let (_, runner) = wakes(&mut m, 1, runner_pinned);
        m.call("ule_dispatch", &[0, 0]);
        m.call("ule_running", &[runner]);
        let (other, _) = wakes(&mut m, 2, other_pinned);
        let free = i64::from(!other_pinned);
        assert_eq!(m.call("t_cpu_get", &[0])[..2], [2, free], "{runner_pinned}");
        m.kernel.state().cpu = 1;
        let stole = m.call("t_steal", &[1])[1];
        assert_eq!(stole, free, "{runner_pinned}, {other_pinned}");
        let expected: &[TaskId] = if free == 1 { &[other] } else { &[] };
        assert_eq!(m.kernel.state().local(1), expected);
    }
}

/// A cache is warm for a tick of hz, 1 ms, after the task has stopped: until then it comes back although a task of the
/// idle class runs there. Later CPU 1 is better, which has nothing to do.
#[test]
fn a_cpu_is_warm_since_the_task_stopped_there() {
    for (slept_ms, chosen) in [(1, 0), (2, 1), (500, 1)] {
        let mut m = Machine::small(false, &[]);
        m.kernel.state().now_ns = 10_000 * MS;
        let (_, sleeper) = wakes(&mut m, 1, false);
        m.call("ule_dispatch", &[0, 0]);
        m.call("ule_running", &[sleeper]);
        m.kernel.state().now_ns += 300 * MS;
        m.call("ule_stopping", &[sleeper, 0]);
        m.call("ule_quiescent", &[sleeper, SLEEP]);
        m.call("t_cpu", &[0, 1, 0, IDLE_CLASS, IDLE_CLASS, 0]);
        m.kernel.state().now_ns += slept_ms * MS;
        let (_, cpu) = m.kernel.call("ule_select_cpu", &[sleeper, 0, 0]);
        assert_eq!(cpu, chosen, "{slept_ms} ms asleep");
    }
}
