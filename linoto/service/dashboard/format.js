// Numbers and times as people read them.

const MINUS = "\u2212";

/** A number to about three digits: 12,345, 12.3, 0.0123. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(1).replaceAll("-", MINUS);
  const digits = size >= 100 || Number.isInteger(value) ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  return value.toLocaleString("en", digits).replace("-", MINUS);
}

/** What the last digit of a number is worth of which an interval is known: at most a fifth of the interval. */
const stepOf = (lower, upper) => 10 ** Math.floor(Math.log10((upper - lower) / 5));

function multiple(times, step) {
  const decimals = Math.max(0, -Math.round(Math.log10(step)));
  const text = Math.abs(times * step).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return times ? (times < 0 ? MINUS : "+") + text : text;
}

/** A number with its sign, and with as many digits as its interval allows. */
export function within(value, lower, upper) {
  if (!(upper > lower)) return signed(value);
  const step = stepOf(lower, upper);
  return multiple(Math.round(value / step), step);
}

/** Both ends of an interval with as many digits, rounded outwards. */
export function between(lower, upper) {
  if (!(upper > lower)) return [signed(lower), signed(upper)];
  const step = stepOf(lower, upper);
  return [multiple(Math.floor(lower / step + 1e-9), step), multiple(Math.ceil(upper / step - 1e-9), step)];
}

/** The same, where the lower end is known as it is (`books`), and the upper one is not shown beyond `most`. */
export function cut(ends, books, most) {
  const [least, top] = between(...ends);
  return [books ? signed(ends[0]) : least, roundedOut(ends) > most ? signed(Math.max(most, ends[1])) : top];
}

const roundedOut = ([lower, upper]) => (upper > lower ? Math.ceil(upper / stepOf(lower, upper) - 1e-9) * stepOf(lower, upper) : upper);

/** The middle of such an interval, not beyond its ends either. */
export const about = (value, ends, most) => (roundedOut(ends) > most ? signed(value) : within(value, ...ends));

/** On which side of 0 an interval lies as it is shown: 1, -1, or 0 where 0 is in it or at its end. */
export function sideOf(lower, upper) {
  const [least, most] = between(lower, upper);
  return least.startsWith("+") ? 1 : most.startsWith(MINUS) ? -1 : 0;
}

/** A number with its sign. */
export function signed(value) {
  if (value === null || value === undefined) return "–";
  const text = number(Math.abs(value));
  return text === "0" ? "0" : (value < 0 ? MINUS : "+") + text;
}

/** The same text where no plus is wanted: a minus stays. */
export const plain = (text) => text.replace("+", "");

/** The same text without its sign, where a word says it: so much more, or so much less. */
export const unsigned = (text) => text.replace(/^[+\u2212]/, "");

/** A share as a percentage; all and nothing are said only of all and nothing. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = 100 * share, rest = Math.min(value, 100 - value);
  const digits = rest <= 0 || rest >= 10 ? 0 : rest >= 1 ? 1 : Math.min(6, Math.ceil(1 - Math.log10(rest)));
  return `${value.toLocaleString("en", { maximumFractionDigits: digits })} %`;
}

/** The time of day, with the date if it was another day. */
export function moment(seconds) {
  const date = new Date(1000 * seconds);
  const today = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString("en-GB");
  return today ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}

/** How times between two moments are written, so that they can be told apart: seconds, minutes, or days. */
export function clock(from, to) {
  const date = (seconds, options) => new Date(1000 * seconds).toLocaleString("en-GB", options);
  const day = { day: "numeric", month: "short" }, minute = { hour: "2-digit", minute: "2-digit" };
  if (to - from > 4 * 86400) return (seconds) => date(seconds, to - from > 300 * 86400 ? { ...day, year: "numeric" } : day);
  const sameDay = date(from, day) === date(to, day) && date(to, day) === date(Date.now() / 1000, day);
  const options = to - from < 900 ? { ...minute, second: "2-digit" } : minute;
  return (seconds) => date(seconds, sameDay ? options : { ...day, ...options });
}

/** "1 decision", "2 decisions". */
export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}
