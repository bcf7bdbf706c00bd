"""Worlds and explorers that try to break the promise of a Control gate, played round by round.

`play_scenario` is plain Python that numba compiles as it stands: short runs play it as it is.
"""

import numpy as np

from linoto.core import kernels

SCENARIOS = (
    "worst",  # earns nothing, always
    "build, then spend",  # good until there is much room, then as bad as can be
    "drift",  # practice gets better and better
    "seasons",  # practice is bad and good in turn
    "boundary",  # bad where little room is left, good otherwise
    "against the centre",  # practice earns what the books expect the least
    "lost by value",  # high controls and low explored rewards never arrive
    "late",  # every reward comes 100 rounds late
    "crash",  # the explorer is better for the first half, and much worse afterwards
    "sine",  # practice goes up and down
    "small share",  # one round in twenty is control, whatever happens
    "foresees",  # knows what practice earns in this round, and disputes only where that is the most
    "hides",  # disputes only while its real loss is close to what the books know of
    "waits for luck",  # spends after controls that earned nothing
    "copies until it falls",  # disputes where practice earns nothing, and later where it earns the most
    "follows the coin",  # practice is good, and the explorer bad, in the round after a control round
    "few controls",  # bad only where control rounds are rare
    "bad news last",  # what is bad for the books comes in blocks of 100, the latest first
    "moves the share",  # the share of control is .9 near the boundary and .05 away from it
    "catches the books",  # as uncertain as can be until the bound is below the truth, then as bad as can be
)
LATE = 100
(
    WORST,
    SPEND,
    DRIFT,
    SEASONS,
    BOUNDARY,
    CENTRE,
    LOST,
    DELAYED,
    CRASH,
    SINE,
    SMALL,
    FORESEES,
    HIDES,
    LUCK,
    FALLS,
    FOLLOWS,
    FEW,
    NEWS,
    SHARES,
    CATCHES,
) = range(20)


