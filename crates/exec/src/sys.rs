// SPDX-License-Identifier: GPL-2.0-or-later
//! The system calls that the standard library does not offer, each behind a safe function.

use std::io;
use std::sync::atomic::AtomicU32;

/// What CLOCK_MONOTONIC says. No system call: the vDSO answers.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The same as of the last tick.
pub fn coarse_now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// From tick to tick.
pub fn coarse_step_ns() -> u64 {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct; the clock exists on every Linux.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut step) };
    step.tv_nsec as u64
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Sleeps until the monotonic clock shows `at_ns`; a time that has passed costs nothing.
pub fn sleep_until(at_ns: u64) {
    if at_ns <= now_ns() {
        return;
    }
    let at = timespec(at_ns);
    // SAFETY: reads the struct. A signal only makes it start again, for the time is absolute.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &at,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}

/// Sleeps while the word holds `expected`, until somebody wakes one of `bits`, or until `at_ns`.
/// May return early for no reason: look again.
pub fn futex_wait(word: &AtomicU32, expected: u32, bits: u32, at_ns: Option<u64>) {
    let at = at_ns.map(timespec);
    let at = at.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word lives as long as the reference. It is no private futex: processes share it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            at,
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

/// Wakes up to `count` that wait for one of `bits`, in the order in which they came.
pub fn futex_wake(word: &AtomicU32, count: u32, bits: u32) {
    // SAFETY: as above; a wake touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE_BITSET,
            count.min(i32::MAX as u32),
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            bits,
        )
    };
}

/// `FUTEX_LOCK_PI`, `FUTEX_UNLOCK_PI`: the kernel keeps the owner in the word and lends it the waiters' priority.
pub fn futex_pi(word: &AtomicU32, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: as above.
    let done = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            0,
            std::ptr::null::<libc::timespec>(),
        )
    };
    checked(done)
}

pub fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub fn tid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Name of the calling thread as the kernel reports it, cut to its 15 bytes.
pub fn set_name(name: &str) {
    let mut comm = [0u8; 16];
    let len = name.len().min(15);
    comm[..len].copy_from_slice(&name.as_bytes()[..len]);
    // SAFETY: reads 16 bytes that end in 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, comm.as_ptr()) };
}

/// Timed sleeps of this thread and its children end on time, not up to 50 us later, which would be
/// the timer's doing and not the scheduler's.
pub fn exact_timers() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

pub fn yield_now() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Ends the calling thread, the main thread of a process too: the process goes on with its others.
pub fn end_thread() -> ! {
    loop {
        // SAFETY: does not return. Nothing on this stack is needed by anybody: threads own what they use.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Ends the process without what `exit` does at the end: that is the parent's to do.
pub fn end_process(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

/// Forks; the child does `body` and ends. Never returns in the child, not even by a panic: the callers on its copy
/// of the stack are the parent's.
pub fn fork(body: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: the child only runs `body`; glibc makes its own locks, malloc's among them, usable there.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
            Ok(()) => end_thread(),
            Err(_) => end_process(101),
        },
        pid => Ok(pid),
    }
}

/// What a thread is to do.
type Body = Box<dyn FnOnce() + Send>;

/// Starts a thread that ends by itself, and gives its tid, unless it has ended already. Its beginning takes no lock of the process,
/// as one of the standard library does, which maps a stack for signals.
pub fn start_thread(stack_bytes: usize, body: Body) -> io::Result<Option<u32>> {
    extern "C" fn begin(body: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the caller has given this away.
        let body = unsafe { Box::from_raw(body.cast::<Body>()) };
        // As std::thread: a panic, which has been reported, ends the thread only.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(*body));
        std::ptr::null_mut()
    }
    let checked = |error: libc::c_int| match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    };
    let body = Box::into_raw(Box::new(body));
    let mut clock = 0;
    // SAFETY: the attributes are initialised before their use; the thread owns `body` if there is one; it is joinable, so it can
    // be asked about, until it is detached.
    let asked = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread: libc::pthread_t = std::mem::zeroed();
        checked(libc::pthread_attr_init(&mut attributes))?;
        libc::pthread_attr_setstacksize(&mut attributes, stack_bytes);
        let created = libc::pthread_create(&mut thread, &attributes, begin, body.cast());
        libc::pthread_attr_destroy(&mut attributes);
        if let Err(error) = checked(created) {
            drop(Box::from_raw(body));
            return Err(error);
        }
        let asked = libc::pthread_getcpuclockid(thread, &mut clock);
        libc::pthread_detach(thread);
        checked(asked)
    };
    // The kernel's encoding of a thread's clock: the complement of its tid above three bits.
    Ok(asked.is_ok().then_some(!(clock >> 3) as u32))
}

/// While this lives, the calling thread gives its CPU to no other of the usual class.
pub struct Alone(bool);

