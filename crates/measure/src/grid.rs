// SPDX-License-Identifier: GPL-2.0-or-later
//! Series over time with a bounded number of points: when the grid is full, its width doubles and
//! neighbours become one.

/// Width of a fresh grid. Fine enough for runs of a second; a run of a day needs 17 doublings.
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// A time grid that starts at the origin: bucket k covers `[k, k + 1) * width_ns`.
#[derive(Clone, Debug)]
pub struct Grid {
    origin_ns: u64,
    pub width_ns: u64,
    capacity: usize,
    /// Closed buckets.
    pub filled: usize,
}

impl Grid {
    /// `capacity`: the largest number of buckets; even, so that neighbours pair up.
    pub fn new(origin_ns: u64, capacity: usize) -> Self {
        assert!(capacity >= 2 && capacity.is_multiple_of(2));
        Grid {
            origin_ns,
            width_ns: FIRST_WIDTH_NS,
            capacity,
            filled: 0,
        }
    }

    /// The same, with buckets that are `times` as wide from the beginning.
    pub fn wider(self, times: u64) -> Self {
        Grid {
            width_ns: self.width_ns * times,
            ..self
        }
    }

    /// Where the open bucket ends, on the arena's clock.
    pub fn boundary_ns(&self) -> u64 {
        self.origin_ns
            .saturating_add((self.filled as u64 + 1).saturating_mul(self.width_ns))
    }

    /// Closes the open bucket. True: the grid was full, its width doubled, and every series on it
    /// must be folded once.
    pub fn close(&mut self) -> bool {
        self.filled += 1;
        if self.filled < self.capacity {
            return false;
        }
        self.filled /= 2;
        self.width_ns = self.width_ns.saturating_mul(2);
        true
    }

    /// Begin of each closed bucket and of the open one, counted from the origin.
    pub fn begins_ns(&self) -> Vec<u64> {
        (0..=self.filled as u64)
            .map(|k| k * self.width_ns)
            .collect()
    }
}

/// Folds samples taken at the ends of buckets: of each pair the later one stays.
pub fn fold_samples(samples: &mut Vec<u64>) {
    let half = samples.len() / 2;
    for i in 0..half {
        samples[i] = samples[2 * i + 1];
    }
    samples.truncate(half);
}

/// Folds buckets: each pair is merged into one.
pub fn fold_buckets<B: Copy>(buckets: &mut Vec<B>, merge: impl Fn(B, B) -> B) {
    let half = buckets.len() / 2;
    for i in 0..half {
        buckets[i] = merge(buckets[2 * i], buckets[2 * i + 1]);
    }
    buckets.truncate(half);
}

/// Depth of one CPU's runqueue over time: time-weighted mean and maximum per bucket.
#[derive(Clone, Debug, Default)]
pub struct Depth {
    since_ns: u64,
    level: u32,
    /// Of the open bucket, as in [`DepthBucket`].
    max: u32,
    area: u64,
    pub closed: Vec<DepthBucket>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DepthBucket {
    /// Integral of the depth over the bucket: tasks x ns.
    pub area: u64,
    pub max: u32,
}

impl Depth {
    fn settle(&mut self, now_ns: u64, origin_ns: u64) {
        let span_ns = now_ns.saturating_sub(self.since_ns.max(origin_ns));
        self.area += span_ns * u64::from(self.level);
        if span_ns > 0 {
            self.max = self.max.max(self.level);
        }
        self.since_ns = now_ns;
    }

    /// The depth changes by `delta`. A level that lasts 0 ns never was.
    pub fn add(&mut self, now_ns: u64, origin_ns: u64, delta: i32) {
        self.settle(now_ns, origin_ns);
        self.level = self.level.saturating_add_signed(delta);
    }

    pub fn close(&mut self, boundary_ns: u64, origin_ns: u64) {
        self.settle(boundary_ns, origin_ns);
        let (area, max) = (
            std::mem::take(&mut self.area),
            std::mem::take(&mut self.max),
        );
        self.closed.push(DepthBucket { area, max });
    }

    pub fn fold(&mut self) {
        fold_buckets(&mut self.closed, |a, b| DepthBucket {
            area: a.area + b.area,
            max: a.max.max(b.max),
        });
    }
}

/// Values over time: smallest, mean and largest per bucket.
#[derive(Clone, Debug)]
pub struct Values {
    open: ValueBucket,
    pub closed: Vec<ValueBucket>,
}

/// `count == 0`: no values; min, max and last are meaningless.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueBucket {
    pub count: u64,
    pub sum: i128,
    pub min: i64,
    pub max: i64,
    pub last: i64,
}

impl ValueBucket {
    pub fn add(&mut self, value: i64) {
        *self = self.merge(ValueBucket {
            count: 1,
            sum: value.into(),
            min: value,
            max: value,
            last: value,
        });
    }

    pub fn merge(self, other: Self) -> Self {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            _ => ValueBucket {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
                last: other.last,
            },
        }
    }

    /// Rounded towards zero; `None` without values.
    pub fn mean(&self) -> Option<i64> {
        (self.count > 0).then(|| (self.sum / i128::from(self.count)) as i64)
    }
}

impl Values {
    /// A series that joins a grid of which `filled` buckets are closed already.
    pub fn new(filled: usize) -> Self {
        Values {
            open: ValueBucket::default(),
            closed: vec![ValueBucket::default(); filled],
        }
    }

    pub fn add(&mut self, value: i64) {
        self.open.add(value);
    }

    pub fn close(&mut self) {
        self.closed.push(std::mem::take(&mut self.open));
    }

    pub fn fold(&mut self) {
        fold_buckets(&mut self.closed, ValueBucket::merge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_grid_doubles_its_width_and_keeps_its_span() {
        let mut grid = Grid::new(7, 4);
        let mut samples = Vec::new();
        for k in 1..=6u64 {
            samples.push(grid.boundary_ns() - 7);
            if grid.close() {
                fold_samples(&mut samples);
            }
            if k == 4 {
                assert_eq!(grid.width_ns, 2 * FIRST_WIDTH_NS);
                assert_eq!(samples, [2_000_000, 4_000_000]);
            }
        }
        // Boundaries 6 and 8 ms came after the fold; at 8 ms the grid is full again.
        assert_eq!(samples, [4_000_000, 8_000_000]);
        assert_eq!((grid.filled, grid.width_ns), (2, 4_000_000));
    }

    #[test]
    fn depth_is_weighted_by_time() {
        let mut depth = Depth::default();
        depth.add(0, 10, 3); // before the origin at 10: level 3 from 10 on
        depth.add(14, 10, -2);
        depth.add(15, 10, 5);
        depth.add(15, 10, -5); // lasts 0 ns
        depth.close(20, 10);
        assert_eq!(depth.closed[0].area, 4 * 3 + 6);
        assert_eq!(depth.closed[0].max, 3);
    }

    #[test]
    fn values_merge_to_what_one_bucket_would_hold() {
        let mut series = Values::new(0);
        for pair in [[4, -2], [10, 0]] {
            pair.into_iter().for_each(|v| series.add(v));
            series.close();
        }
        series.fold();
        let all = series.closed[0];
        assert_eq!((all.min, all.max, all.last, all.count), (-2, 10, 0, 4));
        assert_eq!(all.mean(), Some(3));
        assert_eq!(ValueBucket::default().mean(), None);
    }
}
