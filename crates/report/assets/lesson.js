// SPDX-License-Identifier: GPL-2.0-or-later
// Figures of lessons: a row for each task, filled while it runs, hatched while it waits; below, the scheduler's own quantities on
// the same time axis. A cursor shows the state of everything at one moment.
"use strict";
(() => {
  const LEFT = 104, RIGHT = 138, ROW = 26, PANEL = 92, AXIS = 22, CURVES = 8;
  // In an SVG, where the text may hold anything.
  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const color = (at) => `var(--c${at % CURVES})`;
  const number = (v) => Number(v.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 3 }).replace(/,/g, " ");
  const duration = (us) => (us < 1000 ? `${number(us)} µs` : `${number(us / 1000)} ms`);

  // The last element of a sorted list whose key is not later than `at`; -1: none.
  function last(list, at, key) {
    let low = -1, high = list.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (key(list[middle]) <= at) low = middle; else high = middle;
    }
    return low;
  }

  // The distance between labels of an axis of this length and width.
  function steps(length, width) {
    const rough = length / Math.max(width / 95, 1), power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= rough);
  }

  function figure(box, index) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const view = { from: 0, to: data.length };
    let cursor = data.length / 2, width = 0;
    const changes = [...new Set(data.tasks.flatMap((task) => task.spans.map((span) => span[0])))].sort((a, b) => a - b);
    const height = AXIS + data.tasks.length * ROW + 8 + data.panels.length * (PANEL + 30) + 6;
    const controls = document.createElement("div");
    controls.className = "controls";
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("height", height);
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "Timeline: which task runs and which waits, and the scheduler's quantities below");
    const now = document.createElement("span");
    now.className = "now";
    const buttons = [
      ["◀", "the change before (arrow left)", () => step(-1)], ["▶", "the next change (arrow right)", () => step(1)],
      ["+", "zoom in (+)", () => zoom(0.5, cursor)], ["−", "zoom out (-)", () => zoom(2, cursor)],
      ["whole", "the whole window (0)", () => show(0, data.length)],
    ];
    for (const [text, title, act] of buttons) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, title, onclick: act });
      controls.append(button);
    }
    controls.append(now);
    box.append(controls, svg);

    const inner = () => Math.max(width - LEFT - RIGHT, 50);
    const x = (at) => LEFT + ((at - view.from) / (view.to - view.from)) * inner();
    const at = (px) => view.from + ((px - LEFT) / inner()) * (view.to - view.from);
    const rowTop = (row) => AXIS + row * ROW;
    const panelTop = (row) => AXIS + data.tasks.length * ROW + 8 + row * (PANEL + 30) + 24;

    function show(from, to) {
      const length = Math.min(to - from, data.length);
      view.from = Math.min(Math.max(from, 0), data.length - length);
      view.to = view.from + length;
      draw();
    }
    function zoom(factor, around) {
      const length = Math.max((view.to - view.from) * factor, 5);
      const part = (around - view.from) / (view.to - view.from);
      show(around - part * length, around - part * length + length);
    }
    function step(by) {
      const found = last(changes, by > 0 ? cursor : cursor - 0.05, (c) => c) + (by > 0 ? 1 : 0);
      if (changes[found] === undefined) return;
      cursor = changes[found];
      const length = view.to - view.from;
      if (cursor < view.from || cursor > view.to) show(cursor - length / 2, cursor + length / 2); else point();
    }

    function range(panel) {
      const values = panel.series.flatMap((s) => s.points.map((p) => p[1]));
      if (panel.mark) values.push(panel.mark[0]);
      let low = Math.min(...values), high = Math.max(...values);
      if (!values.length) [low, high] = [0, 1];
      if (low > 0 && low <= high / 2) low = 0;
      if (low === high) [low, high] = [Math.min(low, 0), Math.max(high, 1)];
      return [low, high];
    }

    function axis() {
      const unit = data.length > 2000 ? 1000 : 1, step = steps(view.to - view.from, inner());
      const start = data.from_ms * 1000;
      let out = "";
      for (let t = Math.ceil((start + view.from) / step) * step; t <= start + view.to; t += step) {
        const px = x(t - start).toFixed(1);
        out += `<line class="grid" x1="${px}" x2="${px}" y1="${AXIS - 4}" y2="${height - 4}"/>`;
        out += `<text class="dim" x="${px}" y="12" text-anchor="middle">${number(t / unit)} ${unit === 1 ? "µs" : "ms"}</text>`;
      }
      return out;
    }
    function rows() {
      let out = "";
      data.tasks.forEach((task, row) => {
        const top = rowTop(row), middle = top + ROW / 2;
        out += `<text x="${LEFT - 10}" y="${middle + 4}" text-anchor="end">${escaped(task.name)}</text>`;
        out += `<line class="grid" x1="${LEFT}" x2="${LEFT + inner()}" y1="${middle}" y2="${middle}"/>`;
        for (const [from, to, cpu] of task.spans) {
          if (to < view.from || from > view.to) continue;
          const left = Math.max(x(from), LEFT), right = Math.min(x(to), LEFT + inner());
          const w = Math.max(right - left, 0.6).toFixed(1), fill = cpu < 0 ? `url(#h${index}-${row % CURVES})` : color(row);
          const [y, h] = cpu < 0 ? [top + 6, ROW - 12] : [top + 3, ROW - 6];
          out += `<rect x="${left.toFixed(1)}" y="${y}" width="${w}" height="${h}" fill="${fill}"/>`;
          if (cpu >= 0 && data.cpus > 1 && right - left > 14) {
            out += `<text x="${((left + right) / 2).toFixed(1)}" y="${middle + 4}" text-anchor="middle" style="fill:var(--panel)">${cpu}</text>`;
          }
        }
      });
      return out;
    }
    function panels() {
      let out = "";
      data.panels.forEach((panel, row) => {
        const top = panelTop(row), [low, high] = range(panel);
        const y = (v) => (top + PANEL - 6 - ((v - low) / (high - low)) * (PANEL - 12)).toFixed(1);
        out += `<text class="title" x="${LEFT}" y="${top - 7}">${escaped(panel.title)}<tspan class="note" font-weight="400" dx="8">${escaped(panel.note)}</tspan></text>`;
        out += `<rect x="${LEFT}" y="${top}" width="${inner()}" height="${PANEL}" fill="none" class="grid"/>`;
        for (const v of [low, high]) {
          out += `<text class="dim" x="${LEFT - 10}" y="${+y(v) + 4}" text-anchor="end">${number(v)}</text>`;
        }
        if (panel.mark) {
          const [v, label] = panel.mark;
          out += `<line class="meaning" x1="${LEFT}" x2="${LEFT + inner()}" y1="${y(v)}" y2="${y(v)}"/>`;
          out += `<text class="dim" x="${LEFT + inner() - 4}" y="${+y(v) - 4}" text-anchor="end">${escaped(label)}</text>`;
        }
        panel.series.forEach((series, nth) => {
          let path = "", before = null;
          const first = Math.max(last(series.points, view.from, (p) => p[0]), 0);
          for (let i = first; i < series.points.length; i++) {
            const [t, v] = series.points[i];
            const px = Math.max(x(t), LEFT);
            if (t > view.to) break;
            path += before === null ? `M${px.toFixed(1)} ${y(v)}` : `H${px.toFixed(1)}V${y(v)}`;
            before = v;
          }
          if (before !== null) path += `H${(LEFT + inner()).toFixed(1)}`;
          const dash = nth ? `stroke-dasharray="${["", "7 3", "2 3", "9 3 2 3"][nth % 4]}"` : "";
          out += `<path class="curve" d="${path}" stroke="${color(series.color)}" ${dash}/>`;
        });
      });
      return out;
    }

    function state(task) {
      const found = last(task.spans, cursor, (s) => s[0]);
      const span = task.spans[found];
      if (!span || span[1] <= cursor) return "sleeps";
      const [from, , cpu] = span;
      if (cpu < 0) return `waits since ${duration(cursor - from)}`;
      return data.cpus > 1 ? `runs on CPU ${cpu}` : `runs since ${duration(cursor - from)}`;
    }
    function point() {
      cursor = Math.min(Math.max(cursor, 0), data.length);
      const px = x(cursor).toFixed(1), right = LEFT + inner() + 8;
      let out = "";
      if (cursor >= view.from && cursor <= view.to) {
        out += `<line class="cursor" x1="${px}" x2="${px}" y1="${AXIS - 4}" y2="${height - 4}"/>`;
      }
      data.tasks.forEach((task, row) => {
        out += `<text class="value" x="${right}" y="${rowTop(row) + ROW / 2 + 4}" style="fill:${color(row)}">${state(task)}</text>`;
      });
      data.panels.forEach((panel, row) => {
        panel.series.forEach((series, nth) => {
          const found = series.points[last(series.points, cursor, (p) => p[0])];
          const text = `${series.name} ${found ? number(found[1]) : "–"}`;
          out += `<text class="value" x="${right}" y="${panelTop(row) + 12 + nth * 15}" style="fill:${color(series.color)}">${escaped(text)}</text>`;
        });
      });
      svg.querySelector(".over").innerHTML = out;
      now.textContent = `at ${((data.from_ms * 1000 + cursor) / 1000).toFixed(3)} ms` + ending();
    }
    // What happens at the cursor, if something does.
    function ending() {
      const near = (t) => Math.abs(t - cursor) < 0.06;
      const happens = [];
      for (const task of data.tasks) {
        task.spans.forEach(([from, to, cpu, left], nth) => {
          const ran = nth > 0 && near(task.spans[nth - 1][1]);
          if (near(to) && cpu >= 0) happens.push(`${task.name}: ${data.left[left]}`);
          if (near(from) && cpu >= 0) happens.push(`${task.name} gets the CPU`);
          if (near(from) && cpu < 0 && !ran) happens.push(`${task.name} wants a CPU`);
        });
      }
      return happens.length ? `: ${happens.join("; ")}` : "";
    }

    function draw() {
      width = svg.clientWidth || box.clientWidth || 900;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      let hatches = "";
      for (let i = 0; i < CURVES; i++) {
        hatches += `<pattern id="h${index}-${i}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
          `<rect width="6" height="6" fill="${color(i)}" opacity=".16"/><rect width="2.2" height="6" fill="${color(i)}" opacity=".75"/></pattern>`;
      }
      svg.innerHTML = `<defs>${hatches}</defs>${axis()}${rows()}${panels()}<g class="over"></g>`;
      point();
    }

    svg.addEventListener("pointermove", (event) => {
      const px = event.clientX - svg.getBoundingClientRect().left;
      if (event.buttons && grabbed !== null) {
        const by = ((grabbed - px) / inner()) * (view.to - view.from);
        grabbed = px;
        show(view.from + by, view.to + by);
      } else if (px >= LEFT && px <= LEFT + inner()) {
        cursor = at(px);
        point();
      }
    });
    let grabbed = null;
    svg.addEventListener("pointerdown", (event) => {
      grabbed = event.clientX - svg.getBoundingClientRect().left;
      svg.focus({ preventScroll: true });
    });
    window.addEventListener("pointerup", () => { grabbed = null; });
    svg.addEventListener("wheel", (event) => {
      // The page scrolls unless the figure has the focus.
      if (document.activeElement !== svg && !event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event.clientX - svg.getBoundingClientRect().left));
    }, { passive: false });
    svg.addEventListener("dblclick", (event) => zoom(0.5, at(event.clientX - svg.getBoundingClientRect().left)));
    svg.addEventListener("keydown", (event) => {
      const keys = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), "+": () => zoom(0.5, cursor), "-": () => zoom(2, cursor), 0: () => show(0, data.length) };
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    const details = box.closest("details");
    if (details) details.addEventListener("toggle", draw);
    new ResizeObserver(() => { if (svg.clientWidth && svg.clientWidth !== width) draw(); }).observe(svg);
    draw();
  }

  document.querySelectorAll(".figure").forEach(figure);
})();
