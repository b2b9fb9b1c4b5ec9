// SPDX-License-Identifier: GPL-2.0-or-later
// Buttons that save a figure of the page as SVG or PNG. Diagrams have their SVG in templates; bars are SVG already; maps and
// timelines are canvases and can be saved as they are shown. Nothing leaves the browser.
"use strict";
(() => {
  const SCALE = 2; // of a PNG against the SVG: sharp in print
  const name = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "figure";

  function save(blob, file) {
    const link = document.createElement("a"), url = URL.createObjectURL(blob);
    Object.assign(link, { href: url, download: file });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  function png(svg, file) {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.naturalWidth * SCALE;
      canvas.height = image.naturalHeight * SCALE;
      const draw = canvas.getContext("2d");
      draw.fillStyle = "#ffffff";
      draw.fillRect(0, 0, canvas.width, canvas.height);
      draw.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, `${file}.png`));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  }

  function buttons(after, file, svg, canvas) {
    const line = document.createElement("p");
    line.className = "save";
    const add = (text, act) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: text, title: `save as ${text}` });
      button.addEventListener("click", act);
      line.append(button);
    };
    if (svg) add("SVG", () => save(new Blob([svg()], { type: "image/svg+xml" }), `${file}.svg`));
    add("PNG", () => svg ? png(svg(), file) : canvas.toBlob((blob) => save(blob, `${file}.png`)));
    after.after(line);
  }

  const text = (element) => new XMLSerializer().serializeToString(element);

  // Bars take their colours from the page: a copy has them in it, in the light of paper.
  function withStyle(svg) {
    const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
    copy.setAttribute("width", box.width);
    copy.setAttribute("height", box.height);
    const copies = copy.querySelectorAll("*");
    svg.querySelectorAll("*").forEach((from, i) => {
      const style = getComputedStyle(from);
      for (const key of ["fill", "stroke", "stroke-width", "font-family", "font-size", "opacity"]) {
        copies[i].style.setProperty(key, style.getPropertyValue(key));
      }
    });
    return text(copy);
  }

  for (const template of document.querySelectorAll("template[data-figure]")) {
    const box = document.getElementById(template.dataset.figure), svg = template.content.querySelector("svg");
    buttons(box, name(svg.querySelector("text").textContent), () => text(svg));
  }
  for (const svg of document.querySelectorAll("svg.bars")) {
    buttons(svg, name(svg.previousElementSibling?.textContent || svg.getAttribute("aria-label")), () => withStyle(svg));
  }
  for (const canvas of document.querySelectorAll(".maps canvas")) buttons(canvas, name(canvas.dataset.title), null, canvas);
  for (const canvas of document.querySelectorAll(".timelines > canvas")) {
    buttons(canvas, name(`timeline ${canvas.previousElementSibling.textContent}`), null, canvas);
  }
})();
