// SPDX-License-Identifier: GPL-2.0-or-later
//! When Linux 6.18 makes passes, and what it pushes: where it differs from 4.9 in code that both share (`version.h`).

use super::balancing::MOVED_TASKS;
use super::cpus::{IDLE, NOW_NS, hogs, three_caches};

#[test]
pub fn a_push_is_a_failed_pass_like_any_other() {
    let mut m = three_caches();
    for failed in [3, 4, 7] {
        m.clear();
        m.set([4], hogs(2));
        m.pass(0, 1, IDLE);
        let w = m.call("t_uneven", &[4, MOVED_TASKS, failed]);
        // The first that pushes is the one after three.
        assert_eq!(w[3..5], [failed + 1, 1], "{failed}");
    }
    m.clear();
    m.set([4], hogs(2));
    m.pass(0, 1, IDLE);
    assert_eq!(m.call("t_uneven", &[4, MOVED_TASKS, 2])[3..5], [3, 0]);
}

#[test]
pub fn a_task_is_pushed_from_a_warm_cache() {
    let mut m = three_caches();
    for failed in [0, 9] {
        m.clear();
        m.call("t_entity", &[1, 4, 1024, 0, 0, 0]);
        m.pass(0, 1, IDLE);
        assert_eq!(m.call("t_push", &[1, 4, failed, NOW_NS])[4], 1, "{failed}");
    }
    // Not from a CPU that it is not on.
    m.clear();
    m.call("t_entity", &[1, 5, 1024, 0, 0, 0]);
    m.pass(0, 1, IDLE);
    assert_eq!(m.call("t_push", &[1, 4, 0, NOW_NS])[4], 0);
}

#[test]
pub fn who_is_woken_to_balance_looks_for_itself_only_when_due() {
    let mut m = three_caches();
    for (due, looks) in [(0, 1), (1, 0)] {
        assert_eq!(m.call("t_woken", &[5, due, NOW_NS])[3], looks);
    }
}

#[test]
pub fn a_pass_of_an_idle_cpu_wakes_nobody_earlier() {
    let mut m = three_caches();
    let w = m.call("t_idle_pass", &[5, NOW_NS, 1000]);
    assert_eq!(w[3], 1000);
    assert!(
        (1..1000).contains(&w[4]),
        "its own is due earlier: {}",
        w[4]
    );
}
