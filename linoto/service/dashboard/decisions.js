// Recent decisions, and why each was made. Opening one holds the list still.

import { ask, at } from "./api.js";
import { el, say } from "./dom.js";
import { moment, number } from "./format.js";
import { GROUP } from "./words.js";

const CHOOSE = "Choose one to see why it was made.";
const FACTS = [
  ["context", (why) => contextText(why)],
  ["key", (why) => why.key],
  ["proposed", (why) => `${why.proposed}, by the ${why.proposed_by}`],
  ["fallback", (why) => why.fallback ?? "none"],
  ["room", (why) => number(why.budget)],
  ["interval", (why) => intervalText(why)],
  ["propensity", (why) => number(why.propensity)],
  ["mode of the loop", (why) => why.loop_mode],
  ["late reward", (why) => (why.late_reward === null ? null : `${number(why.late_reward)}, kept for audit only`)],
];

/** Who asked: the fields of the context with their values. */
function contextText({ context }) {
  return context ? Object.entries(context).map(([field, value]) => `${field}=${value ?? "(missing)"}`).join(", ") : null;
}

/** The best lower bound so far, and the upper bound then: where rewards change they may contradict each other. */
function intervalText({ lcb, ucb }) {
  if (lcb === null || ucb === null || lcb <= ucb) return `${number(lcb)} to ${number(ucb)}`;
  return `none: once it was at least ${number(lcb)}, then at most ${number(ucb)}, so rewards have changed`;
}

function rewardText({ reward, origin }) {
  if (reward === null) return "awaited";
  return origin === "default" ? `${number(reward)} (default)` : number(reward);
}

function explained(why) {
  const facts = FACTS.map(([name, text]) => [name, text(why)]).filter(([, text]) => text !== null);
  return [
    el("ul", {}, ...why.reasons.map((reason) => el("li", {}, reason))),
    el("p", { class: "soft" }, facts.map(([name, text]) => `${name}: ${text}`).join(" · ")),
  ];
}

/** A list that follows a loop, or shows the decision of a key; returns what updates it. */
export function decisionList($, loop) {
  const list = $("decisions"), follow = $("follow"), key = $("key");
  let following = true;

  function setFollowing(value) {
    following = value;
    say(follow, value ? "Hold still" : "Held still: follow again");
    if (!value) return;
    key.value = "";
    say($("listed"), CHOOSE);
    for (const button of list.querySelectorAll("[aria-expanded=true]")) close(button);
  }

  async function find() {
    const wanted = key.value;
    setFollowing(wanted === "");
    if (following) return;
    const rows = await ask("GET", `${at(loop, "decisions")}?${new URLSearchParams({ key: wanted, limit: 1 })}`).catch(() => []);
    if (key.value !== wanted) return; // typed on meanwhile
    list.replaceChildren(...rows.map(row));
    say($("listed"), rows.length ? CHOOSE : `No decision of this loop has the key “${wanted}”.`);
  }

  function close(button) {
    button.setAttribute("aria-expanded", "false");
    button.nextElementSibling?.remove();
  }

  async function toggle(button, id) {
    if (button.getAttribute("aria-expanded") === "true") return close(button);
    setFollowing(false);
    button.setAttribute("aria-expanded", "true");
    const box = el("div", { class: "why" }, el("p", { class: "soft" }, "asking why …"));
    button.after(box);
    try {
      box.replaceChildren(...explained(await ask("GET", at(loop, "decisions", id))));
    } catch (error) {
      box.replaceChildren(el("p", { class: "wrong" }, error.message));
    }
  }

  function row(decision) {
    const button = el(
      "button",
      { type: "button", "aria-expanded": "false", onclick: () => toggle(button, decision.decision_id) },
      el("time", { class: "soft" }, moment(decision.at)),
      decision.context ? el("span", {}, el("bdi", {}, decision.arm), el("span", { class: "soft" }, ` ${contextText(decision)}`)) : el("bdi", {}, decision.arm),
      el("span", { class: `badge ${decision.group}` }, GROUP[decision.group]),
      el("span", { class: "soft" }, rewardText(decision)),
    );
    return el("li", {}, button);
  }

  key.addEventListener("input", find);
  follow.addEventListener("click", () => setFollowing(!following));
  for (const begun of ["focusin", "pointerdown"]) list.addEventListener(begun, () => setFollowing(false)); // not every browser focuses what is pressed
  return (decisions) => {
    if (following) list.replaceChildren(...decisions.map(row));
  };
}
