// SPDX-License-Identifier: GPL-2.0-or-later
//! The words of the dialect: which keys exist where, and which one was probably meant.

use tiltyard_misspelt::nearest;

/// Kinds of events of rt-app. A key is an event when it begins with one of these; the longest wins,
/// so that `runtime0` is no `run` and `memrun` no `mem`.
pub(crate) const RTAPP_EVENTS: &[&str] = &[
    "run", "runtime", "sleep", "timer", "lock", "unlock", "wait", "signal", "broad", "sync",
    "barrier", "suspend", "resume", "sem_wait", "sem_post", "mem", "memrun", "iorun", "yield",
    "fork",
];

/// What stands beside rt-app's events inside `tiltyard`.
pub(crate) const OUR_EVENTS: &[&str] = &[
    "write",
    "read",
    "io",
    "spawn",
    "join",
    "exit",
    "set",
    "set_other",
    "repeat",
    "countdown",
    "until",
    "during",
    "chance",
    "begin",
    "end",
    "done",
    "mark",
];

/// The one key that rt-app does not know.
pub(crate) const EXTENSION: &str = "tiltyard";

pub(crate) const TOP: &[&str] = &["tasks", "global", "resources", EXTENSION];

pub(crate) const GLOBAL: &[&str] = &[
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "frag",
];

/// Scheduling attributes, at a task or a phase.
pub(crate) const ATTRS: &[&str] = &[
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "cpus",
    "nodes_membind",
    "util_min",
    "util_max",
    "taskgroup",
];

/// Further keys of a task.
pub(crate) const TASK: &[&str] = &[
    "instance", "delay", "loop", "phases", "runtime", "period", "deadline", EXTENSION,
];

/// Further keys of a phase.
pub(crate) const PHASE: &[&str] = &["loop", EXTENSION];

/// Keys of `tiltyard` at the top.
pub(crate) const EXT_TOP: &[&str] = &[
    "name",
    "description",
    "metric",
    "duration",
    "apps",
    "groups",
    "mutexes",
    "conditions",
    "barriers",
    "semaphores",
    "pipes",
    "timers",
    "places",
    "buffers",
    "devices",
    "requests",
    "counters",
];

/// Keys of `tiltyard` in a task.
pub(crate) const EXT_TASK: &[&str] = &["app", "process", "daemon", "working_set", "stall_share"];

/// Attributes that `set` and `set_other` know.
pub(crate) const EXT_ATTRS: &[&str] = &[
    "policy",
    "nice",
    "rt_priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "slice",
    "cpus",
    "nodes_membind",
    "util_min",
    "util_max",
    "taskgroup",
];

/// The event that `key` stands for, among `kinds`: the longest kind that it begins with.
pub(crate) fn event_kind<'k>(
    key: &str,
    kinds: impl Iterator<Item = &'k &'static str>,
) -> Option<&'static str> {
    kinds
        .copied()
        .filter(|kind| key.starts_with(*kind))
        .max_by_key(|kind| kind.len())
}

/// What is wrong with what follows an event's kind in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuffixFault {
    /// It names a unit (`sleep_ms`), which says nothing: a kind has its unit. How many of the kind's own units one of
    /// this is, if both are times.
    Unit(Option<u64>),
    /// It is no suffix. What may have been meant: another key, or the kind itself.
    Misspelt(&'static str),
}

/// Units that people write behind a name, and how many microseconds one is, if it is a time of whole microseconds.
pub(crate) const UNITS: &[(&str, Option<u64>)] = &[
    ("ns", None),
    ("nsec", None),
    ("us", Some(1)),
    ("usec", Some(1)),
    ("usecs", Some(1)),
    ("ms", Some(1000)),
    ("msec", Some(1000)),
    ("msecs", Some(1000)),
    ("s", Some(1_000_000)),
    ("sec", Some(1_000_000)),
    ("secs", Some(1_000_000)),
    ("seconds", Some(1_000_000)),
    ("min", Some(60_000_000)),
    ("minutes", Some(60_000_000)),
    ("hz", None),
    ("percent", None),
    ("bytes", None),
    ("kb", None),
    ("kib", None),
    ("mb", None),
    ("mib", None),
    ("gb", None),
    ("gib", None),
];

/// Kinds whose value is a time in microseconds, by itself or in its object.
const TIMES: &[&str] = &["run", "runtime", "sleep", "timer", "io", "during"];

/// Kinds whose value is a number of bytes.
const BYTES: &[&str] = &["mem", "memrun", "iorun", "write", "read"];

