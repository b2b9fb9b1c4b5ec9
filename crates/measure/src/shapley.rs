// SPDX-License-Identifier: GPL-2.0-or-later
//! How much each of several players contributed to a joint result: Shapley values (L. S. Shapley, "A Value for n-Person
//! Games", 1953). They are the only division in which shares add up to the whole, equal players get equal shares, a player
//! that changes nothing gets nothing, and the shares of a sum of games are the sums of the shares.
//!
//! A player's share is the mean, over all orders in which players may join, of what the value changes when it joins. With
//! few players it is exact; with more, it is estimated from some of the orders, always the same ones.

use std::collections::BTreeSet;

/// Some of the players: bit i is player i.
pub type Coalition = u32;

/// Up to this many players shares are exact: 2^6 = 64 values.
pub const EXACT_PLAYERS: usize = 6;

/// Most players.
pub const MAX_PLAYERS: usize = 24;

/// Orders that are sampled, in pairs of an order and its reverse: in such a pair, whatever two players make of each other is
/// divided exactly, so that only effects of three and more differ between pairs.
const PAIRS: usize = 16;

/// The 97.5 % quantile of Student's t with PAIRS - 1 = 15 degrees of freedom, as in every table.
const T_QUANTILE: f64 = 2.131;

/// Begins the draws of orders. Any number will do; it must only stay the same.
const SEED: u64 = 1;

/// What a player contributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// In the unit of the game's values.
    pub share: f64,
    /// If only some orders were sampled: Student's interval of their mean, which should have the exact share in it with 95 %
    /// probability. Effects that few orders show make that nine of ten times, as a test has it.
    pub interval: Option<[f64; 2]>,
    /// What the player changes when it joins first.
    pub first: f64,
}

/// Which coalitions' values the shares need.
#[derive(Clone, Debug)]
pub struct Design {
    players: usize,
    /// Empty if shares are exact; an order and its reverse are neighbours.
    orders: Vec<Vec<usize>>,
}

impl Design {
    /// `players`: at most [`MAX_PLAYERS`].
    pub fn new(players: usize) -> Design {
        match players <= EXACT_PLAYERS {
            true => Design {
                players,
                orders: Vec::new(),
            },
            false => Design::sampled(players, SEED),
        }
    }

    /// Sampled orders, however few the players.
    fn sampled(players: usize, seed: u64) -> Design {
        let mut random = seed;
        let pair = |_| {
            let order = shuffled(players, &mut random);
            let reverse = order.iter().rev().copied().collect();
            [order, reverse]
        };
        Design {
            players,
            orders: (0..PAIRS).flat_map(pair).collect(),
        }
    }

    /// How many orders were sampled; `None`: shares are exact.
    pub fn sampled_orders(&self) -> Option<usize> {
        (!self.orders.is_empty()).then_some(self.orders.len())
    }

    /// All players together.
    pub fn everyone(&self) -> Coalition {
        (1 << self.players) - 1
    }

    /// The coalitions of which [`Design::shares`] asks the value, in ascending order.
    pub fn coalitions(&self) -> Vec<Coalition> {
        if self.orders.is_empty() {
            return (0..=self.everyone()).collect();
        }
        let mut all: BTreeSet<Coalition> = (0..self.players).map(|player| 1 << player).collect();
        all.insert(0);
        for order in &self.orders {
            all.extend(order.iter().scan(0, |joined, player| {
                *joined |= 1 << player;
                Some(*joined)
            }));
        }
        all.into_iter().collect()
    }

    /// What each player contributed to the game in which a coalition has this value. Shares add up to the value of all
    /// players together less that of none, but for rounding; what is only rounding is 0.
    pub fn shares(&self, value: impl Fn(Coalition) -> f64) -> Vec<Contribution> {
        let shares: Vec<(f64, Option<[f64; 2]>)> = match self.orders.is_empty() {
            true => self.exact(&value),
            false => self.estimated(&value),
        };
        let values = self
            .coalitions()
            .into_iter()
            .map(|joined| value(joined).abs());
        let rounding = values.fold(0.0, f64::max) * 1e-12;
        let contribution = |(player, (share, interval)): (usize, (f64, _))| Contribution {
            share: if share.abs() <= rounding { 0.0 } else { share },
            interval,
            first: value((1 as Coalition) << player) - value(0),
        };
        shares.into_iter().enumerate().map(contribution).collect()
    }

    fn exact(&self, value: &impl Fn(Coalition) -> f64) -> Vec<(f64, Option<[f64; 2]>)> {
        let n = self.players;
        let share = |player: usize| {
            let others = (0..=self.everyone()).filter(|joined| joined & (1 << player) == 0);
            let parts = others.map(|joined| {
                let gain = value(joined | 1 << player) - value(joined);
                gain / (n as f64 * choose(n - 1, joined.count_ones() as usize))
            });
            (parts.sum(), None)
        };
        (0..n).map(share).collect()
    }

    fn estimated(&self, value: &impl Fn(Coalition) -> f64) -> Vec<(f64, Option<[f64; 2]>)> {
        let gain = |order: &[usize], player: usize| {
            let before = order.iter().take_while(|other| **other != player);
            let joined = before.fold(0, |joined, other| joined | 1 << other);
            value(joined | 1 << player) - value(joined)
        };
        let share = |player: usize| {
            let of_pair = |pair: &[Vec<usize>]| {
                pair.iter().map(|order| gain(order, player)).sum::<f64>() / pair.len() as f64
            };
            let gains: Vec<f64> = self.orders.chunks(2).map(of_pair).collect();
            let n = gains.len() as f64;
            let mean = gains.iter().sum::<f64>() / n;
            let squares = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>();
            let half = T_QUANTILE * (squares / (n - 1.0) / n).sqrt();
            (mean, Some([mean - half, mean + half]))
        };
        (0..self.players).map(share).collect()
    }
}

