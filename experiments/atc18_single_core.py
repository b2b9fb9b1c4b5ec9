#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Section 5.1 of "The Battle of the Schedulers" (USENIX ATC'18): fibo and sysbench on one core.

Runs ULE and CFS on the shipped workload over ten seeds, works out what the paper states about
Figures 1 and 2 and Table 2, and prints one line for each statement: the paper's figure, ours
(median and range over the seeds), the band that was fixed beforehand, and whether ours lies in it.

    experiments/atc18_single_core.py [--tiltyard PATH] [--seeds N] [--readme README.md]

With --readme the table replaces what stands between the two `figures` marks of that file.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOAD = ROOT / "workloads" / "fibo-sysbench-1c.json"
LAUNCH_S = 7.0
CLIENTS = 80
TRANSACTIONS = 58650


def run(tiltyard, workload, schedulers, seeds, *more):
    """Summaries by scheduler, one for each seed."""
    command = [tiltyard, "run", "-w", workload, "-s", schedulers, "--seeds", str(seeds), "--format", "json", *more]
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True)
    by_scheduler = {}
    for entry in json.loads(result.stdout)["runs"]:
        by_scheduler.setdefault(entry["scheduler"], []).append(entry["summary"])
    return by_scheduler


def variant(folder, name, **replacements):
    """The shipped workload with some of its numbers changed."""
    text = WORKLOAD.read_text()
    for old, new in replacements.items():
        old = old.lstrip("_")
        assert old in text, old
        text = text.replace(old, str(new))
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(text)
    return path


def curve(summary, app):
    """Cumulative run time of an application: seconds -> CPU seconds."""
    times = [t / 1e9 for t in summary["runtime"]["at_ns"]]
    values = next(a for a in summary["runtime"]["apps"] if a["app"] == app)["runtime_ns"]
    return list(zip(times, (v / 1e9 for v in values)))


def at(points, time_s):
    """Linear interpolation in a curve."""
    before = points[0]
    for point in points:
        if point[0] >= time_s:
            span = point[0] - before[0]
            part = (time_s - before[0]) / span if span else 0
            return before[1] + part * (point[1] - before[1])
        before = point
    return points[-1][1]


def request(summary, name):
    return next(r for r in summary["requests"] if r["class"] == name)


def probe(summary, app):
    penalty = next(p for p in summary["probes"] if p["probe"] == "penalty")
    return next(a for a in penalty["apps"] if a["app"] == app)


def buckets(series, key):
    """(begin in seconds, value) of every bucket that has one."""
    width_s = series["width_ns"] / 1e9
    return [(k * width_s, v) for k, v in enumerate(series[key]) if v is not None]


def first_at_least(series, value):
    return next((t for t, v in buckets(series, "bucket_max") if v >= value), float("inf"))


def last_before(series, key, time_s):
    return [v for t, v in buckets(series, key) if t <= time_s][-1]


def starved_s(summary, end_s):
    """Longest stretch before the end of sysbench in which fibo gains less than 0.1 s."""
    points = [p for p in curve(summary, "fibo") if p[0] <= end_s]
    longest, start = 0.0, 0
    for i, point in enumerate(points):
        while point[1] - points[start][1] >= 0.1:
            start += 1
        longest = max(longest, point[0] - points[start][0])
    return longest




