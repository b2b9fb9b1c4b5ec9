// SPDX-License-Identifier: GPL-2.0-or-later
//! Ticks, wakeups, switches, and what is between CPUs.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

use super::median;
use crate::burn::WorkingSet;
use crate::sys;

/// Every futex waits for and wakes this.
const ANY: u32 = u32::MAX;
/// How long a thread looks at the clock to see ticks, ns.
const TICK_WATCH_NS: u64 = 500_000_000;
const WAKEUPS: usize = 300;
/// Stack size of a thread: the same as for tasks of workloads.
const STACK_BYTES: usize = 256 << 10;
/// A thread that was woken is asleep again after this much time, ns.
const ASLEEP_NS: u64 = 1_000_000;
const SYNC_WAKEUPS: usize = 50;
const CHUNKS: usize = 40;
const ROUNDS: u32 = 100;
const TOTAL: u32 = CHUNKS as u32 * ROUNDS;

/// Ticks a second, and what one takes: the coarse clock moves at ticks alone, and the fine one shows how long a
/// thread that does nothing but look at them was away meanwhile: from the look before the tick to the one after next,
/// because the tick may come before or after the fine clock was read.
pub fn tick() -> (u32, u64) {
    let period_ns = sys::coarse_step_ns().max(1);
    let mut away = Vec::with_capacity(1 + (TICK_WATCH_NS / period_ns) as usize);
    let (mut last_ns, mut coarse_ns) = (sys::now_ns(), sys::coarse_now_ns());
    let (end_ns, mut step_ns) = (last_ns + TICK_WATCH_NS, u64::MAX);
    // When the look before a tick was.
    let mut before_tick_ns = None;
    while last_ns < end_ns {
        let (now_ns, coarse_now_ns) = (sys::now_ns(), sys::coarse_now_ns());
        step_ns = step_ns.min(now_ns - last_ns);
        if let Some(before_ns) = before_tick_ns.take() {
            away.push(now_ns - before_ns);
        }
        if coarse_now_ns != coarse_ns {
            before_tick_ns = Some(last_ns);
        }
        (last_ns, coarse_ns) = (now_ns, coarse_now_ns);
    }
    let hz = (1_000_000_000 + period_ns / 2) / period_ns;
    (hz as u32, median(away).saturating_sub(2 * step_ns))
}

/// A sleeper on the same CPU. It is a batch thread: woken, it does not preempt.
pub fn wakeup(cpu: usize) -> io::Result<u64> {
    let (word, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| -> io::Result<()> {
            sys::pin(cpu)?;
            sys::become_batch()?;
            while !stop.load(SeqCst) {
                let seen = word.load(SeqCst);
                sys::futex_wait(&word, seen, ANY, None);
            }
            Ok(())
        });
        let mut readings = Vec::with_capacity(WAKEUPS);
        for _ in 0..WAKEUPS {
            sys::sleep_until(sys::now_ns() + ASLEEP_NS);
            let begun_ns = sys::now_ns();
            word.fetch_add(1, SeqCst);
            sys::futex_wake(&word, 1, ANY);
            readings.push(sys::now_ns() - begun_ns);
        }
        stop.store(true, SeqCst);
        while !sleeper.is_finished() {
            word.fetch_add(1, SeqCst);
            sys::futex_wake(&word, 1, ANY);
            sys::sleep_until(sys::now_ns() + ASLEEP_NS);
        }
        sleeper.join().expect("the sleeper does not panic")?;
        Ok(median(readings))
    })
}

/// Wakes two realtime threads at once: does the first run before the second is woken? `None` without the right to such.
pub fn is_preemptible(cpu: usize) -> io::Result<Option<bool>> {
    const NONE: u32 = u32::MAX;
    let (word, woken) = (AtomicU32::new(0), AtomicU32::new(0));
    let tids = [AtomicU32::new(0), AtomicU32::new(0)];
    let other_sleeps = AtomicBool::new(false);
    let sleeper = |own: usize| -> io::Result<()> {
        if sys::pin(cpu).and_then(|()| sys::become_realtime()).is_err() {
            tids[own].store(NONE, SeqCst);
            return Ok(());
        }
        tids[own].store(sys::tid(), SeqCst);
        await_turn(&word, 1);
        if woken.fetch_add(1, SeqCst) == 0 {
            let other = tids[1 - own].load(SeqCst);
            if other == NONE {
                return Ok(());
            }
            let stat = std::fs::read_to_string(format!("/proc/self/task/{other}/stat"))?;
            other_sleeps.store(stat.contains(") S "), SeqCst);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let sleepers = [0, 1].map(|own| scope.spawn(move || sleeper(own)));
        while tids.iter().any(|tid| tid.load(SeqCst) == 0) {
            sys::sleep_until(sys::now_ns() + ASLEEP_NS);
        }
        sys::sleep_until(sys::now_ns() + ASLEEP_NS);
        word.store(1, SeqCst);
        sys::futex_wake(&word, 2, ANY);
        for sleeper in sleepers {
            sleeper.join().expect("it does not panic")?;
        }
        let measured = tids.iter().all(|tid| tid.load(SeqCst) != NONE);
        Ok(measured.then(|| other_sleeps.load(SeqCst)))
    })
}

