// SPDX-License-Identifier: GPL-2.0-or-later
//! A scheduler's own figures over time.

use crate::grid::{Grid, ValueBucket, Values};
use crate::summary::{ProbeSeries, ProbeSummary};

/// Single tasks of an app that get a series of their own, and single CPUs in all: enough to see single
/// ones beside the app's range, few enough for ten seeds in one report.
pub(crate) const TASKS_PER_APP: u32 = 8;
const MAX_CPUS: u32 = 64;

#[derive(Clone, Debug)]
pub struct Probe {
    pub name: String,
    pub per_cpu: bool,
    pub kept: bool,
    /// By app, on the fine grid.
    apps: Vec<Option<Track>>,
    /// By task slot or CPU, on the coarse grid, with the name of the key.
    keys: Vec<KeyTrack>,
    /// Index into `keys` by task slot or CPU.
    key_index: Vec<u32>,
    /// Keys with a series, by app.
    per_app: Vec<u32>,
    tasks_per_app: u32,
}

const UNSEEN: u32 = u32::MAX;
const WITHOUT_SERIES: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
struct Track {
    count: u64,
    sum: i128,
    first: i64,
    last: i64,
    min: i64,
    max: i64,
    values: Values,
}

#[derive(Clone, Debug)]
struct KeyTrack {
    name: u32,
    app: Option<u32>,
    track: Track,
}

impl Track {
    fn new(first: i64, filled: usize) -> Self {
        Track {
            count: 0,
            sum: 0,
            first,
            last: first,
            min: first,
            max: first,
            values: Values::new(filled),
        }
    }

    fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.values.add(value);
    }

    /// `holds`: one source has all values, so an empty bucket has the last value.
    fn summary(&self, name: String, app: String, grid: &Grid, holds: bool) -> ProbeSeries {
        let mut held = ValueBucket::default();
        let closed = self.values.closed.iter().map(|&bucket| {
            let shown = if bucket.count == 0 { held } else { bucket };
            if holds && bucket.count > 0 {
                held = ValueBucket::default();
                held.add(bucket.last);
            }
            shown
        });
        let buckets: Vec<ValueBucket> = closed.collect();
        ProbeSeries {
            name,
            app,
            count: self.count,
            first: self.first,
            last: self.last,
            min: self.min,
            max: self.max,
            mean: (self.sum / i128::from(self.count.max(1))) as i64,
            width_ns: grid.width_ns,
            bucket_min: buckets
                .iter()
                .map(|b| (b.count > 0).then_some(b.min))
                .collect(),
            bucket_mean: buckets.iter().map(|b| b.mean()).collect(),
            bucket_max: buckets
                .iter()
                .map(|b| (b.count > 0).then_some(b.max))
                .collect(),
        }
    }
}

impl Probe {
    /// `tasks_per_app`: how many tasks of an app get series of their own.
    pub fn new(name: &str, per_cpu: bool, tasks_per_app: u32, kept: bool) -> Self {
        Probe {
            name: name.to_owned(),
            per_cpu,
            kept,
            apps: Vec::new(),
            keys: Vec::new(),
            key_index: Vec::new(),
            per_app: Vec::new(),
            tasks_per_app,
        }
    }

    /// `index`: task slot or CPU; `name`: tid or CPU; `app`: of the task; `fine`, `coarse`: closed
    /// buckets of the two grids.
    pub fn add(
        &mut self,
        index: usize,
        name: u32,
        app: Option<u32>,
        value: i64,
        (fine, coarse): (usize, usize),
    ) {
        if let Some(app) = app {
            let app = app as usize;
            if self.apps.len() <= app {
                self.apps.resize(app + 1, None);
            }
            self.apps[app]
                .get_or_insert_with(|| Track::new(value, fine))
                .add(value);
        }
        if self.key_index.len() <= index {
            self.key_index.resize(index + 1, UNSEEN);
        }
        if self.key_index[index] == UNSEEN {
            self.key_index[index] = self.open_key(name, app, value, coarse);
        }
        let key = self.key_index[index];
        if key != WITHOUT_SERIES {
            self.keys[key as usize].track.add(value);
        }
    }

    fn open_key(&mut self, name: u32, app: Option<u32>, value: i64, filled: usize) -> u32 {
        let (group, limit) = match app {
            Some(app) => (app as usize, self.tasks_per_app),
            None => (0, MAX_CPUS),
        };
        if self.per_app.len() <= group {
            self.per_app.resize(group + 1, 0);
        }
        if self.per_app[group] == limit {
            return WITHOUT_SERIES;
        }
        self.per_app[group] += 1;
        let track = Track::new(value, filled);
        self.keys.push(KeyTrack { name, app, track });
        self.keys.len() as u32 - 1
    }

    pub fn close_fine(&mut self, fold: bool) {
        for track in self.apps.iter_mut().flatten() {
            close(&mut track.values, fold);
        }
    }

    pub fn close_coarse(&mut self, fold: bool) {
        for key in &mut self.keys {
            close(&mut key.track.values, fold);
        }
    }

    /// After the open buckets were closed. `app_name` names an app by its index.
    pub fn summary(
        &self,
        fine: &Grid,
        coarse: &Grid,
        app_name: impl Fn(u32) -> String,
    ) -> ProbeSummary {
        let apps = self.apps.iter().enumerate().filter_map(|(app, track)| {
            let name = app_name(app as u32);
            Some(track.as_ref()?.summary(name.clone(), name, fine, false))
        });
        let keys = self.keys.iter().map(|key| {
            let app = key.app.map(&app_name).unwrap_or_default();
            key.track.summary(key.name.to_string(), app, coarse, true)
        });
        ProbeSummary {
            probe: self.name.clone(),
            per_cpu: self.per_cpu,
            apps: apps.collect(),
            keys: keys.collect(),
        }
    }
}

fn close(values: &mut Values, fold: bool) {
    values.close();
    if fold {
        values.fold();
    }
}
