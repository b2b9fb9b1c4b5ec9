// SPDX-License-Identifier: GPL-2.0-or-later
//! The state of `bpf_timer` objects, by their address. The engine decides when they fire: a start
//! gives it an [`Armed`] to put into its queue, and at that time [`Timers::fire`] reports whether
//! it is still valid.

use super::errno::{EBUSY, EDEADLK, EINVAL};
use super::maps::MapId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Clocks that bpf_timer_init accepts. In the simulated machine they are the same clock.
const CLOCK_REALTIME: u64 = 0;
const CLOCK_MONOTONIC: u64 = 1;
const CLOCK_BOOTTIME: u64 = 7;

/// The time given to bpf_timer_start is a point in time, not a delay.
pub const BPF_F_TIMER_ABS: u64 = 1 << 0;
/// The callback runs on the CPU that started the timer.
pub const BPF_F_TIMER_CPU_PIN: u64 = 1 << 1;

/// What the engine schedules when a timer is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// Not before now, even if the time given has passed.
    pub expires_ns: u64,
    /// Whether the callback must run on the CPU that started it. Even without this flag it runs
    /// there, unless the engine moves timers away from idle CPUs.
    pub pinned: bool,
    /// To be handed back to [`Timers::fire`].
    pub arming: Arming,
}

/// One start of one timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arming {
    pub timer: usize,
    pub number: u32,
}

/// A callback to call as `callback(map, key, value)`; the key follows from map and value, see
/// `MapSet::element_at`. It must return 0. Then comes [`Timers::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fired {
    pub map: MapId,
    pub timer: usize,
    pub callback: usize,
}

#[derive(Clone, Copy, Debug)]
struct Timer {
    map: MapId,
    callback: Option<usize>,
    /// Number of the current start.
    armed: Option<u32>,
}

/// All timers of one scheduler instance.
#[derive(Debug, Default)]
pub struct Timers {
    by_address: BTreeMap<usize, Timer>,
    /// Starts so far, modulo 2^32. An event of another start than the timer's current one is void.
    starts: u32,
    /// The timer whose callback runs now.
    running: Option<usize>,
}

impl Timers {
    pub fn new() -> Timers {
        Timers::default()
    }

    /// bpf_timer_init: 0, -EINVAL (clock or flags) or -EBUSY (it has been before).
    pub fn init(&mut self, timer: usize, map: MapId, flags: u64) -> i64 {
        if !matches!(flags, CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_BOOTTIME) {
            return -EINVAL;
        }
        if self.by_address.contains_key(&timer) {
            return -EBUSY;
        }
        self.by_address.insert(
            timer,
            Timer {
                map,
                callback: None,
                armed: None,
            },
        );
        0
    }

    /// bpf_timer_set_callback: 0, or -EINVAL before init. A timer that is armed stays armed.
    pub fn set_callback(&mut self, timer: usize, callback: usize) -> i64 {
        match self.by_address.get_mut(&timer) {
            Some(timer) => {
                timer.callback = Some(callback);
                0
            }
            None => -EINVAL,
        }
    }

    /// bpf_timer_start at `now_ns`: arms it, or arms it again. -EINVAL: flags, no init, no callback.
    pub fn start(
        &mut self,
        timer: usize,
        now_ns: u64,
        nsecs: u64,
        flags: u64,
    ) -> Result<Armed, i64> {
        if flags & !(BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN) != 0 {
            return Err(-EINVAL);
        }
        let state = self
            .by_address
            .get_mut(&timer)
            .filter(|timer| timer.callback.is_some());
        let state = state.ok_or(-EINVAL)?;
        self.starts = self.starts.wrapping_add(1);
        state.armed = Some(self.starts);
        Ok(Armed {
            expires_ns: match flags & BPF_F_TIMER_ABS {
                0 => now_ns.saturating_add(nsecs),
                _ => nsecs.max(now_ns),
            },
            pinned: flags & BPF_F_TIMER_CPU_PIN != 0,
            arming: Arming {
                timer,
                number: self.starts,
            },
        })
    }

    /// bpf_timer_cancel: 1 if it was armed, 0 if not; -EINVAL before init, -EDEADLK in its own
    /// callback. It forgets the callback, as in a kernel: set one before the next start.
    pub fn cancel(&mut self, timer: usize) -> i64 {
        let Some(state) = self.by_address.get_mut(&timer) else {
            return -EINVAL;
        };
        if self.running == Some(timer) {
            return -EDEADLK;
        }
        state.callback = None;
        i64::from(state.armed.take().is_some())
    }

