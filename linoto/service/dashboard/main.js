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
const open = { name: null, update: null };
let timer = null, looking = false, again = false;

function wanted() {
  return decodeURIComponent(location.hash.replace(/^#\/?/, ""));
}

function card(loop) {
  const gain = gainOf(loop), state = loop.archived ? "archived" : loop.mode;
  return el(
    "a",
    { href: `#/${encodeURIComponent(loop.name)}`, "aria-current": loop.name === open.name && "page" },
    el("strong", {}, loop.name),
    el("span", { class: `badge ${state}` }, state),
    loop.alarms.length ? el("span", { class: "badge alarm" }, "alarm") : null,
    el("span", { class: "soft" }, `${count(loop.decisions, "decision")}${gain === null ? "" : `, ${signed(gain)} against the log`}`),
  );
}

function choose(loops) {
  const name = loops.some((loop) => loop.name === wanted()) ? wanted() : loops[0]?.name ?? null;
  if (name === open.name) return;
  open.name = name;
  open.update = name === null ? null : openLoop(root, name, look);
  document.title = name === null ? "linoto" : `${name} – linoto`;
}

function showEmpty() {
  open.name = null;
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
  const loops = await ask("GET", "v1/loops");
  choose(loops);
  show(document.getElementById("loops"), ...loops.map(card));
  if (loops.length === 0) return showEmpty();
  const name = open.name, loop = loops.find((one) => one.name === name);
  const [history, arms, decisions, report] = await Promise.all([
    ask("GET", at(name, "history")),
    ask("GET", at(name, "arms")),
    ask("GET", `${at(name, "decisions")}?limit=${DECISIONS}`),
    ask("GET", at(name, "report")),
  ]);
  if (open.name === name) open.update({ loop: report.loop ?? loop, history, arms, decisions, report });
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
    if (error instanceof Refused && error.status === 401) askToken();
    else {
      document.body.classList.add("lost");
      say(connection, error instanceof Refused ? error.message : "no connection: trying again");
    }
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
  look();
  root.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("resize", look);
document.addEventListener("visibilitychange", () => document.hidden || look());
document.getElementById("new").addEventListener("click", () =>
  openCreate(document.getElementById("create"), (name) => {
    location.hash = `#/${encodeURIComponent(name)}`;
    look();
  }),
);
look();
