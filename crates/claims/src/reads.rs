// SPDX-License-Identifier: GPL-2.0-or-later
//! Which tables and columns queries read: nothing else has to be loaded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tiltyard_tables::{NAMES, schema};

use crate::connection;

/// What queries read of a run's tables: columns by table.
#[derive(Default)]
pub struct Reads(pub(crate) BTreeMap<String, BTreeSet<String>>);

impl Reads {
    /// All tables, without columns: their rows can only be counted.
    pub fn all_tables() -> Reads {
        let names = NAMES.iter();
        Reads(names.map(|n| (n.to_string(), BTreeSet::new())).collect())
    }

    /// What these queries read. For a query that SQLite rejects: all tables, so that its message is about the query.
    pub fn of<'a>(queries: impl Iterator<Item = &'a str>) -> rusqlite::Result<Reads> {
        // One reader for all runs: every seed of every run has the same queries.
        static READER: Mutex<Option<Reader>> = Mutex::new(None);
        let mut shared = READER.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = match shared.take() {
            Some(reader) => reader,
            None => Reader::new()?,
        };
        let reader = shared.insert(reader);
        let mut all = Reads::default();
        let mut joined = BTreeSet::new();
        for sql in queries {
            let reads = reader.of(sql);
            for (table, columns) in &reads.0 {
                let known = all.0.entry(table.clone()).or_default();
                known.extend(columns.iter().cloned());
            }
            joined.extend(join_columns(sql));
        }
        for columns in all.0.values_mut() {
            columns.extend(joined.iter().cloned());
        }
        Ok(all)
    }

    pub fn has_table(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Asks SQLite itself, on empty tables, what a query reads; once for each query.
struct Reader {
    connection: Connection,
    /// What the authorizer has seen since it was last asked.
    seen: Arc<Mutex<Reads>>,
    known: HashMap<String, Arc<Reads>>,
}

impl Reader {
    fn new() -> rusqlite::Result<Reader> {
        let seen = Arc::new(Mutex::new(Reads::default()));
        let reads = seen.clone();
        let see = move |context: AuthContext| {
            if let AuthAction::Read {
                table_name,
                column_name,
            } = context.action
                && NAMES.contains(&table_name)
                && let Ok(mut reads) = reads.lock()
            {
                let columns = reads.0.entry(table_name.to_owned()).or_default();
                // Empty: SQLite reports that it opens the table, and no column.
                columns.extend(
                    Some(column_name)
                        .filter(|n| !n.is_empty())
                        .map(str::to_owned),
                );
            }
            Authorization::Allow
        };
        let mut connection = connection::open()?;
        let create = |name| connection::create(&connection, name);
        NAMES.into_iter().try_for_each(create)?;
        connection.authorizer(Some(see))?;
        Ok(Reader {
            connection,
            seen,
            known: HashMap::new(),
        })
    }

    fn of(&mut self, sql: &str) -> Arc<Reads> {
        if let Some(known) = self.known.get(sql) {
            return known.clone();
        }
        let opened = opened(&self.connection, sql);
        let mut reads = self
            .seen
            .lock()
            .map(|mut seen| std::mem::take(&mut *seen))
            .unwrap_or_default();
        match opened {
            // A table of which nothing but columns of USING is read is opened, but no read of it is reported.
            Ok(tables) => tables.into_iter().for_each(|table| {
                reads.0.entry(table).or_default();
            }),
            Err(_) => reads = Reads::all_tables(),
        }
        let reads = Arc::new(reads);
        self.known.insert(sql.to_owned(), reads.clone());
        reads
    }
}

/// The tables that a query opens.
fn opened(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let name = "SELECT name FROM sqlite_schema WHERE rootpage = ?";
    let mut name = connection.prepare(name)?;
    let mut explained = connection.prepare(&format!("EXPLAIN {sql}"))?;
    let operations = explained.query_map([], |row| {
        Ok((row.get::<_, String>("opcode")?, row.get::<_, i64>("p2")?))
    })?;
    let mut tables = Vec::new();
    for operation in operations {
        let (opcode, page) = operation?;
        if opcode == "OpenRead" {
            tables.push(name.query_row([page], |row| row.get(0))?);
        }
    }
    Ok(tables)
}

/// Columns of `USING (...)`, of which SQLite does not report that they are read; of a natural join, all.
fn join_columns(sql: &str) -> BTreeSet<String> {
    let sql = sql.to_lowercase();
    let lists = sql.split("using").skip(1).filter_map(|rest| {
        let list = rest.trim_start().strip_prefix('(')?;
        Some(list.split(')').next().unwrap_or_default())
    });
    let names = lists.flat_map(|list| list.split(','));
    let mut names: BTreeSet<String> = names
        .map(|name| name.trim().trim_matches('"').to_owned())
        .collect();
    if sql.contains("natural") {
        let schemas = NAMES.iter().map(|name| schema(name));
        let fields = schemas.flat_map(|schema| schema.fields().to_vec());
        names.extend(fields.map(|field| field.name().clone()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_those_of_tables_not_of_names() {
        let reads = |sql: &str| {
            let Reads(reads) = Reads::of([sql].into_iter()).unwrap();
            let one = |(table, columns): (String, BTreeSet<String>)| {
                let columns: Vec<String> = columns.into_iter().collect();
                format!("{table}({})", columns.join(" "))
            };
            reads.into_iter().map(one).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            reads(
                "SELECT max(DUR) AS wakeup FROM Sched_Slice s JOIN thread USING (utid) WHERE s.ts > 1"
            ),
            "sched_slice(dur ts utid) thread(utid)"
        );
        let natural = reads("SELECT max(dur) FROM sched_slice NATURAL JOIN thread");
        assert!(natural.contains("name"), "{natural}");
        assert_eq!(
            reads("WITH w AS (SELECT * FROM wakeup) SELECT ts, 'task' FROM w"),
            format!("wakeup({})", sorted_columns("wakeup"))
        );
        assert_eq!(reads("SELECT count(*) FROM wakeup"), "wakeup()");
        assert_eq!(
            reads(
                "WITH w AS (SELECT utid FROM wakeup) SELECT count(*) FROM w JOIN thread USING (utid)"
            ),
            "thread(utid) wakeup(utid)"
        );
        assert_eq!(reads("SELECT nonsense FROM nowhere"), reads("SELECT"));
        assert_eq!(reads("SELECT").split(' ').count(), NAMES.len());
    }

    fn sorted_columns(table: &str) -> String {
        let schema = schema(table);
        let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        names.sort_unstable();
        names.join(" ")
    }
}