/// Waits on a futex whose value is already different, so the call returns at once.
pub fn futex_call() -> u64 {
    let word = AtomicU32::new(1);
    let call = |_| {
        let begun_ns = sys::now_ns();
        sys::futex_wait(&word, 0, ANY, None);
        sys::now_ns() - begun_ns
    };
    median((0..WAKEUPS).map(call).collect())
}

/// A batch thread creates others, which are batch threads, too, so they do not preempt it.
pub fn creation(cpu: usize) -> io::Result<u64> {
    let creator = || -> io::Result<u64> {
        sys::pin(cpu)?;
        sys::become_batch()?;
        let create = |_| {
            let begun_ns = sys::now_ns();
            let thread = thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(|| ())?;
            let took_ns = sys::now_ns() - begun_ns;
            let _ = thread.join();
            Ok(took_ns)
        };
        let readings: io::Result<Vec<u64>> = (0..WAKEUPS).map(create).collect();
        Ok(median(readings?))
    };
    thread::scope(|scope| scope.spawn(creator).join().expect("it does not panic"))
}

/// The end of a thread: a thread of the idle class sees when the CPU is its own again.
pub fn exit(cpu: usize) -> io::Result<u64> {
    let (stop, ended_ns) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| -> io::Result<Vec<u64>> {
            sys::pin(cpu)?;
            sys::become_idle_class()?;
            let mut readings = Vec::with_capacity(WAKEUPS);
            while !stop.load(SeqCst) {
                let now_ns = sys::now_ns();
                match ended_ns.swap(0, SeqCst) {
                    // It ended after the look at the clock, and this thread has waited meanwhile: what is to be measured.
                    then_ns if then_ns > now_ns => readings.push(sys::now_ns() - then_ns),
                    0 => {}
                    then_ns => readings.push(now_ns - then_ns),
                }
            }
            Ok(readings)
        });
        let ends = || -> io::Result<()> {
            sys::pin(cpu)?;
            for _ in 0..WAKEUPS {
                let ended_ns = ended_ns.clone();
                let body = move || ended_ns.store(sys::now_ns(), SeqCst);
                sys::start_thread(STACK_BYTES, Box::new(body))?;
                sys::sleep_until(sys::now_ns() + ASLEEP_NS);
            }
            Ok(())
        };
        let done = ends();
        stop.store(true, SeqCst);
        let readings = watcher.join().expect("the watcher does not panic")?;
        done.map(|()| median(readings))
    })
}

/// Two threads on one CPU that wake each other and wait.
pub fn round(cpu: usize) -> io::Result<u64> {
    let turn = AtomicU32::new(0);
    thread::scope(|scope| {
        let partner = scope.spawn(|| -> io::Result<()> {
            sys::pin(cpu)?;
            for round in 0..TOTAL {
                await_turn(&turn, 2 * round + 1);
                pass_turn(&turn);
            }
            Ok(())
        });
        let mut readings = Vec::with_capacity(CHUNKS);
        let mut round = 0;
        for _ in 0..CHUNKS {
            let begun_ns = sys::now_ns();
            for _ in 0..ROUNDS {
                pass_turn(&turn);
                round += 1;
                await_turn(&turn, 2 * round);
            }
            readings.push((sys::now_ns() - begun_ns) / u64::from(ROUNDS));
        }
        partner.join().expect("the partner does not panic")?;
        Ok(median(readings))
    })
}

fn pass_turn(turn: &AtomicU32) {
    turn.fetch_add(1, SeqCst);
    sys::futex_wake(turn, 1, ANY);
}

fn await_turn(turn: &AtomicU32, wanted: u32) {
    loop {
        let seen = turn.load(SeqCst);
        if seen >= wanted {
            return;
        }
        sys::futex_wait(turn, seen, ANY, None);
    }
}

