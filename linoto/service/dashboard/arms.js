// The arms with their intervals on one scale.

import { interval } from "./chart.js";
import { el, say } from "./dom.js";
import { count, number } from "./format.js";

const SHOWN = 12;
const HEAD = [
  ["Arm", ""],
  ["Mean reward", "drawn"],
  ["Estimate", "optional"],
  ["Plays", ""],
  ["Awaited", "optional"],
  ["In the log", "optional"],
];

/** The scale: what the intervals span, within what rewards can be at all. */
function domainOf(arms, range) {
  const low = Math.min(...arms.map((arm) => arm.lcb)), high = Math.max(...arms.map((arm) => arm.ucb));
  const [least, most] = range ?? [null, null];
  return [Math.max(low, least ?? low), Math.min(high, most ?? high)];
}

function row(arm, domain, reference) {
  const scale = { ...arm, domain, reference };
  return el(
    "tr",
    {},
    el("td", {}, arm.name),
    el("td", { class: "drawn" }, interval(scale)),
    el("td", { class: "optional" }, number(arm.mean)),
    el("td", {}, number(arm.plays)),
    el("td", { class: "optional" }, number(arm.pending)),
    el("td", { class: "optional" }, number(arm.logged)),
  );
}

/** A table of arms; returns what updates it. */
export function armTable(table, filter, more) {
  let all = false, latest = null;

  function render() {
    if (latest === null) return;
    const { arms, reference, range } = latest, wanted = filter.value.trim().toLowerCase();
    const found = arms.filter((arm) => arm.name.toLowerCase().includes(wanted));
    found.sort((a, b) => b.plays - a.plays || b.logged - a.logged || b.mean - a.mean);
    const shown = all ? found : found.slice(0, SHOWN), domain = domainOf(arms, range);
    const head = el("tr", {}, ...HEAD.map(([text, kind]) => el("th", { class: kind, scope: "col" }, text)));
    table.replaceChildren(
      el("thead", {}, head),
      el("tbody", {}, ...shown.map((arm) => row(arm, domain, reference))),
    );
    more.hidden = found.length <= SHOWN;
    say(more, all ? `Show the ${SHOWN} most played` : `Show all ${count(found.length, "arm")}`);
  }

  filter.addEventListener("input", render);
  more.addEventListener("click", () => {
    all = !all;
    render();
  });
  return (data) => {
    latest = data;
    render();
  };
}
