// SPDX-License-Identifier: GPL-2.0-or-later
//! A kernel of a few hundred lines for tests of single functions: tasks, CPU masks, dispatch queues, task storage, a clock
//! and the CPU that runs the function. Nothing happens by itself: tests build a state, call a program of eight words (as
//! in [`crate::vectors`]) or a callback, and look at the state afterwards. What is not here fails the test by name.

use crate::vectors;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use tiltyard_native::layout::{Cpumask, TaskStruct};
use tiltyard_native::object::ASK_STORE;
use tiltyard_native::{Instance, Object, Value};

/// `SCX_DSQ_LOCAL`, and `SCX_DSQ_LOCAL_ON`, below which is a CPU.
const DSQ_LOCAL: u64 = 1 << 63 | 2;
const DSQ_LOCAL_ON: u64 = 3 << 62;
/// `SCX_KICK_IDLE`, `SCX_KICK_PREEMPT`.
pub const KICK_IDLE: u64 = 1;
pub const KICK_PREEMPT: u64 = 2;
/// `SCX_ENQ_HEAD` and `SCX_ENQ_PREEMPT`.
const ENQ_HEAD: u64 = 0x10;
const ENQ_PREEMPT: u64 = 1 << 32;
const ENOENT: i64 = -2;
const EBUSY: i64 = -16;
/// CPUs of a mask: what any scheduler supports.
const MASK_CPUS: usize = 4096;

/// A scheduler's object under this kernel.
pub struct Kernel {
    instance: Instance,
    state: Box<State>,
}

/// A task, by the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

/// What the kernel knows. Between two calls tests may change all of it.
pub struct State {
    /// CPU that runs the next call.
    pub cpu: u32,
    /// The task that runs there. None: one that is none of the scheduler's.
    pub current: Option<TaskId>,
    pub now_ns: u64,
    /// What `bpf_ktime_get_ns` returns, one reading after the other; then `now_ns`.
    pub readings_ns: VecDeque<u64>,
    /// What `bpf_get_prandom_u32` returns.
    pub random: u32,
    /// CPU and flags of each `scx_bpf_kick_cpu`, and of each insertion that preempts.
    pub kicks: Vec<(u32, u64)>,
    /// Delay in ns of each start of a timer.
    pub timers_ns: Vec<u64>,
    /// Tasks moved from queue to queue by an iterator.
    pub moves: Vec<Move>,
    #[expect(clippy::vec_box, reason = "schedulers have their addresses")]
    tasks: Vec<Box<Task>>,
    queues: BTreeMap<u64, Vec<TaskId>>,
    online: Box<Mask>,
    idle: Box<Mask>,
    maps: Vec<Map>,
    missing: Vec<String>,
    fault: Option<String>,
}

/// One move: out of queue `from`, where the task had this position, into queue `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    pub task: TaskId,
    pub from: u64,
    pub position: usize,
    pub to: u64,
}

struct Task {
    kernel: TaskStruct,
    cpu: u32,
    mask: Box<Mask>,
}

/// `struct cpumask`, whose pointer leads into its own box.
struct Mask {
    head: Cpumask,
    bits: Box<[u64; MASK_CPUS / 64]>,
}

impl Mask {
    fn new(allowed: impl Fn(usize) -> bool) -> Box<Mask> {
        let mut bits = Box::new([0; MASK_CPUS / 64]);
        for cpu in (0..MASK_CPUS).filter(|cpu| allowed(*cpu)) {
            bits[cpu / 64] |= 1 << (cpu % 64);
        }
        let head = Cpumask {
            bits: bits.as_mut_ptr(),
        };
        Box::new(Mask { head, bits })
    }

    fn weight(&self) -> u32 {
        self.bits.iter().map(|word| word.count_ones()).sum()
    }
}

/// A map: its address in the object, and its values in words, by task or by key.
struct Map {
    address: usize,
    words: usize,
    values: HashMap<u64, Box<[u64]>>,
}

impl Map {
    fn value(&mut self, key: u64) -> *mut u64 {
        let words = self.words;
        let value = self.values.entry(key);
        value
            .or_insert_with(|| vec![0; words].into_boxed_slice())
            .as_mut_ptr()
    }
}

