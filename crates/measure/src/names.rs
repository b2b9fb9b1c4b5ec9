// SPDX-License-Identifier: GPL-2.0-or-later
//! Which metrics a run may have, known before it begins. [`crate::figures`] gives those that it has.

/// The group of metrics of the whole machine.
pub const MACHINE: &str = "machine";
/// The app of kernel threads.
pub const KERNEL: &str = "kernel";

/// The name of what an app got while another one was at work; the other's name follows.
pub(crate) const WHILE: &str = "cpu_share_percent_while_";

/// Of an app.
const OF_APP: [&str; 14] = [
    "completion_us",
    "active_until_us",
    "wakeup_latency_us_p50",
    "wakeup_latency_us_p99",
    "wakeup_latency_us_p999",
    "wakeup_latency_us_max",
    "cpu_share_percent",
    "runtime_us",
    "longest_wait_us",
    "starved_us",
    "jain_index",
    "preempted",
    "migrations",
    WHILE, // the other app's name follows
];

/// Of a class of requests.
const OF_CLASS: [&str; 7] = [
    "throughput_per_s",
    "requests",
    "latency_us_mean",
    "latency_us_p50",
    "latency_us_p99",
    "latency_us_p999",
    "latency_us_max",
];

const OF_MACHINE: [&str; 8] = [
    "busy_percent",
    "idle_percent",
    "wasted_cpu_us",
    "switches_per_s",
    "preemptions_per_s",
    "migrations_per_s",
    "overhead_percent",
    "scheduler_percent",
];

/// An app, and the classes of its requests.
pub type AppClasses<'a> = (&'a str, Vec<&'a str>);

/// All names that metrics of a run of `apps` may have, with their groups. A run lacks some of them: a completion if it ended
/// before the work was done, requests that nobody made.
pub fn possible_names(apps: &[AppClasses]) -> Vec<String> {
    let mut all = Vec::new();
    for (app, classes) in apps {
        for name in OF_APP {
            match name {
                WHILE => {
                    let others = apps.iter().filter(|(other, _)| other != app);
                    all.extend(others.map(|(other, _)| format!("{app}.{WHILE}{other}")));
                }
                _ => all.push(format!("{app}.{name}")),
            }
        }
        for name in OF_CLASS.iter().filter(|_| !classes.is_empty()) {
            match classes.len() {
                1 => all.push(format!("{app}.{name}")),
                _ => all.extend(classes.iter().map(|class| format!("{app}.{class}.{name}"))),
            }
        }
    }
    all.extend(OF_MACHINE.map(|name| format!("{MACHINE}.{name}")));
    all
}

/// Whether a figure may have this name: it ends like one of the above, or is of a pair of apps.
pub(crate) fn is_listed(name: &str) -> bool {
    let ends = |known: &&str| name == *known || name.ends_with(&format!(".{known}"));
    let mut all = OF_APP.iter().chain(&OF_CLASS).chain(&OF_MACHINE);
    name.starts_with(WHILE) || all.any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_groups_and_classes() {
        let apps = [
            ("db", vec!["query", "commit"]),
            ("web", vec!["get"]),
            ("fibo", Vec::new()),
        ];
        let names = possible_names(&apps);
        let has = |name: &str| names.iter().any(|known| known == name);
        for name in [
            "web.throughput_per_s",
            "db.commit.latency_us_p99",
            "db.cpu_share_percent_while_fibo",
            "fibo.completion_us",
            "machine.switches_per_s",
        ] {
            assert!(has(name), "{name}");
        }
        for name in [
            "fibo.requests",
            "db.throughput_per_s",
            "web.get.throughput_per_s",
            "db.cpu_share_percent_while_db",
            "machine.runtime_us",
        ] {
            assert!(!has(name), "{name}");
        }
        assert!(is_listed("query.requests") && is_listed("cpu_share_percent_while_db"));
        assert!(!is_listed("queries"));
    }
}
