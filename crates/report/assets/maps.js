// SPDX-License-Identifier: GPL-2.0-or-later
// Draws the maps of CPUs over time: for each run one of threads per CPU and one of idle CPUs beside waiting tasks. All show
// the same part of the run and share one scale of colours. Data is in #map-data; Maps in maps.rs describes it.
"use strict";
for (const [place, host] of document.querySelectorAll(".maps").entries()) {
  const data = JSON.parse(document.getElementById("map-data").textContent)[place];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ROWS = data.cpus.length, GUTTER = 52, FOOT = 34, STOPS = 9, SHADES = 256;

  const unpack = (rows) => rows && rows.map((row) => row.split(" ").flatMap((token) => {
    const [value, count] = token.split("*");
    return Array(+(count || 1)).fill(+value);
  }));

  // --- colours --------------------------------------------------------------------------------------------------

  // Threads by their logarithm: 0, 1 and 2 are far apart, and hundreds still differ. Shares as they are.
  const KINDS = {
    threads: {
      title: "Threads per CPU", from: "--h", unit: "threads",
      level: (v) => Math.log1p(v) / Math.log1p(data.most_threads),
      ticks: () => [0, ...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192].filter((v) => v <= data.most_threads)],
      tell: (v) => `${v} thread${v === 1 ? "" : "s"} (mean)`,
    },
    wasted: {
      title: "Idle while tasks wait", from: "--w", unit: "of the time",
      level: (v) => v / 100, ticks: () => [0, 50, 100],
      tell: (v, span) => v ? `could have worked ${v} % of the time, ${length(v / 100 * span)}` : "never idle while a task waited that may run here",
    },
  };

  let shades = {};
  function mix() {
    for (const [kind, { from }] of Object.entries(KINDS)) {
      const stops = Array.from({ length: STOPS }, (_, i) => css(from + i)).map((c) => [1, 3, 5].map((at) => parseInt(c.slice(at, at + 2), 16)));
      shades[kind] = Array.from({ length: SHADES }, (_, i) => {
        const at = i / (SHADES - 1) * (STOPS - 1), low = Math.min(STOPS - 2, Math.floor(at)), part = at - low;
        return stops[low].map((c, k) => Math.round(c + (stops[low + 1][k] - c) * part));
      });
    }
  }
  const shade = (kind, v) => shades[kind][Math.max(0, Math.min(SHADES - 1, Math.round(KINDS[kind].level(v) * (SHADES - 1))))];

  // --- time: one view for all -------------------------------------------------------------------------------------

  const runs = data.runs.map((run) => ({ ...run, threads: unpack(run.threads), wasted: unpack(run.wasted) }));
  const whole = { from: 0, to: Math.max(1, ...runs.map((run) => run.duration_ns)) };
  const LEAST = Math.min(whole.to, 4 * Math.min(...runs.map((run) => run.width_ns)));
  let view = { ...whole }, hover = null, timeline = null;

  function show(from, to) {
    const span = Math.min(Math.max(to - from, LEAST), whole.to);
    const begin = Math.min(Math.max(from, 0), whole.to - span);
    view = { from: begin, to: begin + span };
    dispatchEvent(new CustomEvent("timeview", { detail: { by: "maps", ...view } }));
    redraw();
  }
  const pan = (share) => { const by = share * (view.to - view.from); show(view.from + by, view.to + by); };
  function zoom(factor, around = (view.from + view.to) / 2) {
    const span = Math.max((view.to - view.from) / factor, LEAST), share = (around - view.from) / (view.to - view.from);
    show(around - share * span, around - share * span + span);
  }
  addEventListener("timeview", ({ detail }) => {
    if (detail.by !== "timeline") return;
    timeline = detail;
    redraw();
  });

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  function length(ns) {
    const [size, unit] = UNITS.find(([size]) => ns >= size) || UNITS[3];
    return `${+(ns / size).toPrecision(4)} ${unit}`;
  }

  // --- a pane: one map --------------------------------------------------------------------------------------------

  const high = () => Math.max(1, Math.min(26, Math.round(300 / ROWS)));
  const isNarrow = (pane) => pane.canvas.clientWidth < 460;
  const headOf = (pane) => isNarrow(pane) ? 56 : 34;
  const rightOf = () => data.nodes.length ? 14 : 4;
  const widthOf = (pane) => Math.max(10, pane.canvas.clientWidth - GUTTER - rightOf());
  const xOf = (pane, time) => GUTTER + (time - view.from) / (view.to - view.from) * widthOf(pane);
  const timeAt = (pane, x) => view.from + (x - GUTTER) / widthOf(pane) * (view.to - view.from);

  function makePane(row, run, kind) {
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${KINDS[kind].title}, ${run.scheduler}: a row for each CPU, time from left to right; arrow keys move, + and - zoom, 0 shows the whole run`);
    canvas.dataset.title = `${KINDS[kind].title}: ${run.scheduler}`;
    const cell = document.createElement("div");
    cell.append(canvas);
    row.append(cell);
    const pane = { run, kind, canvas, draw: canvas.getContext("2d"), rows: run[kind] };
    listen(pane);
    return pane;
  }

  function drawPane(pane) {
    const { canvas, draw } = pane, scale = devicePixelRatio || 1, top = headOf(pane);
    canvas.style.height = `${top + ROWS * high() + FOOT}px`;
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
      canvas.width = Math.round(w * scale);
      canvas.height = Math.round(h * scale);
    }
    draw.setTransform(scale, 0, 0, scale, 0, 0);
    draw.fillStyle = css("--panel");
    draw.fillRect(0, 0, w, h);
    draw.textBaseline = "middle";
    drawHead(pane, w);
    drawCells(pane, top, scale);
    drawRows(pane, top, w);
    drawTime(pane, top + ROWS * high(), w);
    if (hover) drawHover(pane, top);
  }

  function drawHead(pane, w) {
    const { draw, kind, run } = pane, { title, ticks, level, unit } = KINDS[kind];
    draw.fillStyle = css("--text");
    draw.font = "600 13px system-ui, sans-serif";
    draw.fillText(`${title}: ${run.scheduler}`, GUTTER, 11);
    const named = draw.measureText(`${title}: ${run.scheduler}`).width;
    const wide = Math.min(190, isNarrow(pane) ? w - GUTTER - 90 : w - GUTTER - named - 110), y = isNarrow(pane) ? 26 : 4;
    if (wide < 60) return;
    draw.font = "10px system-ui, sans-serif";
    const suffix = kind === "wasted" ? " %" : "", after = draw.measureText(unit).width + 6;
    const left = isNarrow(pane) ? GUTTER : w - rightOf() - after - wide;
    for (let i = 0; i < wide; i++) {
      draw.fillStyle = `rgb(${shades[kind][Math.round(i / (wide - 1) * (SHADES - 1))]})`;
      draw.fillRect(left + i, y, 1.5, 9);
    }
    draw.strokeStyle = css("--dim");
    draw.lineWidth = 0.5;
    draw.strokeRect(left, y, wide, 9);
    draw.fillStyle = css("--dim");
    let free = -Infinity;
    for (const tick of ticks()) {
      const text = `${tick}${suffix}`, half = draw.measureText(text).width / 2, x = left + level(tick) * wide;
      draw.fillRect(x - 0.25, y + 9, 0.75, 3);
      if (x - half < free) continue;
      draw.fillText(text, x - half, y + 18);
      free = x + half + 4;
    }
    draw.fillText(unit, left + wide + 6, y + 5);
  }

  // A column of pixels shows the mean of what it covers.
  function drawCells(pane, top, scale) {
    const { draw, run, kind, rows } = pane, cols = Math.round(widthOf(pane) * scale), image = new ImageData(cols, ROWS);
    const per = (view.to - view.from) / cols, buckets = rows[0].length, none = css("--code");
    const [r0, g0, b0] = [1, 3, 5].map((at) => parseInt(none.slice(at, at + 2), 16));
    for (let col = 0; col < cols; col++) {
      const from = view.from + col * per, first = Math.floor(from / run.width_ns);
      const last = Math.min(buckets - 1, Math.max(first, Math.ceil((from + per) / run.width_ns) - 1));
      for (let row = 0; row < ROWS; row++) {
        const at = (row * cols + col) * 4;
        let sum = 0;
        for (let bucket = first; bucket <= last; bucket++) sum += rows[row][bucket];
        const [r, g, b] = from < run.duration_ns && last >= first ? shade(kind, sum / (last - first + 1)) : [r0, g0, b0];
        image.data.set([r, g, b, 255], at);
      }
    }
    const cells = document.createElement("canvas");
    [cells.width, cells.height] = [cols, ROWS];
    cells.getContext("2d").putImageData(image, 0, 0);
    draw.imageSmoothingEnabled = false;
    draw.drawImage(cells, GUTTER, top, widthOf(pane), ROWS * high());
    draw.strokeStyle = css("--dim");
    draw.lineWidth = 1;
    draw.strokeRect(GUTTER - 0.5, top - 0.5, widthOf(pane) + 1, ROWS * high() + 1);
  }

  // Numbers of CPUs as far as there is room, and a line where a node begins.
  function drawRows(pane, top, w) {
    const { draw } = pane, step = high(), every = [1, 2, 4, 8, 16, 32, 64, 128].find((n) => n * step >= 13) || 256;
    draw.font = "11px system-ui, sans-serif";
    draw.fillStyle = css("--dim");
    for (let row = 0; row < ROWS; row += every) {
      const text = row === 0 ? `CPU ${data.cpus[0]}` : `${data.cpus[row]}`;
      draw.fillText(text, GUTTER - 6 - draw.measureText(text).width, top + (row + 0.5) * step + 0.5);
    }
    data.nodes.forEach(([row, node], i) => {
      const end = i + 1 < data.nodes.length ? data.nodes[i + 1][0] : ROWS, y = Math.round(top + row * step);
      if (row > 0) {
        draw.fillStyle = css("--text");
        draw.fillRect(GUTTER - 5, y - 0.5, widthOf(pane) + 5 + rightOf(), 1);
      }
      const text = `node ${node}`, room = (end - row) * step;
      draw.fillStyle = css("--dim");
      if (room < draw.measureText(text).width) return;
      draw.save();
      draw.translate(w - 6, y + room / 2);
      draw.rotate(Math.PI / 2);
      draw.fillText(text, -draw.measureText(text).width / 2, 0);
      draw.restore();
    });
  }

  function drawTime(pane, bottom, w) {
    const { draw } = pane, span = view.to - view.from, raw = span / Math.max(2, widthOf(pane) / 80);
    const power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step) + 1e-9));
    draw.font = "11px system-ui, sans-serif";
    draw.fillStyle = css("--dim");
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      const x = xOf(pane, t), text = `${(t / 1e9).toFixed(digits)} s`, wide = draw.measureText(text).width;
      draw.fillRect(x - 0.5, bottom, 1, 4);
      draw.fillText(text, Math.max(0, Math.min(x - wide / 2, w - wide)), bottom + 13);
    }
    // What the timeline shows: two ends that meet if it is short.
    if (!timeline || timeline.to < view.from || timeline.from > view.to) return;
    const ends = [timeline.from, timeline.to].map((t) => Math.max(GUTTER, Math.min(xOf(pane, t), GUTTER + widthOf(pane))));
    draw.fillStyle = css("--accent");
    draw.fillRect(ends[0] - 1.5, bottom + 21, ends[1] - ends[0] + 3, 3);
    draw.font = "10px system-ui, sans-serif";
    const text = "timeline", wide = draw.measureText(text).width, right = ends[1] + 6;
    draw.fillText(text, right + wide < w ? right : ends[0] - 6 - wide, bottom + 23);
  }

  function drawHover({ draw, ...pane }, top) {
    const x = xOf(pane, hover.time), y = top + hover.row * high();
    if (x < GUTTER || x > GUTTER + widthOf(pane)) return;
    draw.strokeStyle = css("--text");
    draw.lineWidth = 1;
    draw.setLineDash([3, 3]);
    draw.beginPath();
    draw.moveTo(x, top); draw.lineTo(x, top + ROWS * high());
    draw.stroke();
    draw.setLineDash([]);
    draw.strokeRect(GUTTER - 3, y - 0.5, widthOf(pane) + 6, Math.max(3, high()) + 1);
  }

  // --- what people do -----------------------------------------------------------------------------------------------

  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("aria-live", "polite");
  document.body.append(tip);

  // Exact values of both maps at a point.
  function told(run, row, time) {
    const bucket = Math.floor(time / run.width_ns);
    if (row < 0 || row >= ROWS || time < 0 || time >= run.duration_ns || bucket >= run.threads[0].length) return null;
    const begin = bucket * run.width_ns, end = Math.min(begin + run.width_ns, run.duration_ns);
    const node = data.nodes.findLast(([first]) => first <= row);
    const lines = [[`CPU ${data.cpus[row]}`, `${node ? `node ${node[1]}, ` : ""}${run.scheduler}`],
                   ["from", `${+(begin / 1e9).toFixed(6)} s for ${length(end - begin)}`],
                   ["had", KINDS.threads.tell(run.threads[row][bucket])]];
    if (run.wasted) lines.push(["idle:", KINDS.wasted.tell(run.wasted[row][bucket], end - begin)]);
    return lines;
  }

  function point(pane, e) {
    const row = Math.floor((e.offsetY - headOf(pane)) / high()), time = timeAt(pane, e.offsetX);
    const lines = e.offsetX < GUTTER ? null : told(pane.run, row, time);
    hover = lines && { row, time };
    tip.hidden = !lines;
    if (lines) {
      tip.replaceChildren(...lines.map(([name, text]) => {
        const line = document.createElement("div"), b = document.createElement("b");
        b.textContent = name;
        line.append(b, ` ${text}`);
        return line;
      }));
      const box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(e.clientX + 14, innerWidth - box.width - 8))}px`;
      tip.style.top = `${e.clientY + 18 + box.height > innerHeight ? Math.max(4, e.clientY - box.height - 14) : e.clientY + 18}px`;
    }
    redraw();
  }

  const KEYS = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6),
    Home: () => show(0, view.to - view.from), End: () => show(whole.to - (view.to - view.from), whole.to), 0: () => show(0, whole.to),
  };

  function listen(pane) {
    const { canvas } = pane;
    let last = null;
    canvas.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.altKey || e.metaKey || !(e.key in KEYS)) return;
      e.preventDefault();
      KEYS[e.key]();
    });
    // As in the timeline: a page that is scrolled past does not zoom.
    canvas.addEventListener("wheel", (e) => {
      const sideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
      if (!sideways && !e.ctrlKey && document.activeElement !== canvas) return;
      e.preventDefault();
      if (sideways) pan((e.deltaX || e.deltaY) / widthOf(pane));
      else zoom(Math.exp(-e.deltaY * (e.ctrlKey ? 0.01 : 0.002)), timeAt(pane, e.offsetX));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => { last = e.offsetX; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      if (last === null) return point(pane, e);
      pan((last - e.offsetX) / widthOf(pane));
      last = e.offsetX;
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
    canvas.addEventListener("pointerleave", () => { hover = null; tip.hidden = true; redraw(); });
    canvas.addEventListener("dblclick", (e) => zoom(3, timeAt(pane, e.offsetX)));
  }

  let waiting = false;
  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; panes.forEach(drawPane); });
  }
  function recolor() { mix(); panes.forEach(drawPane); }

  function controls() {
    const bar = document.createElement("p");
    bar.className = "controls";
    const actions = [["+", "zoom in", () => zoom(2)], ["−", "zoom out", () => zoom(0.5)], ["◀", "earlier", () => pan(-0.4)],
                     ["▶", "later", () => pan(0.4)], ["all", "whole run", () => show(0, whole.to)]];
    for (const [text, title, act] of actions) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, title });
      button.setAttribute("aria-label", title);
      button.addEventListener("click", act);
      bar.append(button);
    }
    const hint = Object.assign(document.createElement("span"), { className: "note" });
    hint.textContent = "The timeline follows as far as it goes. Drag to move; zoom with the wheel (after a click, or with Ctrl); keys: arrows, + and −, 0.";
    bar.append(hint);
    host.append(bar);
  }

  controls();
  host.classList.toggle("pairs", runs.some((run) => run.wasted));
  const panes = runs.flatMap((run) => {
    const row = document.createElement("div");
    row.className = "map-row";
    host.append(row);
    return ["threads", "wasted"].filter((kind) => run[kind]).map((kind) => makePane(row, run, kind));
  });
  recolor();
  addEventListener("resize", redraw);
  addEventListener("redraw", recolor);
}
