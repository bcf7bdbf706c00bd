// What a loop is doing, in sentences.

import { count, moment, number, percent, signed } from "./format.js";

const MODES = {
  live: "The policy decides.",
  shadow: "It decides and records, but plays the fallback: nothing is risked.",
  "safe-only": "It plays the fallback only: nothing is explored.",
};

/** How far the realised reward is above what the log's average would have earned. */
export function gainOf({ realised, expected_by_log: expected }) {
  return expected === null ? null : realised - expected;
}

function doingOf({ archived, mode, budget }) {
  if (archived) return "It decides no more; rewards of past decisions are still taken.";
  return mode === "live" && budget !== null ? "It explores when it can afford to, and otherwise plays safe." : MODES[mode];
}

/** The loop in two or three sentences. */
export function story(loop) {
  const doing = doingOf(loop);
  if (loop.closed === 0) return `${doing} No reward has come yet.`;
  const gain = gainOf(loop), closed = count(loop.closed, "rewarded decision");
  if (gain === null) return `${doing} In ${closed} it earned ${number(loop.realised)}; there is no log to compare with.`;
  const side = gain < 0 ? "less" : "more";
  const earned = `In ${closed} it earned ${number(loop.realised)}, ${number(Math.abs(gain))} ${side} than the log's average would have.`;
  return `${doing} ${earned} ${promise(loop)}`;
}

function promise(loop) {
  const { promised_loss: loss, expected_by_log: expected, alarm_below: alarm } = loop;
  if (loss === null) return "Nothing is promised.";
  const chance = alarm === null ? "" : `; ${number(expected - alarm)} less would be beyond chance, and an alarm`;
  return `The promise allows ${number(loss)} less on average${chance}. ${leftOf(loop).sentence}`;
}

/** A number with its unit, if somebody said what rewards are counted in. */
const counted = (value, { unit }, format = number) => `${format(value)}${unit ? ` ${unit}` : ""}`;

/** How much may still be lost before the promise is broken; null where nothing is promised. */
export function leftOf(loop) {
  const { left_to_lose: left, left_lower: lower, left_upper: upper, promised_loss: loss } = loop;
  if (left === null) return null;
  const sentence = left > 0 ? `You may still lose ${counted(left, loop)}.` : `That is ${counted(-left, loop)} more than the promise allows.`;
  return { value: counted(Math.max(left, 0), loop), note: `${number(lower)} to ${number(upper)}; ${number(loss)} promised`, sentence };
}

/** The lift over the control group, and where it lies. */
export function liftOf({ mean, lower, upper, level, policy, control }) {
  if (lower === null) return { value: "–", note: `too few rewards to say: ${number(policy)} of the policy, ${number(control)} control` };
  return { value: signed(mean), note: `per decision; ${signed(lower)} to ${signed(upper)} (${percent(level)})` };
}

/** A mean and where it lies: "0.12, in 0.1 to 0.15", or that there are too few rewards to say. */
export function withInterval({ mean, lower, upper }, format = number) {
  if (mean === null) return "–";
  return lower === null ? `${format(mean)}, too few rewards to say` : `${format(mean)}, in ${format(lower)} to ${format(upper)}`;
}

/** Who changed the mode last, and when. */
export function switched({ switched_at: at, switched_by: by, mode }) {
  return at === null ? "" : `${mode} since ${moment(at)}, by ${by}`;
}

/** What stands below the four numbers. */
export function notes(loop) {
  return {
    gain: loop.closed ? `${signed(gainOf(loop) === null ? null : gainOf(loop) / loop.closed)} per decision` : "no rewards yet",
    budget: loop.budget === null ? "this policy has no gate" : loop.budget >= 0 ? "to try something" : "none: plays safe",
    explored: `${number(loop.groups.explore.plays)} of ${count(loop.decisions, "decision")}`,
    pending: `${number(loop.rewards)} closed`,
  };
}

/** What was played by whom, for those who do not see the bar. */
export function shares(loop) {
  const parts = Object.entries(loop.groups).map(([group, { plays }]) => [group, loop.decisions ? plays / loop.decisions : 0]);
  const names = { explore: "explored", safe: "played safe", holdback: "control group" };
  return { parts, text: parts.map(([group, share]) => `${names[group]} ${percent(share)}`).join(", ") };
}

/** A decision's group as people say it. */
export const GROUP = { explore: "explore", safe: "safe", holdback: "control" };
