// The status page: reads the status once a second and shows it. All text goes in as text.

import { bytes, clock, count, digits, duration, rate } from "./format.js";
import { History, Plots } from "./plots.js";
import { explain, verdict } from "./verdict.js";

const pollMs = 1000;
const patienceMs = 10_000; // for one answer
const element = (id) => document.getElementById(id);
const history = new History();
const plots = new Plots(element("plots"), history);
let frozen = false;

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(patienceMs) });
  if (!answer.ok) throw new Error(`${path} was answered ${answer.status}`);
  return answer.json();
}

async function poll() {
  try {
    const [status, past] = await Promise.all([get("api/status"), get("api/history?after=" + history.last)]);
    if (frozen) return;
    history.add(past);
    show(status);
    plots.draw();
  } catch (err) {
    if (!frozen) lost(err);
  }
}

// turn polls for ever. A page that nobody sees asks nothing; what it missed comes from the history.
async function turn() {
  if (!frozen && !document.hidden) await poll();
  setTimeout(turn, pollMs);
}

// text changes an element only if it has to: a reader may have selected it, or hear each change.
function text(id, value) {
  if (element(id).textContent !== value) element(id).textContent = value;
}

// put shows a figure, with its exact value beside it in the document.
function put(id, value, shown) {
  element(id).value = value === null || value === undefined ? "" : value;
  text(id, shown);
}

function lost(err) {
  if (document.body.dataset.state !== "lost") {
    text("until", `Since ${clock(new Date())}. The figures below are of before.`);
  }
  document.body.dataset.state = "lost";
  text("verdict", "No answer from the server");
  text("why", String(err.message));
  document.title = "No answer – lineweir";
}

function show(status) {
  const said = verdict(status);
  document.body.dataset.state = said.state;
  text("verdict", said.title);
  text("why", said.why);
  text("until", said.until);
  document.title = `${said.title} – lineweir`;
  text("version", status.version);
  text("clock", "at " + clock(new Date(status.time)));
  showTier(status.tier);
  showFlow(status);
  showShards(status);
  showLog(status.wal);
  showCompaction(status);
  showRefusals(status.admission);
}

function showTier(tier) {
  const level = tier.registered_bytes + tier.reserved_bytes;
  const share = (part) => Math.min(100, (part / tier.capacity_bytes) * 100) + "%";
  put("tier-level", level, bytes(level));
  text("tier-share", `${Math.round((level / tier.capacity_bytes) * 100)} % of the bound`);
  for (const name of ["capacity", "soft", "registered", "reserved", "highest"]) {
    put("tier-" + name, tier[name + "_bytes"], bytes(tier[name + "_bytes"]));
  }
  put("tier-segments", tier.segments, count(tier.segments));
  element("pool-level").style.setProperty("--height", share(tier.registered_bytes));
  element("pool-reserved").style.setProperty("--height", share(level));
  element("pool-soft").style.setProperty("--height", share(tier.soft_bytes));
}

function showFlow(status) {
  const { admission, tier, writes } = status;
  const refused = Object.values(admission.refused).reduce((sum, n) => sum + n, 0);
  put("points-rate", history.now("points"), rate(history.now("points")));
  put("text-rate", history.now("text_bytes"), bytes(history.now("text_bytes")) + "/s");
  put("drain-rate", tier.drain_bytes_per_second, bytes(tier.drain_bytes_per_second) + "/s");
  text("drain-note", status.compaction.paused ? "paused; as last measured" : tier.stalled ? "stands still" : "");
  put("refused-rate", history.now("refused"), rate(history.now("refused")));
  put("refused-total", refused, count(refused));
  put("waiting", admission.waiting, count(admission.waiting));
  put("waited", admission.waited, count(admission.waited));
  put("points", writes.points, count(writes.points));
}

function showLog(wal) {
  element("wal-meter").max = wal.max_bytes;
  element("wal-meter").high = wal.max_bytes / 2;
  element("wal-meter").value = wal.bytes;
  put("wal-bytes", wal.bytes, bytes(wal.bytes));
  put("wal-max", wal.max_bytes, bytes(wal.max_bytes));
  put("wal-files", wal.files, count(wal.files));
  put("wal-last", wal.last_sequence, count(wal.last_sequence));
  put("wal-synced", wal.synced_sequence, count(wal.synced_sequence));
  const group = wal.fsyncs > 0 ? wal.frames / wal.fsyncs : null;
  put("wal-group", group, group === null ? "–" : digits(group));
}

