// SPDX-License-Identifier: GPL-2.0-or-later
//! Tasks that wait forever, in results. Without a word about them, what they did before would count as if it were all.

use serde::{Deserialize, Serialize};
use tiltyard_measure::units;
use tiltyard_sim::Outcome;

/// Tasks of one run that wait for each other, or for what no other task does any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckTasks {
    /// How many.
    pub tasks: u64,
    /// When the first of them began to wait, from the workload's start.
    pub since_ns: u64,
    /// What the first few wait for, a sentence each.
    pub waits: Vec<String>,
}

impl StuckTasks {
    /// Of a completed run.
    pub fn of(outcome: &Outcome) -> Option<StuckTasks> {
        let stuck = outcome.stuck.as_ref()?;
        Some(StuckTasks {
            tasks: stuck.tasks,
            since_ns: stuck.since_ns.saturating_sub(outcome.origin_ns),
            waits: stuck.waits.clone(),
        })
    }
}

/// What metrics of such a run are worth.
pub const COVERED: &str = "metrics cover only what happened before";

/// What there is to say of a scheduler's runs, given by seed; `None`: no task of them waits forever.
pub fn told<'a>(
    scheduler: &str,
    runs: impl Iterator<Item = (u64, Option<&'a StuckTasks>)>,
) -> Option<String> {
    let runs: Vec<(u64, Option<&StuckTasks>)> = runs.collect();
    let mut stuck = runs.iter().filter_map(|(seed, of)| Some((seed, (*of)?)));
    let (seed, first) = stuck.next()?;
    let others = stuck.count();
    let with = match (runs.len(), others) {
        (1, _) => String::new(),
        (_, 0) => format!(" with seed {seed}"),
        (all, others) => format!(" in {} of {all} runs (first with seed {seed})", others + 1),
    };
    let what = match first.tasks {
        1 => "a task waits forever".to_owned(),
        tasks => format!("{tasks} tasks wait forever, the first"),
    };
    let more = match first.tasks - first.waits.len() as u64 {
        0 => String::new(),
        count => format!("; {count} more"),
    };
    Some(format!(
        "Under {scheduler}{with}, {what} from {} on ({}{more}); {COVERED}.",
        units::time(first.since_ns as f64),
        first.waits.join("; "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck(tasks: u64) -> StuckTasks {
        StuckTasks {
            tasks,
            since_ns: 2_100_000_000,
            waits: vec!["a[1] waits for lock 'm', which b[2] holds".to_owned()],
        }
    }

    #[test]
    fn a_sentence_for_all_runs() {
        let (one, three) = (stuck(1), stuck(3));
        assert_eq!(told("fifo", [(1, None), (2, None)].into_iter()), None);
        let single = told("fifo", [(1, Some(&one))].into_iter());
        assert_eq!(
            single.as_deref(),
            Some(
                "Under fifo, a task waits forever from 2.10 s on (a[1] waits for lock 'm', which b[2] holds); metrics cover \
                 only what happened before."
            )
        );
        let some = told(
            "fifo",
            [(1, None), (2, Some(&three)), (3, Some(&one))].into_iter(),
        );
        let some = some.expect("two are stuck");
        assert!(
            some.contains("in 2 of 3 runs (first with seed 2), 3 tasks wait forever"),
            "{some}"
        );
        assert!(some.contains("holds; 2 more)"), "{some}");
        let last = told("fifo", [(1, None), (2, Some(&three))].into_iter());
        assert!(
            last.expect("one is stuck")
                .contains("fifo with seed 2, 3 tasks")
        );
    }
}
