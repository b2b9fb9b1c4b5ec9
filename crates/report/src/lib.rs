// SPDX-License-Identifier: GPL-2.0-or-later
//! Presentation: tables on a terminal, one offline HTML file, and traces for Perfetto.
//!
//! Nothing here knows from which arena the figures came, and the same input gives the same bytes.

pub mod changes;
mod columns;
pub mod csv;
pub mod explanation;
pub mod findings;
pub mod html;
pub mod perfetto;
mod svg;
pub mod table;
pub mod timeline;

pub use html::ReportInput;
