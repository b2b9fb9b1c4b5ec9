// SPDX-License-Identifier: GPL-2.0-or-later
//! A difference of two schedulers and its causes: what a page about them shows, and the same as text.
//!
//! Nothing here knows how the parts were found.

use tiltyard_measure::{Better, Unit, units};

use crate::changes::amount;
use crate::columns::{Columns, wrapped};

/// Nothing in it says when or where it was made: the same input gives the same bytes.
pub struct Explanation {
    /// What ran where: "apache on opteron1 (1 CPU)".
    pub title: String,
    /// What the workload does, and what the machine is.
    pub about: [String; 2],
    /// The command line that makes this again.
    pub command: String,
    /// The metric's name: "apache.throughput_per_s".
    pub metric: String,
    pub unit: Unit,
    pub better: Better,
    /// Nobody asked for this metric.
    pub is_default: bool,
    pub schedulers: [String; 2],
    /// The metric under each; medians over seeds.
    pub values: [f64; 2],
    /// The second's value less the first's.
    pub difference: Amount,
    /// The largest first. With the remainder they add up to the difference.
    pub causes: Vec<Cause>,
    /// The difference with everything switched off.
    pub remainder: Amount,
    /// In how many orders causes were switched off; `None`: in all.
    pub orders: Option<usize>,
    /// Runs that each value is the median of.
    pub seeds: usize,
    /// How often intervals have the median of all seeds in them, in 1/1,000,000; 0 for a single seed.
    pub coverage_ppm: u32,
    /// What was not taken into account, and why, one sentence each.
    pub notes: Vec<String>,
}

/// A part of a difference, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    pub value: f64,
    /// `None`: one seed, all orders.
    pub interval: Option<[f64; 2]>,
}

/// Something that was switched off.
pub struct Cause {
    pub name: String,
    /// Whose it is, and what it does: the machine, a scheduler, or several.
    pub of: Vec<(String, String)>,
    /// Its share of the difference.
    pub share: Amount,
    /// By how much the difference shrinks if nothing else is switched off.
    pub alone: f64,
}

/// Below this part of the larger value there is no difference to explain: where comparisons call values the same.
const SMALL: f64 = 0.01;

/// What to try if the listed mechanisms are not the cause.
const NEXT: &str =
    "Compare one of them with itself under another tunable (tiltyard build lists them).";

impl Cause {
    /// "ule, cfs".
    pub(crate) fn owners(&self) -> String {
        let names: Vec<&str> = self.of.iter().map(|(owner, _)| owner.as_str()).collect();
        names.join(", ")
    }

    /// What it does, with those of whom that is true: variants of a scheduler share their descriptions.
    pub(crate) fn descriptions(&self) -> Vec<(String, &str)> {
        let mut all: Vec<(String, &str)> = Vec::new();
        for (owner, what) in &self.of {
            match all.iter_mut().find(|(_, known)| known == what) {
                Some((owners, _)) => *owners += &format!(", {owner}"),
                None => all.push((owner.clone(), what)),
            }
        }
        all
    }
}

impl Explanation {
    /// What part of the difference this is; `None`: there is hardly a difference, and parts of it would be huge.
    pub fn part(&self, value: f64) -> Option<f64> {
        let has_parts = self.difference.value != 0.0 && !self.is_small();
        has_parts.then(|| value / self.difference.value)
    }

    /// The cause with the largest share in the direction of the difference. `None` if there is hardly a difference, or if
    /// more of it remains with everything switched off, or even more than all of it: then they reduce it together.
    pub fn main_cause(&self) -> Option<&Cause> {
        let part = |cause: &Cause| self.part(cause.share.value);
        let causes = self.causes.iter().filter(|c| part(c) > Some(0.0));
        let largest = causes.max_by(|a, b| a.share.value.abs().total_cmp(&b.share.value.abs()));
        let rest = self.part(self.remainder.value);
        largest.filter(|cause| part(cause) >= rest && rest <= Some(1.0))
    }

    fn is_small(&self) -> bool {
        self.difference.value.abs() < self.least_difference()
    }

    /// The smallest that is worth an explanation, in the metric's unit.
    pub(crate) fn least_difference(&self) -> f64 {
        let [a, b] = self.values.map(f64::abs);
        SMALL * a.max(b)
    }

