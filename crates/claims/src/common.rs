// SPDX-License-Identifier: GPL-2.0-or-later
//! Definitions that the queries of a run share, such as those of its `with`. SQLite would evaluate them again for each query;
//! those that several queries use become tables.

use std::collections::BTreeMap;
use std::iter::zip;

/// `name AS (SELECT ..)`, as after WITH.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Definition<'q> {
    name: &'q str,
    text: &'q str,
}

/// A query: what stands after its WITH, and the rest.
struct Query<'q> {
    definitions: Vec<Definition<'q>>,
    body: &'q str,
}

/// Queries with the same results as the original ones, once the tables exist.
pub struct Rewritten {
    /// Names of the tables, each with the query that it is made from, after those before it.
    pub tables: Vec<(String, String)>,
    /// By the names of the queries.
    pub queries: BTreeMap<String, String>,
}

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

/// What several of these queries use is evaluated only once.
pub fn rewrite(queries: &BTreeMap<String, String>) -> Rewritten {
    let read: Option<Vec<Query>> = queries.values().map(|sql| Query::read(sql)).collect();
    let read = read.unwrap_or_default();
    let common = common(&read);
    let is_used_often = |definition: &&Definition| {
        let uses = |query: &&Query| {
            query
                .after(common.len())
                .any(|text| has_word(text, definition.name))
        };
        read.iter().filter(uses).nth(1).is_some()
    };
    let tables: Vec<Definition> = common.iter().filter(is_used_often).copied().collect();
    if tables.is_empty() {
        return Rewritten {
            tables: Vec::new(),
            queries: queries.clone(),
        };
    }
    // The others remain definitions.
    let without = |tables: &[Definition], definitions: &[Definition], body: &str| {
        let left = definitions
            .iter()
            .filter(|definition| !tables.contains(definition));
        let left: Vec<&str> = left.map(|definition| definition.text).collect();
        match left.is_empty() {
            true => body.to_owned(),
            false => format!("WITH RECURSIVE {}\n{body}", left.join(",\n")),
        }
    };
    let make = |(at, table): (usize, &Definition)| {
        let all = format!("SELECT * FROM {}", table.name);
        (table.name.to_owned(), without(&tables[..at], common, &all))
    };
    let rewritten = |query: &Query| without(&tables, &query.definitions, query.body);
    Rewritten {
        tables: tables.iter().enumerate().map(make).collect(),
        queries: zip(queries.keys().cloned(), read.iter().map(rewritten)).collect(),
    }
}

/// The definitions with which all queries begin.
fn common<'a, 'q>(queries: &'a [Query<'q>]) -> &'a [Definition<'q>] {
    let Some((first, others)) = queries.split_first() else {
        return &[];
    };
    let agree = |other: &Query| {
        let both = zip(&first.definitions, &other.definitions);
        both.take_while(|(one, other)| one == other).count()
    };
    let length = others.iter().map(agree).min().unwrap_or(0);
    &first.definitions[..length]
}

impl<'q> Query<'q> {
    /// `None` for what is not understood.
    fn read(sql: &'q str) -> Option<Query<'q>> {
        let mut body = sql.trim_start();
        let mut definitions = Vec::new();
        let Some(mut rest) = body.strip_prefix("WITH ") else {
            return Some(Query { definitions, body });
        };
        rest = rest.strip_prefix("RECURSIVE ").unwrap_or(rest);
        loop {
            rest = rest.trim_start();
            let name = &rest[..rest.find(|c: char| !is_part_of_name(c))?];
            let mut end = rest.find('(')?;
            // A list of columns in parentheses may follow the name.
            if !rest[name.len()..end].to_lowercase().contains("as") {
                end = closing(rest, end)?;
                end += rest[end..].find('(')?;
            }
            end = closing(rest, end)?;
            definitions.push(Definition {
                name,
                text: &rest[..end],
            });
            body = rest[end..].trim_start();
            match body.strip_prefix(',') {
                Some(next) => rest = next,
                None => return Some(Query { definitions, body }),
            }
        }
    }

    /// Its definitions from this one on, and its body.
    fn after(&self, number: usize) -> impl Iterator<Item = &'q str> {
        let definitions = self.definitions[number..].iter().map(|d| d.text);
        definitions.chain([self.body])
    }
}

const fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The end of what begins with the parenthesis at `start`. `None` also if it contains a comment.
fn closing(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < start) {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '[') => quote = Some(']'),
            (None, '-') if before == '-' => return None,
            (None, '*') if before == '/' => return None,
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
        before = c;
    }
    None
}

