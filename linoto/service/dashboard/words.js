// What a loop is doing, in sentences, and what the words of the page mean.

import { count, moment, number, percent, signed } from "./format.js";

/** What the words mean, as in the glossary of the documentation. */
export const WORDS = {
  "against the log": "what the loop earned, less what as many decisions would have earned with the log's average reward, lost rewards left out of both; times that are better or worse than when the log was made show here too, in the lift they do not",
  alarm: "rewards contradict the promise, or the log (drift), more than chance can explain; or, with a Control gate, practice would have earned more",
  arm: "one of the things that can be chosen, by its number from 0 to k − 1 or by its name",
  awaited: "plays of an arm whose reward has not come yet",
  "awaiting a reward": "decisions whose reward has not come yet; until it comes, each counts against the budget",
  "closed by default": "decisions that counted the default reward because no reward came within the window",
  "control group": "a share of decisions (holdback) that plays practice, to compare with; with a Control gate, its control rounds",
  decision: "one answer of the loop: which arm to play now",
  estimate: "what the model thinks an arm earns on average",
  evidence: "a number that grows while rewards contradict a claim; above its limit there is an alarm",
  fallback: "what is played if nothing new is affordable: an arm that is proven to be as good as the log, or the arms of the log in its own proportions",
  gate: "the rule that says whether we can afford to try an arm: Tolerance, Control, Conservative, Budget, Open, Closed",
  "in the log": "how often the log chose an arm",
  key: "the caller's name for a request; the same key gets the same decision",
  lift: "how much more per decision the policy earns than the control group, each decision weighted by one over its chance of being in its group, so that it does not matter when that group was large; with a Control gate, how much more an explored decision earned than practice would have in its place",
  log: "past decisions and their rewards, one row each",
  loop: "one policy with its arms, its log, its decisions and their rewards",
  "mean reward": "the line is where the mean reward of an arm lies, with the probability of the promise; the dot is the estimate, and the dotted line the mean reward of the log. After a drift alarm only plays since the alarm count, for the log is from before the change",
  mode: "live plays what the policy decides; shadow plays the fallback and records what live would have played; safe-only plays the fallback",
  "other than the safe choice": "the share of decisions that played another arm than the safe choice would have been: the fallback or, with a Control gate and with contexts, current practice; where the policy chose that very arm, nothing was tried",
  plays: "how often the loop chose an arm",
  policy: "the rule that decides what is played",
  "practice would have earned": "what current practice would have earned in the explored decisions whose reward is known, going by the control rounds: a range that holds at any time, and the best guess",
  promise: "the greatest shortfall below the log that may happen, with probability 1 − delta, at every round (with a Control gate: below current practice); delta is 0.05 unless you say otherwise",
  reward: "the number that comes back after a play; larger is better",
  "room now": "how far inside the promise the loop would stay with the arm that it would like to try; above 0 the arm is affordable",
  "we earned": "what the explored decisions earned whose reward is known; in every other decision practice itself was played, so these make no difference",
  "you may still lose": "what the promise allows so far, less what was lost below the log (left_to_lose), where a lost reward counts as the log's average; what was gained is not added, so it is never more than the promise. With a Control gate, less the most that can have been lost below current practice",
};

const MODES = {
  live: "The policy decides.",
  shadow: "It decides and records, but plays the safe choice, its fallback: nothing is risked.",
  "safe-only": "It plays the safe choice only, its fallback: nothing is explored.",
};

/** What rewards are counted in. */
export const unitOf = ({ unit }) => unit || "reward";

/** A number of rewards with its unit. */
export const counted = (value, loop, format = number) => (value === null ? "–" : `${format(value)} ${unitOf(loop)}`);

function doingOf({ archived, mode, budget, standing }) {
  if (archived) return "It decides no more; rewards of past decisions are still taken.";
  if (standing && mode === "live") return "The policy decides, and the books are below the promise.";
  return mode === "live" && budget !== null ? "It explores when it can afford to, and otherwise plays safe." : MODES[mode];
}

/** The loop in two or three sentences. */
export function story(loop) {
  const doing = doingOf(loop);
  if (loop.closed === 0) return `${doing} No reward has come yet.`;
  if (loop.practice) return `${doing} ${comparison(loop)}`;
  const { gain } = loop, earned = `${doing} In ${count(loop.closed - loop.lost, "rewarded decision")} it earned ${counted(loop.known, loop)}`;
  const lost = loop.lost ? ` Of ${number(loop.lost)} more nobody knows the reward: it was lost.` : "";
  if (loop.context_fields) return `${earned}.${lost} The promise compares with current practice in the same contexts.`;
  if (gain === null) return `${earned}; there is no log to compare with.${lost}`;
  const side = gain < 0 ? "less" : "more";
  return `${earned}, ${number(Math.abs(gain))} ${side} than the log's average would have.${lost} ${promise(loop)}`;
}

