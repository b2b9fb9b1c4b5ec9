// SPDX-License-Identifier: GPL-2.0-or-later
//! BPF helpers that are not about maps: time, identity, memory, printing, loops.

use super::{EnginePtr, Helper};
use crate::bpf::format::{FormatError, c_string, format};
use crate::engine::Engine;
use crate::ext::flags::EINVAL;
use crate::races::Sync;
use std::ffi::c_void;
use tiltyard_model::Cpu;
use tiltyard_native::object::how;

pub(super) const HELPERS: &[Helper] = &[
    (4, || probe_read as *const c_void),
    (5, || ktime_get_ns as *const c_void),
    (6, || trace_printk as *const c_void),
    (7, || get_prandom_u32 as *const c_void),
    (8, || get_smp_processor_id as *const c_void),
    (14, || get_current_pid_tgid as *const c_void),
    (16, || get_current_comm as *const c_void),
    (35, || get_current_task as *const c_void),
    (42, || get_numa_node_id as *const c_void),
    (45, || probe_read_str as *const c_void),
    (93, || spin_lock as *const c_void),
    (94, || spin_unlock as *const c_void),
    (113, || probe_read as *const c_void),
    (115, || probe_read_str as *const c_void),
    (118, || jiffies64 as *const c_void),
    (125, || ktime_get_ns as *const c_void),
    (158, || get_current_task as *const c_void),
    (160, || ktime_get_ns as *const c_void),
    (165, || snprintf as *const c_void),
    (177, || trace_vprintk as *const c_void),
    (181, || bpf_loop as *const c_void),
    (182, || strncmp as *const c_void),
    (194, || kptr_xchg as *const c_void),
    (208, || ktime_get_ns as *const c_void),
];

/// Addresses below this are never mapped: a read from there fails as it does in the kernel.
const FIRST_ADDRESS: u64 = 65_536;
const EFAULT: i64 = -14;
const E2BIG: i64 = -7;
/// Longest string that a message may print.
const MESSAGE_BYTES: usize = 1024;
/// Longest format string that is examined.
const FORMAT_BYTES: usize = 4096;

/// The text of a `bstr` call.
///
/// # Safety
/// `fmt` is a C string and `data` holds `size` bytes of u64 arguments.
pub(super) unsafe fn format_args(e: &mut Engine, fmt: u64, data: u64, size: u64) -> String {
    // SAFETY: the caller's promise.
    let printed = unsafe { print(e, fmt, args_at(data, size), MESSAGE_BYTES) };
    match printed {
        Ok(_) => printable(&String::from_utf8_lossy(&e.ext.bpf.printed)),
        Err(error) => printable(&error.to_string()),
    }
}

/// A terminal would obey control characters.
fn printable(text: &str) -> String {
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().fold(String::new(), |mut all, c| {
        match is_obeyed(c) {
            true => all.extend(c.escape_default()),
            false => all.push(c),
        }
        all
    })
}

/// # Safety
/// `data` holds `size` bytes of u64 arguments.
unsafe fn args_at<'a>(data: u64, size: u64) -> &'a [u64] {
    if data == 0 || size == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data as *const u64, size as u32 as usize / 8) }
}

/// Prints into the engine's own buffer, because the call may end at any of the scheduler's pointers. Returns the length
/// without the limit.
///
/// # Safety
/// `fmt` is a C string; arguments of `%s` are too.
unsafe fn print(
    e: &mut Engine,
    fmt: u64,
    args: &[u64],
    limit: usize,
) -> Result<usize, FormatError> {
    // SAFETY: the caller's promise.
    let fmt = unsafe { c_string(fmt as *const u8, FORMAT_BYTES) }.unwrap_or_default();
    let bpf = &mut e.ext.bpf;
    format(fmt, args, limit, &mut bpf.memory, &mut bpf.printed)
}

/// Time goes on while a callback runs: what it did so far has taken as long as it costs.
extern "C" fn ktime_get_ns(mut e: EnginePtr) -> u64 {
    e.engine_for_free().own_ns()
}

