// Plots of the last minutes, drawn by uPlot from the samples of GET /api/history.

import { bytes, count, rate } from "./format.js";

const windowSamples = 5; // over which rates are taken
const gapMs = 10_000; // between two samples: the server was away
const binary = Array.from({ length: 50 }, (_, power) => 2 ** power); // steps of axes of bytes

// Each series has a label, the name of its colour in the style, and what it takes from a sample.
const plots = [
  { title: "Tier", show: bytes, steps: binary, series: [
    ["level", "water", (s) => s.registered_bytes + s.reserved_bytes, true],
    ["soft limit", "warn", (s) => s.soft_bytes], ["bound", "bad", (s) => s.capacity_bytes]] },
  { title: "Inflow, points per second", show: rate, series: [["made durable", "good", perSecond("points"), true]] },
  { title: "Refusals per second, and waits", show: rate, series: [
    ["refused", "bad", perSecond("refused"), true], ["waiting", "warn", (s) => s.waiting]] },
  { title: "Bytes per second", show: (value) => bytes(value) + "/s", steps: binary, series: [
    ["received", "good", perSecond("text_bytes")], ["drained", "water", (s) => s.drain_bytes_per_second]] },
  { title: "Memtables", show: bytes, steps: binary, series: [
    ["filling", "good", (s) => s.active_bytes, true], ["sealing", "water", (s) => s.frozen_bytes]] },
  { title: "Write-ahead log", show: bytes, steps: binary, series: [["size", "water", (s) => s.wal_bytes, true]] },
];

// perSecond takes the rate of a counter. It is unknown at the first sample and behind a gap or a restart.
export function perSecond(name) {
  return (s, at, samples) => {
    let from = at;
    while (from > 0 && from > at - windowSamples && joined(samples[from - 1], samples[from])) from--;
    const seconds = (s.time_ms - samples[from].time_ms) / 1000;
    return seconds > 0 ? (s[name] - samples[from][name]) / seconds : null;
  };
}

function joined(earlier, later) {
  return later.time_ms - earlier.time_ms < gapMs && later.points >= earlier.points && later.refused >= earlier.refused;
}

// History holds the samples of the last 15 minutes.
export class History {
  static spanMs = 15 * 60 * 1000;
  samples = [];

  get last() {
    return this.samples.length > 0 ? this.samples[this.samples.length - 1].time_ms : 0;
  }

  // add takes an answer of GET /api/history, whose rows follow its columns. Two answers may have the same rows, where
  // one was asked for before the other came.
  add(answer) {
    for (const row of answer.samples) {
      const sample = Object.fromEntries(answer.columns.map((name, i) => [name, row[i]]));
      if (sample.time_ms > this.last) this.samples.push(sample);
    }
    const first = this.samples.findIndex((s) => s.time_ms > this.last - History.spanMs);
    if (first > 0) this.samples.splice(0, first);
  }

  // now is the rate of a counter over the last samples.
  now(name) {
    const at = this.samples.length - 1;
    return at < 0 ? null : perSecond(name)(this.samples[at], at, this.samples);
  }
}

// Plots draws a history into an element.
export class Plots {
  minutes = 15;
  charts = [];

  constructor(element, history) {
    this.element = element;
    this.history = history;
    this.sizes = new ResizeObserver((entries) => entries.forEach((entry) => this.fit(entry.target)));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.build());
    this.build();
  }

  // build makes the charts anew: a canvas doesn't follow the colours of the page.
  build() {
    this.charts.forEach((chart) => chart.destroy());
    this.sizes.disconnect();
    this.element.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue("--" + name).trim();
    this.charts = plots.map((plot) => this.chart(plot, color));
    this.draw();
  }

  chart(plot, color) {
    const figure = document.createElement("figure");
    const title = document.createElement("figcaption");
    title.textContent = plot.title;
    figure.append(title);
    this.element.append(figure);
    const axis = { stroke: color("faint"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(200, figure.clientWidth), height: 150, padding: [8, 8, 0, 0],
      tzDate: (seconds) => new Date(seconds * 1000),
      cursor: { sync: { key: "time" }, y: false },
      scales: { x: { range: () => this.span() }, y: { range: (_, low, high) => [0, (high || 1) * 1.06] } },
      axes: [
        { ...axis, size: 30, space: 60, values: (_, ticks) => ticks.map(time) },
        { ...axis, size: 76, space: 28, values: (_, ticks) => ticks.map(plot.show), ...(plot.steps && { incrs: plot.steps }) },
      ],
      series: [
        { label: "time", value: (_, value) => (value === null || value === undefined ? "–" : time(value, true)) },
        ...plot.series.map(([label, name, , filled]) => ({
          label, stroke: color(name), width: 1.5, spanGaps: false, points: { show: false },
          fill: filled ? color(name) + "26" : undefined,
          value: (_, value) => (value === null || value === undefined ? "–" : plot.show(value)),
        })),
      ],
    };
    const chart = new uPlot(options, [[], ...plot.series.map(() => [])], figure);
    figure.chart = chart;
    this.sizes.observe(figure);
    return chart;
  }

  fit(figure) {
    figure.chart.setSize({ width: Math.max(200, Math.floor(figure.clientWidth)), height: 150 });
  }

  // span is what the time axis shows, in seconds.
  span() {
    const end = (this.history.last || Date.now()) / 1000;
    return [end - this.minutes * 60, end];
  }

  draw() {
    const { samples } = this.history;
    const from = samples.findIndex((s) => s.time_ms / 1000 >= this.span()[0]);
    const shown = from < 0 ? [] : samples.slice(from);
    const times = shown.map((s) => s.time_ms / 1000);
    this.charts.forEach((chart, i) => {
      chart.setData([times, ...plots[i].series.map(([, , value]) => shown.map((s, at) => value(s, from + at, samples)))]);
      if (!(chart.cursor.left >= 0)) chart.setLegend({ idx: times.length > 0 ? times.length - 1 : null });
    });
    this.element.dataset.samples = count(samples.length);
  }
}

function time(seconds, exact) {
  const text = new Date(seconds * 1000).toLocaleTimeString("en-GB");
  return exact === true ? text : text.replace(/:00$/, "");
}