/** What a coin has told of practice, in a sentence or two. */
function comparison(loop) {
  const { explored, earned, lower } = loop.practice;
  if (explored === 0) return "Nothing was explored yet whose reward is known.";
  const range = `between ${number(lower)} and ${counted(mostOf(loop), loop)}`;
  return `In ${count(explored, "explored decision")} it earned ${counted(earned, loop)}; current practice would have earned ${range}. ${leftOf(loop).sentence}`;
}

/** The loss that the promise allows below what was earned, where both count rewards as they come. */
export const promisedBelow = ({ promised_loss: loss, practice }) => (loss === null || !practice.counts_rewards ? Infinity : loss);

/** The most that practice can have earned: by the control rounds, or by the promise where that says more. */
function mostOf(loop) {
  const { earned, upper } = loop.practice;
  return Math.min(upper, earned + promisedBelow(loop));
}

/** The two sides of the comparison with practice: what it would have earned, and what we did. */
export function sidesOf(loop) {
  const { explored, missing, control, earned, estimate, lower, upper, level } = loop.practice;
  const none = explored === 0 || control === 0, clear = earned < lower || earned > upper;
  const most = mostOf(loop), range = `${number(lower)} to ${counted(most, loop)}`;
  const sure = most < upper ? `At least by the control rounds, ${percent(level)} sure; at the most by the promise.` : `${percent(level)} sure at any time.`;
  return {
    would: none ? "not known yet" : clear ? `about ${counted(estimate, loop)}` : range,
    range: none ? "Known when explored decisions and control rounds have their rewards." : clear ? `${range}. ${sure}` : sure,
    from: `from ${count(control, "reward")} of control rounds`,
    earned: counted(earned, loop),
    same: `In the same ${count(explored, "explored decision")}.`,
    missing: missing ? `${number(missing)} more have no reward yet, or lost it` : "",
  };
}

function promise(loop) {
  const { promised_loss: loss, gain, realised, alarm_below: alarm } = loop;
  if (loss === null) return "Nothing is promised.";
  const chance = alarm === null ? "" : `; ${number(realised - alarm - gain)} less would be beyond chance, and an alarm`;
  return `The promise allows ${number(loss)} less on average${chance}. ${leftOf(loop).sentence}`;
}

const CHANGED = " The control group, played as practice does, does not clearly earn more: the times may have become worse, not the choices.";

/** How much may still be lost before the promise is broken. */
export function leftOf(loop, lift = null) {
  const { left_to_lose: left, left_lower: lower, left_upper: upper, promised_loss: loss } = loop;
  if (left !== null && loop.practice) return leftBelowPractice(loop);
  if (left === null && loop.context_fields) return { value: "not known", note: "The promise compares with current practice in the same contexts, by the model: there is no sum of rewards to compare with.", range: "", sentence: "" };
  if (left === null) return { value: "no limit", note: "Nothing is promised: that needs a log and a policy with a gate, such as Gated.", range: "", sentence: "" };
  if (left < 0 && upper >= 0) return { value: "not clear", note: loop.standing, range: "", sentence: loop.standing, kind: "" };
  const over = upper < 0 ? `${counted(-left, loop)} more than the promise allows` : "";
  return {
    value: counted(Math.max(left, 0), loop),
    note: over ? `Lost against the log: ${over}.${lift !== null && lift.lower !== null && lift.upper >= 0 ? CHANGED : ""}` : `The promise allows a loss of ${counted(loss, loop)} so far, against the log${left < loss ? "" : ": none of it is used"}.`,
    range: over || lower >= loss ? "" : `${number(Math.max(lower, 0))} to ${counted(Math.max(upper, 0), loop)}, as exactly as the log's average${loop.lost || loop.pending ? " and missing rewards are" : " is"} known`,
    sentence: over ? `That is ${over}.` : `You may still lose ${counted(Math.max(left, 0), loop)}.`,
    kind: upper < 0 ? "bad" : "",
  };
}

/** The same where a coin compares with practice: the gate counts the worst that chance allows. */
function leftBelowPractice(loop) {
  const { left_to_lose: left, promised_loss: loss } = loop;
  const sentence = left > 0 ? `You may still lose ${counted(left, loop)}.` : "Nothing more may be lost: practice is played.";
  return {
    value: counted(left, loop),
    note: `The promise allows a loss of ${counted(loss, loop)} so far, against current practice.`,
    range: left >= loss ? "none of it is used, even at the worst that chance and missing rewards allow" : `the books count ${counted(loss - left, loop)} as lost: the worst that chance and missing rewards allow`,
    sentence,
    kind: "",
  };
}