impl Kernel {
    /// A machine with this many CPUs, all idle, that has loaded the object.
    pub fn boot(object: &Object, globals: &[(String, Value)], nr_cpus: u32) -> Kernel {
        let mut instance = Instance::load(object, globals).expect("load");
        let missing = RefCell::new(Vec::new());
        let absent = |name: String| {
            let mut missing = missing.borrow_mut();
            missing.push(name);
            MISSING[missing.len() - 1] as *const c_void
        };
        let kfunc = |name: &str| match kfunc(name) {
            None if name != ASK_STORE => Some(absent(name.to_owned())),
            known => known,
        };
        let helper = |id: u32| Some(helper(id).unwrap_or_else(|| absent(format!("helper {id}"))));
        instance.bind(&kfunc, &helper).expect("bind");
        let maps = object.maps.iter().map(|map| Map {
            address: instance.symbol(&map.symbol).expect("a map") as usize,
            words: (map.value_size as usize).div_ceil(8),
            values: HashMap::new(),
        });
        let state = State {
            cpu: 0,
            current: None,
            now_ns: 0,
            readings_ns: VecDeque::new(),
            random: 0,
            kicks: Vec::new(),
            timers_ns: Vec::new(),
            moves: Vec::new(),
            tasks: Vec::new(),
            queues: BTreeMap::new(),
            online: Mask::new(|cpu| cpu < nr_cpus as usize),
            idle: Mask::new(|cpu| cpu < nr_cpus as usize),
            maps: maps.collect(),
            missing: missing.into_inner(),
            fault: None,
        };
        Kernel {
            instance,
            state: Box::new(state),
        }
    }

    /// Calls a program or a callback with up to eight words; returns them as it left them, and its result.
    pub fn call(&mut self, program: &str, words: &[i64]) -> ([i64; 8], i64) {
        let (words, result) = self.try_call(program, words);
        if let Some(fault) = &self.state.fault {
            panic!("{program}: {fault}");
        }
        (words, result)
    }

    /// The same of one that may report an error.
    pub fn try_call(&mut self, program: &str, words: &[i64]) -> ([i64; 8], i64) {
        let state: *mut State = &mut *self.state;
        self.instance.set_engine(state.cast());
        let (result, words) = vectors::call(&self.instance, program, words);
        (words, result)
    }

    /// A global of 64 bits, as it is now.
    pub fn number(&self, global: &str) -> u64 {
        let address = self.instance.symbol(global).expect("a global");
        // SAFETY: the object has 8 bytes there, which only its own code changes, and that does not run now.
        unsafe { address.cast::<u64>().read_unaligned() }
    }

    /// The state, to look at and to change.
    pub fn state(&mut self) -> &mut State {
        &mut self.state
    }
}

impl State {
    /// A new task on `cpu`, in no queue, allowed on all CPUs.
    pub fn add_task(&mut self, pid: i32, cpu: u32) -> TaskId {
        let mask = Mask::new(|cpu| self.online.bits[cpu / 64] & 1 << (cpu % 64) != 0);
        // SAFETY: numbers and raw pointers, for which zero is a value.
        let mut kernel: TaskStruct = unsafe { std::mem::zeroed() };
        (kernel.pid, kernel.tgid) = (pid, pid);
        kernel.static_prio = 120;
        kernel.cpus_ptr = &raw const mask.head;
        kernel.nr_cpus_allowed = mask.weight() as i32;
        self.tasks.push(Box::new(Task { kernel, cpu, mask }));
        TaskId(self.tasks.len() - 1)
    }

    /// Its `struct task_struct`.
    pub fn task(&mut self, id: TaskId) -> &mut TaskStruct {
        &mut self.tasks[id.0].kernel
    }

    /// Sets the CPUs where it may run.
    pub fn allow(&mut self, id: TaskId, allowed: impl Fn(usize) -> bool) {
        let task = &mut self.tasks[id.0];
        task.mask = Mask::new(allowed);
        task.kernel.cpus_ptr = &raw const task.mask.head;
        task.kernel.nr_cpus_allowed = task.mask.weight() as i32;
    }

    /// Whether it may run on a CPU.
    pub fn allows(&self, id: TaskId, cpu: u32) -> bool {
        self.tasks[id.0].mask.bits[cpu as usize / 64] >> (cpu % 64) & 1 != 0
    }

