// SPDX-License-Identifier: GPL-2.0-or-later
//! An SQLite database in memory: its settings, the tables of runs, and functions of our own.

use std::sync::Arc;

use arrow_schema::{DataType, Field};
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, OpenFlags};
use tiltyard_tables::schema;

/// Intermediate results are no files either, tables are filled once and never rolled back, and large pages take fewer steps
/// from row to row.
const IN_MEMORY: &str =
    "PRAGMA page_size = 32768; PRAGMA temp_store = MEMORY; PRAGMA journal_mode = OFF;";

/// Columns by which others are joined: SQLite then looks a thread up, where it would else make an index of all slices. All
/// numbers are declared as such: with only the keys declared, some joins took seven times as long.
pub const KEYS: [(&str, &str); 2] = [("thread", "utid"), ("counter_track", "id")];

/// Functions of chance and of the clock: measures must give the same numbers tomorrow.
const NOT_REPEATABLE: [&str; 12] = [
    "random",
    "randomblob",
    "date",
    "time",
    "datetime",
    "julianday",
    "unixepoch",
    "strftime",
    "timediff",
    "current_date",
    "current_time",
    "current_timestamp",
];

/// SQLite asks whether to go on after so many steps of its machine, ..
const STEPS_AT_ONCE: i32 = 10_000_000;
/// .. and so often the answer is yes: minutes, where all queries of a run take seconds. The end of a query that has none.
const MOST_TIMES: u32 = 1_000;

/// A connection to an empty database, with functions of our own, for queries that end and can be repeated.
pub fn open() -> rusqlite::Result<Connection> {
    // A connection is used only by its owner and needs no locks.
    let access = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_in_memory_with_flags(access)?;
    connection.execute_batch(IN_MEMORY)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_aggregate_function("median", 1, flags, Median)?;
    connection.create_aggregate_function("interpolate", 3, flags, Interpolate)?;
    connection.authorizer(Some(only_repeatable))?;
    let mut times = 0;
    connection.progress_handler(
        STEPS_AT_ONCE,
        Some(move || {
            times += 1;
            times > MOST_TIMES
        }),
    )?;
    Ok(connection)
}

fn only_repeatable(context: AuthContext) -> Authorization {
    match context.action {
        AuthAction::Function { function_name }
            if NOT_REPEATABLE.contains(&function_name.to_ascii_lowercase().as_str()) =>
        {
            Authorization::Deny
        }
        _ => Authorization::Allow,
    }
}

/// Creates a table of a run.
pub fn create(connection: &Connection, name: &str) -> rusqlite::Result<()> {
    let column = |field: &Arc<Field>| {
        let kind = match field.data_type() {
            _ if KEYS.contains(&(name, field.name())) => " INTEGER PRIMARY KEY",
            DataType::Utf8 => "",
            _ => " INTEGER",
        };
        format!("\"{}\"{kind}", field.name())
    };
    let columns: Vec<String> = schema(name).fields().iter().map(column).collect();
    let columns = columns.join(", ");
    connection.execute_batch(&format!("CREATE TABLE \"{name}\" ({columns})"))
}

/// `median(x)`: NULLs do not count; the mean of the middle two where there is no middle.
struct Median;

impl Aggregate<Vec<f64>, Option<f64>> for Median {
    fn init(&self, _: &mut Context) -> rusqlite::Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context, values: &mut Vec<f64>) -> rusqlite::Result<()> {
        values.extend(context.get::<Option<f64>>(0)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context, values: Option<Vec<f64>>) -> rusqlite::Result<Option<f64>> {
        let interval = tiltyard_measure::median_interval(&values.unwrap_or_default());
        Ok(interval.map(|i| i.median))
    }
}

/// `interpolate(x, y, at)`: the value at `at` of the curve through the points (x, y), straight between neighbours; NULL
/// outside of them.
struct Interpolate;

#[derive(Default)]
struct Curve {
    points: Vec<(f64, f64)>,
    at: f64,
}

impl Aggregate<Curve, Option<f64>> for Interpolate {
    fn init(&self, _: &mut Context) -> rusqlite::Result<Curve> {
        Ok(Curve::default())
    }

    fn step(&self, context: &mut Context, curve: &mut Curve) -> rusqlite::Result<()> {
        curve.points.push((context.get(0)?, context.get(1)?));
        curve.at = context.get(2)?;
        Ok(())
    }

    fn finalize(&self, _: &mut Context, curve: Option<Curve>) -> rusqlite::Result<Option<f64>> {
        let Curve { mut points, at } = curve.unwrap_or_default();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let after = points.partition_point(|p| p.0 < at);
        let value = match (after.checked_sub(1).map(|b| points[b]), points.get(after)) {
            (_, Some(&(x, y))) if x == at => Some(y),
            (Some((x0, y0)), Some(&(x1, y1))) => Some(y0 + (at - x0) / (x1 - x0) * (y1 - y0)),
            _ => None,
        };
        Ok(value)
    }
}
