// The reward and every metric besides it in one table: better or worse than practice, and what may still be lost.

import { el } from "./dom.js";
import { lostByBooks, mostGained } from "./answers.js";
import { about, count, cut, number, sideOf, unsigned } from "./format.js";

const HEADS = ["Metric", "Explored decisions had, against practice", "95 % sure between", "May still be lost"];

/** A difference from practice as people count it, where `text` has a plus for what is better. */
function difference(text, { lower_is_better: lower }) {
  if (text === "0") return "no difference";
  const more = text.startsWith("+") !== Boolean(lower);
  return `${unsigned(text)} ${more ? "more" : lower ? "fewer" : "less"}`;
}

/** Why there is nothing to compare. */
function unknown({ missing }) {
  return missing ? `no value of it has come for ${count(missing, "explored decision")}` : "nothing was explored";
}

/** A row: where the difference lies, said to be better or worse only where all of that is shown on one side of 0. */
function row(metric) {
  const { name, gained_upper: upper, left_to_lose: left, promised_loss: loss, practice, shut } = metric;
  const lower = Math.max(metric.gained_lower, -lostByBooks(metric));
  const books = lower > metric.gained_lower ? " (by the books)" : "", gained = Math.max(metric.gained, lower);
  const side = sideOf(lower, upper);
  const ends = cut([lower, upper], books, metric.top).map((text, i) => difference(text, metric) + (i ? "" : books));
  if (side < 0) ends.reverse();
  const explored = practice.explored > 0;
  const best = side === 0 ? "not clear yet" : `${side > 0 ? "✓" : "⚠"} ${difference(about(gained, [lower, upper], metric.top), metric)}`;
  const rest = left === 0 ? "nothing: practice is played" : `${number(left)} of ${number(loss)}${shut ? ": practice is played" : ""}`;
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("bdi", {}, name)),
    el("td", { "data-head": HEADS[1], class: explored ? ["bad", "", "good"][side + 1] : "" }, explored ? best : unknown(practice)),
    el("td", { "data-head": HEADS[2] }, explored ? (ends[0] === ends[1] ? ends[0] : `${ends[0]} to ${ends[1]}`) : "–"),
    el("td", { "data-head": HEADS[3], class: shut ? "bad" : "" }, left === null ? "no limit" : rest),
  );
}

/** The reward as a metric. */
function rewardOf(loop) {
  const { practice, left_to_lose, promised_loss, budget } = loop;
  const { earned, estimate, lower, upper } = practice;
  const unit = loop.unit || "reward", name = loop.metrics.some((metric) => metric.name === unit) ? `${unit} (reward)` : unit;
  return { name, gained: earned - estimate, gained_lower: earned - upper, gained_upper: earned - lower, left_to_lose, promised_loss, practice, top: mostGained(practice), shut: budget !== null && budget < 0 };
}

/** The table of a loop with guardrails, as what is in its section; nothing without them. */
export function guardrailTable(loop) {
  if (!loop.metrics.length || !loop.practice) return [];
  return [
    el("h3", {}, "Guardrails"),
    el(
      "div",
      { class: "scroll" },
      el("table", { class: "cards" }, el("thead", {}, el("tr", {}, ...HEADS.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...[rewardOf(loop), ...loop.metrics].map(row))),
    ),
    el("p", { class: "caption" }, "Compared with what current practice would have had in the same decisions. A decision is explored only where the reward and every guardrail can afford it; a value that never comes counts at its worst."),
  ];
}
