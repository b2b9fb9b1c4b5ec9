// SPDX-License-Identifier: GPL-2.0-or-later
//! Definitions (`name AS MATERIALIZED (...)` after WITH) that several queries share: evaluated once for all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::sql::Database;

/// A query that may use the definitions of `shared`, which stand as after WITH.
pub fn sharing(shared: Option<&str>, sql: &str) -> String {
    let Some(shared) = shared else {
        return sql.to_owned();
    };
    let sql = sql.trim_start();
    match sql.strip_prefix("WITH ") {
        Some(own) => {
            let own = own.strip_prefix("RECURSIVE ").unwrap_or(own);
            format!("WITH RECURSIVE {},\n{own}", shared.trim())
        }
        None => format!("WITH RECURSIVE {}\n{sql}", shared.trim()),
    }
}

/// The same queries, as far as they share nothing; else shorter ones that read tables made by
/// [`evaluate_shared`](Database::evaluate_shared).
pub struct Shortened<'a>(BTreeMap<&'a str, String>);

impl Shortened<'_> {
    pub fn query<'s>(&'s self, sql: &'s str) -> &'s str {
        self.0.get(sql).map_or(sql, String::as_str)
    }
}

impl Database {
    /// Makes temporary tables of the materialised definitions that several of these queries need. One that cannot be
    /// evaluated is left to the queries, which then fail with its error.
    pub fn evaluate_shared<'a>(&self, queries: impl Iterator<Item = &'a str>) -> Shortened<'a> {
        let read = |sql| Some((sql, Query::read(sql)?));
        let queries: BTreeMap<&str, Query> = queries.filter_map(read).collect();
        let mut users: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
        for query in queries.values() {
            for needed in query.needed_for(query.body) {
                let whole = query.with_needs(needed);
                let is_kept = query.definitions[needed].materialised;
                *users.entry(whole).or_default() += usize::from(is_kept);
            }
        }
        let mut made: BTreeSet<Vec<&str>> = BTreeSet::new();
        for query in queries.values() {
            for at in 0..query.definitions.len() {
                let whole = query.with_needs(at);
                let is_shared = users.get(&whole).is_some_and(|users| *users > 1);
                if is_shared && !made.contains(&whole) && self.keep(query, at, &made) {
                    made.insert(whole);
                }
            }
        }
        let short = |(sql, query): (&'a str, Query<'a>)| (sql, query.without(&made));
        Shortened(queries.into_iter().map(short).collect())
    }

    /// Whether the table of a definition could be made.
    fn keep(&self, query: &Query, at: usize, made: &BTreeSet<Vec<&str>>) -> bool {
        let name = query.definitions[at].name;
        let whole = Query {
            definitions: query.definitions[..=at].to_vec(),
            body: &format!("SELECT * FROM {name}"),
        };
        let sql = format!("CREATE TEMP TABLE {name} AS {}", whole.without(made));
        !self.has(name) && self.run(&sql).is_ok()
    }
}

/// `WITH RECURSIVE definitions body`.
struct Query<'a> {
    definitions: Vec<Definition<'a>>,
    body: &'a str,
}

#[derive(Clone)]
struct Definition<'a> {
    name: &'a str,
    materialised: bool,
    text: &'a str,
}

impl<'a> Query<'a> {
    /// `None`: it does not begin with definitions, or is not SQL.
    fn read(sql: &'a str) -> Option<Query<'a>> {
        let mut rest = sql.trim_start().strip_prefix("WITH ")?;
        rest = rest.strip_prefix("RECURSIVE ").unwrap_or(rest);
        let mut definitions = Vec::new();
        loop {
            let (definition, after) = Definition::read(rest)?;
            definitions.push(definition);
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => {
                    let body = after;
                    return Some(Query { definitions, body });
                }
            }
        }
    }

    /// The definitions that `text` reads, and those that these read, in their order.
    fn needed_for(&self, text: &str) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut texts = vec![text];
        while let Some(text) = texts.pop() {
            let words: BTreeSet<&str> = words(text).collect();
            for (at, definition) in self.definitions.iter().enumerate() {
                if words.contains(definition.name) && needed.insert(at) {
                    texts.push(definition.text);
                }
            }
        }
        needed
    }

    /// A definition's name, and the texts of all that it reads and its own: the same in two queries means the same result.
    fn with_needs(&self, at: usize) -> Vec<&'a str> {
        let needed = self.needed_for(self.definitions[at].text);
        let texts = needed.iter().map(|at| self.definitions[*at].text);
        std::iter::once(self.definitions[at].name)
            .chain(texts)
            .collect()
    }

    /// The query for a database that has tables in place of the definitions in `made`.
    fn without(&self, made: &BTreeSet<Vec<&str>>) -> String {
        let is_left = |at: &usize| !made.contains(&self.with_needs(*at));
        let left = (0..self.definitions.len()).filter(is_left);
        let left: Vec<&str> = left.map(|at| self.definitions[at].text).collect();
        match left.is_empty() {
            true => self.body.to_owned(),
            false => format!("WITH RECURSIVE {}\n{}", left.join(",\n"), self.body),
        }
    }
}

impl<'a> Definition<'a> {
    /// `name [(columns)] AS [MATERIALIZED] (...)`, and what follows it.
    fn read(sql: &'a str) -> Option<(Definition<'a>, &'a str)> {
        let sql = sql.trim_start();
        let name = words(sql).next().filter(|name| sql.starts_with(name))?;
        let mut rest = sql[name.len()..].trim_start();
        if rest.starts_with('(') {
            rest = rest[bracket(rest)?..].trim_start();
        }
        rest = rest.strip_prefix("AS ")?.trim_start();
        let materialised = rest.strip_prefix("MATERIALIZED ");
        let rest_of_it = materialised.unwrap_or(rest);
        let after = &rest_of_it[bracket(rest_of_it)?..];
        let definition = Definition {
            name,
            materialised: materialised.is_some(),
            text: &sql[..sql.len() - after.len()],
        };
        Some((definition, after.trim_start()))
    }
}

