// SPDX-License-Identifier: GPL-2.0-or-later
//! Events in, metrics out, and comparisons of metrics. Pure functions: no arena, file or clock.
//!
//! * [`Recorder`] turns the events of one run into counters. Its memory depends on the number of tasks, apps and
//!   CPUs, not on simulated time.
//! * [`states`] tracks the state of each task; everything that follows tasks uses it.
//! * [`Summary`] holds the metrics of one run; [`compare`] compares schedulers over their runs.
//! * [`effect`] estimates how large a difference is; every row of a comparison has it.
//! * [`Pair`] compares two results metric by metric: what changed, and which changes are significant
//!   ([`significance`]); [`gate`] sets limits on them.
//! * [`ranking`] decides which of several schedulers is best by one metric, or that none is.
//! * [`shapley`] divides a difference among the mechanisms that cause it jointly.
//! * [`TraceHash`] hashes all events, for tests of determinism.
//!
//! | module | what it is |
//! | --- | --- |
//! | `recorder`, `task`, `finish` | events -> counters, of the run and of tasks, apps and CPUs -> summary |
//! | `summary` | the metrics of one run |
//! | `states` | which state each task is in |
//! | `histogram`, `grid` | distributions and series over time, in bounded memory |
//! | `waste`, `matching` | CPUs that are idle while tasks that may run there wait; how many of them could work at once |
//! | `probe`, `score` | a scheduler's own metrics over time; scores that a command prints |
//! | `regroup` | passes events on with other apps, such as a task's name or cgroup |
//! | `hash` | a hash of all events |
//! | `figures`, `names` | the metrics that a run has; those that it may have |
//! | `compare`, `cell` | schedulers side by side; one row of a comparison |
//! | `pair`, `gate` | two results metric by metric; limits to what may change |
//! | `ranking` | several schedulers by one metric, in runs paired by seed: who wins, and by how much |
//! | `amount` | amounts of a metric that users type |
//! | `stats`, `effect`, `significance` | the interval of a median, the size of a difference, how likely it is by chance |
//! | `shapley` | the shares of several causes in a joint result |
//! | `why` | sentences made from measured facts |
//! | `units` | metrics as text: three significant digits and a unit |
//! | `testing` | streams of events for tests |
//!
//! # What the words mean here
//!
//! Figures cover the window from the origin (the start of the workload) to the end of the run.
//! Events before the origin only establish state. All times in a [`Summary`] count from the origin.
//!
//! * *runtime*, *wait*, *sleep* of a task: time on a CPU; runnable and not on a CPU; neither.
//!   They add up to its *lifetime* (its part of the window) to the nanosecond.
//! * *overhead* occupies a CPU from the moment of its event, or from the end of the overhead already
//!   under way there, for as long as the event says. That time is neither busy nor idle, whoever is on
//!   the CPU, so busy + idle + overhead = window for each CPU, to the nanosecond. A task's runtime
//!   includes the overhead that struck while it had the CPU; its `overhead_ns` says how much.
//! * A *wait episode* runs from becoming runnable (woken, forked, preempted) to running. A *wakeup
//!   latency* is such an episode that a wakeup began; the first run after a fork is not one.
//!   Distributions hold episodes that began at or after the origin and ended; totals, the longest wait
//!   and starvation also see what is still open at the end.
//! * *starvation*: a wait longer than the bound of [`RecorderSpec`].
//! * *wasted* CPU time: at each moment, the largest number of idle CPUs that could each run a different waiting task (a
//!   maximum matching by affinity; min(idle CPUs, waiting tasks) if no task is bound), summed over time. A CPU with a task
//!   or under overhead is not idle. But a task waits until the switch to it: while one CPU is switching to it, an idle CPU
//!   may count as wasted. Waste is attributed to the CPU of the waiting task's runqueue if that CPU can be in the matching.
//!   Unknown, never 0, if the arena does not report affinities.
//! * *depth* of a CPU: the runnable tasks of its runqueue, the running one included.
//! * Requests count when they began at or after the origin; the throughput of a class is its count
//!   over the time from its first begin to its last end.

mod amount;
mod cell;
mod compare;
mod effect;
mod figures;
mod finish;
pub mod gate;
mod grid;
mod hash;
mod histogram;
mod matching;
mod names;
mod pair;
mod probe;
pub mod ranking;
mod recorder;
mod regroup;
mod score;
pub mod shapley;
pub mod significance;
pub mod states;
mod stats;
mod summary;
mod task;
#[doc(hidden)]
pub mod testing;
pub mod units;
mod waste;
mod why;

pub use amount::Amount;
pub use cell::{Better, Cell, Row, Unit, Verdict};
pub use compare::{COMPARISON_FORMAT, Comparison, all_alike, busiest_first, compare, rows};
pub use effect::{Effect, effect, shift};
pub use figures::{COMMAND, Figure, figures};
pub use hash::TraceHash;
pub use histogram::QUANTILES_PPM;
pub use names::{AppClasses, KERNEL, MACHINE, possible_names};
pub use pair::{Change, Mark, Pair, Trial};
pub use recorder::{Recorder, RecorderSpec};
pub use regroup::Regrouped;
pub use score::score;
pub use stats::{Interval, median_interval};
pub use summary::*;
