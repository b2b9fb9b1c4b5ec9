// SPDX-License-Identifier: GPL-2.0-or-later
//! Scores: lines of a command's output that begin with our prefix. Their meaning is interpreted elsewhere.

/// Before each score, at the beginning of a line.
pub const PREFIX: &str = "score: ";

/// More scores of a run, and longer ones, are no scores: a command may print what it likes for hours.
const MAX_SCORES: usize = 100;
const MAX_LINE: usize = 200;

/// Takes output in pieces of any length.
#[derive(Debug, Default)]
pub struct Scores {
    /// The beginning of a line whose end has not come.
    line: String,
    found: Vec<String>,
}

impl Scores {
    pub fn hear(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            if self.line.len() < MAX_LINE {
                self.line += piece;
            }
            if piece.ends_with('\n') {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let score = line.strip_prefix(PREFIX).filter(|_| line.len() <= MAX_LINE);
        if let Some(score) = score.filter(|_| self.found.len() < MAX_SCORES) {
            self.found.push(score.trim().to_owned());
        }
    }

    /// All of them, without their first word.
    pub fn finish(mut self) -> Vec<String> {
        self.end_line();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(pieces: &[&str]) -> Vec<String> {
        let mut scores = Scores::default();
        pieces.iter().for_each(|piece| scores.hear(piece));
        scores.finish()
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        let pieces = [
            "begin\nsco",
            "re: a_s 1",
            "2\nno score: b 1\r\n",
            "score: c 3",
        ];
        assert_eq!(scores(&pieces), ["a_s 12", "c 3"]);
        assert_eq!(scores(&[]), [""; 0]);
    }

    #[test]
    fn neither_long_lines_nor_many_fill_the_memory() {
        let long = format!("score: {}\n", "x".repeat(MAX_LINE));
        assert_eq!(scores(&[&long, "score: a 1\n"]), ["a 1"]);
        let endless = vec!["y".repeat(1000); 1000];
        let mut heard = Scores::default();
        endless.iter().for_each(|piece| heard.hear(piece));
        assert!(heard.line.len() <= 1000 + MAX_LINE);
        assert_eq!(
            scores(&["score: a 1\n".repeat(1000).as_str()]).len(),
            MAX_SCORES
        );
    }
}