/** Why no control group is drawn now, and what would give one; "" where one is drawn. */
export function noControl({ practice, no_control: why, mode, holdback, archived }) {
  if (practice) return "control rounds, which the coin of the gate draws";
  if (why) return `none ${why}`;
  if (archived) return "none: the loop is archived";
  if (mode === "safe-only") return `none in safe-only mode${holdback ? `; ${percent(holdback)} again in live mode` : ""}`;
  return "";
}

function howToCompare(loop) {
  if (loop.practice && loop.mode === "live") return "Compared when explored decisions and control rounds have their rewards.";
  if (!loop.practice && loop.no_control) return `There is no control group, and there can be none ${loop.no_control}.`;
  if (loop.archived) return "There was no control group to compare with.";
  if (loop.mode === "safe-only") return "Nothing is compared in safe-only mode: no control group is drawn, and nothing is explored.";
  if (loop.mode === "shadow") return "Nothing is compared in shadow mode: only the fallback is played. Set the mode to live.";
  if (loop.holdback === 0) return "There is no control group. Choose 5 % under “Control group”, and one decision in twenty is played as practice does, to compare with.";
  return "Compared when rewards of both groups have come.";
}

/** The lift over the control group, where it lies, and what follows from that. */
export function liftOf(loop, { mean, lower, upper, level, policy, control }) {
  const [policyName, controlName, each] = loop.practice ? ["explored decisions", "control rounds", "explored decision"] : ["the policy", "the control group", "decision"];
  const lost = loop.lost && !loop.practice ? "; a lost reward may have been any" : "";
  const note = `from ${count(policy, "reward")} of ${policyName} and ${number(control)} of ${controlName}${lost}`;
  if (policy === 0 || control === 0) return { value: "not measured", verdict: howToCompare(loop), note: "", kind: "" };
  if (lower === null) return { value: "not clear yet", verdict: "Too few rewards to say.", note, kind: "" };
  const floor = loop.practice ? -promisedBelow(loop) / policy : -Infinity, least = lower < floor ? `${signed(floor)} (by the promise)` : signed(lower);
  const between = `between ${least} and ${signed(upper)} ${unitOf(loop)} per ${each}, ${percent(level)} sure`;
  if (lower <= 0 && upper >= 0) return { value: "not clear yet", verdict: `It is ${between}.`, note: `${note}; more of them make it clearer`, kind: "" };
  const [side, kind] = lower > 0 ? ["More", "good"] : ["Less", "bad"];
  return { value: `${counted(mean, loop, signed)} per ${each}`, verdict: `${side} than current practice: ${between}.`, note, kind };
}

/** Who changed the mode last, and when. */
export function switched({ switched_at: at, switched_by: by, mode }) {
  return at === null ? "" : `${mode} since ${moment(at)}, by ${by}`;
}

function roomNote({ budget, mode, standing }) {
  if (budget === null) return "this policy has no gate";
  if (mode !== "live") return `not used in ${mode} mode`;
  if (standing) return "none to offer: the books are below the promise";
  return budget > 0 ? "to try something" : "none: plays safe";
}

/** What stands below the four numbers. */
export function notes(loop) {
  const { gain, lost } = loop, known = loop.closed - lost, gone = Object.values(loop.groups).reduce((sum, { defaults }) => sum + defaults, 0);
  return {
    gain: gain === null ? "there is no log" : known ? `${counted(gain / known, loop, signed)} per decision` : "no rewards yet",
    budget: roomNote(loop),
    tried: loop.tried === null ? "not counted in a loop of an earlier version" : `about ${number(Math.round(loop.tried))} of ${count(loop.decisions, "decision")}`,
    pending: lost ? `${number(loop.rewards - gone)} have theirs, ${number(gone)} lost it` : `${number(loop.rewards)} have theirs`,
  };
}

/** What was played by whom, for those who do not see the bar. */
export function shares(loop) {
  const parts = groupsOf(loop).map(([group, { plays }]) => [group, loop.decisions ? plays / loop.decisions : 0]);
  const names = { explore: "chosen by the policy", safe: "played safe", holdback: "control group" };
  return { parts, text: parts.map(([group, share]) => `${names[group]} ${percent(share)}`).join(", ") };
}

/** The groups that there are: no control group where none was ever drawn. */
export function groupsOf({ groups }) {
  return Object.entries(groups).filter(([group, { plays }]) => group !== "holdback" || plays > 0);
}

/** A decision's group as people say it. */
export const GROUP = { explore: "policy", safe: "safe", holdback: "control" };
export const PLAYED = { explore: "the policy's own choice", safe: "the safe choice", holdback: "as practice does" };
export const PLAYED_BY_COIN = { explore: "what the policy wants to try", safe: "current practice, without a coin", holdback: "current practice, by the coin" };
