// SPDX-License-Identifier: GPL-2.0-or-later
//! Normal draws by the ziggurat of Marsaglia and Tsang ("The Ziggurat Method for Generating Random
//! Variables", 2000), in fixed point: 256 layers of equal area, the lowest with the tail.

use super::Pcg;
use super::logarithm::{self, BITS};

const LAYERS: usize = 256;
/// Right end of the lowest layer's rectangle and the area of each layer, for 256 layers, from the
/// paper; units of 2^-58 and of 2^-63.
const RIGHT: u64 = (36_541_528_853_610_088u128 * (1 << BITS) / 10_000_000_000_000_000) as u64;
const AREA: u64 = (492_867_323_399u128 * (1 << 63) / 100_000_000_000_000) as u64;

/// Right ends of the layers, from the lowest (as wide as its area needs, tail included) to the top,
/// whose end is 0; and the height of the bell there.
static ENDS: [u64; LAYERS + 1] = layers().0;
static HEIGHTS: [u64; LAYERS + 1] = layers().1;

/// e^(-x^2 / 2) in units of 2^-63, for x in units of 2^-58.
const fn bell(x: u64) -> u64 {
    let half_square = ((x as u128 * x as u128) >> (BITS + 1)) as i128;
    let (v, n) = logarithm::exp(-half_square);
    v >> -n
}

const fn layers() -> ([u64; LAYERS + 1], [u64; LAYERS + 1]) {
    let (mut ends, mut heights) = ([0; LAYERS + 1], [0; LAYERS + 1]);
    ends[0] = (((AREA as u128) << BITS) / bell(RIGHT) as u128) as u64;
    ends[1] = RIGHT;
    heights[1] = bell(RIGHT);
    let mut i = 2;
    while i < LAYERS {
        heights[i] = heights[i - 1] + (((AREA as u128) << BITS) / ends[i - 1] as u128) as u64;
        // x = sqrt(-2 ln height); the argument has 2 BITS fractional bits, its root BITS.
        let square = (2 * logarithm::minus_ln(heights[i] << 1) as u128) << BITS;
        ends[i] = square.isqrt() as u64;
        i += 1;
    }
    heights[LAYERS] = 1 << 63;
    (ends, heights)
}

/// A standard normal number in units of 2^-58.
#[inline]
pub fn draw(rng: &mut Pcg) -> i64 {
    loop {
        let bits = rng.u64();
        let layer = bits as usize & (LAYERS - 1);
        let negative = bits >> 8 & 1 != 0;
        let x = ((u128::from(bits >> 9) * u128::from(ENDS[layer])) >> 55) as u64;
        let accepted = if x < ENDS[layer + 1] {
            Some(x)
        } else {
            at_the_edge(rng, layer, x)
        };
        match accepted {
            Some(x) if negative => return -(x as i64),
            Some(x) => return x as i64,
            None => {}
        }
    }
}

/// One draw in ninety: the part of a layer that the bell cuts through.
#[cold]
fn at_the_edge(rng: &mut Pcg, layer: usize, x: u64) -> Option<u64> {
    if layer == 0 {
        return Some(tail(rng));
    }
    let (low, high) = (HEIGHTS[layer], HEIGHTS[layer + 1]);
    let height = low + ((u128::from(rng.u64()) * u128::from(high - low)) >> 64) as u64;
    (height < bell(x)).then_some(x)
}

/// Beyond the lowest rectangle (Marsaglia, 1964): an exponential draw, accepted where the bell is.
fn tail(rng: &mut Pcg) -> u64 {
    loop {
        let exponential = |rng: &mut Pcg| u128::from(logarithm::minus_ln(rng.u64().max(1)));
        let beyond = (exponential(rng) << BITS) / u128::from(RIGHT);
        if (2 * exponential(rng)) << BITS > beyond * beyond {
            return RIGHT + beyond as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fit_together() {
        assert_eq!(bell(0), 1 << 63);
        assert!(
            ENDS.windows(2).all(|pair| pair[0] > pair[1]),
            "narrower and narrower"
        );
        // The top layer has the area of the others.
        let top = u128::from(ENDS[LAYERS - 1]) * u128::from(HEIGHTS[LAYERS] - HEIGHTS[LAYERS - 1]);
        let difference = (top >> BITS) as f64 / AREA as f64 - 1.0;
        assert!(difference.abs() < 1e-7, "{difference}");
    }
}
