// Drives a client library of InfluxDB for the end-to-end tests, and prints what the library presents to its user: one
// JSON object per line for each thing done. It exits 0 also when the library failed. The flags are those of ../go.
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { InfluxDB, Point, setLogger } from "@influxdata/influxdb-client";
import { FieldType, InfluxDB as InfluxDB1 } from "influx";

const text = { type: "string", default: "" };
const flag = { type: "boolean", default: false };
const { values: options } = parseArgs({
  options: {
    ca: text, // read by Node.js itself, from the environment
    client: text, url: text, database: text, token: text, user: text, password: text, points: text, query: text,
    precision: { type: "string", default: "ns" }, gzip: flag, ping: flag, retry: flag,
  },
});

const show = (outcome) => console.log(JSON.stringify(outcome));

// attempt shows what a call of a library gives: an outcome, or an error.
async function attempt(did, call) {
  try {
    show({ did, ...(await call()) });
  } catch (error) {
    show({ did, ...presented(error) });
  }
}

function presented(error) {
  return {
    error: error.message, status: error.statusCode ?? error.res?.statusCode, code: error.code,
    retry_after: error.retryAfter?.(),
  };
}

const readPoints = () => readFileSync(options.points, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));

// rounded is a time in the unit of the precision, as text.
function rounded(nanoseconds) {
  const divisors = { ns: 1n, us: 1_000n, ms: 1_000_000n, s: 1_000_000_000n };
  return String(BigInt(nanoseconds) / divisors[options.precision]);
}

// Influx2 drives @influxdata/influxdb-client.
class Influx2 {
  constructor() {
    this.client = new InfluxDB({ url: options.url, token: options.token || undefined, timeout: 60_000 });
  }

  async write() {
    let written;
    const success = new Promise((resolve) => { written = resolve; });
    const api = this.client.getWriteApi("any", options.database, options.precision, {
      gzipThreshold: options.gzip ? 0 : 1e9, batchSize: 1e6, flushInterval: 0,
      maxRetries: options.retry ? 1e6 : 0, maxRetryTime: 600_000,
      writeFailed(error, lines, attempts) {
        if (options.retry) show({ did: "attempt", ...presented(error), attempts });
      },
      writeSuccess: written,
    });
    for (const point of readPoints()) api.writePoint(this.point(point));
    if (options.retry) {
      await api.flush().catch(() => {}); // of the first attempt; close() would end the retries
      await success;
    }
    await api.close();
    return {};
  }

  point({ measurement, tags, floats, ints, uints, bools, strings, time }) {
    const point = new Point(measurement).timestamp(rounded(time));
    for (const [name, value] of Object.entries(tags ?? {})) point.tag(name, value);
    for (const [name, value] of Object.entries(floats ?? {})) point.floatField(name, value);
    // Integers are given as text: it is how the library takes those that no number of JavaScript holds.
    for (const [name, value] of Object.entries(ints ?? {})) point.intField(name, value);
    for (const [name, value] of Object.entries(uints ?? {})) point.uintField(name, value);
    for (const [name, value] of Object.entries(bools ?? {})) point.booleanField(name, value);
    for (const [name, value] of Object.entries(strings ?? {})) point.stringField(name, value);
    return point;
  }

  async query() {
    return { values: await this.client.getQueryApi("any").collectRows(options.query) };
  }
}

// Influx1 drives influx.
class Influx1 {
  constructor() {
    const { protocol, hostname, port } = new URL(options.url);
    this.client = new InfluxDB1({
      protocol: protocol.slice(0, -1), host: hostname, port: Number(port), database: options.database,
      username: options.user || undefined, password: options.password,
      schema: [{
        database: options.database, measurement: "known", tags: ["series", "path"],
        fields: { f: FieldType.FLOAT, i: FieldType.INTEGER, b: FieldType.BOOLEAN, s: FieldType.STRING },
      }],
    });
  }

  async ping() {
    const [host] = await this.client.ping(60_000);
    return { version: host.online ? host.version : "" };
  }

  async write() {
    const points = readPoints().map(({ measurement, tags, floats, ints, bools, strings, time }) => ({
      measurement, tags: tags ?? {}, timestamp: rounded(time), fields: { ...floats, ...ints, ...bools, ...strings },
    }));
    const precision = { ns: "n", us: "u", ms: "ms", s: "s" }[options.precision];
    await this.client.writePoints(points, { precision });
    return {};
  }

  async query() {
    const rows = await this.client.query(options.query);
    return { values: rows.flatMap((row) => Object.values(row).map(String)) };
  }
}

setLogger({ error() {}, warn() {} }); // failures are shown by writeFailed
const library = options.client === "v1" ? new Influx1() : new Influx2();
if (options.ping) await attempt("ping", () => library.ping());
if (options.points) await attempt("write", () => library.write());
if (options.query) await attempt("query", () => library.query());
