// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands whose work the simulated machine does, or nobody: one program, so that what they share is linked once.

mod claims;
mod cli;
mod compare;
mod events;
mod exec;
mod explain;
mod failing_schedulers;
mod fitted;
mod how_to;
mod races;
mod reports;
mod reproduce;
mod sabotage;
mod sensitivity;
mod suite37;
mod tables;
mod user;
