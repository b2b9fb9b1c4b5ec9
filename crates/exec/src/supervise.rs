// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts a run, waits for its end, and cleans up: the side on which no task runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::birth;
use crate::world::{NO_SPEC, Slot, Wait, World};
use crate::{ExecError, ExecOutcome, Setup, sys};

/// From the first fork to the shells' sleep.
const MARGIN_NS: u64 = 20_000_000;
/// Shells that are to be exact sleep at least so long: they have been born and have warmed up when the workload starts.
const EXACT_HISTORY_NS: u64 = 10_000_000;
/// Runs start at multiples of this: where Linux has its ticks, at any of its usual rates, so that all runs meet them alike.
const GRID_NS: u64 = 20_000_000;
/// At most so many tasks are named in the message about a deadlock.
const NAMED: usize = 4;

/// The process between the caller and the shells. Whatever ends the caller, this one ends all others.
pub struct Warden {
    pid: libc::pid_t,
}

impl Warden {
    /// Starts it, and with it all shells, each when its history begins.
    pub fn start(world: &Arc<World>, history_limit_ns: u64) -> io::Result<Warden> {
        let histories = world.workload.apps.iter().map(|a| a.history_ns);
        let least_ns = if world.exact { EXACT_HISTORY_NS } else { 0 };
        let histories: Vec<u64> = histories
            .map(|h| h.min(history_limit_ns).max(least_ns))
            .collect();
        let longest_ns = histories.iter().copied().max().unwrap_or(0);
        let ready_ns = sys::now_ns() + MARGIN_NS + longest_ns;
        let origin_ns = ready_ns.next_multiple_of(GRID_NS);
        world.control().origin_ns.store(origin_ns, SeqCst);
        let caller = std::process::id();
        let pid = sys::fork(|| {
            sys::on_parents_death(libc::SIGTERM);
            sys::adopt_orphans();
            sys::forget_children();
            sys::set_name("tiltyard-warden");
            if std::os::unix::process::parent_id() == caller {
                guard(world, &histories);
            }
        })?;
        Ok(Warden { pid })
    }
}

impl Drop for Warden {
    /// Returns when nothing of the run is left.
    fn drop(&mut self) {
        sys::kill(self.pid, libc::SIGTERM);
        // SAFETY: a null status is not written to. Without the child, it returns at once.
        while unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) } == -1
            && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
    }
}

/// Forks the shells, waits for the word to end, and ends everything.
fn guard(world: &Arc<World>, histories_ns: &[u64]) {
    let signals = block_signals();
    sys::exact_timers();
    if let Some(groups) = &world.groups
        && let Err(error) = groups.enter()
    {
        let what = format!("cannot enter the run's cgroup: {error}");
        world.report(&ExecError::Environment(what));
    }
    let mut apps: Vec<usize> = (0..histories_ns.len()).collect();
    apps.sort_by_key(|app| std::cmp::Reverse(histories_ns[*app]));
    let mut family = 0;
    for app in apps {
        if arrives(&signals, world.origin_ns() - histories_ns[app]) {
            break;
        }
        let forked = sys::fork(|| {
            sys::on_parents_death(libc::SIGKILL);
            join_family(0, family);
            birth::shell(world, app);
        });
        match forked {
            Ok(pid) => {
                // Both do it, so that it is done whoever comes first.
                join_family(pid, family);
                family = if family == 0 { pid } else { family };
            }
            Err(error) => {
                let what = format!("cannot start a shell: {error}; raise the limit of processes");
                world.report(&ExecError::Environment(what));
            }
        }
    }
    arrives(&signals, u64::MAX);
    if family != 0 {
        sys::kill(-family, libc::SIGKILL);
    }
    sys::wait_for_all_children();
    if let Some(groups) = &world.groups {
        groups.remove();
    }
    sys::end_process(0);
}

/// All shells and their descendants are one process group: one signal reaches them all.
fn join_family(pid: libc::pid_t, family: libc::pid_t) {
    // SAFETY: plain numbers.
    unsafe { libc::setpgid(pid, family) };
}

/// Blocks what ends others by default; gives the set of those to wait for. What the terminal sends is for the caller.
fn block_signals() -> libc::sigset_t {
    // SAFETY: the sets live on this stack; sigemptyset initialises them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut all);
        libc::sigaddset(&mut all, libc::SIGTERM);
        let awaited = all;
        libc::sigaddset(&mut all, libc::SIGINT);
        libc::sigaddset(&mut all, libc::SIGHUP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
        awaited
    }
}

/// Whether one of the signals comes before this time.
fn arrives(signals: &libc::sigset_t, at_ns: u64) -> bool {
    loop {
        let left_ns = at_ns.saturating_sub(sys::now_ns());
        let limit = libc::timespec {
            tv_sec: (left_ns / 1_000_000_000).min(1 << 30) as libc::time_t,
            tv_nsec: (left_ns % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: reads both structs; a null pointer says that nobody wants to know more.
        let signal = unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &limit) };
        if signal > 0 {
            return true;
        }
        if sys::now_ns() >= at_ns {
            return false;
        }
    }
}

