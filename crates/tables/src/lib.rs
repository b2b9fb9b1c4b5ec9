// SPDX-License-Identifier: GPL-2.0-or-later
//! A run as tables, with the names and meanings of Perfetto's where Perfetto has them.
//!
//! * [`EventTables`] turns the events of one run into rows: each time a task ran, each
//!   state it was in, wakeups, migrations, requests, probes. Rows leave in batches, so memory does
//!   not grow with simulated time.
//! * [`summary_tables`] lays out the figures of a run, which exist for runs of any length.
//! * [`ParquetDir`] writes both, one file a table, for any number of runs.
//!
//! Times are in ns from the workload's origin; what came before is negative. Every table begins with
//! the column `run`, the index of a run in the table `run`. Numbers are 64-bit integers throughout.
//!
//! | module | what it is |
//! | --- | --- |
//! | `schema` | the tables and the meaning of their columns |
//! | `rows` | rows in, record batches out |
//! | `events` | events of a run -> rows, as they come |
//! | `tasks` | unique numbers for tasks and processes, whose kernel numbers are used again |
//! | `summaries` | the metrics of a run as tables, and the row that identifies the run |
//! | `parquet_dir` | a folder of Parquet files, written completely or not at all |

mod events;
mod parquet_dir;
mod rows;
mod schema;
mod summaries;
mod tasks;

pub use events::EventTables;
pub use parquet_dir::{Error, ParquetDir, RunFiles, RunPart};
pub use rows::{BATCH_ROWS, BatchSink, Table};
pub use schema::{Column, ColumnKind, NAMES, Spec, is_of_events, schema, specs};
pub use summaries::{RunFacts, run_table, summary_tables};
