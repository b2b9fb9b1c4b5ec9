// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel's build configuration, as far as it says how the kernel schedules: results carry it, because two kernels
//! of one version can differ in all of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a result says of its kernel's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelConfig {
    /// Of the whole file, 64 hexadecimal digits: what is equal here is equal in everything.
    pub sha256: String,
    /// Those that matter to scheduling, without CONFIG_; "n" for what is not set.
    pub options: BTreeMap<String, String>,
}

/// Options by their whole name.
const NAMES: [&str; 7] = [
    "HZ",
    "HZ_PERIODIC",
    "PREEMPT",
    "HIGH_RES_TIMERS",
    "SMP",
    "CFS_BANDWIDTH",
    "VIRT_CPU_ACCOUNTING_GEN",
];
/// Families of options.
const BEGINNINGS: [&str; 5] = [
    "PREEMPT",
    "NO_HZ",
    "SCHED_",
    "NUMA_BALANCING",
    "UCLAMP_TASK",
];
/// Bandwidth and weights of groups of each class.
const ENDING: &str = "GROUP_SCHED";

fn matters(option: &str) -> bool {
    NAMES.contains(&option)
        || BEGINNINGS
            .iter()
            .any(|beginning| option.starts_with(beginning))
        || option.ends_with(ENDING)
}

impl KernelConfig {
    /// Of a configuration as kernels are built with: "CONFIG_X=value" and "# CONFIG_X is not set".
    pub fn parse(text: &str) -> Self {
        let entry = |line: &str| {
            let set = line
                .strip_prefix("CONFIG_")
                .and_then(|line| line.split_once('='));
            let unset = || {
                Some((
                    line.strip_prefix("# CONFIG_")?
                        .strip_suffix(" is not set")?,
                    "n",
                ))
            };
            let (option, value) = set.or_else(unset)?;
            matters(option).then(|| (option.to_owned(), value.trim_matches('"').to_owned()))
        };
        let digest = Sha256::digest(text);
        Self {
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            options: text.lines().filter_map(entry).collect(),
        }
    }

    pub(crate) fn read(path: &Path) -> std::io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string(path)?))
    }

    /// Of the kernel that runs here; `None` if neither it nor its package says.
    pub(crate) fn of_this_kernel(release: &str) -> Option<Self> {
        let packed = || {
            let gzip = Command::new("gzip")
                .args(["-dc", "/proc/config.gz"])
                .stderr(Stdio::null())
                .output();
            let text = gzip.ok().filter(|output| output.status.success())?.stdout;
            Some(Self::parse(&String::from_utf8(text).ok()?))
        };
        // What the kernel says itself is surer than a file that has its name.
        packed().or_else(|| Self::read(Path::new(&format!("/boot/config-{release}"))).ok())
    }

    /// In a few words: "HZ 250, PREEMPT_DYNAMIC, configuration 3f786850e387".
    pub fn brief(&self) -> String {
        let hz = self.options.get("HZ").map(|hz| format!("HZ {hz}, "));
        let models = [
            "PREEMPT_DYNAMIC",
            "PREEMPT_RT",
            "PREEMPT_LAZY",
            "PREEMPT",
            "PREEMPT_VOLUNTARY",
            "PREEMPT_NONE",
        ];
        let is_on = |option: &&str| self.options.get(*option).is_some_and(|value| value == "y");
        let model = models
            .into_iter()
            .find(is_on)
            .map(|model| format!("{model}, "));
        let short = &self.sha256[..12];
        format!(
            "{}{}configuration {short}",
            hz.unwrap_or_default(),
            model.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
CONFIG_HZ=250
CONFIG_HZ_250=y
# CONFIG_PREEMPT_NONE is not set
CONFIG_PREEMPT_DYNAMIC=y
CONFIG_NO_HZ_IDLE=y
CONFIG_FAIR_GROUP_SCHED=y
CONFIG_SCHED_CLASS_EXT=y
# CONFIG_SCHED_AUTOGROUP is not set
CONFIG_NUMA_BALANCING_DEFAULT_ENABLED=y
CONFIG_SCSI=m
# CONFIG_DRM is not set
# Scheduler features
";

    #[test]
    fn options_of_scheduling_are_kept_and_all_is_hashed() {
        let config = KernelConfig::parse(TEXT);
        let options: Vec<String> = config
            .options
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            options.join(" "),
            "FAIR_GROUP_SCHED=y HZ=250 NO_HZ_IDLE=y NUMA_BALANCING_DEFAULT_ENABLED=y PREEMPT_DYNAMIC=y PREEMPT_NONE=n \
             SCHED_AUTOGROUP=n SCHED_CLASS_EXT=y"
        );
        let other = KernelConfig::parse(&TEXT.replace("SCSI=m", "SCSI=y"));
        assert_eq!(config.options, other.options);
        assert_ne!(config.sha256, other.sha256);
        // sha256sum of nothing.
        assert!(
            KernelConfig::parse("")
                .sha256
                .starts_with("e3b0c44298fc1c14")
        );
    }

    #[test]
    fn a_few_words_name_tick_and_preemption() {
        let brief = KernelConfig::parse(TEXT).brief();
        assert!(
            brief.starts_with("HZ 250, PREEMPT_DYNAMIC, configuration "),
            "{brief}"
        );
        assert_eq!(
            KernelConfig::parse("").brief(),
            "configuration e3b0c44298fc"
        );
    }
}
