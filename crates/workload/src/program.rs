// SPDX-License-Identifier: GPL-2.0-or-later
//! What a workload is once it has been read: tasks, what they do, and what they share.
//!
//! Both arenas execute this; neither knows the file format it came from.

/// A whole workload. All ids below are indices into its vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub name: String,
    /// One paragraph: what it models and from which source.
    pub description: String,
    /// The metric by which it is judged unless somebody names another, as `tiltyard compare --list-metrics` calls it.
    pub metric: Option<String>,
    /// Latest end of the run, counted from the workload's start. The run ends earlier when every
    /// task that is no daemon has ended.
    pub duration_ns: Option<u64>,
    pub tasks: Vec<TaskSpec>,
    /// Applications: each is a tree of tasks under a shell that has slept `history_ns` when the workload starts.
    pub apps: Vec<App>,
    pub groups: Vec<Group>,
    pub mutexes: Vec<Mutex>,
    pub conds: Vec<String>,
    pub barriers: Vec<Barrier>,
    pub sems: Vec<Sem>,
    pub pipes: Vec<Pipe>,
    pub timers: Vec<Timer>,
    /// Where tasks suspend themselves, see [`Op::Suspend`].
    pub places: Vec<String>,
    /// Memory buffers that several tasks share, see [`Op::MemRun`].
    pub buffers: Vec<String>,
    pub devices: Vec<Device>,
    /// Names of requests and marks, see [`Op::Begin`], [`Op::End`], [`Op::Done`], [`Op::Mark`].
    pub requests: Vec<String>,
    /// Shared counters, see [`Op::Countdown`]. The value is where each starts.
    pub counters: Vec<Counter>,
    /// Size of each task's private buffer, see [`Op::Mem`].
    pub mem_buffer_bytes: u64,
    /// What [`Op::IoRun`] writes to in a real kernel.
    pub io_device: String,
}

/// Name of the app that holds the tasks of a file that names none: rt-app's own process.
pub const DEFAULT_APP: &str = "rt-app";
/// A shell has mostly slept; five seconds is all that a scheduler with a bounded memory of the past
/// (ULE: 5 s) can know of it.
pub const DEFAULT_HISTORY_NS: u64 = 5_000_000_000;
/// Capacity of a Linux pipe unless somebody changes it (pipe(7)).
pub const DEFAULT_PIPE_BYTES: u64 = 64 << 10;
/// Distance of pointers in rt-app's `memrun` chase: a cache line.
pub const DEFAULT_STRIDE_BYTES: u64 = 64;
/// More instances than this at the start are taken for a mistake.
pub const MAX_INSTANCES: i64 = 1_000_000;
/// Buffer that rt-app gives each thread unless the file says otherwise.
pub const DEFAULT_MEM_BUFFER_BYTES: u64 = 4 << 20;
/// Where rt-app's `iorun` writes unless the file says otherwise.
pub const DEFAULT_IO_DEVICE: &str = "/dev/null";

impl Default for Workload {
    /// Nothing at all, with rt-app's defaults.
    fn default() -> Self {
        Workload {
            name: String::new(),
            description: String::new(),
            metric: None,
            duration_ns: None,
            tasks: Vec::new(),
            apps: Vec::new(),
            groups: Vec::new(),
            mutexes: Vec::new(),
            conds: Vec::new(),
            barriers: Vec::new(),
            sems: Vec::new(),
            pipes: Vec::new(),
            timers: Vec::new(),
            places: Vec::new(),
            buffers: Vec::new(),
            devices: Vec::new(),
            requests: Vec::new(),
            counters: Vec::new(),
            mem_buffer_bytes: DEFAULT_MEM_BUFFER_BYTES,
            io_device: DEFAULT_IO_DEVICE.to_string(),
        }
    }
}

/// One application. Its shell is a real task: it sleeps, starts the app's tasks, and waits for them.
#[derive(Clone, Debug, PartialEq)]
pub struct App {
    pub name: String,
    /// Group of the shell and, unless they say otherwise, of its tasks.
    pub group: Option<usize>,
    /// How long the shell has slept when the workload starts.
    pub history_ns: u64,
}

