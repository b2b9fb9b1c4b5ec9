// SPDX-License-Identifier: GPL-2.0-or-later
//! Properties of the terminal.

/// Columns of standard output; 100 if it is not a terminal.
pub fn width() -> usize {
    // SAFETY: TIOCGWINSZ fills the struct that it gets and nothing else.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) == 0).then_some(size)
    };
    size.map(|s| usize::from(s.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(100)
}

/// `words` for a shell, quoted where necessary.
pub fn shell_line<S: AsRef<str>>(words: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    let quoted = words.iter().map(|word| match word.as_ref() {
        word if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// The command that was typed.
pub fn own_command() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    words[0] = "tiltyard".to_owned();
    shell_line(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_are_quoted() {
        assert_eq!(
            shell_line(&["run", "-m", "pack:2 pu:1"]),
            "run -m 'pack:2 pu:1'"
        );
        assert_eq!(shell_line(&["it's", ""]), "'it'\\''s' ''");
    }
}
