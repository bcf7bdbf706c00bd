// The page: which loops there are, which one is looked at, and a fresh look every second.

import { Refused, ask, at, useToken } from "./api.js";
import { openCreate } from "./create.js";
import { el, say, show } from "./dom.js";
import { count, signed } from "./format.js";
import { openLoop } from "./loop.js";
import { gainOf } from "./words.js";

const PAUSE = 1000; // milliseconds between looks
const DECISIONS = 15;
const root = document.getElementById("loop"), connection = document.getElementById("connection");
const open = { name: null, update: null, wanted: null };
let timer = null, looking = false, again = false, loops = [];

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
  const [, state, alarm, numbers] = found.children, gain = gainOf(loop);
  say(state, loop.archived ? "archived" : loop.mode);
  state.className = `badge ${state.textContent}`;
  alarm.hidden = loop.alarms.every(({ answered }) => answered);
  say(numbers, `${count(loop.decisions, "decision")}${gain === null ? "" : `, ${signed(gain)} against the log`}`);
  if (loop.name === open.name) found.setAttribute("aria-current", "page");
  else found.removeAttribute("aria-current");
  return found;
}

function showCards() {
  const cards = document.getElementById("loops"), wanted = loops.map((loop) => card(cards, loop));
  if (wanted.length !== cards.children.length || wanted.some((one, i) => one !== cards.children[i])) {
    cards.replaceChildren(...wanted);
  }
}

/** Open the loop that is asked for, at once: what can be pressed must belong to what is named. */
function choose() {
  const name = loops.some((loop) => loop.name === named()) ? named() : loops[0]?.name ?? null;
  if (name !== open.name) {
    Object.assign(open, { name, update: null }, name === null ? {} : openLoop(root, name, look));
    document.title = name === null ? "linoto" : `${name} – linoto`;
  }
  showCards();
}

function showEmpty() {
  const code = 'from linoto import Client\n\nClient().create("banner", arms=["blue", "green"], policy=..., default_reward=0.0)';
  show(
    root,
    el("h2", {}, "There is no loop yet"),
    el("p", {}, "A loop decides between arms, learns from rewards, and keeps to a promise about your log. Make one with “New loop” above, or from a program:"),
    el("pre", {}, el("code", {}, code)),
    el("p", {}, "To see one at work first, stop this server and run ", el("code", {}, "linoto serve --demo"), "."),
  );
}

async function load() {
  loops = await ask("GET", "v1/loops");
  choose();
  if (loops.length === 0) return showEmpty();
  const name = open.name;
  const [history, arms, decisions, report] = await Promise.all([
    ask("GET", at(name, "history")),
    ask("GET", at(name, "arms") + open.wanted()),
    ask("GET", `${at(name, "decisions")}?limit=${DECISIONS}`),
    ask("GET", at(name, "report")),
  ]);
  if (open.name === name) open.update({ history, arms, decisions, report });
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
    if (error.status === 401) askToken();
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
  choose();
  look();
  root.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("resize", look);
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
