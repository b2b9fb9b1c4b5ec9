// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages on standard error.

/// Like `eprintln!`, but a closed or full standard error does not change how the command ends.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}
