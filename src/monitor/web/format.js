// Numbers as people read them. What is unknown (null) is an en dash, never a zero.

export const DASH = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const whole = new Intl.NumberFormat('en');

export const count = (value) => (known(value) ? whole.format(Math.round(value)) : DASH);
export const fixed = (value, digits) => (known(value) ? value.toFixed(digits) : DASH);
export const percent = (share, digits = 1) => (known(share) ? `${(100 * share).toFixed(digits)} %` : DASH);

/** Three digits that count, more before the point. */
export function rate(value) {
  if (!known(value)) return DASH;
  if (value === 0 || value >= 100) return count(value);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Powers of 1000. */
export function bytes(value) {
  if (!known(value)) return DASH;
  let unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${['B', 'kB', 'MB', 'GB', 'TB'][unit]}`;
}
export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : DASH);

export function seconds(value) {
  if (!known(value)) return DASH;
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 100) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} d`;
}

/** The clock on the wall of who looks. */
export const clock = (time) => new Date(time).toLocaleTimeString('en-GB');
/** Enough of an id to tell peers apart. */
export const short = (id) => id.slice(0, 8);
