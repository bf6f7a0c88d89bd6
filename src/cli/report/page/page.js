// SPDX-License-Identifier: Apache-2.0
//
// Builds the page out of the data beside it: legend, summary, plots, matrices, configurations.
// Address fragments: #dark and #light choose the theme, #only=NAME shows one plot alone.
"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const runs = report.runs;
const root = document.documentElement;
const fragment = new URLSearchParams(location.hash.slice(1));

const palettes = {
  light: ["#2563eb", "#d9480f", "#0b8a5c", "#9333ea", "#a97a00", "#0e7c9b", "#c2255c", "#5c6773"],
  dark: ["#6ea8fe", "#ff9f5a", "#4fd1a0", "#c79bff", "#e6c04d", "#5fd0ec", "#ff8fb1", "#aab4bf"],
};
const isDark = () => root.dataset.theme === "dark";
const colourOf = (group) => {
  const palette = palettes[isDark() ? "dark" : "light"];
  return palette[group % palette.length];
};

// ---- words and numbers

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function scaled(value, step, units) {
  let unit = 0;
  while (Math.abs(value) >= 0.9995 * step && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const bytes = (value) =>
  known(value) ? scaled(value, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]) : "-";
const count = (value) => (known(value) ? value.toLocaleString("en") : "-");
const decimal = (digits) => (value) => (known(value) ? value.toFixed(digits) : "-");
const milliseconds = (value) => (known(value) ? (1e3 * value).toPrecision(3) : "-");
const duration = (value) => {
  if (!known(value)) return "-";
  if (value < 1) return `${Number((1e3 * value).toPrecision(3))} ms`;
  if (value < 120) return `${Number(value.toPrecision(3))} s`;
  return value < 7200 ? `${Number((value / 60).toPrecision(3))} min`
                      : `${Number((value / 3600).toPrecision(3))} h`;
};

function swatch(group) {
  const made = element("span", { class: "swatch" });
  made.dataset.group = group;
  return made;
}

// ---- the summary table

const metricName = report.metric.name;
const lower = report.metric.lower_is_better;

// Heading, value of a run, how it is written, and which value is best: "low", "high" or none.
const columns = [
  [metricName, (run) => run.metric, decimal(4), lower ? "low" : "high"],
  ["test loss", (run) => run.test_loss, decimal(4), "low"],
  ["train loss", (run) => run.train_loss, decimal(4), "low"],
  ["steps", (run) => run.steps, count],
  ["time", (run) => run.seconds, duration, "low"],
  [`time at ${report.network}`, (run) => run.network_seconds, duration, "low"],
  ["sent a step", (run) => run.sent_bytes_per_step, bytes, "low"],
  ["of dense", (run) => run.sent_bytes_per_step / run.dense_bytes_per_step,
    (share) => (known(share) ? `${(100 * share).toPrecision(3)} %` : "-")],
  ["sent in all", (run) => run.sent_bytes, bytes, "low"],
];
if (known(report.target))
  columns.push([`time to ${report.target}`, (run) => run.seconds_to_target, duration, "low"],
    [`sent to ${report.target}`, (run) => run.bytes_to_target, bytes, "low"]);

function bestOf(value, wish) {
  const values = runs.map(value).filter(known);
  if (!wish || values.length < 2) return undefined;
  return wish === "low" ? Math.min(...values) : Math.max(...values);
}

const timeColumns = [
  ["step, ms", (run) => run.step.seconds, milliseconds, "low"],
  ["compute", (run) => run.step.compute, milliseconds],
  ["exposed exchange", (run) => run.step.exposed, milliseconds, "low"],
  ["select", (run) => run.step.select, milliseconds],
  ["exchange", (run) => run.step.exchange, milliseconds],
  ["wait", (run) => run.step.wait, milliseconds],
];

function tableOf(columns) {
  const shown = columns.filter(([, value]) => runs.some((run) => known(value(run))));
  const head = element("tr", {}, element("th", {}, "run"),
    ...shown.map(([heading]) => element("th", {}, heading)));
  const rows = runs.map((run) => element("tr", {},
    element("td", {}, swatch(run.group), run.label + (run.finished ? "" : " (not finished)")),
    ...shown.map(([, value, write, wish]) => element("td",
      known(value(run)) && value(run) === bestOf(value, wish) ? { class: "best" } : {},
      write(value(run))))));
  return element("div", { class: "card scroll" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// ---- matrices of ranks

function heatMap(title, matrix, write, note) {
  const largest = Math.max(...matrix.flat());
  const many = matrix.length > 12;
  const table = element("table", { class: many ? "heat many" : "heat" });
  table.append(element("tr", {}, element("th"),
    ...matrix.map((_, to) => element("th", {}, many && to % 4 ? "" : String(to)))));
  matrix.forEach((row, from) => {
    const cells = row.map((value, to) => {
      const share = largest > 0 ? value / largest : 0;
      const cell = element("td", { title: `${from} to ${to}: ${write(value)}` },
        many || value === 0 ? "" : write(value, from, to));
      cell.style.background = `rgba(var(--heat), ${value > 0 ? 0.1 + 0.8 * share : 0.03})`;
      if (share > 0.6) cell.style.color = "var(--card)";
      return cell;
    });
    table.append(element("tr", {}, element("th", {}, many && from % 4 ? "" : String(from)), ...cells));
  });
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  return element("div", { class: "card", "data-plot": name }, element("h3", {}, title),
    element("div", { class: "scroll" }, table), element("p", { class: "note" }, note));
}

// ---- configurations

function configurations() {
  const table = (entries) => element("table", { class: "keys" },
    ...entries.map(([key, value]) => element("tr", {}, element("td", {}, key),
      element("td", {}, typeof value === "object" ? JSON.stringify(value) : String(value)))));
  return runs.map((run) => element("details", {},
    element("summary", {}, `${run.label}: ${run.exchange}`),
    element("div", { class: "card scroll" }, table(Object.entries(run.configuration)))));
}

// ---- the page

const main = document.getElementById("main");

function section(heading, sentence, cards, kind = "") {
  if (cards.length === 0) return;
  main.append(element("h2", {}, heading));
  if (sentence) main.append(element("p", {}, sentence));
  main.append(element("div", { class: `grid ${kind}` }, ...cards));
}

function drawLegend() {
  const legend = document.getElementById("legend");
  runs.forEach((run, index) => {
    const box = element("input", { type: "checkbox", checked: "" });
    const label = element("label", {}, box, swatch(run.group), run.label);
    box.addEventListener("change", () => {
      label.classList.toggle("off", !box.checked);
      showRun(index, box.checked);
    });
    legend.append(label);
  });
}

function setTheme(name) {
  root.dataset.theme = name;
  for (const one of document.querySelectorAll(".swatch"))
    one.style.background = colourOf(Number(one.dataset.group));
  drawPlots();
}

function choosePlot(name) {
  root.dataset.only = name;
  const card = document.querySelector(`[data-plot="${CSS.escape(name)}"]`);
  if (!card) return;
  card.classList.add("only");
  if (card.querySelector("canvas")) document.getElementById("legend").classList.add("only");
}

function build() {
  document.getElementById("subtitle").textContent = report.subtitle;
  document.getElementById("footer").textContent = report.made;
  drawLegend();
  main.append(element("h2", {}, "Summary"), tableOf(columns));
  addPlots();
  const traced = runs.filter((run) => run.traffic);
  section("Who sends to whom", "Bytes a step from the rank of the row to the rank of the column.",
    traced.map((run) => heatMap(`Traffic of ${run.label}`, run.traffic.bytes, bytes, run.traffic.note)));
  section("Who waits for whom",
    "Time a step that the rank of the row waits for messages of the rank of the column.",
    traced.map((run) => heatMap(`Waits of ${run.label}`, run.traffic.waits, duration, run.traffic.wait_note)));
  main.append(element("h2", {}, "Configurations"), ...configurations());
  if (fragment.has("only")) choosePlot(fragment.get("only"));
  const wish = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = fragment.has("dark") || (!fragment.has("light") && wish.matches);
  setTheme(chosen ? "dark" : "light");
  wish.addEventListener("change", () => setTheme(wish.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  let before = root.dataset.theme;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; setTheme("light"); resizePlots(); });
  window.addEventListener("afterprint", () => { setTheme(before); resizePlots(); });
}