function showCompaction({ compaction, tier }) {
  text("compaction-state", compaction.paused ? "paused" : tier.stalled ? "stands still" : "on");
  const limit = compaction.max_bytes_per_second;
  put("compaction-limit", limit, limit > 0 ? bytes(limit) + "/s" : "none");
  put("compaction-jobs", compaction.jobs, count(compaction.jobs));
  put("compaction-failures", compaction.failures, count(compaction.failures));
  put("l1-segments", compaction.l1_segments, count(compaction.l1_segments));
  put("l1-bytes", compaction.l1_bytes, bytes(compaction.l1_bytes));
  text("compaction-error", compaction.last_error || "");
}

// make returns a new element with a class and text.
function make(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

function showShards(status) {
  const now = new Date(status.time);
  element("shards").replaceChildren(...status.shards.map((shard, number) => shardCard(shard, number, now)));
}

function shardCard(shard, number, now) {
  const state = shard.blocked_since ? "blocked" : shard.frozen > 0 ? "sealing" : "filling";
  const card = make("article", "shard " + state);
  const title = make("h3", "", `Shard ${number} `);
  title.append(make("span", "state", state));
  const bar = make("div", "bar");
  bar.style.setProperty("--fill", Math.min(100, (shard.active_bytes / shard.max_bytes) * 100) + "%");
  const filling = make("p", "");
  const active = make("data", "active", bytes(shard.active_bytes));
  active.value = shard.active_bytes;
  filling.append("filling: ", active, ` of ${bytes(shard.max_bytes)}, ${count(shard.active_rows)} rows`);
  card.append(title, bar, filling);
  card.append(make("p", "", shard.frozen > 0
    ? `sealing: ${count(shard.frozen)}, ${bytes(shard.frozen_bytes)}` : `sealing: none, ${count(shard.flushes)} flushed`));
  if (shard.blocked_since) {
    const since = new Date(shard.blocked_since);
    const wait = shard.expected_wait_seconds;
    card.append(make("p", "problem", `blocked for ${duration(Math.max(0, (now - since) / 1000))} by ${shard.blocked_by}` +
      (wait === undefined ? "" : `, seal expected in ${duration(wait)}`) + `; ${count(shard.waiting)} waiting`));
  }
  if (shard.last_flush_error) card.append(make("p", "problem", shard.last_flush_error));
  for (const held of shard.held ?? []) {
    card.append(make("p", "problem", `${count(held.rows)} rows of ${held.measurement} can't be written to files: ${held.cause}`));
  }
  return card;
}

function showRefusals(admission) {
  const refused = Object.entries(admission.refused).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  element("causes").replaceChildren(...refused.map(([cause, n]) => {
    const item = make("li", "", cause + " ");
    item.title = explain(cause);
    item.append(make("b", "", count(n)));
    return item;
  }));
  const latest = admission.recent_refusals;
  const key = latest.length > 0 ? latest[0].time : "none";
  if (element("refusals").dataset.key === key) return;
  element("refusals").dataset.key = key;
  element("refusals").replaceChildren(...(latest.length > 0 ? latest.map(refusalRow) : [noRefusals()]));
}

function refusalRow(refusal) {
  const row = make("tr");
  const time = make("time", "", clock(new Date(refusal.time)));
  time.dateTime = refusal.time;
  const cell = make("td");
  cell.append(time);
  row.append(cell, make("td", "cause", refusal.cause),
    make("td", "", refusal.retry_after_seconds > 0 ? `${refusal.retry_after_seconds} s` : "–"),
    make("td", "", refusal.detail));
  return row;
}

function noRefusals() {
  const row = make("tr");
  const cell = make("td", "faint", "No write was refused since the start.");
  cell.colSpan = 4;
  row.append(cell);
  return row;
}

element("hold").addEventListener("click", () => {
  frozen = !frozen;
  element("hold").setAttribute("aria-pressed", String(frozen));
  if (!frozen) poll();
});

for (const button of document.querySelectorAll("[data-minutes]")) {
  button.addEventListener("click", () => {
    plots.minutes = Number(button.dataset.minutes);
    for (const other of document.querySelectorAll("[data-minutes]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    plots.draw();
  });
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && !frozen) poll(); });
turn();
