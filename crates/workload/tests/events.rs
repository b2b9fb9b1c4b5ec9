// SPDX-License-Identifier: GPL-2.0-or-later
//! What each key means, on files that hold every key once.

use tiltyard_workload::*;

fn file(name: &str) -> Workload {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../workload/tests/data")
        .join(name);
    let text = std::fs::read_to_string(path).expect("data");
    read(&text, name).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// One event a line, in Rust's own words.
fn ops(task: &TaskSpec) -> String {
    let ops = task.phases.iter().flat_map(|phase| &phase.ops);
    ops.map(|op| format!("{op:?}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_event_of_rt_app() {
    let w = file("events.json");
    insta::assert_snapshot!(ops(&w.tasks[0]), @"Run(Const(1000000))
Run(Const(1001000))
Runtime(Const(2000000))
Sleep(Const(3000000))
Timer { timer: 0, period_ns: 4000000 }
Timer { timer: 1, period_ns: 5000000 }
Timer { timer: 1, period_ns: 6000000 }
Lock(Ref { first: 0, len: 1, index: Const(0) })
CondWait { cond: Ref { first: 0, len: 1, index: Const(0) }, mutex: Ref { first: 0, len: 1, index: Const(0) } }
Signal(Ref { first: 0, len: 1, index: Const(0) })
Broadcast(Ref { first: 0, len: 1, index: Const(0) })
Sync { cond: Ref { first: 0, len: 1, index: Const(0) }, mutex: Ref { first: 0, len: 1, index: Const(0) } }
Unlock(Ref { first: 0, len: 1, index: Const(0) })
Barrier(Ref { first: 0, len: 1, index: Const(0) })
Suspend { place: 0 }
Resume { place: 1 }
SemWait(Ref { first: 0, len: 1, index: Const(0) })
SemPost(Ref { first: 0, len: 1, index: Const(0) })
Mem { bytes: 64 }
MemRun { kind: Read, size_bytes: 4096, count: 100, stride_bytes: 64, random: true, buffer: None }
MemRun { kind: Write, size_bytes: 4096, count: 100, stride_bytes: 64, random: true, buffer: Some(0) }
MemRun { kind: Chase, size_bytes: 4096, count: 100, stride_bytes: 128, random: false, buffer: None }
IoRun { bytes: 65536 }
Yield
Fork { task: 1 }");
    insta::assert_snapshot!(ops(&w.tasks[1]), @"Suspend { place: 1 }");
    insta::assert_snapshot!(format!("{:?} {:?} {:?}", w.timers, w.places, w.barriers), @r#"[Timer { name: "tick", per_task: false, mode: Relative }, Timer { name: "unique", per_task: true, mode: Absolute }] ["all", "other"] [Barrier { name: "b", parties: 1, spin_ns: 0 }]"#);
}

#[test]
fn phases_and_attributes() {
    let w = file("phases.json");
    let phases = |at: usize| {
        let phases = w.tasks[at]
            .phases
            .iter()
            .map(|phase| format!("{} {:?} {:?}", phase.name, phase.loops, phase.attrs));
        phases.collect::<Vec<_>>().join("\n")
    };
    let attrs = |at: usize| format!("{:?} {:?}", w.tasks[at].loops, w.tasks[at].attrs);
    insta::assert_snapshot!(attrs(0), @"Some(3) Attrs { policy: Some(Batch), nice: Some(5), rt_priority: None, cpus: None, group: Some(1), nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }");
    insta::assert_snapshot!(phases(0), @"here Some(10) Attrs { policy: None, nice: None, rt_priority: None, cpus: Some([0, 1]), group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }
there Some(1) Attrs { policy: None, nice: Some(-5), rt_priority: None, cpus: Some([2]), group: Some(2), nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }
anywhere None Attrs { policy: None, nice: None, rt_priority: None, cpus: Some([]), group: None, nodes_membind: Some([1]), util_min: Some(100), util_max: Some(900), deadline: None, slice_ns: None }");
    insta::assert_snapshot!(phases(1), @"low Some(1) Attrs { policy: Some(Other), nice: Some(0), rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }
high Some(1) Attrs { policy: Some(Fifo), nice: None, rt_priority: Some(50), cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }
round Some(1) Attrs { policy: Some(Rr), nice: None, rt_priority: Some(10), cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }");
    insta::assert_snapshot!(attrs(2), @"None Attrs { policy: Some(Other), nice: Some(-19), rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: Some(100000000) }");
    insta::assert_snapshot!(phases(2), @" Some(1) Attrs { policy: None, nice: None, rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None }");
    insta::assert_snapshot!(attrs(3), @"None Attrs { policy: Some(Deadline), nice: None, rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: Some(Deadline { runtime_ns: 2000000, period_ns: 10000000, deadline_ns: 10000000 }), slice_ns: None }");
    insta::assert_snapshot!(attrs(4), @"None Attrs { policy: Some(Deadline), nice: None, rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: Some(Deadline { runtime_ns: 2000000, period_ns: 10000000, deadline_ns: 5000000 }), slice_ns: None }");
    insta::assert_snapshot!(ops(&w.tasks[4]), @"Runtime(Const(2000000))
Run(Const(1000))");
    insta::assert_snapshot!(format!("{:?} {} {}", w.duration_ns, w.io_device, w.mem_buffer_bytes), @"Some(2000000000) /tmp/io 1048576");
    insta::assert_snapshot!(format!("{:?}", w.groups), @r#"[Group { path: "/a", parent: None, weight: 100 }, Group { path: "/a/b", parent: Some(0), weight: 100 }, Group { path: "/", parent: None, weight: 100 }]"#);
}

#[test]
fn every_word_of_the_extension() {
    let w = file("extension.json");
    insta::assert_snapshot!(ops(&w.tasks[0]), @"Spawn { task: 1, count: 1 }
Spawn { task: 1, count: 3 }
SetOther { task: 1, instance: Some(Add(Const(1), Const(1))), attrs: Attrs { policy: None, nice: Some(5), rt_priority: None, cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None } }
SetOther { task: 1, instance: None, attrs: Attrs { policy: None, nice: None, rt_priority: None, cpus: Some([]), group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None } }
Set(Attrs { policy: Some(Rr), nice: None, rt_priority: Some(7), cpus: None, group: None, nodes_membind: None, util_min: None, util_max: None, deadline: None, slice_ns: None })
Join
Exit");
    insta::assert_snapshot!(ops(&w.tasks[1]), @"Run(Const(5000))
Barrier(Ref { first: 0, len: 1, index: Const(0) })
Run(Exp { mean: 14000 })
Run(LogNormal { median: 450000000, sigma_milli: 700 })
Sleep(Uniform { low: 10000, high: 50500 })
Lock(Ref { first: 0, len: 2, index: Rem(Instance, Const(2)) })
Unlock(Ref { first: 0, len: 2, index: Rem(Instance, Const(2)) })
SemWait(Ref { first: 4, len: 1, index: Const(0) })
SemPost(Ref { first: 0, len: 4, index: Const(3) })
Io { device: Ref { first: 0, len: 1, index: Const(0) }, service: Exp { mean: 6000000 } }
Begin { request: 0 }
Repeat { count: 2, body: [Repeat { count: 4, body: [PipeWrite { pipe: Ref { first: 0, len: 8, index: Add(Mul(Loop(1), Const(4)), Loop(0)) }, bytes: 100 }, PipeRead { pipe: Ref { first: 0, len: 8, index: Add(Mul(Loop(1), Const(4)), Loop(0)) }, bytes: 100 }] }] }
End { request: 0 }
Countdown { counter: Ref { first: 0, len: 1, index: Const(0) }, body: [Done { request: 1 }] }
Until { time_ns: 33000000000, body: [Run(Const(1000))] }
During { time_ns: 22000000, body: [Run(Const(50000)), Yield] }
Chance { ppm: 50000, body: [Mark { mark: 2 }] }");
    let TaskSpec {
        app,
        thread,
        daemon,
        working_set_bytes,
        memory_bound_permille,
        ..
    } = w.tasks[0];
    assert_eq!(
        (
            app,
            thread,
            daemon,
            working_set_bytes,
            memory_bound_permille
        ),
        (0, false, false, 65536, 250)
    );
    assert!(w.tasks[1].daemon && w.tasks[1].app == 1);
    insta::assert_snapshot!(format!("{} / {} / {:?}", w.name, w.description, w.duration_ns), @"everything / Two lines that become one. / Some(1500000500)");
    insta::assert_snapshot!(format!("{:?}\n{:?}", w.apps, w.groups), @r#"[App { name: "web", group: Some(1), history_ns: 5000000000 }, App { name: "batch", group: None, history_ns: 0 }]
[Group { path: "/outer", parent: None, weight: 200 }, Group { path: "/outer/inner", parent: Some(0), weight: 50 }]"#);
    insta::assert_snapshot!(format!("{:?}\n{:?}\n{:?}", w.mutexes, w.barriers, w.sems), @r#"[Mutex { name: "hot[0]", inherit_priority: true }, Mutex { name: "hot[1]", inherit_priority: true }]
[Barrier { name: "start", parties: 4, spin_ns: 100250 }]
[Sem { name: "req[0]", initial: 0 }, Sem { name: "req[1]", initial: 0 }, Sem { name: "req[2]", initial: 0 }, Sem { name: "req[3]", initial: 0 }, Sem { name: "free", initial: 3 }]"#);
    insta::assert_snapshot!(format!("{:?}\n{:?}\n{:?}", w.pipes.last(), w.devices, w.counters), @r#"Some(Pipe { name: "pipe[7]", capacity_bytes: 4096 })
[Device { name: "disk", channels: 2 }, Device { name: "net", channels: 4294967295 }]
[Counter { name: "left", start: 100 }]"#);
}

/// The app that files without apps have: rt-app's one process, started by a shell that slept.
#[test]
fn plain_files_are_one_process() {
    let w = file("events.json");
    assert_eq!(
        w.apps,
        [App {
            name: "rt-app".into(),
            group: None,
            history_ns: 5_000_000_000
        }]
    );
    assert!(w.tasks.iter().all(|task| task.thread && task.app == 0));
}

#[test]
fn data_files_survive_being_written() {
    for name in ["events.json", "phases.json", "extension.json"] {
        let w = file(name);
        let text = write(&w, Dialect::Tiltyard).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read(&text, name), Ok(w), "{name}");
    }
    for name in ["events.json", "phases.json"] {
        let w = file(name);
        let text = write(&w, Dialect::RtApp).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(read(&text, name), Ok(w), "{name}\n{text}");
    }
}
