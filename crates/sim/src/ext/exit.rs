// SPDX-License-Identifier: GPL-2.0-or-later
//! How a scheduler ends: exit kinds, messages, dumps.

use crate::engine::Engine;
use crate::ext::ops::Op;
use crate::task::{DsqRef, Life, TaskId};
use std::ffi::{CString, c_char};
use std::fmt::Write;
use std::ptr;
use tiltyard_native::layout::{DumpCtx, ExitInfo};

/// `enum scx_exit_kind` of the reference kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum ExitKind {
    #[default]
    None = 0,
    /// Unloaded by the user: the normal end of a run.
    Unreg = 64,
    /// scx_bpf_exit().
    UnregBpf = 65,
    Error = 1024,
    /// scx_bpf_error().
    ErrorBpf = 1025,
    /// A runnable task waited longer than the watchdog allows.
    ErrorStall = 1026,
}

impl ExitKind {
    /// The kernel's description.
    pub fn reason(self) -> &'static str {
        match self {
            ExitKind::None => "none",
            ExitKind::Unreg => "unregistered from user space",
            ExitKind::UnregBpf => "unregistered from BPF",
            ExitKind::Error => "runtime error",
            ExitKind::ErrorBpf => "scx_bpf_error",
            ExitKind::ErrorStall => "runnable task stall",
        }
    }

    pub fn is_error(self) -> bool {
        self as i32 >= ExitKind::Error as i32
    }
}

/// What the kernel would put into `struct scx_exit_info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub kind: ExitKind,
    pub code: i64,
    pub message: String,
    /// State at the time of an error: CPUs, their tasks, and what ops.dump* printed.
    pub dump: String,
    pub time_ns: u64,
    /// True: it was loaded; false: loading failed.
    pub loaded: bool,
    /// The scheduler's own name: `.name` of its ops.
    pub name: String,
    /// Line of the scheduler's source that was being executed, `mine.bpf.c:42`, if known.
    pub place: Option<String>,
}

/// SCX_EXIT_MSG_LEN
const MESSAGE_BYTES: usize = 1024;

