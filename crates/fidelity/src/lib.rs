// SPDX-License-Identifier: GPL-2.0-or-later
//! How far the simulated machine is from a real one. Pure functions: readings of a machine become its costs
//! ([`costs`]), figures of one workload in both arenas become errors ([`judge`]), the errors a page ([`page`]).

pub mod costs;
pub mod judge;
pub mod page;
pub mod set;
mod threads;