def measures(summary):
    """Everything that the statements below speak of, for one run."""
    transaction = request(summary, "transaction")
    end_s = transaction["last_end_ns"] / 1e9
    fibo = curve(summary, "fibo")
    out = {
        "sysbench_end_s": end_s,
        "sysbench_dur_s": end_s - LAUNCH_S,
        "fibo_share": (at(fibo, end_s) - at(fibo, LAUNCH_S)) / (end_s - LAUNCH_S),
        "fibo_cpu_s": fibo[-1][1],
        "transactions": transaction["latency"]["count"],
        "lat_ms": transaction["latency"]["mean_ns"] / 1e6,
        "tps": transaction["latency"]["count"] / (end_s - transaction["first_begin_ns"] / 1e9),
        "starved_s": starved_s(summary, end_s),
    }
    if any(p["probe"] == "penalty" for p in summary["probes"]):
        series, clients = probe(summary, "fibo"), probe(summary, "sysbench")
        out["fibo_penalty_start"] = series["first"]
        out["fibo_batch_after_s"] = first_at_least(series, 30)
        out["fibo_penalty_7s"] = last_before(series, "bucket_max", LAUNCH_S)
        means = buckets(clients, "bucket_mean")
        out["sysbench_penalty_start"] = next(mean for t, mean in means if t >= LAUNCH_S)
        # From the start barrier until the first clients end and hand their run time to their parent.
        out["sysbench_penalty_max"] = max(v for t, v in buckets(clients, "bucket_max") if LAUNCH_S + 1 <= t <= end_s - 2)
        middle_s = (LAUNCH_S + end_s) / 2
        late = [mean for t, mean in means if middle_s <= t <= end_s - 2]
        out["sysbench_penalty_mean_late"] = statistics.mean(late) if late else 0.0
    return out


