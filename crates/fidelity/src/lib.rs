// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the simulated machine is from a real one. Pure functions: [`costs`] turns timings of a machine into its costs,
//! [`judge`] turns the metrics of a workload in both arenas into errors, [`page`] turns errors into a page.

pub mod costs;
pub mod judge;
pub mod page;
pub mod set;
mod threads;
