// SPDX-License-Identifier: GPL-2.0-or-later
//! JSON text as people write rt-app files: tabs, one key a line, short objects on one line.

/// Longer objects are broken into lines.
const MAX_WIDTH: usize = 90;

#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A key without a value.
    Absent,
    /// A number, or true or false, as it is to be written.
    Plain(String),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub fn number(n: impl ToString) -> Node {
        Node::Plain(n.to_string())
    }

    pub fn text(text: &str) -> Node {
        Node::Text(text.to_string())
    }

    pub fn object<const N: usize>(members: [(&str, Node); N]) -> Node {
        Node::Object(
            members
                .into_iter()
                .map(|(key, value)| (key.to_string(), value))
                .collect(),
        )
    }

    /// The node as a file, with a newline at the end.
    pub fn print(&self) -> String {
        let mut out = String::new();
        self.print_to(&mut out, 0);
        out.push('\n');
        out
    }

    fn print_to(&self, out: &mut String, depth: usize) {
        let Node::Object(members) = self else {
            return self.print_flat(out);
        };
        if depth > 1 {
            let mut line = String::new();
            self.print_flat(&mut line);
            if line.len() <= MAX_WIDTH {
                return out.push_str(&line);
            }
        }
        out.push_str("{\n");
        for (at, (key, value)) in members.iter().enumerate() {
            out.extend(std::iter::repeat_n('\t', depth + 1));
            quote(out, key);
            if !matches!(value, Node::Absent) {
                out.push_str(" : ");
                value.print_to(out, depth + 1);
            }
            out.push_str(if at + 1 < members.len() { ",\n" } else { "\n" });
        }
        out.extend(std::iter::repeat_n('\t', depth));
        out.push('}');
    }

    fn print_flat(&self, out: &mut String) {
        match self {
            Node::Absent => {}
            Node::Plain(plain) => out.push_str(plain),
            Node::Text(text) => quote(out, text),
            Node::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    item.print_flat(out);
                }
                out.push(']');
            }
            Node::Object(members) if members.is_empty() => out.push_str("{}"),
            Node::Object(members) => {
                out.push_str("{ ");
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    quote(out, key);
                    if !matches!(value, Node::Absent) {
                        out.push_str(" : ");
                        value.print_flat(out);
                    }
                }
                out.push_str(" }");
            }
        }
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_objects_stay_on_their_line() {
        let timer = Node::object([("ref", Node::text("t\"1")), ("period", Node::number(5))]);
        let phase = Node::object([("run", Node::number(1)), ("timer", timer)]);
        let file = Node::object([
            ("tasks", Node::object([("a", phase)])),
            ("l", Node::List(vec![Node::number(1)])),
        ]);
        let wanted = "{\n\t\"tasks\" : {\n\t\t\"a\" : { \"run\" : 1, \"timer\" : { \"ref\" : \"t\\\"1\", \"period\" : 5 } }\n\t},\n\t\"l\" : [1]\n}\n";
        assert_eq!(file.print(), wanted);
    }
}
