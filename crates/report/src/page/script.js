"use strict";
// What the page does beyond showing everything: series are switched, values read, tables sorted and copied.
// Names of runs reach the page as text only.

const SVG = "http://www.w3.org/2000/svg";

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function shortest(value) {
  return String(Number(value.toPrecision(4)));
}

// A point is [x, y], or [x, y, low, high] with an error bar; y is null where it is infinite.
function words(values, index, point) {
  const [x, y, low, high] = point;
  const bar = point.length === 4 ? ` (bar ${shortest(low)} to ${shortest(high)})` : "";
  const value = y === null ? "infinite" : shortest(y);
  return `${values.series[index].name}: ${value}${bar} at ${Number(x.toFixed(2))}, ${values.x.label}`;
}

// Where a point lies in a drawing, in its own units; outside of the scale, at the edge.
function place(drawing, values, [x, y]) {
  const [left, top, right, bottom] = drawing.dataset.frame.split(" ").map(Number);
  const share = (axis, value) => {
    const at = axis.log ? Math.log(value) : value;
    return Math.min(Math.max((at - axis.low) / (axis.high - axis.low), 0), 1);
  };
  return [
    left + share(values.x, x) * (right - left),
    bottom - (y === null ? 1 : share(values.y, y)) * (bottom - top),
  ];
}

function chart(figure) {
  const plot = figure.querySelector(".plot");
  const drawings = [...plot.querySelectorAll("svg")];
  const values = JSON.parse(figure.querySelector("script").textContent);
  const readout = element("p", { className: "readout" });
  readout.setAttribute("aria-live", "polite");
  plot.after(readout);
  const hidden = new Set();
  const order = [...figure.querySelectorAll(".legend li")].map((item) => Number(item.dataset.series));
  const shown = () => order.filter((index) => !hidden.has(index) && values.series[index].points.length > 0);
  const rings = drawings.map((drawing) => {
    const ring = document.createElementNS(SVG, "circle");
    for (const [key, value] of Object.entries({ r: 28, fill: "none", stroke: "#1F2328", "stroke-width": 8, class: "pointed" })) {
      ring.setAttribute(key, value);
    }
    ring.style.stroke = "var(--ink)";
    drawing.append(ring);
    return ring;
  });
  // The series that is read, and the place of its point; null before the first.
  let at = null;
  const read = (series, index) => {
    at = { series, index };
    const point = values.series[series].points[index];
    drawings.forEach((drawing, place_of) => {
      const [x, y] = place(drawing, values, point);
      rings[place_of].setAttribute("cx", x);
      rings[place_of].setAttribute("cy", y);
    });
    readout.textContent = words(values, series, point);
  };
  const forget = () => {
    at = null;
    readout.textContent = "";
    rings.forEach((ring) => ring.removeAttribute("cx"));
  };

  for (const item of figure.querySelectorAll(".legend li")) {
    const series = Number(item.dataset.series);
    const name = item.querySelector(".name");
    const button = element("button", { type: "button", className: "name" }, ...name.childNodes);
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const is_on = hidden.delete(series);
      if (!is_on) hidden.add(series);
      button.setAttribute("aria-pressed", String(is_on));
      for (const group of plot.querySelectorAll(`[data-series="${series}"]`)) group.classList.toggle("off", !is_on);
      if (at !== null && hidden.has(at.series)) forget();
    });
    name.replaceWith(button);
  }

  const nearest_of_x = (series, x) => {
    const points = values.series[series].points;
    const far = (point) => Math.abs(point[0] - x);
    return points.reduce((best, point, index) => (far(point) < far(points[best]) ? index : best), 0);
  };
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  plot.setAttribute("aria-label", `${drawings[0].getAttribute("aria-label")}. Arrow keys read the values.`);
  plot.addEventListener("keydown", (event) => {
    const series = shown();
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const turns = { ArrowUp: -1, ArrowDown: 1 };
    if (event.ctrlKey || event.altKey || event.metaKey || series.length === 0) return;
    if (event.key === "Escape") return forget();
    if (!(event.key in steps || event.key in turns)) return;
    event.preventDefault();
    if (at === null) return read(series[0], 0);
    const points = values.series[at.series].points;
    if (event.key in steps) {
      return read(at.series, Math.min(Math.max(at.index + steps[event.key], 0), points.length - 1));
    }
    const turned = series.indexOf(at.series) + turns[event.key];
    const next = series[(turned + series.length) % series.length];
    read(next, nearest_of_x(next, points[at.index][0]));
  });
  plot.addEventListener("focus", () => at === null && shown().length > 0 && read(shown()[0], 0));
  const point_at = (event) => {
    const drawing = drawings.find((drawing) => drawing.getBoundingClientRect().width > 0);
    const matrix = drawing && drawing.getScreenCTM();
    if (!matrix) return;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = null;
    // Of points in one place, the first series lies on top.
    for (const series of shown().sort((a, b) => a - b)) {
      values.series[series].points.forEach((point, index) => {
        const [left, top] = place(drawing, values, point);
        const distance = Math.hypot(left - x, top - y);
        if (best === null || distance < best.distance - 4) best = { series, index, distance };
      });
    }
    if (best !== null) read(best.series, best.index);
  };
  plot.addEventListener("pointermove", point_at);
  plot.addEventListener("pointerdown", point_at);
}

