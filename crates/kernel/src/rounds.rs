// SPDX-License-Identifier: GPL-2.0-or-later
//! How often each scheduler's turn comes: rounds of all of them, interleaved so that whatever drifts hits
//! them alike; the first warms up; the last is when the times are known well enough or the time is up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Rounds that count. With one there is no warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    pub max: u32,
    /// Enough when the interval around each scheduler's median time reaches no further than this part of it to
    /// either side.
    pub tight: f64,
    /// No new round begins after this time, s.
    pub budget_s: u64,
}

impl Rounds {
    pub const ONE: Rounds = Rounds {
        max: 1,
        tight: 0.0,
        budget_s: u64::MAX,
    };
}

/// How far the interval around the median of some times reaches from it, as a part of it; `None` while there are
/// too few times to compute it. What an interval is, the caller decides.
pub type Spread = fn(&[f64]) -> Option<f64>;

/// What has been run so far.
#[derive(Debug)]
pub struct Turns {
    rounds: Rounds,
    spread: Spread,
    /// The warm-up is round 0.
    round: u32,
    /// Times of each scheduler that count, s; `None` once it has failed: it gets no further turn.
    times_s: Vec<Option<Vec<f64>>>,
}

impl Turns {
    pub fn new(rounds: Rounds, nr_schedulers: usize, spread: Spread) -> Turns {
        Turns {
            rounds,
            spread,
            round: u32::from(rounds.max <= 1),
            times_s: vec![Some(Vec::new()); nr_schedulers],
        }
    }

    /// 0 while it warms up.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether this scheduler runs in this round.
    pub fn wants(&self, scheduler: usize) -> bool {
        self.times_s[scheduler].is_some()
    }

    /// How its run went: the time, or `None` for a failure.
    pub fn ran(&mut self, scheduler: usize, time_s: Option<f64>) {
        match (&mut self.times_s[scheduler], time_s) {
            (Some(times_s), Some(time_s)) if self.round > 0 => times_s.push(time_s),
            (_, Some(_)) => {}
            (times_s, None) => *times_s = None,
        }
    }

    /// Goes on to the next round, unless enough is known, none is left, or the time is up.
    pub fn next_round(&mut self, elapsed: Duration) -> bool {
        let left: Vec<&Vec<f64>> = self.times_s.iter().flatten().collect();
        let tight = |times_s: &&Vec<f64>| {
            (self.spread)(times_s).is_some_and(|spread| spread <= self.rounds.tight)
        };
        let known = self.round > 0 && left.iter().all(tight);
        let over = self.round >= self.rounds.max || elapsed.as_secs() >= self.rounds.budget_s;
        if left.is_empty() || known || (over && self.round > 0) {
            return false;
        }
        self.round += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known from three times on; as far as they lie apart.
    fn spread(times_s: &[f64]) -> Option<f64> {
        let max = times_s.iter().copied().fold(0.0, f64::max);
        let min = times_s.iter().copied().fold(f64::MAX, f64::min);
        (times_s.len() >= 3).then(|| (max - min) / max)
    }

    fn turns(max: u32, budget_s: u64) -> Turns {
        let rounds = Rounds {
            max,
            tight: 0.1,
            budget_s,
        };
        Turns::new(rounds, 2, spread)
    }

    /// Rounds that ran, when scheduler 0 takes the times given and scheduler 1 always a second.
    fn play(mut turns: Turns, times_s: &[f64]) -> Vec<u32> {
        let mut ran = Vec::new();
        let mut times_s = times_s.iter().cycle();
        loop {
            ran.push(turns.round());
            turns.ran(0, times_s.next().copied());
            turns.ran(1, Some(1.0));
            if !turns.next_round(Duration::from_secs(ran.len() as u64)) {
                return ran;
            }
        }
    }

    #[test]
    fn one_round_has_no_warm_up() {
        assert_eq!(play(turns(1, u64::MAX), &[1.0]), [1]);
        assert_eq!(Turns::new(Rounds::ONE, 1, spread).round(), 1);
    }

    #[test]
    fn ends_when_every_scheduler_is_known_and_the_warm_up_does_not_count() {
        assert_eq!(
            play(turns(9, u64::MAX), &[7.0, 1.0, 1.01, 1.02]),
            [0, 1, 2, 3]
        );
        assert_eq!(play(turns(4, u64::MAX), &[1.0, 2.0]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_time_being_up_leaves_at_least_one_round() {
        assert_eq!(play(turns(9, 3), &[1.0, 2.0]), [0, 1, 2]);
        assert_eq!(play(turns(9, 0), &[1.0, 2.0]), [0, 1]);
    }

    #[test]
    fn a_failure_costs_the_scheduler_its_further_turns_and_nobody_else() {
        let mut turns = turns(9, u64::MAX);
        turns.ran(0, None);
        turns.ran(1, Some(1.0));
        assert!(turns.next_round(Duration::ZERO));
        assert!(!turns.wants(0));
        assert!(turns.wants(1));
        turns.ran(1, None);
        assert!(!turns.next_round(Duration::ZERO), "nobody is left");
    }
}