impl Alone {
    /// A thread with a class or nice value of its own stays as it is: its children would not inherit them. So does one that
    /// lacks the privilege.
    pub fn begin() -> Alone {
        // SAFETY: plain numbers.
        let usual = unsafe {
            libc::sched_getscheduler(0) == libc::SCHED_OTHER
                && libc::getpriority(libc::PRIO_PROCESS, 0) == 0
        };
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        Alone(usual && set_policy(policy, 1).is_ok())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if self.0 {
            let _ = set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

/// The signal that this process gets when its parent ends.
pub fn on_parents_death(signal: libc::c_int) {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
}

/// Makes orphans below this process its children.
pub fn adopt_orphans() {
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) };
}

/// Children that end leave nothing behind that must be waited for.
pub fn forget_children() {
    // SAFETY: SIG_IGN is no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

pub fn kill(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: plain numbers; a process that has gone is no harm.
    unsafe { libc::kill(pid, signal) };
}

/// Waits until there are no children of this process left.
pub fn wait_for_all_children() {
    loop {
        // SAFETY: a null status is not written to.
        let ended = unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) };
        if ended == -1 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return;
        }
    }
}

/// CPUs on which the calling thread may run.
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: the set lives on this stack and is as large as is said; all bits 0 is an empty one.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        set
    };
    // SAFETY: the numbers are within the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect()
}

/// The CPU on which the calling thread runs.
pub fn current_cpu() -> usize {
    // SAFETY: no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Binds the calling thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    pin_to(&[cpu])
}

/// Binds the calling thread to these CPUs.
pub fn pin_to(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: as in allowed_cpus().
    checked(unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus {
            libc::CPU_SET(*cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set).into()
    })
}

/// Makes the calling thread one that does not preempt when it wakes up (SCHED_BATCH).
pub fn become_batch() -> io::Result<()> {
    set_policy(libc::SCHED_BATCH, 0)
}

/// Makes the calling thread one that runs when nothing else wants its CPU (SCHED_IDLE).
pub fn become_idle_class() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

/// Makes the calling thread one that preempts all others when it wakes up (SCHED_FIFO). Needs privileges.
pub fn become_realtime() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, 1)
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameter outlives the call; 0 is the caller.
    checked(unsafe { libc::sched_setscheduler(0, policy, &parameter) }.into())
}

/// Where the kernel shows its tracepoints, on this machine or this virtual one.
pub fn mount_tracefs(at: &std::path::Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let at = std::ffi::CString::new(at.as_os_str().as_bytes())?;
    let name = c"tracefs".as_ptr();
    // SAFETY: three strings that end with 0; this file system takes no data.
    match unsafe { libc::mount(name, at.as_ptr(), name, 0, std::ptr::null()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn whoever_starts_a_thread_knows_its_number() {
        let ((tell, hear), (end, ends)) = (channel(), channel::<()>());
        let body = Box::new(move || {
            tell.send(tid()).unwrap();
            let _ = ends.recv();
        });
        let known = start_thread(256 << 10, body).unwrap();
        drop(end);
        assert_eq!(known, hear.recv().ok());
    }

    /// Twenty threads that are born beside one that is alone on its CPU: until when it was, and when each ran first and in what
    /// class. `None`: the right to be alone is missing.
    fn births() -> Option<(u64, Vec<(u64, i32)>)> {
        pin(current_cpu()).unwrap();
        let alone = Alone::begin();
        if !alone.0 {
            return None;
        }
        let (tell, hear) = channel();
        for _ in 0..20 {
            let tell = tell.clone();
            // SAFETY: a plain number.
            let policy = || unsafe { libc::sched_getscheduler(0) };
            let body = Box::new(move || tell.send((now_ns(), policy())).unwrap());
            start_thread(256 << 10, body).unwrap();
        }
        let until_ns = now_ns() + 20_000_000;
        while now_ns() < until_ns {}
        drop((alone, tell));
        Some((until_ns, hear.iter().collect()))
    }

    #[test]
    fn alone_on_a_cpu_before_the_newborn() {
        let mut early_ns = 0;
        // The kernel lends a realtime thread's CPU to others after a while, so a busy machine can spoil an attempt. Threads that
        // are not alone share the CPU within a few milliseconds at each attempt.
        for _ in 0..5 {
            // A thread of its own: what it changes is its own.
            let Some((until_ns, newborn)) = std::thread::spawn(births).join().unwrap() else {
                eprintln!("skipped: needs nice 0 and the right to set realtime classes");
                return;
            };
            assert_eq!(newborn.len(), 20);
            assert!(
                newborn
                    .iter()
                    .all(|(_, policy)| *policy == libc::SCHED_OTHER)
            );
            let first_ns = newborn.iter().map(|(at_ns, _)| *at_ns).min();
            early_ns = until_ns.saturating_sub(first_ns.unwrap_or(until_ns));
            if early_ns == 0 {
                return;
            }
        }
        panic!("{early_ns} ns early at the fifth attempt");
    }
}