// The value of a cell: text without its error. Numbers order by size, what is missing comes last.
function value_of(cell) {
  const copy = cell.cloneNode(true);
  for (const small of copy.querySelectorAll("small")) small.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
}

function number_of(text) {
  if (/^[+-]?inf$/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return /^[+-]?(\d|\.\d)/.test(text) ? parseFloat(text) : NaN;
}

function is_missing(text) {
  return ["", "-", "–", "nan", "not measured"].includes(text);
}

function sortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = element("button", { type: "button" }, ...header.childNodes);
    header.append(button);
    header.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" }[header.getAttribute("aria-sort")];
      headers.forEach((other) => other.setAttribute("aria-sort", other === header ? next : "none"));
      body.append(...(next === "none" ? original : sorted(original, column, next === "ascending" ? 1 : -1)));
    });
  });
}

function sorted(rows, column, sign) {
  const keyed = rows.map((row) => ({ row, text: value_of(row.cells[column]) }));
  const known = keyed.filter(({ text }) => !is_missing(text));
  const are_numbers = known.every(({ text }) => !Number.isNaN(number_of(text)));
  const compare = (a, b) => {
    if (!are_numbers) return a.text.localeCompare(b.text, "en", { numeric: true });
    const [left, right] = [number_of(a.text), number_of(b.text)];
    return left === right ? 0 : left - right;
  };
  known.sort((a, b) => sign * compare(a, b));
  return [...known, ...keyed.filter(({ text }) => is_missing(text))].map(({ row }) => row);
}

// Tab-separated values; errors have columns of their own.
function tabs(table) {
  const rows = [...table.rows].map((row) => [...row.cells]);
  const errors = (cell) => [...cell.querySelectorAll("small")].map((small) => small.textContent.replace("±", "").trim());
  const counts = rows[0].map((_, column) => Math.max(...rows.map((row) => errors(row[column]).length)));
  const texts = (row, is_head) => row.flatMap((cell, column) => {
    const own = is_head ? Array(counts[column]).fill(`${value_of(cell)} error`) : errors(cell);
    return [value_of(cell), ...Array.from({ length: counts[column] }, (_, index) => own[index] ?? "")];
  });
  return rows.map((row, index) => texts(row, index === 0).join("\t")).join("\n") + "\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", { value: text, ariaLabel: "table" });
    document.body.append(area);
    area.select();
    const is_copied = document.execCommand("copy");
    area.remove();
    return is_copied;
  }
}

function copyable(box) {
  const button = element("button", { type: "button", className: "copy", textContent: "Copy table" });
  button.setAttribute("aria-label", `Copy table: ${box.getAttribute("aria-label")}, as tab-separated values`);
  const said = element("span", { className: "note" });
  said.setAttribute("role", "status");
  button.addEventListener("click", async () => {
    said.textContent = (await copy(tabs(box.querySelector("table")))) ? " copied" : " the browser allows no copying";
  });
  box.after(element("p", { className: "note" }, button, said));
}

for (const figure of document.querySelectorAll("figure.chart")) chart(figure);
for (const box of document.querySelectorAll(".wide")) {
  sortable(box.querySelector("table"));
  // A heat map says again what the table below it says.
  if (!box.closest(".heat")) copyable(box);
}
// Paper has no place to click: what is folded is printed too.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => folded.forEach((details) => (details.open = false)));