def practice_mean(scenario, t, n, room, centre, spending):  # type: ignore[no-untyped-def] # numba
    """What practice earns on average in round t."""
    if scenario == SPEND:
        return 1.0 if spending else 0.5
    if scenario == DRIFT:
        return 0.3 + 0.6 * t / n
    if scenario == SEASONS:
        return 0.2 if (t // (n // 10)) % 2 == 0 else 0.8
    if scenario == BOUNDARY:
        return 0.9 if room < 3.0 else 0.3
    if scenario == CENTRE:
        return 1.0 if centre < 0.5 else 0.0
    if scenario == CRASH:
        return 0.5 if 2 * t < n else 0.9
    if scenario == FOLLOWS:
        return 1.0 if spending else 0.3
    if scenario == FEW:
        return 0.9 if spending else 0.5
    if scenario == CATCHES:
        return 1.0 if spending else 0.5
    if scenario == SINE:
        return 0.5 + 0.4 * np.sin(12.0 * np.pi * t / n)
    return 0.6


def explorer_mean(scenario, t, n, room, spending):  # type: ignore[no-untyped-def] # numba
    """What the explorer's arm earns on average in round t."""
    if scenario == SPEND:
        return 0.0 if spending else 0.9
    if scenario == BOUNDARY:
        return 0.1 if room < 3.0 else 0.6
    if scenario == CRASH:
        return 0.8 if 2 * t < n else 0.1
    if scenario == LUCK:
        return 0.0 if spending else 0.7
    if scenario == FALLS:
        return 0.0 if spending else 0.5
    if scenario == FOLLOWS:
        return 0.0 if spending else 0.4
    if scenario == FEW:
        return 0.0 if spending else 0.7
    if scenario == CATCHES:
        return 0.0 if spending else 0.6
    if scenario in (DRIFT, SEASONS, CENTRE, SINE):
        return 0.5
    if scenario in (LOST, DELAYED, NEWS):
        return 0.4
    return 0.0


def deliver(params, run, ticket):  # type: ignore[no-untyped-def] # numba
    """A reward with its ticket (entry, share, centre, reward)."""
    run[0]["entry"], run[0]["entry_share"], run[0]["entry_centre"] = int(ticket[0]), ticket[1], ticket[2]
    kernels.coin_observe(params, run, ticket[3])


def deliver_block(params, run, tickets, t):  # type: ignore[no-untyped-def] # numba
    """The bad news of the last 100 rounds, the latest first."""
    for i in range(t, t - LATE, -1):
        if tickets[i, 0] >= 2 and (tickets[i, 3] > 0.5) == (tickets[i, 0] == 3):
            deliver(params, run, tickets[i])


def play_scenario(params, run, scenario, uniforms, normals, tickets):  # type: ignore[no-untyped-def] # numba
    """The largest excess over the promise in any round: in rewards as they came, and in means.

    uniforms (n, 3): coin, practice's reward, explorer's reward, 0 or 1 with the means above. With normals
    (n, 2), these times the noise are added to the means instead. tickets (n, 4) is scratch.
    """
    n, p = uniforms.shape[0], params[0]
    gaussian = normals.shape[0] > 0
    lost = mean_lost = start = total = 0.0
    over, mean_over, spending = -np.inf, -np.inf, False
    for t in range(n):
        room, unlucky = run[0]["room"], t > 0 and tickets[t - 1, 0] == 3 and tickets[t - 1, 3] <= 0.0
        if scenario == SPEND:
            spending = room >= (0.0 if spending else 25.0)
        elif scenario == LUCK:
            spending = unlucky or (spending and room >= 0.0)
        elif scenario == FALLS:
            spending = room >= (0.0 if spending else 25.0)
        elif scenario == FOLLOWS:
            spending = t > 0 and tickets[t - 1, 0] == 3
        elif scenario == FEW:
            spending = t > 0 and tickets[t - 1, 1] < 0.1
        elif scenario == CATCHES:
            spending = (total if p["realised"] == 1 else mean_lost) > run[0]["upper_practice"]
        elif scenario == SHARES:
            params[0]["share"] = 0.9 if room < 5.0 else 0.05
        due = practice_mean(scenario, t, n, room, run[0]["centre"], spending)
        if scenario == FALLS:  # known to the explorer
            due = 1.0 if uniforms[t, 1] < 0.6 else 0.0
        own = explorer_mean(scenario, t, n, room, spending)
        practice, earned = 1.0 * (uniforms[t, 1] < due), 1.0 * (uniforms[t, 2] < own)
        if gaussian:
            practice, earned = due + p["noise"] * normals[t, 0], own + p["noise"] * normals[t, 1]
        agrees = scenario == FORESEES and practice < 0.5
        if scenario == FORESEES and not gaussian:
            due = practice
        if scenario == FALLS:
            agrees = spending != (due > 0.5)
        if scenario == HIDES:
            agrees = run[0]["upper_practice"] - run[0]["earned"] > lost + 4.0
        run[0]["coin"], run[0]["fallback"], run[0]["fallback_source"] = uniforms[t, 0], 0, 2
        run[0]["proposal"] = 0 if agrees else 1
        kernels.coin_decide(params, run, -np.inf, 2.0 if room < 5.0 else 0.5)  # read by a cheap share
        explored = run[0]["explored"] == 1
        tickets[t, 0], tickets[t, 1] = run[0]["entry"], run[0]["entry_share"]
        tickets[t, 2], tickets[t, 3] = run[0]["entry_centre"], earned if explored else practice
        if p["every"] > 0 and t % p["every"] == 0:
            start = min(start, lost - p["epsilon"] * t)
        kernels.coin_commit(params, run)
        if explored:
            lost += practice - earned
            total += practice
            mean_lost += due - own
        allowed = p["budget"] + p["epsilon"] * (t + 1) + start
        over, mean_over = max(over, lost - allowed), max(mean_over, mean_lost - allowed)
        if scenario == LOST and (tickets[t, 3] > 0.5) != explored:
            continue
        if scenario == NEWS:
            if not (tickets[t, 0] >= 2 and (tickets[t, 3] > 0.5) == (tickets[t, 0] == 3)):
                deliver(params, run, tickets[t])
            if (t + 1) % LATE == 0:
                deliver_block(params, run, tickets, t)
        elif scenario != DELAYED:
            deliver(params, run, tickets[t])
        elif t >= LATE:
            deliver(params, run, tickets[t - LATE])
    return over, mean_over
