// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of system calls.

use std::io;

/// `result`, or the thread's error number if the call failed.
pub fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Ticks a second: the coarse clock's resolution is one tick (`clock_getres(2)`), rounded to whole nanoseconds.
pub fn tick_hz() -> io::Result<u32> {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut step) };
    check(result.into())?;
    let step_ns = step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64;
    Ok((1_000_000_000 + step_ns / 2).div_euclid(step_ns.max(1)) as u32)
}

#[cfg(test)]
mod tests {
    use crate::config::KernelConfig;

    #[test]
    fn the_tick_is_that_of_the_kernels_configuration() {
        let hz = super::tick_hz().expect("a tick");
        assert!((24..=1200).contains(&hz), "{hz}");
        let config = KernelConfig::of_this_kernel(&crate::host::kernel_release());
        let configured = config.and_then(|config| config.options.get("HZ")?.parse::<u32>().ok());
        assert_eq!(hz, configured.unwrap_or(hz));
    }
}
