// The three answers of a loop: what was gained, what may still be lost, and whether to act.

import { about, between, count, cut, moment, number, percent, plain, sideOf, unsigned } from "./format.js";
import { counted, unitOf } from "./words.js";

/** The loss that the gate's books count at the worst, which is never above the promise, where both count rewards as they come. */
export const lostByBooks = ({ promised_loss: loss, left_to_lose: left, practice }) => (loss === null || left === null || !practice.counts_rewards ? Infinity : loss - left);

/** The most that practice can have earned: by the control rounds, or by the gate's books where those say more. */
function mostOf(loop) {
  const { earned, upper } = loop.practice;
  return Math.min(upper, earned + lostByBooks(loop));
}

/** The most that can have been gained: what was earned, where practice would have earned 0 or more. */
export const mostGained = ({ counts_rewards: counts, lower, earned }) => (counts && lower >= 0 ? earned : Infinity);

function howToCompare(loop) {
  if (loop.practice && loop.mode === "live") return "Compared when explored decisions and control rounds have their rewards.";
  if (!loop.practice && loop.no_control) return `There is no control group, and there can be none ${loop.no_control}.`;
  if (loop.archived) return "There was no control group to compare with.";
  if (loop.mode === "safe-only") return "Nothing is compared in safe-only mode: no control group is drawn, and nothing is explored.";
  if (loop.mode === "shadow") return "Nothing is compared in shadow mode: only the fallback is played. Set the mode to live.";
  if (loop.holdback === 0) return "There is no control group. Choose 5 % under “Control group”, and one decision in twenty is played as practice does, to compare with.";
  return "Compared when rewards of both groups have come.";
}

/** The most that the promise allows to lose after so many decisions. */
const lossAfter = ({ constant, per_round: each }, decisions) => constant + (each ?? 0) * decisions;

/** Whether a linear model of the log pays for what is tried: then the room of the gate tells what was gained at the least. */
export const isByModel = (loop, certificate) => Boolean(loop.context_fields && !loop.practice && certificate?.holds && certificate.constant !== null && loop.evidence_of_drift !== null);

/** What was gained over practice, where that lies, and from what it is known: `side` is 1, -1, or 0 while it is not clear. */
export function gainedOf(loop, lift, certificate = null) {
  if (lift.policy === 0 || lift.control === 0) return gainedByModel(loop, certificate) ?? { side: 0, value: "not measured", verdict: howToCompare(loop), note: "" };
  return loop.practice ? gainedInAll(loop, lift) : gainedEach(loop, lift);
}

/** Without a control group, by the model of the log: room is the promise and what was gained at the least, the next try included. */
function gainedByModel(loop, certificate) {
  if (!isByModel(loop, certificate) || loop.mode !== "live" || loop.budget === null) return null;
  const least = loop.budget - lossAfter(certificate, loop.decisions);
  if (!(least > 0)) return null;
  const amount = counted(least >= 10 ? Math.floor(least) : least, loop);
  return {
    side: 1,
    value: `+${amount} at least`,
    verdict: `Gained: at least ${amount} in all more than current practice in the same contexts, by the linear model of the log, ${percent(1 - certificate.delta)} sure.`,
    note: loop.no_control ? "" : "With 5 % under “Control group” it is measured too, without the model.",
  };
}

/** With a coin: in total, in the explored decisions. */
function gainedInAll(loop, { level }) {
  const { explored, missing, control, earned, estimate, lower, upper } = loop.practice, most = mostOf(loop);
  const waiting = missing ? `; ${number(missing)} more have no reward yet, or lost it` : "";
  return said({
    mean: Math.max(earned - estimate, earned - most),
    ends: [earned - most, earned - lower],
    books: most < upper ? " (by the books)" : "",
    top: mostGained(loop.practice),
    unit: unitOf(loop),
    each: "in all",
    same: ` in the same ${count(explored, "explored decision")}`,
    sure: `${percent(level)} sure`,
    note: `compared by ${count(control, "reward")} of control rounds${waiting}`,
  });
}

/** With a control group: per decision. */
function gainedEach(loop, { mean, lower, upper, level, policy, control }) {
  const lost = loop.lost ? "; a lost reward may have been any" : "";
  const note = `from ${count(policy, "reward")} of the policy and ${number(control)} of the control group${lost}`;
  if (lower === null) return { side: 0, value: "not clear yet", verdict: "Too few rewards to say.", note };
  return said({ mean, ends: [lower, upper], books: "", unit: unitOf(loop), each: "per decision", same: "", sure: `${percent(level)} sure`, note });
}

