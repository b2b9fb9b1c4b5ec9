// SPDX-License-Identifier: GPL-2.0-or-later
//! Presentation: tables on a terminal, one offline HTML file, and traces for Perfetto.
//!
//! Nothing here knows from which arena the figures came, and the same input gives the same bytes.
//!
//! | module | what it is |
//! | --- | --- |
//! | `table` | a comparison on a terminal |
//! | `changes` | two results on a terminal: what changed, and what gates say |
//! | `columns` | text tables of any number of columns in a terminal of any width |
//! | `csv` | tables as CSV |
//! | `html` | reports: one HTML file |
//! | `timeline` | a window of a run: which task had which CPU, from when to when |
//! | `explanation` | a difference between two schedulers and its causes, as a page and as text |
//! | `lesson` | a lesson about a scheduler: its rule, a run, questions, as a page |
//! | `findings` | statements that were checked and their metrics, as a page |
//! | `standings` | contests between schedulers: who wins what, as text and for a page |
//! | `svg` | diagrams as SVG files |
//! | `perfetto` | a trace for Perfetto: a sink that writes events as they come |

pub mod changes;
mod columns;
pub mod csv;
pub mod explanation;
pub mod findings;
pub mod html;
pub mod lesson;
pub mod perfetto;
pub mod standings;
mod svg;
pub mod table;
pub mod timeline;

pub use html::ReportInput;
