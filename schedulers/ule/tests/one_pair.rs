// SPDX-License-Identifier: GPL-2.0-or-later
//! ULE of 2011 and of 2013 on many CPUs: what its balancer moves, and how long hogs take that are not a multiple of the CPUs.
//! The numbers are those of the fact sheet's model of fixed slices: elapsed time by the ideal one.

use crate::ule::fake::Machine;
use serde_json::Value;
use tiltyard_schedtest::{Lab, ideal, object, parse, presets};

const WAKEUP: i64 = 1;

/// Tasks on each CPU before and after a pass.
fn balanced(loads: [i64; 4]) -> [i64; 4] {
    let mut m = Machine::small(false, &[("nr_cpu_ids", 4)]);
    let mut tid = 1;
    for (cpu, load) in loads.into_iter().enumerate() {
        for _ in 0..load {
            let (_, task) = m.task(tid, cpu as i64, &Value::Null);
            m.call("t_task", &[task, 180, -1, 0, 0, 0]);
            m.call("ule_enqueue", &[task, WAKEUP]);
            tid += 1;
        }
    }
    m.call("t_balance_one", &[]);
    [0, 1, 2, 3].map(|cpu| m.call("t_cpu_get", &[cpu])[0])
}

#[test]
fn the_first_fullest_gives_half_of_the_difference_to_the_first_emptiest() {
    assert_eq!(balanced([1, 5, 5, 0]), [1, 2, 5, 3]);
    assert_eq!(balanced([2, 1, 2, 1]), [1, 2, 2, 1], "even 2 and 1");
    assert_eq!(balanced([1, 1, 1, 1]), [1, 1, 1, 1]);
    assert_eq!(balanced([0, 0, 4, 0]), [2, 0, 2, 0]);
}

/// Elapsed time of hogs with 120 slices of work each on 16 CPUs, by the ideal time.
fn excess(preset: &str, hogs: u64) -> f64 {
    let machine = ideal("core:16 pu:1", 1000);
    let globals = &presets("ule")[preset];
    let mut lab = Lab::new(&machine, object("ule", 2));
    lab.globals = globals;
    let work_ns = 120 * 94_488_000u64;
    let workload = format!(
        r#"{{ "tasks": {{ "hog": {{ "instance": {hogs}, "loop": 1, "run": {} }} }} }}"#,
        work_ns / 1000
    );
    let ran = lab.run(&parse(&workload)).expect("it ends");
    ran.summary.duration_ns as f64 / (hogs * work_ns) as f64 * 16.0
}

#[test]
fn hogs_show_a_sawtooth_in_2011_and_none_in_2013() {
    for (hogs, model) in [(18, 1.41), (24, 1.22), (31, 1.04), (32, 1.0)] {
        let excess = excess("ule_2011", hogs);
        assert!(
            (excess - model).abs() < 0.1,
            "{hogs} hogs in 2011: {excess:.2}, {model}"
        );
    }
    for hogs in [18, 24] {
        let excess = excess("ule_2013", hogs);
        assert!(excess <= 1.08, "{hogs} hogs in 2013: {excess:.2}");
    }
}
