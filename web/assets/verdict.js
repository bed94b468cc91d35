// The answer at a glance: is it holding back, why, and until when. A function of one status.

import { bytes, clock, duration } from "./format.js";

// causes say what each cause of a refusal means, and when it ends if no time can be told.
const causes = {
  l0_full: ["the tier has no room for the next seal", "until compaction has made room"],
  frozen_full: ["sealed memtables still wait for their flush", "until a flush has ended"],
  wal_full: ["the write-ahead log has reached its bound", "until flushes have freed a part of it"],
  memory: ["the writes in flight hold all the memory that they may", "until some of them have been answered"],
  disk_low: ["the disk has too little free space", "until there is space again; writing resumes by itself"],
  recovering: ["the start replays the log", "until the replay is done"],
  draining: ["the server is shutting down", "until it has been started again"],
  read_only: ["a write or fsync of the log or the manifest failed", "until the disk is well and the server restarted"],
  closed: ["the server has shut down", "until it has been started again"],
  outcome_unknown: ["the fsync of a write failed", "until the server is restarted"],
};

// recently is how long ago a refusal may be that still counts as now.
const recentlySeconds = 5;

export function explain(cause) {
  return causes[cause] ? causes[cause][0] : "the cause is " + cause;
}

// verdict returns {state, title, why, until}. state is open, pacing, holding or down.
export function verdict(status) {
  const now = new Date(status.time);
  if (status.state !== "ready") return stopped(status);
  const blocked = status.shards.filter((shard) => shard.blocked_since);
  if (blocked.length > 0) return holding(status, blocked, now);
  const last = status.admission.last_refusal;
  if (last && (now - new Date(last.time)) / 1000 < recentlySeconds) {
    return {
      state: "holding", title: "Holding back: some writes are refused",
      why: `${capital(explain(last.cause))} (${last.cause}). ${sentence(last.detail)}`,
      until: sentence(causes[last.cause] ? causes[last.cause][1] : "nobody can tell until when"),
    };
  }
  const level = status.tier.registered_bytes + status.tier.reserved_bytes;
  if (level > status.tier.soft_bytes) {
    return {
      state: "pacing", title: "Open, at the pace of the drain",
      why: `The tier is ${bytes(level - status.tier.soft_bytes)} above its soft limit: seals are granted as compaction ` +
        "makes room. Writes are taken.",
      until: sentence(`until the level is below ${bytes(status.tier.soft_bytes)}`),
    };
  }
  return { state: "open", title: "Open", why: "Writes are taken, and seals are granted at once.", until: "" };
}

function stopped(status) {
  const [why, until] = causes[status.state] || ["the server is " + status.state, "nobody can tell until when"];
  const reason = status.reason ? " " + sentence(status.reason) : "";
  return {
    state: "down", title: "No writes are taken",
    why: `${capital(why)} (${status.state}).${reason}`, until: sentence(until),
  };
}

function holding(status, blocked, now) {
  const first = blocked.reduce((a, b) => (a.blocked_since < b.blocked_since ? a : b));
  const since = new Date(first.blocked_since);
  const all = status.shards.length;
  const who = all === 1 ? "the shard" : blocked.length === all ? `all ${all} shards` : `${blocked.length} of ${all} shards`;
  return {
    state: "holding", title: "Holding back",
    why: `${capital(explain(first.blocked_by))} (${first.blocked_by}): ${who} may not seal since ${clock(since)}. ` +
      "Writes that need a seal wait or are refused; writes that fit in memory are taken.",
    until: sentence(untilWhen(status, blocked, first, now)),
  };
}

function untilWhen(status, blocked, first, now) {
  if (status.compaction.paused && first.blocked_by === "l0_full") {
    return "until compaction is resumed: it is paused (PUT /api/compaction)";
  }
  const waits = blocked.map((shard) => shard.expected_wait_seconds).filter((wait) => wait !== undefined);
  if (waits.length === 0 || first.blocked_by !== "l0_full") {
    const failing = first.last_flush_error || status.compaction.last_error;
    return (causes[first.blocked_by] || ["", "nobody can tell until when"])[1] +
      (first.blocked_by === "l0_full" ? "; its rate is not known now" : "") + (failing ? ` (${failing})` : "");
  }
  const wait = Math.min(...waits);
  return `until about ${clock(new Date(now.getTime() + wait * 1000))}: the next seal is expected in ${duration(wait)}`;
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

// sentence begins with a capital and ends with a stop.
function sentence(text) {
  return text === "" || /[.!?]$/.test(text) ? capital(text) : capital(text) + ".";
}
