// The page: which loops there are, which one is looked at, and a fresh look every second.

import { Refused, allow, ask, at, useToken } from "./api.js";
import { openCreate } from "./create.js";
import { el, say, show } from "./dom.js";
import { count } from "./format.js";
import { openLoop } from "./loop.js";

const PAUSE = 1000; // milliseconds between looks
const DECISIONS = 15;
const MOST = 50, FEW = 6; // loops that are listed at once, and as many as need no search
const root = document.getElementById("loop"), connection = document.getElementById("connection");
const find = document.getElementById("find"), found = document.getElementById("found");
const open = { name: null, update: null, wanted: null };
let timer = null, looking = false, again = false, loops = [], missing = null; // missing: the loop that was asked for last and is not there

/** The loop that the address names, if it names one. */
function named() {
  try {
    return location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) : open.name;
  } catch {
    return null; // not an address of ours
  }
}

/** A card of a loop, which stays the same element for as long as there is the loop. */
function card(cards, loop) {
  let found = [...cards.children].find((one) => one.dataset.loop === loop.name);
  if (!found) {
    const parts = [el("strong"), el("span", { class: "badge" }), el("span", { class: "badge alarm" }, "alarm"), el("span", { class: "soft" })];
    found = el("a", { href: `#/${encodeURIComponent(loop.name)}`, "data-loop": loop.name }, ...parts);
    parts[0].append(el("bdi", {}, loop.name));
  }
  const [, state, alarm, numbers] = found.children;
  say(state, loop.damaged ? "damaged" : loop.archived ? "archived" : loop.mode);
  state.className = `badge ${loop.damaged ? "alarm" : state.textContent}`;
  alarm.hidden = loop.alarms === 0;
  say(numbers, loop.damaged ? "cannot be served" : count(loop.decisions, "decision"));
  if (loop.name === open.name) found.setAttribute("aria-current", "page");
  else found.removeAttribute("aria-current");
  return found;
}

function showCards() {
  const cards = document.getElementById("loops"), wanted = loops.slice(0, MOST).map((loop) => card(cards, loop));
  find.parentElement.hidden = loops.length <= FEW && find.value === "";
  if (loops.length > MOST) say(found, `The first ${MOST}: find others by a part of their name.`);
  else say(found, loops.length || !find.value ? "" : "No loop has this in its name or description.");
  if (wanted.length !== cards.children.length || wanted.some((one, i) => one !== cards.children[i])) {
    cards.replaceChildren(...wanted);
  }
}

/** Open the loop that is asked for, at once: what can be pressed must belong to what is named. */
function choose() {
  const none = loops.length === 0 && find.value === "";
  const name = none ? null : [named(), open.name, loops[0]?.name].find((one) => one && one !== missing) ?? null;
  const chosen = name !== open.name;
  if (chosen) {
    Object.assign(open, { name, update: null });
    if (name !== null && !loops.find((loop) => loop.name === name)?.damaged) reopen(name);
    document.title = name === null ? "linoto" : `${name} – linoto`;
  }
  showCards();
  if (chosen) document.querySelector("#loops [aria-current]")?.scrollIntoView({ block: "nearest" });
}

function reopen(name) {
  Object.assign(open, openLoop(root, name, look));
}

const EXAMPLE = `from linoto import Client, Confidence, Gated, Offline, Tolerance

client = Client("${location.origin}")
client.create(
    "banner",
    arms=["blue", "green", "red"],
    offline=Offline(pulls=[8000, 2000, 0], reward_sums=[640, 120, 0]),  # what the log says of each arm
    policy=Gated(gate=Tolerance(budget=80), confidence=Confidence(noise="bounded", reward_range=(0, 1), bound=2)),
    default_reward=0.0,
    unit="clicks",
    holdback=0.05,
)
decision = client.decide("banner")  # play decision.arm
client.reward("banner", decision.decision_id, 1.0)`;

