"use strict";

// One section of plots for each report. A series whose values are all missing or zero is left out, and a plot without
// any series is left out as well.

const colors = {
  offered: "#8a94a0", sent: "#c9a227", good: "#2a9d5c", bad: "#d1495b", calm: "#3a7bd5", other: "#8e5bd0",
};

// pick makes a column of one value of each second; what is missing becomes a gap.
function pick(report, value) {
  return report.seconds.map((second) => {
    const found = value(second);
    return found === undefined || found === null ? null : found;
  });
}

function plotsOf(report) {
  const milliseconds = (value) => (second) => value(second) * 1e3 || null;
  const tier = (value) => (second) => second.pressure && value(second.pressure) / 1048576;
  return [
    {
      title: "Points per second", unit: "",
      series: [
        ["offered", colors.offered, (s) => s.offered_points],
        ["sent, with returns", colors.sent, (s) => s.sent_points],
        ["acknowledged", colors.good, (s) => s.acknowledged_points],
        ["refused", colors.bad, (s) => s.refused_points],
      ],
    },
    {
      title: "Latency from the intended send time (ms)", unit: " ms", logarithmic: true,
      series: [
        ["admitted p50", colors.good, milliseconds((s) => s.admitted_p50_seconds)],
        ["admitted p99", colors.calm, milliseconds((s) => s.admitted_p99_seconds)],
        ["admitted max", colors.offered, milliseconds((s) => s.admitted_max_seconds)],
        ["refused p99", colors.bad, milliseconds((s) => s.refused_p99_seconds)],
      ],
    },
    {
      title: "Tier against its bound (MiB)", unit: " MiB",
      series: [
        ["level", colors.calm, tier((p) => p.level_bytes)],
        ["soft limit", colors.sent, tier((p) => p.soft_bytes)],
        ["bound", colors.bad, tier((p) => p.capacity_bytes)],
      ],
    },
    {
      title: "Retry-After (s)", unit: " s",
      series: [
        ["mean", colors.calm, (s) => s.retry_after_mean_seconds || null],
        ["longest", colors.bad, (s) => s.retry_after_max_seconds || null],
      ],
    },
    {
      title: "Writes waiting for room", unit: "",
      series: [["waiting", colors.calm, (s) => s.pressure && s.pressure.waiting]],
    },
    {
      title: "Shards that may not seal", unit: "",
      series: [["blocked", colors.bad, (s) => s.pressure && s.pressure.blocked_shards]],
    },
    {
      title: "Server: CPU (cores)", unit: "",
      series: [["cores", colors.other, (s) => s.server_process && s.server_process.cpu]],
    },
    {
      title: "Server: memory (MiB)", unit: " MiB",
      series: [["resident", colors.other, (s) => s.server_process && s.server_process.memory_bytes / 1048576]],
    },
  ].map((plot) => {
    const drawn = plot.series
      .map(([label, color, value]) => ({ label, color, data: pick(report, value) }))
      .filter((series) => series.data.some((value) => value));
    return { ...plot, drawn };
  }).filter((plot) => plot.drawn.length > 0);
}

function figureOf(plot, seconds) {
  const figure = document.createElement("figure");
  const title = document.createElement("h3");
  title.textContent = plot.title;
  figure.append(title);
  const style = getComputedStyle(document.body);
  const axis = { stroke: style.getPropertyValue("color"), grid: { stroke: "#88888833" }, ticks: { stroke: "#88888855" } };
  const shown = (_, value) => (value === null || value === undefined ? "–" : value.toPrecision(4) + plot.unit);
  const chart = new uPlot({
    width: 480, height: 220,
    scales: { x: { time: false }, y: plot.logarithmic ? { distr: 3 } : { range: (_, low, high) => [0, high * 1.05 || 1] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => tick + " s") }, { ...axis, size: 64 }],
    cursor: { sync: { key: "seconds" } },
    series: [{ label: "second", value: (_, value) => (value === null || value === undefined ? "–" : value) }, ...plot.drawn.map((series) => ({
      label: series.label, stroke: series.color, width: 1.5, spanGaps: false, value: shown,
    }))],
  }, [seconds, ...plot.drawn.map((series) => series.data)], figure);
  new ResizeObserver(([entry]) => {
    chart.setSize({ width: Math.max(240, Math.floor(entry.contentRect.width)), height: 220 });
  }).observe(figure);
  return figure;
}

for (const report of reports) {
  report.seconds ??= []; // of a run that was interrupted before it began
  const heading = document.createElement("h2");
  heading.textContent = report.label;
  const plots = document.createElement("div");
  plots.className = "plots";
  const seconds = report.seconds.map((second) => second.second);
  for (const plot of plotsOf(report)) plots.append(figureOf(plot, seconds));
  document.getElementById("plots").append(heading, plots);
}
