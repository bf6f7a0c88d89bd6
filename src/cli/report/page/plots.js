// SPDX-License-Identifier: Apache-2.0
//
// The plots, by Chart.js. A plot is a card of the page and a function that makes the chart's
// settings out of the current theme, so that a change of theme draws all of them again.
// Without the library there are no plots and the page says so.
"use strict";

const plots = [];  // {canvas, settings(), chart}
const hidden = new Set();  // indices of runs

function plotCard(name, title, settings, note) {
  const canvas = element("canvas", { role: "img", "aria-label": title });
  plots.push({ canvas, settings, chart: null });
  const card = element("div", { class: "card", "data-plot": name }, element("h3", {}, title),
    element("div", { class: "plot" }, canvas));
  if (note) card.append(element("p", { class: "note" }, note));
  return card;
}

function drawPlots() {
  if (typeof Chart === "undefined") return;
  const style = getComputedStyle(root);
  Chart.defaults.color = style.getPropertyValue("--soft").trim();
  Chart.defaults.borderColor = style.getPropertyValue("--line").trim();
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 12;
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;
  for (const plot of plots) {
    if (plot.chart) plot.chart.destroy();
    plot.chart = new Chart(plot.canvas, plot.settings());
  }
}

function resizePlots() {
  for (const plot of plots) if (plot.chart) plot.chart.resize();
}

function showRun(index, shown) {
  if (shown) hidden.delete(index);
  else hidden.add(index);
  drawPlots();
}

// ---- lines over steps, bytes and time

const axes = {
  steps: { title: "steps", of: (curve, i) => curve.step[i], write: count },
  bytes: { title: "bytes sent by the busiest rank", of: (curve, i) => curve.bytes[i], write: bytes },
  time: { title: "training time as measured", of: (curve, i) => curve.seconds[i],
    write: duration, isTime: true },
  network: { title: `training time at ${report.network}`,
    of: (curve, i) => curve.network_seconds[i], write: duration, isTime: true },
};

/// The unit of an axis: round numbers of seconds are no round numbers of minutes.
function unitOf(axis, curves) {
  const last = Math.max(0, ...curves.map((curve) => axis.of(curve, curve.step.length - 1)));
  if (!axis.isTime) return { size: 1, title: axis.title, write: axis.write };
  const [size, name] = last < 120 ? [1, "s"] : last < 7200 ? [60, "min"] : [3600, "h"];
  return { size, title: `${axis.title}, ${name}`, write: (x) => String(Number(x.toPrecision(4))) };
}

/// Powers of ten, and 2 and 5 times them where there is room.
function logTick(value) {
  const digit = Number((value / 10 ** Math.floor(Math.log10(value) + 1e-9)).toPrecision(1));
  return digit === 1 || digit === 2 || digit === 5;
}

function scale(title, write, logarithmic) {
  return {
    type: logarithmic ? "logarithmic" : "linear",
    title: { display: title !== "", text: title },
    grid: { drawBorder: false },
    ticks: {
      maxRotation: 0, maxTicksLimit: 8,
      callback: (value) => (logarithmic && !logTick(value) ? "" : write(value)),
    },
  };
}

/// Runs whose last points are far apart are legible on a logarithmic scale alone.
function farApart(curves, of) {
  const ends = curves.map((curve) => of(curve, curve.step.length - 1)).filter((x) => x > 0);
  return ends.length > 1 && Math.max(...ends) > 6 * Math.min(...ends);
}

/// `lines`: {run: index, curve, value: of a point, dash}. A point without a value is left out.
function linePlot(axis, lines, write, options = {}) {
  const points = (curve, value, unit) => curve.step
    .map((_, i) => ({ x: axis.of(curve, i) / unit.size, y: value(curve, i) }))
    .filter((point) => known(point.x) && known(point.y));
  return () => {
    const shown = lines.filter((line) => !hidden.has(line.run));
    const unit = unitOf(axis, shown.map((line) => line.curve));
    const logarithmic = farApart(shown.map((line) => line.curve), axis.of);
    const datasets = shown.map((line) => {
      const colour = colourOf(runs[line.run].group);
      const data = points(line.curve, line.value, unit).filter((point) =>
        (!logarithmic || point.x > 0) && (!options.logarithmic || point.y > 0));
      return {
        label: line.label || runs[line.run].label, data,
        borderColor: colour, backgroundColor: colour, borderWidth: 2, borderDash: line.dash || [],
        pointRadius: data.length < 30 ? 3 : 0, pointHoverRadius: 5, tension: 0,
      };
    });
    return {
      type: "line",
      data: { datasets },
      options: {
        interaction: { mode: "nearest", axis: "xy", intersect: false },
        scales: { x: scale(unit.title, unit.write, logarithmic),
                  y: scale("", write, options.logarithmic) },
        plugins: {
          legend: { display: false },
          tooltip: { callbacks: {
            title: (items) => (items.length ? axis.write(items[0].parsed.x * unit.size) : ""),
            label: (item) => `${item.dataset.label}: ${write(item.parsed.y)}`,
          } },
        },
      },
    };
  };
}

