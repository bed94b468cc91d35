// Figures as people read them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// bytes keeps three digits: 384 KiB, 1.25 MiB.
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  while (Math.abs(value) >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)} ${units[unit]}`;
}

// digits keeps three digits of a number, and all those before the point.
export function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

// count groups a whole number by thousands with narrow spaces.
export function count(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// rate is a number of events per second.
export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value >= 99.95 ? count(value) : digits(value);
}

export function duration(seconds) {
  if (seconds < 1) return "less than 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// clock is the time of day where the browser is, in 24 hours.
export function clock(time) {
  return time.toLocaleTimeString("en-GB");
}
