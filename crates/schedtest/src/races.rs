// SPDX-License-Identifier: GPL-2.0-or-later
//! Data races of a scheduler under loads in which everything happens.

use crate::{Lab, costed, parse};
use tiltyard_native::{Object, Value};
use tiltyard_sim::{Race, run_and_check};

/// Tasks of every kind, more than four CPUs hold: they are stolen, balanced, created and freed.
const EVERYTHING: &str = r#"{ "tasks": {
    "hog": { "instance": 6, "loop": -1, "run": 100000, "sleep": 400 },
    "sleeper": { "instance": 6, "loop": -1, "tiltyard": { "run": { "exp": 900 }, "sleep": 1500 } },
    "parent": { "instance": 2, "loop": -1, "sleep": 2000, "fork": "child", "run": 300 },
    "child": { "instance": 0, "loop": 3, "run": 400, "sleep": 500 } },
"global": { "duration": 3 } }"#;

/// Tasks that leave CPUs idle half of the time: these look for tasks elsewhere, and at averages of CPUs that sleep.
const HALF_IDLE: &str = r#"{ "tasks": {
    "hog": { "loop": -1, "run": 100000 },
    "sleeper": { "instance": 8, "loop": -1, "tiltyard": { "run": { "exp": 900 }, "sleep": { "exp": 9000 } } },
    "parent": { "loop": -1, "sleep": 5000, "fork": "child", "run": 300 },
    "child": { "instance": 0, "loop": 3, "run": 400, "sleep": 500 } },
"global": { "duration": 1 } }"#;

/// What an object built with [`crate::telling`] has on four CPUs.
pub fn races(object: &Object, globals: &[(String, Value)]) -> Vec<Race> {
    let machine = costed("pack:2 core:2 pu:1", 250);
    let mut lab = Lab::new(&machine, object);
    lab.globals = globals;
    let mut all = Vec::new();
    for workload in [EVERYTHING, HALF_IDLE].map(parse) {
        let ran = run_and_check(&lab.setup(&workload), &mut (), &mut |_| {});
        let (outcome, checked) = ran.unwrap_or_else(|e| panic!("{e}"));
        assert!(!outcome.exit.kind.is_error(), "{:?}", outcome.exit);
        all.extend(checked.races);
    }
    all
}