extern "C" fn jiffies64(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    e.now / e.clock.tick_ns()
}

extern "C" fn get_prandom_u32(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    let cpu = e.exec_cpu;
    e.left_to_chance = true;
    u64::from(e.ext.bpf.prandom.u32(cpu))
}

extern "C" fn get_smp_processor_id(mut e: EnginePtr) -> u64 {
    u64::from(e.engine_for_free().exec_cpu)
}

extern "C" fn get_numa_node_id(mut e: EnginePtr) -> u64 {
    let e = e.engine_for_free();
    u64::from(e.machine.cpus[e.exec_cpu as usize].node)
}

impl Engine<'_> {
    /// `current`: the task whose kernel path runs the scheduler's code.
    fn current(&self) -> &crate::task::Task {
        &self.tasks[self.rqs[self.exec_cpu as usize].curr.index()]
    }
}

extern "C" fn get_current_pid_tgid(mut e: EnginePtr) -> u64 {
    let task = e.engine_for_free().current();
    (task.kern.tgid as u64) << 32 | task.kern.pid as u64
}

extern "C" fn get_current_task(mut e: EnginePtr) -> *const c_void {
    e.engine_for_free()
        .current()
        .kernel_ptr()
        .cast_const()
        .cast()
}

unsafe extern "C" fn get_current_comm(mut e: EnginePtr, buf: *mut u8, size: u64) -> i64 {
    let comm = &e.engine_for_free().current().kern.comm;
    let size = size as u32 as usize;
    if size == 0 {
        return EINVAL;
    }
    let n = comm.len().min(size - 1);
    // SAFETY: the scheduler's buffer has `size` bytes.
    unsafe {
        buf.write_bytes(0, size);
        buf.copy_from(comm.as_ptr().cast(), n);
    }
    0
}

/// A copy from kernel memory; reads at or near NULL fail and leave zeroes.
unsafe extern "C" fn probe_read(_e: EnginePtr, dst: *mut u8, size: u64, src: u64) -> i64 {
    let size = size as u32 as usize;
    // SAFETY: the scheduler's buffer has `size` bytes; a wild source is caught as a crash of the scheduler.
    unsafe {
        if src < FIRST_ADDRESS {
            dst.write_bytes(0, size);
            return EFAULT;
        }
        dst.copy_from(src as *const u8, size);
    }
    0
}

/// A string from kernel memory, always terminated; returns its length with the terminator.
unsafe extern "C" fn probe_read_str(_e: EnginePtr, dst: *mut u8, size: u64, src: u64) -> i64 {
    let size = size as u32 as usize;
    if size == 0 {
        return 0;
    }
    // SAFETY: as in `probe_read`.
    unsafe {
        if src < FIRST_ADDRESS {
            dst.write_bytes(0, size);
            return EFAULT;
        }
        let mut n = 0;
        while n < size - 1 && *(src as *const u8).add(n) != 0 {
            *dst.add(n) = *(src as *const u8).add(n);
            n += 1;
        }
        *dst.add(n) = 0;
        n as i64 + 1
    }
}

unsafe extern "C" fn trace_printk(
    mut e: EnginePtr,
    fmt: u64,
    _size: u64,
    a: u64,
    b: u64,
    c: u64,
) -> i64 {
    // SAFETY: the scheduler's format string. Arguments that the call did not pass are not read.
    unsafe { trace(e.engine_for_free(), fmt, &[a, b, c]) }
}

unsafe extern "C" fn trace_vprintk(
    mut e: EnginePtr,
    fmt: u64,
    _size: u64,
    data: u64,
    len: u64,
) -> i64 {
    // SAFETY: the scheduler's format string and `len` bytes of arguments.
    unsafe { trace(e.engine_for_free(), fmt, args_at(data, len)) }
}

/// Messages of a run that are passed on: an endless loop that prints would fill disks.
const MOST_PRINTED: u64 = 1_000_000;

