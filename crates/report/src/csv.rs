// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as CSV (RFC 4180, but lines end as on Unix): one line for each metric of each scheduler, so that pandas, R and
//! spreadsheets take them as they are. Values are in the unit that the metric's name has; what there is not is empty.

use tiltyard_measure::{Better, Comparison, Interval, Pair, Row};

/// Lines of fields; the first names them.
#[derive(Default)]
pub struct Csv {
    text: String,
}

impl Csv {
    pub fn new(header: &[&str]) -> Csv {
        let mut csv = Csv::default();
        csv.line(header);
        csv
    }

    pub fn line<S: AsRef<str>>(&mut self, fields: &[S]) {
        let fields: Vec<String> = fields.iter().map(|field| quoted(field.as_ref())).collect();
        self.text += &fields.join(",");
        self.text.push('\n');
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Quoted where it must be.
fn quoted(field: &str) -> String {
    match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// The direction's name; empty if neither is better.
pub fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "",
    }
}

/// As short as it can be and still the same number.
fn number(value: f64) -> String {
    format!("{value}")
}

/// Median, ends of the interval, runs: four fields.
pub fn interval(interval: Option<&Interval>, scale: f64) -> [String; 4] {
    interval.map_or_else(Default::default, |i| {
        let scaled = |value: f64| number(value * scale);
        [
            scaled(i.median),
            scaled(i.low),
            scaled(i.high),
            i.n.to_string(),
        ]
    })
}

/// A metric under each scheduler: its median, interval and number of runs, and its change against the first scheduler as a
/// fraction, with interval and Cliff's delta.
pub fn comparison(comparison: &Comparison) -> String {
    let mut csv = Csv::new(&[
        "scheduler",
        "group",
        "metric",
        "unit",
        "better",
        "median",
        "low",
        "high",
        "runs",
        "change",
        "change_low",
        "change_high",
        "delta",
    ]);
    for row in &comparison.rows {
        for (at, scheduler) in comparison.schedulers.iter().enumerate() {
            let (unit, scale) = row.named_unit();
            let mut line = vec![scheduler.clone()];
            line.extend([row.group.clone(), bare_name(row), unit.to_owned()]);
            line.push(better(row.better).to_owned());
            line.extend(interval(row.cells[at].as_ref(), scale));
            let effect = row.effects.get(at).and_then(Option::as_ref);
            let change = effect.and_then(|effect| effect.change.as_ref());
            let [median, low, high, _] = interval(change, 1.0);
            let delta = effect.map_or(String::new(), |effect| number(effect.delta));
            line.extend([median, low, high, delta]);
            csv.line(&line);
        }
    }
    csv.finish()
}

/// The name without its group.
fn bare_name(row: &Row) -> String {
    let group = format!("{}.", row.group);
    row.name
        .strip_prefix(&group)
        .unwrap_or(&row.name)
        .to_owned()
}

/// A metric of two results, and what changed from A to B.
pub fn pair(pair: &Pair) -> String {
    let mut header = vec!["group", "metric", "unit", "better"];
    header.extend(["a", "a_low", "a_high", "a_runs", "b", "b_low", "b_high"]);
    header.extend(["b_runs", "change", "change_low", "change_high", "delta"]);
    header.extend(["p_adjusted", "verdict"]);
    let mut csv = Csv::new(&header);
    for change in &pair.changes {
        let row = &change.row;
        let (unit, scale) = row.named_unit();
        let mut line = vec![row.group.clone(), bare_name(row), unit.to_owned()];
        line.push(better(row.better).to_owned());
        line.extend(interval(change.a(), scale));
        line.extend(interval(change.b(), scale));
        let effect = row.effects.get(1).and_then(Option::as_ref);
        let by = effect.and_then(|effect| effect.change.as_ref());
        let [median, low, high, _] = interval(by, 1.0);
        let delta = change.delta().map_or(String::new(), number);
        let p = change.p_adjusted.map_or(String::new(), number);
        line.extend([median, low, high, delta, p]);
        line.push(crate::changes::word(change.mark).to_owned());
        csv.line(&line);
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_words() {
        let all = [Better::Higher, Better::Lower, Better::Neither];
        assert_eq!(all.map(better), ["higher", "lower", ""]);
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.line(&["fifo:slice_ms=5,x", "say \"no\""]);
        csv.line(&["", "1.5"]);
        let text = csv.finish();
        assert_eq!(
            text,
            "a,b\n\"fifo:slice_ms=5,x\",\"say \"\"no\"\"\"\n,1.5\n"
        );
    }
}
