// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures as SQL: the tables of a run in SQLite, in memory.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde::{Deserialize, Serialize};
use tiltyard_tables::{NAMES, Table, is_of_events, schema};

/// One point of a figure: a curve's, or a bar with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub series: String,
    /// Where a bar stands; empty for curves.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    #[serde(default)]
    pub x: f64,
    pub y: f64,
    /// Interval of a bar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[f64; 2]>,
}

/// Tables that can be asked.
pub struct Database(Connection);

/// What runs of one seed gave, for derived measures: one row.
pub struct Measured<'a> {
    pub run: &'a str,
    pub scheduler: &'a str,
    pub seed: u64,
    pub name: &'a str,
    /// The value of `vary`, or empty.
    pub of: &'a str,
    pub value: Option<f64>,
}

impl Database {
    /// A run's tables; those of events only if they were recorded: an empty table would answer instead of failing.
    pub fn of_run(tables: &[Table], events: bool) -> Result<Database, String> {
        let database = Database::empty()?;
        let mut names = NAMES.to_vec();
        names.retain(|name| events || !is_of_events(name));
        for name in names {
            let batches = tables.iter().filter(|t| t.name == name).flat_map(|t| &t.batches);
            database.load(name, batches).map_err(|e| format!("table {name}: {e}"))?;
        }
        Ok(database)
    }

    /// The table `measure`.
    pub fn of_measures(rows: &[&Measured]) -> Result<Database, String> {
        let database = Database::empty()?;
        let fill = || -> rusqlite::Result<()> {
            let create = "CREATE TABLE measure (run TEXT, scheduler TEXT, seed INT, name TEXT, of TEXT, value REAL)";
            database.0.execute_batch(create)?;
            let mut insert = database.0.prepare("INSERT INTO measure VALUES (?, ?, ?, ?, ?, ?)")?;
            for row in rows {
                insert.execute((row.run, row.scheduler, row.seed as i64, row.name, row.of, row.value))?;
            }
            Ok(())
        };
        fill().map_err(|e| e.to_string())?;
        Ok(database)
    }

    fn empty() -> Result<Database, String> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_in_memory()?;
            let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
            connection.create_aggregate_function("median", 1, flags, Median)?;
            Ok(connection)
        };
        open().map(Database).map_err(|e| e.to_string())
    }

    fn load<'a>(
        &self,
        name: &str,
        batches: impl Iterator<Item = &'a RecordBatch>,
    ) -> rusqlite::Result<()> {
        let schema = schema(name);
        let columns: Vec<String> = schema.fields().iter().map(|f| format!("\"{}\"", f.name())).collect();
        self.0.execute_batch(&format!("BEGIN; CREATE TABLE \"{name}\" ({})", columns.join(", ")))?;
        let marks = vec!["?"; columns.len()].join(", ");
        let mut insert = self.0.prepare(&format!("INSERT INTO \"{name}\" VALUES ({marks})"))?;
        for batch in batches {
            for row in 0..batch.num_rows() {
                insert.execute(params_from_iter((0..columns.len()).map(|c| cell(batch, c, row))))?;
            }
        }
        self.0.execute_batch("COMMIT")
    }

    /// The one number that a query gives; `None` for NULL, or for no row.
    pub fn number(&self, sql: &str) -> Result<Option<f64>, String> {
        let ask = || -> rusqlite::Result<(usize, Vec<Value>)> {
            let mut statement = self.0.prepare(sql)?;
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok((columns, rows.take(2).collect::<rusqlite::Result<_>>()?))
        };
        let (columns, rows) = ask().map_err(|e| e.to_string())?;
        match rows.as_slice() {
            _ if columns != 1 => Err(format!("{columns} columns, where a measure is one number")),
            [] | [Value::Null] => Ok(None),
            [Value::Integer(number)] => Ok(Some(*number as f64)),
            [Value::Real(number)] if number.is_finite() => Ok(Some(*number)),
            [_] => Err("not a finite number".to_owned()),
            _ => Err("several rows, where a measure is one number".to_owned()),
        }
    }

    /// The points of a figure: rows `series, x, y`.
    pub fn points(&self, sql: &str) -> Result<Vec<Point>, String> {
        self.rows(sql, 3, |row| {
            Ok(Point {
                series: row.get(0)?,
                label: String::new(),
                x: row.get(1)?,
                y: row.get(2)?,
                span: None,
            })
        })
    }

    /// The bars of a figure: rows `series, label, y, low, high`.
    pub fn bars(&self, sql: &str) -> Result<Vec<Point>, String> {
        self.rows(sql, 5, |row| {
            Ok(Point {
                series: row.get(0)?,
                label: row.get(1)?,
                x: 0.0,
                y: row.get(2)?,
                span: Some([row.get(3)?, row.get(4)?]),
            })
        })
    }

    fn rows(
        &self,
        sql: &str,
        columns: usize,
        read: impl FnMut(&rusqlite::Row) -> rusqlite::Result<Point>,
    ) -> Result<Vec<Point>, String> {
        let mut statement = self.0.prepare(sql).map_err(|e| e.to_string())?;
        if statement.column_count() != columns {
            return Err(format!("{} columns, where a figure of this kind needs {columns}", statement.column_count()));
        }
        let rows = statement.query_map([], read).map_err(|e| e.to_string())?;
        rows.collect::<rusqlite::Result<_>>().map_err(|e| e.to_string())
    }
}

fn cell(batch: &RecordBatch, column: usize, row: usize) -> Value {
    let array = batch.column(column);
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(row) as i64),
        DataType::Int32 => Value::Integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt32 => Value::Integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Float64 => Value::Real(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::Integer(array.as_boolean().value(row).into()),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        other => unreachable!("no table has a column of {other}"),
    }
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
