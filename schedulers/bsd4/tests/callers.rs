// SPDX-License-Identifier: GPL-2.0-or-later
//! What no record shows: callbacks in orders that come from sched_ext, and options that are not recorded.

use crate::bsd4::machine::{GLOBAL, MS, Machine, SLEEP, WAKEUP};
use serde_json::json;
use tiltyard_native::layout::InitTaskArgs;
use tiltyard_schedtest::kernel::{KICK_IDLE, KICK_PREEMPT};

const EXIT_ZOMBIE: i32 = 0x20;
const PF_KTHREAD: u32 = 0x20_0000;

fn kicks(m: &mut Machine) -> Vec<(u32, u64)> {
    std::mem::take(&mut m.kernel.state().kicks)
}

/// One CPU that runs task 1.
fn one(tunables: &[(&str, i128)]) -> Machine {
    let mut m = Machine::boot(1, tunables);
    m.thread(&json!({ "id": 1, "pri": 140 }));
    m.runs_now(0, 1);
    m.on(0);
    m
}

/// FIFO of a waiting task, and whether it went to the head.
fn place(m: &mut Machine, id: i64) -> (u64, bool) {
    let task = m.threads[&id].task;
    let key = m.kernel.state().task(task).scx.dsq_vtime;
    (key >> 57, key & ((1 << 57) - 1) < 1 << 56)
}

/// Preemption of another CPU needs both options.
#[test]
fn without_preemption_none_is_sent_to_another_cpu() {
    for (preemption, asked) in [(0, [true, false, false]), (1, [false, false, true])] {
        let mut m = Machine::boot(2, &[("preemption", preemption), ("ipi_preemption", 1)]);
        m.call("t_cpu", &[1, 0, 150, 0, 0, 0]);
        m.call("t_cpu", &[0, 0, 60, 0, 0, 0]);
        let th = m.thread(&json!({ "id": 1, "pri": 10, "mask": "2" }));
        m.on(0);
        m.kernel.state().set_cpu(th.task, 1);
        m.call("t_add", &[th.address, 0]);
        assert_eq!(m.asked(1), asked);
    }
}

/// Who goes to the head in 11.0: all but those whose turn is over, who yield, who are asked to make way or who are preempted by a
/// task of their own CPU.
#[test]
pub fn heads_of_11_0() {
    for (flags, yields, head) in [
        ([0, 0, 0, 0], false, true),
        ([0, 0, 0, 0], true, false),
        ([1, 0, 0, 0], false, false),
        ([0, 1, 0, 0], false, false),
        ([0, 0, 1, 0], false, true),
        ([1, 0, 1, 0], true, true),
        ([0, 0, 1, 1], false, false),
    ] {
        let mut m = one(&[("head_rule", 2)]);
        let [resched, preempt, remote, over] = flags;
        m.call("t_asked", &[0, resched, preempt, remote, over]);
        if yields {
            m.yields(0);
        }
        let address = m.threads[&1].address;
        m.call("bsd4_enqueue", &[address, 0]);
        assert_eq!(place(&mut m, 1), (35, head), "{flags:?}, yields: {yields}");
    }
}

/// In 9.3: all but those whose turn is over. In 11.1: those that are preempted, unless their turn is over.
#[test]
pub fn heads_of_9_3_and_11_1() {
    for (rule, flags, head) in [
        (1, [0, 0, 0, 0], true),
        (1, [1, 1, 0, 0], true),
        (1, [1, 0, 0, 1], false),
        (1, [0, 1, 0, 1], false),
        (3, [0, 0, 0, 0], false),
        (3, [1, 0, 0, 0], false),
        (3, [0, 1, 0, 0], true),
        (3, [1, 0, 1, 0], true),
        (3, [1, 1, 1, 1], false),
    ] {
        let mut m = one(&[("head_rule", rule)]);
        let [resched, preempt, remote, over] = flags;
        m.call("t_asked", &[0, resched, preempt, remote, over]);
        let address = m.threads[&1].address;
        m.call("bsd4_enqueue", &[address, 0]);
        assert_eq!(place(&mut m, 1), (35, head), "rule {rule}, {flags:?}");
    }
}

/// In 9.3 it is the end of the turn alone that leads there.
#[test]
pub fn a_turn_that_is_over_leads_to_the_tail() {
    for (ticks, head) in [(11, true), (12, false)] {
        let mut m = one(&[("head_rule", 1)]);
        let address = m.threads[&1].address;
        for _ in 0..ticks {
            m.call("t_clock", &[address, 0, 0]);
        }
        m.call("bsd4_enqueue", &[address, 0]);
        assert_eq!(place(&mut m, 1), (35, head), "{ticks} ticks");
    }
}