    /// What it comes to, in a sentence or two, and whether it may be chance.
    pub fn conclusion(&self) -> String {
        match self.seeds {
            1 => self.finding() + " Each ran only once: --seeds 10 shows what may be chance.",
            _ => self.finding(),
        }
    }

    fn finding(&self) -> String {
        let [a, b] = &self.schedulers;
        let (metric, difference) = (&self.metric, &self.difference);
        if difference.value == 0.0 {
            let same = match self.seeds {
                1 => format!("{a} and {b} do not differ in {metric}"),
                _ => format!("The medians of {a} and {b} do not differ in {metric}"),
            };
            return match self.causes.is_empty() {
                true => same + ", so nothing has been switched off. Another metric may differ.",
                false => same + ": the shares of the causes cancel out.",
            };
        }
        if self.is_small() {
            return format!(
                "{a} and {b} differ by less than {}: there is little to explain.",
                units::share(SMALL)
            );
        }
        let chance = match difference.interval {
            Some([low, high]) if low <= 0.0 && high >= 0.0 => {
                " But seeds differ so much that all of it may be chance."
            }
            _ => "",
        };
        self.cause_of_most() + chance
    }

    fn cause_of_most(&self) -> String {
        let part = |value: f64| self.part(value).unwrap_or(0.0);
        let rest = part(self.remainder.value);
        let Some(cause) = self.main_cause() else {
            return match rest {
                rest if rest > 1.0 => self.against(rest),
                rest if rest > 0.5 => format!(
                    "Most of the difference has other causes: {} of it remains with all listed mechanisms switched off. {NEXT}",
                    units::share(rest)
                ),
                rest => format!(
                    "No listed mechanism explains more than what remains with all of them switched off: {} of the difference.",
                    units::share(rest)
                ),
            };
        };
        let (share, alone) = (part(cause.share.value), part(cause.alone));
        let not_listed = match rest {
            rest if rest < -0.5 => format!(
                " With all listed mechanisms switched off, the difference is reversed (to {} of it): causes that are not listed \
                 contribute, too.",
                units::share(rest)
            ),
            _ => String::new(),
        };
        let alone_does = match alone {
            part if part.abs() < 0.005 => "changes nothing".to_owned(),
            part if part < 0.0 => format!("increases the difference by {}", units::share(-part)),
            part => format!("removes {} of it", units::share(part)),
        };
        format!(
            "The main cause is {}: {} of the difference; switching off only this mechanism {alone_does}.{}{not_listed}",
            cause.name,
            units::share(share),
            self.others_against(share)
        )
    }

