# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads a Perfetto trace with the official schema and prints what it finds as JSON.

Runtimes per tid (ns, from sched_switch, up to END_NS), switches, wakeups, final depth per CPU, thread
names, the last value of each counter that belongs to a thread, request slices (count and total ns), the
kernel release that says how to read prev_state, and each process's parent.
With a trace processor binary (TRACE_PROCESSOR, or trace_processor_shell on PATH) also the runtimes that
its SQL gives.

Usage: read_trace.py TRACE END_NS
"""

import collections
import json
import os
import shutil
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def read(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace


def sched(trace, end_ns):
    """Runtime per tid, switches and wakeups from the ftrace bundles."""
    events = []
    for packet in trace.packet:
        if packet.HasField("ftrace_events"):
            bundle = packet.ftrace_events
            events += [(e.timestamp, bundle.cpu, i, e) for i, e in enumerate(bundle.event)]
    runtime = collections.Counter()
    on_cpu = {}
    counts = collections.Counter()
    by_cpu = collections.defaultdict(list)
    for at, cpu, _, event in events:
        kind = event.WhichOneof("event")
        counts[kind] += 1
        if kind == "sched_switch":
            by_cpu[cpu].append((at, event.sched_switch))
    for cpu, switches in by_cpu.items():
        assert [at for at, _ in switches] == sorted(at for at, _ in switches)
        for at, switch in switches:
            if cpu in on_cpu:
                begin, pid = on_cpu[cpu]
                assert pid == switch.prev_pid, (cpu, at, pid, switch.prev_pid)
                runtime[pid] += at - begin
            on_cpu[cpu] = (at, switch.next_pid)
    for begin, pid in on_cpu.values():
        runtime[pid] += end_ns - begin
    runtime.pop(0, None)
    return runtime, counts


def tracks(trace):
    """Thread names, last counter values by (tid, name), request slices."""
    names, owners, titles = {}, {}, {}
    counters, begins, requests, spent = {}, {}, 0, 0
    for packet in trace.packet:
        for thread in packet.process_tree.threads:
            names[thread.tid] = thread.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            titles[track.uuid] = track.name
            if track.HasField("thread"):
                owners[track.uuid] = track.thread.tid
            elif track.parent_uuid:
                owners[track.uuid] = owners[track.parent_uuid]
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in titles, "a track is declared before it is used"
            if event.type == TrackEvent.TYPE_COUNTER:
                owner = owners.get(event.track_uuid, -1)
                counters[f"{owner}/{titles[event.track_uuid]}"] = event.counter_value
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                begins[event.track_uuid] = packet.timestamp
            elif event.type == TrackEvent.TYPE_SLICE_END:
                requests += 1
                spent += packet.timestamp - begins.pop(event.track_uuid)
    return names, counters, requests, spent


def sql_runtimes(path):
    """Runtimes by SQL, or None where no trace processor is installed."""
    binary = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if not binary:
        return None
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    config = TraceProcessorConfig(bin_path=binary)
    query = "select tid, sum(dur) as ns from sched join thread using (utid) where dur > 0 group by tid"
    with TraceProcessor(trace=path, config=config) as processor:
        return {row.tid: row.ns for row in processor.query(query) if row.tid}


def main():
    path, end_ns = sys.argv[1], int(sys.argv[2])
    trace = read(path)
    runtime, counts = sched(trace, end_ns)
    names, counters, requests, spent = tracks(trace)
    found = {
        "runtime_ns": runtime,
        "events": counts,
        "names": names,
        "counters": counters,
        "requests": requests,
        "request_ns": spent,
        "release": [p.system_info.utsname.release for p in trace.packet if p.HasField("system_info")],
        "parents": {p.pid: p.ppid for packet in trace.packet for p in packet.process_tree.processes},
        "sql_runtime_ns": sql_runtimes(path),
    }
    json.dump(found, sys.stdout, sort_keys=True)


main()