/// FreeBSD does not recompute a parent's priority when it inherits what a child has used, nor when it forks.
#[test]
pub fn a_child_has_its_creators_priority() {
    let mut m = Machine::boot(1, &[]);
    let parent = m.thread(&json!({ "id": 1, "pri": 140, "est": 40 }));
    let state = m.kernel.state();
    state.current = Some(parent.task);
    let child = state.add_task(2, 0);
    let address = state.address(child);
    // SAFETY: numbers and raw pointers, for which zero is a value.
    let mut args: InitTaskArgs = unsafe { std::mem::zeroed() };
    args.fork = true;
    m.call("bsd4_init_task", &[address, &raw const args as i64]);
    m.call("bsd4_set_weight", &[address, 100]);
    assert_eq!(m.call("t_get", &[address])[4..6], [140, 140]);
    m.call("bsd4_set_weight", &[address, 100]);
    assert_eq!(m.call("t_get", &[address])[4], 145);
}

/// Whatever they have used, kernel threads run with the priority of the kernel.
#[test]
pub fn kernel_threads_have_one_priority() {
    for (flags, pri) in [(PF_KTHREAD, 84), (0, 145)] {
        let mut m = Machine::boot(1, &[]);
        let th = m.thread(&json!({ "id": 1, "pri": 140, "est": 40 }));
        m.kernel.state().task(th.task).flags = flags;
        m.call("bsd4_set_weight", &[th.address, 100]);
        m.call("bsd4_running", &[th.address]);
        assert_eq!(m.known(1).pri, pri, "flags {flags:x}");
    }
}

/// What was asked of one task is not asked of the next.
#[test]
fn a_switch_clears_all_flags() {
    let mut m = one(&[]);
    let next = m.thread(&json!({ "id": 2, "pri": 140 }));
    m.call("t_asked", &[0, 1, 1, 1, 1]);
    m.call("bsd4_running", &[next.address]);
    assert_eq!(m.call("t_cpu_get", &[0])[..4], [0; 4]);
}

/// 2012: who comes back from the head with the flag leaves again at once.
#[test]
fn who_comes_back_flagged_is_kicked() {
    let mut m = one(&[("slice_counter", 0), ("head_rule", 0)]);
    let th = m.threads[&1];
    m.call("t_asked", &[0, 1, 1, 0, 0]);
    m.call("bsd4_enqueue", &[th.address, 0]);
    assert_eq!(place(&mut m, 1), (35, true));
    kicks(&mut m);
    m.kernel.state().remove(th.task);
    m.call("bsd4_running", &[th.address]);
    assert_eq!(kicks(&mut m), [(0, KICK_PREEMPT)]);
    assert_eq!(m.asked(0), [true, false, false]);
}

/// It comes back by enqueue(), as one that is preempted.
#[test]
fn a_realtime_task_takes_the_cpu() {
    for (slice, asked) in [(1000, [true, true, false]), (0, [false; 3])] {
        let mut m = one(&[]);
        let th = m.threads[&1];
        m.kernel.state().task(th.task).scx.slice = slice;
        m.call("bsd4_stopping", &[th.address, 1]);
        assert_eq!(m.kernel.state().task(th.task).scx.slice, 0);
        assert_eq!(m.asked(0), asked);
    }
}

/// Idle CPUs have no ticks here: those of others wake them.
#[test]
fn ticks_wake_idle_cpus_while_tasks_wait() {
    for waits in [true, false] {
        let mut m = Machine::boot(2, &[]);
        for id in [1, 2] {
            m.thread(&json!({ "id": id, "pri": 140 }));
        }
        m.runs_now(0, 1);
        m.on(0);
        let address = m.threads[&1].address;
        m.call("bsd4_running", &[address]);
        if waits {
            m.wait_in(2, -1);
        }
        kicks(&mut m);
        m.kernel.state().now_ns += 8 * MS;
        m.call("bsd4_tick", &[address]);
        let expected: &[(u32, u64)] = if waits { &[(1, KICK_IDLE)] } else { &[] };
        assert_eq!(kicks(&mut m), expected);
    }
}

/// A task may have come between the last look and the mark.
#[test]
fn a_cpu_that_goes_idle_looks_once_more() {
    for (queue, idle, looks) in [
        (Some(-1), 1, true),
        (Some(0), 1, true),
        (Some(1), 1, false),
        (None, 1, false),
        (Some(-1), 0, false),
    ] {
        let mut m = Machine::boot(2, &[]);
        m.thread(&json!({ "id": 1, "pri": 140 }));
        if let Some(cpu) = queue {
            m.wait_in(1, cpu);
        }
        kicks(&mut m);
        m.call("bsd4_update_idle", &[0, idle]);
        let expected: &[(u32, u64)] = if looks { &[(0, KICK_IDLE)] } else { &[] };
        assert_eq!(kicks(&mut m), expected, "{queue:?}, {idle}");
    }
}