    /// The time of this start has come. `None`: it was cancelled, restarted or freed meanwhile.
    pub fn fire(&mut self, arming: Arming) -> Option<Fired> {
        let Arming { timer, number } = arming;
        let state = self.by_address.get_mut(&timer)?;
        if state.armed != Some(number) {
            return None;
        }
        state.armed = None;
        let callback = state.callback?;
        self.running = Some(timer);
        Some(Fired {
            map: state.map,
            timer,
            callback,
        })
    }

    /// The callback has returned.
    pub fn done(&mut self) {
        self.running = None;
    }

    /// The memory of a map entry is freed: timers in it are cancelled and removed.
    pub fn forget(&mut self, span: Range<usize>) {
        while let Some((&timer, _)) = self.by_address.range(span.clone()).next() {
            self.by_address.remove(&timer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: usize = 0x1000;
    const CALLBACK: usize = 0xca11;

    fn ready() -> Timers {
        let mut timers = Timers::new();
        assert_eq!(timers.init(T, MapId(3), CLOCK_MONOTONIC), 0);
        assert_eq!(timers.set_callback(T, CALLBACK), 0);
        timers
    }

    #[test]
    fn initialised_once_and_in_order() {
        let mut timers = Timers::new();
        assert_eq!(timers.set_callback(T, CALLBACK), -EINVAL);
        assert_eq!(timers.start(T, 0, 1, 0), Err(-EINVAL));
        assert_eq!(timers.cancel(T), -EINVAL);
        assert_eq!(
            timers.init(T, MapId(0), 2),
            -EINVAL,
            "a clock of the process"
        );
        assert_eq!(timers.init(T, MapId(0), 16 + CLOCK_MONOTONIC), -EINVAL);
        assert_eq!(timers.init(T, MapId(0), CLOCK_BOOTTIME), 0);
        assert_eq!(timers.init(T, MapId(0), CLOCK_BOOTTIME), -EBUSY);
        assert_eq!(timers.start(T, 0, 1, 0), Err(-EINVAL), "no callback yet");
        assert_eq!(timers.set_callback(T, CALLBACK), 0);
        assert_eq!(timers.start(T, 0, 1, 4), Err(-EINVAL), "unknown flag");
        assert!(timers.start(T, 0, 1, 0).is_ok());
    }

    #[test]
    fn start_is_relative_absolute_and_pinned() {
        let mut timers = ready();
        let mut start = |nsecs, flags| {
            let armed = timers.start(T, 100, nsecs, flags).unwrap();
            (armed.expires_ns, armed.pinned)
        };
        assert_eq!(start(50, 0), (150, false));
        assert_eq!(start(500, BPF_F_TIMER_ABS), (500, false));
        assert_eq!(
            start(50, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN),
            (100, true)
        );
        assert_eq!(start(u64::MAX, 0), (u64::MAX, false));
    }

    #[test]
    fn only_the_last_start_fires_and_only_once() {
        let mut timers = ready();
        let first = timers.start(T, 0, 10, 0).unwrap().arming;
        let second = timers.start(T, 5, 10, 0).unwrap().arming;
        assert_eq!(timers.fire(first), None);
        assert_eq!(
            timers.fire(second),
            Some(Fired {
                map: MapId(3),
                timer: T,
                callback: CALLBACK
            })
        );
        let again = timers.start(T, 15, 10, 0).unwrap().arming;
        assert_eq!(timers.cancel(T), -EDEADLK, "in its own callback");
        timers.done();
        assert_eq!(timers.fire(second), None);
        assert!(timers.fire(again).is_some(), "armed by its own callback");
    }

    #[test]
    fn cancel_tells_whether_it_was_armed_and_drops_the_callback() {
        let mut timers = ready();
        let arming = timers.start(T, 0, 10, 0).unwrap().arming;
        assert_eq!(timers.cancel(T), 1);
        assert_eq!(timers.cancel(T), 0);
        assert_eq!(timers.fire(arming), None);
        assert_eq!(timers.start(T, 0, 10, 0), Err(-EINVAL));
        timers.set_callback(T, CALLBACK);
        assert!(timers.start(T, 0, 10, 0).is_ok());
    }

    #[test]
    fn timers_die_with_their_map_entry() {
        let mut timers = ready();
        let arming = timers.start(T, 0, 10, 0).unwrap().arming;
        assert_eq!(timers.init(T + 16, MapId(3), CLOCK_MONOTONIC), 0);
        timers.forget(T - 8..T + 16);
        assert_eq!(timers.fire(arming), None);
        assert_eq!(
            timers.init(T, MapId(3), CLOCK_MONOTONIC),
            0,
            "new memory, new timer"
        );
        assert_eq!(
            timers.init(T + 16, MapId(3), CLOCK_MONOTONIC),
            -EBUSY,
            "outside the entry"
        );
    }
}
