// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands with shell quoting.

/// `words` for a shell, quoted where necessary.
pub fn line<S: AsRef<str>>(words: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.iter().map(|word| match word.as_ref() {
        word if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_are_quoted() {
        assert_eq!(line(&["run", "-m", "pack:2 pu:1"]), "run -m 'pack:2 pu:1'");
        assert_eq!(line(&["it's", ""]), "'it'\\''s' ''");
    }
}