function overAxes(name, title, lines, write, options) {
  if (lines.length === 0) return [];
  const against = ["steps", "bytes", report.network ? "network" : "time"];
  if (report.network) against.push("time");
  const words = { network: `time at ${report.network}` };
  return against.map((axis) => plotCard(`${name}-${axis}`,
    `${title} against ${words[axis] || axis}`, linePlot(axes[axis], lines, write, options)));
}

const linesOf = (curveOf, value) => runs
  .map((run, index) => ({ run: index, curve: curveOf(run), value }))
  .filter(({ curve }) => curve && curve.step.some((_, i) => known(value(curve, i)) && value(curve, i) !== 0));

// ---- bars

// Not those of the runs: here a colour is a part of a step.
const phases = {
  light: ["#8fa3bd", "#3f5f8a", "#1f9e89", "#f2b134", "#d1495b", "#7d5ba6", "#b9c0c9"],
  dark: ["#7f93ad", "#5f86bd", "#35b79c", "#f4c55c", "#e46b7b", "#a384cc", "#5d6874"],
};

/// `parts`: [name, seconds of a run]; parts that no run has are left out.
function barPlot(parts) {
  return () => {
    const shown = runs.filter((_, index) => !hidden.has(index));
    const used = parts.filter(([, value]) => shown.some((run) => value(run) > 0));
    const datasets = used.map(([label, value], part) => ({
      label, data: shown.map((run) => 1e3 * (value(run) || 0)),
      backgroundColor: phases[isDark() ? "dark" : "light"][part % 7], borderColor: "transparent", barPercentage: 0.8,
      categoryPercentage: 0.85,
    }));
    return {
      type: "bar",
      data: { labels: shown.map((run) => run.label), datasets },
      options: {
        indexAxis: "y",
        scales: {
          x: { ...scale("milliseconds a step", (value) => String(value), false), stacked: true },
          y: { stacked: true, grid: { display: false } },
        },
        plugins: {
          legend: { position: "bottom", labels: { boxWidth: 12, boxHeight: 12 } },
          tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${item.parsed.x.toPrecision(3)} ms` } },
        },
      },
    };
  };
}

const spanOfStep = [
  ["data", (run) => run.step.data],
  ["forward", (run) => run.step.forward],
  ["backward", (run) => run.step.backward],
  ["forward and backward", (run) => (run.step.forward ? 0 : run.step.compute)],
  ["exposed exchange", (run) => run.step.exposed],
  ["optimizer", (run) => run.step.optimizer],
  ["agreement and rest", (run) => run.step.rest],
];
const spanOfExchange = [
  ["select", (run) => run.step.select],
  ["encode", (run) => run.step.encode],
  ["decode", (run) => run.step.decode],
  [runs.some((run) => run.step.encode) ? "add up and settle" : "code, add up and settle",
    (run) => run.step.exchange - (run.step.encode || 0) - (run.step.decode || 0)],
  ["wait", (run) => run.step.wait],
];

// ---- all of them

function addPlots() {
  if (typeof Chart === "undefined") {
    main.append(element("h2", {}, "Plots"), element("p", {}, report.no_plots));
    return;
  }
  const rowKind = report.network ? "four" : "";
  const score = linesOf((run) => run.epochs, (curve, i) => curve.metric[i]);
  section(`Test ${metricName}`, "", overAxes("metric", metricName, score, decimal(3)), rowKind);
  section("Training loss", "Means over a few steps each.",
    overAxes("loss", "loss", linesOf((run) => run.curve, (curve, i) => curve.loss[i]), (x) => String(Number(x.toPrecision(3))), { logarithmic: true }), rowKind);
  section("Where the time of a step goes", "Means of rank 0. The communication thread works beside the backward " +
    "pass; what it needs beyond that is the exposed exchange.", [
    plotCard("step-time", "A step", barPlot(spanOfStep)),
    plotCard("exchange-time", "Its communication thread", barPlot(spanOfExchange)),
  ], "wide");
  main.append(tableOf(timeColumns));
  const share = (x) => `${Number((100 * x).toPrecision(3))} %`;
  const over = (name, title, key, write, options) => {
    const lines = linesOf((run) => run.curve, (curve, i) => curve[key] && curve[key][i]);
    return lines.length ? [plotCard(name, title, linePlot(axes.steps, lines, write, options))] : [];
  };
  const small = (x) => String(Number(x.toPrecision(3)));
  section("What is sent", "", [
    ...over("density", "Density: coordinates that rank 0 selects", "density", share, { logarithmic: true }),
    ...over("agreed", "Coordinates in the agreed sum", "agreed", share, { logarithmic: true }),
    ...over("sent", "Bytes a step of the busiest rank", "sent", bytes, { logarithmic: true }),
    ...over("threshold", "Threshold: smallest magnitude selected", "threshold", small, { logarithmic: true }),
    ...over("residual", "Length of the residual (L2) on rank 0", "residual", small),
  ]);
}
