// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics of streams of events, and comparisons of runs.

mod compare;
mod identities;
mod recorder;
mod summary;
mod waste;
