// Prints the rows of Parquet files as JSON lines, each value exact.
//
//   node read.mjs GLOB...
//
// The first line is {"version", "columns"}: DuckDB's version and the name and type of every column. Each further line
// is one row, an array in the order of the columns. JSON numbers would lose digits and the sign of a zero, so every
// number is a decimal string; a TIMESTAMP_NS is its nanoseconds since 1970. Booleans, strings and null stay JSON.
import { once } from 'node:events';
import { DuckDBInstance, DuckDBTimestampNanosecondsValue, LIST, VARCHAR, listValue, version } from '@duckdb/node-api';

const CONFIG = { autoinstall_known_extensions: 'false', autoload_known_extensions: 'false' };
const QUERY = 'FROM read_parquet($globs, union_by_name = true, hive_partitioning = false)';

function exact(value) {
  if (value instanceof DuckDBTimestampNanosecondsValue) return value.nanos.toString();
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : value.toString();
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  throw new TypeError(`a value that lineweir never writes: ${value.constructor.name} ${value}`);
}

async function print(value) {
  if (!process.stdout.write(JSON.stringify(value) + '\n')) await once(process.stdout, 'drain');
}

async function main(globs) {
  const instance = await DuckDBInstance.create(':memory:', CONFIG);
  const connection = await instance.connect();
  const result = await connection.stream(QUERY, { globs: listValue(globs) }, { globs: LIST(VARCHAR) });
  const types = result.columnTypes();
  const columns = result.columnNames().map((name, i) => ({ name, type: types[i].toString() }));
  await print({ version: version(), columns });
  for await (const rows of result.yieldRows()) {
    for (const row of rows) await print(row.map(exact));
  }
  connection.closeSync();
}

const globs = process.argv.slice(2);
if (globs.length === 0) {
  console.error('usage: node read.mjs GLOB...');
  process.exitCode = 2;
} else {
  await main(globs);
}