def spread(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    if high - low < 10**-digits / 2:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


class Table:
    def __init__(self):
        self.rows = []

    def add(self, claim, what, paper, values, digits, low, high):
        middle = statistics.median(values)
        verdict = "yes" if low <= middle <= high else "**no**"
        band = f"{low:g} to {high:g}"
        self.rows.append((claim, what, paper, spread(values, digits), band, verdict))

    def markdown(self, seeds):
        lines = [
            f"| statement | | the paper | here, median of {seeds} seeds [min, max] | accepted | in the band |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        lines += [f"| `{row[0]}` | " + " | ".join(row[1:]) + " |" for row in self.rows]
        good = sum(row[-1] == "yes" for row in self.rows)
        lines.append("")
        lines.append(f"{good} of {len(self.rows)} in the band.")
        return "\n".join(lines)


def fibo_cpu_s(summary):
    return next(a for a in summary["apps"] if a["app"] == "fibo")["runtime_ns"] / 1e9


def build_table(ule, cfs, alone, ule_twice, ule_128, cfs_128):
    of = lambda runs, key: [r[key] for r in runs]
    ratio = lambda a, b: [x / y for x, y in zip(a, b)]
    table = Table()
    add = table.add
    for name in ("cfs", "ule"):
        at_launch = [fibo_cpu_s(summary) for summary in alone[name]]
        add("fig1.fibo-alone-7s", f"CPU time of fibo at 7 s, {name.upper()}, s", "7", at_launch, 3, 6.9, 7.1)
    add("fig1.cfs-sysbench-235s", "sysbench ends, CFS, s", "235", of(cfs, "sysbench_end_s"), 1, 200, 270)
    add("fig1.ule-sysbench-143s", "sysbench ends, ULE, s", "143", of(ule, "sysbench_end_s"), 1, 120, 165)
    add("fig1.completion-ratio", "duration of sysbench, CFS / ULE", "1.64 to 1.68", ratio(of(cfs, "sysbench_dur_s"), of(ule, "sysbench_dur_s")), 2, 1.45, 2.0)
    add("fig1a.fibo-half-speed", "fibo's share beside sysbench, CFS", "0.5, a bit less", of(cfs, "fibo_share"), 3, 0.38, 0.52)
    add("fig1b.fibo-starved", "fibo's share beside sysbench, ULE", "0", of(ule, "fibo_share"), 3, 0.0, 0.05)
    add("fig1.starvation-unbounded", "fibo starved: twice the transactions / once", "unbounded: 2", ratio(of(ule_twice, "starved_s"), of(ule, "starved_s")), 2, 1.8, 2.2)
    add("fig2.both-start-interactive", "penalty of fibo at its start", "0", of(ule, "fibo_penalty_start"), 0, 0, 5)
    add("fig2.both-start-interactive", "penalty of sysbench at its start", "0", of(ule, "sysbench_penalty_start"), 0, 0, 5)
    add("fig2.fibo-rises-to-max", "fibo turns batch after, s", "soon", of(ule, "fibo_batch_after_s"), 2, 0.25, 2.5)
    add("fig2.fibo-rises-to-max", "penalty of fibo at 7 s", "near the maximum", of(ule, "fibo_penalty_7s"), 0, 75, 100)
    add("fig2.sysbench-stays-below-30", "largest penalty in sysbench", "< 30", of(ule, "sysbench_penalty_max"), 0, 0, 29)
    add("fig2.sysbench-drops-to-0", "mean penalty of sysbench, second half", "0", of(ule, "sysbench_penalty_mean_late"), 1, 0, 3)
    add("tab2.fibo-runtime", "CPU time of fibo, CFS, s", "160", of(cfs, "fibo_cpu_s"), 2, 144, 176)
    add("tab2.fibo-runtime", "CPU time of fibo, ULE, s", "158", of(ule, "fibo_cpu_s"), 2, 142, 174)
    add("tab2.fibo-slightly-faster-ule", "the same, ULE / CFS", "0.9875", ratio(of(ule, "fibo_cpu_s"), of(cfs, "fibo_cpu_s")), 4, 0.95, 0.99999)
    add("tab2.tps-cfs", "transactions/s, CFS", "290", of(cfs, "tps"), 1, 246, 334)
    add("tab2.tps-ule", "transactions/s, ULE (fitted)", "532", of(ule, "tps"), 1, 505, 559)
    add("tab2.tps-ratio", "the same, ULE / CFS", "1.83", ratio(of(ule, "tps"), of(cfs, "tps")), 2, 1.5, 2.2)
    add("tab2.latency-ratio", "mean latency, CFS / ULE, 80 clients", "3.5", ratio(of(cfs, "lat_ms"), of(ule, "lat_ms")), 2, 1.5, 4.5)
    add("tab2.latency-ratio", "mean latency, CFS / ULE, 128 clients", "3.5", ratio(of(cfs_128, "lat_ms"), of(ule_128, "lat_ms")), 2, 1.5, 4.5)
    little = lambda runs: [r["tps"] * r["lat_ms"] / 1000 / CLIENTS for r in runs]
    add("tab2.littles-law", "throughput x latency / clients, CFS", "1", little(cfs), 3, 0.97, 1.03)
    add("tab2.littles-law", "throughput x latency / clients, ULE", "1", little(ule), 3, 0.95, 1.05)
    add("tab2.work-conservation", "transactions, CFS / ULE", "1", ratio(of(cfs, "transactions"), of(ule, "transactions")), 4, 0.998, 1.002)
    return table


def splice(readme, markdown):
    """Replaces what stands between the marks; the file is written whole or not at all."""
    begin, end = "<!-- figures: begin -->", "<!-- figures: end -->"
    text = readme.read_text()
    if begin not in text or end not in text:
        sys.exit(f"{readme}: needs the marks {begin} and {end}")
    head, tail = text.split(begin)[0], text.split(end)[1]
    fresh = readme.with_suffix(".new")
    fresh.write_text(f"{head}{begin}\n{markdown}\n{end}{tail}")
    fresh.replace(readme)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiltyard", default=ROOT / "target" / "release" / "tiltyard")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--readme", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        twice = variant(folder, "twice", **{'"start" : 58650': f'"start" : {2 * TRANSACTIONS}', '"duration" : 400': '"duration" : 600'})
        many = variant(folder, "many", **{'"parties" : 80': '"parties" : 128', '"count" : 80': '"count" : 128'})
        base = run(options.tiltyard, WORKLOAD, "ule,cfs", options.seeds)
        alone = run(options.tiltyard, WORKLOAD, "ule,cfs", options.seeds, "--duration", "7s")
        doubled = run(options.tiltyard, twice, "ule", options.seeds)
        crowd = run(options.tiltyard, many, "ule,cfs", options.seeds)
    every = {(kind, name): [measures(s) for s in runs] for kind, data in (("base", base), ("twice", doubled), ("many", crowd)) for name, runs in data.items()}
    table = build_table(every["base", "ule"], every["base", "cfs"], alone, every["twice", "ule"], every["many", "ule"], every["many", "cfs"])
    markdown = table.markdown(options.seeds)
    print(markdown)
    if options.readme:
        splice(options.readme, markdown)


if __name__ == "__main__":
    main()
