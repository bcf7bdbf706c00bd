// The arms with their intervals on one scale.

import { interval } from "./chart.js";
import { el, say } from "./dom.js";
import { count, number, plain, within } from "./format.js";

const SHOWN = 12, MOST = 500; // rows, at first and at most
/** The scale: what the intervals span, within what rewards can be at all. */
function domainOf(arms, range) {
  const known = arms.filter((arm) => arm.lcb !== null && arm.ucb !== null);
  const low = Math.min(...known.map((arm) => arm.lcb)), high = Math.max(...known.map((arm) => arm.ucb));
  const [least, most] = range ?? [null, null];
  return [Math.max(low, least ?? low), Math.min(high, most ?? high)];
}

/** The mean of an arm, with as many digits as its interval allows. */
const meanOf = ({ mean, lcb, ucb }) => (mean === null || lcb === null || ucb === null ? number(mean) : plain(within(mean, lcb, ucb)));

/** What the plays of an arm had of a guardrail. */
const had = ([name, { mean, lower, upper }]) => el("div", { class: "soft" }, el("bdi", {}, name), ` ${meanOf({ mean, lcb: lower, ucb: upper })} per play`);

function row(arm, domain, reference) {
  const scale = { ...arm, domain, reference };
  return el(
    "tr",
    {},
    el("td", {}, el("bdi", {}, arm.name), arm.present ? "" : el("span", { class: "soft" }, " (removed)"), ...Object.entries(arm.metrics).map(had)),
    el("td", { class: "drawn" }, interval(scale), el("div", { class: "narrow" }, meanOf(arm))),
    el("td", { class: "optional fixed" }, meanOf(arm)),
    el("td", { class: "optional items" }, meanOf(arm)),
    el("td", {}, number(arm.plays)),
    el("td", { class: "optional" }, number(arm.pending)),
    el("td", { class: "optional fixed" }, number(arm.logged)),
  );
}

/** The rows of arms: `wanted` says which ones to ask for, `show` shows them. */
export function armTable(table, filter, more, refresh) {
  let all = false, drawn = "", latest = null;

  function render() {
    if (latest === null) return;
    const { arms, count: known, reference, range } = latest, wanted = filter.value.trim().toLowerCase();
    const found = arms.filter((arm) => arm.name.toLowerCase().includes(wanted));
    const state = JSON.stringify([found, reference, known, all]);
    if (state === drawn || selectingIn(table)) return;
    drawn = state;
    const domain = domainOf(arms, range);
    table.replaceChildren(...found.slice(0, all ? MOST : SHOWN).map((arm) => row(arm, domain, reference)));
    more.hidden = known <= SHOWN;
    say(more, all ? `Show the ${SHOWN} most played` : `Show ${known > MOST ? `the ${MOST} most played` : "all"} of ${count(known, "arm")}`);
  }

  filter.addEventListener("input", () => {
    render();
    refresh();
  });
  more.addEventListener("click", () => {
    all = !all;
    refresh();
  });
  return {
    wanted: () => (filter.value.trim() ? "" : `?limit=${all ? MOST : SHOWN}`),
    show(data) {
      latest = data;
      render();
    },
  };
}

function selectingIn(node) {
  const selection = getSelection();
  return !selection.isCollapsed && node.contains(selection.anchorNode);
}
