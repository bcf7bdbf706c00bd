// What a loop is doing, in sentences, and what the words of the page mean.

import { between, count, moment, number, percent, sideOf, unsigned, within } from "./format.js";

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
  fallback: "what is played if nothing new is affordable, or worth trying: an arm that is proven to be as good as practice, or practice itself; practice is the arms of the log in its own proportions or, with contexts, what you said",
  gained: "what explored decisions earned beyond what current practice would have in their place, in total, where a Control gate throws a coin; otherwise the lift, which needs a control group; with contexts and a Tolerance gate, without one, what the linear model of the log tells at the least. It is said to be gained or lost only where its whole interval is on one side of 0",
  gate: "the rule that says whether we can afford to try an arm: Tolerance, Control, Conservative, Budget, Open, Closed",
  "in the log": "how often the log chose an arm",
  key: "the caller's name for a request; the same key gets the same decision",
  lift: "how much more per decision the policy earns than the control group, each decision weighted by one over its chance of being in its group, so that it does not matter when that group was large; with a Control gate, how much more an explored decision earned than practice would have in its place",
  log: "past decisions and their rewards, one row each",
  loop: "one policy with its arms, its log, its decisions and their rewards",
  "mean reward": "the line is where the mean reward of an arm lies, with the probability of the promise and within the reward range; the dot is the estimate, and the dotted line the mean reward of the log. After a drift alarm only plays since the alarm count, for the log is from before the change",
  mode: "live plays what the policy decides; shadow plays the fallback, which need not be what was played before, and records what live would have played; safe-only plays the fallback",
  "other than the safe choice": "the share of decisions that played another arm than the safe choice would have been, which is the fallback and, with a Control gate, current practice; where the policy chose that very arm, nothing was tried",
  plays: "how often the loop chose an arm",
  policy: "the rule that decides what is played",
  "practice would have earned": "what current practice would have earned in the explored decisions whose reward is known, going by the control rounds: a range that holds at any time",
  promise: "the greatest shortfall below the log that may happen, with probability 1 − delta, at every round (with a Control gate: below current practice); delta is 0.05 unless you say otherwise",
  reward: "the number that comes back after a play; larger is better",
  "room now": "how far inside the promise the loop would stay with the arm that it would like to try; above 0 the arm is affordable",
  "we earned": "what the explored decisions earned whose reward is known; in every other decision practice itself was played, so these make no difference",
  "you may still lose": "what the promise allows so far, less what was lost below the log (left_to_lose), where a lost reward counts as the log's average; what was gained is not added, so it is never more than the promise. With a Control gate, less the most that can have been lost below current practice; with contexts and a Tolerance gate, what the linear model of the log can still afford",
};

const MODES = {
  live: "The policy decides.",
  shadow: "It decides and records, but plays the safe choice, its fallback: nothing is explored.",
  "safe-only": "It plays the safe choice only, its fallback: nothing is explored.",
};

/** What rewards are counted in. */
export const unitOf = ({ unit }) => unit || "units of reward";

/** A number of rewards with its unit. */
export const counted = (value, loop, format = number) => (value === null ? "–" : `${format(value)} ${unitOf(loop)}`);

function doingOf({ archived, mode, budget, standing }) {
  if (archived) return "It decides no more; rewards of past decisions are still taken.";
  if (standing && mode === "live") return "The policy decides, and the books are below the promise.";
  return mode === "live" && budget !== null ? "It explores when it can afford to and hopes to gain by it, and otherwise plays safe." : MODES[mode];
}

/** The loop in two or three sentences. */
export function story(loop) {
  const doing = doingOf(loop);
  if (loop.closed === 0) return `${doing} No reward has come yet.`;
  if (loop.practice) return `${doing} ${exploredOf(loop)}`;
  const earned = `${doing} In ${count(loop.closed - loop.lost, "rewarded decision")} it earned ${counted(loop.known, loop)}`;
  const lost = loop.lost ? ` Of ${number(loop.lost)} more nobody knows the reward: it was lost.` : "";
  if (loop.context_fields) return `${earned}.${lost} The promise compares with current practice in the same contexts.`;
  if (loop.gain === null) return `${earned}; there is no log to compare with.${lost}`;
  return `${earned}, ${besideLog(loop)}.${lost}`;
}

function exploredOf({ practice: { explored }, decisions }) {
  return explored === 0 ? "Nothing was explored yet whose reward is known." : `${count(explored, "explored decision")} of ${number(decisions)} ${explored === 1 ? "has" : "have"} a known reward; in all others practice itself was played, or the reward is to come.`;
}

/** More or less than the log's average, where the interval of that average tells which. */
function besideLog(loop) {
  const { gain, gain_lower: lower, gain_upper: upper } = loop;
  if (!sideOf(lower, upper)) return `as much as the log's average would have, as exactly as that is known (${between(lower, upper).join(" to ")})`;
  const [least, most] = between(lower, upper), about = unsigned(within(gain, lower, upper)), range = least === most ? "" : ` (${least} to ${most}, as exactly as that is known)`;
  return `${about} ${gain < 0 ? "less" : "more"} than the log's average would have${range}, luck of these rewards included`;
}

/** Why no control group is drawn now, and what would give one; "" where one is drawn. */
export function noControl({ practice, no_control: why, mode, holdback, archived }) {
  if (practice) return "control rounds, which the coin of the gate draws";
  if (why) return `none ${why}`;
  if (archived) return "none: the loop is archived";
  if (mode === "safe-only") return `none in safe-only mode${holdback ? `; ${percent(holdback)} again in live mode` : ""}`;
  return "";
}

/** Who changed the mode last, and when. */
export function switched({ switched_at: at, switched_by: by, mode }) {
  return at === null ? "" : `${mode} since ${moment(at)}, by ${by}`;
}

function roomNote({ budget, mode, standing, metrics }) {
  const shut = metrics.filter((metric) => metric.shut).map(({ name }) => name);
  if (budget === null) return "this policy has no gate";
  if (mode !== "live") return `not used in ${mode} mode`;
  if (standing) return "none to offer: the books are below the promise";
  if (shut.length) return `closed by ${shut.join(" and ")}`;
  return budget > 0 ? "to try something" : "none: plays safe";
}

/** What stands below the four numbers. */
export function notes(loop) {
  const { gain, lost } = loop, known = loop.closed - lost, gone = Object.values(loop.groups).reduce((sum, { defaults }) => sum + defaults, 0);
  return {
    gain: gain === null ? "there is no log" : known ? `${between(loop.gain_lower, loop.gain_upper).join(" to ")}, as exactly as the log is known` : "no rewards yet",
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
