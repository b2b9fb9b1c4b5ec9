// SPDX-License-Identifier: GPL-2.0-or-later
//! What the release of a kernel ("6.18.15+deb13-cloud-amd64") says about it.

/// The scheduler that a kernel has of its own: CFS until EEVDF took its place in 6.6.
pub fn own_scheduler(release: &str) -> &'static str {
    match is_before(release, (6, 6)) {
        true => "CFS",
        false => "EEVDF",
    }
}

/// Whether the CPU that boots calls schedule() in a loop until another one has come up. Since 6.5 it pauses there ("x86/smpboot:
/// Enable split CPU startup", of May 2023).
pub fn waits_for_cpus_without_pause(release: &str) -> bool {
    is_before(release, (6, 5))
}

fn is_before(release: &str, version: (u32, u32)) -> bool {
    matches!(numbers(release)[..], [major, minor, ..] if (major, minor) < version)
}

/// Whether `release` ("6.18.15+deb13-cloud-amd64") is of `version` ("6.18", "6.18.15" or the
/// whole release).
pub fn is_of(release: &str, version: &str) -> bool {
    release
        .strip_prefix(version)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '+', '-']))
}

/// The numbers at its beginning, for ordering: 6, 18, 15 of "6.18.15+deb13-cloud-amd64", and
/// 6, 1, 0, 41 of "6.1.0-41-cloud-amd64".
pub fn numbers(release: &str) -> Vec<u32> {
    release
        .split(['.', '-', '+'])
        .map_while(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::own_scheduler;

    #[test]
    fn what_default_means() {
        assert_eq!(own_scheduler("6.1.0-41-cloud-amd64"), "CFS");
        assert_eq!(own_scheduler("5.15.0"), "CFS");
        assert_eq!(own_scheduler("6.6.1"), "EEVDF");
        assert_eq!(own_scheduler("6.18.15+deb13-cloud-amd64"), "EEVDF");
    }
}
