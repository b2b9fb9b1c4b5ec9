// SPDX-License-Identifier: GPL-2.0-or-later
//! How tasks come to be: threads, processes, and the shells that start the first ones.
//!
//! As in the simulated machine, a shell is a process that has slept before the workload starts, and its app's first
//! task is a process forked from it. The app's other threads belong to that process; no shell can create threads
//! in there, so a thread of it, named like the shell and with its history, does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use tiltyard_workload::TaskSpec;

use crate::task::Kit;
use crate::world::World;
use crate::{ExecError, sys, task};

/// Enough for the interpreter and deeply nested programs; thousands of tasks fit into memory.
const STACK_BYTES: usize = 256 << 10;

/// One task that a shell is to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    delay_ns: u64,
    spec: usize,
}

/// Starts a thread or a process, whichever the spec says, as a child of the task in slot `parent`. `base_ns`: where its
/// timers begin, if not now.
pub fn give(world: &Arc<World>, spec: usize, parent: u32, base_ns: Option<u64>) -> io::Result<()> {
    let at = world.claim(spec, parent, base_ns.is_some());
    let base_ns = base_ns.unwrap_or_else(sys::now_ns);
    // malloc and mmap take locks of the process. A newborn that is preempted while it has one holds up all that are born
    // after it, for as long as the scheduler lets it wait. So an exact one finds everything ready.
    let ready = world.exact.then(|| Kit::new(world, at));
    let tid = with_name_of(world, at, parent, || {
        if world.workload.tasks[spec].thread || world.exact {
            let world = Arc::clone(world);
            thread(move || {
                let kit = ready.unwrap_or_else(|| Kit::new(&world, at));
                task::live(&world, at, base_ns, kit);
            })
        } else {
            let child = || task::live(world, at, base_ns, Kit::new(world, at));
            sys::fork(child).map(|pid| Some(pid as u32))
        }
    })?;
    // Others can mean it before it has run. If it ends meanwhile, its slot is nobody else's yet: slots are taken in turn.
    let slot = &world.slots[at as usize];
    let _ = slot
        .tid
        .compare_exchange(0, tid.unwrap_or(0), SeqCst, SeqCst);
    Ok(())
}

/// A newborn has its parent's name until it runs, but schedulers meet it before. So for as long as `start` takes this
/// thread, which is or represents the task in slot `parent`, is named like the one in slot `child`.
fn with_name_of<T>(world: &World, child: u32, parent: u32, start: impl FnOnce() -> T) -> T {
    sys::set_name(&world.name(&world.slots[child as usize]));
    let started = start();
    sys::set_name(&world.name(&world.slots[parent as usize]));
    started
}

/// Its tid, unless it has ended already.
fn thread(body: impl FnOnce() + Send + 'static) -> io::Result<Option<u32>> {
    sys::start_thread(STACK_BYTES, Box::new(body))
}

/// Why a task could not be started, and the way out.
pub fn refusal(spec: &TaskSpec, error: &io::Error) -> String {
    format!(
        "cannot start '{}': {error}; raise the limit of processes (ulimit -u) or the cgroup's pids.max",
        spec.name
    )
}

/// The shell of an app, in a process of its own: sleeps until the workload starts, starts what is due, waits, ends.
pub fn shell(world: &Arc<World>, app: usize) {
    let at = world.claim_shell(app);
    let slot = &world.slots[at as usize];
    slot.tid.store(sys::tid(), SeqCst);
    sys::set_name(&world.name(slot));
    sys::forget_children();
    if let (Some(group), Some(groups)) = (world.workload.apps[app].group, &world.groups)
        && let Err(error) = groups.join(group, sys::tid())
    {
        let path = &world.workload.groups[group].path;
        world.fail(ExecError::Environment(format!(
            "cannot join cgroup {path}: {error}"
        )));
    }
    let mut starts = starts(world, app).into_iter();
    if world.exact {
        // The first thread of a process takes longest.
        let warm_up = std::thread::spawn(|| ());
        let _ = warm_up.join();
        if let Err(error) = go_to_first_cpu() {
            let what = format!("cannot choose a CPU: {error}");
            world.fail(ExecError::Environment(what));
        }
        let starts: Vec<Start> = starts.collect();
        start_all(world, at, &starts);
    } else if let Some(first) = starts.next() {
        let (threads, processes): (Vec<Start>, Vec<Start>) =
            starts.partition(|s| world.workload.tasks[s.spec].thread);
        sleep_until_due(world, first);
        first_process(world, at, first, threads);
        start_all(world, at, &processes);
    }
    world.join(at);
    world.release(at);
}

/// Where a simulated machine's shells are; from there it may go wherever it might before.
fn go_to_first_cpu() -> io::Result<()> {
    let allowed = sys::allowed_cpus();
    sys::pin_to(&allowed[..1])?;
    sys::pin_to(&allowed)
}

/// Everything that the shell of an app starts, in order.
fn starts(world: &World, app: usize) -> Vec<Start> {
    let tasks = world.workload.tasks.iter().enumerate();
    let own = tasks.filter(|(_, task)| task.app == app);
    let instances = own.flat_map(|(spec, task)| {
        let start = Start {
            delay_ns: task.delay_ns,
            spec,
        };
        std::iter::repeat_n(start, task.instances as usize)
    });
    let mut starts: Vec<Start> = instances.collect();
    starts.sort();
    starts
}

fn sleep_until_due(world: &World, start: Start) {
    sys::sleep_until(world.origin_ns() + start.delay_ns);
}

fn start_all(world: &Arc<World>, shell: u32, starts: &[Start]) {
    for start in starts {
        sleep_until_due(world, *start);
        let base_ns = world.origin_ns() + start.delay_ns;
        if let Err(error) = give(world, start.spec, shell, Some(base_ns)) {
            cannot_start(world, start.spec, &error);
        }
    }
}

fn cannot_start(world: &World, spec: usize, error: &io::Error) -> ! {
    let what = refusal(&world.workload.tasks[spec], error);
    world.fail(ExecError::Environment(what))
}

/// The app's process: its main thread is the first task, `threads` are the others that the shell would start.
fn first_process(world: &Arc<World>, shell: u32, first: Start, threads: Vec<Start>) {
    let at = world.claim(first.spec, shell, true);
    let base_ns = world.origin_ns() + first.delay_ns;
    // The shell must not end while another thread starts tasks in its name.
    world.slots[shell as usize].holders.fetch_add(1, SeqCst);
    let forked = with_name_of(world, at, shell, || {
        sys::fork(|| {
            if threads.is_empty() {
                world.release(shell);
            } else {
                let own = Arc::clone(world);
                let started = thread(move || {
                    sys::set_name(&own.name(&own.slots[shell as usize]));
                    start_all(&own, shell, &threads);
                    own.release(shell);
                });
                if let Err(error) = started {
                    cannot_start(world, first.spec, &error);
                }
            }
            task::live(world, at, base_ns, Kit::new(world, at));
        })
    });
    if let Err(error) = forked {
        cannot_start(world, first.spec, &error);
    }
}
