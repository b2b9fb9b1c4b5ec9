// SPDX-License-Identifier: GPL-2.0-or-later
//! A CPU of the simulated machine and its runqueue.

use crate::contention::lock::Lock;
use crate::ext::dsq::Dsq;
use crate::sched::rt::RtQueue;
use crate::task::TaskId;
use crate::work::Spaces;
use tiltyard_model::machine::CpuPlace;
use tiltyard_model::{Cpu, Event, EventKind, Overhead};
use tiltyard_native::layout::{Rq as KernelRq, ScxRq};

/// Kicks requested by an op, which take effect once it has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kick {
    pub normal: bool,
    pub idle: bool,
    pub preempt: bool,
}

impl Kick {
    pub fn any(self) -> bool {
        self.normal || self.idle || self.preempt
    }
}

/// The order is by how often a field is needed, from one cache line to the next: of thousands of CPUs, each event
/// touches another one.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Rq {
    pub curr: TaskId,
    /// Runnable tasks of all classes, the running one included.
    pub nr_running: u32,
    /// From this time on the current task makes progress; before it the CPU is busy with overhead.
    pub work_start_ns: u64,
    /// Progress of the current task per 1000 ns.
    pub speed_permille: u64,
    /// Overhead charged and not yet counted in the totals below.
    pub overhead_owed_ns: u64,
    pub overhead_untold: bool,
    /// On the engine's list of CPUs whose end of work has changed.
    pub rearm: bool,
    pub need_resched: bool,
    /// An IPI is on its way: `need_resched` will be set when it arrives.
    pub resched_in_flight: bool,
    /// On its way into `schedule()`: the half of a switch that comes before it is charged.
    pub in_schedule: bool,
    /// It will enter `schedule()` when it has finished its current work.
    pub schedule_armed: bool,
    /// Waits in a kick, with interrupts off.
    pub stands_still: bool,
    pub in_balance: bool,
    /// Balance decided to keep the current task.
    pub keep_curr: bool,
    /// ops.cpu_release was called and ops.cpu_acquire was not yet.
    pub released: bool,
    pub kick: Kick,
    /// Why the current task must leave, for the event.
    pub preempt_hint: PreemptHint,
    /// Overhead of this instant, not yet sent to the sink: the event in its final form, so that nothing needs to be moved.
    pub overhead: Event,
    pub lock: Lock,
    /// Tasks inserted into other CPUs' local DSQs, waiting for this runqueue to be free to move them.
    pub deferred: Vec<TaskId>,
    /// Where the machine has it.
    pub place: CpuPlace,
    pub local: Dsq,
    /// Sum of the working sets that were switched in here.
    pub footprint_bytes: u64,
    pub spaces: Spaces,
    /// How long work takes here because of others that use memory, 1000: as long as alone.
    pub slowdown_permille: u64,
    pub idle_since_ns: u64,
    /// The same, or when it last found nothing to run and entered the idle state again.
    pub idle_entered_ns: u64,
    pub idle_total_ns: u64,
    /// Overhead that elapsed while nothing ran.
    pub idle_overhead_ns: u64,
    pub overhead_total_ns: u64,
    pub rt: RtQueue,
    /// How often tasks of the workload have left this CPU by themselves: yielded, or blocked.
    pub leaves: u64,
    /// What BPF sees as `struct rq`; `curr` is filled when a scheduler requests it.
    pub kernel: Box<KernelRq>,
}

/// What ended the current task's slice early, if anything did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreemptHint {
    #[default]
    None,
    Kick,
    SliceEnd,
    Yield,
    Affinity,
}

impl Rq {
    pub fn new(cpu: u32, place: CpuPlace) -> Rq {
        Rq {
            kernel: Box::new(KernelRq {
                curr: std::ptr::null(),
                cpu: cpu as i32,
                nr_running: 0,
                clock: 0,
                clock_task: 0,
                scx: ScxRq {
                    flags: 0,
                    nr_running: 0,
                },
            }),
            lock: Lock::default(),
            place,
            curr: TaskId::IDLE,
            need_resched: false,
            resched_in_flight: false,
            in_schedule: false,
            schedule_armed: false,
            stands_still: false,
            local: Dsq::new(crate::ext::flags::DSQ_LOCAL_ON | u64::from(cpu)),
            rt: RtQueue::default(),
            nr_running: 0,
            in_balance: false,
            keep_curr: false,
            released: false,
            deferred: Vec::new(),
            kick: Kick::default(),
            preempt_hint: PreemptHint::None,
            work_start_ns: 0,
            speed_permille: 1000,
            slowdown_permille: 1000,
            rearm: false,
            overhead: Event {
                time_ns: 0,
                cpu: Cpu(cpu),
                kind: EventKind::Overhead(Overhead::default()),
            },
            overhead_untold: false,
            overhead_owed_ns: 0,
            footprint_bytes: 0,
            spaces: Spaces::default(),
            idle_since_ns: 0,
            idle_entered_ns: 0,
            idle_total_ns: 0,
            idle_overhead_ns: 0,
            overhead_total_ns: 0,
            leaves: 0,
        }
    }

    /// The current task cannot continue at once: it should leave, or the CPU has something else to do.
    #[inline]
    pub fn is_interrupted(&self, now_ns: u64) -> bool {
        self.need_resched || self.stands_still || self.work_start_ns > now_ns
    }
}
