// SPDX-License-Identifier: GPL-2.0-or-later
//! What 4BSD is known for, in the simulated machine.
