// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of a run: their rows, their files, their description.

mod common;
mod events;
mod parquet;
mod reference;
