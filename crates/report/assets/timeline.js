// SPDX-License-Identifier: GPL-2.0-or-later
// Draws who had which CPU, by CPU or by task: in each place for timelines one canvas for each run, all at the same time
// of the run. Data of all places is in #timeline-data, in the order of the page.
"use strict";
for (const [place, host] of document.querySelectorAll(".timelines").entries()) {
  const data = JSON.parse(document.getElementById("timeline-data").textContent)[place];
  const AXIS = 20, STRIP = 6, COLORS = 8, LEAST_NS = 200, MAX_WAKE_MARKS = 1500, MAX_ROWS = 20;
  // Indices into what timeline.rs calls Left::ALL, and the kinds of its Ready.
  const SLEEPS = 1, EXITS = 2, SLICE_END = 3, PREEMPTED = 4, HIGHER = 5, YIELDS = 6;
  const WOKEN = 0, CREATED = 1, WAITED = 2;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // --- data -----------------------------------------------------------------------------------------------------

  // The slices of each CPU in order: they end one after the other, so they begin so, too.
  function decode(run) {
    const { slices, tasks, nr_cpus, from_ns, to_ns } = run.recorded;
    const cpus = Array.from({ length: nr_cpus }, () => []);
    let end = from_ns;
    const all = slices.cpu.map((cpu, i) => {
      end += slices.end_ns[i];
      const task = slices.task[i], begin = end - slices.length_ns[i];
      const slice = { cpu, task, begin, end, app: run.app[tasks[task].app], left: slices.left[i], at: cpus[cpu].length,
                      ready: slices.ready[i], wait: slices.wait_ns[i], waker: slices.waker[i] - 1, wakerCpu: slices.waker_cpu[i] };
      cpus[cpu].push(slice);
      return slice;
    });
    const woken = all.filter((s) => s.ready === WOKEN || s.ready === CREATED);
    const wakeups = woken.map((s) => ({ end: s.begin - s.wait, cpu: s.wakerCpu, app: s.app })).sort((a, b) => a.end - b.end);
    const app = tasks.map((task) => run.app[task.app]);
    const open = run.recorded.waiting.map(({ task, since_ns }) => ({ task, app: app[task], begin: since_ns, end: to_ns, open: true }));
    return { scheduler: run.scheduler, tasks, app, cpus, all, open, wakeups, from: from_ns, to: to_ns };
  }

  // --- rows: one for each CPU, or one for each task with its waits ----------------------------------------------

  const cpuRows = (run) => run.cpus.map((slices, cpu) => ({ label: `CPU ${cpu}`, slices, waits: [] }));

  // The tasks that ran or waited, by app; of an app with many those that did so most, the others share a row.
  function taskRows(run) {
    const rows = run.tasks.map((task, i) => ({ label: task.name, task: i, app: run.app[i], slices: [], waits: [], active: 0 }));
    for (const s of run.all) {
      const row = rows[s.task];
      row.slices.push(s);
      if (s.wait > 0) row.waits.push({ begin: s.begin - s.wait, end: s.begin, slice: s });
      row.active += s.end - s.begin + s.wait;
    }
    for (const wait of run.open) {
      rows[wait.task].waits.push({ begin: wait.begin, end: wait.end, slice: wait });
      rows[wait.task].active += wait.end - wait.begin;
    }
    const seen = rows.filter((row) => row.active > 0), apps = [...new Set(seen.map((row) => row.app))].sort((a, b) => a - b);
    const most = Math.max(3, Math.floor(MAX_ROWS / Math.max(1, apps.length)));
    return apps.flatMap((app) => {
      const mine = seen.filter((row) => row.app === app).sort((a, b) => b.active - a.active || a.task - b.task);
      const kept = mine.length > most + 1 ? mine.slice(0, most) : mine, rest = mine.slice(kept.length);
      kept.sort((a, b) => run.tasks[a.task].tid - run.tasks[b.task].tid);
      return rest.length ? [...kept, together(`${rest.length} more`, app, rest)] : kept;
    });
  }

  function together(label, app, rows) {
    const byEnd = (a, b) => a.end - b.end;
    const slices = rows.flatMap((row) => row.slices).sort(byEnd), waits = [];
    // Whether any of them waits: hatches over hatches would fill the row.
    for (const wait of rows.flatMap((row) => row.waits).sort((a, b) => a.begin - b.begin)) {
      const last = waits[waits.length - 1];
      if (last && wait.begin <= last.end) last.end = Math.max(last.end, wait.end); else waits.push({ ...wait });
    }
    return { label, app, tasks: new Set(rows.map((row) => row.task)), slices, waits };
  }

  const runs = data.runs.map(decode);
  const whole = { from: Math.min(...runs.map((r) => r.from)), to: Math.max(...runs.map((r) => r.to)) };
  whole.to = Math.max(whole.to, whole.from + LEAST_NS);
  let view = { ...whole };

  // The first of some slices, or wakeups, that ends after a time.
  function firstAfter(slices, time) {
    let low = 0, high = slices.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (slices[middle].end > time) high = middle; else low = middle + 1;
    }
    return low;
  }

  // --- text -----------------------------------------------------------------------------------------------------

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  function length(ns) {
    const [size, unit] = UNITS.find(([size]) => ns >= size) || UNITS[3];
    return `${+(ns / size).toPrecision(4)} ${unit}`;
  }
  const named = (run, task) => `${run.tasks[task].name} (${run.tasks[task].tid})`;

  function told(run, s) {
    const who_is = [named(run, s.task), data.apps[s.app]];
    if (s.open) return [who_is, ["waits", `since ${(s.begin / 1e9).toFixed(6)} s, and still at the end of the window`]];
    const next = run.cpus[s.cpu][s.at + 1];
    const then = next && next.begin === s.end ? named(run, next.task) : null;
    const left = s.left === PREEMPTED || s.left === HIGHER ? `${data.left[s.left]}${then ? ` by ${then}` : ""}`
      : `${data.left[s.left]}${s.left ? then ? `, then ${then}` : ", then idle" : ""}`;
    const who = s.waker >= 0 ? named(run, s.waker) : "a timer or device";
    const waited = `waited ${length(s.wait)}`;
    const how = s.ready === WOKEN ? `${who} on CPU ${s.wakerCpu}, ${waited}`
      : s.ready === CREATED ? `(created) ${who} on CPU ${s.wakerCpu}, ${waited}`
      : s.ready === WAITED ? `nobody: it had lost a CPU before, ${waited}` : "unknown: before the window";
    return [who_is, ["begin", `${(s.begin / 1e9).toFixed(6)} s, CPU ${s.cpu}`],
            ["length", length(s.end - s.begin)], ["left", left], ["woken by", how]];
  }

  // --- colours: one for each app, with a pattern where colours repeat -------------------------------------------

  // Faint, with thin lines: distinguishable from a filled slice without colour.
  function hatched(color) {
    const tile = document.createElement("canvas"), draw = tile.getContext("2d");
    tile.width = tile.height = 6;
    draw.fillStyle = draw.strokeStyle = color;
    draw.globalAlpha = 0.16;
    draw.fillRect(0, 0, 6, 6);
    draw.globalAlpha = 0.55;
    draw.beginPath();
    for (const at of [-6, 0, 6]) { draw.moveTo(at, 6); draw.lineTo(at + 6, 0); }
    draw.stroke();
    return draw.createPattern(tile, "repeat");
  }

  let inks = [];
  function mix() {
    inks = data.apps.map((_, app) => {
      const color = css(`--c${app % COLORS}`), tile = document.createElement("canvas"), turn = Math.floor(app / COLORS);
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
      const text = 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#000" : "#fff";
      const wait = hatched(color);
      if (!turn) return { fill: color, color, text, wait };
      tile.width = tile.height = 6 + 2 * turn;
      const draw = tile.getContext("2d"), side = tile.width;
      draw.fillStyle = color;
      draw.fillRect(0, 0, side, side);
      draw.strokeStyle = text;
      draw.lineWidth = 1.2;
      draw.beginPath();
      draw.moveTo(0, side);
      draw.lineTo(side, 0);
      if (turn % 2 === 0) { draw.moveTo(0, 0); draw.lineTo(side, side); }
      draw.stroke();
      return { fill: draw.createPattern(tile, "repeat"), color, text, wait };
    });
  }

  // --- a pane: the canvas of a scheduler -------------------------------------------------------------------------

  let chosen = null; // { pane, slice }

  function rowHeight(rows) {
    return rows <= 2 ? 54 : rows <= 4 ? 40 : rows <= 8 ? 30 : rows <= 16 ? 22 : 14;
  }

  const GUTTER = 46;
  let byTask = false;

  // Gives a pane its rows: those of CPUs or those of tasks.
  function arrange(pane) {
    pane.rows = byTask ? taskRows(pane.run) : cpuRows(pane.run);
    pane.rowOfTask = new Map();
    pane.rows.forEach((row, at) => {
      if (row.tasks) row.tasks.forEach((task) => pane.rowOfTask.set(task, at));
      else if (byTask) pane.rowOfTask.set(row.task, at);
    });
    pane.high = rowHeight(pane.rows.length);
    pane.canvas.style.height = `${AXIS + pane.rows.length * (pane.high + 2)}px`;
    pane.draw.font = "11px system-ui, sans-serif";
    const widest = Math.max(0, ...pane.rows.map((row) => pane.draw.measureText(row.label).width));
    pane.gutter = byTask ? Math.min(Math.ceil(widest) + 10, Math.max(64, host.clientWidth * 0.2)) : GUTTER;
  }

  function makePane(run) {
    const title = document.createElement("h3"), canvas = document.createElement("canvas");
    title.textContent = run.scheduler;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `timeline of ${run.scheduler}: arrow keys move, + and - zoom, n and p go to the next and previous slice, t changes between rows of CPUs and of tasks`);
    host.append(title, canvas);
    const pane = { run, canvas, draw: canvas.getContext("2d") };
    arrange(pane);
    listen(pane);
    return pane;
  }

  const widthOf = (pane) => pane.canvas.clientWidth - pane.gutter;
  const xOf = (pane, time) => pane.gutter + (time - view.from) / (view.to - view.from) * widthOf(pane);
  const timeAt = (pane, x) => view.from + (x - pane.gutter) / widthOf(pane) * (view.to - view.from);
  const topOf = (pane, row) => AXIS + row * (pane.high + 2);
  const rowOf = (pane, s) => byTask ? pane.rowOfTask.get(s.task) : s.cpu;

  // The slice at a point; where a task waits, the one that it waits for.
  function sliceAt(pane, x, y) {
    const row = pane.rows[Math.floor((y - AXIS) / (pane.high + 2))], time = timeAt(pane, x);
    if (x < pane.gutter || !row) return null;
    // Slices of less than a pixel can be hit, too.
    const slack = (view.to - view.from) / widthOf(pane);
    const near = row.slices[firstAfter(row.slices, time - slack)];
    if (near && near.begin <= time + slack) return near;
    const wait = row.waits[firstAfter(row.waits, time - slack)];
    return wait && wait.begin <= time + slack ? wait.slice : null;
  }

  // Those slices, or waits, of a row that the view shows.
  const within = (slices) => slices.slice(firstAfter(slices, view.from)).filter((s) => s.begin < view.to);

  function drawPane(pane) {
    const { canvas, draw } = pane, scale = devicePixelRatio || 1;
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
      canvas.width = Math.round(w * scale);
      canvas.height = Math.round(h * scale);
    }
    draw.setTransform(scale, 0, 0, scale, 0, 0);
    draw.fillStyle = css("--panel");
    draw.fillRect(0, 0, w, h);
    drawAxis(pane, w, h);
    draw.save();
    draw.beginPath();
    draw.rect(pane.gutter, 0, w - pane.gutter, h);
    draw.clip();
    pane.rows.forEach((row, at) => drawWaits(pane, at, row));
    const visible = pane.rows.map((row) => within(row.slices));
    visible.forEach((slices, row) => drawRow(pane, row, slices));
    if (!byTask) drawWakeups(pane);
    if (chosen && chosen.pane === pane) drawChosen(pane, chosen.slice, visible);
    draw.restore();
  }

  function drawAxis(pane, w, h) {
    const { draw, run } = pane, span = view.to - view.from;
    const raw = span / Math.max(2, widthOf(pane) / 120), power = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max(1, [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw));
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step) + 1e-9));
    draw.font = "11px system-ui, sans-serif";
    draw.textBaseline = "middle";
    draw.strokeStyle = css("--line");
    draw.lineWidth = 1;
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = Math.round(xOf(pane, t)) + 0.5, text = `${(t / 1e9).toFixed(digits)} s`;
      draw.beginPath();
      draw.moveTo(x, AXIS - 4);
      draw.lineTo(x, h);
      draw.stroke();
      draw.fillStyle = css("--dim");
      const wide = draw.measureText(text).width;
      draw.fillText(text, Math.max(pane.gutter, Math.min(x - wide / 2, w - wide)), 8);
    }
    draw.fillStyle = css("--dim");
    draw.save();
    draw.beginPath();
    draw.rect(0, 0, pane.gutter - 4, h);
    draw.clip();
    pane.rows.forEach((row, at) => draw.fillText(row.label, 0, topOf(pane, at) + pane.high / 2 + 1));
    draw.restore();
    // Where nothing was recorded.
    draw.fillStyle = css("--code");
    const until = Math.max(pane.gutter, xOf(pane, run.to));
    if (until < w) draw.fillRect(until, AXIS, w - until, h - AXIS);
  }

  // Where a task waits its row is hatched; waits too short to be drawn become columns, the fainter the shorter.
  function drawWaits(pane, at, { waits }) {
    const { draw } = pane, strip = stripOf(), top = topOf(pane, at) + strip + 1, high = pane.high - strip - 2;
    const columns = new Map();
    for (const wait of within(waits)) {
      const x = Math.max(xOf(pane, wait.begin), pane.gutter - 2), wide = xOf(pane, wait.end) - x, ink = inks[wait.slice.app];
      if (wide < 2) {
        const column = Math.floor(x + wide / 2);
        columns.set(column, Math.min(1, (columns.get(column) || 0) + wide));
        continue;
      }
      draw.fillStyle = ink.wait;
      draw.fillRect(x, top, wide, high);
      draw.fillStyle = ink.color;
      draw.globalAlpha = 0.7;
      draw.fillRect(x, top + high - 1, wide, 1);
      draw.globalAlpha = 1;
    }
    const [first] = waits;
    if (!first) return;
    draw.fillStyle = inks[first.slice.app].color;
    for (const [column, share] of columns) {
      draw.globalAlpha = 0.3 * share;
      draw.fillRect(column, top, 1, high);
    }
    draw.globalAlpha = 1;
  }

  // Room above a row for the ticks of wakeups, which rows of CPUs have.
  const stripOf = () => byTask ? 1 : STRIP;

  // Slices that are wide enough are drawn each, the others as the share of each app in each column of pixels.
  function drawRow(pane, at, slices) {
    const { draw } = pane, strip = stripOf(), top = topOf(pane, at) + strip, high = pane.high - strip;
    const shares = new Map();
    for (const s of slices) {
      const x = Math.max(xOf(pane, s.begin), pane.gutter - 2), wide = xOf(pane, s.end) - x;
      if (wide >= 2) { drawSlice(pane, s, x, top, wide, high); continue; }
      const column = Math.floor(x + wide / 2);
      if (!shares.has(column)) shares.set(column, new Map());
      const share = shares.get(column);
      share.set(s.app, (share.get(s.app) || 0) + wide);
    }
    for (const [column, share] of shares) {
      let bottom = top + high;
      for (const app of [...share.keys()].sort((a, b) => a - b)) {
        const part = Math.min(share.get(app), (bottom - top) / high) * high;
        draw.fillStyle = inks[app].fill;
        draw.fillRect(column, bottom - part, 1, part);
        bottom -= part;
      }
    }
  }

  function drawSlice(pane, s, x, top, wide, high) {
    const { draw, run } = pane, ink = inks[s.app], gap = wide > 4 ? 1 : wide > 3 ? 0.5 : 0, right = x + wide - gap;
    draw.fillStyle = ink.fill;
    draw.fillRect(x, top, wide - gap, high);
    draw.fillStyle = draw.strokeStyle = ink.text;
    if (wide >= 7) {
      const foot = top + high, side = Math.min(7, high / 2);
      draw.beginPath();
      if (s.left === PREEMPTED || s.left === HIGHER) {
        draw.moveTo(right, foot - side); draw.lineTo(right, foot); draw.lineTo(right - side, foot); draw.fill();
      } else if (s.left === SLICE_END) draw.fillRect(right - 2, top, 2, high);
      else if (s.left === YIELDS) { draw.arc(right - 3, foot - 3, 2, 0, 7); draw.fill(); }
      else if (s.left === EXITS) draw.fillRect(right - 5, foot - 5, 4, 4);
    }
    // A row of a task bears its name already.
    if (wide < 34 || high < 10 || byTask) return;
    draw.save();
    draw.beginPath();
    draw.rect(x, top, wide - 6, high);
    draw.clip();
    const name = run.tasks[s.task].name, left = Math.max(x, pane.gutter) + 3, middle = top + high / 2 + 1;
    // On stripes nobody could read it.
    if (ink.fill !== ink.color) {
      draw.fillStyle = ink.color;
      draw.fillRect(left - 2, middle - 8, draw.measureText(name).width + 4, 15);
      draw.fillStyle = ink.text;
    }
    draw.fillText(name, left, middle);
    draw.restore();
  }

  // A tick above the row of the CPU where a task was woken or created, unless there are too many to distinguish.
  function drawWakeups(pane) {
    const { wakeups } = pane.run, first = firstAfter(wakeups, view.from), last = firstAfter(wakeups, view.to);
    if (last - first > MAX_WAKE_MARKS) return;
    for (const { end, cpu, app } of wakeups.slice(first, last)) {
      pane.draw.fillStyle = inks[app].fill;
      pane.draw.fillRect(xOf(pane, end) - 0.75, topOf(pane, cpu), 1.5, STRIP - 1);
    }
  }

  // The slice, the way from its wakeup to its begin, and what else its task does.
  function drawChosen(pane, s, visible) {
    const { draw } = pane, ink = css("--text"), strip = stripOf();
    draw.fillStyle = draw.strokeStyle = ink;
    for (const other of visible.flat()) {
      if (other.task !== s.task) continue;
      const x = xOf(pane, other.begin);
      draw.fillRect(x, topOf(pane, rowOf(pane, other)) + pane.high - 1, Math.max(1.5, xOf(pane, other.end) - x - 1), 2.5);
    }
    const [x, y] = [xOf(pane, s.begin), topOf(pane, rowOf(pane, s))];
    draw.lineWidth = 2;
    draw.strokeRect(x + 1, y + strip + 1, Math.max(1, xOf(pane, s.end) - x - 2), pane.high - strip - 2);
    if (s.ready !== WOKEN && s.ready !== CREATED) return;
    // By task the line begins at the waker, which may have no row: a timer, or one that never ran in the window.
    const from = byTask ? pane.rowOfTask.get(s.waker) : s.wakerCpu;
    if (from === undefined) return;
    const [wx, wy] = [xOf(pane, s.begin - s.wait), topOf(pane, from) + (byTask ? pane.high / 2 : 2)];
    draw.lineWidth = 1.2;
    draw.beginPath();
    draw.moveTo(wx, wy);
    draw.lineTo(x, y + (byTask ? pane.high / 2 : STRIP - 2));
    draw.stroke();
    draw.beginPath();
    draw.arc(wx, wy + 1, 3, 0, 7);
    draw.fill();
  }

  // --- what people do -------------------------------------------------------------------------------------------

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; panes.forEach(drawPane); });
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, LEAST_NS), whole.to - whole.from);
    const begin = Math.min(Math.max(from, whole.from), whole.to - span);
    view = { from: begin, to: begin + span };
    tell();
    redraw();
  }
  // Maps of the page show the same time, and where the timeline is.
  const tell = () => dispatchEvent(new CustomEvent("timeview", { detail: { by: "timeline", ...view } }));
  addEventListener("timeview", ({ detail: { by, from, to } }) => {
    const both = { from: Math.max(from, whole.from), to: Math.min(to, whole.to) };
    if (by === "maps" && both.from < both.to) show(both.from, both.to);
  });
  const pan = (share) => { const by = share * (view.to - view.from); show(view.from + by, view.to + by); };
  function zoom(factor, around = (view.from + view.to) / 2) {
    const span = Math.max((view.to - view.from) / factor, LEAST_NS), share = (around - view.from) / (view.to - view.from);
    show(around - share * span, around - share * span + span);
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-live", "polite");
  tip.hidden = true;
  document.body.append(tip);

  function choose(pane, slice, x, y) {
    const same = chosen && chosen.pane === pane && chosen.slice === slice;
    chosen = slice ? { pane, slice } : null;
    tip.hidden = !slice;
    if (slice) {
      if (!same) {
        tip.replaceChildren(...told(pane.run, slice).map(([name, text], i) => {
          const line = document.createElement("div"), b = document.createElement("b");
          b.textContent = name;
          line.append(b, ` ${text}`);
          return line;
        }));
      }
      const box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
      tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 14) : y + 18}px`;
    }
    if (!same) redraw();
  }

  // The slice beside the chosen one in its row, or the first in view.
  function step(pane, by) {
    const old = chosen && chosen.pane === pane && !chosen.slice.open ? chosen.slice : null;
    const first = pane.rows.map(({ slices }) => slices[firstAfter(slices, view.from)]).find((s) => s);
    const row = old ? pane.rows[rowOf(pane, old)].slices : [];
    const slice = old ? row[row.indexOf(old) + by] : first;
    if (!slice) return;
    const span = view.to - view.from, middle = (slice.begin + slice.end) / 2;
    if (middle < view.from || middle > view.to) show(middle - span / 2, middle + span / 2);
    const box = pane.canvas.getBoundingClientRect();
    const y = box.top + topOf(pane, rowOf(pane, slice)) + pane.high;
    choose(pane, slice, box.left + Math.max(pane.gutter, xOf(pane, slice.begin)), y);
  }

  const KEYS = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6),
    ArrowUp: () => zoom(1.6), ArrowDown: () => zoom(1 / 1.6), Home: () => show(whole.from, whole.from + view.to - view.from),
    End: () => show(whole.to - (view.to - view.from), whole.to), 0: () => show(whole.from, whole.to),
    n: (pane) => step(pane, 1), p: (pane) => step(pane, -1), t: () => arrangeAll(!byTask), Escape: (pane) => choose(pane, null),
  };

  function listen(pane) {
    const { canvas } = pane, fingers = new Map();
    let moved = 0;
    const spread = () => { const [a, b] = [...fingers.values()]; return { middle: (a + b) / 2, wide: Math.max(10, Math.abs(a - b)) }; };
    canvas.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.altKey || e.metaKey || !(e.key in KEYS)) return;
      e.preventDefault();
      KEYS[e.key](pane);
    });
    // A page that is scrolled past does not zoom: the wheel does so with Ctrl, as pinching on a touchpad sends it, or after a click.
    canvas.addEventListener("wheel", (e) => {
      const sideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!sideways && !e.ctrlKey && document.activeElement !== canvas) return;
      e.preventDefault();
      if (sideways) pan((e.deltaX || e.deltaY) / widthOf(pane));
      else zoom(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.002)), timeAt(pane, e.offsetX));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      fingers.set(e.pointerId, e.offsetX);
      canvas.setPointerCapture(e.pointerId);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!fingers.has(e.pointerId)) return choose(pane, sliceAt(pane, e.offsetX, e.offsetY), e.clientX, e.clientY);
      const before = fingers.size === 2 ? spread() : null, dx = e.offsetX - fingers.get(e.pointerId);
      fingers.set(e.pointerId, e.offsetX);
      moved += Math.abs(dx);
      if (moved > 3) choose(pane, null);
      if (before) {
        const after = spread();
        zoom(after.wide / before.wide, timeAt(pane, before.middle));
        pan((before.middle - after.middle) / widthOf(pane));
      } else if (moved > 3) pan(-dx / widthOf(pane));
    });
    const lift = (e) => {
      fingers.delete(e.pointerId);
      if (e.type === "pointerup" && moved <= 3) choose(pane, sliceAt(pane, e.offsetX, e.offsetY), e.clientX, e.clientY);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") choose(pane, null); });
    canvas.addEventListener("dblclick", (e) => zoom(3, timeAt(pane, e.offsetX)));
    canvas.addEventListener("blur", () => choose(pane, null));
  }

  // --- controls and legend ----------------------------------------------------------------------------------------

  function controls() {
    const bar = document.createElement("p");
    bar.className = "controls";
    const actions = [["+", "zoom in", () => zoom(2)], ["−", "zoom out", () => zoom(0.5)], ["◀", "earlier", () => pan(-0.4)],
                     ["▶", "later", () => pan(0.4)], ["all", "whole window", () => show(whole.from, whole.to)]];
    for (const [text, title, act] of actions) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, title });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", act);
      bar.append(button);
    }
    const rows = document.createElement("span");
    rows.className = "rows";
    rows.setAttribute("role", "group");
    rows.setAttribute("aria-label", "rows");
    for (const [text, tasks] of [["rows: CPUs", false], ["rows: tasks", true]]) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text });
      button.dataset.rows = tasks ? "tasks" : "cpus";
      button.addEventListener("click", () => arrangeAll(tasks));
      rows.append(button);
    }
    bar.append(rows);
    const hint = document.createElement("span");
    hint.className = "note";
    hint.textContent = "Drag to move; zoom with the wheel (after a click, or with Ctrl) or a pinch; keys: arrows, + and −, 0, n and p, t.";
    bar.append(hint);
    host.append(bar);
  }

  // Rows of CPUs or of tasks, in all panes of the place.
  function arrangeAll(tasks) {
    byTask = tasks;
    for (const button of host.querySelectorAll("[data-rows]")) {
      button.setAttribute("aria-pressed", String((button.dataset.rows === "tasks") === byTask));
    }
    host.classList.toggle("by-task", byTask);
    choose(null, null);
    panes.forEach(arrange);
    redraw();
  }

  const swatches = [];
  function legend() {
    const list = document.createElement("p");
    list.className = "legend";
    const used = new Set(runs.flatMap((run) => run.all.map((s) => s.app)));
    for (const app of [...used].sort((a, b) => a - b)) {
      const item = document.createElement("span"), swatch = document.createElement("canvas");
      Object.assign(swatch, { className: "swatch", width: 28, height: 28 });
      item.append(swatch, data.apps[app]);
      list.append(item);
      swatches.push([swatch, app]);
    }
    const ends = "At the end of a slice: ◢ preempted, ▌ slice ended, ● yields, ■ exits, no mark: sleeps.";
    for (const [shown, text] of [["cpus-only", `${ends} Ticks above: wakeups, on the waker's CPU.`],
                                 ["tasks-only", `Filled: on a CPU. Hatched: waits for one. Empty: sleeps. ${ends}`]]) {
      const marks = document.createElement("span");
      marks.className = `dim ${shown}`;
      marks.textContent = text;
      list.append(marks);
    }
    host.append(list);
  }

  function recolor() {
    mix();
    for (const [swatch, app] of swatches) {
      const draw = swatch.getContext("2d");
      draw.fillStyle = inks[app].fill;
      draw.fillRect(0, 0, 28, 28);
    }
    panes.forEach(drawPane);
  }

  controls();
  legend();
  const panes = runs.map(makePane);
  recolor();
  arrangeAll(false);
  tell();
  addEventListener("resize", redraw);
  addEventListener("redraw", recolor);
}