/** It was gained or lost only where the whole interval says so, as it is shown. */
function said({ mean, ends, books, top = Infinity, unit, each, same, sure, note }) {
  const side = sideOf(...ends), [least, most] = cut(ends, books, top);
  if (side === 0) return { side, value: "not clear yet", verdict: `It is between ${least}${books} and ${most} ${unit} ${each}, ${sure}.`, note: `${note}; more of them make it clearer` };
  const range = [`${unsigned(least)}${side < 0 ? books : ""}`, unsigned(most)];
  const amount = `${(side > 0 ? range : range.reverse()).join(" to ")} ${unit} ${each}`;
  return { side, value: `${about(mean, ends, top)} ${unit} ${each}`, verdict: `${side > 0 ? "Gained" : "Lost"}: ${amount} ${side > 0 ? "more" : "less"} than current practice${same}, ${sure}.`, note };
}

/** The two sides of the comparison with practice: what it would have earned, and what we did. */
export function sidesOf(loop) {
  const { explored, missing, control, earned, lower, upper, level } = loop.practice;
  const none = explored === 0 || control === 0, most = mostOf(loop);
  const sure = most < upper ? `at least by the control rounds, ${percent(level)} sure; at the most by the gate's books` : `${percent(level)} sure at any time`;
  const [from, outer] = between(lower, most).map(plain), to = most < upper ? number(most) : outer;
  return {
    would: none ? "not known yet" : `${from} to ${to} ${unitOf(loop)}`,
    range: none ? "known when explored decisions and control rounds have their rewards" : sure,
    from: `from ${count(control, "reward")} of control rounds`,
    earned: counted(earned, loop),
    same: `in the same ${count(explored, "explored decision")}`,
    missing: missing ? `${number(missing)} more have no reward yet, or lost it` : "",
  };
}

const CHANGED = " The control group, played as practice does, does not clearly earn more: the times may have become worse, not the choices.";
const NO_SUM = "Nothing is promised about a sum of rewards here, so nobody can say.";
const NO_PROMISE = "Nothing is promised: that needs a log and a policy with a gate, such as Gated.";

/** How much may still be lost before the promise is broken, and which share of what it allows that is. */
export function leftOf(loop, lift = null, certificate = null) {
  const { left_to_lose: left, left_upper: upper } = loop;
  if (left === null && isByModel(loop, certificate)) return leftByModel(loop, certificate);
  if (left === null) return { value: loop.context_fields ? "not known" : "no limit", note: loop.context_fields ? NO_SUM : NO_PROMISE, range: "", share: null, kind: "" };
  if (loop.practice) return leftBelowPractice(loop);
  if (left < 0 && upper >= 0) return { value: "not clear", note: loop.standing, range: "", share: null, kind: "" };
  if (upper < 0) return { value: `0 ${unitOf(loop)}`, note: `Lost against the log: ${counted(-left, loop)} more than the promise allows.${lift !== null && lift.lower !== null && lift.upper >= 0 ? CHANGED : ""}`, range: "", share: 0, kind: "bad" };
  const rounding = roundingOf(certificate), small = rounding <= LITTLE * (certificate?.budget ?? 0);
  const people = small ? withoutRounding(loop, rounding) : loop;
  const used = people.left_to_lose < people.promised_loss ? "" : ": none of it is used";
  return { ...allowed(people, small ? used : `${used}. ${counted(rounding, loop)} of that loss ${rounding === 1 ? "is" : "are"} beyond the budget, for the rounding of the log's mixture`), range: rangeLeft(people), kind: "" };
}

const LITTLE = 0.05; // of a budget

/** What the rounding of a mixture may take beyond the budget. */
function roundingOf(certificate) {
  return certificate?.budget && certificate.constant > certificate.budget ? certificate.constant - certificate.budget : 0;
}

/** The same in the numbers that people budget with: where rounding takes next to nothing, it counts as lost. */
function withoutRounding(loop, rounding) {
  const less = (value) => Math.max(value - rounding, 0);
  return { ...loop, promised_loss: less(loop.promised_loss), left_to_lose: less(loop.left_to_lose), left_lower: less(loop.left_lower), left_upper: less(loop.left_upper) };
}

/** With contexts: what the gate can still afford, by the model of the log and the rewards so far. */
function leftByModel(loop, certificate) {
  const loss = lossAfter(certificate, loop.decisions), left = Math.max(0, Math.min(loop.budget ?? loss, loss)), unused = left >= loss ? ": none of it is used" : "";
  const note = `The promise allows a loss of ${counted(loss, loop)} so far, against current practice in the same contexts${unused}.`;
  const range = left > 0 ? "by the linear model of the log and the rewards so far, the next try at its worst" : "by the linear model nothing more can be afforded now, so the safe choice is played";
  return { value: counted(left, loop), note, range, share: loss > 0 ? left / loss : null, kind: "" };
}

