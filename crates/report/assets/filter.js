// SPDX-License-Identifier: GPL-2.0-or-later
// Shows the statements that somebody wants to see: by verdict, by section, by words.
"use strict";
(() => {
  const form = document.querySelector(".filter"), none = document.getElementById("none");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const [section, words] = [form.querySelector("select"), form.querySelector("input[type=search]")];
  const parts = [...document.querySelectorAll("details.part")], rests = [...document.querySelectorAll("details.rest")];
  form.hidden = false;

  const fits = (row) => boxes.some((box) => box.checked && box.value === row.dataset.outcome)
    && words.value.toLowerCase().split(/\s+/).every((word) => row.textContent.toLowerCase().includes(word));

  // Narrowing a choice opens what is left; ticking a box does not shut anything.
  function filter() {
    const narrow = section.value || words.value || boxes.some((box) => !box.checked);
    let shown = 0;
    for (const part of parts) {
      const here = !section.value || section.value === part.dataset.section;
      let some = 0;
      for (const row of part.querySelectorAll("tbody tr")) {
        row.hidden = !(here && fits(row));
        some += !row.hidden;
      }
      part.hidden = !some;
      if (some && narrow) part.open = true;
      shown += some;
    }
    for (const box of [...document.querySelectorAll(".source"), ...rests])
      box.hidden = !box.querySelector("details.part:not([hidden])");
    if (narrow) rests.forEach((rest) => { rest.open = true; });
    none.hidden = shown > 0;
  }

  form.addEventListener("input", filter);
  form.addEventListener("submit", (e) => e.preventDefault());
  form.addEventListener("click", (e) => {
    if (e.target.type === "button") [...parts, ...rests].forEach((part) => { part.open = e.target.value === "open"; });
  });
  filter();

  // A link to a statement leads into a part that may be shut.
  function reveal() {
    const part = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("details.part");
    if (!part) return;
    for (let outer = part; outer; outer = outer.parentElement.closest("details")) outer.open = true;
    document.getElementById(decodeURIComponent(location.hash.slice(1))).scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
