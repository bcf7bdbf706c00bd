// Lines over closed decisions and the times at which they were closed, drawn as wide as there is room.

import { el, svg } from "./dom.js";
import { clock, number } from "./format.js";

const RIGHT = 12, TOP = 26, BOTTOM = 38, LETTER = 7, NAME = 8, APART = 16, WIDE = 640; // pixels

/** About `n` round numbers between two values. */
function ticks(low, high, n) {
  const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step + 0); // no minus zero
  return found;
}

function extent(lines, include) {
  const values = [...include, ...lines.flatMap((line) => line.values)].filter((value) => value !== null);
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
  const margin = 0.05 * (high - low);
  return [low - (include.includes(low) ? 0 : margin), high + (include.includes(high) ? 0 : margin)];
}

function path(xs, values, toX, toY) {
  let text = "", pen = "M";
  values.forEach((value, i) => {
    if (value === null) return void (pen = "M");
    text += `${pen}${toX(xs[i]).toFixed(1)} ${toY(value).toFixed(1)}`;
    pen = "L";
  });
  return text;
}

/** The time at which x decisions were closed: that of the last point before. */
function timeAt(x, xs, times) {
  return times[Math.max(0, xs.findLastIndex((value) => value <= x))];
}

/** Labels of about n places below the chart: so many decisions, and when that was; null if two would touch. */
function labels(n, { xs, times, left, width, toX }) {
  const format = clock(times[0], times.at(-1)), found = [];
  let end = left - 2 * LETTER;
  for (const value of ticks(xs[0], xs.at(-1), n).filter(Number.isInteger)) {
    const texts = [number(value), format(timeAt(value, xs, times))];
    const half = (LETTER * Math.max(...texts.map((text) => text.length))) / 2, x = Math.min(toX(value), width - half);
    if (x - half < end) return null;
    end = x + half + 4;
    found.push({ x, texts });
  }
  return found;
}

function timeAxis({ height, ...scale }) {
  const tried = [8, 7, 6, 5, 4, 3, 2, 1].map((n) => labels(n, scale));
  return (tried.find((found) => found !== null) ?? []).flatMap(({ x, texts }) =>
    texts.map((text, i) => svg("text", { class: "when", x, y: height - 20 + 15 * i, "text-anchor": "middle" }, text)),
  );
}

function axes({ xs, times, unit, marks, left, right, width, height, toX, toY }) {
  const parts = [svg("text", { x: 0, y: 12 }, unit), ...timeAxis({ xs, times, left, width, height, toX })];
  for (const [value, text] of marks) {
    const y = toY(value);
    parts.push(svg("line", { class: value === 0 ? "zero" : "grid", x1: left, x2: width - right, y1: y, y2: y }));
    parts.push(svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, text));
  }
  return parts;
}

/** The area between two lines, where both are known. */
function area(xs, [lower, upper], toX, toY) {
  const known = xs.map((_, i) => i).filter((i) => lower[i] !== null && upper[i] !== null);
  const at = (values) => (i) => `${toX(xs[i]).toFixed(1)} ${toY(values[i]).toFixed(1)}`;
  return known.length ? `M${[...known.map(at(upper)), ...known.reverse().map(at(lower))].join("L")}Z` : "";
}

/** The names of lines to the right of their ends, moved apart where they would touch, in the order of the lines. */
function names(lines, { width, height, right, toY }) {
  const last = (values) => toY(values.findLast((value) => value !== null));
  const ends = lines.map(({ name, values, colour, below }) => ({ name, colour, y: last(values) + (below ? 5 : 4) }));
  ends.sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => (end.y = Math.max(end.y, i ? ends[i - 1].y + APART : TOP - 10)));
  ends.toReversed().forEach((end, i, upwards) => (end.y = Math.min(end.y, i ? upwards[i - 1].y - APART : height - BOTTOM)));
  return ends.map(({ name, colour, y }) => svg("text", { class: `name ${kind({ colour })}`, x: width - right + 6, y, fill: colour }, name));
}

/**
 * A chart into a figure: `lines` are {name, short, values, colour, dashed, below}, in `unit`, over the same `xs` and `times`; those
 * with a name have it at their right end, the `short` one on a small screen, and `below` others that end there. A `band` is {values: [lower, upper], colour}. `include` are values that the
 * scale must show, `label` says in words what is seen.
 */
export function draw(figure, { xs, times, unit, lines, band = null, include = [], label, format = number, height = 220, empty }) {
  const drawn = lines.filter((line) => line.values.some((value) => value !== null));
  if (xs.length < 2 || drawn.length === 0) return figure.replaceChildren(el("p", { class: "soft" }, empty));
  const width = Math.max(figure.clientWidth, 240), [low, high] = extent([...drawn, ...(band ?? { values: [] }).values.map((values) => ({ values }))], include);
  const marks = ticks(low, high, height > 180 ? 5 : 3).map((value) => [value, format(value)]);
  const named = drawn.filter(({ name }) => name).map((line) => (width < WIDE ? { ...line, name: line.short ?? line.name } : line));
  const right = named.length ? 8 + NAME * Math.max(...named.map(({ name }) => name.length)) : RIGHT;
  const left = 12 + LETTER * Math.max(5, ...marks.map(([, text]) => text.length));
  const toX = (x) => left + ((x - xs[0]) / (xs.at(-1) - xs[0] || 1)) * (width - left - right);
  const toY = (y) => height - BOTTOM - ((y - low) / (high - low)) * (height - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  picture.append(...axes({ xs, times, unit, marks, left, right, width, height, toX, toY }));
  if (band) picture.append(svg("path", { class: `band ${kind(band)}`, fill: band.colour, d: area(xs, band.values, toX, toY) }));
  for (const line of drawn) {
    picture.append(svg("path", { ...look(line), class: `line ${kind(line)}`, d: path(xs, line.values, toX, toY) }));
  }
  picture.append(...names(named, { width, height, right, toY }));
  figure.replaceChildren(picture, el("figcaption", { class: "caption" }, "Across: closed decisions, and when (your time)."));
}

const look = ({ colour, dashed }) => ({ stroke: colour, "stroke-dasharray": dashed && "5 4" });
const kind = ({ colour }) => (colour.startsWith("#") ? "policy" : ""); // made brighter at night

/** An interval with its estimate on a common scale, and where the log stands. */
export function interval({ lcb, ucb, mean, reference, domain: [low, high] }) {
  const toX = (value) => (100 * (Math.min(Math.max(value, low), high) - low)) / (high - low || 1);
  const y = { y1: 9, y2: 9 };
  const picture = svg("svg", { class: "interval", role: "img", height: 18, "aria-label": `${number(lcb)} to ${number(ucb)}` });
  if (lcb === null || ucb === null) return picture;
  if (reference !== null) {
    picture.append(svg("line", { class: "reference", x1: `${toX(reference)}%`, x2: `${toX(reference)}%`, y1: 0, y2: 18 }));
  }
  picture.append(svg("line", { class: "whisker", x1: `${toX(lcb)}%`, x2: `${toX(ucb)}%`, ...y }));
  if (mean !== null && mean >= low && mean <= high) picture.append(svg("circle", { cx: `${toX(mean)}%`, cy: 9, r: 4 }));
  return picture;
}
