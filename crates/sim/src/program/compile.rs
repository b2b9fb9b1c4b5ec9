// SPDX-License-Identifier: GPL-2.0-or-later
//! Workload tasks as flat code: loops and conditions become jumps.

use tiltyard_workload::{Attrs, Op, Ref, TaskSpec, Workload};

#[derive(Clone, Debug, PartialEq)]
pub enum Insn {
    /// One operation without a body.
    Do(Op),
    SetAttrs(Attrs),
    /// Opens a loop; `None`: forever. A count of 0 jumps behind the loop's end.
    LoopBegin {
        count: Option<u64>,
        end: u32,
        counted: bool,
    },
    LoopEnd {
        begin: u32,
    },
    /// Takes one from a counter, or leaves the loop when it is exhausted.
    Take {
        counter: Ref,
        end: u32,
    },
    /// Leaves the loop at this time after the workload's start.
    UnlessAfter {
        time_ns: u64,
        end: u32,
    },
    /// Opens a block that lasts this long from now.
    Last {
        time_ns: u64,
    },
    /// Leaves that block when its time is over.
    UnlessOver {
        end: u32,
    },
    /// Continues with this probability, else jumps.
    Chance {
        ppm: u32,
        end: u32,
    },
    Jump {
        to: u32,
    },
    /// Sleeps until a time on the engine's clock.
    SleepUntil {
        time_ns: u64,
    },
    /// A thread of the kernel's own sleeps until it has work.
    SleepAsKernel {
        thread: u32,
    },
    /// A shell starts instances of a task of its application.
    Start {
        task: u32,
        count: u32,
    },
    Exit,
}

/// Code of a workload task.
pub fn compile_task(spec: &TaskSpec) -> Vec<Insn> {
    let mut code = Vec::new();
    if spec.attrs != Attrs::default() {
        code.push(Insn::SetAttrs(spec.attrs.clone()));
    }
    let whole = begin_loop(&mut code, spec.loops, false);
    for phase in &spec.phases {
        if phase.attrs != Attrs::default() {
            code.push(Insn::SetAttrs(phase.attrs.clone()));
        }
        let inner = begin_loop(&mut code, phase.loops, false);
        compile_ops(&mut code, &phase.ops);
        end_loop(&mut code, inner);
    }
    end_loop(&mut code, whole);
    code.push(Insn::Exit);
    code
}

/// Code of an application's shell: sleeps until the workload starts, starts tasks when due, waits, exits.
/// `starts_ns`: when each task of the workload is due, from the workload's start on.
pub fn compile_shell(
    app: usize,
    workload: &Workload,
    origin_ns: u64,
    starts_ns: &[u64],
) -> Vec<Insn> {
    let mut starts: Vec<(u64, usize)> = workload
        .tasks
        .iter()
        .enumerate()
        .filter(|(_, t)| t.app == app && t.instances > 0)
        .map(|(i, _)| (starts_ns[i], i))
        .collect();
    starts.sort_unstable();
    let mut code = Vec::new();
    let mut last_ns = None;
    for (start_ns, task) in starts {
        if last_ns != Some(start_ns) {
            code.push(Insn::SleepUntil {
                time_ns: origin_ns + start_ns,
            });
            last_ns = Some(start_ns);
        }
        let count = workload.tasks[task].instances;
        code.push(Insn::Start {
            task: task as u32,
            count,
        });
    }
    code.push(Insn::Do(Op::Join));
    code.push(Insn::Exit);
    code
}

fn begin_loop(code: &mut Vec<Insn>, count: Option<u64>, counted: bool) -> Option<u32> {
    if count == Some(1) && !counted {
        return None;
    }
    code.push(Insn::LoopBegin {
        count,
        end: 0,
        counted,
    });
    Some(code.len() as u32 - 1)
}

fn end_loop(code: &mut Vec<Insn>, begin: Option<u32>) {
    let Some(begin) = begin else { return };
    code.push(Insn::LoopEnd { begin });
    let behind = code.len() as u32;
    if let Insn::LoopBegin { end, .. } = &mut code[begin as usize] {
        *end = behind;
    }
}

fn compile_ops(code: &mut Vec<Insn>, ops: &[Op]) {
    for op in ops {
        match op {
            Op::Repeat { count, body } => {
                let begin = begin_loop(code, Some(*count), true);
                compile_ops(code, body);
                end_loop(code, begin);
            }
            Op::Countdown { counter, body } => {
                let counter = counter.clone();
                guarded(code, Insn::Take { counter, end: 0 }, body, true);
            }
            Op::Until { time_ns, body } => {
                guarded(
                    code,
                    Insn::UnlessAfter {
                        time_ns: *time_ns,
                        end: 0,
                    },
                    body,
                    true,
                );
            }
            Op::During { time_ns, body } => {
                code.push(Insn::Last { time_ns: *time_ns });
                guarded(code, Insn::UnlessOver { end: 0 }, body, true);
            }
            Op::Chance { ppm, body } => {
                guarded(code, Insn::Chance { ppm: *ppm, end: 0 }, body, false)
            }
            op => code.push(Insn::Do(op.clone())),
        }
    }
}

/// A body behind a condition that may jump over it; `again`: it is evaluated again after each pass.
fn guarded(code: &mut Vec<Insn>, condition: Insn, body: &[Op], again: bool) {
    let at = code.len() as u32;
    code.push(condition);
    compile_ops(code, body);
    if again {
        code.push(Insn::Jump { to: at });
    }
    let behind = code.len() as u32;
    match &mut code[at as usize] {
        Insn::Take { end, .. }
        | Insn::UnlessAfter { end, .. }
        | Insn::UnlessOver { end }
        | Insn::Chance { end, .. } => *end = behind,
        _ => {}
    }
}
