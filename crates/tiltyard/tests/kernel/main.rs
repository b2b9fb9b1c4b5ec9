// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that need a real kernel, most of them in a guest of one CPU: one program, so that two guests run at a time.

mod bad_input;
mod environment;
mod fidelity;
mod gates;
mod real_kernel;
mod reproduce;
mod same_window;
#[path = "../sample/mod.rs"]
mod sample;
mod verify;
