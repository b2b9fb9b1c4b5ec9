// SPDX-License-Identifier: GPL-2.0-or-later
//! Faults inside schedulers. Signal handlers, installed once for the process, turn SIGSEGV, SIGBUS, SIGFPE and
//! SIGILL that a guarded call causes into a return from that call; every other fault goes to whoever had the signal.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;

const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Bytes of a signal stack for threads that have none: the handler leaves at once, so the frame is all it holds.
const STACK_BYTES: usize = 64 * 1024;

/// What the handler must know about the instance that this thread is in.
#[derive(Debug)]
pub(crate) struct Guard {
    /// The instance's `tilt_top`: null when no guarded call is under way.
    pub top: *const *const u8,
    /// The instance's `tilt_unwind`.
    pub unwind: unsafe extern "C" fn(c_int) -> !,
    /// Where the fault was, for the report.
    pub address: Cell<u64>,
}

/// `TILT_FAULT` of runtime.c.
pub(crate) const STATUS_FAULT: c_int = 1;
/// `TILT_OUTSIDE` of runtime.c.
pub(crate) const STATUS_OUTSIDE: c_int = 3;

thread_local! {
    static CURRENT: Cell<*const Guard> = const { Cell::new(ptr::null()) };
    static PREPARED: Cell<bool> = const { Cell::new(false) };
    static STACK: Cell<Option<SignalStack>> = const { Cell::new(None) };
}

/// Makes `guard` this thread's instance and returns the previous one, to be put back after the call.
#[inline]
pub(crate) fn enter(guard: *const Guard) -> *const Guard {
    if !PREPARED.get() {
        prepare_thread();
    }
    CURRENT.replace(guard)
}

#[inline]
pub(crate) fn leave(outer: *const Guard) {
    CURRENT.set(outer);
}

/// A signal stack that goes with its thread.
struct SignalStack {
    memory: Box<[u8]>,
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let off = libc::stack_t {
            ss_sp: ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: self.memory.len(),
        };
        // SAFETY: takes the stack away before its memory goes.
        unsafe { libc::sigaltstack(&off, ptr::null_mut()) };
    }
}

#[cold]
fn prepare_thread() {
    install_handlers();
    // SAFETY: asks for, and if there is none sets, this thread's signal stack; the memory lives in a thread local.
    unsafe {
        let mut now: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut now);
        if now.ss_flags & libc::SS_DISABLE != 0 {
            let mut stack = SignalStack {
                memory: vec![0; STACK_BYTES].into_boxed_slice(),
            };
            let new = libc::stack_t {
                ss_sp: stack.memory.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: STACK_BYTES,
            };
            libc::sigaltstack(&new, ptr::null_mut());
            STACK.set(Some(stack));
        }
    }
    PREPARED.set(true);
}

/// Handlers that were there before, in the order of [`SIGNALS`].
static PREVIOUS: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

fn install_handlers() {
    PREVIOUS.get_or_init(|| {
        SIGNALS.map(|signal| {
            // SAFETY: plain sigaction with a handler of the SA_SIGINFO form. SA_NODEFER because the handler is
            // left by a jump, which would otherwise leave the signal blocked.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut old: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = on_fault as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigemptyset(&mut new.sa_mask);
                libc::sigaction(signal, &new, &mut old);
                old
            }
        })
    });
}

unsafe extern "C" fn on_fault(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let guard = CURRENT.get();
    // SAFETY: a guard that is current outlives the call that made it so; si_addr is valid for these signals.
    unsafe {
        if !guard.is_null() && !(*(*guard).top).is_null() {
            (*guard).address.set((*info).si_addr() as u64);
            ((*guard).unwind)(STATUS_FAULT)
        }
        pass_on(signal, info, context);
    }
}

/// Does what would have been done without this module.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = SIGNALS.iter().position(|&s| s == signal);
    let old = PREVIOUS.get().zip(index).map(|(all, i)| all[i]);
    // SAFETY: calls the previous handler in the form in which it was installed, or falls back to the default
    // action: the faulting instruction is then run again and ends the process.
    unsafe {
        match old {
            Some(old) if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN => {
                if old.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(old.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(old.sa_sigaction);
                    handler(signal);
                }
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}