const allowed = (loop, more) => {
  const { left_to_lose: left, promised_loss: loss } = loop;
  return { value: counted(left, loop), note: `The promise allows a loss of ${counted(loss, loop)} so far, against ${loop.practice ? "current practice" : "the log"}${more}.`, share: loss > 0 ? left / loss : null };
};

function rangeLeft(loop) {
  const { left_lower: lower, left_upper: upper, promised_loss: loss } = loop;
  if (lower >= loss) return "";
  const [least, most] = between(Math.max(lower, 0), Math.max(upper, 0)).map(plain);
  return `${least} to ${most} ${unitOf(loop)}, as exactly as the log's average${loop.lost || loop.pending ? " and missing rewards are" : " is"} known`;
}

/** The same where a coin compares with practice: the gate counts the worst that chance allows. */
function leftBelowPractice(loop) {
  const { left_to_lose: left, promised_loss: loss } = loop;
  const range = left >= loss ? "none of it is used, even at the worst that chance and missing rewards allow" : `the books count ${counted(loss - left, loop)} as lost: the worst that chance and missing rewards allow`;
  return { ...allowed(loop, left > 0 ? "" : "; nothing is left, so practice is played"), range, kind: "" };
}

const ADVICE = {
  promise: "Check first that rewards arrive, and are counted as in the log. If so, the log no longer describes your world: make a new loop with a newer log, or with a Control gate, which compares with practice as it is now.",
  drift: "The log no longer describes your world, so a promise about it means little. Make a new loop with a newer log, or with a Control gate, which compares with practice as it is now.",
  practice: "What was explored earns less than practice. See under “Arms” what was tried, and explore again with other arms or another policy.",
  guardrail: "What was explored is worse for this metric than practice. See under “Guardrails” how much may still be lost, and under “Arms” what was tried: remove the arm that is to blame, or explore again with other arms.",
  restored: "Rewards and decisions after the backup are missing. Check that callers go on as they should, then answer this.",
};
const UNKNOWN = "Find out why before it goes on.";
const GO_ON = "Exploring goes on: stop it above unless you know why.";

/** What an alarm asks for. */
export function adviceOf(kind, loop) {
  return `${loop.mode === "live" && !loop.archived && kind !== "restored" ? `${GO_ON} ` : ""}${ADVICE[kind] ?? UNKNOWN}`;
}

/** Whether to act: `kind` is "good", "bad", or "" where somebody may decide; a sign stands for it besides the colour. */
export function actOf(loop, gained, recent = []) {
  const open = loop.alarms.filter(({ answered }) => !answered), mode = loop.mode;
  if (loop.archived) return act("", "Nothing", "The loop is archived: it decides no more.");
  if (open.length) return act("bad", "Act now", `${count(open.length, "alarm")} not answered: what to do stands above.`);
  if (loop.decisions === 0) return act("", "Connect it", "Nobody has asked it for a decision yet; how to ask stands below.");
  if (mode === "shadow") return act("", "Decide whether to go live", "In shadow mode the safe choice is played: nothing is explored.");
  if (mode === "safe-only") return act("", "Decide whether to explore", `Nothing is explored since ${moment(loop.switched_at ?? loop.created_at)}.`);
  if (gained.side < 0) return act("bad", "Stop exploring", "It earns less than current practice, and that is not chance.");
  if (loop.standing) return act("", "Keep an eye on it", loop.standing);
  const shut = whyShut(loop, recent);
  if (shut) return act("bad", "Exploring has stopped", shut);
  if (isWaiting(loop, recent)) return act("", "Wait, or allow more", "Nothing can be afforded now, so the safe choice is played; its rewards may open the gate again. If this lasts, make a new loop with a larger budget or a newer log.");
  if (gained.value === "not measured" && loop.holdback === 0 && !loop.practice && !loop.no_control) return act("", "Choose a control group", "Without one nobody can say what is gained over current practice.");
  if (gained.side > 0) return act("good", "Nothing", "It earns more than current practice, and no alarm is open.");
  const never = !loop.practice && loop.no_control ? "what is gained over current practice is not measured here" : "it is too early to say what is gained";
  return act("good", "Nothing: let it run", `No alarm is open, and ${never}.`);
}

