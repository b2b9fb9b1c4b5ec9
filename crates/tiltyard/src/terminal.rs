// SPDX-License-Identifier: GPL-2.0-or-later
//! Properties of the terminal.

use tiltyard_runner::shell;

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

/// The command that was typed.
pub fn own_command() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    words[0] = "tiltyard".to_owned();
    shell::line(&words)
}