/// A thread sleeps on `cpu`, which is idle, and says when it woke.
pub fn remote_wakeup(cpu: usize) -> io::Result<u64> {
    let (word, woken_ns) = (AtomicU32::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| -> io::Result<()> {
            sys::pin(cpu)?;
            for turn in 0..WAKEUPS as u32 {
                await_turn(&word, turn + 1);
                woken_ns.store(sys::now_ns(), SeqCst);
            }
            Ok(())
        });
        let mut readings = Vec::with_capacity(WAKEUPS);
        for _ in 0..WAKEUPS {
            sys::sleep_until(sys::now_ns() + ASLEEP_NS);
            woken_ns.store(0, SeqCst);
            let begun_ns = sys::now_ns();
            pass_turn(&word);
            while woken_ns.load(SeqCst) == 0 {
                sys::sleep_until(sys::now_ns() + ASLEEP_NS);
            }
            readings.push(woken_ns.load(SeqCst).saturating_sub(begun_ns));
        }
        sleeper.join().expect("the sleeper does not panic")?;
        Ok(median(readings))
    })
}

/// Whether a reader of a pipe that slept on `home` runs there again when it is written to from there, while the other
/// `cpus` are idle: a pipe's wakeups have the sync hint.
pub fn sync_goes_to_waker(home: usize, cpus: &[usize]) -> io::Result<bool> {
    let (mut pipe, mut writer) = io::pipe()?;
    thread::scope(|scope| {
        let reader = scope.spawn(move || -> io::Result<usize> {
            let mut at_home = 0;
            for _ in 0..SYNC_WAKEUPS {
                sys::pin(home)?;
                sys::pin_to(cpus)?;
                pipe.read_exact(&mut [0])?;
                at_home += usize::from(sys::current_cpu() == home);
            }
            Ok(at_home)
        });
        for _ in 0..SYNC_WAKEUPS {
            sys::sleep_until(sys::now_ns() + ASLEEP_NS);
            writer.write_all(&[0])?;
        }
        let at_home = reader.join().expect("the reader does not panic")?;
        Ok(at_home * 2 > SYNC_WAKEUPS)
    })
}

/// This thread moves to and fro; it ends on `home`.
pub fn migration(home: usize, other: usize) -> io::Result<u64> {
    let mut readings = Vec::with_capacity(WAKEUPS);
    for _ in 0..WAKEUPS {
        let begun_ns = sys::now_ns();
        sys::pin(other)?;
        sys::pin(home)?;
        readings.push((sys::now_ns() - begun_ns) / 2);
    }
    Ok(median(readings))
}

/// Two CPUs write the same line in turn.
pub fn handover(other: usize) -> io::Result<u64> {
    let turn = AtomicU32::new(0);
    thread::scope(|scope| {
        let partner = scope.spawn(|| -> io::Result<()> {
            sys::pin(other)?;
            for round in 0..TOTAL {
                while turn.load(SeqCst) != 2 * round + 1 {
                    std::hint::spin_loop();
                }
                turn.store(2 * round + 2, SeqCst);
            }
            Ok(())
        });
        let mut readings = Vec::with_capacity(CHUNKS);
        let mut round = 0;
        for _ in 0..CHUNKS {
            let begun_ns = sys::now_ns();
            for _ in 0..ROUNDS {
                turn.store(2 * round + 1, SeqCst);
                round += 1;
                while turn.load(SeqCst) != 2 * round {
                    std::hint::spin_loop();
                }
            }
            readings.push((sys::now_ns() - begun_ns) / u64::from(2 * ROUNDS));
        }
        partner.join().expect("the partner does not panic")?;
        Ok(median(readings))
    })
}

/// The same work alone and beside a busy sibling.
pub fn smt_permille(sibling: usize) -> io::Result<u64> {
    const STEPS: u64 = 200_000;
    let mut set = WorkingSet::new(0);
    let mut timed = || {
        let trials = (0..CHUNKS).map(|_| {
            let begun_ns = sys::now_ns();
            set.work(STEPS);
            sys::now_ns() - begun_ns
        });
        median(trials.collect())
    };
    let alone_ns = timed();
    let stop = AtomicBool::new(false);
    let both_ns = thread::scope(|scope| {
        let busy = scope.spawn(|| -> io::Result<()> {
            sys::pin(sibling)?;
            let mut set = WorkingSet::new(0);
            while !stop.load(SeqCst) {
                set.work(STEPS / 100);
            }
            Ok(())
        });
        let both_ns = timed();
        stop.store(true, SeqCst);
        busy.join().expect("the sibling does not panic")?;
        Ok::<u64, io::Error>(both_ns)
    })?;
    Ok((alone_ns * 1000 / both_ns.max(1)).min(1000))
}
