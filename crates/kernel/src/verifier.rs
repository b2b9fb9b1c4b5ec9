// SPDX-License-Identifier: GPL-2.0-or-later
//! What libbpf says while it works, and of that, what a person needs to see.

use std::sync::Mutex;

use libbpf_rs::{PrintLevel, set_print};

/// libbpf has one print callback for the whole process, so there is one log.
static LOG: Mutex<String> = Mutex::new(String::new());

/// Runs `work` and returns what libbpf printed meanwhile at warning level. One caller at a
/// time: libbpf's callback is global.
pub fn capture<T>(work: impl FnOnce() -> T) -> (T, String) {
    fn keep(_level: PrintLevel, text: String) {
        LOG.lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .push_str(&text);
    }
    let take = || std::mem::take(&mut *LOG.lock().unwrap_or_else(|poison| poison.into_inner()));
    take();
    let previous = set_print(Some((PrintLevel::Warn, keep)));
    let result = work();
    set_print(previous);
    (result, take())
}

/// Lines of a verifier log that are kept: the refused instruction, the registers before it and
/// the source lines that lead there are at the end.
const VERIFIER_LINES: usize = 16;
/// Lines kept of a log without a verifier's part.
const OTHER_LINES: usize = 8;

/// The part of libbpf's log that explains why an object was refused: the program and the end of
/// the verifier's log if it was the verifier, else libbpf's own last words.
pub fn cut(log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(|line| line.trim_start_matches("libbpf: "))
        .collect();
    let begin = lines
        .iter()
        .rposition(|line| line.contains("-- BEGIN PROG LOAD LOG --"));
    let Some(begin) = begin else {
        return lines[lines.len().saturating_sub(OTHER_LINES)..].join("\n");
    };
    let end = lines[begin..]
        .iter()
        .position(|line| line.contains("-- END PROG LOAD LOG --"))
        .map_or(lines.len(), |length| begin + length);
    let said: Vec<&str> = lines[begin + 1..end]
        .iter()
        .copied()
        .filter(|line| !line.starts_with("processed ") && !line.trim().is_empty())
        .collect();
    let program = lines[begin].split('\'').nth(1).unwrap_or("?");
    let kept = &said[said.len().saturating_sub(VERIFIER_LINES)..];
    format!("the verifier refuses {program}:\n{}", kept.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_program_and_the_end_of_the_verifiers_log() {
        let mut log = "libbpf: prog 'fifo_enqueue': BPF program load failed: -EACCES\n\
                       libbpf: prog 'fifo_enqueue': -- BEGIN PROG LOAD LOG --\n"
            .to_owned();
        for insn in 0..100 {
            log.push_str(&format!("{insn}: (b7) r0 = 0\n"));
        }
        log.push_str(
            "R1 invalid mem access 'scalar'\nprocessed 101 insns (limit 1000000)\n\
             -- END PROG LOAD LOG --\nlibbpf: failed to load object 'fifo'\n",
        );
        let cut = cut(&log);
        assert!(
            cut.starts_with("the verifier refuses fifo_enqueue:\n"),
            "{cut}"
        );
        assert!(cut.ends_with("R1 invalid mem access 'scalar'"), "{cut}");
        assert!(!cut.contains("\n84: "), "cut to the end: {cut}");
        assert_eq!(cut.lines().count(), 1 + VERIFIER_LINES);
    }

    #[test]
    fn without_a_verifier_libbpfs_last_words_stay() {
        assert_eq!(
            cut("libbpf: failed to open system Kconfig\nlibbpf: failed to load object\n"),
            "failed to open system Kconfig\nfailed to load object"
        );
        assert_eq!(cut(""), "");
    }
}