/// Ways to choose `k` of `n`.
fn choose(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |ways, i| ways * (n - i) as f64 / (i + 1) as f64)
}

/// All players in random order (Fisher and Yates).
fn shuffled(players: usize, random: &mut u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..players).collect();
    for left in (2..=players).rev() {
        order.swap(left - 1, (splitmix64(random) % left as u64) as usize);
    }
    order
}

/// The next number of Steele, Lea and Flood's SplitMix64.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(contributions: &[Contribution]) -> Vec<f64> {
        let round = |c: &Contribution| (c.share * 1e9).round() / 1e9;
        contributions.iter().map(round).collect()
    }

    /// The textbook's gloves: players 0 and 1 have a left one each, player 2 a right one; a pair is worth 1.
    #[test]
    fn the_owner_of_the_rare_glove_gets_two_thirds() {
        let pair = |who: Coalition| f64::from(u8::from(who & 0b011 != 0 && who & 0b100 != 0));
        let got = Design::new(3).shares(pair);
        let sixth = (1e9f64 / 6.0).round() / 1e9;
        let rare = (1e9f64 * 4.0 / 6.0).round() / 1e9;
        assert_eq!(shares(&got), [sixth, sixth, rare]);
        assert!(got.iter().all(|c| c.interval.is_none() && c.first == 0.0));
    }

    /// Player 0 adds 0.3 alone and takes away as much from the other; without rounding it gets -2.8e-17.
    #[test]
    fn what_is_only_rounding_is_zero() {
        for sign in [1.0, -1.0] {
            let values = [0.0, 0.3, 0.4, 0.1].map(|value| sign * value);
            let got = Design::new(2).shares(|who| values[who as usize]);
            assert_eq!(got[0].share, 0.0);
        }
    }

    /// Two who each suffice share equally; both alone have the whole effect.
    #[test]
    fn two_that_each_suffice_get_half() {
        let either = |who: Coalition| if who & 0b11 != 0 { 8.0 } else { 0.0 };
        let got = Design::new(3).shares(either);
        assert_eq!(shares(&got), [4.0, 4.0, 0.0]);
        assert_eq!(got[0].first, 8.0);
        assert_eq!(got[2].share, 0.0, "who changes nothing gets nothing");
    }

    /// Eight players with effects of their own, of pairs, and of three and more at once; player 7 changes nothing.
    fn game(who: Coalition) -> f64 {
        let has = |player: u32| f64::from(who >> player & 1);
        let own: f64 = (0..7).map(|p| has(p) * f64::from(p + 1)).sum();
        let three = has(0) * has(3) * (1.0 - has(5)) * 9.0;
        let many = if (who & 0x7f).count_ones() >= 4 {
            5.0
        } else {
            0.0
        };
        100.0 + own - 6.0 * has(1) * has(2) + three + many
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        for design in [Design::new(5), Design::new(6), Design::new(8)] {
            let whole = game(design.everyone()) - game(0);
            let sum: f64 = design.shares(game).iter().map(|c| c.share).sum();
            assert!(
                (sum - whole).abs() < 1e-9,
                "{} players: {sum}, not {whole}",
                design.players
            );
        }
    }

    #[test]
    fn sampled_shares_have_the_exact_ones_in_their_intervals() {
        let exact = Design {
            players: 8,
            orders: Vec::new(),
        };
        let exact = exact.shares(game);
        const SEEDS: u64 = 200;
        let (mut held, mut sums) = (0, [0.0; 8]);
        for seed in 0..SEEDS {
            let sampled = Design::sampled(8, seed).shares(game);
            for ((exact, sampled), sum) in exact.iter().zip(&sampled).zip(&mut sums) {
                let [low, high] = sampled.interval.unwrap();
                let holds = low - 1e-9 <= exact.share && exact.share <= high + 1e-9;
                held += usize::from(holds);
                *sum += sampled.share;
            }
            assert_eq!(sampled[7].share, 0.0, "who changes nothing gets nothing");
            assert_eq!(sampled[7].interval, Some([0.0, 0.0]));
        }
        let part = held as f64 / (8 * SEEDS) as f64;
        // 95 % of them should; the effects are no normal distribution.
        assert!((0.93..0.99).contains(&part), "{part} of the intervals hold");
        for (exact, sum) in exact.iter().zip(sums) {
            let mean = sum / SEEDS as f64;
            assert!((mean - exact.share).abs() < 0.1, "{mean}: {exact:?}");
        }
    }

    /// In an order and its reverse each of two comes first once: effects of pairs have no error.
    #[test]
    fn effects_of_pairs_are_divided_exactly() {
        let pairs = |who: Coalition| f64::from(who.count_ones() * who.count_ones());
        for contribution in Design::new(9).shares(pairs) {
            assert!((contribution.share - 9.0).abs() < 1e-9, "{contribution:?}");
            let [low, high] = contribution.interval.unwrap();
            assert!(high - low < 1e-9);
        }
    }

    #[test]
    fn only_listed_coalitions_are_asked_for() {
        for players in [0, 1, 4, 7, 12] {
            let design = Design::new(players);
            let listed = design.coalitions();
            assert!(listed.is_sorted() && listed.contains(&0));
            assert!(listed.contains(&design.everyone()));
            design.shares(|who| {
                assert!(listed.binary_search(&who).is_ok(), "{players}: {who:b}");
                0.0
            });
        }
        assert_eq!(Design::new(4).coalitions().len(), 16);
        assert!(Design::new(9).coalitions().len() < 256);
    }
}