/// A cgroup with the cpu controller. `parent` is `None` for a child of the root and for the root itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub path: String,
    pub parent: Option<usize>,
    /// cpu.weight, 1..10000, default 100.
    pub weight: u32,
}

impl Group {
    /// Whether it is the machine's root group, whose weight has no meaning.
    pub fn is_root(&self) -> bool {
        self.path == "/"
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mutex {
    pub name: String,
    /// Priority inheritance (rt-app's `pi_enabled`).
    pub inherit_priority: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    pub name: String,
    /// How many tasks it takes to open.
    pub parties: u32,
    /// Spin (on the CPU) up to this long before sleeping. 0: sleep at once.
    pub spin_ns: u64,
}

/// Counting semaphore: remembers posts.
#[derive(Clone, Debug, PartialEq)]
pub struct Sem {
    pub name: String,
    pub initial: u64,
}

/// A pipe or socket of limited capacity: writers block when it is full, readers when it is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipe {
    pub name: String,
    pub capacity_bytes: u64,
}

/// What [`Op::Timer`] waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Timer {
    pub name: String,
    /// Each task (thread) has one of its own (rt-app's names beginning with `unique`); else all share one.
    pub per_task: bool,
    pub mode: TimerMode,
}

/// Serves requests one after another in each of its channels, first come first served.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub name: String,
    /// How many requests it serves at once; `u32::MAX`: as many as come.
    pub channels: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    pub name: String,
    pub start: u64,
}

/// A task as written in the file; `instances` threads of it start by themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    pub name: String,
    pub app: usize,
    /// 0: only by [`Op::Fork`] or [`Op::Spawn`].
    pub instances: u32,
    /// From the workload's start to the first instance's first instruction.
    pub delay_ns: u64,
    /// The run does not wait for its end.
    pub daemon: bool,
    /// Whether it is a thread of the application's process (pthread_create) or a process of its own (fork).
    pub thread: bool,
    /// Repetitions of all phases; `None`: forever.
    pub loops: Option<u64>,
    /// What each instance sets before its first phase.
    pub attrs: Attrs,
    pub phases: Vec<Phase>,
    /// Bytes it touches again and again: what a cold cache costs it.
    pub working_set_bytes: u64,
    /// Share of its work that waits for memory (`stall_share` in files), in 1/1000.
    pub memory_bound_permille: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    pub name: String,
    /// Repetitions before the next phase; `None`: forever.
    pub loops: Option<u64>,
    /// What changes when the phase begins; `None` fields stay as they are.
    pub attrs: Attrs,
    pub ops: Vec<Op>,
}

/// Scheduling attributes; only what is `Some` is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs {
    pub policy: Option<Policy>,
    /// Nice value for Other/Batch/Idle.
    pub nice: Option<i8>,
    /// 1..99 for Fifo and Rr.
    pub rt_priority: Option<u8>,
    /// CPU numbers it may run on; an empty list means every CPU of the machine.
    pub cpus: Option<Vec<u32>>,
    pub group: Option<usize>,
    /// NUMA nodes its memory comes from.
    pub nodes_membind: Option<Vec<u32>>,
    pub util_min: Option<u32>,
    pub util_max: Option<u32>,
    pub deadline: Option<Deadline>,
    /// Slice that an Other/Batch task asks for (sched_attr's sched_runtime, Linux 6.12); 0: the scheduler's own.
    pub slice_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
    Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    pub runtime_ns: u64,
    pub period_ns: u64,
    pub deadline_ns: u64,
}

/// A duration or an amount that may be drawn at random each time it is used.
/// Parameters are integers so that a workload has one meaning on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dist {
    Const(u64),
    /// Exponential with this mean.
    Exp {
        mean: u64,
    },
    /// Log-normal: median, and sigma of the underlying normal in 1/1000.
    LogNormal {
        median: u64,
        sigma_milli: u64,
    },
    /// Uniform in `low..=high`.
    Uniform {
        low: u64,
        high: u64,
    },
}

/// Which one of an array of resources: `first + eval(index)`, see [`Index`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ref {
    pub first: usize,
    /// How many there are; an index outside `0..len` ends the run with an error.
    pub len: usize,
    pub index: Index,
}