function showEmpty() {
  show(
    root,
    el("h2", {}, "There is no loop yet"),
    el("p", {}, "A loop decides between arms, learns from rewards, and keeps to a promise about your log. Make one with “New loop” above, or from a program:"),
    el("pre", {}, el("code", {}, EXAMPLE)),
    el("p", {}, "To see one at work first, stop this server and run ", el("code", {}, "linoto serve --demo"), "."),
  );
}

/** A sentence of the service, in which commands stand between backticks. */
function withCommands(text) {
  return text.split("`").map((piece, i) => (i % 2 ? el("code", {}, piece) : piece));
}

const RESTORE = "`linoto db check` names all that is damaged, and `linoto db restore` brings a backup back.";
const REBUILD = "Stop the server and run `linoto db rebuild`, which makes the loop again from its events and loses nothing. Only where that is refused: ";

/** A loop that cannot be read: what is wrong, and what to do. */
function showDamage(name, why) {
  open.update = null;
  const text = why.replace(/[.:;]*$/, ".");
  const mend = (why.includes("linoto db rebuild") ? REBUILD : "") + RESTORE;
  show(
    root,
    el("h2", {}, el("bdi", {}, name)),
    el(
      "div",
      { class: "alarm-box", "data-damage": true },
      el("p", {}, el("strong", {}, "⚠ This loop cannot be served: "), el("bdi", {}, ...withCommands(text))),
      el("p", {}, el("strong", {}, "What to do: "), "Let callers do what they did before this loop: until it is back, whoever asks it gets an error. ", ...withCommands(mend), " Nothing of the loop was changed, and all others are served."),
    ),
  );
}

async function load() {
  loops = await ask("GET", `v1/overview?${new URLSearchParams({ limit: MOST + 1, search: find.value })}`);
  allow(document.getElementById("new"), "admin");
  choose();
  if (open.name === null) return showEmpty();
  const name = open.name, damage = loops.find((loop) => loop.name === name)?.damaged;
  if (damage) return showDamage(name, damage);
  if (open.update === null) reopen(name);
  try {
    const [history, arms, decisions, report] = await Promise.all([
      ask("GET", at(name, "history")),
      ask("GET", at(name, "arms") + open.wanted()),
      ask("GET", `${at(name, "decisions")}?limit=${DECISIONS}`),
      ask("GET", at(name, "report")),
    ]);
    if (open.name === name) open.update({ history, arms, decisions, report });
  } catch (error) {
    if (error.status !== 404) throw error;
    missing = name;
    again = true;
  }
}

/** Look now, and again after a pause. */
async function look() {
  if (looking) return void (again = true);
  clearTimeout(timer);
  looking = true;
  try {
    await load();
    document.body.classList.remove("lost");
    say(connection, "connected");
  } catch (error) {
    document.body.classList.add("lost");
    say(connection, error instanceof Refused ? error.message : "no connection: trying again");
    if (error.status === 401 && !again) askToken(); // else: it was asked with the token before
  } finally {
    looking = false;
  }
  const pause = again ? 0 : PAUSE;
  again = false;
  if (!document.hidden) timer = setTimeout(look, pause);
}

function askToken() {
  const dialog = document.getElementById("token"), form = dialog.querySelector("form");
  if (dialog.open) return;
  say(form.querySelector(".wrong"), sessionStorage.getItem("linoto-token") ? "The service does not know that token." : "");
  form.onsubmit = (event) => {
    event.preventDefault();
    useToken(form.elements.token.value.trim());
    form.reset();
    dialog.close();
    look();
  };
  dialog.showModal();
}

addEventListener("hashchange", () => {
  missing = null;
  choose();
  look();
  root.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("resize", look);
find.addEventListener("input", look);
document.addEventListener("visibilitychange", () => document.hidden || look());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  root.focus();
});
document.getElementById("new").addEventListener("click", () =>
  openCreate(document.getElementById("create"), (name) => {
    location.hash = `#/${encodeURIComponent(name)}`;
    look();
  }),
);
look();
