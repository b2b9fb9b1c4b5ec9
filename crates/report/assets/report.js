// SPDX-License-Identifier: GPL-2.0-or-later
// Draws the curves of the page with uPlot: data stands in #data, one entry per diagram.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colorOf = (s) => css(s.scheduler ? `--s${s.color % 6}` : `--c${s.color % 8}`);
  // What colour cannot tell, dashes do; schedulers are few.
  const DASHES = [[], [9, 4], [2, 3], [9, 3, 2, 3], [14, 4], [4, 4], [9, 3, 2, 3, 2, 3], [1, 5]];
  const drawn = [];

  // At most four significant digits; large values with the SI prefix.
  const PREFIXES = [[1e12, " T"], [1e9, " G"], [1e6, " M"]];
  const short = (v) => {
    if (v == null) return "";
    const [size, prefix] = PREFIXES.find(([size]) => Math.abs(v) >= size) || [1, ""];
    return +(v / size).toPrecision(4) + prefix;
  };

  // A percentile's place on the axis (see nines() in charts.rs) and its name.
  const NINES = [[0, ""], [0.30103, "50 %"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"], [5, "max"]];

  function axes(chart, text, grid) {
    const common = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const font = { labelFont: "12px system-ui", font: "12px system-ui", labelGap: 2 };
    const x = { ...common, ...font, label: chart.x_label, labelSize: 20, size: 34 };
    const y = { ...common, ...font, label: chart.y_label || null, labelSize: chart.y_label ? 22 : 0, size: 52,
                values: (u, ticks) => ticks.map(short) };
    if (chart.kind === "percentiles") {
      x.splits = () => NINES.map(([at]) => at);
      x.values = () => NINES.map(([, name]) => name);
      // Powers of ten only: the lines between them would be too many.
      y.values = (u, ticks) => ticks.map((v) => Math.abs(Math.log10(v) % 1) < 1e-9 ? short(v) : "");
    }
    return [x, y];
  }

  // uPlot's columns and series: a band is two columns without a line of their own.
  function columns(chart, box) {
    const data = [chart.x], series = [{ label: chart.x_label, value: (u, v) => short(v) }], bands = [];
    chart.series.forEach((s, i) => {
      const color = colorOf(s), points = chart.kind === "points";
      series.push({ label: s.label, stroke: color, width: 1.8, spanGaps: true, dash: points ? [] : DASHES[i % DASHES.length],
                    paths: points ? () => null : chart.kind === "steps" ? uPlot.paths.stepped({ align: 1 }) : undefined,
                    points: { show: points || chart.kind === "percentiles", size: !points ? 5 : box.clientWidth > 500 ? 7 : 4,
                              fill: points && i % 2 ? css("--panel") : color },
                    value: (u, v) => short(v) });
      data.push(s.y);
    });
    for (const s of chart.series.filter((s) => s.band)) {
      const at = data.length, color = colorOf(s);
      for (const edge of s.band) {
        series.push({ label: s.label + " range", stroke: color + "00", width: 0, points: { show: false } });
        data.push(edge);
      }
      bands.push({ series: [at + 1, at], fill: color + "38" });
    }
    return { data, series, bands };
  }

  function curves(chart, box) {
    const { data, series, bands } = columns(chart, box);
    const log = chart.kind === "percentiles";
    const scales = {
      x: { time: false, range: [Math.min(0, chart.x[0]), chart.x_max] },
      y: log ? { distr: 3 } : { range: [0, chart.y_max > 0 ? chart.y_max * 1.04 : 1] },
    };
    if (chart.series.some((s) => [...s.y, ...(s.band ? s.band[0] : [])].some((v) => v < 0))) scales.y = {};
    const named = chart.series.length;
    const u = new uPlot({
      // Three diagrams on a page of paper.
      width: box.clientWidth, height: document.documentElement.classList.contains("print") ? 230 : 270, series, bands, scales,
      axes: axes(chart, css("--dim"), css("--line")),
      cursor: { sync: { key: chart.group } },
      // What a legend says of the cursor it says when there is one.
      hooks: { setCursor: [(u) => { u.root.querySelector(".u-series").style.visibility = u.cursor.idx == null ? "hidden" : ""; }] },
      legend: { markers: { width: 3, dash: (u, i) => (u.series[i].dash || []).length ? "dashed" : "solid" } },
    }, data, box);
    u.root.querySelector(".u-series").style.visibility = "hidden";
    // Bands explain themselves; only curves stand in the legend.
    u.root.querySelectorAll(".u-legend .u-series").forEach((row, i) => { if (i > named) row.style.display = "none"; });
    drawn.push(() => u.destroy());
  }

  function drawAll() {
    drawn.splice(0).forEach((remove) => remove());
    for (const chart of charts) {
      curves(chart, document.getElementById(chart.id));
    }
  }

  drawAll();
  const again = () => { drawAll(); dispatchEvent(new Event("redraw")); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(drawAll, 150); });

  // Paper is narrow and light, and no part on it can be opened.
  const folded = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("print");
    for (const part of document.querySelectorAll("details.part:not([open]), details.rest:not([open])")) { part.open = true; folded.push(part); }
    again();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("print");
    folded.splice(0).forEach((part) => { part.open = false; });
    again();
  });
})();
