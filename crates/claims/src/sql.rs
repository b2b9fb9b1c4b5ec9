// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures as SQL: the tables of a run in SQLite, in memory.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde::{Deserialize, Serialize};
use tiltyard_tables::{NAMES, Table, is_of_events, schema};

use crate::absent::MayLack;
use crate::common;
use crate::connection;
use crate::reads::Reads;

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

/// Why a query has no result.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SqlError {
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("no result after minutes: the query may have no end")]
    Endless,
    #[error("table {name}: {source}")]
    Table {
        name: String,
        source: rusqlite::Error,
    },
    #[error("{0} columns, where a measure is one number")]
    MeasureColumns(usize),
    #[error("several rows, where a measure is one number")]
    MeasureRows,
    #[error("not a finite number")]
    NotFinite,
    #[error("{columns} columns, where a figure of this kind needs {needed}")]
    FigureColumns { columns: usize, needed: usize },
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> SqlError {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OperationInterrupted) => SqlError::Endless,
            _ => SqlError::Sqlite(error),
        }
    }
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

/// Rows that one statement inserts. A statement for each row takes 8 % more CPU time over all claims.
const ROWS_AT_ONCE: usize = 50;

impl Database {
    /// The tables of a run that are in `reads`. Tables of events only if events were recorded: an empty table would give an
    /// answer instead of an error. Columns that are not in `reads` are NULL.
    pub fn of_run<'a>(
        tables: impl IntoIterator<Item = &'a Table, IntoIter: Clone>,
        events: bool,
        reads: &Reads,
    ) -> Result<Database, SqlError> {
        let tables = tables.into_iter();
        let database = Database(connection::open()?);
        for (name, columns) in &reads.0 {
            if is_of_events(name) && !events {
                continue;
            }
            let load = || {
                connection::create(&database.0, name)?;
                let own = tables.clone().filter(|table| table.name == name);
                database.load(name, columns, own.flat_map(|table| &table.batches))
            };
            load().map_err(|source| SqlError::Table {
                name: name.clone(),
                source,
            })?;
        }
        // The planner needs to know how many rows there are.
        database.0.execute_batch("ANALYZE")?;
        Ok(database)
    }

    /// The table `measure`, and `scheduler`: lines of source by label.
    pub fn of_measures(
        rows: &[&Measured],
        schedulers: &BTreeMap<&str, u64>,
    ) -> Result<Database, SqlError> {
        let database = Database(connection::open()?);
        let create = "CREATE TABLE measure (run TEXT, scheduler TEXT, seed INT, name TEXT, of TEXT, value REAL)";
        database.0.execute_batch(create)?;
        let mut insert = database
            .0
            .prepare("INSERT INTO measure VALUES (?, ?, ?, ?, ?, ?)")?;
        for row in rows {
            insert.execute((
                row.run,
                row.scheduler,
                row.seed as i64,
                row.name,
                row.of,
                row.value,
            ))?;
        }
        drop(insert);
        database
            .0
            .execute_batch("CREATE TABLE scheduler (label TEXT, lines INT)")?;
        for (label, lines) in schedulers {
            database.0.execute(
                "INSERT INTO scheduler VALUES (?, ?)",
                (label, *lines as i64),
            )?;
        }
        Ok(database)
    }

    /// Fills these columns of a table.
    fn load<'a>(
        &self,
        name: &str,
        columns: &BTreeSet<String>,
        batches: impl Iterator<Item = &'a RecordBatch>,
    ) -> rusqlite::Result<()> {
        let schema = schema(name);
        let counts = counts(&schema);
        // SQLite would number a key that is not filled.
        let is_read = |column: &usize| {
            let column = schema.field(*column).name().as_str();
            columns.contains(column) || connection::KEYS.contains(&(name, column))
        };
        let mut filled: Vec<usize> = (0..schema.fields().len()).filter(is_read).collect();
        if filled.is_empty() {
            filled.push(0); // rows that are only counted
        }
        let names = quoted(filled.iter().map(|column| schema.field(*column).name()));
        let marks = format!("({})", vec!["?"; filled.len()].join(", "));
        let insert = |rows: usize| {
            let marks = vec![marks.as_str(); rows].join(", ");
            let sql = format!("INSERT INTO \"{name}\" ({names}) VALUES {marks}");
            self.0.prepare(&sql)
        };
        let value = |batch: &'a RecordBatch, row: usize, column: usize| {
            let of_nothing = counts[column].map(|count| cell(batch, count, row));
            ToSqlOutput::Borrowed(match of_nothing {
                Some(ValueRef::Integer(0)) => ValueRef::Null,
                _ => cell(batch, column, row),
            })
        };
        self.0.execute_batch("BEGIN")?;
        let (mut one, mut many) = (insert(1)?, insert(ROWS_AT_ONCE)?);
        for batch in batches {
            let rows: Vec<usize> = (0..batch.num_rows()).collect();
            let columns = |row: usize| filled.iter().map(move |column| value(batch, row, *column));
            for rows in rows.chunks(ROWS_AT_ONCE) {
                if rows.len() == ROWS_AT_ONCE {
                    many.execute(params_from_iter(rows.iter().flat_map(|row| columns(*row))))?;
                    continue;
                }
                for row in rows {
                    one.execute(params_from_iter(columns(*row)))?;
                }
            }
        }
        self.0.execute_batch("COMMIT")
    }

    /// Evaluates what several of these queries have in common, once. Returns what to ask instead of each: it gives
    /// the same, or fails where the query does.
    pub fn share(&self, queries: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let rewritten = common::rewrite(queries);
        let hides = |name: &str| NAMES.iter().any(|table| table.eq_ignore_ascii_case(name));
        let create = |(name, sql): &(String, String)| {
            let create = format!("CREATE TEMP TABLE \"{name}\" AS {sql}; ANALYZE temp.\"{name}\"");
            !hides(name) && self.0.execute_batch(&create).is_ok()
        };
        match rewritten.tables.iter().all(create) {
            true => rewritten.queries,
            false => queries.clone(),
        }
    }

    /// The one number that a query gives; `None` for NULL, or for no row.
    pub fn number(&self, sql: &str) -> Result<Option<f64>, SqlError> {
        let mut statement = self.0.prepare(sql)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| row.get(0))?;
        let rows: Vec<Value> = rows.take(2).collect::<rusqlite::Result<_>>()?;
        match rows.as_slice() {
            _ if columns != 1 => Err(SqlError::MeasureColumns(columns)),
            [] | [Value::Null] => Ok(None),
            [Value::Integer(number)] => Ok(Some(*number as f64)),
            [Value::Real(number)] if number.is_finite() => Ok(Some(*number)),
            [_] => Err(SqlError::NotFinite),
            _ => Err(SqlError::MeasureRows),
        }
    }

    /// What a query gives of a run that has none of a kind: its tables are there and have no rows. `None` if it does not read
    /// them.
    pub fn number_without(&self, kind: &MayLack, sql: &str) -> Result<Option<f64>, SqlError> {
        let reads = Reads::of([sql].into_iter())?;
        let is_read = |table: &&&str| reads.has_table(table) && self.has(table);
        let tables: Vec<&str> = kind.tables.iter().filter(is_read).copied().collect();
        if tables.is_empty() {
            return Ok(None);
        }
        let each = |word: &dyn Fn(&&str) -> String| -> String { tables.iter().map(word).collect() };
        let run = |script: String| self.0.execute_batch(&script);
        // Temporary tables hide those of the same name.
        run(each(&|table| {
            format!("CREATE TEMP TABLE \"{table}\" AS SELECT * FROM main.\"{table}\" WHERE 0;")
        }))?;
        let number = self.number(sql);
        run(each(&|table| format!("DROP TABLE temp.\"{table}\";")))?;
        Ok(number.unwrap_or_default())
    }

    fn has(&self, table: &str) -> bool {
        let sql = "SELECT 1 FROM main.sqlite_schema WHERE name = ?";
        self.0.query_row(sql, [table], |_| Ok(())).is_ok()
    }

    /// The points of a figure: rows `series, x, y`.
    pub fn points(&self, sql: &str) -> Result<Vec<Point>, SqlError> {
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
    pub fn bars(&self, sql: &str) -> Result<Vec<Point>, SqlError> {
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
        needed: usize,
        read: impl FnMut(&rusqlite::Row) -> rusqlite::Result<Point>,
    ) -> Result<Vec<Point>, SqlError> {
        let mut statement = self.0.prepare(sql)?;
        let columns = statement.column_count();
        if columns != needed {
            return Err(SqlError::FigureColumns { columns, needed });
        }
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// For each column that describes latencies, the column that counts them: without any, they have no mean and no maximum,
/// where the tables have zeros.
fn counts(schema: &Schema) -> Vec<Option<usize>> {
    const FIGURES: [&str; 6] = ["mean_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    let count = |name: &String| {
        let of = FIGURES
            .iter()
            .find_map(|figure| name.strip_suffix(figure))?;
        schema.index_of(&format!("{of}count")).ok()
    };
    schema.fields().iter().map(|f| count(f.name())).collect()
}

fn cell(batch: &RecordBatch, column: usize, row: usize) -> ValueRef<'_> {
    let array = batch.column(column);
    if array.is_null(row) {
        return ValueRef::Null;
    }
    match array.data_type() {
        DataType::Int64 => ValueRef::Integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => ValueRef::Integer(array.as_primitive::<UInt64Type>().value(row) as i64),
        DataType::Int32 => ValueRef::Integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::UInt32 => ValueRef::Integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::Float64 => ValueRef::Real(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => ValueRef::Integer(array.as_boolean().value(row).into()),
        DataType::Utf8 => ValueRef::Text(array.as_string::<i32>().value(row).as_bytes()),
        other => unreachable!("no table has a column of {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table `measure` whose values are 1, 2, 9 at seeds 1, 2, 4.
    fn database() -> Database {
        let row = |seed: u64, value: f64| Measured {
            run: "r",
            scheduler: "s",
            seed,
            name: "n",
            of: "",
            value: Some(value),
        };
        let rows = [row(1, 1.0), row(2, 2.0), row(4, 9.0)];
        Database::of_measures(&rows.iter().collect::<Vec<_>>(), &BTreeMap::new()).unwrap()
    }

    #[test]
    fn functions_of_our_own() {
        let database = database();
        let ask = |sql: &str| {
            database
                .number(&format!("SELECT {sql} FROM measure"))
                .unwrap()
        };
        assert_eq!(ask("median(value)"), Some(2.0));
        assert_eq!(ask("median(NULL)"), None);
        assert_eq!(ask("median(CASE WHEN seed < 4 THEN value END)"), Some(1.5));
        assert_eq!(ask("interpolate(seed, value, 3)"), Some(5.5));
        assert_eq!(ask("interpolate(seed, value, 4)"), Some(9.0));
        assert_eq!(ask("interpolate(seed, value, 1)"), Some(1.0));
        assert_eq!(ask("interpolate(seed, value, 5)"), None);
    }

    /// Where nothing was measured, the tables have zeros, which would pass any upper bound.
    #[test]
    fn a_latency_of_nothing_has_no_value() {
        let mut recorder = tiltyard_measure::Recorder::new(tiltyard_measure::RecorderSpec {
            nr_cpus: 1,
            origin_ns: 0,
            starvation_ns: 1000,
        });
        let mut stream = tiltyard_measure::testing::Stream::new();
        stream.task(0, 1, "hog").wake_new(0, 0, 1).start(0, 0, 1);
        stream.play(&mut recorder);
        let tables = tiltyard_tables::summary_tables(0, &recorder.finish(100));
        let ask = |sql: &str| {
            let reads = Reads::of([sql].into_iter()).unwrap();
            let database = Database::of_run(&tables, false, &reads).unwrap();
            database.number(sql).unwrap()
        };
        assert_eq!(ask("SELECT wakeup_count FROM app"), Some(0.0));
        assert_eq!(ask("SELECT max(wakeup_p99_ns) FROM app"), None);
        assert_eq!(ask("SELECT max(wakeup_max_ns) FROM app"), None);
    }

    #[test]
    fn a_kind_that_is_read_is_taken_away() {
        let empty = || Database::of_run(&[], true, &Reads::all_tables()).unwrap();
        let database = empty();
        let fill = "INSERT INTO task (name, runtime_ns) VALUES ('app', 5); INSERT INTO wakeup (ts) VALUES (1)";
        database.0.execute_batch(fill).unwrap();
        let [tasks, wakeups] = ["tasks", "wakeups"].map(|name| {
            let mut kinds = crate::absent::KINDS.iter();
            kinds.find(|kind| kind.name == name).unwrap()
        });
        let guarded =
            "SELECT CASE WHEN count(*) > 0 THEN (SELECT count(*) FROM wakeup) END FROM task";
        assert_eq!(database.number(guarded), Ok(Some(1.0)));
        assert_eq!(database.number_without(tasks, guarded), Ok(None));
        assert_eq!(database.number_without(wakeups, guarded), Ok(Some(0.0)));
        // Neither a text nor a part of the query is a table.
        for sql in [
            "SELECT count(*) + 1 FROM wakeup WHERE 'task' = 'app'",
            "WITH task AS (SELECT 7 AS app) SELECT max(app) FROM task",
        ] {
            assert!(database.number(sql).unwrap().is_some());
            assert_eq!(database.number_without(tasks, sql), Ok(None), "{sql}");
        }
        assert_eq!(
            database.number("SELECT max(runtime_ns) FROM task"),
            Ok(Some(5.0))
        );
    }

    #[test]
    fn a_measure_gives_the_same_number_tomorrow() {
        let database = database();
        for function in [
            "random()",
            "abs(RANDOM())",
            "unixepoch()",
            "strftime('%s', 'now')",
            "current_timestamp",
        ] {
            let error = database.number(&format!("SELECT {function}")).unwrap_err();
            assert!(
                error.to_string().contains("not authorized"),
                "{function}: {error}"
            );
        }
        assert_eq!(database.number("SELECT abs(-1)"), Ok(Some(1.0)));
    }

    #[test]
    fn a_measure_is_one_number() {
        let database = database();
        assert_eq!(database.number("SELECT 1 WHERE 0"), Ok(None));
        assert_eq!(database.number("SELECT 7"), Ok(Some(7.0)));
        for (sql, expected) in [
            (
                "SELECT value FROM measure",
                "several rows, where a measure is one number",
            ),
            ("SELECT 1, 2", "2 columns, where a measure is one number"),
            ("SELECT 'x'", "not a finite number"),
            ("SELECT 9e999", "not a finite number"),
        ] {
            let error = database.number(sql).unwrap_err();
            assert_eq!(error.to_string(), expected, "{sql}");
        }
        assert!(
            database
                .number("SELECT x FROM sched_slice")
                .unwrap_err()
                .to_string()
                .contains("no such table: sched_slice")
        );
    }
}
