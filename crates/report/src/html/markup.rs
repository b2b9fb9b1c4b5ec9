// SPDX-License-Identifier: GPL-2.0-or-later
//! The pieces of a page: escaped text, tables, figures.

/// Text as it may stand in an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            _ => escaped.push(c),
        }
    }
    escaped
}

/// A table under construction. The first `labels` columns are text and stand left, the others are
/// figures and stand right.
pub struct Table {
    html: String,
    labels: usize,
}

impl Table {
    pub fn new(labels: usize, header: &[&str]) -> Self {
        let mut table = Table {
            html: "<div class=\"scroll\"><table><thead>".to_owned(),
            labels,
        };
        table.line("th", header.iter().map(|text| escape(text)));
        table.html += "</thead><tbody>";
        table
    }

    fn line(&mut self, tag: &str, cells: impl Iterator<Item = String>) {
        self.html += "<tr>";
        for (i, cell) in cells.enumerate() {
            let class = if i < self.labels { "" } else { " class=\"n\"" };
            self.html += &format!("<{tag}{class}>{cell}</{tag}>");
        }
        self.html += "</tr>\n";
    }

    /// A row of plain text.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        self.line("td", cells.iter().map(|text| escape(text.as_ref())));
    }

    /// A row of markup.
    pub fn row_html(&mut self, cells: &[String]) {
        self.line("td", cells.iter().cloned());
    }

    pub fn finish(self) -> String {
        self.html + "</tbody></table></div>\n"
    }
}

/// A figure with its sentence, its table (folded) and the command that made it.
pub struct Figure<'a> {
    pub id: &'a str,
    pub title: &'a str,
    /// One sentence for a newcomer.
    pub sentence: &'a str,
    /// Markup.
    pub body: String,
    /// Markup of the table behind it.
    pub table: String,
    pub command: &'a str,
}

impl Figure<'_> {
    pub fn finish(self) -> String {
        format!(
            "<section id=\"{}\"><h2>{}</h2><p class=\"lead\">{}</p>\n{}\n\
             <details><summary>Table and command</summary>\n{}<pre>{}</pre></details></section>\n",
            self.id,
            escape(self.title),
            escape(self.sentence),
            self.body,
            self.table,
            escape(self.command)
        )
    }
}

/// JSON that may stand inside a script element: no tag can occur in it.
pub fn script_json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain structs have a JSON form");
    text.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let mut table = Table::new(1, &["a<b"]);
        table.row(&["<script>alert('x')</script>"]);
        let html = table.finish();
        assert!(!html.contains("<script>") && html.contains("a&lt;b"));
        assert_eq!(script_json(&"</script>"), "\"\\u003c/script>\"");
    }
}