/// What a kernel would write to its trace pipe.
unsafe fn trace(e: &mut Engine, fmt: u64, args: &[u64]) -> i64 {
    // SAFETY: the caller's promise.
    match unsafe { print(e, fmt, args, MESSAGE_BYTES) } {
        Ok(len) => {
            let (time_ns, cpu) = (e.own_ns(), Cpu(e.exec_cpu));
            e.ext.bpf.lines_printed += 1;
            if e.ext.bpf.lines_printed <= MOST_PRINTED {
                let line = printable(&String::from_utf8_lossy(&e.ext.bpf.printed));
                e.sink.printed(time_ns, cpu, &line);
            } else if e.ext.bpf.lines_printed == MOST_PRINTED + 1 {
                e.sink
                    .printed(time_ns, cpu, "(more is printed, but not kept)");
            }
            len as i64
        }
        Err(error) => error.errno(),
    }
}

unsafe extern "C" fn snprintf(
    mut e: EnginePtr,
    out: *mut u8,
    size: u64,
    fmt: u64,
    data: u64,
    len: u64,
) -> i64 {
    let (e, size) = (e.engine_for_free(), size as u32 as usize);
    // SAFETY: the scheduler's buffers, with the sizes that it gives.
    unsafe {
        match print(e, fmt, args_at(data, len), size) {
            Ok(len) => {
                let text = &e.ext.bpf.printed;
                out.copy_from(text.as_ptr(), text.len());
                if size > 0 {
                    *out.add(text.len()) = 0;
                }
                len as i64 + 1
            }
            Err(error) => error.errno(),
        }
    }
}

/// callback(index, ctx) until it returns 1; returns how often it was called.
unsafe extern "C" fn bpf_loop(
    _e: EnginePtr,
    nr_loops: u64,
    callback: u64,
    arg: u64,
    flags: u64,
) -> i64 {
    type Callback = unsafe extern "C" fn(u64, u64) -> u64;
    let nr_loops = u64::from(nr_loops as u32);
    if flags != 0 {
        return EINVAL;
    }
    if nr_loops > 8 << 20 {
        return E2BIG;
    }
    // SAFETY: a callback of the scheduler's, inside the call that the engine made.
    let callback = unsafe { std::mem::transmute::<u64, Callback>(callback) };
    for i in 0..nr_loops {
        // SAFETY: as above.
        if unsafe { callback(i, arg) } & 1 != 0 {
            return i as i64 + 1;
        }
    }
    nr_loops as i64
}

unsafe extern "C" fn strncmp(_e: EnginePtr, a: *const u8, size: u64, b: *const u8) -> i64 {
    for i in 0..size as u32 as usize {
        // SAFETY: `a` has `size` bytes, `b` is a C string.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y || x == 0 {
            return i64::from(x) - i64::from(y);
        }
    }
    0
}

/// Swaps a pointer kept in a map.
unsafe extern "C" fn kptr_xchg(mut e: EnginePtr, slot: *mut u64, new: u64) -> u64 {
    let e = e.engine_for_free();
    if e.races.is_some() {
        let how = how::WRITE | how::MARKED | how::UPDATE | how::FENCE;
        e.check_access(slot as usize, 8, how, e.instance.place());
    }
    // SAFETY: a field of a map value.
    unsafe { std::mem::replace(&mut *slot, new) }
}

extern "C" fn spin_lock(mut e: EnginePtr, lock: u64) {
    let e = e.engine_for_free();
    e.charge_call(e.machine.costs.spin_lock_ns);
    e.take_spin_lock(lock);
    e.acquire(Sync::Spin(lock as usize));
    let instance = e.instance;
    // SAFETY: the engine is not used any more. The lock is a word of the scheduler's.
    unsafe { instance.touch(lock, how::WRITE | how::UPDATE) };
}

extern "C" fn spin_unlock(mut e: EnginePtr, lock: u64) {
    let e = e.engine_for_free();
    e.release(Sync::Spin(lock as usize));
    e.give_back_spin_lock(lock);
}
