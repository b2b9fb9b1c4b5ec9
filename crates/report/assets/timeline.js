// SPDX-License-Identifier: GPL-2.0-or-later
// Draws who had which CPU: in each place for timelines one canvas for each run, all at the same time of the run. Data of
// all places stands in #timeline-data, in the order of the page.
"use strict";
for (const [place, host] of document.querySelectorAll(".timelines").entries()) {
  const data = JSON.parse(document.getElementById("timeline-data").textContent)[place];
  const AXIS = 20, STRIP = 6, COLORS = 8, LEAST_NS = 200, MAX_WAKE_MARKS = 1500;
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
    return { scheduler: run.scheduler, tasks, cpus, all, wakeups, from: from_ns, to: to_ns };
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
    const next = run.cpus[s.cpu][s.at + 1];
    const then = next && next.begin === s.end ? named(run, next.task) : null;
    const left = s.left === PREEMPTED || s.left === HIGHER ? `${data.left[s.left]}${then ? ` by ${then}` : ""}`
      : `${data.left[s.left]}${s.left ? then ? `, then ${then}` : ", then idle" : ""}`;
    const who = s.waker >= 0 ? named(run, s.waker) : "a timer or device";
    const waited = `waited ${length(s.wait)}`;
    const how = s.ready === WOKEN ? `${who} on CPU ${s.wakerCpu}, ${waited}`
      : s.ready === CREATED ? `(created) ${who} on CPU ${s.wakerCpu}, ${waited}`
      : s.ready === WAITED ? `nobody: it had lost a CPU before, ${waited}` : "unknown: before the window";
    return [[named(run, s.task), data.apps[s.app]], ["begin", `${(s.begin / 1e9).toFixed(6)} s, CPU ${s.cpu}`],
            ["length", length(s.end - s.begin)], ["left", left], ["woken by", how]];
  }

  // --- colours: one for each app, with a pattern where colours repeat -------------------------------------------

  let inks = [];
  function mix() {
    inks = data.apps.map((_, app) => {
      const color = css(`--c${app % COLORS}`), tile = document.createElement("canvas"), turn = Math.floor(app / COLORS);
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
      const text = 0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#000" : "#fff";
      if (!turn) return { fill: color, color, text };
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
      return { fill: draw.createPattern(tile, "repeat"), color, text };
    });
  }

  // --- a pane: the canvas of a scheduler -------------------------------------------------------------------------

  let chosen = null; // { pane, slice }

  function rowHeight(rows) {
    return rows <= 2 ? 54 : rows <= 4 ? 40 : rows <= 8 ? 30 : rows <= 16 ? 22 : 14;
  }

  function makePane(run) {
    const title = document.createElement("h3"), canvas = document.createElement("canvas");
    title.textContent = run.scheduler;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `timeline of ${run.scheduler}: arrow keys move, + and - zoom, n and p go to the next and previous slice`);
    const high = rowHeight(run.cpus.length);
    canvas.style.height = `${AXIS + run.cpus.length * (high + 2)}px`;
    host.append(title, canvas);
    const pane = { run, canvas, high, gutter: 46, draw: canvas.getContext("2d") };
    listen(pane);
    return pane;
  }

  const widthOf = (pane) => pane.canvas.clientWidth - pane.gutter;
  const xOf = (pane, time) => pane.gutter + (time - view.from) / (view.to - view.from) * widthOf(pane);
  const timeAt = (pane, x) => view.from + (x - pane.gutter) / widthOf(pane) * (view.to - view.from);
  const topOf = (pane, cpu) => AXIS + cpu * (pane.high + 2);

  function sliceAt(pane, x, y) {
    const cpu = Math.floor((y - AXIS) / (pane.high + 2)), time = timeAt(pane, x);
    if (x < pane.gutter || !(cpu in pane.run.cpus)) return null;
    // Slices of less than a pixel can be hit, too.
    const slices = pane.run.cpus[cpu], slack = (view.to - view.from) / widthOf(pane);
    const near = slices[firstAfter(slices, time - slack)];
    return near && near.begin <= time + slack ? near : null;
  }

  function drawPane(pane) {
    const { canvas, draw, run } = pane, scale = devicePixelRatio || 1;
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
    const visible = run.cpus.map((slices) => {
      const at = firstAfter(slices, view.from);
      let end = at;
      while (end < slices.length && slices[end].begin < view.to) end++;
      return slices.slice(at, end);
    });
    visible.forEach((slices, cpu) => drawRow(pane, cpu, slices));
    drawWakeups(pane);
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
    run.cpus.forEach((_, cpu) => {
      if (pane.high >= 14 || cpu % 2 === 0) draw.fillText(`CPU ${cpu}`, 0, topOf(pane, cpu) + pane.high / 2 + 1);
    });
    // Where nothing was recorded.
    draw.fillStyle = css("--code");
    const until = Math.max(pane.gutter, xOf(pane, run.to));
    if (until < w) draw.fillRect(until, AXIS, w - until, h - AXIS);
  }

  // Slices that are wide enough are drawn each, the others as the share of each app in each column of pixels.
  function drawRow(pane, cpu, slices) {
    const { draw, run } = pane, top = topOf(pane, cpu) + STRIP, high = pane.high - STRIP;
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
    if (wide < 34 || high < 10) return;
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

  // A tick above the row of the CPU where a task was woken or created, unless there are too many to be told apart.
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
    const { draw } = pane, ink = css("--text");
    draw.fillStyle = draw.strokeStyle = ink;
    for (const other of visible.flat()) {
      if (other.task !== s.task) continue;
      const x = xOf(pane, other.begin);
      draw.fillRect(x, topOf(pane, other.cpu) + pane.high - 1, Math.max(1.5, xOf(pane, other.end) - x - 1), 2.5);
    }
    const [x, y] = [xOf(pane, s.begin), topOf(pane, s.cpu)];
    draw.lineWidth = 2;
    draw.strokeRect(x + 1, y + STRIP + 1, Math.max(1, xOf(pane, s.end) - x - 2), pane.high - STRIP - 2);
    if (s.ready !== WOKEN && s.ready !== CREATED) return;
    const [wx, wy] = [xOf(pane, s.begin - s.wait), topOf(pane, s.wakerCpu) + 2];
    draw.lineWidth = 1.2;
    draw.beginPath();
    draw.moveTo(wx, wy);
    draw.lineTo(x, y + STRIP - 2);
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
    redraw();
  }
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

  // The slice beside the chosen one, or the first in view.
  function step(pane, by) {
    const old = chosen && chosen.pane === pane ? chosen.slice : null;
    const first = pane.run.cpus.map((slices) => slices[firstAfter(slices, view.from)]).find((s) => s);
    const slice = old ? pane.run.cpus[old.cpu][old.at + by] : first;
    if (!slice) return;
    const span = view.to - view.from, middle = (slice.begin + slice.end) / 2;
    if (middle < view.from || middle > view.to) show(middle - span / 2, middle + span / 2);
    const box = pane.canvas.getBoundingClientRect();
    choose(pane, slice, box.left + Math.max(pane.gutter, xOf(pane, slice.begin)), box.top + topOf(pane, slice.cpu) + pane.high);
  }

  const KEYS = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6),
    ArrowUp: () => zoom(1.6), ArrowDown: () => zoom(1 / 1.6), Home: () => show(whole.from, whole.from + view.to - view.from),
    End: () => show(whole.to - (view.to - view.from), whole.to), 0: () => show(whole.from, whole.to),
    n: (pane) => step(pane, 1), p: (pane) => step(pane, -1), Escape: (pane) => choose(pane, null),
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
                     ["▶", "later", () => pan(0.4)], ["all", "the whole window", () => show(whole.from, whole.to)]];
    for (const [text, title, act] of actions) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, title });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", act);
      bar.append(button);
    }
    const hint = document.createElement("span");
    hint.className = "note";
    hint.textContent = "Drag moves; wheel (after a click, or with Ctrl) and pinch zoom; keys: arrows, + and −, 0, n and p.";
    bar.append(hint);
    host.append(bar);
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
    const marks = document.createElement("span");
    marks.className = "dim";
    marks.textContent = "At the end of a slice: ◢ preempted, ▌ slice used up, ● yields, ■ exits, nothing: sleeps. Ticks above: wakeups, on the waker's CPU.";
    list.append(marks);
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
  addEventListener("resize", redraw);
  addEventListener("redraw", recolor);
}