    /// Sets the CPUs that are idle.
    pub fn set_idle(&mut self, idle: impl Fn(usize) -> bool) {
        self.idle = Mask::new(idle);
    }

    /// One CPU is no longer idle.
    pub fn set_busy(&mut self, cpu: usize) {
        self.idle.bits[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// The pointer that callbacks get.
    pub fn address(&self, id: TaskId) -> i64 {
        (&raw const self.tasks[id.0].kernel) as i64
    }

    /// Puts a task into a queue by `scx.dsq_vtime`, behind its equals.
    pub fn queue(&mut self, dsq: u64, id: TaskId) {
        let vtime = self.tasks[id.0].kernel.scx.dsq_vtime;
        let behind = |other: &TaskId| self.tasks[other.0].kernel.scx.dsq_vtime <= vtime;
        let queue = self.queues.entry(dsq).or_default();
        let at = queue.iter().filter(|other| behind(other)).count();
        queue.insert(at, id);
    }

    /// The tasks of a queue in their order.
    pub fn queued(&self, dsq: u64) -> &[TaskId] {
        self.queues.get(&dsq).map_or(&[], Vec::as_slice)
    }

    /// Takes a task out of a queue.
    pub fn unqueue(&mut self, dsq: u64, id: TaskId) {
        let queue = self.queues.get_mut(&dsq);
        queue.expect("a queue").retain(|queued| *queued != id);
    }

    /// The same for a CPU's local queue.
    pub fn local(&self, cpu: u32) -> &[TaskId] {
        self.queued(DSQ_LOCAL_ON | u64::from(cpu))
    }

    /// Moves a task to the runqueue of a CPU.
    pub fn set_cpu(&mut self, id: TaskId, cpu: u32) {
        self.tasks[id.0].cpu = cpu;
    }

    /// Takes a task out of the queue where it is, if it is in any.
    pub fn remove(&mut self, id: TaskId) {
        for queue in self.queues.values_mut() {
            queue.retain(|queued| *queued != id);
        }
    }

    /// The task that a CPU takes from its local queue.
    pub fn take_local(&mut self, cpu: u32) -> Option<TaskId> {
        let queue = self.queues.get_mut(&(DSQ_LOCAL_ON | u64::from(cpu)))?;
        (!queue.is_empty()).then(|| queue.remove(0))
    }

    fn fail(&mut self, fault: impl Into<String>) {
        self.fault.get_or_insert(fault.into());
    }

    fn find(&mut self, task: *const TaskStruct) -> Option<TaskId> {
        let known = self.tasks.iter().map(|known| &raw const known.kernel);
        let found = known.into_iter().position(|known| known == task);
        if found.is_none() {
            self.fail(format!("{task:?} is no task"));
        }
        found.map(TaskId)
    }

    fn map(&mut self, address: *const u8) -> Option<&mut Map> {
        let same = |map: &Map| map.address == address as usize;
        let at = self.maps.iter().position(same);
        if at.is_none() {
            self.fail(format!("{address:?} is no map"));
        }
        at.map(|at| &mut self.maps[at])
    }

    /// The key of a queue that the scheduler names.
    fn dsq(&self, dsq: u64) -> u64 {
        if dsq == DSQ_LOCAL {
            return DSQ_LOCAL_ON | u64::from(self.cpu);
        }
        dsq
    }

    /// Local queues are first in, first out, as are insertions without a vtime.
    fn insert(&mut self, dsq: u64, id: TaskId, by_vtime: bool) {
        let dsq = self.dsq(dsq);
        if dsq & DSQ_LOCAL_ON != DSQ_LOCAL_ON && !self.queues.contains_key(&dsq) {
            self.fail(format!("there is no queue {dsq:#x}"));
        } else if by_vtime {
            self.queue(dsq, id);
        } else {
            self.queues.entry(dsq).or_default().push(id);
        }
    }
}

/// The fields of `struct bpf_iter_scx_dsq` are the kernel's own: six words.
#[repr(C)]
struct Iter {
    dsq: u64,
    /// Of the next task.
    position: u64,
    vtime: u64,
    has_vtime: u64,
    _rest: [u64; 2],
}

impl Iter {
    fn moves(
        &mut self,
        state: &mut State,
        task: *const TaskStruct,
        to: u64,
        by_vtime: bool,
    ) -> u64 {
        let has_vtime = std::mem::take(&mut self.has_vtime) != 0;
        let Some(id) = state.find(task) else {
            return 0;
        };
        let queue = state.queues.entry(self.dsq).or_default();
        let Some(position) = queue.iter().position(|queued| *queued == id) else {
            return 0;
        };
        queue.remove(position);
        self.position -= u64::from((position as u64) < self.position);
        if has_vtime {
            state.task(id).scx.dsq_vtime = self.vtime;
        }
        state.insert(to, id, by_vtime);
        let (from, to) = (self.dsq, state.dsq(to));
        state.moves.push(Move {
            task: id,
            from,
            position,
            to,
        });
        1
    }
}

type Pointer = *const TaskStruct;

extern "C" fn dsq_iter_new(state: &mut State, it: &mut Iter, dsq: u64, flags: u64) -> i64 {
    if flags != 0 {
        state.fail("an iterator with flags");
    }
    *it = Iter {
        dsq: state.dsq(dsq),
        position: 0,
        vtime: 0,
        has_vtime: 0,
        _rest: [0; 2],
    };
    match state.queues.contains_key(&it.dsq) {
        true => 0,
        false => ENOENT,
    }
}

extern "C" fn dsq_iter_next(state: &mut State, it: &mut Iter) -> Pointer {
    let queue = state.queued(it.dsq);
    let Some(id) = queue.get(it.position as usize).copied() else {
        return null();
    };
    it.position += 1;
    &raw const state.tasks[id.0].kernel
}

extern "C" fn dsq_iter_destroy(_state: &mut State, _it: &mut Iter) {}

extern "C" fn dsq_move_set_vtime(_state: &mut State, it: &mut Iter, vtime: u64) {
    it.vtime = vtime;
    it.has_vtime = 1;
}

extern "C" fn dsq_move(state: &mut State, it: &mut Iter, p: Pointer, to: u64, _flags: u64) -> u64 {
    it.moves(state, p, to, false)
}

extern "C" fn dsq_move_vtime(
    state: &mut State,
    it: &mut Iter,
    p: Pointer,
    to: u64,
    _flags: u64,
) -> u64 {
    it.moves(state, p, to, true)
}

extern "C" fn dsq_insert(state: &mut State, p: Pointer, dsq: u64, slice: u64, flags: u64) {
    if let Some(id) = state.find(p) {
        state.task(id).scx.slice = slice;
        state.insert(dsq, id, false);
        if flags & ENQ_HEAD != 0 {
            let dsq = state.dsq(dsq);
            state.queues.entry(dsq).or_default().rotate_right(1);
        }
        if flags & ENQ_PREEMPT != 0 {
            let cpu = state.tasks[id.0].cpu;
            state.kicks.push((cpu, KICK_PREEMPT));
        }
    }
}

extern "C" fn dsq_insert_vtime(
    state: &mut State,
    p: Pointer,
    dsq: u64,
    slice: u64,
    vtime: u64,
    _flags: u64,
) {
    if let Some(id) = state.find(p) {
        state.task(id).scx.slice = slice;
        state.task(id).scx.dsq_vtime = vtime;
        state.insert(dsq, id, true);
    }
}

extern "C" fn dsq_move_to_local(state: &mut State, dsq: u64) -> u64 {
    let queue = state.queues.get_mut(&dsq);
    let Some(queue) = queue.filter(|queue| !queue.is_empty()) else {
        return 0;
    };
    let id = queue.remove(0);
    state.insert(DSQ_LOCAL, id, false);
    1
}

extern "C" fn dsq_nr_queued(state: &mut State, dsq: u64) -> i64 {
    let queue = state.queues.get(&state.dsq(dsq));
    queue.map_or(ENOENT, |queue| queue.len() as i64)
}

extern "C" fn create_dsq(state: &mut State, dsq: u64, _node: u64) -> i64 {
    state.queues.entry(dsq).or_default();
    0
}

extern "C" fn kick_cpu(state: &mut State, cpu: u64, flags: u64) {
    state.kicks.push((cpu as u32, flags));
}

extern "C" fn task_cpu(state: &mut State, p: Pointer) -> u64 {
    state.find(p).map_or(0, |id| state.tasks[id.0].cpu.into())
}

extern "C" fn nr_cpu_ids(state: &mut State) -> u64 {
    state.online.weight().into()
}

extern "C" fn now(state: &mut State) -> u64 {
    state.now_ns
}

extern "C" fn online_cpumask(state: &mut State) -> *const Cpumask {
    &raw const state.online.head
}

extern "C" fn idle_cpumask(state: &mut State) -> *const Cpumask {
    &raw const state.idle.head
}

/// # Safety
/// The scheduler's masks are those of this kernel.
unsafe extern "C" fn first_cpu(_state: &mut State, mask: *const Cpumask) -> u64 {
    // SAFETY: masks of this kernel are this long.
    let set = |cpu: &u64| unsafe {
        let cpu = *cpu as usize;
        *(*mask).bits.add(cpu / 64) >> (cpu % 64) & 1 != 0
    };
    (0..MASK_CPUS as u64).find(set).unwrap_or(MASK_CPUS as u64)
}

/// # Safety
/// The scheduler's masks are those of this kernel.
unsafe extern "C" fn mask_weight(_state: &mut State, mask: *const Cpumask) -> u64 {
    // SAFETY: masks of this kernel are this long.
    let word = |at| unsafe { *(*mask).bits.add(at) };
    let words = (0..MASK_CPUS / 64).map(word);
    words.map(|word| u64::from(word.count_ones())).sum()
}

extern "C" fn task_from_pid(state: &mut State, pid: u64) -> Pointer {
    let mut tasks = state.tasks.iter();
    let found = tasks.find(|task| task.kernel.pid == pid as i32);
    found.map_or(null(), |task| &raw const task.kernel)
}

extern "C" fn error(state: &mut State) {
    state.fail("the scheduler reports an error");
}

/// # Safety
/// The scheduler's masks are those of this kernel.
unsafe extern "C" fn test_cpu(_state: &mut State, cpu: u64, mask: *const Cpumask) -> u64 {
    let cpu = cpu as usize & (MASK_CPUS - 1);
    // SAFETY: masks of this kernel are this long.
    unsafe { *(*mask).bits.add(cpu / 64) >> (cpu % 64) & 1 }
}

/// # Safety
/// The scheduler's masks are those of this kernel.
unsafe extern "C" fn subset(_state: &mut State, a: *const Cpumask, b: *const Cpumask) -> u64 {
    // SAFETY: masks of this kernel are this long.
    let within = |word: usize| unsafe { *(*a).bits.add(word) & !*(*b).bits.add(word) == 0 };
    (0..MASK_CPUS / 64).all(within).into()
}

/// # Safety
/// The scheduler's masks are those of this kernel.
unsafe extern "C" fn pick_idle_cpu(state: &mut State, allowed: *const Cpumask) -> i64 {
    let idle = &mut state.idle.bits;
    // SAFETY: masks of this kernel are this long.
    let word = |at: usize| idle[at] & unsafe { *(*allowed).bits.add(at) };
    let Some(at) = (0..MASK_CPUS / 64).find(|at| word(*at) != 0) else {
        return EBUSY;
    };
    let bit = word(at).trailing_zeros();
    idle[at] &= !(1 << bit);
    at as i64 * 64 + i64::from(bit)
}

extern "C" fn nothing(_state: &mut State) -> u64 {
    0
}

fn kfunc(name: &str) -> Option<*const c_void> {
    Some(match name {
        "bpf_iter_scx_dsq_new" => dsq_iter_new as *const c_void,
        "bpf_iter_scx_dsq_next" => dsq_iter_next as *const c_void,
        "bpf_iter_scx_dsq_destroy" => dsq_iter_destroy as *const c_void,
        "scx_bpf_dsq_move" => dsq_move as *const c_void,
        "scx_bpf_dsq_move_vtime" => dsq_move_vtime as *const c_void,
        "scx_bpf_dsq_move_set_vtime" => dsq_move_set_vtime as *const c_void,
        "scx_bpf_dsq_insert" => dsq_insert as *const c_void,
        "scx_bpf_dsq_insert_vtime" => dsq_insert_vtime as *const c_void,
        "scx_bpf_dsq_move_to_local" => dsq_move_to_local as *const c_void,
        "scx_bpf_dsq_nr_queued" => dsq_nr_queued as *const c_void,
        "scx_bpf_create_dsq" => create_dsq as *const c_void,
        "scx_bpf_kick_cpu" => kick_cpu as *const c_void,
        "scx_bpf_task_cpu" => task_cpu as *const c_void,
        "scx_bpf_nr_cpu_ids" => nr_cpu_ids as *const c_void,
        "scx_bpf_now" => now as *const c_void,
        "scx_bpf_get_online_cpumask" => online_cpumask as *const c_void,
        "scx_bpf_get_idle_cpumask" => idle_cpumask as *const c_void,
        "scx_bpf_pick_idle_cpu" => pick_idle_cpu as *const c_void,
        "bpf_cpumask_test_cpu" => test_cpu as *const c_void,
        "bpf_cpumask_weight" => mask_weight as *const c_void,
        "bpf_cpumask_first" => first_cpu as *const c_void,
        "bpf_cpumask_subset" => subset as *const c_void,
        "bpf_task_from_pid" => task_from_pid as *const c_void,
        "scx_bpf_error_bstr" => error as *const c_void,
        "scx_bpf_put_cpumask"
        | "scx_bpf_put_idle_cpumask"
        | "bpf_task_release"
        | "bpf_rcu_read_lock"
        | "bpf_rcu_read_unlock" => nothing as *const c_void,
        _ => return None,
    })
}

/// The key of an array or a hash of small keys.
unsafe extern "C" fn map_lookup(state: &mut State, map: *const u8, key: *const u32) -> *mut u64 {
    // SAFETY: the scheduler's own variable.
    let key = unsafe { key.read_unaligned() };
    state
        .map(map)
        .map_or(null_mut(), |map| map.value(key.into()))
}

/// `BPF_LOCAL_STORAGE_GET_F_CREATE` is bit 0 of the flags.
extern "C" fn task_storage(
    state: &mut State,
    map: *const u8,
    p: Pointer,
    _value: u64,
    flags: u64,
) -> *mut u64 {
    let Some(TaskId(task)) = state.find(p) else {
        return null_mut();
    };
    let Some(map) = state.map(map) else {
        return null_mut();
    };
    match flags & 1 != 0 || map.values.contains_key(&(task as u64)) {
        true => map.value(task as u64),
        false => null_mut(),
    }
}

extern "C" fn task_storage_delete(state: &mut State, map: *const u8, p: Pointer) -> i64 {
    let Some(TaskId(task)) = state.find(p) else {
        return ENOENT;
    };
    let removed = state
        .map(map)
        .and_then(|map| map.values.remove(&(task as u64)));
    removed.map_or(ENOENT, |_| 0)
}

extern "C" fn timer_start(state: &mut State, _timer: u64, delay_ns: u64, _flags: u64) -> i64 {
    state.timers_ns.push(delay_ns);
    0
}

extern "C" fn prandom(state: &mut State) -> u64 {
    state.random.into()
}

extern "C" fn ktime(state: &mut State) -> u64 {
    state.readings_ns.pop_front().unwrap_or(state.now_ns)
}

extern "C" fn current_task(state: &mut State) -> Pointer {
    let current = state.current.map(|id| &state.tasks[id.0]);
    current.map_or(null(), |task| &raw const task.kernel)
}

extern "C" fn this_cpu(state: &mut State) -> u64 {
    state.cpu.into()
}

fn helper(id: u32) -> Option<*const c_void> {
    Some(match id {
        1 => map_lookup as *const c_void,
        5 => ktime as *const c_void,
        7 => prandom as *const c_void,
        8 => this_cpu as *const c_void,
        156 => task_storage as *const c_void,
        157 => task_storage_delete as *const c_void,
        158 => current_task as *const c_void,
        171 => timer_start as *const c_void,
        // Locks, whose holder is alone; set-up of timers.
        93 | 94 | 169 | 170 => nothing as *const c_void,
        _ => return None,
    })
}

/// Stands for the `N`th of the functions that this kernel lacks.
extern "C" fn missing<const N: usize>(state: &mut State) -> u64 {
    let name = state.missing[N].clone();
    state.fail(format!("this kernel has no {name}"));
    0
}

macro_rules! missing {
    ($($n:literal)*) => { &[$(missing::<$n>),*] };
}

static MISSING: &[extern "C" fn(&mut State) -> u64] = missing![
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
];