/// Integer arithmetic over the instance number and loop counters, so that one task spec
/// can say "my own request pipe" or "the receiver j of my group".
#[derive(Clone, Debug, PartialEq)]
pub enum Index {
    Const(i64),
    /// Number of this instance of the task, from 0.
    Instance,
    /// Counter of an enclosing [`Op::Repeat`]: 0 is the innermost.
    Loop(u8),
    Add(Box<Index>, Box<Index>),
    Sub(Box<Index>, Box<Index>),
    Mul(Box<Index>, Box<Index>),
    /// Euclidean; division by zero ends the run with an error.
    Div(Box<Index>, Box<Index>),
    Rem(Box<Index>, Box<Index>),
}

/// One thing a task does. Times in ns.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Work: this long on a reference CPU with warm caches and nobody beside it.
    Run(Dist),
    /// Burn until this much wall-clock time has passed; preemption counts.
    Runtime(Dist),
    Sleep(Dist),
    /// rt-app's timer: sleep until the last expiry plus the period. The first base is the
    /// workload's start plus the task's delay.
    Timer {
        timer: usize,
        period_ns: u64,
    },
    Lock(Ref),
    Unlock(Ref),
    /// Condition variables, with the mutex that is released while waiting.
    CondWait {
        cond: Ref,
        mutex: Ref,
    },
    Signal(Ref),
    Broadcast(Ref),
    /// Signal, then wait.
    Sync {
        cond: Ref,
        mutex: Ref,
    },
    Barrier(Ref),
    /// Block until a task resumes those that wait at this place; an early resume is lost.
    Suspend {
        place: usize,
    },
    /// Wakes every task suspended at this place.
    Resume {
        place: usize,
    },
    SemPost(Ref),
    SemWait(Ref),
    PipeWrite {
        pipe: Ref,
        bytes: u64,
    },
    PipeRead {
        pipe: Ref,
        bytes: u64,
    },
    /// Block on a device that needs this long to serve the request.
    Io {
        device: Ref,
        service: Dist,
    },
    /// rt-app's `mem`: write this many bytes to the private buffer of `mem_buffer_bytes`.
    Mem {
        bytes: u64,
    },
    /// rt-app's `memrun`: `count` bytes read or written in order, or `count` pointers chased that
    /// lie `stride_bytes` apart, in a buffer of `size_bytes`: private, or one of `buffers`.
    MemRun {
        kind: MemKind,
        size_bytes: u64,
        count: u64,
        stride_bytes: u64,
        random: bool,
        buffer: Option<usize>,
    },
    /// rt-app's `iorun`: write this many bytes to the I/O device.
    IoRun {
        bytes: u64,
    },
    Yield,
    /// rt-app's `fork`: starts one more thread of that task.
    Fork {
        task: usize,
    },
    /// Starts `count` instances of a task as children of this one, numbered on from those that exist.
    Spawn {
        task: usize,
        count: u64,
    },
    /// Waits until all children have exited.
    Join,
    /// Ends this task now.
    Exit,
    /// Changes attributes of the calling task.
    Set(Attrs),
    /// Changes attributes of one instance of a task, or of all that live (renice, taskset).
    SetOther {
        task: usize,
        instance: Option<Index>,
        attrs: Attrs,
    },
    Repeat {
        count: u64,
        body: Vec<Op>,
    },
    /// Repeats until the counter is used up: each pass takes one, whoever runs it.
    Countdown {
        counter: Ref,
        body: Vec<Op>,
    },
    /// Repeats until this much time has passed since the workload's start; looks before each pass.
    Until {
        time_ns: u64,
        body: Vec<Op>,
    },
    /// Repeats until this much time has passed since it began; looks before each pass.
    During {
        time_ns: u64,
        body: Vec<Op>,
    },
    /// Does `body` with this probability in 1/1,000,000.
    Chance {
        ppm: u32,
        body: Vec<Op>,
    },
    /// Starts measuring a request of this class on this task.
    Begin {
        request: usize,
    },
    /// Ends it.
    End {
        request: usize,
    },
    /// Counts a finished request that has no beginning of its own.
    Done {
        request: usize,
    },
    /// Leaves a mark in the event stream.
    Mark {
        mark: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// A missed period starts again from now.
    Relative,
    /// The grid stays.
    Absolute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemKind {
    Read,
    Write,
    Chase,
}