/// Length of the bracketed text at the start of `sql`; brackets in strings do not count.
fn bracket(sql: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, byte) in sql.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (byte == b')').then_some(at + 1);
        }
    }
    None
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    let words = sql.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Reads;

    #[test]
    fn queries_share_definitions() {
        let database = Database::of_run(&[], false, &Reads::default()).unwrap();
        let shared = "one AS (SELECT 1 AS x),\nfive(y) AS (SELECT 1 UNION ALL SELECT y + 1 FROM five WHERE y < 5)\n";
        for (sql, expected) in [
            ("SELECT x FROM one", 1.0),
            (
                "\nWITH two AS (SELECT x + 1 AS x FROM one) SELECT x FROM two",
                2.0,
            ),
            ("SELECT max(y) FROM five", 5.0),
            (
                "WITH RECURSIVE up(z) AS (SELECT x FROM one UNION ALL SELECT z + 1 FROM up WHERE z < 3) SELECT max(z) FROM up",
                3.0,
            ),
        ] {
            let sql = sharing(Some(shared), sql);
            assert_eq!(database.number(&sql), Ok(Some(expected)), "{sql}");
        }
        assert_eq!(sharing(None, "SELECT 1"), "SELECT 1");
    }

    const SHARED: &str = "one AS (SELECT 1 AS x), two(y) AS MATERIALIZED (SELECT x + 1 FROM one WHERE ')' <> '('),
        lost AS MATERIALIZED (SELECT * FROM nowhere), five AS MATERIALIZED (SELECT y + 3 AS z FROM two)";

    /// What is left of these queries, and their numbers, which must be those of the whole queries.
    fn shortened(queries: &[&str]) -> Vec<String> {
        let database = || Database::of_run(&[], false, &Reads::default()).unwrap();
        let queries = queries.iter().map(|sql| sharing(Some(SHARED), sql));
        let queries: Vec<String> = queries.collect();
        let (asked, whole) = (database(), database());
        let shortened = asked.evaluate_shared(queries.iter().map(String::as_str));
        let short = queries.iter().map(|sql| {
            let short = shortened.query(sql);
            assert_eq!(asked.number(short), whole.number(sql), "{short}");
            short.to_owned()
        });
        short.collect()
    }

    #[test]
    fn what_several_queries_need_is_evaluated_once() {
        let left =
            "WITH RECURSIVE one AS (SELECT 1 AS x),\nlost AS MATERIALIZED (SELECT * FROM nowhere)";
        let queries = [
            "SELECT z FROM five",
            "SELECT y FROM two",
            "SELECT z * y FROM five, two",
        ];
        let expected = queries.map(|sql| format!("{left}\n{sql}"));
        assert_eq!(shortened(&queries), expected);
    }

    /// Each has the other's name in it, which is a column here.
    #[test]
    fn definitions_that_name_each_other_are_two() {
        let own =
            "WITH a AS MATERIALIZED (SELECT 1 AS b), b AS MATERIALIZED (SELECT 2 AS a FROM a)";
        let database = Database::of_run(&[], false, &Reads::default()).unwrap();
        let queries = [
            "SELECT b FROM a",
            "SELECT a FROM b",
            "SELECT a + b FROM a, b",
        ];
        let queries = queries.map(|sql| format!("{own} {sql}"));
        let shortened = database.evaluate_shared(queries.iter().map(String::as_str));
        let numbers = queries
            .each_ref()
            .map(|sql| database.number(shortened.query(sql)));
        assert_eq!(numbers, [1.0, 2.0, 3.0].map(|number| Ok(Some(number))));
    }

    #[test]
    fn what_one_query_needs_stays_in_it() {
        let [first, second] = &shortened(&["SELECT z FROM five", "SELECT x FROM one"])[..] else {
            panic!()
        };
        assert!(
            first.contains("five AS") && second.contains("two(y) AS"),
            "{first}"
        );
    }

    /// The second query's `two` is another one, so what is made of the first's must not be read in its place.
    #[test]
    fn definitions_that_differ_are_not_shared() {
        let own = "WITH RECURSIVE one AS (SELECT 7 AS x), two(y) AS MATERIALIZED (SELECT x + 1 FROM one) SELECT y FROM two";
        let database = Database::of_run(&[], false, &Reads::default()).unwrap();
        let others =
            ["SELECT y FROM two", "SELECT y + 1 FROM two"].map(|sql| sharing(Some(SHARED), sql));
        let all = others.iter().map(String::as_str).chain([own]);
        let shortened = database.evaluate_shared(all);
        let number = |sql: &str| database.number(shortened.query(sql)).unwrap();
        assert_eq!(number(own), Some(8.0));
        assert_eq!(
            (number(&others[0]), number(&others[1])),
            (Some(2.0), Some(3.0))
        );
    }

    /// The queries fail as they would alone.
    #[test]
    fn what_cannot_be_evaluated_is_left() {
        let queries = ["SELECT count(*) FROM lost", "SELECT 1 FROM lost"];
        assert!(shortened(&queries)[0].contains("lost AS"));
        assert_eq!(shortened(&["SELECT 1 FROM ("; 2]).len(), 2);
    }
}