/// At the last switch, and not again when the task is freed.
#[test]
pub fn a_task_leaves_its_use_once() {
    let mut m = Machine::boot(1, &[]);
    let heir = m.thread(&json!({ "id": 1, "pri": 140, "est": 100 }));
    let th = m.thread(&json!({ "id": 2, "pri": 140, "est": 50 }));
    let parent = heir.address;
    let task = m.kernel.state().task(th.task);
    task.exit_state = EXIT_ZOMBIE;
    task.real_parent = parent as *const _;
    m.call("bsd4_quiescent", &[th.address, SLEEP]);
    assert_eq!(m.known(1).est, 150);
    let args = [0u8; 16];
    m.call("bsd4_exit_task", &[th.address, args.as_ptr() as i64]);
    assert_eq!(m.known(1).est, 150);
}

/// The guard: before all others, once.
#[test]
fn the_guard_rescues_once() {
    let mut m = Machine::boot(1, &[("starve_limit_ms", 1000)]);
    m.thread(&json!({ "id": 1, "pri": 160 }));
    m.on(0);
    m.busy(0);
    m.wakes(1, WAKEUP);
    for (later_ms, rescued) in [(999, 0), (500, 1), (1000, 1), (1000, 1)] {
        m.kernel.state().now_ns += later_ms * MS;
        m.call("t_schedcpu", &[]);
        assert_eq!(m.kernel.number("nr_rescued"), rescued);
    }
    assert_eq!(place(&mut m, 1), (0, true));
}

/// It waits for one CPU, and a task with a better priority for any.
#[test]
fn who_is_rescued_goes_before_the_other_queue() {
    for (limit_ms, next) in [(0, 2), (1000, 1)] {
        let mut m = Machine::boot(2, &[("starve_limit_ms", limit_ms)]);
        m.thread(&json!({ "id": 1, "pri": 160, "mask": "1" }));
        m.thread(&json!({ "id": 2, "pri": 104 }));
        m.thread(&json!({ "id": 3, "pri": 140 }));
        m.runs_now(0, 3);
        m.busy(1);
        m.on(0);
        m.wakes(1, WAKEUP);
        m.wait_in(2, -1);
        m.kernel.state().now_ns += 1000 * MS;
        m.call("t_schedcpu", &[]);
        assert_eq!(m.schedule(0, false), Some((Some(3), Some(next))));
    }
}

/// The CPU on which the second passes may be idle, and have the shortest queue.
#[test]
fn an_idle_cpu_is_told_of_a_task_that_schedcpu_moves_to_it() {
    let mut m = Machine::boot(4, &[]);
    for id in [1, 2] {
        m.thread(&json!({ "id": id, "pri": 180, "mask": "3" }));
        m.wait_in(id, 0);
    }
    m.busy(0);
    m.on(1);
    kicks(&mut m);
    m.call("t_schedcpu", &[]);
    let moved = m.threads[&1].task;
    assert_eq!(m.kernel.state().queued(1), [moved]);
    assert_eq!(kicks(&mut m), [(1, KICK_IDLE)]);
}

/// A thread that calls execve() has the pid of another afterwards: it is still found when its priority changes.
#[test]
fn a_waiting_task_is_found_by_its_present_pid() {
    let mut m = Machine::boot(1, &[]);
    let th = m.thread(&json!({ "id": 1, "pri": 140 }));
    m.on(0);
    m.busy(0);
    m.kernel.state().task(th.task).pid = 77;
    m.wakes(1, WAKEUP);
    assert_eq!(place(&mut m, 1).0, 35);
    let now_ns = m.pass_ns();
    m.call("t_prio", &[th.slot, 200, now_ns]);
    assert_eq!(place(&mut m, 1), (50, false));
}

/// A task that may run on two CPUs goes to the shorter queue when its priority changes, and is found there the next time.
#[test]
pub fn a_requeued_task_is_found_in_its_new_queue() {
    let mut m = Machine::boot(4, &[]);
    for id in [1, 2] {
        m.thread(&json!({ "id": id, "pri": 140, "mask": "3" }));
        m.wait_in(id, 0);
    }
    m.on(3);
    m.busy(3);
    let th = m.threads[&1];
    for pri in [160, 180] {
        let now_ns = m.pass_ns();
        m.call("t_prio", &[th.slot, pri, now_ns]);
        assert_eq!(m.kernel.state().queued(1), [th.task]);
        assert_eq!(place(&mut m, 1).0, pri as u64 / 4);
    }
    assert_eq!(m.kernel.state().queued(GLOBAL), []);
}
