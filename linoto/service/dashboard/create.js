// A form for a new loop: arms, what the log says of them, and how much may be lost.

import { ask, at } from "./api.js";
import { el, say } from "./dom.js";
import { number } from "./format.js";
import { parseArms, readLog } from "./log.js";

const FIELDS = {
  name: { value: "", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]{0,63}", title: "letters, digits, dots, dashes" },
  budget: { type: "number", value: "0", step: "any", min: "0", required: true },
  epsilon: { type: "number", value: "0.05", step: "any", min: "0", required: true },
  unit: { value: "", maxlength: "40", placeholder: "clicks" },
  low: { type: "number", value: "0", step: "any", required: true },
  high: { type: "number", value: "1", step: "any", required: true },
  fallback: { type: "number", value: "0", step: "any", required: true },
  window: { type: "number", value: "3600", step: "any", min: "0.001", required: true },
};

function field(name, text, note) {
  return el("label", {}, text, el("input", { name, ...FIELDS[name] }), note ? el("span", { class: "soft" }, note) : null);
}

function form() {
  return el(
    "form",
    { method: "dialog" },
    el("h2", { id: "create-title" }, "New loop"),
    field("name", "Name"),
    el(
      "label",
      {},
      "Arms, one per line",
      el("span", { class: "soft" }, "name, how often the log played it, and the sum of what that earned: “blue, 8000, 640”. A name alone was never played."),
      el("textarea", { name: "arms", required: true, placeholder: "blue, 8000, 640\ngreen, 2000, 120\nred", spellcheck: "false" }),
    ),
    el(
      "label",
      {},
      "… or count them from a log",
      el("span", { class: "soft" }, "A CSV file with a line of names and the columns arm and reward; it stays in this browser."),
      el("input", { name: "file", type: "file", accept: ".csv,text/csv" }),
    ),
    el("div", { class: "row" }, field("low", "Least reward"), field("high", "Greatest reward"),
      field("budget", "Budget", "what may be lost in all"), field("epsilon", "Tolerance", "what may be lost per decision besides"),
      field("unit", "Unit", "what rewards are counted in"), field("fallback", "Default reward", "where none ever comes"), field("window", "Reward window", "seconds a reward may take")),
    el("label", {}, el("input", { name: "certain", type: "checkbox" }), " A decision without a reward has earned the default for sure: only clicks are reported"),
    el("label", {}, el("input", { name: "stop", type: "checkbox", checked: true }), " Stop exploring at the first alarm"),
    el("label", {}, el("input", { name: "shadow", type: "checkbox" }), " Begin in shadow mode: record, but play the fallback"),
    el("p", { class: "soft", "data-count": true }),
    el("p", { class: "wrong", role: "alert" }),
    el("menu", {}, el("button", { type: "button", value: "cancel" }, "Cancel"), el("button", { type: "submit", class: "main" }, "Create")),
  );
}

function specOf(fields) {
  const arms = parseArms(fields.arms.value), range = [Number(fields.low.value), Number(fields.high.value)];
  if (!(range[0] < range[1])) throw new Error("The least reward must be below the greatest.");
  const bound = Math.sqrt(arms.length) * Math.max(...range.map(Math.abs)); // every arm has its own parameter
  const spec = {
    arms: arms.map(({ name }) => ({ name })),
    policy: {
      type: "Gated",
      gate: { type: "Tolerance", budget: Number(fields.budget.value), epsilon: Number(fields.epsilon.value) },
      confidence: { type: "Confidence", noise: "bounded", reward_range: range, bound },
    },
    default_reward: Number(fields.fallback.value),
    window: Number(fields.window.value),
    unit: fields.unit.value,
    missing_reward: fields.certain.checked ? "default" : "unknown",
    on_alarm: fields.stop.checked ? "safe-only" : "warn",
    mode: fields.shadow.checked ? "shadow" : "live",
  };
  if (!arms.some(({ pulls }) => pulls > 0)) throw new Error("At least one arm must have been played in the log.");
  spec.offline = { pulls: arms.map(({ pulls }) => pulls), reward_sums: arms.map(({ sum }) => sum) };
  return spec;
}

/** Show the form; `created` is told the name of a loop that was made. */
export function openCreate(dialog, created) {
  const shown = form(), fields = shown.elements, wrong = shown.querySelector(".wrong");
  const counted = shown.querySelector("[data-count]");
  fields.file.addEventListener("change", async () => {
    try {
      const { text, rows, arms } = await readLog(fields.file.files[0]);
      fields.arms.value = text;
      say(counted, `${number(rows)} rows of ${number(arms)} arms counted.`);
      say(wrong, "");
    } catch (error) {
      say(wrong, error.message);
    }
  });
  shown.querySelector("[value=cancel]").addEventListener("click", () => dialog.close());
  shown.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("PUT", at(fields.name.value), specOf(fields));
      dialog.close();
      created(fields.name.value);
    } catch (error) {
      say(wrong, error.message);
    }
  });
  dialog.replaceChildren(shown);
  dialog.showModal();
}
