// One loop on the page: its promise, its course, its arms, its decisions, and its switch.

import { allow, ask, at, download } from "./api.js";
import { actOf, adviceOf, gainedOf, healthOf, isByModel, leftOf, pictureOf, sidesOf } from "./answers.js";
import { armTable } from "./arms.js";
import { draw } from "./chart.js";
import { colourOf } from "./colours.js";
import { decisionList } from "./decisions.js";
import { el, part, say, show } from "./dom.js";
import { explainWords } from "./explain.js";
import { guardrailTable } from "./guardrails.js";
import { count, moment, number, percent, signed, within } from "./format.js";
import { GROUP, PLAYED, PLAYED_BY_COIN, counted, groupsOf, noControl, notes, shares, story, switched, unitOf } from "./words.js";

const CONTROLS = ["stop", "modes", "holdback", "archive"];
const CHANGES = 5; // of the arms, that are shown above their table
const HOLDBACKS = [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const WATCHED = [
  ["evidence_against_promise", "promise_alarm_at", "that the promise is broken"],
  ["evidence_for_practice", "practice_alarm_at", "that practice would have earned more"],
  ["evidence_of_drift", "drift_alarm_at", "that the world is not the log's any more"],
];
const PLENTY = 1e6; // evidence that needs no more digits
const OF_PRACTICE = "The line at 0 is what current practice would have earned in the explored decisions. What we earned beyond it lies in the shaded area, 95 % sure at any time.";
const OF_MEANS = " These are rewards as they came, and the promise is about their means: bad luck alone can take the lower edge below the floor.";
const OF_MODEL = "The line at 0 is what current practice would have earned in the same contexts. By the linear model of the log we earned more than the green line, at any time, with the probability of the promise; the next try counts at its worst.";
const OF_LOG = "The line at 0 is what the log's average would have earned in as many decisions; the shaded area is how exactly that is known.";
const OF_FLOOR = " The promise is about means: bad luck alone can take us below its floor, but not below the line of the alarm.";
const CONTEXTS_UNWATCHED = "Nothing is watched: every context has its own mean reward. A Control gate compares with current practice in the same decisions, and a Tolerance gate with the linear model of its log.";
const ITEMS = "What the plays of an arm have earned, whoever asked. An arm is played where it is expected to be good, so this does not say which arm is better.";
const UNWATCHED = "Nothing is watched: that needs a log, and a promise or a range that rewards keep to.";

/** Put a loop on the page: `wanted` says which arms to ask for, `show` shows new data. */
export function openLoop(root, name, refresh) {
  root.replaceChildren(document.getElementById("detail").content.cloneNode(true));
  explainWords(root);
  const $ = (key) => part(root, key);
  const showDecisions = decisionList($, name);
  const arms = armTable($("arms"), $("filter"), $("all-arms"), refresh);
  let mode = null, asked = false; // whether something was asked for since the controls were last set
  say($("name"), name);
  for (const control of CONTROLS) $(control).disabled = true; // until it is known how things stand

  async function change(method, body) {
    say($("refused"), "");
    try {
      await ask(method, at(name), body);
    } catch (error) {
      say($("refused"), error.message);
    }
    asked = true;
    refresh();
  }

  $("stop").addEventListener("click", () => change("PATCH", { mode: mode === "safe-only" ? "live" : "safe-only" }));
  $("answer").addEventListener("click", () => change("PATCH", { answer_alarms: true }));
  $("modes").addEventListener("change", (event) => change("PATCH", { mode: event.target.value }));
  $("holdback").addEventListener("change", (event) => change("PATCH", { holdback: Number(event.target.value) }));
  $("archive").addEventListener("click", () => {
    if (confirm(`Archive ${name}? It will decide no more. This cannot be undone.`)) change("DELETE");
  });
  $("export").href = at(name, "export");
  $("export").addEventListener("click", (event) => {
    event.preventDefault();
    download(at(name, "export"), `${name}.parquet`).catch((error) => say($("refused"), error.message));
  });

  function update({ report, history, decisions, ...data }) {
    const { loop, certificate } = report;
    mode = loop.mode;
    showState($, loop);
    setSelects($, loop, asked);
    asked = false;
    showNumbers($, report, decisions);
    showCharts($, loop, history.points, certificate);
    const guardrails = guardrailTable(loop);
    $("guardrails").hidden = guardrails.length === 0;
    show($("guardrails"), ...guardrails);
    showGroups($, loop);
    showWatch($, report);
    const dotted = loop.reference === null ? "" : `; the dotted line is what practice earned in the log, ${number(loop.reference)}`;
    const drifted = loop.drifted_at === null ? "" : ` ${loop.arms_since_drift ? "Means are those of plays since" : "The log is still in these means, and it is from before"} the drift alarm of ${moment(loop.drifted_at)}${loop.arms_since_drift ? ": the log is from before the change" : ""}.`;
    say($("arms-unit"), `Average reward per play${loop.unit && `, in ${loop.unit}`}${dotted}.${drifted}${loop.context_fields ? ` ${ITEMS}` : ""}`);
    $("arm-table").classList.toggle("contextual", loop.context_fields !== null);
    arms.show({ arms: data.arms, count: loop.arms, reference: loop.reference, range: certificate.reward_range });
    showDecisions(decisions);
  }

  return { update, wanted: arms.wanted };
}

function showState($, loop) {
  const state = loop.archived ? "archived" : loop.mode;
  say($("mode"), state);
  $("mode").className = `badge ${state}`;
  say($("policy"), `${loop.policy}, ${count(loop.arms, "arm")}${loop.context_fields ? `; asked with ${loop.context_fields.join(", ") || "an empty context"}` : ""}.`);
  say($("description"), loop.description);
  say($("story"), story(loop));
  say($("switched"), switched(loop));
  const safe = loop.mode === "safe-only";
  say($("stop"), safe ? "Explore again" : "Stop exploring");
  $("stop").hidden = loop.archived;
  $("stop").classList.toggle("resume", safe);
  $("stop").classList.toggle("urgent", loop.alarms.some(({ answered }) => !answered));
  for (const control of CONTROLS) allow($(control), control === "stop" && !safe ? "writer" : "admin", !loop.archived);
  allow($("answer"), "admin");
  allow($("key"), "reader");
  show($("hint"), ...(loop.decisions || loop.archived ? [] : firstSteps(loop)));
  const earlier = Math.max(loop.arm_changes.length - CHANGES, 0);
  const came = loop.arm_changes.slice(earlier).map(({ at, by, text }) => el("li", {}, `${moment(at)}, ${by}: ${text}.`));
  show($("arm-changes"), ...came.reverse(), ...(earlier ? [el("li", {}, `and ${count(earlier, "earlier change")}, listed under “What is promised”`)] : []));
  const open = loop.alarms.filter(({ answered }) => !answered);
  show($("alarms"), ...Map.groupBy(open, ({ kind, metric }) => `${kind} ${metric}`).values().map((some) => alarmBox(some, loop)));
  $("answer").hidden = open.length === 0 || loop.archived;
  const answered = loop.alarms.length - open.length;
  say($("answered"), answered ? `${count(answered, "alarm")} answered, the last ${moment(loop.alarms[answered - 1].at)}` : "");
}

/** Alarms of one kind, about one metric, in one box: what happened, what to do, and when. */
function alarmBox(alarms, loop) {
  const { kind, at, message } = alarms.at(-1), restored = kind === "restored";
  const stopped = alarms.some((alarm) => loop.switched_by === `${kind} alarm` && loop.switched_at === alarm.at);
  const when = alarms.length > 1 ? `${number(alarms.length)} times, from ${moment(alarms[0].at)} to ${moment(at)}` : moment(at);
  return el(
    "div",
    { class: "alarm-box" },
    el("p", {}, el("strong", {}, restored ? "⚠ Restored: " : `⚠ Alarm (${kind}): `), `${message}.`, el("span", { class: "soft" }, ` ${when}`)),
    el("p", {}, el("strong", {}, "What to do: "), `${stopped ? "Exploring was stopped at once. " : ""}${adviceOf(kind, loop)}`),
  );
}

function firstSteps({ name, context_fields: fields, metrics }) {
  const given = (names) => `{${names.map((key) => `${JSON.stringify(key)}: ...`).join(", ")}}`;
  const asked = fields ? `, context=${given(fields)}` : "";
  const told = metrics.length ? `, metrics=${given(metrics.map((metric) => metric.name))}` : "";
  const code = `from linoto import Client

client = Client("${location.origin}")
decision = client.decide("${name}"${asked})  # play decision.arm
client.reward("${name}", decision.decision_id, 1.0${told})`;
  return [el("p", {}, "Nobody has asked it for a decision yet. From a program:"), el("pre", {}, el("code", {}, code))];
}

/** Show what is, not what was asked for; but leave a list alone that somebody may have open. */
function setSelects($, loop, asked) {
  const { mode, holdback } = loop, select = $("holdback"), why = noControl(loop);
  const options = [...new Set([...HOLDBACKS, holdback])].sort((a, b) => a - b);
  if ([...select.options].map((option) => Number(option.value)).join() !== options.join()) {
    select.replaceChildren(...options.map((share) => el("option", { value: share }, share ? percent(share) : "none")));
  }
  select.hidden = why !== "";
  select.disabled ||= why !== "";
  say($("no-control"), why);
  for (const [list, value] of [[$("modes"), mode], [select, holdback]]) {
    if (asked || document.activeElement !== list) list.value = String(value);
  }
}

function showNumbers($, { loop, lift, certificate }, recent) {
  const { gain } = loop, note = notes(loop), found = gainedOf(loop, lift, certificate), left = leftOf(loop, lift, certificate), act = actOf(loop, found, recent);
  const texts = {
    lift: found.value,
    "lift-verdict": found.verdict,
    "lift-note": found.note,
    left: left.value,
    "left-note": left.note,
    "left-range": left.range,
    act: act.value,
    "act-note": act.note,
    gain: gain === null ? "–" : `${within(gain, loop.gain_lower, loop.gain_upper)} ${unitOf(loop)}`,
    "gain-note": note.gain,
    budget: counted(loop.budget, loop),
    "budget-note": note.budget,
    tried: loop.decisions && loop.tried !== null ? percent(loop.tried / loop.decisions) : "–",
    "tried-note": note.tried,
    pending: count(loop.pending, "decision"),
    "pending-note": note.pending,
  };
  for (const [key, text] of Object.entries(texts)) say($(key), text);
  $("lift").className = ["bad", "", "good"][found.side + 1];
  $("left").className = left.kind;
  $("act").className = act.kind;
  $("gauge").hidden = left.share === null;
  if (left.share !== null) {
    $("gauge").setAttribute("aria-label", `${percent(left.share)} of what the promise allows is left`);
    $("gauge").firstElementChild.style.width = `${100 * left.share}%`;
  }
  showSides($, loop, certificate);
  showShares($("shares"), shares(loop));
}

/** What practice would have earned and what we did, where a coin compares them. */
function showSides($, loop, certificate) {
  $("behind").classList.toggle("by-coin", Boolean(loop.practice));
  $("log").hidden = Boolean(loop.practice || loop.context_fields);
  $("rewards").hidden = loop.context_fields !== null && !loop.practice && !isByModel(loop, certificate);
  if (!loop.practice) return;
  const { would, range, from, earned, same, missing } = sidesOf(loop);
  const texts = { would, "would-range": range, "would-from": from, earned, "earned-same": same, "earned-missing": missing };
  for (const [key, text] of Object.entries(texts)) say($(key), text);
}

function showShares(bar, { parts, text }) {
  bar.setAttribute("aria-label", text);
  bar.title = text;
  if (bar.children.length !== parts.length) bar.replaceChildren(...parts.map(([group]) => el("i", { class: group })));
  parts.forEach(([, share], i) => (bar.children[i].style.flexGrow = share));
}

function showCharts($, loop, points, certificate) {
  const xs = points.map((point) => point.closed), times = points.map((point) => point.at), colour = colourOf(loop.policy);
  const { lines, band, title } = pictureOf(loop, points, colour, certificate), compared = loop.practice || loop.reference !== null || isByModel(loop, certificate);
  say($("gain-title"), title);
  say($("gain-words"), isByModel(loop, certificate) ? OF_MODEL : loop.practice ? `${OF_PRACTICE}${loop.practice.counts_rewards ? "" : OF_MEANS}` : loop.reference === null ? "" : `${OF_LOG}${certificate?.holds === false ? "" : OF_FLOOR}`);
  draw($("gain-chart"), {
    xs,
    times,
    lines: compared ? lines : [],
    band,
    include: [0],
    format: signed,
    unit: unitOf(loop),
    height: 300,
    label: `${title}. ${story(loop)}`,
    empty: compared ? "Drawn when rewards have come." : "There is no log to compare with.",
  });
  draw($("share-chart"), {
    xs,
    times,
    lines: [{ values: lately(points), colour: "var(--explore)" }],
    include: [0, 1],
    format: percent,
    unit: "of decisions",
    height: 150,
    label: "Share of decisions that played another arm than the safe choice, over time",
    empty: loop.tried === null ? "Not counted in a loop of an earlier version." : "Drawn when rewards have come.",
  });
  draw($("budget-chart"), {
    xs,
    times,
    lines: [{ values: points.map((point) => point.budget), colour }],
    include: [0],
    unit: unitOf(loop),
    height: 150,
    label: `Room over time, now ${counted(loop.budget, loop)}`,
    empty: loop.budget === null ? "This policy has no gate." : "Drawn when rewards have come.",
  });
}

/** The share that was tried between each point and one a few before it; rewards of a batch come without new decisions. */
function lately(points) {
  const back = Math.max(1, Math.round(points.length / 20)), start = { decisions: 0, tried: 0 };
  return points.map((point, i) => {
    const before = points.slice(0, Math.max(0, i - back + 1)).findLast(({ decisions }) => decisions < point.decisions) ?? start;
    const made = point.decisions - before.decisions;
    return made > 0 && point.tried !== null ? (point.tried - before.tried) / made : null;
  });
}

/** How many decisions each group had; their rewards come from different times, so they are not set side by side. */
function showGroups($, loop) {
  say($("period"), `All decisions since ${moment(loop.created_at)}. What groups earned at different times is not compared; the lift compares decisions of the same time.`);
  const rows = groupsOf(loop).map(([name, group]) => {
    const share = loop.decisions ? ` (${percent(group.plays / loop.decisions)})` : "";
    return el(
      "tr",
      {},
      el("td", {}, el("span", { class: `badge ${name}` }, GROUP[name]), ` ${(loop.practice ? PLAYED_BY_COIN : PLAYED)[name]}`),
      el("td", {}, `${number(group.plays)}${share}`),
      el("td", { class: "optional" }, number(group.defaults)),
    );
  });
  show($("groups"), ...rows);
}

function showWatch($, { loop, certificate }) {
  const watched = WATCHED.filter(([field]) => loop[field] !== null).map(([field, limit, text]) => [loop[field], loop[limit], text]);
  const guarded = loop.metrics.map((metric) => [metric.evidence_for_practice, metric.practice_alarm_at, `that ${metric.name} would be better with practice`]);
  const meters = [...watched, ...guarded].map(([evidence, limit, text]) => {
    const { word, way, kind } = healthOf(evidence, limit);
    return el(
      "p",
      {},
      el("strong", { class: kind }, word),
      `: evidence ${text} is ${amountOf(evidence)}`,
      el("span", { class: "soft" }, ` (an alarm at ${amountOf(limit)})`),
      el("meter", { min: 0, max: 1, low: 0.5, high: 0.8, optimum: 0, value: way.toFixed(3), "aria-label": `how far the evidence ${text} has come to an alarm` }),
    );
  });
  show($("watch"), ...(meters.length ? meters : [el("p", { class: "soft" }, loop.context_fields ? CONTEXTS_UNWATCHED : UNWATCHED)]));
  show($("promise"), promiseList(loop, certificate));
}

const amountOf = (evidence) => (evidence > PLENTY ? `over ${number(PLENTY)}` : evidence < 1 ? "below 1" : number(Math.round(evidence)));

function promiseList(loop, { holds, theorem, per_round, constant, budget, delta, assumes, changes }) {
  const rows = [["Promise", holds ? "holds" : "none"], ["Why", theorem]];
  if (holds) {
    const more = constant > budget ? ", and rounding" : "";
    const most = counted(constant, loop), once = budget ? `${most} (a budget of ${number(budget)}${more})` : most;
    rows.push(["Most lost", per_round ? `${counted(per_round, loop)} per decision, plus ${once} once` : `${once}, however many decisions`]);
    rows.push(["Probability", `${percent(1 - delta)}, for every decision at once`]);
  }
  return el("dl", {}, ...rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]),
    ...changes.flatMap((text, i) => [i ? null : el("dt", {}, "Arms changed"), el("dd", {}, text)]),
    ...assumes.flatMap((text, i) => [i ? null : el("dt", {}, "Assumes that"), el("dd", {}, text)]));
}