    /// Why a cause has more than the whole difference.
    fn others_against(&self, share: f64) -> String {
        if share < 1.005 {
            return String::new();
        }
        let causes = self.causes.iter().map(|c| (c.name.as_str(), c.share.value));
        let remains = "what remains with everything switched off";
        let parts = causes.chain([(remains, self.remainder.value)]);
        let parts = parts.filter_map(|(name, value)| Some((name, self.part(value)?)));
        match parts.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((name, part)) if part < 0.0 => format!(
                " That exceeds 100 % because {name} works against the difference ({}).",
                units::share(part)
            ),
            _ => String::new(),
        }
    }

    /// If the difference grows when everything is switched off, by the factor `rest`.
    fn against(&self, rest: f64) -> String {
        let opposed = |cause: &&Cause| self.part(cause.share.value).is_some_and(|p| p < 0.0);
        let most = self.causes.iter().filter(opposed);
        let most = most.max_by(|a, b| a.share.value.abs().total_cmp(&b.share.value.abs()));
        let most = most.map_or(String::new(), |cause| {
            format!(", {} most of all", cause.name)
        });
        format!(
            "Its cause is not among these: they reduce the difference{most}. With all of them switched off it is {} times as large. {NEXT}",
            units::plain(rest)
        )
    }

    /// "28 114 /s".
    pub(crate) fn figure(&self, value: f64) -> String {
        self.unit.write(value)
    }

    /// "-7 200 /s".
    pub(crate) fn amount(&self, value: f64) -> String {
        amount(self.unit, value)
    }

    pub(crate) fn percent(&self, value: f64) -> String {
        self.part(value).map_or("".to_owned(), |part| match part {
            part if part.abs() < 0.0005 => "0 %".to_owned(),
            part => units::share(part),
        })
    }

    pub(crate) fn interval(&self, amount: &Amount) -> String {
        let Some([low, high]) = amount.interval else {
            return String::new();
        };
        format!("[{}, {}]", self.amount(low), self.amount(high))
    }

    fn has_intervals(&self) -> bool {
        self.difference.interval.is_some() || self.causes.iter().any(|c| c.share.interval.is_some())
    }

    /// "32 535 /s under ule, 21 179 /s under cfs: -11 356 /s, -34.9 %; higher is better".
    pub(crate) fn headline(&self) -> String {
        let [a, b] = &self.schedulers;
        let [of_a, of_b] = self.values.map(|value| self.figure(value));
        let change = match self.values[0] {
            0.0 => String::new(),
            base => format!(", {}", units::change(self.difference.value / base)),
        };
        let direction = match self.better {
            Better::Higher => "; higher is better",
            Better::Lower => "; lower is better",
            Better::Neither => "",
        };
        format!(
            "{of_a} under {a}, {of_b} under {b}: {}{change}{direction}",
            self.amount(self.difference.value)
        )
    }

    /// How to read the shares, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        if !self.causes.is_empty() {
            let parts = match self.part(0.0) {
                Some(_) => {
                    "part: share of the difference; alone: by how much it shrinks if only this mechanism is switched off."
                }
                None => {
                    "part and alone are empty: there is hardly a difference of which they could be parts."
                }
            };
            all.push(parts.to_owned());
        }
        all.push(
            "The schedulers' probes were disabled, as with tiltyard run --no-probes. Probes cost time, so a run without \
             that option gives different values."
                .to_owned(),
        );
        if self.is_default {
            all.push(format!(
                "{} is the default metric here; --metric NAME explains another.",
                self.metric
            ));
        }
        if let Some(orders) = self.orders {
            all.push(format!(
                "Shares are means over {orders} of the possible orders of switching off; their intervals include the sampling \
                 error. With at most six names in --mechanisms, all orders are used."
            ));
        }
        if self.seeds > 1 {
            all.push(format!(
                "Values are medians over {} seeds; intervals are computed from the shares in each seed and have {} coverage.",
                self.seeds,
                units::share(f64::from(self.coverage_ppm) / 1e6)
            ));
        }
        all.extend(self.notes.iter().cloned());
        all
    }
}

/// The whole explanation for a terminal.
pub fn text(of: &Explanation, width: usize) -> String {
    let words = of.causes.iter().flat_map(|cause| {
        let told = cause.descriptions().into_iter();
        told.map(|(owners, what)| format!("{} ({owners}): {what}", cause.name))
    });
    let shares = match of.causes.is_empty() {
        true => String::new(),
        false => table(of, width),
    };
    let remarks = of.remarks();
    let parts = [
        format!("{}\n{}\n", of.metric, of.headline()),
        shares,
        paragraph(&of.conclusion(), width, ""),
        words.map(|text| paragraph(&text, width, "    ")).collect(),
        remarks
            .iter()
            .map(|text| paragraph(text, width, ""))
            .collect(),
    ];
    parts
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Lines of at most `width` characters; all but the first begin with `indent`.
fn paragraph(text: &str, width: usize, indent: &str) -> String {
    let lines = wrapped(text, width.saturating_sub(indent.len()));
    lines.join(&format!("\n{indent}")) + "\n"
}

fn table(of: &Explanation, width: usize) -> String {
    let header = match of.has_intervals() {
        true => vec!["share", "interval", "part", "alone"],
        false => vec!["share", "part", "alone"],
    };
    let header = header.into_iter().map(str::to_owned).collect();
    let mut table = Columns::new(["mechanism", "of"], header, false);
    let mut row = |name: &str, owner: &str, amount: &Amount, alone: String| {
        let mut cells = vec![of.amount(amount.value), of.percent(amount.value), alone];
        if of.has_intervals() {
            cells.insert(1, of.interval(amount));
        }
        table.row(name, owner, cells);
    };
    for cause in &of.causes {
        let alone = of.percent(cause.alone);
        row(&cause.name, &cause.owners(), &cause.share, alone);
    }
    row("none of these", "", &of.remainder, String::new());
    row("all together", "", &of.difference, String::new());
    table.render(width)
}