impl Engine<'_> {
    /// `scx_error()`: the first error counts. Callbacks continue until the current instant is over.
    pub(crate) fn ext_error(&mut self, message: String) {
        self.ext_exit(ExitKind::Error, 0, message);
    }

    pub(crate) fn ext_exit(&mut self, kind: ExitKind, code: i64, mut message: String) {
        if self.ext.exit.is_some() {
            return;
        }
        let mut cut = message.len().min(MESSAGE_BYTES - 1);
        while !message.is_char_boundary(cut) {
            cut -= 1;
        }
        message.truncate(cut);
        self.ext.exit = Some(Exit {
            kind,
            code,
            message,
            dump: String::new(),
            time_ns: self.now,
            loaded: self.ext.enabled,
            name: self.ext.name.clone(),
            // Between callbacks the core found the error, so there is no line of the scheduler.
            place: (self.ext.depth > 0)
                .then(|| self.object.place(self.instance.place()))
                .flatten(),
        });
    }

    /// `scx_dump_state()`: the scheduler's own dump, then each CPU with its running and queued tasks.
    pub(crate) fn ext_dump(&mut self) {
        let Some(exit) = self.ext.exit.clone() else {
            return;
        };
        let reason = c_string(exit.kind.reason());
        let ctx = DumpCtx {
            kind: exit.kind as i32,
            exit_code: exit.code,
            reason: reason.as_ptr(),
            at_ns: self.now,
            at_jiffies: self.now / self.clock.tick_ns(),
        };
        let ctx = ptr::from_ref(&ctx) as u64;
        let mut out = String::new();
        self.call_op(Op::Dump, &[ctx], TaskId::IDLE, None);
        self.take_dump(&mut out);
        for cpu in 0..self.rqs.len() as u32 {
            self.dump_cpu(cpu, ctx, &mut out);
        }
        if let Some(exit) = &mut self.ext.exit {
            exit.dump = out;
        }
    }

    fn dump_cpu(&mut self, cpu: u32, ctx: u64, out: &mut String) {
        let rq = &self.rqs[cpu as usize];
        let curr = rq.curr;
        let idle = rq.nr_running == 0 && curr.is_idle();
        let mut own = String::new();
        self.lock_rq(cpu);
        self.call_op(
            Op::DumpCpu,
            &[ctx, u64::from(cpu), u64::from(idle)],
            TaskId::IDLE,
            Some(cpu),
        );
        self.take_dump(&mut own);
        if idle && own.is_empty() {
            return self.unlock_rq(cpu);
        }
        let rq = &self.rqs[cpu as usize];
        let label = self.label_on(cpu, curr);
        let _ = writeln!(out, "CPU {cpu:<4}: nr_run={} curr={label}", rq.nr_running);
        out.push_str(&own);
        let queued: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|t| t.life == Life::Runnable && t.cpu == cpu && t.id != curr && !t.id.is_idle())
            .map(|t| t.id)
            .collect();
        for id in (!curr.is_idle()).then_some(curr).into_iter().chain(queued) {
            self.dump_task(id, id == curr, ctx, out);
        }
        self.unlock_rq(cpu);
    }

    fn dump_task(&mut self, id: TaskId, running: bool, ctx: u64, out: &mut String) {
        let task = &self.tasks[id.index()];
        let mark = if running { '*' } else { ' ' };
        let waits_ms = self.now.saturating_sub(task.kern.scx.runnable_at) / 1_000_000;
        let _ = writeln!(
            out,
            " {mark}R {} {}ms\n    scx_state={} flags={:#x} ops_state={} dsq={}\n    slice={} dsq_vtime={} weight={} cpus={}",
            self.task_label(id),
            if running { 0 } else { waits_ms },
            task.ext.state.word(),
            task.kern.scx.flags,
            task.ext.ops_state.word(),
            self.dsq_word(id),
            task.kern.scx.slice,
            task.kern.scx.dsq_vtime,
            task.kern.scx.weight,
            task.cpus.weight(),
        );
        let arg = self.task_arg(id);
        let cpu = self.tasks[id.index()].cpu;
        self.call_op(Op::DumpTask, &[ctx, arg], id, Some(cpu));
        self.take_dump(out);
    }

    /// The DSQ that a task is on, as the kernel's dump names it.
    fn dsq_word(&self, id: TaskId) -> String {
        match self.tasks[id.index()].ext.dsq {
            None => "none".to_owned(),
            Some(DsqRef::Local(cpu)) => format!("LOCAL_ON|{cpu}"),
            Some(DsqRef::Global(_)) => "GLOBAL".to_owned(),
            Some(DsqRef::User(slot)) => format!("{:#x}", self.ext.dsqs.get(slot).id),
        }
    }

    fn take_dump(&mut self, out: &mut String) {
        for line in std::mem::take(&mut self.ext.bpf.dump).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }

    /// ops.exit() with the kernel's exit information.
    pub(crate) fn call_exit_op(&mut self) {
        let Some(exit) = self.ext.exit.clone() else {
            return;
        };
        let (reason, message, dump) = (
            c_string(exit.kind.reason()),
            c_string(&exit.message),
            c_string(&exit.dump),
        );
        let no_backtrace = [0u64; 1];
        let info = ExitInfo {
            kind: exit.kind as i32,
            flags: 0,
            exit_code: exit.code,
            reason: reason.as_ptr(),
            bt: no_backtrace.as_ptr(),
            bt_len: 0,
            msg: message.as_ptr(),
            dump: dump.as_ptr().cast::<c_char>(),
        };
        self.call_op(Op::Exit, &[ptr::from_ref(&info) as u64], TaskId::IDLE, None);
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
