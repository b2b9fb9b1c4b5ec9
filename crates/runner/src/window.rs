// SPDX-License-Identifier: GPL-2.0-or-later
//! Which part of a run the timeline of a report shows.

use tiltyard_report::timeline::Window;
use tiltyard_workload::Workload;

use crate::duration::{self, DurationError};

/// Slices in one report, so that it stays small; divided among the schedulers.
const MAX_SLICES: usize = 36_000;

/// Slices of one scheduler: more than a screen of them adds nothing.
const MAX_SLICES_OF_ONE: usize = 20_000;

/// The time shown before the last task starts.
const LEAD_NS: u64 = 10_000_000;

/// From and to, as for `--timeline`; `None`: the default start, or no end except the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// From the workload's start, ns.
    pub from_ns: Option<u64>,
    /// The same.
    pub to_ns: Option<u64>,
}

/// Why a text is not a [`Range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// There is no `..`.
    #[error("write FROM..TO with units: 7s..7.2s, 7s.., ..100ms")]
    Syntax,
    /// One of its ends is not a time.
    #[error(transparent)]
    End(#[from] DurationError),
    /// It ends where it begins, or earlier.
    #[error("the window ends before it begins; write FROM..TO")]
    Empty,
}

/// Reads `FROM..TO`; either may be left out.
pub fn parse(text: &str) -> Result<Range, RangeError> {
    let Some((from, to)) = text.split_once("..") else {
        return Err(RangeError::Syntax);
    };
    let end = |text: &str| match text {
        "" => Ok(None),
        "0" | "0s" => Ok(Some(0)),
        text => duration::parse_ns(text).map(Some),
    };
    let range = Range {
        // Without a start it is the run's, if there is an end.
        from_ns: end(from)?.or((!to.is_empty()).then_some(0)),
        to_ns: end(to)?,
    };
    match range {
        Range {
            from_ns: Some(from),
            to_ns: Some(to),
        } if to <= from => Err(RangeError::Empty),
        range => Ok(range),
    }
}

/// The window of each of `schedulers` runs. By default it begins just before the last task that the workload itself
/// starts: from then on there are decisions to see.
pub fn of(
    range: Range,
    workload: &Workload,
    duration_ns: Option<u64>,
    schedulers: usize,
) -> Window {
    let begin_ns = default_start_ns(workload, duration_ns);
    let from_ns = range.from_ns.or(Some(begin_ns));
    from_start(Range { from_ns, ..range }, schedulers)
}

/// Just before the last task that the workload itself starts, from the workload's start.
pub fn default_start_ns(workload: &Workload, duration_ns: Option<u64>) -> u64 {
    let duration_ns = duration_ns.or(workload.duration_ns).unwrap_or(u64::MAX);
    let started = workload.tasks.iter().filter(|t| t.instances > 0);
    let begins = started.map(|t| t.delay_ns).filter(|ns| *ns < duration_ns);
    begins.max().unwrap_or(0).saturating_sub(LEAD_NS)
}

/// The window of each of `schedulers` runs of any command: by default, from its start.
pub fn from_start(range: Range, schedulers: usize) -> Window {
    Window {
        from_ns: range.from_ns.unwrap_or(0),
        to_ns: range.to_ns,
        max_slices: MAX_SLICES_OF_ONE.min(MAX_SLICES / schedulers.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads;

    #[test]
    fn ranges_are_read_and_nonsense_is_refused() {
        let range = |from_ns, to_ns| Ok(Range { from_ns, to_ns });
        assert_eq!(
            parse("7s..7.5s"),
            range(Some(7_000_000_000), Some(7_500_000_000))
        );
        assert_eq!(parse("7s.."), range(Some(7_000_000_000), None));
        assert_eq!(parse("..20ms"), range(Some(0), Some(20_000_000)));
        assert_eq!(parse("0..1us"), range(Some(0), Some(1000)));
        assert_eq!(parse(".."), range(None, None));
        for text in ["", "7s", "7..8", "8s..7s", "7s..7s", "x..y", "7s...8s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn by_default_it_begins_before_the_last_task() {
        let workload = workloads::load("fibo-sysbench-1c").unwrap();
        let window = of(Range::default(), &workload, None, 2);
        assert_eq!((window.from_ns, window.to_ns), (6_990_000_000, None));
        assert_eq!(window.max_slices, 18_000);
        // What begins after the end never does.
        let window = of(Range::default(), &workload, Some(5_000_000_000), 6);
        assert_eq!((window.from_ns, window.max_slices), (0, 6_000));
    }
}