/// The unit of the kind's value, in words; empty for kinds without one.
pub(crate) fn unit_of(kind: &str) -> &'static str {
    match kind {
        _ if TIMES.contains(&kind) => "microseconds",
        _ if BYTES.contains(&kind) => "bytes",
        _ => "",
    }
}

/// Suffixes distinguish events of one kind: digits (`run0`), `_` and a name that is no unit (`run_x`), or both. Whatever
/// else follows the kind is a mistake that would go unnoticed. `known`: the keys that may have been meant.
pub(crate) fn suffix_fault<'k>(
    key: &str,
    kind: &'static str,
    known: impl Iterator<Item = &'k &'static str>,
) -> Option<SuffixFault> {
    let suffix = key.strip_prefix(kind)?;
    let rest = suffix.trim_start_matches(|c: char| c.is_ascii_digit());
    match rest.strip_prefix('_') {
        None if rest.is_empty() => None,
        Some(name) if !name.is_empty() => {
            let last = name.rsplit('_').next().unwrap_or(name).to_ascii_lowercase();
            let (_, micros) = UNITS.iter().find(|(unit, _)| *unit == last)?;
            let same_kind = unit_of(kind) == "microseconds";
            Some(SuffixFault::Unit(micros.filter(|_| same_kind)))
        }
        _ => Some(SuffixFault::Misspelt(
            nearest(key, known.copied()).unwrap_or(kind),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        for (key, kind) in [
            ("run", "run"),
            ("run0", "run"),
            ("run_x", "run"),
            ("runtime", "runtime"),
            ("runtime1", "runtime"),
            ("mem", "mem"),
            ("memrun3", "memrun"),
            ("sem_wait", "sem_wait"),
            ("wait", "wait"),
            ("barrier1", "barrier"),
        ] {
            assert_eq!(event_kind(key, RTAPP_EVENTS.iter()), Some(kind), "{key}");
        }
        assert_eq!(event_kind("priority", RTAPP_EVENTS.iter()), None);
        let all = || RTAPP_EVENTS.iter().chain(OUR_EVENTS);
        assert_eq!(event_kind("iorun", all()), Some("iorun"));
        assert_eq!(event_kind("io", all()), Some("io"));
        assert_eq!(event_kind("set_other", all()), Some("set_other"));
    }

    /// No attribute may be taken for an event, whatever order they are asked in.
    #[test]
    fn attributes_and_events_do_not_collide() {
        for key in ATTRS
            .iter()
            .chain(PHASE)
            .chain(EXT_TASK)
            .chain(TASK)
            .filter(|key| **key != "runtime")
        {
            assert_eq!(
                event_kind(key, RTAPP_EVENTS.iter().chain(OUR_EVENTS)),
                None,
                "{key}"
            );
        }
    }

    #[test]
    fn suffixes_are_digits_or_names() {
        let known = || RTAPP_EVENTS.iter().chain(ATTRS);
        let fault = |key| {
            let kind = event_kind(key, RTAPP_EVENTS.iter()).unwrap();
            suffix_fault(key, kind, known())
        };
        let misspelt = |meant| Some(SuffixFault::Misspelt(meant));
        for fine in [
            "run",
            "run1",
            "run_x",
            "run12_x",
            "sleep_after_ms_run",
            "run_us2",
        ] {
            assert_eq!(fault(fine), None, "{fine}");
        }
        assert_eq!(fault("runtme"), misspelt("runtime"));
        assert_eq!(fault("memrn"), misspelt("memrun"));
        for (key, meant) in [
            ("runn", "run"),
            ("sleepy", "sleep"),
            ("running_fast", "run"),
            ("run-a", "run"),
            ("runA", "run"),
            ("run_", "run"),
            ("run1x", "run"),
        ] {
            assert_eq!(fault(key), misspelt(meant), "{key}");
        }
        let unit = |micros| Some(SuffixFault::Unit(micros));
        assert_eq!(fault("sleep_ms"), unit(Some(1000)));
        assert_eq!(fault("runtime_us"), unit(Some(1)));
        assert_eq!(fault("run1_long_S"), unit(Some(1_000_000)));
        assert_eq!(fault("run_ns"), unit(None), "no whole microseconds");
        assert_eq!(fault("mem_kb"), unit(None));
        assert_eq!(fault("mem_ms"), unit(None), "mem counts bytes");
    }

    #[test]
    fn the_nearest_key_is_named() {
        assert_eq!(nearest("prioriti", ATTRS.iter().copied()), Some("priority"));
        assert_eq!(nearest("lopo", PHASE.iter().copied()), Some("loop"));
        assert_eq!(nearest("Policy", ATTRS.iter().copied()), Some("policy"));
        assert_eq!(nearest("exec", ATTRS.iter().copied()), None);
    }
}
