// SPDX-License-Identifier: GPL-2.0-or-later
//! Text tables of any number of columns in a terminal of any width: labels wrap between words, columns go into as many
//! blocks as they need, and a figure is never broken.

/// Blanks between two columns.
const GAP: usize = 2;

/// Labels wrap to this width where a table does not fit otherwise.
const NARROW_LABEL: usize = 16;

/// A table under construction: two columns of labels, then figures.
pub(crate) struct Columns {
    labels: [String; 2],
    /// Titles of the figures' columns.
    header: Vec<String>,
    /// The last column is a mark: it stays in the block of the column before it.
    marked: bool,
    rows: Vec<([String; 2], Vec<String>)>,
}

impl Columns {
    pub fn new(labels: [&str; 2], header: Vec<String>, marked: bool) -> Columns {
        Columns {
            labels: labels.map(str::to_owned),
            header,
            marked,
            rows: Vec::new(),
        }
    }

    /// `cells`: one for each column. The group is written where it changes.
    pub fn row(&mut self, group: &str, metric: &str, cells: Vec<String>) {
        self.rows
            .push(([group.to_owned(), metric.to_owned()], cells));
    }

    /// Lines of at most `width` characters, unless a single column is wider than that.
    pub fn render(&self, width: usize) -> String {
        let widths = self.widths();
        let natural = self.label_widths(usize::MAX);
        let narrow = self.label_widths(NARROW_LABEL);
        let room = |labels: &[usize; 2]| width.saturating_sub(labels[0] + labels[1] + 2 * GAP);
        let (labels, blocks) = match split(&widths, room(&natural), self.marked) {
            blocks if blocks.len() <= 1 => (natural, blocks),
            _ => (narrow, split(&widths, room(&narrow), self.marked)),
        };
        let blocks = blocks.into_iter().map(|columns| {
            let mut text = self.line(&self.labels, &self.header, &labels, &widths, &columns);
            let mut group = "";
            for (names, cells) in &self.rows {
                let shown = if *names[0] == *group { "" } else { &names[0] };
                group = &names[0];
                let names = [shown.to_owned(), names[1].clone()];
                text += &self.line(&names, cells, &labels, &widths, &columns);
            }
            text
        });
        blocks.collect::<Vec<_>>().join("\n")
    }

    fn widths(&self) -> Vec<usize> {
        let column = |at: usize| {
            let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(at));
            let all = cells.chain(self.header.get(at));
            all.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        (0..self.header.len()).map(column).collect()
    }

    /// Widths of the labels when each is wrapped to `most`; a single word may be longer.
    fn label_widths(&self, most: usize) -> [usize; 2] {
        [0, 1].map(|at| {
            let labels = self.rows.iter().map(|(names, _)| &names[at]);
            let all = labels.chain([&self.labels[at]]);
            let lines = all.flat_map(|text| wrapped(text, most));
            lines.map(|line| line.chars().count()).max().unwrap_or(0)
        })
    }

    /// One row of a block: as many lines as its longest label needs.
    fn line(
        &self,
        names: &[String; 2],
        cells: &[String],
        labels: &[usize; 2],
        widths: &[usize],
        columns: &std::ops::Range<usize>,
    ) -> String {
        let names = [0, 1].map(|at| wrapped(&names[at], labels[at]));
        let high = names[0].len().max(names[1].len()).max(1);
        let mut text = String::new();
        for i in 0..high {
            let mut line = String::new();
            for (name, width) in names.iter().zip(labels) {
                let part = name.get(i).map_or("", String::as_str);
                line += &format!("{part:<width$}{:GAP$}", "");
            }
            for at in columns.clone().filter(|_| i == 0) {
                let (cell, width) = (cells.get(at).map_or("", String::as_str), widths[at]);
                line += &match self.marked && at + 1 == self.header.len() {
                    true => format!("{cell:<width$}{:GAP$}", ""),
                    false => format!("{cell:>width$}{:GAP$}", ""),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// The fewest blocks of about as many columns each that fit into `room`; a column that is wider than that has a block of
/// its own.
fn split(widths: &[usize], room: usize, marked: bool) -> Vec<std::ops::Range<usize>> {
    let fits = |columns: &std::ops::Range<usize>| {
        let taken: usize = widths[columns.clone()].iter().map(|w| w + GAP).sum();
        columns.len() == 1 || taken.saturating_sub(GAP) <= room
    };
    // A mark belongs to the column before it.
    let count = widths.len() - usize::from(marked && widths.len() > 1);
    for blocks in 1..=count {
        let each = count.div_ceil(blocks);
        let begins = (0..count).step_by(each);
        let ranges: Vec<std::ops::Range<usize>> = begins
            .map(|begin| match begin + each >= count {
                true => begin..widths.len(),
                false => begin..begin + each,
            })
            .collect();
        if ranges.iter().all(fits) || each == 1 {
            return ranges;
        }
    }
    Vec::new()
}

/// `text` in lines of at most `width` characters, broken between words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: usize, cell: &str) -> Columns {
        let header = (0..columns).map(|i| format!("s{i}")).collect();
        let mut table = Columns::new(["", ""], header, false);
        let cells = || vec![cell.to_owned(); columns];
        table.row("sysbench", "share while fibo is active", cells());
        table.row("sysbench", "longest wait", cells());
        table
    }

    #[test]
    fn what_fits_is_one_block() {
        let text = table(3, "1.00 ms ± 2.5 %").render(100);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("share while fibo is active  1.00 ms ± 2.5 %"));
    }

    #[test]
    fn eight_columns_are_split_evenly_and_figures_stay_whole() {
        for width in [80, 100] {
            let text = table(8, "45 603 ns ± 2.5 %").render(width);
            assert!(text.lines().all(|l| l.chars().count() <= width), "{text}");
            assert_eq!(text.matches("45 603 ns ± 2.5 %").count(), 16, "{text}");
            let blocks = text.split("\n\n").map(|block| block.matches('s').count());
            assert!(blocks.count() >= 2, "{text}");
        }
    }

    #[test]
    fn labels_wrap_before_columns_are_split() {
        let text = table(2, "123456789012345678901").render(80);
        assert!(text.contains("share while fibo") && text.contains("is active"));
        assert_eq!(text.matches("s0").count(), 1, "{text}");
    }

    #[test]
    fn a_mark_stays_with_its_column() {
        let header = ["a", "b", "ratio", ""].map(str::to_owned).to_vec();
        let mut table = Columns::new(["", ""], header, true);
        let cells = ["1234567890", "1234567890", "2.00", "++"].map(str::to_owned);
        table.row("app", "wait", cells.to_vec());
        for width in 10..60 {
            let text = table.render(width);
            assert!(text.contains("2.00  ++"), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_column_wider_than_the_terminal_is_whole() {
        let text = table(2, "a figure that is wider than any terminal").render(20);
        assert_eq!(
            text.matches("a figure that is wider than any terminal")
                .count(),
            4
        );
        assert!(
            Columns::new(["", ""], Vec::new(), false)
                .render(80)
                .is_empty()
        );
    }
}