/** Why a gate that throws a coin lets nothing be tried, now and in `recent` decisions, and what would open it; "" where it is open. */
function whyShut(loop, recent) {
  if (!loop.practice) return "";
  const metrics = loop.metrics.filter(({ shut }) => shut);
  if (metrics.length) {
    const unknown = metrics.filter(({ practice }) => practice.missing);
    const report = unknown.map(({ name, practice }) => ` ${count(practice.missing, "explored decision")} without a value of ${name} count at their worst: report what is to come.`).join("");
    const names = metrics.map(({ name }) => name).join(" and ");
    return `Of ${names} no more may be lost, so practice is played.${report || ` What to do: see under “Arms” which arm is to blame, and make a new loop without it, or with more that may be lost of ${names}.`}`;
  }
  if (loop.budget === null || loop.budget >= 0 || recent.some(({ group }) => group !== "safe")) return "";
  const { explored, missing } = loop.practice;
  if (missing) return `Rewards that were not reported count at their worst, and ${count(missing, "explored decision")} ${missing === 1 ? "has" : "have"} none: report what is to come. What to do: see that callers report every reward.`;
  if (!explored) return "One decision can cost more than the promise allows so far, so practice is played. What to do: make a new loop with a larger budget.";
  return "The budget is spent: one more decision can cost more than is left, so practice is played, and nothing more is lost. What to do: see under “Arms” what was tried. If it is worth more, make a new loop with a larger budget; if not, archive this one.";
}

/** Whether a gate without a coin affords nothing, now and in all of the `recent` decisions. */
function isWaiting(loop, recent) {
  return !loop.practice && loop.budget !== null && loop.budget <= 0 && recent.length > 0 && recent.every(({ group }) => group !== "explore");
}

const SIGN = { good: "✓ ", bad: "⚠ ", "": "" };
const act = (kind, value, note) => ({ kind, value: SIGN[kind] + value, note });

const CALM = 0.5, CLOSE = 0.8; // of the way to an alarm, counted in logs

/** How far evidence has come on its way to an alarm, as a word and a share of the way. */
export function healthOf(evidence, limit) {
  const way = Math.max(0, Math.min(1, Math.log(evidence) / Math.log(limit)));
  const word = way >= 1 ? "⚠ alarm" : way > CLOSE ? "⚠ close to an alarm" : way > CALM ? "some evidence" : "✓ quiet";
  return { word, way, kind: way > CLOSE ? "bad" : way > CALM ? "" : "good" };
}

/** Both ends of what was gained at each point of the history, and the promise there; null where not known. */
export function pictureOf(loop, points, colour, certificate = null) {
  const of = (value) => points.map(value), floor = (point) => Math.max(point.earned - point.practice_upper, -lostByBooks({ ...point, practice: loop.practice }));
  const zero = (name, short) => ({ name, short, values: points.map(() => 0), colour: "var(--ink)" });
  if (loop.practice) {
    const seen = ({ practice_upper: upper }) => upper !== null && upper !== undefined;
    const upper = of((point) => (seen(point) ? point.earned - point.practice_lower : null)), lower = of((point) => (seen(point) ? floor(point) : null));
    return {
      title: "Earned beyond current practice, and the floor of the promise",
      band: { values: [lower, upper], colour },
      lines: [{ name: "we, at the most", short: "at most", values: upper, colour }, { name: "we, at the least", short: "at least", values: lower, colour, below: true }, zero("current practice", "practice"), { name: "the promise: not below", short: "promise", values: of(({ promised_loss: loss }) => (loss === null ? null : -loss)), colour: "var(--bad)", dashed: true, below: true }],
    };
  }
  if (isByModel(loop, certificate)) {
    const loss = ({ decisions }) => lossAfter(certificate, decisions);
    return {
      title: "Earned beyond current practice at the least, and the floor of the promise",
      band: null,
      lines: [{ name: "we, at the least", short: "at least", values: of((point) => (point.budget === null ? null : Math.max(point.budget, 0) - loss(point))), colour }, zero("current practice", "practice"), { name: "the promise: not below", short: "promise", values: of((point) => -loss(point)), colour: "var(--bad)", dashed: true, below: true }],
    };
  }
  const again = loop.alarms.some(({ kind }) => kind === "promise") ? "next alarm below this" : "alarm below this";
  return {
    title: `Earned beyond the log's average${certificate?.holds === false ? "" : ", and the floor of the promise"}`,
    band: { values: [of((point) => point.gain_lower ?? null), of((point) => point.gain_upper ?? null)], colour },
    lines: [{ name: "we", values: of(({ gain }) => gain), colour }, zero("the log's average", "log"), { name: "the promise, on average", short: "promise", values: of(({ promised_least: least, expected_by_log: expected }) => (least === null ? null : least - expected)), colour: "var(--bad)", dashed: true, below: true }, { name: again, short: "alarm", values: of(({ alarm_below: alarm, realised, gain }) => (alarm === null ? null : gain - (realised - alarm))), colour: "var(--soft)", dashed: true, below: true }],
  };
}