/// Waits until the run has ended, by itself or by its time.
pub fn wait(world: &World, setup: &Setup) -> Result<ExecOutcome, ExecError> {
    let origin_ns = world.origin_ns();
    let duration_ns = setup.duration_ns.or(world.workload.duration_ns);
    let end_ns = duration_ns.map_or(u64::MAX, |d| origin_ns.saturating_add(d));
    let period_ns = (setup.stall_ns / 4).clamp(1_000_000, 1_000_000_000);
    let mut watch = Watch::default();
    let mut done = false;
    while !done && sys::now_ns() < end_ns {
        let bell = world.control().bell.load(SeqCst);
        if let Some(failure) = world.failure() {
            return Err(failure);
        }
        done = world.control().done.load(SeqCst) == 1;
        if !done {
            let until_ns = end_ns.min(sys::now_ns() + period_ns);
            sys::futex_wait(&world.control().bell, bell, u32::MAX, Some(until_ns));
            watch.look(world, setup.stall_ns)?;
        }
    }
    if let Some(failure) = world.failure() {
        return Err(failure);
    }
    let ended_ns = sys::now_ns();
    let (requests, marks) = world.measures.requests(&world.workload, origin_ns);
    Ok(ExecOutcome {
        origin_ns,
        duration_ns: ended_ns.saturating_sub(origin_ns),
        done,
        calibration_ns: world.speed.kilostep_ns,
        tasks: world.measures.tasks(&world.workload, &running_ns(world)),
        requests,
        marks,
    })
}

/// CPU time of the tasks that still live, by spec.
fn running_ns(world: &World) -> Vec<u64> {
    let mut sums = vec![0; world.workload.tasks.len()];
    for slot in living(world) {
        sums[slot.spec.load(SeqCst) as usize] += cpu_time_ns(slot.tid.load(SeqCst));
    }
    sums
}

fn living(world: &World) -> impl Iterator<Item = &Slot> {
    let task = |s: &&Slot| s.alive.load(SeqCst) == 1 && s.spec.load(SeqCst) != NO_SPEC;
    world.slots().iter().filter(task)
}

/// What the kernel says of a thread of another process.
fn cpu_time_ns(tid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Looks for tasks that wait forever, and for those that have gone without a word.
#[derive(Default)]
struct Watch {
    /// Sum of all tasks' waits when nothing was found to run first, and when that was.
    still: Option<(u64, u64)>,
    gone: Vec<u32>,
}

impl Watch {
    fn look(&mut self, world: &World, stall_ns: u64) -> Result<(), ExecError> {
        self.look_for_gone(world)?;
        let control = world.control();
        let waits: u64 = living(world).map(|s| s.waits.load(SeqCst)).sum();
        let asleep = |s: &Slot| s.wait().0 != Wait::Nothing && is_asleep(s.tid.load(SeqCst));
        let stuck = control.unborn.load(SeqCst) == 0
            && !world.nobody_is_awaited()
            && control.live.load(SeqCst) > 0
            && living(world).all(asleep);
        let now_ns = sys::now_ns();
        self.still = match self.still {
            _ if !stuck => None,
            Some((same, since_ns)) if same == waits => Some((same, since_ns)),
            _ => Some((waits, now_ns)),
        };
        match self.still {
            Some((_, since_ns)) if now_ns - since_ns >= stall_ns => {
                Err(ExecError::Workload(deadlock(world)))
            }
            _ => Ok(()),
        }
    }

    /// A killed thread has not reported its end.
    fn look_for_gone(&mut self, world: &World) -> Result<(), ExecError> {
        let is_gone = |s: &&Slot| {
            let tid = s.tid.load(SeqCst);
            tid != 0 && state(tid).is_none_or(|state| state == 'Z' || state == 'X')
        };
        let gone: Vec<&Slot> = living(world).filter(is_gone).collect();
        // Twice: in between it may have been about to say so.
        let still = gone
            .iter()
            .find(|s| self.gone.contains(&s.tid.load(SeqCst)) && s.alive.load(SeqCst) == 1);
        if let Some(slot) = still {
            return Err(ExecError::Environment(format!(
                "{} was killed; is this machine out of memory? (dmesg)",
                world.label(slot)
            )));
        }
        self.gone = gone.iter().map(|s| s.tid.load(SeqCst)).collect();
        Ok(())
    }
}

/// One letter, as ps shows it. `None`: there is no such thread.
fn state(tid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn is_asleep(tid: u32) -> bool {
    tid != 0 && state(tid) == Some('S')
}

fn deadlock(world: &World) -> String {
    let waiting: Vec<&Slot> = living(world).collect();
    let named = waiting.iter().take(NAMED).map(|s| describe(world, s));
    let named: Vec<String> = named.collect();
    let others = match waiting.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("deadlock: {}{others}", named.join(", "))
}

fn describe(world: &World, slot: &Slot) -> String {
    let workload = &world.workload;
    let (wait, i) = slot.wait();
    let what = match wait {
        Wait::Nothing => "time".to_owned(),
        Wait::Mutex => {
            let owner = world.mutexes[i].owner();
            let held = |s: &&Slot| Some(s.tid.load(SeqCst)) == owner;
            let holder = living(world).find(held);
            let holder = holder.map_or("nobody".to_owned(), |s| world.label(s));
            format!("lock '{}', which {holder} holds", workload.mutexes[i].name)
        }
        Wait::Cond => format!("condition '{}'", workload.conds[i]),
        Wait::Barrier => {
            let (barrier, came) = (&workload.barriers[i], world.barriers[i].waiting());
            let (name, parties) = (&barrier.name, barrier.parties);
            format!("barrier '{name}' ({came} of {parties} came)")
        }
        Wait::Sem => format!("semaphore '{}'", workload.sems[i].name),
        Wait::PipeRead => format!("data in pipe '{}'", workload.pipes[i].name),
        Wait::PipeWrite => format!("room in pipe '{}'", workload.pipes[i].name),
        Wait::Place => format!("a resume of '{}'", workload.places[i]),
        Wait::Children => "its children".to_owned(),
    };
    format!("{} waits for {what}", world.label(slot))
}