/// SQL does not distinguish between upper and lower case.
fn has_word(text: &str, word: &str) -> bool {
    let mut words = text.split(|c| !is_part_of_name(c));
    words.any(|one| one.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::Reads;
    use crate::sql::Database;

    fn rewritten(queries: &[&str]) -> (Vec<String>, Vec<String>) {
        let named = queries
            .iter()
            .enumerate()
            .map(|(at, sql)| (at.to_string(), sql.to_string()));
        let Rewritten { tables, queries } = rewrite(&named.collect());
        let made = tables
            .into_iter()
            .map(|(name, sql)| format!("{name}: {sql}"));
        (made.collect(), queries.into_values().collect())
    }

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

    #[test]
    fn what_two_queries_use_becomes_a_table() {
        let with = "WITH RECURSIVE a(x, y) AS MATERIALIZED (SELECT ')', 2),\nb AS (SELECT x FROM a), c AS (SELECT y FROM a)";
        let (tables, queries) = rewritten(&[
            &format!("{with}\nSELECT max(x) FROM b"),
            &format!("{with},\nd AS (SELECT x AS \"(\" FROM B)\nSELECT count(*) FROM d, c"),
            &format!("{with}\nSELECT 1"),
        ]);
        let left =
            "WITH RECURSIVE a(x, y) AS MATERIALIZED (SELECT ')', 2),\nc AS (SELECT y FROM a)";
        assert_eq!(
            tables,
            [format!("b: {with}\nSELECT * FROM b").replace("), c", "),\nc")]
        );
        assert_eq!(
            queries,
            [
                format!("{left}\nSELECT max(x) FROM b"),
                format!("{left},\nd AS (SELECT x AS \"(\" FROM B)\nSELECT count(*) FROM d, c"),
                format!("{left}\nSELECT 1"),
            ]
        );
    }

    #[test]
    fn a_table_is_made_from_those_before_it() {
        let with = "WITH RECURSIVE a AS (SELECT 1 AS x), b AS (SELECT x FROM a)";
        let (tables, queries) = rewritten(&[
            &format!("{with} SELECT x FROM a, b"),
            &format!("{with} SELECT max(x) FROM b, a"),
        ]);
        assert_eq!(
            tables,
            [
                "a: WITH RECURSIVE a AS (SELECT 1 AS x),\nb AS (SELECT x FROM a)\nSELECT * FROM a",
                "b: WITH RECURSIVE b AS (SELECT x FROM a)\nSELECT * FROM b",
            ]
        );
        assert_eq!(queries, ["SELECT x FROM a, b", "SELECT max(x) FROM b, a"]);
    }

    #[test]
    fn other_queries_stay() {
        let one = "WITH a AS (SELECT 1 AS x)";
        let comment = "WITH a AS (SELECT 1 AS x -- (\n)";
        for queries in [
            vec!["SELECT 1", "SELECT 2"],
            vec!["WITH a AS (SELECT 1 AS x) SELECT x FROM a"],
            // Used only once.
            vec![
                "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
                "WITH a AS (SELECT 1 AS x) SELECT 'b'",
            ],
            // Not the same.
            vec![
                "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
                "WITH a AS (SELECT 2 AS x) SELECT x FROM a",
            ],
            vec![
                "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
                "SELECT x FROM a",
            ],
            // Not understood.
            vec!["WITH a AS (SELECT 1", "WITH a AS (SELECT 1"],
            vec!["WITH", "WITH "],
            vec!["WITH a", "WITH a AS SELECT 1"],
            vec!["", "("],
            vec![
                &format!("{comment} SELECT x FROM a"),
                &format!("{comment} SELECT x FROM a"),
            ],
            vec![one, &format!("{one}SELECT 'a'")],
        ] {
            let (tables, same) = rewritten(&queries);
            assert!(tables.is_empty(), "{queries:?}: {tables:?}");
            assert_eq!(same, queries);
        }
    }

    /// The number of temporary tables changes when what is common becomes one.
    #[test]
    fn what_is_common_is_evaluated_once() {
        let database = Database::of_run(&[], false, &Reads::default()).unwrap();
        let shared = "counted AS MATERIALIZED (SELECT count(*) AS x FROM temp.sqlite_schema), twice AS (SELECT x FROM counted UNION ALL SELECT x FROM counted)";
        let query = |sql: &str| (sql.to_owned(), sharing(Some(shared), sql));
        let texts = [
            "SELECT max(x) FROM twice",
            "SELECT min(x) FROM twice",
            "SELECT x FROM counted",
            "SELECT y FROM counted",
        ];
        let queries = BTreeMap::from(texts.map(query));
        let asked = database.share(&queries);
        let [max, min, one, wrong] = texts.map(|text| database.number(&asked[text]));
        assert!(one.is_ok());
        assert_eq!([&max, &min], [&one, &one]);
        assert!(wrong.is_err());
        assert_ne!(one, database.number(&queries[texts[2]]), "counted again");
    }

    #[test]
    fn what_cannot_be_shared_fails_in_each_query() {
        for shared in ["a AS (SELECT x FROM nowhere)", "Wakeup AS (SELECT 1 AS x)"] {
            let database = Database::of_run(&[], true, &Reads::all_tables()).unwrap();
            let name = shared.split(' ').next().unwrap();
            let query = |text: &str| {
                let sql = format!("SELECT {text}(x) FROM {name}");
                (text.to_owned(), sharing(Some(shared), &sql))
            };
            let queries = BTreeMap::from(["min", "max"].map(query));
            assert_eq!(database.share(&queries), queries);
        }
    }
}
